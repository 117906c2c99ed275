//! Which CPUs a thread runs on.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Pins the calling thread to `cpu`.
///
/// # Errors
/// `InvalidInput` if the machine has no such CPU, or the cpuset of the process does not include it.
pub fn pin_to(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(not_available(cpu));
    }
    let mut one = CpuSet::new();
    one.set(cpu);
    sched_setaffinity(None, &one)
        .map_err(|e| if e == rustix::io::Errno::INVAL { not_available(cpu) } else { e.into() })
}

/// The CPUs the calling thread may run on, ascending.
///
/// # Errors
/// What `sched_getaffinity` says; none is expected.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

fn not_available(cpu: usize) -> io::Error {
    let text = format!("CPU {cpu} is not available to this process; `taskset -p $$` shows which are");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_run_on_that_cpu_only() {
        let last = *allowed_cpus().unwrap().last().unwrap();
        let seen = std::thread::spawn(move || {
            pin_to(last).unwrap();
            allowed_cpus().unwrap()
        });
        assert_eq!(seen.join().unwrap(), vec![last]);
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_named_in_the_error() {
        let error = pin_to(CpuSet::MAX_CPU).unwrap_err();
        assert!(error.to_string().contains("CPU 1024"), "{error}");
    }
}
