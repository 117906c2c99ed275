//! Verdicts of the firewall's hooks on flows: kept once for all flows with the same, and counted once
//! per chunk.

use core::hash::BuildHasher;

use hashbrown::HashMap;

use crate::base::secret::Secret;
use crate::base::time::Instant;
use crate::firewall::{Firewall, Met};
use crate::turn::netisr::CHUNK;

/// Different verdicts that one CPU remembers. Flows that meet something else are not remembered.
pub(super) const VERDICTS_MAX: usize = 1 << 12;

/// One of these, by its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict(u16);

/// Verdicts by their numbers.
pub struct Verdicts {
    all: Vec<Counting>,
    numbers: HashMap<Met, Verdict, Secret>,
    /// Verdicts met by packets of the chunk.
    busy: Vec<Verdict>,
    /// The one that was asked for last.
    last: Verdict,
}

/// A verdict, and the packets of this chunk that have met it.
struct Counting {
    met: Met,
    packets: u64,
    bytes: u64,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Counting>() + size_of::<(Met, Verdict)>() <= 152);

impl Verdicts {
    pub(super) fn new(secret: &Secret) -> Self {
        let key = u128::from(secret.hash_one("verdicts"));
        let numbers = HashMap::with_hasher(Secret::new(key));
        Self { all: Vec::new(), numbers, busy: Vec::with_capacity(CHUNK), last: Verdict::default() }
    }

    /// The number of a verdict; `None` if there are too many.
    pub(super) fn of(&mut self, met: Met) -> Option<Verdict> {
        // Flows that begin at the same time mostly meet the same.
        if self.met(self.last) == Some(&met) {
            return Some(self.last);
        }
        if let Some(known) = self.numbers.get(&met) {
            self.last = *known;
            return Some(*known);
        }
        let number = u16::try_from(self.all.len()).ok().filter(|_| self.all.len() < VERDICTS_MAX)?;
        self.all.push(Counting { met, packets: 0, bytes: 0 });
        self.numbers.insert(met, Verdict(number));
        Some(Verdict(number))
    }

    /// Returns the rules met by packets of this verdict.
    #[inline]
    pub(super) fn met(&self, verdict: Verdict) -> Option<&Met> {
        self.all.get(usize::from(verdict.0)).map(|counting| &counting.met)
    }

    /// A packet has met this.
    #[inline]
    pub(super) fn count(&mut self, verdict: Verdict, bytes: usize) {
        let Some(counting) = self.all.get_mut(usize::from(verdict.0)) else { return };
        if counting.packets == 0 {
            self.busy.push(verdict);
        }
        counting.packets = counting.packets.wrapping_add(1);
        counting.bytes = counting.bytes.wrapping_add(bytes as u64);
    }

    /// Counts for the rules what the packets of a chunk have met.
    pub(super) fn settle(&mut self, firewall: &mut Firewall, now: Instant) {
        for verdict in self.busy.drain(..) {
            let Some(Counting { met, packets, bytes }) = self.all.get_mut(usize::from(verdict.0)) else {
                continue;
            };
            for rule in met.rules() {
                firewall.count_many(*rule, *packets, *bytes, now);
            }
            (*packets, *bytes) = (0, 0);
        }
    }

    /// Forgets them all: no flow is known any more.
    pub(super) fn forget_all(&mut self) {
        self.all.clear();
        self.numbers.clear();
        self.busy.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::firewall::Trace;
    use crate::firewall::ruleset::RuleId;

    #[test]
    fn a_flow_whose_packets_match_too_many_rules_or_lists_of_rules_goes_the_normal_way() {
        let mut verdicts = Verdicts::new(&Secret::new(1));
        let met = |slots: core::ops::Range<u16>| {
            let mut trace = Trace::default();
            slots.for_each(|slot| trace.meet(RuleId { slot, epoch: 0 }));
            trace
        };
        assert!(met(0..6).holds && !met(0..7).holds, "six rules");
        let first = u16::try_from(VERDICTS_MAX).unwrap();
        let known: Vec<_> = (0..first).map(|slot| verdicts.of(met(slot..slot + 2).met).unwrap()).collect();
        assert_eq!(verdicts.of(met(first..first + 2).met), None);
        assert_eq!(verdicts.of(met(7..9).met), Some(known[7]), "those that are known still are");
        verdicts.forget_all();
        assert!(verdicts.of(met(first..first + 2).met).is_some());
    }
}
