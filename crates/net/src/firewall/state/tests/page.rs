use std::collections::HashSet;

use super::*;
use crate::base::collections::slab;

#[test]
fn page_by_page_each_state_is_seen_once_as_it_is() {
    for family in FAMILIES {
        let mut world = World::new(family);
        for port in 1..=1000 {
            let flow = world.flow(Protocol::UDP, port);
            world.install(flow, Seen { bytes: 100, segment: None });
        }
        let (mut from, mut pages, mut ports) = (0, 0, HashSet::new());
        loop {
            let (listed, next) = world.states.page(from, 64, false, world.now);
            assert!(listed.len() <= 64);
            for state in listed {
                let [client, server] = state.ends;
                assert_eq!((state.rule, state.proto, state.packets, state.bytes), (RULE, 17, 1, 100));
                assert_eq!((server.port, state.is_ip4), (80, family == Family::V4));
                assert_eq!((state.left, state.phase), (Duration::from_secs(10), None));
                assert!(ports.insert(client.port), "once");
            }
            pages += 1;
            let Some(next) = next else { break };
            from = next;
        }
        assert_eq!(ports.len(), 1000);
        assert!(pages >= 16, "{pages} pages");
    }
}

#[test]
fn a_page_has_states_whose_lives_are_over_only_if_they_are_asked_for() {
    let mut world = World::new(Family::V4);
    let flow = world.flow(Protocol::UDP, 5);
    world.install(flow, Seen::default());
    let page = |with_ended, seconds| {
        let (listed, next) = world.states.page(0, 10, with_ended, world.now + Duration::from_secs(seconds));
        assert_eq!(next, None);
        listed.iter().map(|state| state.left.as_secs()).collect::<Vec<_>>()
    };
    assert_eq!((page(false, 9), page(true, 9)), (vec![1], vec![1]));
    assert_eq!((page(false, 10), page(true, 10)), (vec![], vec![0]));
}

#[test]
fn a_page_ends_after_so_many_places_even_if_they_are_empty() {
    let mut world = World::new(Family::V4);
    let ids: Vec<StateId> = (1..=u16::MAX)
        .map(|port| {
            let flow = world.flow(Protocol::UDP, port);
            world.install(flow, Seen::default())
        })
        .collect();
    // The segments in the middle stay: each keeps one state, which no page that ends before it has.
    let last = ids.len() - 1;
    for (n, id) in ids.into_iter().enumerate() {
        if n % slab::SEGMENT != slab::SEGMENT - 1 && n != last {
            world.states.remove(id, world.now);
        }
    }
    let (listed, next) = world.states.page(0, usize::MAX, false, world.now);
    assert_eq!(next, u32::try_from(PLACES_PER_PAGE).ok());
    assert_eq!(listed.len(), PLACES_PER_PAGE / slab::SEGMENT);
}
