//! The key of a flow in the table: the same for both directions.

use pkt::{Pkt, WINDOW};
use wire::{Protocol, ip4, ip6};

use crate::base::secret::fold;
use crate::firewall::pkt_info::{Part, PktInfo, usual};
use crate::ip::l4;

/// A flow: two ends and a protocol, the lower end first, so that both directions have the same key.
///
/// An end is an address and a port. For ICMP queries, the client's port is the identifier, and the server's
/// the query's type: so a reply belongs to its query alone, and a query back is another flow. All else
/// has port 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// IPv4: the lower end's address and the higher one's in the first word; else upper and lower half of the one,
    /// and of the other.
    addrs: [u64; 4],
    /// Their ports; protocol; bit 56: IPv4.
    rest: u64,
}

/// A flow as one of its packets names it: the key, and which end has sent the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// The flow.
    pub key: Key,
    /// Whether the packet goes from the higher end to the lower one. Never if both are the same.
    pub(super) is_downward: bool,
}

/// One end of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// Address; an IPv4 address in the lower 32 bits.
    pub addr: u128,
    /// Port, as [`Key`] explains it.
    pub port: u16,
}

/// Bit of [`Key::rest`] that says IPv4.
const IS_IP4: u64 = 1 << 56;

impl Flow {
    /// The flow from `src` to `dst`.
    #[inline]
    #[must_use]
    pub fn new(is_ip4: bool, proto: u8, src: End, dst: End) -> Self {
        if is_ip4 {
            let addrs = u64::from(low32(src.addr)) << 32 | u64::from(low32(dst.addr));
            return Self::new4(proto, addrs, u32::from(src.port) << 16 | u32::from(dst.port));
        }
        let is_downward = (src.addr, src.port) > (dst.addr, dst.port);
        let (low, high) = if is_downward { (dst, src) } else { (src, dst) };
        let rest = u64::from(low.port) << 16 | u64::from(high.port) | u64::from(proto) << 32;
        let [a, b] = halves(low.addr);
        let [c, d] = halves(high.addr);
        Self { key: Key { addrs: [a, b, c, d], rest }, is_downward }
    }

    /// Makes a key of IPv4 of addresses and ports, in both of which the source is the upper half, as in a packet.
    #[inline(always)]
    const fn new4(proto: u8, addrs: u64, ports: u32) -> Self {
        let (addrs_back, ports_back) = (addrs.rotate_left(32), ports.rotate_left(16));
        let is_downward = if addrs == addrs_back { ports > ports_back } else { addrs > addrs_back };
        let (addrs, ports) = if is_downward { (addrs_back, ports_back) } else { (addrs, ports) };
        let rest = ports as u64 | (proto as u64) << 32 | IS_IP4;
        Self { key: Key { addrs: [addrs, 0, 0, 0], rest }, is_downward }
    }

    /// The flow of a packet of TCP or UDP that is whole, and has neither options nor extension headers: of nearly all,
    /// the same as [`Flow::of`]. `None` of all others.
    #[inline(always)]
    #[must_use]
    pub(in super::super) fn usual(pkt: &Pkt) -> Option<Self> {
        let ip = pkt.window(0);
        let (is_ip4, proto, _) = usual(ip, pkt.head_len())?;
        let at = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
        let flow = if is_ip4 {
            let addrs = ip[12..].first_chunk().map_or(0, |addrs| u64::from_be_bytes(*addrs));
            Self::new4(proto, addrs, u32::from_be_bytes([ip[20], ip[21], ip[22], ip[23]]))
        } else {
            let addr = |at: usize| {
                ip.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u128::from_be_bytes(*bytes))
            };
            Self::new(false, proto, End { addr: addr(8), port: at(40) }, End { addr: addr(24), port: at(42) })
        };
        Some(flow)
    }

    /// The flow that a packet belongs to. `None` if it says nothing about that: a later fragment, and ICMP's errors,
    /// which belong to the flow of what they quote.
    #[inline]
    #[must_use]
    pub fn of(info: &PktInfo, pkt: &Pkt) -> Option<Self> {
        Self::of_parts(info, pkt.window(usize::from(info.l4)))
    }

    /// [`Flow::of`], of a packet whose upper layer begins with `l4`.
    #[inline]
    pub(super) fn of_parts(info: &PktInfo, l4: &[u8; WINDOW]) -> Option<Self> {
        if info.part == Part::Later {
            return None;
        }
        let mut ends =
            [End { addr: info.src, port: info.src_port }, End { addr: info.dst, port: info.dst_port }];
        if !info.has_ports() {
            let ports = unusual(info, l4)?;
            (ends[0].port, ends[1].port) = ports;
        }
        Some(Self::new(info.is_ip4, info.proto, ends[0], ends[1]))
    }

    /// Returns the flow in the other direction.
    #[must_use]
    pub fn reversed(self) -> Self {
        let [low, high] = self.key.ends();
        Self { is_downward: !self.is_downward && low != high, ..self }
    }

    /// Returns source and destination of the packet.
    #[must_use]
    pub const fn ends(&self) -> [End; 2] {
        let [low, high] = self.key.ends();
        if self.is_downward { [high, low] } else { [low, high] }
    }
}

impl Key {
    /// No flow's: what a place in the table has when its state is gone.
    pub(super) const GONE: Self = Self { addrs: [0; 4], rest: u64::MAX };

    /// The lower end and the higher one.
    #[must_use]
    pub const fn ends(&self) -> [End; 2] {
        let [a, b, c, d] = self.addrs;
        let [_, _, _, _, w, x, y, z] = self.rest.to_be_bytes();
        let (low, high) = (u16::from_be_bytes([w, x]), u16::from_be_bytes([y, z]));
        let (lower, higher) = match self.is_ip4() {
            true => (whole(0, a >> 32), whole(0, a & 0xffff_ffff)),
            false => (whole(a, b), whole(c, d)),
        };
        [End { addr: lower, port: low }, End { addr: higher, port: high }]
    }

    /// Protocol of the upper layer.
    #[must_use]
    pub const fn proto(&self) -> u8 {
        self.rest.to_be_bytes()[3]
    }

    /// Whether a packet, which has neither options nor extension headers, is of this flow, and goes this way.
    #[inline]
    pub(super) fn is_of(&self, pkt: &Pkt, is_downward: bool) -> bool {
        let ip = pkt.window(0);
        let word =
            |at: usize| ip.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |is| u64::from_be_bytes(*is));
        let is_ip4 = l4::is_ip4(pkt);
        let (addrs, l4, proto) = match (is_ip4, is_downward) {
            (true, _) => {
                let pair = word(12);
                ([if is_downward { pair.rotate_left(32) } else { pair }, 0, 0, 0], ip4::HEADER_LEN, ip[9])
            }
            (false, false) => ([word(8), word(16), word(24), word(32)], ip6::HEADER_LEN, ip[6]),
            (false, true) => ([word(24), word(32), word(8), word(16)], ip6::HEADER_LEN, ip[6]),
        };
        let ports = u32::from_be_bytes([ip[l4], ip[l4 + 1], ip[l4 + 2], ip[l4 + 3]]);
        let ports = if is_downward { ports.rotate_left(16) } else { ports };
        let family = if is_ip4 { IS_IP4 } else { 0 };
        *self == Self { addrs, rest: u64::from(ports) | u64::from(proto) << 32 | family }
    }

    /// Whether the addresses are IPv4's.
    #[must_use]
    pub const fn is_ip4(&self) -> bool {
        self.rest & IS_IP4 != 0
    }

    /// Hashes with a secret key, so that collisions cannot be chosen.
    #[inline]
    pub(super) fn hash(&self, secret: &[u64; 4]) -> u64 {
        let [a, b, c, d] = self.addrs;
        if self.is_ip4() {
            return fold(a ^ secret[0], self.rest ^ secret[1]);
        }
        let addrs = fold(a ^ secret[0], b ^ secret[1]) ^ fold(c ^ secret[2], d ^ secret[3]).rotate_left(32);
        fold(addrs ^ secret[2], self.rest ^ secret[1])
    }
}

/// The ports of a packet whose protocol has none.
fn unusual(info: &PktInfo, l4: &[u8; WINDOW]) -> Option<(u16, u16)> {
    let protocol = match (Protocol(info.proto), info.is_ip4) {
        (Protocol::ICMP, true) => icmp4(l4[0]),
        (Protocol::ICMP6, false) => icmp6(l4[0]),
        _ => return Some((0, 0)),
    };
    let id = u16::from_be_bytes([l4[4], l4[5]]);
    match protocol {
        Icmp::Question => Some((id, l4[0].into())),
        Icmp::Answer(question) => Some((question.into(), id)),
        Icmp::Error => None,
        Icmp::Other => Some((0, 0)),
    }
}

/// The role of an ICMP message.
enum Icmp {
    Question,
    /// To a question of this type.
    Answer(u8),
    Error,
    Other,
}

/// Types of ICMP (RFC 792; RFC 950 for masks).
const fn icmp4(kind: u8) -> Icmp {
    match kind {
        8 | 13 | 15 | 17 => Icmp::Question,
        0 => Icmp::Answer(8),
        14 | 16 | 18 => Icmp::Answer(kind - 1),
        3 | 4 | 5 | 11 | 12 => Icmp::Error,
        _ => Icmp::Other,
    }
}

/// Types of ICMPv6 (RFC 4443 §2.1: errors are those below 128).
const fn icmp6(kind: u8) -> Icmp {
    match kind {
        ..128 => Icmp::Error,
        128 => Icmp::Question,
        129 => Icmp::Answer(128),
        _ => Icmp::Other,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "both halves are kept")]
const fn halves(addr: u128) -> [u64; 2] {
    [(addr >> 64) as u64, addr as u64]
}

#[expect(clippy::cast_possible_truncation, reason = "an IPv4 address is in the lower bits")]
const fn low32(addr: u128) -> u32 {
    addr as u32
}

const fn whole(upper: u64, lower: u64) -> u128 {
    (upper as u128) << 64 | lower as u128
}

#[cfg(test)]
mod tests;
