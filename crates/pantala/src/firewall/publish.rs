//! The firewall of the running stack: commands become another configuration, which becomes rules that all CPUs have.

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

use super::{Around, Batch, FirewallConfig, Refused};
use crate::api::Error;
use crate::config::Config;
use crate::daemon::control::Control;

/// Groups of states that limits count, on all CPUs together.
const TRACKS_MAX: usize = 1 << 16;

/// The firewall, as the control thread has it.
pub(crate) struct FirewallControl {
    pub(crate) config: FirewallConfig,
    pub(crate) common: Common,
    /// Whether the CPUs have a firewall at all: one that is not configured costs nothing.
    is_used: bool,
}

/// The state that all CPUs share, whatever the rules are.
pub(crate) struct Common {
    /// Keys what tells flows apart.
    key: u128,
    /// Log counts of rules.
    pub(crate) amounts: Arc<Amounts>,
    /// Global count of states.
    loose: Arc<Loose>,
    /// Counts of each `limit`.
    pub(crate) limits: Arc<Limits>,
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

impl FirewallControl {
    /// Without rules; everything passes.
    pub(crate) fn new(cpus: usize, key: u128) -> io::Result<Self> {
        let amounts = Arc::new(Amounts::new()?);
        let (config, loose) = (FirewallConfig::new(Action::Allow, key)?, Loose::new(cpus));
        let limits = Limits::new(&Secret::new(key), TRACKS_MAX);
        Ok(Self { config, common: Common { key, amounts, loose, limits }, is_used: false })
    }
}

impl Common {
    /// Compiles a configuration, this one's or another's, for the CPUs, with interfaces as they are.
    fn compile(&self, config: &mut FirewallConfig, tables: &Tables) -> Shared {
        config.lookups.resolve(tables);
        let switches = config.switches;
        Shared {
            rules: Arc::new(config.rules.compile(tables, &config.lookups)),
            amounts: Arc::clone(&self.amounts),
            is_enabled: switches.firewall,
            is_verbose: switches.verbose,
            one_pass: switches.one_pass,
            pipes: Arc::new(config.shapes.compiled().clone()),
            nat: self.instances(config, tables),
            nat64: self.crossings(config),
            prefixes: prefixes(config, tables),
            settings: config.states,
            loose: Arc::clone(&self.loose),
            limits: Arc::clone(&self.limits),
        }
    }

    /// Instances of NAT, with addresses as interfaces have them. One whose interface is not there translates nothing.
    fn instances(&self, config: &FirewallConfig, tables: &Tables) -> Vec<Arc<Spec>> {
        let made = config.nat.iter().map(|(number, config)| Spec::new(*number, config, tables, self.key));
        made.filter_map(Result::ok).map(Arc::new).collect()
    }

    /// Instances of NAT64.
    fn crossings(&self, config: &FirewallConfig) -> Vec<Arc<nat64::spec::Spec>> {
        let made = config.nat64.iter();
        made.filter_map(|(name, config)| nat64::spec::Spec::new(name, config, self.key))
            .map(Arc::new)
            .collect()
    }
}

/// Prefixes that are exchanged. One whose interface is not there translates nothing.
fn prefixes(config: &FirewallConfig, tables: &Tables) -> Prefixes {
    let made = config.prefixes.iter();
    let made = made.filter_map(|(name, config)| Some((name.clone(), Nptv6::new(config, tables).ok()?)));
    Arc::new(made.collect())
}

impl Control {
    /// Carries commands out, all or none.
    pub(crate) fn change_firewall(&mut self, statements: &[Statement]) -> Result<Batch, Why> {
        let counters = self.rule_counters()?;
        let counted = |rule: RuleId| sum(&counters, rule);
        let around = Around { tables: &self.tables, counted: &counted };
        let batch =
            self.firewall.config.run(statements, &around).map_err(|(line, why)| Why::Refused(line, why))?;
        self.firewall.is_used = true;
        if statements.iter().all(|statement| is_of_entries(&statement.command)) {
            let epoch = self.firewall.config.lookups.epoch();
            self.cpus.visit_all()?;
            self.firewall.config.lookups.retire(epoch);
        } else {
            self.publish_firewall()?;
        }
        batch.reset_log.iter().for_each(|rule| self.firewall.common.amounts.reset(*rule));
        Ok(batch)
    }

    /// The firewall that a configuration asks for, beside the one in force: rules that stay as they are stay the same. `None` if
    /// there is no firewall. What was made by hand stays if neither this configuration nor the last one has a firewall.
    pub(crate) fn next_firewall(&self, config: &Config) -> Result<Option<FirewallConfig>, String> {
        let running = &self.firewall.config;
        let firewall = match (&config.firewall, &self.config.firewall) {
            (None, None) => return self.same_firewall(),
            (firewall, _) => firewall.as_ref(),
        };
        let default = firewall.map_or(Action::Allow, |firewall| firewall.default.clone());
        let mut new =
            FirewallConfig::new(default, self.firewall.common.key).map_err(|why| why.to_string())?;
        let commands = firewall.map_or(&[][..], |firewall| &firewall.commands);
        if let Some(firewall) = firewall {
            new.states = firewall.states;
            new.switches.one_pass = firewall.one_pass;
            new.switches.verbose = firewall.verbose;
        }
        let around = Around { tables: &self.tables, counted: &|_| Counted::default() };
        new.run(commands, &around).map_err(|(line, refused)| format!("line {line}: {}", refused.why))?;
        new.succeed(running, commands, &self.tables).map(Some).map_err(|refused| refused.why)
    }

    /// The firewall in force, to be compiled for other interfaces; `None` if there is none.
    pub(crate) fn same_firewall(&self) -> Result<Option<FirewallConfig>, String> {
        if !self.firewall.is_used {
            return Ok(None);
        }
        self.firewall.config.copy(&self.tables).map(Some).map_err(|refused| refused.why)
    }

    /// Compiles a configuration for the netisrs, with these tables.
    pub(crate) fn compile_firewall(&self, config: &mut FirewallConfig, tables: &Tables) -> Shared {
        self.firewall.common.compile(config, tables)
    }

    /// Puts a configuration in the place of the one whose rules were in force: the netisrs have its rules.
    pub(crate) fn keep_firewall(&mut self, config: FirewallConfig) {
        self.firewall.config = config;
        self.firewall.is_used = true;
    }

    /// The rules for interfaces as they are now; `None` if there is no firewall.
    pub(crate) fn compile_rules(&mut self) -> Option<Shared> {
        self.firewall.is_used.then(|| self.compile_firewall_in_force())
    }

    /// Compiles the configuration in force for the netisrs.
    pub(crate) fn compile_firewall_in_force(&mut self) -> Shared {
        let FirewallControl { config, common, .. } = &mut self.firewall;
        common.compile(config, &self.tables)
    }

    /// Gives all CPUs the rules as they are now; returns when no CPU has the old ones any more.
    pub(crate) fn publish_firewall(&mut self) -> Result<(), Error> {
        let Some(shared) = self.compile_rules() else { return Ok(()) };
        let epoch = self.firewall.config.lookups.epoch();
        self.cpus.set_firewall(shared)?;
        self.firewall.config.lookups.retire(epoch);
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
    use net::firewall::state::{End, Flow, Limit, New, Seen, Settings, StateError, States};
    use net::time::Instant;

    use super::*;

    /// Makes a state of a source of its own.
    fn make(states: &mut States, source: u32, counters: &mut Counters) -> Result<(), StateError> {
        let mask = LimitMask { src_addr: true, ..LimitMask::default() };
        let ends = [End { addr: source.into(), port: 1 }, End { addr: 1, port: 53 }];
        let flow = Flow::new(true, 17, ends[0], ends[1]);
        let (hash, new) = (states.hash(&flow), New { limit: Some(Limit { mask, max: 9 }), ..New::default() });
        states.install(&flow, hash, new, &Seen::default(), Instant::START, counters).map(|_| ())
    }

    #[test]
    fn as_many_sources_are_counted_as_there_is_room_for_and_no_more() {
        let firewall = FirewallControl::new(1, 7).unwrap();
        let settings = Settings { track_max: 1 << 20, ..Settings::default() };
        let (loose, limits) = (Arc::clone(&firewall.common.loose), Arc::clone(&firewall.common.limits));
        let mut states = States::new(&Secret::new(7), settings, loose, limits, CpuId(0));
        let mut counters = Counters::default();
        let room = u32::try_from(TRACKS_MAX).unwrap();
        assert!((0..room).all(|source| make(&mut states, source, &mut counters).is_ok()));
        let refused = (room..5 * room)
            .filter(|source| make(&mut states, *source, &mut counters) == Err(StateError::Tracks))
            .count();
        assert!(refused > TRACKS_MAX, "{refused}");
        assert_eq!(counters.get(Count::TrackOverflow), refused as u64);
        assert!(make(&mut states, 0, &mut counters).is_ok(), "those that are counted go on");
    }
}
