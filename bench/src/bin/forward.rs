//! Forwards frames in memory, to be watched by valgrind: `forward ip4|ip6|wire PACKETS_A_TURN PACKETS`.
//!
//! `wire` moves the frames from the source to the sink without a stack between them: what the harness itself costs.
#![expect(clippy::print_stderr, reason = "a program that says how it is used")]

use std::process::ExitCode;

use bench::frames::Family;
use bench::router::Router;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [what, at_once, packets] = args.as_slice() else { return usage() };
    let (Ok(at_once), Ok(packets)) = (at_once.parse::<usize>(), packets.parse::<usize>()) else {
        return usage();
    };
    let turns = packets / at_once.max(1);
    let forwarded = match what.as_str() {
        "ip4" => route(Family::Ip4, turns, at_once),
        "ip6" => route(Family::Ip6, turns, at_once),
        "wire" => bench::wire::pass(turns, at_once).ok(),
        _ => return usage(),
    };
    if forwarded == Some(turns * at_once) {
        return ExitCode::SUCCESS;
    }
    eprintln!("{forwarded:?} frames of {} were forwarded", turns * at_once);
    ExitCode::FAILURE
}

fn route(family: Family, turns: usize, at_once: usize) -> Option<usize> {
    Router::new(family).ok().map(|mut router| router.forward(turns, at_once))
}

fn usage() -> ExitCode {
    eprintln!("usage: forward ip4|ip6|wire PACKETS_A_TURN PACKETS");
    ExitCode::from(2)
}
