//! How a netisr waits when it has nothing to do: it spins for a while, then it sleeps.
//!
//! How long it pays to spin depends on the traffic, so the time is learned: a sleep that ends soon would have been
//! better spent spinning, one that lasts shows that spinning was in vain.

use core::time::Duration;

use net::time::Instant;

use crate::config::Polling;

/// The least time of spinning that is worth trying.
const SPIN_MIN: Duration = Duration::from_micros(4);
/// The most: about what going to sleep and being woken cost together, so at the worst both are paid once.
const SPIN_MAX: Duration = Duration::from_micros(64);

/// Decides between spinning and sleeping.
#[derive(Debug)]
pub(crate) struct Idle {
    polling: Polling,
    spin: Duration,
    since: Option<Instant>,
}

impl Idle {
    pub(crate) fn new(polling: Polling) -> Self {
        Self { polling, spin: Duration::ZERO, since: None }
    }

    /// A turn found work.
    pub(crate) fn worked(&mut self) {
        self.since = None;
    }

    /// A turn that ended at `now` found none: is it time to sleep?
    pub(crate) fn may_sleep(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        match self.polling {
            Polling::Always => false,
            Polling::Never => true,
            Polling::Adaptive => now.since(since) >= self.spin,
        }
    }

    /// It slept for `slept`, and something happened (or the time of a timer came).
    pub(crate) fn slept(&mut self, slept: Duration) {
        self.since = None;
        self.spin = if slept <= SPIN_MAX {
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

    #[test]
    fn always_never_sleeps_and_never_always_does() {
        assert!(!Idle::new(Polling::Always).may_sleep(Instant::NEVER));
        assert!(Idle::new(Polling::Never).may_sleep(Instant::START));
    }

    #[test]
    fn a_quiet_stack_sleeps_at_once() {
        let mut idle = Idle::new(Polling::Adaptive);
        for _ in 0..10 {
            idle.slept(Duration::from_millis(1));
        }
        assert!(idle.may_sleep(AT(5)));
    }

    #[test]
    fn short_sleeps_lengthen_the_spinning_to_a_limit_and_long_ones_end_it() {
        let mut idle = Idle::new(Polling::Adaptive);
        for _ in 0..10 {
            idle.slept(Duration::from_micros(10));
        }
        assert!(!idle.may_sleep(AT(100)) && !idle.may_sleep(AT(163)));
        assert!(idle.may_sleep(AT(164)));
        for _ in 0..6 {
            idle.slept(Duration::from_millis(10));
        }
        assert!(idle.may_sleep(AT(200)));
    }

    #[test]
    fn work_restarts_the_spinning() {
        let mut idle = Idle::new(Polling::Adaptive);
        idle.slept(Duration::ZERO);
        assert!(!idle.may_sleep(AT(0)));
        idle.worked();
        assert!(!idle.may_sleep(AT(4)) && idle.may_sleep(AT(8)));
    }
}
