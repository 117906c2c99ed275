//! Flows by what states say of them, and the records that are due.

use core::net::IpAddr;
use std::collections::HashMap;

use wire::Protocol;

use super::message::{PostNat, Reason, Record, Stream};
use crate::api::{FirewallState, FirewallStateKind};
use crate::config::Ipfix;

/// Flows that are followed; states beyond are counted, and not exported.
pub(crate) const FLOWS_MAX: usize = 1 << 16;

/// Protocol, source, destination: what a flow is known by.
pub(crate) type Key = (u8, IpAddr, u16, IpAddr, u16);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Totals {
    packets: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Flow {
    /// Beginning of the record that is open.
    start_ms: u64,
    /// When the counters were seen to have changed last.
    changed_ms: u64,
    seen: Totals,
    exported: Totals,
    /// Round in which its state was there last.
    round: u64,
    is_closed: bool,
    tcp_flags: u8,
    nat: Option<PostNat>,
}

/// Counts of an exporter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Flows that are followed.
    pub(crate) flows: u64,
    pub(crate) records: u64,
    pub(crate) messages: u64,
    /// Records in messages that the kernel did not take.
    pub(crate) lost: u64,
    /// Looks at states that were passed over because [`FLOWS_MAX`] flows are followed.
    pub(crate) passed_over: u64,
}

/// The flows of a stack, and what of them was told.
#[derive(Debug)]
pub(crate) struct Exporter {
    settings: Ipfix,
    stream: Stream,
    flows: HashMap<Key, Flow>,
    round: u64,
    templates_ms: Option<u64>,
    due: Vec<Record>,
    pub(crate) counts: Counts,
}

impl Exporter {
    pub(crate) fn new(settings: Ipfix) -> Self {
        Self {
            settings,
            stream: Stream { domain: settings.domain, sequence: 0 },
            flows: HashMap::new(),
            round: 0,
            templates_ms: None,
            due: Vec::new(),
            counts: Counts::default(),
        }
    }

    pub(crate) const fn settings(&self) -> &Ipfix {
        &self.settings
    }

    /// Begins to look at all states.
    pub(crate) fn begin_round(&mut self) {
        self.round += 1;
    }

    /// Takes in a state. `nat` is asked once for each flow.
    pub(crate) fn see(
        &mut self,
        now_ms: u64,
        state: &FirewallState,
        nat: impl FnOnce(&Key) -> Option<PostNat>,
    ) {
        // The other state of a redirection has the same packets.
        if state.kind == FirewallStateKind::RedirectSlave || state.src.is_ipv4() != state.dst.is_ipv4() {
            return;
        }
        let key = (state.proto, state.src, state.src_port, state.dst, state.dst_port);
        let totals = Totals { packets: state.packets, bytes: state.bytes };
        let tcp_flags = state.tcp_flags.unwrap_or(0);
        let is_closed = matches!(state.phase.as_deref(), Some("closed" | "reset"));
        if let Some(flow) = self.flows.get_mut(&key) {
            if totals.packets < flow.seen.packets {
                // Its state has ended between two looks, and another has begun.
                self.due.extend(flow.record(&key, Reason::EndOfFlow));
                *flow = Flow::new(now_ms, self.round, flow.nat);
            }
            if totals != flow.seen {
                if flow.seen == flow.exported && flow.exported != Totals::default() {
                    flow.start_ms = now_ms;
                }
                (flow.seen, flow.changed_ms) = (totals, now_ms);
            }
            flow.nat = flow.nat.or_else(|| nat(&key));
            (flow.round, flow.is_closed, flow.tcp_flags) = (self.round, is_closed, tcp_flags);
            return;
        }
        if self.flows.len() >= FLOWS_MAX {
            self.counts.passed_over += 1;
            return;
        }
        let flow = Flow { seen: totals, is_closed, tcp_flags, ..Flow::new(now_ms, self.round, nat(&key)) };
        self.flows.insert(key, flow);
    }

    /// Ends a round in which all states were seen: what is due becomes records.
    pub(crate) fn end_round(&mut self, now_ms: u64) {
        let Self { flows, settings, due, round, .. } = self;
        flows.retain(|key, flow| {
            let is_gone = flow.round != *round;
            let is_old = now_ms.saturating_sub(flow.start_ms) >= u64::from(settings.active_timeout_s) * 1000;
            let is_idle =
                now_ms.saturating_sub(flow.changed_ms) >= u64::from(settings.inactive_timeout_s) * 1000;
            let reason = match (is_gone, is_idle, is_old) {
                (true, ..) if flow.is_closed => Reason::EndOfFlow,
                (true, ..) | (_, true, _) => Reason::IdleTimeout,
                (_, _, true) => Reason::ActiveTimeout,
                _ => return true,
            };
            due.extend(flow.record(key, reason));
            flow.start_ms = now_ms;
            !is_gone
        });
        self.counts.flows = self.flows.len() as u64;
    }

    /// Ends all flows: what is not told yet becomes records.
    pub(crate) fn end_all(&mut self) {
        let ended = self.flows.drain().filter_map(|(key, mut flow)| flow.record(&key, Reason::ForcedEnd));
        self.due.extend(ended);
        self.counts.flows = 0;
    }

    /// Sends what is due, with templates where it is time for them. `send` says whether a message went.
    pub(crate) fn send(&mut self, now_ms: u64, mut send: impl FnMut(&[u8]) -> bool) {
        let now_s = u32::try_from(now_ms / 1000).unwrap_or(u32::MAX);
        let due = core::mem::take(&mut self.due);
        let mut rest = due.as_slice();
        //= https://www.rfc-editor.org/rfc/rfc7011#section-8.4
        let again_ms = u64::from(self.settings.template_s) * 1000;
        let are_due = |told: &u64| now_ms.saturating_sub(*told) >= again_ms;
        let mut templates = self.templates_ms.as_ref().is_none_or(are_due);
        while templates || !rest.is_empty() {
            let before = rest.len();
            let message = self.stream.message(now_s, templates, &mut rest);
            let count = (before - rest.len()) as u64;
            if send(&message) {
                self.counts.messages += 1;
                self.counts.records += count;
                if templates {
                    self.templates_ms = Some(now_ms);
                }
            } else {
                self.counts.lost += count;
            }
            templates = false;
        }
    }
}

impl Flow {
    const fn new(now_ms: u64, round: u64, nat: Option<PostNat>) -> Self {
        let none = Totals { packets: 0, bytes: 0 };
        Self {
            start_ms: now_ms,
            changed_ms: now_ms,
            seen: none,
            exported: none,
            round,
            is_closed: false,
            tcp_flags: 0,
            nat,
        }
    }

    /// Closes the open record, if it has packets.
    fn record(&mut self, key: &Key, reason: Reason) -> Option<Record> {
        let (proto, src, src_port, dst, dst_port) = *key;
        let before = core::mem::replace(&mut self.exported, self.seen);
        let packets = self.seen.packets.saturating_sub(before.packets);
        // States of ICMP have the identifier of queries there, which is no port.
        let has_ports = matches!(Protocol(proto), Protocol::TCP | Protocol::UDP);
        let [src_port, dst_port] = [src_port, dst_port].map(|port| if has_ports { port } else { 0 });
        (packets > 0).then_some(Record {
            src,
            dst,
            src_port,
            dst_port,
            proto,
            tcp_flags: self.tcp_flags,
            reason,
            packets,
            bytes: self.seen.bytes.saturating_sub(before.bytes),
            start_ms: self.start_ms,
            end_ms: self.changed_ms.max(self.start_ms),
            nat: self.nat,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Ipfix = Ipfix {
        collector: core::net::SocketAddr::V4(core::net::SocketAddrV4::new(
            core::net::Ipv4Addr::LOCALHOST,
            4739,
        )),
        active_timeout_s: 60,
        inactive_timeout_s: 15,
        template_s: 300,
        domain: 1,
    };

    fn state(port: u16, packets: u64, phase: Option<&str>) -> FirewallState {
        FirewallState {
            rule: 1,
            set: 0,
            kind: FirewallStateKind::State,
            cpu: 0,
            packets,
            bytes: packets * 100,
            expires_s: 1,
            proto: 6,
            src: "192.0.2.1".parse().unwrap(),
            src_port: port,
            dst: "192.0.2.2".parse().unwrap(),
            dst_port: 80,
            phase: phase.map(str::to_owned),
            tcp_flags: Some(2),
            flow: None,
        }
    }

    /// Looks at these states at a time in seconds, and returns what is due then.
    fn look(exporter: &mut Exporter, at_s: u64, states: &[FirewallState]) -> Vec<(u64, Reason, u64, u64)> {
        exporter.begin_round();
        states.iter().for_each(|state| exporter.see(at_s * 1000, state, |_| None));
        exporter.end_round(at_s * 1000);
        let record =
            |record: &Record| (record.packets, record.reason, record.start_ms / 1000, record.end_ms / 1000);
        core::mem::take(&mut exporter.due).iter().map(record).collect()
    }

    #[test]
    fn a_long_flow_is_told_in_parts_and_a_flow_that_ends_at_its_end() {
        let mut exporter = Exporter::new(SETTINGS);
        for at in 0..60 {
            assert_eq!(look(&mut exporter, at, &[state(1, 10 + at, Some("established"))]), []);
        }
        let told = look(&mut exporter, 60, &[state(1, 100, Some("established"))]);
        assert_eq!(told, [(100, Reason::ActiveTimeout, 0, 60)]);
        assert_eq!(look(&mut exporter, 61, &[state(1, 103, Some("closed"))]), []);
        assert_eq!(look(&mut exporter, 62, &[]), [(3, Reason::EndOfFlow, 61, 61)]);
        assert_eq!(exporter.counts.flows, 0);
    }

    #[test]
    fn a_silent_flow_is_told_once_and_again_when_it_goes_on() {
        let mut exporter = Exporter::new(SETTINGS);
        look(&mut exporter, 0, &[state(1, 5, None)]);
        assert_eq!(look(&mut exporter, 15, &[state(1, 5, None)]), [(5, Reason::IdleTimeout, 0, 0)]);
        assert_eq!(look(&mut exporter, 40, &[state(1, 5, None)]), []);
        assert_eq!(look(&mut exporter, 50, &[state(1, 7, None)]), []);
        // Another state of the same ends has begun.
        assert_eq!(look(&mut exporter, 51, &[state(1, 1, None)]), [(2, Reason::EndOfFlow, 50, 50)]);
        exporter.end_all();
        assert_eq!(
            exporter.due.first().map(|record| (record.packets, record.reason)),
            Some((1, Reason::ForcedEnd))
        );
    }

    #[test]
    fn no_more_flows_are_followed_than_there_is_room_for() {
        let mut exporter = Exporter::new(SETTINGS);
        exporter.begin_round();
        for number in 0..u32::try_from(FLOWS_MAX).unwrap() + 3 {
            let src = core::net::Ipv4Addr::from_bits(number).into();
            exporter.see(0, &FirewallState { src, ..state(1, 1, None) }, |_| None);
        }
        exporter.end_round(0);
        assert_eq!((exporter.counts.flows, exporter.counts.passed_over), (FLOWS_MAX as u64, 3));
    }

    #[test]
    fn templates_come_first_and_again_and_lost_records_are_counted() {
        let mut exporter = Exporter::new(SETTINGS);
        let mut with_templates = Vec::new();
        for at_s in [0, 1, 299, 300] {
            exporter.send(at_s * 1000, |message| {
                with_templates.push((at_s, message[16..18] == [0, 2]));
                true
            });
        }
        assert_eq!(with_templates, [(0, true), (300, true)]);
        look(&mut exporter, 301, &[state(1, 5, None)]);
        exporter.end_all();
        exporter.send(302_000, |_| false);
        assert_eq!((exporter.counts.records, exporter.counts.lost), (0, 1));
    }
}
