//! Helpers of these worlds.
use core::sync::atomic::Ordering;

use net::cpu::Cpu;
use net::time::Duration;
use sim::cable;
use sim::host::{Port, Spec};
use sim::mem::Rss;
use sim::plan::{self, Family};
use sim::station::Station;
use sim::world::{CableId, HostId, StationId, World};

/// Time for duplicate address detection of all hosts to end.
pub(crate) const BOOT: Duration = Duration::from_secs(12);

/// The seeds of a test: `few`, or the one that a failed run named (`PANTALA_SEED`), or as many as
/// `cargo xtask worlds` asks for (`PANTALA_WORLDS`, beginning with `PANTALA_SEED`), or `few` if
/// `cargo xtask test` asks for less (`PANTALA_WORLDS` alone).
pub(crate) fn seeds(few: u64) -> core::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, count) = match (number("PANTALA_SEED"), number("PANTALA_WORLDS")) {
        (Some(first), Some(count)) => (first, count),
        (None, Some(count)) => (1, few.max(count)),
        (Some(seed), None) => (seed, 1),
        (None, None) => (1, few),
    };
    first..first + count
}

/// Does something on a CPU of a host, as a program there does; it turns then.
pub(crate) fn on<R>(world: &mut World, host: HostId, at: usize, what: impl FnOnce(&mut Cpu) -> R) -> R {
    let now = world.now();
    let cpu = &mut world.of(host).cpus[at];
    cpu.netisr.cpu.now = now;
    let done = what(&mut cpu.netisr.cpu);
    cpu.bell.store(true, Ordering::Relaxed);
    done
}

/// Two stations with a router between them: `a` on network 1, `b` on network 2, the router is host 1 on both.
pub(crate) struct Pair {
    pub(crate) world: World,
    pub(crate) router: HostId,
    pub(crate) a: StationId,
    pub(crate) b: StationId,
    pub(crate) cables: [CableId; 2],
}

/// Shape of the router of a [`Pair`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) cpus: u16,
    pub(crate) rings: usize,
    pub(crate) rss: Rss,
}

impl Shape {
    pub(crate) const SIMPLE: Self = Self { cpus: 1, rings: 1, rss: Rss::Absent };

    /// 1, 2, 4 and 8 CPUs, for what must be the same on each of them.
    pub(crate) fn doubling() -> [Self; 5] {
        let shape = |cpus, rings, rss| Self { cpus, rings, rss };
        [
            Self::SIMPLE,
            shape(2, 2, Rss::Right),
            shape(4, 1, Rss::Absent),
            shape(4, 4, Rss::Wrong),
            shape(8, 8, Rss::Right),
        ]
    }

    /// Some that differ in what can differ.
    pub(crate) fn several() -> Vec<Self> {
        let shape = |cpus, rings, rss| Self { cpus, rings, rss };
        vec![
            Self::SIMPLE,
            shape(2, 1, Rss::Absent),
            shape(2, 2, Rss::Right),
            shape(4, 4, Rss::Right),
            shape(4, 4, Rss::Wrong),
            shape(3, 2, Rss::Wrong),
            shape(1, 4, Rss::Wrong),
            shape(4, 3, Rss::Right),
        ]
    }
}

pub(crate) fn pair(name: &str, seed: u64, shape: Shape) -> Pair {
    pair_with(name, seed, shape, |port| port, [cable::Spec::default(); 2])
}

pub(crate) fn pair_with(
    name: &str,
    seed: u64,
    shape: Shape,
    port: impl Fn(Port) -> Port,
    specs: [cable::Spec; 2],
) -> Pair {
    pair_around(name, seed, shape, |router| router, port, specs)
}

/// [`pair_with`] whose router `more` is made of.
pub(crate) fn pair_around(
    name: &str,
    seed: u64,
    shape: Shape,
    more: impl Fn(Spec) -> Spec,
    port: impl Fn(Port) -> Port,
    specs: [cable::Spec; 2],
) -> Pair {
    let mut world = World::new(name, seed);
    let cables = specs.map(|spec| world.cable(spec));
    let port = |net: u8| {
        let at = usize::from(net - 1);
        port(Port::new(cables[at], net, 1).mtu(specs[at].mtu).rings(shape.rings, shape.rss))
    };
    let router = world.host(more(Spec::router("router").cpus(shape.cpus).port(port(1)).port(port(2))));
    let [a, b] = [1, 2].map(|net: u8| {
        let at = usize::from(net - 1);
        let station = station(net, 2).mtu(specs[at].mtu as usize);
        world.station(cables[at], station)
    });
    world.run_for(BOOT);
    Pair { world, router, a, b, cables }
}

/// Host `host` of network `net`, whose router is host 1 there.
pub(crate) fn station(net: u8, host: u8) -> Station {
    let name = format!("10.0.{net}.{host}");
    let station = Station::new(&name, plan::mac(net, host), &plan::addrs(net, host));
    Family::BOTH.into_iter().fold(station, |station, family| station.gateway(family.addr(net, 1)))
}
