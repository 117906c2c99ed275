//! Processor time that a netisr leaves to other threads of its CPU: `user_frac`, as in ring-based polling.
//!
//! The kernel of this machine divides a CPU between threads, but it gives each the same; a netisr under load would have
//! half of what it shares with one program, however little that needs or however much it should have. Here the netisr
//! itself makes room: for all that it works it owes the others their part, and sleeps when that is long enough.

use core::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Shorter sleeps cost more than they give.
const PAUSE_MIN: Duration = Duration::from_micros(250);
/// Longest pause, whatever happened: no thread owes more.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// Time owed to others.
#[derive(Debug)]
pub(crate) struct Share {
    percent: u32,
    owed: Duration,
    /// Processor time that the thread had used when this was last looked at.
    used: Duration,
}

impl Share {
    pub(crate) const fn new(percent: u32) -> Self {
        Self { percent, owed: Duration::ZERO, used: Duration::ZERO }
    }

    /// After a turn that found work: how long to sleep now, if at all. Without a share it costs nothing.
    pub(crate) fn due(&mut self) -> Option<Duration> {
        if self.percent == 0 { None } else { self.due_at(processor_time()) }
    }

    /// Accounts processor time used by the thread. (Time in which others had the processor is not owed.)
    fn due_at(&mut self, used: Duration) -> Option<Duration> {
        let worked = used.saturating_sub(self.used);
        self.used = used;
        let owed = worked * self.percent / (100 - self.percent).max(1);
        self.owed = (self.owed + owed).min(PAUSE_MAX);
        (self.owed >= PAUSE_MIN).then_some(self.owed)
    }

    /// It slept, for whatever reason: others had that time.
    pub(crate) const fn left(&mut self, slept: Duration) {
        self.owed = self.owed.saturating_sub(slept);
    }
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let part = |n: i64| u64::try_from(n).unwrap_or(0);
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Duration = Duration::from_micros;

    /// Works for a second in turns of 20 microseconds; answers how long it slept, and how often.
    fn second(percent: u32) -> (Duration, u32) {
        let mut share = Share::new(percent);
        let (mut slept, mut times) = (Duration::ZERO, 0);
        for turn in 1..=50_000 {
            if let Some(pause) = share.due_at(US(20 * turn)) {
                share.left(pause);
                slept += pause;
                times += 1;
            }
        }
        (slept, times)
    }

    #[test]
    fn others_get_their_share_of_the_whole() {
        for percent in [10, 50, 90] {
            let (slept, times) = second(percent);
            let whole = Duration::from_secs(1) + slept;
            let share = slept.as_secs_f64() / whole.as_secs_f64() * 100.0;
            assert!((share - f64::from(percent)).abs() < 0.1, "{percent} %: {share}");
            assert!(slept / times >= PAUSE_MIN, "sleeps are worth it");
        }
    }

    #[test]
    fn without_a_share_nothing_is_owed() {
        assert_eq!(second(0), (Duration::ZERO, 0));
        assert_eq!(Share::new(0).due(), None);
    }

    #[test]
    fn idle_sleep_pays_off_the_cpu_share_debt_which_is_bounded() {
        let mut share = Share::new(50);
        assert_eq!(share.due_at(US(200)), None);
        share.left(US(1000));
        assert_eq!(share.due_at(US(400)), None, "all was paid");
        assert_eq!(share.due_at(US(450)), Some(US(250)));
        assert_eq!(share.due_at(Duration::from_secs(9)), Some(PAUSE_MAX));
    }

    #[test]
    fn processor_time_goes_on_while_the_thread_works() {
        let before = processor_time();
        let mut sum = 0_u64;
        while processor_time() == before {
            sum = core::hint::black_box(sum + 1);
        }
        assert!(processor_time() > before);
    }
}
