//! Forwards frames in memory, to be watched by valgrind: `forward KIND PACKETS_A_TURN PACKETS`.
//!
//! `ip4` and `ip6` are a router of one CPU, `all4` and `all6` the same with all that can be configured, none of it for these
//! packets; `indirect` is IPv4 with a queue of 50 between driver and stack. `match2` is
//! a router of two CPUs (or as many as it says) whose rings match them, `hash2` one whose devices also say what packets
//! hash to, `cross2` one where all that a CPU receives is another's. `wire` moves the frames from the source to the sink
//! without a stack between them: what the harness itself costs.
#![expect(clippy::print_stderr, reason = "a program that says how it is used")]

use std::process::ExitCode;

use bench::cpus::{self, Rings};
use bench::elsewhere;
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
        "all4" => route_beside_all(Family::Ip4, turns, at_once),
        "all6" => route_beside_all(Family::Ip6, turns, at_once),
        "indirect" => Router::indirect(Family::Ip4).ok().map(|mut router| router.forward(turns, at_once)),
        "wire" => bench::wire::pass(turns, at_once).ok(),
        several => match several_cpus(several) {
            Some((cpus, rings)) => route_among(cpus, rings, turns, at_once),
            None => return usage(),
        },
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

fn route_beside_all(family: Family, turns: usize, at_once: usize) -> Option<usize> {
    let mut router = elsewhere::router(family).ok()?;
    let before = router.forward(0, 0);
    Some(router.forward(turns, at_once) - before)
}

fn several_cpus(kind: &str) -> Option<(u16, Rings)> {
    let kinds = [("match", Rings::Match), ("hash", Rings::MatchHashed), ("cross", Rings::Cross)];
    let found = kinds.iter().find_map(|(name, rings)| kind.strip_prefix(name).map(|cpus| (cpus, *rings)));
    let (cpus, rings) = found?;
    cpus.parse().ok().filter(|cpus| *cpus > 0).map(|cpus| (cpus, rings))
}

/// CPUs take turns, in one thread.
fn route_among(cpus: u16, rings: Rings, turns: usize, at_once: usize) -> Option<usize> {
    let mut all = cpus::router(Family::Ip4, cpus, rings).ok()?;
    let mut sent = |turns, at_once| all.iter_mut().map(|cpu| cpu.forward(turns, at_once)).sum::<usize>();
    let before = sent(0, 0);
    for _ in 0..turns / usize::from(cpus) {
        sent(1, at_once);
    }
    (0..SETTLING).map(|_| sent(1, 0)).last().map(|after| after - before)
}

/// Turns after which nothing is on its way to another CPU any more.
const SETTLING: usize = 2;

fn usage() -> ExitCode {
    eprintln!(
        "usage: forward ip4|ip6|all4|all6|indirect|wire|matchCPUS|hashCPUS|crossCPUS PACKETS_A_TURN PACKETS"
    );
    ExitCode::from(2)
}
