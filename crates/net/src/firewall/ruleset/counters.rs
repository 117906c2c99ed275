//! Rule counters: each CPU writes its own rows, any thread reads and sums.
//!
//! A row belongs to the rule whose identity it bears, so it lives on when another ruleset takes the place of the old
//! one, and begins at zero when its place changes hands. The reader subtracts the counts at the last `zero`.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::Arc;

use pkt::shared::{AtomicU16, AtomicU64};

use super::{RULES_MAX, RuleId};
use crate::base::time::Instant;

/// One CPU's counters of all rules: the writing end.
#[derive(Debug)]
pub struct RuleCounters {
    rows: Arc<[Row]>,
    /// Counts of the last rule that are not in its row yet.
    later: Later,
}

#[derive(Debug, Default)]
struct Later {
    id: RuleId,
    packets: u64,
    bytes: u64,
    now: Instant,
}

/// A reading end of one CPU's counters, for any thread. It outlives the CPU.
#[derive(Clone, Debug)]
pub struct RuleCountersReader {
    rows: Arc<[Row]>,
}

/// The counters of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Packets.
    pub packets: u64,
    /// Their bytes, network header and all.
    pub bytes: u64,
    /// When the last one did.
    pub last: Option<Instant>,
}

/// Half a cache line: packets, bytes, the last match, and the epoch of the rule whose they are.
#[derive(Debug, Default)]
#[repr(align(32))]
struct Row {
    packets: AtomicU64,
    bytes: AtomicU64,
    last_ns: AtomicU64,
    epoch: AtomicU16,
}

impl RuleCounters {
    /// All at zero. Their memory is taken now: 2 MiB.
    #[must_use]
    pub fn new() -> Self {
        Self { rows: (0..RULES_MAX).map(|_| Row::default()).collect(), later: Later::default() }
    }

    /// Counts packets that a rule matched.
    #[inline]
    pub fn count(&mut self, id: RuleId, packets: u64, bytes: u64, now: Instant) {
        let Some(row) = self.rows.get(usize::from(id.slot)) else { return };
        if row.epoch.load(Relaxed) != id.epoch {
            row.change_hands(id.epoch);
        }
        bump(&row.packets, packets);
        bump(&row.bytes, bytes);
        row.last_ns.store(now.ns(), Relaxed);
    }

    /// Counts a packet when [`RuleCounters::settle`] is called: of a chunk, many match the same rule.
    #[inline(always)]
    pub fn count_later(&mut self, id: RuleId, bytes: u64, now: Instant) {
        self.count_many_later(id, 1, bytes, now);
    }

    /// Counts packets when [`RuleCounters::settle`] is called.
    #[inline(always)]
    pub fn count_many_later(&mut self, id: RuleId, more: u64, bytes: u64, now: Instant) {
        if self.later.id.bits() != id.bits() {
            self.settle_another();
        }
        let Later { packets, bytes: all, .. } = self.later;
        self.later = Later { id, packets: packets.wrapping_add(more), bytes: all.wrapping_add(bytes), now };
    }

    /// Settles before the packets of another rule are counted.
    #[inline(never)]
    fn settle_another(&mut self) {
        self.settle();
    }

    /// Counts what was to be counted later.
    #[inline]
    pub fn settle(&mut self) {
        let Later { id, packets, bytes, now } = core::mem::take(&mut self.later);
        if packets > 0 {
            self.count(id, packets, bytes, now);
        }
    }

    /// A reading end.
    #[must_use]
    pub fn reader(&self) -> RuleCountersReader {
        RuleCountersReader { rows: Arc::clone(&self.rows) }
    }
}

impl Default for RuleCounters {
    fn default() -> Self {
        Self::new()
    }
}

impl RuleCountersReader {
    /// Returns the counters of a rule on this CPU, now or a moment ago.
    #[must_use]
    pub fn get(&self, id: RuleId) -> Counted {
        let row = self.rows.get(usize::from(id.slot)).filter(|row| row.epoch.load(Acquire) == id.epoch);
        row.map_or_else(Counted::default, |row| {
            let (packets, bytes) = (row.packets.load(Relaxed), row.bytes.load(Relaxed));
            let last = Instant::from_ns(row.last_ns.load(Relaxed));
            Counted { packets, bytes, last: (packets > 0).then_some(last) }
        })
    }
}

/// Returns the counters of a rule on all CPUs.
pub fn sum<'a>(cpus: impl IntoIterator<Item = &'a RuleCountersReader>, id: RuleId) -> Counted {
    cpus.into_iter().map(|cpu| cpu.get(id)).fold(Counted::default(), |all, cpu| Counted {
        packets: all.packets.wrapping_add(cpu.packets),
        bytes: all.bytes.wrapping_add(cpu.bytes),
        last: all.last.max(cpu.last),
    })
}

impl Counted {
    /// Returns the difference to `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let packets = self.packets.saturating_sub(earlier.packets);
        let bytes = self.bytes.saturating_sub(earlier.bytes);
        Self { packets, bytes, last: self.last.filter(|_| packets > 0) }
    }
}

impl Row {
    /// Begins at zero for another rule.
    #[cold]
    fn change_hands(&self, epoch: u16) {
        self.packets.store(0, Relaxed);
        self.bytes.store(0, Relaxed);
        self.epoch.store(epoch, Release);
    }
}

/// Not `fetch_add`, which locks the line: there is no other writer.
#[inline]
fn bump(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: RuleId = RuleId { slot: 65534, epoch: 3 };

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    #[test]
    fn what_all_cpus_counted_is_added_up() {
        let mut cpus = [RuleCounters::new(), RuleCounters::new()];
        let readers = [cpus[0].reader(), cpus[1].reader()];
        assert_eq!(sum(&readers, ID), Counted::default());
        cpus[0].count(ID, 2, 120, at(5));
        cpus[1].count(ID, 1, 60, at(9));
        cpus[0].count(ID, 1, 60, at(7));
        assert_eq!(sum(&readers, ID), Counted { packets: 4, bytes: 240, last: Some(at(9)) });
    }

    #[test]
    fn a_place_that_changed_hands_begins_at_zero_and_the_old_rule_has_nothing() {
        let mut cpu = RuleCounters::new();
        let heir = RuleId { epoch: 4, ..ID };
        cpu.count(ID, 7, 700, at(1));
        assert_eq!(cpu.reader().get(heir), Counted::default());
        cpu.count(heir, 1, 60, at(2));
        assert_eq!(cpu.reader().get(ID), Counted::default());
        assert_eq!(cpu.reader().get(heir), Counted { packets: 1, bytes: 60, last: Some(at(2)) });
    }

    #[test]
    fn what_was_zeroed_is_taken_off() {
        let mut cpu = RuleCounters::new();
        cpu.count(ID, 7, 700, at(1));
        let zero = cpu.reader().get(ID);
        assert_eq!(cpu.reader().get(ID).since(zero), Counted::default());
        cpu.count(ID, 1, 60, at(2));
        assert_eq!(cpu.reader().get(ID).since(zero), Counted { packets: 1, bytes: 60, last: Some(at(2)) });
    }
}
