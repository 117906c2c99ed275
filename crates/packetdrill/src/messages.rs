//! Messages: their bytes, which may be in several pieces, and what is said beside them.

use core::ffi::c_int;

use crate::abi::{MOVED_MAX, signed};
use crate::boundary::{Message, Piece, Ptr};
use crate::errno::Code;
use crate::host::Host;
use crate::notes::Control;

/// Pieces of a message at the most.
const PIECES_MAX: usize = 1024;

/// The pieces of a list.
pub(crate) fn pieces(list: Ptr<Piece>, count: usize) -> Result<Vec<Piece>, Code> {
    if count > PIECES_MAX {
        return Err(Code(libc::EINVAL));
    }
    (0..count).map(|index| list.at(index).get()).collect()
}

/// The bytes of all pieces.
pub(crate) fn gather(pieces: &[Piece]) -> Result<Vec<u8>, Code> {
    let mut all = Vec::new();
    for piece in pieces {
        all.extend(piece.at.bytes(piece.len, MOVED_MAX - all.len())?);
    }
    Ok(all)
}

/// A received message.
pub(crate) struct Received {
    /// Its length, or the number of bytes queued if that was asked.
    pub(crate) len: isize,
    /// There was no room for all.
    pub(crate) is_cut: bool,
    /// Its sender, as an address.
    pub(crate) from: Vec<u8>,
}

/// Reads into the pieces. Nothing is read if one of them is nowhere, unless it is to be thrown away.
pub(crate) fn receive(host: &Host, fd: c_int, pieces: &[Piece], flags: c_int) -> Result<Received, Code> {
    let is_truncated = flags & libc::MSG_TRUNC != 0;
    if !is_truncated && pieces.iter().any(|piece| piece.at.is_null() && piece.len > 0) {
        return Err(Code(libc::EFAULT));
    }
    let room = pieces.iter().fold(0_usize, |all, piece| all.saturating_add(piece.len));
    let (read, from) = host.receive(fd, room.min(MOVED_MAX), flags)?;
    let mut left = read.bytes.as_slice();
    for piece in pieces.iter().filter(|piece| !piece.at.is_null()) {
        left = left.get(piece.at.fill(piece.len, left)?..).unwrap_or_default();
    }
    let is_cut = read.len > read.bytes.len();
    let len = if is_truncated { read.len } else { read.bytes.len() };
    Ok(Received { len: signed(len), is_cut, from })
}

/// Writes control data, or says that there is no room for it.
pub(crate) fn put_control(message: &mut Message, control: Option<&Control>) -> Result<(), Code> {
    let room = if message.control.is_null() { 0 } else { message.control_len };
    message.control_len = match control {
        Some(control) if control.len() <= room => message.control.fill(room, &control.bytes())?,
        Some(_) => {
            message.flags |= libc::MSG_CTRUNC;
            0
        }
        None => 0,
    };
    Ok(())
}
