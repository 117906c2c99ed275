//! A loose global count of states: exact to a twentieth of the limit, for an addition now and then.
//!
//! Each CPU counts its own. Of what it has installed since, it tells the others when that has become a CPU's part of the
//! twentieth; it does not report expired states. So the common number is never too small by more than the twentieth, and
//! grows too large with time; then a CPU adds up the counts of all.

use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use pkt::shared::AtomicU64;

use super::settings::Settings;
use crate::base::time::Instant;
use crate::turn::cpu::CpuId;

/// The part of what is allowed that may be there besides: one in so many.
const SLACK: u64 = 20;
/// Attempts to put the sum in the place of the common number, if others add to it in the meantime.
const REFRESHES: usize = 4;

/// The shared counters. They order nothing: relaxed numbers.
#[derive(Debug)]
pub struct Loose {
    /// No less than all states but those that CPUs have not told of.
    common: AtomicU64,
    /// The second, from 1, in which all CPUs were last asked to look for dead states.
    asked: AtomicU64,
    cpus: Box<[Line]>,
}

/// A CPU's own count, written by it alone.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// A CPU's part in it.
#[derive(Debug)]
pub(super) struct Share {
    loose: Arc<Loose>,
    cpu: usize,
    /// Installed since the others were told, less those that have died.
    untold: u64,
    /// Unreported states at which this CPU reports: all CPUs together stay below the slack.
    tell_at: u64,
    /// This CPU's part of the half-open connections; one at the least.
    half_open_max: usize,
}

impl Loose {
    /// Nothing, on so many CPUs.
    #[must_use]
    pub fn new(cpus: usize) -> Arc<Self> {
        let cpus = (0..cpus.max(1)).map(|_| Line::default()).collect();
        Arc::new(Self { common: AtomicU64::new(0), asked: AtomicU64::new(0), cpus })
    }

    /// Counts on from the states of another, which does not change with it.
    #[must_use]
    pub fn above(other: &Self) -> Arc<Self> {
        let loose = Self::new(other.cpus.len());
        let total = other.total();
        loose.common.store(total, Relaxed);
        if let Some(first) = loose.cpus.first() {
            first.0.store(total, Relaxed);
        }
        loose
    }

    /// States on all CPUs: exact at rest, and a moment old else.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.0.load(Relaxed)).sum()
    }
}

impl Share {
    pub(super) fn new(loose: Arc<Loose>, cpu: CpuId, settings: &Settings) -> Self {
        let cpu = cpu.index() % loose.cpus.len();
        let mut share = Self { loose, cpu, untold: 0, tell_at: 1, half_open_max: 1 };
        share.configure(settings);
        share
    }

    /// Divides the limits by the number of CPUs, once: no state waits for a division.
    pub(super) fn configure(&mut self, settings: &Settings) {
        let cpus = self.loose.cpus.len();
        self.tell_at = (u64::from(settings.state_max) / SLACK / cpus as u64).max(1);
        self.half_open_max = (settings.half_open_max() as usize / cpus).max(1);
    }

    /// Returns the number of half-open connections that this CPU may have.
    #[inline]
    pub(super) const fn half_open_max(&self) -> usize {
        self.half_open_max
    }

    /// Returns the count of all CPUs.
    pub(super) fn loose(&self) -> Arc<Loose> {
        Arc::clone(&self.loose)
    }

    /// Whether there is room for another state, as far as is known.
    #[inline]
    pub(super) fn has_room(&self, max: u32) -> bool {
        self.loose.common.load(Relaxed) < u64::from(max)
    }

    /// A state more.
    pub(super) fn add(&mut self) {
        let own = &self.loose.cpus[self.cpu].0;
        own.store(own.load(Relaxed) + 1, Relaxed);
        self.untold += 1;
        if self.untold >= self.tell_at {
            // Added, not stored: another CPU may be adding, too.
            self.loose.common.fetch_add(self.untold, Relaxed);
            self.untold = 0;
        }
    }

    /// A state less.
    pub(super) fn remove(&mut self) {
        let own = &self.loose.cpus[self.cpu].0;
        own.store(own.load(Relaxed).saturating_sub(1), Relaxed);
        self.untold = self.untold.saturating_sub(1);
    }

    /// Makes the common number right, and answers it.
    pub(super) fn refresh(&self) -> u64 {
        for _ in 0..REFRESHES {
            let before = self.loose.common.load(Relaxed);
            let total = self.loose.total();
            // If another CPU has reported since, the total may be without its report.
            if self.loose.common.compare_exchange(before, total, Relaxed, Relaxed).is_ok() {
                return total;
            }
        }
        self.loose.common.load(Relaxed)
    }

    /// Whether this CPU is the one that asks all others to look for dead states: once a second, of all CPUs.
    pub(super) fn may_ask(&self, now: Instant) -> bool {
        let second = now.ns() / 1_000_000_000 + 1;
        let asked = self.loose.asked.load(Relaxed);
        asked < second && self.loose.asked.compare_exchange(asked, second, Relaxed, Relaxed).is_ok()
    }
}
