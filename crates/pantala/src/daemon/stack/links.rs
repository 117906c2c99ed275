//! `ndp -r` and `ndp -p`: what router advertisements have said.

use core::net::IpAddr;
use core::time::Duration;

use ipnet::Ipv6Net;
use net::fib::Prefix;
use net::ip6::autoconf::{PrefixStatus, RouterStatus, Status};
use net::time::Instant;

use super::super::control::Control;
use crate::api::{DefaultRouter, Error, LearnedLink, OnLinkPrefix, Preference};

impl Control {
    pub(super) fn list_links(&self) -> Result<Vec<LearnedLink>, Error> {
        let now = self.cpus.clock.now();
        let mut links = self.learned()?;
        links.sort_by_key(|link| link.ifindex);
        Ok(links.iter().filter_map(|link| self.learned_link(link, now)).collect())
    }

    fn learned_link(&self, link: &Status, now: Instant) -> Option<LearnedLink> {
        Some(LearnedLink {
            interface: self.interface_by_index(link.ifindex)?.config.name.clone(),
            routers: link.routers.iter().map(|router| default_router(router, now)).collect(),
            prefixes: link.prefixes.iter().filter_map(|prefix| on_link(prefix, now)).collect(),
            mtu: link.learned.mtu,
            hop_limit: link.learned.hop_limit,
            reachable_ms: milliseconds(link.learned.reachable),
            retrans_ms: milliseconds(link.learned.retrans),
        })
    }
}

fn default_router(router: &RouterStatus, now: Instant) -> DefaultRouter {
    DefaultRouter {
        address: router.addr,
        preference: match router.preference {
            wire::nd::Preference::Low => Preference::Low,
            wire::nd::Preference::Medium => Preference::Medium,
            wire::nd::Preference::High => Preference::High,
        },
        expires_s: router.expires.since(now).as_secs(),
        reachable: router.is_reachable,
        chosen: router.is_chosen,
    }
}

fn on_link(status: &PrefixStatus, now: Instant) -> Option<OnLinkPrefix> {
    Some(OnLinkPrefix { prefix: net6(status.prefix)?, expires_s: left(status.expires, now) })
}

fn net6(prefix: Prefix) -> Option<Ipv6Net> {
    let IpAddr::V6(addr) = prefix.addr() else { return None };
    Ipv6Net::new(addr, prefix.prefix_len()).ok()
}

/// Seconds that are left until `at`; `None` if for ever.
pub(super) fn left(at: Instant, now: Instant) -> Option<u64> {
    (at != Instant::NEVER).then(|| at.since(now).as_secs())
}

fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
