//! A path that is out for long: whether a connection outlives that is said by whichever end waits longer, if both have agreed
//! to tell each other (RFC 5482).

#![expect(clippy::unwrap_used, reason = "a world that cannot begin has failed")]

use net::sock::Error;
use net::tcp::settings::{Change, Settings, Uto};
use net::tcp::{self, Connect, Id, Listen};
use net::time::Duration;
use sim::cable;
use sim::host::{Port, Spec};
use sim::plan::Family;
use sim::world::{HostId, Permit, World};

use crate::common::{BOOT, Shape, on, seeds};

const SECOND: Duration = Duration::from_secs(1);
/// Longer than any retransmission without a reply.
const OUT: Duration = Duration::from_secs(1200);

/// A client on network 1 and a server on network 2, a connection between them, and the router that it goes over.
struct Scene {
    world: World,
    router: HostId,
    /// Both ends, the client's first: whose, on which CPU, which.
    ends: [(HostId, usize, Id); 2],
}

/// Returns the settings of an end that sends a user timeout of so many seconds, if any; or the defaults.
fn tells(seconds: Option<Option<u64>>) -> Settings {
    let told = seconds.flatten().map(Duration::from_secs);
    Settings { uto: Uto { is_on: seconds.is_some(), told, ..Uto::default() }, ..Settings::default() }
}

impl Scene {
    fn new(seed: u64, shape: Shape, family: Family, [client, server]: [Settings; 2]) -> Self {
        let mut world = World::new("patience", seed);
        world.allow(Permit::Loss);
        let cables = [1, 2].map(|_| world.cable(cable::Spec::default()));
        let port = |net: u8, host| Port::new(cables[usize::from(net) - 1], net, host);
        let router = world.host(Spec::router("router").port(port(1, 1)).port(port(2, 1)));
        let host = |name: &str, net| {
            Spec::host(name).cpus(shape.cpus).port(port(net, 10).rings(shape.rings, shape.rss))
        };
        let from = world.host(host("client", 1).via(family.prefix(2), family.addr(1, 1)));
        let to = world.host(host("server", 2).via(family.prefix(1), family.addr(2, 1)));
        world.run_for(BOOT);
        let wants = Listen { settings: server, ..Listen::at(([0_u16; 8], 80).into()) };
        let cpus = world.of(to).cpus.len();
        let listeners: Vec<_> =
            (0..cpus).map(|at| on(&mut world, to, at, |cpu| tcp::listen(cpu, &wants).unwrap())).collect();
        let wants = Connect { settings: client, ..Connect::to((family.addr(2, 10), 80).into()) };
        let ours = on(&mut world, from, 0, |cpu| tcp::connect(cpu, &wants).unwrap());
        world.run_for(2 * SECOND);
        let accept = |(at, listener)| {
            let accepted = on(&mut world, to, at, |cpu| tcp::accept(cpu, listener));
            Some((to, at, accepted.ok()?.id))
        };
        let theirs = listeners.into_iter().enumerate().find_map(accept).unwrap();
        Self { world, router, ends: [(from, 0, ours), theirs] }
    }

    fn with<R>(&mut self, end: usize, what: impl FnOnce(&mut net::cpu::Cpu, Id) -> R) -> R {
        let (host, at, id) = self.ends[end];
        on(&mut self.world, host, at, |cpu| what(cpu, id))
    }

    /// The client says something while the path is out; answers after how many seconds it has given up, if it has, and whether
    /// the server has read it when the path was there again for a while: the router keeps what it had not looked at.
    fn endures(&mut self) -> (Option<u64>, bool) {
        let from = self.world.now();
        self.world.of(self.router).cpus[0].stall_until(from + OUT);
        assert_eq!(self.with(0, |cpu, id| tcp::send(cpu, id, b"hello")), Ok(5));
        let mut gave_up = None;
        while self.world.now() < from + OUT + 120 * SECOND {
            self.world.run_for(SECOND);
            if gave_up.is_none() && self.with(0, |cpu, id| tcp::ready(cpu, id).ended) {
                gave_up = Some(self.world.now().since(from).as_secs());
                let why = self.with(0, |cpu, id| tcp::read(cpu, id, &mut [0; 9]));
                assert!(matches!(why, Err(Error::TimedOut | Error::HostUnreachable)), "{why:?}");
            }
        }
        let mut bytes = [0; 9];
        let read = self.with(1, |cpu, id| tcp::read(cpu, id, &mut bytes));
        (gave_up, read == Ok(5) && bytes.starts_with(b"hello"))
    }

    /// Returns the client's timeout, and the one it was told.
    fn waits(&mut self) -> [Option<u64>; 2] {
        self.with(0, |cpu, id| {
            let info = tcp::connection(cpu, id).unwrap().1.info();
            [info.user_timeout, info.remote_user_timeout].map(|time| time.map(|time| time.as_secs()))
        })
    }
}

#[test]
fn a_connection_outlives_an_outage_if_the_other_end_says_that_it_waits_for_so_long() {
    for family in Family::BOTH {
        for shape in Shape::doubling() {
            for seed in seeds(1) {
                let mut scene = Scene::new(seed, shape, family, [tells(Some(None)), tells(Some(Some(1800)))]);
                assert_eq!(scene.waits(), [Some(1800); 2]);
                assert_eq!(scene.endures(), (None, true), "{shape:?}");
                // An unrequested option is ignored: the timeout stays.
                for [client, server] in [[None, Some(Some(1800))], [Some(None), None], [None, None]] {
                    let mut scene = Scene::new(seed, shape, family, [tells(client), tells(server)]);
                    assert_eq!(scene.waits(), [None; 2]);
                    let (gave_up, _) = scene.endures();
                    assert!(gave_up.is_some_and(|after| (101..1000).contains(&after)), "{gave_up:?}");
                }
            }
        }
    }
}

#[test]
fn a_connection_ends_when_the_other_end_says_that_it_has_forgotten_it_but_no_sooner_than_is_allowed() {
    for family in Family::BOTH {
        for (told, within) in [(130, 130), (10, 100)] {
            for seed in seeds(1) {
                let both = [tells(Some(None)), tells(Some(Some(told)))];
                let mut scene = Scene::new(seed, Shape::doubling()[0], family, both);
                assert_eq!(scene.waits(), [Some(within), Some(told)]);
                let (gave_up, _) = scene.endures();
                assert!(gave_up.is_some_and(|after| after.abs_diff(within) <= 1), "{told}: {gave_up:?}");
            }
        }
    }
}

#[test]
fn what_a_program_changes_while_the_connection_stands_is_told_and_counts() {
    for family in Family::BOTH {
        for seed in seeds(1) {
            let mut scene = Scene::new(seed, Shape::doubling()[0], family, [tells(Some(None)); 2]);
            assert_eq!(scene.waits(), [None; 2]);
            let change = Change::UserTimeout(Some(1800 * SECOND));
            scene.with(1, |cpu, id| {
                let now = cpu.now;
                tcp::change(cpu, id, |tcb| tcb.change(change, now)).unwrap();
            });
            scene.world.run_for(SECOND);
            assert_eq!(scene.waits(), [Some(1800); 2]);
            assert_eq!(scene.endures(), (None, true));
        }
    }
}
