//! A CPU's account of itself: what a metrics scrape shows besides counters.
//!
//! Its netisr writes it down at the end of a turn, about every tenth of a second while there is work, and once more
//! afterwards. So a scrape reads memory: it sends no message, and is answered whole even if a netisr does not turn.

use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use net::driver::{DriverStats, Link};
use net::firewall::Firewall;
use net::firewall::nat::instance::Totals;
use net::firewall::nat::table::ByProtocol;
use net::firewall::pipe::Total;
use net::firewall::ruleset::RuleCountersReader;
use net::ifq;
use net::netisr::{self, Netisr};
use net::tables::IfIndex;
use net::time::Instant;

/// Time between two reports of a CPU that works.
const INTERVAL: Duration = Duration::from_millis(100);
/// The interval is at least this many times what the last report took: a CPU with very many flows spends 0.1 % on it.
const SHARE: u32 = 1000;

/// The last report of a netisr.
pub(crate) type Published = Arc<Mutex<Report>>;

/// A CPU's account of itself.
#[derive(Clone, Default)]
pub(crate) struct Report {
    /// The smallest burst of its rings; 0 without rings.
    pub(crate) burst: u16,
    pub(crate) buffers: Buffers,
    pub(crate) rings: Vec<Ring>,
    /// Output queues through which this CPU sends.
    pub(crate) queues: Vec<(IfIndex, ifq::State)>,
    /// The firewall, if the CPU has one.
    pub(crate) firewall: Option<FirewallReport>,
}

/// The buffers of one CPU.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Buffers {
    pub(crate) total: usize,
    pub(crate) free: usize,
    pub(crate) in_rings: usize,
    pub(crate) denied: u64,
}

/// A ring of a device.
#[derive(Clone)]
pub(crate) struct Ring {
    pub(crate) ifindex: IfIndex,
    pub(crate) queue: u16,
    pub(crate) link: Link,
    pub(crate) stats: DriverStats,
}

/// A CPU's part of the firewall.
#[derive(Clone)]
pub(crate) struct FirewallReport {
    pub(crate) states: usize,
    pub(crate) tracks: usize,
    pub(crate) counters: RuleCountersReader,
    /// Instances of NAT, by number.
    pub(crate) nat: Vec<(u16, ByProtocol, Totals)>,
    /// Instances of NAT64, by name.
    pub(crate) nat64: Vec<(String, ByProtocol, Totals)>,
    /// Pipes and queues.
    pub(crate) shapes: Vec<Total>,
}

impl Report {
    /// The account of a netisr, now.
    pub(crate) fn of(netisr: &Netisr) -> Self {
        let cpu = &netisr.cpu;
        let pool = &cpu.pool;
        Self {
            burst: netisr.rings().map(netisr::Ring::burst).min().unwrap_or(0),
            buffers: Buffers {
                total: pool.total(),
                free: pool.free(),
                in_rings: pool.charged(),
                denied: pool.stats().empty,
            },
            rings: netisr.rings().map(Ring::of).collect(),
            queues: cpu.ifqs.states().collect(),
            firewall: cpu.firewall.as_deref().map(FirewallReport::of),
        }
    }
}

impl Ring {
    fn of(ring: &netisr::Ring) -> Self {
        let driver = ring.driver();
        Self { ifindex: ring.ifindex(), queue: ring.queue(), link: driver.link(), stats: driver.stats() }
    }
}

impl FirewallReport {
    fn of(firewall: &Firewall) -> Self {
        let nat = firewall.nat().iter().map(|it| (it.spec().number, it.table().by_protocol(), it.totals()));
        let nat64 = firewall.nat64().iter();
        Self {
            states: firewall.states().len(),
            tracks: firewall.states().tracks(),
            counters: firewall.counters(),
            nat: nat.collect(),
            nat64: nat64.map(|it| (it.name().to_owned(), it.table().by_protocol(), it.totals())).collect(),
            shapes: firewall.pipes().totals(),
        }
    }
}

/// Writes the reports of one netisr.
pub(crate) struct Reporter {
    published: Published,
    /// Something happened since the last report.
    is_stale: bool,
    next: Instant,
}

impl Reporter {
    pub(crate) fn new(netisr: &Netisr) -> Self {
        let published = Arc::new(Mutex::new(Report::of(netisr)));
        Self { published, is_stale: false, next: Instant::START }
    }

    /// The place that reports are written to.
    pub(crate) fn published(&self) -> Published {
        Arc::clone(&self.published)
    }

    /// A turn that did something has ended.
    pub(crate) const fn worked(&mut self) {
        self.is_stale = true;
    }

    /// When the next report is due; [`Instant::NEVER`] if nothing happened since the last one.
    pub(crate) const fn deadline(&self) -> Instant {
        if self.is_stale { self.next } else { Instant::NEVER }
    }

    /// Writes a report if one is due; `clock` says how long that took. A reader that holds the last one is not waited for.
    pub(crate) fn report(&mut self, netisr: &Netisr, now: Instant, clock: impl FnOnce() -> Instant) {
        if self.deadline() > now {
            return;
        }
        let report = Report::of(netisr);
        match self.published.try_lock() {
            Ok(mut published) => *published = report,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => *poisoned.into_inner() = report,
            Err(std::sync::TryLockError::WouldBlock) => return,
        }
        let after = clock();
        self.is_stale = false;
        self.next = after + INTERVAL.max(after.since(now) * SHARE);
    }
}

/// Returns what a netisr wrote down last.
pub(crate) fn last(published: &Published) -> Report {
    published.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
