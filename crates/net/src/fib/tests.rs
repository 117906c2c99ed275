#![expect(clippy::cast_possible_truncation, reason = "dice are cut to size")]

use core::net::{Ipv4Addr, Ipv6Addr};
use std::collections::HashMap;

use super::*;

/// A table that everybody understands: all prefixes, tried from the longest.
#[derive(Default)]
struct Naive(HashMap<Prefix, To>);

impl Naive {
    fn lookup(&self, addr: IpAddr) -> To {
        let longest = Prefix::host(addr).prefix_len();
        let prefixes = (0..=longest).rev().filter_map(|len| Prefix::new(addr, len));
        prefixes.filter_map(|prefix| self.0.get(&prefix).copied()).next().unwrap_or_default()
    }
}

/// A deterministic generator (xorshift64*, S. Vigna 2016).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> u64 {
        ((self.roll() >> 32) * n) >> 32
    }

    /// An address: half of them alike in most bits, so that prefixes nest and collide.
    fn addr(&mut self, v6: bool) -> IpAddr {
        let (wild, near) = (self.roll(), self.roll() & self.roll() & self.roll() & 0x0303_0303_0303_0303);
        let bits = if self.below(2) == 0 { near } else { wild };
        if v6 {
            let high = u128::from(bits & 0x00ff_ffff_ffff_ffff) << 64;
            let low = if self.below(4) == 0 { u128::from(self.roll() & 0x8000_0000_0000_0003) } else { 0 };
            Ipv6Addr::from_bits(0x20 << 120 | high | low).into()
        } else {
            Ipv4Addr::from_bits((bits >> 32) as u32).into()
        }
    }

    fn prefix(&mut self, v6: bool) -> Prefix {
        let addr = self.addr(v6);
        let longest = Prefix::host(addr).prefix_len();
        let usual = if v6 { [32, 48, 64] } else { [16, 23, 24] };
        let len = match self.below(8) {
            0 => self.below(u64::from(longest) + 1) as u8,
            1 => longest,
            n => usual[n as usize % 3] + self.below(2) as u8,
        };
        Prefix::new(addr, len).unwrap()
    }

    fn to(&mut self) -> To {
        To::OnLink { ifindex: 1 + self.below(7) as u16 }
    }
}

fn set(to: Prefix, hop: &[Hop]) -> Change<'_> {
    Change { fib: 0, to, origin: Origin::Static, hops: hop }
}

/// Returns the results of both kinds of lookup, which must be the same.
fn answers(rib: &Rib, addrs: &[IpAddr]) -> Vec<To> {
    let (fib, hops) = (rib.fib(), rib.hops());
    let (keys4, keys6): (Vec<_>, Vec<_>) = addrs
        .iter()
        .map(|addr| match addr {
            IpAddr::V4(addr) => (Some(addr.to_bits()), None),
            IpAddr::V6(addr) => (None, Some(addr.to_bits())),
        })
        .unzip();
    let (keys4, keys6): (Vec<_>, Vec<_>) =
        (keys4.into_iter().flatten().collect(), keys6.into_iter().flatten().collect());
    let mut ids = vec![HopId::NO_ROUTE; addrs.len()];
    fib.lookup4(&keys4, &mut ids[..keys4.len()]);
    fib.lookup6(&keys6, &mut ids[keys4.len()..]);
    for (addr, id) in addrs.iter().zip(&ids) {
        assert_eq!(fib.lookup(*addr), *id, "{addr}: alone and in a vector");
    }
    ids.into_iter().map(|id| hops.get(id).to).collect()
}

/// Changes at random, and lookups after each few; answers how many lookups were right.
fn churn(v6: bool, seed: u64, rounds: usize, lookups: usize) -> usize {
    let (mut dice, mut naive) = (Dice(seed), Naive::default());
    let mut rib = Rib::new(Bounds::SMALL).unwrap();
    let mut present: Vec<Prefix> = Vec::new();
    for round in 0..rounds {
        for _ in 0..dice.below(8) {
            let known = !present.is_empty() && dice.below(2) == 0;
            let to = if known { present[dice.below(present.len() as u64) as usize] } else { dice.prefix(v6) };
            // More come than go at first, then more go than come.
            if dice.below(rounds as u64) < round as u64 && known {
                assert_eq!(rib.load(&[set(to, &[])]), []);
                naive.0.remove(&to);
                present.retain(|other| *other != to);
            } else {
                let hop = dice.to();
                assert_eq!(rib.load(&[set(to, &[hop.into()])]), []);
                if naive.0.insert(to, hop).is_none() {
                    present.push(to);
                }
            }
        }
        let addrs: Vec<_> = (0..lookups).map(|at| probe(&mut dice, v6, &present, at)).collect();
        for (addr, answer) in addrs.iter().zip(answers(&rib, &addrs)) {
            assert_eq!(answer, naive.lookup(*addr), "{addr} in round {round} of seed {seed}");
        }
        for addr in addrs.iter().take(8) {
            let block = Prefix::new(*addr, rib.fib().block_len(*addr)).unwrap();
            let is_in = |to: &&Prefix| block.contains(**to) && to.prefix_len() > block.prefix_len();
            assert_eq!(present.iter().find(is_in), None, "{block:?} in round {round} of seed {seed}");
        }
    }
    for to in present {
        assert_eq!(rib.load(&[set(to, &[])]), []);
    }
    let usage = rib.usage();
    assert_eq!((usage.routes4, usage.routes6, usage.hops.0), (0, 0, 0), "what is empty holds nothing");
    assert_eq!((usage.nodes4.0, usage.lines6.0), (0, 0), "and needs no memory");
    rounds * lookups
}

#[test]
fn the_bits_that_decide_about_an_address_are_those_that_tell_it_from_other_routes() {
    let mut rib = Rib::new(Bounds::SMALL).unwrap();
    let hop = Hop::from(To::OnLink { ifindex: 1 });
    for (to, len) in
        [("0.0.0.0", 0), ("192.0.2.0", 23), ("::", 0), ("2001:db8::", 32), ("2001:db8:4:1::", 64)]
    {
        let to = Prefix::new(to.parse().unwrap(), len).unwrap();
        assert_eq!(rib.load(&[set(to, &[hop])]), []);
    }
    for (addr, bits) in [
        ("203.0.113.1", 16),
        ("192.0.4.1", 24),
        ("192.0.2.1", 24),
        ("fd00::1", 16),
        ("2001:db9::1", 32),
        ("2001:db8:8::1", 45),
    ] {
        assert_eq!(rib.fib().block_len(addr.parse().unwrap()), bits, "{addr}");
    }
}

/// Anywhere, or at the edges of a prefix that there is.
fn probe(dice: &mut Dice, v6: bool, present: &[Prefix], at: usize) -> IpAddr {
    if at.is_multiple_of(3) || present.is_empty() {
        return dice.addr(v6);
    }
    let prefix = present[dice.below(present.len() as u64) as usize];
    let beyond = dice.below(3);
    match prefix.addr() {
        IpAddr::V4(addr) => {
            let hosts = u32::MAX.checked_shr(prefix.prefix_len().into()).unwrap_or(0);
            let bits = [addr.to_bits(), addr.to_bits() | hosts, (addr.to_bits() | hosts).wrapping_add(1)];
            Ipv4Addr::from_bits(bits[beyond as usize]).into()
        }
        IpAddr::V6(addr) => {
            let hosts = u128::MAX.checked_shr(prefix.prefix_len().into()).unwrap_or(0);
            let bits = [addr.to_bits(), addr.to_bits() | hosts, (addr.to_bits() | hosts).wrapping_add(1)];
            Ipv6Addr::from_bits(bits[beyond as usize]).into()
        }
    }
}

#[test]
fn a_million_lookups_between_changes_are_those_of_a_naive_table() {
    for v6 in [false, true] {
        let right: usize = (1..=4).map(|seed| churn(v6, seed, 500, 300)).sum();
        assert!(right >= 500_000);
    }
}

/// Lookups ask for nodes ahead once there are many, so the way there differs from that in a small table.
#[test]
fn a_table_larger_than_a_cache_answers_like_a_naive_table() {
    for (v6, count) in [(false, 1500_u32), (true, 9000)] {
        let mut rib = Rib::new(Bounds { lines6: 1 << 16, ..Bounds::SMALL }).unwrap();
        let (mut naive, mut dice) = (Naive::default(), Dice(7));
        let addr = |n: u32| {
            let bits = n.wrapping_mul(0x9e37_79b9);
            if v6 {
                IpAddr::from(Ipv6Addr::from_bits(u128::from(bits) << 96 | u128::from(bits) << 64))
            } else {
                Ipv4Addr::from_bits(bits).into()
            }
        };
        let len = if v6 { 56 } else { 24 };
        let nets: Vec<_> =
            (0..count).map(|n| Prefix::new(addr(n), len + dice.below(9) as u8).unwrap()).collect();
        for net in &nets {
            let hop = dice.to();
            assert_eq!(rib.load(&[set(*net, &[hop.into()])]), []);
            naive.0.insert(*net, hop);
        }
        let (nodes, lines) = (rib.usage().nodes4.0, rib.usage().lines6.0);
        assert!(if v6 { lines >= v6::LARGE } else { nodes > v4::LARGE }, "{:?}", rib.usage());
        let addrs: Vec<_> = (0..3000).map(|at| probe(&mut dice, v6, &nets, at)).collect();
        let right: Vec<_> = addrs.iter().map(|addr| naive.lookup(*addr)).collect();
        assert_eq!(answers(&rib, &addrs), right);
    }
}

/// Many routes in a few networks come in any order, go again, and come back: nodes grow, are made anew, and shrink.
#[test]
fn nodes_that_grow_and_shrink_answer_like_a_naive_table() {
    let mut rib = Rib::new(Bounds { lines6: 1 << 15, ..Bounds::SMALL }).unwrap();
    let (mut naive, mut dice) = (Naive::default(), Dice(5));
    let mut nets: Vec<Prefix> = Vec::new();
    let mut largest = 0;
    for step in 0..12_000_u32 {
        let is_end = dice.below(8) < if step / 4000 == 1 { 6 } else { 1 };
        if is_end && !nets.is_empty() {
            let gone = nets.swap_remove(dice.below(nets.len() as u64) as usize);
            naive.0.remove(&gone);
            assert_eq!(rib.load(&[set(gone, &[])]), []);
        } else {
            let bits = 0x2001 << 112 | u128::from(dice.roll() >> 16 & !(0xff << 40)) << 64;
            let len = [20, 29, 32, 40, 44, 48, 48, 48, 56, 64, 65, 96, 128][dice.below(13) as usize];
            let net = Prefix::new(Ipv6Addr::from_bits(bits | u128::from(dice.below(4))).into(), len).unwrap();
            let hop = dice.to();
            assert_eq!(rib.load(&[set(net, &[hop.into()])]), []);
            if naive.0.insert(net, hop).is_none() {
                nets.push(net);
            }
        }
        if step % 100 == 0 {
            let addrs: Vec<_> = (0..200).map(|at| probe(&mut dice, true, &nets, at)).collect();
            let right: Vec<_> = addrs.iter().map(|addr| naive.lookup(*addr)).collect();
            assert_eq!(answers(&rib, &addrs), right, "step {step}");
        }
        largest = largest.max(rib.usage().lines6.0);
    }
    assert!(largest > 1000, "{largest} lines");
    nets.iter().for_each(|net| assert_eq!(rib.load(&[set(*net, &[])]), []));
    assert_eq!(rib.usage().lines6.0, 0, "what is empty needs no memory");
}

/// A site's networks come and go one by one, of several lengths, also longer than the half of an address.
#[test]
fn nodes_that_fill_up_and_empty_again_answer_like_a_naive_table() {
    for (lines6, len, count) in
        [(1 << 9, 40, 256), (1 << 14, 40, 256), (1 << 12, 46, 512), (1 << 12, 72, 256)]
    {
        let mut rib = Rib::new(Bounds { lines6, ..Bounds::SMALL }).unwrap();
        let mut naive = Naive::default();
        let bits = |n: u32| 0x2001_0db8 << 96 | u128::from(n) << (128 - len);
        let nets: Vec<_> =
            (0..count).map(|n| Prefix::new(Ipv6Addr::from_bits(bits(n)).into(), len).unwrap()).collect();
        let addrs: Vec<_> = nets.iter().map(|net| net.addr()).collect();
        let halves = (0..2).flat_map(|_| (0..count).map(|n| (n * 37 % count) as usize));
        for (step, at) in halves.enumerate() {
            let hop = To::OnLink { ifindex: 1 + (at % 5) as u16 };
            let is_new = naive.0.insert(nets[at], hop).is_none();
            if !is_new {
                naive.0.remove(&nets[at]);
            }
            let hops = [Hop::from(hop)];
            assert_eq!(rib.load(&[set(nets[at], &hops[..usize::from(is_new)])]), []);
            if step % 61 == 0 {
                let right: Vec<_> = addrs.iter().map(|addr| naive.lookup(*addr)).collect();
                assert_eq!(answers(&rib, &addrs), right, "/{len}, {step} changes");
            }
        }
        assert_eq!(rib.usage().lines6.0, 0, "and what is empty needs no memory");
    }
}

#[test]
fn a_default_route_covers_both_ends_of_the_address_space() {
    for (zero, ones) in [
        (IpAddr::from([0u8; 4]), IpAddr::from([255u8; 4])),
        (IpAddr::from([0u8; 16]), IpAddr::from([255u8; 16])),
    ] {
        let mut rib = Rib::new(Bounds::SMALL).unwrap();
        let all = Prefix::new(zero, 0).unwrap();
        assert_eq!(rib.load(&[set(all, &[To::Reject.into()])]), []);
        assert_eq!(answers(&rib, &[zero, ones]), [To::Reject, To::Reject]);
        assert_eq!(rib.load(&[set(all, &[])]), []);
        assert_eq!(answers(&rib, &[zero, ones]), [To::NoRoute, To::NoRoute]);
    }
}

#[test]
fn a_prefix_with_too_many_bits_is_none() {
    assert_eq!(Prefix::new(IpAddr::from([0u8; 4]), 33), None);
    assert_eq!(Prefix::new(IpAddr::from([0u8; 16]), 129), None);
}
