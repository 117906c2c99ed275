use super::*;
use proptest::prelude::*;

fn naive(routes: &[Route], addr: IpAddr) -> Hop {
    let covering = routes.iter().filter(|route| route.to.covers(addr));
    // The last of the longest: `max_by_key` returns the last of equals.
    covering.max_by_key(|route| route.to.len).map_or(Hop::NoRoute, |route| route.hop)
}

/// Few bits vary, so that prefixes nest and collide.
fn addr4(bits: u8) -> IpAddr {
    Ipv4Addr::from_bits(u32::from(bits & 0xf0) << 24 | u32::from(bits & 0xf)).into()
}

fn addr6(bits: u8) -> IpAddr {
    Ipv6Addr::from_bits(u128::from(bits & 0xf0) << 120 | u128::from(bits & 0xf)).into()
}

fn hop(n: u8) -> Hop {
    Hop::OnLink { ifindex: u16::from(n) }
}

proptest! {
    #[test]
    fn lookup_is_the_longest_prefix_of_a_linear_search(
        v6: bool,
        routes in prop::collection::vec((any::<u8>(), 0u8..=8, 1u8..9), 0..40),
        probes in prop::collection::vec(any::<u8>(), 64),
    ) {
        let (addr, scale): (fn(u8) -> IpAddr, u8) = if v6 { (addr6, 16) } else { (addr4, 4) };
        let routes: Vec<_> = routes
            .iter()
            .map(|&(bits, len, n)| Route { to: Prefix::new(addr(bits), len * scale).unwrap(), hop: hop(n) })
            .collect();
        let fib = Fib::build(&routes);
        for probe in probes {
            prop_assert_eq!(fib.hop(fib.lookup(addr(probe))), naive(&routes, addr(probe)));
        }
    }
}

#[test]
fn a_default_route_covers_both_ends_of_the_address_space() {
    for (zero, ones) in [
        (IpAddr::from([0u8; 4]), IpAddr::from([255u8; 4])),
        (IpAddr::from([0u8; 16]), IpAddr::from([255u8; 16])),
    ] {
        let fib = Fib::build(&[Route { to: Prefix::new(zero, 0).unwrap(), hop: hop(1) }]);
        assert_eq!(fib.hop(fib.lookup(zero)), hop(1));
        assert_eq!(fib.hop(fib.lookup(ones)), hop(1));
    }
}

#[test]
fn a_prefix_with_too_many_bits_is_none() {
    assert_eq!(Prefix::new(IpAddr::from([0u8; 4]), 33), None);
    assert_eq!(Prefix::new(IpAddr::from([0u8; 16]), 129), None);
}
