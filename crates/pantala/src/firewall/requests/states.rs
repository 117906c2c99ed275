//! `ipfw -d`: the states, page by page.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::HashMap;

use net::firewall::ruleset::{FlowId, RuleId};
use net::firewall::state::{End, Group, Kind, Listed, Phase};

use crate::api::{Error, FirewallState, FirewallStateKind, FirewallStates, FirewallTrack, FirewallTracks};
use crate::daemon::control::Control;

/// Numbers and sets of rules.
type Rules = HashMap<RuleId, (u16, u8)>;

impl Control {
    /// Up to `limit` states, from a place that an earlier page has named.
    pub(super) fn page_of_states(
        &self,
        after: Option<&str>,
        limit: usize,
        expired: bool,
    ) -> Result<FirewallStates, Error> {
        let rules = self.numbers_of_rules();
        let page = self.page(after, limit, move |firewall, from, room, now| {
            firewall.states().page(from, room, expired, now)
        })?;
        let states = page.rows.iter().filter_map(|(cpu, state)| self.state(state, *cpu, &rules)).collect();
        Ok(FirewallStates { states, next: page.next })
    }

    /// Returns a page of the groups that a `limit` counts.
    pub(super) fn page_of_tracks(&self, after: Option<&str>, limit: usize) -> Result<FirewallTracks, Error> {
        let rules = self.numbers_of_rules();
        let page = self.page(after, limit, |firewall, from, room, _| {
            let (mut found, most) = (Vec::new(), u32::try_from(room).unwrap_or(u32::MAX));
            let next =
                firewall.states().list_tracks(from, most, |group, states| found.push((*group, states)));
            (found, next)
        })?;
        let track = |(cpu, (group, states)): &(u32, (Group, u32))| {
            let (rule, set) = *rules.get(&group.rule)?;
            Some(FirewallTrack {
                rule,
                set,
                cpu: *cpu,
                proto: group.proto,
                src: address(group.src, group.is_ip4),
                src_port: group.src.port,
                dst: address(group.dst, group.is_ip4),
                dst_port: group.dst.port,
                states: *states,
                total: self.firewall.common.limits.count(group).into(),
            })
        };
        Ok(FirewallTracks { tracks: page.rows.iter().filter_map(track).collect(), next: page.next })
    }

    fn numbers_of_rules(&self) -> Rules {
        let entries = self.firewall.config.rules.entries().iter();
        entries.map(|entry| (entry.id, (entry.rule.number, entry.rule.set))).collect()
    }

    /// A state whose rule is still there.
    fn state(&self, state: &Listed, cpu: u32, rules: &Rules) -> Option<FirewallState> {
        let (rule, set) = *rules.get(&state.rule)?;
        let [src, dst] = state.ends;
        Some(FirewallState {
            rule,
            set,
            kind: match state.kind {
                Kind::Keep => FirewallStateKind::State,
                Kind::Limit => FirewallStateKind::Limit,
                Kind::RedirectMaster => FirewallStateKind::RedirectMaster,
                Kind::RedirectSlave => FirewallStateKind::RedirectSlave,
            },
            cpu,
            packets: state.packets,
            bytes: state.bytes,
            // What has begun to live has a second left.
            expires_s: u32::try_from(state.left.as_millis().div_ceil(1000)).unwrap_or(u32::MAX),
            proto: state.proto,
            src: address(src, state.is_ip4),
            src_port: src.port,
            dst: address(dst, state.is_ip4),
            dst_port: dst.port,
            tcp_flags: state.tcp_flags.map(|flags| flags.0),
            phase: state.phase.map(|phase| word(phase).to_owned()),
            flow: self.firewall.config.rules.flow_name(FlowId(state.flow.0)).map(str::to_owned),
        })
    }
}

pub(super) fn address(end: End, is_ip4: bool) -> IpAddr {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_their_family() {
        let end = |addr| End { addr, port: 0 };
        assert_eq!(address(end(0x0a00_0001), true).to_string(), "10.0.0.1");
        assert_eq!(address(end(1), false).to_string(), "::1");
    }
}
