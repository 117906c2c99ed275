//! The classic pcap file format, both byte orders, microseconds and nanoseconds.
//!
//! # Spec
//! draft-ietf-opsawg-pcap.

use std::io::{self, Read};
use std::time::{SystemTime, UNIX_EPOCH};

use super::FRAME_MAX;

const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
const LINKTYPE_ETHERNET: u32 = 1;
const HEADER_LEN: usize = 24;
const RECORD_LEN: usize = 16;

/// Reads frames.
pub(super) struct Reader<R> {
    from: R,
    big_endian: bool,
}

impl<R: Read> Reader<R> {
    pub(super) fn new(mut from: R) -> io::Result<Self> {
        let mut header = [0; HEADER_LEN];
        from.read_exact(&mut header)?;
        let big_endian = match u32_at(&header, 0, false) {
            MAGIC_MICROS | MAGIC_NANOS => false,
            swapped if matches!(swapped.swap_bytes(), MAGIC_MICROS | MAGIC_NANOS) => true,
            magic => return Err(invalid(format!("not a pcap file: it begins with {magic:#010x}"))),
        };
        match u32_at(&header, 20, big_endian) & 0xffff {
            LINKTYPE_ETHERNET => Ok(Self { from, big_endian }),
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

/// Returns the header of a file.
pub(super) fn head() -> Vec<u8> {
    const VERSION: u32 = 2 | 4 << 16;
    const SNAPLEN: u32 = 262_144;
    [MAGIC_NANOS, VERSION, 0, 0, SNAPLEN, LINKTYPE_ETHERNET].map(u32::to_le_bytes).concat()
}

/// Appends a frame, stamped with the time of writing, in nanoseconds.
pub(super) fn record<'a>(into: &mut Vec<u8>, len: usize, parts: impl Iterator<Item = &'a [u8]>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    let seconds = u32::try_from(now.as_secs()).unwrap_or(u32::MAX);
    for word in [seconds, now.subsec_nanos(), len, len] {
        into.extend(word.to_le_bytes());
    }
    parts.into_iter().for_each(|part| into.extend_from_slice(part));
}

fn u32_at(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
    if big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
