//! Short connections through a router of several CPUs, with states and without.
//!
//! Clients and servers are [`segments`](super::segments); each CPU has a ring of both links, and gets what it owns. Time is the router's own:
//! it passes as if a given number of connections began each second, so that as many states are there at a time, and end,
//! however fast the machine is.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use net::cpu::CpuId;
use net::drop::DropReason;
use net::fib::{Prefix, Route, To};
use net::flow::FLOWS_DEFAULT;
use net::neigh;
use net::netisr::Netisr;
use net::rss::Placement;
use net::tables::{Config, Tables};
use net::time::Instant;

use super::locked::Locked;
use super::rules;
use super::segments::{EACH, End, Link, NEW, SEGMENTS, connections, server};
use crate::cpus::netisrs;
use crate::frames::{Family, GATEWAY, SENDER};
use crate::router::{GATEWAYS, IN, OUT, OUT_NET, config, gateway};
use crate::wire::Supply;

/// The firewall between clients and servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Nothing.
    None,
    /// `check-state`, `allow tcp from any to SERVERS 80 setup keep-state`, and deny: a packet that is forwarded is asked
    /// about when it comes and when it goes.
    States,
    /// Rules of [`Self::States`], with a flow cache, as a daemon with a firewall has it.
    Cached,
    /// Identical rules, evaluated once, as at a host.
    Once,
    /// One table of all CPUs under a read-write lock.
    Locked,
}

/// Their names, and what a reader is told.
pub const GUARDS: [(&str, Guard, &str); 5] = [
    ("none", Guard::None, "no firewall"),
    ("states", Guard::States, "states, asked on the way in and out"),
    ("once", Guard::Once, "states, asked on the way in"),
    ("cached", Guard::Cached, "states, asked on the way in and out, flow cache"),
    ("locked", Guard::Locked, "one table under a read-write lock"),
];

/// Time that passes before anything counts: as many states end as begin.
const SETTLING: Duration = Duration::from_secs(4);
/// After this the router's own addresses are in use.
const ADDRESSES: u32 = 120;

/// A router's CPUs.
pub struct Router {
    /// They may be moved to threads.
    pub cpus: Vec<Cpu>,
    locked: Option<Arc<Locked>>,
}

/// One of them, with its clients and servers.
pub struct Cpu {
    netisr: Netisr,
    now: Instant,
    span: Duration,
    supplies: [Supply; 2],
    heard: Arc<AtomicUsize>,
    locked: Option<Arc<Locked>>,
}

/// Time between two turns of a CPU.
#[must_use]
pub fn span(cpus: u16, per_second: u32) -> Duration {
    Duration::from_secs(NEW as u64) * cpus.into() / per_second
}

impl Router {
    /// A router that so many connections a second go through, for which all is as it will be from now on.
    ///
    /// # Errors
    ///
    /// When there is no memory, or it does not let them through.
    pub fn new(family: Family, guard: Guard, cpus: u16, per_second: u32) -> Result<Self> {
        let tables = Arc::new(tables(family)?);
        let locked = (guard == Guard::Locked).then(|| Arc::new(Locked::new()));
        let (each, span) = (per_second / u32::from(cpus), span(cpus, per_second));
        let mut all = Vec::new();
        for (id, netisr) in (0..cpus).map(CpuId).zip(netisrs(&tables, cpus, crate::router::BUFFERS)?) {
            all.push(Cpu::new(netisr, family, Placement::new(cpus), id, each, span, locked.clone())?);
        }
        if guard == Guard::Cached {
            all.iter_mut().for_each(|cpu| cpu.netisr.set_flows(Some(FLOWS_DEFAULT)));
        }
        if let Some(text) = guard.rules(family) {
            let shared = rules::shared(&text, &tables, cpus)?;
            all.iter_mut().for_each(|cpu| cpu.netisr.set_firewall(&shared));
        }
        let mut router = Self { cpus: all, locked };
        router.forward(router.turns(SETTLING));
        let (before, turns) = (router.heard(), router.turns(SETTLING / 8));
        router.forward(turns);
        let came = router.heard() - before;
        let sent = turns * usize::from(cpus) * 2 * EACH;
        ensure!(came == sent, "{guard:?}: {came} of {sent} segments came through: {:?}", router.drops());
        Ok(router)
    }

    /// Turns of each CPU, one after the other in each; answers how many segments have come through since the start.
    pub fn forward(&mut self, turns: usize) -> usize {
        for _ in 0..turns {
            self.cpus.iter_mut().for_each(|cpu| _ = cpu.turn());
        }
        self.heard()
    }

    /// Turns that so much time takes.
    #[must_use]
    pub fn turns(&self, time: Duration) -> usize {
        self.cpus.first().map_or(0, |cpu| (time.as_nanos() / cpu.span.as_nanos().max(1)) as usize)
    }

    /// States of all CPUs.
    #[must_use]
    pub fn states(&self) -> usize {
        let own = |cpu: &Cpu| cpu.netisr.cpu.firewall.as_ref().map_or(0, |firewall| firewall.states().len());
        self.locked.as_ref().map_or_else(|| self.cpus.iter().map(own).sum(), |locked| locked.len())
    }

    /// Returns the drops by reason.
    fn drops(&self) -> Vec<(DropReason, u64)> {
        let count = |reason| self.cpus.iter().map(|cpu| cpu.netisr.cpu.counters.dropped(reason)).sum();
        let all = DropReason::ALL.iter().map(|reason| (*reason, count(*reason)));
        all.filter(|(_, count)| *count > 0).collect()
    }

    fn heard(&self) -> usize {
        self.cpus.iter().map(|cpu| cpu.heard.load(Ordering::Relaxed)).sum()
    }
}

impl Cpu {
    /// Segments of a turn.
    pub const EACH_TURN: usize = 2 * EACH;

    fn new(
        mut netisr: Netisr,
        family: Family,
        placement: Placement,
        id: CpuId,
        each: u32,
        span: Duration,
        locked: Option<Arc<Locked>>,
    ) -> Result<Self> {
        // More than there are states of at a time, so that no connection begins while its former life is remembered.
        let count = each as usize * 6 / NEW * NEW + NEW * SEGMENTS;
        let ours: Arc<[_]> = connections(family, placement, id, count).into();
        let supplies = [Supply::default(), Supply::default()];
        let heard = Arc::<AtomicUsize>::default();
        for ((ifindex, end), supply) in [(IN, End::Client), (OUT, End::Server)].into_iter().zip(&supplies) {
            let counts = [Arc::clone(supply), Arc::clone(&heard)];
            let link = Link::new(family, end, Arc::clone(&ours), counts, locked.clone())?;
            netisr.attach(ifindex, Box::new(link));
        }
        let mut cpu = Self { netisr, now: Instant::START, span, supplies, heard, locked };
        let neighbours = [(IN, family.addr(0, 2), SENDER), (OUT, family.addr(OUT_NET, GATEWAYS[0]), GATEWAY)];
        for (ifindex, addr, mac) in neighbours {
            neigh::set_static(&mut cpu.netisr.cpu, neigh::Key { ifindex, addr }, mac);
        }
        for _ in 0..ADDRESSES {
            cpu.now = cpu.now + Duration::from_millis(500);
            cpu.netisr.turn(cpu.now);
        }
        Ok(cpu)
    }

    /// One turn; answers how many segments have come through since the start.
    pub fn turn(&mut self) -> usize {
        self.supplies.iter().for_each(|supply| supply.store(EACH, Ordering::Relaxed));
        self.now = self.now + self.span;
        if let Some(locked) = &self.locked {
            locked.set_time(self.now.ns() / 1_000_000);
        }
        self.netisr.turn(self.now);
        self.heard.load(Ordering::Relaxed)
    }
}

impl Guard {
    /// The guard of this name.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub fn named(name: &str) -> Result<Self> {
        let found = GUARDS.iter().find(|(known, ..)| *known == name);
        found.map(|(_, guard, _)| *guard).with_context(|| format!("nothing is called {name}"))
    }

    fn rules(self, family: Family) -> Option<String> {
        let servers = server(family);
        match self {
            Self::None | Self::Locked => None,
            Self::States | Self::Cached => {
                Some(format!("add check-state\nadd allow tcp from any to {servers} 80 setup keep-state\n"))
            }
            Self::Once => Some(format!(
                "add allow tcp from any to {servers} 80 in setup keep-state\nadd allow ip from any to any out\n"
            )),
        }
    }
}

/// Servers behind the second interface, clients behind the first.
fn tables(family: Family) -> Result<Tables> {
    let len = if family == Family::Ip4 { 16 } else { 64 };
    let clients = Prefix::new(family.source_of_flows(), len).context("no prefix")?;
    let servers = Prefix::new(server(family), family.prefix_len()).context("no prefix")?;
    let back = To::Gateway { ifindex: IN, via: family.addr(0, 2) };
    let routes = vec![Route::new(servers, gateway(family, GATEWAYS[0])), Route::new(clients, back)];
    Ok(Tables::new(Config { routes, ..config(family) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_come_through_whatever_guards_them_and_leave_nothing_behind() {
        for family in [Family::Ip4, Family::Ip6] {
            for (name, guard, _) in GUARDS {
                let mut router = Router::new(family, guard, 2, 1000).unwrap();
                let states = router.states();
                assert_eq!(states > 0, guard != Guard::None, "{name}: {states}");
                router.forward(router.turns(SETTLING));
                assert!(router.states() <= states * 11 / 10, "{name}: {states}, then {}", router.states());
            }
        }
    }
}
