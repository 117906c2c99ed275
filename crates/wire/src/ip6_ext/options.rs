//! The options of hop-by-hop and destination options headers.

use super::{Error, pointer};

const PAD1: u8 = 0;
const ROUTER_ALERT: u8 = 5;

/// The action on an unknown option: the two highest bits of its type.
//= https://www.rfc-editor.org/rfc/rfc8200#section-4.2
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// 00: skip it.
    Skip,
    /// 01: discard the packet.
    Discard,
    /// 10: discard the packet and tell the sender.
    Report,
    /// 11: discard the packet and tell the sender, unless it was sent to a group.
    ReportUnlessMulticast,
}

impl Action {
    /// The action in an option's type.
    #[must_use]
    pub const fn of(kind: u8) -> Self {
        match kind >> 6 {
            0 => Self::Skip,
            1 => Self::Discard,
            2 => Self::Report,
            _ => Self::ReportUnlessMulticast,
        }
    }
}

/// Reads options until one forbids to go on. `at` is where they start. Answers the value of a router alert.
///
/// Jumbo payload and home address are not known, and so are judged by the bits of their types.
pub(super) fn judge(options: &[u8], at: usize) -> Result<Option<u16>, Error> {
    let mut alert = None;
    let (mut rest, mut at) = (options, at);
    while let [kind, tail @ ..] = rest {
        if *kind == PAD1 {
            (rest, at) = (tail, at + 1);
            continue;
        }
        let (body, behind) = split(*kind, tail, at)?;
        match (*kind, body) {
            (ROUTER_ALERT, &[high, low]) => alert = Some(u16::from_be_bytes([high, low])),
            _ => judge_unknown(*kind, at)?,
        }
        (rest, at) = (behind, at + 2 + body.len());
    }
    Ok(alert)
}

/// Takes an option's length and body.
fn split(kind: u8, tail: &[u8], at: usize) -> Result<(&[u8], &[u8]), Error> {
    let overruns = |len| Error::OptionOverruns { pointer: pointer(at + 1), kind, len };
    let (&len, tail) = tail.split_first().ok_or_else(|| overruns(0))?;
    tail.split_at_checked(usize::from(len)).ok_or_else(|| overruns(len))
}

/// Padding, 1, and a router alert of another length, 5, have 00 in their types.
fn judge_unknown(kind: u8, at: usize) -> Result<(), Error> {
    match Action::of(kind) {
        Action::Skip => Ok(()),
        action => Err(Error::UnknownOption { pointer: pointer(at), kind, action }),
    }
}
