//! The log of rules with `log`.
//!
//! Each CPU writes into a ring of its own and overwrites the oldest: a flood fills no disk, and a slow reader
//! never stops a packet. How often a rule has logged is counted for all CPUs together, because `logamount 10` means
//! ten.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use ipfw::rule::Hook;
use pkt::Pkt;
use pkt::atomic_array::Words;
use pkt::shared::AtomicU32;

use super::ruleset::RuleId;
use crate::base::time::Instant;
use crate::link::tables::IfIndex;

/// Records that one CPU keeps.
pub const RECORDS_MAX: usize = 1024;
/// Bytes of a packet that a record keeps: the headers of both families, and what an ICMP error quotes of another's.
pub const SNAP_MAX: usize = 128;
/// Records that one CPU makes in a second, in the long run.
pub const RECORDS_PER_SECOND: u32 = 1000;
/// Default log limit of a rule, until `resetlog`; 0 for none.
pub const AMOUNT_DEFAULT: u32 = 100;

/// Share of one record in the rate.
const EVERY: Duration = Duration::from_nanos(1_000_000_000 / RECORDS_PER_SECOND as u64);
/// Records at once.
const BURST: u32 = 256;

/// A packet that a rule with `log` has matched.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its place in this CPU's sequence, from 0: what is missing before it was overwritten.
    pub seq: u64,
    /// When.
    pub at: Instant,
    /// The rule's number.
    pub rule: ipfw::rule::Number,
    /// Action, as ipfw's log prints it.
    pub done: &'static str,
    /// Where in the stack.
    pub hook: Hook,
    /// The interface it came in by, or 0.
    pub recv: IfIndex,
    /// The interface it was to leave by, or 0.
    pub xmit: IfIndex,
    /// Bytes of the packet.
    pub len: u32,
    /// The first of them, from its network header.
    pub snap: Vec<u8>,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Record>() <= 72);

/// Log counts of each rule, for all CPUs.
#[derive(Debug)]
pub struct Amounts {
    by_slot: Words,
}

/// One CPU's records.
pub struct Log {
    records: VecDeque<Record>,
    seq: u64,
    amounts: Arc<Amounts>,
    /// When the rate allows [`BURST`] again.
    full_at: Instant,
    suppressed: u64,
}

impl Amounts {
    /// None has.
    ///
    /// # Errors
    ///
    /// When the system has no address space for it.
    pub fn new() -> io::Result<Self> {
        Ok(Self { by_slot: Words::zeroed(1 << 16)? })
    }

    /// This rule may log again.
    pub fn reset(&self, rule: RuleId) {
        self.of(rule).store(0, Ordering::Relaxed);
    }

    /// Whether the rule may log once more; if so, that is counted. Exact: CPUs that log at once get one each.
    fn take(&self, rule: RuleId, amount: u32) -> bool {
        let more = |logged: u32| (logged < amount).then_some(logged + 1);
        amount == 0 || self.of(rule).fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn of(&self, rule: RuleId) -> &AtomicU32 {
        &self.by_slot[usize::from(rule.slot)]
    }
}

/// A log record to be written.
pub(super) struct Entry {
    pub(super) rule: RuleId,
    pub(super) number: ipfw::rule::Number,
    pub(super) log: ipfw::rule::Log,
    pub(super) done: &'static str,
    pub(super) hook: Hook,
    pub(super) recv: IfIndex,
    pub(super) xmit: IfIndex,
}

impl Log {
    /// An empty one.
    #[must_use]
    pub const fn new(amounts: Arc<Amounts>) -> Self {
        Self { records: VecDeque::new(), seq: 0, amounts, full_at: Instant::START, suppressed: 0 }
    }

    /// Returns the counts of all CPUs.
    pub(super) fn amounts(&self) -> Arc<Amounts> {
        Arc::clone(&self.amounts)
    }

    /// Writes a packet down, unless its rule has fallen silent, or too many were lately.
    #[cold]
    pub(super) fn write(&mut self, now: Instant, pkt: &Pkt, entry: &Entry) {
        if !self.amounts.take(entry.rule, entry.log.amount.unwrap_or(AMOUNT_DEFAULT)) {
            return;
        }
        let full_at = self.full_at.max(now) + EVERY;
        if full_at > now + EVERY * BURST {
            self.suppressed += 1;
            return;
        }
        self.full_at = full_at;
        let mut snap = vec![0; pkt.len().min(SNAP_MAX)];
        let len = pkt.copy_out(0, &mut snap);
        snap.truncate(len);
        let Entry { number, done, hook, recv, xmit, .. } = *entry;
        if self.records.len() == RECORDS_MAX {
            self.records.pop_front();
        }
        let len = u32::try_from(pkt.len()).unwrap_or(u32::MAX);
        self.records.push_back(Record {
            seq: self.seq,
            at: now,
            rule: number,
            done,
            hook,
            recv,
            xmit,
            len,
            snap,
        });
        self.seq += 1;
    }

    /// Records from `seq` on, as far as they are still there, and the number that the next one will have.
    #[must_use]
    pub fn since(&self, seq: u64) -> (Vec<Record>, u64) {
        (self.records.iter().filter(|record| record.seq >= seq).cloned().collect(), self.seq)
    }

    /// Matches that were not written down because there were too many at once.
    #[must_use]
    pub const fn suppressed(&self) -> u64 {
        self.suppressed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::Bench;

    fn entry(amount: Option<u32>) -> Entry {
        Entry {
            rule: RuleId { slot: 3, epoch: 0 },
            number: 300,
            log: ipfw::rule::Log { amount },
            done: "Deny",
            hook: Hook::Ingress,
            recv: 1,
            xmit: 0,
        }
    }

    fn log() -> Log {
        Log::new(Arc::new(Amounts::new().unwrap()))
    }

    /// Writes `count` packets down, `every` apart.
    fn write(log: &mut Log, count: usize, every: Duration, entry: &Entry) {
        let mut bench = Bench::new(1);
        let pkt = bench.cpu().pool.take().unwrap();
        for n in 0..count {
            log.write(Instant::START + every * u32::try_from(n).unwrap(), &pkt, entry);
        }
        bench.cpu().pool.give(pkt);
    }

    #[test]
    fn a_rule_falls_silent_after_its_amount_whichever_cpu_it_matches_on_and_speaks_again_after_a_reset() {
        let amounts = Arc::new(Amounts::new().unwrap());
        let mut cpus = [Log::new(Arc::clone(&amounts)), Log::new(Arc::clone(&amounts))];
        for cpu in &mut cpus {
            write(cpu, 7, EVERY, &entry(Some(10)));
        }
        let written = |cpus: &[Log]| cpus.iter().map(|cpu| cpu.since(0).0.len()).sum::<usize>();
        assert_eq!(written(&cpus), 10);
        amounts.reset(entry(None).rule);
        write(&mut cpus[0], 2, EVERY, &entry(Some(10)));
        assert_eq!(written(&cpus), 12);
    }

    #[test]
    fn the_oldest_records_give_way_and_a_reader_sees_that_they_are_gone() {
        let mut log = log();
        write(&mut log, RECORDS_MAX + 5, EVERY, &entry(Some(0)));
        let (records, next) = log.since(0);
        assert_eq!((records.len(), records[0].seq, next), (RECORDS_MAX, 5, RECORDS_MAX as u64 + 5));
        assert_eq!(log.since(next).0.len(), 0);
    }

    #[test]
    fn a_flood_is_written_down_as_far_as_the_rate_allows() {
        let mut log = log();
        write(&mut log, 10_000, Duration::from_nanos(100), &entry(Some(0)));
        let written = log.since(0).0.len();
        assert!((256..=258).contains(&written), "{written}");
        assert_eq!(log.suppressed(), 10_000 - written as u64);
    }
}
