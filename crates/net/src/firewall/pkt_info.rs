//! The fields of a packet that rules test again and again, read once.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipfw::rule::Hook;
use pkt::{Pkt, WINDOW};
use wire::{Protocol, ip4, ip6, tcp, udp};

use crate::ip::ip6::headers;
use crate::link::tables::IfIndex;

/// A packet, as rules see it.
#[derive(Clone, Copy, Debug)]
pub struct PktInfo {
    /// Where in the stack it is.
    pub hook: Hook,
    /// Whether it is IPv4's; else it is IPv6's.
    pub is_ip4: bool,
    /// Fragment part.
    pub part: Part,
    /// The upper layer's protocol, behind IPv6's extension headers.
    pub proto: u8,
    /// Source; an IPv4 address in the lower 32 bits.
    pub src: u128,
    /// Destination.
    pub dst: u128,
    /// Source port of TCP, UDP, UDP-Lite and SCTP; ICMP's type; else, and in later fragments, 0.
    pub src_port: u16,
    /// Destination port; ICMP's code.
    pub dst_port: u16,
    /// TCP's flags, as in the header.
    pub tcp_flags: u8,
    /// Where the upper layer begins in the packet, which begins with its network header.
    pub l4: u16,
    /// The interface it came in by; 0 if we made it.
    pub recv: IfIndex,
    /// The interface it leaves by; 0 while that is not known.
    pub xmit: IfIndex,
    /// Tag that a rule gave it; 0 for none. A stage that reads the packet again must set it again.
    pub tag: u16,
}

/// The fragment part of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// The first fragment: with the upper layer's header.
    First,
    /// A later one.
    Later,
}

/// A packet that no rule can be asked about, because it hides what rules ask for: it is dropped, whatever they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// A fragment of TCP that begins eight bytes into the segment: it would overwrite the flags (RFC 3128).
    TinyFragment,
    /// The upper layer's header, or a part of it, is not in it: neither in a whole packet nor in a first fragment may
    /// it be missing (RFC 1858, RFC 7112).
    ShortTransport,
    /// IPv6's extension headers end before the upper layer, or there are too many of them.
    HeaderChain,
}

const UDP_LITE: u8 = 136;
/// SCTP's common header.
const SCTP_HEADER: usize = 12;
/// ICMP's type, code and checksum.
const ICMP_HEADER: usize = 4;
const L4_V4: u16 = 20;
const L4_V6: u16 = 40;
/// In the word of flags and offset: everything that makes a fragment; that more follow.
const FRAGMENT: u16 = 0x3fff;
const MORE: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

impl PktInfo {
    /// Reads a valid packet that begins with its network header, and is at `hook`. `recv` and `xmit` are 0 where there
    /// is none.
    ///
    /// # Errors
    ///
    /// [`Malformed`]: it must not pass.
    ///
    /// # Spec
    /// RFC 1858 §2, §3; RFC 3128; RFC 7112 §5.
    #[inline]
    pub fn read(pkt: &Pkt, hook: Hook, recv: IfIndex, xmit: IfIndex) -> Result<Self, Malformed> {
        Self::usual(pkt, hook, recv, xmit).map_or_else(|| Self::read_with_care(pkt, hook, recv, xmit), Ok)
    }

    /// [`Self::read`], also of a frame without an IP packet at its hook.
    ///
    /// # Errors
    ///
    /// [`Malformed`]: it must not pass.
    pub(super) fn at_hook(pkt: &Pkt, hook: Hook, recv: IfIndex, xmit: IfIndex) -> Result<Self, Malformed> {
        if hook == Hook::Frame { Ok(Self::of_frame(recv)) } else { Self::read(pkt, hook, recv, xmit) }
    }

    /// Describes a frame without an IP packet.
    const fn of_frame(recv: IfIndex) -> Self {
        Self {
            hook: Hook::Frame,
            is_ip4: false,
            part: Part::Later,
            proto: u8::MAX,
            src: 0,
            dst: 0,
            src_port: 0,
            dst_port: 0,
            tcp_flags: 0,
            l4: 0,
            recv,
            xmit: 0,
            tag: 0,
        }
    }

    /// Reads a packet that is [`usual`]; `None` of any other.
    #[inline(always)]
    pub(super) fn usual(pkt: &Pkt, hook: Hook, recv: IfIndex, xmit: IfIndex) -> Option<Self> {
        let ip = pkt.window(0);
        let place = Place::usual(ip, pkt.head_len())?;
        let mut info = Self::placed(ip, place, hook, recv, xmit);
        let l4 = if place.is_ip4 { 20 } else { 40 };
        (info.src_port, info.dst_port) = (u16_at(ip, l4), u16_at(ip, l4 + 2));
        if place.proto == Protocol::TCP.0 {
            info.tcp_flags = ip[l4 + 13];
        }
        Some(info)
    }

    #[cold]
    #[inline(never)]
    fn read_with_care(pkt: &Pkt, hook: Hook, recv: IfIndex, xmit: IfIndex) -> Result<Self, Malformed> {
        let place = Place::find(pkt.window(0), pkt.head())?;
        let mut info = Self::placed(pkt.window(0), place, hook, recv, xmit);
        if place.part == Part::Later {
            return Ok(info);
        }
        let transport = pkt.head().get(usize::from(place.l4)..).ok_or(Malformed::HeaderChain)?;
        if transport.len() < shortest(place.proto, place.is_ip4) {
            return Err(Malformed::ShortTransport);
        }
        let word =
            |at: usize| transport.get(at..).and_then(<[u8]>::first_chunk).map(|w| u16::from_be_bytes(*w));
        if info.has_ports() {
            (info.src_port, info.dst_port) = (word(0).unwrap_or(0), word(2).unwrap_or(0));
        } else if info.is_icmp() {
            let [kind, code] = word(0).unwrap_or(0).to_be_bytes();
            (info.src_port, info.dst_port) = (kind.into(), code.into());
        }
        if place.proto == Protocol::TCP.0 {
            info.tcp_flags = transport.get(13).copied().unwrap_or(0);
        }
        Ok(info)
    }

    #[inline(always)]
    fn placed(ip: &[u8; WINDOW], place: Place, hook: Hook, recv: IfIndex, xmit: IfIndex) -> Self {
        let Place { is_ip4, part, proto, l4 } = place;
        let (src, dst) = if is_ip4 {
            (u32_at(ip, 12).into(), u32_at(ip, 16).into())
        } else {
            (u128_at(ip, 8), u128_at(ip, 24))
        };
        Self {
            hook,
            is_ip4,
            part,
            proto,
            src,
            dst,
            src_port: 0,
            dst_port: 0,
            tcp_flags: 0,
            l4,
            recv,
            xmit,
            tag: 0,
        }
    }

    /// Its source.
    #[must_use]
    pub fn src_addr(&self) -> IpAddr {
        self.addr(self.src)
    }

    /// An address of the packet's family.
    #[must_use]
    pub fn addr(&self, bits: u128) -> IpAddr {
        addr(self.is_ip4, bits)
    }

    /// Its destination.
    #[must_use]
    pub fn dst_addr(&self) -> IpAddr {
        addr(self.is_ip4, self.dst)
    }

    /// Whether it is of a protocol with ports, and they are in it.
    #[inline]
    #[must_use]
    pub fn has_ports(&self) -> bool {
        let speaks = matches!(Protocol(self.proto), Protocol::TCP | Protocol::UDP | Protocol::SCTP)
            || self.proto == UDP_LITE;
        speaks && self.part != Part::Later
    }

    /// Whether it is TCP's, and has its header.
    #[inline]
    #[must_use]
    pub fn is_tcp(&self) -> bool {
        self.proto == Protocol::TCP.0 && self.part != Part::Later
    }

    /// Whether it is of the ICMP of its family, and has its header.
    #[inline]
    #[must_use]
    pub fn is_icmp(&self) -> bool {
        let icmp = if self.is_ip4 { Protocol::ICMP } else { Protocol::ICMP6 };
        self.proto == icmp.0 && self.part != Part::Later
    }

    /// The interface that `via` asks for: on the way out the one it leaves by, else the one it came in by.
    #[inline]
    #[must_use]
    pub const fn via(&self) -> IfIndex {
        if matches!(self.hook, Hook::Egress | Hook::LocalOut) { self.xmit } else { self.recv }
    }
}

/// Where what is in a packet.
#[derive(Clone, Copy)]
struct Place {
    is_ip4: bool,
    part: Part,
    proto: u8,
    l4: u16,
}

impl Place {
    /// Reads a [`usual`] packet.
    #[inline(always)]
    fn usual(ip: &[u8; WINDOW], len: usize) -> Option<Self> {
        let (is_ip4, proto, l4) = usual(ip, len)?;
        Some(Self { is_ip4, part: Part::Whole, proto, l4 })
    }

    /// Reads any packet.
    fn find(ip: &[u8; WINDOW], head: &[u8]) -> Result<Self, Malformed> {
        let place =
            if ip[0] >> 4 == 4 { Ok((Self::find4(ip), u16_at(ip, 6) & OFFSET)) } else { Self::find6(head) };
        let (place, offset) = place?;
        // RFC 3128 §2: an offset of one unit of eight bytes.
        if place.proto == Protocol::TCP.0 && offset == 1 {
            return Err(Malformed::TinyFragment);
        }
        Ok(place)
    }

    fn find4(ip: &[u8; WINDOW]) -> Self {
        let fragment = u16_at(ip, 6);
        let part = part(fragment & OFFSET, fragment & MORE != 0);
        Self { is_ip4: true, part, proto: ip[9], l4: u16::from(ip[0] & 0xf) * 4 }
    }

    /// The place, and of a fragment the offset, in units of eight bytes.
    fn find6(head: &[u8]) -> Result<(Self, u16), Malformed> {
        let upper = headers::upper(head).ok_or(Malformed::HeaderChain)?;
        let offset = upper.fragment_offset.unwrap_or(0) / 8;
        let part = part(offset, upper.more_fragments);
        let l4 = u16::try_from(upper.at).map_err(|_| Malformed::HeaderChain)?;
        Ok((Self { is_ip4: false, part, proto: upper.protocol.0, l4 }, offset))
    }
}

/// Whether a packet that begins so, and is `len` bytes long in its first buffer, is whole TCP or UDP without options and
/// extension headers, as nearly all are. Whether it is IPv4's, its protocol, and where that begins.
#[inline(always)]
pub(super) fn usual(ip: &[u8; WINDOW], len: usize) -> Option<(bool, u8, u16)> {
    let is_ip4 = ip[0] == 0x45;
    let is_plain4 = is_ip4 && u16::from_be_bytes([ip[6], ip[7]]) & FRAGMENT == 0;
    if !is_plain4 && ip[0] >> 4 != 6 {
        return None;
    }
    let (proto, l4) = if is_ip4 { (ip[9], L4_V4) } else { (ip[6], L4_V6) };
    let header = match Protocol(proto) {
        Protocol::TCP => tcp::HEADER_LEN,
        Protocol::UDP => udp::HEADER_LEN,
        _ => return None,
    };
    (len >= usize::from(l4) + header).then_some((is_ip4, proto, l4))
}

/// Bytes of the upper layer without which a packet is not asked about.
fn shortest(proto: u8, is_ip4: bool) -> usize {
    match Protocol(proto) {
        Protocol::TCP => tcp::HEADER_LEN,
        Protocol::UDP | Protocol(UDP_LITE) => udp::HEADER_LEN,
        Protocol::SCTP => SCTP_HEADER,
        Protocol::ICMP if is_ip4 => ICMP_HEADER,
        Protocol::ICMP6 if !is_ip4 => ICMP_HEADER,
        _ => 0,
    }
}

const fn part(offset: u16, more: bool) -> Part {
    match (offset, more) {
        (0, false) => Part::Whole,
        (0, true) => Part::First,
        _ => Part::Later,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "an IPv4 address is in the lower bits")]
pub(super) fn addr(is_ip4: bool, bits: u128) -> IpAddr {
    if is_ip4 { Ipv4Addr::from_bits(bits as u32).into() } else { Ipv6Addr::from_bits(bits).into() }
}

#[inline(always)]
fn u16_at(ip: &[u8; WINDOW], at: usize) -> u16 {
    u16::from_be_bytes([ip[at], ip[at + 1]])
}

#[inline(always)]
fn u32_at(ip: &[u8; WINDOW], at: usize) -> u32 {
    ip.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

#[inline(always)]
fn u128_at(ip: &[u8; WINDOW], at: usize) -> u128 {
    ip.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u128::from_be_bytes(*bytes))
}

const _: () = assert!(L4_V4 as usize == ip4::HEADER_LEN && L4_V6 as usize == ip6::HEADER_LEN);

#[cfg(test)]
mod tests;
