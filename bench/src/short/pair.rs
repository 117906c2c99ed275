//! The two hosts.

use core::net::IpAddr;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use anyhow::{Result, anyhow, ensure};
use net::app::{App, AppId};
use net::count::Count;
use net::drop::DropReason;
use net::neigh;
use net::netisr::Netisr;
use net::rss::Placement;
use net::tables::{Config, IfAddr, Ifnet, Tables};
use net::tcp::settings::Settings;
use net::tcp::{IpTxParams, Listen};
use net::time::Instant;
use wire::ether::Mac;

use super::Behind;
use super::client::{Client, Pace, Seen};
use super::server::{self, Server, Serves};
use super::stream::Stream;
use crate::cable::{Kind, Traffic, cable};
use crate::cpus::netisrs;
use crate::frames::{Family, ROUTER, SENDER};
use crate::router::{IN, config};

/// Where the server waits.
pub const PORT: u16 = 80;
/// The clients' addresses: a port is not used again for one while the server remembers it.
const CLIENTS: u8 = 64;
/// Buffers of each CPU: a quarter of them may wait to be sent, which is what all connections say in one turn.
const BUFFERS: usize = 8192;
/// Connections that may wait to be accepted: more than come in a turn.
const BACKLOG: usize = 1024;
/// After so many turns in which nothing begins all addresses are in use.
const ADDRESSES: u32 = 120;

/// Parameters of two hosts.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The family of their addresses.
    pub family: Family,
    /// CPUs of each.
    pub cpus: u16,
    /// The cable between them.
    pub cable: Kind,
    /// Concurrency per CPU.
    pub pace: Pace,
    /// Continuation after a response.
    pub behind: Behind,
    /// The server's application.
    pub serves: Serves,
    /// Destination port of the clients; the server listens only at [`PORT`].
    pub port: u16,
    /// Maximum segment lifetime; TIME-WAIT lasts twice as long.
    pub msl: Duration,
    /// Between two turns.
    pub span: Duration,
}

/// Two hosts.
pub struct Pairs {
    /// They may be moved to threads.
    pub cpus: Vec<Pair>,
    /// The server's.
    pub tables: Arc<Tables>,
}

/// One CPU of each.
pub struct Pair {
    /// The client.
    pub client: Netisr,
    /// The server.
    pub server: Netisr,
    asks: Option<AppId>,
    shown: Arc<Mutex<Seen>>,
    traffic: Traffic,
    /// The time of the last turn.
    pub now: Instant,
    span: Duration,
}

impl Pairs {
    /// Two hosts whose addresses are in use, before anything begins.
    ///
    /// # Errors
    ///
    /// When there is no memory.
    pub fn new(wanted: &Wanted) -> Result<Self> {
        let &Wanted { family, cpus, .. } = wanted;
        let clients: Vec<_> = (2..).map(|host| family.addr(0, host)).take(CLIENTS.into()).collect();
        let server = family.addr(0, 1);
        let ours = netisrs(&Arc::new(tables(wanted, SENDER, &clients)), cpus, BUFFERS)?;
        let tables = Arc::new(tables(wanted, ROUTER, &[server]));
        let theirs = netisrs(&tables, cpus, BUFFERS)?;
        let cpus = ours.into_iter().zip(theirs).map(|(client, server)| Pair::new(client, server, wanted));
        let mut pairs = Self { cpus: cpus.collect::<Result<_>>()?, tables };
        pairs.meet((&clients, server), Placement::new(cpus_of(&pairs)));
        for pair in &mut pairs.cpus {
            pair.begin(wanted, &clients, server)?;
        }
        Ok(pairs)
    }

    /// Each host knows the other's link address, and all addresses become usable.
    fn meet(&mut self, (clients, server): (&[IpAddr], IpAddr), placement: Placement) {
        let known = |netisr: &mut Netisr, addr: IpAddr, mac: Mac| {
            if placement.owner_of(addr) == netisr.cpu.id {
                neigh::set_static(&mut netisr.cpu, neigh::Key { ifindex: IN, addr }, mac);
            }
        };
        for cpu in &mut self.cpus {
            known(&mut cpu.client, server, ROUTER);
            clients.iter().for_each(|client| known(&mut cpu.server, *client, SENDER));
        }
        for _ in 0..ADDRESSES {
            self.cpus.iter_mut().for_each(Pair::idle);
        }
    }

    /// Turns of each CPU, one after the other in each; `serve` is the server's.
    pub fn turn(&mut self, turns: usize, mut serve: impl FnMut(&mut Netisr, Instant)) {
        for _ in 0..turns {
            self.cpus.iter_mut().for_each(|cpu| cpu.turn(&mut serve));
        }
    }

    /// Turns until so many answers have come for each CPU; answers how many have come.
    ///
    /// # Errors
    ///
    /// When connections fail, or none comes about.
    pub fn answer(&mut self, each: usize) -> Result<usize> {
        let (all, mut answered, mut silent) = (each * self.cpus.len(), 0, 0);
        while answered < all {
            self.turn(ANSWER_TURNS, |server, now| _ = server.turn(now));
            let before = answered;
            for seen in self.cpus.iter_mut().map(Pair::seen) {
                ensure!(seen.failed == 0, "{} of {} connections failed", seen.failed, seen.begun);
                answered += seen.answered;
            }
            silent = if answered > before { 0 } else { silent + 1 };
            ensure!(silent < SILENT_MAX, "{answered} answers came, and no more");
        }
        Ok(answered)
    }

    /// Connections that the clients have begun since the start.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.cpus.iter().map(|pair| pair.client.cpu.counters.get(Count::TcpConnects)).sum()
    }

    /// Frames that have gone over all cables since the start.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.cpus.iter().map(Pair::frames).sum()
    }
}

fn cpus_of(pairs: &Pairs) -> u16 {
    u16::try_from(pairs.cpus.len()).unwrap_or(u16::MAX)
}

impl Pair {
    fn new(mut client: Netisr, mut server: Netisr, wanted: &Wanted) -> Result<Self> {
        let ([theirs, ours], traffic) = cable(wanted.cable)?;
        client.attach(IN, theirs);
        server.attach(IN, ours);
        let shown = Arc::default();
        Ok(Self { client, server, asks: None, shown, traffic, now: Instant::START, span: wanted.span })
    }

    fn begin(&mut self, wanted: &Wanted, clients: &[IpAddr], server: IpAddr) -> Result<()> {
        let settings = Settings { msl: wanted.msl, ..Settings::default() };
        let (addr, tx_params) = ((server, PORT).into(), IpTxParams::default());
        let listen =
            Listen { addr, zone: 0, only_v6: false, backlog: BACKLOG, is_shared: false, settings, tx_params };
        let answers: Box<dyn App> = match wanted.serves {
            Serves::Least => Box::new(Server::new(listen, wanted.behind)),
            Serves::Web => server::web(addr)?,
            Serves::Stream => Box::new(Stream::new(listen)),
        };
        self.server.cpu.sysctls.tcp = settings;
        self.server.begin(answers).map_err(|error| anyhow!("the server: {error}"))?;
        let how = (wanted.pace, wanted.behind, wanted.serves);
        let asks = Client::new((server, wanted.port).into(), clients, settings, how, Arc::clone(&self.shown));
        self.asks = Some(self.client.begin(Box::new(asks)).map_err(|error| anyhow!("the client: {error}"))?);
        Ok(())
    }

    /// A turn in which nothing begins.
    fn idle(&mut self) {
        self.now = self.now + Duration::from_millis(500);
        self.client.turn(self.now);
        self.server.turn(self.now);
    }

    /// One turn of both; `serve` is the server's.
    pub fn turn(&mut self, serve: impl FnOnce(&mut Netisr, Instant)) {
        self.now = self.now + self.span;
        self.client.turn(self.now);
        serve(&mut self.server, self.now);
    }

    /// Returns and resets the client's results.
    pub fn seen(&mut self) -> Seen {
        if let Some(asks) = self.asks {
            self.client.call(asks);
        }
        self.shown.lock().map(|mut shown| core::mem::take(&mut *shown)).unwrap_or_default()
    }

    /// Frames that have gone over its cable since the start.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.traffic.frames()
    }

    /// Returns the server's drops, by reason.
    #[must_use]
    pub fn drops(&self) -> Vec<u64> {
        let counters = &self.server.cpu.counters;
        DropReason::ALL.iter().map(|reason| counters.dropped(*reason)).collect()
    }
}

/// Turns after which some answers have come, as a rule; and how often not even one may, because something was lost.
const ANSWER_TURNS: usize = 64;
const SILENT_MAX: usize = 1000;

/// One interface with these addresses.
fn tables(wanted: &Wanted, mac: Mac, addrs: &[IpAddr]) -> Tables {
    let prefix_len = wanted.family.prefix_len();
    let addrs = addrs.iter().map(|addr| IfAddr { addr: *addr, prefix_len }).collect();
    let Config { ifs, .. } = config(wanted.family);
    let caps = wanted.cable.caps();
    let ifs = ifs.into_iter().take(1);
    let ifs = ifs.map(|ifnet| Ifnet { mac, caps, addrs: Vec::clone(&addrs), ..ifnet }).collect();
    Tables::new(Config { generation: 1, ifs, forwarding: false, ..Config::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(family: Family, cpus: u16, pace: Pace, behind: Behind) -> Wanted {
        let (msl, span) = (Duration::from_millis(20), Duration::from_micros(50));
        let serves = Serves::Least;
        Wanted { family, cpus, cable: Kind::Plain, pace, behind, serves, port: PORT, msl, span }
    }

    #[test]
    fn each_question_is_answered_on_every_cpu_and_connections_that_are_over_are_forgotten() {
        for family in [Family::Ip4, Family::Ip6] {
            for behind in [Behind::Close, Behind::Ask] {
                let mut pairs = Pairs::new(&wanted(family, 2, Pace::Concurrent(40), behind)).unwrap();
                assert!(pairs.answer(400).unwrap() >= 800);
                // A turn is 50 µs long, and what ends waits for 40 ms.
                let remembered = |pair: &Pair| pair.server.cpu.tcp.as_ref().map_or(0, |pcbs| pcbs.len());
                pairs.turn(1000, |server, now| _ = server.turn(now));
                let before: Vec<_> = pairs.cpus.iter().map(remembered).collect();
                pairs.turn(1000, |server, now| _ = server.turn(now));
                for (pair, before) in pairs.cpus.iter().zip(before) {
                    assert!(remembered(pair) <= before * 11 / 10, "{} after {before}", remembered(pair));
                }
            }
        }
    }
}
