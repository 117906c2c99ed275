//! Forwards frames in memory, to be watched by valgrind: `forward KIND PACKETS_A_TURN PACKETS`.
//!
//! `ip4` and `ip6` are a router of one CPU, `all4` and `all6` the same with all that can be configured, none of it for these
//! packets; `indirect` is IPv4 with a queue of 50 between driver and stack. `match2` is
//! a router of two CPUs (or as many as it says) whose rings match them, `hash2` one whose devices also say what packets
//! hash to, `cross2` one where all that a CPU receives is another's. `wire` moves the frames from the source to the sink
//! without a stack between them: what the harness itself costs. `ip4-nat` and `ip6-1k-states` are a router with a firewall,
//! as a row of [`bench::firewall::case`] describes it. `vxlan4` is a router whose routes lead into a VXLAN, `bridge6` a bridge of frames
//! with IPv6 packets ([`bench::links`]). In `udp4` and `udp6` a program has a socket of UDP, and sends datagrams back:
//! one there and back is a packet.
//!
//! `tcp-short2` and `tcp-echo2` are two hosts of two CPUs each: so many connections at a time on each CPU, which end behind an
//! answer, or go on. How many answers came is printed.

use core::time::Duration;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use bench::cable::Kind;
use bench::cpus::{self, Rings};
use bench::firewall::case::CASES;
use bench::frames::Family;
use bench::program::{self, Misused};
use bench::router::Router;
use bench::short::{Behind, PORT, Pace, Pairs, Serves, Wanted};
use bench::{links, unused_features};

const USAGE: &str = "forward ip4|ip6|all4|all6|udp4|udp6|vlan4|gif4|gifin4|gifin1000x4|vxlan4|bridge4|indirect|wire|matchCPUS|hashCPUS|crossCPUS|ip4-ROW|ip6-ROW PACKETS_A_TURN PACKETS | \
                     forward tcp-shortCPUS|tcp-echoCPUS CONCURRENT ANSWERS";

fn main() -> ExitCode {
    program::run(USAGE, |args| {
        let [what, at_once, packets] = args else { return Err(Misused.into()) };
        let (at_once, packets): (usize, usize) = (program::read(at_once)?, program::read(packets)?);
        if let Some((behind, cpus)) = talk(what) {
            return converse(behind, cpus, at_once, packets);
        }
        run(what, packets / at_once.max(1), at_once)
    })
}

fn run(what: &str, turns: usize, at_once: usize) -> Result<String> {
    let forwarded = match what {
        "ip4" => route(Family::Ip4, turns, at_once),
        "ip6" => route(Family::Ip6, turns, at_once),
        "all4" => route_beside_all(Family::Ip4, turns, at_once),
        "all6" => route_beside_all(Family::Ip6, turns, at_once),
        "udp4" => echo(Family::Ip4, turns, at_once),
        "udp6" => echo(Family::Ip6, turns, at_once),
        "indirect" => Router::indirect(Family::Ip4).ok().map(|mut router| router.forward(turns, at_once)),
        "wire" => bench::wire::pass(turns, at_once).ok(),
        other => match several_cpus(other) {
            Some((cpus, rings)) => route_among(cpus, rings, turns, at_once),
            None => match route_over(other, turns, at_once) {
                None => route_guarded(other, turns, at_once)?,
                over => over,
            },
        },
    };
    ensure!(forwarded == Some(turns * at_once), "{forwarded:?} frames of {} were forwarded", turns * at_once);
    Ok(String::new())
}

fn route(family: Family, turns: usize, at_once: usize) -> Option<usize> {
    Router::new(family).ok().map(|mut router| router.forward(turns, at_once))
}

/// Datagrams to a program, and its answers.
fn echo(family: Family, turns: usize, at_once: usize) -> Option<usize> {
    bench::echo::host(family).ok().map(|mut host| host.forward(turns, at_once))
}

fn route_beside_all(family: Family, turns: usize, at_once: usize) -> Option<usize> {
    let mut router = unused_features::router(family).ok()?;
    let before = router.forward(0, 0);
    Some(router.forward(turns, at_once) - before)
}

/// Through an interface that stands on others, or a bridge.
fn route_over(what: &str, turns: usize, at_once: usize) -> Option<usize> {
    let (kind, family) = what.split_at_checked(what.len().checked_sub(1)?)?;
    let mut router = links::router(kind, family.parse().ok()?)?.ok()?;
    let before = router.forward(0, 0);
    Some(router.forward(turns, at_once) - before)
}

/// Behind a firewall.
fn route_guarded(name: &str, turns: usize, at_once: usize) -> Result<Option<usize>> {
    let (family, row) = name.split_once('-').context(Misused)?;
    let family = if family == "ip4" { Family::Ip4 } else { Family::Ip6 };
    let case = CASES.iter().find(|case| case.name == row).context(Misused)?;
    let mut router = case.router(family)?;
    let before = router.forward(0, 0);
    Ok(Some(router.forward(turns, at_once) - before))
}

fn talk(kind: &str) -> Option<(Behind, u16)> {
    let kinds = [("tcp-short", Behind::Close), ("tcp-echo", Behind::Ask)];
    kinds.iter().find_map(|(name, behind)| Some((*behind, kind.strip_prefix(name)?.parse().ok()?)))
}

/// Two hosts that have talked for a while already.
fn converse(behind: Behind, cpus: u16, concurrent: usize, answers: usize) -> Result<String> {
    let pace = Pace::Concurrent(concurrent);
    let (family, cable, msl, span) = (Family::Ip4, Kind::Plain, MSL, SPAN);
    let serves = Serves::Least;
    let mut pairs = Pairs::new(&Wanted { family, cpus, cable, pace, behind, serves, port: PORT, msl, span })?;
    pairs.answer(concurrent)?;
    Ok(pairs.answer(answers / usize::from(cpus))?.to_string())
}

/// Maximum segment lifetime, and the length of a turn, in the hosts' time.
const MSL: Duration = Duration::from_millis(20);
const SPAN: Duration = Duration::from_micros(50);

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
