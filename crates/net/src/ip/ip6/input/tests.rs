use core::net::Ipv6Addr;

use pkt::{Flags, Pkt};
use wire::Protocol;
use wire::addr::link_local_from_mac;

use super::*;
use crate::base::count::Count;
use crate::ip::icmp::Problem;
use crate::testkit::fastpath::{self, Ways};
use crate::testkit::{Bench, addr6, build, mac};

fn usual() -> Vec<u8> {
    between(addr6(1, 9), addr6(2, 9))
}

fn between(src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
    build::udp(src.into(), dst.into(), (1000, 2000), b"across")
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

/// A packet across the router whose hop-by-hop header has these options; they must fill it.
fn with_hop_by_hop(dst: Ipv6Addr, options: &[u8]) -> Vec<u8> {
    assert_eq!(options.len() % 8, 6, "options fill the header");
    let units = u8::try_from(options.len() / 8).unwrap();
    let header = [&[Protocol::NO_NEXT.0, units], options].concat();
    build::ip(addr6(1, 9).into(), dst.into(), Protocol::HOP_BY_HOP, 64, &header)
}

#[test]
fn the_usual_packet_is_routed_and_its_transport_found() {
    let mut bench = Bench::new(2);
    let mut pkt = bench.cpu().pool.take().unwrap();
    pkt.append(usual().len()).unwrap().copy_from_slice(&usual());
    assert_eq!(input(bench.cpu(), &mut pkt, &mut 0), Next::Route6);
    assert_eq!((pkt.l4, pkt.proto), (40, Protocol::UDP.0));
    bench.cpu().pool.give(pkt);
}

#[test]
fn each_broken_header_dies_of_its_own_reason() {
    let drops = |packet: Vec<u8>, reason| assert_eq!(verdict_of(&packet), Next::Drop(reason));
    let changed = |at: usize, to: u8| {
        let mut packet = usual();
        packet[at] = to;
        packet
    };
    drops(usual()[..39].to_vec(), DropReason::Ip6Short);
    drops(changed(0, 0x40), DropReason::Ip6BadVersion);
    drops(changed(0, 0x70), DropReason::Ip6BadVersion);
    drops(changed(4, 1), DropReason::Ip6BadPayloadLen);
    drops(changed(5, 15), DropReason::Ip6BadPayloadLen);
}

#[test]
fn what_the_frame_has_behind_the_packet_is_cut_off() {
    let padded = [&usual()[..], &[0xee; 26]].concat();
    let mut bench = Bench::new(2);
    let mut pkt = bench.cpu().pool.take().unwrap();
    pkt.append(padded.len()).unwrap().copy_from_slice(&padded);
    assert_eq!(input(bench.cpu(), &mut pkt, &mut 0), Next::Route6);
    assert_eq!(pkt.head(), usual());
    bench.cpu().pool.give(pkt);
}

#[test]
fn invalid_source_addresses_are_refused() {
    for src in ["::", "::1", "ff02::1", "ff0e::1", "::ffff:10.0.1.9"] {
        let verdict = verdict_of(&between(src.parse().unwrap(), addr6(2, 9)));
        assert_eq!(verdict, Next::Drop(DropReason::Ip6MartianSource), "{src}");
    }
}

#[test]
fn our_own_address_as_the_source_is_refused_unless_the_packet_is_ours() {
    let link_local = link_local_from_mac(mac(1));
    for own in [addr6(1, 1), addr6(2, 1), link_local] {
        assert_eq!(verdict_of(&between(own, addr6(2, 9))), Next::Drop(DropReason::Ip6OwnSource));
    }
    let ours = verdict_with(&between(addr6(1, 1), addr6(1, 1)), |pkt| pkt.flags.set(Flags::LOCAL));
    assert_eq!(ours, Next::Route6);
    let others_link_local = link_local_from_mac(mac(2));
    assert_eq!(verdict_of(&between(others_link_local, addr6(1, 1))), Next::Route6);
}

#[test]
fn another_host_that_claims_our_address_is_heard() {
    let own = addr6(1, 1);
    let all_nodes = "ff02::1".parse().unwrap();
    let claim = |dst| build::neighbour_advert(own, dst, mac(7));
    let mut bench = Bench::new(2);
    bench.inject(1, build::frame(1, &claim(all_nodes)));
    bench.run();
    assert_eq!(bench.counted(Count::NdConflicts), 1);
    let mut from_afar = claim(all_nodes);
    from_afar[7] = 254;
    for forged in [claim(addr6(2, 9)), from_afar, between(own, all_nodes)] {
        assert_eq!(verdict_of(&forged), Next::Drop(DropReason::Ip6OwnSource));
    }
}

#[test]
fn destinations_that_are_on_no_wire_are_refused() {
    for dst in ["::", "::1", "ff00::1", "ff01::1", "::ffff:10.0.2.9"] {
        let verdict = verdict_of(&between(addr6(1, 9), dst.parse().unwrap()));
        assert_eq!(verdict, Next::Drop(DropReason::Ip6MartianDestination), "{dst}");
    }
}

#[test]
fn joined_groups_are_for_us_and_others_are_not() {
    let verdict = |dst: &str| verdict_of(&between(addr6(1, 9), dst.parse().unwrap()));
    for joined in ["ff02::1", "ff02::2", "ff02::1:ff00:1"] {
        assert_eq!(verdict(joined), Next::Local6, "{joined}");
    }
    assert_eq!(verdict("ff02::5"), Next::Drop(DropReason::GroupNotJoined));
    assert_eq!(verdict("ff02::1:ff99:9999"), Next::Drop(DropReason::GroupNotJoined));
    assert_eq!(verdict("ff05::5"), Next::Drop(DropReason::ForwardMulticast));
}

#[test]
fn ping_of_link_scope_does_not_leave_the_link() {
    let verdict = |dst: &str| verdict_of(&between(Ipv6Addr::UNSPECIFIED, dst.parse().unwrap()));
    assert_eq!(verdict("ff02::1:ff00:1"), Next::Local6);
    assert_eq!(verdict("ff05::5"), Next::Drop(DropReason::GroupNotJoined));
}

#[test]
fn link_local_destinations_are_ours_on_their_own_link_only() {
    let verdict = |dst| verdict_of(&between(addr6(1, 9), dst));
    assert_eq!(verdict(link_local_from_mac(mac(1))), Next::Local6);
    assert_eq!(verdict(link_local_from_mac(mac(2))), Next::Drop(DropReason::Ip6ScopeExceeded));
    assert_eq!(verdict("fe80::9".parse().unwrap()), Next::Drop(DropReason::Ip6ScopeExceeded));
}

#[test]
fn a_packet_for_one_host_in_a_frame_for_many_is_refused() {
    for dst in [addr6(1, 1), addr6(2, 9), link_local_from_mac(mac(1))] {
        let verdict = verdict_with(&between(addr6(1, 9), dst), |pkt| pkt.flags.set(Flags::MULTICAST));
        assert_eq!(verdict, Next::Drop(DropReason::UnicastInBroadcast));
    }
}

#[test]
fn unknown_hop_by_hop_options_are_treated_as_their_type_says() {
    let group: Ipv6Addr = "ff02::1".parse().unwrap();
    let option = |kind: u8| [kind, 4, 0, 0, 0, 0];
    let verdict = |dst, kind| verdict_of(&with_hop_by_hop(dst, &option(kind)));
    assert_eq!(verdict(addr6(2, 9), 0x1e), Next::Route6);
    assert_eq!(verdict(addr6(2, 9), 0x5e), Next::Drop(DropReason::Ip6UnknownOption));
    assert_eq!(verdict(addr6(2, 9), 0x9e), Next::Answer(Problem::UnknownOption { pointer: 42 }));
    assert_eq!(verdict(addr6(2, 9), 0xde), Next::Answer(Problem::UnknownOption { pointer: 42 }));
    assert_eq!(verdict(group, 0x9e), Next::Answer(Problem::UnknownOption { pointer: 42 }));
    assert_eq!(verdict(group, 0xde), Next::Drop(DropReason::Ip6UnknownOption));
}

#[test]
fn a_jumbo_payload_is_not_believed() {
    let jumbo = [0xc2, 4, 0, 1, 0, 0];
    let with_length = with_hop_by_hop(addr6(2, 9), &jumbo);
    assert_eq!(verdict_of(&with_length), Next::Answer(Problem::UnknownOption { pointer: 42 }));
    let mut without = with_length;
    without[4..6].fill(0);
    assert_eq!(verdict_of(&without), Next::Drop(DropReason::Ip6BadExtension));
}

#[test]
fn a_router_does_not_judge_what_stands_behind_the_hop_by_hop_options() {
    let unknown_destination_option = [Protocol::NO_NEXT.0, 0, 0x9e, 4, 0, 0, 0, 0];
    let options = [Protocol::DESTINATION_OPTIONS.0, 0, 1, 4, 0, 0, 0, 0];
    let src_route = [Protocol::NO_NEXT.0, 2, 0, 1, 0, 0, 0, 0];
    let mut long_chain: Vec<u8> = [Protocol::DESTINATION_OPTIONS.0, 0, 1, 4, 0, 0, 0, 0].repeat(20);
    long_chain.extend(unknown_destination_option);
    for behind in [&unknown_destination_option[..], &long_chain, &src_route] {
        let payload = [&options[..], behind].concat();
        let packet = build::ip(addr6(1, 9).into(), addr6(2, 9).into(), Protocol::HOP_BY_HOP, 64, &payload);
        assert_eq!(verdict_of(&packet), Next::Route6);
    }
}

#[test]
fn the_short_way_finds_what_the_careful_way_finds() {
    let ways = Ways { short: plain, careful: step_by_step, route: Next::Route6 };
    fastpath::compare(&ways, &usual(), |_, _| ());
}
