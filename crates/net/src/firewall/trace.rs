//! What the packets of a chunk have met at the hooks so far, by position: what may hold for all packets of their flows.

use super::ruleset::RuleId;
use super::state::{Direction, Mark};

/// Matches of one packet at all hooks that are remembered, at the most: a flow whose packets match more is asked about
/// packet by packet.
const MATCHES: usize = 4;

/// What one packet has met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trace {
    /// The rules that it has matched.
    pub(crate) met: Met,
    /// The state that it is a part of.
    pub(crate) known: Known,
    /// Whether the same must happen to all packets of its flow, for as long as nothing changes and the state lives.
    pub(crate) holds: bool,
    /// Whether it is one that any other hook treats alike, as far as its state goes.
    pub(super) is_inside: bool,
}

/// The state that packets of a flow hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// Which it is.
    pub(super) state: Mark,
    /// Which way they go, as the state sees it.
    pub(super) direction: Direction,
    /// How often each of them hits it; 0 if there is no state.
    pub(crate) times: u8,
}

/// Rules that a packet has matched, in their order; twice, if it did so at two hooks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Met {
    rules: [RuleId; MATCHES],
    len: u8,
}

impl Default for Trace {
    fn default() -> Self {
        Self { met: Met::default(), known: Known::default(), holds: true, is_inside: false }
    }
}

impl Default for Known {
    fn default() -> Self {
        Self { state: Mark::default(), direction: Direction::Forward, times: 0 }
    }
}

impl Trace {
    /// It has matched this rule, and was counted there.
    #[inline]
    pub(crate) fn meet(&mut self, rule: RuleId) {
        match self.met.rules.get_mut(usize::from(self.met.len)) {
            Some(place) => {
                *place = rule;
                self.met.len += 1;
            }
            None => self.holds = false,
        }
    }

    /// It has met its state again, and the rule that made that.
    #[inline]
    pub(super) fn meet_again(&mut self, rule: RuleId) {
        self.meet(rule);
        self.known.times = self.known.times.saturating_add(1);
    }

    /// It has met its state.
    #[inline]
    pub(super) fn hit(&mut self, state: Mark, direction: Direction, is_inside: bool) {
        let Known { times, .. } = self.known;
        let known = Known { state, direction, times: times.saturating_add(1) };
        self.holds &= times == 0 || self.known == Known { times, ..known };
        (self.known, self.is_inside) = (known, is_inside);
    }
}

impl Met {
    /// The rules.
    #[inline]
    pub(crate) fn rules(&self) -> &[RuleId] {
        self.rules.get(..usize::from(self.len)).unwrap_or_default()
    }
}
