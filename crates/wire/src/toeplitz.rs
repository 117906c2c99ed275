//! The Toeplitz hash of receive-side scaling, and the symmetric key under which it is three instructions.
//!
//! With a key that repeats every 16 bits, each 16-bit word of the input meets the same window of the key. The hash
//! then depends only on the XOR of those words: swapping source and destination changes nothing, and hashing is an
//! XOR fold and two loads ([`symmetric`]). The map from fold to hash is a bijection on 16 bits.
//!
//! This hash *places* packets on CPUs. The sender of packets chooses the CPU, so it is no hash for a table.

use core::net::{Ipv4Addr, Ipv6Addr};

/// Key lengths are those of RSS: enough for an IPv6 address pair and two ports.
pub const KEY_LEN: usize = 40;
/// The longest input a key of [`KEY_LEN`] covers: 16 + 16 + 2 + 2 bytes.
pub const INPUT_MAX: usize = 36;

/// Microsoft's key, for which the published test vectors hold.
pub const MICROSOFT_KEY: [u8; KEY_LEN] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// The period of [`SYMMETRIC_KEY`].
const SEED: u16 = 0x6d5a;

/// The symmetric key: 6d 5a, twenty times. Give this to a NIC and its hash equals [`symmetric`] in both halves.
pub const SYMMETRIC_KEY: [u8; KEY_LEN] = {
    let [even, odd] = SEED.to_be_bytes();
    let mut key = [even; KEY_LEN];
    let (pairs, _) = key.as_chunks_mut::<2>();
    let mut rest: &mut [[u8; 2]] = pairs;
    while let [pair, tail @ ..] = rest {
        *pair = [even, odd];
        rest = tail;
    }
    key
};

// ---- the symmetric key

/// The 16 bits that are all there is of the 32-bit hash under [`SYMMETRIC_KEY`]; [`widen`] gives all of it.
///
/// `fold` is the XOR of all 16-bit words of the input: [`fold4`] or [`fold6`], `^` [`fold_ports`] if there are any.
#[must_use]
#[inline]
pub fn symmetric(fold: u16) -> u16 {
    let [high, low] = fold.to_be_bytes();
    load(&EVEN, high) ^ load(&ODD, low)
}

/// The fold that hashes to `hash`: the inverse of [`symmetric`]. With it, a port is computed that brings packets to a
/// CPU of one's choice.
#[must_use]
#[inline]
pub fn fold_of(hash: u16) -> u16 {
    let [high, low] = hash.to_be_bytes();
    load(&INVERSE_EVEN, high) ^ load(&INVERSE_ODD, low)
}

/// The hash as a NIC with [`SYMMETRIC_KEY`] reports it: both halves are the same.
#[must_use]
#[inline]
pub const fn widen(hash: u16) -> u32 {
    let [high, low] = hash.to_be_bytes();
    u32::from_be_bytes([high, low, high, low])
}

/// XOR of the words of an IPv4 address pair.
#[must_use]
#[inline]
pub const fn fold4(src: Ipv4Addr, dst: Ipv4Addr) -> u16 {
    let [a, b, c, d] = (src.to_bits() ^ dst.to_bits()).to_be_bytes();
    u16::from_be_bytes([a ^ c, b ^ d])
}

/// XOR of the words of an IPv6 address pair.
#[must_use]
#[inline]
pub const fn fold6(src: Ipv6Addr, dst: Ipv6Addr) -> u16 {
    let words = src.to_bits() ^ dst.to_bits();
    let words = words ^ (words >> 64);
    let words = words ^ (words >> 32);
    let words = words ^ (words >> 16);
    let [.., high, low] = words.to_be_bytes();
    u16::from_be_bytes([high, low])
}

/// XOR of two ports.
#[must_use]
#[inline]
pub const fn fold_ports(src: u16, dst: u16) -> u16 {
    src ^ dst
}

#[inline]
fn load(table: &[u16; 256], byte: u8) -> u16 {
    // a byte is a valid index into 256 entries, which the compiler sees: there is no branch
    table.get(usize::from(byte)).copied().unwrap_or(0)
}

/// Hashes of the byte values at even offsets (the high byte of a word) and at odd ones.
static EVEN: [u16; 256] = table(SEED);
static ODD: [u16; 256] = table(SEED.rotate_left(8));

/// The inverse mapping. Bits of the fold XOR in the seed, turned: the fold is multiplied by the seed, as
/// polynomials over two elements modulo x¹⁶ + 1. A seed with an odd number of ones has an inverse there.
static INVERSE_EVEN: [u16; 256] = table(INVERSE);
static INVERSE_ODD: [u16; 256] = table(INVERSE.rotate_left(8));
/// The inverse of [`SEED`].
const INVERSE: u16 = 0xf964;

/// Each bit of the byte, the highest first, XORs in the window turned left by one more bit.
const fn table(window: u16) -> [u16; 256] {
    let mut table = [0; 256];
    let mut rest: &mut [u16] = &mut table;
    let mut byte: u8 = 0;
    while let [entry, tail @ ..] = rest {
        let mut bit = 0;
        while bit < 8 {
            if byte & (0x80 >> bit) != 0 {
                *entry ^= window.rotate_left(bit);
            }
            bit += 1;
        }
        byte = byte.wrapping_add(1);
        rest = tail;
    }
    table
}

// ---- any key

/// The Toeplitz hash of `input` under `key`, bit by bit: for each bit that is 1, the highest first, the 32 bits of
/// the key that start there are XORed in. Input beyond [`INPUT_MAX`] meets a key continued with zeros.
#[inline]
#[must_use]
pub fn hash(key: &[u8; KEY_LEN], input: &[u8]) -> u32 {
    windows(key).zip(input).fold(0, |hash, (window, &byte)| hash ^ contribution(window, byte))
}

/// The Toeplitz hash under a fixed key with one load per byte; 36 KiB. For devices that hash with a key of their own.
pub struct Table([[u32; 256]; INPUT_MAX]);

impl Table {
    /// Tabulates [`hash`] for every byte value at every offset.
    #[must_use]
    pub fn new(key: &[u8; KEY_LEN]) -> Self {
        let mut table = [[0; 256]; INPUT_MAX];
        for (row, window) in table.iter_mut().zip(windows(key)) {
            row.iter_mut().zip(0..=u8::MAX).for_each(|(entry, byte)| *entry = contribution(window, byte));
        }
        Self(table)
    }

    /// Computes [`hash`] with the key the table was made from. Input beyond [`INPUT_MAX`] is ignored.
    #[inline]
    #[must_use]
    pub fn hash(&self, input: &[u8]) -> u32 {
        let entries = self.0.iter().zip(input).filter_map(|(row, &byte)| row.get(usize::from(byte)));
        entries.fold(0, |hash, entry| hash ^ entry)
    }
}

impl core::fmt::Debug for Table {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("toeplitz::Table")
    }
}

/// Input of the IPv4 hash, sender first; the first 8 bytes alone are that of the address pair.
#[inline]
#[must_use]
pub const fn input4(src: Ipv4Addr, dst: Ipv4Addr, ports: [u16; 2]) -> [u8; 12] {
    let [a, b, c, d] = src.octets();
    let [e, f, g, h] = dst.octets();
    let ([s0, s1], [d0, d1]) = (ports[0].to_be_bytes(), ports[1].to_be_bytes());
    [a, b, c, d, e, f, g, h, s0, s1, d0, d1]
}

/// Input of the IPv6 hash, sender first; the first 32 bytes alone are that of the address pair.
#[inline]
#[must_use]
pub fn input6(src: Ipv6Addr, dst: Ipv6Addr, ports: [u16; 2]) -> [u8; 36] {
    let mut input = [0; 36];
    let bytes = src.octets().into_iter().chain(dst.octets());
    let bytes = bytes.chain(ports[0].to_be_bytes()).chain(ports[1].to_be_bytes());
    input.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    input
}

/// For each byte of input the 40 bits of the key it can meet, in the low bits.
#[inline]
fn windows(key: &[u8; KEY_LEN]) -> impl Iterator<Item = u64> {
    let (head, tail) = key.split_at(4);
    let first = head.iter().fold(0, |window, &byte| window << 8 | u64::from(byte));
    tail.iter().scan(first, |window, &byte| {
        *window = (*window << 8 | u64::from(byte)) & 0xff_ffff_ffff;
        Some(*window)
    })
}

#[inline]
fn contribution(window: u64, byte: u8) -> u32 {
    let bits = (0..8).filter(|bit| byte & (0x80 >> bit) != 0);
    bits.fold(0, |hash, bit| hash ^ thirty_two_bits(window >> (8 - bit)))
}

const fn thirty_two_bits(window: u64) -> u32 {
    let [a, b, c, d, ..] = window.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests;
