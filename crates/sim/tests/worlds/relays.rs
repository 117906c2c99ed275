//! A relay among clients that do not read, close by halves, and reset at any moment; and a target that does so too.

#![expect(clippy::unwrap_used, reason = "a world that cannot go on has failed")]

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

const SECOND: Duration = Duration::from_secs(1);
const CHARGEN: u16 = 19;
const ECHO: u16 = 7;
const RELAY: u16 = 80;
/// Bytes that the pairs of a relay may hold on a CPU.
const BUDGET: usize = 1 << 20;
/// Tolerance for what the last look did not see: a second's worth of traffic, and tables.
const SLACK: usize = 4 << 20;
/// Connections that do not read, on each CPU of their host.
const DEAF: usize = 20;
/// Rude connections, one after the other, on each CPU of their host.
const RUDE: usize = 200;

/// Opens connections and never reads.
struct Deaf(SocketAddr);

impl App for Deaf {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
        (0..DEAF).try_for_each(|_| connect(cx, self.0, 0))
    }
}

/// Reads what comes on one connection after the other, 100,000 bytes each; one that is refused is tried again.
struct Reader {
    to: SocketAddr,
    read: usize,
    finished: Arc<AtomicUsize>,
}

impl App for Reader {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
        connect(cx, self.to, 0)
    }

    fn readable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        let mut bytes = [0; 4000];
        while let Ok(count @ 1..) = tcp::read(cx.cpu, conn.id, &mut bytes) {
            self.read += count;
        }
        if self.read > 100_000 {
            self.read = 0;
            self.finished.fetch_add(1, Ordering::Relaxed);
            tcp::abort(cx.cpu, conn.id).unwrap();
            cx.wake_at(cx.now() + SECOND / 2);
        }
    }

    fn closed(&mut self, cx: &mut AppContext<'_>, _: Handle<Id>, _: Option<Error>) {
        self.read = 0;
        cx.wake_at(cx.now() + SECOND);
    }

    fn time(&mut self, cx: &mut AppContext<'_>) {
        connect(cx, self.to, 0).unwrap();
    }
}

/// Begins connections, each of which does something else than to speak and listen to the end.
struct Rude {
    to: SocketAddr,
    begun: usize,
    finished: Arc<AtomicUsize>,
}

impl Rude {
    fn next(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
        if self.begun == RUDE {
            return Ok(());
        }
        self.begun += 1;
        connect(cx, self.to, u32::try_from(self.begun).unwrap())
    }

    fn over(&mut self, cx: &mut AppContext<'_>) {
        self.finished.fetch_add(1, Ordering::Relaxed);
        self.next(cx).unwrap();
    }
}

impl App for Rude {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
        (0..8).try_for_each(|_| self.next(cx))
    }

    fn writable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        let (cpu, id) = (&mut *cx.cpu, conn.id);
        match conn.key % 6 {
            // At once.
            0 => tcp::abort(cpu, id).unwrap(),
            // In the middle of what it says.
            1 => {
                let _ = tcp::send(cpu, id, &[1; 5000]);
                tcp::abort(cpu, id).unwrap();
            }
            // Half closed, and gone before the answer.
            2 => {
                let _ = tcp::send(cpu, id, &[2; 20_000]);
                let _ = tcp::shutdown(cpu, id);
                tcp::abort(cpu, id).unwrap();
            }
            // Half closed, and says no more; the answer is read below, and then it is reset.
            3 | 4 => {
                let _ = tcp::send(cpu, id, &[3; 3000]);
                let _ = tcp::shutdown(cpu, id);
                return;
            }
            // Closed in order, with something unread.
            _ => {
                let _ = tcp::send(cpu, id, &[5; 10_000]);
                tcp::close(cpu, id).unwrap();
            }
        }
        self.over(cx);
    }

    fn readable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        let mut bytes = [0; 1000];
        while let Ok(count) = tcp::read(cx.cpu, conn.id, &mut bytes) {
            if count == 0 || conn.key % 6 == 3 {
                let ends = if count == 0 { tcp::close } else { tcp::abort };
                ends(cx.cpu, conn.id).unwrap();
                return self.over(cx);
            }
        }
    }

    fn closed(&mut self, cx: &mut AppContext<'_>, _: Handle<Id>, _: Option<Error>) {
        self.over(cx);
    }
}

/// An echo that resets each third connection when it has heard something, and closes each third half.
struct Moody(u32);

impl App for Moody {
    fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
        cx.listen(&tcp::Listen::at(([0_u16; 8], ECHO).into()), 0).map(|_| ())
    }

    fn accepted(&mut self, _: &mut AppContext<'_>, _: u32, _: tcp::Accepted) -> u32 {
        self.0 += 1;
        self.0
    }

    fn readable(&mut self, cx: &mut AppContext<'_>, conn: Handle<Id>) {
        let mut bytes = [0; 2000];
        match tcp::read(cx.cpu, conn.id, &mut bytes) {
            Ok(0) => _ = tcp::close(cx.cpu, conn.id),
            Ok(_) if conn.key.is_multiple_of(3) => _ = tcp::abort(cx.cpu, conn.id),
            Ok(count) => {
                let _ = tcp::send(cx.cpu, conn.id, &bytes[..count]);
                if conn.key % 3 == 1 {
                    let _ = tcp::shutdown(cx.cpu, conn.id);
                }
                cx.again(conn.id);
            }
            Err(_) => {}
        }
    }
}

fn connect(cx: &mut AppContext<'_>, remote: SocketAddr, key: u32) -> Result<(), Error> {
    let (settings, tx_params) = (Settings::default(), IpTxParams::default());
    let wanted = Connect { remote, local: None, port: None, zone: 0, settings, tx_params };
    cx.connect(&wanted, key).map(|_| ())
}

/// A client, a relay, and its target, each on a cable to the next.
struct Scene {
    world: World,
    client: HostId,
    relay: HostId,
    target: HostId,
    programs: Vec<(HostId, usize, AppId)>,
    family: Family,
}

impl Scene {
    fn new(name: &str, seed: u64, shape: Shape, family: Family) -> Self {
        let mut world = World::new(name, seed);
        world.allow(Permit::Loss);
        world.allow(Permit::Disorder);
        let delay = Duration::from_millis(2);
        let cables = [1, 2].map(|_| world.cable(cable::Spec { delay, ..cable::Spec::default() }));
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
        let target = host("target", &[(1, 2)]);
        world.run_for(BOOT);
        Self { world, client, relay, target, programs: Vec::new(), family }
    }

    /// Begins one on each CPU of a host.
    fn begin<P: App + 'static>(&mut self, host: HostId, program: impl Fn() -> P) {
        for (at, cpu) in self.world.of(host).cpus.iter_mut().enumerate() {
            let id = cpu.netisr.begin(Box::new(program())).unwrap();
            self.programs.push((host, at, id));
        }
        // They have to turn for what was begun from outside.
        for cpu in &self.world.of(host).cpus {
            cpu.bell.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the relay's address.
    fn here(&self) -> SocketAddr {
        (self.family.addr(1, 2), RELAY).into()
    }

    fn there(&self, port: u16) -> SocketAddr {
        (self.family.addr(2, 2), port).into()
    }

    /// The most bytes that connections take on a CPU of the relay.
    fn held(&mut self) -> usize {
        let cpus = self.world.of(self.relay).cpus.iter();
        cpus.filter_map(|cpu| Some(cpu.netisr.cpu.tcp.as_ref()?.memory())).max().unwrap_or(0)
    }

    /// All programs go, and nothing is left of any connection.
    fn end(mut self) {
        for (host, at, program) in core::mem::take(&mut self.programs) {
            self.world.of(host).call(at, move |netisr| netisr.end(program));
        }
        self.world.run_for(Duration::from_secs(15 * 60));
        for host in [self.client, self.relay, self.target] {
            for cpu in &self.world.of(host).cpus {
                let (connections, memory) =
                    cpu.netisr.cpu.tcp.as_ref().map_or((0, 0), |pcbs| (pcbs.len(), pcbs.memory()));
                assert_eq!(connections, 0, "connections of {}", host.0);
                assert!(memory <= 256 << 10, "{memory} bytes of {} are left", host.0);
            }
            assert_eq!(self.world.of(host).outstanding(), 0, "buffers");
        }
        self.world.finish();
    }
}

#[test]
fn a_client_that_does_not_read_holds_a_bounded_part_of_a_relays_memory() {
    for seed in seeds(1) {
        for family in Family::BOTH {
            let mut scene = Scene::new("deaf", seed, Shape::doubling()[1], family);
            let (here, there) = (([0_u16; 8], RELAY).into(), scene.there(CHARGEN));
            let (relay, target, client) = (scene.relay, scene.target, scene.client);
            let chargen = ([0_u16; 8], CHARGEN).into();
            scene.begin(target, || Service::new(Kind::Chargen, chargen, Settings::default()));
            scene.begin(relay, || Relay::new(here, there).bytes_max(BUDGET));
            let (to, finished) = (scene.here(), Arc::<AtomicUsize>::default());
            scene.begin(client, || Deaf(to));
            scene.world.run_for(5 * SECOND);
            scene.begin(client, || Reader { to, read: 0, finished: Arc::clone(&finished) });
            let mut most = 0;
            for _ in 0..20 {
                scene.world.run_for(SECOND);
                most = most.max(scene.held());
            }
            let first = finished.load(Ordering::Relaxed);
            for _ in 0..10 {
                scene.world.run_for(SECOND);
                most = most.max(scene.held());
            }
            let counts = [Count::TcpRelaysSlow, Count::TcpRelaysRefused]
                .map(|count| scene.world.of(relay).count(count));
            assert!(counts[0] > 0, "slow pairs made room: {counts:?}");
            let read = finished.load(Ordering::Relaxed) - first;
            assert!(read >= 5, "{read} transfers of others in ten seconds, {counts:?}");
            assert!(scene.held() <= BUDGET + SLACK, "{} bytes are held, {most} at the most", scene.held());
            scene.end();
        }
    }
}

#[test]
fn resets_and_half_closes_at_any_moment_leave_nothing_in_a_relay() {
    for seed in seeds(1) {
        for (shape, family) in Shape::doubling().into_iter().zip(Family::BOTH.into_iter().cycle()) {
            let mut scene = Scene::new("rude", seed, shape, family);
            let (here, there) = (([0_u16; 8], RELAY).into(), scene.there(ECHO));
            let (relay, target, client) = (scene.relay, scene.target, scene.client);
            scene.begin(target, || Moody(0));
            scene.begin(relay, || Relay::new(here, there));
            let (to, finished) = (scene.here(), Arc::<AtomicUsize>::default());
            scene.begin(client, || Rude { to, begun: 0, finished: Arc::clone(&finished) });
            let all = RUDE * usize::from(shape.cpus);
            let done = Arc::clone(&finished);
            let ended =
                scene.world.run_until(Duration::from_secs(600), |_| done.load(Ordering::Relaxed) >= all);
            assert!(ended, "{} of {all} are over", finished.load(Ordering::Relaxed));
            // Pairs are gone as soon as both ends are, without a call that ends them.
            scene.world.run_for(Duration::from_secs(130));
            let left: usize = {
                let cpus = scene.world.of(relay).cpus.iter();
                cpus.filter_map(|cpu| Some(cpu.netisr.cpu.tcp.as_ref()?.len())).sum()
            };
            assert_eq!(left, 0, "connections of the relay");
            scene.end();
        }
    }
}
