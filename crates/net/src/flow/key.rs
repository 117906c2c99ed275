//! The key of a forwarded packet's verdict, in few words.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pkt::Pkt;
use wire::{Protocol, tcp, udp};

use super::offload::Ends;

use crate::base::secret::fold;
use crate::link::tables::IfIndex;

/// Names a flow in one family's table.
pub trait Key: Copy + Eq {
    /// Key of an unused place.
    const NONE: Self;

    /// The flow of a packet that input let pass; `None` if its packets have to be looked at one by one.
    fn of(pkt: &Pkt) -> Option<Self>;

    /// Hashes with a secret key, so that collisions cannot be chosen.
    fn hash(&self, secret: &[u64; 4]) -> u64;
}

/// An IPv4 flow: addresses; ports, protocol, traffic class and interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key4([u64; 2]);

/// An IPv6 flow: source, destination; ports, protocol, traffic class and interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key6([u64; 5]);

/// Version 4, and a header without options.
const NO_OPTIONS: u8 = 0x45;
/// Lengths of the headers without options and extensions, bytes.
const HEADER4: usize = 20;
const HEADER6: usize = 40;
/// Bytes of the ports.
const PORTS: usize = 4;

impl Key for Key4 {
    const NONE: Self = Self([0; 2]);

    #[inline]
    fn of(pkt: &Pkt) -> Option<Self> {
        let ip = pkt.window(0);
        let is_fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff != 0;
        if ip[0] != NO_OPTIONS || is_fragment || !is_cached(ip[9], pkt, HEADER4) {
            return None;
        }
        let ports = [ip[20], ip[21], ip[22], ip[23]];
        Some(Self([word(ip, 12), rest(ports, ip[9], ip[1], pkt.rcvif)]))
    }

    #[inline]
    fn hash(&self, secret: &[u64; 4]) -> u64 {
        let [addrs, rest] = self.0;
        fold(addrs ^ secret[0], rest ^ secret[1])
    }
}

impl Key for Key6 {
    const NONE: Self = Self([0; 5]);

    #[inline]
    fn of(pkt: &Pkt) -> Option<Self> {
        let ip = pkt.window(0);
        if !is_cached(ip[6], pkt, HEADER6) {
            return None;
        }
        let class = ip[0] << 4 | ip[1] >> 4;
        let ports = [ip[40], ip[41], ip[42], ip[43]];
        let rest = rest(ports, ip[6], class, pkt.rcvif);
        Some(Self([word(ip, 8), word(ip, 16), word(ip, 24), word(ip, 32), rest]))
    }

    #[inline]
    fn hash(&self, secret: &[u64; 4]) -> u64 {
        let [a, b, c, d, rest] = self.0;
        let addrs = fold(a ^ secret[0], b ^ secret[1]) ^ fold(c ^ secret[2], d ^ secret[3]).rotate_left(32);
        fold(addrs ^ secret[2], rest ^ secret[1])
    }
}

impl Key4 {
    /// Ends, protocol, traffic class and interface.
    pub(super) fn parts(&self) -> (Ends, u8, u8, IfIndex) {
        let [addrs, rest] = self.0;
        let [a, b, c, d, e, f, g, h] = addrs.to_ne_bytes();
        parts(Ipv4Addr::from([a, b, c, d]).into(), Ipv4Addr::from([e, f, g, h]).into(), rest)
    }
}

impl Key6 {
    /// Ends, protocol, traffic class and interface.
    pub(super) fn parts(&self) -> (Ends, u8, u8, IfIndex) {
        let [a, b, c, d, rest] = self.0;
        let addr = |high: u64, low: u64| {
            let bits = u128::from(u64::from_be(high)) << 64 | u128::from(u64::from_be(low));
            Ipv6Addr::from_bits(bits).into()
        };
        parts(addr(a, b), addr(c, d), rest)
    }
}

fn parts(src: IpAddr, dst: IpAddr, rest: u64) -> (Ends, u8, u8, IfIndex) {
    let [p, q, r, s, protocol, class, low, high] = rest.to_le_bytes();
    let [a, b, c, d] = u32::from_le_bytes([p, q, r, s]).to_ne_bytes();
    let (src_port, dst_port) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    (Ends { src, dst, src_port, dst_port }, protocol, class, u16::from_le_bytes([low, high]))
}

/// Only protocols whose packets all look alike to the rest of the stack, and such that have their whole header. Of ICMP
/// each message is different.
#[inline]
fn is_cached(protocol: u8, pkt: &Pkt, at: usize) -> bool {
    let header_len = match Protocol(protocol) {
        Protocol::TCP => tcp::HEADER_LEN,
        Protocol::UDP => udp::HEADER_LEN,
        _ => return false,
    };
    pkt.head_len() >= at + header_len
}

/// The two bits of congestion notification are not part of the class: they differ from packet to packet.
#[inline]
fn rest(ports: [u8; PORTS], protocol: u8, class: u8, rcvif: IfIndex) -> u64 {
    let about = u64::from(protocol) | u64::from(class & !3) << 8 | u64::from(rcvif) << 16;
    u64::from(u32::from_ne_bytes(ports)) | about << 32
}

#[inline]
fn word(window: &[u8; pkt::WINDOW], at: usize) -> u64 {
    window.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}
