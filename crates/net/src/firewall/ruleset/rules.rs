//! The list of rules that people edit.

use core::fmt;
use core::net::IpAddr;
use core::ops::RangeInclusive;
use std::collections::BTreeMap;

use ipfw::command::SetCommand;
use ipfw::rule::{Action, Flow, NUMBER_STEP, Number, RULE_LAST, Rule, SETS};

use super::slots::Slots;
use super::{Counted, FlowId, RuleId, Ruleset, lower};
use crate::firewall::table::Lookups;
use crate::link::tables::Tables;

/// Rules in one list, the last one included; those that a change replaced count until it is compiled.
pub const RULES_MAX: usize = 65535;
/// Names of sets of states. A name once used is kept: states remember its number.
const FLOWS_MAX: usize = 65533;
/// The set that cannot be disabled, and that `flush` leaves alone.
const SET_LAST: u8 = SETS - 1;

/// All rules, in the order in which packets meet them.
///
/// A change of several steps that must be seen as one is made on a clone, which takes the list's place. Nothing is
/// seen by packets before [`Rules::compile`] and its ruleset.
#[derive(Clone, Debug)]
pub struct Rules {
    /// By number, and those with the same in the order of their arrival. The last is the default rule.
    list: Vec<Entry>,
    /// Deleted since the last compilation, by number: a rule that is added again as it was is still the same.
    ended: BTreeMap<Number, Vec<Entry>>,
    slots: Slots,
    /// Bit n: the rules of set n are not asked.
    disabled: u32,
    flows: Vec<String>,
    generation: u64,
}

/// A rule of the list.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The rule; its number is set.
    pub rule: Rule,
    /// Identity.
    pub id: RuleId,
    /// Which sets of states it means, if it means any.
    pub flow: FlowId,
    /// Counters at the last `zero`.
    pub zeroed: Counted,
}

/// Why a change of the rules is refused. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// There are [`RULES_MAX`] rules.
    TooManyRules,
    /// The number belongs to the default rule.
    NumberOfDefault,
    /// There is no such set.
    NoSuchSet(u8),
    /// It belongs to the default rule's set, which cannot be disabled.
    SetOfDefault,
    /// No rule has this number, or one of these.
    NoSuchRule(RangeInclusive<Number>),
    /// There are too many names of sets of states.
    TooManyFlows,
    /// A rule with `rdr` that makes states besides its own.
    RedirectKeeps,
    /// `rdr` to what is no host's address.
    RedirectNowhere,
}

impl Rules {
    /// A list with nothing but the default rule, which does this with what no other rule matched.
    #[must_use]
    pub fn new(default: Action) -> Self {
        let mut slots = Slots::default();
        let id = slots.take().unwrap_or_default();
        let list = vec![Entry::new(default_rule(default), id, FlowId::DEFAULT)];
        let (ended, flows) = (BTreeMap::new(), Vec::new());
        Self { list, ended, slots, disabled: 0, flows, generation: 0 }
    }

    /// All rules; the last is the default one.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.list
    }

    /// Bit n: the rules of set n are not asked.
    #[must_use]
    pub const fn disabled(&self) -> u32 {
        self.disabled
    }

    /// The name of a set of states; `None` for those without a name, and for all.
    #[must_use]
    pub fn flow_name(&self, flow: FlowId) -> Option<&str> {
        self.flows.get(usize::from(flow.0).checked_sub(1)?).map(String::as_str)
    }

    /// Goes on in place of another list, a clone of this one, whose ruleset was in force for a moment: no rule to come is taken
    /// for one of that, by states or counters.
    pub fn resume_after(&mut self, other: &Self) {
        self.slots.skip(&other.slots);
        self.generation = self.generation.max(other.generation);
    }

    /// Changes what becomes of what no rule matched.
    pub fn set_default(&mut self, action: Action) {
        if let Some(last) = self.list.last_mut() {
            last.rule.action = action;
        }
    }

    /// Adds a rule behind those with the same number, and answers the number that it has got.
    ///
    /// # Errors
    ///
    /// [`Error::NumberOfDefault`], [`Error::NoSuchSet`], [`Error::TooManyRules`], [`Error::TooManyFlows`].
    pub fn add(&mut self, mut rule: Rule) -> Result<Number, Error> {
        if rule.number == RULE_LAST {
            return Err(Error::NumberOfDefault);
        }
        check_set(rule.set)?;
        check_action(&rule)?;
        if rule.number == 0 {
            rule.number = self.next_number();
        }
        let (number, flow) = (rule.number, self.flow(&rule)?);
        let entry = match self.revive(&rule) {
            Some(entry) => entry,
            None => Entry::new(rule, self.slots.take().ok_or(Error::TooManyRules)?, flow),
        };
        let at = self.list.partition_point(|entry| entry.rule.number <= number);
        self.list.insert(at, entry);
        Ok(number)
    }

    /// So much more than the highest, or the same if there is no room for a step.
    fn next_number(&self) -> Number {
        let highest = self.list.iter().rev().nth(1).map_or(0, |entry| entry.rule.number);
        highest.checked_add(NUMBER_STEP).filter(|number| *number < RULE_LAST).unwrap_or(highest)
    }

    /// A rule that was just deleted and comes back as it was.
    fn revive(&mut self, rule: &Rule) -> Option<Entry> {
        let ended = self.ended.get_mut(&rule.number)?;
        let at = ended.iter().position(|entry| entry.rule == *rule)?;
        Some(ended.remove(at))
    }

    fn flow(&mut self, rule: &Rule) -> Result<FlowId, Error> {
        let flow = match (&rule.action, &rule.keep) {
            (Action::CheckState(flow), _) => flow,
            (Action::Redirect { .. }, _) => return Ok(FlowId::REDIRECT),
            (_, Some(keep)) => &keep.flow,
            _ => return Ok(FlowId::DEFAULT),
        };
        let name = match flow {
            Flow::Default => return Ok(FlowId::DEFAULT),
            Flow::Any => return Ok(FlowId::ANY),
            Flow::Named(name) => name,
        };
        let at = match self.flows.iter().position(|known| known == name) {
            Some(at) => at,
            None if self.flows.len() >= FLOWS_MAX => return Err(Error::TooManyFlows),
            None => {
                self.flows.push(name.clone());
                self.flows.len() - 1
            }
        };
        u16::try_from(at + 1).map(FlowId).map_err(|_| Error::TooManyFlows)
    }

    /// Deletes the rules with these numbers, of this set alone if one is named; without numbers all of the set.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRule`] if one of the ranges names none, [`Error::NumberOfDefault`] if one names nothing but the
    /// default rule, [`Error::NoSuchSet`].
    pub fn delete(&mut self, set: Option<u8>, numbers: &[RangeInclusive<Number>]) -> Result<usize, Error> {
        set.map_or(Ok(()), check_set)?;
        let of_set = |entry: &Entry| set.is_none_or(|set| entry.rule.set == set);
        for range in numbers {
            if *range.start() == RULE_LAST {
                return Err(Error::NumberOfDefault);
            }
            let is_named = |entry: &&Entry| of_set(entry) && range.contains(&entry.rule.number);
            if !self.edited().any(|entry| is_named(&entry)) {
                return Err(Error::NoSuchRule(range.clone()));
            }
        }
        let all = numbers.is_empty() && set.is_some();
        let is_named = |number: Number| all || numbers.iter().any(|range| range.contains(&number));
        Ok(self.end(|entry| of_set(entry) && is_named(entry.rule.number)))
    }

    /// Deletes the rules of a set, or all but those of set 31; answers how many.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchSet`].
    pub fn flush(&mut self, set: Option<u8>) -> Result<usize, Error> {
        set.map_or(Ok(()), check_set)?;
        Ok(self.end(|entry| set.map_or(entry.rule.set != SET_LAST, |set| entry.rule.set == set)))
    }

    /// Counters of these rules begin at zero again, of all without numbers; `counted` says what a rule has matched so far.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRule`], [`Error::NoSuchSet`].
    pub fn zero(
        &mut self,
        set: Option<u8>,
        numbers: &[RangeInclusive<Number>],
        counted: impl Fn(RuleId) -> Counted,
    ) -> Result<(), Error> {
        self.named(set, numbers)?.for_each(|entry| entry.zeroed = counted(entry.id));
        Ok(())
    }

    /// These rules, all without numbers.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchRule`], [`Error::NoSuchSet`].
    pub fn ids(&mut self, set: Option<u8>, numbers: &[RangeInclusive<Number>]) -> Result<Vec<RuleId>, Error> {
        Ok(self.named(set, numbers)?.map(|entry| entry.id).collect())
    }

    fn named(
        &mut self,
        set: Option<u8>,
        numbers: &[RangeInclusive<Number>],
    ) -> Result<impl Iterator<Item = &mut Entry>, Error> {
        set.map_or(Ok(()), check_set)?;
        let of_set = move |entry: &Entry| set.is_none_or(|set| entry.rule.set == set);
        for range in numbers {
            let is_named = |entry: &Entry| of_set(entry) && range.contains(&entry.rule.number);
            if !self.list.iter().any(is_named) {
                return Err(Error::NoSuchRule(range.clone()));
            }
        }
        let is_named = move |entry: &&mut Entry| {
            let number = entry.rule.number;
            of_set(entry) && (numbers.is_empty() || numbers.iter().any(|range| range.contains(&number)))
        };
        Ok(self.list.iter_mut().filter(is_named))
    }

    /// All rules but the default one.
    fn edited(&self) -> impl Iterator<Item = &Entry> {
        self.list.iter().filter(|entry| entry.rule.number != RULE_LAST)
    }

    fn end(&mut self, is_to_go: impl Fn(&Entry) -> bool) -> usize {
        let go = |entry: &mut Entry| entry.rule.number != RULE_LAST && is_to_go(entry);
        let gone: Vec<_> = self.list.extract_if(.., go).collect();
        let count = gone.len();
        for entry in gone {
            self.ended.entry(entry.rule.number).or_default().push(entry);
        }
        count
    }

    /// Disables, enables, moves or swaps sets.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchSet`], [`Error::SetOfDefault`], [`Error::NoSuchRule`].
    pub fn set(&mut self, command: &SetCommand) -> Result<(), Error> {
        match *command {
            SetCommand::Switch { disable, .. } if disable >> SET_LAST & 1 != 0 => {
                return Err(Error::SetOfDefault);
            }
            SetCommand::Switch { disable, enable } => self.disabled = (self.disabled | disable) & !enable,
            SetCommand::MoveRule { number, to } => {
                check_set(to)?;
                if number == RULE_LAST {
                    return Err(Error::NumberOfDefault);
                }
                if !self.edited().any(|entry| entry.rule.number == number) {
                    return Err(Error::NoSuchRule(number..=number));
                }
                self.renumber_sets(|rule| if rule.number == number { to } else { rule.set });
            }
            SetCommand::Move { from, to } => {
                check_set(from).and_then(|()| check_set(to))?;
                self.renumber_sets(|rule| if rule.set == from { to } else { rule.set });
            }
            SetCommand::Swap(a, b) => {
                check_set(a).and_then(|()| check_set(b))?;
                let other = |set| if set == a { b } else { a };
                self.renumber_sets(
                    |rule| {
                        if rule.set == a || rule.set == b { other(rule.set) } else { rule.set }
                    },
                );
            }
            SetCommand::Show => {}
        }
        Ok(())
    }

    fn renumber_sets(&mut self, set_of: impl Fn(&Rule) -> u8) {
        for entry in self.list.iter_mut().filter(|entry| entry.rule.number != RULE_LAST) {
            entry.rule.set = set_of(&entry.rule);
        }
    }

    /// Compiles the rules. Interfaces and addresses are those of `tables`; when they change, so must the
    /// ruleset. Tables that rules ask are those of `lookups`: their entries may change, but when one comes, goes or is
    /// swapped, so must the ruleset. One that is not there ([`Lookups::provide`]) has no entries.
    #[must_use]
    pub fn compile(&mut self, tables: &Tables, lookups: &Lookups) -> Ruleset {
        let ended = core::mem::take(&mut self.ended);
        ended.into_values().flatten().for_each(|entry| self.slots.give(entry.id));
        self.generation += 1;
        lower::lower(&self.list, self.disabled, self.generation, tables, lookups)
    }
}

impl Entry {
    fn new(rule: Rule, id: RuleId, flow: FlowId) -> Self {
        Self { rule, id, flow, zeroed: Counted::default() }
    }
}

fn check_set(set: u8) -> Result<(), Error> {
    if set < SETS { Ok(()) } else { Err(Error::NoSuchSet(set)) }
}

/// Refuses an unsupported action while the user is there to read the error.
const fn check_action(rule: &Rule) -> Result<(), Error> {
    match &rule.action {
        Action::Redirect { .. } if rule.keep.is_some() => Err(Error::RedirectKeeps),
        Action::Redirect { to, .. } if is_nobody(*to) => Err(Error::RedirectNowhere),
        _ => Ok(()),
    }
}

/// Whether an address is no host's.
const fn is_nobody(addr: IpAddr) -> bool {
    let is_broadcast = matches!(addr, IpAddr::V4(addr) if addr.is_broadcast());
    addr.is_unspecified() || addr.is_multicast() || is_broadcast
}

const fn default_rule(action: Action) -> Rule {
    Rule {
        number: RULE_LAST,
        set: SET_LAST,
        prob: None,
        action,
        log: None,
        tag: None,
        body: Vec::new(),
        keep: None,
        no_offload: false,
        comment: None,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyRules => write!(f, "limit reached ({RULES_MAX} rules)"),
            Self::NumberOfDefault => write!(f, "rule {RULE_LAST} is the default rule, which stays as it is"),
            Self::NoSuchSet(set) => write!(f, "there is no set {set}: they are numbered 0 to {SET_LAST}"),
            Self::SetOfDefault => write!(f, "set {SET_LAST} cannot be disabled"),
            Self::NoSuchRule(range) if range.start() == range.end() => {
                write!(f, "there is no rule {}", range.start())
            }
            Self::NoSuchRule(range) => {
                write!(f, "there is no rule from {} to {}", range.start(), range.end())
            }
            Self::RedirectKeeps => {
                write!(
                    f,
                    "`rdr` remembers its flows by itself: `keep-state` and `limit` belong to a rule behind it"
                )
            }
            Self::RedirectNowhere => write!(f, "`rdr` needs the address of a host"),
            Self::TooManyFlows => write!(f, "more than {FLOWS_MAX} names of states"),
        }
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests;
