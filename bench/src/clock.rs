//! Time, and what many measurements of it come to.

use core::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time that this thread has had: others may want the machine too.
#[must_use]
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Nanoseconds of processor time that one of `packets` takes, where `work` does them all, over and over for so long.
pub fn ns_each(time: Duration, packets: usize, mut work: impl FnMut()) -> f64 {
    let (began, mut done) = (cpu_time(), 0);
    while cpu_time() - began < time || done == 0 {
        work();
        done += packets;
    }
    (cpu_time() - began).as_secs_f64() * 1e9 / done as f64
}

/// The middle of these numbers, and the middles of its halves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quartiles {
    /// A quarter is below.
    pub low: f64,
    /// Half is below.
    pub median: f64,
    /// A quarter is above.
    pub high: f64,
}

impl Quartiles {
    /// Computes the median and quartiles; `NaN` without numbers.
    #[must_use]
    pub fn of(mut numbers: Vec<f64>) -> Self {
        numbers.sort_by(f64::total_cmp);
        let last = numbers.len().saturating_sub(1);
        let at = |quarters: usize| numbers.get((last * quarters + 2) / 4).copied().unwrap_or(f64::NAN);
        Self { low: at(1), median: at(2), high: at(3) }
    }
}

/// Cycles of the time stamp counter in a nanosecond. On a virtual machine `cpu MHz` is that counter's rate.
#[must_use]
pub fn cycles_per_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mhz = text.lines().find(|line| line.starts_with("cpu MHz")).and_then(|line| line.split(": ").nth(1));
    mhz.and_then(|mhz| mhz.parse::<f64>().ok()).map_or(f64::NAN, |mhz| mhz / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_numbers_that_were_measured() {
        let numbers = |last: u32| (1..=last).rev().map(f64::from).collect();
        assert_eq!(Quartiles::of(numbers(5)), Quartiles { low: 2.0, median: 3.0, high: 4.0 });
        assert_eq!(Quartiles::of(numbers(1)), Quartiles { low: 1.0, median: 1.0, high: 1.0 });
        assert!(Quartiles::of(Vec::new()).median.is_nan());
    }
}
