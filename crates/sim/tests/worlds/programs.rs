//! Programs on the netisr: services, and programs that ask them, on hosts of one and of many CPUs.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a world that cannot go on has failed")]
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use net::app::services::{Kind, Relay, Service};
use net::app::{App, AppContext, AppId, Handle};
use net::count::Count;
use net::sock::Error;
use net::tcp::settings::Settings;
use net::tcp::{self, Connect, Id, IpTxParams};
use net::time::Duration;
use sim::cable;
use sim::host::{Port, Spec};
use sim::plan::Family;
use sim::world::{HostId, Permit, World};

use crate::common::{BOOT, Shape, seeds};

const ECHO: u16 = 7;
const DISCARD: u16 = 9;
const RELAY: u16 = 80;
/// Connections that each CPU begins.
const EACH: usize = 12;

/// Asks a service on connections of its own, one amount of bytes on each, and holds the answers to what was asked.
struct Asker {
    remote: SocketAddr,
    answers: bool,
    asks: Vec<Ask>,
    finished: Arc<AtomicUsize>,
}

/// One connection.
#[derive(Clone, Copy)]
struct Ask {
    total: usize,
    sent: usize,
    read: usize,
}

/// The byte that stands there.
fn byte(at: usize, salt: usize) -> u8 {
    (at.wrapping_mul(37) ^ at >> 8 ^ salt).to_le_bytes()[0]
}

impl Ask {
    fn push(&mut self, cx: &mut AppContext<'_>, id: Id, salt: usize) {
        while self.sent < self.total {
            let bytes: Vec<u8> =
                (self.sent..self.total.min(self.sent + 3000)).map(|at| byte(at, salt)).collect();
            match tcp::send(cx.cpu, id, &bytes) {
                Ok(count) => self.sent += count,
                Err(error) => return assert_eq!(error, Error::WouldBlock),
            }
        }
        assert_eq!(tcp::shutdown(cx.cpu, id), Ok(()));
    }

    /// Whether the stream has come to its end.
    fn pull(&mut self, cx: &mut AppContext<'_>, id: Id, salt: usize) -> bool {
        let mut bytes = [0; 2000];
        loop {
            match tcp::read(cx.cpu, id, &mut bytes) {
                Ok(0) => return true,
                Ok(count) => {
                    let right = bytes[..count].iter().zip(self.read..).all(|(is, at)| *is == byte(at, salt));
                    assert!(right, "other bytes than were sent, behind byte {}", self.read);
                    self.read += count;
                }
                Err(error) => {
                    assert_eq!(error, Error::WouldBlock);
                    return false;
                }
            }
        }
    }
}

impl App for Asker {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
        let (settings, tx_params) = (Settings::default(), IpTxParams::default());
        let wanted = Connect { remote: self.remote, local: None, port: None, zone: 0, settings, tx_params };
        (0..self.asks.len()).try_for_each(|at| cx.connect(&wanted, u32::try_from(at).unwrap()).map(|_| ()))
    }

    fn writable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        let at = conn.key as usize;
        self.asks[at].push(cx, conn.id, at);
    }

    fn readable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        let at = conn.key as usize;
        if self.asks[at].pull(cx, conn.id, at) {
            let wanted = if self.answers { self.asks[at].total } else { 0 };
            assert_eq!(self.asks[at].read, wanted, "the stream has ended");
            assert_eq!(tcp::close(cx.cpu, conn.id), Ok(()));
            self.finished.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn closed(&mut self, _: &mut AppContext<'_>, conn: Handle<Id>, why: Option<Error>) {
        panic!("connection {} has ended: {why:?}", conn.key);
    }
}

/// Two hosts on a cable; the second has a service on each CPU.
struct Scene {
    world: World,
    client: HostId,
    server: HostId,
    services: Vec<AppId>,
    /// The relay between them, if there is one.
    relay: Option<(HostId, Vec<AppId>)>,
    finished: Arc<AtomicUsize>,
}

impl Scene {
    fn new(seed: u64, shape: Shape, spec: cable::Spec, service: (Kind, u16)) -> Self {
        let mut world = World::new("programs", seed);
        world.allow(Permit::Loss);
        world.allow(Permit::Disorder);
        let cable = world.cable(spec);
        let [client, server] = [1, 2].map(|host| {
            let port = Port::new(cable, 1, host).rings(shape.rings, shape.rss);
            world.host(Spec::host(&format!("host{host}")).cpus(shape.cpus).buffers(4096).port(port))
        });
        world.run_for(BOOT);
        let (kind, port) = service;
        let addr = SocketAddr::from(([0_u16; 8], port));
        let begin = |cpu: &mut sim::host::SimCpu| {
            cpu.netisr.begin(Box::new(Service::new(kind, addr, Settings::default()))).unwrap()
        };
        let services = world.of(server).cpus.iter_mut().map(begin).collect();
        Self { world, client, server, services, relay: None, finished: Arc::default() }
    }

    /// Makes one with a third host between them, whose relay connects each to the service, over the other family.
    fn relayed(seed: u64, shape: Shape, spec: cable::Spec, family: Family) -> Self {
        let mut world = World::new("relayed", seed);
        for what in [Permit::Loss, Permit::Disorder] {
            world.allow(what);
        }
        let cables = [1, 2].map(|_| world.cable(spec));
        let mut host = |name: &str, ports: &[(usize, u8)]| {
            let port = |(cable, number): &(usize, u8)| {
                let net = u8::try_from(cable + 1).unwrap();
                Port::new(cables[*cable], net, *number).rings(shape.rings, shape.rss)
            };
            let spec = Spec::host(name).cpus(shape.cpus).buffers(4096);
            world.host(ports.iter().map(port).fold(spec, Spec::port))
        };
        let client = host("client", &[(0, 1)]);
        let relay = host("relay", &[(0, 2), (1, 1)]);
        let server = host("server", &[(1, 2)]);
        world.run_for(BOOT);
        let [echo, here] = [ECHO, RELAY].map(|port| SocketAddr::from(([0_u16; 8], port)));
        let other = if family == Family::V4 { Family::V6 } else { Family::V4 };
        let target = (other.addr(2, 2), ECHO).into();
        let cpus = world.of(server).cpus.iter_mut();
        let services = cpus.map(|cpu| {
            cpu.netisr.begin(Box::new(Service::new(Kind::Echo, echo, Settings::default()))).unwrap()
        });
        let services = services.collect();
        let cpus = world.of(relay).cpus.iter_mut();
        let relays = cpus.map(|cpu| cpu.netisr.begin(Box::new(Relay::new(here, target))).unwrap()).collect();
        Self { world, client, server, services, relay: Some((relay, relays)), finished: Arc::default() }
    }

    /// Each CPU of the client asks.
    fn ask(&mut self, remote: SocketAddr, answers: bool, totals: &[usize]) {
        let asks: Vec<_> = totals.iter().map(|total| Ask { total: *total, sent: 0, read: 0 }).collect();
        for at in 0..self.services.len() {
            let (asks, finished) = (asks.clone(), Arc::clone(&self.finished));
            self.world.of(self.client).call(at, move |netisr| {
                netisr.begin(Box::new(Asker { remote, answers, asks, finished })).unwrap();
            });
        }
    }

    fn wait_until_finished(&mut self, count: usize, limit: Duration) {
        let finished = Arc::clone(&self.finished);
        let all = self.world.run_until(limit, |_| finished.load(Ordering::Relaxed) == count);
        let so_far = self.finished.load(Ordering::Relaxed);
        assert!(all, "{so_far} of {count} connections have finished: {}", self.world.drops());
    }

    /// Services go, and nothing is left of them or of any connection.
    fn end(mut self) {
        let begun = [Some((self.server, self.services)), self.relay.take()];
        let mut hosts = vec![self.client];
        for (host, programs) in begun.into_iter().flatten() {
            for (at, program) in programs.into_iter().enumerate() {
                self.world.of(host).call(at, move |netisr| netisr.end(program));
            }
            hosts.push(host);
        }
        self.world.run_for(Duration::from_secs(130));
        for host in hosts {
            for cpu in &self.world.of(host).cpus {
                assert_eq!(cpu.netisr.cpu.tcp.as_ref().map_or(0, |pcbs| pcbs.len()), 0, "connections");
            }
            assert_eq!(self.world.of(host).count(Count::Strays), 0, "a connection on two CPUs");
        }
        self.world.finish();
    }
}

fn lossy() -> cable::Spec {
    let delay = Duration::from_millis(2);
    cable::Spec { delay, loss: 20_000, duplicate: 5000, reorder: 5000, ..cable::Spec::default() }
}

/// Returns the amounts that each CPU sends: much, little, nothing.
fn totals() -> Vec<usize> {
    (0..EACH).map(|at| [0, 1, 500, 20_000, 120_000][at % 5]).collect()
}

#[test]
fn echoes_are_what_was_sent_on_any_number_of_cpus_over_a_cable_that_loses() {
    for seed in seeds(1) {
        for (shape, family) in Shape::doubling().into_iter().zip(Family::BOTH.into_iter().cycle()) {
            let mut scene = Scene::new(seed, shape, lossy(), (Kind::Echo, ECHO));
            scene.ask((family.addr(1, 2), ECHO).into(), true, &totals());
            let count = EACH * usize::from(shape.cpus);
            scene.wait_until_finished(count, Duration::from_secs(300));
            let server = scene.world.of(scene.server);
            assert_eq!(server.count(Count::TcpAccepts), count as u64);
            let events: Vec<_> =
                server.cpus.iter().map(|cpu| cpu.shared.counters.events.get(Count::ProgramEvents)).collect();
            assert!(events.iter().all(|events| *events > 0), "each CPU has its own: {events:?}");
            scene.end();
        }
    }
}

#[test]
fn what_a_relay_passes_on_is_what_was_sent_on_any_number_of_cpus_over_cables_that_lose() {
    for seed in seeds(1) {
        for (shape, family) in Shape::doubling().into_iter().zip(Family::BOTH.into_iter().cycle()) {
            let mut scene = Scene::relayed(seed, shape, lossy(), family);
            scene.ask((family.addr(1, 2), RELAY).into(), true, &totals());
            let count = EACH * usize::from(shape.cpus);
            scene.wait_until_finished(count, Duration::from_secs(300));
            let relay = scene.relay.as_ref().unwrap().0;
            let relay = scene.world.of(relay);
            let counts = [Count::TcpAccepts, Count::TcpConnects, Count::TcpRelaysRefused];
            assert_eq!(counts.map(|count| relay.count(count)), [count as u64, count as u64, 0]);
            scene.end();
        }
    }
}

#[test]
fn what_is_discarded_is_acknowledged_to_the_end() {
    for (shape, family) in Shape::doubling().into_iter().zip(Family::BOTH.into_iter().cycle()) {
        let mut scene = Scene::new(1, shape, cable::Spec::default(), (Kind::Discard, DISCARD));
        scene.ask((family.addr(1, 2), DISCARD).into(), false, &totals());
        scene.wait_until_finished(EACH * usize::from(shape.cpus), Duration::from_secs(60));
        scene.end();
    }
}

#[test]
fn a_service_that_ends_amid_its_connections_leaves_nothing_and_the_others_learn_of_it() {
    for (shape, family) in Shape::doubling().into_iter().zip(Family::BOTH.into_iter().cycle()) {
        let mut scene = Scene::new(1, shape, cable::Spec::default(), (Kind::Echo, ECHO));
        // Programs that ask and are hung up on: their connections end, whatever they had still to say.
        struct Witness(SocketAddr, Arc<AtomicUsize>);
        impl App for Witness {
            fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
                let (settings, tx_params) = (Settings::default(), IpTxParams::default());
                let wanted =
                    Connect { remote: self.0, local: None, port: None, zone: 0, settings, tx_params };
                (0..300).try_for_each(|key| cx.connect(&wanted, key).map(|_| ()))
            }
            fn readable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
                assert_eq!(tcp::read(cx.cpu, conn.id, &mut [0; 8]), Ok(0));
                assert_eq!(tcp::close(cx.cpu, conn.id), Ok(()));
                self.1.fetch_add(1, Ordering::Relaxed);
            }
        }
        let remote = (family.addr(1, 2), ECHO).into();
        for at in 0..scene.services.len() {
            let finished = Arc::clone(&scene.finished);
            scene.world.of(scene.client).call(at, move |netisr| {
                netisr.begin(Box::new(Witness(remote, finished))).unwrap();
            });
        }
        scene.world.run_for(Duration::from_secs(5));
        let count = 300 * usize::from(shape.cpus);
        assert_eq!(scene.world.of(scene.server).count(Count::TcpAccepts), count as u64);
        for (at, program) in scene.services.clone().into_iter().enumerate() {
            scene.world.of(scene.server).call(at, move |netisr| netisr.end(program));
        }
        scene.wait_until_finished(count, Duration::from_secs(5));
        scene.end();
    }
}

#[test]
fn datagrams_come_back_from_an_echo() {
    for (shape, family) in Shape::doubling().into_iter().zip(Family::BOTH.into_iter().cycle()) {
        let mut scene = Scene::new(1, shape, cable::Spec::default(), (Kind::Echo, ECHO));
        let client = scene.client;
        let wanted = net::udp::Connect {
            remote: (family.addr(1, 2), ECHO).into(),
            local: None,
            port: None,
            zone: 0,
            settings: net::udp::Settings::default(),
        };
        let cpus = scene.world.of(client).cpus.iter_mut();
        let sockets: Vec<_> =
            cpus.map(|cpu| net::udp::connect(&mut cpu.netisr.cpu, &wanted).unwrap()).collect();
        for (at, socket) in sockets.iter().copied().enumerate() {
            scene.world.of(client).call(at, move |netisr| {
                for n in 0..50 {
                    net::udp::send(&mut netisr.cpu, socket, &vec![1; n * 20]).unwrap();
                }
            });
        }
        scene.world.run_for(Duration::from_secs(2));
        for (at, socket) in sockets.into_iter().enumerate() {
            let cpu = &mut scene.world.of(client).cpus[at].netisr.cpu;
            let mut into = [0; 1000];
            let lens: Vec<_> = core::iter::from_fn(|| net::udp::recv(cpu, socket, &mut into).ok())
                .map(|got| got.len)
                .collect();
            assert_eq!(lens, (0..50).map(|n| n * 20).collect::<Vec<_>>());
        }
        scene.end();
    }
}
