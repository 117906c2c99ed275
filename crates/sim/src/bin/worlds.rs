//! Explores worlds: `worlds [N] [--from SEED | --seed SEED]`, `worlds --meddle SEGMENTS SEED`.
//!
//! Lives through the worlds of N seeds and lists those in which something broke, with their captures. Exit code 1 if
//! there is one. Or lives through one world of two hosts and a man in the middle, until so many segments were changed.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "it is a command")]

use core::panic::AssertUnwindSafe;
use std::io::{IsTerminal, Write};
use std::panic::catch_unwind;
use std::process::ExitCode;

use sim::fuzz_bodies::hosts_for_long;
use sim::random::Random;
use sim::world;

/// Worlds without a number given.
const WORLDS: u64 = 200;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    if let [option, segments, seed] = &args[..]
        && option == "--meddle"
        && let (Ok(segments), Ok(seed)) = (segments.parse(), seed.parse())
    {
        return meddle(segments, seed);
    }
    let Some((from, count)) = range(&args) else {
        println!("usage: worlds [N] [--from SEED | --seed SEED], worlds --meddle SEGMENTS SEED");
        return ExitCode::from(2);
    };
    let mut failed = Vec::new();
    for seed in from..from.saturating_add(count) {
        if !is_well(seed) {
            failed.push(seed);
        }
        progress(seed - from + 1, count, failed.len());
    }
    failed.iter().for_each(|seed| println!("broken: worlds --seed {seed}"));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Nothing is left afterwards, or this does not come to its end.
fn meddle(segments: u64, seed: u64) -> ExitCode {
    let mut random = Random::new(seed);
    let data: Vec<u8> = (0..64).map(|_| random.byte()).collect();
    let (connections, drops) = hosts_for_long(&data, segments);
    println!(
        "{segments} segments were changed, of {connections} connections; nothing is left of them\n{drops}"
    );
    ExitCode::SUCCESS
}

/// Replaces its line on a terminal; elsewhere, a line now and then.
fn progress(done: u64, of: u64, broken: usize) {
    const EVERY: u64 = 200;
    let is_last = done == of;
    if std::io::stdout().is_terminal() {
        print!("\r{done} of {of} worlds, {broken} broken{}", if is_last { "\n" } else { "" });
        // A progress line that cannot be shown is no reason to stop.
        _ = std::io::stdout().flush();
    } else if is_last || done.is_multiple_of(EVERY) {
        println!("{done} of {of} worlds, {broken} broken");
    }
}

/// First seed and number of worlds.
fn range(args: &[String]) -> Option<(u64, u64)> {
    match args {
        [] => Some((1, WORLDS)),
        [option, seed] if option == "--seed" => Some((seed.parse().ok()?, 1)),
        [count] => Some((1, count.parse().ok()?)),
        [count, option, seed] if option == "--from" => Some((seed.parse().ok()?, count.parse().ok()?)),
        _ => None,
    }
}

fn is_well(seed: u64) -> bool {
    let life = catch_unwind(AssertUnwindSafe(|| {
        let (world, broken) = world::explore("random", seed);
        if !broken.is_empty() {
            println!("\nseed {seed}:");
            broken.iter().for_each(|broken| println!("  {:?}: {}", broken.check, broken.text));
            println!("{}", world.drops());
            if let Ok(folder) = world.write_captures() {
                println!("  captures: {}", folder.display());
            }
        }
        world.forget();
        broken.is_empty()
    }));
    life.unwrap_or(false)
}
