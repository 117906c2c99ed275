//! The firewall of a host: rules as people write them, and what its CPUs share.

use std::sync::Arc;

use ipfw::Command;
use ipfw::command::{NatConfig, TableCommand};
use ipfw::rule::Action;
use net::firewall::log::Amounts;
use net::firewall::nat::{nat64, spec};
use net::firewall::ruleset::Rules;
use net::firewall::state::{Limits, Loose, Settings};
use net::firewall::table::Lookups;
use net::firewall::{Prefixes, Shared, pipe};
use net::secret::Secret;
use net::tables::Tables;

/// The firewall of one host.
pub struct Wall {
    /// What is set about states.
    pub settings: Settings,
    /// How many states all CPUs have together.
    pub loose: Arc<Loose>,
    /// How many of them each `limit` counts.
    pub limits: Arc<Limits>,
    rules: Rules,
    lookups: Lookups,
    nat: Vec<(u16, NatConfig)>,
    nat64: Vec<Arc<nat64::spec::Spec>>,
    amounts: Arc<Amounts>,
}

/// Keys what tells flows apart: worlds are repeated.
const KEY: u128 = 7;

impl Wall {
    /// Rules and instances of NAT as in a file, and deny at their end, for a host of `cpus` CPUs with room for `tracks`
    /// groups that a `limit` counts.
    ///
    /// # Panics
    ///
    /// On a text that is wrong, or says something else.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a world without memory cannot be")]
    pub fn new(text: &str, cpus: u16, tracks: usize) -> Self {
        let mut wall = Self {
            settings: Settings::default(),
            loose: Loose::new(cpus.into()),
            limits: Limits::new(&Secret::new(KEY), tracks),
            rules: Rules::new(Action::Deny),
            lookups: Lookups::new(KEY).expect("address space"),
            nat: Vec::new(),
            nat64: Vec::new(),
            amounts: Arc::new(Amounts::new().expect("address space")),
        };
        wall.obey(text);
        wall
    }

    /// Changes rules as a text says, for whom the wall is set up again.
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
                Command::Nat64Create { name, config } => {
                    self.nat64.push(Arc::new(nat64::spec::Spec::new(&name, &config, KEY).expect("a prefix")));
                }
                Command::Table { name: Some(name), what: TableCommand::Create(spec) } => {
                    self.lookups.create(&name, &spec).expect("a table");
                }
                Command::Table { name: Some(name), what: TableCommand::Add(entries) } => {
                    self.lookups.add(&name, &entries, &Tables::default()).expect("entries");
                }
                other => panic!("worlds do not say this: {other:?}"),
            }
        }
    }

    /// What the CPUs are given, with interfaces as they are.
    ///
    /// # Panics
    ///
    /// If an instance of NAT cannot be.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test that says nonsense is wrong")]
    pub fn shared(&mut self, tables: &Tables) -> Shared {
        let nat = self.nat.iter().map(|(number, config)| spec::Spec::new(*number, config, tables, KEY));
        Shared {
            nat: nat.map(|spec| Arc::new(spec.expect("an instance"))).collect(),
            rules: Arc::new(self.rules.compile(tables, &self.lookups)),
            one_pass: true,
            nat64: self.nat64.clone(),
            prefixes: Prefixes::default(),
            pipes: Arc::new(pipe::Config::new(KEY)),
            settings: self.settings,
            loose: Arc::clone(&self.loose),
            limits: Arc::clone(&self.limits),
            amounts: Arc::clone(&self.amounts),
            is_enabled: true,
            is_verbose: false,
        }
    }
}
