//! Connections between two hosts, over cables that lose, double and reorder: every byte arrives, on the CPU that owns the
//! connection, and nothing is left behind. The cables break nothing: two bits that flip may leave TCP's checksum as it was.

#![expect(clippy::unwrap_used, reason = "a world that cannot begin has failed")]

mod states;

use core::net::SocketAddr;
use std::collections::BTreeMap;

use net::count::Count;
use net::cpu::Cpu;
use net::driver::Caps;
use net::drop::DropReason;
use net::sock::Error;
use net::tcp::settings::Settings;
use net::tcp::{self, Connect, Id, IpTxParams, Listen, ListenerId};
use net::time::Duration;
use sim::cable;
use sim::host::{Port, Spec};
use sim::plan::Family;
use sim::world::{HostId, Permit, World};

use crate::common::{BOOT, Shape, on, seeds};

const MS: Duration = Duration::from_millis(1);

/// Two hosts on a cable, and what their programs do.
struct Talks {
    world: World,
    client: HostId,
    server: HostId,
    listeners: Vec<ListenerId>,
    /// Settings of the client's connections.
    settings: Settings,
    talks: BTreeMap<SocketAddr, Talk>,
}

/// A connection, by the client's end: how much goes each way, and how far it is.
struct Talk {
    number: usize,
    up: Direction,
    down: Direction,
    client: Option<(usize, Id)>,
    server: Option<(usize, Id)>,
}

/// One direction of a connection.
#[derive(Clone, Copy)]
struct Direction {
    total: usize,
    sent: usize,
    is_shut: bool,
    read: usize,
    is_over: bool,
}

impl Direction {
    fn new(total: usize) -> Self {
        Self { total, sent: 0, is_shut: false, read: 0, is_over: false }
    }

    /// Sends what there is room for, and ends the stream behind the last byte.
    fn push(&mut self, cpu: &mut Cpu, id: Id, salt: usize) {
        while self.sent < self.total {
            let bytes: Vec<u8> =
                (self.sent..self.total.min(self.sent + 4000)).map(|at| byte(at, salt)).collect();
            match tcp::send(cpu, id, &bytes) {
                Ok(count) => self.sent += count,
                Err(error) => {
                    let so_far = (self.sent, self.total);
                    return assert_eq!(error, Error::WouldBlock, "after {so_far:?} bytes");
                }
            }
        }
        let stands =
            tcp::connection(cpu, id).is_some_and(|(_, tcb)| tcb.state() >= tcp::tcb::State::Established);
        if !self.is_shut && stands {
            assert_eq!(tcp::shutdown(cpu, id), Ok(()));
            self.is_shut = true;
        }
    }

    /// Reads what there is, which must be what was sent.
    fn pull(&mut self, cpu: &mut Cpu, id: Id, salt: usize) {
        let mut bytes = [0; 3000];
        while !self.is_over {
            match tcp::read(cpu, id, &mut bytes) {
                Ok(0) => self.is_over = true,
                Ok(count) => {
                    let right = bytes[..count].iter().zip(self.read..).all(|(is, at)| *is == byte(at, salt));
                    assert!(right, "other bytes than were sent, behind byte {}", self.read);
                    self.read += count;
                }
                Err(error) => {
                    let so_far = (self.read, self.total);
                    return assert_eq!(error, Error::WouldBlock, "after {so_far:?} bytes");
                }
            }
        }
        assert_eq!(self.read, self.total, "the stream has ended");
    }
}

/// The byte that stands there.
fn byte(at: usize, salt: usize) -> u8 {
    (at.wrapping_mul(31) ^ at >> 8 ^ salt).to_le_bytes()[0]
}

impl Talks {
    fn new(name: &str, seed: u64, shape: Shape, spec: cable::Spec) -> Self {
        Self::with(name, seed, shape, spec, Caps { buffers_max: 1, ..Caps::default() })
    }

    fn with(name: &str, seed: u64, shape: Shape, spec: cable::Spec, caps: Caps) -> Self {
        Self::behaving(name, seed, shape, (spec, caps), Settings::default())
    }

    fn behaving(
        name: &str,
        seed: u64,
        shape: Shape,
        (spec, caps): (cable::Spec, Caps),
        settings: Settings,
    ) -> Self {
        let mut world = World::new(name, seed);
        world.allow(Permit::Loss);
        world.allow(Permit::Disorder);
        let cable = world.cable(spec);
        let host = |name: &str, host: u8| {
            let port = Port::new(cable, 1, host).rings(shape.rings, shape.rss).card(|card| card.caps = caps);
            Spec::host(name).cpus(shape.cpus).buffers(4096).port(port)
        };
        let (client, server) = (world.host(host("client", 1)), world.host(host("server", 2)));
        world.run_for(BOOT);
        let any = [0_u16; 8];
        let tx_params = IpTxParams::default();
        let (addr, only_v6) = ((any, 80).into(), false);
        let wants = Listen { addr, zone: 0, only_v6, backlog: 64, is_shared: false, settings, tx_params };
        let cpus = &mut world.of(server).cpus;
        let listeners =
            cpus.iter_mut().map(|cpu| tcp::listen(&mut cpu.netisr.cpu, &wants).unwrap()).collect();
        Self { world, client, server, listeners, settings, talks: BTreeMap::new() }
    }

    /// Does something on a CPU of a host, which then turns.
    fn on<R>(&mut self, host: HostId, at: usize, what: impl FnOnce(&mut Cpu) -> R) -> R {
        on(&mut self.world, host, at, what)
    }

    fn begin(&mut self, number: usize, family: Family, (up, down): (usize, usize)) {
        let at = number % self.listeners.len();
        let (settings, tx_params) = (self.settings, IpTxParams::default());
        let remote = (family.addr(1, 2), 80).into();
        let wanted = Connect { remote, local: None, port: None, zone: 0, settings, tx_params };
        let client = self.client;
        let mut up = Direction::new(up);
        let (id, local) = self.on(client, at, |cpu| {
            let id = tcp::connect(cpu, &wanted).unwrap();
            if settings.fast_open {
                up.push(cpu, id, number);
            }
            (id, tcp::connection(cpu, id).unwrap().0.local())
        });
        let talk = Talk { number, up, down: Direction::new(down), client: Some((at, id)), server: None };
        self.talks.insert(local, talk);
    }

    /// Lets the programs do what they can.
    fn pump(&mut self) {
        let (client, server) = (self.client, self.server);
        for at in 0..self.listeners.len() {
            let listener = self.listeners[at];
            while let Ok(accepted) = self.on(server, at, |cpu| tcp::accept(cpu, listener)) {
                let remote = accepted.ends.remote();
                if self.settings.fast_open && self.talks[&remote].client.is_none() {
                    // RFC 7413 §2.1: a copy of a SYN with data that comes behind the end of its connection begins another.
                    assert_eq!(self.on(server, at, |cpu| tcp::abort(cpu, accepted.id)), Ok(()));
                    continue;
                }
                let talk = self.talks.get_mut(&remote).unwrap();
                assert_eq!(talk.client.map(|(at, _)| at), Some(at), "both hosts have as many CPUs");
                talk.server = Some((at, accepted.id));
            }
        }
        let mut talks = core::mem::take(&mut self.talks);
        for talk in talks.values_mut() {
            let Talk { number, up, down, .. } = talk;
            if let Some((at, id)) = talk.client {
                self.on(client, at, |cpu| {
                    up.push(cpu, id, *number);
                    down.pull(cpu, id, !*number);
                });
            }
            if let Some((at, id)) = talk.server {
                self.on(server, at, |cpu| {
                    up.pull(cpu, id, *number);
                    down.push(cpu, id, !*number);
                });
            }
            if up.is_over && down.is_over {
                for (host, end) in [(client, talk.client.take()), (server, talk.server.take())] {
                    end.inspect(|(at, id)| {
                        assert_eq!(self.on(host, *at, |cpu| tcp::close(cpu, *id)), Ok(()))
                    });
                }
            }
        }
        self.talks = talks;
    }

    /// Lets them talk until all have ended.
    fn finish(&mut self, limit: Duration) {
        let until = self.world.now() + limit;
        while self.talks.values().any(|talk| talk.client.is_some() || talk.server.is_some()) {
            let late = || self.talks.values().filter(|talk| !talk.up.is_over || !talk.down.is_over).count();
            assert!(self.world.now() < until, "{} talks do not come to their end", late());
            self.world.run_for(MS);
            self.pump();
        }
    }

    fn count(&mut self, event: Count) -> u64 {
        let hosts = [self.client, self.server];
        hosts.into_iter().map(|host| self.world.of(host).count(event)).sum()
    }

    /// Nothing is left of any connection, and the world is in order.
    fn end(mut self) {
        self.world.run_for(Duration::from_secs(130));
        for host in [self.client, self.server] {
            for cpu in &self.world.of(host).cpus {
                let left = cpu.netisr.cpu.tcp.as_ref().map_or(0, |pcbs| pcbs.len());
                assert_eq!(left, 0, "connections are left");
            }
            assert_eq!(self.world.of(host).outstanding(), 0, "buffers");
        }
        self.world.finish();
    }
}

#[test]
fn every_byte_of_every_connection_arrives_over_a_bad_cable_on_any_number_of_cpus() {
    for seed in seeds(2) {
        for shape in Shape::doubling() {
            let spec = cable::Spec {
                delay: 5 * MS,
                loss: 20_000,
                duplicate: 10_000,
                reorder: 10_000,
                ..cable::Spec::default()
            };
            let mut talks = Talks::new("connections", seed, shape, spec);
            for number in 0..24 {
                let amounts = [(0, 0), (1, 40_000), (30_000, 1), (2000, 2000)];
                talks.begin(number, Family::BOTH[number % 2], amounts[number / 2 % 4]);
            }
            talks.finish(Duration::from_secs(300));
            assert_eq!(talks.count(Count::TcpAccepts), 24);
            talks.end();
        }
    }
}

#[test]
fn short_connections_one_after_another_leave_nothing_behind() {
    for shape in Shape::doubling() {
        let mut talks = Talks::new("short_connections", 1, shape, cable::Spec::default());
        for round in 0..40 {
            for number in 0..10 {
                talks.begin(round * 10 + number, Family::BOTH[number % 2], (100, 1000));
            }
            talks.finish(Duration::from_secs(10));
        }
        let (client, server) = (talks.client, talks.server);
        assert_eq!(talks.count(Count::TcpAccepts), 400);
        for host in [client, server] {
            assert_eq!(talks.world.of(host).dropped(DropReason::NoPort), 0);
        }
        talks.end();
    }
}

#[test]
fn super_packets_bring_the_same_bytes() {
    let caps = Caps { tso: true, tx_csum: true, buffers_max: 40, ..Caps::default() };
    for shape in Shape::doubling() {
        let spec = cable::Spec { delay: MS, loss: 5000, reorder: 5000, ..cable::Spec::default() };
        let mut talks = Talks::with("super_packets", 1, shape, spec, caps);
        for number in 0..4 {
            talks.begin(number, Family::BOTH[number % 2], (300_000, 100_000));
        }
        talks.finish(Duration::from_secs(100));
        talks.end();
    }
}

#[test]
fn a_path_that_swallows_long_packets_carries_all_and_who_comes_later_knows_its_length() {
    let super_packets = Caps { tso: true, tx_csum: true, buffers_max: 40, ..Caps::default() };
    for (shape, caps) in
        Shape::doubling().into_iter().flat_map(|shape| [(shape, Caps::default()), (shape, super_packets)])
    {
        let spec = cable::Spec { delay: 5 * MS, mtu: 1400, ..cable::Spec::default() };
        let caps = Caps { buffers_max: caps.buffers_max.max(1), ..caps };
        let mut talks = Talks::with("black_hole", 1, shape, spec, caps);
        // What is longer than the cable takes vanishes.
        talks.world.allow(Permit::Nonsense);
        for number in 0..16 {
            talks.begin(number, Family::BOTH[number / 8], (100_000, 1000));
        }
        talks.finish(Duration::from_secs(60));
        assert!(talks.count(Count::TcpPathsFound) >= 16);
        for number in 0..16 {
            talks.begin(number, Family::BOTH[number / 8], (100_000, 1000));
        }
        // Shorter than it takes the timer twice.
        talks.finish(Duration::from_secs(2));
        talks.end();
    }
}

#[test]
fn connections_that_bring_data_with_their_syn_bring_every_byte_once_on_any_number_of_cpus() {
    let mut opened = [0; 2];
    for seed in seeds(2) {
        for (shape, loss) in Shape::doubling().into_iter().flat_map(|shape| [(shape, 0), (shape, 30_000)]) {
            let reorder = loss / 2;
            let spec =
                cable::Spec { delay: 5 * MS, loss, reorder, duplicate: reorder, ..cable::Spec::default() };
            let caps = Caps { buffers_max: 1, ..Caps::default() };
            let settings = Settings { fast_open: true, fast_open_max: 64, ..Settings::default() };
            let mut talks = Talks::behaving("opened", seed, shape, (spec, caps), settings);
            let server = talks.server;
            (0..talks.listeners.len()).for_each(|at| talks.on(server, at, |cpu| tcp::set_cookie_key(cpu, 7)));
            for _ in 0..3 {
                for number in 0..16 {
                    talks.begin(number, Family::BOTH[number / 8], (1 + number * 300, 3000));
                }
                talks.finish(Duration::from_secs(300));
            }
            // Where a first SYN is lost, none with a cookie is tried for a while.
            let count = talks.count(Count::TcpOpened);
            assert!(loss > 0 || count == 32, "{count} opened");
            opened[usize::from(loss > 0)] += count;
            talks.end();
        }
    }
    assert!(opened[1] > 0, "over bad cables, too");
}
