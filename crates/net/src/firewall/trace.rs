//! What the packets of a chunk have met at the hooks so far, by position: what may hold for all packets of their flows.

use super::nat::table::Way;
use super::ruleset::RuleId;
use super::state::{Direction, Mark};

/// Matches of one packet at all hooks that are remembered, at the most: a flow whose packets match more is asked about
/// packet by packet.
const MATCHES: usize = 4;

/// What one packet has met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trace {
    /// The rules that it has matched, and what has translated it.
    pub(crate) met: Met,
    /// The state, or the binding, that it is a part of.
    pub(crate) known: Known,
    /// Whether the same must happen to all packets of its flow, for as long as nothing changes and the state lives.
    pub(crate) holds: bool,
    /// Whether it is one that any other hook treats alike, as far as its state goes.
    pub(super) is_inside: bool,
}

/// What must be found again for each packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// The state that they hit, or the binding by which they are translated.
    pub(super) mark: Mark,
    /// Which way they go, as the state sees it.
    pub(super) direction: Direction,
    /// How often each of them hits its state; 0 if there is no state.
    pub(super) times: u8,
    is_translated: bool,
}

/// Rules that a packet has matched, in their order; twice, if it did so at two hooks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Met {
    rules: [RuleId; MATCHES],
    len: u8,
    translation: Option<Translation>,
}

/// What has given a packet another address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Translation {
    /// A binding of the instance of NAT with this number.
    Nat(u16, Way),
    /// Prefixes that this rule has exchanged.
    Prefixes(RuleId),
}

impl Default for Trace {
    fn default() -> Self {
        Self::NOTHING
    }
}

impl Default for Known {
    fn default() -> Self {
        Self::NOTHING
    }
}

impl Trace {
    /// It has met nothing yet.
    pub(super) const NOTHING: Self =
        Self { met: Met::NOTHING, known: Known::NOTHING, holds: true, is_inside: false };

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
        let Known { times, is_translated, .. } = self.known;
        let known = Known { mark: state, direction, times: times.saturating_add(1), is_translated };
        self.holds &= if times == 0 { !self.met.is_bound() } else { self.known == Known { times, ..known } };
        (self.known, self.is_inside) = (known, is_inside);
    }

    /// It has been translated: by this binding, or without one. An entry of the flow cache has room for one translation,
    /// and for either a binding or a state.
    pub(super) fn translate(&mut self, translation: Translation, binding: Option<Mark>) {
        let has_room = self.met.translation.is_none() && (binding.is_none() || self.known.times == 0);
        self.holds &= has_room;
        self.met.translation = Some(translation);
        self.known.mark = binding.unwrap_or(self.known.mark);
        // What it meets from now on it meets as another.
        (self.known.is_translated, self.is_inside) = (true, false);
    }
}

impl Known {
    const NOTHING: Self =
        Self { mark: Mark::NONE, direction: Direction::Forward, times: 0, is_translated: false };

    /// Whether nothing has to be found.
    #[inline]
    pub(crate) const fn is_nothing(&self) -> bool {
        self.times == 0 && !self.is_translated
    }

    /// Whether packets have been translated.
    #[inline]
    pub(crate) const fn is_translated(&self) -> bool {
        self.is_translated
    }
}

impl Met {
    const NOTHING: Self = Self { rules: [RuleId { slot: 0, epoch: 0 }; MATCHES], len: 0, translation: None };

    /// What has translated it.
    #[inline]
    pub(super) const fn translation(&self) -> Option<Translation> {
        self.translation
    }

    const fn is_bound(&self) -> bool {
        matches!(self.translation, Some(Translation::Nat(..)))
    }

    /// The rules.
    #[inline]
    pub(crate) fn rules(&self) -> &[RuleId] {
        self.rules.get(..usize::from(self.len)).unwrap_or_default()
    }
}
