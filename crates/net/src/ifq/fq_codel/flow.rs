//! Flows and their packets, in lists that share one array.

use core::hash::Hasher;

use pkt::{Pkt, WINDOW};
use wire::Protocol;
use wire::ether::EtherType;

use super::FLOWS;
use crate::ifq::codel::{Codel, Queued};
use crate::ifq::ecn::network;
use crate::secret::Secret;

/// One flow's queue.
#[derive(Default)]
pub(super) struct Flow {
    first: Option<u32>,
    last: Option<u32>,
    pub(super) bytes: usize,
    /// Bytes that it may still send before others have their turn.
    pub(super) deficit: i64,
    /// Whether it is among the new or the old flows.
    pub(super) is_listed: bool,
    pub(super) codel: Codel,
}

/// The packets of all flows. The array grows to the most that ever waited, and is used again.
#[derive(Default)]
pub(super) struct Nodes {
    nodes: Vec<Node>,
    free: Option<u32>,
}

struct Node {
    queued: Option<Queued>,
    next: Option<u32>,
}

impl Flow {
    pub(super) fn push(&mut self, nodes: &mut Nodes, queued: Queued) {
        self.bytes += queued.pkt.len();
        let new = nodes.put(queued);
        match self.last.replace(new) {
            Some(last) => nodes.nodes[last as usize].next = Some(new),
            None => self.first = Some(new),
        }
    }

    pub(super) fn pop(&mut self, nodes: &mut Nodes) -> Option<Queued> {
        let (queued, next) = nodes.take(self.first?);
        self.first = next;
        if next.is_none() {
            self.last = None;
        }
        self.bytes -= queued.as_ref().map_or(0, |queued| queued.pkt.len());
        queued
    }
}

impl Nodes {
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.nodes.len()
    }

    fn put(&mut self, queued: Queued) -> u32 {
        let node = Node { queued: Some(queued), next: None };
        let Some(at) = self.free else {
            self.nodes.push(node);
            return u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX);
        };
        self.free = core::mem::replace(&mut self.nodes[at as usize], node).next;
        at
    }

    fn take(&mut self, at: u32) -> (Option<Queued>, Option<u32>) {
        let node = &mut self.nodes[at as usize];
        let next = core::mem::replace(&mut node.next, self.free);
        self.free = Some(at);
        (node.queued.take(), next)
    }
}

/// The flow of a frame: addresses, protocol and ports, under a key that nobody outside knows, so that nobody can make
/// his packets share a queue with somebody else's.
pub(super) fn flow_of(pkt: &Pkt, secret: &Secret) -> u16 {
    let mut hasher = secret.hasher();
    let (kind, at) = network(pkt);
    let ip = pkt.window(at);
    match kind {
        EtherType::IPV4 => hash4(ip, &mut hasher),
        EtherType::IPV6 => hash6(ip, &mut hasher),
        other => hasher.write_u16(other.0),
    }
    let flow = hasher.finish() % FLOWS as u64;
    u16::try_from(flow).unwrap_or(0)
}

fn hash4(ip: &[u8; WINDOW], hasher: &mut impl Hasher) {
    hasher.write_u8(ip[9]);
    hasher.write(&ip[12..20]);
    let is_fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff != 0;
    let l4 = usize::from(ip[0] & 0xf) * 4;
    if has_ports(ip[9]) && !is_fragment {
        hasher.write(ip.get(l4..l4 + 4).unwrap_or_default());
    }
}

/// Ports behind extension headers are not looked for: then the flow label tells flows apart (RFC 6437).
fn hash6(ip: &[u8; WINDOW], hasher: &mut impl Hasher) {
    hasher.write_u8(ip[6]);
    hasher.write(&ip[8..40]);
    if has_ports(ip[6]) {
        hasher.write(&ip[40..44]);
    } else {
        hasher.write(&[ip[1] & 0xf, ip[2], ip[3]]);
    }
}

const fn has_ports(protocol: u8) -> bool {
    protocol == Protocol::TCP.0 || protocol == Protocol::UDP.0
}
