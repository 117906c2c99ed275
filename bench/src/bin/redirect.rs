//! Redirects packets: `redirect none|rules|same|other 4|6 TURNS`, two CPUs that take turns, each with 64 packets of 32
//! flows in each turn. `rules` lets them pass rules that redirect others, `same` redirects them to another port where their
//! flows stay on their CPUs, `other` to one where they go to the other CPU.
//!
//! Run it with two numbers of turns under `valgrind --tool=callgrind`, and divide the difference by that of the packets for
//! the instructions of one.

use core::fmt::Write as _;
use core::net::IpAddr;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use bench::cpus::{One, Rings, drain, router};
use bench::firewall::rules;
use bench::frames::Family;
use bench::program::{self, Misused};
use net::count::Count;
use net::rss::{Placement, hash_flow};
use net::tables::Tables;

const USAGE: &str = "redirect none|rules|same|other 4|6 TURNS";
const CPUS: u16 = 2;
/// Packets of a CPU's turn.
const AT_ONCE: usize = 64;
/// Hosts that packets are for, and more: those of the first network.
const HOSTS: core::ops::Range<u8> = 2..255;
/// The port that all packets are from and for.
const PORT: u16 = 9;

fn main() -> ExitCode {
    program::run(USAGE, |args| match args {
        [what, family, turns] => count(what, program::read(family)?, program::read(turns)?),
        _ => Err(Misused.into()),
    })
}

fn count(what: &str, family: Family, turns: usize) -> Result<String> {
    let mut all = router(family, CPUS, Rings::Match)?;
    let text = match what {
        "none" => None,
        "rules" => Some(text(family, PORT + 1, PORT + 1)),
        "same" | "other" => Some(text(family, PORT, port(family, what == "same")?)),
        _ => return Err(Misused.into()),
    };
    if let Some(text) = text {
        let shared = rules::shared(&text, &Tables::default(), CPUS)?;
        all.iter_mut().for_each(|one| one.set_firewall(&shared));
    }
    let before: usize = sent(&mut all);
    for _ in 0..turns {
        all.iter_mut().for_each(|one| _ = one.forward(1, AT_ONCE));
    }
    drain(&mut all);
    let packets = sent(&mut all) - before;
    let sum = |event| all.iter().map(|one| one.count(event)).sum::<u64>();
    ensure!(packets == turns * AT_ONCE * usize::from(CPUS), "{packets} packets came through");
    let (redirected, split) = (sum(Count::Redirected), sum(Count::RedirectSplit));
    Ok(format!("packets {packets} redirected {redirected} to another CPU {split}"))
}

fn sent(all: &mut [One]) -> usize {
    all.iter_mut().map(|one| one.forward(0, 0)).sum()
}

/// A rule for each host: packets for a port of it are redirected to another of its ports.
fn text(family: Family, from: u16, to: u16) -> String {
    let mut text = String::new();
    for host in HOSTS {
        let addr = family.addr(1, host);
        _ = writeln!(text, "add 100 rdr {addr},{to} udp from any to {addr} {from} in");
    }
    text + "add 200 allow ip from any to any\n"
}

/// A port whose flows are on the same CPU as those of the packets' port, or on the other.
fn port(family: Family, is_same: bool) -> Result<u16> {
    let (client, server): (IpAddr, IpAddr) = (family.addr(0, 2), family.addr(1, 2));
    let owner = |port| Placement::new(CPUS).owner(hash_flow((client, PORT), (server, port)));
    let mut ports = (PORT + 1..1000).filter(|port| (owner(*port) == owner(PORT)) == is_same);
    // The hash is linear: what holds for one flow holds for all.
    ports.next().context("no port")
}
