//! Traces of the packets of a chunk at the hooks, by position: results that may hold for all packets of their flows.

use super::nat::table::BindingDirection;
use super::ruleset::RuleId;
use super::state::{Direction, Mark};

/// Matches of one packet at all hooks that are remembered, at the most: a flow whose packets match more is asked about
/// packet by packet.
const MATCHES: usize = 6;

/// The trace of one packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trace {
    /// The rules that it has matched, and what has translated it.
    pub(crate) met: Met,
    /// The state and the binding that it is a part of …
    pub(crate) known: Known,
    /// … and in which way.
    pub(crate) how: Lookups,
    /// Whether the same must happen to all packets of its flow, for as long as nothing changes and the state lives.
    pub(crate) holds: bool,
    /// Whether it is one that any other hook treats alike, as far as its state goes.
    pub(super) is_inside: bool,
}

/// The lookups to be repeated for each packet of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// The state that they hit.
    pub(super) state: Mark,
    /// The binding by which they are translated.
    pub(super) binding: Mark,
}

/// The lookups to be repeated for each packet of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lookups(u8);

impl Lookups {
    const NOT_AT_ALL: Self = Self(0);
    /// They go the other way than the packet that made their state.
    const BACK: u8 = 1;
    const TRANSLATED: u8 = 2;
    /// From this bit on: how often each of them hits its state.
    const TIMES: u32 = 2;

    /// They hit their state once more, going this way.
    const fn hitting(self, direction: Direction) -> Self {
        let back = if matches!(direction, Direction::Reverse) { Self::BACK } else { 0 };
        let times = if self.times() < u8::MAX >> Self::TIMES { self.times() + 1 } else { self.times() };
        Self(self.0 & Self::TRANSLATED | back | times << Self::TIMES)
    }

    const fn translated(self) -> Self {
        Self(self.0 | Self::TRANSLATED)
    }

    /// Which way they go, as the state sees it.
    #[inline]
    pub(super) const fn direction(self) -> Direction {
        if self.0 & Self::BACK == 0 { Direction::Forward } else { Direction::Reverse }
    }

    /// Number of state hits; 0 without a state.
    #[inline]
    pub(super) const fn times(self) -> u8 {
        self.0 >> Self::TIMES
    }

    /// Whether nothing has to be found.
    #[inline]
    pub(crate) const fn is_nothing(self) -> bool {
        self.0 == Self::NOT_AT_ALL.0
    }

    /// Whether packets have been translated.
    #[inline]
    pub(crate) const fn is_translated(self) -> bool {
        self.0 & Self::TRANSLATED != 0
    }
}

/// Rules that a packet has matched, in their order; twice, if it did so at two hooks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Met {
    rules: [RuleId; MATCHES],
    len: u8,
    translation: Option<Translation>,
}

/// The kind of translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Translation {
    /// A binding of the instance of NAT with this number.
    Nat(u16, BindingDirection),
    /// Prefixes that this rule has exchanged.
    Prefixes(RuleId),
}

impl Default for Trace {
    fn default() -> Self {
        Self::NOTHING
    }
}

impl Trace {
    /// It has met nothing yet.
    pub(super) const NOTHING: Self = Self {
        met: Met::NOTHING,
        known: Known::NOTHING,
        how: Lookups::NOT_AT_ALL,
        holds: true,
        is_inside: false,
    };

    /// It has matched this rule, and was counted there.
    #[inline(always)]
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
        self.how = self.how.hitting(self.how.direction());
    }

    /// It has met its state.
    #[inline]
    pub(super) fn hit(&mut self, state: Mark, direction: Direction, is_inside: bool) {
        let before = (self.known.state, self.how.direction());
        self.holds &= self.how.times() == 0 || before == (state, direction);
        (self.known.state, self.how) = (state, self.how.hitting(direction));
        self.is_inside = is_inside;
    }

    /// It has been translated: by this binding, or without one. An entry of the flow cache has room for one state and one
    /// translation.
    pub(super) fn translate(&mut self, translation: Translation, binding: Option<Mark>) {
        self.holds &= self.met.translation.is_none();
        self.met.translation = Some(translation);
        self.known.binding = binding.unwrap_or(Mark::NONE);
        self.how = self.how.translated();
        // What it meets from now on it meets as another.
        self.is_inside = false;
    }
}

impl Trace {
    /// Whether it may have matched more rules than are remembered.
    pub(super) const fn is_full(&self) -> bool {
        self.met.len as usize == MATCHES
    }
}

impl Known {
    const NOTHING: Self = Self { state: Mark::NONE, binding: Mark::NONE };
}

impl Met {
    const NOTHING: Self = Self { rules: [RuleId { slot: 0, epoch: 0 }; MATCHES], len: 0, translation: None };

    /// Returns its translation.
    #[inline]
    pub(super) const fn translation(&self) -> Option<Translation> {
        self.translation
    }

    /// The rules.
    #[inline]
    pub(crate) fn rules(&self) -> &[RuleId] {
        self.rules.get(..usize::from(self.len)).unwrap_or_default()
    }
}
