//! Rules, compiled: all that can be known of them before a packet comes.
//!
//! [`Rules`] is the list that people edit. It compiles to a [`Ruleset`], which all CPUs share and none changes, and
//! which answers one question: which is the first rule, from here on, that this packet matches?

mod counters;
mod header;
mod lower;
mod probes;
mod program;
mod resolve;
mod route;
mod rules;
mod slots;
mod tree;

use core::ops::Range;
use core::sync::atomic::Ordering;
use std::sync::Arc;

use ipfw::rule::{Action, Hook, Keep, Log, Number, TableArg, Tag};
use pkt::Pkt;
use pkt::shared::AtomicU64;

pub use counters::{Counted, RuleCounters, RuleCountersReader, sum};
pub use rules::{Entry, Error, RULES_MAX, Rules};

use super::pkt_info::PktInfo;
use crate::link::tables::Tables;
use probes::Probes;
use program::{Asked, Program};
use tree::{Forest, Point, Tree};

/// The identity of a rule, which outlives rulesets: for states, logs, counters. It is the same as long as the rule stays as it is
/// written, whatever becomes of those around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RuleId {
    /// Its place among the counters.
    pub slot: u16,
    /// Number of reuses of the slot.
    pub epoch: u16,
}

impl RuleId {
    /// Both in a word, which are compared at once.
    #[inline]
    const fn bits(self) -> u32 {
        (self.slot as u32) << 16 | self.epoch as u32
    }
}

/// The name of a set of states (`:flow`), as a number that stays the same as long as the rules' list lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowId(pub u16);

impl FlowId {
    /// The states that were not given a name.
    pub const DEFAULT: Self = Self(0);
    /// All that people name or could have named, whatever their name.
    pub const ANY: Self = Self(u16::MAX);
    /// States of redirected flows: they have no name, and do not conflict with others.
    pub const REDIRECT: Self = Self(u16::MAX - 1);

    /// Whether states of this name are among those of another.
    #[inline]
    #[must_use]
    pub const fn is_among(self, other: Self) -> bool {
        self.0 == other.0 || other.0 == Self::ANY.0 && self.0 != Self::REDIRECT.0
    }
}

/// Rules, compiled. Shared by all CPUs; never changed.
///
/// Rules are named by their position, from 0; the last one matches everything.
#[derive(Debug, Default)]
pub struct Ruleset {
    generation: u64,
    /// Grows with each change of a table.
    lookups: Arc<AtomicU64>,
    rules: Vec<Compiled>,
    program: Program,
    forest: Forest,
    probes: Probes,
    /// Whether a rule redirects.
    redirects: bool,
    /// For each hook and family: if the first that happens there is a look for a state, among which states.
    looks_first: [Option<FlowId>; VIEWS],
    /// Rules that frames without an IP packet can match.
    frames: Vec<u32>,
    /// For each slot of [`RuleId`] the epoch and position of the rule that has it.
    places: Vec<Option<(u16, u32)>>,
    /// For each slot one more than the epoch of the rule that has it, if [that lets packets pass](Self::passes).
    passing: Vec<u32>,
}

/// A rule, compiled.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Identity.
    pub id: RuleId,
    /// Its number.
    pub number: Number,
    /// The set it belongs to.
    pub set: u8,
    /// Probability to match, of 2³²; `None` for always. To be drawn by the caller, before anything else.
    pub prob: Option<u32>,
    /// Action on a packet that matches.
    pub action: Action,
    /// Target of `skipto` and `call` with a number: the position where the walk goes on. A `skipto` leads forward: one that
    /// would not leads to the next rule.
    pub target: Option<usize>,
    /// Whether matches are logged.
    pub log: Option<Log>,
    /// A mark that the packet gets or loses.
    pub tag: Option<Tag>,
    /// State that it makes.
    pub keep: Option<Keep>,
    /// Whether no driver forwards the flow of a packet that matches.
    pub no_offload: bool,
    /// Among which states that is; of `check-state`, among which it looks.
    pub flow: FlowId,
    /// If obeying it is no more than this, besides being counted.
    pub plain: Option<Plain>,
    /// The plain action, if it applies to all packets that match, without a state.
    pub certainly: Option<Plain>,
    /// Whether it lets all packets that match pass, makes their state, and does no more.
    pub only_keeps: bool,
    /// Hooks and families at which it can match.
    scope: Scope,
    /// Whether it asks nothing else.
    asks_nothing: bool,
}

/// The action of most rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// The packet goes on.
    Pass,
    /// It dies, without a word.
    Die,
}

/// The result of [`Ruleset::first`] besides the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Value of the table in which the rule found the packet: `tablearg`.
    pub arg: Option<TableArg>,
    /// Whether the answer depends on nothing but what all packets of a flow share (addresses, protocol, ports or ICMP's
    /// type and code, traffic class without marks of congestion, interfaces, being whole) and on tables and routes as they are: then it holds for
    /// the flow's other packets too. Once false it stays so.
    pub is_pure: bool,
}

impl Default for Seen {
    fn default() -> Self {
        Self { arg: None, is_pure: true }
    }
}

/// At which hooks and for which families: a bit for each pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scope(u16);

impl Scope {
    const NOWHERE: Self = Self(0);

    const fn at(hook: Hook, is_ip4: bool) -> Self {
        Self(1 << (hook as u16 * 2 + is_ip4 as u16))
    }

    const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// At both families of a hook; frames without an IP packet have none.
    const fn hook(hook: Hook) -> Self {
        let is_of_frames = matches!(hook, Hook::Frame);
        Self::at(hook, !is_of_frames).with(Self::at(hook, false))
    }

    const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Hooks by families, and some that are not used.
const VIEWS: usize = 16;

/// The place of a hook and a family.
#[inline]
const fn view(hook: Hook, is_ip4: bool) -> usize {
    (hook as usize * 2 + is_ip4 as usize) % VIEWS
}

impl Ruleset {
    /// The first rule at position `from` or behind it that the packet matches: enabled, asked at this hook, and with a
    /// body that holds. What only the walk over the rules can know (chances, states) is left to it.
    #[inline]
    #[must_use]
    pub fn first(
        &self,
        info: &PktInfo,
        pkt: &Pkt,
        tables: &Tables,
        from: usize,
        seen: &mut Seen,
    ) -> Option<usize> {
        seen.arg = None;
        if info.hook == Hook::Frame {
            return self.first_of_frame(&Asked { info, pkt, tables }, from, seen);
        }
        let [tree, others @ ..] = self.forest.trees(info.hook, info.is_ip4) else { return None };
        let asked = Asked { info, pkt, tables };
        // Few rules are a leaf, to which no way leads.
        let is_leaf = others.is_empty() && tree.is_leaf();
        let point = if is_leaf { Point::NOWHERE } else { Point::of(info) };
        let from = u32::try_from(from).unwrap_or(u32::MAX);
        let first = self.first_of(tree, &point, from..u32::MAX, &asked, seen);
        let first =
            if others.is_empty() { first } else { self.before(first, others, &point, from, &asked, seen) };
        first.map(|at| at as usize)
    }

    /// [`Self::first`] for a frame without an IP packet.
    #[cold]
    fn first_of_frame(&self, asked: &Asked<'_>, from: usize, seen: &mut Seen) -> Option<usize> {
        let here = self.frames.iter().filter(|at| **at as usize >= from);
        for at in here.copied() {
            seen.arg = None;
            if self.program.holds_for_frame(at, asked, seen) {
                return Some(at as usize);
            }
        }
        seen.arg = None;
        None
    }

    /// The first rule of a tree in a range of positions that the packet matches.
    #[inline(always)]
    fn first_of(
        &self,
        tree: &Tree,
        point: &Point,
        range: Range<u32>,
        asked: &Asked<'_>,
        seen: &mut Seen,
    ) -> Option<u32> {
        for at in self.forest.rules(tree, point) {
            if *at < range.start {
                continue;
            }
            if *at >= range.end {
                break;
            }
            if self.program.holds(*at, asked, seen) {
                return Some(*at);
            }
            if seen.arg.is_some() {
                seen.arg = None;
            }
        }
        None
    }

    /// The first of what was found and of what the other trees say.
    #[inline(never)]
    fn before(
        &self,
        found: Option<u32>,
        trees: &[Tree],
        point: &Point,
        from: u32,
        asked: &Asked<'_>,
        seen: &mut Seen,
    ) -> Option<u32> {
        let mut best = found.unwrap_or(u32::MAX);
        let mut arg = seen.arg;
        for tree in trees {
            if tree.first >= best {
                break;
            }
            if let Some(at) = self.first_of(tree, point, from..best, asked, seen) {
                (best, arg) = (at, seen.arg);
            }
        }
        seen.arg = arg;
        (best != u32::MAX).then_some(best)
    }

    /// The position of the first rule from `from` on that looks for a state.
    #[inline]
    #[must_use]
    pub fn probe_from(&self, from: usize) -> Option<usize> {
        self.probes.from(from)
    }

    /// Returns the first state lookup without those for redirections.
    #[inline]
    #[must_use]
    pub fn named_probe_from(&self, from: usize) -> Option<usize> {
        self.probes.named_from(from)
    }

    /// Whether any rule redirects: then packets must be whole to be asked about.
    #[inline]
    #[must_use]
    pub const fn redirects(&self) -> bool {
        self.redirects
    }

    /// If the first that rules do about packets at this hook is to look for their states: among those of which name.
    #[inline]
    #[must_use]
    pub fn looks_first(&self, hook: Hook, is_ip4: bool) -> Option<FlowId> {
        self.looks_first[view(hook, is_ip4)]
    }

    /// Whether the rule at a position looks for the packet's state and is counted, whatever the packet is, and that is all.
    #[inline]
    pub(super) fn only_lists(&self, at: usize, info: &PktInfo) -> bool {
        let scope = Scope::at(info.hook, info.is_ip4);
        self.rules.get(at).is_some_and(|rule| rule.only_lists() && rule.scope.meets(scope))
    }

    fn finds_first(&self, scope: Scope) -> Option<FlowId> {
        let probe = self.probe_from(0)?;
        let before = self.rules.get(..probe).unwrap_or_default();
        let is_asked_first = !before.iter().any(|rule| rule.scope.meets(scope));
        is_asked_first.then(|| self.rules.get(probe).map(|rule| rule.flow)).flatten()
    }

    /// The rule at a position; `None` behind the last.
    #[inline]
    #[must_use]
    pub fn rule(&self, at: usize) -> Option<&Compiled> {
        self.rules.get(at)
    }

    /// Rules in all, also those of disabled sets.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there are none at all: only in a ruleset that was never compiled.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The position of the first rule with this number or a higher one.
    #[must_use]
    pub fn position_of_number(&self, number: Number) -> usize {
        self.rules.partition_point(|rule| rule.number < number)
    }

    /// Where a rule is now; `None` if it is gone. A rule of a disabled set is still there for its states.
    #[inline]
    #[must_use]
    pub fn by_id(&self, id: RuleId) -> Option<usize> {
        let (epoch, at) = (*self.places.get(usize::from(id.slot))?)?;
        (epoch == id.epoch).then_some(at as usize)
    }

    /// Whether all that a rule does about packets that hit its states is to let them pass: what
    /// [`Compiled::plain`] says, for each of these packets.
    #[inline]
    pub(super) fn passes(&self, id: RuleId) -> bool {
        self.passing.get(usize::from(id.slot)).is_some_and(|epoch| *epoch == u32::from(id.epoch) + 1)
    }

    /// Whether no packet can be affected at a hook: no rule is asked there, or the first that is lets everything pass
    /// and does nothing else. Then the hook is skipped.
    #[must_use]
    pub fn is_empty_at(&self, hook: Hook) -> bool {
        [true, false].into_iter().all(|is_ip4| {
            let scope = Scope::at(hook, is_ip4);
            self.rules.iter().find(|rule| rule.scope.meets(scope)).is_none_or(Compiled::only_passes)
        })
    }

    /// Bytes of what finds the rules that a packet can match.
    #[must_use]
    pub const fn index_bytes(&self) -> usize {
        self.forest.bytes()
    }

    /// Grows with each ruleset of the same list, and with each change of a table: what was derived from an older one is
    /// stale.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation + self.lookups.load(Ordering::Acquire)
    }
}

impl Compiled {
    fn redirects(&self) -> bool {
        matches!(self.action, Action::Redirect { .. }) && self.scope != Scope::NOWHERE
    }

    /// Whether it lets all packets pass, and nothing else.
    fn only_passes(&self) -> bool {
        self.action == Action::Allow && self.takes_all()
    }

    /// Whether it is a `check-state` for all packets, and nothing else.
    const fn only_lists(&self) -> bool {
        matches!(self.action, Action::CheckState(_)) && self.takes_all()
    }

    /// Whether all packets match it, and nothing is done but its action.
    const fn takes_all(&self) -> bool {
        let is_plain = self.prob.is_none() && self.log.is_none() && self.tag.is_none() && self.keep.is_none();
        is_plain && !self.no_offload && self.asks_nothing
    }
}

#[cfg(any(test, fuzzing))]
pub mod fuzz_bodies;
#[cfg(any(test, fuzzing))]
mod reference;
#[cfg(test)]
mod tests;
