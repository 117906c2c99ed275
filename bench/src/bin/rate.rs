//! Times forwarding in memory: `rate ip4|ip6 ROUTES DESTINATIONS PACKETS_A_TURN FLOWS MILLISECONDS`, answers one line of
//! JSON. With FLOWS above 0, fast forwarding with a cache for so many. `bridge4` and `bridge6` are a bridge, which has no routes.
//!
//! Slices of the router alternate with slices of the same source and sink with nothing between them, so that their
//! difference is the stack, whatever the machine does. The numbers are medians of slices. Pin it to a CPU.

use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bench::bare::Bare;
use bench::clock::Quartiles;
use bench::links;
use bench::program::{self, Misused};
use bench::router::Router;
use bench::workload::Workload;

/// Pairs of slices that the time is cut into.
const SLICES: u32 = 15;
/// Packets between two looks at the clock.
const BATCH: usize = 4096;

const USAGE: &str = "rate ip4|ip6|bridge4|bridge6 ROUTES DESTINATIONS PACKETS_A_TURN FLOWS MILLISECONDS";

fn main() -> ExitCode {
    program::run(USAGE, |args| {
        let (is_bridge, args) = match args.split_first() {
            Some((kind, numbers)) => match kind.strip_prefix("bridge") {
                Some(family) => (true, [&[family], numbers].concat()),
                None => (false, args.to_vec()),
            },
            None => return Err(Misused.into()),
        };
        let (workload, at_once, flows, time) = parse(&args).context(Misused)?;
        measure(is_bridge, workload, at_once, flows, time)
    })
}

fn parse(args: &[&str]) -> Option<(Workload, usize, u32, Duration)> {
    let [family, numbers @ ..] = args else { return None };
    let family = family.parse().ok()?;
    let numbers: Vec<u32> = numbers.iter().map_while(|number| number.parse().ok()).collect();
    let [routes, destinations, at_once, flows, ms] = numbers[..] else { return None };
    let at_once = usize::try_from(at_once).ok().filter(|at_once| (1..=BATCH).contains(at_once))?;
    let workload = Workload { family, routes, destinations };
    (routes > 0 && destinations > 0).then_some((workload, at_once, flows, Duration::from_millis(ms.into())))
}

fn measure(
    is_bridge: bool,
    workload: Workload,
    at_once: usize,
    flows: u32,
    time: Duration,
) -> Result<String> {
    let frames = workload.frames();
    let mut bare = Bare::new(frames.clone())?;
    let mut router = match is_bridge {
        true => links::router("bridge", workload.family).context(Misused)??,
        false => Router::with(workload.family, workload.prefixes(), frames)?,
    };
    if let Some(flows) = usize::try_from(flows).ok().filter(|flows| *flows > 0) {
        router.cache_flows(Some(flows));
    }
    let turns = BATCH / at_once;
    let (mut whole, mut wire) = (Vec::new(), Vec::new());
    // The first pair warms up: caches, branches, pages.
    for pair in 0..=SLICES {
        let forwarded = slice(time * 2 / 3 / SLICES, turns * at_once, || router.forward(turns, at_once));
        let passed = slice(time / 3 / SLICES, turns * at_once, || bare.pass(turns, at_once));
        if pair > 0 {
            whole.push(forwarded?);
            wire.push(passed?);
        }
    }
    let stack: Vec<f64> = whole.iter().zip(&wire).map(|(whole, wire)| whole - wire).collect();
    let [whole, wire, stack] = [whole, wire, stack].map(|slices| Quartiles::of(slices).median);
    Ok(format!("{{\"ns\":{whole:.3},\"wire_ns\":{wire:.3},\"stack_ns\":{stack:.3}}}"))
}

/// Nanoseconds that one packet takes, in a slice of so long; `batch` answers how many have passed since ever.
fn slice(time: Duration, packets: usize, mut batch: impl FnMut() -> usize) -> Result<f64> {
    let before = batch();
    let (started, mut batches) = (Instant::now(), 0);
    let mut after = before;
    while started.elapsed() < time || batches == 0 {
        after = batch();
        batches += 1;
    }
    let elapsed = started.elapsed();
    let (came, sent) = (after - before, batches * packets);
    ensure!(came == sent, "{came} packets of {sent} came through");
    Ok(elapsed.as_secs_f64() * 1e9 / (batches * packets) as f64)
}
