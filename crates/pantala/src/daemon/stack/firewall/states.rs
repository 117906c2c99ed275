//! `ipfw -d`: the states, page by page.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::HashMap;

use net::firewall::ruleset::{FlowId, RuleId};
use net::firewall::state::{End, Kind, Listed, Phase};

use super::super::super::control::Control;
use crate::api::{Error, ErrorKind, FirewallState, FirewallStateKind, FirewallStates};

/// Where a page begins: on which CPU, and at which of its places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    cpu: usize,
    place: u32,
}

/// Numbers and sets of rules.
type Rules = HashMap<RuleId, (u16, u8)>;

impl Control {
    /// Up to `limit` states, from a place that an earlier page has named.
    pub(super) fn page_of_states(&self, after: Option<&str>, limit: usize) -> Result<FirewallStates, Error> {
        let mut at = after.map_or(Ok(Place { cpu: 0, place: 0 }), Place::read)?;
        let entries = self.wall.book.rules.entries().iter();
        let rules: Rules = entries.map(|entry| (entry.id, (entry.rule.number, entry.rule.set))).collect();
        let (cpus, mut states) = (self.cpus.iter().count(), Vec::new());
        while at.cpu < cpus && states.len() < limit {
            let (Place { cpu, place }, room) = (at, limit - states.len());
            let page = self.cpus.call(cpu, move |netisr| {
                let now = netisr.cpu.now;
                netisr.cpu.firewall.as_deref().map(|firewall| firewall.states().page(place, room, now))
            })?;
            let (listed, next) = page.unwrap_or_default();
            states.extend(listed.iter().filter_map(|state| self.state(state, cpu, &rules)));
            at = next.map_or(Place { cpu: cpu + 1, place: 0 }, |place| Place { cpu, place });
            if next.is_some() && listed.is_empty() {
                break;
            }
        }
        Ok(FirewallStates { states, next: (at.cpu < cpus).then(|| format!("{}.{}", at.cpu, at.place)) })
    }

    /// A state whose rule is still there.
    fn state(&self, state: &Listed, cpu: usize, rules: &Rules) -> Option<FirewallState> {
        let (rule, set) = *rules.get(&state.rule)?;
        let [src, dst] = state.ends;
        let processor = self.cpus.iter().nth(cpu).map_or(0, |cpu| cpu.processor);
        Some(FirewallState {
            rule,
            set,
            kind: match state.kind {
                Kind::Keep => FirewallStateKind::State,
                Kind::Limit => FirewallStateKind::Limit,
                Kind::RedirectMaster => FirewallStateKind::RedirectMaster,
                Kind::RedirectSlave => FirewallStateKind::RedirectSlave,
            },
            cpu: u32::try_from(processor).unwrap_or(u32::MAX),
            packets: state.packets,
            bytes: state.bytes,
            // What has begun to live has a second left.
            expires_s: u32::try_from(state.left.as_millis().div_ceil(1000)).unwrap_or(u32::MAX),
            proto: state.proto,
            src: address(src, state.is_ip4),
            src_port: src.port,
            dst: address(dst, state.is_ip4),
            dst_port: dst.port,
            phase: state.phase.map(|phase| word(phase).to_owned()),
            flow: self.wall.book.rules.flow_name(FlowId(state.flow.0)).map(str::to_owned),
        })
    }
}

fn address(end: End, is_ip4: bool) -> IpAddr {
    match u32::try_from(end.addr) {
        Ok(bits) if is_ip4 => Ipv4Addr::from_bits(bits).into(),
        _ => Ipv6Addr::from_bits(end.addr).into(),
    }
}

const fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Unknown => "unknown",
        Phase::Opening => "opening",
        Phase::Established => "established",
        Phase::Closing => "closing",
        Phase::Closed => "closed",
        Phase::Reset => "reset",
    }
}

impl Place {
    fn read(text: &str) -> Result<Self, Error> {
        let parts = text.split_once('.');
        let place =
            parts.and_then(|(cpu, place)| Some(Self { cpu: cpu.parse().ok()?, place: place.parse().ok()? }));
        place.ok_or_else(|| {
            Error::new(ErrorKind::Invalid, format!("`{text}` is not what an answer has called next"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_where_an_answer_has_said() {
        assert_eq!(Place::read("1.77"), Ok(Place { cpu: 1, place: 77 }));
        for wrong in ["", "1", "x.1", "1.x", "1.2.3"] {
            assert!(Place::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_are_those_of_their_family() {
        let end = |addr| End { addr, port: 0 };
        assert_eq!(address(end(0x0a00_0001), true).to_string(), "10.0.0.1");
        assert_eq!(address(end(1), false).to_string(), "::1");
    }
}
