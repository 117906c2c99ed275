//! Resources of a process, to be compared.

use core::time::Duration;
use std::thread;
use std::time::Instant;

/// The longest that a thread that was joined stays in `/proc/self/task`: the kernel wakes the joiner first.
const EXIT_MAX: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct Has {
    threads: usize,
    descriptors: usize,
}

/// Threads and open descriptors of this process.
pub(crate) fn has() -> Has {
    let count = |folder| std::fs::read_dir(folder).unwrap().count();
    Has { threads: count("/proc/self/task"), descriptors: count("/proc/self/fd") }
}

/// Asserts that this process has no more than it had, as soon as threads that were joined are gone.
pub(crate) fn assert_has_no_more_than(had: &Has) {
    let started = Instant::now();
    loop {
        let now = has();
        if now.threads <= had.threads && now.descriptors <= had.descriptors {
            return;
        }
        assert!(started.elapsed() < EXIT_MAX, "{now:?} is more than {had:?}");
        thread::sleep(Duration::from_millis(1));
    }
}
