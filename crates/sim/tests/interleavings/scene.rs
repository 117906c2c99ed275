//! A router with three links, whose CPUs are threads of the model.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

use net::netisr::Netisr;
use net::time::Duration;
use pkt::shared::interleave;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner, thread};
use sim::builder::{self, Ip};
use sim::cable;
use sim::frame::Frame;
use sim::host::{Host, Port, Spec};
use sim::mem::{Nic, Rss, Wakeup};
use sim::plan::{self, Family};
use sim::station::{Content, Station};
use sim::world::{HostId, StationId, World};
use wire::EtherType;

/// Time for duplicate address detection, and for neighbours to be known.
const BOOT: Duration = Duration::from_secs(12);
const SECOND: Duration = Duration::from_secs(1);
/// Orders that a test tries if it is not told how many (`PANTALA_MODEL`).
const ITERATIONS: usize = 40;
/// Changes of priority in one order: how deep a defect may lie for the scheduler that looks for such (PCT).
const DEPTH: usize = 4;
/// The ports of all datagrams.
pub(crate) const PORTS: [u16; 2] = [7, 9];

/// The network and the host that stand behind link 2 or link 3.
pub(crate) const BEHIND: (u8, u8) = (9, 9);

/// A router, and a station on each of its three links; those on links 2 and 3 have the address [`BEHIND`] as well.
pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) router: HostId,
    pub(crate) stations: [StationId; 3],
}

/// Runs `body` in many orders, half of them by chance, half with few changes between threads. Answers in how many it
/// found something wrong.
pub(crate) fn explore(body: impl Fn() -> bool + Send + Sync + 'static) -> usize {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
    let iterations = number("PANTALA_MODEL").unwrap_or(ITERATIONS);
    let seed = number("PANTALA_SEED").unwrap_or(1) as u64;
    let (body, found) = (Arc::new(body), Arc::new(AtomicUsize::new(0)));
    let schedulers: [Box<dyn Scheduler + Send>; 2] = [
        Box::new(RandomScheduler::new_from_seed(seed, iterations.div_ceil(2))),
        Box::new(PctScheduler::new_from_seed(seed, DEPTH, iterations.div_ceil(2))),
    ];
    for scheduler in schedulers {
        let (body, found) = (Arc::clone(&body), Arc::clone(&found));
        Runner::new(scheduler, config()).run(move || {
            let is_wrong = body();
            found.fetch_add(usize::from(is_wrong), Ordering::Relaxed);
        });
    }
    found.load(Ordering::Relaxed)
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = 4 << 20;
    config.max_steps = MaxSteps::None;
    // Orders follow from the seed, and are too long to be read.
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    config
}

impl Scene {
    /// Boots the router, which comes to know its neighbours; `more` is what else it has.
    pub(crate) fn new(more: impl Fn(Spec) -> Spec) -> Self {
        interleave(false);
        let mut world = World::new("interleaved", 1);
        let cables = [(); 3].map(|()| world.cable(cable::Spec::default()));
        let ports = (1..).zip(cables).map(|(net, cable)| Port::new(cable, net, 1).rings(1, Rss::Absent));
        let router = ports.fold(Spec::router("router").cpus(2).buffers(1024), Spec::port);
        let router = world.host(more(router));
        let stations = [0, 1, 2].map(|at: u8| {
            let net = at + 1;
            let mut station = Station::new(&format!("station{net}"), plan::mac(net, 2), &plan::addrs(net, 2));
            if at > 0 {
                plan::addrs(BEHIND.0, BEHIND.1).into_iter().for_each(|addr| station.add(addr));
            }
            world.station(cables[usize::from(at)], station)
        });
        world.run_for(BOOT);
        for (net, station) in (1..).zip(stations) {
            for family in Family::BOTH {
                world.at(station).ping(family.addr(net, 1), [1, 1], 8);
            }
        }
        world.run_for(SECOND);
        Self { world, router, stations }
    }

    pub(crate) fn host(&mut self) -> &mut Host {
        self.world.of(self.router)
    }

    /// Lets the CPUs and a wire with `frames` run as threads while `control` does its work on this one. At the end all
    /// comes to rest.
    pub(crate) fn run(&mut self, frames: Vec<Frame>, control: impl FnOnce(&mut Host, &Rings)) {
        let now = self.world.now();
        let host = self.world.of(self.router);
        let rings = Rings {
            nic: host.nics[0].clone(),
            bells: host.cpus.iter().map(|cpu| cpu.bell.clone()).collect(),
        };
        let cpus = core::mem::take(&mut host.cpus);
        let nic = host.nics[0].clone();
        let is_over = Arc::new(AtomicBool::new(false));
        interleave(true);
        let netisrs: Vec<_> = cpus
            .into_iter()
            .map(|mut cpu| {
                let is_over = Arc::clone(&is_over);
                thread::spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        cpu.turn(now);
                        thread::yield_now();
                    }
                    cpu
                })
            })
            .collect();
        let wire = thread::spawn(move || {
            for frame in frames {
                nic.deliver(frame);
                thread::sleep(Duration::ZERO);
            }
        });
        control(host, &rings);
        wire.join().unwrap();
        is_over.store(true, Ordering::Relaxed);
        host.cpus = netisrs.into_iter().map(|netisr| netisr.join().unwrap()).collect();
        interleave(false);
        host.cpus.iter().for_each(|cpu| cpu.bell.store(true, Ordering::Relaxed));
        self.world.run_for(SECOND);
    }

    /// Datagrams that the station on link `net` has received.
    pub(crate) fn heard(&mut self, net: u8) -> usize {
        let station = self.stations[usize::from(net) - 1];
        let heard = &self.world.at(station).heard;
        heard.iter().filter(|heard| matches!(heard.what, Content::Udp { ports: PORTS, .. })).count()
    }
}

/// The rings of the router's first port.
pub(crate) struct Rings {
    nic: Nic,
    bells: Vec<Wakeup>,
}

impl Rings {
    /// Moves the ring from CPU 0 to CPU 1, while both turn.
    pub(crate) fn move_away(&self, host: &Host) {
        let (nic, bell) = (self.nic.clone(), Arc::clone(&self.bells[1]));
        let is_told = host.call(0, move |netisr| {
            let arrived = move |_: &mut Netisr| nic.route_interrupts(0, bell);
            netisr.move_ring(1, 0, net::cpu::CpuId(1), Box::new(arrived)).unwrap();
        });
        assert!(is_told);
    }
}

/// Runs `visit` on each CPU, and waits until the last one has been visited.
pub(crate) fn tour(host: &Host, visit: impl Fn(&mut Netisr) + Send + Sync + 'static) {
    let is_done = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&is_done);
    assert!(host.tour(visit, move || done.store(true, Ordering::Relaxed)));
    while !is_done.load(Ordering::Relaxed) {
        thread::yield_now();
    }
}

/// `count` datagrams of each family from the station on link 1 to `host` of network `net`, in turn, of flows that belong to
/// different CPUs.
pub(crate) fn datagrams(count: u8, (net, host): (u8, u8)) -> Vec<Frame> {
    let frame = |family: Family, from: u8| {
        let ip = Ip::new(family.addr(1, from), family.addr(net, host));
        let ethertype = if family == Family::V4 { EtherType::IPV4 } else { EtherType::IPV6 };
        Frame::around(plan::mac(1, 2), plan::mac(1, 1), ethertype, &builder::udp(ip, PORTS, &[from]))
    };
    (2..2 + count).flat_map(|from| Family::BOTH.map(|family| frame(family, from))).collect()
}
