//! Records: what the program needs to know of a flow, as words.

use core::net::IpAddr;

use net::flow::offload::{Ends, OffloadedFlow, Scope};

use super::layout::{BITS, Family, Kind, hash, version};

/// A record, as it is written into a slot.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) kind: Kind,
    /// The key: addresses, and the word behind them.
    pub(super) key: Vec<u64>,
    /// Deltas of both checksums, and flags behind the hop: it is not known here.
    pub(super) deltas: [u16; 2],
    pub(super) flags: u16,
    pub(super) pseudo: u16,
    pub(super) ports: u32,
    pub(super) addresses: Vec<u64>,
}

/// Addresses, ports and the checksum of the upper layer are to be written.
const TRANSLATED: u16 = 1;
/// ~m + m' of a time to live that goes down by one: the lower byte of its word on the wire's left.
const TTL_DELTA: u16 = u16::from_ne_bytes([0xfe, 0xff]);

impl Record {
    /// Makes the record of a flow; `None` if its packets change their family.
    pub(super) fn of(flow: &OffloadedFlow) -> Option<Self> {
        let OffloadedFlow { before, after, .. } = flow;
        let family = family(before).filter(|family| self::family(after) == Some(*family))?;
        if let Scope::Destination(bits) = flow.scope {
            return Some(Self::of_destination(family, flow, bits));
        }
        let rest = rest(flow);
        let mut key = addresses(before);
        let pseudo = fold(sum(&key) + u64::from(u16::from(flow.protocol).to_be()));
        let (old, new) = (sum(&key), addresses(after));
        key.push(rest);
        let changed = fold(negated(old) + sum(&new));
        let (old_ports, ports) = (ports(before), ports(after));
        let l4 = fold(u64::from(changed) + negated(sum(&[u64::from(old_ports)])) + sum(&[u64::from(ports)]));
        let ip = fold(u64::from(changed) + u64::from(TTL_DELTA));
        let flags = if before == after { 0 } else { TRANSLATED };
        Some(Self { kind: family.flow(), key, deltas: [ip, l4], flags, pseudo, ports, addresses: new })
    }

    /// The record for all packets to a destination: nothing but the time to live changes.
    fn of_destination(family: Family, flow: &OffloadedFlow, bits: u8) -> Self {
        let mut key = address(flow.before.dst).to_vec();
        key.push(u64::from(flow.rcvif) << 48 | u64::from(bits) << BITS | version(family));
        Self {
            kind: Kind::Destination,
            key,
            deltas: [TTL_DELTA, 0],
            flags: 0,
            pseudo: 0,
            ports: 0,
            addresses: Vec::new(),
        }
    }

    pub(super) fn hash(&self, secret: &[u64; 4]) -> u64 {
        hash(&self.key, secret)
    }
}

fn family(ends: &Ends) -> Option<Family> {
    match (ends.src, ends.dst) {
        (IpAddr::V4(_), IpAddr::V4(_)) => Some(Family::V4),
        (IpAddr::V6(_), IpAddr::V6(_)) => Some(Family::V6),
        _ => None,
    }
}

/// The words of an address; the second one of IPv4 is 0.
pub(super) fn address(addr: IpAddr) -> [u64; 2] {
    let mut bytes = [0; 16];
    match addr {
        IpAddr::V4(addr) => bytes[..4].copy_from_slice(&addr.octets()),
        IpAddr::V6(addr) => bytes = addr.octets(),
    }
    let [first, second] = [bytes.first_chunk(), bytes.last_chunk()];
    [first, second].map(|word| word.map_or(0, |word| u64::from_ne_bytes(*word)))
}

/// Source and destination, as they are on the wire.
fn addresses(ends: &Ends) -> Vec<u64> {
    let mut bytes = Vec::with_capacity(32);
    for addr in [ends.src, ends.dst] {
        match addr {
            IpAddr::V4(addr) => bytes.extend(addr.octets()),
            IpAddr::V6(addr) => bytes.extend(addr.octets()),
        }
    }
    bytes.chunks_exact(8).filter_map(|word| word.try_into().ok()).map(u64::from_ne_bytes).collect()
}

fn ports(ends: &Ends) -> u32 {
    let [[a, b], [c, d]] = [ends.src_port, ends.dst_port].map(u16::to_be_bytes);
    u32::from_ne_bytes([a, b, c, d])
}

/// Ports, protocol, class and interface of packets as they come.
fn rest(flow: &OffloadedFlow) -> u64 {
    let about = u64::from(flow.protocol) | u64::from(flow.class & !3) << 8 | u64::from(flow.rcvif) << 16;
    u64::from(ports(&flow.before)) | about << 32
}

/// Adds up words of 16 bits.
fn sum(words: &[u64]) -> u64 {
    words.iter().flat_map(|word| [0, 16, 32, 48].map(|by| word >> by & 0xffff)).sum()
}

/// The sum that takes another one back.
fn negated(sum: u64) -> u64 {
    u64::from(!fold(sum))
}

#[expect(clippy::cast_possible_truncation, reason = "folded until it has 16 bits")]
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
