//! The firewall of the running stack: commands become another book, the book becomes rules that all CPUs have.

use std::io;
use std::sync::Arc;

use ipfw::command::TableCommand;
use ipfw::rule::Action;
use ipfw::{Command, Statement};
use net::firewall::log::Amounts;
use net::firewall::nat::nat64;
use net::firewall::nat::nptv6::Nptv6;
use net::firewall::nat::spec::Spec;
use net::firewall::ruleset::{Counted, RuleId, sum};
use net::firewall::state::{Limits, Loose};
use net::firewall::{Prefixes, Shared};
use net::secret::Secret;
use net::tables::Tables;

use super::control::Control;
use super::log;
use crate::api::{Error, ErrorKind};
use crate::config;
use crate::firewall::{Around, Batch, Book, Refused};

/// Groups of states that limits count, on all CPUs together.
const TRACKS_MAX: usize = 1 << 16;

/// The firewall, as the control thread has it.
pub(crate) struct Wall {
    pub(crate) book: Book,
    /// Keys what tells flows apart.
    key: u128,
    /// How often rules have logged, for all CPUs.
    pub(crate) amounts: Arc<Amounts>,
    /// How many states all CPUs have together.
    loose: Arc<Loose>,
    /// How many of them each `limit` counts.
    pub(crate) limits: Arc<Limits>,
    /// Whether the CPUs have a firewall at all: one that nobody asked for costs nothing.
    is_used: bool,
}

/// Why a batch was not carried out.
pub(crate) enum Why {
    /// This command, on this line, cannot be.
    Refused(u32, Refused),
    /// The netisrs do not answer.
    Failed(Error),
}

impl From<Error> for Why {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Wall {
    /// Without rules; everything passes.
    pub(crate) fn new(cpus: usize, key: u128) -> io::Result<Self> {
        let amounts = Arc::new(Amounts::new()?);
        let (book, loose) = (Book::new(Action::Allow, key)?, Loose::new(cpus));
        let limits = Limits::new(&Secret::new(key), TRACKS_MAX);
        Ok(Self { book, key, amounts, loose, limits, is_used: false })
    }

    /// What the CPUs are given, with interfaces as they are.
    fn compile(&mut self, tables: &Tables) -> Shared {
        let switches = self.book.switches;
        Shared {
            rules: Arc::new(self.book.rules.compile(tables, &self.book.lookups)),
            amounts: Arc::clone(&self.amounts),
            is_enabled: switches.firewall,
            is_verbose: switches.verbose,
            one_pass: switches.one_pass,
            pipes: Arc::new(self.book.shapes.compiled().clone()),
            nat: self.instances(tables),
            nat64: self.crossings(),
            prefixes: self.prefixes(tables),
            settings: self.book.states,
            loose: Arc::clone(&self.loose),
            limits: Arc::clone(&self.limits),
        }
    }
}

impl Wall {
    /// Instances of NAT, with addresses as interfaces have them. One whose interface is not there translates nothing.
    fn instances(&self, tables: &Tables) -> Vec<Arc<Spec>> {
        let made = self.book.nat.iter().map(|(number, config)| Spec::new(*number, config, tables, self.key));
        made.filter_map(Result::ok).map(Arc::new).collect()
    }

    /// Instances of NAT64.
    fn crossings(&self) -> Vec<Arc<nat64::spec::Spec>> {
        let made = self.book.nat64.iter();
        made.filter_map(|(name, config)| nat64::spec::Spec::new(name, config, self.key))
            .map(Arc::new)
            .collect()
    }

    /// Prefixes that are exchanged; the same holds for them.
    fn prefixes(&self, tables: &Tables) -> Prefixes {
        let made = self.book.prefixes.iter();
        let made = made.filter_map(|(name, config)| Some((name.clone(), Nptv6::new(config, tables).ok()?)));
        Arc::new(made.collect())
    }
}

impl Control {
    /// Carries commands out, all or none.
    pub(super) fn change_firewall(&mut self, statements: &[Statement]) -> Result<Batch, Why> {
        let counters = self.rule_counters()?;
        let counted = |rule: RuleId| sum(&counters, rule);
        let around = Around { tables: &self.tables, counted: &counted };
        let batch = self.wall.book.run(statements, &around).map_err(|(line, why)| Why::Refused(line, why))?;
        self.wall.is_used = true;
        if statements.iter().all(|statement| is_of_entries(&statement.command)) {
            let epoch = self.wall.book.lookups.epoch();
            self.cpus.visit_all()?;
            self.wall.book.lookups.retire(epoch);
        } else {
            self.publish_firewall()?;
        }
        batch.reset_log.iter().for_each(|rule| self.wall.amounts.reset(*rule));
        Ok(batch)
    }

    /// Puts the configured firewall in force, or none: rules that stay as they are stay the same.
    pub(super) fn configure_firewall(&mut self, firewall: Option<&config::Firewall>) -> Result<(), Error> {
        let failed = |why: String| Error::new(ErrorKind::Failed, format!("the firewall: {why}"));
        let default = firewall.map_or(Action::Allow, |firewall| firewall.default.clone());
        let mut new = Book::new(default, self.wall.key).map_err(|why| failed(why.to_string()))?;
        if let Some(firewall) = firewall {
            firewall.warnings.iter().for_each(|warning| log::warning(warning));
            new.states = firewall.states;
            new.switches.one_pass = firewall.one_pass;
            new.switches.verbose = firewall.verbose;
            let around = Around { tables: &self.tables, counted: &|_| Counted::default() };
            let done = new.run(&firewall.commands, &around);
            done.map_err(|(line, refused)| failed(format!("line {line}: {}", refused.why)))?;
            self.wall.is_used = true;
        }
        self.wall.book.adopt(&new, &self.tables).map_err(|refused| failed(refused.why))?;
        self.publish_firewall()
    }

    /// Gives all CPUs the rules as they are now; returns when no CPU has the old ones any more.
    pub(super) fn publish_firewall(&mut self) -> Result<(), Error> {
        if !self.wall.is_used {
            return Ok(());
        }
        self.wall.book.lookups.resolve(&self.tables);
        let epoch = self.wall.book.lookups.epoch();
        let shared = self.wall.compile(&self.tables);
        self.cpus.set_firewall(shared)?;
        self.wall.book.lookups.retire(epoch);
        Ok(())
    }
}

/// Whether a command changes nothing but entries of a table, which packets see without other rules.
const fn is_of_entries(command: &Command) -> bool {
    use TableCommand::{Add, Delete, Flush};
    matches!(command, Command::Table { what: Add(_) | Delete(_) | Flush, .. })
}

#[cfg(test)]
mod tests {
    use ipfw::rule::LimitMask;
    use net::count::{Count, Counters};
    use net::cpu::CpuId;
    use net::firewall::state::{End, Flow, Limit, New, Refused, Seen, Settings, States};
    use net::time::Instant;

    use super::*;

    /// Makes a state of a source of its own.
    fn make(states: &mut States, source: u32, counters: &mut Counters) -> Result<(), Refused> {
        let mask = LimitMask { src_addr: true, ..LimitMask::default() };
        let ends = [End { addr: source.into(), port: 1 }, End { addr: 1, port: 53 }];
        let flow = Flow::new(true, 17, ends[0], ends[1]);
        let (hash, new) = (states.hash(&flow), New { limit: Some(Limit { mask, max: 9 }), ..New::default() });
        states.install(&flow, hash, new, &Seen::default(), Instant::START, counters).map(|_| ())
    }

    #[test]
    fn as_many_sources_are_counted_as_there_is_room_for_and_no_more() {
        let wall = Wall::new(1, 7).unwrap();
        let settings = Settings { track_max: 1 << 20, ..Settings::default() };
        let (loose, limits) = (Arc::clone(&wall.loose), Arc::clone(&wall.limits));
        let mut states = States::new(&Secret::new(7), settings, loose, limits, CpuId(0));
        let mut counters = Counters::default();
        let room = u32::try_from(TRACKS_MAX).unwrap();
        assert!((0..room).all(|source| make(&mut states, source, &mut counters).is_ok()));
        let refused = (room..5 * room)
            .filter(|source| make(&mut states, *source, &mut counters) == Err(Refused::Tracks))
            .count();
        assert!(refused > TRACKS_MAX, "{refused}");
        assert_eq!(counters.get(Count::TrackOverflow), refused as u64);
        assert!(make(&mut states, 0, &mut counters).is_ok(), "those that are counted go on");
    }
}
