//! Segments that follow each other, taken together as one, where a script expects a longer one.
//!
//! Google's interpreter does so unless a script has `--strict_segments`: how a stack cuts what it sends is not what such a
//! script is about.

use drill::Script;
use drill::packet::{Flags, Packet, Payload, SeqStart, Tcp};

/// The option that forbids it.
const STRICT: &str = "strict_segments";
/// Flags that segments of one may differ in.
const MAY_DIFFER: u16 = Flags::FIN.0 | Flags::PSH.0 | Flags::CWR.0;

/// Whether segments of a script are taken together.
pub(in super::super) fn is_allowed(script: &Script) -> bool {
    super::wrote(script) && !script.options.iter().any(|setting| setting.name == STRICT)
}

/// A segment, and those that follow it.
#[derive(Clone, Debug)]
pub(in super::super) struct Whole {
    /// All of them as one.
    pub(in super::super) packet: Packet,
    /// Their bytes.
    pub(in super::super) bytes: Vec<u8>,
    /// Bytes of the last of them.
    last: u16,
}

impl Whole {
    /// One alone.
    pub(in super::super) fn new(packet: Packet, bytes: Vec<u8>) -> Self {
        let last = tcp(&packet).map_or(0, |tcp| tcp.seq.len);
        Self { packet, bytes, last }
    }

    /// Whether bytes are missing to what is `demanded`.
    pub(in super::super) fn lacks(&self, demanded: &Packet) -> bool {
        match (tcp(&self.packet), tcp(demanded)) {
            (Some(have), Some(want)) => have.seq.len > 0 && have.seq.len < want.seq.len,
            _ => false,
        }
    }

    /// Takes the `next` one, if it goes on where this ends and says nothing else, and if of those before the last all are as
    /// long; answers whether.
    pub(in super::super) fn take(&mut self, next: &Packet, bytes: &[u8], demanded: &Packet) -> bool {
        let (ip, last) = (self.packet.ip, self.last);
        let (Some(more), Some(want), Payload::Tcp(have)) =
            (tcp(next), tcp(demanded), &mut self.packet.payload)
        else {
            return false;
        };
        let Some(len) = have.seq.len.checked_add(more.seq.len) else { return false };
        let is_last = len >= want.seq.len;
        let goes_on = match (have.seq.start, more.seq.start) {
            (SeqStart::Relative(from), SeqStart::Relative(to)) => {
                from.wrapping_add(have.seq.len.into()) == to
            }
            _ => false,
        };
        let is_same = (have.flags.value.0 ^ more.flags.value.0) & !MAY_DIFFER == 0
            && (have.ack, have.window, have.urgent) == (more.ack, more.window, more.urgent)
            && ip == next.ip;
        if !goes_on || !is_same || !is_last && more.seq.len != last {
            return false;
        }
        have.seq.value.len = len;
        have.flags.value.0 = have.flags.value.0 & !(Flags::FIN.0 | Flags::PSH.0)
            | more.flags.value.0 & (Flags::FIN.0 | Flags::PSH.0);
        self.last = more.seq.len;
        self.bytes.extend_from_slice(bytes);
        true
    }
}

fn tcp(packet: &Packet) -> Option<&Tcp> {
    if let Payload::Tcp(tcp) = &packet.payload { Some(tcp) } else { None }
}
