//! Two hosts, and a man in the middle on their cable.

use core::sync::atomic::Ordering;

use net::cpu::Cpu;
use net::tcp::settings::Settings;
use net::tcp::{self, Connect, Id, IpTxParams, Listen, ListenerId};
use net::time::Duration;
use net::udp;

use super::Bytes;
use crate::cable;
use crate::host::{Port, Spec};
use crate::mem::Rss;
use crate::mitm::Meddler;
use crate::plan::Family;
use crate::random::Random;
use crate::world::{CableId, HostId, Permit, World};

const MS: Duration = Duration::from_millis(1);
/// Interval of the programs' checks of their connections, after the man in the middle has gone.
const PAUSE: Duration = Duration::from_millis(100);
/// Addresses are tried before.
const BOOT: Duration = Duration::from_secs(12);
/// Longest time that segments are retransmitted to a silent peer, if forged timestamps have driven the timer
/// to its most: a probe of a shut window after a minute, 13 times 64 s, and TIME-WAIT.
const DIE_OUT: Duration = Duration::from_secs(18 * 60);
/// Memory of the empty tables of one CPU.
const MEMORY_AT_REST: usize = 256 << 10;
const CPUS: u16 = 2;
/// Both hosts send back what comes here.
const ECHO: u16 = 7;
/// Milliseconds from one connection to the next; most do not live long.
const ROUNDS: usize = 3;
/// Where it goes on for long: connections that are begun at once, and those that programs hold at the most.
const AT_ONCE: usize = 16;
const HELD_MAX: usize = 128;

/// Connections and datagrams go between two hosts while a man in the middle changes them as `data` says, and then at random.
/// Nothing comes of it but counted drops: the hosts still speak with each other afterwards, and when all has ended nothing is
/// left. So many connections are begun. Answers how many packets were changed.
pub fn hosts(data: &[u8], connections: usize) -> u64 {
    let mut two = Two::meddled_with(data);
    for number in 0..connections {
        two.connect(number);
        two.rounds(ROUNDS);
    }
    two.leave().changed
}

/// Does so with many connections at once, until so many segments of TCP have been changed. Returns the number of connections
/// begun, and the drop reasons of their packets.
#[must_use]
pub fn hosts_for_long(data: &[u8], segments: u64) -> (usize, String) {
    let mut two = Two::meddled_with(data);
    let mut number = 0;
    while two.world.on(two.cable).meddler.as_ref().is_some_and(|meddler| meddler.segments < segments) {
        for _ in 0..AT_ONCE {
            two.connect(number);
            number += 1;
        }
        two.rounds(ROUNDS);
        two.let_go_of_all_but(HELD_MAX);
    }
    let drops = two.world.drops();
    two.leave();
    (number, drops)
}

/// Two hosts, and what their programs hold.
struct Two {
    world: World,
    cable: CableId,
    hosts: [HostId; 2],
    listeners: Vec<(usize, usize, ListenerId)>,
    sockets: Vec<(usize, usize, udp::Id)>,
    held: Vec<Held>,
}

/// A connection, the host and the CPU where it is, and whether its program sends back what comes.
struct Held {
    host: usize,
    at: usize,
    id: Id,
    echoes: bool,
}

impl Two {
    fn new(seed: u64) -> Self {
        let mut world = World::new("meddled", seed);
        for what in [Permit::Nonsense, Permit::Loss, Permit::Disorder] {
            world.allow(what);
        }
        let cable = world.cable(cable::Spec::default());
        let hosts = [1, 2].map(|number| {
            let port = Port::new(cable, 1, number).rings(CPUS.into(), Rss::Right);
            world.host(Spec::host(&format!("host{number}")).cpus(CPUS).port(port))
        });
        world.run_for(BOOT);
        let mut two = Self { world, cable, hosts, listeners: vec![], sockets: vec![], held: vec![] };
        for (host, at) in [0, 1].into_iter().flat_map(|host| (0..usize::from(CPUS)).map(move |at| (host, at)))
        {
            two.wait_on(host, at);
        }
        two
    }

    /// Makes two hosts with a man in the middle, controlled by `data`.
    fn meddled_with(data: &[u8]) -> Self {
        let mut bytes = Bytes { rest: data };
        let mut two = Self::new(u64::from(bytes.word()));
        let odds = 16 + bytes.byte() % 64;
        let random = two.world.random().fork();
        two.world.on(two.cable).meddler = Some(Meddler::new(bytes.rest, random, odds));
        two
    }

    /// The oldest connections end here and now.
    fn let_go_of_all_but(&mut self, count: usize) {
        let surplus = self.held.len().saturating_sub(count);
        for Held { host, at, id, .. } in self.held.drain(..surplus).collect::<Vec<_>>() {
            // It may have ended already.
            _ = self.on(host, at, |cpu| tcp::abort(cpu, id));
        }
    }

    /// Removes the man in the middle. The two speak with each other, and then go.
    fn leave(mut self) -> Meddler {
        let meddler = self.world.on(self.cable).meddler.take();
        self.talk();
        self.end();
        meddler.unwrap_or_else(|| Meddler::new(&[], Random::new(0), 0))
    }

    /// Does something on a CPU of a host, which then turns.
    fn on<R>(&mut self, host: usize, at: usize, what: impl FnOnce(&mut Cpu) -> R) -> R {
        let now = self.world.now();
        let cpu = &mut self.world.of(self.hosts[host]).cpus[at];
        cpu.netisr.cpu.now = now;
        let done = what(&mut cpu.netisr.cpu);
        cpu.bell.store(true, Ordering::Relaxed);
        done
    }

    fn wait_on(&mut self, host: usize, at: usize) {
        let (addr, settings, tx_params) =
            (([0_u16; 8], ECHO).into(), Settings::default(), IpTxParams::default());
        let listen =
            Listen { addr, zone: 0, only_v6: false, backlog: 64, is_shared: false, settings, tx_params };
        let listener = self.on(host, at, |cpu| tcp::listen(cpu, &listen));
        self.listeners.extend(listener.map(|listener| (host, at, listener)));
        let settings = udp::Settings::default();
        let bind = udp::Bind { addr, zone: 0, only_v6: false, is_shared: false, settings };
        let socket = self.on(host, at, |cpu| udp::bind(cpu, &bind));
        self.sockets.extend(socket.map(|socket| (host, at, socket)));
    }

    /// A connection from one host to the other, with something to carry.
    fn connect(&mut self, number: usize) {
        let (host, at) = (number % 2, number / 2 % usize::from(CPUS));
        let peer = if host == 0 { 2 } else { 1 };
        let remote = (Family::BOTH[number / 4 % 2].addr(1, peer), ECHO).into();
        let (settings, tx_params) =
            (Settings { keepalive: true, ..Settings::default() }, IpTxParams::default());
        let wanted = Connect { remote, local: None, port: None, zone: 0, settings, tx_params };
        if let Ok(id) = self.on(host, at, |cpu| tcp::connect(cpu, &wanted)) {
            self.held.push(Held { host, at, id, echoes: false });
        }
        let (sender, _, socket) = self.sockets[host * usize::from(CPUS) + at];
        for _ in 0..8 {
            // Without a route to its peer, a socket sends nothing.
            _ = self.on(sender, at, |cpu| udp::send_to(cpu, socket, remote, b"and back"));
        }
    }

    fn rounds(&mut self, count: usize) {
        self.rounds_of(MS, count);
    }

    fn rounds_of(&mut self, span: Duration, count: usize) {
        for _ in 0..count {
            self.world.run_for(span);
            self.serve();
        }
    }

    fn serve(&mut self) {
        for (host, at, listener) in self.listeners.clone() {
            while let Ok(accepted) = self.on(host, at, |cpu| tcp::accept(cpu, listener)) {
                self.held.push(Held { host, at, id: accepted.id, echoes: true });
            }
        }
        let held = core::mem::take(&mut self.held);
        self.held = held.into_iter().filter(|held| self.goes_on(held)).collect();
        for (host, at, socket) in self.sockets.clone() {
            let mut into = [0; 64];
            while let Ok(got) = self.on(host, at, |cpu| udp::recv(cpu, socket, &mut into)) {
                // An answer to an answer has another length, and is none.
                if got.len == 8 {
                    _ = self.on(host, at, |cpu| udp::send_to(cpu, socket, got.from, b"back"));
                }
            }
        }
    }

    /// One program's part; whether it goes on with its connection.
    fn goes_on(&mut self, held: &Held) -> bool {
        let mut into = [0; 2000];
        let id = held.id;
        let read = self.on(held.host, held.at, |cpu| tcp::read(cpu, id, &mut into));
        let bytes = match (held.echoes, read) {
            (true, Ok(count @ 1..)) => &into[..count],
            (_, Ok(0)) => return self.on(held.host, held.at, |cpu| tcp::close(cpu, id)).is_err(),
            (false, _) => &into[..500],
            (true, _) => &[],
        };
        _ = self.on(held.host, held.at, |cpu| tcp::send(cpu, id, bytes));
        let ended = self.on(held.host, held.at, |cpu| tcp::ready(cpu, id).ended);
        !ended || self.on(held.host, held.at, |cpu| tcp::close(cpu, id)).is_err()
    }

    /// Checks, without the man in the middle, that a connection carries bytes there and back.
    fn talk(&mut self) {
        // What the lies have filled, empties. Programs do little meanwhile: of a fuzzer's time, most is to be for the lies.
        self.rounds_of(PAUSE, 30);
        for family in Family::BOTH {
            let (settings, tx_params) = (Settings::default(), IpTxParams::default());
            let remote = (family.addr(1, 2), ECHO).into();
            let wanted = Connect { remote, local: None, port: None, zone: 0, settings, tx_params };
            let id = self.on(0, 0, |cpu| tcp::connect(cpu, &wanted));
            self.rounds(20);
            let came = id.and_then(|id| {
                self.on(0, 0, |cpu| tcp::send(cpu, id, b"hello"))?;
                self.rounds(60);
                let came = self.on(0, 0, |cpu| tcp::read(cpu, id, &mut [0; 9]))?;
                self.on(0, 0, |cpu| tcp::close(cpu, id)).map(|()| came)
            });
            assert_eq!(came, Ok(5), "{family:?}\n{}", self.world.drops());
        }
    }

    /// Ends all programs and checks that nothing is left.
    fn end(mut self) {
        for (host, at, listener) in core::mem::take(&mut self.listeners) {
            self.on(host, at, |cpu| tcp::unlisten(cpu, listener));
        }
        for Held { host, at, id, .. } in core::mem::take(&mut self.held) {
            // It may have ended already.
            _ = self.on(host, at, |cpu| tcp::close(cpu, id));
        }
        self.world.run_for(DIE_OUT);
        for host in self.hosts {
            let host = self.world.of(host);
            for pcbs in host.cpus.iter().filter_map(|cpu| cpu.netisr.cpu.tcp.as_ref()) {
                assert_eq!(pcbs.len(), 0, "connections are left");
                assert!(pcbs.memory() <= MEMORY_AT_REST, "{} bytes are left", pcbs.memory());
            }
            assert_eq!(host.outstanding(), 0, "buffers are left");
        }
        self.world.finish();
    }
}
