//! Pipes, and what is spliced from and to them.

use core::ffi::{c_int, c_uint};
use std::collections::VecDeque;

use crate::errno::Code;
use crate::files::{Files, Object};
use crate::host::Host;

/// Bytes that a pipe holds at the most, as in Linux.
pub(crate) const PIPE_MAX: usize = 1 << 16;

impl Files {
    /// A new pipe: the end to read from, and the one to write to.
    pub(crate) fn pipe(&mut self) -> Result<[c_int; 2], Code> {
        let (reader, _) = self.open(Object::Reader(VecDeque::new()))?;
        match self.open(Object::Writer(reader)) {
            Ok((writer, _)) => Ok([reader, writer]),
            Err(code) => {
                self.close(reader)?;
                Err(code)
            }
        }
    }

    /// Whether a number stands for an end of a pipe.
    pub(crate) fn is_pipe(&self, fd: c_int) -> bool {
        matches!(self.get(fd), Ok(Object::Reader(_) | Object::Writer(_)))
    }

    /// Returns the room of a pipe, at the end to write to.
    pub(crate) fn room(&self, writer: c_int) -> Result<usize, Code> {
        let Object::Writer(reader) = self.get(writer)? else { return Err(Code(libc::EBADF)) };
        match self.get(*reader) {
            Ok(Object::Reader(bytes)) => Ok(PIPE_MAX - bytes.len()),
            _ => Err(Code(libc::EPIPE)),
        }
    }

    /// Writes as many bytes into a pipe as there is room for; it never waits for room, since no other thread could make some.
    pub(crate) fn pour(&mut self, writer: c_int, bytes: &[u8]) -> Result<usize, Code> {
        let count = self.room(writer)?.min(bytes.len());
        if count == 0 && !bytes.is_empty() {
            return Err(Code(libc::EAGAIN));
        }
        let Object::Writer(reader) = *self.get(writer)? else { return Err(Code(libc::EBADF)) };
        if let Object::Reader(all) = self.get_mut(reader)? {
            all.extend(&bytes[..count]);
        }
        Ok(count)
    }

    /// Returns the first bytes of a pipe, which stay; none at its end, when no writer is left.
    pub(crate) fn first(&self, reader: c_int, len: usize) -> Result<Vec<u8>, Code> {
        let Object::Reader(bytes) = self.get(reader)? else { return Err(Code(libc::EBADF)) };
        if bytes.is_empty() && len > 0 && self.is_written(reader) {
            return Err(Code(libc::EAGAIN));
        }
        Ok(bytes.iter().copied().take(len).collect())
    }

    /// Takes so many bytes out of a pipe.
    pub(crate) fn drain(&mut self, reader: c_int, len: usize) -> Result<Vec<u8>, Code> {
        let first = self.first(reader, len)?;
        if let Object::Reader(bytes) = self.get_mut(reader)? {
            bytes.drain(..first.len());
        }
        Ok(first)
    }
}

impl Host {
    pub(crate) fn pipe(&self) -> Result<[c_int; 2], Code> {
        self.with_files(Files::pipe)
    }

    /// Moves bytes from a socket to a pipe or from a pipe to a socket; answers how many.
    pub(crate) fn splice(&self, from: c_int, to: c_int, len: usize, flags: c_uint) -> Result<usize, Code> {
        let flag = |asked: c_uint, meant: c_int| if flags & asked == 0 { 0 } else { meant };
        let flags =
            flag(libc::SPLICE_F_NONBLOCK, libc::MSG_DONTWAIT) | flag(libc::SPLICE_F_MORE, libc::MSG_MORE);
        match self.with_files(|files| Ok((files.is_pipe(from), files.is_pipe(to))))? {
            (false, true) => {
                let room = self.with_files(|files| files.room(to))?;
                if room == 0 {
                    return Err(Code(libc::EAGAIN));
                }
                let (read, _) = self.receive(from, len.min(room), flags & libc::MSG_DONTWAIT)?;
                self.with_files(|files| files.pour(to, &read.bytes))
            }
            (true, false) => {
                let bytes = self.with_files(|files| files.first(from, len))?;
                if bytes.is_empty() {
                    return Ok(0);
                }
                let sent = self.send(to, &bytes, flags, &[])?;
                self.with_files(|files| files.drain(from, sent).map(|bytes| bytes.len()))
            }
            _ => Err(Code(libc::EINVAL)),
        }
    }
}
