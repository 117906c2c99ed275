//! Waiting for something to become true, and not for longer than a deadline.

use core::fmt::Debug;
use core::time::Duration;
use std::time::Instant;

/// Time limit of events that do not depend on a protocol's timers.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Looks again and again until `look` finds something.
#[track_caller]
pub(crate) fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, look).unwrap_or_else(|| panic!("not within {PATIENCE:?}: {what}"))
}

/// Time between two looks: the least and the most, and how many times as long as a look takes. Many a look is a program's start,
/// and what is waited for needs the processors as well.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(200);
const PAUSES: u32 = 3;

/// Waits within a limit; `None` when the time is over.
pub(crate) fn within<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        let before = Instant::now();
        let seen = look();
        if seen.is_some() || begun.elapsed() > limit {
            return seen;
        }
        std::thread::sleep((before.elapsed() * PAUSES).clamp(PAUSE, PAUSE_MAX));
    }
}

/// Looks until what is seen satisfies `is_right`; on failure shows what was seen last.
#[track_caller]
pub(crate) fn until_right<T: Debug>(
    what: &str,
    mut look: impl FnMut() -> T,
    is_right: impl Fn(&T) -> bool,
) -> T {
    let mut last = None;
    let found = within(PATIENCE, || {
        let seen = look();
        if is_right(&seen) {
            return Some(seen);
        }
        last = Some(seen);
        None
    });
    found.unwrap_or_else(|| panic!("not within {PATIENCE:?}: {what}; seen last: {last:#?}"))
}
