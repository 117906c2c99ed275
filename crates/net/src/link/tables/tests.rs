use super::*;
use crate::testkit::{addr4, addr6, ifnet, mac};

fn tables(change: impl FnOnce(&mut Config)) -> Tables {
    let mut config = Config { ifs: vec![ifnet(1), ifnet(3)], ..Config::default() };
    change(&mut config);
    Tables::new(config)
}

fn hop(tables: &Tables, addr: &str) -> To {
    tables.hop(0, addr.parse().unwrap(), || 0).to
}

#[test]
fn addresses_bring_their_routes_with_them() {
    let tables = tables(|_| ());
    assert_eq!(hop(&tables, "10.0.3.1"), To::Local { ifindex: 3 });
    assert_eq!(hop(&tables, "10.0.3.9"), To::OnLink { ifindex: 3 });
    assert_eq!(hop(&tables, "10.0.3.255"), To::Broadcast { ifindex: 3 });
    assert_eq!(hop(&tables, "10.0.3.0"), To::Broadcast { ifindex: 3 });
    assert_eq!(hop(&tables, "10.0.2.1"), To::NoRoute);
    assert_eq!(hop(&tables, "2001:db8:3::1"), To::Local { ifindex: 3 });
    assert_eq!(hop(&tables, "2001:db8:3::9"), To::OnLink { ifindex: 3 });
    assert_eq!(hop(&tables, "fe80::9"), To::NoRoute);
}

#[test]
fn interfaces_that_are_down_bring_no_routes() {
    let tables = tables(|config| config.ifs[1].up = false);
    for addr in ["10.0.3.1", "10.0.3.9", "2001:db8:3::1"] {
        assert_eq!(hop(&tables, addr), To::NoRoute);
    }
    assert!(tables.ifnet(3).is_some());
}

#[test]
fn an_own_address_is_stronger_than_a_broadcast_address_and_than_any_route() {
    let own = "10.0.1.255".parse().unwrap();
    let tables = tables(|config| {
        config.ifs[0].addrs.insert(0, IfAddr { addr: own, prefix_len: 32 });
        config.routes.push(Route::new(Prefix::host(addr4(1, 1).into()), To::Blackhole));
    });
    assert_eq!(hop(&tables, "10.0.1.255"), To::Local { ifindex: 1 });
    assert_eq!(hop(&tables, "10.0.1.1"), To::Local { ifindex: 1 });
}

#[test]
fn short_host_parts_have_no_broadcast_address() {
    for (prefix_len, broadcasts) in [(30, 2), (31, 0), (32, 0)] {
        let mut ifnet = ifnet(1);
        ifnet.addrs[0].prefix_len = prefix_len;
        assert_eq!(ifnet.broadcasts().count(), broadcasts);
    }
}

#[test]
fn a_hole_among_interfaces_is_an_interface_that_is_gone() {
    let tables = tables(|_| ());
    assert!(tables.ifnet(0).is_none() && tables.ifnet(2).is_none() && tables.ifnet(4).is_none());
    assert_eq!(tables.ifnet(3).map(|ifnet| ifnet.index), Some(3));
}

#[test]
fn our_addresses_are_found_and_no_others() {
    let tables = tables(|_| ());
    for i in [1, 3] {
        assert!(tables.is_ours(addr4(i, 1).into()) && tables.is_ours(addr6(i, 1).into()));
        assert!(tables.is_ours(wire::addr::link_local_from_mac(mac(i)).into()));
        assert!(tables.own.is_broadcast(addr4(i, 255)) && !tables.is_ours(addr4(i, 255).into()));
    }
    let strangers = (0..100_000_u32).map(|n| Ipv4Addr::from_bits(n.wrapping_mul(2_654_435_761)));
    let (mut wrong, mut looked_for) = (0, 0);
    for addr in strangers {
        wrong += u32::from(tables.is_ours(addr.into()));
        looked_for += u32::from(tables.own.may_have4(addr));
    }
    assert_eq!(wrong, 0);
    assert!(looked_for < 2000, "the filter lets {looked_for} of 100 000 pass");
}

#[test]
fn addresses_are_in_the_table_of_their_interface_or_in_all() {
    for all in [false, true] {
        let tables = tables(|config| {
            (config.more_fibs, config.addr_all_fibs) = (2, all);
            config.ifs[1].fib = 2;
            config
                .routes
                .push(Route { fib: 1, ..Route::new(Prefix::host(addr4(9, 9).into()), To::Blackhole) });
        });
        assert_eq!(tables.fib.tables(), 3);
        for [first, second] in
            [[addr4(1, 9).into(), addr4(3, 9).into()], [addr6(1, 9).into(), addr6(3, 9).into()]]
        {
            for fib in 0..3 {
                let is_here = |own: FibIndex, ifindex| {
                    if all || fib == own { To::OnLink { ifindex } } else { To::NoRoute }
                };
                let to = |addr: IpAddr| tables.hop(fib, addr, || 0).to;
                assert_eq!((to(first), to(second)), (is_here(0, 1), is_here(2, 3)), "table {fib}");
            }
        }
        let to = |fib| tables.hop(fib, addr4(9, 9).into(), || 0).to;
        assert_eq!([0, 1, 2].map(to), [To::NoRoute, To::Blackhole, To::NoRoute]);
    }
}

#[test]
fn a_table_without_a_number_is_table_0() {
    let tables = tables(|config| config.more_fibs = 1);
    assert_eq!(tables.hop(7, addr4(3, 9).into(), || 0).to, To::OnLink { ifindex: 3 });
    assert_eq!(tables.hop(1, addr4(3, 9).into(), || 0).to, To::NoRoute);
    let mut rib = Rib::with_tables(Bounds::SMALL, u8::MAX).unwrap();
    assert_eq!(rib.tables(), FIBS_MAX);
    let (to, origin) = (Prefix::host(addr4(3, 9).into()), Origin::Static);
    let refused = rib.load(&[Change { fib: FIBS_MAX, to, origin, hops: &[To::Blackhole.into()] }]);
    assert_eq!(refused[0].error, crate::fib::Error::NoSuchTable);
}

#[test]
fn interfaces_of_different_tables_may_have_the_same_addresses() {
    let tables = tables(|config| {
        config.more_fibs = 1;
        config.ifs[1].addrs = config.ifs[0].addrs.clone();
        config.ifs[1].fib = 1;
    });
    for addr in [IpAddr::from(addr4(1, 9)), addr6(1, 9).into()] {
        let to = |fib| tables.hop(fib, addr, || 0).to;
        assert_eq!([to(0), to(1)], [To::OnLink { ifindex: 1 }, To::OnLink { ifindex: 3 }]);
    }
}
