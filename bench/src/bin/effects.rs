//! Mechanisms with and without, in one run: `effects [--rounds N] [--slice MS] [MECHANISM…]`, answers a table.
//!
//! Slices of both alternate; a ratio is the median of those of each round, with its quartiles. `free` and `input` forward in memory
//! on one CPU, `latency` serves short connections there, `reports`, `listeners` and `options` serve them with threads that use the
//! sockets of the library ([`bench::threads`]), `ports` opens connections until there is no port left.

use core::fmt::Write as _;
use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use bench::cable::Kind;
use bench::clock::Quartiles;
use bench::frames::Family;
use bench::program::{self, Misused};
use bench::router::Router;
use bench::short::{Behind, PORT, Pace, Pairs, Rate, Serves, Wanted, memory};
use net::pcb::PortRange;
use net::sock::Error;
use net::tcp::settings::Settings;
use net::tcp::{self, Connect, IpTxParams};

/// Rounds, and the length of a slice.
const ROUNDS: usize = 21;
const SLICE: Duration = Duration::from_millis(200);
/// Packets of a turn, and turns between two looks at the clock.
const AT_ONCE: usize = 256;
const TURNS: usize = 16;
/// Connections at a time where a server answers.
const CONCURRENT: usize = 64;
/// Maximum segment lifetime, and length of a turn where time is the hosts' own.
const MSL: Duration = Duration::from_millis(20);
const SPAN: Duration = Duration::from_micros(50);

const USAGE: &str = "effects [--rounds N] [--slice MS] [free|input|latency|reports|listeners|options|ports]…";

/// Name of a mechanism, and the function that measures it.
type Mechanism = (&'static str, fn(Scope) -> Result<String>);

const ALL: &[Mechanism] = &[
    ("free", free),
    ("input", input),
    ("latency", latency),
    ("reports", reports),
    ("listeners", listeners),
    ("options", options),
    ("ports", ports),
];

/// Extent of the run.
#[derive(Clone, Copy)]
struct Scope {
    rounds: usize,
    slice: Duration,
}

fn main() -> ExitCode {
    program::run(USAGE, |args| {
        let (mut scope, mut wanted) = (Scope { rounds: ROUNDS, slice: SLICE }, Vec::new());
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut number = || args.next().ok_or(Misused);
            match *arg {
                "--rounds" => scope.rounds = program::read(number()?)?,
                "--slice" => scope.slice = Duration::from_millis(program::read(number()?)?),
                name => wanted.extend(ALL.iter().filter(|(known, _)| *known == name).take(1)),
            }
        }
        let all = if wanted.is_empty() { ALL.iter().collect() } else { wanted };
        let mut text = "| mechanism | with | without | with/without |\n|---|---|---|---|\n".to_owned();
        for (_, measure) in all {
            text += &measure(scope)?;
        }
        Ok(text)
    })
}

/// One row: what both ways came to, and their ratio in each round. `digits` behind the point.
fn row(what: &str, digits: usize, pairs: &[(f64, f64)]) -> String {
    let of = |number: fn(&(f64, f64)) -> f64| Quartiles::of(pairs.iter().map(number).collect());
    let (with, without, ratio) =
        (of(|pair| pair.0).median, of(|pair| pair.1).median, of(|pair| pair.0 / pair.1));
    let Quartiles { low, median, high } = ratio;
    format!("| {what} | {with:.digits$} | {without:.digits$} | {median:.3} [{low:.3} to {high:.3}] |\n")
}

/// Both ways in turn, and in each round the other one first; a round before warms up.
fn alternate(
    rounds: usize,
    mut with: impl FnMut() -> Result<f64>,
    mut without: impl FnMut() -> Result<f64>,
) -> Result<Vec<(f64, f64)>> {
    let mut pairs = Vec::new();
    for round in 0..=rounds {
        let pair = if round % 2 == 0 {
            let with = with()?;
            (with, without()?)
        } else {
            let without = without()?;
            (with()?, without)
        };
        if round > 0 {
            pairs.push(pair);
        }
    }
    Ok(pairs)
}

/// Nanoseconds of a packet.
fn forwarding(router: &mut Router, length: Duration) -> f64 {
    let (began, mut packets) = (Instant::now(), 0.0);
    while began.elapsed() < length {
        router.forward(TURNS, AT_ONCE);
        packets += (TURNS * AT_ONCE) as f64;
    }
    began.elapsed().as_secs_f64() * 1e9 / packets
}

fn routers(
    what: &str,
    scope: Scope,
    without: impl Fn(Family) -> Result<Router, pkt::ArenaError>,
) -> Result<String> {
    let mut text = String::new();
    for family in [Family::Ip4, Family::Ip6] {
        let memory = |error| anyhow!("no memory: {error}");
        let mut with = Router::new(family).map_err(memory)?;
        let mut other = without(family).map_err(memory)?;
        let pairs = alternate(
            scope.rounds,
            || Ok(forwarding(&mut with, scope.slice)),
            || Ok(forwarding(&mut other, scope.slice)),
        )?;
        let family = if family == Family::Ip4 { "IPv4" } else { "IPv6" };
        text += &row(&format!("{what}: {family} forwarding, ns a packet"), 1, &pairs);
    }
    Ok(text)
}

fn free(scope: Scope) -> Result<String> {
    routers("buffers freed in bulk, not one by one", scope, Router::freeing_each)
}

fn input(scope: Scope) -> Result<String> {
    routers("direct input, not a queue of 50 between driver and stack", scope, Router::indirect)
}

/// Name of a figure, and the function that reads it from a rate.
type Figure = (&'static str, fn(&Rate) -> f64);

/// Both ways of a server: answers a second, and what each says of the latency of one.
fn servers(
    what: &str,
    scope: Scope,
    mut with: impl FnMut(Duration) -> Result<Rate>,
    mut without: impl FnMut(Duration) -> Result<Rate>,
) -> Result<String> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let rates = |rate: Rate, all: &mut Vec<Rate>| {
        let each = rate.each_second / 1e3;
        all.push(rate);
        each
    };
    let pairs = alternate(
        scope.rounds,
        || Ok(rates(with(scope.slice)?, &mut ours)),
        || Ok(rates(without(scope.slice)?, &mut theirs)),
    );
    let mut text = row(&format!("{what}: thousand connections a second"), 1, &pairs?);
    let tell: [Figure; 3] = [
        ("latency p50, µs", |rate| rate.latency.value_at_quantile(0.5) as f64 / 1e3),
        ("latency p99, µs", |rate| rate.latency.value_at_quantile(0.99) as f64 / 1e3),
        ("standard deviation, µs", |rate| rate.latency.stdev() / 1e3),
    ];
    for (name, number) in tell {
        let pairs: Vec<_> = ours.iter().map(number).zip(theirs.iter().map(number)).skip(1).collect();
        text += &row(&format!("… {name}"), 0, &pairs);
    }
    Ok(text)
}

fn latency(scope: Scope) -> Result<String> {
    let serve =
        |cable| move |slice| memory::together(&wanted(Pace::Concurrent(CONCURRENT), cable), last(), slice);
    servers("direct input, not a queue: short connections", scope, serve(Kind::Super), serve(Kind::Indirect))
}

fn wanted(pace: Pace, cable: Kind) -> Wanted {
    let (family, behind, serves) = (Family::Ip4, Behind::Close, Serves::Least);
    Wanted { family, cpus: 1, cable, pace, behind, serves, port: PORT, msl: MSL, span: SPAN }
}

/// The last processor.
fn last() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from) - 1
}

#[cfg(feature = "web")]
mod threaded {
    use bench::threads::{self, Listening, Setting, Wanted};

    use super::*;

    /// Connections at a time where a queue is to become long.
    const MANY: usize = 512;

    const USUAL: Wanted = Wanted {
        threads: 1,
        listening: Listening::Together,
        setting: Setting::Asynchronous,
        ahead: 32,
        concurrent: CONCURRENT,
    };

    fn both(what: &str, scope: Scope, with: Wanted, without: Wanted) -> Result<String> {
        let serve = |wanted| move |slice| threads::measure(&wanted, slice);
        servers(what, scope, serve(with), serve(without))
    }

    pub(super) fn reports(scope: Scope) -> Result<String> {
        let capped = Wanted { concurrent: MANY, ..USUAL };
        let what = "32 connections handed over ahead, not all, 512 at a time";
        both(what, scope, capped, Wanted { ahead: 1024, ..capped })
    }

    pub(super) fn listeners(scope: Scope) -> Result<String> {
        let each = Wanted { threads: 4, listening: Listening::Each, ..USUAL };
        let what = "a listener for each of 4 threads (`SO_REUSEPORT`), not one for all";
        both(what, scope, each, Wanted { listening: Listening::Together, ..each })
    }

    pub(super) fn options(scope: Scope) -> Result<String> {
        let what = "`TCP_NODELAY` set without waiting for the netisr";
        both(what, scope, USUAL, Wanted { setting: Setting::Synchronous, ..USUAL })
    }
}

#[cfg(feature = "web")]
use threaded::{listeners, options, reports};

#[cfg(not(feature = "web"))]
fn reports(_: Scope) -> Result<String> {
    bail!("built without the library: --features web")
}

#[cfg(not(feature = "web"))]
use self::reports as listeners;
#[cfg(not(feature = "web"))]
use self::reports as options;

/// Connections between one address and one server's port that stand at the same time, and between four and it.
fn ports(_: Scope) -> Result<String> {
    let default = PortRange::default();
    let wide = PortRange { first: 1024, last: 65_535 };
    let mut text = String::new();
    for (range, addrs) in [(default, 1), (wide, 1), (wide, 4)] {
        let most = (usize::from(range.last - range.first) + 1) * usize::from(addrs);
        let stand = connections(range, addrs)?;
        let PortRange { first, last } = range;
        let _ = writeln!(
            text,
            "| ports {first} to {last}, {addrs} client address(es): connections to one port at a time | {stand} | {} | {:.3} |",
            most,
            stand as f64 / most as f64
        );
    }
    Ok(text)
}

/// Opens connections until there is no port, and answers how many stand.
fn connections(range: PortRange, addrs: u8) -> Result<usize> {
    let wanted = Wanted { behind: Behind::Rest, ..wanted(Pace::Concurrent(0), Kind::Super) };
    let mut pairs = Pairs::new(&wanted)?;
    let pair = pairs.cpus.first_mut().ok_or_else(|| anyhow!("no CPU"))?;
    pair.client.cpu.sysctls.ports = range;
    let remote = (wanted.family.addr(0, 1), PORT).into();
    for host in 2..2 + addrs {
        let local = Some(wanted.family.addr(0, host));
        let (settings, tx_params) = (Settings::default(), IpTxParams::default());
        let connect = Connect { remote, local, port: None, zone: 0, settings, tx_params };
        loop {
            match tcp::connect(&mut pair.client.cpu, &connect) {
                Ok(_) => {}
                Err(Error::AddrNotAvailable) => break,
                Err(error) => bail!("a connection: {error}"),
            }
            // Fewer than wait to be accepted.
            for _ in 0..4 {
                pair.turn(|server, now| _ = server.turn(now));
            }
        }
    }
    Ok(pair.server.cpu.tcp.as_ref().map_or(0, |pcbs| pcbs.len()))
}
