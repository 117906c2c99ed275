//! Frames of FPM, FRR's interface to forwarding planes: a stream of them is what zebra says of its routes.
//!
//! A frame has a header of four bytes (version, type, length in network byte order, header included) and holds messages of
//! rtnetlink, one or several.
//!
//! # Spec
//! `fpm/fpm.h` of FRR.

/// Length of a frame's header.
pub const HEADER_LEN: usize = 4;
/// The longest frame.
pub const FRAME_MAX: usize = u16::MAX as usize;

const VERSION: u8 = 1;
const NETLINK: u8 = 1;

/// The stream is not one of FPM: another version, or a length shorter than a header. There is no way to find the next frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotFpm;

impl core::fmt::Display for NotFpm {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("not a frame of FPM")
    }
}

impl core::error::Error for NotFpm {}

/// The messages of a frame, and what follows it.
pub type Frame<'a> = (&'a [u8], &'a [u8]);

/// Takes the first frame off a stream: its messages, and what follows. `None` if it is not whole yet; messages of a frame of
/// another type than rtnetlink are empty.
///
/// # Errors
///
/// [`NotFpm`].
pub fn frame(stream: &[u8]) -> Result<Option<Frame<'_>>, NotFpm> {
    let Some((&[version, kind, hi, lo], _)) = stream.split_first_chunk::<HEADER_LEN>() else {
        return Ok(None);
    };
    let len = usize::from(u16::from_be_bytes([hi, lo]));
    if version != VERSION || len < HEADER_LEN {
        return Err(NotFpm);
    }
    let Some((frame, rest)) = stream.split_at_checked(len) else { return Ok(None) };
    let messages = frame.get(HEADER_LEN..).filter(|_| kind == NETLINK).unwrap_or_default();
    Ok(Some((messages, rest)))
}

/// The header of a frame with this many bytes of messages; `None` if there are too many for one.
#[must_use]
pub fn header(messages: usize) -> Option<[u8; HEADER_LEN]> {
    let [hi, lo] = u16::try_from(messages.checked_add(HEADER_LEN)?).ok()?.to_be_bytes();
    Some([VERSION, NETLINK, hi, lo])
}
