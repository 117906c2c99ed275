//! The firewall of a host: rules as people write them, and what its CPUs share.

use std::sync::Arc;

use ipfw::Command;
use ipfw::command::{Nat64Config, NatConfig, Nptv6Config, Switch, TableCommand};
use ipfw::rule::Action;
use net::firewall::log::Amounts;
use net::firewall::nat::nptv6::Nptv6;
use net::firewall::nat::{nat64, spec};
use net::firewall::ruleset::Rules;
use net::firewall::state::{Limits, Loose, Settings};
use net::firewall::table::Lookups;
use net::firewall::{Shared, pipe};
use net::secret::Secret;
use net::tables::Tables;

/// The firewall of one host.
pub struct HostFirewall {
    /// Settings of states.
    pub settings: Settings,
    /// Global count of states.
    pub loose: Arc<Loose>,
    /// Counts of each `limit`.
    pub limits: Arc<Limits>,
    /// Bindings that each instance of NAT and NAT64 may have on a CPU; what [`spec::BINDINGS`] says if it is not said.
    pub bindings_max: Option<usize>,
    rules: Rules,
    lookups: Lookups,
    nat: Vec<(u16, NatConfig)>,
    nat64: Vec<(String, Nat64Config)>,
    prefixes: Vec<(String, Nptv6Config)>,
    pipes: pipe::Config,
    one_pass: bool,
    amounts: Arc<Amounts>,
}

/// Keys what tells flows apart: worlds are repeated.
const KEY: u128 = 7;

impl HostFirewall {
    /// Rules, pipes and instances that translate as in a file, and deny at their end, for a host of `cpus` CPUs with room for `tracks`
    /// groups that a `limit` counts.
    ///
    /// # Panics
    ///
    /// On a text that is wrong, or says something else.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a world without memory cannot be")]
    pub fn new(text: &str, cpus: u16, tracks: usize) -> Self {
        let mut firewall = Self {
            settings: Settings::default(),
            loose: Loose::new(cpus.into()),
            limits: Limits::new(&Secret::new(KEY), tracks),
            bindings_max: None,
            rules: Rules::new(Action::Deny),
            lookups: Lookups::new(KEY).expect("address space"),
            nat: Vec::new(),
            nat64: Vec::new(),
            prefixes: Vec::new(),
            pipes: pipe::Config::new(KEY),
            one_pass: true,
            amounts: Arc::new(Amounts::new().expect("address space")),
        };
        firewall.obey(text);
        firewall
    }

    /// Applies commands; the firewall is then to be set again.
    ///
    /// # Panics
    ///
    /// On a text that is wrong, or says something else.
    #[expect(clippy::panic, clippy::expect_used, reason = "a test that says nonsense is wrong")]
    pub fn obey(&mut self, text: &str) {
        let statements = ipfw::parse_file("rules", text).unwrap_or_else(|errors| panic!("{}", errors[0]));
        for statement in statements {
            match statement.command {
                Command::Add(rule) => _ = self.rules.add(rule).expect("room for rules"),
                Command::Delete { set, numbers } => {
                    _ = self.rules.delete(set, &numbers).expect("rules to delete");
                }
                Command::NatConfig { number, config } => self.nat.push((number, config)),
                Command::Nat64Create { name, config } => self.nat64.push((name, config)),
                Command::Nptv6Create { name, config } => self.prefixes.push((name, config)),
                Command::PipeConfig { number, config } => {
                    self.pipes.set_pipe(number, &config).expect("a pipe that can be");
                }
                Command::Table { name: Some(name), what: TableCommand::Create(spec) } => {
                    self.lookups.create(&name, &spec).expect("a table");
                }
                Command::Table { name: Some(name), what: TableCommand::Add(entries) } => {
                    self.lookups.add(&name, &entries, &Tables::default()).expect("entries");
                }
                Command::Switch { what: Switch::OnePass, on } => self.one_pass = on,
                other => panic!("worlds do not say this: {other:?}"),
            }
        }
    }

    /// Returns the shared part for the CPUs, with interfaces as they are.
    ///
    /// # Panics
    ///
    /// If an instance that translates cannot be.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test that says nonsense is wrong")]
    pub fn shared(&mut self, tables: &Tables) -> Shared {
        let max = self.bindings_max.unwrap_or(spec::BINDINGS);
        let nat = self.nat.iter().map(|(number, config)| {
            let mut spec = spec::Spec::new(*number, config, tables, KEY).expect("an instance");
            spec.max = max;
            Arc::new(spec)
        });
        let nat64 = self.nat64.iter().map(|(name, config)| {
            let mut spec = nat64::spec::Spec::new(name, config, KEY).expect("a prefix");
            spec.max = max;
            Arc::new(spec)
        });
        let prefixes = self
            .prefixes
            .iter()
            .map(|(name, config)| (name.clone(), Nptv6::new(config, tables).expect("prefixes")));
        Shared {
            nat: nat.collect(),
            rules: Arc::new(self.rules.compile(tables, &self.lookups)),
            one_pass: self.one_pass,
            nat64: nat64.collect(),
            prefixes: Arc::new(prefixes.collect()),
            pipes: Arc::new(self.pipes.clone()),
            settings: self.settings,
            loose: Arc::clone(&self.loose),
            limits: Arc::clone(&self.limits),
            amounts: Arc::clone(&self.amounts),
            is_enabled: true,
            is_verbose: false,
        }
    }
}
