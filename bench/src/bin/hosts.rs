//! Cost of states for a host that serves short connections: `hosts [--rounds N] [--uncounted]`.
//!
//! Connections are begun by one host and served by another, both of them ours, as [`bench::firewall::host`] describes it: by a
//! server that does as little as one can, and by the web server that users run, for a file of a kilobyte. Only what
//! the server does is counted, its program and its devices included: instructions by valgrind, with 1, 2 and 8 CPUs that take
//! turns in one thread; rates with 1 and 2 CPUs, each a thread on a processor of its own, in slices that alternate, by the
//! processor time of the server's turns.

use core::fmt::Write as _;
use core::time::Duration;
use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;

use anyhow::{Context as _, Result, anyhow, ensure};
use bench::callgrind;
use bench::clock::{Quartiles, cpu_time};
use bench::firewall::host::{GUARDS, Guard, Hosts};
use bench::frames::Family;
use bench::program::{self, Misused, Scope};
use bench::short::{Pair, Serves};
use dev::sys::affinity;
use net::netisr::Netisr;
use net::time::Instant;

const USAGE: &str = "hosts [--rounds N] [--uncounted] | hosts count GUARD least|web CPUS 4|6";
/// Slices of each row.
const ROUNDS: usize = 21;
/// Turns of each CPU in a slice.
const SLICE: usize = 100;
/// CPUs whose instructions are counted, and CPUs that run at the same time.
const COUNTED: [u16; 3] = [1, 2, 8];
const TIMED: [u16; 2] = [1, 2];
/// Connections that begin in a second of the hosts' time, where instructions are counted: fewer, for patience.
const PER_SECOND: u32 = 20_000;
const PER_SECOND_COUNTED: u32 = 4000;
/// The time of the hosts that is counted: states are looked through once a second.
const WINDOW: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    program::run(USAGE, |args| match args {
        ["count", guard, serves, cpus, family] => {
            count(program::read(family)?, Guard::named(guard)?, named(serves)?, program::read(cpus)?)
        }
        _ => tables(args),
    })
}

/// Says how many segments valgrind has counted the instructions of.
fn count(family: Family, guard: Guard, serves: Serves, cpus: u16) -> Result<String> {
    let mut hosts = Hosts::new(family, guard, serves, cpus, PER_SECOND_COUNTED)?;
    let before = hosts.segments();
    hosts.turn(hosts.turns(WINDOW), count_this_server);
    Ok((hosts.segments() - before).to_string())
}

/// A server, as arguments name it, and as tables do.
type Named = (Serves, &'static str, &'static str);
const SERVERS: [Named; 2] =
    [(Serves::Least, "least", "a server that does the least"), (Serves::Web, "web", "the web server")];

/// The server of this name.
fn named(name: &str) -> Result<Serves> {
    SERVERS.iter().find(|(_, known, _)| *known == name).map(|(serves, ..)| *serves).context(Misused)
}

/// The part that valgrind counts.
#[inline(never)]
fn count_this_server(server: &mut Netisr, now: Instant) {
    server.turn(now);
}

fn tables(args: &[&str]) -> Result<String> {
    let Scope { rounds, is_counted } = Scope::read(args, ROUNDS)?;
    let mut text = String::new();
    for (family, name) in [(Family::Ip4, "IPv4"), (Family::Ip6, "IPv6")] {
        for server in SERVERS {
            if is_counted {
                write_counts(&mut text, (family, name), server)?;
            }
            for cpus in TIMED {
                write_rates(&mut text, (family, name), server, cpus, rounds)?;
            }
        }
    }
    Ok(text)
}

/// Instructions of a segment.
fn write_counts(text: &mut String, (family, name): (Family, &str), (_, server, called): Named) -> Result<()> {
    let digit = if family == Family::Ip4 { "4" } else { "6" };
    writeln!(
        text,
        "| {name}, {called}: instructions of a segment | 1 CPU | 2 CPUs | 8 CPUs |\n|---|---|---|---|"
    )?;
    let mut plain = [f64::NAN; COUNTED.len()];
    for (guard, which, what) in GUARDS {
        write!(text, "| {what} |")?;
        for (cpus, plain) in COUNTED.into_iter().zip(&mut plain) {
            let args = ["count", guard, server, &cpus.to_string(), digit];
            let (all, said) = callgrind::count_and_hear(&args, "count_this_server")?;
            let each = all / said.trim().parse::<f64>()?;
            if which == Guard::None {
                *plain = each;
                write!(text, " {each:.0} |")?;
            } else {
                write!(text, " {each:.0}: {:.3} times |", each / *plain)?;
            }
        }
        writeln!(text)?;
    }
    Ok(writeln!(text)?)
}

fn write_rates(
    text: &mut String,
    (family, name): (Family, &str),
    (serves, _, called): Named,
    cpus: u16,
    rounds: usize,
) -> Result<()> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    ensure!(usize::from(cpus) <= processors, "needs {cpus} processors");
    let hosts = GUARDS.map(|(_, guard, _)| Hosts::new(family, guard, serves, cpus, PER_SECOND));
    let mut hosts = hosts.into_iter().collect::<Result<Vec<_>>>()?;
    let mut rates = vec![Vec::new(); hosts.len()];
    for _ in 0..rounds {
        for (hosts, rates) in hosts.iter_mut().zip(&mut rates) {
            rates.push(rate(hosts, processors)?);
        }
    }
    let plural = if cpus == 1 { "" } else { "s" };
    writeln!(
        text,
        "| {name}, {called}, {cpus} CPU{plural} | states | connections | M segments in a second of the server's processor time | of those without |"
    )?;
    writeln!(text, "|---|---|---|---|---|")?;
    let plain = rates.first().cloned().unwrap_or_default();
    for (((_, _, what), hosts), rates) in GUARDS.into_iter().zip(&hosts).zip(rates) {
        let (states, connections) = hosts.remembered();
        let rate = Quartiles::of(rates.clone()).median / 1e6;
        let ratios = rates.iter().zip(&plain).map(|(with, without)| with / without);
        let Quartiles { low, median, high } = Quartiles::of(ratios.collect());
        writeln!(
            text,
            "| {what} | {states} | {connections} | {rate:.3} | {median:.2} [{low:.2} to {high:.2}] |"
        )?;
    }
    Ok(writeln!(text)?)
}

/// Segments in a second of processor time, of all CPUs at once, each on a processor of its own, from the last one down.
fn rate(hosts: &mut Hosts, processors: usize) -> Result<f64> {
    let start = Barrier::new(hosts.pairs.cpus.len());
    let run = |pair: &mut Pair, processor: usize| -> Result<f64> {
        affinity::pin_to(processor)?;
        let (before, mut worked) = (pair.frames(), Duration::ZERO);
        start.wait();
        for _ in 0..SLICE {
            pair.turn(|server, now| {
                let began = cpu_time();
                server.turn(now);
                worked += cpu_time() - began;
            });
        }
        Ok((pair.frames() - before) as f64 / worked.as_secs_f64())
    };
    thread::scope(|scope| {
        let run = &run;
        let pairs = (0..processors).rev().zip(&mut hosts.pairs.cpus);
        let threads: Vec<_> =
            pairs.map(|(processor, pair)| scope.spawn(move || run(pair, processor))).collect();
        let rates = threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a CPU died"))?);
        rates.sum()
    })
}
