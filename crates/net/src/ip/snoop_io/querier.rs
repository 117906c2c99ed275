//! The bridge as querier of a network that has no other.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::{addr as addrs, igmp, mld};

use crate::base::count::Count;
use crate::base::time::{Duration, Instant};
use crate::ip::group;
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;

/// Seconds between general queries (RFC 3376 §8.2).
const INTERVAL_S: u8 = 125;
const INTERVAL: Duration = Duration::from_secs(INTERVAL_S as u64);
/// Time between the first two (RFC 3376 §8.6).
const STARTUP: Duration = Duration::from_secs(31);
/// Time after which a querier that is silent is replaced (RFC 3376 §8.5).
const SILENCE: Duration = Duration::from_secs(255);
const ROBUSTNESS: u8 = 2;
/// Time that listeners take to answer a general query, and one about a group that a listener has left, milliseconds.
const DELAYS_MS: [u16; 2] = [10_000, 1_000];

/// The state of a querier, for IPv4 and IPv6.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Querier {
    v4: State,
    v6: State,
}

#[derive(Clone, Copy, Debug)]
struct State {
    /// The next general query.
    at: Instant,
    /// General queries that still follow each other quickly.
    first: u8,
    /// Until when another one asks.
    silent_until: Instant,
}

impl Default for State {
    fn default() -> Self {
        Self { at: Instant::START, first: ROBUSTNESS, silent_until: Instant::START }
    }
}

impl Querier {
    const fn state(&mut self, is_ip4: bool) -> &mut State {
        if is_ip4 { &mut self.v4 } else { &mut self.v6 }
    }

    /// Begins anew: listeners are asked at once, and once more.
    pub(super) fn begin(&mut self, now: Instant) {
        for state in [&mut self.v4, &mut self.v6] {
            (state.at, state.first) = (now, ROBUSTNESS);
        }
    }

    /// Another querier has asked: the one with the lower address goes on, and one without an address gives way.
    //= https://www.rfc-editor.org/rfc/rfc3376#section-6.6.2
    pub(super) fn hears(&mut self, now: Instant, own: IpAddr, other: IpAddr) {
        if own.is_unspecified() || other < own {
            self.state(other.is_ipv4()).silent_until = now + SILENCE;
        }
    }

    /// Whether the bridge asks, because no other does.
    pub(super) fn is_asking(&mut self, now: Instant, is_ip4: bool) -> bool {
        self.state(is_ip4).silent_until <= now
    }

    /// Whether a general query is due; then the next one is set.
    pub(super) fn is_due(&mut self, now: Instant, is_ip4: bool) -> bool {
        let state = self.state(is_ip4);
        if state.silent_until > now || state.at > now {
            return false;
        }
        state.first = state.first.saturating_sub(1);
        state.at = now + if state.first > 0 { STARTUP } else { INTERVAL };
        true
    }
}

/// The address that queries are from: with IPv4 perhaps none.
pub(super) fn source(cpu: &Cpu, bridge: IfIndex, is_ip4: bool) -> IpAddr {
    group::speaker(cpu, bridge, !is_ip4)
}

/// Asks for all listeners, or for those of a group. Over IPv6 nothing is asked without a link-local address.
//= https://www.rfc-editor.org/rfc/rfc3810#section-5.1.14
pub(super) fn ask(cpu: &mut Cpu, bridge: IfIndex, about: Option<IpAddr>, is_ip4: bool) {
    let delay_ms = DELAYS_MS[usize::from(about.is_some())];
    let from = source(cpu, bridge, is_ip4);
    let mut out = [0; mld::QUERY2_LEN];
    let asked = match (from, about) {
        (IpAddr::V4(_), None | Some(IpAddr::V4(_))) => {
            let group = if let Some(IpAddr::V4(group)) = about { group } else { Ipv4Addr::UNSPECIFIED };
            let to = if about.is_some() { group } else { igmp::ALL_SYSTEMS };
            igmp::emit_query3(group, delay_ms, ROBUSTNESS, INTERVAL_S, &mut out)
                .map(|len| (IpAddr::V4(to), len))
        }
        (IpAddr::V6(from), None | Some(IpAddr::V6(_))) if !from.is_unspecified() => {
            let group = if let Some(IpAddr::V6(group)) = about { group } else { Ipv6Addr::UNSPECIFIED };
            let to = if about.is_some() { group } else { addrs::ALL_NODES };
            let ends = [from, to];
            mld::emit_query2(ends, group, delay_ms, ROBUSTNESS, INTERVAL_S, &mut out)
                .map(|len| (IpAddr::V6(to), len))
        }
        _ => return,
    };
    if let Ok((to, len)) = asked {
        let count = if is_ip4 { Count::IgmpQueriesSent } else { Count::MldQueriesSent };
        group::say(cpu, bridge, [from, to], &out[..len], count);
    }
}
