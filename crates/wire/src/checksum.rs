//! The Internet checksum (RFC 1071), changed in place (RFC 1624), and left half done by a sender with offload.
//!
//! The checksum is the complement of the ones' complement sum of 16-bit words. Such a sum does not care in which
//! byte order it is taken, so bytes are added four at a time as little-endian words into 64 bits; order and
//! carries are settled once, at the end.

use crate::Protocol;
use core::net::{Ipv4Addr, Ipv6Addr};

mod partial;

pub use partial::{complete, is_partial, partial_v4, partial_v6};

/// A ones' complement sum under way, of any number of pieces.
///
/// ```
/// use wire::checksum::Sum;
/// let whole = Sum::new().bytes(b"wandering glider").checksum();
/// let pieces = Sum::new().bytes(b"wan").bytes(b"").bytes(b"dering glider").checksum();
/// assert_eq!(whole, pieces);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct Sum {
    /// Sum of little-endian words, carries on top: room for 2^32 of them, 16 GiB of packet.
    words: u64,
    /// An odd number of bytes has been added: the next byte is the second of its word.
    odd: bool,
}

impl Sum {
    /// The sum of nothing.
    #[inline]
    pub const fn new() -> Self {
        Self { words: 0, odd: false }
    }

    /// The sum of the IPv4 pseudo-header.
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
    #[inline]
    pub fn pseudo_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: Protocol, len: u16) -> Self {
        Self::new().bytes(&src.octets()).bytes(&dst.octets()).u16(u16::from(protocol.0)).u16(len)
    }

    /// The sum of the IPv6 pseudo-header. `protocol` is that of the upper layer, also behind extension headers;
    /// `dst` is the final destination, also while a routing header names another.
    //= https://www.rfc-editor.org/rfc/rfc8200#section-8.1
    #[inline]
    pub fn pseudo_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: Protocol, len: u32) -> Self {
        Self::new().bytes(&src.octets()).bytes(&dst.octets()).u32(len).u16(u16::from(protocol.0))
    }

    /// Adds bytes. A piece may have any length, and may start in the middle of a word.
    #[inline]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let (quads, rest) = bytes.as_chunks::<4>();
        let mut last = [0; 4];
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        // wrapping, so that the loop vectorises under overflow checks; it cannot wrap before 16 GiB
        let words = quads.iter().fold(u64::from(u32::from_le_bytes(last)), |sum, quad| {
            sum.wrapping_add(u64::from(u32::from_le_bytes(*quad)))
        });
        let words = if self.odd { u64::from(fold_le(words).swap_bytes()) } else { words };
        Self { words: self.words.wrapping_add(words), odd: self.odd != (bytes.len() % 2 == 1) }
    }

    /// Adds a word in host byte order.
    #[inline]
    pub fn u16(self, word: u16) -> Self {
        self.bytes(&word.to_be_bytes())
    }

    /// Adds two words in host byte order.
    #[inline]
    pub fn u32(self, words: u32) -> Self {
        self.bytes(&words.to_be_bytes())
    }

    /// The sum in 16 bits, not complemented. Zero only if all that was added was zero.
    #[must_use]
    #[inline]
    pub fn folded(self) -> u16 {
        fold_le(self.words).swap_bytes()
    }

    /// Returns the value of the checksum field, which was zero while it was summed.
    #[must_use]
    #[inline]
    pub fn checksum(self) -> u16 {
        !self.folded()
    }

    /// Returns the value of UDP's checksum field, where zero would mean that there is none.
    //= https://www.rfc-editor.org/rfc/rfc768
    //# If the computed  checksum  is zero,  it is transmitted  as all ones
    #[must_use]
    #[inline]
    pub fn checksum_never_zero(self) -> u16 {
        never_zero(self.checksum())
    }

    /// Whether a sum over bytes *and* their checksum field is that of intact ones.
    #[must_use]
    #[inline]
    pub fn is_intact(self) -> bool {
        fold_le(self.words) == 0xffff
    }
}

/// Zero and 0xffff are both zero in ones' complement; this chooses the second.
#[must_use]
#[inline]
pub const fn never_zero(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

/// Verifies an IPv4 header without options.
///
/// Two to the sixteenth is one modulo 0xffff, so the remainder of the plain sum *is* the folded sum, and the
/// compiler makes a multiplication of it: the cheapest of the forms that were measured.
#[must_use]
#[inline]
pub fn verify_header_20(header: &[u8; 20]) -> bool {
    let (quads, _) = header.as_chunks::<4>();
    let sum: u64 = quads.iter().map(|quad| u64::from(u32::from_le_bytes(*quad))).sum();
    // a header with a version is not all zero, so the two zeros of ones' complement need no telling apart
    sum.is_multiple_of(0xffff)
}

/// The checksum after a 16-bit word it covers has changed from `old` to `new`.
//= https://www.rfc-editor.org/rfc/rfc1624#section-3
//# HC' = ~(~HC + ~m + m')    --    [Eqn. 3]
#[must_use]
#[inline]
pub fn update_u16(checksum: u16, old: u16, new: u16) -> u16 {
    !Sum::new().u16(!checksum).u16(!old).u16(new).folded()
}

/// The checksum after two 16-bit words it covers, such as an IPv4 address, have changed from `old` to `new`.
#[must_use]
#[inline]
pub fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    !Sum::new().u16(!checksum).u32(!old).u32(new).folded()
}

/// The checksum after eight 16-bit words it covers, such as an IPv6 address, have changed from `old` to `new`.
#[must_use]
#[inline]
pub fn update_u128(checksum: u16, old: u128, new: u128) -> u16 {
    let words = Sum::new().u16(!checksum).bytes(&(!old).to_be_bytes()).bytes(&new.to_be_bytes());
    !words.folded()
}

/// Decrements the time to live of an IPv4 header and corrects its checksum, both in one 32-bit word. False, and the
/// header is left as it is, if nothing would remain of it.
///
/// The result is the checksum that a full computation gives.
///
/// [`hop_word_after`] says how.
//= https://www.rfc-editor.org/rfc/rfc1812#section-5.3.1
//= https://www.rfc-editor.org/rfc/rfc1624#section-3
#[inline]
pub fn take_hop(header: &mut [u8; 20]) -> bool {
    let ([_, _, bytes, ..], _) = header.as_chunks_mut::<4>() else { return false };
    let word = u32::from_le_bytes(*bytes);
    let is_left = word & 0xff > 1;
    if is_left {
        *bytes = hop_word_after(word).to_le_bytes();
    }
    is_left
}

/// Takes one from the TTL in bytes 8 to 11 of a header, read as one little-endian word. The TTL must not be 0.
///
/// They are TTL, protocol, checksum. The TTL stands lowest and the checksum highest, so "TTL − 1, checksum + 1" is one
/// addition. Where that would make the checksum 0xffff or carry out of it, one more is due, by the end-around carry and
/// because a fresh sum never gives 0xffff.
//= https://www.rfc-editor.org/rfc/rfc1624#section-3
#[must_use]
#[inline]
pub const fn hop_word_after(word: u32) -> u32 {
    let carry = (word >> 16).wrapping_add(2) & 1 << 16;
    word.wrapping_add(0xffff).wrapping_add(carry)
}

/// Folds the carries into 16 bits; 0 only for 0.
#[inline]
fn fold_le(words: u64) -> u16 {
    let [a, b, c, d, e, f, g, h] = words.to_le_bytes();
    let sum =
        [[a, b], [c, d], [e, f], [g, h]].iter().map(|half| u32::from(u16::from_le_bytes(*half))).sum::<u32>();
    let [low, high] = halves(sum);
    // at most 0xffff + 3: one more carry, and then no other
    let [low, high] = halves(u32::from(low) + u32::from(high));
    low.wrapping_add(high)
}

#[inline]
const fn halves(word: u32) -> [u16; 2] {
    let [a, b, c, d] = word.to_le_bytes();
    [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])]
}

#[cfg(test)]
mod tests;
