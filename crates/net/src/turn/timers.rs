//! Timers of this CPU.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::base::time::Instant;
use crate::firewall;
use crate::flow;
use crate::ip::{addr, group, ip6, neigh, reass, snoop_io, stp_io};
use crate::link::fdb;
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;

/// The target of a timer. Each thing has at most one timer; one that fires too early sets itself again, so timers are
/// never searched for and never cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// Neighbour entries that this CPU resolves.
    Neigh,
    /// One of our own addresses: detection of duplicates, announcement, defence.
    Addr(addr::Key),
    /// Multicast reports of an interface's link.
    Group(IfIndex),
    /// Autoconfiguration of an interface's link.
    Autoconf(IfIndex),
    /// Router advertisements to an interface's link.
    Rtadv(IfIndex),
    /// Datagrams that wait for fragments.
    Reass,
    /// Learnt link addresses that this CPU owns.
    Fdb,
    /// Spanning trees that this CPU owns.
    Stp,
    /// Groups on the ports of bridges that this CPU owns.
    Snooping,
    /// States of the firewall.
    Firewall,
    /// Flows that drivers forward.
    Offload,
}

/// A CPU's timers, soonest first. Bounded by the tables whose entries they wake.
#[derive(Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(Instant, Timer)>>,
}

/// Timers that fire in one turn at the most.
const PER_TURN_MAX: usize = 256;

impl Timers {
    /// Wakes `timer` at `at`, or a little later.
    pub fn set(&mut self, at: Instant, timer: Timer) {
        self.heap.push(Reverse((at, timer)));
    }

    /// When the next timer is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        self.deadline().filter(|at| *at <= now)?;
        self.heap.pop().map(|Reverse((_, timer))| timer)
    }
}

/// Runs the timers that are due, a bounded number of them, and returns how many.
pub fn run(cpu: &mut Cpu) -> usize {
    for done in 0..PER_TURN_MAX {
        let Some(timer) = cpu.timers.pop_due(cpu.now) else { return done };
        match timer {
            Timer::Neigh => neigh::timer(cpu),
            Timer::Addr(key) => addr::timer(cpu, key),
            Timer::Group(ifindex) => group::timer(cpu, ifindex),
            Timer::Autoconf(ifindex) => ip6::autoconf::timer(cpu, ifindex),
            Timer::Rtadv(ifindex) => ip6::rtadv::timer(cpu, ifindex),
            Timer::Reass => reass::timer(cpu),
            Timer::Fdb => fdb::timer(cpu),
            Timer::Stp => stp_io::timer(cpu),
            Timer::Snooping => snoop_io::timer(cpu),
            Timer::Firewall => firewall::timer(cpu),
            Timer::Offload => flow::offloader::timer(cpu),
        }
    }
    PER_TURN_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::Bench;

    #[test]
    fn timers_beyond_those_of_a_turn_fire_in_the_next_one() {
        let mut bench = Bench::new(1);
        let cpu = bench.cpu();
        while run(cpu) > 0 {}
        for _ in 0..PER_TURN_MAX + 7 {
            cpu.timers.set(cpu.now, Timer::Reass);
        }
        assert_eq!([run(cpu), run(cpu), run(cpu)], [PER_TURN_MAX, 7, 0]);
    }
}
