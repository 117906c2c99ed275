//! States at the global limit.

use proptest::prelude::*;

use super::*;

/// CPUs that share a count; each has its own flows.
struct Cpus {
    states: Vec<States>,
    loose: Arc<Loose>,
    counters: Counters,
    now: Instant,
    made: u32,
    asked: usize,
}

impl Cpus {
    fn new(cpus: u16, state_max: u32) -> Self {
        let loose = Loose::new(cpus.into());
        // Half-open connections take all the room there is.
        let half_open_max = Some(2 * state_max * u32::from(cpus));
        let settings = Settings { state_max, half_open_max, ..Settings::default() };
        let limits = Limits::new(&Secret::new(8), 100);
        let states =
            |cpu| States::new(&Secret::new(7), settings, Arc::clone(&loose), Arc::clone(&limits), CpuId(cpu));
        let states = (0..cpus).map(states).collect();
        Self { states, loose, counters: Counters::default(), now: Instant::START, made: 0, asked: 0 }
    }

    /// Another flow on a CPU; answers which one, if there was room for it.
    fn make(&mut self, cpu: usize, proto: Protocol, seen: Seen) -> Option<Flow> {
        self.made += 1;
        let ends = [End { addr: u128::from(self.made), port: 9 }, End { addr: 7 << 90, port: 80 }];
        let flow = Flow::new(false, proto.0, ends[0], ends[1]);
        let states = &mut self.states[cpu];
        let hash = states.hash(&flow);
        match states.install(&flow, hash, New::default(), &seen, self.now, &mut self.counters) {
            Ok(_) => Some(flow),
            Err(refused) => {
                self.asked += usize::from(refused == StateError::Full { ask_all: true });
                None
            }
        }
    }

    fn close(&mut self, cpu: usize, flow: &Flow) {
        let states = &mut self.states[cpu];
        let (hash, reset) = (states.hash(flow), segment(RST, ISS.wrapping_add(1), 0, 0));
        states.hit(flow, hash, ANY, &reset, self.now, &mut self.counters).unwrap();
    }

    /// The server answers, and the client acknowledges that.
    fn open(&mut self, cpu: usize, flow: &Flow) {
        let states = &mut self.states[cpu];
        let one_beyond = ISS.wrapping_add(1);
        let answer = (flow.reversed(), segment(SYN_ACK, IRS, one_beyond, 0));
        for (flow, seen) in [answer, (*flow, segment(ACK, one_beyond, IRS + 1, 0))] {
            states.hit(&flow, states.hash(&flow), ANY, &seen, self.now, &mut self.counters).unwrap();
        }
    }

    fn total(&self) -> usize {
        self.states.iter().map(States::len).sum()
    }
}

proptest! {
    #[test]
    fn all_cpus_together_hold_at_most_a_twentieth_more_than_may_be(
        cpus in 1..9_u16,
        max in 20..3000_u32,
        steps in proptest::collection::vec((0..8_usize, 0..400_u64, 0..4_u8), 1..60),
    ) {
        let mut world = Cpus::new(cpus, max);
        for (cpu, many, what) in steps {
            let cpu = cpu % usize::from(cpus);
            match what {
                0 => {
                    world.now = world.now + Duration::from_millis(many * 10);
                    world.states[cpu].tick(world.now, 256, &mut Vec::new());
                }
                1 => _ = world.states[cpu].reap(world.now, &mut world.counters),
                _ => for _ in 0..many {
                    world.make(cpu, Protocol::UDP, DATAGRAM);
                },
            }
            let total = world.total();
            prop_assert_eq!(world.loose.total(), total as u64);
            let slack = (max as usize / 20).max(usize::from(cpus));
            prop_assert!(total <= max as usize + slack, "{} of {}", total, max);
        }
        world.now = world.now + Duration::from_secs(100);
        for states in &mut world.states {
            while states.tick(world.now, 256, &mut Vec::new()) > 0 {}
        }
        prop_assert_eq!((world.total(), world.loose.total()), (0, 0));
        prop_assert!(world.make(0, Protocol::UDP, DATAGRAM).is_some(), "and there is room again");
    }
}

#[test]
fn a_full_table_refuses_and_established_flows_live_on() {
    let mut world = Cpus::new(2, 1000);
    let old: Vec<Flow> = (0..500).map(|_| world.make(0, Protocol::UDP, DATAGRAM).unwrap()).collect();
    let refused = (0..2000).filter(|_| world.make(1, Protocol::UDP, DATAGRAM).is_none()).count();
    assert!((1450..=1500).contains(&refused), "{refused}");
    assert_eq!(world.counters.get(Count::StateOverflow), refused as u64);
    let states = &mut world.states[0];
    let is_alive = |flow: &Flow| states.find(flow, states.hash(flow), ANY, world.now).is_some();
    assert!(old.iter().all(is_alive));
}

#[test]
fn closed_and_dead_states_make_room_and_established_ones_do_not() {
    let mut world = Cpus::new(1, 100);
    let open: Vec<Flow> =
        (0..105).filter_map(|_| world.make(0, Protocol::TCP, segment(SYN, ISS, 0, 0))).collect();
    assert!(world.make(0, Protocol::UDP, DATAGRAM).is_none());
    open[..20].iter().for_each(|flow| world.close(0, flow));
    world.now = world.now + Duration::from_millis(500);
    let made = (0..40).filter(|_| world.make(0, Protocol::UDP, DATAGRAM).is_some()).count();
    assert!((15..=20).contains(&made), "{made}: as many as were closed");
    assert!(world.counters.get(Count::StateReap) >= 15);
    world.now = world.now + Duration::from_secs(11);
    assert!(world.make(0, Protocol::UDP, DATAGRAM).is_some(), "dead, though no timer has fired");
}

#[test]
fn connections_that_do_not_open_make_room_when_half_of_their_time_is_over() {
    let mut world = Cpus::new(1, 100);
    while world.make(0, Protocol::TCP, segment(SYN, ISS, 0, 0)).is_some() {}
    world.now = world.now + Duration::from_secs(9);
    assert!(world.make(0, Protocol::UDP, DATAGRAM).is_none());
    world.now = world.now + Duration::from_secs(2);
    assert!(world.make(0, Protocol::UDP, DATAGRAM).is_some());
}

#[test]
fn connections_that_have_opened_lately_do_not_hide_those_that_have_not() {
    let mut world = Cpus::new(1, 1000);
    (0..50).for_each(|_| _ = world.make(0, Protocol::TCP, segment(SYN, ISS, 0, 0)));
    while let Some(flow) = world.make(0, Protocol::TCP, segment(SYN, ISS, 0, 0)) {
        world.open(0, &flow);
    }
    world.now = world.now + Duration::from_secs(11);
    let has_room = |_| {
        world.now = world.now + Duration::from_millis(250);
        world.make(0, Protocol::UDP, DATAGRAM).is_some()
    };
    assert!((0..5).any(has_room), "256 are looked at each time");
}

#[test]
fn all_cpus_are_asked_for_their_dead_at_most_once_a_second() {
    let mut world = Cpus::new(4, 1000);
    for cpu in 0..4 {
        (0..270).for_each(|_| _ = world.make(cpu, Protocol::UDP, DATAGRAM));
    }
    let total = world.total();
    assert!((1000..=1050).contains(&total), "{total}");
    for _ in 0..50 {
        world.now = world.now + Duration::from_millis(100);
        (0..4).for_each(|cpu| _ = world.make(cpu, Protocol::UDP, DATAGRAM));
    }
    assert!((5..=7).contains(&world.asked), "{} times in five seconds", world.asked);
    world.now = world.now + Duration::from_secs(6);
    let reaped: usize = (1..4).map(|cpu| world.states[cpu].reap(world.now, &mut world.counters)).sum();
    assert!(reaped > 0 && world.make(0, Protocol::UDP, DATAGRAM).is_some(), "{reaped}");
}

#[test]
fn looking_for_room_in_vain_is_not_repeated_for_each_packet() {
    let mut world = Cpus::new(1, 100);
    while world.make(0, Protocol::UDP, DATAGRAM).is_some() {}
    for _ in 0..1000 {
        assert!(world.make(0, Protocol::UDP, DATAGRAM).is_none());
    }
    assert_eq!(world.counters.get(Count::StateReapFailed), 1);
}
