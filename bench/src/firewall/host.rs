//! Short connections to a host of several CPUs: what states cost where a segment is not only forwarded.
//!
//! Clients and servers are hosts of ours, with a program each, and a [cable](super::cable) between any two of their CPUs. A
//! connection is a handshake, a question, an answer of a kilobyte, both goodbyes and TIME-WAIT at the server, which closes
//! first. Only what the server does is counted. Time is the hosts' own, as in [`connections`](super::connections).

mod program;

use core::net::IpAddr;
use core::time::Duration;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use net::drop::DropReason;
use net::netisr::Netisr;
use net::rss::Placement;
use net::tables::{Config, IfAddr, Ifnet, Tables};
use net::time::Instant;
use net::{neigh, tcp};
use wire::ether::Mac;

use self::program::Client;
pub use self::program::Server;
use super::cable::{Traffic, cable};
use super::rules;
use super::talk::{NEW, PORT};
use crate::cpus::netisrs;
use crate::frames::{Family, ROUTER, SENDER};
use crate::router::{IN, config};

/// What stands before the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Nothing.
    None,
    /// Rules that affect no packet.
    Empty,
    /// `check-state`, `allow tcp from any to me 80 setup keep-state`, and deny: a segment is asked about when it comes, and
    /// one that answers when it goes.
    States,
}

/// Their names, and what a reader is told.
pub const GUARDS: [(&str, Guard, &str); 3] = [
    ("none", Guard::None, "no firewall"),
    ("empty", Guard::Empty, "rules that affect no packet"),
    ("states", Guard::States, "states"),
];

/// The clients' addresses: a port is not used again for one while the server remembers it.
const CLIENTS: u8 = 64;
/// How long segments live, so that TIME-WAIT lasts twice as long.
const MSL: Duration = Duration::from_secs(1);
/// Time that passes before anything counts: as many connections are forgotten as begin, and as many states end.
const SETTLING: Duration = Duration::from_secs(4);
/// After this all addresses are in use.
const ADDRESSES: u32 = 120;

/// Two hosts.
pub struct Hosts {
    /// They may be moved to threads.
    pub cpus: Vec<Cpu>,
}

/// One CPU of each.
pub struct Cpu {
    client: Client,
    server: Server,
    traffic: Traffic,
    now: Instant,
    span: Duration,
}

impl Hosts {
    /// Two hosts between which so many connections begin in a second, and for which all is as it will be from now on.
    ///
    /// # Errors
    ///
    /// When there is no memory, or connections fail.
    pub fn new(family: Family, guard: Guard, cpus: u16, per_second: u32) -> Result<Self> {
        let clients: Vec<_> = (2..).map(|host| family.addr(0, host)).take(CLIENTS.into()).collect();
        let server = family.addr(0, 1);
        let tables = Arc::new(tables(family, SENDER, &clients));
        let ours = netisrs(&tables, cpus)?;
        let tables = Arc::new(self::tables(family, ROUTER, &[server]));
        let theirs = netisrs(&tables, cpus)?;
        let span = Duration::from_secs(NEW as u64) * cpus.into() / per_second;
        let pairs = ours
            .into_iter()
            .zip(theirs)
            .map(|(client, server_of)| Cpu::new((client, &clients), (server_of, server), span));
        let mut hosts = Self { cpus: pairs.collect::<Result<_>>()? };
        hosts.meet((&clients, server), Placement::new(cpus));
        if let Some(text) = guard.rules() {
            let shared = rules::shared(text, &tables, cpus)?;
            hosts.cpus.iter_mut().for_each(|cpu| cpu.server.netisr.set_firewall(&shared));
        }
        let before: Vec<_> = hosts.cpus.iter().map(Cpu::drops).collect();
        hosts.turn(hosts.turns(SETTLING), Server::turn);
        hosts.cpus.iter().zip(before).try_for_each(|(cpu, before)| cpu.check(&before))?;
        Ok(hosts)
    }

    /// Each host knows the other's link address, and all addresses become usable.
    fn meet(&mut self, (clients, server): (&[IpAddr], IpAddr), placement: Placement) {
        let known = |netisr: &mut Netisr, addr: IpAddr, mac: Mac| {
            if placement.owner_of(addr) == netisr.cpu.id {
                neigh::set_static(&mut netisr.cpu, neigh::Key { ifindex: IN, addr }, mac);
            }
        };
        for cpu in &mut self.cpus {
            known(&mut cpu.client.netisr, server, ROUTER);
            clients.iter().for_each(|client| known(&mut cpu.server.netisr, *client, SENDER));
        }
        for _ in 0..ADDRESSES {
            self.cpus.iter_mut().for_each(Cpu::idle);
        }
    }

    /// Turns of each CPU, one after the other in each; `serve` is the server's.
    pub fn turn(&mut self, turns: usize, mut serve: impl FnMut(&mut Server, Instant)) {
        for _ in 0..turns {
            self.cpus.iter_mut().for_each(|cpu| cpu.turn(&mut serve));
        }
    }

    /// Segments that have come to the server and gone from it since the start.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.cpus.iter().map(Cpu::segments).sum()
    }

    /// Turns that so much time takes.
    #[must_use]
    pub fn turns(&self, time: Duration) -> usize {
        self.cpus.first().map_or(0, |cpu| (time.as_nanos() / cpu.span.as_nanos().max(1)) as usize)
    }

    /// States of all CPUs, and connections in whatever state they are.
    #[must_use]
    pub fn remembered(&self) -> (usize, usize) {
        let states = |cpu: &net::cpu::Cpu| cpu.firewall.as_ref().map_or(0, |wall| wall.states().len());
        let pcbs = |cpu: &net::cpu::Cpu| cpu.tcp.as_ref().map_or(0, |pcbs| pcbs.len());
        let all = self.cpus.iter().map(|cpu| &cpu.server.netisr.cpu);
        all.fold((0, 0), |(sum, pcb_sum), cpu| (sum + states(cpu), pcb_sum + pcbs(cpu)))
    }
}

impl Cpu {
    fn new(
        (mut client, clients): (Netisr, &[IpAddr]),
        (mut server, addr): (Netisr, IpAddr),
        span: Duration,
    ) -> Result<Self> {
        let ([theirs, ours], traffic) = cable();
        client.attach(IN, Box::new(theirs));
        server.attach(IN, Box::new(ours));
        let settings = tcp::settings::Settings { msl: MSL, ..Default::default() };
        Ok(Self {
            client: Client::new(client, clients, (addr, PORT).into(), settings),
            server: Server::new(server, (addr, PORT).into(), settings)?,
            traffic,
            now: Instant::START,
            span,
        })
    }

    /// A turn in which nothing begins.
    fn idle(&mut self) {
        self.now = self.now + Duration::from_millis(500);
        self.client.netisr.turn(self.now);
        self.server.netisr.turn(self.now);
    }

    /// One turn of both hosts; `serve` is the server's.
    pub fn turn(&mut self, serve: impl FnOnce(&mut Server, Instant)) {
        self.now = self.now + self.span;
        self.client.turn(self.now, NEW);
        serve(&mut self.server, self.now);
    }

    /// Segments that have come to the server and gone from it since the start.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.traffic.frames()
    }

    /// Whether all connections have come to an end but the latest, and no packet has died that was to be served.
    fn check(&self, before: &[u64]) -> Result<()> {
        let (begun, served) = (self.client.begun(), self.server.served());
        ensure!(begun - served <= 8 * NEW, "{served} of {begun} connections are served");
        let lost = DropReason::ALL.iter().zip(self.drops()).zip(before);
        let lost: Vec<_> =
            lost.filter(|((_, now), before)| now != *before).map(|((reason, _), _)| reason).collect();
        ensure!(lost.is_empty(), "{lost:?}");
        Ok(())
    }

    /// What has died at the server, by reason.
    fn drops(&self) -> Vec<u64> {
        let counters = &self.server.netisr.cpu.counters;
        DropReason::ALL.iter().map(|reason| counters.dropped(*reason)).collect()
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

    const fn rules(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Empty => Some("add allow ip from any to any\n"),
            Self::States => Some(
                "add check-state\nadd allow tcp from any to me 80 setup keep-state\nadd deny ip from any to any\n",
            ),
        }
    }
}

/// One interface with these addresses.
fn tables(family: Family, mac: Mac, addrs: &[IpAddr]) -> Tables {
    let prefix_len = family.prefix_len();
    let addrs = addrs.iter().map(|addr| IfAddr { addr: *addr, prefix_len }).collect();
    let Config { ifs, .. } = config(family);
    let ifs =
        ifs.into_iter().take(1).map(|ifnet| Ifnet { mac, addrs: Vec::clone(&addrs), ..ifnet }).collect();
    Tables::new(Config { generation: 1, ifs, routes: Vec::new(), forwarding: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_served_whatever_guards_the_server_and_leave_nothing_behind() {
        for family in [Family::Ip4, Family::Ip6] {
            for (name, guard, _) in GUARDS {
                let mut hosts = Hosts::new(family, guard, 2, 1000).unwrap();
                let (states, connections) = hosts.remembered();
                assert_eq!(states > 0, guard == Guard::States, "{name}: {states}");
                hosts.turn(hosts.turns(SETTLING), Server::turn);
                let after = hosts.remembered();
                assert!(after.0 <= states * 11 / 10 && after.1 <= connections * 11 / 10, "{name}: {after:?}");
            }
        }
    }

    #[test]
    fn whoever_asks_another_port_is_not_served() {
        let mut hosts = Hosts::new(Family::Ip4, Guard::States, 1, 1000).unwrap();
        let before = hosts.cpus[0].server.netisr.cpu.counters.dropped(DropReason::FirewallDeny);
        hosts.cpus[0].client.ask(8080);
        hosts.turn(2, Server::turn);
        let after = hosts.cpus[0].server.netisr.cpu.counters.dropped(DropReason::FirewallDeny);
        assert!(after >= before + NEW as u64);
    }
}
