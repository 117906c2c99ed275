//! The speed of the machine at the moment, for code that is bound by throughput.
//!
//! A virtual CPU may share its core with a neighbour, and then runs at half its speed for seconds or minutes. A chain
//! of dependent instructions does not notice; eight independent chains do.

use core::cell::Cell;
use core::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::run::root;

/// Steps of each chain in one measurement: a few milliseconds.
const STEPS: u32 = 1_000_000;
/// Excess over the best time at which the machine counts as slow.
const SLOW: f64 = 1.25;

/// The best time that was ever seen on this machine, which tells slow from fast.
pub struct Calibration(Cell<f64>);

/// The state of the machine at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Nanoseconds for a step of the eight chains.
    pub ns: f64,
}

impl Calibration {
    /// As it was left by the last run.
    pub fn load() -> Self {
        let text = std::fs::read_to_string(path()).unwrap_or_default();
        Self(Cell::new(text.trim().parse().unwrap_or(f64::INFINITY)))
    }

    /// Measures `cpu`, and remembers the time if it is the best so far.
    pub fn read(&self, cpu: usize) -> Result<Reading> {
        let reading = std::thread::spawn(move || measure(cpu)).join();
        let reading = reading.map_err(|_| anyhow::anyhow!("the canary died"))??;
        if reading.ns < self.0.get() {
            self.0.set(reading.ns);
            std::fs::create_dir_all(path().parent().unwrap_or(&root()))?;
            std::fs::write(path(), format!("{}\n", reading.ns))?;
        }
        Ok(reading)
    }

    /// Whether the machine was in its fast state, as far as this run and those before it have seen that.
    pub fn is_fast(&self, reading: Reading) -> bool {
        reading.ns <= SLOW * self.0.get()
    }
}

fn measure(cpu: usize) -> Result<Reading> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    sched_setaffinity(None, &cpus).with_context(|| format!("cannot run on cpu{cpu}"))?;
    let best = (0..3).map(|_| time()).fold(f64::INFINITY, f64::min);
    Ok(Reading { ns: best })
}

fn time() -> f64 {
    let mut chains = black_box([1_u64, 2, 3, 4, 5, 6, 7, 8]);
    let started = Instant::now();
    for _ in 0..STEPS {
        let [a, b, c, d, e, f, g, h] = chains;
        chains = [step(a), step(b), step(c), step(d), step(e), step(f), step(g), step(h)];
    }
    let elapsed = started.elapsed();
    black_box(chains);
    elapsed.as_secs_f64() * 1e9 / f64::from(STEPS)
}

/// One step of one chain: rotations do not merge with their neighbours into wider instructions.
#[inline(always)]
fn step(x: u64) -> u64 {
    x.rotate_left(7) ^ 0x9e37
}

fn path() -> PathBuf {
    root().join("target/peers/canary")
}
