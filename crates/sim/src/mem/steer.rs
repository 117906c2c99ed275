//! Receive-side scaling: which ring a frame comes by.

use net::rss;
use pkt::WINDOW;
use wire::EtherType;
use wire::toeplitz;

use super::{Rss, Spec};
use crate::frame::Frame;

/// Entries of the redirection table.
const BUCKETS: u16 = 128;

/// The decision of a card for a frame.
pub(super) struct Steered {
    pub(super) ring: usize,
    /// The hash that the driver vouches for, if it does.
    pub(super) hash: Option<u16>,
}

/// Chooses the ring for a frame.
pub(super) fn steer(frame: &Frame, spec: Spec, lies: bool) -> Steered {
    let rings = u16::try_from(spec.rings).unwrap_or(1).max(1);
    let ring = |hash: u16| usize::from(hash % BUCKETS % rings);
    let right = own_hash(frame);
    match spec.rss {
        // One off: neighbouring buckets belong to different CPUs.
        _ if lies => Steered { ring: ring(right.unwrap_or(0)), hash: right.map(|hash| hash.wrapping_add(1)) },
        Rss::Right => Steered { ring: ring(right.unwrap_or(0)), hash: right },
        Rss::Wrong => Steered { ring: ring(other_hash(frame)), hash: None },
        Rss::Absent => Steered { ring: 0, hash: None },
    }
}

/// The stack's own hash, for what the stack places.
fn own_hash(frame: &Frame) -> Option<u16> {
    let mut window = [0; WINDOW];
    let packet = frame.packet();
    let len = packet.len().min(WINDOW);
    window[..len].copy_from_slice(&packet[..len]);
    match frame.header().ethertype {
        EtherType::IPV4 => Some(rss::hash4(&window)),
        EtherType::IPV6 => Some(rss::hash6(&window)),
        EtherType::ARP => Some(rss::hash_arp(&window)),
        _ => None,
    }
}

/// The hash of many cards, with their default key: over addresses, and over ports if the packet has any, in
/// their order.
fn other_hash(frame: &Frame) -> u16 {
    let packet = frame.packet();
    let has_ports = |protocol: usize| matches!(packet.get(protocol), Some(6 | 17));
    let input = match frame.header().ethertype {
        EtherType::IPV4 => {
            let is_fragment = packet.get(6..8).is_some_and(|word| word[0] & 0x3f != 0 || word[1] != 0);
            packet.get(12..if has_ports(9) && !is_fragment { 24 } else { 20 })
        }
        EtherType::IPV6 => packet.get(8..if has_ports(6) { 44 } else { 40 }),
        _ => None,
    };
    input.map_or(0, |input| (toeplitz::hash(&toeplitz::MICROSOFT_KEY, input) & 0xffff) as u16)
}
