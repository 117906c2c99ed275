//! Adjacencies: what a next hop amounts to on this CPU, ready made.
//!
//! Many routes lead to few next hops. All that forwarding must know of one stands here in half a cache line: by which
//! interface, how big, and behind which link header. A record is made when a packet has gone that way step by step,
//! and holds for as long as nothing has changed that it was made of: new tables, or another copy of a neighbour, make
//! all records stale at once, and each is made anew when it is needed.
//!
//! What is unusual has no record (no route, a refusal, an interface that is down, a neighbour whose use its owner
//! wants to hear of): [`forward`](crate::ip::forward) then looks step by step.

use pkt::Pkt;

use crate::fib::{HopId, Hops, To, flow_hash};
use crate::ip::neigh::{self, LinkAddrs};
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;

/// Next hops that a CPU keeps records of, 512 KiB of them, and as many for what is sent from here. Packets for those beyond go
/// step by step.
pub const ADJS_MAX: usize = 1 << 14;

/// One CPU's adjacencies, by [`HopId`].
pub struct Adjs {
    table: Vec<Adj>,
    /// Adjacencies for locally originated packets, whether others are forwarded or not.
    own: Vec<Adj>,
    generation: u64,
}

/// The adjacencies that are fresh.
#[derive(Clone, Copy)]
pub(crate) struct Fresh<'t> {
    table: &'t [Adj],
    generation: u64,
}

impl<'t> Fresh<'t> {
    /// Returns that of a single gateway.
    #[inline]
    pub(crate) fn gateway(self, hop: HopId) -> Option<&'t Adj> {
        self.get(hop).filter(|adj| adj.kind == Kind::Gateway)
    }

    /// Returns that of a hop that is not a group.
    #[inline]
    pub(crate) fn get(self, hop: HopId) -> Option<&'t Adj> {
        self.table.get(hop.index()).filter(|adj| adj.generation == self.generation)
    }
}

/// An adjacency: a next hop made ready.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub struct Adj {
    /// That of the CPU when this was made: else it is stale.
    generation: u64,
    /// Bytes of the largest packet that may go there.
    pub mtu: u32,
    /// By which interface.
    pub outif: IfIndex,
    /// The link address it uses.
    pub kind: Kind,
    /// Link addresses of a gateway.
    pub addrs: LinkAddrs,
}

const _: () = assert!(size_of::<Adj>() == 32, "two on a cache line");

/// The kind of link address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A router's, which stands in the record.
    Gateway,
    /// The destination's own, which [`neigh`] knows.
    OnLink,
    /// That of one of several hops, which the packet's flow chooses: only [`Adjs::towards`] sees this.
    Group,
}

impl Default for Adjs {
    fn default() -> Self {
        Self { table: Vec::new(), own: Vec::new(), generation: 1 }
    }
}

impl Adjs {
    /// Returns the adjacency of `hop` for this packet, if it is known and fresh.
    #[inline]
    pub(crate) fn towards(&self, hops: &Hops, pkt: &Pkt, hop: HopId) -> Option<&Adj> {
        let adj = self.get(hop)?;
        if adj.kind == Kind::Group { self.member(hops, pkt, hop) } else { Some(adj) }
    }

    #[inline(never)]
    fn member(&self, hops: &Hops, pkt: &Pkt, group: HopId) -> Option<&Adj> {
        self.get(hops.member(group, || flow_hash(pkt)))
    }

    /// Returns the adjacency of a single gateway, if it is known and fresh.
    #[inline]
    pub(crate) fn gateway(&self, hop: HopId) -> Option<&Adj> {
        self.fresh().gateway(hop)
    }

    /// Returns the adjacency of a hop that is not a group, if it is known and fresh.
    #[inline]
    pub(crate) fn get(&self, hop: HopId) -> Option<&Adj> {
        self.fresh().get(hop)
    }

    /// Returns the table for a loop that writes packets, so that it does not load again where the table is.
    #[inline]
    pub(crate) const fn fresh(&self) -> Fresh<'_> {
        Fresh { table: self.table.as_slice(), generation: self.generation }
    }

    /// Returns the adjacency of a hop that is not a group for a locally originated packet.
    #[inline]
    pub(crate) fn own(&self, hop: HopId) -> Option<&Adj> {
        self.own.get(hop.index()).filter(|adj| adj.generation == self.generation)
    }

    /// To be called when anything has changed that a record may have been made of.
    pub fn make_all_stale(&mut self) {
        self.generation += 1;
    }

    /// Returns the generation, which changes whenever a record may have become stale: for holders of copies.
    #[inline]
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }
}

fn set(table: &mut Vec<Adj>, hop: HopId, adj: Adj) {
    let at = hop.index();
    if at >= table.len() && at < ADJS_MAX {
        table.resize(at + 1, Adj::NONE);
    }
    if let Some(place) = table.get_mut(at) {
        *place = adj;
    }
}

impl Adj {
    /// A place without a record: of a generation that never was.
    const NONE: Self = Self { generation: 0, mtu: 0, outif: 0, kind: Kind::OnLink, addrs: [0; 12] };
}

impl Default for Adj {
    fn default() -> Self {
        Self::NONE
    }
}

/// Makes the record of a hop that a packet has just gone by, if that may be done without looking from now on. Of a
/// group it was `member`; else that is the hop itself.
#[cold]
pub(crate) fn learn(cpu: &mut Cpu, hop: HopId, member: HopId) {
    let Some(adj) = derive(cpu, member).filter(|_| cpu.tables.forwarding) else { return };
    set(&mut cpu.adjs.table, member, adj);
    if hop != member {
        set(&mut cpu.adjs.table, hop, Adj { kind: Kind::Group, ..adj });
    }
}

/// Learns an adjacency for locally originated packets. There is none where router advertisements set parameters of the link
#[cold]
pub(crate) fn learn_own(cpu: &mut Cpu, hop: HopId) {
    let is_plain =
        |adj: &Adj| cpu.tables.ifnet(adj.outif).is_some_and(|ifnet| ifnet.learned.hop_limit.is_none());
    if let Some(adj) = derive(cpu, hop).filter(is_plain) {
        set(&mut cpu.adjs.own, hop, adj);
    }
}

fn derive(cpu: &Cpu, hop: HopId) -> Option<Adj> {
    let tables = &cpu.tables;
    let hop = tables.hops.get(hop);
    let (ifindex, via) = match hop.to {
        To::Gateway { ifindex, via } => (ifindex, Some(via)),
        To::OnLink { ifindex } => (ifindex, None),
        _ => return None,
    };
    let ifnet = tables.ifnet(ifindex).filter(|ifnet| ifnet.up)?;
    let (kind, addrs) = match via {
        _ if ifnet.kind.is_point_to_point() => (Kind::Gateway, neigh::NO_LINK_ADDRS),
        Some(addr) => (Kind::Gateway, cpu.neigh.settled(&neigh::Key { ifindex, addr })?),
        None => (Kind::OnLink, Adj::NONE.addrs),
    };
    let mtu = hop.metrics.mtu_over(ifnet.mtu);
    Some(Adj { generation: cpu.adjs.generation, mtu, outif: ifindex, kind, addrs })
}

#[cfg(test)]
mod tests;
