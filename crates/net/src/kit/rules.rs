//! Rules for tests, as people write them.

use std::sync::Arc;

use ipfw::Command;
use ipfw::rule::Action;

use super::Bench;
use crate::firewall::Shared;
use crate::firewall::log::Amounts;
use crate::firewall::ruleset::Rules;
use crate::firewall::state::{Limits, Loose, Settings};
use crate::firewall::table::Lookups;
use crate::secret::Secret;

/// The rules of a text, and deny at their end.
pub(crate) fn rules(text: &str) -> Rules {
    let mut rules = Rules::new(Action::Deny);
    for statement in ipfw::parse_file("rules", text).unwrap_or_else(|errors| panic!("{}", errors[0])) {
        match statement.command {
            Command::Add(rule) => drop(rules.add(rule).unwrap()),
            other => panic!("not a rule: {other:?}"),
        }
    }
    rules
}

impl Bench {
    /// Puts these rules in force on all CPUs, in place of those before.
    pub(crate) fn set_rules(&mut self, rules: &mut Rules) {
        let tables = Arc::clone(&self.cpu().tables);
        let shared = Shared {
            rules: Arc::new(rules.compile(&tables, &Lookups::new(1).unwrap())),
            settings: Settings::default(),
            loose: Loose::new(self.netisrs.len()),
            limits: Limits::new(&Secret::new(11), 1 << 10),
            amounts: Arc::new(Amounts::new().unwrap()),
        };
        self.netisrs.iter_mut().for_each(|netisr| netisr.set_firewall(&shared));
    }
}
