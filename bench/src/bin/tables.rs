//! Times the routing table as `bench/peers/tables.c` times DPDK's: `tables 4|6 RULES RANDOM REALISTIC MILLISECONDS`,
//! of the same files, with the same answer.

use core::hint::black_box;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use bench::frames::Family;
use bench::program::{self, Misused};
use net::fib::{Bounds, Change, Fib, Hop, HopId, Origin, Prefix, Rib, To};

/// Keys of one call.
const BULK: usize = 64;
/// Next hops that the routes have.
const HOPS: u8 = 255;

fn main() -> ExitCode {
    program::run("tables 4|6 RULES RANDOM REALISTIC MILLISECONDS", run)
}

fn run(args: &[&str]) -> Result<String> {
    let [family, rules, random, realistic, ms] = args else { return Err(Misused.into()) };
    let is_v4 = program::read::<Family>(family)? == Family::Ip4;
    let time = Duration::from_millis(program::read(ms)?);
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

fn prefixes(path: &str) -> Result<Vec<Prefix>> {
    let text = std::fs::read_to_string(path).with_context(|| path.to_owned())?;
    let prefix = |line: &str| {
        let (addr, len) = line.strip_prefix('R')?.split(' ').next()?.split_once('/')?;
        Prefix::new(addr.parse().ok()?, len.parse().ok()?)
    };
    text.lines().map(|line| prefix(line).with_context(|| format!("no rule: {line}"))).collect()
}

/// Destinations of one family.
enum Keys {
    V4(Vec<u32>),
    V6(Vec<u128>),
}

fn keys(path: &str, is_v4: bool) -> Result<Keys> {
    let bytes = std::fs::read(path).with_context(|| path.to_owned())?;
    let (four, sixteen) = (bytes.as_chunks::<4>().0, bytes.as_chunks::<16>().0);
    Ok(if is_v4 {
        Keys::V4(four.iter().map(|addr| u32::from_be_bytes(*addr)).collect())
    } else {
        Keys::V6(sixteen.iter().map(|addr| u128::from_be_bytes(*addr)).collect())
    })
}

fn load(prefixes: &[Prefix]) -> Result<Rib> {
    let via = |host| IpAddr::V4(Ipv4Addr::new(192, 0, 2, host));
    let hops: Vec<[Hop; 1]> =
        (0..HOPS).map(|host| [To::Gateway { ifindex: 1, via: via(host) }.into()]).collect();
    let changes: Vec<_> = prefixes
        .iter()
        .zip(hops.iter().cycle())
        .map(|(to, hop)| Change { fib: 0, to: *to, origin: Origin::Learned, hops: hop })
        .collect();
    let mut rib = Rib::new(Bounds::INTERNET)?;
    let refused = rib.load(&changes);
    if let Some(first) = refused.first() {
        bail!("{} refused: {:?}", refused.len(), first.error);
    }
    Ok(rib)
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
