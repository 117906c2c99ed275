//! Overload of one CPU by a device in memory: goodput, and the latency of replies.
//!
//! The device's ring is filled at a rate, by the CPU time of the thread; what finds no room is dropped at its tail, at no
//! cost for the stack, as a network card does it. On the other interface, which is not flooded, a host pings the router.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Arc;

use anyhow::{Context, Result};
use net::cpu::CpuId;
use net::driver::{Caps, Driver, DriverStats};
use net::fib::Prefix;
use net::msg::{Remote, mesh};
use net::neigh;
use net::netisr::{Netisr, Parts};
use net::time::Instant;
use pkt::wake::Sleeper;
use pkt::{Arena, HEADROOM, PktVec, Pool};
use rustix::time::{ClockId, clock_gettime};

use crate::frames::{DESTINATIONS, Family, GATEWAY};
use crate::ping::{self, PING_LEN};
use crate::router::{BUFFERS, GATEWAYS, IN, OUT, OUT_NET, tables};
use crate::wire::{Source, Supply};

/// Offered loads, in multiples of the capacity.
pub const LOADS: [f64; 4] = [1.0, 2.0, 4.0, 10.0];
/// Descriptors of the flooded ring.
const RING: usize = 1024;
/// Between two pings.
const PING_EVERY: Duration = Duration::from_millis(10);
/// The time of a load is cut into so many slices, which take turns, so that a slow moment of the machine meets all loads.
const SLICES: u32 = 20;
/// Load at the end, in multiples of the capacity, and its duration: nothing of it may be lost.
const AFTERWARDS: (f64, Duration) = (0.25, Duration::from_secs(1));
/// Turns after which nothing is under way any more, once the ring is empty.
const REST: usize = 4;
/// After this the router's own addresses are in use.
const SETTLED: Duration = Duration::from_secs(60);

/// A router with one CPU under load.
pub struct Overload {
    netisr: Netisr,
    /// Stack time at the thread's start.
    start: Instant,
    ring: Supply,
    station: Arc<Station>,
    next_ping: Duration,
}

/// The result of one interval of load.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    /// Frames that were offered, and that came through.
    pub frames: (f64, usize),
    /// Times that the device was told to send.
    pub doorbells: usize,
    /// For how long.
    pub took: Duration,
    /// Echo requests that were made, and that were answered.
    pub pings: (usize, usize),
    /// Latency of replies, to the end of the turn.
    pub answers: Vec<Duration>,
}

/// A load, and its slices.
#[derive(Clone, Debug)]
pub struct Step {
    /// In multiples of the capacity; infinite where there was always more.
    pub load: f64,
    /// In the order of time.
    pub slices: Vec<Slice>,
}

impl Overload {
    /// A router, and the way to reach it from another thread.
    ///
    /// # Errors
    /// When there is no memory for the buffers.
    pub fn new(family: Family) -> Result<(Self, Remote)> {
        let (ring, station) = (Supply::default(), Arc::<Station>::default());
        let (mut netisr, remote) = netisr(family)?;
        netisr.attach(IN, Box::new(Source::new(family.frames(), Arc::clone(&ring))));
        netisr.attach(OUT, Box::new(Far { frame: ping::request(family)?, station: Arc::clone(&station) }));
        let start = settle(&mut netisr);
        for host in GATEWAYS {
            let key = neigh::Key { ifindex: OUT, addr: family.addr(OUT_NET, host) };
            neigh::set_static(&mut netisr.cpu, key, GATEWAY);
        }
        let next_ping = Duration::ZERO;
        Ok((Self { netisr, start, ring, station, next_ping }, remote))
    }

    /// Offers all loads, each for so long; first, and each time again, as much as is taken.
    pub fn run(&mut self, each: Duration) -> Vec<Step> {
        let loads = core::iter::once(f64::INFINITY).chain(LOADS);
        let mut steps: Vec<Step> = loads.map(|load| Step { load, slices: Vec::new() }).collect();
        self.offer(f64::INFINITY, each / SLICES); // caches, branches, pages
        for _ in 0..SLICES {
            let mut capacity = f64::INFINITY;
            for step in &mut steps {
                let slice = self.offer(capacity * step.load, each / SLICES);
                if step.load.is_infinite() {
                    capacity = slice.rate();
                }
                step.slices.push(slice);
            }
        }
        steps
    }

    /// Offers little, after which nothing may be under way any more; answers what part of it came through, and how many
    /// buffers are missing.
    pub fn afterwards(&mut self, capacity: f64) -> (f64, usize) {
        let slice = self.offer(capacity * AFTERWARDS.0, AFTERWARDS.1);
        let pool = &self.netisr.cpu.pool;
        (slice.frames.1 as f64 / slice.frames.0, pool.total() - pool.free())
    }

    /// Offers so many frames a second, and then waits until the ring is empty.
    fn offer(&mut self, rate: f64, time: Duration) -> Slice {
        let began = clock();
        let station = self.station.counts();
        let mut slice = Slice::default();
        let mut now = began;
        let mut offered = 0.0;
        while now < began + time {
            let due =
                if rate.is_finite() { rate * (now - began).as_secs_f64() } else { offered + RING as f64 };
            let fits = RING - self.ring.load(Ordering::Relaxed);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "never negative, and bounded"
            )]
            let new = (due.floor() - f64::floor(offered)).min(fits as f64) as usize;
            self.ring.fetch_add(new, Ordering::Relaxed);
            offered = due;
            self.ping(now);
            now = self.turn(now, &mut slice);
        }
        slice.took = now - began;
        while self.ring.load(Ordering::Relaxed) > 0 {
            now = self.turn(now, &mut slice);
        }
        (0..REST).for_each(|_| now = self.turn(now, &mut slice));
        let after = self.station.counts();
        slice.frames = (offered.floor(), after.forwarded - station.forwarded);
        slice.doorbells = after.doorbells - station.doorbells;
        slice.pings = (after.asked - station.asked, after.answered - station.answered);
        slice
    }

    fn ping(&mut self, now: Duration) {
        if now >= self.next_ping {
            self.station.asked.fetch_add(1, Ordering::Relaxed);
            self.next_ping = now + PING_EVERY;
        }
    }

    /// One turn as the netisr's thread makes it; answers what time it is then.
    fn turn(&mut self, now: Duration, slice: &mut Slice) -> Duration {
        let before = self.station.counts();
        let turn = self.netisr.turn(self.start + now);
        let after = clock();
        if turn.worked > 0 {
            self.netisr.feedback(after - now);
        }
        if self.station.counts().answered > before.answered {
            // It was asked when the next one was put off.
            slice.answers.push((after + PING_EVERY).saturating_sub(self.next_ping));
        }
        after
    }
}

impl Slice {
    /// Frames a second that came through.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.frames.1 as f64 / self.took.as_secs_f64()
    }
}

impl Step {
    /// The median of a number of its slices.
    #[must_use]
    pub fn median(&self, of: impl Fn(&Slice) -> f64) -> f64 {
        let mut all: Vec<f64> = self.slices.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

fn netisr(family: Family) -> Result<(Netisr, Remote)> {
    let to = |net| Prefix::new(family.addr(net, 0), family.prefix_len());
    let tables = Arc::new(tables(family, (1..=DESTINATIONS).filter_map(to)));
    let wakers = [Sleeper::new(Box::new(|| ())).waker()];
    let pool = Arena::carve(1, BUFFERS, true)?.pop().context("an arena without a pool")?;
    let (peers, inbox, remote) = mesh(&wakers).pop().context("a mesh of nobody")?;
    let parts = Parts { id: CpuId(0), cpus: 1, pool, peers, inbox, key: 1, tables };
    Ok((Netisr::new(parts).0, remote))
}

/// For how long the calling thread has had a CPU. What other programs take from it is no time in which anything is offered:
/// a thread that does not run for a millisecond would lose what came in it, whatever the load.
fn clock() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Lets pass what happens once at the start; answers what time it is then.
fn settle(netisr: &mut Netisr) -> Instant {
    let (mut now, end) = (Instant::START, Instant::START + SETTLED);
    while now < end {
        let turn = netisr.turn(now);
        now = turn.deadline.max(now + Duration::from_millis(1)).min(end);
    }
    end
}

/// Counters of the host on the other interface.
#[derive(Debug, Default)]
struct Station {
    asked: AtomicUsize,
    delivered: AtomicUsize,
    answered: AtomicUsize,
    forwarded: AtomicUsize,
    /// Taken since the last doorbell.
    waiting: AtomicUsize,
    doorbells: AtomicUsize,
}

struct Counts {
    asked: usize,
    answered: usize,
    forwarded: usize,
    doorbells: usize,
}

impl Station {
    fn counts(&self) -> Counts {
        let get = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        Counts {
            asked: get(&self.asked),
            answered: get(&self.answered),
            forwarded: get(&self.forwarded),
            doorbells: get(&self.doorbells),
        }
    }
}

/// The interface that is not flooded: a host that asks, and the end of all that is forwarded.
struct Far {
    frame: [u8; PING_LEN],
    station: Arc<Station>,
}

impl Driver for Far {
    fn rx(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> usize {
        let Station { asked, delivered, .. } = &*self.station;
        let due = asked.load(Ordering::Relaxed) - delivered.load(Ordering::Relaxed);
        let new = pool.take_many(into, due.min(max));
        for pkt in &mut *new {
            pkt.buffer_mut()[HEADROOM..][..PING_LEN].copy_from_slice(&self.frame);
            let placed = pkt.place(HEADROOM, PING_LEN);
            debug_assert!(placed.is_ok(), "a small frame fits into any buffer");
        }
        delivered.fetch_add(new.len(), Ordering::Relaxed);
        new.len()
    }

    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        let answers = from.iter().filter(|pkt| pkt.len() == PING_LEN).count();
        self.station.answered.fetch_add(answers, Ordering::Relaxed);
        self.station.forwarded.fetch_add(from.len() - answers, Ordering::Relaxed);
        self.station.waiting.fetch_add(from.len(), Ordering::Relaxed);
        pool.give_all(from);
    }

    /// A doorbell where nothing waits is none: a driver does not tell its device.
    fn doorbell(&mut self, _pool: &mut Pool) {
        if self.station.waiting.swap(0, Ordering::Relaxed) > 0 {
            self.station.doorbells.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn caps(&self) -> Caps {
        Caps { buffers_max: 1, ..Caps::default() }
    }

    fn stats(&self) -> DriverStats {
        DriverStats::default()
    }

    fn close(&mut self, _pool: &mut Pool) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pings_are_answered_and_frames_come_through_whatever_is_offered() {
        for family in [Family::Ip4, Family::Ip6] {
            let (mut router, _remote) = Overload::new(family).unwrap();
            let steps = router.run(Duration::from_millis(5) * SLICES);
            assert_eq!(steps.len(), 1 + LOADS.len());
            for Step { load, slices } in steps {
                let lost = slices.iter().map(|slice| slice.pings.0 - slice.pings.1).sum::<usize>();
                let asked = slices.iter().map(|slice| slice.pings.0).sum::<usize>();
                assert!(asked > 0 && lost == 0, "{family:?} at {load}: {lost} of {asked} pings lost");
                assert!(slices.iter().all(|slice| slice.frames.1 > 0), "{family:?} at {load}");
            }
            assert_eq!(router.afterwards(1e4), (1.0, 0), "{family:?}");
        }
    }

    #[test]
    fn a_packet_alone_is_rung_for_in_its_turn_and_many_share_a_doorbell() {
        for family in [Family::Ip4, Family::Ip6] {
            let (mut router, _remote) = Overload::new(family).unwrap();
            let mut sent = |packets: usize| {
                let before = router.station.counts();
                router.ring.store(packets, Ordering::Relaxed);
                router.turn(Duration::ZERO, &mut Slice::default());
                let after = router.station.counts();
                (after.forwarded - before.forwarded, after.doorbells - before.doorbells)
            };
            for _ in 0..10 {
                assert_eq!(sent(1), (1, 1), "{family:?}");
            }
            let (packets, doorbells) = sent(256);
            assert!(packets >= 64 && doorbells * 16 <= packets, "{family:?}: {doorbells} for {packets}");
            assert_eq!(sent(0), (0, 0), "{family:?}");
        }
    }
}
