//! The state of one CPU. No other CPU touches any of it: they send messages.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pkt::{Flags, Pkt, Pool};

use crate::base::count::{Count, Counters};
use crate::base::drop::{DropReason, Fate};
use crate::base::secret::Secret;
use crate::base::time::Instant;
use crate::firewall::{Firewall, Hooks};
use crate::flow::Flows;
use crate::host::dgram::membership::Memberships;
use crate::host::dhcp::Dhcp;
use crate::host::pcb::PortCounters;
use crate::host::tcp::{self, Pcbs};
use crate::host::udp::Sockets;
use crate::host::{packet, ping, raw};
use crate::ip::addr::Addrs;
use crate::ip::adj::Adjs;
use crate::ip::cached_route::CachedRoutes;
use crate::ip::group::Groups;
use crate::ip::host_cache::HostCache;
use crate::ip::icmp::Icmp;
use crate::ip::ip6::autoconf::Autoconf;
use crate::ip::ip6::rtadv::Rtadv;
use crate::ip::neigh::Neigh;
use crate::ip::pmtu::Paths;
use crate::ip::punt::Punts;
use crate::ip::reass::Reass;
use crate::ip::snoop_io::Snooping;
use crate::ip::stp_io::Trees;
use crate::link::bridge::Storm;
use crate::link::fdb::Fdb;
use crate::link::pppoe;
use crate::link::tables::{IfIndex, Tables};
use crate::out::ifq::Ifqs;
use crate::turn::capture::{self, Captures};
use crate::turn::msg::{HANDOFF_MAX, Peers};
use crate::turn::next::{Resume, Stamp};
use crate::turn::rss::{Placement, Share};
use crate::turn::sysctl::Sysctls;
use crate::turn::timers::Timers;
use crate::turn::trace::{self, Tracer};

/// Number of a netisr CPU, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuId(pub u16);

/// All that the stages on one CPU read and write.
pub struct Cpu {
    /// Which one this is.
    pub id: CpuId,
    /// The time of this turn.
    pub now: Instant,
    /// Deals flows to CPUs.
    pub placement: Placement,
    /// Hashes that this CPU owns.
    pub share: Share,
    /// Interfaces, addresses and routes.
    pub tables: Arc<Tables>,
    /// Which tables these are, as packets say it that are handed over.
    pub stamp: Stamp,
    /// Number of changes of configuration that ended packets between two hooks ([`crate::turn::netisr::Netisr::reconfigure`]).
    pub epoch: u32,
    /// Free buffers.
    pub pool: Pool,
    /// Whether packets that are routed take a detour: past the firewall, by the flow cache, or because there are
    /// several routing tables.
    pub takes_detour: bool,
    /// Hooks of the firewall that have rules.
    pub hooks: Hooks,
    /// The firewall, once it has been asked for.
    pub firewall: Option<Box<Firewall>>,
    /// Counters of local ports, once an algorithm that has some chooses one.
    pub ports: Option<Box<PortCounters>>,
    /// Flow cache, if enabled.
    pub flows: Option<Box<Flows>>,
    /// Whether drivers may forward flows.
    pub offloads: bool,
    /// Output queues, by interface.
    pub ifqs: Ifqs,
    /// The ways to the other CPUs.
    pub peers: Peers,
    /// Adjacencies of next hops.
    pub adjs: Adjs,
    /// Cached routes of conversations from here.
    pub(crate) routes: CachedRoutes,
    /// Neighbours in use here, and those that this CPU resolves for all.
    pub neigh: Neigh,
    /// Stations that interfaces have learnt, if any learns.
    pub(crate) fdb: Option<Box<Fdb>>,
    /// Spanning trees, if a bridge has one.
    pub(crate) trees: Option<Box<Trees>>,
    /// Groups on the ports of bridges, if one snoops.
    pub(crate) snooping: Option<Box<Snooping>>,
    /// Flood limits of bridges.
    pub(crate) storms: BTreeMap<IfIndex, Storm>,
    /// Timers.
    pub timers: Timers,
    /// Our own addresses, as far as their state changes.
    pub addrs: Addrs,
    /// Multicast groups that are listened to.
    pub groups: Groups,
    /// Results of router advertisements, for the links kept by this CPU.
    pub autoconf: Autoconf,
    /// Router advertisements sent to the links kept by this CPU.
    pub rtadv: Rtadv,
    /// Destination cache.
    pub dests: HostCache,
    /// Learnt path MTUs.
    pub paths: Paths,
    /// Datagrams that wait for fragments.
    pub reass: Reass,
    /// TCP connections, from the first use on.
    pub tcp: Option<Box<Pcbs>>,
    /// Keys of Fast Open cookies.
    pub opener: tcp::Opener,
    /// UDP sockets, from the first use on.
    pub udp: Option<Box<Sockets>>,
    /// DHCP, where it is spoken.
    pub dhcp: Option<Box<Dhcp>>,
    /// PPPoE, where it is spoken.
    pub pppoe: Option<Box<pppoe::Control>>,
    /// Raw ICMP sockets, from the first use on.
    pub raw: Option<Box<raw::Sockets>>,
    /// Defaults of connections and sockets.
    pub sysctls: Box<Sysctls>,
    /// Groups that sockets listen to.
    pub(crate) memberships: Memberships,
    /// Rate limits of ICMP errors and resets.
    pub icmp: Icmp,
    /// Pings that wait for replies.
    pub(crate) pings: ping::Waiters,
    /// Random numbers, and the keys of tables.
    pub secret: Secret,
    /// Packets from us to us, for the next turn.
    pub loopback: VecDeque<Pkt>,
    /// Packets that have come out of tunnels in this chunk.
    pub(crate) decapsulated: Vec<Pkt>,
    /// Packets for twins of interfaces.
    pub(crate) punts: Punts,
    /// Captures that are attached; `None` if there is none.
    pub captures: Option<Box<Captures>>,
    /// Packet sockets, while there are any.
    pub packets: Option<Box<packet::Sockets>>,
    /// Traces packets, while one is wanted.
    pub(crate) tracer: Option<Box<Tracer>>,
    /// Whether a capture, a packet socket or a tracer is attached.
    pub watched: bool,
    /// Numbers for people.
    pub counters: Counters,
}

/// Packets from us to us that wait at the most.
const LOOPBACK_MAX: usize = 256;

impl Cpu {
    /// Whether something is attached that sees frames or packets: what [`Self::watched`] is to be.
    pub(crate) const fn is_watched(&self) -> bool {
        self.captures.is_some() || self.packets.is_some() || self.tracer.is_some()
    }

    /// Ends a packet, and counts of what.
    pub fn drop_pkt(&mut self, pkt: Pkt, reason: DropReason) {
        if self.watched {
            capture::dropped(self, &pkt, reason);
            trace::dropped(self, reason);
        }
        self.counters.drop(reason);
        self.pool.give(pkt);
    }

    /// Ends a packet on this host, and counts how it ended.
    pub(crate) fn finish(&mut self, pkt: Pkt, fate: Fate) {
        match fate {
            Ok(consumed) => {
                self.count(consumed);
                self.pool.give(pkt);
            }
            Err(reason) => self.drop_pkt(pkt, reason),
        }
    }

    /// Takes a packet from us to us in again, in the next turn, at `place`.
    ///
    /// Drops  [`DropReason::LoopbackFull`].
    pub fn loop_back(&mut self, mut pkt: Pkt, place: Resume) {
        if self.loopback.len() >= LOOPBACK_MAX {
            return self.drop_pkt(pkt, DropReason::LoopbackFull);
        }
        pkt.resume = self.stamp.on(place as u8);
        self.loopback.push_back(pkt);
    }

    /// Other tables come: what is from us to us goes on under them.
    pub(crate) fn restamp(&mut self, stamp: Stamp) {
        let Self { loopback, stamp: before, .. } = self;
        let own = loopback.iter_mut().filter(|pkt| pkt.flags.has(Flags::LOCAL));
        own.for_each(|pkt| pkt.resume = stamp.on(pkt.resume));
        *before = stamp;
    }

    /// Lets a packet wait whose tables this CPU gets next; it is looked at again in each turn.
    ///
    /// Drops  [`DropReason::Reconfigured`] if there are too many.
    pub(crate) fn wait_for_tables(&mut self, pkt: Pkt) {
        if self.loopback.len() >= HANDOFF_MAX {
            return self.drop_pkt(pkt, DropReason::Reconfigured);
        }
        self.loopback.push_back(pkt);
    }

    /// Counts one event.
    pub fn count(&mut self, event: Count) {
        self.counters.add(event, 1);
    }
}

impl core::fmt::Display for CpuId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

impl CpuId {
    /// As an index.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::Bench;

    #[test]
    fn of_too_many_packets_from_us_to_us_the_newest_die() {
        let mut bench = Bench::new(1);
        let cpu = bench.cpu();
        for _ in 0..LOOPBACK_MAX + 3 {
            let pkt = cpu.pool.take().unwrap();
            cpu.loop_back(pkt, Resume::Ip4);
        }
        assert_eq!(bench.dropped(DropReason::LoopbackFull), 3);
        assert_eq!(bench.buffers_out(), LOOPBACK_MAX);
        bench.run();
        assert_eq!(bench.buffers_out(), 0, "the others were taken in again");
    }
}
