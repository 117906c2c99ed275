use core::net::Ipv4Addr;

use pkt::{Flags, Pkt};
use wire::{Protocol, ip4};

use super::*;
use crate::link::tables::Rxcsum;
use crate::testkit::fastpath::{self, Ways};
use crate::testkit::{Bench, addr4, build};

const PORTS: (u16, u16) = (1000, 2000);

/// Returns the result for `packet`, received on interface 1, and the packet as input left it.
fn input_of(bench: &mut Bench, packet: &[u8]) -> (Next, Pkt) {
    let mut pkt = bench.cpu().pool.take().unwrap();
    pkt.append(packet.len()).unwrap().copy_from_slice(packet);
    pkt.rcvif = 1;
    let next = input(bench.cpu(), &mut pkt, &mut 0);
    (next, pkt)
}

fn verdict_of(packet: &[u8]) -> Next {
    verdict_with(packet, |_| ())
}

fn verdict_with(packet: &[u8], change: impl FnOnce(&mut Pkt)) -> Next {
    let mut bench = Bench::new(2);
    let mut pkt = bench.cpu().pool.take().unwrap();
    pkt.append(packet.len()).unwrap().copy_from_slice(packet);
    pkt.rcvif = 1;
    change(&mut pkt);
    let next = input(bench.cpu(), &mut pkt, &mut 0);
    bench.cpu().pool.give(pkt);
    next
}

fn usual() -> Vec<u8> {
    build::udp(addr4(1, 9).into(), addr4(2, 9).into(), PORTS, b"across")
}

fn between(src: Ipv4Addr, dst: Ipv4Addr) -> Vec<u8> {
    build::udp(src.into(), dst.into(), PORTS, b"across")
}

/// The usual packet after `change` to its header, its checksum made right again.
fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut packet = usual();
    change(&mut packet);
    build::fix_ip4_checksum(&mut packet);
    packet
}

/// The usual packet with option bytes.
fn with_options(options: &[u8]) -> Vec<u8> {
    let options = ip4::Options::from_bytes(options).unwrap();
    let header = ip4::Header { options, ..ip4::Header::new(addr4(1, 9), addr4(2, 9), Protocol::UDP, 4) };
    let mut packet = vec![0; 64];
    let len = header.emit(&mut packet).unwrap();
    packet.truncate(len);
    packet.extend_from_slice(b"data");
    packet
}

#[test]
fn the_usual_packet_is_routed_and_its_transport_found() {
    let mut bench = Bench::new(2);
    let (next, pkt) = input_of(&mut bench, &usual());
    assert_eq!(next, Next::Route4);
    assert_eq!((pkt.l4, pkt.proto), (20, Protocol::UDP.0));
    bench.cpu().pool.give(pkt);
}

#[test]
fn each_broken_header_dies_of_its_own_reason() {
    let drops = |packet: Vec<u8>, reason| assert_eq!(verdict_of(&packet), Next::Drop(reason));
    drops(usual()[..19].to_vec(), DropReason::Ip4Short);
    drops(changed(|ip| ip[0] = 0x55), DropReason::Ip4BadVersion);
    drops(changed(|ip| ip[0] = 0x65), DropReason::Ip4BadVersion);
    drops(changed(|ip| ip[3] = 19), DropReason::Ip4BadTotalLen);
    drops(changed(|ip| ip[3] += 1), DropReason::Ip4BadTotalLen);
    let mut short_header = usual();
    short_header[0] = 0x44;
    drops(short_header, DropReason::Ip4BadHeaderLen);
    let mut long_header = usual();
    long_header[0] = 0x4f;
    drops(long_header, DropReason::Ip4BadHeaderLen);
    for byte in 0..20 {
        let mut packet = usual();
        packet[byte] ^= 0x10;
        let dies = matches!(verdict_of(&packet), Next::Drop(_));
        assert!(dies, "byte {byte} changed and nobody noticed");
    }
}

#[test]
fn what_the_frame_has_behind_the_packet_is_cut_off() {
    let mut bench = Bench::new(2);
    let packet = usual();
    let padded = [&packet[..], &[0xee; 26]].concat();
    let (next, pkt) = input_of(&mut bench, &padded);
    assert_eq!((next, pkt.head()), (Next::Route4, &packet[..]));
    bench.cpu().pool.give(pkt);
}

#[test]
fn invalid_source_addresses_are_refused() {
    let martians =
        ["0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255"];
    let broadcasts = ["10.0.1.255", "10.0.1.0", "10.0.2.255"];
    for src in martians.iter().chain(&broadcasts) {
        let verdict = verdict_of(&between(src.parse().unwrap(), addr4(2, 9)));
        assert_eq!(verdict, Next::Drop(DropReason::Ip4MartianSource), "{src}");
    }
}

#[test]
fn our_own_address_as_the_source_is_refused_unless_the_packet_is_ours() {
    for own in [addr4(1, 1), addr4(2, 1)] {
        for dst in [own, addr4(2, 9)] {
            assert_eq!(verdict_of(&between(own, dst)), Next::Drop(DropReason::Ip4OwnSource));
        }
        let ours = verdict_with(&between(own, own), |pkt| pkt.flags.set(Flags::LOCAL));
        assert_eq!(ours, Next::Route4);
    }
}

#[test]
fn destinations_that_are_on_no_wire_are_refused() {
    for dst in ["0.0.0.0", "0.0.0.9", "127.0.0.1", "240.0.0.1", "255.255.255.254"] {
        let verdict = verdict_of(&between(addr4(1, 9), dst.parse().unwrap()));
        assert_eq!(verdict, Next::Drop(DropReason::Ip4MartianDestination), "{dst}");
    }
}

#[test]
fn broadcasts_and_joined_groups_are_for_us_and_other_groups_are_not() {
    let verdict = |dst: &str| verdict_of(&between(addr4(1, 9), dst.parse().unwrap()));
    assert_eq!(verdict("255.255.255.255"), Next::Local4);
    assert_eq!(verdict("224.0.0.1"), Next::Local4);
    assert_eq!(verdict("224.0.0.5"), Next::Drop(DropReason::GroupNotJoined));
    assert_eq!(verdict("239.1.2.3"), Next::Drop(DropReason::ForwardMulticast));
}

#[test]
fn a_packet_for_one_host_in_a_frame_for_many_is_refused() {
    for flag in [Flags::BROADCAST, Flags::MULTICAST] {
        for dst in [addr4(1, 1), addr4(2, 9)] {
            let verdict = verdict_with(&between(addr4(1, 9), dst), |pkt| pkt.flags.set(flag));
            assert_eq!(verdict, Next::Drop(DropReason::UnicastInBroadcast));
        }
    }
    let directed = verdict_with(&between(addr4(1, 9), addr4(1, 255)), |pkt| pkt.flags.set(Flags::BROADCAST));
    assert_eq!(directed, Next::Route4);
}

#[test]
fn source_routes_are_answered_and_harmless_options_pass() {
    let loose = [131, 7, 4, 10, 0, 2, 9, 0];
    let strict = [137, 7, 4, 10, 0, 2, 9, 0];
    let used_up = [131, 7, 8, 10, 0, 2, 9, 0];
    for route in [loose, strict, used_up] {
        assert_eq!(verdict_of(&with_options(&route)), Next::Answer(Problem::SourceRouteFailed));
    }
    let record_route = [7, 7, 4, 0, 0, 0, 0, 0];
    let timestamps = [68, 8, 5, 0, 0, 0, 0, 0];
    let router_alert = [148, 4, 0, 0, 1, 1, 1, 0];
    let unknown = [0x9e, 4, 1, 2, 0, 0, 0, 0];
    for harmless in [record_route, timestamps, router_alert, unknown, [1; 8], [0; 8]] {
        assert_eq!(verdict_of(&with_options(&harmless)), Next::Route4);
    }
    assert_eq!(verdict_of(&with_options(&[1; 40])), Next::Route4);
}

#[test]
fn malformed_options_are_answered_with_where_they_are_wrong() {
    let cases: [(&[u8], u32); 9] = [
        (&[7, 0, 4, 0], 21),
        (&[7, 1, 4, 0], 21),
        (&[7, 2, 4, 0], 21),
        (&[7, 7, 3, 0, 0, 0, 0, 0], 22),
        (&[7, 7, 6, 0, 0, 0, 0, 0], 22),
        (&[7, 41, 4, 0], 21),
        (&[1, 1, 1, 7], 23),
        (&[68, 8, 4, 0, 0, 0, 0, 0], 22),
        (&[131, 3, 4, 131, 3, 4, 0, 0], 23),
    ];
    for (options, pointer) in cases {
        let verdict = verdict_of(&with_options(options));
        assert_eq!(verdict, Next::Answer(Problem::Parameter { pointer }), "{options:?}");
    }
}

#[test]
fn a_martian_is_not_told_about_its_options() {
    let mut packet = with_options(&[7, 0, 4, 0]);
    packet[12..16].copy_from_slice(&[127, 0, 0, 1]);
    build::fix_ip4_checksum(&mut packet);
    assert_eq!(verdict_of(&packet), Next::Drop(DropReason::Ip4MartianSource));
}

#[test]
fn trust_makes_every_checksum_good() {
    let mut bench = Bench::with(1, 1, |config| config.ifs[0].rxcsum = Rxcsum::Trust);
    let (_, pkt) = input_of(&mut bench, &usual());
    assert!(pkt.flags.has(Flags::CSUM_GOOD));
    bench.cpu().pool.give(pkt);
}

#[test]
fn the_short_way_finds_what_the_careful_way_finds() {
    let ways = Ways { short: plain, careful: step_by_step, route: Next::Route4 };
    fastpath::compare(&ways, &usual(), |packet, at| {
        if at != 10 && at != 11 && packet[0] == 0x45 {
            build::fix_ip4_checksum(packet);
        }
    });
}
