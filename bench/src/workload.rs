//! Routing tables of any size, and frames to random places in them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use net::fib::Prefix;

use crate::frames::{FRAME_LEN, Family};

/// Numbers of routes and of destinations.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// IPv4 or IPv6.
    pub family: Family,
    /// Routes: /24 or /48, side by side.
    pub routes: u32,
    /// Destinations, each behind a random one of the routes.
    pub destinations: u32,
}

/// Routes that there can be: all /24 of 16.0.0.0/4.
pub const ROUTES_MAX: u32 = 1 << 20;
/// The first of them, as a number of /24 networks.
const FIRST4: u32 = 16 << 16;
/// The first /48, as a number of such networks; globally unicast.
const FIRST6: u128 = 0x2a00_0000_0000;

impl Workload {
    /// The routes.
    pub fn prefixes(self) -> impl Iterator<Item = Prefix> {
        (0..self.routes.min(ROUTES_MAX)).filter_map(move |at| self.prefix(at))
    }

    /// One frame for each destination, in random order.
    #[must_use]
    pub fn frames(self) -> Vec<[u8; FRAME_LEN]> {
        let mut random = Random::new(u64::from(self.destinations));
        let all = (0..self.destinations).map(|at| {
            // Few destinations go round the routes, so that each is used; many are thrown.
            let route =
                if self.destinations <= self.routes { random.below(self.routes) } else { at % self.routes };
            self.family.frame_to(self.addr(route, 2 + random.below(250)))
        });
        all.flatten().collect()
    }

    fn prefix(self, at: u32) -> Option<Prefix> {
        Prefix::new(self.addr(at, 0), if self.family == Family::Ip4 { 24 } else { 48 })
    }

    fn addr(self, route: u32, host: u32) -> IpAddr {
        match self.family {
            Family::Ip4 => IpAddr::V4(Ipv4Addr::from_bits((FIRST4 + route) << 8 | host)),
            Family::Ip6 => {
                IpAddr::V6(Ipv6Addr::from_bits((FIRST6 + u128::from(route)) << 80 | u128::from(host)))
            }
        }
    }
}

/// Numbers without a pattern, the same in each run (a multiplicative congruential generator's high half).
pub struct Random(u64);

impl Random {
    /// The numbers of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Below `bound`.
    pub fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(bound.max(1))).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::Router;

    #[test]
    fn every_destination_of_a_workload_is_forwarded() {
        for family in [Family::Ip4, Family::Ip6] {
            for (routes, destinations) in [(2, 16), (65_536, 1024)] {
                let work = Workload { family, routes, destinations };
                assert_eq!(work.prefixes().count(), routes as usize);
                let mut router = Router::with(family, work.prefixes(), work.frames()).unwrap();
                assert_eq!(router.forward(4, 256), 1024, "{work:?}");
                assert_eq!(router.buffers_out(), 0);
            }
        }
    }
}
