//! The firewall as the control side has it: what commands edit, before packets see any of it.

use core::fmt;
use core::ops::RangeInclusive;
use std::collections::{BTreeMap, HashSet};
use std::io;

use super::source;
use ipfw::command::{Command, Nat64Config, NatConfig, Nptv6Config, SetCommand, Switch, TableCommand};
use ipfw::rule::{Action, Number, RULE_LAST, Rule, SETS};
use ipfw::{Error, Statement};
use net::firewall::nat::INSTANCES_MAX;
use net::firewall::nat::spec::{self, Spec};
use net::firewall::ruleset::{Counted, RuleId, Rules};
use net::firewall::state::Settings;
use net::firewall::table::Lookups;
use net::tables::Tables;
pub(crate) use pipes::Shapes;
use tables::Journal;

mod pipes;
mod tables;

/// Everything that commands change.
#[derive(Debug)]
pub(crate) struct FirewallConfig {
    pub(crate) rules: Rules,
    pub(crate) lookups: Lookups,
    /// Pipes and queues.
    pub(crate) shapes: Shapes,
    /// Instances of NAT, by number.
    pub(crate) nat: BTreeMap<u16, NatConfig>,
    /// Instances of NAT64, by name.
    pub(crate) nat64: BTreeMap<String, Nat64Config>,
    /// Prefixes that are exchanged, by name.
    pub(crate) prefixes: BTreeMap<String, Nptv6Config>,
    pub(crate) switches: Switches,
    /// Lifetimes and limits of states.
    pub(crate) states: Settings,
}

/// The context of commands, besides the configuration.
pub(crate) struct Around<'a> {
    /// Interfaces and addresses.
    pub(crate) tables: &'a Tables,
    /// Returns the counters of a rule.
    pub(crate) counted: &'a dyn Fn(RuleId) -> Counted,
}

/// The switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switches {
    /// Packets are asked about.
    pub(crate) firewall: bool,
    /// A packet that left a pipe or was translated is not asked about again.
    pub(crate) one_pass: bool,
    /// Rules with `log` are heard.
    pub(crate) verbose: bool,
}

impl Default for Switches {
    fn default() -> Self {
        Self { firewall: true, one_pass: true, verbose: true }
    }
}

/// The result of a batch of commands.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// Output of each command, empty for none.
    pub(crate) said: Vec<String>,
    /// Rules that may log again.
    pub(crate) reset_log: Vec<RuleId>,
}

/// Why a command cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) why: String,
    pub(crate) help: Option<String>,
}

impl Refused {
    fn new(why: impl fmt::Display, help: impl Into<String>) -> Self {
        Self { why: why.to_string(), help: Some(help.into()).filter(|help| !help.is_empty()) }
    }

    /// As an error of the text in which the command stood.
    pub(crate) fn at(self, name: &str, text: &str, line: u32) -> Error {
        Error { help: self.help, ..Error::of_line(ipfw::READER, name, text, line, self.why) }
    }
}

impl FirewallConfig {
    /// No rules but the default one. `key` keys what tells flows apart.
    pub(crate) fn new(default: Action, key: u128) -> io::Result<Self> {
        let (rules, lookups) = (Rules::new(default), Lookups::new(key)?);
        let shapes = Shapes::new(key);
        Ok(Self {
            rules,
            lookups,
            shapes,
            nat: BTreeMap::new(),
            nat64: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            switches: Switches::default(),
            states: Settings::default(),
        })
    }

    /// Carries out all of the statements, or with an error none; answers where that stands.
    pub(crate) fn run(
        &mut self,
        statements: &[Statement],
        around: &Around<'_>,
    ) -> Result<Batch, (u32, Refused)> {
        let (rules, shapes) = (self.rules.clone(), self.shapes.clone());
        let (nat, nat64, prefixes) = (self.nat.clone(), self.nat64.clone(), self.prefixes.clone());
        let (switches, states) = (self.switches, self.states);
        let (mut batch, mut journal) = (Batch::default(), Journal::default());
        for Statement { line, command } in statements {
            match self.carry_out(command, around, &mut batch, &mut journal) {
                Ok(said) => batch.said.push(said),
                Err(refused) => {
                    (self.rules, self.shapes) = (rules, shapes);
                    (self.nat, self.nat64, self.prefixes) = (nat, nat64, prefixes);
                    (self.switches, self.states) = (switches, states);
                    journal.undo(&mut self.lookups, around.tables);
                    return Err((*line, refused));
                }
            }
        }
        Ok(batch)
    }

    /// Replaces another configuration: a rule that stays as it is stays the same, and a table that `commands` do not fill
    /// keeps the entries that it has been given since.
    pub(crate) fn succeed(
        mut self,
        running: &Self,
        commands: &[Statement],
        tables: &Tables,
    ) -> Result<Self, Refused> {
        let refused = |why| Refused::new(why, "");
        let mut rules = running.rules.clone();
        for set in 0..SETS {
            rules.flush(Some(set)).map_err(refused)?;
        }
        for entry in self.rules.entries() {
            if entry.rule.number == RULE_LAST {
                rules.set_default(entry.rule.action.clone());
            } else {
                rules.add(entry.rule.clone()).map_err(refused)?;
            }
        }
        let disable = self.rules.disabled();
        rules.set(&SetCommand::Switch { disable, enable: !disable }).map_err(refused)?;
        let mut shapes = running.shapes.clone();
        shapes.adopt(&self.shapes)?;
        tables::inherit(&mut self.lookups, &running.lookups, commands, tables)
            .map_err(|why| Refused::new(why, ""))?;
        Ok(Self { rules, shapes, ..self })
    }

    /// Returns a copy with tables of its own.
    pub(crate) fn copy(&self, tables: &Tables) -> Result<Self, Refused> {
        let mut lookups = self.lookups.emptied().map_err(|why| Refused::new(why, ""))?;
        for name in self.lookups.names() {
            tables::copy(name, &self.lookups, &mut lookups, tables).map_err(|why| Refused::new(why, ""))?;
        }
        let Self { rules, shapes, nat, nat64, prefixes, switches, states, .. } = self;
        let (rules, shapes, nat) = (rules.clone(), shapes.clone(), nat.clone());
        let (nat64, prefixes) = (nat64.clone(), prefixes.clone());
        Ok(Self { rules, lookups, shapes, nat, nat64, prefixes, switches: *switches, states: *states })
    }

    /// Whether another configuration is equal.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        let rules =
            |config: &Self| config.rules.entries().iter().map(|entry| entry.rule.clone()).collect::<Vec<_>>();
        let shapes = |config: &Self| {
            let Self { shapes, .. } = config;
            (
                shapes.pipes().map(|(number, config)| (number, config.clone())).collect::<Vec<_>>(),
                shapes.queues().map(|(number, config)| (number, config.clone())).collect::<Vec<_>>(),
            )
        };
        (self.switches, self.states, self.rules.disabled())
            == (other.switches, other.states, other.rules.disabled())
            && (&self.nat, &self.nat64, &self.prefixes) == (&other.nat, &other.nat64, &other.prefixes)
            && rules(self) == rules(other)
            && shapes(self) == shapes(other)
            && tables::are_same(&self.lookups, &other.lookups)
    }

    fn carry_out(
        &mut self,
        command: &Command,
        around: &Around<'_>,
        batch: &mut Batch,
        journal: &mut Journal,
    ) -> Result<String, Refused> {
        let refused = |why| Refused::new(why, "");
        match command {
            _ if command.only_lists() => Err(listing_refused()),
            Command::Add(rule) => self.add(rule, journal),
            Command::Delete { set, numbers } => {
                self.rules.delete(*set, numbers).map_err(refused).map(|_| String::new())
            }
            Command::Flush { set } => {
                self.rules.flush(*set).map_err(refused)?;
                Ok(set.map_or_else(|| "Flushed all rules.".to_owned(), |set| format!("Flushed set {set}.")))
            }
            Command::Zero { set, numbers } => {
                self.rules.zero(*set, numbers, around.counted).map_err(refused)?;
                batch.reset_log.extend(self.rules.ids(*set, numbers).map_err(refused)?);
                Ok(each(numbers, "Accounting cleared.", "cleared"))
            }
            Command::ResetLog { set, numbers } => {
                batch.reset_log.extend(self.rules.ids(*set, numbers).map_err(refused)?);
                Ok(each(numbers, "Logging counts reset.", "logging count reset"))
            }
            Command::Switch { what, on } => {
                *self.switch(*what) = *on;
                Ok(String::new())
            }
            Command::Set(SetCommand::Show) | Command::List { .. } => Err(listing_refused()),
            Command::Table {
                what: TableCommand::List | TableCommand::Info | TableCommand::Lookup(_),
                ..
            } => Err(listing_refused()),
            Command::Table { name, what } => {
                let Self { rules, lookups, .. } = self;
                let what = (name.as_deref(), what);
                tables::carry_out(what, lookups, (rules, around.tables), journal).map(|()| String::new())
            }
            Command::Set(set) => self.rules.set(set).map_err(refused).map(|()| String::new()),
            Command::PipeConfig { .. }
            | Command::QueueConfig { .. }
            | Command::PipeDelete { .. }
            | Command::PipeFlush => self.shape(command),
            Command::NatConfig { number, config } => self.configure_nat(*number, config, around),
            Command::NatDelete(number) => {
                let missing = || Refused::new(format!("there is no nat {number}"), "");
                self.nat.remove(number).map(|_| String::new()).ok_or_else(missing)
            }
            Command::Nptv6Create { name, config } => create("nptv6", &mut self.prefixes, name, config),
            Command::Nptv6Destroy(name) => destroy("nptv6", &mut self.prefixes, name),
            Command::Nat64Create { name, config } => create("nat64lsn", &mut self.nat64, name, config),
            Command::Nat64Destroy(name) => destroy("nat64lsn", &mut self.nat64, name),
            Command::PipeShow { .. }
            | Command::NatShow { .. }
            | Command::Nptv6Show(_)
            | Command::Nat64Show(_) => Err(listing_refused()),
        }
    }

    /// Carries out what is about pipes and queues.
    fn shape(&mut self, command: &Command) -> Result<String, Refused> {
        match command {
            Command::PipeConfig { number, config } => self.shapes.set_pipe(*number, config)?,
            Command::QueueConfig { number, config } => self.shapes.set_queue(*number, config)?,
            Command::PipeDelete { number, queue } => self.shapes.delete(*number, *queue)?,
            _ => {
                self.shapes.flush();
                return Ok("Flushed all pipes and queues.".to_owned());
            }
        }
        Ok(String::new())
    }

    fn configure_nat(
        &mut self,
        number: u16,
        config: &NatConfig,
        around: &Around<'_>,
    ) -> Result<String, Refused> {
        match Spec::new(number, config, around.tables, 0) {
            // It may come later.
            Ok(_) | Err(spec::Error::NoInterface(_)) => {}
            Err(why) => return Err(Refused::new(why, "")),
        }
        if self.nat.len() >= INSTANCES_MAX && !self.nat.contains_key(&number) {
            return Err(Refused::new(format!("limit reached ({INSTANCES_MAX} instances of nat)"), ""));
        }
        self.nat.insert(number, config.clone());
        Ok(String::new())
    }

    fn add(&mut self, rule: &Rule, journal: &mut Journal) -> Result<String, Refused> {
        let before: HashSet<String> = self.lookups.names().map(str::to_owned).collect();
        let provided = self.lookups.provide(rule);
        let is_new = |name: &&str| !before.contains(*name);
        journal.made(self.lookups.names().filter(is_new).map(str::to_owned));
        provided.map_err(|why| Refused::new(why, ""))?;
        let number = self.rules.add(rule.clone()).map_err(|why| Refused::new(why, ""))?;
        Ok(format!("{number:05} {}", source::rule(rule)))
    }

    fn switch(&mut self, what: Switch) -> &mut bool {
        match what {
            Switch::Firewall => &mut self.switches.firewall,
            Switch::OnePass => &mut self.switches.one_pass,
            Switch::DynKeepalive => &mut self.states.keepalive,
            Switch::Verbose => &mut self.switches.verbose,
        }
    }
}

/// Makes an instance that has a name.
fn create<T: Clone>(
    kind: &str,
    all: &mut BTreeMap<String, T>,
    name: &str,
    config: &T,
) -> Result<String, Refused> {
    if all.contains_key(name) {
        return Err(Refused::new(
            format!("there is an instance {name} of {kind} already"),
            "destroy it first",
        ));
    }
    if all.len() >= INSTANCES_MAX {
        return Err(Refused::new(format!("limit reached ({INSTANCES_MAX} instances of {kind})"), ""));
    }
    all.insert(name.to_owned(), config.clone());
    Ok(String::new())
}

/// Takes one away.
fn destroy<T>(kind: &str, all: &mut BTreeMap<String, T>, name: &str) -> Result<String, Refused> {
    let missing = || Refused::new(format!("there is no {kind} {name}"), "");
    all.remove(name).map(|_| String::new()).ok_or_else(missing)
}

/// Why a command is refused that changes nothing.
pub(crate) fn listing_refused() -> Refused {
    Refused::new("this shows something, and changes nothing", "ask for it in a command of its own")
}

/// Applies a command to all rules, or to each of a list.
fn each(numbers: &[RangeInclusive<Number>], all: &str, one: &str) -> String {
    if numbers.is_empty() {
        return all.to_owned();
    }
    let line = |range: &RangeInclusive<Number>| match (range.start(), range.end()) {
        (from, to) if from == to => format!("Entry {from} {one}."),
        (from, to) => format!("Entries {from} to {to} {one}."),
    };
    numbers.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
