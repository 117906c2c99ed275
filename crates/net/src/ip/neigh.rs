//! Neighbours: link addresses of the hosts and routers on our links.
//!
//! One CPU, by the hash of the neighbour's address, *owns* the entry: it asks for the link address, hears the answers,
//! and watches whether the neighbour is still there ([`owner`], [`nud`]). Every CPU that sends to the neighbour has a
//! *copy* with the link header ready ([`replicas`]); the owner tells it what changes:
//!
//! ```text
//!   a CPU that sends                      the owner
//!     miss: packet waits ── Wanted ──▶  asks on the link, three times
//!     copy, packet goes  ◀── Known ───  answered
//!     unreachable        ◀── Failed ──  not answered
//!     (nothing)          ◀── Known, stale ── not heard of for about 30 s
//!     first use of it    ── Used ────▶  asks the neighbour itself
//!     nothing comes back ── Doubted ─▶  asks the neighbour itself
//!     forgets            ◀── Gone ────  silent, evicted, deleted
//! ```
//!
//! ARP has no state machine of its own: both families go through that of RFC 4861 §7.3.

mod replicas;
mod recent;
mod nud;
mod owner;
mod admin;
mod changes;
mod solicit;

use core::hash::{Hash, Hasher};
use core::net::IpAddr;

use pkt::Pkt;
use wire::ether::{EtherType, Mac};

use crate::base::drop::DropReason;
use crate::base::time::Instant;
use crate::link::ether;
use crate::link::tables::{IfIndex, Ifnet, Tables};
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::next::Next;
use crate::turn::trace;

pub use admin::{Entry, delete, entries, set_static};
pub use changes::{CHANGES_MAX, NeighChange, NeighChanges, take_changes, watch};
pub use nud::State;
pub use owner::{ENTRIES_MAX, INCOMPLETE_MAX};
pub(crate) use owner::{NeighMessage, heard};
pub(crate) use replicas::Reachability;
pub use replicas::{HOLD_EACH_MAX, HOLD_MAX};

/// Names a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The interface of the link that it is on.
    pub ifindex: IfIndex,
    /// Its address.
    pub addr: IpAddr,
}

/// A message between CPUs about neighbours.
#[derive(Clone, Debug)]
pub enum Msg {
    /// To the owner: a packet waits on CPU `from`, which is to be told from now on.
    Wanted {
        /// Neighbour to resolve.
        key: Key,
        /// CPU of the requester.
        from: CpuId,
    },
    /// To the owner: a copy that was told to be stale is used.
    Used {
        /// Neighbour of the copy.
        key: Key,
    },
    /// To the owner: what was sent by way of the neighbour was sent again and again in vain.
    Doubted {
        /// Neighbour.
        key: Key,
    },
    /// To the owner: a router says this of the neighbour that it redirects us to.
    Redirected {
        /// Neighbour.
        key: Key,
        /// The link address.
        mac: Mac,
        /// Another router, not the destination itself.
        is_router: bool,
    },
    /// From the owner: the link address.
    Known {
        /// Neighbour.
        key: Key,
        /// The link address.
        mac: Mac,
        /// Say when it is used.
        stale: bool,
    },
    /// From the owner: asked, and not answered.
    Failed {
        /// Unreachable neighbour.
        key: Key,
    },
    /// From the owner: nothing is known any more.
    Gone {
        /// Neighbour.
        key: Key,
    },
}

/// A CPU's neighbours: the copies it sends by, and the entries it owns.
pub struct Neigh {
    copies: replicas::Copies,
    owned: owner::Owned,
}

impl Neigh {
    /// No neighbours. `key` keys the tables.
    #[must_use]
    pub fn new(key: u128) -> Self {
        Self { copies: replicas::Copies::new(key), owned: owner::Owned::new(key) }
    }

    /// Returns the link addresses towards `key`, if known and without a need to report their use.
    pub(crate) fn settled(&self, key: &Key) -> Option<LinkAddrs> {
        self.copies.settled(key)
    }

    /// Returns the reachability of `key` on this CPU.
    #[inline]
    pub(crate) fn standing(&self, key: &Key, now: Instant) -> Reachability {
        self.copies.standing(key, now)
    }

    /// Takes out all packets that wait.
    pub(crate) fn drain(&mut self) -> Vec<Pkt> {
        self.copies.drain()
    }
}

/// Puts the link header towards `next_hop`, on the link of `pkt.outif`, in front of a network packet.
///
/// Reads  `pkt.outif`, `cpu.neigh`.   Writes the link header.
/// Next   [`Next::Output`], or [`Next::Resolve`] if the neighbour's link address is not known here.
/// Drops  [`DropReason::NoBuffer`] when there is no headroom.
///
/// # Spec
/// RFC 894; RFC 2464 §3. Groups have no entries: RFC 1112 §6.4, RFC 2464 §7.
#[inline]
pub fn link(cpu: &mut Cpu, pkt: &mut Pkt, next_hop: IpAddr) -> Next {
    let key = Key { ifindex: pkt.outif, addr: next_hop };
    match cpu.neigh.copies.link_addrs(&key) {
        Some(addrs) => encapsulate(pkt, &addrs),
        None => link_group(cpu, pkt, next_hop),
    }
}

/// Keeps a packet until its next hop's link address is known.
///
/// Next   [`ifq`](crate::out::ifq) later, or [`icmp::answer`](crate::ip::icmp::answer) when the neighbour does not answer.
/// Drops  [`DropReason::NeighHoldFull`], [`DropReason::NeighTableFull`], [`DropReason::InterfaceGone`].
pub fn hold(cpu: &mut Cpu, pkt: Pkt) {
    if cpu.tables.ifnet(pkt.outif).is_none() {
        return cpu.drop_pkt(pkt, DropReason::InterfaceGone);
    }
    let next_hop = next_hop(&cpu.tables, &pkt);
    hold_for(cpu, pkt, next_hop);
}

/// [`hold`], where the next hop is not the one that the packet's route names.
pub(crate) fn hold_for(cpu: &mut Cpu, pkt: Pkt, next_hop: IpAddr) {
    let key = Key { ifindex: pkt.outif, addr: next_hop };
    if cpu.watched && trace::held(cpu, key.ifindex, next_hop) {
        return cpu.pool.give(pkt);
    }
    replicas::hold(cpu, key, pkt);
}

/// Returns the number of neighbours whose use is to be reported at the end of the turn.
pub(crate) fn uses(cpu: &Cpu) -> usize {
    cpu.neigh.copies.used()
}

/// Takes back all uses of neighbours but so many, after a dry run.
pub(crate) fn take_back(cpu: &mut Cpu, used: usize) {
    cpu.neigh.copies.take_back(used);
}

/// Looks for a neighbour that a packet would have gone to, though it goes elsewhere.
pub fn seek(cpu: &mut Cpu, key: Key) {
    replicas::seek(cpu, key);
}

/// Handles a message from another CPU.
pub fn message(cpu: &mut Cpu, msg: Msg) {
    match msg {
        Msg::Wanted { key, from } => owner::wanted(cpu, key, from),
        Msg::Used { key } => owner::used(cpu, key),
        Msg::Doubted { key } => owner::doubted(cpu, key),
        Msg::Redirected { key, mac, is_router } => heard(cpu, key, NeighMessage::Redirect { mac, is_router }),
        Msg::Known { key, mac, stale } => replicas::known(cpu, key, mac, stale),
        Msg::Failed { key } => replicas::failed(cpu, key),
        Msg::Gone { key } => replicas::gone(cpu, key, DropReason::NeighTableFull),
    }
}

/// The timer of the entries that this CPU owns.
pub fn timer(cpu: &mut Cpu) {
    owner::timer(cpu);
}

/// Tells the owners which stale copies were used in this turn.
pub fn roll_up(cpu: &mut Cpu) {
    while let Some(key) = cpu.neigh.copies.next_used() {
        let owner = cpu.placement.owner_of(key.addr);
        tell(cpu, owner, Msg::Used { key });
    }
}

/// Forgets the neighbours of interfaces that are gone or down, and those that are on no prefix of theirs any more.
pub fn tables_changed(cpu: &mut Cpu) {
    replicas::tables_changed(cpu);
    owner::tables_changed(cpu);
}

/// Something was sent to a neighbour past its copy, on the CPU that owns its entry.
//= https://www.rfc-editor.org/rfc/rfc4861#section-7.3.3
//# The first time a node sends a packet to a neighbor whose entry is STALE, the sender changes the state to DELAY and sets a timer to expire in DELAY_FIRST_PROBE_TIME seconds.
pub(crate) fn used(cpu: &mut Cpu, key: Key) {
    owner::used(cpu, key);
}

/// Nothing comes back of what is sent by way of a neighbour, which is to be asked whether it is still there.
pub(crate) fn doubted(cpu: &mut Cpu, key: Key) {
    let owner = cpu.placement.owner_of(key.addr);
    tell(cpu, owner, Msg::Doubted { key });
}

/// A redirect says the link address of the neighbour that it leads to.
pub(crate) fn redirected(cpu: &mut Cpu, key: Key, mac: Mac, is_router: bool) {
    let owner = cpu.placement.owner_of(key.addr);
    tell(cpu, owner, Msg::Redirected { key, mac, is_router });
}

fn tell(cpu: &mut Cpu, to: CpuId, msg: Msg) {
    if to == cpu.id { message(cpu, msg) } else { cpu.peers.send(to, crate::turn::msg::Msg::Neigh(msg)) }
}

/// Destination and source, as they begin a link header.
pub(crate) type LinkAddrs = [u8; LINK_ADDRS];
/// Bytes of them.
pub(crate) const LINK_ADDRS: usize = 12;
/// Link addresses in the header of a tunnel's packets: its link has none.
pub(crate) const NO_LINK_ADDRS: LinkAddrs = [0; LINK_ADDRS];

fn link_addrs(dst: Mac, ifnet: &Ifnet) -> LinkAddrs {
    let mut addrs = [0; 12];
    addrs[..6].copy_from_slice(&dst.octets());
    addrs[6..].copy_from_slice(&ifnet.mac.octets());
    addrs
}

#[inline]
fn encapsulate(pkt: &mut Pkt, addrs: &LinkAddrs) -> Next {
    // The packet's own family, not the next hop's: an IPv4 route may lead over an IPv6 neighbour (RFC 8950).
    let ethertype = if pkt.window(0)[0] >> 4 == 4 { EtherType::IPV4 } else { EtherType::IPV6 };
    ether::encapsulate(pkt, addrs, ethertype)
}

/// Groups and broadcasts are not looked for: their link address follows from theirs. A tunnel has one other end.
#[cold]
fn link_group(cpu: &Cpu, pkt: &mut Pkt, next_hop: IpAddr) -> Next {
    let Some(ifnet) = cpu.tables.ifnet(pkt.outif) else { return Next::Drop(DropReason::InterfaceGone) };
    if ifnet.kind.is_point_to_point() {
        return encapsulate(pkt, &NO_LINK_ADDRS);
    }
    match group_mac(ifnet, next_hop) {
        Some(mac) => encapsulate(pkt, &link_addrs(mac, ifnet)),
        None => Next::Resolve,
    }
}

fn group_mac(ifnet: &Ifnet, addr: IpAddr) -> Option<Mac> {
    match addr {
        IpAddr::V6(group) => wire::addr::multicast_mac_v6(group),
        IpAddr::V4(all) if all.is_broadcast() || ifnet.broadcasts().any(|addr| addr == all) => {
            Some(Mac::BROADCAST)
        }
        IpAddr::V4(group) => wire::addr::multicast_mac_v4(group),
    }
}

/// Where a packet with its `outif` goes: over the gateway that the route to its destination names on that link, else
/// to the destination itself.
fn next_hop(tables: &Tables, pkt: &Pkt) -> IpAddr {
    use crate::fib::{To, flow_hash};
    let is_v4 = pkt.window(0)[0] >> 4 == 4;
    let dst: IpAddr = if is_v4 { crate::ip::ip4::dst(pkt).into() } else { crate::ip::ip6::dst(pkt).into() };
    match tables.hop(tables.fib_of(pkt), dst, || flow_hash(pkt)).to {
        To::Gateway { ifindex, via } if ifindex == pkt.outif && !is_link_local(dst) => via,
        _ => dst,
    }
}

const fn is_link_local(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => addr.is_link_local(),
        IpAddr::V6(addr) => addr.is_unicast_link_local(),
    }
}

/// Whether `key` can be a neighbour: on a link that is up, and in a prefix or a route that says it is on that link.
pub(crate) fn is_on_link(tables: &Tables, key: &Key) -> bool {
    use crate::fib::To;
    let Some(ifnet) = tables.ifnet(key.ifindex).filter(|ifnet| ifnet.up) else { return false };
    let link_local6 = matches!(key.addr, IpAddr::V6(addr) if addr.is_unicast_link_local());
    link_local6
        || ifnet.is_on_link(key.addr)
        || tables.hop(ifnet.fib, key.addr, || 0).to == To::OnLink { ifindex: key.ifindex }
}

impl Hash for Key {
    /// Two words instead of the discriminants and lengths that the derived one writes: this is on the fast path.
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.addr {
            IpAddr::V4(addr) => state.write_u64(u64::from(addr.to_bits()) << 16 | u64::from(self.ifindex)),
            IpAddr::V6(addr) => {
                state.write_u128(addr.to_bits());
                state.write_u16(self.ifindex);
            }
        }
    }
}

#[cfg(test)]
mod tests;
