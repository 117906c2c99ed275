//! Reads the classic pcap file format: both byte orders, microseconds and nanoseconds.
//!
//! # Spec
//! draft-ietf-opsawg-pcap.

use std::io::{self, Read};

use wire::pcap::{ETHERNET, HEAD_LEN, MAGIC_MICROS, MAGIC_NANOS, RECORD_LEN};

use super::FRAME_MAX;

/// Reads frames.
pub(super) struct Reader<R> {
    from: R,
    big_endian: bool,
}

impl<R: Read> Reader<R> {
    pub(super) fn new(mut from: R) -> io::Result<Self> {
        let mut header = [0; HEAD_LEN];
        from.read_exact(&mut header)?;
        let big_endian = match u32_at(&header, 0, false) {
            MAGIC_MICROS | MAGIC_NANOS => false,
            swapped if matches!(swapped.swap_bytes(), MAGIC_MICROS | MAGIC_NANOS) => true,
            magic => return Err(invalid(format!("not a pcap file: it begins with {magic:#010x}"))),
        };
        match u32_at(&header, 20, big_endian) & 0xffff {
            link if link == u32::from(ETHERNET) => Ok(Self { from, big_endian }),
            other => Err(invalid(format!("link type {other}: only Ethernet (1) can be replayed"))),
        }
    }

    /// Reads the next frame; `false` at the end of the file.
    pub(super) fn next(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        let mut record = [0; RECORD_LEN];
        match self.from.read_exact(&mut record) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            other => other?,
        }
        let len = u32_at(&record, 8, self.big_endian) as usize;
        if len > FRAME_MAX {
            return Err(invalid(format!("a frame of {len} bytes")));
        }
        frame.resize(len, 0);
        self.from.read_exact(frame).map(|()| true)
    }
}

fn u32_at(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
    if big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
