//! A router that advertises itself, and hosts that configure themselves from it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use core::net::Ipv6Addr;
use core::sync::atomic::Ordering;
use std::sync::mpsc::channel;

use net::count::Count;
use net::ip6::autoconf::{self, Status};
use net::ip6::rtadv::DEPRECATED_MAX;
use net::tables::{RtadvExpiry, RtadvSettings};
use net::time::{Duration, Instant};
use sim::cable;
use sim::host::{Port, Spec};
use sim::plan::{self, Family};
use sim::station::Station;
use sim::world::{HostId, Permit, StationId, World};
use wire::addr::ALL_ROUTERS;
use wire::nd::{Message, Prefix, RouteInfo};

use crate::autoconf::SECOND;
use crate::autoconf::link::{EUI64, nd_frame, prefix};

const CPUS: [u16; 3] = [1, 2, 8];
const STEP: Duration = Duration::from_millis(20);

/// A router with a host and a station on one link, and a station on the other.
struct Office {
    world: World,
    router: HostId,
    host: HostId,
    near: StationId,
    ident: u16,
}

impl Office {
    fn new(name: &str, seed: u64, cpus: u16, settings: RtadvSettings) -> Self {
        let mut world = World::new(name, seed);
        let [lan, wan] = [(); 2].map(|()| world.cable(cable::Spec::default()));
        let router = Spec::router("router").cpus(cpus);
        let router = router.port(Port::new(lan, 1, 1).advertises(settings)).port(Port::new(wan, 2, 1));
        let far = Station::new("far", plan::mac(2, 9), &plan::addrs(2, 9)).gateway(Family::V6.addr(2, 1));
        world.station(wan, far);
        let near = Station::new("near", plan::mac(1, 9), &plan::addrs(1, 9));
        let near = world.station(lan, near);
        let router = world.host(router);
        let host = Spec::host("host").cpus(cpus).port(Port::new(lan, 1, 2).autoconf(EUI64));
        let host = world.host(host);
        Self { world, router, host, near, ident: 1 }
    }

    /// What the host has learned of the link.
    fn learned(&mut self) -> Option<Status> {
        let (sender, receiver) = channel();
        let ask = move |netisr: &mut net::netisr::Netisr| drop(sender.send(autoconf::states(&netisr.cpu)));
        assert!(self.world.of(self.host).tour(ask, || ()));
        self.world.run_for(Duration::from_millis(1));
        receiver.try_iter().flatten().next()
    }

    /// Whether the host comes to have a default router, or to have none.
    fn comes_to_have_router(&mut self, has: bool) -> bool {
        (0..40).any(|_| {
            self.world.run_for(SECOND / 4);
            self.learned().is_some_and(|status| status.routers.iter().any(|router| router.is_chosen) == has)
        })
    }

    fn reaches_far(&mut self) -> usize {
        self.ident += 1;
        let ident = self.ident;
        let replies = self.world.of(self.host).ping(Family::V6.addr(2, 9), ident, 3);
        self.world.run_for(2 * SECOND);
        replies.load(Ordering::Relaxed)
    }

    fn change(&mut self, change: impl FnOnce(&mut RtadvSettings)) {
        let changed = self.world.of(self.router).change(|spec| {
            let mut settings = (**spec.ports[0].rtadv.as_ref().unwrap()).clone();
            change(&mut settings);
            spec.ports[0].rtadv = Some(settings.into());
        });
        assert!(changed);
    }

    fn sent(&mut self) -> u64 {
        self.world.of(self.router).count(Count::NdRouterAdvertsSent)
    }

    /// The times of the next advertisements, within so long; `meanwhile` is done between steps.
    fn times(&mut self, span: Duration, mut meanwhile: impl FnMut(&mut Self)) -> Vec<Instant> {
        let (end, mut times) = (self.world.now() + span, Vec::new());
        while self.world.now() < end {
            let before = self.sent();
            meanwhile(self);
            self.world.run_for(STEP);
            let now = self.world.now();
            times.extend((before..self.sent()).map(|_| now));
        }
        times
    }

    /// Another host asks for routers, from the unspecified address.
    fn asks(&mut self) {
        let message = Message::RouterSolicit;
        let frame = nd_frame(plan::mac(1, 9), [Ipv6Addr::UNSPECIFIED, ALL_ROUTERS], message, &[]);
        self.world.at(self.near).send_frame(frame);
    }
}

fn one_prefix() -> RtadvSettings {
    RtadvSettings { prefixes: vec![prefix(1)], ..RtadvSettings::default() }
}

fn gaps(times: &[Instant]) -> Vec<Duration> {
    times.windows(2).map(|pair| pair[1].since(pair[0])).collect()
}

#[test]
fn a_host_takes_its_address_and_router_from_a_router_of_ours_and_reaches_what_is_behind_it() {
    for (seed, cpus) in (1..=4).flat_map(|seed| CPUS.map(|cpus| (seed, cpus))) {
        let mut office = Office::new("office", seed, cpus, one_prefix());
        assert!(office.comes_to_have_router(true), "{seed}, {cpus}: {:?}", office.learned());
        let status = office.learned().unwrap();
        assert_eq!(status.addrs.len(), 1, "{status:?}");
        // It looks for duplicates.
        office.world.run_for(3 * SECOND);
        assert_eq!(office.reaches_far(), 3, "{seed}, {cpus}");
        office.world.finish();
    }
}

#[test]
fn a_delegated_prefix_is_advertised_for_no_longer_than_it_lasts() {
    for (seed, cpus) in (1..=4).flat_map(|seed| CPUS.map(|cpus| (seed, cpus))) {
        let Prefix { addr, len, .. } = prefix(1);
        let (preferred, valid) = (Instant::START + 60 * SECOND, Instant::START + 90 * SECOND);
        let expiring = vec![RtadvExpiry { addr, len, preferred, valid }];
        let mut office = Office::new("delegated", seed, cpus, RtadvSettings { expiring, ..one_prefix() });
        assert!(office.comes_to_have_router(true));
        let mut seen = Vec::new();
        for at in [50, 70, 100] {
            let now = office.world.now();
            office.world.run_for((Instant::START + at * SECOND).since(now));
            seen.push(office.learned().unwrap().learned.addrs.first().map(|own| own.is_deprecated));
        }
        assert_eq!(seen, [Some(false), Some(true), None], "{seed}, {cpus}");
        office.world.finish();
    }
}

#[test]
fn solicitations_are_answered_soon_but_a_flood_of_them_gets_one_advertisement_in_three_seconds() {
    for (seed, cpus) in (1..=4).flat_map(|seed| CPUS.map(|cpus| (seed, cpus))) {
        let mut office = Office::new("asked", seed, cpus, one_prefix());
        office.world.run_for(120 * SECOND);
        office.asks();
        let answer = office.times(SECOND, |_| ());
        assert_eq!(answer.len(), 1, "{seed}, {cpus}");
        let flood = office.times(60 * SECOND, Office::asks);
        assert!(flood.len() >= 15, "{seed}, {cpus}: {flood:?}");
        assert!(gaps(&flood).iter().all(|gap| *gap + STEP >= 3 * SECOND), "{seed}, {cpus}: {flood:?}");
        office.world.finish();
    }
}

#[test]
fn unsolicited_advertisements_come_at_random_times_within_the_interval_and_the_first_ones_sooner() {
    for seed in 1..=4 {
        let settings = RtadvSettings { interval: (20 * SECOND, 60 * SECOND), ..one_prefix() };
        let mut office = Office::new("interval", seed, 2, settings);
        let times = office.times(900 * SECOND, |_| ());
        let gaps = gaps(&times);
        // The second one may answer the host.
        assert!(gaps[..2].iter().all(|gap| *gap <= 16 * SECOND + STEP), "{seed}: {gaps:?}");
        let later = &gaps[3..];
        assert!(later.len() >= 10, "{seed}: {gaps:?}");
        assert!(
            later.iter().all(|gap| (20 * SECOND..=60 * SECOND + STEP).contains(&(*gap + STEP))),
            "{seed}: {gaps:?}"
        );
        assert!(
            later.iter().max().unwrap().saturating_sub(*later.iter().min().unwrap()) > SECOND,
            "{gaps:?}"
        );
        office.world.finish();
    }
}

#[test]
fn a_router_that_ceases_to_advertise_or_to_forward_says_so_at_once() {
    for (seed, cpus) in (1..=4).flat_map(|seed| CPUS.map(|cpus| (seed, cpus))) {
        let mut office = Office::new("farewell", seed, cpus, one_prefix());
        assert!(office.comes_to_have_router(true));
        assert!(office.world.of(office.router).change(|spec| spec.forwarding = false));
        assert!(office.comes_to_have_router(false), "it does not forward");
        assert!(office.world.of(office.router).change(|spec| spec.forwarding = true));
        assert!(office.comes_to_have_router(true), "it does again");
        assert!(office.world.of(office.router).change(|spec| spec.ports[0].rtadv = None));
        assert!(office.comes_to_have_router(false), "it does not advertise");
        let sent = office.sent();
        office.asks();
        office.world.run_for(700 * SECOND);
        assert_eq!(office.sent(), sent, "and is silent from then on");
        office.world.allow(Permit::Nonsense);
        office.world.finish();
    }
}

#[test]
fn a_prefix_that_is_advertised_no_more_is_deprecated_and_another_takes_its_place() {
    for (seed, cpus) in (1..=4).flat_map(|seed| CPUS.map(|cpus| (seed, cpus))) {
        let mut office = Office::new("renumber", seed, cpus, one_prefix());
        assert!(office.comes_to_have_router(true));
        office.change(|settings| settings.prefixes = vec![prefix(7)]);
        office.world.run_for(10 * SECOND);
        let status = office.learned().unwrap();
        let now = office.world.now();
        let of = |net: u16| status.addrs.iter().find(|own| own.addr.segments()[2] == net).unwrap();
        assert!(of(1).preferred <= now && of(1).valid > now, "{seed}, {cpus}: {status:?}");
        assert!(of(7).preferred > now, "{seed}, {cpus}: {status:?}");
        office.world.finish();
    }
}

#[test]
fn of_too_many_deprecated_prefixes_the_oldest_gives_way_and_the_largest_advertisement_is_sent() {
    let mut office = Office::new("many", 1, 2, one_prefix());
    let addr = Ipv6Addr::new(0x2001, 0xdb8, 5, 0, 0, 0, 0, 0);
    let route = RouteInfo { addr, len: 128, preference: Default::default(), lifetime_s: 60 };
    for round in 0..u8::try_from(DEPRECATED_MAX).unwrap() + 3 {
        office.change(|settings| {
            settings.prefixes =
                (0..16).map(|at| Prefix { on_link: false, ..prefix(16 * round + at) }).collect();
            (settings.servers, settings.search) = (vec![[1; 16]; 4], vec![0; 240].into());
            (settings.routes, settings.mtu) = (vec![route; 8], Some(1500));
            settings.nat64 = Some(wire::nd::Pref64 { prefix: [0; 12], len: 96, lifetime_s: 600 });
        });
        let before = office.sent();
        office.world.run_for(5 * SECOND);
        assert!(office.sent() > before, "round {round}");
    }
    office.world.finish();
}
