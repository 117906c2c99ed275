//! Many short connections: `shortconn PEER [--concurrent N] [--behind close|ask] [--cable plain|super|indirect|wire]
//! [--window MS]`.
//!
//! `mem` is a server and a client, two hosts of ours in memory with one thread for both; `two` has a thread for each;
//! `smoltcp` is the crate of this name; `stream` is one connection that is never empty, in bits a second. `shortconn count PEER
//! and the answers are printed. `shortconn idle N` says how much memory so many connections take that stand and have nothing to
//! say, `shortconn gone N` how much is left when so many have come and gone.

use core::fmt::Write as _;
use core::time::Duration;
use std::process::ExitCode;
use std::thread;

use anyhow::{Context, Result, bail};
use bench::cable::Kind;
use bench::frames::Family;
use bench::program::{self, Misused};
use bench::short::{Behind, Other, PIECE, PORT, Pace, Pairs, Rate, Serves, Wanted, memory, other};

const USAGE: &str = "shortconn mem|two|stream|smoltcp [--concurrent N] [--behind close|ask] [--cable plain|super|indirect|wire] \
                     [--family 4|6] [--window MS] | shortconn count mem|plain|smoltcp CONCURRENT ANSWERS | \
                     shortconn idle|gone N";
/// Maximum segment lifetime.
const MSL: Duration = Duration::from_millis(20);
/// Length of a turn where time is the hosts' own.
const SPAN: Duration = Duration::from_micros(50);

/// The command line.
struct Case {
    who: String,
    concurrent: usize,
    behind: Behind,
    cable: Kind,
    family: Family,
    window: Duration,
}

fn main() -> ExitCode {
    program::run(USAGE, |args| match args {
        ["count", who, concurrent, answers] => {
            count(who, program::read(concurrent)?, program::read(answers)?)
        }
        ["idle", connections] => idle(program::read(connections)?),
        ["gone", connections] => gone(program::read(connections)?),
        _ => measure(&case(args)?),
    })
}

fn case(args: &[&str]) -> Result<Case> {
    let mut args = args.iter();
    let who = (*args.next().context(Misused)?).to_owned();
    let (behind, cable) = (Behind::Close, Kind::Super);
    let mut case =
        Case { who, concurrent: 16, behind, cable, family: Family::Ip4, window: Duration::from_millis(500) };
    while let Some(option) = args.next() {
        match (*option, *args.next().context(Misused)?) {
            ("--concurrent", number) => case.concurrent = program::read(number)?,
            ("--behind", "close") => case.behind = Behind::Close,
            ("--behind", "ask") => case.behind = Behind::Ask,
            ("--cable", "plain") => case.cable = Kind::Plain,
            ("--cable", "super") => case.cable = Kind::Super,
            ("--cable", "indirect") => case.cable = Kind::Indirect,
            ("--cable", "wire") => case.cable = Kind::Wire,
            ("--family", family) => case.family = program::read(family)?,
            ("--window", ms) => case.window = Duration::from_millis(program::read(ms)?),
            _ => return Err(Misused.into()),
        }
    }
    Ok(case)
}

fn wanted(concurrent: usize, behind: Behind, cable: Kind, family: Family) -> Wanted {
    let pace = Pace::Concurrent(concurrent);
    let serves = Serves::Least;
    Wanted { family, cpus: 1, cable, pace, behind, serves, port: PORT, msl: MSL, span: SPAN }
}

fn measure(case: &Case) -> Result<String> {
    let &Case { concurrent, behind, cable, family, window, .. } = case;
    let last = thread::available_parallelism().map_or(1, usize::from) - 1;
    let wanted = wanted(concurrent, behind, cable, family);
    Ok(told(&match &*case.who {
        "mem" => memory::together(&wanted, last, window)?,
        "stream" => return stream(&wanted, last, window),
        "two" => memory::apart(&wanted, [last, last.saturating_sub(1)], window)?,
        "smoltcp" => other::together(concurrent, behind, last, window)?,
        _ => return Err(Misused.into()),
    }))
}

/// One connection, whose answers follow each other.
fn stream(wanted: &Wanted, processor: usize, window: Duration) -> Result<String> {
    let (pace, behind, serves) = (Pace::Concurrent(1), Behind::Ask, Serves::Stream);
    let rate = memory::together(&Wanted { pace, behind, serves, ..*wanted }, processor, window)?;
    let bits = |answers| answers * (PIECE * 8) as f64;
    Ok(format!("rate = {:.0}\nper cpu second = {:.0}\n", bits(rate.each_second), bits(rate.each_cpu_second)))
}

/// Lines `NAME = VALUE`; times in microseconds.
fn told(rate: &Rate) -> String {
    let us = |ns: f64| ns / 1e3;
    let at = |quantile: f64| us(rate.latency.value_at_quantile(quantile) as f64);
    let lines = [
        ("rate", rate.each_second),
        ("per cpu second", rate.each_cpu_second),
        ("mean", us(rate.latency.mean())),
        ("sd", us(rate.latency.stdev())),
        ("p50", at(0.5)),
        ("p99", at(0.99)),
        ("p99.9", at(0.999)),
    ];
    lines.iter().fold(String::new(), |mut text, (name, value)| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name} = {value:.1}");
        text
    })
}

/// Says how many connections valgrind has counted the instructions of: all that were begun meanwhile.
fn count(who: &str, concurrent: usize, answers: usize) -> Result<String> {
    let connections = match who {
        "mem" | "plain" => {
            let cable = if who == "mem" { Kind::Super } else { Kind::Plain };
            let mut pairs = Pairs::new(&wanted(concurrent, Behind::Close, cable, Family::Ip4))?;
            // Tables have grown, and connections find the memory of others, as after any second of use.
            pairs.answer(answers)?;
            let before = pairs.begun();
            count_these_answers(|| pairs.answer(answers))?;
            pairs.begun() - before
        }
        "smoltcp" => {
            let mut other = Other::new(concurrent, Behind::Close)?;
            answer(&mut other, Duration::ZERO, answers)?;
            count_these_answers(|| answer(&mut other, Duration::from_secs(1), answers))? as u64
        }
        _ => bail!(Misused),
    };
    Ok(connections.to_string())
}

/// The part that valgrind counts.
#[inline(never)]
fn count_these_answers(answer: impl FnOnce() -> Result<usize>) -> Result<usize> {
    answer()
}

fn answer(other: &mut Other, start: Duration, answers: usize) -> Result<usize> {
    let (mut now, mut answered) = (start, 0);
    while answered < answers {
        now += SPAN;
        other.turn(now)?;
        answered += other.answered();
    }
    Ok(answered)
}

/// Holds a number of established connections at a time.
fn idle(connections: usize) -> Result<String> {
    let mut pairs = Pairs::new(&wanted(connections, Behind::Rest, Kind::Super, Family::Ip4))?;
    let before = resident()?;
    pairs.answer(connections)?;
    // Nothing waits for an acknowledgment any more.
    pairs.turn(SETTLING, |server, now| _ = server.turn(now));
    let ends = 2 * connections as u64;
    let each = resident()?.saturating_sub(before) / ends.max(1);
    let server = pairs.cpus.first().and_then(|pair| pair.server.cpu.tcp.as_ref());
    let own = server.map_or(0, |pcbs| pcbs.memory() / pcbs.len().max(1));
    Ok(format!("ends = {ends}\nbytes of an end = {each}\nby its own account = {own}"))
}

/// Connections that come and go, 1000 at a time.
fn gone(connections: usize) -> Result<String> {
    let mut pairs = Pairs::new(&wanted(1000, Behind::Close, Kind::Super, Family::Ip4))?;
    let before = resident()?;
    let mut text = format!("KiB at first = {}", before / 1024);
    for _ in 0..TOLD {
        let answered = pairs.answer(connections / TOLD)?;
        let _ = write!(text, "\nKiB after {answered} more = {}", resident()? / 1024);
    }
    Ok(text)
}

/// Turns in which what was to be acknowledged is.
const SETTLING: usize = 10_000;
/// Times that memory is looked at.
const TOLD: usize = 10;

/// Bytes of this process that are in memory.
fn resident() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}
