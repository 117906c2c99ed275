//! Cost of states for short connections: `connections [--rounds N] [--uncounted]`.
//!
//! Eight segments each go through a router in memory, as [`bench::firewall::connections`] describes it: without a
//! firewall, with states of each CPU, and with one table of all CPUs under a read-write lock. Instructions are counted by
//! valgrind with 1, 2 and 8 CPUs that take turns in one thread. Rates are of 1 and 2 CPUs, each a thread on a processor
//! of its own: what came through in slices that alternate, and its ratio to the slice without a firewall in the same
//! round, by the processor time of the threads and by the clock. A thread that sleeps until a lock is free uses no
//! processor time, and one that others push aside does not either. What sends and receives is part of all rows; `links`
//! is that alone.

use core::fmt::Write as _;
use core::time::Duration;
use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use bench::callgrind;
use bench::clock::{Quartiles, cpu_time};
use bench::firewall::connections::{Cpu, GUARDS, Guard, Router, span};
use bench::firewall::segments::Links;
use bench::frames::Family;
use bench::program::{self, Scope};
use dev::sys::affinity;

const USAGE: &str = "connections [--rounds N] [--uncounted] | connections count GUARD|links CPUS 4|6";
/// Slices of each row.
const ROUNDS: usize = 21;
const SLICE: Duration = Duration::from_millis(50);
/// CPUs whose instructions are counted, and CPUs that run at the same time.
const COUNTED: [u16; 3] = [1, 2, 8];
const TIMED: [u16; 2] = [1, 2];
/// Connections that begin in a second of the router's time, where instructions are counted: fewer, for patience.
const PER_SECOND: u32 = 40_000;
const PER_SECOND_COUNTED: u32 = 10_000;
/// The time of the router that is counted: states are looked through once a second.
const WINDOW: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    program::run(USAGE, |args| match args {
        ["count", "links", _, family] => {
            let passed = count_these_links(&mut Links::new(program::read(family)?)?);
            ensure!(passed == LINKED * Cpu::EACH_TURN, "{passed} segments");
            Ok(String::new())
        }
        ["count", guard, cpus, family] => {
            let (guard, cpus) = (Guard::named(guard)?, program::read(cpus)?);
            let mut router = Router::new(program::read(family)?, guard, cpus, PER_SECOND_COUNTED)?;
            count_these_turns(&mut router, turns(cpus));
            Ok(String::new())
        }
        _ => tables(args),
    })
}

/// The part that valgrind counts.
#[inline(never)]
fn count_these_turns(router: &mut Router, turns: usize) {
    router.forward(turns);
}

/// Turns of the links alone.
const LINKED: usize = 64;

#[inline(never)]
fn count_these_links(links: &mut Links) -> usize {
    links.pass(LINKED)
}

fn tables(args: &[&str]) -> Result<String> {
    let Scope { rounds, is_counted } = Scope::read(args, ROUNDS)?;
    let mut text = String::new();
    for family in [Family::Ip4, Family::Ip6] {
        if is_counted {
            write_counts(&mut text, family)?;
        }
        for cpus in TIMED {
            write_rates(&mut text, family, cpus, rounds)?;
        }
    }
    Ok(text)
}

fn name(family: Family) -> &'static str {
    if family == Family::Ip4 { "IPv4" } else { "IPv6" }
}

/// Instructions of a segment.
fn write_counts(text: &mut String, family: Family) -> Result<()> {
    let digit = if family == Family::Ip4 { "4" } else { "6" };
    let links = callgrind::count(&["count", "links", "1", digit], "count_these_links")?;
    let links = links / (LINKED * Cpu::EACH_TURN) as f64;
    writeln!(
        text,
        "| {}, instructions of a segment | 1 CPU | 2 CPUs | 8 CPUs |\n|---|---|---|---|",
        name(family)
    )?;
    writeln!(text, "| links alone | {links:.0} | | |")?;
    let mut plain = [f64::NAN; COUNTED.len()];
    for (guard, which, what) in GUARDS {
        write!(text, "| {what} |")?;
        for (cpus, plain) in COUNTED.into_iter().zip(&mut plain) {
            let all = callgrind::count(&["count", guard, &cpus.to_string(), digit], "count_these_turns")?;
            let each = all / (turns(cpus) * usize::from(cpus) * Cpu::EACH_TURN) as f64;
            if which == Guard::None {
                *plain = each;
                write!(text, " {each:.0} |")?;
            } else {
                write!(text, " {each:.0}: {:.2} times |", each / *plain)?;
            }
        }
        writeln!(text)?;
    }
    Ok(writeln!(text)?)
}

/// Turns of each CPU that are counted.
fn turns(cpus: u16) -> usize {
    usize::try_from(WINDOW.as_nanos() / span(cpus, PER_SECOND_COUNTED).as_nanos()).unwrap_or(0)
}

/// Segments that come through in a second of processor time, and in one of the clock.
type Rate = [f64; 2];

fn write_rates(text: &mut String, family: Family, cpus: u16, rounds: usize) -> Result<()> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    ensure!(usize::from(cpus) <= processors, "needs {cpus} processors");
    let routers = GUARDS.map(|(_, guard, _)| Router::new(family, guard, cpus, PER_SECOND));
    let mut routers = routers.into_iter().collect::<Result<Vec<_>>>()?;
    let mut rates = vec![Vec::new(); routers.len()];
    for _ in 0..rounds {
        for (router, rates) in routers.iter_mut().zip(&mut rates) {
            rates.push(rate(router, processors)?);
        }
    }
    let (plural, family) = (if cpus == 1 { "" } else { "s" }, name(family));
    writeln!(
        text,
        "| {family}, {cpus} CPU{plural} | states | M segments in a second of processor time | of those without | by the clock | of those without |"
    )?;
    writeln!(text, "|---|---|---|---|---|---|")?;
    let plain = rates.first().cloned().unwrap_or_default();
    for (((_, _, what), router), rates) in GUARDS.into_iter().zip(&routers).zip(rates) {
        write!(text, "| {what} | {} |", router.states())?;
        for clock in [0, 1] {
            let rate = Quartiles::of(rates.iter().map(|rate| rate[clock]).collect()).median / 1e6;
            let ratios = rates.iter().zip(&plain).map(|(with, without)| with[clock] / without[clock]);
            let Quartiles { low, median, high } = Quartiles::of(ratios.collect());
            write!(text, " {rate:.2} | {median:.2} [{low:.2} to {high:.2}] |")?;
        }
        writeln!(text)?;
    }
    Ok(writeln!(text)?)
}

/// All CPUs at once, each on a processor of its own, from the last one down.
fn rate(router: &mut Router, processors: usize) -> Result<Rate> {
    let start = Barrier::new(router.cpus.len());
    let run = |cpu: &mut Cpu, processor: usize| -> Result<Rate> {
        affinity::pin_to(processor)?;
        let mut came = cpu.turn();
        start.wait();
        let (before, began, worked) = (came, Instant::now(), cpu_time());
        while began.elapsed() < SLICE {
            came = cpu.turn();
        }
        let times = [cpu_time() - worked, began.elapsed()];
        Ok(times.map(|time| (came - before) as f64 / time.as_secs_f64()))
    };
    thread::scope(|scope| {
        let run = &run;
        let cpus = (0..processors).rev().zip(&mut router.cpus);
        let threads: Vec<_> = cpus.map(|(processor, cpu)| scope.spawn(move || run(cpu, processor))).collect();
        let mut sum = [0.0; 2];
        for thread in threads {
            let rate = thread.join().map_err(|_| anyhow!("a CPU died"))??;
            sum = [sum[0] + rate[0], sum[1] + rate[1]];
        }
        Ok(sum)
    })
}
