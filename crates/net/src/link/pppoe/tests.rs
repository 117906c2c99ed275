use std::sync::mpsc::{Receiver, channel};

use wire::ether::{EtherType, Mac};
use wire::tcp;

use super::*;
use crate::base::count::{Count, IfCount};
use crate::base::drop::DropReason;
use crate::link::logical::Vlan;
use crate::link::tables::Config;
use crate::testkit::link::{FAMILIES, Family};
use crate::testkit::{Bench, build, ifnet, mac};

/// The interface below the session.
const BELOW: IfIndex = 2;
/// The session's interface.
const WAN: IfIndex = 3;
const AC: Mac = Mac([6, 0, 0, 0, 0, 77]);
const ID: u16 = 0x0102;

fn session(parent: IfIndex) -> Ifnet {
    let session = Some(Session { id: ID, remote: AC });
    Ifnet { kind: Kind::Pppoe(Pppoe { parent, session, clamps_mss: true }), ..ifnet(WAN) }
}

/// Two devices, and a session over the second one; and what comes to the control side.
fn bench_with(cpus: u16, parent: IfIndex, change: impl FnOnce(&mut Config)) -> (Bench, Receiver<Arrived>) {
    let mut bench = Bench::with(2, cpus, |config| {
        config.ifs.push(session(parent));
        change(config);
    });
    let (sender, receiver) = channel();
    for netisr in &mut bench.netisrs {
        let sender = sender.clone();
        let sink: Sink = Box::new(move |arrived| sender.send(arrived).is_ok());
        netisr.cpu.pppoe = Some(Box::new(Control::new(vec![parent], sink)));
    }
    (bench, receiver)
}

fn bench(cpus: u16) -> (Bench, Receiver<Arrived>) {
    bench_with(cpus, BELOW, |_| ())
}

/// A frame's payload: the headers of a session and a packet.
fn carried(id: u16, packet: &[u8]) -> Vec<u8> {
    let [len_hi, len_lo] = u16::try_from(packet.len() + 2).unwrap().to_be_bytes();
    let [id_hi, id_lo] = id.to_be_bytes();
    let protocol = if packet[0] >> 4 == 4 { [0x00, 0x21] } else { [0x00, 0x57] };
    [&[0x11, 0, id_hi, id_lo, len_hi, len_lo], &protocol[..], packet].concat()
}

fn from_ac(packet: &[u8]) -> Vec<u8> {
    build::ether(mac(BELOW), AC, 0x8864, &carried(ID, packet))
}

/// A packet to a host behind the session, and one back.
fn outward(family: Family) -> Vec<u8> {
    build::udp(family.addr(1, 9), family.addr(WAN, 7), (5, 7), &[0x5a; 30])
}

fn inward(family: Family, port: u16) -> Vec<u8> {
    build::udp(family.addr(WAN, 7), family.addr(1, 9), (port, 5), &[0x33; 20])
}

fn counted(bench: &Bench, ifindex: IfIndex, what: IfCount) -> u64 {
    bench.netisrs.iter().map(|one| one.cpu.counters.reader().ifs.get(usize::from(ifindex), what)).sum()
}

/// The packets that an interface has sent, without their link headers.
fn packets(bench: &mut Bench, ifindex: IfIndex) -> Vec<Vec<u8>> {
    let is_ip = |frame: &Vec<u8>| frame[12..14] == [8, 0] || frame[12..14] == [0x86, 0xdd];
    bench.sent(ifindex).into_iter().filter(is_ip).map(|frame| frame[14..].to_vec()).collect()
}

#[test]
fn packets_get_the_headers_of_the_session_and_lose_them_byte_by_byte() {
    for family in FAMILIES {
        let (mut bench, _control) = bench(1);
        let packet = outward(family);
        // The first goes step by step, the second by what that has found out, and 40 together in a chunk.
        for count in [1, 1, 40] {
            (0..count).for_each(|_| bench.inject(1, build::frame_from(1, family.addr(1, 9), &packet)));
            bench.run();
            let expected =
                build::ether(AC, mac(BELOW), 0x8864, &carried(ID, &build::forwarded(packet.clone())));
            assert_eq!(bench.sent(BELOW), vec![expected; count], "{family:?}");
        }
        let back = inward(family, 7);
        for count in [1, 1, 40] {
            // A short frame is padded.
            let frame = [from_ac(&back), vec![0xee; 9]].concat();
            (0..count).for_each(|_| bench.inject(BELOW, frame.clone()));
            bench.run();
            assert_eq!(packets(&mut bench, 1), vec![build::forwarded(back.clone()); count], "{family:?}");
        }
        assert_eq!(bench.drops(), []);
        let [rx, tx] = [IfCount::RxPackets, IfCount::TxPackets].map(|what| counted(&bench, WAN, what));
        assert_eq!((rx, tx), (42, 42));
        assert_eq!([Count::PppoeIn, Count::PppoeOut].map(|what| bench.counted(what)), [42, 42]);
        assert_eq!(counted(&bench, WAN, IfCount::RxBytes), 42 * back.len() as u64);
    }
}

#[test]
fn inner_packets_go_to_the_cpu_that_owns_their_flow() {
    for family in FAMILIES {
        let (mut bench, _control) = bench(4);
        (0..64).for_each(|port| bench.inject(BELOW, from_ac(&inward(family, port))));
        bench.run();
        assert_eq!(packets(&mut bench, 1).len(), 64, "{:?}", bench.drops());
        assert_eq!(bench.counted(Count::Strays), 0);
        let count = if family == Family::V4 { Count::Ip4Forwarded } else { Count::Ip6Forwarded };
        let each: Vec<u64> = bench.netisrs.iter().map(|one| one.cpu.counters.get(count)).collect();
        assert!(each.iter().all(|one| *one > 4), "{each:?}");
    }
}

#[test]
fn only_the_access_concentrator_gets_packets_in_and_by_its_session_alone() {
    for family in FAMILIES {
        let packet = inward(family, 7);
        let to_all = build::ether(Mac::BROADCAST, AC, 0x8864, &carried(ID, &packet));
        let short = build::ether(mac(BELOW), AC, 0x8864, &carried(ID, &packet)[..30]);
        let mut other_version = from_ac(&packet);
        other_version[14] = 0x21;
        // It tells one byte less than its packet has.
        let mut cut_short = from_ac(&packet);
        cut_short[19] -= 1;
        let longer_than_told = match family {
            Family::V4 => DropReason::Ip4BadTotalLen,
            Family::V6 => DropReason::Ip6BadPayloadLen,
        };
        let mut other_family = from_ac(&packet);
        other_family[21] ^= 0x21 ^ 0x57;
        for (frame, reason) in [
            (
                build::ether(mac(BELOW), AC, 0x8864, &carried(ID + 1, &packet)),
                DropReason::PppoeUnknownSession,
            ),
            (
                build::ether(mac(BELOW), Mac([6; 6]), 0x8864, &carried(ID, &packet)),
                DropReason::PppoeUnknownSession,
            ),
            (to_all, DropReason::PppoeMalformed),
            (short, DropReason::PppoeMalformed),
            (other_version, DropReason::PppoeMalformed),
            (other_family, DropReason::PppoeMalformed),
            (cut_short, longer_than_told),
            (build::ether(mac(BELOW), AC, 0x8864, &[0x11, 0, 1]), DropReason::PppoeMalformed),
        ] {
            let (mut bench, control) = bench(1);
            bench.inject(BELOW, frame.clone());
            bench.run();
            assert_eq!(bench.drops(), [(reason, 1)], "{frame:x?}");
            assert!(control.try_recv().is_err());
        }
        // Another interface carries no sessions.
        let (mut bench, _control) = bench(1);
        bench.inject(1, build::ether(mac(1), AC, 0x8864, &carried(ID, &packet)));
        bench.run();
        assert_eq!(bench.drops(), [(DropReason::EtherUnknownType, 1)]);
    }
}

#[test]
fn what_is_no_packet_of_a_session_comes_to_the_control_side_and_its_frames_leave() {
    let (mut bench, control) = bench(2);
    let lcp = [0x11, 0, 1, 2, 0, 10, 0xc0, 0x21, 9, 1, 0, 8, 0, 0, 0, 0];
    let pado = [0x11, 7, 0, 0, 0, 4, 1, 1, 0, 0];
    for (ethertype, message) in [(EtherType::PPPOE_SESSION, &lcp[..]), (EtherType::PPPOE_DISCOVERY, &pado)] {
        bench.inject(BELOW, build::ether(mac(BELOW), AC, ethertype.0, message));
        bench.run();
        let message = message.to_vec();
        assert_eq!(
            control.try_recv(),
            Ok(Arrived { ifindex: BELOW, from: AC, ethertype, message: message.clone() })
        );
        let outgoing = Outgoing { ifindex: BELOW, to: AC, ethertype, message: message.clone() };
        assert!(send(bench.cpu(), &outgoing));
        bench.run();
        assert_eq!(bench.sent(BELOW), [build::ether(AC, mac(BELOW), ethertype.0, &message)]);
    }
    // A packet of a session that says it is one of discovery.
    bench.inject(BELOW, build::ether(mac(BELOW), AC, 0x8863, &lcp));
    bench.run();
    assert_eq!(bench.drops(), [(DropReason::PppoeMalformed, 1)]);
    drop(control);
    bench.inject(BELOW, build::ether(mac(BELOW), AC, 0x8863, &pado));
    bench.run();
    assert_eq!(bench.dropped(DropReason::PppoeQueueFull), 1);
}

#[test]
fn without_a_session_nothing_leaves_and_an_interface_that_is_down_takes_its_session_along() {
    for family in FAMILIES {
        let down = |config: &mut Config| config.ifs[1].up = false;
        let none = |config: &mut Config| {
            let pppoe = Pppoe { parent: BELOW, session: None, clamps_mss: true };
            config.ifs[2].kind = Kind::Pppoe(pppoe);
        };
        let with = |change: &dyn Fn(&mut Config)| bench_with(1, BELOW, |config| change(config)).0;
        let mut bench = with(&none);
        bench.inject(1, build::frame_from(1, family.addr(1, 9), &outward(family)));
        bench.run();
        assert_eq!(bench.dropped(DropReason::PppoeNoSession), 1, "{:?}", bench.drops());
        bench.inject(BELOW, from_ac(&inward(family, 7)));
        bench.run();
        assert_eq!(bench.dropped(DropReason::PppoeUnknownSession), 1);
        let mut bench = with(&down);
        assert!(bench.cpu().tables.ifnet(WAN).is_some_and(|ifnet| !ifnet.up));
        bench.inject(1, build::frame_from(1, family.addr(1, 9), &outward(family)));
        bench.run();
        assert_eq!(bench.sent(BELOW), Vec::<Vec<u8>>::new());
    }
}

#[test]
fn a_session_has_room_for_eight_bytes_less_than_the_interface_below() {
    for (below, own, mtu) in [(1500, 1500, 1492), (1508, 1500, 1500), (1500, 1400, 1400)] {
        let (mut bench, _control) = bench_with(1, BELOW, |config| {
            config.ifs[1].mtu = below;
            config.ifs[2].mtu = own;
        });
        let ifnet = bench.cpu().tables.ifnet(WAN).cloned().unwrap();
        assert_eq!((ifnet.mtu, ifnet.mac, ifnet.up), (mtu, Mac::default(), true));
        for family in FAMILIES {
            let header = if family == Family::V4 { 28 } else { 48 };
            for (len, leaves) in [(mtu as usize - header, 1), (mtu as usize - header + 1, 0)] {
                let packet = build::udp(family.addr(1, 9), family.addr(WAN, 7), (5, 7), &vec![7; len]);
                bench.inject(1, build::frame_from(1, family.addr(1, 9), &packet));
                bench.run();
                assert_eq!(bench.sent(BELOW).len(), leaves, "{below}, {own}, {len}");
            }
        }
    }
}

/// The maximum segment size that a SYN tells, whose header ends with it.
fn mss(packet: &[u8]) -> u16 {
    let at = if packet[0] >> 4 == 4 { 42 } else { 62 };
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

fn is_right(packet: &[u8]) -> bool {
    let sliced = etherparse::PacketHeaders::from_ip_slice(packet).unwrap();
    let Some(etherparse::TransportHeader::Tcp(tcp)) = sliced.transport else { return false };
    match sliced.net.unwrap() {
        etherparse::NetHeaders::Ipv4(ip, _) => tcp.checksum == tcp.calc_checksum_ipv4(&ip, &[]).unwrap(),
        etherparse::NetHeaders::Ipv6(ip, _) => tcp.checksum == tcp.calc_checksum_ipv6(&ip, &[]).unwrap(),
        etherparse::NetHeaders::Arp(_) => false,
    }
}

#[test]
fn the_segment_size_of_a_syn_is_lowered_in_both_directions_unless_that_is_off() {
    for (family, clamps_mss) in FAMILIES.into_iter().flat_map(|family| [(family, true), (family, false)]) {
        let (mut bench, _control) = bench_with(1, BELOW, |config| {
            let session = Some(Session { id: ID, remote: AC });
            config.ifs[2].kind = Kind::Pppoe(Pppoe { parent: BELOW, session, clamps_mss });
        });
        let fits = if family == Family::V4 { 1452 } else { 1432 };
        for (told, expected) in [(1460, if clamps_mss { fits } else { 1460 }), (1300, 1300)] {
            let options = tcp::Options::parse(&[&[2, 4][..], &u16::to_be_bytes(told)].concat()).unwrap();
            let syn = |flags| tcp::Header {
                src_port: 1,
                dst_port: 2,
                seq: 3,
                ack: 0,
                flags,
                window: 9,
                urgent: 0,
                options,
            };
            let out = build::tcp(family.addr(1, 9), family.addr(WAN, 7), &syn(tcp::Flags::SYN), &[]);
            bench.inject(1, build::frame_from(1, family.addr(1, 9), &out));
            bench.run();
            let sent = bench.sent(BELOW).remove(0)[22..].to_vec();
            assert_eq!((mss(&sent), is_right(&sent)), (expected, true), "out, {family:?}");
            let back = build::tcp(
                family.addr(WAN, 7),
                family.addr(1, 9),
                &syn(tcp::Flags::SYN | tcp::Flags::ACK),
                &[],
            );
            bench.inject(BELOW, from_ac(&back));
            bench.run();
            let sent = packets(&mut bench, 1).remove(0);
            assert_eq!((mss(&sent), is_right(&sent)), (expected, true), "in, {family:?}");
            // A segment without SYN has no such option, whatever its bytes look like.
            let data =
                build::tcp(family.addr(WAN, 7), family.addr(1, 9), &syn(tcp::Flags::ACK), &[2, 4, 5, 180]);
            bench.inject(BELOW, from_ac(&data));
            bench.run();
            assert_eq!(packets(&mut bench, 1), [build::forwarded(data)]);
        }
        assert_eq!(bench.drops(), []);
    }
}

#[test]
fn a_session_over_a_vlan_has_its_tag() {
    const VLAN: IfIndex = 4;
    for family in FAMILIES {
        let (mut bench, control) = bench_with(1, VLAN, |config| {
            let vlan = Vlan { parent: BELOW, tpid: EtherType::VLAN, vid: 7, pcp: 0 };
            config.ifs.push(Ifnet { kind: Kind::Vlan(vlan), addrs: Vec::new(), ..ifnet(VLAN) });
        });
        let tagged = |payload: &[u8]| [&[0, 7, 0x88, 0x64], payload].concat();
        let packet = outward(family);
        bench.inject(1, build::frame_from(1, family.addr(1, 9), &packet));
        bench.run();
        let expected = build::ether(AC, mac(BELOW), 0x8100, &tagged(&carried(ID, &build::forwarded(packet))));
        assert_eq!(bench.sent(BELOW), [expected]);
        let back = inward(family, 7);
        bench.inject(BELOW, build::ether(mac(BELOW), AC, 0x8100, &tagged(&carried(ID, &back))));
        bench.run();
        assert_eq!(packets(&mut bench, 1), [build::forwarded(back.clone())], "{:?}", bench.drops());
        let stranger = build::ether(mac(BELOW), Mac([6; 6]), 0x8100, &tagged(&carried(ID, &back)));
        bench.inject(BELOW, stranger);
        let lcp = [0x11, 0, 1, 2, 0, 4, 0xc0, 0x21, 9, 1];
        bench.inject(BELOW, build::ether(mac(BELOW), AC, 0x8100, &tagged(&lcp)));
        bench.run();
        assert_eq!(bench.drops(), [(DropReason::PppoeUnknownSession, 1)]);
        assert_eq!(control.try_recv().map(|arrived| (arrived.ifindex, arrived.from)), Ok((VLAN, AC)));
    }
}

/// An IPv6 packet with an extension header in front of TCP: its number, and its bytes behind the next header.
fn extended(packet: &[u8], (number, header): (u8, [u8; 7])) -> Vec<u8> {
    let mut all = [&packet[..40], &[6], &header, &packet[40..]].concat();
    let len = u16::try_from(all.len() - 40).unwrap();
    all[4..6].copy_from_slice(&len.to_be_bytes());
    all[6] = number;
    all
}

#[test]
fn the_segment_size_of_a_syn_behind_extension_headers_is_lowered_too() {
    let options = (60, [0, 1, 4, 0, 0, 0, 0]);
    let atomic = (44, [0; 7]);
    let later = (44, [0, 0, 8, 0, 0, 0, 1]);
    for (header, expected) in [(options, 1432), (atomic, 1432), (later, 1460)] {
        let (mut bench, _control) = bench(1);
        let options = tcp::Options::parse(&[2, 4, 5, 180]).unwrap();
        let syn = tcp::Header {
            src_port: 1,
            dst_port: 2,
            seq: 3,
            ack: 0,
            flags: tcp::Flags::SYN,
            window: 9,
            urgent: 0,
            options,
        };
        let family = Family::V6;
        let packet = build::tcp(family.addr(1, 9), family.addr(WAN, 7), &syn, &[]);
        bench.inject(1, build::frame_from(1, family.addr(1, 9), &extended(&packet, header)));
        bench.run();
        let sent = bench.sent(BELOW).remove(0)[22..].to_vec();
        assert_eq!(u16::from_be_bytes([sent[70], sent[71]]), expected, "{header:?}");
        assert!(header == later || is_right(&sent));
    }
}
