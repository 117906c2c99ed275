//! The table as a table.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Few addresses and ports, so that flows meet, their own ends among them.
fn flow(n: u32) -> Flow {
    let end = |n: u32| End { addr: u128::from(n % 3), port: u16::try_from(n / 3 % 3).unwrap() };
    let proto = if (n / 81).is_multiple_of(2) { Protocol::UDP } else { Protocol::GRE };
    Flow::new((n / 162).is_multiple_of(2), proto.0, end(n), end(n / 9))
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Install(u32, u16),
    Hit(u32),
    Remove(u32),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..324_u32, 0..3_u16).prop_map(|(flow, name)| Step::Install(flow, name)),
        (0..324_u32).prop_map(Step::Hit),
        (0..324_u32).prop_map(Step::Remove),
        (0..4000_u64).prop_map(Step::Pass),
    ];
    vec(step, 1..400)
}

/// A model of the table: by flow and name, its expiry, its origin, and its packets.
type Plain = HashMap<(u64, u128, u128, u16), (u64, Flow, u64)>;

fn plain_key(flow: &Flow, name: u16) -> (u64, u128, u128, u16) {
    let mut ends = flow.ends();
    ends.sort_unstable();
    let [a, b] = ends;
    let rest = u64::from(flow.key.proto()) << 1 | u64::from(flow.key.is_ip4());
    (rest << 32 | u64::from(a.port) << 16 | u64::from(b.port), a.addr, b.addr, name)
}

proptest! {
    #[test]
    fn the_table_holds_what_a_plain_map_holds(steps in steps()) {
        let mut world = World::new(Family::V4);
        let mut plain = Plain::new();
        for step in steps {
            let now = ms(world.now);
            plain.retain(|_, (end, ..)| *end > now);
            match step {
                Step::Install(n, name) => {
                    let (flow, new) = (flow(n), New { rule: RULE, flow: FlowId(name), ..New::default() });
                    let hash = world.states.hash(&flow);
                    world.states.install(&flow, hash, new, &DATAGRAM, world.now, &mut world.counters).unwrap();
                    let life = if flow.key.proto() == Protocol::UDP.0 { 10_000 } else { 5000 };
                    let entry = plain.entry(plain_key(&flow, name)).or_insert((0, flow, 0));
                    (entry.0, entry.2) = (now + life, entry.2 + 1);
                }
                Step::Hit(n) => {
                    let flow = flow(n);
                    for name in 0..3 {
                        let hash = world.states.hash(&flow);
                        let hit = world.states.hit(&flow, hash, FlowId(name), &DATAGRAM, world.now, &mut world.counters);
                        let expected = plain.get_mut(&plain_key(&flow, name)).map(|(end, creator, packets)| {
                            *end = now + if flow.key.proto() == Protocol::UDP.0 { 10_000 } else { 5000 };
                            *packets += 1;
                            (if *creator == flow { Direction::Forward } else { Direction::Reverse }, *packets)
                        });
                        let found = hit.map(|hit| (hit.direction, world.states.get(hit.id).unwrap().packets));
                        prop_assert_eq!(found, expected);
                    }
                    let any = (0..3).any(|name| plain.contains_key(&plain_key(&flow, name)));
                    prop_assert_eq!(world.left(flow).is_some(), any);
                }
                Step::Remove(n) => {
                    let flow = flow(n);
                    if let Some(id) = world.states.find(&flow, world.states.hash(&flow), FlowId(1), world.now) {
                        world.states.remove(id, world.now);
                    }
                    plain.remove(&plain_key(&flow, 1));
                }
                Step::Pass(ms) => world.advance(Duration::from_millis(ms)),
            }
        }
        world.seconds(20);
        prop_assert!(world.states.is_empty() && world.states.deadline().is_none());
    }
}

/// The flow of number `n`, of as many as one likes.
fn nth(n: u32) -> Flow {
    let ends = [End { addr: u128::from(n), port: 1024 }, End { addr: u128::MAX, port: 53 }];
    Flow::new(false, Protocol::UDP.0, ends[0], ends[1])
}

#[test]
fn a_million_states_come_are_found_and_go_and_so_does_their_memory() {
    const MILLION: u32 = 1_000_000;
    let mut world = World::new(Family::V6);
    let mut hashes = [Hash::default(); 64];
    for first in (0..MILLION).step_by(64) {
        (first..first + 64).for_each(|n| _ = world.install(nth(n), DATAGRAM));
    }
    for first in (0..MILLION).step_by(64) {
        let flows: Vec<Flow> = (first..first + 64).map(|n| nth(n).reversed()).collect();
        world.states.prefetch(&flows, &mut hashes);
        for (flow, hash) in flows.iter().zip(hashes) {
            let hit = world.states.hit(flow, hash, ANY, &DATAGRAM, world.now, &mut world.counters);
            assert_eq!(hit.unwrap().direction, Direction::Reverse);
        }
    }
    assert_eq!(world.states.len(), MILLION as usize);
    world.now = world.now + Duration::from_secs(11);
    let mut turns = 0;
    while world.states.deadline().is_some_and(|deadline| deadline <= world.now) {
        assert!(world.states.tick(world.now, 256, &mut Vec::new()) <= 256);
        turns += 1;
    }
    assert!(turns >= MILLION / 256, "bounded work in each turn: {turns} turns");
    assert!(
        world.states.is_empty() && world.states.slab.places() <= 512 && world.states.index.places() <= 1024
    );
}

#[test]
fn states_of_several_names_live_beside_each_other() {
    for family in FAMILIES {
        let mut world = World::new(family);
        let flow = world.flow(Protocol::UDP, 1);
        let hash = world.states.hash(&flow);
        for name in 0..20 {
            let new = New { rule: RuleId { slot: name, epoch: 0 }, flow: FlowId(name), ..New::default() };
            world.states.install(&flow, hash, new, &DATAGRAM, world.now, &mut world.counters).unwrap();
        }
        for name in 0..20 {
            let mut hit =
                |name| world.states.hit(&flow, hash, FlowId(name), &DATAGRAM, world.now, &mut world.counters);
            assert_eq!(hit(name).unwrap().rule.slot, name);
            assert!(hit(99).is_none() && hit(ANY.0).is_some());
        }
    }
}

#[test]
fn a_state_that_ends_between_prefetch_and_packet_is_not_found_nor_is_what_took_its_place() {
    for family in FAMILIES {
        let mut world = World::new(family);
        let flows = [1, 2].map(|port| world.flow(Protocol::UDP, port));
        let id = world.install(flows[0], DATAGRAM);
        let mut hashes = [Hash::default(); 2];
        world.states.prefetch(&flows, &mut hashes);
        assert_eq!(hashes.map(|hash| hash.likely), [id.0, wheel::NIL]);
        world.states.remove(id, world.now);
        let hit = |world: &mut World, n: usize| {
            let World { states, now, counters, .. } = world;
            states.hit(&flows[n], hashes[n], ANY, &DATAGRAM, *now, counters).map(|hit| hit.id)
        };
        assert_eq!(hit(&mut world, 0), None);
        assert_eq!(world.install(flows[1], DATAGRAM), id, "in the same place");
        assert_eq!([hit(&mut world, 0), hit(&mut world, 1)], [None, Some(id)]);
    }
}

#[test]
fn a_dead_state_of_one_name_does_not_hide_a_live_one_of_another() {
    let mut world = World::new(Family::V4);
    let flow = world.flow(Protocol::UDP, 1000);
    for name in [1, 2] {
        let (hash, new) = (world.states.hash(&flow), New { flow: FlowId(name), ..New::default() });
        world.states.install(&flow, hash, new, &DATAGRAM, world.now, &mut world.counters).unwrap();
        world.now = world.now + Duration::from_secs(6);
    }
    // The first has expired, and was not collected yet.
    assert_eq!(world.states.len(), 2);
    assert!(world.left(flow).is_some());
    assert!(world.hit(flow, DATAGRAM).is_some());
}
