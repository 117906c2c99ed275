//! When something must happen.

use core::time::Duration;

use drill::script::{Script, SettingValue, Time};

/// Tolerance of event times, if a script gives none.
const TOLERANCE: Duration = Duration::from_micros(4000);
/// Time limit of a packet that may come at any time.
const PATIENCE: Duration = Duration::from_secs(4 * 3600);

/// The script's tolerance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tolerance {
    /// Always.
    pub(super) least: Duration,
    /// Percentage of the time since the event before.
    percent: f64,
}

impl Tolerance {
    /// Reads the options of a script.
    pub(super) fn of(script: &Script) -> Self {
        let percent = match script.option("tolerance_percent") {
            Some(SettingValue::Word(word)) => word.parse().unwrap_or(0.0),
            _ => 0.0,
        };
        Self { least: script.tolerance().unwrap_or(TOLERANCE), percent }
    }

    /// Returns the tolerance for an event `since` the one before.
    pub(super) fn after(self, since: Duration) -> Duration {
        self.least.max(since.mul_f64(self.percent / 100.0))
    }
}

/// When something must happen, since the script began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct When {
    /// Not before.
    from: Duration,
    /// Not after.
    to: Duration,
    /// Neither matters.
    any: bool,
}

impl When {
    /// Returns the time span in which an event that follows one at `last` may happen.
    pub(super) fn of(time: Time, last: Duration, tolerance: Tolerance) -> Self {
        let (from, to) = match time {
            Time::Absolute(at) => (at, at),
            Time::Relative(by) => (last + by, last + by),
            Time::AbsoluteRange(from, to) => (from, to),
            Time::RelativeRange(from, to) => (last + from, last + to),
            Time::Any => return Self { from: Duration::ZERO, to: last + PATIENCE, any: true },
        };
        let tolerated = tolerance.after(from.saturating_sub(last));
        Self { from: from.saturating_sub(tolerated), to: to + tolerated, any: false }
    }

    /// At `end`, for what began after an event at `last`.
    pub(super) fn at(end: Duration, last: Duration, tolerance: Tolerance) -> Self {
        Self::of(Time::Absolute(end), last, tolerance)
    }

    /// The last moment at which it may happen.
    pub(super) const fn latest(self) -> Duration {
        self.to
    }

    /// Explains why happening `at` this time is wrong.
    pub(super) fn wrong(self, at: Duration) -> Option<String> {
        let is_right = self.any || (self.from..=self.to).contains(&at);
        (!is_right).then(|| {
            let [at, from, to] = [at, self.from, self.to].map(|time| time.as_secs_f64());
            format!("at {at:.6}, not between {from:.6} and {to:.6}")
        })
    }
}

/// When an event begins that the script itself does.
pub(super) fn begins(time: Time, last: Duration) -> Duration {
    match time {
        Time::Absolute(at) | Time::AbsoluteRange(at, _) => at,
        Time::Relative(by) | Time::RelativeRange(by, _) => last + by,
        Time::Any => last,
    }
}

/// When a call must return that says `end`, which is counted as its own time is.
pub(super) fn ends(time: Time, end: Duration, last: Duration) -> Duration {
    match time {
        Time::Absolute(_) | Time::AbsoluteRange(..) => end,
        Time::Relative(_) | Time::RelativeRange(..) | Time::Any => last + end,
    }
}
