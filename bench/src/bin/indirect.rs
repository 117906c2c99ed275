//! Times direct input beside a queue of 50 between driver and stack: `indirect ip4|ip6 MILLISECONDS`, answers one line of
//! JSON. Slices of both alternate; the ratio is the median of pairs.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that answers with a line")]

use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use bench::frames::Family;
use bench::router::Router;

/// Pairs of slices that the time is cut into.
const PAIRS: u32 = 31;
/// Packets of a turn, and turns between two looks at the clock.
const AT_ONCE: usize = 256;
const TURNS: usize = 16;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let parsed = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ip4", time] => time.parse().ok().map(|ms| (Family::Ip4, ms)),
        ["ip6", time] => time.parse().ok().map(|ms| (Family::Ip6, ms)),
        _ => None,
    };
    let Some((family, ms)) = parsed else {
        eprintln!("usage: indirect ip4|ip6 MILLISECONDS");
        return ExitCode::from(2);
    };
    match measure(family, Duration::from_millis(ms)) {
        Some(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        None => ExitCode::FAILURE,
    }
}

fn measure(family: Family, time: Duration) -> Option<String> {
    let (mut direct, mut indirect) = (Router::new(family).ok()?, Router::indirect(family).ok()?);
    let length = time / 2 / PAIRS;
    let mut pairs = Vec::new();
    for pair in 0..=PAIRS {
        let both = (slice(&mut direct, length), slice(&mut indirect, length));
        // The first pair warms up: caches, branches, pages.
        if pair > 0 {
            pairs.push(both);
        }
    }
    let middle = |of: fn(&(f64, f64)) -> f64| {
        let mut all: Vec<f64> = pairs.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    };
    let (direct, indirect, ratio) = (middle(|p| p.0)?, middle(|p| p.1)?, middle(|p| p.1 / p.0)?);
    Some(format!("{{\"direct_ns\":{direct:.2},\"indirect_ns\":{indirect:.2},\"ratio\":{ratio:.3}}}"))
}

/// Nanoseconds of a packet.
fn slice(router: &mut Router, length: Duration) -> f64 {
    let (began, mut packets) = (Instant::now(), 0.0);
    while began.elapsed() < length {
        router.forward(TURNS, AT_ONCE);
        packets += (TURNS * AT_ONCE) as f64;
    }
    began.elapsed().as_secs_f64() * 1e9 / packets
}
