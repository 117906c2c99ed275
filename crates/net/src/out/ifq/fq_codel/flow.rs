//! One flow's queue, and which flow a frame is of.

use core::hash::Hasher;

use pkt::{Pkt, WINDOW};
use wire::ether::EtherType;
use wire::{Protocol, gre};

use crate::base::secret::Secret;
use crate::out::ifq::codel::Codel;
use crate::out::ifq::ecn::network;
use crate::out::ifq::list::List;

/// One flow's queue.
#[derive(Default)]
pub(super) struct Flow {
    pub(super) list: List,
    /// Bytes that it may still send before others have their turn.
    pub(super) deficit: i64,
    /// Whether it is among the new or the old flows.
    pub(super) is_listed: bool,
    pub(super) codel: Codel,
}

/// Returns the flow of a frame: addresses, protocol and ports, under a secret key, so that a sender cannot make
/// its packets share a queue with another's.
pub(in crate::out::ifq) fn flow_of(pkt: &Pkt, secret: &Secret) -> u64 {
    let mut hasher = secret.hasher();
    let (kind, at) = network(pkt);
    let ip = pkt.window(at);
    let inner = match kind {
        EtherType::IPV4 => hash4(ip, &mut hasher),
        EtherType::IPV6 => hash6(ip, &mut hasher),
        other => {
            hasher.write_u16(other.0);
            None
        }
    };
    match inner {
        Some((4, inner)) => _ = hash4(pkt.window(at + inner), &mut hasher),
        Some((_, inner)) => _ = hash6(pkt.window(at + inner), &mut hasher),
        None => {}
    }
    hasher.finish()
}

/// Version and place of a packet in a packet.
type Inner = Option<(u8, usize)>;

fn inner(protocol: u8, at: usize, ip: &[u8; WINDOW]) -> Inner {
    match Protocol(protocol) {
        Protocol::IPIP => Some((4, at)),
        Protocol::IPV6 => Some((6, at)),
        Protocol::GRE => {
            let header = gre::Header::parse(ip.get(at..)?).ok()?;
            let version = if header.protocol == EtherType::IPV4 { 4 } else { 6 };
            let is_ip = matches!(header.protocol, EtherType::IPV4 | EtherType::IPV6);
            is_ip.then(|| (version, at + header.len()))
        }
        _ => None,
    }
}

/// Answers where the packet of another flow is in it, if it is a tunnel's.
fn hash4(ip: &[u8; WINDOW], hasher: &mut impl Hasher) -> Inner {
    hasher.write_u8(ip[9]);
    hasher.write(&ip[12..20]);
    let is_fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff != 0;
    let l4 = usize::from(ip[0] & 0xf) * 4;
    if has_ports(ip[9]) && !is_fragment {
        hasher.write(ip.get(l4..l4 + 4).unwrap_or_default());
    }
    if is_fragment { None } else { inner(ip[9], l4, ip) }
}

/// Ports behind extension headers are not looked for: then the flow label tells flows apart (RFC 6437).
fn hash6(ip: &[u8; WINDOW], hasher: &mut impl Hasher) -> Inner {
    hasher.write_u8(ip[6]);
    hasher.write(&ip[8..40]);
    if has_ports(ip[6]) {
        hasher.write(&ip[40..44]);
    } else {
        hasher.write(&[ip[1] & 0xf, ip[2], ip[3]]);
    }
    inner(ip[6], 40, ip)
}

const fn has_ports(protocol: u8) -> bool {
    protocol == Protocol::TCP.0 || protocol == Protocol::UDP.0
}
