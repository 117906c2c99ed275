//! Its firewall.

use pantala::api::firewall::Filter;
use pantala::api::*;

use super::{Answer, Fake};

impl Filter for Fake {
    fn run_commands(&mut self, commands: &FirewallCommands) -> Answer<Vec<FirewallDone>> {
        if let Err(mistakes) = ipfw::parse_file(&commands.name, &commands.text) {
            let text: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
            return Err(Error::new(ErrorKind::Invalid, text.join("\n")));
        }
        if commands.text.contains("delete 900") {
            return Err(Error::new(ErrorKind::Invalid, "ipfw: there is no rule 900"));
        }
        self.tell(commands.text.chars().take(80).collect());
        Ok(vec![FirewallDone {
            line: 1,
            output: format!("done: {:.80}", commands.text),
            warning: if commands.text.contains("em9") { "there is no em9".into() } else { String::new() },
        }])
    }

    fn firewall_status(&mut self) -> Answer<FirewallStatus> {
        Ok(FirewallStatus {
            enabled: true,
            one_pass: true,
            verbose: true,
            rules: 4,
            states: 2,
            tracks: 1,
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
    fn firewall_states(
        &mut self,
        after: Option<&str>,
        limit: usize,
        expired: bool,
    ) -> Answer<FirewallStates> {
        self.tell(format!("{limit} states{}", if expired { " and dead ones" } else { "" }));
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
            tcp_flags: None,
            phase: Some("established".into()),
            flow: None,
        };
        Ok(FirewallStates { states: vec![state], next: (!is_last).then(|| "0.1".to_owned()) })
    }

    /// Two pages, of the same group on two CPUs.
    fn firewall_tracks(&mut self, after: Option<&str>, _limit: usize) -> Answer<FirewallTracks> {
        let is_last = after.is_some();
        let track = FirewallTrack {
            rule: 100,
            set: 0,
            cpu: u32::from(is_last),
            proto: 6,
            src: "10.0.0.2".parse().unwrap(),
            src_port: 0,
            dst: "0.0.0.0".parse().unwrap(),
            dst_port: 0,
            states: 1,
            total: 2,
        };
        Ok(FirewallTracks { tracks: vec![track], next: (!is_last).then(|| "1.0".to_owned()) })
    }

    fn firewall_nat(&mut self) -> Answer<Vec<FirewallNat>> {
        Ok(vec![FirewallNat {
            number: 1,
            config: "if wan same_ports".into(),
            address: Some("192.0.2.1".parse().unwrap()),
            bindings: 2,
            tcp: 2,
            limit: 1000,
            tcp_ports: 1,
            ports: 64_512,
            begun: 9,
            no_port: 3,
            ..FirewallNat::default()
        }])
    }

    /// Two pages of one.
    fn firewall_bindings(
        &mut self,
        number: u16,
        after: Option<&str>,
        _limit: usize,
    ) -> Answer<FirewallBindings> {
        if number != 1 {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no nat {number}")));
        }
        let is_last = after.is_some();
        let binding = FirewallBinding {
            cpu: u32::from(is_last),
            proto: 6,
            inside: "10.0.0.2".parse().unwrap(),
            inside_port: 4000,
            remote: "203.0.113.9".parse().unwrap(),
            remote_port: if is_last { 443 } else { 80 },
            outside: "192.0.2.1".parse().unwrap(),
            outside_port: 23_456,
            packets_out: 5,
            packets_in: 4,
            expires_s: 7440,
        };
        Ok(FirewallBindings { bindings: vec![binding], next: (!is_last).then(|| "1.0".to_owned()) })
    }

    fn firewall_nat64(&mut self) -> Answer<Vec<FirewallNat64>> {
        let config = "prefix4 192.0.2.0/28 prefix6 64:ff9b::/96".into();
        let counts =
            FirewallNat64 { bindings: 6, tcp: 4, udp: 2, limit: 524_288, ..FirewallNat64::default() };
        Ok(vec![FirewallNat64 { name: "gate".into(), config, begun: 90, no_port: 1, ..counts }])
    }

    fn firewall_crossings(&mut self, _: &str, _: Option<&str>, _: usize) -> Answer<FirewallBindings> {
        let mut page = self.firewall_bindings(1, Some("1.0"), 1)?;
        page.bindings.iter_mut().for_each(|binding| binding.inside = "2001:db8::5".parse().unwrap());
        Ok(page)
    }

    fn firewall_prefixes(&mut self) -> Answer<Vec<FirewallPrefixes>> {
        let config = "int_prefix fd00:1:: ext_if wan prefixlen 48".into();
        Ok(vec![FirewallPrefixes { name: "inside".into(), config, active: true }])
    }

    fn firewall_shapes(&mut self) -> Answer<FirewallShapes> {
        let own = FirewallShape {
            limit: "50".into(),
            weight: 1,
            packets: 11,
            bytes: 1100,
            drops: 2,
            waiting_packets: 1,
            waiting_bytes: 100,
            flows: 2,
            ..FirewallShape::default()
        };
        let pipe = FirewallPipe {
            number: 1,
            config: "bw 10Mbit/s delay 20".into(),
            bandwidth: 10_000_000,
            delay_ms: 20,
            scheduler: "wf2q+".into(),
            own: own.clone(),
            ..FirewallPipe::default()
        };
        let config = "pipe 1 weight 30".into();
        let queue = FirewallQueue { number: 2, pipe: 1, config, own: FirewallShape { weight: 30, ..own } };
        Ok(FirewallShapes { pipes: vec![pipe], queues: vec![queue] })
    }

    /// Two pages: the pipe's own queue on two CPUs, and the other queue.
    fn firewall_flows(&mut self, after: Option<&str>, _limit: usize) -> Answer<FirewallFlows> {
        let is_last = after.is_some();
        let flow = |queue, packets| FirewallFlow {
            pipe: 1,
            queue,
            cpu: u32::from(is_last),
            overflow: false,
            proto: 0,
            src: "0.0.0.0".parse().unwrap(),
            src_port: 0,
            dst: "0.0.0.0".parse().unwrap(),
            dst_port: 0,
            flow_label: 0,
            packets,
            bytes: packets * 100,
            drops: 1,
            waiting_packets: 0,
            waiting_bytes: 0,
            flying: 0,
        };
        let flows = if is_last { vec![flow(0, 4), flow(2, 11)] } else { vec![flow(0, 7)] };
        Ok(FirewallFlows { flows, next: (!is_last).then(|| "1.0".to_owned()) })
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
