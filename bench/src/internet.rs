//! Routing tables like those of today's Internet, and destinations in them.
//!
//! How many prefixes of each length there are follows the tables that the route collectors of RIPE RIS and RouteViews
//! showed in 2024 and 2025, rounded to the tenth of a percent: about a million IPv4 prefixes, six in ten of them /24,
//! and about 230 thousand of IPv6, nearly half of them /48. How they lie is an approximation: IPv4 prefixes are thrown
//! at random, and most of the longer ones fall near others; IPv6 prefixes are thrown into blocks that the registries
//! hand out, and most of the longer ones fall into few of the shorter ones, near their beginnings.
//!
//! All of it follows from a seed.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "random numbers are cut to size"
)]

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::HashSet;

use net::fib::Prefix;

use crate::frames::Family;

/// Prefixes in today's IPv4 table.
pub const ROUTES4: usize = 1_000_000;
/// Prefixes in today's IPv6 table, rounded up.
pub const ROUTES6: usize = 250_000;

/// Share of each prefix length among a thousand IPv4 prefixes.
const LENGTHS4: &[(u8, u32)] = &[
    (8, 1),
    (12, 1),
    (14, 1),
    (15, 2),
    (16, 14),
    (17, 8),
    (18, 14),
    (19, 25),
    (20, 45),
    (21, 52),
    (22, 117),
    (23, 105),
    (24, 615),
];
/// Share of each prefix length among a thousand IPv6 prefixes.
const LENGTHS6: &[(u8, u32)] = &[
    (20, 1),
    (24, 2),
    (28, 4),
    (29, 26),
    (30, 4),
    (31, 3),
    (32, 112),
    (33, 24),
    (34, 20),
    (35, 9),
    (36, 43),
    (37, 6),
    (38, 14),
    (39, 7),
    (40, 82),
    (41, 7),
    (42, 18),
    (43, 6),
    (44, 88),
    (45, 8),
    (46, 27),
    (47, 16),
    (48, 473),
];
/// First 16 bits of IPv6 addresses that the registries hand out, and how many such blocks lie side by side.
const BLOCKS6: &[(u16, u64)] =
    &[(0x2001, 1), (0x2400, 16), (0x2600, 16), (0x2800, 8), (0x2a00, 20), (0x2c0e, 2)];

/// A prefix, and which of the next hops it has.
pub type Entry = (Prefix, u16);

/// A table of `count` different prefixes of this family, each with one of `hops` next hops, in random order.
#[must_use]
pub fn table(family: Family, count: usize, hops: u16, seed: u64) -> Vec<Entry> {
    let mut random = Random::new(seed);
    let lengths = if family == Family::Ip4 { LENGTHS4 } else { LENGTHS6 };
    let total: u32 = lengths.iter().map(|(_, share)| share).sum();
    let mut made = Made::default();
    for (len, share) in lengths {
        let until = made.all.len() + count * *share as usize / total as usize;
        made.fill(family, *len, until, &mut random);
    }
    made.fill(family, lengths[lengths.len() - 1].0, count, &mut random);
    random.shuffle(&mut made.all);
    let hops = u64::from(hops.max(1));
    // A few peers have most of the routes.
    made.all.into_iter().map(|prefix| (prefix, (random.skewed(hops)) as u16)).collect()
}

/// Which destinations are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Each route as often as any other.
    Routes,
    /// Few routes often and most seldom, as on real links: the n-th most popular one n times less often than the first.
    Zipf,
    /// Each address of the address space as often as any other: most of them are behind short prefixes, or nowhere.
    Addresses,
}

/// `count` destinations, in the order in which they are asked for.
#[must_use]
pub fn destinations(table: &[Entry], traffic: Traffic, count: usize, seed: u64) -> Vec<IpAddr> {
    let mut random = Random::new(seed);
    let routes = table.len().max(1) as u64;
    let is_v4 = table.first().is_none_or(|(prefix, _)| prefix.addr().is_ipv4());
    let one = |_| {
        let at = match traffic {
            Traffic::Routes => random.below(routes),
            Traffic::Zipf => random.zipf(routes),
            Traffic::Addresses => return random.address(is_v4),
        };
        table
            .get(at as usize)
            .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |(prefix, _)| random.address_in(*prefix))
    };
    (0..count).map(one).collect()
}

/// Prefixes that were made, in order and to be looked for.
#[derive(Default)]
struct Made {
    all: Vec<Prefix>,
    known: HashSet<Prefix>,
}

impl Made {
    /// Makes prefixes of `len` bits until there are `until` in all, or no room is found.
    fn fill(&mut self, family: Family, len: u8, until: usize, random: &mut Random) {
        let mut tries = 64 * until;
        while self.all.len() < until && tries > 0 {
            tries -= 1;
            let addr = match family {
                Family::Ip4 => self.addr4(len, random),
                Family::Ip6 => self.addr6(len, random),
            };
            let prefix = Prefix::new(addr, len).filter(|prefix| !self.known.contains(prefix));
            self.known.extend(prefix);
            self.all.extend(prefix);
        }
    }

    /// Two in three long prefixes are near another one; all are globally unicast.
    fn addr4(&self, len: u8, random: &mut Random) -> IpAddr {
        let near = self.all.get(random.below(self.all.len().max(1) as u64) as usize);
        let bits = match near.map(|near| near.addr()) {
            Some(IpAddr::V4(near)) if len > 20 && random.below(3) > 0 => {
                let distance = random.below(64) as u32;
                near.to_bits() ^ distance << (32 - len)
            }
            _ => random.next() as u32,
        };
        let first = bits >> 24;
        let is_unicast = (1..224).contains(&first) && first != 10 && first != 127;
        Ipv4Addr::from_bits(if is_unicast { bits } else { bits & 0x00ff_ffff | 0x1700_0000 }).into()
    }

    fn addr6(&self, len: u8, random: &mut Random) -> IpAddr {
        // Those of 32 bits and less come first.
        let parent = self.all.get(random.skewed(self.all.len().max(1) as u64) as usize);
        let bits = match parent {
            Some(parent) if len > 32 => {
                let IpAddr::V6(addr) = parent.addr() else { return parent.addr() };
                let free = u32::from(len.saturating_sub(parent.prefix_len())).min(16);
                let within = random.skewed(1 << free);
                addr.to_bits() | u128::from(within) << (128 - len)
            }
            _ => {
                let (first, many) = BLOCKS6[random.below(BLOCKS6.len() as u64) as usize];
                let first = u128::from(first) + u128::from(random.below(many));
                // Registries leave room for a block to grow.
                first << 112 | u128::from(random.below(1 << 13) << 3) << 96
            }
        };
        Ipv6Addr::from_bits(bits).into()
    }
}

/// Numbers without a pattern, the same in each run (xorshift64*, S. Vigna 2016).
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next.
    pub const fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `bound`.
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }

    /// In 0 to 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Below `bound`, small numbers far more often than large ones.
    fn skewed(&mut self, bound: u64) -> u64 {
        let share = self.share();
        ((share * share * share * bound as f64) as u64).min(bound.saturating_sub(1))
    }

    /// Below `bound`; `n` comes about `n + 1` times less often than 0.
    fn zipf(&mut self, bound: u64) -> u64 {
        let rank = (self.share() * ((bound + 1) as f64).ln()).exp() as u64;
        rank.clamp(1, bound.max(1)) - 1
    }

    fn shuffle<T>(&mut self, all: &mut [T]) {
        for at in (1..all.len()).rev() {
            all.swap(at, self.below(at as u64 + 1) as usize);
        }
    }

    fn address(&mut self, is_v4: bool) -> IpAddr {
        if is_v4 {
            Ipv4Addr::from_bits(self.next() as u32).into()
        } else {
            Ipv6Addr::from_bits(1 << 125 | u128::from(self.next() >> 3) << 64 | u128::from(self.next()))
                .into()
        }
    }

    fn address_in(&mut self, prefix: Prefix) -> IpAddr {
        let hosts = u128::MAX.checked_shr(prefix.prefix_len().into()).unwrap_or(0);
        match prefix.addr() {
            IpAddr::V4(addr) => {
                Ipv4Addr::from_bits(addr.to_bits() | self.next() as u32 & (hosts >> 96) as u32).into()
            }
            IpAddr::V6(addr) => {
                let host = u128::from(self.next()) << 64 | u128::from(self.next());
                Ipv6Addr::from_bits(addr.to_bits() | host & hosts).into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_as_many_prefixes_as_were_asked_for_and_all_differ() {
        for family in [Family::Ip4, Family::Ip6] {
            let table = table(family, 20_000, 8, 1);
            let different: HashSet<_> = table.iter().map(|(prefix, _)| prefix).collect();
            assert_eq!((table.len(), different.len()), (20_000, 20_000));
            assert!(table.iter().all(|(_, hop)| *hop < 8));
        }
    }

    #[test]
    fn prefixes_of_each_length_have_their_share() {
        for (family, len, share) in
            [(Family::Ip4, 24, 0.615), (Family::Ip6, 48, 0.473), (Family::Ip6, 32, 0.112)]
        {
            let table = table(family, 20_000, 8, 1);
            let of_len = table.iter().filter(|(prefix, _)| prefix.prefix_len() == len).count() as f64;
            assert!((of_len / 20_000.0 - share).abs() < 0.02, "{of_len} of /{len}");
        }
    }

    #[test]
    fn a_seed_makes_the_same_table_again_and_another_makes_another() {
        assert_eq!(table(Family::Ip6, 1000, 4, 7), table(Family::Ip6, 1000, 4, 7));
        assert_ne!(table(Family::Ip6, 1000, 4, 7), table(Family::Ip6, 1000, 4, 8));
    }

    #[test]
    fn destinations_are_behind_routes_and_real_ones_prefer_few() {
        let table = table(Family::Ip4, 5000, 4, 1);
        let behind = |addr: &IpAddr| table.iter().any(|(prefix, _)| prefix.covers(*addr));
        assert!(destinations(&table, Traffic::Routes, 200, 1).iter().all(behind));
        let popular = destinations(&table, Traffic::Zipf, 2000, 1);
        let first = popular.iter().filter(|addr| table[0].0.covers(**addr)).count();
        assert!(first > 100, "{first} of 2000 to the most popular route of 5000");
    }
}
