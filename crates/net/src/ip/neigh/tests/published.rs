//! Proxy ARP and proxy neighbour discovery: answers for hosts elsewhere.

use std::sync::Arc;

use super::*;
use crate::link::tables::{PUBLISHED_MAX, Publication, Published};
use crate::testkit::{addr4, addr6};

const PROXY: Mac = Mac([6, 0, 0, 0, 0, 0x77]);

/// Interface 1 publishes host 9 of interface 2, and with link address [`PROXY`] host 8; it is a proxy for ARP if `is_proxy`.
fn bench(family: Family, is_proxy: bool, cpus: u16) -> Bench {
    let list = vec![
        Publication { addr: family.addr(2, 9), mac: None },
        Publication { addr: family.addr(2, 8), mac: Some(PROXY) },
    ];
    let mut bench = Bench::with(2, cpus, |config| {
        config.ifs[0].published = Arc::new(Published::new(list.clone(), is_proxy));
    });
    bench.neighbours_answer = false;
    bench
}

/// Returns the answers to a question on interface `i` for `target`.
fn asked(bench: &mut Bench, i: u16, source: IpAddr, target: IpAddr) -> Vec<Said> {
    bench.hear(i, &question(HOST, source, target));
    bench.said(i)
}

fn unspecified(family: Family) -> IpAddr {
    match family {
        Family::V4 => [0; 4].into(),
        Family::V6 => [0_u16; 8].into(),
    }
}

#[test]
fn published_addresses_are_answered_for_on_their_interface_alone() {
    for family in FAMILIES {
        let (asker, target) = (family.addr(1, 16), family.addr(2, 9));
        let mut bench = bench(family, false, 1);
        let answer = |target, mac| vec![Said::Answered { to: HOST, target, mac: Some(mac) }];
        assert_eq!(asked(&mut bench, 1, asker, target), answer(target, mac(1)));
        assert_eq!(asked(&mut bench, 1, asker, family.addr(2, 8)), answer(family.addr(2, 8), PROXY));
        let known = entries(bench.cpu()).into_iter().any(|entry| entry.key.addr == asker);
        assert!(known, "there will be packets for the asker");
        assert_eq!(asked(&mut bench, 1, asker, family.addr(2, 10)), [], "another one");
        assert_eq!(asked(&mut bench, 2, family.addr(2, 16), target), [], "its own link");
        let stranger = if family == Family::V4 { addr4(7, 7).into() } else { addr6(7, 7).into() };
        if family == Family::V6 {
            assert_eq!(asked(&mut bench, 1, stranger, target), [], "no neighbour has asked");
        }
        let proxied = bench.counted(Count::ArpProxied) + bench.counted(Count::NdProxied);
        assert_eq!(proxied, 2);
    }
}

/// A host asks those that it knows whether they are still reachable, with a message to their own address.
#[test]
fn a_question_of_reachability_for_a_published_address_is_answered_and_not_forwarded() {
    for family in FAMILIES {
        let (asker, target) = (family.addr(1, 16), family.addr(2, 9));
        let mut bench = bench(family, false, 1);
        bench.hear(1, &question_to(mac(1), HOST, asker, target));
        assert_eq!(bench.said(1), [Said::Answered { to: HOST, target, mac: Some(mac(1)) }]);
        assert_eq!(bench.said(2), [], "the host itself is not asked");
        // The same for an address that is not published is a packet like others.
        bench.hear(1, &question_to(mac(1), HOST, asker, family.addr(2, 10)));
        assert_eq!(bench.said(1), []);
    }
}

#[test]
fn a_probe_for_a_published_address_is_answered_since_it_is_in_use() {
    for family in FAMILIES {
        let mut bench = bench(family, true, 1);
        let said = asked(&mut bench, 1, unspecified(family), family.addr(2, 9));
        assert!(matches!(said[..], [Said::Answered { mac: Some(with), .. }] if with == mac(1)), "{said:?}");
        let entries = entries(bench.cpu());
        assert!(entries.is_empty(), "a probe says nothing of its sender: {entries:?}");
    }
}

#[test]
fn a_proxy_answers_for_what_is_routed_by_another_interface() {
    let asker = addr4(1, 16).into();
    let target = IpAddr::from(addr4(2, 33));
    for (is_proxy, forwarding, answers) in [(true, true, 1), (false, true, 0), (true, false, 0)] {
        let mut bench = Bench::with(2, 1, |config| {
            config.ifs[0].published = Arc::new(Published::new(Vec::new(), is_proxy));
            config.forwarding = forwarding;
        });
        bench.neighbours_answer = false;
        assert_eq!(asked(&mut bench, 1, asker, target).len(), answers, "{is_proxy} {forwarding}");
        // Of the own link, without a route, ours elsewhere, or probed for, none is answered for.
        for target in [addr4(1, 40), [203, 0, 113, 9].into(), addr4(2, 1)] {
            assert_eq!(asked(&mut bench, 1, asker, target.into()), [], "{target}");
        }
        assert_eq!(asked(&mut bench, 1, unspecified(Family::V4), target), []);
    }
}

#[test]
fn an_interface_publishes_a_bounded_number_of_addresses_once_each() {
    let publication = |n: usize| Publication { addr: addr6(2, u16::try_from(n).unwrap()).into(), mac: None };
    let list: Vec<_> = (0..PUBLISHED_MAX + 10).map(publication).collect();
    let published = Published::new(list, false);
    assert_eq!(published.iter().count(), PUBLISHED_MAX);
    assert_eq!(published.get(publication(PUBLISHED_MAX).addr), None);
    let twice = [Publication { mac: Some(PROXY), ..publication(1) }, publication(1)];
    assert_eq!(Published::new(twice.into(), false).get(publication(1).addr), Some(&twice[0]));
}
