//! Times direct input beside a queue of 50 between driver and stack: `indirect ip4|ip6 MILLISECONDS`, answers one line of
//! JSON. Slices of both alternate; the ratio is the median of pairs.

use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use bench::clock::Quartiles;
use bench::frames::Family;
use bench::program::{self, Misused};
use bench::router::Router;

/// Pairs of slices that the time is cut into.
const PAIRS: u32 = 31;
/// Packets of a turn, and turns between two looks at the clock.
const AT_ONCE: usize = 256;
const TURNS: usize = 16;

fn main() -> ExitCode {
    program::run("indirect ip4|ip6 MILLISECONDS", |args| match args {
        [family, ms] => {
            let (family, time) = (program::read(family)?, Duration::from_millis(program::read(ms)?));
            measure(family, time).context("no memory")
        }
        _ => Err(Misused.into()),
    })
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
    let middle = |of: fn(&(f64, f64)) -> f64| Quartiles::of(pairs.iter().map(of).collect()).median;
    let (direct, indirect, ratio) = (middle(|p| p.0), middle(|p| p.1), middle(|p| p.1 / p.0));
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
