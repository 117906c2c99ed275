//! Hosts that take addresses and routers from router advertisements, and what others on the link can do to them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod attacks;
mod lives;
pub(crate) mod link;
mod prefix_conflicts;

use core::net::Ipv6Addr;

use net::count::Count;
use net::drop::DropReason;
use net::ip6::autoconf::{Forget, ROUTERS_MAX};
use sim::host::{Port, Spec};
use wire::nd::{Opt, Preference, RouterAdvert};

pub(crate) use link::SECOND;
use link::{BOOT, CPUS, FAR, Link, advert, mac, prefix, router};

#[test]
fn a_host_takes_an_address_and_a_router_and_reaches_what_is_behind_it() {
    for cpus in CPUS {
        let mut link = Link::new("autoconf", cpus, link::EUI64);
        let asked = link.host().count(Count::NdRouterSolicitsSent);
        assert!(asked >= 2, "{asked} questions for routers that nobody answers");
        link.hear(1, advert(), &[Opt::Prefix(prefix(1))]);
        assert_eq!(link.addrs(), ["2001:db8:1::ff:fe00:102"]);
        assert_eq!(link.pings(FAR), 3, "{:?}", link.host().drops());
        assert_eq!(link.host().count(Count::NdRouterSolicitsSent), asked, "who knows a router asks for none");
        link.world.finish();
    }
}

#[test]
fn what_routers_said_is_forgotten_by_command_until_they_say_it_again() {
    for cpus in CPUS {
        let mut link = Link::new("forgotten", cpus, link::EUI64);
        let says = |link: &mut Link| {
            link.hear(1, advert(), &[Opt::Prefix(prefix(1)), Opt::Prefix(prefix(2))]);
            assert_eq!((link.chosen(), link.addrs().len()), (Some(router(1)), 2));
        };
        says(&mut link);
        assert_eq!(link.forget(Forget::Routers), 1);
        assert_eq!((link.chosen(), link.addrs().len()), (None, 2));
        says(&mut link);
        assert_eq!(link.pings(FAR), 3, "{:?}", link.host().drops());
        let addr = "2001:db8:1::ff:fe00:102";
        assert_eq!(link.forget(Forget::Address(addr.parse().unwrap())), 1);
        assert_eq!(link.addrs(), ["2001:db8:2::ff:fe00:102"]);
        says(&mut link);
        assert_eq!(link.forget(Forget::Prefixes), 2);
        assert_eq!((link.chosen(), link.addrs().len()), (Some(router(1)), 0));
        says(&mut link);
        assert_eq!(link.pings(FAR), 3, "{:?}", link.host().drops());
        link.world.finish();
    }
}

#[test]
fn identifiers_are_stable_on_a_link_differ_between_links_and_another_is_tried_when_one_is_taken() {
    let addrs = |net: u8| {
        let mut link = Link::new("stable", 2, link::STABLE);
        link.hear(1, advert(), &[Opt::Prefix(prefix(net))]);
        link.addrs().remove(0).parse::<Ipv6Addr>().unwrap()
    };
    let (one, again, other) = (addrs(1), addrs(1), addrs(2));
    assert_eq!(one, again);
    assert_ne!(one.octets()[8..], other.octets()[8..], "nobody sees that it is the same host");
    let mut link = Link::new("taken", 2, link::STABLE);
    link.router_has(1, one);
    link.hear(1, advert(), &[Opt::Prefix(prefix(1))]);
    let another: Ipv6Addr = link.addrs().remove(0).parse().unwrap();
    assert_ne!(another, one);
    assert_eq!(link.pings(FAR), 3, "{:?}", link.host().drops());
}

#[test]
fn the_router_that_wants_most_is_taken_and_another_when_it_does_not_answer() {
    for cpus in CPUS {
        let mut link = Link::new("routers", cpus, link::EUI64);
        let high = RouterAdvert { preference: Preference::High, ..advert() };
        link.hear(1, advert(), &[Opt::Prefix(prefix(1))]);
        link.hear(2, high, &[]);
        assert_eq!(link.chosen(), Some(router(2)), "of a medium and a high preference");
        link.router_is_mute(2);
        link.pings(FAR);
        link.world.run_for(60 * SECOND);
        link.pings(FAR);
        link.world.run_for(10 * SECOND);
        assert_eq!(link.chosen(), Some(router(1)), "{:?}", link.host().drops());
        assert_eq!(link.pings(FAR), 3, "{:?}", link.host().drops());
        link.hear(1, RouterAdvert { lifetime_s: 0, ..advert() }, &[]);
        assert_eq!(link.chosen(), Some(router(2)), "the other has resigned");
    }
}

#[test]
fn a_default_router_is_used_until_its_lifetime_ends() {
    for cpus in CPUS {
        let mut link = Link::new("router_expires", cpus, link::EUI64);
        link.hear(1, RouterAdvert { lifetime_s: 60, ..advert() }, &[Opt::Prefix(prefix(1))]);
        assert_eq!((link.chosen(), link.pings(FAR)), (Some(router(1)), 3));
        link.world.run_for(50 * SECOND);
        assert_eq!(link.pings(FAR), 3, "{:?}", link.host().drops());
        link.world.run_for(15 * SECOND);
        assert_eq!(link.chosen(), None);
        let mut cpus = link.host().cpus.iter().map(|cpu| &cpu.netisr.cpu);
        assert!(
            cpus.all(|cpu| net::output::source_for(cpu, 0, FAR.into()).is_none()),
            "no CPU has a way any more"
        );
        assert_eq!(link.addrs(), ["2001:db8:1::ff:fe00:102"], "the address lives on");
    }
}

#[test]
fn a_prefix_of_two_routers_is_one_address_that_outlives_either_router() {
    for cpus in CPUS {
        let mut link = Link::new("one_prefix", cpus, link::EUI64);
        for number in [1, 2] {
            link.hear(number, RouterAdvert { lifetime_s: 60, ..advert() }, &[Opt::Prefix(prefix(1))]);
        }
        assert_eq!(link.addrs(), ["2001:db8:1::ff:fe00:102"]);
        link.world.run_for(50 * SECOND);
        link.hear(2, RouterAdvert { lifetime_s: 60, ..advert() }, &[]);
        link.world.run_for(15 * SECOND);
        assert_eq!((link.chosen(), link.pings(FAR)), (Some(router(2)), 3), "{:?}", link.host().drops());
        assert_eq!(link.addrs(), ["2001:db8:1::ff:fe00:102"]);
    }
}

#[test]
fn a_router_that_resigns_leaves_the_tables_at_once() {
    for cpus in CPUS {
        let mut link = Link::new("resigns", cpus, link::EUI64);
        link.hear(1, advert(), &[Opt::Prefix(prefix(1))]);
        link.hear(2, advert(), &[]);
        let used = |link: &mut Link| -> Vec<_> {
            let cpus = link.host().cpus.iter();
            cpus.map(|cpu| cpu.netisr.cpu.tables.ifnet(1)?.learned.router.map(|router| router.addr)).collect()
        };
        assert_eq!(used(&mut link), vec![Some(router(1)); cpus.into()]);
        // Tables have just changed, and would not change again for a while.
        link.hear_from(router(2), mac(2), advert(), &[Opt::Prefix(prefix(2))]);
        for (number, next) in [(1, Some(router(2))), (2, None)] {
            let resigned = RouterAdvert { lifetime_s: 0, ..advert() };
            link.hear_from(router(number), mac(number), resigned, &[]);
            assert_eq!(
                used(&mut link),
                vec![next; cpus.into()],
                "a millisecond after router {number} resigned"
            );
        }
    }
}

#[test]
fn a_redirect_of_the_router_in_use_is_followed_until_its_target_is_silent() {
    for cpus in CPUS {
        let mut link = Link::new("redirect", cpus, link::EUI64);
        link.hear(1, advert(), &[Opt::Prefix(prefix(1))]);
        assert_eq!(link.pings(FAR), 3);
        link.redirect(1, 2, FAR);
        assert_eq!(link.host().count(Count::NdRedirectsIn), 1);
        let before = link.heard_pings(2);
        link.pings(FAR);
        assert_eq!(link.heard_pings(2), before + 3, "they go by the better router");
        link.redirect(1, 2, FAR);
        assert_eq!(link.host().count(Count::NdRedirectsIn), 1, "it is the first hop no more");
        link.router_is_mute(2);
        link.world.run_for(60 * SECOND);
        link.pings(FAR);
        link.world.run_for(10 * SECOND);
        assert_eq!(link.pings(FAR), 3, "and by the first one again, when that does not answer");
    }
}

#[test]
fn a_path_mtu_is_learned_by_every_cpu_and_forgotten_after_ten_minutes() {
    for cpus in CPUS {
        let mut link = Link::new("pmtu", cpus, link::EUI64);
        link.hear(1, advert(), &[Opt::Prefix(prefix(1))]);
        link.too_big(1, FAR, 1300);
        let known = |link: &mut Link| link.mtu_to(FAR);
        assert!(known(&mut link).iter().all(|mtu| *mtu == 1300), "{:?}", known(&mut link));
        link.too_big(1, FAR, 1400);
        link.too_big(1, FAR, 1000);
        assert!(known(&mut link).iter().all(|mtu| *mtu == 1300), "neither more, nor less than IPv6 needs");
        link.world.run_for(601 * SECOND);
        assert!(known(&mut link).iter().all(|mtu| *mtu == 1500));
    }
}

#[test]
fn a_router_and_a_host_that_is_not_told_to_believe_no_advertisement() {
    let spec = |forwarding| {
        move |cable| {
            let spec = Spec { forwarding, ..Spec::host("host") };
            spec.port(Port::new(cable, 1, 2))
        }
    };
    for forwarding in [false, true] {
        let mut link = Link::around("ignored", spec(forwarding));
        link.hear(1, advert(), &[Opt::Prefix(prefix(7))]);
        assert_eq!((link.addrs(), link.chosen()), (Vec::new(), None));
        assert_eq!(link.host().count(Count::NdRouterIgnored), 1);
    }
}

#[test]
fn a_router_that_is_told_to_believes_advertisements_of_that_interface() {
    let mut link = Link::around("router", |cable| {
        let port = Port::new(cable, 1, 2).autoconf(link::EUI64);
        Spec::router("host").port(port)
    });
    link.hear(1, advert(), &[Opt::Prefix(prefix(1))]);
    assert_eq!((link.addrs().len(), link.chosen()), (1, Some(router(1))));
}

#[test]
fn what_is_sent_has_the_hop_limit_that_routers_say() {
    let mut link = Link::new("hop_limit", 2, link::EUI64);
    link.hear(1, advert(), &[Opt::Prefix(prefix(1))]);
    let ttl = |link: &mut Link| {
        link.router_pings();
        link.last_ttl_at(1)
    };
    assert_eq!(ttl(&mut link), 64);
    link.hear(1, RouterAdvert { hop_limit: 99, ..advert() }, &[]);
    assert_eq!(ttl(&mut link), 99);
}

#[test]
fn an_interface_that_goes_down_forgets_what_it_was_told() {
    let mut link = Link::new("down", 2, link::EUI64);
    link.hear(1, advert(), &[Opt::Prefix(prefix(1))]);
    assert!(link.host().change(|spec| spec.ports[0].up = false));
    link.world.run_for(SECOND);
    assert!(link.host().change(|spec| spec.ports[0].up = true));
    link.world.run_for(BOOT);
    assert_eq!((link.addrs(), link.chosen()), (Vec::new(), None));
    link.hear(1, advert(), &[Opt::Prefix(prefix(1))]);
    assert_eq!(link.pings(FAR), 3, "{:?}", link.host().drops());
}

#[test]
fn the_ninth_router_is_refused_and_counted() {
    let mut link = Link::new("ninth", 1, link::EUI64);
    for number in 1..=ROUTERS_MAX + 1 {
        let from = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 9, u16::try_from(number).unwrap());
        link.hear_from(from, mac(1), advert(), &[]);
    }
    assert_eq!(link.host().count(Count::NdRoutersFull), 1);
    assert_eq!(link.host().dropped(DropReason::NdMalformed), 0);
}
