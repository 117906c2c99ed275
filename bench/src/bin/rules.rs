//! Asks the firewall's rules about packets: `rules 4|6 RULES PACKETS`; or a table of hosts: `rules table4|table6 ENTRIES
//! PACKETS`, of which every other packet finds one.
//!
//! All rules but the last are about hosts and ports that no packet has, so each packet hits the last. It says how long
//! the ruleset took to compile, its bytes, and the nanoseconds of a packet; run it with two numbers of packets under
//! `valgrind --tool=callgrind` and divide the difference for the instructions. With 0 rules, packets are only read.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that answers with a line")]

use core::hint::black_box;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::ExitCode;
use std::time::Instant;

use ipfw::command::{TableEntry, TableKey};
use ipfw::rule::{Action, Hook, TableArg};
use net::firewall::ruleset::{Rules, Ruleset, Seen};
use net::firewall::subject::Subject;
use net::firewall::table::Lookups;
use net::tables::Tables;
use pkt::{Arena, Pkt, Pool};

/// Packets that are asked about in turn.
const PACKETS: u32 = 256;
const TCP: u8 = 6;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("rules: {why}\nusage: rules 4|6 RULES PACKETS");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<String, String> {
    let [family, rules, packets] = args else { return Err("three arguments".into()) };
    let (rules, packets): (u32, u64) =
        (rules.parse().map_err(|_| "no number of rules")?, packets.parse().map_err(|_| "no packets")?);
    let is_ip4 = family.ends_with('4');
    if family.starts_with("table") {
        return table(rules, packets, is_ip4);
    }
    let tables = Tables::default();
    let mut list = list(rules, is_ip4)?;
    let lookups = Lookups::new(1).map_err(|error| error.to_string())?;
    let began = Instant::now();
    let ruleset = list.compile(&tables, &lookups);
    let compiled = began.elapsed();
    let mut pools = Arena::carve(1, 1024, false).map_err(|error| error.to_string())?;
    let pool = pools.first_mut().ok_or("no memory")?;
    let pkts: Vec<Pkt> = (0..PACKETS).map_while(|n| load(pool, n, is_ip4)).collect();
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
fn table(entries: u32, packets: u64, is_ip4: bool) -> Result<String, String> {
    let tables = Tables::default();
    let mut lookups = Lookups::new(1).map_err(|error| error.to_string())?;
    let entry = |n: u32| {
        let addr: IpAddr = host(n, is_ip4, 1).parse().ok()?;
        let len = if is_ip4 { 32 } else { 128 };
        Some(TableEntry { key: TableKey::Addr { addr, len }, value: TableArg::Number(n % 1000) })
    };
    let all: Vec<_> = (0..entries).map_while(entry).collect();
    let began = Instant::now();
    lookups.add("hosts", &all, &tables).map_err(|error| error.to_string())?;
    let added = began.elapsed();
    let bytes = lookups.info("hosts").map_err(|error| error.to_string())?.bytes;
    let mut rules = Rules::new(Action::Deny);
    let command =
        ipfw::parse_line("add allow ip from table(hosts) to any").map_err(|error| error.to_string())?;
    let ipfw::Command::Add(rule) = command else { return Err("no rule".into()) };
    rules.add(rule).map_err(|error| error.to_string())?;
    let ruleset = rules.compile(&tables, &lookups);
    let mut pools = Arena::carve(1, 1024, false).map_err(|error| error.to_string())?;
    let pkt = pools.first_mut().and_then(|pool| load(pool, 0, is_ip4)).ok_or("no memory")?;
    let mut subject = Subject::read(&pkt, Hook::Ingress, 1, 0).map_err(|_| "bogus")?;
    let addrs: Vec<u128> = (0..1 << 16)
        .filter_map(|n: u32| {
            match host(n.wrapping_mul(0x5bd1) % entries.max(1), is_ip4, n & 1).parse().ok()? {
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
    let subject = Subject::read(pkt, Hook::Ingress, 1, 0).ok()?;
    if rules == 0 {
        black_box(&subject);
        return None;
    }
    let mut seen = Seen::default();
    u32::try_from(ruleset.first(&subject, pkt, tables, 0, &mut seen)?).ok()
}

/// Rules that no packet matches, and the last that all do.
fn list(count: u32, is_ip4: bool) -> Result<Rules, String> {
    let mut rules = Rules::new(Action::Deny);
    let others = (1..count).map(|n| {
        let port = 2000 + n % 50;
        // Odd ones are hosts, and all packets come from even ones.
        let src = host(n, is_ip4, 1);
        match n % 4 {
            0 => format!("add deny tcp from {src} to any {port}"),
            1 => format!("add deny tcp from {src} to any"),
            2 => format!("add allow udp from any to {src} {port}"),
            _ => format!("add deny tcp from any to {src} {port}"),
        }
    });
    let last = (count > 0).then(|| "add allow tcp from any to any".to_owned());
    for line in others.chain(last) {
        let command = ipfw::parse_line(&line).map_err(|error| error.to_string())?;
        let ipfw::Command::Add(rule) = command else { return Err(line) };
        rules.add(rule).map_err(|error| error.to_string())?;
    }
    Ok(rules)
}

/// A host in 10.0.0.0/8 or 2001:db8::/32, whose last bit is given.
fn host(n: u32, is_ip4: bool, last: u32) -> String {
    let scattered = n.wrapping_mul(0x9e37_79b1) >> 9;
    if is_ip4 {
        return Ipv4Addr::from_bits((10 << 24) | (scattered << 1) | last).to_string();
    }
    let upper = (0x2001_0db8_u128 << 96) | (u128::from(scattered) << 73);
    Ipv6Addr::from_bits(upper | u128::from(last)).to_string()
}

fn load(pool: &mut Pool, n: u32, is_ip4: bool) -> Option<Pkt> {
    let mut pkt = pool.take()?;
    let (src, dst) = (host(3 * n + 1_000_000, is_ip4, 0), host(7 * n + 2_000_000, is_ip4, 0));
    let mut packet = if is_ip4 {
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
