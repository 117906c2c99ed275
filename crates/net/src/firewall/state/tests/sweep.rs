//! All states, a piece at a time.

use super::*;

#[test]
fn while_states_come_and_go_those_that_stay_are_shown_once() {
    let mut world = World::new(Family::V6);
    let stay: Vec<Flow> = (0..2000).map(|port| world.flow(Protocol::TCP, port)).collect();
    stay.iter().for_each(|flow| _ = world.install(*flow, segment(SYN, ISS, 0, 0)));
    let (mut cursor, mut shown, mut pieces) = (0, Vec::new(), 0);
    loop {
        let next = world.states.list(cursor, 100, world.now, |state, left| {
            assert_eq!(left.seconds, 20);
            shown.push(state.ends()[0].port);
        });
        // Others come and go in between.
        let passing = world.flow(Protocol::TCP, 10_000 + u16::try_from(pieces % 7).unwrap());
        world.install(passing, segment(SYN, ISS, 0, 0));
        pieces += 1;
        match next {
            Some(next) => cursor = next,
            None => break,
        }
    }
    assert!((20..=30).contains(&pieces), "{pieces}");
    shown.retain(|port| *port < 10_000);
    shown.sort_unstable();
    assert!(shown.into_iter().eq(0..2000));
}

#[test]
fn the_states_of_a_rule_end_in_bounded_pieces_and_others_stay() {
    let mut world = World::new(Family::V4);
    for port in 0..1000 {
        let flow = world.flow(Protocol::UDP, port);
        let (hash, new) =
            (world.states.hash(&flow), New { rule: RuleId { slot: port % 2, epoch: 3 }, ..New::default() });
        world.states.install(&flow, hash, new, &DATAGRAM, world.now, &mut world.counters).unwrap();
    }
    let (mut cursor, mut looked_at) = (Some(0), 0);
    while let Some(from) = cursor {
        let mut looks = 0;
        cursor = world.states.end(from, 64, world.now, |state| {
            looks += 1;
            state.rule == RuleId { slot: 1, epoch: 3 }
        });
        assert!(looks <= 64);
        looked_at += looks;
    }
    assert_eq!((looked_at, world.states.len()), (1000, 500));
    assert!((0..1000).all(|port| world.left(world.flow(Protocol::UDP, port)).is_some() == (port % 2 == 0)));
    assert_eq!(world.states.end(0, u32::MAX, world.now, |_| true), None);
    assert!(world.states.is_empty() && world.states.deadline().is_none());
}
