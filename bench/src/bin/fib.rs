//! Times the routing table with full tables of the Internet: `fib [MILLISECONDS]`, a line of JSON for each row.
//!
//! Rows of lookups are medians of slices that take turns, so that a busy machine slows all of them alike. Pin it to a
//! CPU.
//!
//! `fib count 4|6 LOOKUPS` looks up among few routes, to be watched by valgrind.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "each row is there as soon as it is known")]
#![expect(clippy::cast_possible_truncation, reason = "random numbers are cut to size")]

use core::net::IpAddr;
use core::time::Duration;
use std::process::ExitCode;

use anyhow::Context;
use bench::clock::cpu_time;
use bench::frames::Family;
use bench::internet::{self, Entry, ROUTES4, ROUTES6, Random, Traffic};
use bench::program::{self, Misused};
use net::fib::{Bounds, Change, Fib, Hop, HopId, Origin, Prefix, Rib, To};

/// Next hops of the table.
const PEERS: u16 = 64;
/// Destinations asked for, again and again.
const DESTINATIONS: usize = 1 << 20;
/// Slices of each row.
const SLICES: u32 = 9;
/// Keys of one call.
const VECTORS: [usize; 3] = [1, 64, 256];
/// Changes committed together.
const BATCH: usize = 256;

fn main() -> ExitCode {
    program::run("fib [MILLISECONDS] | fib count 4|6 LOOKUPS", |args| {
        let done = match args {
            ["count", family, lookups] => {
                let is_v4 = program::read::<Family>(family)? == Family::Ip4;
                count(is_v4, program::read(lookups)?)
            }
            [] => run(Duration::from_secs(9)),
            [ms] => run(Duration::from_millis(program::read(ms)?)),
            _ => return Err(Misused.into()),
        };
        done.map(|()| String::new()).context("no memory")
    })
}

fn run(time: Duration) -> Option<()> {
    let tables = [(Family::Ip4, ROUTES4), (Family::Ip6, ROUTES6)];
    let tables = tables.map(|(family, count)| internet::table(family, count, PEERS, 1));
    let mut rib = Rib::new(Bounds::INTERNET).ok()?;
    load(&mut rib, &tables);
    let mut rows = tables.iter().flat_map(|table| rows(table)).collect::<Vec<_>>();
    let slice = time / (SLICES * u32::try_from(rows.len()).ok()?);
    for _ in 0..SLICES {
        rows.iter_mut().for_each(|row| row.measure(&rib.fib(), slice));
    }
    rows.iter_mut().for_each(Row::print);
    tables.iter().for_each(|table| update(&mut rib, table));
    tables.iter().for_each(|table| default_route(&mut rib, table));
    Some(())
}

/// Loads both tables, and says how long it took and how much they need.
fn load(rib: &mut Rib, tables: &[Vec<Entry>; 2]) {
    let hops = hops();
    let changes = tables.each_ref().map(|table| changes(table, &hops));
    let start = cpu_time();
    let refused = changes.iter().map(|changes| rib.load(changes).len()).sum::<usize>();
    let took = cpu_time() - start;
    let usage = rib.usage();
    println!(
        r#"{{"row":"load","routes":{},"refused":{refused},"seconds":{:.3}}}"#,
        usage.routes4 + usage.routes6,
        took.as_secs_f64()
    );
    for (family, routes, bytes) in [(4, usage.routes4, usage.bytes4), (6, usage.routes6, usage.bytes6)] {
        let each = bytes as f64 / routes as f64;
        println!(
            r#"{{"row":"memory","family":{family},"routes":{routes},"bytes":{bytes},"bytes_per_route":{each:.1}}}"#
        );
    }
}

fn hops() -> Vec<[Hop; 1]> {
    let gateway = |n: u16| To::Gateway { ifindex: 1, via: IpAddr::from([10, 0, (n >> 8) as u8, n as u8]) };
    (0..PEERS).map(|n| [gateway(n).into()]).collect()
}

fn changes<'h>(table: &[Entry], hops: &'h [[Hop; 1]]) -> Vec<Change<'h>> {
    let change = |(to, hop): &Entry| Change {
        fib: 0,
        to: *to,
        origin: Origin::Learned,
        hops: &hops[usize::from(*hop)],
    };
    table.iter().map(change).collect()
}

/// Lookups of one kind.
struct Row {
    name: String,
    keys4: Vec<u32>,
    keys6: Vec<u128>,
    at_once: usize,
    /// Lookups per second in each slice.
    rates: Vec<f64>,
}

fn rows(table: &[Entry]) -> impl Iterator<Item = Row> + '_ {
    let traffics = [(Traffic::Routes, "random"), (Traffic::Zipf, "zipf")];
    traffics.into_iter().flat_map(move |(traffic, name)| {
        let addrs = internet::destinations(table, traffic, DESTINATIONS, 2);
        VECTORS.into_iter().map(move |at_once| Row::new(&addrs, at_once, name))
    })
}

impl Row {
    fn new(addrs: &[IpAddr], at_once: usize, traffic: &str) -> Self {
        let mut row = Self { name: String::new(), keys4: vec![], keys6: vec![], at_once, rates: vec![] };
        for addr in addrs {
            match addr {
                IpAddr::V4(addr) => row.keys4.push(addr.to_bits()),
                IpAddr::V6(addr) => row.keys6.push(addr.to_bits()),
            }
        }
        let family = if row.keys6.is_empty() { 4 } else { 6 };
        row.name = format!(r#""row":"lookup","family":{family},"traffic":"{traffic}","at_once":{at_once}"#);
        row
    }

    fn measure(&mut self, fib: &Fib, time: Duration) {
        let (start, mut lookups) = (cpu_time(), 0);
        let mut hops = [HopId::NO_ROUTE; 256];
        while cpu_time() - start < time {
            for keys in self.keys4.chunks(self.at_once) {
                fib.lookup4(keys, &mut hops[..keys.len()]);
            }
            for keys in self.keys6.chunks(self.at_once) {
                fib.lookup6(keys, &mut hops[..keys.len()]);
            }
            core::hint::black_box(&hops);
            lookups += self.keys4.len() + self.keys6.len();
        }
        self.rates.push(lookups as f64 / (cpu_time() - start).as_secs_f64());
    }

    fn print(&mut self) {
        self.rates.sort_by(f64::total_cmp);
        let median = self.rates[self.rates.len() / 2];
        println!(r#"{{{},"mlookups_per_s":{:.1},"ns":{:.2}}}"#, self.name, median / 1e6, 1e9 / median);
    }
}

/// Changes random routes to other hops, and takes random ones away and puts them back.
fn update(rib: &mut Rib, table: &[Entry]) {
    let (hops, mut random) = (hops(), Random::new(3));
    let mut pick = |count: usize| -> Vec<Entry> {
        let routes = table.len() as u64;
        let one = |_| (table[random.below(routes) as usize].0, random.below(u64::from(PEERS)) as u16);
        (0..count).map(one).collect()
    };
    let family = if table[0].0.addr().is_ipv4() { 4 } else { 6 };
    let entries = pick(100_000);
    let start = cpu_time();
    changes(&entries, &hops).chunks(BATCH).for_each(|batch| step(rib, batch));
    say("change", family, entries.len(), cpu_time() - start);
    let mut entries = pick(50_000);
    entries.sort_by_key(|(prefix, _)| *prefix);
    entries.dedup_by_key(|(prefix, _)| *prefix);
    let back = changes(&entries, &hops);
    let away: Vec<_> = back.iter().map(|change| Change { hops: &[], ..*change }).collect();
    let start = cpu_time();
    for (away, back) in away.chunks(BATCH).zip(back.chunks(BATCH)) {
        step(rib, away);
        step(rib, back);
    }
    say("delete and add", family, 2 * entries.len(), cpu_time() - start);
}

/// A default route comes and goes: all that nothing more specific leads to changes.
fn default_route(rib: &mut Rib, table: &[Entry]) {
    let (hops, is_v4) = (hops(), table[0].0.addr().is_ipv4());
    let zero = if is_v4 { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
    let Some(to) = Prefix::new(zero, 0) else { return };
    let start = cpu_time();
    step(rib, &[Change { fib: 0, to, origin: Origin::Static, hops: &hops[0] }]);
    step(rib, &[Change { fib: 0, to, origin: Origin::Static, hops: &[] }]);
    let ms = (cpu_time() - start).as_secs_f64() * 500.0;
    println!(r#"{{"row":"default route","family":{},"ms":{ms:.1}}}"#, if is_v4 { 4 } else { 6 });
}

fn step(rib: &mut Rib, changes: &[Change<'_>]) {
    for refused in rib.load(changes) {
        eprintln!("{}: {}", refused.to, refused.error);
    }
}

fn say(what: &str, family: u8, updates: usize, took: Duration) {
    let rate = updates as f64 / took.as_secs_f64();
    println!(r#"{{"row":"update","family":{family},"kind":"{what}","updates_per_s":{rate:.0}}}"#);
}

/// Looks up in vectors of 64 among a few dozen routes.
fn count(is_v4: bool, lookups: usize) -> Option<()> {
    let mut rib = Rib::new(Bounds::SMALL).ok()?;
    let hop = [To::Reject.into()];
    let (first, len) = if is_v4 { ("16.0.0.0", 24) } else { ("2a00::", 48) };
    let first: IpAddr = first.parse().ok()?;
    let addr = |n: usize| -> IpAddr {
        match first {
            IpAddr::V4(addr) => core::net::Ipv4Addr::from_bits(addr.to_bits() | (n as u32) << 8).into(),
            IpAddr::V6(addr) => core::net::Ipv6Addr::from_bits(addr.to_bits() | (n as u128) << 80).into(),
        }
    };
    let prefixes: Vec<_> = (0..64).filter_map(|n| Prefix::new(addr(n), len)).collect();
    let change = |to: &Prefix| Change { fib: 0, to: *to, origin: Origin::Static, hops: &hop };
    rib.load(&prefixes.iter().map(change).collect::<Vec<_>>());
    let addrs: Vec<_> = prefixes.iter().map(|prefix| prefix.addr()).collect();
    let row = Row::new(&addrs, 64, "few");
    let (fib, mut hops) = (rib.fib(), [HopId::NO_ROUTE; 64]);
    for _ in 0..lookups / 64 {
        fib.lookup4(&row.keys4, &mut hops[..row.keys4.len()]);
        fib.lookup6(&row.keys6, &mut hops[..row.keys6.len()]);
        core::hint::black_box(&hops);
    }
    Some(())
}
