use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::Protocol;
use wire::ether::Mac;

use super::*;
use crate::base::time::Duration;
use crate::link::bridge::{Bridge, Port};
use crate::link::tables::{Config, Ifnet};
use crate::testkit::link::{FAMILIES, Family};
use crate::testkit::{Bench, build, ifnet};

/// Ports 1 to 3 are of the bridge 4.
const PORTS: [IfIndex; 3] = [1, 2, 3];
const BRIDGE: IfIndex = 4;

fn cold(cpus: u16) -> Bench {
    let mut bench = Bench::cold(3, cpus, |config: &mut Config| {
        for ifnet in &mut config.ifs {
            ifnet.port = Some(Port { bridge: BRIDGE, ..Port::default() });
            ifnet.addrs = Vec::new();
        }
        let bridge = Bridge { snooping: true, ..Bridge::default() };
        config.ifs.push(Ifnet { kind: Lower::Bridge(bridge), ..ifnet(BRIDGE) });
    });
    bench.neighbours_answer = false;
    bench
}

/// A bridge whose stations have been asked, and have had time to answer.
fn warm(cpus: u16) -> Bench {
    let mut bench = cold(cpus);
    bench.advance(Duration::from_secs(20));
    bench.forget_sent();
    bench
}

fn station(host: u8) -> Mac {
    Mac([6, 0, 0, 0, 7, host])
}

fn group(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(239, 1, 2, 3).into(),
        Family::V6 => Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 0x77).into(),
    }
}

fn speaker(family: Family, host: u8) -> IpAddr {
    match family {
        Family::V4 => family.addr(BRIDGE, host),
        Family::V6 => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, host.into()).into(),
    }
}

/// A frame to the link address of a group.
fn to_group(dst: IpAddr, packet: &[u8]) -> Vec<u8> {
    let (mac, kind) = match dst {
        IpAddr::V4(dst) => (wire::addr::multicast_mac_v4(dst), 0x0800),
        IpAddr::V6(dst) => (wire::addr::multicast_mac_v6(dst), 0x86dd),
    };
    build::ether(mac.unwrap(), station(9), kind, packet)
}

fn data(family: Family, dst: IpAddr) -> Vec<u8> {
    to_group(dst, &build::udp(speaker(family, 99), dst, (1, 7), &[7; 40]))
}

/// A report of a station on a group: that it listens, or has left.
fn said(family: Family, joins: bool) -> Vec<u8> {
    let kind = if joins { Kind::ToExclude } else { Kind::ToInclude };
    let mut out = [0; 64];
    match (speaker(family, 9), group(family)) {
        (IpAddr::V4(src), group) => {
            let mut report = igmp::report3(&mut out).unwrap();
            report.push(kind, group, &[]).unwrap();
            let len = igmp::finish(report);
            let to = igmp::ALL_IGMP3_ROUTERS.into();
            to_group(to, &build::ip(src.into(), to, Protocol::IGMP, 1, &out[..len]))
        }
        (IpAddr::V6(src), group) => {
            let mut report = mld::report2(&mut out).unwrap();
            report.push(kind, group, &[]).unwrap();
            let len = mld::finish(src, report);
            let to = mld::ALL_MLD2_ROUTERS.into();
            to_group(to, &with_alert(src, mld::ALL_MLD2_ROUTERS, &out[..len]))
        }
    }
}

/// A packet of MLD, with its option for routers.
fn with_alert(src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> Vec<u8> {
    let payload = [&mld::ROUTER_ALERT[..], message].concat();
    build::ip(src.into(), dst.into(), Protocol::HOP_BY_HOP, 1, &payload)
}

/// A general query of a router.
fn query(family: Family, host: u8) -> Vec<u8> {
    query_of(speaker(family, host))
}

fn query_of(router: IpAddr) -> Vec<u8> {
    let mut out = [0; 28];
    match router {
        IpAddr::V4(src) => {
            let len = igmp::emit_query3(Ipv4Addr::UNSPECIFIED, 10_000, 2, 125, &mut out).unwrap();
            let to = igmp::ALL_SYSTEMS.into();
            to_group(to, &build::ip(src.into(), to, Protocol::IGMP, 1, &out[..len]))
        }
        IpAddr::V6(src) => {
            let ends = [src, ALL_NODES];
            let len = mld::emit_query2(ends, Ipv6Addr::UNSPECIFIED, 10_000, 2, 125, &mut out).unwrap();
            to_group(ALL_NODES.into(), &with_alert(src, ALL_NODES, &out[..len]))
        }
    }
}

/// Injects a frame and answers by which ports it has left as it was.
fn pass(bench: &mut Bench, port: IfIndex, frame: &[u8]) -> Vec<IfIndex> {
    bench.inject(port, frame.to_vec());
    bench.run();
    left(bench, frame)
}

fn left(bench: &mut Bench, frame: &[u8]) -> Vec<IfIndex> {
    PORTS.into_iter().filter(|port| bench.sent(*port).iter().any(|sent| sent == frame)).collect()
}

/// Queries that have left by a port.
fn queries(bench: &mut Bench, family: Family, port: IfIndex) -> Vec<Option<IpAddr>> {
    let sent = bench.sent(port);
    let of = |frame: &Vec<u8>| {
        let ip = &frame[HEADER_LEN..];
        match family {
            Family::V4 if ip[0] >> 4 == 4 && ip[9] == Protocol::IGMP.0 => {
                match igmp::Message::parse(&ip[usize::from(ip[0] & 15) * 4..])? {
                    igmp::Message::Query(query) => Some(query.group),
                    _ => None,
                }
            }
            Family::V6 if ip[0] >> 4 == 6 && ip[6] == 0 => match mld::Message::parse(&ip[48..])? {
                mld::Message::Query(query) => Some(query.group),
                _ => None,
            },
            _ => None,
        }
    };
    sent.iter().filter_map(of).collect()
}

#[test]
fn a_group_goes_to_the_ports_with_listeners_until_they_leave_or_fall_silent() {
    for cpus in [1, 2, 4] {
        for family in FAMILIES {
            let mut bench = warm(cpus);
            let to = data(family, group(family));
            assert_eq!(pass(&mut bench, 1, &to), [2, 3], "nobody has said anything: flooded");
            pass(&mut bench, 2, &said(family, true));
            assert_eq!(pass(&mut bench, 1, &to), [2], "{cpus} CPUs, {family:?}");
            assert_eq!(pass(&mut bench, 2, &to), [], "only its own port listens");
            pass(&mut bench, 3, &said(family, true));
            assert_eq!(pass(&mut bench, 1, &to), [2, 3]);
            // One leaves: others on its link are asked, and have a moment.
            bench.forget_sent();
            bench.inject(3, said(family, false));
            bench.run();
            assert_eq!(queries(&mut bench, family, 3), [Some(group(family))], "{family:?}");
            assert_eq!(pass(&mut bench, 1, &to), [2, 3]);
            bench.advance(Duration::from_secs(5));
            bench.forget_sent();
            assert_eq!(pass(&mut bench, 1, &to), [2]);
            // The other falls silent: the group is unknown, and flooded.
            bench.advance(Duration::from_secs(270));
            bench.forget_sent();
            assert_eq!(pass(&mut bench, 1, &to), [2, 3], "{cpus} CPUs, {family:?}");
        }
    }
}

#[test]
fn what_all_must_hear_is_flooded_and_so_is_all_before_listeners_have_been_asked() {
    for cpus in [1, 4] {
        for family in FAMILIES {
            let everybodys: [IpAddr; 2] = match family {
                Family::V4 => [Ipv4Addr::new(224, 0, 0, 5).into(), Ipv4Addr::new(224, 0, 0, 251).into()],
                Family::V6 => [ALL_NODES.into(), ALL_NODES.into()],
            };
            let mut bench = cold(cpus);
            bench.advance(Duration::from_secs(2));
            bench.forget_sent();
            pass(&mut bench, 2, &said(family, true));
            assert_eq!(
                pass(&mut bench, 1, &data(family, group(family))),
                [2, 3],
                "others may not have answered yet"
            );
            let mut bench = warm(cpus);
            pass(&mut bench, 2, &said(family, true));
            for dst in everybodys {
                assert_eq!(pass(&mut bench, 1, &data(family, dst)), [2, 3], "{dst}");
            }
            // A port comes back: its listeners are not known.
            let mut ifs: Vec<_> = bench.cpu().tables.ifnets().cloned().collect();
            for (generation, up) in [(2, false), (3, true)] {
                ifs[2].up = up;
                bench.set_tables(Config {
                    generation,
                    ifs: ifs.clone(),
                    routes: Vec::new(),
                    forwarding: true,
                    ..Default::default()
                });
                bench.run();
            }
            bench.forget_sent();
            assert_eq!(pass(&mut bench, 1, &data(family, group(family))), [2, 3]);
            bench.advance(Duration::from_secs(14));
            bench.forget_sent();
            assert_eq!(pass(&mut bench, 1, &data(family, group(family))), [2]);
        }
    }
}

#[test]
fn reports_and_groups_go_to_routers_and_queries_to_all() {
    for cpus in [1, 4] {
        for family in FAMILIES {
            let mut bench = warm(cpus);
            assert_eq!(pass(&mut bench, 2, &said(family, true)), [], "no router is there");
            assert_eq!(pass(&mut bench, 3, &query(family, 1)), [1, 2]);
            assert_eq!(pass(&mut bench, 2, &said(family, true)), [3], "{cpus} CPUs, {family:?}");
            assert_eq!(pass(&mut bench, 1, &data(family, group(family))), [2, 3], "to the router, too");
            bench.advance(Duration::from_secs(256));
            pass(&mut bench, 2, &said(family, true));
            bench.forget_sent();
            assert_eq!(pass(&mut bench, 1, &data(family, group(family))), [2], "the router is silent");
        }
    }
}

#[test]
fn a_bridge_asks_while_no_other_querier_with_a_lower_address_does() {
    for family in FAMILIES {
        let mut bench = cold(2);
        bench.advance(Duration::from_secs(10));
        let general = |bench: &mut Bench| queries(bench, family, 1).len();
        assert!(general(&mut bench) >= 1, "at once");
        bench.advance(Duration::from_secs(30));
        assert!(general(&mut bench) >= 1, "and again");
        bench.advance(Duration::from_secs(250));
        assert_eq!(general(&mut bench), 2, "{family:?}");
        // The bridge is host 1 of its network.
        let [higher, lower]: [IpAddr; 2] = match family {
            Family::V4 => [family.addr(BRIDGE, 200), Ipv4Addr::new(1, 0, 0, 1).into()],
            Family::V6 => [
                Ipv6Addr::new(0xfe80, 0, 0, 0, 0xffff, 0xffff, 0xffff, 0xffff).into(),
                Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1).into(),
            ],
        };
        bench.inject(2, query_of(higher));
        bench.advance(Duration::from_secs(250));
        assert!(general(&mut bench) >= 2, "a higher address gives way");
        for _ in 0..4 {
            bench.inject(2, query_of(lower));
            bench.run();
            bench.forget_sent();
            bench.advance(Duration::from_secs(120));
            assert_eq!(general(&mut bench), 0, "{family:?}: another asks");
        }
        bench.advance(Duration::from_secs(300));
        assert!(general(&mut bench) > 0, "{family:?}: the other has fallen silent");
    }
}

#[test]
fn more_groups_than_may_be_are_flooded_and_messages_are_bounded() {
    let mut bench = warm(1);
    for round in 0..u16::try_from(MEMBERSHIPS_MAX / 50 + 2).unwrap() {
        let mut out = [0; 1400];
        let mut report = igmp::report3(&mut out).unwrap();
        for at in 0..50 {
            let [hi, lo] = (round * 50 + at).to_be_bytes();
            report.push(Kind::ToExclude, Ipv4Addr::new(239, 9, hi, lo).into(), &[]).unwrap();
        }
        let len = igmp::finish(report);
        let (src, to) = (speaker(Family::V4, 9), igmp::ALL_IGMP3_ROUTERS.into());
        bench.inject(2, to_group(to, &build::ip(src, to, Protocol::IGMP, 1, &out[..len])));
        bench.run();
        bench.advance(Duration::from_micros(10));
    }
    assert_eq!(bench.counted(Count::SnoopLearnt), MEMBERSHIPS_MAX as u64);
    assert!(bench.counted(Count::SnoopFull) > 0);
    bench.forget_sent();
    let known = data(Family::V4, Ipv4Addr::new(239, 9, 0, 1).into());
    assert_eq!(pass(&mut bench, 1, &known), [2, 3], "all is flooded");
    bench.advance(Duration::from_secs(300));
    bench.forget_sent();
    pass(&mut bench, 2, &said(Family::V4, true));
    assert_eq!(pass(&mut bench, 1, &data(Family::V4, group(Family::V4))), [2], "there is room again");
}
