//! `limit`.

use ipfw::rule::LimitMask;
use proptest::prelude::*;

use super::*;

const BY_SOURCE: LimitMask = LimitMask { src_addr: true, src_port: false, dst_addr: false, dst_port: false };

/// CPUs that share limits.
struct Cpus {
    states: Vec<States>,
    limits: Arc<Limits>,
    counters: Counters,
    now: Instant,
}

impl Cpus {
    fn new(cpus: u16, settings: Settings) -> Self {
        let (loose, limits) = (Loose::new(cpus.into()), Limits::new(&Secret::new(8), 1000));
        let states =
            |cpu| States::new(&Secret::new(7), settings, Arc::clone(&loose), Arc::clone(&limits), CpuId(cpu));
        let states = (0..cpus).map(states).collect();
        Self { states, limits, counters: Counters::default(), now: Instant::START }
    }

    fn make(&mut self, cpu: usize, flow: &Flow, seen: Seen, max: u16) -> Result<StateId, StateError> {
        let hash = self.states[cpu].hash(flow);
        let new = New { rule: RULE, limit: Some(Limit { mask: BY_SOURCE, max }), ..New::default() };
        self.states[cpu].install(flow, hash, new, &seen, self.now, &mut self.counters)
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        for states in &mut self.states {
            while states.tick(self.now, 256, &mut Vec::new()) > 0 {}
        }
    }

    fn count(&self, flow: &Flow) -> u16 {
        self.limits.count(&Group::of(RULE, flow, BY_SOURCE))
    }
}

/// Flow `n` of a host.
fn flow(family: Family, proto: Protocol, host: u16, n: u16) -> Flow {
    let ends = [End { addr: u128::from(host) + 1, port: n }, End { addr: 0xffff, port: 80 }];
    Flow::new(family == Family::V4, proto.0, ends[0], ends[1])
}

#[test]
fn the_eleventh_of_a_source_is_refused_on_whichever_cpu_until_one_of_ten_ends() {
    for family in FAMILIES {
        let mut world = Cpus::new(4, Settings::default());
        let of = |n| flow(family, Protocol::UDP, 1, n);
        for n in 0..10 {
            world.make(usize::from(n) % 4, &of(n), DATAGRAM, 10).unwrap();
        }
        for cpu in 0..4 {
            assert_eq!(world.make(cpu, &of(10), DATAGRAM, 10), Err(StateError::Limit));
        }
        assert!(world.make(0, &flow(family, Protocol::UDP, 2, 1), DATAGRAM, 10).is_ok(), "another source");
        assert_eq!((world.count(&of(0)), world.counters.get(Count::TrackLimit)), (10, 4));
        let hash = world.states[3].hash(&of(3));
        let id = world.states[3].find(&of(3), hash, ANY, world.now).unwrap();
        assert_eq!(world.states[3].get(id).unwrap().kind, Kind::Limit);
        world.states[3].remove(id, world.now);
        assert!(world.make(0, &of(10), DATAGRAM, 10).is_ok());
        assert!(world.make(0, &of(11), DATAGRAM, 10).is_err());
    }
}

#[test]
fn at_the_limit_connections_that_are_over_make_room_on_their_own_cpu() {
    for family in FAMILIES {
        let mut world = Cpus::new(2, Settings::default());
        let of = |n| flow(family, Protocol::TCP, 1, n);
        (0..3).for_each(|n| _ = world.make(0, &of(n), segment(SYN, ISS, 0, 0), 3));
        let hash = world.states[0].hash(&of(1));
        let reset = segment(RST, ISS.wrapping_add(1), 0, 0);
        world.states[0].hit(&of(1), hash, ANY, &reset, world.now, &mut world.counters).unwrap();
        assert_eq!(world.make(1, &of(9), segment(SYN, ISS, 0, 0), 3), Err(StateError::Limit));
        assert!(world.make(0, &of(9), segment(SYN, ISS, 0, 0), 3).is_ok());
        assert_eq!(world.make(0, &of(8), segment(SYN, ISS, 0, 0), 3), Err(StateError::Limit));
    }
}

#[test]
fn a_group_is_forgotten_five_seconds_after_its_last_state() {
    for family in FAMILIES {
        let mut world = Cpus::new(1, Settings::default());
        world.make(0, &flow(family, Protocol::UDP, 1, 1), DATAGRAM, 9).unwrap();
        world.pass(Duration::from_millis(10_250));
        assert_eq!((world.states[0].len(), world.states[0].tracks()), (0, 1));
        world.pass(Duration::from_secs(3));
        world.make(0, &flow(family, Protocol::UDP, 1, 2), DATAGRAM, 9).unwrap();
        world.pass(Duration::from_millis(10_250));
        world.pass(Duration::from_millis(4900));
        assert_eq!(world.states[0].tracks(), 1, "it was used in between");
        let deadline = world.states[0].deadline().unwrap();
        assert_eq!(deadline.since(world.now), Duration::from_millis(100));
        world.pass(Duration::from_millis(100));
        assert_eq!((world.states[0].tracks(), world.states[0].deadline()), (0, None));
    }
}

#[test]
fn more_groups_than_may_be_are_refused_and_those_that_are_there_go_on() {
    let mut world = Cpus::new(1, Settings { track_max: 50, ..Settings::default() });
    let of = |host, n| flow(Family::V6, Protocol::UDP, host, n);
    let made = (0..80).filter(|host| world.make(0, &of(*host, 1), DATAGRAM, 5).is_ok()).count();
    assert_eq!((made, world.counters.get(Count::TrackOverflow)), (50, 30));
    assert_eq!(world.make(0, &of(60, 1), DATAGRAM, 5), Err(StateError::Tracks));
    assert!(world.make(0, &of(1, 2), DATAGRAM, 5).is_ok());
}

#[test]
fn what_a_limit_does_not_name_does_not_matter() {
    let one = flow(Family::V4, Protocol::UDP, 1, 7);
    for bits in 0..16 {
        let mask = LimitMask {
            src_addr: bits & 1 != 0,
            src_port: bits & 2 != 0,
            dst_addr: bits & 4 != 0,
            dst_port: bits & 8 != 0,
        };
        let [src, dst] = one.ends();
        let others = [
            (End { addr: 99, ..src }, dst, mask.src_addr),
            (End { port: 99, ..src }, dst, mask.src_port),
            (src, End { addr: 99, ..dst }, mask.dst_addr),
            (src, End { port: 99, ..dst }, mask.dst_port),
        ];
        for (src, dst, matters) in others {
            let other = Flow::new(true, Protocol::UDP.0, src, dst);
            assert_eq!(Group::of(RULE, &other, mask) != Group::of(RULE, &one, mask), matters, "{mask:?}");
        }
    }
}

proptest! {
    #[test]
    fn a_limit_is_never_passed_and_all_is_given_back(
        max in 1..6_u16,
        steps in proptest::collection::vec((0..3_usize, 0..2_u16, 0..40_u16, 0..6_u8), 1..300),
    ) {
        let mut world = Cpus::new(3, Settings::default());
        for (cpu, host, n, what) in steps {
            // A flow is always the same CPU's.
            let one = flow(Family::V4, Protocol::UDP, host, n * 3 + u16::try_from(cpu).unwrap());
            match what {
                0 => world.pass(Duration::from_millis(u64::from(n) * 50)),
                1 => {
                    let hash = world.states[cpu].hash(&one);
                    if let Some(id) = world.states[cpu].find(&one, hash, ANY, world.now) {
                        world.states[cpu].remove(id, world.now);
                    }
                }
                _ => _ = world.make(cpu, &one, DATAGRAM, max),
            }
            for host in 0..2 {
                let mut there = 0;
                for states in &world.states {
                    states.list(0, 10_000, world.now, |state, _| {
                        there += u16::from(state.ends()[0].addr == u128::from(host) + 1);
                    });
                }
                let count = world.count(&flow(Family::V4, Protocol::UDP, host, 0));
                prop_assert!(there == count && count <= max, "{} states, {} counted, {} at most", there, count, max);
            }
        }
        world.pass(Duration::from_secs(11));
        world.pass(Duration::from_secs(6));
        for states in &world.states {
            prop_assert_eq!((states.len(), states.tracks()), (0, 0));
        }
    }
}

#[test]
fn where_no_more_groups_may_be_half_open_connections_make_room_for_another() {
    for family in FAMILIES {
        let mut world = Cpus::new(1, Settings { track_max: 50, ..Settings::default() });
        let syn = segment(SYN, ISS, 0, 0);
        let of = |host, n| flow(family, Protocol::TCP, host, n);
        // Sources with a datagram's state, and one that has two connections, are not in question.
        (0..9)
            .for_each(|host| _ = world.make(0, &flow(family, Protocol::UDP, host, 1), DATAGRAM, 5).unwrap());
        (0..2).for_each(|n| _ = world.make(0, &of(9, n), syn, 5).unwrap());
        for host in 100..10_100 {
            world.make(0, &of(host, 1), syn, 5).unwrap();
            assert!(world.states[0].tracks() <= 50);
        }
        assert_eq!(world.counters.get(Count::StateHalfOpenEvicted), 10_000 - 40);
        assert_eq!(
            (world.count(&of(9, 0)), world.count(&of(10_099, 1)), world.count(&of(100, 1))),
            (2, 1, 0)
        );
        assert!((0..9).all(|host| world.count(&flow(family, Protocol::UDP, host, 1)) == 1));
        world.pass(Duration::from_secs(60));
        world.pass(Duration::from_secs(6));
        assert_eq!((world.states[0].len(), world.states[0].tracks()), (0, 0));
    }
}
