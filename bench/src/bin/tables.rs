//! Times the routing table as `bench/peers/tables.c` times DPDK's: `tables 4|6 RULES RANDOM REALISTIC MILLISECONDS`,
//! of the same files, with the same answer.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that answers with a line")]

use core::hint::black_box;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use net::fib::{Bounds, Change, Fib, Hop, HopId, Origin, Prefix, Rib, To};

/// Keys of one call.
const BULK: usize = 64;
/// Next hops that the routes have.
const HOPS: u8 = 255;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("tables: {why}\nusage: tables 4|6 RULES RANDOM REALISTIC MILLISECONDS");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<String, String> {
    let [family, rules, random, realistic, ms] = args else { return Err("five arguments".into()) };
    let is_v4 = family == "4";
    let time = Duration::from_millis(ms.parse().map_err(|_| "no time")?);
    let prefixes = prefixes(rules)?;
    let (random, realistic) = (keys(random, is_v4)?, keys(realistic, is_v4)?);
    let began = Instant::now();
    let rib = load(&prefixes)?;
    let load = began.elapsed().as_secs_f64();
    let usage = rib.usage();
    let (routes, bytes) = (prefixes.len(), if is_v4 { usage.bytes4 } else { usage.bytes6 });
    let (fib, time) = (rib.fib(), time / 2);
    let (random, realistic) = (random.rate(&fib, time), realistic.rate(&fib, time));
    Ok(format!(
        "{{\"routes\":{routes},\"load_seconds\":{load:.6},\"bytes\":{bytes},\"random\":{random:.0},\"realistic\":{realistic:.0}}}"
    ))
}

fn prefixes(path: &str) -> Result<Vec<Prefix>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let prefix = |line: &str| {
        let (addr, len) = line.strip_prefix('R')?.split(' ').next()?.split_once('/')?;
        Prefix::new(addr.parse().ok()?, len.parse().ok()?)
    };
    text.lines().map(|line| prefix(line).ok_or_else(|| format!("no rule: {line}"))).collect()
}

/// Destinations of one family.
enum Keys {
    V4(Vec<u32>),
    V6(Vec<u128>),
}

fn keys(path: &str, is_v4: bool) -> Result<Keys, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    let (four, sixteen) = (bytes.as_chunks::<4>().0, bytes.as_chunks::<16>().0);
    Ok(if is_v4 {
        Keys::V4(four.iter().map(|addr| u32::from_be_bytes(*addr)).collect())
    } else {
        Keys::V6(sixteen.iter().map(|addr| u128::from_be_bytes(*addr)).collect())
    })
}

fn load(prefixes: &[Prefix]) -> Result<Rib, String> {
    let via = |host| IpAddr::V4(Ipv4Addr::new(192, 0, 2, host));
    let hops: Vec<[Hop; 1]> =
        (0..HOPS).map(|host| [To::Gateway { ifindex: 1, via: via(host) }.into()]).collect();
    let changes: Vec<_> = prefixes
        .iter()
        .zip(hops.iter().cycle())
        .map(|(to, hop)| Change { to: *to, origin: Origin::Learned, hops: hop })
        .collect();
    let mut rib = Rib::new(Bounds::INTERNET).map_err(|error| error.to_string())?;
    let refused = rib.load(&changes);
    refused.first().map_or(Ok(rib), |first| Err(format!("{} refused: {:?}", refused.len(), first.error)))
}

impl Keys {
    /// Lookups per second.
    fn rate(&self, fib: &Fib, time: Duration) -> f64 {
        let mut hops = [HopId::NO_ROUTE; BULK];
        self.pass(fib, &mut hops);
        let (began, mut done) = (Instant::now(), 0);
        while began.elapsed() < time {
            done += self.pass(fib, &mut hops);
        }
        done as f64 / began.elapsed().as_secs_f64()
    }

    /// Looks all of them up once; answers how many.
    fn pass(&self, fib: &Fib, hops: &mut [HopId; BULK]) -> usize {
        match self {
            Self::V4(keys) => each(keys, hops, |keys, hops| fib.lookup4(keys, hops)),
            Self::V6(keys) => each(keys, hops, |keys, hops| fib.lookup6(keys, hops)),
        }
    }
}

fn each<K>(keys: &[K], hops: &mut [HopId; BULK], lookup: impl Fn(&[K], &mut [HopId])) -> usize {
    let chunks = keys.chunks_exact(BULK);
    let count = chunks.len() * BULK;
    chunks.for_each(|keys| lookup(keys, black_box(&mut hops[..])));
    count
}
