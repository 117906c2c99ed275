//! Flows: which addresses and ports a frame has.

use super::frame::{sum, sum_of};
use super::grammar::{Addrs, Ports};
use super::random::Random;

/// Flows of a run, and those that a receiver keeps apart, at the most.
pub(crate) const FLOWS_MAX: u32 = 1 << 20;
/// Default number of flows, at the most.
const FLOWS_DEFAULT_MAX: u128 = 1 << 16;

/// From where to where frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ranges {
    pub(crate) src: Addrs,
    pub(crate) dst: Addrs,
    pub(crate) sport: Ports,
    pub(crate) dport: Ports,
}

/// The choice of addresses and ports from their ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Pick {
    /// The next of each range for each flow; a range that has ended begins again
    #[default]
    Step,
    /// Any of each range for each flow
    Random,
}

/// One flow, as frames need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    /// In network byte order; IPv4 has the first four.
    pub(crate) src: [u8; 16],
    pub(crate) dst: [u8; 16],
    /// Source and destination port.
    pub(crate) ports: [u8; 4],
    /// Sum of the addresses' words.
    pub(crate) addr_sum: u32,
    /// Sum with the ports.
    pub(crate) sum: u32,
    /// Number of frames sent.
    pub(crate) sent: u32,
}

impl Ranges {
    /// Returns the length of the longest range, up to a limit.
    pub(crate) fn default_count(&self) -> u32 {
        let ports = u128::from(self.sport.span().max(self.dport.span()));
        let longest = self.src.span().max(self.dst.span()).max(ports).saturating_add(1);
        u32::try_from(longest.min(FLOWS_DEFAULT_MAX)).unwrap_or(FLOWS_MAX)
    }

    /// The first `count` flows.
    pub(crate) fn flows(&self, count: u32, pick: Pick, seed: u64) -> Vec<Flow> {
        let mut random = Random::new(seed);
        (0..count).map(|number| self.flow(number, pick, &mut random)).collect()
    }

    fn flow(&self, number: u32, pick: Pick, random: &mut Random) -> Flow {
        let mut at = || match pick {
            Pick::Step => u128::from(number),
            Pick::Random => random.next_u128(),
        };
        let (src, dst) = (self.src.nth(at()), self.dst.nth(at()));
        let port = |at: u128| u64::try_from(at >> 64 ^ at & u128::from(u64::MAX)).unwrap_or(0);
        let (sport, dport) = (self.sport.nth(port(at())), self.dport.nth(port(at())));
        let mut ports = [0; 4];
        ports[..2].copy_from_slice(&sport.to_be_bytes());
        ports[2..].copy_from_slice(&dport.to_be_bytes());
        let addr_sum = sum_of(src) + sum_of(dst);
        Flow { src: octets(src), dst: octets(dst), ports, addr_sum, sum: addr_sum + sum(&ports), sent: 0 }
    }
}

pub(super) fn octets(address: core::net::IpAddr) -> [u8; 16] {
    match address {
        core::net::IpAddr::V4(v4) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&v4.octets());
            octets
        }
        core::net::IpAddr::V6(v6) => v6.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(src: &str, dst: &str, sport: &str) -> Ranges {
        let (src, dst) = (Addrs::parse(src).unwrap(), Addrs::parse(dst).unwrap());
        Ranges { src, dst, sport: Ports::parse(sport).unwrap(), dport: Ports { first: 9, last: 9 } }
    }

    #[test]
    fn there_are_as_many_flows_as_the_longest_range_has_members() {
        assert_eq!(ranges("192.0.2.1", "198.51.100.1-198.51.100.3", "7").default_count(), 3);
        assert_eq!(ranges("192.0.2.1", "198.51.100.1", "1024-2023").default_count(), 1000);
        assert_eq!(ranges("::/0", "2001:db8::1", "7").default_count(), 65_536);
    }

    #[test]
    fn each_range_steps_by_itself() {
        let flows = ranges("192.0.2.1-192.0.2.2", "198.51.100.1-198.51.100.3", "7-8").flows(4, Pick::Step, 0);
        let of = |flow: &Flow| (flow.src[3], flow.dst[3], flow.ports[1]);
        assert_eq!(flows.iter().map(of).collect::<Vec<_>>(), [(1, 1, 7), (2, 2, 8), (1, 3, 7), (2, 1, 8)]);
    }

    #[test]
    fn random_flows_are_in_their_ranges_many_and_the_same_for_the_same_seed() {
        for (src, dst) in [("192.0.2.1-192.0.2.250", "10.0.0.0/8"), ("2001:db8::/64", "2001:db8:1::/48")] {
            let ranges = ranges(src, dst, "1024-65535");
            let flows = ranges.flows(1000, Pick::Random, 7);
            assert_eq!(flows, ranges.flows(1000, Pick::Random, 7));
            assert_ne!(flows, ranges.flows(1000, Pick::Random, 8));
            let distinct: std::collections::BTreeSet<_> = flows.iter().map(|flow| flow.dst).collect();
            assert!(distinct.len() > 990, "{dst}: {}", distinct.len());
            assert!(flows.iter().all(|flow| u16::from_be_bytes([flow.ports[0], flow.ports[1]]) >= 1024));
        }
    }
}
