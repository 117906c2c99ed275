use super::*;
use crate::host::pcb::FourTuple;
use crate::testkit::{addr4, addr6};

const NOW: Instant = Instant::from_ns(1_000_000_000);

/// Conversation `number` with a remote host, one of `of` such.
fn flow(remote: IpAddr, number: u16) -> Flow {
    let local: IpAddr = if remote.is_ipv4() { addr4(1, 1).into() } else { addr6(1, 1).into() };
    Flow::udp(FourTuple::new((local, 53).into(), (remote, number).into(), 0))
}

/// Remote hosts, or routers, in networks of their own.
fn hosts(number: u16) -> [IpAddr; 2] {
    let [high, low] = number.to_be_bytes();
    [[198, 18, high, low].into(), [0x3fff, 0, 0, number, 0, 0, 0, 1].into()]
}

fn later(ms: u64) -> Instant {
    NOW + Duration::from_millis(ms)
}

#[test]
fn what_one_router_says_without_end_takes_its_share_and_nothing_of_others() {
    for family in 0..2 {
        let mut paths = Paths::new(7);
        let friend = hosts(1)[family];
        for number in 0..10 {
            assert!(
                !paths.learn(
                    Msg { flow: flow(friend, number), mtu: 1400, from: friend, is_doubted: false },
                    NOW
                )
            );
        }
        let liar = hosts(2)[family];
        for number in 0..5000_u16 {
            let msg =
                Msg { flow: flow(hosts(number + 10)[family], 9), mtu: 1300, from: liar, is_doubted: false };
            let is_evicted = paths.learn(msg, later(number.into()));
            assert_eq!(is_evicted, usize::from(number) >= PATHS_OF_ONE_MAX);
        }
        assert_eq!(paths.len(), 10 + PATHS_OF_ONE_MAX);
        assert!((0..10).all(|number| paths.mtu(&flow(friend, number), later(5000)) == Some(1400)));
        let newest = flow(hosts(5009)[family], 9);
        assert_eq!(paths.mtu(&newest, later(5000)), Some(1300), "its own oldest made room");
    }
}

#[test]
fn a_host_with_many_conversations_takes_one_share() {
    for family in 0..2 {
        let mut paths = Paths::new(7);
        for number in 0..1000 {
            let msg = Msg {
                flow: flow(hosts(0)[family], number),
                mtu: 1300,
                from: hosts(number)[family],
                is_doubted: false,
            };
            paths.learn(msg, later(number.into()));
        }
        assert_eq!(paths.len(), PATHS_OF_ONE_MAX);
    }
}

#[test]
fn when_all_places_are_taken_the_router_that_has_most_gives_its_oldest() {
    for family in 0..2 {
        let mut paths = Paths::new(7);
        // Sixteen routers, each with as many as it may.
        for number in 0..1024_u16 {
            let msg = Msg {
                flow: flow(hosts(number)[family], 9),
                mtu: 1300,
                from: hosts(2000 + number / 64)[family],
                is_doubted: false,
            };
            assert!(!paths.learn(msg, later(number.into())));
        }
        assert_eq!(paths.len(), PATHS_MAX);
        let quiet = Msg {
            flow: flow(hosts(3000)[family], 9),
            mtu: 1300,
            from: hosts(3000)[family],
            is_doubted: false,
        };
        assert!(paths.learn(quiet, later(2000)));
        assert_eq!(paths.mtu(&flow(hosts(0)[family], 9), later(2000)), None, "the oldest of all");
        for number in 0..500_u16 {
            let msg = Msg {
                flow: flow(hosts(4000 + number)[family], 9),
                mtu: 1300,
                from: hosts(2001)[family],
                is_doubted: false,
            };
            paths.learn(msg, later(2001));
        }
        assert_eq!((paths.len(), paths.mtu(&quiet.flow, later(2002))), (PATHS_MAX, Some(1300)));
    }
}

#[test]
fn an_estimate_only_falls_until_it_is_forgotten() {
    for remote in hosts(1) {
        let mut paths = Paths::new(7);
        let mut learn = |mtu, at| {
            paths.learn(Msg { flow: flow(remote, 1), mtu, from: remote, is_doubted: false }, at);
            paths.mtu(&flow(remote, 1), at)
        };
        assert_eq!(
            [learn(1400, NOW), learn(1450, NOW), learn(1300, NOW)],
            [Some(1400), Some(1400), Some(1300)]
        );
        assert_eq!(learn(1480, NOW + KEPT), Some(1480));
        assert_eq!(paths.mtu(&flow(remote, 1), NOW + KEPT + KEPT), None);
    }
}

#[test]
fn what_has_left_is_known_for_two_minutes_and_by_its_longest_packet() {
    for remote in hosts(1) {
        let mut sent = Sent::new(&mut Secret::new(7));
        let (known, other) = (flow(remote, 1), flow(remote, 2));
        assert!(!sent.has(&known, 1280, NOW));
        sent.note(known, 1400, NOW);
        sent.note(known, 1300, later(1));
        let two_minutes = later(1) + Duration::from_secs(120);
        assert!(sent.has(&known, 1399, two_minutes) && !sent.has(&known, 1400, two_minutes));
        assert!(!sent.has(&other, 600, two_minutes));
        assert!(!sent.has(&known, 600, two_minutes + Duration::from_nanos(1)));
        sent.note(known, 1300, two_minutes + Duration::from_secs(1));
        assert!(!sent.has(&known, 1300, two_minutes + Duration::from_secs(1)), "the long one is forgotten");
    }
}
