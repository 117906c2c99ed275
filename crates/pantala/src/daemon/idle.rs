//! Idle policy of a netisr: it spins for a while, then it sleeps.
//!
//! How long it pays to spin depends on the traffic, so the time is learned: a sleep that ends soon would have been
//! better spent spinning, one that lasts shows that spinning was in vain. And it only pays on a processor of one's
//! own: where programs want to run too, spinning takes from them what they would make packets of.

use core::time::Duration;

use net::time::Instant;

use crate::config::Policy;

/// The least time of spinning that is worth trying.
const SPIN_MIN: Duration = Duration::from_micros(4);
/// The most: about what going to sleep and being woken cost together, so at the worst both are paid once.
const SPIN_MAX: Duration = Duration::from_micros(64);

/// A turn without work takes a few microseconds; one that took so long was interrupted by another thread.
const INTERRUPTED: Duration = Duration::from_micros(200);
/// For how long it is then not tried again.
const SHARED: Duration = Duration::from_millis(100);

/// Decides between spinning and sleeping.
#[derive(Debug)]
pub(crate) struct Idle {
    policy: Policy,
    spin: Duration,
    /// Spinning, and looked last.
    spinning: Option<(Instant, Instant)>,
    /// Until when the processor counts as shared.
    shared_until: Instant,
}

impl Idle {
    pub(crate) fn new(policy: Policy) -> Self {
        Self { policy, spin: Duration::ZERO, spinning: None, shared_until: Instant::START }
    }

    /// A turn found work.
    pub(crate) fn worked(&mut self) {
        self.spinning = None;
    }

    /// A turn that ended at `now` found none: is it time to sleep?
    pub(crate) fn may_sleep(&mut self, now: Instant) -> bool {
        let (since, last) = self.spinning.unwrap_or((now, now));
        self.spinning = Some((since, now));
        if now.since(last) >= INTERRUPTED {
            self.spin = Duration::ZERO;
            self.shared_until = now + SHARED;
        }
        match self.policy {
            Policy::Always => false,
            Policy::Never => true,
            Policy::Adaptive => now.since(since) >= self.spin,
        }
    }

    /// It slept from `from` to `to`, when something happened (or the time of a timer came).
    pub(crate) fn slept(&mut self, from: Instant, to: Instant) {
        self.spinning = None;
        self.spin = if to < self.shared_until {
            Duration::ZERO
        } else if to.since(from) <= SPIN_MAX {
            (self.spin * 2).clamp(SPIN_MIN, SPIN_MAX)
        } else if self.spin > SPIN_MIN {
            self.spin / 2
        } else {
            Duration::ZERO
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Instant = |us| Instant::from_ns(us * 1000);

    fn adaptive(sleeps: usize, each_us: u64) -> Idle {
        let mut idle = Idle::new(Policy::Adaptive);
        (0..sleeps).for_each(|_| idle.slept(AT(0), AT(each_us)));
        idle
    }

    #[test]
    fn always_never_sleeps_and_never_always_does() {
        assert!(!Idle::new(Policy::Always).may_sleep(Instant::NEVER));
        assert!(Idle::new(Policy::Never).may_sleep(Instant::START));
    }

    #[test]
    fn a_quiet_stack_sleeps_at_once() {
        assert!(adaptive(10, 1000).may_sleep(AT(5)));
    }

    #[test]
    fn short_sleeps_lengthen_the_spinning_to_a_limit_and_long_ones_end_it() {
        let mut idle = adaptive(10, 10);
        assert!(!idle.may_sleep(AT(100)) && !idle.may_sleep(AT(163)));
        assert!(idle.may_sleep(AT(164)));
        (0..6).for_each(|_| idle.slept(AT(0), AT(10_000)));
        assert!(idle.may_sleep(AT(200)));
    }

    #[test]
    fn work_restarts_the_spinning() {
        let mut idle = adaptive(1, 0);
        assert!(!idle.may_sleep(AT(0)));
        idle.worked();
        assert!(!idle.may_sleep(AT(4)) && idle.may_sleep(AT(8)));
    }

    #[test]
    fn a_preempted_spinning_thread_stops_spinning_for_a_while() {
        let mut idle = adaptive(10, 10);
        assert!(!idle.may_sleep(AT(0)) && idle.may_sleep(AT(3000)));
        idle.slept(AT(3000), AT(3010));
        assert!(idle.may_sleep(AT(3010)), "still shared");
        idle.slept(AT(200_000), AT(200_010));
        assert!(!idle.may_sleep(AT(200_010)), "tried again");
    }
}
