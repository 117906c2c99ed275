//! Lifetimes of states.

use super::*;

/// Its own half of the connection that [`World::connect`] makes, `n` bytes on.
fn client(n: u32) -> u32 {
    ISS.wrapping_add(1 + n)
}

fn server(n: u32) -> u32 {
    IRS + 1 + n
}

#[test]
fn a_connection_lives_as_long_as_what_was_seen_of_it_says() {
    for family in FAMILIES {
        let mut world = World::new(family);
        let flow = world.flow(Protocol::TCP, 1000);
        let back = flow.reversed();
        world.install(flow, segment(SYN, ISS, 0, 0));
        assert_eq!((world.left(flow), world.phase(back)), (Some(20), Some(Phase::Opening)));
        world.hit(back, segment(SYN_ACK, IRS, client(0), 0)).unwrap();
        assert_eq!(world.left(flow), Some(20), "whoever sent the SYN has not shown yet that it is there");
        world.hit(flow, segment(ACK, client(0), server(0), 0)).unwrap();
        assert_eq!((world.left(flow), world.phase(flow)), (Some(300), Some(Phase::Established)));
        world.hit(flow, segment(ACK, client(0), server(0), 100)).unwrap();
        world.hit(flow, segment(FIN, client(100), server(0), 0)).unwrap();
        assert_eq!(world.left(back), Some(300), "half of it is still open");
        world.hit(back, segment(FIN, server(0), client(100), 0)).unwrap();
        assert_eq!((world.left(back), world.phase(flow)), (Some(20), Some(Phase::Closing)));
        world.hit(flow, segment(ACK, client(101), server(1), 0)).unwrap();
        assert_eq!(world.left(flow), Some(20));
        world.hit(back, segment(ACK, server(1), client(101), 0)).unwrap();
        assert_eq!((world.left(flow), world.phase(flow)), (Some(2), Some(Phase::Closed)));
        world.seconds(3);
        assert!(world.left(flow).is_none() && world.states.is_empty());
    }
}

#[test]
fn states_die_when_their_time_is_over_and_not_before() {
    for family in FAMILIES {
        let lives = [(Protocol::TCP, 20_u64), (Protocol::UDP, 10), (Protocol::GRE, 5)];
        for (proto, life) in lives {
            let mut world = World::new(family);
            let flow = world.flow(proto, 1);
            let seen = if proto == Protocol::TCP { segment(SYN, ISS, 0, 0) } else { DATAGRAM };
            world.install(flow, seen);
            world.advance(Duration::from_millis(life * 1000 - 1));
            assert!(world.left(flow).is_some(), "{proto}");
            world.advance(Duration::from_millis(1));
            assert!(world.hit(flow, seen).is_none(), "{proto}: over, whether or not the wheel has seen it");
            world.advance(Duration::from_millis(250));
            assert!(world.states.is_empty() && world.states.deadline().is_none());
        }
    }
}

#[test]
fn each_packet_lengthens_the_life_of_its_flow() {
    for family in FAMILIES {
        let mut world = World::new(family);
        let flow = world.flow(Protocol::UDP, 53);
        world.install(flow, DATAGRAM);
        for turn in 0..100 {
            world.advance(Duration::from_millis(9900));
            let flow = if turn % 2 == 0 { flow } else { flow.reversed() };
            assert!(world.hit(flow, DATAGRAM).is_some(), "{turn}");
        }
        let id = world.states.find(&flow, world.states.hash(&flow), ANY, world.now).unwrap();
        let state = world.states.get(id).unwrap();
        assert_eq!((state.packets, state.bytes), (101, 10_100));
    }
}

#[test]
fn what_repeats_old_news_is_of_the_flow_and_does_not_lengthen_its_life() {
    for family in FAMILIES {
        let mut world = World::new(family);
        let flow = world.connect(1000);
        world.hit(flow, segment(ACK, client(0), server(0), 500)).unwrap();
        world.hit(flow.reversed(), segment(ACK, server(0), client(500), 0)).unwrap();
        world.seconds(100);
        let stale = [
            (flow, segment(ACK, client(0), server(0), 400)),
            (flow.reversed(), segment(ACK, server(0), client(499), 0)),
            (flow, segment(ACK, client(499), server(0), 0)),
        ];
        for (flow, seen) in stale {
            assert!(world.hit(flow, seen).is_some_and(|hit| !hit.is_denied && hit.rule == RULE));
            assert_eq!(world.left(flow), Some(200), "{seen:?}");
        }
        world.hit(flow, segment(ACK, client(500), server(0), 0)).unwrap();
        assert_eq!(world.left(flow), Some(300));
    }
}

#[test]
fn what_lies_outside_of_the_windows_does_not_lengthen_its_life_and_is_denied_if_that_is_wanted() {
    for family in FAMILIES {
        for strict in [false, true] {
            let mut world = World::with(family, Settings { strict, ..Settings::default() });
            let flow = world.connect(1000);
            world.hit(flow.reversed(), segment(ACK, server(0), client(0), 0)).unwrap();
            world.seconds(100);
            let outside = [
                segment(ACK, client(40_001), server(0), 0),
                segment(ACK, client(0).wrapping_sub(40_001), server(0), 0),
                segment(ACK, client(0), server(1), 0),
                segment(ACK, client(0), server(0).wrapping_sub(70_000), 0),
                segment(FIN, client(50_000), server(0), 0),
            ];
            for (n, seen) in outside.into_iter().enumerate() {
                assert_eq!(world.hit(flow, seen).unwrap().is_denied, strict, "{n}");
                assert_eq!(
                    (world.left(flow), world.counters.get(Count::StateOutside)),
                    (Some(200), n as u64 + 1)
                );
            }
            let again = world.hit(flow, segment(SYN, 77, 0, 0)).unwrap();
            assert!(!again.is_denied, "the other end must hear of it, or who restarted waits for ever");
            assert!(!world.hit(flow, segment(ACK, client(0), server(0), 40_000)).unwrap().is_denied);
            assert_eq!((world.left(flow), world.phase(flow)), (Some(300), Some(Phase::Established)));
        }
    }
}

#[test]
fn a_reset_closes_a_connection_only_where_the_other_end_will_believe_it() {
    for family in FAMILIES {
        let blind = [client(1), client(0).wrapping_sub(1), client(5000), client(60_000), 0];
        for (seq, closes) in blind.map(|seq| (seq, false)).into_iter().chain([(client(0), true)]) {
            for from_client in [true, false] {
                let mut world = World::new(family);
                let flow = world.connect(1000);
                world.seconds(10);
                let (from, seq) = match from_client {
                    true => (flow, seq),
                    false => (flow.reversed(), seq.wrapping_sub(client(0)).wrapping_add(server(0))),
                };
                world.hit(from, segment(RST, seq, 0, 0)).unwrap();
                let expected = if closes { Phase::Reset } else { Phase::Established };
                assert_eq!(world.phase(flow), Some(expected), "{seq:#x}");
                assert_eq!(world.left(flow), Some(if closes { 2 } else { 290 }), "{seq:#x}");
            }
        }
    }
}

#[test]
fn a_reset_that_refuses_a_connection_must_name_its_syn() {
    for family in FAMILIES {
        for (ack, closes) in [(client(0), true), (client(1), false), (0, false)] {
            let mut world = World::new(family);
            let flow = world.flow(Protocol::TCP, 1);
            world.install(flow, segment(SYN, ISS, 0, 0));
            world.hit(flow.reversed(), segment(RST | ACK, 0, ack, 0)).unwrap();
            assert_eq!(world.phase(flow) == Some(Phase::Reset), closes);
        }
    }
}

#[test]
fn an_answer_to_a_syn_must_acknowledge_it() {
    for family in FAMILIES {
        let mut world = World::new(family);
        let flow = world.flow(Protocol::TCP, 1);
        world.install(flow, segment(SYN, ISS, 0, 0));
        world.hit(flow.reversed(), segment(SYN_ACK, IRS, client(1), 0)).unwrap();
        world.hit(flow.reversed(), segment(ACK, IRS, client(0), 0)).unwrap();
        assert_eq!(world.counters.get(Count::StateOutside), 2);
        world.hit(flow, segment(SYN, ISS + 9, 0, 0)).unwrap();
        world.hit(flow.reversed(), segment(SYN_ACK, IRS, ISS + 10, 0)).unwrap();
        world.hit(flow, segment(ACK, ISS + 10, server(0), 0)).unwrap();
        assert_eq!(world.phase(flow), Some(Phase::Established), "after another attempt");
    }
}

#[test]
fn a_new_connection_takes_the_place_of_a_closed_one_and_of_no_other() {
    for family in FAMILIES {
        let mut world = World::new(family);
        let flow = world.connect(1000);
        assert!(world.hit(flow, segment(SYN, 1, 0, 0)).is_some(), "open");
        world.hit(flow, segment(RST, client(0), 0, 0)).unwrap();
        assert!(world.hit(flow, segment(SYN_ACK, 1, 0, 0)).is_some(), "closed, but this opens nothing");
        assert!(world.hit(flow, segment(SYN, 1, 0, 0)).is_none() && world.states.is_empty());
        assert_eq!(world.counters.get(Count::StateRecycled), 1);
    }
}

#[test]
fn a_connection_whose_beginning_was_not_seen_lives_from_packet_to_packet() {
    for family in FAMILIES {
        let mut world = World::new(family);
        let flow = world.flow(Protocol::TCP, 1);
        world.install(flow, segment(ACK, 1_000_000, 2_000_000, 1000));
        assert_eq!((world.left(flow), world.phase(flow)), (Some(2), Some(Phase::Unknown)));
        world.hit(flow.reversed(), segment(ACK, 2_000_000, 1_001_000, 100_000)).unwrap();
        world.seconds(1);
        assert!(!world.hit(flow, segment(ACK, 1_001_000, 2_100_000, 50_000)).unwrap().is_denied);
        assert_eq!((world.left(flow), world.counters.get(Count::StateOutside)), (Some(2), 0));
    }
}

#[test]
fn windows_are_scaled_only_if_both_ends_said_so() {
    for scale in [None, Some(2)] {
        let mut world = World::new(Family::V4);
        let flow = world.flow(Protocol::TCP, 1);
        let mut syn_ack = segment(SYN_ACK, IRS, client(0), 0);
        syn_ack.segment.as_mut().unwrap().scale = scale;
        world.install(flow, segment(SYN, ISS, 0, 0));
        world.hit(flow.reversed(), syn_ack).unwrap();
        world.hit(flow, segment(ACK, client(0), server(0), 0)).unwrap();
        world.hit(flow.reversed(), segment(ACK, server(0), client(0), 0)).unwrap();
        world.hit(flow, segment(ACK, client(0), server(0), 20_000)).unwrap();
        assert_eq!(world.counters.get(Count::StateOutside), u64::from(scale.is_none()), "{scale:?}");
    }
}
