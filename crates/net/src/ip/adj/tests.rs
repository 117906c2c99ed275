use core::net::IpAddr;
use core::time::Duration;

use wire::ether::Mac;

use super::*;
use crate::base::drop::DropReason;
use crate::fib::{Hop, Metrics, Prefix, Route};
use crate::ip::neigh::Key;
use crate::link::tables::Config;
use crate::testkit::link::{FAMILIES, Family, answer};
use crate::testkit::{Bench, addr4, addr6, build, ifnet, peer_mac};
use crate::turn::netisr::Netisr;

const GATEWAY: Mac = Mac([6, 0, 0, 0, 0, 0x10]);
const OTHER: Mac = Mac([6, 0, 0, 0, 0, 0x66]);

/// A host behind the gateway.
fn far(family: Family) -> IpAddr {
    match family {
        Family::V4 => "198.51.100.1".parse().unwrap(),
        Family::V6 => "2001:db8:ffff::1".parse().unwrap(),
    }
}

/// Two interfaces, and a route to [`far`] by `hop`.
fn config(family: Family, hop: impl Into<Hop>) -> Config {
    let ifs = vec![ifnet(1), ifnet(2)];
    let to = Prefix::host(far(family));
    Config { generation: 2, ifs, routes: vec![Route::new(to, hop)], forwarding: true, ..Default::default() }
}

fn over(family: Family, host: u8) -> To {
    To::Gateway { ifindex: 2, via: family.addr(2, host) }
}

fn bench(family: Family, hop: impl Into<Hop>) -> Bench {
    Bench::with(2, 1, |config| *config = self::config(family, hop))
}

/// Forwards a packet to `dst`, and answers to which link address it went.
fn forward(bench: &mut Bench, family: Family, dst: IpAddr) -> Option<Mac> {
    let src = family.addr(1, 9);
    bench.inject(1, build::frame(1, &build::udp(src, dst, (1, 2), b"way")));
    bench.run();
    let frames = bench.sent(2);
    frames.iter().find(|frame| frame.ends_with(b"way")).map(|frame| Mac(*frame.first_chunk().unwrap()))
}

fn adj(bench: &mut Bench, dst: IpAddr) -> Option<Adj> {
    let cpu = bench.cpu();
    cpu.adjs.get(cpu.tables.fib.lookup(dst)).copied()
}

#[test]
fn a_gateway_is_learned_by_a_packet_that_goes_there_and_says_all_that_the_next_needs() {
    for family in FAMILIES {
        let mut bench = bench(family, over(family, 254));
        assert!(adj(&mut bench, far(family)).is_none());
        let mac = peer_mac(family.addr(2, 254));
        for _ in 0..3 {
            assert_eq!(forward(&mut bench, family, far(family)), Some(mac));
        }
        let adj = adj(&mut bench, far(family)).expect("a record");
        assert_eq!((adj.kind, adj.outif, adj.mtu), (Kind::Gateway, 2, 1500));
        assert_eq!(adj.addrs[..], [mac.0, crate::testkit::mac(2).0].concat());
    }
}

#[test]
fn on_a_link_every_destination_has_its_own_link_address() {
    for family in FAMILIES {
        let mut bench = bench(family, To::NoRoute);
        for host in [20, 21, 20, 22, 21] {
            let dst = family.addr(2, host);
            assert_eq!(forward(&mut bench, family, dst), Some(peer_mac(dst)));
        }
        let adj = adj(&mut bench, family.addr(2, 99)).expect("one record for all of them");
        assert_eq!((adj.kind, adj.outif, adj.mtu), (Kind::OnLink, 2, 1500));
    }
}

/// A change, and the expected paths of packets after it.
type Change = (&'static str, Box<dyn Fn(&mut Netisr)>, Result<Mac, DropReason>);

fn changes(family: Family) -> Vec<Change> {
    let key = Key { ifindex: 2, addr: family.addr(2, 254) };
    let second = Key { ifindex: 2, addr: family.addr(2, 253) };
    let tables = |config: Config| {
        let tables = std::sync::Arc::new(crate::link::tables::Tables::new(config));
        Box::new(move |netisr: &mut Netisr| netisr.set_tables(tables.clone()))
    };
    let changed = |change: fn(&mut Config)| {
        let mut config = config(family, over(family, 254));
        change(&mut config);
        tables(config)
    };
    let learn = |key: Key| {
        Box::new(move |netisr: &mut Netisr| assert!(neigh::set_static(&mut netisr.cpu, key, OTHER)))
    };
    vec![
        ("the neighbour", learn(key), Ok(OTHER)),
        ("another neighbour", learn(second), Ok(GATEWAY)),
        ("the route's gateway", tables(config(family, over(family, 253))), Ok(peer_mac(second.addr))),
        ("the route's kind", tables(config(family, To::Blackhole)), Err(DropReason::BlackholeRoute)),
        ("the mtu", changed(|config| config.ifs[1].mtu = 20), Err(DropReason::TooBig)),
        ("up", changed(|config| config.ifs[1].up = false), Err(DropReason::InterfaceDown)),
        ("the interface", changed(|config| config.ifs.truncate(1)), Err(DropReason::InterfaceGone)),
        ("forwarding", changed(|config| config.forwarding = false), Err(DropReason::ForwardingOff)),
        ("nothing", changed(|_| ()), Ok(GATEWAY)),
    ]
}

#[test]
fn a_record_does_not_outlive_what_it_was_made_of() {
    for family in FAMILIES {
        for (what, change, expected) in changes(family) {
            let mut bench = bench(family, over(family, 254));
            let key = Key { ifindex: 2, addr: family.addr(2, 254) };
            assert!(neigh::set_static(bench.cpu(), key, GATEWAY));
            for _ in 0..2 {
                assert_eq!(forward(&mut bench, family, far(family)), Some(GATEWAY));
            }
            assert!(adj(&mut bench, far(family)).is_some());
            change(&mut bench.netisrs[0]);
            for _ in 0..2 {
                let went = forward(&mut bench, family, far(family));
                assert_eq!(went, expected.ok(), "{family:?}: after {what} changed");
            }
            let dropped = expected.err().map_or(1, |reason| bench.dropped(reason));
            assert!(dropped > 0, "{family:?}: after {what} changed: {:?}", bench.drops());
        }
    }
}

/// Sends a packet of ours to `dst`, and answers to which link address it went.
fn send(bench: &mut Bench, family: Family, dst: IpAddr) -> Option<Mac> {
    let packet = build::udp(family.addr(2, 1), dst, (1, 2), b"way");
    let pkt = crate::testkit::load(&mut bench.cpu().pool, &packet.into()).unwrap();
    crate::ip::ip_tx::output(bench.cpu(), pkt);
    bench.run();
    let frames = bench.sent(2);
    frames.iter().find(|frame| frame.ends_with(b"way")).map(|frame| Mac(*frame.first_chunk().unwrap()))
}

#[test]
fn what_is_sent_from_here_goes_by_a_record_that_does_not_outlive_what_it_was_made_of() {
    for family in FAMILIES {
        for (what, change, forwarded) in changes(family) {
            let mut bench = bench(family, over(family, 254));
            let key = Key { ifindex: 2, addr: family.addr(2, 254) };
            assert!(neigh::set_static(bench.cpu(), key, GATEWAY));
            let hop = bench.cpu().tables.fib.lookup(far(family));
            for _ in 0..2 {
                assert_eq!(send(&mut bench, family, far(family)), Some(GATEWAY));
            }
            assert!(bench.cpu().adjs.own(hop).is_some());
            change(&mut bench.netisrs[0]);
            let expected = match (what, family) {
                // What is sent from here is sent whether others are forwarded or not, and of IPv6 in pieces.
                ("forwarding", _) | ("the mtu", Family::V6) => Some(GATEWAY),
                _ => forwarded.ok(),
            };
            for _ in 0..2 {
                let went = send(&mut bench, family, far(family));
                assert_eq!(went, expected, "{family:?}: after {what} changed");
            }
        }
    }
}

#[test]
fn what_is_sent_from_here_obeys_what_is_learned_of_its_destination_though_there_is_a_record() {
    for family in FAMILIES {
        let mut bench = bench(family, over(family, 254));
        for host in [253, 254] {
            let key = Key { ifindex: 2, addr: family.addr(2, host) };
            assert!(neigh::set_static(bench.cpu(), key, if host == 254 { GATEWAY } else { OTHER }));
        }
        assert_eq!(send(&mut bench, family, far(family)), Some(GATEWAY));
        assert_eq!(send(&mut bench, family, far(family)), Some(GATEWAY));
        let better = Key { ifindex: 2, addr: family.addr(2, 253) };
        crate::ip::host_cache::redirect(bench.cpu(), far(family), better);
        assert_eq!(send(&mut bench, family, far(family)), Some(OTHER), "{family:?}");
    }
}

#[test]
fn the_owner_hears_of_the_use_of_a_stale_neighbour_that_a_record_is_of() {
    for family in FAMILIES {
        let mut bench = bench(family, over(family, 254));
        bench.neighbours_answer = false;
        let via = family.addr(2, 254);
        let state = |bench: &mut Bench| neigh::entries(bench.cpu()).first().map(|entry| entry.state);
        forward(&mut bench, family, far(family));
        bench.hear(2, &answer(2, GATEWAY, via));
        bench.forget_sent();
        forward(&mut bench, family, far(family));
        assert!(adj(&mut bench, far(family)).is_some());
        bench.advance(Duration::from_secs(45));
        assert_eq!(state(&mut bench), Some(neigh::State::Stale));
        assert!(adj(&mut bench, far(family)).is_none(), "or nobody would hear of the next packet");
        assert_eq!(forward(&mut bench, family, far(family)), Some(GATEWAY));
        assert_eq!(state(&mut bench), Some(neigh::State::Delay), "{family:?}");
        assert!(adj(&mut bench, far(family)).is_some(), "one report is enough");
    }
}

#[test]
fn the_smaller_of_the_mtus_of_link_and_route_counts() {
    for family in FAMILIES {
        for (route, mtu) in [(0, 1500), (1400, 1400), (9000, 1500)] {
            let metrics = Metrics { mtu: route, ..Metrics::default() };
            let mut bench = bench(family, Hop { to: over(family, 254), metrics });
            for _ in 0..2 {
                forward(&mut bench, family, far(family));
            }
            assert_eq!(adj(&mut bench, far(family)).map(|adj| adj.mtu), Some(mtu));
        }
    }
}

#[test]
fn every_flow_keeps_to_one_gateway_of_a_group_and_all_are_used() {
    for family in FAMILIES {
        let to = Prefix::new(far(family), if far(family).is_ipv4() { 24 } else { 112 }).unwrap();
        let hops = [over(family, 252), over(family, 253), over(family, 254)].map(Hop::from).to_vec();
        let mut bench = Bench::with(2, 1, |config| config.routes = vec![Route { fib: 0, to, hops }]);
        let hosts: Vec<_> = (1..=60).map(|host| nth(to.addr(), host)).collect();
        let went = |bench: &mut Bench, dst| forward(bench, family, dst).expect("forwarded");
        let first: Vec<_> = hosts.iter().map(|dst| went(&mut bench, *dst)).collect();
        let again: Vec<_> = hosts.iter().map(|dst| went(&mut bench, *dst)).collect();
        assert_eq!(first, again, "{family:?}: with records as without");
        for host in [252, 253, 254] {
            let flows = first.iter().filter(|mac| **mac == peer_mac(family.addr(2, host))).count();
            assert!(flows > 8, "{family:?}: {flows} of 60 flows over {host}");
        }
        let group = adj(&mut bench, hosts[0]);
        assert_eq!(group.map(|adj| adj.kind), Some(Kind::Group));
    }
}

fn nth(net: IpAddr, host: u8) -> IpAddr {
    match net {
        IpAddr::V4(net) => core::net::Ipv4Addr::from_bits(net.to_bits() + u32::from(host)).into(),
        IpAddr::V6(net) => core::net::Ipv6Addr::from_bits(net.to_bits() + u128::from(host)).into(),
    }
}

#[test]
fn what_is_not_sent_on_has_no_record() {
    for family in FAMILIES {
        for hop in [To::NoRoute, To::Reject, To::Blackhole, To::Local { ifindex: 1 }] {
            let mut bench = bench(family, hop);
            assert_eq!(forward(&mut bench, family, far(family)), None);
            assert!(adj(&mut bench, far(family)).is_none(), "{hop:?}");
        }
    }
    for host in [addr4(1, 255), addr4(2, 255)] {
        let mut bench = bench(Family::V4, To::NoRoute);
        assert_eq!(forward(&mut bench, Family::V4, host.into()), None);
        assert!(adj(&mut bench, host.into()).is_none());
    }
}

#[test]
fn hops_beyond_the_bound_have_no_record_and_work_all_the_same() {
    let dst = |at: u32| IpAddr::from(core::net::Ipv4Addr::from_bits(0xc600_0000 + at));
    let via = |at: u32| addr6(2, u16::try_from(at).unwrap() + 2).into();
    let hops = u32::try_from(ADJS_MAX).unwrap();
    let routes =
        (0..hops).map(|at| Route::new(Prefix::host(dst(at)), To::Gateway { ifindex: 2, via: via(at) }));
    let routes: Vec<_> =
        routes.chain([Route::new(Prefix::host(far(Family::V4)), over(Family::V4, 254))]).collect();
    let mut bench = Bench::with(2, 1, |config| config.routes = routes);
    let id = bench.cpu().tables.fib.lookup(far(Family::V4));
    assert!(id.index() >= ADJS_MAX);
    for _ in 0..3 {
        assert_eq!(forward(&mut bench, Family::V4, far(Family::V4)), Some(peer_mac(addr4(2, 254).into())));
    }
    assert!(adj(&mut bench, far(Family::V4)).is_none() && bench.cpu().adjs.table.len() <= ADJS_MAX);
    for _ in 0..2 {
        assert!(forward(&mut bench, Family::V4, dst(7)).is_some());
    }
    assert!(adj(&mut bench, dst(7)).is_some());
}
