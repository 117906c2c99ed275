use wire::ether::EtherType;

use super::*;
use crate::base::drop::DropReason;
use crate::ip::neigh;
use crate::link::tables::Config;
use crate::testkit::link::{FAMILIES, Family};
use crate::testkit::{Bench, build, ifnet, mac, peer_mac};

const VLAN: [u8; 2] = [0x81, 0x00];
const QINQ: [u8; 2] = [0x88, 0xa8];

/// Interface `index`, over another one.
fn over(index: IfIndex, parent: IfIndex, tpid: EtherType, vid: u16, pcp: u8) -> Ifnet {
    Ifnet { kind: Kind::Vlan(Vlan { parent, tpid, vid, pcp }), ..ifnet(index) }
}

/// VLAN 10 on interface 1 is 3; of the stack of tags 100 and 7 on interface 2, 4 is the outer and 5 the inner one.
fn vlans(config: &mut Config) {
    config.ifs.push(over(3, 1, EtherType::VLAN, 10, 0));
    config.ifs.push(over(4, 2, EtherType::QINQ, 100, 0));
    config.ifs.push(over(5, 4, EtherType::VLAN, 7, 5));
}

fn bench(change: impl FnOnce(&mut Config)) -> Bench {
    let mut bench = Bench::with(2, 1, |config| {
        vlans(config);
        change(config);
    });
    for family in FAMILIES {
        for i in [3, 4, 5] {
            let addr = family.addr(i, 9);
            assert!(neigh::set_static(bench.cpu(), neigh::Key { ifindex: i, addr }, peer_mac(addr)));
        }
    }
    bench
}

/// A frame with tags behind its addresses.
fn tagged(dst: Mac, src: Mac, tags: &[[u8; 4]], packet: &[u8]) -> Vec<u8> {
    let ethertype = if packet[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
    [&dst.octets()[..], &src.octets(), tags.as_flattened(), &ethertype, packet].concat()
}

fn tag([hi, lo]: [u8; 2], tci: u16) -> [u8; 4] {
    let [tci_hi, tci_lo] = tci.to_be_bytes();
    [hi, lo, tci_hi, tci_lo]
}

/// A packet between the hosts 9 of two interfaces.
fn packet(family: Family, from: IfIndex, to: IfIndex) -> Vec<u8> {
    build::udp(family.addr(from, 9), family.addr(to, 9), (7, 7), &[0x5a; 30])
}

fn counted(bench: &Bench, ifindex: IfIndex, what: IfCount) -> u64 {
    bench.netisrs[0].cpu.counters.reader().ifs.get(usize::from(ifindex), what)
}

#[test]
fn tags_are_taken_off_and_put_on_byte_by_byte() {
    for family in FAMILIES {
        let mut bench = bench(|_| ());
        let sent_before = [IfCount::TxPackets, IfCount::TxBytes].map(|what| counted(&bench, 3, what));
        // The first goes step by step, the second by what that has found out, and 40 together in a chunk.
        for count in [1, 1, 40] {
            for (from, to, device, tags_in, tags_out) in [
                (3, 5, [1, 2], vec![tag(VLAN, 10)], vec![tag(QINQ, 100), tag(VLAN, 5 << 13 | 7)]),
                (5, 3, [2, 1], vec![tag(QINQ, 100), tag(VLAN, 7)], vec![tag(VLAN, 10)]),
                (4, 3, [2, 1], vec![tag(QINQ, 0x6000 | 100)], vec![tag(VLAN, 10)]),
            ] {
                let (packet, peer) = (packet(family, from, to), peer_mac(family.addr(from, 9)));
                (0..count)
                    .for_each(|_| bench.inject(device[0], tagged(mac(device[0]), peer, &tags_in, &packet)));
                bench.run();
                let expected = tagged(
                    peer_mac(family.addr(to, 9)),
                    mac(device[1]),
                    &tags_out,
                    &build::forwarded(packet),
                );
                assert_eq!(
                    bench.sent(device[1]),
                    vec![expected; count],
                    "{family:?}, {from} to {to}, {:?}",
                    bench.drops()
                );
            }
        }
        assert_eq!(counted(&bench, 3, IfCount::RxPackets), 42);
        assert_eq!(counted(&bench, 3, IfCount::TxPackets) - sent_before[0], 84);
        let received = [4, 5].map(|ifindex| counted(&bench, ifindex, IfCount::RxPackets));
        assert_eq!(received, [84, 42], "outer and inner");
        let len = 14 + packet(family, 3, 5).len() as u64;
        let sent = counted(&bench, 3, IfCount::TxBytes) - sent_before[1];
        assert_eq!(sent, 84 * len, "without the tag, as on the way in");
        assert_eq!(counted(&bench, 3, IfCount::RxBytes), 42 * len);
    }
}

#[test]
fn a_tag_of_another_type_network_or_interface_is_unknown() {
    for family in FAMILIES {
        for (device, tags) in [
            (1, vec![tag(VLAN, 11)]),
            (1, vec![tag(QINQ, 10)]),
            (2, vec![tag(VLAN, 10)]),
            (2, vec![tag(VLAN, 7)]),
            (2, vec![tag(QINQ, 100), tag(VLAN, 8)]),
            (1, vec![tag(VLAN, 10), tag(VLAN, 0)]),
            (1, vec![tag(VLAN, 10), tag(VLAN, 10)]),
            (1, vec![tag(VLAN, 0), tag(VLAN, 0), tag(VLAN, 10)]),
        ] {
            let mut bench = bench(|_| ());
            let packet = packet(family, 3, 5);
            bench.inject(device, tagged(mac(device), peer_mac(family.addr(3, 9)), &tags, &packet));
            bench.run();
            assert_eq!(bench.drops(), [(DropReason::VlanUnknown, 1)], "{family:?}, {tags:x?}");
        }
    }
}

#[test]
fn a_vlan_goes_down_with_any_interface_below_and_comes_back() {
    for family in FAMILIES {
        for below in [1, 2, 4_u16] {
            let mut bench = bench(|_| ());
            let crossing = |bench: &mut Bench| {
                let peer = peer_mac(family.addr(3, 9));
                bench.inject(1, tagged(mac(1), peer, &[tag(VLAN, 10)], &packet(family, 3, 5)));
                bench.run();
                let is_it = |frame: &&Vec<u8>| frame[12..14] == QINQ && frame.ends_with(&[0x5a; 30]);
                bench.sent(2).iter().filter(is_it).count()
            };
            assert_eq!(crossing(&mut bench), 1, "{family:?}");
            for (generation, up) in [(2, false), (3, true)] {
                let mut config = Config {
                    generation,
                    ifs: (1..=2).map(ifnet).collect(),
                    forwarding: true,
                    ..Config::default()
                };
                vlans(&mut config);
                config.ifs[usize::from(below) - 1].up = up;
                bench.set_tables(config);
                for i in [3, 5] {
                    let addr = family.addr(i, 9);
                    neigh::set_static(bench.cpu(), neigh::Key { ifindex: i, addr }, peer_mac(addr));
                }
                bench.forget_sent();
                assert_eq!(crossing(&mut bench), if up { 1 } else { 0 }, "{family:?}, {below}");
            }
        }
    }
}

#[test]
fn a_vlan_inherits_from_its_device_and_fits_into_all_below() {
    let ifs = |change: fn(&mut Vec<Ifnet>)| {
        let mut config = Config { ifs: (1..=2).map(ifnet).collect(), ..Config::default() };
        vlans(&mut config);
        change(&mut config.ifs);
        inherit(&mut config.ifs);
        config.ifs
    };
    let inner = &ifs(|ifs| {
        ifs[1].caps.tso = true;
        ifs[3].mtu = 1400;
    })[4];
    assert_eq!((inner.mac, inner.mtu, inner.caps.tso, inner.up), (mac(2), 1400, true, true));
    // Over itself, over what is not there, and deeper than frames have tags.
    let none: [fn(&mut Vec<Ifnet>); 3] = [
        |ifs| ifs[4] = over(5, 5, EtherType::VLAN, 7, 0),
        |ifs| ifs[4] = over(5, 77, EtherType::VLAN, 7, 0),
        |ifs| ifs[3] = over(4, 3, EtherType::QINQ, 100, 0),
    ];
    for change in none {
        let ifs = ifs(change);
        assert!(!ifs[4].up);
        assert!(Logical::of(&ifs).header(5).is_none());
    }
}

#[test]
fn a_trunk_has_4094_vlans() {
    let mut bench = Bench::with(2, 1, |config| {
        for vid in 1..=4094 {
            let vlan = Ifnet { addrs: Vec::new(), ..over(3, 1, EtherType::VLAN, vid, 0) };
            config.ifs.push(Ifnet { index: 9 + vid, ..vlan });
        }
    });
    for vid in [1, 2, 2047, 4093, 4094] {
        for (family, before) in FAMILIES.into_iter().zip(0..) {
            assert_eq!(counted(&bench, 9 + vid, IfCount::RxPackets), before);
            let packet = packet(family, 1, 2);
            bench.inject(1, tagged(mac(1), peer_mac(family.addr(1, 9)), &[tag(VLAN, vid)], &packet));
            bench.run();
            let is_it = |frame: &Vec<u8>| frame.ends_with(&build::forwarded(packet.clone()));
            assert!(bench.sent(2).iter().any(is_it), "{vid}, {family:?}: {:?}", bench.drops());
            assert_eq!(counted(&bench, 9 + vid, IfCount::RxPackets), before + 1);
        }
    }
}
