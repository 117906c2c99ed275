//! Its firewall.

use pantala::api::firewall::Filter;
use pantala::api::*;

use super::{Answer, Fake};

impl Filter for Fake {
    fn run_commands(&mut self, commands: &FirewallCommands) -> Answer<Vec<FirewallDone>> {
        if commands.text.contains("delete 900") {
            return Err(Error::new(ErrorKind::Invalid, "ipfw: there is no rule 900"));
        }
        self.tell(commands.text.chars().take(80).collect());
        Ok(vec![FirewallDone { line: 1, output: format!("done: {:.80}", commands.text) }])
    }

    fn firewall_status(&mut self) -> Answer<FirewallStatus> {
        Ok(FirewallStatus {
            enabled: true,
            one_pass: true,
            verbose: true,
            rules: 4,
            states: 2,
            settings: vec![FirewallSetting { name: "state_max".into(), value: 4096 }],
            disabled_sets: vec![5],
        })
    }

    fn firewall_rules(&mut self) -> Answer<Vec<FirewallRule>> {
        let rule = |number, set, packets, action: &str, rest: &str| FirewallRule {
            number,
            set,
            enabled: set != 5,
            packets,
            bytes: packets * 288,
            last_match: (packets > 0).then_some(1_000_000_000),
            action: action.into(),
            rule: format!("{action} {rest}"),
            comment: None,
        };
        Ok(vec![
            rule(100, 0, 12, "allow", "ip from any to any"),
            rule(200, 0, 0, "count", "tcp from any to any"),
            rule(300, 5, 0, "deny", "ip from any to any"),
            rule(65535, 31, 0, "deny", "ip from any to any"),
        ])
    }

    /// Two pages of one.
    fn firewall_states(&mut self, after: Option<&str>, limit: usize) -> Answer<FirewallStates> {
        self.tell(format!("{limit} states"));
        let is_last = after.is_some();
        let state = FirewallState {
            rule: 100,
            set: 0,
            kind: FirewallStateKind::State,
            cpu: 0,
            packets: 9,
            bytes: 1200,
            expires_s: 20,
            proto: 6,
            src: "10.0.0.2".parse().unwrap(),
            src_port: 40_000,
            dst: "10.0.1.2".parse().unwrap(),
            dst_port: if is_last { 81 } else { 80 },
            phase: Some("established".into()),
            flow: None,
        };
        Ok(FirewallStates { states: vec![state], next: (!is_last).then(|| "0.1".to_owned()) })
    }

    fn firewall_tables(&mut self) -> Answer<Vec<FirewallTable>> {
        let (kind, limit) = ("addr".into(), 1000);
        Ok(vec![FirewallTable { name: "bad".into(), kind, entries: 2, limit, locked: false, bytes: 2048 }])
    }

    /// Two pages of one.
    fn firewall_entries(&mut self, table: &str, after: usize, _limit: usize) -> Answer<FirewallTablePage> {
        if table != "bad" {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no table {table}")));
        }
        let entry = FirewallTableEntry { key: format!("10.{after}.0.0/16"), value: "5".into() };
        Ok(FirewallTablePage { entries: vec![entry], next: (after == 0).then_some(1) })
    }

    fn firewall_lookup(&mut self, _table: &str, key: &str) -> Answer<FirewallTableEntry> {
        Ok(FirewallTableEntry { key: format!("{key} in 10.0.0.0/16"), value: "5".into() })
    }

    fn firewall_log(&mut self, _after: Option<&str>) -> Answer<FirewallLog> {
        let record = FirewallLogRecord {
            at_ns: 1_000_000_000_000_000_000,
            cpu: 0,
            rule: 100,
            action: "Deny".into(),
            out: false,
            interface: Some("lan".into()),
            length: 20,
            text: "ipfw: 100 Deny TCP 192.0.2.1:5 198.51.100.9:80 in via lan".into(),
            snap: "45000014".into(),
        };
        Ok(FirewallLog { records: vec![record], next: "1".into(), lost: 0, suppressed: 0 })
    }
}
