//! Capture files as they are written: the classic pcap format, and pcapng.
//!
//! # Spec
//! draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.

/// The magic number of a classic file with time stamps in microseconds.
pub const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
/// The magic number of a classic file with time stamps in nanoseconds.
pub const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
/// Bytes before the first record of a classic file.
pub const HEAD_LEN: usize = 24;
/// Bytes before the packet of a classic record.
pub const RECORD_LEN: usize = 16;
/// Link type of Ethernet frames.
pub const ETHERNET: u16 = 1;
/// Link type of packets that begin with their IP header.
pub const RAW: u16 = 101;
/// Longest packet that readers are told to expect, bytes.
pub const SNAP_LEN: u32 = 262_144;

/// The kind of a pcapng block that begins a section.
pub const SECTION: u32 = 0x0a0d_0d0a;
/// The kind of a pcapng block that describes an interface.
pub const INTERFACE: u32 = 1;
/// The kind of a pcapng block with a packet.
pub const PACKET: u32 = 6;
/// The kind of a pcapng block with counts of an interface.
pub const STATISTICS: u32 = 5;

const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Kind and length before the body of a block, and the length behind it.
const AROUND: usize = 12;
/// Options of blocks.
const END: u16 = 0;
const COMMENT: u16 = 1;
const NAME: u16 = 2;
const FLAGS: u16 = 2;
const RESOLUTION: u16 = 9;
const ACCEPTED: u16 = 6;
const LOST: u16 = 7;
/// Times are in units of 10⁻⁹ s.
const NANOSECONDS: u8 = 9;
const ZEROS: [u8; 3] = [0; 3];

mod read;

pub use read::{Block, Blocks};

/// The direction of a packet, as pcapng has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    In = 1,
    /// Sent.
    Out = 2,
}

/// A packet in a pcapng file.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The number of its interface, in the order in which these were written.
    pub interface: u32,
    /// Nanoseconds since 1970.
    pub at_ns: u64,
    /// Length on the wire, bytes.
    pub len: u32,
    /// As much of it as was captured.
    pub bytes: &'a [u8],
    /// Its direction, if it is known.
    pub direction: Option<Direction>,
    /// A remark; empty for none.
    pub comment: &'a str,
}

/// Writes the head of a classic file of Ethernet frames, with time stamps in nanoseconds.
pub fn classic_head(into: &mut impl Extend<u8>) {
    const VERSION: u32 = 2 | 4 << 16;
    words(into, &[MAGIC_NANOS, VERSION, 0, 0, SNAP_LEN, ETHERNET as u32]);
}

/// Writes a record of a classic file: a frame of `len` bytes, of which `parts` have `captured`.
pub fn classic_record<'a>(
    into: &mut impl Extend<u8>,
    at_ns: u64,
    [captured, len]: [usize; 2],
    parts: impl Iterator<Item = &'a [u8]>,
) {
    words(into, &[low(at_ns / 1_000_000_000), low(at_ns % 1_000_000_000), length(captured), length(len)]);
    parts.for_each(|part| bytes(into, part));
}

/// Writes the block that begins a pcapng file.
pub fn section(into: &mut impl Extend<u8>) {
    const VERSION: u32 = 1;
    // Of unknown length.
    block(into, SECTION, 16, |into| words(into, &[BYTE_ORDER, VERSION, u32::MAX, u32::MAX]));
}

/// Writes the description of an interface whose packets have this link type; without a name if it is empty.
pub fn interface(into: &mut impl Extend<u8>, link: u16, name: &str) {
    let name = clipped(name.as_bytes());
    let named = if name.is_empty() { 0 } else { option_len(name) };
    block(into, INTERFACE, 8 + named + option_len(&[NANOSECONDS]) + 4, |into| {
        words(into, &[u32::from(link), SNAP_LEN]);
        if named > 0 {
            option(into, NAME, name);
        }
        option(into, RESOLUTION, &[NANOSECONDS]);
        option(into, END, &[]);
    });
}

/// Writes a packet.
pub fn packet(into: &mut impl Extend<u8>, packet: &Packet<'_>) {
    let comment = clipped(packet.comment.as_bytes());
    let flags = packet.direction.map(|direction| (direction as u32).to_le_bytes());
    let commented = if comment.is_empty() { 0 } else { option_len(comment) };
    let flagged = flags.map_or(0, |flags| option_len(&flags));
    let options = commented + flagged + if commented + flagged > 0 { 4 } else { 0 };
    block(into, PACKET, 20 + packet.bytes.len().next_multiple_of(4) + options, |into| {
        let at = packet.at_ns;
        words(into, &[packet.interface, low(at >> 32), low(at & u64::from(u32::MAX))]);
        words(into, &[length(packet.bytes.len()), packet.len]);
        padded(into, packet.bytes);
        if let Some(flags) = flags {
            option(into, FLAGS, &flags);
        }
        if commented > 0 {
            option(into, COMMENT, comment);
        }
        if options > 0 {
            option(into, END, &[]);
        }
    });
}

/// Counts of packets that a filter accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets that it accepted.
    pub accepted: u64,
    /// Those of them that were lost, because their reader was slow.
    pub lost: u64,
}

/// Writes counts until `at_ns`; they are those of all interfaces, and stand at the first.
pub fn statistics(into: &mut impl Extend<u8>, at_ns: u64, counts: Statistics) {
    block(into, STATISTICS, 12 + 12 + 12 + 4, |into| {
        words(into, &[0, low(at_ns >> 32), low(at_ns & u64::from(u32::MAX))]);
        option(into, ACCEPTED, &counts.accepted.to_le_bytes());
        option(into, LOST, &counts.lost.to_le_bytes());
        option(into, END, &[]);
    });
}

/// A block says its length at both ends.
fn block<E: Extend<u8>>(into: &mut E, kind: u32, body_len: usize, body: impl FnOnce(&mut E)) {
    let len = length(body_len + AROUND);
    words(into, &[kind, len]);
    body(into);
    words(into, &[len]);
}

fn option(into: &mut impl Extend<u8>, code: u16, value: &[u8]) {
    bytes(into, &code.to_le_bytes());
    bytes(into, &u16::try_from(value.len()).unwrap_or(u16::MAX).to_le_bytes());
    padded(into, value);
}

const fn option_len(value: &[u8]) -> usize {
    4 + value.len().next_multiple_of(4)
}

/// What an option has room for.
fn clipped(value: &[u8]) -> &[u8] {
    value.get(..usize::from(u16::MAX)).unwrap_or(value)
}

/// Everything begins at a multiple of four bytes.
fn padded(into: &mut impl Extend<u8>, value: &[u8]) {
    bytes(into, value);
    bytes(into, ZEROS.get(..value.len().next_multiple_of(4) - value.len()).unwrap_or(&[]));
}

fn words(into: &mut impl Extend<u8>, words: &[u32]) {
    words.iter().for_each(|word| bytes(into, &word.to_le_bytes()));
}

fn bytes(into: &mut impl Extend<u8>, from: &[u8]) {
    into.extend(from.iter().copied());
}

fn length(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

fn low(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn word(file: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(file[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn blocks_say_their_length_at_both_ends_and_end_at_words() {
        for (direction, comment) in
            [(None, ""), (Some(Direction::In), ""), (Some(Direction::Out), "ipfw: 100 Deny")]
        {
            let mut file = Vec::new();
            section(&mut file);
            interface(&mut file, ETHERNET, "lan");
            interface(&mut file, RAW, "");
            let at_ns = (7 << 32) + 9;
            packet(
                &mut file,
                &Packet { interface: 1, at_ns, len: 60, bytes: &[0x45, 0, 0], direction, comment },
            );
            let (mut at, mut kinds) = (0, Vec::new());
            while at < file.len() {
                let length = word(&file, at + 4) as usize;
                assert_eq!((length % 4, word(&file, at + length - 4) as usize), (0, length));
                kinds.push(word(&file, at));
                at += length;
            }
            assert_eq!(kinds, [SECTION, INTERFACE, INTERFACE, PACKET]);
            let packet = file.len() - usize::try_from(word(&file, file.len() - 4)).unwrap();
            let words: Vec<u32> = (2..7).map(|n| word(&file, packet + 4 * n)).collect();
            assert_eq!(words, [1, 7, 9, 3, 60]);
            assert_eq!(&file[packet + 28..packet + 32], [0x45, 0, 0, 0]);
        }
    }

    #[test]
    fn a_classic_record_says_its_time_and_both_lengths() {
        let mut file = Vec::new();
        classic_head(&mut file);
        assert_eq!((file.len(), word(&file, 0), word(&file, 20)), (HEAD_LEN, MAGIC_NANOS, ETHERNET.into()));
        classic_record(&mut file, 3_000_000_004, [4, 9], [&b"ab"[..], b"cd"].into_iter());
        let words: Vec<u32> = (0..4).map(|n| word(&file, HEAD_LEN + 4 * n)).collect();
        assert_eq!((words, &file[HEAD_LEN + RECORD_LEN..]), (std::vec![3, 4, 4, 9], &b"abcd"[..]));
    }
}
