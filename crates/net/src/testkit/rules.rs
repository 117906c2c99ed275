//! Rules for tests, as people write them.

use core::net::IpAddr;
use std::sync::Arc;

use ipfw::Command;
use ipfw::command::{Nat64Config, NatConfig, Nptv6Config, Switch, TableCommand, TableEntry, TableKey};
use ipfw::rule::{Action, TableArg};

use super::Bench;
use crate::base::secret::Secret;
use crate::firewall::Shared;
use crate::firewall::log::Amounts;
use crate::firewall::nat::nat64;
use crate::firewall::nat::nptv6::Nptv6;
use crate::firewall::nat::spec::Spec;
use crate::firewall::pipe;
use crate::firewall::ruleset::Rules;
use crate::firewall::state::{Limits, Loose, Settings};
use crate::firewall::table::Lookups;
use crate::link::tables::Tables;

/// Commands of a firewall.
pub(crate) struct Script {
    /// The rules, and deny at their end.
    pub(crate) rules: Rules,
    /// Settings of states.
    pub(crate) settings: Settings,
    pipes: pipe::Config,
    lookups: Lookups,
    nat: Vec<(u16, NatConfig)>,
    nat64: Vec<(String, Nat64Config)>,
    prefixes: Vec<(String, Nptv6Config)>,
    one_pass: bool,
}

/// Parses the rules of a text.
pub(crate) fn rules(text: &str) -> Script {
    let mut script = Script {
        rules: Rules::new(Action::Deny),
        settings: Settings::default(),
        pipes: pipe::Config::new(7),
        lookups: Lookups::new(7).unwrap(),
        nat: Vec::new(),
        nat64: Vec::new(),
        prefixes: Vec::new(),
        one_pass: true,
    };
    for statement in ipfw::parse_file("rules", text).unwrap_or_else(|errors| panic!("{}", errors[0])) {
        script.obey(statement.command);
    }
    script
}

impl Script {
    /// Puts an address into a table, or takes it out if it is in: in force at once.
    pub(crate) fn turn_in_table(&mut self, name: &str, addr: IpAddr) {
        let len = if addr.is_ipv4() { 32 } else { 128 };
        let key = TableKey::Addr { addr, len };
        if self.lookups.delete(name, core::slice::from_ref(&key)).is_err() {
            let entry = TableEntry { key, value: TableArg::Number(1) };
            self.lookups.add(name, &[entry], &Tables::default()).unwrap();
        }
    }

    /// Returns the shared part for these tables.
    pub(crate) fn shared(&mut self, tables: &Tables, cpus: usize) -> Shared {
        let Self { rules, lookups, pipes, nat, nat64, prefixes, settings, one_pass } = self;
        let nat = nat.iter().map(|(number, config)| Spec::new(*number, config, tables, 5));
        let nat64 = nat64.iter().map(|(name, config)| nat64::spec::Spec::new(name, config, 5));
        let prefixes =
            prefixes.iter().map(|(name, config)| (name.clone(), Nptv6::new(config, tables).unwrap()));
        Shared {
            rules: Arc::new(rules.compile(tables, lookups)),
            one_pass: *one_pass,
            nat: nat.map(|spec| Arc::new(spec.unwrap())).collect(),
            nat64: nat64.map(|spec| Arc::new(spec.unwrap())).collect(),
            prefixes: Arc::new(prefixes.collect()),
            pipes: Arc::new(pipes.clone()),
            settings: *settings,
            loose: Loose::new(cpus),
            limits: Limits::new(&Secret::new(11), 1 << 10),
            amounts: Arc::new(Amounts::new().unwrap()),
            is_enabled: true,
            is_verbose: true,
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Add(rule) => {
                self.lookups.provide(&rule).unwrap();
                self.rules.add(rule).unwrap();
            }
            Command::Table { name: Some(name), what: TableCommand::Create(spec) } => {
                self.lookups.create(&name, &spec).unwrap();
            }
            Command::Table { name: Some(name), what: TableCommand::Add(entries) } => {
                self.lookups.add(&name, &entries, &Tables::default()).unwrap();
            }
            Command::NatConfig { number, config } => self.nat.push((number, config)),
            Command::Nat64Create { name, config } => self.nat64.push((name, config)),
            Command::Nptv6Create { name, config } => self.prefixes.push((name, config)),
            Command::PipeConfig { number, config } => self.pipes.set_pipe(number, &config).unwrap(),
            Command::QueueConfig { number, config } => self.pipes.set_queue(number, &config).unwrap(),
            Command::Switch { what: Switch::OnePass, on } => self.one_pass = on,
            other => panic!("tests do not say this: {other:?}"),
        }
    }
}

impl Bench {
    /// Puts these rules in force on all CPUs, in place of those before.
    pub(crate) fn set_rules(&mut self, script: &mut Script) {
        let tables = Arc::clone(&self.cpu().tables);
        let shared = script.shared(&tables, self.netisrs.len());
        self.netisrs.iter_mut().for_each(|netisr| netisr.set_firewall(&shared));
    }
}
