use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::Protocol;
use wire::addr::{multicast_mac_v4, multicast_mac_v6};
use wire::ether::EtherType;

use super::*;
use crate::link::logical::{Kind, Vlan};
use crate::testkit::link::{FAMILIES, Family, answer, question};
use crate::testkit::rules::rules;
use crate::testkit::{Bench, build, ifnet, mac, peer_mac};

/// Interface 1 has the twin 2; interface 3 has none.
const OWN: IfIndex = 1;
const TWIN: IfIndex = 2;
const OTHER: IfIndex = 3;

fn bench(cpus: u16) -> Bench {
    let mut bench = Bench::with(3, cpus, |config| {
        config.ifs[0].twin = Twin::By(TWIN);
        (config.ifs[1].twin, config.ifs[1].addrs) = (Twin::Of(OWN), Vec::new());
    });
    bench.neighbours_answer = false;
    bench
}

fn kind(family: Family) -> u16 {
    if family == Family::V4 { 0x0800 } else { 0x86dd }
}

/// A frame of host 9 on the link of an interface to the stack.
fn frame(family: Family, i: IfIndex, protocol: Protocol, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = (family.addr(i, 9), family.addr(i, 1));
    build::ether(mac(i), peer_mac(src), kind(family), &build::ip(src, dst, protocol, 64, payload))
}

/// Returns the frames that interface and twin have sent after a frame came in.
fn after(bench: &mut Bench, i: IfIndex, frame: &[u8]) -> [Vec<Vec<u8>>; 2] {
    bench.forget_sent();
    bench.inject(i, frame.to_vec());
    bench.run();
    [bench.sent(i), bench.sent(TWIN)]
}

#[test]
fn the_kernel_gets_what_nothing_here_wants_as_it_came() {
    for family in FAMILIES {
        for cpus in [1, 4] {
            let mut bench = bench(cpus);
            let udp = |i| {
                let (src, dst) = (family.addr(i, 9), family.addr(i, 1));
                build::ether(mac(i), peer_mac(src), kind(family), &build::udp(src, dst, (1, 7), b"hello"))
            };
            let ospf = |i| frame(family, i, Protocol(89), &[2; 24]);
            for frame in [udp(OWN), ospf(OWN)] {
                assert_eq!(after(&mut bench, OWN, &frame), [vec![], vec![frame.clone()]], "{family:?}");
            }
            for frame in [udp(OTHER), ospf(OTHER)] {
                let [_, twin] = after(&mut bench, OTHER, &frame);
                assert!(twin.is_empty(), "that interface has none");
            }
            assert_eq!(bench.counted(Count::Punted), 2);
        }
    }
}

#[test]
fn groups_of_routing_protocols_are_the_kernels_and_our_own_stay_ours() {
    let to = |group: IpAddr, mac: Mac, protocol: u8| {
        let family = if group.is_ipv4() { Family::V4 } else { Family::V6 };
        let packet = build::ip(family.addr(OWN, 9), group, Protocol(protocol), 1, &[7; 24]);
        build::ether(mac, peer_mac(family.addr(OWN, 9)), kind(family), &packet)
    };
    let (all4, all6) = (Ipv4Addr::new(224, 0, 0, 5), "ff02::5".parse::<Ipv6Addr>().unwrap());
    let ospf = [
        to(all4.into(), multicast_mac_v4(all4).unwrap(), 89),
        to(all6.into(), multicast_mac_v6(all6).unwrap(), 89),
    ];
    let mut bench = bench(1);
    for frame in ospf {
        assert_eq!(after(&mut bench, OWN, &frame), [vec![], vec![frame.clone()]]);
    }
    // IS-IS: a length in place of a type.
    let mut llc =
        build::ether(Mac([1, 0x80, 0xc2, 0, 0, 0x14]), Mac([6, 0, 0, 0, 0, 9]), 3, &[0xfe, 0xfe, 3]);
    llc.resize(60, 0);
    assert_eq!(after(&mut bench, OWN, &llc), [vec![], vec![llc.clone()]]);
    let foreign = build::ether(Mac([6, 0, 0, 0, 0, 8]), Mac([6, 0, 0, 0, 0, 9]), 0x88cc, &[0; 46]);
    assert_eq!(after(&mut bench, OWN, &foreign), [Vec::<Vec<u8>>::new(), vec![]]);
}

#[test]
fn this_stack_answers_for_its_addresses_and_the_kernel_sees_replies() {
    for family in FAMILIES {
        let mut bench = bench(1);
        let asker = family.addr(OWN, 9);
        let asked = question(peer_mac(asker), asker, family.addr(OWN, 1));
        let [own, twin] = after(&mut bench, OWN, &asked);
        assert!(own.len() == 1 && twin.is_empty(), "{family:?}: one side answers: {own:02x?} {twin:02x?}");
        let reply = answer(OWN, peer_mac(asker), asker);
        let [own, twin] = after(&mut bench, OWN, &reply);
        assert_eq!((own, twin), (vec![], vec![reply]), "{family:?}");
        assert_eq!(bench.counted(Count::PuntCopied), 1);
        assert_eq!(bench.buffers_out(), 0);
    }
}

#[test]
fn frames_of_the_kernel_leave_by_the_interface_as_they_are() {
    for family in FAMILIES {
        let mut bench = bench(2);
        let (src, dst) = (family.addr(OWN, 1), family.addr(OWN, 9));
        let frame = build::ether(peer_mac(dst), mac(OWN), kind(family), &build::udp(src, dst, (7, 1), b"hi"));
        bench.inject(TWIN, frame.clone());
        bench.run();
        assert_eq!((bench.sent(OWN), bench.sent(TWIN)), (vec![frame], vec![]));
        assert_eq!(bench.counted(Count::PuntedOut), 1);
    }
}

#[test]
fn the_twin_of_a_vlan_sees_no_tag() {
    for family in FAMILIES {
        let mut bench = Bench::with(2, 1, |config| {
            let vlan = Kind::Vlan(Vlan { parent: OWN, tpid: EtherType::VLAN, vid: 10, pcp: 0 });
            config.ifs.push(Ifnet { kind: vlan, twin: Twin::By(TWIN), ..ifnet(OTHER) });
            (config.ifs[1].twin, config.ifs[1].addrs) = (Twin::Of(OTHER), Vec::new());
        });
        bench.neighbours_answer = false;
        let tag = |frame: &[u8]| [&frame[..12], &[0x81, 0, 0, 10], &frame[12..]].concat();
        let (src, dst) = (family.addr(OTHER, 9), family.addr(OTHER, 1));
        let there =
            build::ether(mac(OWN), peer_mac(src), kind(family), &build::udp(src, dst, (1, 7), b"hello"));
        bench.inject(OWN, tag(&there));
        bench.run();
        assert_eq!(bench.sent(TWIN), [there]);
        let back =
            build::ether(peer_mac(src), mac(OWN), kind(family), &build::udp(dst, src, (7, 1), b"hello"));
        bench.inject(TWIN, back.clone());
        bench.run();
        assert_eq!(bench.sent(OWN), [tag(&back)]);
    }
}

#[test]
fn what_waits_for_the_kernel_is_bounded_and_routing_protocols_go_first() {
    let mut bench = bench(1);
    let flood = frame(Family::V4, OWN, Protocol(99), &[0; 8]);
    for _ in 0..PUNTS_MAX + 100 {
        let cpu = bench.cpu();
        let mut pkt = cpu.pool.take().unwrap();
        pkt.append(flood.len()).unwrap().copy_from_slice(&flood);
        pkt.rcvif = OWN;
        pkt.trim_front(HEADER_LEN);
        offer(cpu, pkt).unwrap();
    }
    assert_eq!(bench.dropped(DropReason::PuntFull), 100);
    let group = Ipv4Addr::new(224, 0, 0, 5);
    let packet = build::ip(Family::V4.addr(OWN, 9), group.into(), Protocol(89), 1, &[7; 24]);
    let hello = build::ether(multicast_mac_v4(group).unwrap(), Mac([6, 0, 0, 0, 0, 9]), 0x0800, &packet);
    bench.inject(OWN, hello.clone());
    let now = bench.now;
    bench.netisrs[0].turn(now);
    let first = bench.sent(TWIN);
    assert_eq!((first.len(), &first[0]), (TURN_MAX, &hello));
    bench.run();
    assert_eq!(bench.buffers_out(), 0);
}

#[test]
fn rules_are_asked_about_what_the_kernel_sends() {
    for family in FAMILIES {
        for cpus in [1, 4] {
            let mut bench = bench(cpus);
            bench.set_rules(&mut rules(
                "add 10 allow ipv6-icmp from any to any\n\
                 add 20 check-state\n\
                 add 30 deny udp from me to any 5 out\n\
                 add 40 allow udp from me to any out keep-state\n\
                 add 50 deny ip from any to any",
            ));
            let (own, other) = (family.addr(OWN, 1), family.addr(OWN, 9));
            let out = |port| {
                let packet = build::udp(own, other, (7, port), b"there");
                build::ether(peer_mac(other), mac(OWN), kind(family), &packet)
            };
            let back = |port| {
                let packet = build::udp(other, own, (port, 7), b"back");
                build::ether(mac(OWN), peer_mac(other), kind(family), &packet)
            };
            bench.inject(OWN, back(1));
            bench.inject(TWIN, out(5));
            bench.inject(TWIN, out(1));
            bench.run();
            assert_eq!((bench.sent(OWN), bench.sent(TWIN)), (vec![out(1)], vec![]), "{family:?}");
            bench.inject(OWN, back(1));
            bench.run();
            assert_eq!(bench.sent(TWIN), [back(1)], "{family:?}, {cpus} CPUs: its state lets it in");
        }
    }
}
