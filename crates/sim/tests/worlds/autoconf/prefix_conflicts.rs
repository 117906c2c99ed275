//! A router on one link that says that the prefixes of others are on its own.

use core::net::Ipv6Addr;

use net::count::Count;
use net::fib::{Hop, Prefix, Route, To};
use net::tables::Learned;
use sim::host::{Port, Spec};
use sim::plan::{self, Family};
use sim::station::Content;
use sim::world::StationId;
use wire::nd::{self, Opt};

use super::link::{self, CPUS, FAR, Link, SECOND, advert, prefix, router};
use crate::common::station;

/// The network of the LAN, and that of another link of the host.
const LAN: u8 = 5;
const DMZ: u8 = 6;
/// The index of the LAN's interface; the first one listens to routers.
const LAN_IF: u16 = 2;

/// A router with an interface that listens to advertisements, one of the LAN and another one.
struct Taken {
    link: Link,
    other: StationId,
    pings: u16,
}

/// A host on the LAN.
fn victim() -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, LAN.into(), 0, 0, 0, 0, 9)
}

impl Taken {
    fn new(name: &str, cpus: u16, change: impl FnOnce(Spec) -> Spec) -> Self {
        let mut link = Link::beside(name, |[wan, lan, dmz]| {
            let wan = Port::new(wan, 1, 2).autoconf(link::EUI64);
            let router = Spec::router("host").cpus(cpus).port(wan);
            change(router.port(Port::new(lan, LAN, 1)).port(Port::new(dmz, DMZ, 1)))
        });
        let [_, lan, dmz] = link.cables;
        link.world.station(lan, station(LAN, 9));
        let other = link.world.station(dmz, station(DMZ, 9));
        link.world.run_for(SECOND);
        Self { link, other, pings: 0 }
    }

    fn hear(&mut self, said: nd::Prefix) {
        self.link.hear(1, advert(), &[Opt::Prefix(said)]);
    }

    /// Whether the victim is reached from here, and by what is forwarded.
    fn is_reached(&mut self) -> [bool; 2] {
        let own = self.link.pings(victim()) == 3;
        self.pings += 1;
        let id = self.pings;
        let other = self.link.world.at(self.other);
        other.ping(victim().into(), [id, 1], 56);
        self.link.world.run_for(2 * SECOND);
        let other = self.link.world.at(self.other);
        let is_reply = |what: &Content| matches!(what, Content::EchoReply { id: of, .. } if *of == id);
        [own, other.heard.iter().any(|heard| is_reply(&heard.what))]
    }

    /// Tells whether the router of the other link received packets that are not its own.
    fn is_stolen(&mut self) -> bool {
        self.link.heard_pings(1) > 0
    }

    fn learned(&mut self) -> Learned {
        (*self.link.host().cpus[0].netisr.cpu.tables.ifnet(1).unwrap().learned).clone()
    }

    fn way(&mut self) -> To {
        self.link.host().cpus[0].netisr.cpu.tables.hop(0, victim().into(), || 0).to
    }
}

/// Prefixes that hold the victim: the LAN's own, and longer and shorter ones.
fn thefts() -> Vec<nd::Prefix> {
    let lens = [64, 65, 80, 128, 63, 48, 32, 3];
    let theft = |len| nd::Prefix { addr: victim(), len, ..prefix(LAN) };
    lens.into_iter().map(theft).collect()
}

#[test]
fn a_configured_prefix_is_not_taken_by_what_a_router_of_another_link_advertises() {
    for cpus in CPUS {
        let mut taken = Taken::new("taken_prefix", cpus, |spec| spec);
        for (at, theft) in thefts().into_iter().enumerate() {
            taken.hear(theft);
            assert_eq!(taken.is_reached(), [true; 2], "{theft:?}: {:?}", taken.link.host().drops());
            let refused = Prefix::new(theft.addr.into(), theft.len).unwrap();
            let learned = taken.learned();
            assert_eq!((learned.on_link.len(), learned.addrs.len()), (0, 0), "{theft:?}");
            assert!(learned.refused.contains(&refused), "{theft:?}: {learned:?}");
            assert_eq!(taken.link.host().count(Count::NdPrefixesRefused), at as u64 + 1, "each once");
        }
        let counted = taken.link.host().count(Count::NdPrefixesRefused);
        taken.hear(prefix(LAN));
        assert_eq!(
            taken.link.host().count(Count::NdPrefixesRefused),
            counted + 1,
            "and again when it is said again"
        );
        assert_eq!((taken.way(), taken.is_stolen()), (To::OnLink { ifindex: LAN_IF }, false));
        taken.hear(prefix(1));
        assert_eq!(taken.learned().on_link.len(), 1, "what is nobody's is believed");
    }
}

#[test]
fn what_is_configured_later_ends_what_was_learned_and_what_goes_may_be_learned() {
    for cpus in CPUS {
        let mut taken = Taken::new("taken_late", cpus, |mut spec| {
            spec.ports[1].addrs.clear();
            spec
        });
        taken.hear(prefix(LAN));
        assert_eq!(taken.way(), To::OnLink { ifindex: 1 }, "the prefix is nobody's yet");
        assert_eq!(taken.learned().addrs.len(), 1);
        taken.link.host().change(|spec| spec.ports[1].addrs = plan::addrs(LAN, 1));
        taken.link.world.run_for(4 * SECOND);
        assert_eq!(taken.way(), To::OnLink { ifindex: LAN_IF });
        assert_eq!((taken.learned().on_link.len(), taken.learned().addrs.len()), (0, 0));
        assert_eq!(taken.link.host().count(Count::NdPrefixesRefused), 1);
        assert_eq!(taken.is_reached(), [true; 2], "{:?}", taken.link.host().drops());
        taken.link.host().change(|spec| spec.ports[1].addrs.clear());
        taken.link.world.run_for(4 * SECOND);
        assert_eq!(taken.way(), To::OnLink { ifindex: 1 }, "it lives still");
    }
}

#[test]
fn a_static_route_is_not_taken_by_what_a_router_of_another_link_advertises() {
    let near = Family::V6.addr(DMZ, 9);
    let far = Prefix::new(Family::V6.addr(0x70, 0), 48).unwrap();
    let everything = Family::V6.default_prefix();
    let mut taken = Taken::new("taken_static", 2, |spec| spec.via(far, near).via(everything, near));
    let within = |len| nd::Prefix { addr: "2001:db8:70:1::".parse().unwrap(), len, ..prefix(0x70) };
    for len in [48, 64, 96] {
        taken.hear(within(len));
        let learned = taken.learned();
        assert_eq!((learned.on_link.len(), learned.addrs.len()), (0, 0), "{len}");
    }
    taken.hear(prefix(1));
    assert_eq!(taken.learned().on_link.len(), 1, "the default route is for what is left");
    taken.link.host().change(|spec| spec.routes.clear());
    taken.link.world.run_for(SECOND);
    assert_eq!(taken.learned().refused, [], "all that was said may be so now");
}

#[test]
fn prefixes_of_groups_and_of_every_link_are_refused() {
    let mut taken = Taken::new("taken_groups", 1, |spec| spec);
    for (addr, len) in [("::", 0), ("ff00::", 8), ("ff05::", 64), ("8000::", 1), ("fe00::", 7)] {
        taken.hear(nd::Prefix { addr: addr.parse().unwrap(), len, ..prefix(1) });
        assert_eq!(taken.learned().on_link, [], "{addr}/{len}");
    }
    assert_eq!(taken.link.host().count(Count::NdPrefixesRefused), 5);
}

#[test]
fn route_information_and_redirects_lead_nothing_away_that_is_configured() {
    for cpus in CPUS {
        let mut taken = Taken::new("taken_routes", cpus, |spec| Spec { forwarding: false, ..spec });
        taken.hear(prefix(1));
        // RFC 4191 §2.3: the LAN's prefix, of high preference, for ever.
        let mut option = [0xff; 14];
        (option[0], option[1]) = (64, 0b0000_1000);
        option[6..].copy_from_slice(&victim().octets()[..8]);
        taken.link.hear(1, advert(), &[Opt::Unknown { kind: 24, data: &option }]);
        taken.link.redirect(1, 2, victim());
        let quoted = taken.link.datagram_to(victim());
        taken.link.redirect_by(
            router(1),
            link::mac(1),
            victim(),
            victim(),
            &[Opt::TargetLinkAddr(link::mac(2)), Opt::Redirected(&quoted)],
        );
        assert_eq!(taken.link.host().count(Count::NdRedirectsIn), 0);
        assert!(taken.is_reached()[0], "{:?}", taken.link.host().drops());
        assert_eq!((taken.way(), taken.is_stolen()), (To::OnLink { ifindex: LAN_IF }, false));
    }
}

#[test]
fn a_redirect_ends_when_a_route_is_configured_that_leads_elsewhere() {
    for cpus in CPUS {
        let mut taken = Taken::new("taken_redirect", cpus, |spec| Spec { forwarding: false, ..spec });
        taken.hear(prefix(1));
        assert_eq!(taken.link.pings(FAR), 3);
        taken.link.redirect(1, 2, FAR);
        taken.link.pings(FAR);
        assert_eq!(taken.link.heard_pings(2), 3);
        let (far, near) = (Prefix::new(FAR.into(), 64).unwrap(), Family::V6.addr(DMZ, 9));
        let to = Hop::from(To::Gateway { ifindex: LAN_IF + 1, via: near });
        taken.link.host().change(|spec| spec.routes.push(Route { fib: 0, to: far, hops: vec![to] }));
        taken.link.world.run_for(SECOND);
        taken.link.pings(FAR);
        let heard = [1, 2].map(|router| taken.link.heard_pings(router));
        assert_eq!(heard, [3, 3], "neither router hears any more");
    }
}
