//! `ndp -r` and `ndp -p`: what router advertisements have said.

use core::net::{IpAddr, Ipv6Addr};
use core::time::Duration;

use ipnet::Ipv6Net;
use net::fib::{Origin, Prefix, To};
use net::ip6::autoconf::{RouterStatus, Status};
use net::tables::IfIndex;
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
        let learned = &self.tables.ifnet(link.ifindex)?.learned;
        let chosen = self.router_in_use();
        let is_chosen = |router: &RouterStatus| chosen == Some((link.ifindex, router.addr.into()));
        let routers = link.routers.iter().map(|router| default_router(router, is_chosen(router), now));
        let expires = |prefix: Prefix| {
            let known = link.prefixes.iter().find(|known| known.prefix == prefix);
            known.map_or(Some(0), |known| left(known.expires, now))
        };
        let prefix = |prefix: Prefix, refused| {
            Some(OnLinkPrefix { prefix: net6(prefix)?, expires_s: expires(prefix), refused })
        };
        let believed = learned.on_link.iter().filter_map(|to| prefix(*to, false));
        let refused = learned.refused.iter().filter_map(|to| prefix(*to, true));
        Some(LearnedLink {
            interface: self.interface_by_index(link.ifindex)?.config.name.clone(),
            routers: routers.collect(),
            prefixes: believed.chain(refused).collect(),
            mtu: link.learned.mtu,
            hop_limit: link.learned.hop_limit,
            reachable_ms: milliseconds(link.learned.reachable),
            retrans_ms: milliseconds(link.learned.retrans),
        })
    }

    /// The advertised router that the default route leads to, if it is in force.
    fn router_in_use(&self) -> Option<(IfIndex, IpAddr)> {
        let everything = Prefix::new(Ipv6Addr::UNSPECIFIED.into(), 0)?;
        let (origin, hop) = self.routing.rib.get(0, everything)?.in_force();
        match self.tables.hops.get(hop).to {
            To::Gateway { ifindex, via } if origin == Origin::Learned => Some((ifindex, via)),
            _ => None,
        }
    }
}

fn default_router(router: &RouterStatus, chosen: bool, now: Instant) -> DefaultRouter {
    DefaultRouter {
        address: router.addr,
        preference: match router.preference {
            wire::nd::Preference::Low => Preference::Low,
            wire::nd::Preference::Medium => Preference::Medium,
            wire::nd::Preference::High => Preference::High,
        },
        expires_s: router.expires.since(now).as_secs(),
        reachable: router.is_reachable,
        chosen,
    }
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
