use core::net::Ipv6Addr;

use super::*;
use crate::fib::{Origin, To};
use crate::link::tables::{Config, Tables, derived};
use crate::testkit::ifnet;

fn prefix(text: &str) -> Prefix {
    let (addr, len) = text.split_once('/').unwrap();
    Prefix::new(addr.parse().unwrap(), len.parse().unwrap()).unwrap()
}

fn addr(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// Interface `index` without addresses, whose routers advertise these prefixes, and the addresses made of them.
fn told(index: IfIndex, on_link: &[&str], addrs: &[&str]) -> Ifnet {
    let own = |text: &&str| LearnedAddr { addr: addr(text), is_deprecated: false, is_temporary: false };
    let learned = Learned {
        on_link: on_link.iter().map(|text| prefix(text)).collect(),
        addrs: addrs.iter().map(own).collect(),
        ..Learned::default()
    };
    Ifnet { addrs: Vec::new(), learned: Arc::new(learned), ..ifnet(index) }
}

/// Returns the part in force of what interface `index` has learnt.
fn settled(mut ifs: Vec<Ifnet>, routes: &[Route], index: IfIndex) -> Learned {
    settle(&mut ifs, |prefix, ifindex| is_led_elsewhere(routes, prefix, ifindex));
    let ifnet = ifs.iter().find(|ifnet| ifnet.index == index).unwrap();
    assert!(ifnet.learned.own().all(|own| ifnet.has(own.addr)));
    (*ifnet.learned).clone()
}

#[test]
fn a_prefix_that_overlaps_a_configured_one_of_another_interface_is_refused_with_its_addresses() {
    let mine =
        ["2001:db8:3:1::/64", "2001:db8:3::/48", "2001:db8::/32", "2001:db8:3::/65", "2001:db8:3::9/128"];
    for index in [1, 9] {
        for said in
            ["2001:db8:3::/64", "2001:db8:3::/48", "2001:db8::/32", "2001:db8:3::/65", "2001:db8:3::9/128"]
        {
            for up in [true, false] {
                let wan = told(index, &[said, "2001:db8:77::/64"], &["2001:db8:3::77", "2001:db8:77::77"]);
                let learned = settled(vec![wan, Ifnet { up, ..ifnet(3) }], &[], index);
                assert_eq!(learned.on_link, [prefix("2001:db8:77::/64")], "{said}");
                assert_eq!(
                    learned.addrs.iter().map(|own| own.addr).collect::<Vec<_>>(),
                    [addr("2001:db8:77::77")]
                );
                assert!(learned.refused.contains(&prefix(said)), "{said}: {:?}", learned.refused);
                assert!(learned.refused.contains(&prefix("2001:db8:3::/64")));
            }
        }
    }
    // On the interface itself it says what is so anyway, or more.
    let both = Ifnet { addrs: ifnet(3).addrs, ..told(3, &mine, &["2001:db8:3::77"]) };
    let learned = settled(vec![both], &[], 3);
    assert_eq!((learned.on_link.len(), learned.addrs.len(), learned.refused.len()), (5, 1, 0));
}

#[test]
fn a_static_route_is_stronger_than_a_prefix_within_it_and_the_default_route_is_for_what_is_left() {
    let via = |ifindex| To::Gateway { ifindex, via: addr("fe80::7").into() };
    let routes = [
        Route::new(prefix("2001:db8:5::/48"), via(3)),
        Route::new(prefix("2001:db8:6::/48"), To::Blackhole),
        Route::new(prefix("2001:db8:7::/48"), via(1)),
        Route::new(prefix("::/0"), via(3)),
    ];
    let said = [
        "2001:db8:5:1::/64",
        "2001:db8:6:1::/64",
        "2001:db8:7:1::/64",
        "2001:db8:8:1::/64",
        "2001:db8:5::/48",
    ];
    let learned = settled(vec![told(1, &said, &["2001:db8:5:2::7"]), ifnet(3)], &routes, 1);
    assert_eq!(learned.on_link, ["2001:db8:7:1::/64", "2001:db8:8:1::/64"].map(prefix));
    let refused = ["2001:db8:5:1::/64", "2001:db8:6:1::/64", "2001:db8:5::/48", "2001:db8:5:2::/64"];
    assert_eq!((learned.refused, learned.addrs.len()), (refused.map(prefix).to_vec(), 0));
    // A shorter one leaves the route what it has.
    let learned =
        settled(vec![told(1, &["2001:db8::/32"], &[]), Ifnet { addrs: vec![], ..ifnet(3) }], &routes, 1);
    assert_eq!(learned.on_link, [prefix("2001:db8::/32")]);
}

#[test]
fn of_two_interfaces_that_are_told_the_same_the_first_has_it_on_its_link_and_both_have_their_addresses() {
    let tell = |index| told(index, &["2001:db8:5::/64"], &[&format!("2001:db8:5::{index}")]);
    for ifs in [vec![tell(1), tell(4)], vec![tell(4), tell(1)]] {
        let (first, second) = (settled(ifs.clone(), &[], 1), settled(ifs.clone(), &[], 4));
        assert_eq!((first.on_link.len(), second.on_link.len()), (1, 0));
        assert_eq!((first.addrs.len(), second.addrs.len()), (1, 1));
        let tables = Tables::new(Config { ifs, ..Config::default() });
        assert_eq!(tables.hop(0, addr("2001:db8:5::99").into(), || 0).to, To::OnLink { ifindex: 1 });
    }
    // A longer one of another link does not take a part of it.
    let learned = settled(vec![tell(1), told(4, &["2001:db8:5::/65"], &["2001:db8:5::4"])], &[], 4);
    assert_eq!((learned.on_link.len(), learned.addrs.len()), (0, 1));
    let down = Ifnet { up: false, ..tell(1) };
    assert_eq!(settled(vec![down, tell(4)], &[], 4).on_link.len(), 1);
}

#[test]
fn what_routers_say_is_the_weakest_route_to_a_prefix() {
    let mut ifs = vec![told(1, &["2001:db8:5::/64"], &[])];
    settle(&mut ifs, |_, _| false);
    assert_eq!(derived(&ifs, None).iter().map(|route| route.origin).collect::<Vec<_>>(), [Origin::Learned]);
    let via = To::Gateway { ifindex: 1, via: addr("fe80::7").into() };
    let routes = vec![Route::new(prefix("2001:db8:5::/64"), via)];
    let tables = Tables::new(Config { ifs, routes, ..Config::default() });
    assert_eq!(tables.hop(0, addr("2001:db8:5::99").into(), || 0).to, via);
}

#[test]
fn of_the_default_routers_of_several_links_one_that_answers_with_the_least_metric_is_taken() {
    use crate::link::tables::DefaultRouter;
    use wire::nd::Preference::{High, Low, Medium};
    let chosen = |links: [(bool, u32, wire::nd::Preference); 3]| {
        let ifs = (1..).zip(links).map(|(index, (answers, metric, preference))| {
            let router = Some(DefaultRouter { addr: addr("fe80::1"), rank: (answers, preference) });
            let learned = Arc::new(Learned { router, ..Learned::default() });
            Ifnet { learned, metric, ..ifnet(index) }
        });
        let routes = derived(&ifs.collect::<Vec<_>>(), None);
        let default = routes.iter().find(|route| route.to == prefix("::/0")).unwrap();
        default.hop[0].to.ifindex()
    };
    assert_eq!(chosen([(true, 0, Medium), (true, 0, Medium), (true, 0, Low)]), Some(1), "the first");
    assert_eq!(chosen([(true, 0, Medium), (true, 0, High), (true, 0, Low)]), Some(2), "what routers say");
    assert_eq!(chosen([(true, 9, Medium), (true, 8, High), (true, 7, Low)]), Some(3), "the metric");
    assert_eq!(chosen([(true, 9, Low), (false, 8, High), (false, 7, High)]), Some(1), "one that answers");
}
