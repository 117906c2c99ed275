//! Errors that belong to a flow, and those that only say so.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipfw::rule::Hook;
use wire::tcp::{Header, Options};

use super::*;
use crate::firewall::pkt_info::PktInfo;
use crate::testkit::{Bench, Frame, build, load};

fn ip(world: &World, end: End) -> IpAddr {
    match world.family {
        Family::V4 => Ipv4Addr::from_bits(u32::try_from(end.addr).unwrap()).into(),
        Family::V6 => Ipv6Addr::from_bits(end.addr).into(),
    }
}

/// A packet of a flow, as it went.
fn packet(world: &World, flow: Flow, seq: u32) -> Vec<u8> {
    let [from, to] = flow.ends();
    let (src, dst) = (ip(world, from), ip(world, to));
    if flow.key.proto() == Protocol::UDP.0 {
        return build::udp(src, dst, (from.port, to.port), b"datagram");
    }
    let (flags, options) = (Flags::ACK, Options::NONE);
    let header =
        Header { src_port: from.port, dst_port: to.port, seq, ack: 0, flags, window: 9, urgent: 0, options };
    build::tcp(src, dst, &header, b"segment")
}

/// Reads an error of this type, to `dst`, with `quote`.
fn read(world: &World, kind: u8, dst: End, quote: &[u8]) -> Option<Quoted> {
    let error = [&[kind, 0, 0, 0, 0, 0, 0, 0][..], quote].concat();
    let proto = if world.family == Family::V4 { Protocol::ICMP } else { Protocol::ICMP6 };
    let router = End { addr: 99, port: 0 };
    let bytes = build::ip(ip(world, router), ip(world, dst), proto, 64, &error);
    let mut bench = Bench::new(1);
    let pool = &mut bench.cpu().pool;
    let pkt = load(pool, &Frame::from(bytes)).unwrap();
    let info = PktInfo::read(&pkt, Hook::Ingress, 1, 0).unwrap();
    let quoted = Quoted::read(&info, &pkt);
    pool.give(pkt);
    quoted
}

/// The type that says the time to live was used up.
fn exceeded(family: Family) -> u8 {
    if family == Family::V4 { 11 } else { 3 }
}

#[test]
fn an_error_belongs_to_the_flow_of_what_it_quotes_and_does_not_lengthen_its_life() {
    for family in FAMILIES {
        let mut world = World::new(family);
        let flows = [world.connect(1000), world.flow(Protocol::UDP, 53)];
        world.install(flows[1], DATAGRAM);
        world.seconds(5);
        for flow in flows {
            let before = world.left(flow);
            let quoted = read(&world, exceeded(family), flow.ends()[0], &packet(&world, flow, ISS)).unwrap();
            let hit = world.states.find_quoted(&quoted, ANY, world.now).unwrap();
            assert_eq!((hit.rule, hit.direction, quoted.flow), (RULE, Direction::Forward, flow));
            assert_eq!(world.left(flow), before);
        }
        let back = flows[0].reversed();
        let quoted = read(&world, exceeded(family), back.ends()[0], &packet(&world, back, IRS)).unwrap();
        assert_eq!(world.states.find_quoted(&quoted, ANY, world.now).unwrap().direction, Direction::Reverse);
    }
}

#[test]
fn a_segment_that_was_never_sent_has_no_error() {
    for family in FAMILIES {
        let mut world = World::new(family);
        let flow = world.connect(1000);
        for (seq, is_known) in
            [(ISS, true), (ISS.wrapping_add(2), false), (ISS.wrapping_sub(70_000), false), (77, false)]
        {
            let quoted = read(&world, exceeded(family), flow.ends()[0], &packet(&world, flow, seq)).unwrap();
            assert_eq!(world.states.find_quoted(&quoted, ANY, world.now).is_some(), is_known, "{seq:#x}");
        }
        let half_open = world.flow(Protocol::TCP, 2);
        world.install(half_open, segment(SYN, ISS, 0, 0));
        let unsent = packet(&world, half_open.reversed(), 0);
        let quoted = read(&world, exceeded(family), half_open.ends()[1], &unsent).unwrap();
        assert_eq!(world.states.find_quoted(&quoted, ANY, world.now), None, "nobody has answered yet");
    }
}

#[test]
fn a_direction_in_which_nothing_went_has_no_errors() {
    for family in FAMILIES {
        let mut world = World::new(family);
        let flow = world.flow(Protocol::UDP, 53);
        world.install(flow, DATAGRAM);
        let back = packet(&world, flow.reversed(), 0);
        let quoted = read(&world, exceeded(family), flow.ends()[1], &back).unwrap();
        assert_eq!(world.states.find_quoted(&quoted, ANY, world.now), None);
        world.hit(flow.reversed(), DATAGRAM).unwrap();
        assert!(world.states.find_quoted(&quoted, ANY, world.now).is_some());
        world.seconds(11);
        assert_eq!(world.states.find_quoted(&quoted, ANY, world.now), None, "the flow is over");
    }
}

#[test]
fn an_error_of_another_host_kind_or_length_is_ignored() {
    for family in FAMILIES {
        let mut world = World::new(family);
        let flow = world.connect(1000);
        let [client, server] = flow.ends();
        let quote = packet(&world, flow, ISS);
        let header = quote.len() - 27;
        let redirect_and_others: &[u8] =
            if family == Family::V4 { &[0, 4, 5, 8] } else { &[128, 129, 137, 5] };
        assert_eq!(read(&world, exceeded(family), server, &quote), None, "for who did not send it");
        for kind in redirect_and_others {
            assert_eq!(read(&world, *kind, client, &quote), None, "{family:?}: type {kind}");
        }
        assert!(read(&world, exceeded(family), client, &quote[..header + 8]).is_some());
        for len in 0..header + 8 {
            assert_eq!(read(&world, exceeded(family), client, &quote[..len]), None, "{len} bytes");
        }
        let proto = if family == Family::V4 { Protocol::ICMP } else { Protocol::ICMP6 };
        let error = build::ip(ip(&world, client), ip(&world, server), proto, 64, &[exceeded(family); 40]);
        assert_eq!(read(&world, exceeded(family), client, &error), None, "an error about an error");
    }
}
