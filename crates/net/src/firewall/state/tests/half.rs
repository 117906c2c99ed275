//! Half-open connections, and their part of all states.

use proptest::prelude::*;

use super::*;

impl World {
    fn knock(&mut self, port: u16) -> StateId {
        let flow = self.flow(Protocol::TCP, port);
        self.install(flow, syn())
    }

    fn says(&mut self, port: u16, is_back: bool, seen: Seen) -> bool {
        let flow = self.flow(Protocol::TCP, port);
        self.hit(if is_back { flow.reversed() } else { flow }, seen).is_some()
    }

    /// The server answers, and the client acknowledges that. Whether there was still a state for both.
    fn opens(&mut self, port: u16) -> bool {
        let one_beyond = ISS.wrapping_add(1);
        self.says(port, true, segment(SYN_ACK, IRS, one_beyond, 0))
            && self.says(port, false, segment(ACK, one_beyond, IRS + 1, 0))
    }

    fn has(&self, port: u16) -> bool {
        let flow = self.flow(Protocol::TCP, port);
        self.states.find(&flow, self.states.hash(&flow), ANY, self.now).is_some()
    }
}

fn syn() -> Seen {
    segment(SYN, ISS, 0, 0)
}

#[test]
fn at_their_bound_the_oldest_half_open_connection_makes_room_and_an_open_one_never_does() {
    for family in FAMILIES {
        let settings = Settings { half_open_max: Some(100), ..Settings::default() };
        let mut world = World::with(family, settings);
        for port in 0..50 {
            world.knock(port);
            assert!(world.opens(port));
        }
        assert_eq!((world.states.len(), world.states.half_open()), (50, 0));
        for port in 1000..11_000 {
            world.knock(port);
            assert!(world.states.half_open() <= 100 && world.states.len() <= 150);
            // One of ten is a client that answers after 80 others have knocked.
            if port % 10 == 0 && port >= 1090 {
                assert!(world.opens(port - 80), "{port}");
                world.says(port - 80, false, segment(RST, ISS.wrapping_add(1), 0, 0));
                let flow = world.flow(Protocol::TCP, port - 80);
                let id = world.states.find(&flow, world.states.hash(&flow), ANY, world.now).unwrap();
                world.states.remove(id, world.now);
            }
        }
        assert!(world.counters.get(Count::StateHalfOpenEvicted) > 8000);
        assert!((0..50).all(|port| world.has(port)), "those that are open");
        assert!((10_920..11_000).filter(|port| port % 10 != 0).all(|port| world.has(port)), "the newest");
    }
}

#[test]
fn whatever_ends_or_opens_is_not_counted_as_half_open() {
    for family in FAMILIES {
        let mut world = World::new(family);
        for port in 0..6 {
            world.knock(port);
        }
        assert_eq!(world.states.half_open(), 6);
        assert!(world.opens(0));
        assert!(world.says(1, false, segment(RST, ISS.wrapping_add(1), 0, 0)));
        let flow = world.flow(Protocol::TCP, 2);
        let id = world.states.find(&flow, world.states.hash(&flow), ANY, world.now).unwrap();
        world.states.remove(id, world.now);
        assert!(world.says(3, true, segment(SYN_ACK, IRS, ISS.wrapping_add(1), 0)), "not open yet");
        assert_eq!(world.states.half_open(), 3);
        world.now = world.now + Duration::from_secs(25);
        while world.states.tick(world.now, 256, &mut world.keepalives) > 0 {}
        assert_eq!(world.states.half_open(), 0, "their time is over");
        assert!(world.has(0));
    }
}

proptest! {
    #[test]
    fn all_cpus_together_never_have_more_half_open_connections_than_may_be(
        cpus in 1..9_u16,
        max in 16..2000_u32,
        steps in proptest::collection::vec((0..8_u16, 1..500_u16), 1..30),
    ) {
        let (loose, limits) = (Loose::new(cpus.into()), Limits::new(&Secret::new(8), 100));
        let settings = Settings { half_open_max: Some(max), ..Settings::default() };
        let states =
            |cpu| States::new(&Secret::new(7), settings, Arc::clone(&loose), Arc::clone(&limits), CpuId(cpu));
        let mut all: Vec<States> = (0..cpus).map(states).collect();
        let (mut counters, mut made) = (Counters::default(), 0_u32);
        for (cpu, many) in steps {
            let states = &mut all[usize::from(cpu % cpus)];
            for _ in 0..many {
                made += 1;
                let ends = [End { addr: made.into(), port: 9 }, End { addr: 7 << 90, port: 80 }];
                let flow = Flow::new(false, Protocol::TCP.0, ends[0], ends[1]);
                let hash = states.hash(&flow);
                prop_assert!(
                    states.install(&flow, hash, New::default(), &syn(), Instant::START, &mut counters).is_ok()
                );
            }
            let half_open: usize = all.iter().map(States::half_open).sum();
            prop_assert!(half_open <= max as usize);
            prop_assert_eq!(half_open, all.iter().map(States::len).sum::<usize>());
            let evicted = counters.get(Count::StateHalfOpenEvicted);
            prop_assert_eq!(u64::from(made), evicted + half_open as u64);
        }
    }
}
