//! Programs' threads that use TCP over channels, on hosts of one and of many CPUs.

#![expect(clippy::unwrap_used, reason = "a world that cannot go on has failed")]
mod app;
mod datagrams;

use core::net::SocketAddr;

use net::channel::Size;
use net::count::Count;
use net::sock::Error;
use net::time::Duration;
use sim::cable;
use sim::host::{Port, Spec};
use sim::plan::Family;
use sim::world::{HostId, Permit, World};

use self::app::{HostApp, Role};
use crate::common::{BOOT, Shape, seeds};

const PORT: u16 = 7000;
/// Connections that each CPU begins.
const EACH: usize = 12;
const SMALL: Size = Size { lanes: 64, lane_bytes: 4096 };

/// Two hosts on a cable, with programs on both; those of the second listen.
struct Scene {
    world: World,
    hosts: [HostId; 2],
    client: Option<HostApp>,
    server: Option<HostApp>,
}

impl Scene {
    fn new(seed: u64, shape: Shape, spec: cable::Spec, size: Size, accepts: Role) -> Self {
        let mut world = World::new("channels", seed);
        world.allow(Permit::Loss);
        world.allow(Permit::Disorder);
        let cable = world.cable(spec);
        let hosts = [1, 2].map(|host| {
            let port = Port::new(cable, 1, host).rings(shape.rings, shape.rss);
            world.host(Spec::host(&format!("host{host}")).cpus(shape.cpus).buffers(4096).port(port))
        });
        world.run_for(BOOT);
        let client = HostApp::new(&mut world, hosts[0], size, Role::Idle);
        let mut server = HostApp::new(&mut world, hosts[1], size, accepts);
        server.listen(SocketAddr::from(([0_u16; 8], PORT)));
        let mut scene = Self { world, hosts, client: Some(client), server: Some(server) };
        scene.run(Duration::from_secs(1), |scene| scene.server().listening.len() == usize::from(shape.cpus));
        assert!(scene.server().listening.iter().all(Result::is_ok));
        scene
    }

    fn server(&mut self) -> &mut HostApp {
        self.server.as_mut().unwrap()
    }

    fn client(&mut self) -> &mut HostApp {
        self.client.as_mut().unwrap()
    }

    /// Each CPU of the client connects, for each of these.
    fn ask(&mut self, family: Family, roles: &[Role]) {
        let remote = (family.addr(1, 2), PORT).into();
        let client = self.client();
        for cpu in 0..client.clients.len() {
            for role in roles {
                assert!(client.connect(cpu, remote, role.clone()));
            }
        }
    }

    /// Lets time pass, and programs go on in between, until `is_so`.
    fn run(&mut self, limit: Duration, mut is_so: impl FnMut(&mut Self) -> bool) -> bool {
        let until = self.world.now() + limit;
        while self.world.now() < until {
            for app in [&mut self.client, &mut self.server].into_iter().flatten() {
                app.step();
            }
            if is_so(self) {
                return true;
            }
            let slice = self.world.random().between(1, 300_000) as u64;
            self.world.run_for(Duration::from_nanos(slice));
        }
        false
    }

    /// Programs leave, and nothing is left of them or of any connection.
    fn end(mut self) {
        (self.client, self.server) = (None, None);
        self.world.run_for(Duration::from_secs(150));
        for host in self.hosts {
            for cpu in &self.world.of(host).cpus {
                let left = cpu.netisr.cpu.tcp.as_ref().map_or(0, |pcbs| pcbs.len());
                assert_eq!(left, 0, "connections");
                let listeners = cpu.netisr.cpu.tcp.as_ref().map(|pcbs| pcbs.page_of_listeners(0, 9).0);
                assert_eq!(listeners.map_or(0, |all| all.len()), 0, "listeners");
            }
            assert_eq!(self.world.of(host).count(Count::ChannelsBroken), 0);
            assert_eq!(self.world.of(host).count(Count::Strays), 0, "a connection on two CPUs");
        }
        self.world.finish();
    }
}

/// Returns the amounts that each CPU sends: much, little, nothing.
fn asks() -> Vec<Role> {
    let ask = |at: usize| Role::Ask { total: [0, 1, 500, 20_000, 120_000][at % 5], sent: 0, read: 0 };
    (0..EACH).map(ask).collect()
}

#[test]
fn echoes_over_channels_are_what_was_sent_on_any_number_of_cpus() {
    let lossy = cable::Spec {
        delay: Duration::from_millis(2),
        loss: 20_000,
        duplicate: 5000,
        reorder: 5000,
        ..cable::Spec::default()
    };
    for seed in seeds(1) {
        for (shape, family) in Shape::doubling().into_iter().zip(Family::BOTH.into_iter().cycle()) {
            let mut scene = Scene::new(seed, shape, lossy, SMALL, Role::Echo);
            scene.ask(family, &asks());
            let count = EACH * usize::from(shape.cpus);
            let all = scene.run(Duration::from_secs(300), |scene| scene.client().finished == count);
            let so_far = scene.client().finished;
            assert!(all, "{so_far} of {count} connections have finished: {:?}", scene.client().failed);
            assert_eq!(scene.server().accepted, count);
            let all_free = scene
                .run(Duration::from_secs(300), |scene| scene.client().open() + scene.server().open() == 0);
            assert!(all_free, "lanes come back");
            scene.end();
        }
    }
}

#[test]
fn a_listener_with_few_lanes_takes_all_connections_as_lanes_become_free() {
    for (shape, family) in Shape::doubling().into_iter().zip(Family::BOTH.into_iter().cycle()) {
        let few = Size { lanes: 5, lane_bytes: 2048 };
        let mut scene = Scene::new(1, shape, cable::Spec::default(), few, Role::Echo);
        let asks = [20_000, 1, 0, 3000, 5000].map(|total| Role::Ask { total, sent: 0, read: 0 });
        let mut count = 0;
        for _ in 0..4 {
            scene.ask(family, &asks);
            count += asks.len() * usize::from(shape.cpus);
            assert!(
                !scene.client().connect(0, (family.addr(1, 2), PORT).into(), Role::Idle),
                "no lane is free"
            );
            let all = |scene: &mut Scene| scene.client().finished == count && scene.client().open() == 0;
            assert!(scene.run(Duration::from_secs(100), all), "{count} connections");
        }
        scene.end();
    }
}

#[test]
fn a_program_that_does_not_read_stops_its_peer_and_nobody_else() {
    for (shape, family) in Shape::doubling().into_iter().zip(Family::BOTH.into_iter().cycle()) {
        let mut scene = Scene::new(1, shape, cable::Spec::default(), SMALL, Role::Idle);
        let asks = [3_000_000; 3].map(|total| Role::Ask { total, sent: 0, read: 0 });
        scene.ask(family, &asks);
        let count = asks.len() * usize::from(shape.cpus);
        assert!(!scene.run(Duration::from_secs(20), |scene| scene.client().finished > 0));
        assert_eq!(scene.server().accepted, count);
        // Whatever waits, waits in buffers of a bounded length, and the netisrs rest.
        let turns = |scene: &mut Scene| scene.world.of(scene.hosts[1]).count(Count::BusyTurns);
        let before = turns(&mut scene);
        scene.run(Duration::from_secs(1), |_| false);
        assert!(turns(&mut scene) - before < 200 * u64::from(shape.cpus), "nobody runs in a circle");
        scene.server().all_do(&Role::Echo);
        let all = scene.run(Duration::from_secs(200), |scene| scene.client().finished == count);
        assert!(all, "{} of {count} have finished", scene.client().finished);
        scene.end();
    }
}

#[test]
fn programs_that_end_amid_their_connections_leave_nothing_and_the_others_learn_of_it() {
    for seed in seeds(2) {
        for (shape, family) in Shape::doubling().into_iter().zip(Family::BOTH.into_iter().cycle()) {
            let mut scene = Scene::new(seed, shape, cable::Spec::default(), SMALL, Role::Echo);
            let asks = [900_000, 5, 900_000].map(|total| Role::Ask { total, sent: 0, read: 0 });
            scene.ask(family, &asks);
            let some = scene.world.random().between(1, 30) as u64;
            scene.run(Duration::from_millis(some), |_| false);
            scene.server = None;
            scene.client().may_be_cut = true;
            let (count, small) = (asks.len() * usize::from(shape.cpus), usize::from(shape.cpus));
            let all = scene.run(Duration::from_secs(100), |scene| {
                scene.client().finished + scene.client().failed.len() == count
            });
            assert!(all, "{}", scene.client().outcome());
            assert!(scene.client().finished <= small);
            let known = |error: &Error| matches!(error, Error::Reset | Error::Refused | Error::Closed);
            assert!(scene.client().failed.iter().all(known), "{:?}", scene.client().failed);
            scene.end();
        }
    }
}

#[test]
fn what_has_come_is_read_to_its_end_however_late_and_though_the_connection_is_gone() {
    for family in Family::BOTH {
        let mut scene = Scene::new(1, Shape::SIMPLE, cable::Spec::default(), SMALL, Role::Idle);
        scene.ask(family, &[Role::Ask { total: 40_000, sent: 0, read: 0 }]);
        scene.run(Duration::from_secs(1), |scene| scene.server().accepted == 1);
        // All is sent, and the client closes: the server has not read a byte.
        scene.run(Duration::from_secs(5), |_| false);
        scene.client().close_all(false);
        scene.run(Duration::from_secs(100), |_| false);
        scene.server().accepts = Role::Idle;
        scene.server().all_do(&Role::Sink { read: 0, salt: 40_000 });
        let all = scene.run(Duration::from_secs(10), |scene| scene.server().open() == 0);
        assert!(all);
        assert_eq!((scene.server().sunk, scene.server().failed.len()), (40_000, 0));
        scene.end();
    }
}

#[test]
fn a_refused_connection_fails_with_the_reason() {
    for (shape, family) in Shape::doubling().into_iter().zip(Family::BOTH.into_iter().cycle()) {
        let mut scene = Scene::new(1, shape, cable::Spec::default(), SMALL, Role::Echo);
        let [nobody, nowhere] = [(family.addr(1, 2), PORT + 1), (family.addr(200, 2), PORT)];
        for cpu in 0..scene.client().clients.len() {
            for remote in [nobody.into(), nowhere.into()] {
                assert!(scene.client().connect(cpu, remote, Role::Ask { total: 10, sent: 0, read: 0 }));
            }
        }
        scene.run(Duration::from_secs(5), |scene| scene.client().open() == 0);
        let mut failed = core::mem::take(&mut scene.client().failed);
        failed.sort_by_key(|error| format!("{error:?}"));
        let (half, all) = (usize::from(shape.cpus), usize::from(shape.cpus) * 2);
        assert_eq!(failed[..half], vec![Error::NetworkUnreachable; half]);
        assert_eq!(failed[half..all], vec![Error::Refused; half]);
        scene.end();
    }
}

#[test]
fn a_listener_that_goes_gives_its_lanes_back_and_what_it_had_not_accepted_is_reset() {
    for (shape, family) in Shape::doubling().into_iter().zip(Family::BOTH.into_iter().cycle()) {
        let mut scene = Scene::new(1, shape, cable::Spec::default(), SMALL, Role::Echo);
        // More than lanes were offered: the server's program does not look meanwhile.
        let mut server = scene.server.take().unwrap();
        scene.ask(family, &asks());
        scene.run(Duration::from_secs(2), |_| false);
        server.unlisten();
        scene.server = Some(server);
        let count = EACH * usize::from(shape.cpus);
        let all = scene.run(Duration::from_secs(200), |scene| {
            scene.client().finished + scene.client().failed.len() == count
        });
        assert!(all, "{}", scene.client().outcome());
        assert!(scene.client().failed.iter().all(|error| *error == Error::Reset));
        let (finished, accepted) = (scene.client().finished, scene.server().accepted);
        assert_eq!(finished, accepted);
        let none = scene.run(Duration::from_secs(200), |scene| scene.server().holds() == 0);
        assert!(none, "lanes that were offered come back");
        scene.end();
    }
}

#[test]
fn a_program_that_never_looks_at_its_events_finds_the_last_state_of_each_lane() {
    let many = Size { lanes: 4096, lane_bytes: 64 };
    let mut scene = Scene::new(1, Shape::SIMPLE, cable::Spec::default(), many, Role::Echo);
    let mut client = scene.client.take().unwrap();
    // More connections than there is room for events, and no way leads to any.
    let remote = (Family::V4.addr(200, 2), PORT).into();
    for n in 0..3000 {
        assert!(client.connect(0, remote, Role::Ask { total: 1, sent: 0, read: 0 }));
        if n % 200 == 0 {
            scene.world.run_for(Duration::from_millis(5));
        }
    }
    scene.world.run_for(Duration::from_secs(1));
    assert!(scene.world.of(scene.hosts[0]).count(Count::ChannelEventsHeld) > 0);
    scene.client = Some(client);
    assert!(scene.run(Duration::from_secs(20), |scene| scene.client().open() == 0));
    assert_eq!(scene.client().failed, vec![Error::NetworkUnreachable; 3000]);
    scene.end();
}

#[test]
fn a_program_that_is_busy_is_not_woken_and_one_that_sleeps_once_for_all_of_a_turn() {
    let mut scene = Scene::new(1, Shape::SIMPLE, cable::Spec::default(), SMALL, Role::Echo);
    scene.run(Duration::from_secs(1), |_| false);
    let before = scene.client().wakes;
    let remote = (Family::V4.addr(1, 2), PORT + 1).into();
    for _ in 0..30 {
        assert!(scene.client().connect(0, remote, Role::Idle));
    }
    scene.run(Duration::from_secs(1), |_| false);
    let woken = scene.client().wakes - before;
    assert!((1..=10).contains(&woken), "30 connections were refused in few turns: {woken} wake-ups");
    scene.client().close_all(false);
    scene.run(Duration::from_secs(1), |scene| scene.client().open() == 0);
    scene.end();
}

#[test]
fn whatever_a_program_says_on_its_channel_the_netisr_goes_on_and_holds_nothing_at_the_end() {
    let mut broken = 0;
    let seeds = seeds(100);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let mut random = sim::random::Random::new(seed);
        let data: Vec<u8> = (0..random.between(20, 600)).map(|_| random.byte()).collect();
        broken += u64::from(sim::fuzz_bodies::channels(&data));
    }
    assert!(count < 50 || broken > count / 4 && broken < count, "{broken} of {count} channels were closed");
}
