//! `ipfw`.

use std::time::{SystemTime, UNIX_EPOCH};

use ipfw::Statement;
use net::firewall::Firewall;
use net::firewall::ruleset::{Entry, RuleCountersReader, sum};
use net::firewall::state::Settings;
use net::netisr::Netisr;
use net::time::Instant;

use super::publish::Why;
use super::{source, text};
use crate::api::firewall::{Filter, FirewallSnapshot};
use crate::api::{
    Error, FirewallBindings, FirewallCommands, FirewallDone, FirewallFlows, FirewallLog, FirewallNat,
    FirewallNat64, FirewallPrefixes, FirewallRule, FirewallSetting, FirewallShapes, FirewallStates,
    FirewallStatus, FirewallTable, FirewallTableEntry, FirewallTablePage, FirewallTracks,
};
use crate::daemon::control::Control;
use crate::daemon::report::{FirewallReport, Report};

mod log;
mod nat;
mod page;
mod pipes;
mod states;
mod tables;

/// Prefix of ipfw's settings.
const PREFIX: &str = "net.inet.ip.fw.";

impl Filter for Control {
    fn run_commands(&mut self, commands: &FirewallCommands) -> Result<Vec<FirewallDone>, Error> {
        let FirewallCommands { name, text } = commands;
        let statements = text::parse(name, text).map_err(|mistakes| Error::of_text(&mistakes))?;
        let batch = self.change_firewall(&statements).map_err(|why| match why {
            Why::Refused(line, refused) => Error::of_text(&[refused.at(name, text, line)]),
            Why::Failed(error) => error,
        })?;
        let done = |(statement, output): (&Statement, String)| {
            let warning = source::missing(&statement.command, |name| self.tables.ifnet_named(name).is_some());
            let warning =
                warning.or_else(|| source::missing_pipe(&statement.command, &self.firewall.config.shapes));
            FirewallDone { line: statement.line, output, warning: warning.unwrap_or_default() }
        };
        Ok(statements.iter().zip(batch.said).map(done).collect())
    }

    fn firewall_status(&mut self) -> Result<FirewallStatus, Error> {
        Ok(self.status(&self.cpus.reports()?))
    }

    fn firewall_rules(&mut self) -> Result<Vec<FirewallRule>, Error> {
        Ok(self.list_rules(&self.rule_counters()?))
    }

    fn firewall_states(
        &mut self,
        after: Option<&str>,
        limit: usize,
        expired: bool,
    ) -> Result<FirewallStates, Error> {
        self.page_of_states(after, limit, expired)
    }

    fn firewall_tracks(&mut self, after: Option<&str>, limit: usize) -> Result<FirewallTracks, Error> {
        self.page_of_tracks(after, limit)
    }

    fn firewall_nat(&mut self) -> Result<Vec<FirewallNat>, Error> {
        self.list_nat()
    }

    fn firewall_bindings(
        &mut self,
        number: u16,
        after: Option<&str>,
        limit: usize,
    ) -> Result<FirewallBindings, Error> {
        self.page_of_bindings(number, after, limit)
    }

    fn firewall_nat64(&mut self) -> Result<Vec<FirewallNat64>, Error> {
        Ok(self.nat64_by(&self.cpus.reports()?))
    }

    fn firewall_crossings(
        &mut self,
        name: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<FirewallBindings, Error> {
        self.page_of_crossings(name, after, limit)
    }

    fn firewall_prefixes(&mut self) -> Result<Vec<FirewallPrefixes>, Error> {
        Ok(self.list_prefixes())
    }

    fn firewall_shapes(&mut self) -> Result<FirewallShapes, Error> {
        Ok(self.shapes_by(&self.cpus.reports()?))
    }

    fn firewall_flows(&mut self, after: Option<&str>, limit: usize) -> Result<FirewallFlows, Error> {
        self.page_of_flows(after, limit)
    }

    fn firewall_tables(&mut self) -> Result<Vec<FirewallTable>, Error> {
        self.list_tables()
    }

    fn firewall_entries(
        &mut self,
        table: &str,
        after: usize,
        limit: usize,
    ) -> Result<FirewallTablePage, Error> {
        self.page_of_entries(table, after, limit)
    }

    fn firewall_lookup(&mut self, table: &str, key: &str) -> Result<FirewallTableEntry, Error> {
        self.found(table, key)
    }

    fn firewall_log(&mut self, after: Option<&str>) -> Result<FirewallLog, Error> {
        self.what_was_logged(after)
    }
}

/// Seconds since 1970 of an instant of the stack that began at `start` nanoseconds since 1970.
fn seconds(start_ns: u64, at: Instant) -> u64 {
    (start_ns + at.ns()) / 1_000_000_000
}

impl Control {
    /// When the stack's clock began: nanoseconds since 1970, as the calendar has it now.
    pub(crate) fn started_at(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(now.as_nanos()).unwrap_or(u64::MAX).saturating_sub(self.cpus.clock.now().ns())
    }

    /// Returns each CPU's rule counters; none before the first firewall.
    pub(in super::super) fn rule_counters(&self) -> Result<Vec<RuleCountersReader>, Error> {
        let reader = |netisr: &mut Netisr| netisr.cpu.firewall.as_deref().map(Firewall::counters);
        Ok(self.cpus.call_all(reader)?.into_iter().flatten().collect())
    }

    /// The firewall as the CPUs report on it.
    pub(crate) fn firewall_by(&self, reports: &[Report]) -> FirewallSnapshot {
        let counters: Vec<_> =
            reports.iter().filter_map(|report| Some(report.firewall.as_ref()?.counters.clone())).collect();
        FirewallSnapshot {
            status: self.status(reports),
            rules: self.list_rules(&counters),
            nat: self.nat_by(reports),
            nat64: self.nat64_by(reports),
            shapes: self.shapes_by(reports),
        }
    }

    fn status(&self, reports: &[Report]) -> FirewallStatus {
        let config = &self.firewall.config;
        let value = |name: &'static str| FirewallSetting {
            name: name.strip_prefix(PREFIX).unwrap_or(name).to_owned(),
            value: config.states.get(name).unwrap_or_default(),
        };
        let (switches, disabled) = (config.switches, config.rules.disabled());
        let count = |of: fn(&FirewallReport) -> usize| {
            reports.iter().filter_map(|report| report.firewall.as_ref()).map(of).sum::<usize>() as u64
        };
        FirewallStatus {
            enabled: switches.firewall,
            one_pass: switches.one_pass,
            verbose: switches.verbose,
            rules: config.rules.entries().len() as u64,
            states: count(|firewall| firewall.states),
            tracks: count(|firewall| firewall.tracks),
            settings: Settings::NAMES.iter().map(|name| value(name)).collect(),
            disabled_sets: (0..ipfw::rule::SETS).filter(|set| disabled >> set & 1 == 1).collect(),
        }
    }

    fn list_rules(&self, counters: &[RuleCountersReader]) -> Vec<FirewallRule> {
        let (start, disabled) = (self.started_at(), self.firewall.config.rules.disabled());
        let rule = |entry: &Entry| {
            let counted = sum(counters, entry.id).since(entry.zeroed);
            let Entry { rule, .. } = entry;
            FirewallRule {
                number: rule.number,
                set: rule.set,
                enabled: disabled >> rule.set & 1 == 0,
                packets: counted.packets,
                bytes: counted.bytes,
                last_match: counted.last.map(|last| seconds(start, last)),
                action: rule.action.to_string(),
                rule: source::rule(rule),
                comment: rule.comment.clone(),
            }
        };
        self.firewall.config.rules.entries().iter().map(rule).collect()
    }
}
