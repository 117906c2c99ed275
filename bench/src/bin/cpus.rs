//! Forwards on several CPUs: `cpus time N match|hashed|cross|apart MILLISECONDS` on real ones, from the last one down, and
//! answers packets per second of CPU time; `cpus count N RINGS PACKETS` one after the other on one, for valgrind.
//! `apart` are N routers of one CPU each, which know nothing of each other: what the machine gives to N CPUs at once.

use core::time::Duration;
use std::process::ExitCode;
use std::sync::{Arc, Barrier};
use std::thread;

use anyhow::{Result, ensure};
use bench::clock::cpu_time;
use bench::cpus::{One, Rings, drain, router};
use bench::frames::Family;
use bench::program::{self, Misused};
use pkt::ArenaError;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Packets that come to a CPU in one turn.
const AT_ONCE: usize = 64;
/// Turns between two looks at the clock.
const TURNS: usize = 64;
/// Time for the caches, before anything counts.
const WARM_UP: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    program::run("cpus time|count CPUS match|hashed|cross|apart MILLISECONDS|PACKETS", |args| {
        let [what, cpus, rings, amount] = args else { return Err(Misused.into()) };
        let cpus = program::read(cpus)?;
        let all = match *rings {
            "match" => router(Family::Ip4, cpus, Rings::Match),
            "hashed" => router(Family::Ip4, cpus, Rings::MatchHashed),
            "cross" => router(Family::Ip4, cpus, Rings::Cross),
            "apart" => apart(cpus),
            _ => return Err(Misused.into()),
        }?;
        match *what {
            "time" => Ok(time(all, Duration::from_millis(program::read(amount)?))),
            "count" => count(all, program::read(amount)?),
            _ => Err(Misused.into()),
        }
    })
}

/// Routers that share nothing.
fn apart(cpus: u16) -> Result<Vec<One>, ArenaError> {
    let routers = (0..cpus).map(|_| router(Family::Ip4, 1, Rings::Match));
    Ok(routers.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// All CPUs at the same time, each on one of the machine's.
fn time(all: Vec<One>, time: Duration) -> String {
    let start = Arc::new(Barrier::new(all.len()));
    let last = thread::available_parallelism().map_or(1, usize::from) - 1;
    let threads: Vec<_> = (0..all.len())
        .zip(all)
        .map(|(at, one)| {
            let start = Arc::clone(&start);
            thread::spawn(move || run(one, last.saturating_sub(at), time, &start))
        })
        .collect();
    let results: Vec<(usize, f64)> = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
    let packets: usize = results.iter().map(|result| result.0).sum();
    let seconds: f64 = results.iter().map(|result| result.1).sum();
    format!("{{\"packets_per_cpu_second\":{:.0}}}", packets as f64 / seconds)
}

/// Packets that leave in this time, and the seconds of CPU time that they take.
fn run(mut one: One, cpu: usize, time: Duration, start: &Barrier) -> (usize, f64) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    // Where it cannot be pinned it is still measured: by CPU time.
    let _ = sched_setaffinity(None, &cpus);
    start.wait();
    until(&mut one, WARM_UP);
    let (packets, worked) = (one.forward(0, 0), cpu_time());
    until(&mut one, time);
    (one.forward(0, 0) - packets, (cpu_time() - worked).as_secs_f64())
}

fn until(one: &mut One, time: Duration) {
    let started = std::time::Instant::now();
    while started.elapsed() < time {
        one.forward(TURNS, AT_ONCE);
    }
}

/// Forwards a number of packets in all, the CPUs in turn.
fn count(mut all: Vec<One>, packets: usize) -> Result<String> {
    let sent = |all: &mut [One]| all.iter_mut().map(|one| one.forward(0, 0)).sum::<usize>();
    let before = sent(&mut all);
    for _ in 0..packets / AT_ONCE / all.len() {
        all.iter_mut().for_each(|one| _ = one.forward(1, AT_ONCE));
    }
    drain(&mut all);
    let forwarded = sent(&mut all) - before;
    ensure!(forwarded == packets, "{forwarded} of {packets}");
    Ok(String::new())
}
