use super::*;

const SECRET: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0x2545_f491_4f6c_dd1d];
const NOW: Instant = Instant::from_ns(1_000_000_000);

/// A key whose hash the test chooses: bits 0.. are the bucket, the highest byte is the tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chosen {
    name: u32,
    hash: u64,
}

impl Key for Chosen {
    const NONE: Self = Self { name: 0, hash: 0 };

    fn of(_: &pkt::Pkt) -> Option<Self> {
        None
    }

    fn hash(&self, _: &[u64; 4]) -> u64 {
        self.hash
    }
}

fn spread(name: u32) -> Chosen {
    Chosen {
        name,
        hash: u64::from(name).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) ^ u64::from(name) << 20,
    }
}

impl Table<Chosen, u32> {
    /// Caches a value, if there is room.
    fn learn(&mut self, key: Chosen, generation: u32, now: Instant, value: u32) -> Learnt {
        self.learn_from(key, generation, now, || Some(value))
    }
}

fn table(entries: usize) -> Table<Chosen, u32> {
    Table::new(entries, SECRET)
}

/// The two packets after which a flow is known.
fn introduce(table: &mut Table<Chosen, u32>, key: Chosen, generation: u32, now: Instant) -> Learnt {
    match table.learn(key, generation, now, key.name) {
        Learnt::Later => table.learn(key, generation, now, key.name),
        other => other,
    }
}

fn find(table: &mut Table<Chosen, u32>, key: Chosen, generation: u32, now: Instant) -> Option<u32> {
    let mut found = [None];
    table.probe(&[key], generation, now, &mut found);
    found[0].and_then(|at| table.get(at, generation).copied())
}

#[test]
fn a_flow_is_known_from_its_second_packet_on() {
    let mut table = table(64);
    let key = spread(7);
    assert_eq!(table.learn(key, 1, NOW, 7), Learnt::Later);
    assert_eq!(find(&mut table, key, 1, NOW), None);
    assert_eq!(table.learn(key, 1, NOW, 7), Learnt::Yes);
    assert_eq!(find(&mut table, key, 1, NOW), Some(7));
}

#[test]
fn flows_that_come_in_turn_are_all_known_after_two_rounds() {
    for count in [1000, 30_000] {
        let mut table = table(65_536);
        let keys: Vec<_> = (0..count).map(spread).collect();
        for _ in 0..2 {
            keys.iter().for_each(|key| _ = table.learn(*key, 1, NOW, key.name));
        }
        let known = keys.iter().filter(|key| find(&mut table, **key, 1, NOW) == Some(key.name)).count();
        assert!(known > keys.len() * 99 / 100, "{known} of {count}");
    }
}

#[test]
fn what_was_learnt_in_another_generation_is_never_found() {
    let mut table = table(64);
    let key = spread(7);
    introduce(&mut table, key, 1, NOW);
    assert_eq!(find(&mut table, key, 2, NOW), None);
    // It knows the flow, so it is learnt again at once.
    assert_eq!(table.learn(key, 2, NOW, 8), Learnt::Yes);
    assert_eq!(find(&mut table, key, 2, NOW), Some(8));
    assert_eq!(find(&mut table, key, 1, NOW), None);
}

#[test]
fn flows_with_the_same_tag_in_the_same_bucket_are_told_apart() {
    let mut table = table(64);
    let twins = [1, 2, 3].map(|name| Chosen { name, hash: 0x5500_0000_0000_0003 | u64::from(name) << 40 });
    for twin in twins {
        assert_eq!(introduce(&mut table, twin, 1, NOW), Learnt::Yes);
    }
    let mut found = [None; 3];
    table.probe(&twins, 1, NOW, &mut found);
    let names: Vec<_> = found.iter().map(|at| table.get(at.unwrap(), 1).copied().unwrap()).collect();
    assert_eq!(names, [1, 2, 3]);
}

#[test]
fn a_vector_is_answered_position_by_position() {
    let mut table = table(1024);
    for name in (0..200).step_by(2) {
        introduce(&mut table, spread(name), 1, NOW);
    }
    let keys: Vec<_> = (0..200).map(spread).collect();
    let mut found = vec![None; keys.len()];
    table.probe(&keys, 1, NOW, &mut found);
    for (name, at) in (0..).zip(found) {
        let value = at.and_then(|at| table.get(at, 1).copied());
        assert_eq!(value, (name % 2 == 0).then_some(name), "flow {name}");
    }
}

#[test]
fn a_scan_of_single_packets_takes_no_entry() {
    let mut table = table(64);
    for name in 0..100_000 {
        assert_eq!(table.learn(spread(name), 1, NOW, name), Learnt::Later);
    }
    assert_eq!(table.live(1, NOW), 0);
}

#[test]
fn live_flows_stay_whatever_comes_in_pairs() {
    let mut table = table(64);
    let live: Vec<_> = (0..32).map(spread).collect();
    for key in &live {
        assert_eq!(introduce(&mut table, *key, 1, NOW), Learnt::Yes);
    }
    let (mut full, mut now) = (0, NOW);
    for name in 1000..51_000 {
        now = now + Duration::from_millis(1);
        full += u32::from(introduce(&mut table, spread(name), 1, now) == Learnt::Full);
        if name % 500 == 0 {
            live.iter()
                .for_each(|key| assert!(find(&mut table, *key, 1, now).is_some(), "{key:?} at {name}"));
        }
    }
    assert!(full > 0, "the flood found the table full");
    assert!(table.live(1, now) <= table.capacity());
}

#[test]
fn an_idle_flow_makes_room_and_a_live_one_does_not() {
    let mut table = table(8);
    let same_bucket = |name: u32| Chosen { name, hash: u64::from(name) << 56 | u64::from(name) << 34 };
    for name in 1..=8 {
        assert_eq!(introduce(&mut table, same_bucket(name), 1, NOW), Learnt::Yes);
    }
    assert_eq!(introduce(&mut table, same_bucket(9), 1, NOW), Learnt::Full);
    let later = NOW + IDLE;
    for name in 2..=8 {
        assert!(find(&mut table, same_bucket(name), 1, later).is_some());
    }
    assert_eq!(introduce(&mut table, same_bucket(9), 1, later), Learnt::Yes);
    assert_eq!(find(&mut table, same_bucket(1), 1, later), None, "the only idle one had to go");
    assert_eq!(find(&mut table, same_bucket(9), 1, later), Some(9));
}

#[test]
fn stale_flows_make_room_at_once() {
    let mut table = table(8);
    let same_bucket = |name: u32| Chosen { name, hash: u64::from(name) << 56 | u64::from(name) << 34 };
    for name in 1..=8 {
        introduce(&mut table, same_bucket(name), 1, NOW);
    }
    assert_eq!(introduce(&mut table, same_bucket(9), 2, NOW), Learnt::Yes);
    assert_eq!(find(&mut table, same_bucket(9), 2, NOW), Some(9));
}

/// A naive model: whatever the order of events, a flow that is found has the value that was learnt last.
#[test]
fn what_is_found_is_what_was_learnt() {
    let mut table = table(128);
    let mut model = std::collections::HashMap::new();
    let (mut seed, mut generation, mut now) = (1_u64, 1, NOW);
    for step in 0..200_000_u32 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = spread((seed >> 40) as u32 % 300);
        now = now + Duration::from_millis(seed >> 60);
        match seed >> 33 & 0x7f {
            0 => generation += 1,
            1..64 => {
                if table.learn(key, generation, now, step) == Learnt::Yes {
                    model.insert(key.name, (generation, step));
                }
            }
            _ => {
                let found = find(&mut table, key, generation, now);
                let expected =
                    model.get(&key.name).filter(|(of, _)| *of == generation).map(|(_, value)| *value);
                assert!(found.is_none() || found == expected, "flow {} at step {step}", key.name);
            }
        }
    }
    assert!(table.live(generation, now) <= table.capacity());
}

#[test]
fn the_place_of_a_flow_that_the_driver_forwards_is_another_flows_when_all_are_taken() {
    let mut table = table(64);
    let keys: Vec<_> = (0..64).map(spread).collect();
    let known: Vec<_> =
        keys.iter().filter(|key| introduce(&mut table, **key, 1, NOW) == Learnt::Yes).copied().collect();
    let strangers: Vec<_> = (100..108).map(spread).collect();
    assert!(strangers.iter().all(|key| introduce(&mut table, *key, 1, NOW) == Learnt::Full));
    for key in &known {
        let mut found = [None];
        table.probe(&[*key], 1, NOW, &mut found);
        table.release(found[0].unwrap(), NOW);
        assert_eq!(find(&mut table, *key, 1, NOW), Some(key.name), "until another has come, it is found");
        let mut found = [None];
        table.probe(&[*key], 1, NOW, &mut found);
        table.release(found[0].unwrap(), NOW);
    }
    assert!(strangers.iter().all(|key| introduce(&mut table, *key, 1, NOW) == Learnt::Yes));
    let left = known.iter().filter(|key| find(&mut table, **key, 1, NOW).is_some()).count();
    assert_eq!(left, known.len() - strangers.len());
}
