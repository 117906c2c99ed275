//! Construction of a netisr, and its control messages: rings come and go, tables are replaced, CPUs are asked.

use std::sync::Arc;

use pkt::notify_bits::Flag;
use pkt::{Flags, Pool};

use super::{Netisr, Polling, Work};
use crate::base::count::{Counters, CountersReader};
use crate::base::drop::DropReason;
use crate::base::secret::Secret;
use crate::base::time::Instant;
use crate::firewall::{self, Firewall, Hooks};
use crate::flow::{Flows, offloader};
use crate::host::app::{App, AppId, Apps};
use crate::host::dgram::{self, membership::Memberships};
use crate::host::sock::Error;
use crate::host::{ping, tcp};
use crate::ip::addr::Addrs;
use crate::ip::adj::Adjs;
use crate::ip::cached_route::CachedRoutes;
use crate::ip::group::Groups;
use crate::ip::host_cache::{self, HostCache};
use crate::ip::icmp::Icmp;
use crate::ip::ip6::autoconf::{self, Autoconf};
use crate::ip::ip6::rtadv::{self, Rtadv};
use crate::ip::neigh::Neigh;
use crate::ip::pmtu::{self, Paths};
use crate::ip::reass::Reass;
use crate::ip::{addr, group, neigh, snoop_io, stp_io};
use crate::link::fdb;
use crate::link::tables::Tables;
use crate::out::ifq;
use crate::out::ifq::Ifqs;
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::msg::{Broadcast, Inbox, Msg, Peers};
use crate::turn::next::Stamp;
use crate::turn::rss::Placement;
use crate::turn::timers::Timers;

/// The parts of a CPU.
pub struct Parts {
    /// Which CPU it is.
    pub id: CpuId,
    /// CPUs in all.
    pub cpus: u16,
    /// Its buffers.
    pub pool: Pool,
    /// Its ways to the others.
    pub peers: Peers,
    /// Its ways from the others.
    pub inbox: Inbox,
    /// Its own key: drawn from entropy by the shell, from a seed by the simulator.
    pub key: u128,
    /// Initial tables.
    pub tables: Arc<Tables>,
}

/// The part of a running CPU that any thread may read.
#[derive(Clone)]
pub struct Shared {
    /// Its counters.
    pub counters: CountersReader,
}

impl Netisr {
    /// Puts a CPU together.
    #[must_use]
    pub fn new(parts: Parts) -> (Self, Shared) {
        let (counters, placement) = (Counters::default(), Placement::new(parts.cpus));
        let mut ifqs = Ifqs::new(parts.key, parts.pool.total());
        ifqs.tables_changed(&parts.tables, Instant::START);
        let shared = Shared { counters: counters.reader() };
        let cpu = Cpu {
            id: parts.id,
            now: Instant::START,
            placement,
            share: placement.share(parts.id),
            stamp: Stamp::of(parts.tables.generation),
            epoch: 0,
            takes_detour: !parts.tables.fib.is_alone(),
            tables: parts.tables,
            pool: parts.pool,
            ifqs,
            peers: parts.peers,
            routes: CachedRoutes::default(),
            adjs: Adjs::default(),
            hooks: Hooks::default(),
            firewall: None,
            flows: None,
            offloads: false,
            neigh: Neigh::new(parts.key),
            fdb: None,
            trees: None,
            snooping: None,
            storms: std::collections::BTreeMap::new(),
            timers: Timers::default(),
            addrs: Addrs::default(),
            groups: Groups::default(),
            autoconf: Autoconf::default(),
            rtadv: Rtadv::default(),
            dests: HostCache::new(parts.key),
            paths: Paths::new(parts.key),
            reass: Reass::new(parts.key),
            tcp: None,
            opener: tcp::Opener::default(),
            udp: None,
            raw: None,
            dhcp: None,
            pppoe: None,
            sysctls: Box::default(),
            ports: None,
            icmp: Icmp::default(),
            pings: ping::Waiters::default(),
            memberships: Memberships::default(),
            secret: Secret::new(parts.key),
            loopback: std::collections::VecDeque::new(),
            punts: crate::ip::punt::Punts::default(),
            decapsulated: Vec::new(),
            captures: None,
            packets: None,
            tracer: None,
            watched: false,
            counters,
        };
        let mut netisr = Self {
            cpu,
            rings: Vec::new(),
            polling: Polling::default(),
            inbox: parts.inbox,
            work: Work::default(),
            programs: Apps::new(),
        };
        netisr.begin_with_tables();
        (netisr, shared)
    }

    /// Tells the stages that work by themselves which interfaces there are.
    fn begin_with_tables(&mut self) {
        let Self { cpu, .. } = self;
        fdb::tables_changed(cpu);
        stp_io::tables_changed(cpu);
        snoop_io::tables_changed(cpu);
        addr::tables_changed(cpu);
        group::tables_changed(cpu);
        autoconf::tables_changed(cpu);
        rtadv::tables_changed(cpu);
    }

    /// Replaces interfaces, addresses and routes.
    pub fn set_tables(&mut self, tables: Arc<Tables>) {
        if rtadv::tables_will_change(&mut self.cpu, &tables) {
            self.transmit(true);
        }
        self.cpu.ifqs.tables_changed(&tables, self.cpu.now);
        ifq::drop_pending(&mut self.cpu);
        self.cpu.restamp(Stamp::of(tables.generation));
        self.cpu.tables = tables;
        self.settle_detour();
        self.cpu.adjs.make_all_stale();
        neigh::tables_changed(&mut self.cpu);
        fdb::tables_changed(&mut self.cpu);
        stp_io::tables_changed(&mut self.cpu);
        snoop_io::tables_changed(&mut self.cpu);
        addr::tables_changed(&mut self.cpu);
        dgram::membership::tables_changed(&mut self.cpu);
        group::tables_changed(&mut self.cpu);
        autoconf::tables_changed(&mut self.cpu);
        rtadv::tables_changed(&mut self.cpu);
        host_cache::tables_changed(&mut self.cpu);
    }

    /// Puts another configuration in force, in one step between two packets: tables, and rules if there are any. No packet meets
    /// half of one and half of the other: those between two hooks of the firewall go no further.
    ///
    /// All CPUs get it one after the other. What they hand to each other meanwhile bears the [`Stamp`] of its tables.
    pub fn reconfigure(&mut self, tables: Arc<Tables>, firewall: Option<&firewall::Shared>) {
        self.cpu.epoch = self.cpu.epoch.wrapping_add(1);
        self.bury_between_hooks();
        // What the tables make this CPU send meets the new rules.
        firewall.into_iter().for_each(|shared| self.set_firewall(shared));
        self.set_tables(tables);
    }

    /// Ends packets that have met some rules and not all: in pieces, from us to us. Those in pipes, and those on their way to
    /// another CPU, are known by their epoch when they come out.
    ///
    /// Drops  [`DropReason::Reconfigured`].
    fn bury_between_hooks(&mut self) {
        let cpu = &mut self.cpu;
        // Others in that queue wait for tables, and have met nothing.
        let (between, wait): (Vec<_>, Vec<_>) =
            cpu.loopback.drain(..).partition(|pkt| pkt.flags.has(Flags::LOCAL));
        cpu.loopback.extend(wait);
        for pkt in between.into_iter().chain(cpu.reass.drain()) {
            cpu.drop_pkt(pkt, DropReason::Reconfigured);
        }
    }

    /// Remembers up to `flows` flows of each family from now on: fast forwarding. `None` forgets them all.
    pub fn set_flows(&mut self, flows: Option<usize>) {
        let flows = flows.map(|flows| Box::new(Flows::new(flows, &self.cpu.secret)));
        let before = core::mem::replace(&mut self.cpu.flows, flows);
        offloader::move_to(&mut self.cpu, before);
        self.settle_detour();
    }

    /// Puts the rules of the firewall in force, in place of those before. With none that any packet can meet, packets
    /// meet none; what is remembered of flows stays.
    pub fn set_firewall(&mut self, shared: &firewall::Shared) {
        let (id, cpus, key) = (self.cpu.id, self.cpu.placement.cpus(), self.cpu.secret.draw());
        let (now, buffers) = (self.cpu.now, self.cpu.pool.total());
        let firewall = self
            .cpu
            .firewall
            .get_or_insert_with(|| Box::new(Firewall::new(shared, id, cpus, buffers, key.into())));
        firewall.set(shared, now, &mut self.cpu.secret);
        self.cpu.hooks = firewall.hooks();
        firewall::pipe_io::bury_dropped(&mut self.cpu);
        self.settle_detour();
    }

    fn settle_detour(&mut self) {
        self.cpu.takes_detour =
            self.cpu.flows.is_some() || self.cpu.hooks.has_of_ip() || !self.cpu.tables.fib.is_alone();
    }

    /// Begins a program on this CPU.
    ///
    /// # Errors
    ///
    /// [`Error::TooMany`], and why the program cannot begin.
    pub fn begin(&mut self, program: Box<dyn App>) -> Result<AppId, Error> {
        self.programs.begin(&mut self.cpu, program)
    }

    /// Starts an application that threads can wake: [`crate::turn::msg::Remote::notifier`] makes a notifier of its flag.
    ///
    /// # Errors
    ///
    /// As [`Self::begin`], and [`Error::TooMany`] if no notifier is free.
    pub fn open(&mut self, program: Box<dyn App>) -> Result<(AppId, Flag), Error> {
        self.programs.open(&mut self.cpu, program)
    }

    /// Calls an application of this CPU for which another thread has left something; nothing happens if it is gone.
    pub fn call(&mut self, program: AppId) {
        self.programs.notify(&mut self.cpu, program);
    }

    /// Ends a program of this CPU: it is called no more, and what it holds is closed as if it had done so itself.
    pub fn end(&mut self, program: AppId) {
        self.programs.end(&mut self.cpu, program);
    }

    /// Tells whether no message, no packet from another CPU and no notification waits: to be checked once more before
    /// sleeping.
    #[must_use]
    pub fn inbox_is_empty(&mut self) -> bool {
        self.inbox.is_empty()
            && !self.programs.is_called()
            && self.cpu.peers.own.is_empty()
            && self.cpu.loopback.is_empty()
    }

    /// Ends everything: rings are closed, and what is still in the stack is dropped and counted. What connections and programs say
    /// in turns that follow finds no way out.
    pub fn shut_down(&mut self) {
        self.set_offload(None, offloader::AFTER_DEFAULT);
        for mut ring in self.rings.drain(..) {
            ring.driver.close(&mut self.cpu.pool);
        }
        // Without a ring nothing can be advertised any more.
        self.cpu.rtadv = Rtadv::default();
        // Of the same generation: what others hand over still must not wait for newer ones.
        self.set_tables(Arc::new(Tables { generation: self.cpu.tables.generation, ..Tables::default() }));
        let Self { cpu, inbox, .. } = self;
        let mut unread: Vec<Msg> = cpu.peers.drain().collect();
        let mut last = cpu.ifqs.drain();
        last.extend(cpu.loopback.drain(..));
        last.extend(cpu.punts.drain());
        last.append(&mut cpu.decapsulated);
        last.extend(cpu.reass.drain());
        last.extend(cpu.neigh.drain());
        last.extend(cpu.firewall.iter_mut().flat_map(|firewall| firewall.drain()));
        for from in &mut inbox.from {
            from.packets.drain(usize::MAX, |pkt| last.push(pkt));
            from.home.drain(usize::MAX, |pkt| cpu.pool.come_home(pkt));
            from.messages.drain(usize::MAX, |msg| unread.push(msg));
        }
        for msg in unread {
            match msg {
                Msg::Ring(moving) => moving.into_ring().driver.close(&mut cpu.pool),
                other => last.extend(other.into_packet()),
            }
        }
        for pkt in last {
            cpu.drop_pkt(pkt, DropReason::Shutdown);
        }
        cpu.peers.roll_up(&mut cpu.pool);
    }

    /// Own messages first, then those of the control threads, then each peer's: what a thread sent here is handled
    /// before the tour that it started afterwards, and that peers pass on, comes by.
    pub(super) fn next_message(&mut self) -> Option<Msg> {
        let Self { cpu, inbox, .. } = self;
        cpu.peers.own.pop_front().or_else(|| inbox.port.pop()).or_else(|| inbox.message_of_peer())
    }

    pub(super) fn handle(&mut self, msg: Msg) {
        match msg {
            Msg::Call(call) => call(self),
            Msg::Broadcast(tour) => self.visit(tour),
            Msg::Ring(moving) => self.arrive(*moving),
            Msg::Neigh(msg) => neigh::message(&mut self.cpu, msg),
            Msg::Addr(msg) => addr::message(&mut self.cpu, msg),
            Msg::Group(msg) => group::message(&mut self.cpu, msg),
            Msg::Autoconf(msg) => autoconf::message(&mut self.cpu, msg),
            Msg::Rtadv(ifindex) => rtadv::answer(&mut self.cpu, ifindex),
            Msg::Dest(msg) => host_cache::message(&mut self.cpu, msg),
            Msg::Path(msg) => pmtu::message(&mut self.cpu, msg),
            Msg::Snooping(msg) => snoop_io::message(&mut self.cpu, msg),
            Msg::Stp(msg) => stp_io::message(&mut self.cpu, msg),
            Msg::Fdb(msg) => fdb::message(&mut self.cpu, msg),
            Msg::Reap => firewall::reap(&mut self.cpu),
            Msg::Away(message) => firewall::handoff::message(&mut self.cpu, message),
            Msg::Redirect(notice) => firewall::handoff::notice(&mut self.cpu, &notice),
            Msg::Shape(message) => firewall::pipe_io::message(&mut self.cpu, message),
        }
    }

    fn visit(&mut self, tour: Broadcast) {
        (tour.visit)(self);
        let next = CpuId(self.cpu.id.0 + 1);
        if next.0 < self.cpu.placement.cpus() {
            self.cpu.peers.send(next, Msg::Broadcast(tour));
        } else {
            (tour.done)();
        }
    }
}

#[cfg(test)]
mod tests;
