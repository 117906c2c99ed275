//! Asks the firewall's rules about packets: `rules 4|6 RULES PACKETS`; or a table of hosts: `rules table4|table6 ENTRIES
//! PACKETS`, of which every other packet finds one.
//!
//! All rules but the last are about hosts and ports that no packet has, so each packet hits the last. It says how long
//! the ruleset took to compile, its bytes, and the nanoseconds of a packet; run it with two numbers of packets under
//! `valgrind --tool=callgrind` and divide the difference for the instructions. With 0 rules, packets are only read.

use core::hint::black_box;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use bench::firewall::rules::{hit_last, host};
use bench::frames::Family;
use bench::program::{self, Misused};
use ipfw::command::{TableEntry, TableKey};
use ipfw::rule::{Action, Hook, TableArg};
use net::firewall::pkt_info::PktInfo;
use net::firewall::ruleset::{Rules, Ruleset, Seen};
use net::firewall::table::Lookups;
use net::tables::Tables;
use pkt::{Arena, Pkt, Pool};

/// Packets that are asked about in turn.
const PACKETS: u32 = 256;
const TCP: u8 = 6;

fn main() -> ExitCode {
    program::run("rules 4|6 RULES PACKETS | rules table4|table6 ENTRIES PACKETS", |args| {
        let [what, count, packets] = args else { return Err(Misused.into()) };
        let (count, packets) = (program::read(count)?, program::read(packets)?);
        match what.strip_prefix("table") {
            Some(family) => table(count, packets, program::read(family)?),
            None => ask_all(count, packets, program::read(what)?),
        }
    })
}

fn ask_all(rules: u32, packets: u64, family: Family) -> Result<String> {
    let tables = Tables::default();
    let mut list = list(rules, family)?;
    let lookups = Lookups::new(1)?;
    let began = Instant::now();
    let ruleset = list.compile(&tables, &lookups);
    let compiled = began.elapsed();
    let mut pools = Arena::carve(1, 1024, false)?;
    let pool = pools.first_mut().context("no memory")?;
    let pkts: Vec<Pkt> = (0..PACKETS).map_while(|n| load(pool, n, family)).collect();
    let began = Instant::now();
    let mut hits = 0;
    for pkt in pkts.iter().cycle().take(usize::try_from(packets).unwrap_or(usize::MAX)) {
        hits += u64::from(ask(&ruleset, black_box(pkt), &tables, rules) == rules.checked_sub(1));
    }
    let ns = began.elapsed().as_nanos() / u128::from(packets.max(1));
    pkts.into_iter().for_each(|pkt| pool.give(pkt));
    let bytes = ruleset.index_bytes();
    Ok(format!("rules {rules} compile_us {} bytes {bytes} hits {hits} ns {ns}", compiled.as_micros()))
}

/// Fills a table, and looks hosts up.
fn table(entries: u32, packets: u64, family: Family) -> Result<String> {
    let tables = Tables::default();
    let mut lookups = Lookups::new(1)?;
    let entry = |n: u32| {
        let addr: IpAddr = host(n, family, 1).parse().ok()?;
        let len = if family == Family::Ip4 { 32 } else { 128 };
        Some(TableEntry { key: TableKey::Addr { addr, len }, value: TableArg::Number(n % 1000) })
    };
    let all: Vec<_> = (0..entries).map_while(entry).collect();
    let began = Instant::now();
    lookups.add("hosts", &all, &tables)?;
    let added = began.elapsed();
    let bytes = lookups.info("hosts")?.bytes;
    let mut rules = Rules::new(Action::Deny);
    let command = ipfw::parse_line("add allow ip from table(hosts) to any")?;
    let ipfw::Command::Add(rule) = command else { bail!("no rule") };
    rules.add(rule)?;
    let ruleset = rules.compile(&tables, &lookups);
    let mut pools = Arena::carve(1, 1024, false)?;
    let pkt = pools.first_mut().and_then(|pool| load(pool, 0, family)).context("no memory")?;
    let mut subject = PktInfo::read(&pkt, Hook::Ingress, 1, 0).ok().context("bogus")?;
    let addrs: Vec<u128> = (0..1 << 16)
        .filter_map(|n: u32| {
            match host(n.wrapping_mul(0x5bd1) % entries.max(1), family, n & 1).parse().ok()? {
                IpAddr::V4(addr) => Some(addr.to_bits().into()),
                IpAddr::V6(addr) => Some(addr.to_bits()),
            }
        })
        .collect();
    let (began, mut hits) = (Instant::now(), 0);
    for addr in addrs.iter().cycle().take(usize::try_from(packets).unwrap_or(usize::MAX)) {
        subject.src = black_box(*addr);
        hits += u64::from(ruleset.first(&subject, &pkt, &tables, 0, &mut Seen::default()) == Some(0));
    }
    let ns = began.elapsed().as_nanos() / u128::from(packets.max(1));
    if let Some(pool) = pools.first_mut() {
        pool.give(pkt);
    }
    Ok(format!("entries {entries} add_us {} bytes {bytes} hits {hits} ns {ns}", added.as_micros()))
}

#[inline(never)]
fn ask(ruleset: &Ruleset, pkt: &Pkt, tables: &Tables, rules: u32) -> Option<u32> {
    let subject = PktInfo::read(pkt, Hook::Ingress, 1, 0).ok()?;
    if rules == 0 {
        black_box(&subject);
        return None;
    }
    let mut seen = Seen::default();
    u32::try_from(ruleset.first(&subject, pkt, tables, 0, &mut seen)?).ok()
}

/// Rules that no packet matches, and the last that all do.
fn list(count: u32, family: Family) -> Result<Rules> {
    let mut rules = Rules::new(Action::Deny);
    for line in hit_last(count, family, "tcp", "").lines() {
        let ipfw::Command::Add(rule) = ipfw::parse_line(line)? else { bail!("{line}") };
        rules.add(rule)?;
    }
    Ok(rules)
}

fn load(pool: &mut Pool, n: u32, family: Family) -> Option<Pkt> {
    let mut pkt = pool.take()?;
    let (src, dst) = (host(3 * n + 1_000_000, family, 0), host(7 * n + 2_000_000, family, 0));
    let mut packet = if family == Family::Ip4 {
        let mut header = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, TCP, 0, 0];
        header.extend(src.parse::<Ipv4Addr>().ok()?.octets());
        header.extend(dst.parse::<Ipv4Addr>().ok()?.octets());
        header
    } else {
        let mut header = vec![0x60, 0, 0, 0, 0, 20, TCP, 64];
        header.extend(src.parse::<Ipv6Addr>().ok()?.octets());
        header.extend(dst.parse::<Ipv6Addr>().ok()?.octets());
        header
    };
    let ports = [40_000 + u16::try_from(n).ok()?, 2000 + u16::try_from(n % 50).ok()?];
    packet.extend(ports.into_iter().flat_map(u16::to_be_bytes));
    packet.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    pkt.append(packet.len()).ok()?.copy_from_slice(&packet);
    Some(pkt)
}
