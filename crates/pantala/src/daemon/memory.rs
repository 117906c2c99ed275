//! Memory that was needed for a while goes back to the machine.

use core::time::Duration;

/// Interval of checks.
const EVERY: Duration = Duration::from_secs(10);
/// Bytes that the process may have grown by before it is worth a look through the heap.
const WORTH: u64 = 16 << 20;

/// The process's use of memory over time.
#[derive(Debug, Default)]
struct Level {
    /// When the heap was given back last, or less since then.
    least: u64,
    /// At the last look.
    last: u64,
}

impl Level {
    /// Whether to give back what is free, now that the process has so many bytes: much more than when that was done last, and
    /// it grows no more.
    fn is_over(&mut self, bytes: u64) -> bool {
        let grows = bytes > self.last;
        (self.least, self.last) = (self.least.min(bytes), bytes);
        !grows && bytes > self.least + WORTH
    }

    /// It has been given back.
    const fn begin(&mut self, bytes: u64) {
        (self.least, self.last) = (bytes, bytes);
    }
}

/// Gives memory back that is free, when there is more of it than before, for ever.
pub(super) async fn give_back() {
    let mut level = Level::default();
    level.begin(resident());
    loop {
        tokio::time::sleep(EVERY).await;
        if level.is_over(resident()) {
            dev::sys::heap::give_back();
            level.begin(resident());
        }
    }
}

/// Bytes of the machine's memory that the process has; 0 if that cannot be told.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|kib| kib.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_back_once_after_it_was_needed_and_not_while_more_is_needed() {
        let mut level = Level::default();
        level.begin(100 << 20);
        let looks: Vec<bool> = [110, 200, 520, 520].map(|mib| level.is_over(mib << 20)).into();
        assert_eq!(looks, [false, false, false, true]);
        level.begin(130 << 20);
        assert!(!level.is_over(140 << 20) && !level.is_over(140 << 20), "not worth it");
        assert!(!level.is_over(120 << 20) && !level.is_over(150 << 20) && level.is_over(149 << 20));
    }

    #[test]
    fn it_is_known_how_much_there_is() {
        assert!(resident() > 1 << 20);
    }
}
