use core::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::base::time::Duration;
use crate::fib::{Prefix, Route as FibRoute, To};
use crate::ip::neigh;
use crate::link::fdb::{Settings, Static};
use crate::link::logical::Kind;
use crate::link::tables::Config;
use crate::link::vxlan::PORT;
use crate::testkit::link::{FAMILIES, Family, question};
use crate::testkit::{Bench, build, ifnet, mac, peer_mac};

/// The interface that datagrams leave by, and come by.
const OUTSIDE: IfIndex = 2;
/// Host of the remote ends.
const FAR: u8 = 9;
const VNI: u32 = 0x0a_0b0c;

/// Index of the VXLAN over a family.
const fn over(outer: Family) -> IfIndex {
    match outer {
        Family::V4 => 3,
        Family::V6 => 4,
    }
}

fn ends(outer: Family) -> Vxlan {
    Vxlan { vni: VNI, local: outer.addr(OUTSIDE, 1), remote: Some(outer.addr(OUTSIDE, FAR)), port: PORT }
}

fn vxlan(outer: Family) -> Ifnet {
    Ifnet { kind: Kind::Vxlan(ends(outer)), ..ifnet(over(outer)) }
}

/// Two devices, and a VXLAN over each family by the second one. The host 7 of both is known.
fn bench(cpus: u16, change: impl FnOnce(&mut Config)) -> Bench {
    let mut bench = Bench::with(2, cpus, |config| {
        config.ifs.extend(FAMILIES.map(vxlan));
        change(config);
    });
    for (over_, family) in pairs() {
        let addr = family.addr(over(over_), 7);
        for netisr in &mut bench.netisrs {
            _ = neigh::set_static(&mut netisr.cpu, neigh::Key { ifindex: over(over_), addr }, peer_mac(addr));
        }
    }
    bench.run();
    bench
}

fn pairs() -> impl Iterator<Item = (Family, Family)> {
    FAMILIES.into_iter().flat_map(|outer| FAMILIES.map(|inner| (outer, inner)))
}

/// A datagram with a frame, from `from` to `to`, as [`build`] makes them.
fn datagram(from: IpAddr, to: IpAddr, header: [u8; 8], frame: &[u8]) -> Vec<u8> {
    build::udp(from, to, (50_000, PORT), &[&header[..], frame].concat())
}

fn inward_frame(outer: Family, host: u8, header: [u8; 8], frame: &[u8]) -> Vec<u8> {
    let (from, to) = (outer.addr(OUTSIDE, host), outer.addr(OUTSIDE, 1));
    build::frame_from(OUTSIDE, from, &datagram(from, to, header, frame))
}

/// A frame from host 7 of a VXLAN to the stack.
fn frame_in(outer: Family, packet: &[u8]) -> Vec<u8> {
    let family = if packet[0] >> 4 == 4 { Family::V4 } else { Family::V6 };
    build::frame_from(over(outer), family.addr(over(outer), 7), packet)
}

fn header(vni: u32) -> [u8; 8] {
    let [_, a, b, c] = vni.to_be_bytes();
    [8, 0, 0, 0, a, b, c, 0]
}

/// A packet of the link of interface 1 to host 7 of a VXLAN.
fn inward(inner: Family, outer: Family, port: u16, len: usize) -> Vec<u8> {
    build::udp(inner.addr(1, 9), inner.addr(over(outer), 7), (port, 7), &vec![0x5a; len])
}

/// The IP packets that an interface has sent.
fn packets(bench: &mut Bench, ifindex: IfIndex) -> Vec<Vec<u8>> {
    let is_ip = |frame: &Vec<u8>| frame[12..14] == [8, 0] || frame[12..14] == [0x86, 0xdd];
    bench.sent(ifindex).into_iter().filter(is_ip).map(|frame| frame[14..].to_vec()).collect()
}

/// A sent datagram: destination, source port, and the frame; everything else is checked byte by byte.
fn taken_apart(outer: Family, packet: &[u8], ecn: u8) -> (Vec<u8>, u16, Vec<u8>) {
    let at = if outer == Family::V4 { 20 } else { 40 };
    let len = u16::try_from(packet.len()).unwrap().to_be_bytes();
    let udp_len = u16::try_from(packet.len() - at).unwrap().to_be_bytes();
    let dst = match outer {
        Family::V4 => {
            let mut fixed = vec![0x45, ecn, len[0], len[1], 0, 0, 0x40, 0, 64, 17, 0, 0];
            fixed.extend_from_slice(&packet[12..20]);
            build::fix_ip4_checksum(&mut fixed);
            assert_eq!(packet[..20], fixed);
            assert_eq!(packet[26..28], [0, 0], "no checksum over IPv4");
            packet[16..20].to_vec()
        }
        Family::V6 => {
            assert_eq!(packet[..8], [0x60, ecn << 4, 0, 0, udp_len[0], udp_len[1], 17, 64]);
            let octets = |at: usize| <[u8; 16]>::try_from(&packet[at..at + 16]).unwrap().into();
            assert!(udp::verify_v6(octets(8), octets(24), &packet[40..]), "a checksum over IPv6");
            packet[24..40].to_vec()
        }
    };
    assert_eq!(packet[at + 2..at + 6], [PORT.to_be_bytes(), udp_len].concat());
    assert_eq!(packet[at + 8..at + 16], header(VNI));
    (dst, u16::from_be_bytes([packet[at], packet[at + 1]]), packet[at + 16..].to_vec())
}

fn octets(addr: IpAddr) -> Vec<u8> {
    match addr {
        IpAddr::V4(addr) => addr.octets().to_vec(),
        IpAddr::V6(addr) => addr.octets().to_vec(),
    }
}

#[test]
fn frames_get_their_headers_and_lose_them_byte_by_byte() {
    for (over_, family) in pairs() {
        let mut bench = bench(1, |_| ());
        let packet = inward(family, over_, 5, 30);
        let vx = over(over_);
        let frame = build::ether(
            peer_mac(family.addr(vx, 7)),
            mac(vx),
            if family == Family::V4 { 0x0800 } else { 0x86dd },
            &build::forwarded(packet.clone()),
        );
        // The first goes step by step, the second by what that has found out, and 40 together in a chunk.
        for count in [1, 1, 40] {
            (0..count).for_each(|_| bench.inject(1, build::frame_from(1, family.addr(1, 9), &packet)));
            bench.run();
            let sent = packets(&mut bench, OUTSIDE);
            assert_eq!(sent.len(), count, "{over_:?}, {family:?}: {:?}", bench.drops());
            for datagram in sent {
                let (dst, port, inner) = taken_apart(over_, &datagram, 0);
                assert_eq!((dst, inner), (octets(over_.addr(OUTSIDE, FAR)), frame.clone()));
                assert!(port >= FIRST_PORT);
            }
        }
        let back = build::udp(family.addr(vx, 7), family.addr(1, 9), (7, 5), &[0x33; 20]);
        for count in [1, 1, 40] {
            for _ in 0..count {
                // Reserved bits are ignored.
                let reserved = [0xff, 1, 2, 3, 0x0a, 0x0b, 0x0c, 4];
                bench.inject(OUTSIDE, inward_frame(over_, FAR, reserved, &frame_in(over_, &back)));
            }
            bench.run();
            assert_eq!(
                packets(&mut bench, 1),
                vec![build::forwarded(back.clone()); count],
                "{over_:?}, {family:?}"
            );
        }
        assert_eq!(bench.drops(), []);
        assert_eq!(bench.counted(Count::TunnelIn), 42);
    }
}

#[test]
fn inner_flows_are_told_apart_by_the_source_port_and_go_to_the_cpus_that_own_them() {
    for (over_, family) in pairs() {
        let mut bench = bench(4, |_| ());
        let mut ports = Vec::new();
        for port in 0..64 {
            let packet = inward(family, over_, port, 30);
            bench.inject(1, build::frame_from(1, family.addr(1, 9), &packet));
            bench.inject(1, build::frame_from(1, family.addr(1, 9), &packet));
            bench.run();
            let sent = packets(&mut bench, OUTSIDE);
            let of_flow: Vec<_> = sent.iter().map(|sent| taken_apart(over_, sent, 0).1).collect();
            assert!(of_flow.len() == 2 && of_flow[0] == of_flow[1], "{of_flow:?} {:?}", bench.drops());
            ports.push(of_flow[0]);
        }
        ports.sort_unstable();
        ports.dedup();
        assert!(ports.len() > 32, "{ports:?}");
        for port in 0..64 {
            let back = build::udp(family.addr(over(over_), 7), family.addr(1, 9), (port, 5), &[0x33; 20]);
            bench.inject(OUTSIDE, inward_frame(over_, FAR, header(VNI), &frame_in(over_, &back)));
        }
        bench.run();
        assert_eq!(packets(&mut bench, 1).len(), 64, "{:?}", bench.drops());
        assert_eq!(bench.counted(Count::Strays), 0);
    }
}

/// Where a packet for host 7 of the VXLAN goes.
fn destinations(bench: &mut Bench, over_: Family) -> Vec<Vec<u8>> {
    let packet = inward(Family::V4, over_, 5, 30);
    bench.inject(1, build::frame_from(1, Family::V4.addr(1, 9), &packet));
    bench.run();
    packets(bench, OUTSIDE).iter().map(|sent| taken_apart(over_, sent, 0).0).collect()
}

#[test]
fn a_station_is_learnt_behind_the_remote_end_that_its_frames_come_from() {
    for over_ in FAMILIES {
        for cpus in [1, 4] {
            let mut bench = bench(cpus, |_| ());
            let before = bench.counted(Count::VxlanFlooded);
            assert_eq!(destinations(&mut bench, over_), [octets(over_.addr(OUTSIDE, FAR))]);
            assert_eq!(bench.counted(Count::VxlanFlooded), before + 1);
            let inner = build::udp(Family::V4.addr(over(over_), 7), Family::V4.addr(1, 9), (7, 5), &[1]);
            for host in [8, 7] {
                bench.inject(OUTSIDE, inward_frame(over_, host, header(VNI), &frame_in(over_, &inner)));
                bench.run();
                bench.forget_sent();
                assert_eq!(destinations(&mut bench, over_), [octets(over_.addr(OUTSIDE, host))]);
            }
            assert_eq!(bench.counted(Count::VxlanFlooded), before + 1);
            // Silence, and it is flooded again.
            bench.advance(Duration::from_secs(1500));
            bench.forget_sent();
            assert_eq!(destinations(&mut bench, over_), [octets(over_.addr(OUTSIDE, FAR))]);
        }
    }
}

#[test]
fn static_addresses_say_where_stations_are_and_who_gets_what_is_flooded() {
    for over_ in FAMILIES {
        let far = |host| Behind::Vtep(over_.addr(OUTSIDE, host));
        let station = peer_mac(Family::V4.addr(over(over_), 7));
        let statics = |list: &[(Mac, u8)]| -> Settings {
            let statics = list.iter().map(|&(mac, host)| Static { mac, behind: far(host) }).collect();
            Settings { statics, ..Settings::default() }
        };
        for (list, remote, expected) in [
            (&[(station, 20)][..], true, &[20][..]),
            (&[(Mac::ZERO, 21), (Mac::ZERO, 22)], true, &[21, 22, FAR]),
            (&[(Mac::ZERO, 21)], false, &[21]),
            (&[], false, &[]),
        ] {
            let mut bench = bench(1, |config| {
                let at = usize::from(over(over_)) - 1;
                config.ifs[at].fdb = statics(list);
                let remote = ends(over_).remote.filter(|_| remote);
                config.ifs[at].kind = Kind::Vxlan(Vxlan { remote, ..ends(over_) });
            });
            let lost = bench.dropped(DropReason::VxlanNoRemote);
            let expected: Vec<_> = expected.iter().map(|host| octets(over_.addr(OUTSIDE, *host))).collect();
            let mut sent = destinations(&mut bench, over_);
            sent.sort_unstable();
            assert_eq!(
                sent,
                {
                    let mut all = expected.clone();
                    all.sort_unstable();
                    all
                },
                "{list:?}"
            );
            assert_eq!(bench.dropped(DropReason::VxlanNoRemote) - lost, u64::from(expected.is_empty()));
        }
    }
}

#[test]
fn a_header_without_a_valid_identifier_or_of_another_network_and_a_cut_frame_are_dropped() {
    for over_ in FAMILIES {
        let inner = build::udp(Family::V4.addr(over(over_), 7), Family::V4.addr(1, 9), (7, 5), &[0x33; 20]);
        let frame = frame_in(over_, &inner);
        let mut no_vni = header(VNI);
        no_vni[0] = 0xf7;
        for (header, frame, reason) in [
            (no_vni, &frame[..], DropReason::VxlanNoVni),
            (header(VNI + 1), &frame, DropReason::VxlanUnknown),
            (header(VNI), &frame[..13], DropReason::TunnelMalformed),
            (header(VNI), &frame[..33], DropReason::Ip4Short),
        ] {
            let mut bench = bench(1, |_| ());
            bench.inject(OUTSIDE, inward_frame(over_, FAR, header, frame));
            bench.run();
            assert_eq!(bench.drops(), [(reason, 1)], "{over_:?}");
        }
        let mut bench = bench(1, |_| ());
        let (from, to) = (over_.addr(OUTSIDE, FAR), over_.addr(OUTSIDE, 1));
        let short = build::udp(from, to, (50_000, PORT), &[8, 0, 0]);
        bench.inject(OUTSIDE, build::frame_from(OUTSIDE, from, &short));
        bench.run();
        assert_eq!(bench.drops(), [(DropReason::TunnelMalformed, 1)]);
    }
}

#[test]
fn a_datagram_without_a_checksum_is_taken_at_the_port_of_a_vxlan_and_over_ipv6_nowhere_else() {
    for over_ in FAMILIES {
        for (port, is_taken) in [(PORT, true), (PORT + 1, false)] {
            let mut bench = bench(1, |_| ());
            let inner =
                build::udp(Family::V4.addr(over(over_), 7), Family::V4.addr(1, 9), (7, 5), &[0x33; 20]);
            let (from, to) = (over_.addr(OUTSIDE, FAR), over_.addr(OUTSIDE, 1));
            let mut packet = datagram(from, to, header(VNI), &frame_in(over_, &inner));
            let at = if over_ == Family::V4 { 20 } else { 40 };
            packet[at + 2..at + 4].copy_from_slice(&port.to_be_bytes());
            packet[at + 6..at + 8].fill(0);
            bench.inject(OUTSIDE, build::frame_from(OUTSIDE, from, &packet));
            bench.run();
            assert_eq!(packets(&mut bench, 1).len(), usize::from(is_taken), "{over_:?}: {:?}", bench.drops());
            let refused = over_ == Family::V6 && !is_taken;
            assert_eq!(bench.dropped(DropReason::UdpBadChecksum), u64::from(refused));
        }
    }
}

/// RFC 6040, figure 4: by inner and outer bits, in the order not-ECT, ECT(1), ECT(0), CE.
const DECAPSULATED: [[Option<u8>; 4]; 4] = [
    [Some(0), Some(0), Some(0), None],
    [Some(1), Some(1), Some(1), Some(3)],
    [Some(2), Some(1), Some(2), Some(3)],
    [Some(3), Some(3), Some(3), Some(3)],
];

fn marked(mut packet: Vec<u8>, ecn: u8) -> Vec<u8> {
    if packet[0] >> 4 == 4 {
        packet[1] = packet[1] & !3 | ecn;
        build::fix_ip4_checksum(&mut packet[..20]);
    } else {
        packet[1] = packet[1] & !0x30 | ecn << 4;
    }
    packet
}

#[test]
fn congestion_marks_pass_through_both_ends_as_rfc_6040_says() {
    for (over_, family) in pairs() {
        for inner_ecn in 0..4_u8 {
            let mut bench = bench(1, |_| ());
            let packet = marked(inward(family, over_, 5, 30), inner_ecn);
            bench.inject(1, build::frame_from(1, family.addr(1, 9), &packet));
            bench.run();
            let [sent] = <[Vec<u8>; 1]>::try_from(packets(&mut bench, OUTSIDE)).unwrap();
            let (_, _, frame) = taken_apart(over_, &sent, inner_ecn);
            assert_eq!(frame[14..], build::forwarded(packet), "{over_:?}, {family:?}");
            for outer_ecn in 0..4_u8 {
                let back = build::udp(family.addr(over(over_), 7), family.addr(1, 9), (7, 5), &[0x33; 20]);
                let frame = frame_in(over_, &marked(back.clone(), inner_ecn));
                let (from, to) = (over_.addr(OUTSIDE, FAR), over_.addr(OUTSIDE, 1));
                let outer = marked(datagram(from, to, header(VNI), &frame), outer_ecn);
                bench.inject(OUTSIDE, build::frame_from(OUTSIDE, from, &outer));
                bench.run();
                let ecn = DECAPSULATED[usize::from(inner_ecn)][usize::from(outer_ecn)];
                let expected: Vec<_> =
                    ecn.map(|ecn| build::forwarded(marked(back, ecn))).into_iter().collect();
                assert_eq!(
                    packets(&mut bench, 1),
                    expected,
                    "{over_:?}, {family:?}: {inner_ecn}, {outer_ecn}"
                );
            }
            assert_eq!(bench.dropped(DropReason::TunnelCongested), u64::from(inner_ecn == 0));
        }
    }
}

/// The MTU that an error to host 9 of interface 1 reports.
fn told(packet: &[u8]) -> Option<u32> {
    match packet[0] >> 4 {
        4 => match wire::icmp4::Message::parse(&packet[20..]).ok()?.0 {
            wire::icmp4::Message::Unreachable { code: 4, mtu } => Some(mtu.into()),
            _ => None,
        },
        _ => match wire::icmp6::Message::parse_quoted(&packet[40..]).ok()?.0 {
            wire::icmp6::Message::PacketTooBig { mtu } => Some(mtu),
            _ => None,
        },
    }
}

#[test]
fn what_the_outer_path_carries_less_all_headers_is_told_to_the_sender_and_nothing_is_cut() {
    for (over_, family) in pairs() {
        let header = u32::try_from(ends(over_).header_len() + HEADER_LEN).unwrap();
        assert_eq!(header, if over_ == Family::V4 { 50 } else { 70 });
        for (mtu, fits) in [(1500, 1500 - header), (1400, 1400 - header)] {
            let mut bench = bench(1, |config| {
                config.ifs[usize::from(OUTSIDE) - 1].mtu = mtu;
                config.ifs.iter_mut().skip(2).for_each(|vxlan| vxlan.mtu = 9000);
            });
            let ip = if family == Family::V4 { 28 } else { 48 };
            for (len, is_told) in [(fits, false), (fits + 1, true)] {
                let packet = inward(family, over_, 5, len as usize - ip);
                bench.inject(1, build::frame_from(1, family.addr(1, 9), &packet));
                bench.run();
                let errors: Vec<_> =
                    packets(&mut bench, 1).iter().filter_map(|packet| told(packet)).collect();
                assert_eq!(errors, if is_told { vec![fits] } else { vec![] }, "{over_:?}, {family:?}, {len}");
                assert_eq!(packets(&mut bench, OUTSIDE).len(), usize::from(!is_told));
            }
            if family == Family::V4 {
                let mut packet = inward(family, over_, 5, fits as usize + 1 - ip);
                packet[6] &= !0x40;
                build::fix_ip4_checksum(&mut packet[..20]);
                bench.inject(1, build::frame_from(1, family.addr(1, 9), &packet));
                bench.run();
                assert_eq!(bench.dropped(DropReason::TunnelTooBig), 1);
            }
        }
    }
}

#[test]
fn an_error_about_a_long_datagram_limits_the_flow_that_has_sent_it() {
    for cpus in [1, 4] {
        for (over_, family) in pairs() {
            let mut bench = bench(cpus, |_| ());
            let header = u32::try_from(ends(over_).header_len() + HEADER_LEN).unwrap();
            let packet = inward(family, over_, 5, 1350);
            for round in 0..2 {
                bench.inject(1, build::frame_from(1, family.addr(1, 9), &packet));
                bench.run();
                let errors: Vec<_> =
                    packets(&mut bench, 1).iter().filter_map(|packet| told(packet)).collect();
                assert_eq!(
                    errors,
                    if round == 0 { vec![] } else { vec![1400 - header] },
                    "{over_:?}, {family:?}"
                );
                let Some(sent) = packets(&mut bench, OUTSIDE).pop() else { continue };
                let (from, to) = (over_.addr(OUTSIDE, 8), over_.addr(OUTSIDE, 1));
                let quote = &sent[..500];
                let (protocol, error) = match (from, to) {
                    (IpAddr::V6(from), IpAddr::V6(to)) => {
                        let error = wire::icmp6::Message::PacketTooBig { mtu: 1400 };
                        (Protocol::ICMP6, error.to_bytes(from, to, quote))
                    }
                    _ => {
                        let error = wire::icmp4::Message::Unreachable { code: 4, mtu: 1400 };
                        (Protocol::ICMP, error.to_bytes(quote))
                    }
                };
                let error = build::ip(from, to, protocol, 64, &[&error[..], quote].concat());
                bench.inject(OUTSIDE, build::frame_from(OUTSIDE, from, &error));
                bench.run();
                assert_eq!(bench.counted(Count::TunnelErrors), 1);
            }
        }
    }
}

#[test]
fn a_vxlan_that_leads_through_itself_or_home_is_a_loop_and_two_through_each_other_end_at_the_bound() {
    for over_ in FAMILIES {
        for is_home in [false, true] {
            let mut bench = bench(1, |config| {
                let remote = if is_home { over_.addr(1, 1) } else { over_.addr(99, 9) };
                let at = usize::from(over(over_)) - 1;
                config.ifs[at].kind = Kind::Vxlan(Vxlan { remote: Some(remote), ..ends(over_) });
                let to = To::OnLink { ifindex: over(over_) };
                config.routes.extend((!is_home).then(|| FibRoute::new(Prefix::host(remote), to)));
            });
            let before = bench.dropped(DropReason::TunnelLoop);
            let packet = inward(Family::V4, over_, 5, 30);
            bench.inject(1, build::frame_from(1, Family::V4.addr(1, 9), &packet));
            bench.run();
            assert_eq!(bench.dropped(DropReason::TunnelLoop), before + 1, "{over_:?}");
        }
    }
    let mut bench = bench(1, |config| {
        for (over_, other) in [(Family::V4, Family::V6), (Family::V6, Family::V4)] {
            // The remote end is a host of the other VXLAN.
            let remote = over_.addr(over(other), 7);
            config.ifs[usize::from(over(over_)) - 1].kind =
                Kind::Vxlan(Vxlan { remote: Some(remote), ..ends(over_) });
        }
    });
    let (before, sent) = (bench.dropped(DropReason::TunnelNested), bench.counted(Count::TunnelOut));
    let packet = inward(Family::V4, Family::V4, 5, 30);
    bench.inject(1, build::frame_from(1, Family::V4.addr(1, 9), &packet));
    bench.run();
    assert_eq!(bench.dropped(DropReason::TunnelNested), before + 1);
    assert_eq!(bench.counted(Count::TunnelOut), sent + u64::from(NESTING_MAX));
}

#[test]
fn a_vxlan_of_a_group_joins_it_floods_to_it_and_takes_what_is_sent_to_it() {
    for over_ in FAMILIES {
        let group: IpAddr = match over_ {
            Family::V4 => Ipv4Addr::new(239, 1, 1, 1).into(),
            Family::V6 => "ff05::1234".parse().unwrap(),
        };
        let mut bench = bench(1, |config| {
            let at = usize::from(over(over_)) - 1;
            config.ifs[at].kind = Kind::Vxlan(Vxlan { remote: Some(group), ..ends(over_) });
        });
        let key = crate::ip::group::Key { ifindex: OUTSIDE, group };
        assert!(crate::ip::group::is_joined(bench.cpu(), key));
        assert_eq!(destinations(&mut bench, over_), [octets(group)]);
        let from = over_.addr(OUTSIDE, FAR);
        let inner = build::udp(Family::V4.addr(over(over_), 7), Family::V4.addr(1, 9), (7, 5), &[0x33; 20]);
        let packet = datagram(from, group, header(VNI), &frame_in(over_, &inner));
        let group_mac = match group {
            IpAddr::V4(group) => wire::addr::multicast_mac_v4(group),
            IpAddr::V6(group) => wire::addr::multicast_mac_v6(group),
        };
        let ethertype = if over_ == Family::V4 { 0x0800 } else { 0x86dd };
        bench.inject(OUTSIDE, build::ether(group_mac.unwrap(), peer_mac(from), ethertype, &packet));
        bench.run();
        assert_eq!(packets(&mut bench, 1), [build::forwarded(inner)], "{over_:?}: {:?}", bench.drops());
        bench.forget_sent();
        assert_eq!(destinations(&mut bench, over_), [octets(from)], "learnt");
    }
}

#[test]
fn neighbours_are_asked_for_through_a_vxlan_and_answered() {
    for (over_, family) in pairs() {
        let mut bench = bench(1, |_| ());
        let (asker, target) = (family.addr(over(over_), 5), family.addr(over(over_), 1));
        let asked = question(peer_mac(asker), asker, target);
        bench.inject(OUTSIDE, inward_frame(over_, FAR, header(VNI), &asked));
        bench.run();
        let sent: Vec<_> = packets(&mut bench, OUTSIDE);
        let frames: Vec<_> = sent.iter().map(|sent| taken_apart(over_, sent, 0).2).collect();
        let answer = frames.iter().find(|frame| frame[..6] == peer_mac(asker).octets());
        assert!(answer.is_some_and(|frame| frame[6..12] == mac(over(over_)).octets()), "{frames:02x?}");
    }
}
