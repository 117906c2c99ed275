//! Changes routes while a CPU forwards: `churn UPDATES_PER_SECOND MILLISECONDS`, answers one line of JSON.
//!
//! A million routes, 65536 of them asked for at random. Half the updates move a route to another next hop; the others
//! announce a longer prefix within a route, and withdraw one announced before. All destinations always have a route, so
//! nothing may be lost. What was taken out of the table is used again when the forwarding CPU has begun two more turns.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use bench::frames::Family;
use bench::program::{self, Misused};
use bench::router::{GATEWAYS, Router, config, gateway};
use bench::wire::{Sink, Source, Supply};
use bench::workload::{Random, Workload};
use net::fib::{Bounds, Change, Hop, Origin, Prefix, Rib};
use net::tables::{Tables, derived};
use rustix::thread::{CpuSet, sched_setaffinity};

const WORKLOAD: Workload = Workload { family: Family::Ip4, routes: 1 << 20, destinations: 1 << 16 };
/// Between two batches of updates.
const BEAT: Duration = Duration::from_millis(1);
/// Longer prefixes that are announced at the same time.
const ANNOUNCED_MAX: usize = 50_000;
/// Odd, so that multiples of it meet each of 2^n routes.
const SCATTER: usize = 0x9e37_79b1;
/// Packets that come in one turn.
const AT_ONCE: usize = 256;

fn main() -> ExitCode {
    program::run("churn UPDATES_PER_SECOND MILLISECONDS", |args| match args {
        [rate, ms] => run(program::read(rate)?, Duration::from_millis(program::read(ms)?)),
        _ => Err(Misused.into()),
    })
}

fn run(rate: u64, time: Duration) -> Result<String> {
    let hops = GATEWAYS.map(|host| [Hop::from(gateway(Family::Ip4, host))]);
    let prefixes: Vec<Prefix> = WORKLOAD.prefixes().collect();
    let mut rib = Rib::new(Bounds::INTERNET)?;
    load(&mut rib, &prefixes, &hops)?;
    let tables = Tables::with(config(Family::Ip4), rib.fib(), rib.hops());
    let forwarder = Forwarder::start(tables)?;
    pin(0);
    let began = Instant::now();
    let updates = Updates::new(prefixes, hops).keep_up(&mut rib, rate, time, &forwarder)?;
    let seconds = began.elapsed().as_secs_f64();
    let (packets, lost) = forwarder.stop()?;
    let (updates, packets) = (updates as f64 / seconds, packets as f64 / seconds);
    Ok(format!("{{\"packets_per_second\":{packets:.0},\"updates_per_second\":{updates:.0},\"lost\":{lost}}}"))
}

/// Interfaces' routes, and the million: half through each gateway.
fn load(rib: &mut Rib, prefixes: &[Prefix], hops: &[[Hop; 1]; 2]) -> Result<()> {
    let own = derived(&config(Family::Ip4).ifs, None);
    let own = own.iter().map(|own| Change { fib: own.fib, to: own.to, origin: own.origin, hops: &own.hop });
    let many = prefixes.iter().zip(hops.iter().cycle());
    let many = many.map(|(to, hop)| Change { fib: 0, to: *to, origin: Origin::Learned, hops: hop });
    let refused = rib.load(&own.chain(many).collect::<Vec<_>>());
    ensure!(refused.is_empty(), "{} routes were refused", refused.len());
    Ok(())
}

fn pin(cpu: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    // Where it cannot be pinned the answer is the same, only slower.
    let _ = sched_setaffinity(None, &cpus);
}

/// The CPU that forwards.
struct Forwarder {
    state: Arc<State>,
    thread: thread::JoinHandle<(usize, usize)>,
}

/// The state that both threads share.
#[derive(Default)]
struct State {
    stop: AtomicBool,
    /// Turns begun.
    turns: AtomicU64,
}

impl Forwarder {
    fn start(tables: Tables) -> Result<Self> {
        let (supply, sent) = (Supply::default(), Arc::<AtomicUsize>::default());
        let source = Box::new(Source::new(WORKLOAD.frames(), Arc::clone(&supply)));
        let sink = Box::new(Sink::new(Arc::clone(&sent)));
        let router = Router::on(Family::Ip4, tables, source, sink)?;
        let state = Arc::<State>::default();
        let seen = Arc::clone(&state);
        let last = thread::available_parallelism().map_or(1, usize::from) - 1;
        let thread = thread::spawn(move || {
            pin(last);
            forward(router, &seen, &supply, &sent)
        });
        Ok(Self { state, thread })
    }

    /// Waits until no lookup is under way that began before now.
    fn quiesce(&self) {
        let until = self.state.turns.load(Ordering::Acquire) + 2;
        while self.state.turns.load(Ordering::Acquire) < until && !self.thread.is_finished() {
            thread::yield_now();
        }
    }

    /// Packets that were forwarded, and that were not.
    fn stop(self) -> Result<(usize, usize)> {
        self.state.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the forwarding thread died"))
    }
}

/// Turns until told to stop; answers how many packets have left, and how many more had come.
fn forward(mut router: Router, state: &State, supply: &Supply, sent: &AtomicUsize) -> (usize, usize) {
    let (before, mut turns) = (sent.load(Ordering::Relaxed), 0);
    while !state.stop.load(Ordering::Relaxed) {
        supply.store(AT_ONCE, Ordering::Relaxed);
        state.turns.fetch_add(1, Ordering::AcqRel);
        router.turn();
        turns += 1;
    }
    let forwarded = sent.load(Ordering::Relaxed) - before;
    (forwarded, turns * AT_ONCE - forwarded)
}

/// Random updates that leave no destination without a route.
struct Updates {
    routes: Vec<Prefix>,
    hops: [[Hop; 1]; 2],
    announced: VecDeque<Prefix>,
    /// Longer prefixes so far.
    longer: usize,
    random: Random,
}

impl Updates {
    fn new(routes: Vec<Prefix>, hops: [[Hop; 1]; 2]) -> Self {
        Self { routes, hops, announced: VecDeque::new(), longer: 0, random: Random::new(7) }
    }

    /// Makes `rate` updates a second for so long; answers how many were made.
    fn keep_up(mut self, rib: &mut Rib, rate: u64, time: Duration, forwarder: &Forwarder) -> Result<usize> {
        let (began, mut made) = (Instant::now(), 0);
        while began.elapsed() < time {
            let due = usize::try_from(u128::from(rate) * began.elapsed().as_micros() / 1_000_000);
            let due = due.unwrap_or(usize::MAX).saturating_sub(made);
            self.batch(rib, due.min(4096), forwarder)?;
            made += due.min(4096);
            thread::sleep(BEAT);
        }
        Ok(made)
    }

    /// One batch through its three phases.
    fn batch(&mut self, rib: &mut Rib, count: usize, forwarder: &Forwarder) -> Result<()> {
        let hops = self.hops;
        let updates: Vec<_> = (0..count).map(|_| self.one()).collect();
        let change = |(to, hop): &(Prefix, Option<usize>)| Change {
            fib: 0,
            to: *to,
            origin: Origin::Learned,
            hops: hop.map_or(&[], |hop| &hops[hop]),
        };
        let prepared = rib.prepare(&updates.iter().map(change).collect::<Vec<_>>());
        let committed = rib.commit();
        let refused = prepared.refused.len() + committed.refused.len();
        ensure!(refused == 0 && prepared.hops.is_none(), "{refused} updates were refused, or a hop is new");
        forwarder.quiesce();
        rib.retire(committed.epoch);
        Ok(())
    }

    /// A prefix and its new hop, or that it is withdrawn.
    fn one(&mut self) -> (Prefix, Option<usize>) {
        let route = self.routes[self.random.below(u32::try_from(self.routes.len()).unwrap_or(1)) as usize];
        let hop = Some(self.random.below(2) as usize);
        match self.random.below(4) {
            0 if self.announced.len() < ANNOUNCED_MAX => match self.longer() {
                Some(longer) => (longer, hop),
                None => (route, hop),
            },
            1 => self.announced.pop_front().map_or((route, hop), |longer| (longer, None)),
            _ => (route, hop),
        }
    }

    /// The next longer prefix to be announced: the routes have their turn in a scattered order.
    fn longer(&mut self) -> Option<Prefix> {
        self.longer += 1;
        let route = self.routes[self.longer * SCATTER % self.routes.len()];
        let longer = Prefix::new(route.addr(), 26)?;
        self.announced.push_back(longer);
        Some(longer)
    }
}
