//! Links of different sizes: path MTU discovery, and frames of 9000 bytes.

use crate::lab::{Attach, Family, Lab, Link};
use crate::socket::{Ping, datagram_arrives, path_mtu, ping, stream_arrives};

/// Bytes of UDP data that fill a packet of 1500 bytes.
fn full(family: Family) -> usize {
    family.pick(1472, 1452)
}

fn a_socket_learns_the_mtu_of_a_link_behind_pantala() {
    for kind in [Attach::Native, Attach::Tap] {
        let links = [Link::new(kind), Link::new(kind).mtu(1400)];
        let Some(lab) = Lab::start("pmtu::a_socket_learns_the_mtu_of_a_link_behind_pantala", &links) else {
            return;
        };
        let (a, b) = lab.pair();
        lab.both(|family| {
            let learnt = path_mtu(&a.netns, b.addr(family), full(family));
            assert_eq!(learnt, (Some(1400), true), "{}", a.link);
        });
        assert!(lab.pantala().dropped("too_big") >= 2);
    }
}

fn a_stream_finds_its_way_through_a_narrow_link() {
    // The hosts believe in 1500 bytes, so that the first full segments do not fit between pantala and the second.
    for kinds in [[Attach::Native; 2], [Attach::Tap; 2], [Attach::Tap, Attach::Native]] {
        let [from, to] = kinds.map(Link::new);
        let links = [from, to.pantala_mtu(1400)];
        let Some(lab) = Lab::start("pmtu::a_stream_finds_its_way_through_a_narrow_link", &links) else {
            return;
        };
        if kinds[1] == Attach::Tap {
            // pantala has made the TAP as narrow as its own end.
            lab.hosts[1].netns.netlink().unwrap().set_mtu(&lab.hosts[1].inside(), 1500).unwrap();
        }
        let (a, b) = lab.pair();
        lab.both(|family| {
            let name = family.pick("icmp_errors_sent", "icmp6_errors_sent");
            assert_eq!(lab.pantala().counter(name), 0);
            assert!(stream_arrives(&a.netns, &b.netns, b.addr(family), 4_000_000).unwrap(), "{kinds:?}");
            assert!(lab.pantala().counter(name) > 0, "{kinds:?}: the sender was not told");
        });
    }
}

fn what_may_be_fragmented_is_fragmented_for_a_narrow_link() {
    let links = [Link::new(Attach::Native), Link::new(Attach::Native).mtu(1400)];
    let Some(lab) = Lab::start("pmtu::what_may_be_fragmented_is_fragmented_for_a_narrow_link", &links) else {
        return;
    };
    let (a, b) = lab.pair();
    assert_eq!(ping(&a.netns, b.addr(Family::V4), 1), 1, "the neighbours are known");
    // Datagrams of many fragments: the kernel sends them without DF, and each fragment is too long again.
    assert!(datagram_arrives(&a.netns, &b.netns, b.addr(Family::V4), 20_000));
    assert!(lab.pantala().counter("ip4_fragmented") >= 13);
}

fn frames_of_9000_bytes_cross_whole() {
    for kinds in [[Attach::Native; 2], [Attach::Generic; 2], [Attach::Tap; 2], [Attach::Native, Attach::Tap]]
    {
        let links = kinds.map(|kind| Link::new(kind).mtu(9000).rings(2));
        let Some(lab) = Lab::start("pmtu::frames_of_9000_bytes_cross_whole", &links) else { return };
        let (a, b) = lab.pair();
        lab.both(|family| {
            let ping = |to| Ping::open(&a.netns, to).dont_fragment().ask(3, 8_900);
            assert!(ping(b.addr(family)), "{kinds:?}: to the host behind");
            assert!(ping(a.router(family)), "{kinds:?}: to pantala");
            assert!(stream_arrives(&a.netns, &b.netns, b.addr(family), 20_000_000).unwrap(), "{kinds:?}");
        });
        assert_eq!(lab.pantala().counter("ip4_fragmented"), 0);
    }
}

harness::tests![
    a_socket_learns_the_mtu_of_a_link_behind_pantala,
    a_stream_finds_its_way_through_a_narrow_link,
    what_may_be_fragmented_is_fragmented_for_a_narrow_link,
    frames_of_9000_bytes_cross_whole,
];
