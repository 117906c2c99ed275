use core::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::testkit::ifnet;

/// Few addresses, so that prefixes lie in each other.
fn addr(is_v4: bool, bits: u8) -> IpAddr {
    let (high, low) = (u32::from(bits >> 4), u32::from(bits & 15));
    match is_v4 {
        true => Ipv4Addr::from_bits(high << 28 | low).into(),
        false => Ipv6Addr::from_bits(u128::from(high) << 124 | u128::from(low)).into(),
    }
}

fn encap() -> impl Strategy<Value = Encap> {
    let key = prop_oneof![Just(None), (0..3_u32).prop_map(Some)];
    prop_oneof![Just(Encap::Ip), key.prop_map(|key| Encap::Gre { key })]
}

fn tunnel() -> impl Strategy<Value = Tunnel> {
    (any::<bool>(), 0..3_u8, any::<u8>(), 0..=8_u8, encap()).prop_map(|(is_v4, local, remote, len, encap)| {
        let bits = if is_v4 { 32 } else { 128 };
        let remote_len = match len {
            5.. => bits,
            4 => bits - 2,
            len => len,
        };
        Tunnel { local: addr(is_v4, local), remote: addr(is_v4, remote), remote_len, encap }
    })
}

fn table(tunnels: &[Tunnel]) -> (Tunnels, Vec<Ifnet>) {
    let ifs: Vec<_> = (1..)
        .zip(tunnels)
        .map(|(index, tunnel)| Ifnet { index, kind: Kind::Tunnel(*tunnel), ..ifnet(1) })
        .collect();
    (Tunnels::of(&ifs), ifs)
}

/// Looks at each tunnel.
fn slowly(ifs: &[Ifnet], ends: &Tunnel) -> Option<IfIndex> {
    let fits = |tunnel: &Tunnel| {
        let same = (tunnel.local, tunnel.encap) == (ends.local, ends.encap);
        same && tunnel.masked(tunnel.remote_len).remote == ends.masked(tunnel.remote_len).remote
    };
    let all = ifs.iter().filter_map(|ifnet| Some((ifnet.kind.tunnel()?, ifnet.index)));
    let fitting = all.filter(|(tunnel, _)| fits(tunnel));
    fitting
        .max_by_key(|(tunnel, index)| (tunnel.remote_len, core::cmp::Reverse(*index)))
        .map(|(_, index)| index)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_longest_match_is_the_one_that_a_look_at_each_tunnel_finds(
        tunnels in proptest::collection::vec(tunnel(), 0..40),
        asked in proptest::collection::vec((any::<bool>(), 0..4_u8, any::<u8>(), encap()), 50),
    ) {
        let (table, ifs) = table(&tunnels);
        prop_assert_eq!(table.is_empty(), tunnels.is_empty());
        let each = tunnels.iter().map(|tunnel| Tunnel::between(tunnel.local, tunnel.remote, tunnel.encap));
        let asked = asked.into_iter().map(|(is_v4, local, remote, encap)| {
            Tunnel::between(addr(is_v4, local), addr(is_v4, remote), encap)
        });
        for ends in each.chain(asked) {
            prop_assert_eq!(table.find(&ends), slowly(&ifs, &ends), "{:?}", ends);
        }
    }
}

#[test]
fn a_tunnel_is_found_in_as_few_steps_among_thousands_as_alone() {
    for is_v4 in [true, false] {
        for count in [1, 1000, 60_000_u32] {
            let local = addr(is_v4, 1);
            let remote = |n: u32| match is_v4 {
                true => IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n)),
                false => IpAddr::V6(Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(n) << 64 | 1)),
            };
            let tunnels: Vec<_> = (0..count)
                .map(|n| Tunnel::between(local, remote(n), Encap::Gre { key: Some(n % 7) }))
                .collect();
            let (table, _) = table(&tunnels);
            let steps = |ends: &Tunnel| {
                1 + table.places(ends).position(|at| table.whole[at].is_some_and(|it| it.0 == *ends)).unwrap()
            };
            let all: usize = tunnels.iter().map(steps).sum();
            assert!(all <= 2 * tunnels.len(), "{all} steps for {count} tunnels");
            let longest = tunnels.iter().map(steps).max().unwrap();
            assert!(longest <= 40, "{longest} steps at the most for {count} tunnels");
        }
    }
}
