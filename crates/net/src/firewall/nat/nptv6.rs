//! IPv6 prefixes exchanged (NPTv6, RFC 6296): without state, and without a checksum that changes, since a word of the
//! address makes up for the other prefix. Where prefixes are so long that there is no such word, down to single addresses
//! (NAT66), the checksums of the upper layer make up for it.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

use ipfw::command::Nptv6Config;
use pkt::{Flags, Pkt};
use wire::Protocol;
use wire::checksum::Sum;

use super::headers::{Kind, Shape, Side};
use super::instance::Verdict;
use super::rewrite;
use crate::base::drop::DropReason;
use crate::link::tables::Tables;

/// Bits of a prefix up to which the subnet makes up for it; the interface identifier does for longer ones.
//= https://www.rfc-editor.org/rfc/rfc6296#section-3.4
const SUBNET: u8 = 48;
/// Bits of the longest prefix that leaves a word to make up for it.
const NEUTRAL: u8 = 64;
/// Bits of the longest prefix: an address.
pub const PREFIX_MAX: u8 = 128;

/// Two prefixes that are exchanged. It is the same on all CPUs, and never changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nptv6 {
    inside: u128,
    outside: u128,
    /// The bits of both.
    mask: u128,
    /// Difference of the adjusted word, outward and inward.
    growth: [u16; 2],
}

/// Why there is no such instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A prefix has 1 to [`PREFIX_MAX`] bits.
    Length(u8),
    /// There is no interface of this name.
    NoInterface(String),
    /// Neither an outside prefix, nor an interface with an address that is not of its link alone.
    NoPrefix,
}

impl Nptv6 {
    /// The prefixes of a configuration; that of an interface is that of its first address in `tables`.
    ///
    /// # Errors
    ///
    /// All of [`Error`].
    pub fn new(config: &Nptv6Config, tables: &Tables) -> Result<Self, Error> {
        let len = config.prefix_len;
        if !(1..=PREFIX_MAX).contains(&len) {
            return Err(Error::Length(len));
        }
        let mask = u128::MAX << (128 - u32::from(len));
        let outside = match (&config.external, &config.external_if) {
            (Some(prefix), _) => *prefix,
            (None, Some(name)) => of_interface(name, tables)?,
            (None, None) => return Err(Error::NoPrefix),
        };
        let (inside, outside) = (config.internal.to_bits() & mask, outside.to_bits() & mask);
        let growth = [growth(inside, outside), growth(outside, inside)];
        Ok(Self { inside, outside, mask, growth })
    }

    /// Exchanges the prefix of a packet from inside, or to the outside prefix, and of what it quotes. A packet from
    /// inside to inside is left as it is; one from inside to the outside prefix goes back inside.
    ///
    /// Of an address whose words cannot make up for the other prefix the sender is told that it is unreachable. A packet
    /// whose checksum has to make up for it, and cannot be found, dies.
    ///
    /// Reads and writes the packet's addresses, and with long prefixes its checksums; clears [`Flags::HASH`] if it does.
    ///
    /// # Spec
    /// RFC 6296 §3; §3.2 of hairpins; §3.7 of addresses that cannot be.
    pub fn translate(&self, pkt: &mut Pkt) -> Verdict {
        let Some(header) = pkt.head().first_chunk::<40>().filter(|header| header[0] >> 4 == 6) else {
            return Verdict::Untouched;
        };
        let (src, dst) = (addr(header, SRC), addr(header, DST));
        let (is_from_inside, is_to_outside) = (self.is(src, self.inside), self.is(dst, self.outside));
        if self.is(dst, self.inside) || !(is_from_inside || is_to_outside) {
            return Verdict::Untouched;
        }
        if !self.is_neutral() {
            return self.translate_long(pkt, is_from_inside, is_to_outside);
        }
        let quotes_nothing = matches!(Protocol(header[6]), Protocol::TCP | Protocol::UDP);
        let quote = if quotes_nothing { None } else { quote(pkt) };
        let src = if is_from_inside { self.outward(src) } else { Some(src) };
        let dst = if is_to_outside { self.inward(dst) } else { Some(dst) };
        let (Some(src), Some(dst)) = (src, dst) else { return Verdict::Refuse(DropReason::Nptv6Unmappable) };
        if is_from_inside {
            put(pkt, SRC, src);
        }
        if is_to_outside {
            put(pkt, DST, dst);
        }
        if let Some(quote) = quote {
            self.translate_quoted(pkt, &quote, is_from_inside, is_to_outside);
        }
        pkt.flags.clear(Flags::HASH.with(Flags::KNOWN));
        Verdict::Translated
    }

    /// Translates long prefixes, where checksums are adjusted instead.
    #[inline(never)]
    fn translate_long(&self, pkt: &mut Pkt, is_from_inside: bool, is_to_outside: bool) -> Verdict {
        let Some(shape) = Shape::read(pkt.head()) else { return Verdict::Drop(DropReason::NatMalformed) };
        let quote = if shape.kind == Kind::Error { shape.quote(pkt.head()) } else { None };
        let ends = [
            (Side::Src, is_from_inside, self.inside, self.outside),
            (Side::Dst, is_to_outside, self.outside, self.inside),
        ];
        for (side, _, old, new) in ends.into_iter().filter(|(_, is_here, ..)| *is_here) {
            rewrite::translate_addr(pkt, &shape, side, self.with_prefix(shape.end(side).addr, new));
            // What is quoted went the other way.
            if let Some(quote) = &quote
                && self.is(quote.end(side.other()).addr, old)
            {
                let addr = self.with_prefix(quote.end(side.other()).addr, new);
                rewrite::translate_quoted_addr(pkt, &shape, quote, side.other(), addr);
            }
        }
        Verdict::Translated
    }

    /// Whether a word of each address makes up for the other prefix.
    const fn is_neutral(&self) -> bool {
        self.mask.count_ones() <= NEUTRAL as u32
    }

    const fn with_prefix(&self, addr: u128, prefix: u128) -> u128 {
        addr & !self.mask | prefix
    }

    /// The quote went the other way. A part of it that cannot be translated never was.
    fn translate_quoted(&self, pkt: &mut Pkt, quote: &Shape, is_outward: bool, is_inward: bool) {
        let at = usize::from(quote.at);
        let (src, dst) = (quote.end(Side::Src).addr, quote.end(Side::Dst).addr);
        if is_outward && self.is(dst, self.inside) {
            put(pkt, at + DST, self.outward(dst).unwrap_or(dst));
        }
        if is_inward && self.is(src, self.outside) {
            put(pkt, at + SRC, self.inward(src).unwrap_or(src));
        }
    }

    /// An address inside as others see it; `None` if it cannot be.
    #[must_use]
    pub fn outward(&self, addr: u128) -> Option<u128> {
        self.exchange(addr, self.outside, self.growth[0])
    }

    /// The address inside that others see as `addr`.
    #[must_use]
    pub fn inward(&self, addr: u128) -> Option<u128> {
        self.exchange(addr, self.inside, self.growth[1])
    }

    const fn is(&self, addr: u128, prefix: u128) -> bool {
        addr & self.mask == prefix
    }

    //= https://www.rfc-editor.org/rfc/rfc6296#section-3.4
    // Of the two zeros, the one that all bits of are ones is not used: so the way back is one.
    fn exchange(&self, addr: u128, prefix: u128, growth: u16) -> Option<u128> {
        let new = self.with_prefix(addr, prefix);
        if !self.is_neutral() {
            return Some(new);
        }
        let shift = (7 - self.word(addr)?) * 16;
        let old = u16::try_from(new >> shift & 0xffff).unwrap_or(0);
        let adjusted =
            Some(Sum::new().u16(growth).u16(old).folded()).filter(|sum| *sum != 0xffff).unwrap_or(0);
        Some(new & !(0xffff << shift) | u128::from(adjusted) << shift)
    }

    /// The number of the word that makes up for the prefix.
    fn word(&self, addr: u128) -> Option<u32> {
        let is_free = |word: &u32| addr >> ((7 - word) * 16) & 0xffff != 0xffff;
        if self.mask.count_ones() <= SUBNET.into() {
            return Some(3).filter(is_free);
        }
        //= https://www.rfc-editor.org/rfc/rfc6296#section-3.7
        // An identifier of zeros is the anycast address of routers.
        (4..8).find(is_free).filter(|_| addr & u128::from(u64::MAX) != 0)
    }
}

/// By how much the sum of an address becomes smaller when one prefix takes the place of another.
//= https://www.rfc-editor.org/rfc/rfc6296#section-3.1
fn growth(from: u128, to: u128) -> u16 {
    Sum::new().bytes(&from.to_be_bytes()).bytes(&(!to).to_be_bytes()).folded()
}

/// Returns the quote of an ICMP error.
fn quote(pkt: &Pkt) -> Option<Shape> {
    let shape = Shape::read(pkt.head()).filter(|shape| shape.kind == Kind::Error)?;
    shape.quote(pkt.head())
}

/// Where addresses stand in the header.
const SRC: usize = 8;
const DST: usize = 24;

fn addr(header: &[u8; 40], at: usize) -> u128 {
    header.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u128::from_be_bytes(*bytes))
}

fn put(pkt: &mut Pkt, at: usize, addr: u128) {
    if let Some(field) = pkt.head_mut().get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *field = addr.to_be_bytes();
    }
}

fn of_interface(name: &str, tables: &Tables) -> Result<Ipv6Addr, Error> {
    let ifnet = tables.ifnet_named(name).ok_or_else(|| Error::NoInterface(name.to_owned()))?;
    let mut addrs = ifnet.addrs.iter().filter_map(|own| match own.addr {
        IpAddr::V6(addr) => Some(addr),
        IpAddr::V4(_) => None,
    });
    addrs.find(|addr| !addr.is_unicast_link_local()).ok_or(Error::NoPrefix)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(len) => write!(f, "a prefix has 1 to {PREFIX_MAX} bits, not {len}"),
            Self::NoInterface(name) => write!(f, "there is no interface {name}"),
            Self::NoPrefix => f.write_str("the outside prefix is missing, or the interface has none"),
        }
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests;
