//! The memory that a relay's pairs may take, and which of them end when it is used up.
//!
//! A relay waits for slow readers as long as there is memory. Beyond the bound newcomers are refused, and pairs that hold
//! bytes but hardly deliver any are reset, until there is room again; those that deliver go on.

use crate::base::time::{Duration, Instant};
use crate::host::tcp;
use crate::turn::cpu::Cpu;

use super::{Pair, Relay};

/// Bytes that the buffers of all pairs of a relay may take on a CPU.
pub(super) const BYTES_MAX: usize = 256 << 20;
/// From one look at all pairs to the next.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Pairs that are looked at together, before others on the CPU have their turn.
const LOOK_MAX: u32 = 256;
const GO_ON: Duration = Duration::from_millis(1);
/// A pair that delivers less than one part in so many of what it holds, in this time, is slow.
const SHARE: u64 = 60;
const SLOW_AFTER: Duration = Duration::from_secs(10);

/// The progress of looking at all pairs.
#[derive(Debug)]
pub(super) struct Budget {
    bytes_max: usize,
    /// Bytes held by all pairs at the last look.
    held: usize,
    /// In the look that has begun: the next pair, and what was found so far.
    next: u32,
    so_far: usize,
    /// A call was asked for.
    is_armed: bool,
}

/// The progress of a pair.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Bytes that were moved from one connection to the other.
    pub(super) moved: u64,
    /// Bytes acknowledged when the pair last made progress, and the time of that.
    delivered: u64,
    since: Option<Instant>,
}

impl Budget {
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self { bytes_max, held: 0, next: 0, so_far: 0, is_armed: false }
    }

    /// Whether there is room for another pair.
    pub(super) const fn has_room(&self) -> bool {
        self.held <= self.bytes_max
    }

    /// When the relay wants to be called for a look, if it did not say so before.
    pub(super) fn arm(&mut self, now: Instant) -> Option<Instant> {
        (!core::mem::replace(&mut self.is_armed, true)).then(|| now + LOOK_EVERY)
    }
}

impl Progress {
    /// Notes what was delivered, and answers whether the pair is slow.
    fn is_slow(&mut self, delivered: u64, held: usize, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        if delivered.saturating_sub(self.delivered) >= (held as u64).div_ceil(SHARE) {
            (self.delivered, self.since) = (delivered, Some(now));
            return false;
        }
        now.since(since) >= SLOW_AFTER
    }
}

impl Relay {
    /// Looks at some pairs; resets those that are slow while too much is held. Answers when to look again.
    pub(super) fn look(&mut self, cpu: &mut Cpu) -> Option<Instant> {
        let end = u32::try_from(self.pairs.end()).unwrap_or(u32::MAX);
        let until = self.budget.next.saturating_add(LOOK_MAX).min(end);
        for at in self.budget.next..until {
            if self.pairs.is_used(at) {
                self.look_at(cpu, at);
            }
        }
        self.budget.next = until;
        if until < end {
            return Some(cpu.now + GO_ON);
        }
        let budget = &mut self.budget;
        (budget.held, budget.so_far, budget.next) = (budget.so_far, 0, 0);
        budget.is_armed = !self.pairs.is_empty() || budget.held > 0;
        budget.is_armed.then(|| cpu.now + LOOK_EVERY)
    }

    fn look_at(&mut self, cpu: &mut Cpu, at: u32) {
        let Some(pair) = self.pairs.get_mut(at) else { return };
        let (held, queued) = held(cpu, pair);
        let delivered = pair.progress.moved.saturating_sub(queued as u64);
        let is_slow = pair.progress.is_slow(delivered, held, cpu.now);
        if is_slow && held > 0 && !self.budget.has_room() {
            self.end_slow(cpu, at);
            self.budget.held = self.budget.held.saturating_sub(held);
        } else {
            self.budget.so_far += held;
        }
    }
}

/// Bytes of memory that both connections of a pair take, and bytes that were not acknowledged.
fn held(cpu: &Cpu, pair: &Pair) -> (usize, usize) {
    let connections = pair.sides.iter().flatten().filter_map(|side| tcp::connection(cpu, side.id));
    connections.fold((0, 0), |(held, queued), (_, tcb)| (held + tcb.memory(), queued + tcb.queued()))
}
