use core::net::Ipv6Addr;

use wire::addr::{ALL_NODES, solicited_node_multicast};
use wire::nd::{HOP_LIMIT, Opt, RouterAdvert};

use super::*;
use crate::ip::neigh::{State, entries};
use crate::testkit::link::{Said, nd_packet, said};
use crate::testkit::{Bench, addr6, build, mac};

const HOST: Mac = Mac([6, 0, 0, 0, 0, 0x10]);
const GROUP_MAC: Mac = Mac([0x33, 0x33, 0, 0, 0, 1]);

fn bench() -> Bench {
    let mut bench = Bench::new(2);
    bench.neighbours_answer = false;
    bench
}

fn host() -> Ipv6Addr {
    addr6(1, 16)
}

fn us() -> Ipv6Addr {
    addr6(1, 1)
}

fn solicit() -> Message {
    Message::NeighborSolicit { target: us() }
}

fn advert(target: Ipv6Addr) -> NeighborAdvert {
    NeighborAdvert { router: true, solicited: true, replace: true, target }
}

fn frame(packet: &[u8]) -> Vec<u8> {
    build::ether(mac(1), HOST, 0x86dd, packet)
}

fn hear(bench: &mut Bench, src: Ipv6Addr, dst: Ipv6Addr, message: &Message, options: &[Opt<'_>]) {
    bench.hear(1, &frame(&nd_packet(src, dst, message, options)));
}

/// Returns the advertisement in a frame: router, solicited and override flag; destination.
fn flags(frame: &[u8]) -> (bool, bool, bool, Ipv6Addr) {
    let dst = ip6::Header::parse(&frame[14..]).unwrap().dst;
    (frame[58] & 0x80 != 0, frame[58] & 0x40 != 0, frame[58] & 0x20 != 0, dst)
}

#[test]
fn a_solicitation_for_our_address_is_answered_and_its_sender_learned() {
    for forwarding in [true, false] {
        let mut bench = Bench::with(1, 1, |config| config.forwarding = forwarding);
        bench.neighbours_answer = false;
        hear(&mut bench, host(), solicited_node_multicast(us()), &solicit(), &[Opt::SourceLinkAddr(HOST)]);
        let frames = bench.sent(1);
        assert_eq!(
            said(&frames[0]),
            Some(Said::Answered { to: HOST, target: us().into(), mac: Some(mac(1)) })
        );
        assert_eq!(flags(&frames[0]), (forwarding, true, true, host()));
        let known = &entries(bench.cpu())[0];
        assert_eq!((known.mac, known.state), (Some(HOST), State::Stale));
    }
}

#[test]
fn a_solicitation_without_link_address_is_answered_once_that_is_found() {
    let mut bench = bench();
    hear(&mut bench, host(), us(), &solicit(), &[]);
    assert!(matches!(bench.said(1)[..], [Said::Asked { .. }]));
    bench.hear(1, &crate::testkit::link::answer(1, HOST, host().into()));
    assert!(matches!(bench.said(1)[..], [Said::Answered { to: HOST, .. }]));
}

#[test]
fn a_probe_for_our_address_is_answered_to_everybody() {
    let mut bench = bench();
    hear(&mut bench, Ipv6Addr::UNSPECIFIED, solicited_node_multicast(us()), &solicit(), &[]);
    let frames = bench.sent(1);
    assert_eq!(
        said(&frames[0]),
        Some(Said::Answered { to: GROUP_MAC, target: us().into(), mac: Some(mac(1)) })
    );
    assert_eq!(flags(&frames[0]), (true, false, true, ALL_NODES));
    assert_eq!(entries(bench.cpu()), []);
}

#[test]
fn solicitations_for_others_and_from_strangers_are_not_answered() {
    let other = Message::NeighborSolicit { target: addr6(1, 2) };
    let elsewhere = Message::NeighborSolicit { target: addr6(2, 1) };
    let option = [Opt::SourceLinkAddr(HOST)];
    let stranger: Ipv6Addr = "2001:db8:bad::1".parse().unwrap();
    for (src, message, reason) in [
        (host(), other, DropReason::NdNotForUs),
        (host(), elsewhere, DropReason::NdNotForUs),
        (stranger, solicit(), DropReason::NdStranger),
    ] {
        let mut bench = bench();
        hear(&mut bench, src, us(), &message, &option);
        assert_eq!((bench.said(1), entries(bench.cpu())), (vec![], vec![]), "{message:?}");
        assert_eq!(bench.dropped(reason), 1, "{message:?}");
    }
}

/// Packets that RFC 4861 §6.1 and §7.1 want dropped in silence, and what they are counted as.
fn malformed() -> Vec<(&'static str, Vec<u8>, DropReason)> {
    let group = solicited_node_multicast(us());
    let option = [Opt::SourceLinkAddr(HOST)];
    let whole = nd_packet(host(), us(), &solicit(), &option);
    let at = |at: usize, value: u8| {
        let mut packet = whole.clone();
        packet[at] = value;
        packet
    };
    let to_group = Message::NeighborAdvert(advert(host()));
    let group_option = [Opt::SourceLinkAddr(Mac([0x33, 0x33, 0, 0, 0, 9]))];
    let group_target = [Opt::TargetLinkAddr(Mac::BROADCAST)];
    let nobody = Ipv6Addr::UNSPECIFIED;
    let malformed = DropReason::NdMalformed;
    vec![
        ("hop limit 254", at(7, HOP_LIMIT - 1), DropReason::NdHopLimit),
        ("code 1", at(41, 1), malformed),
        ("an option of length 0", at(65, 0), malformed),
        ("an option beyond the end", at(65, 2), malformed),
        ("a multicast target", at(48, 0xff), malformed),
        ("cut inside the target", whole[..60].to_vec(), malformed),
        ("cut inside the option", whole[..70].to_vec(), malformed),
        ("a probe with a link address", nd_packet(nobody, group, &solicit(), &option), malformed),
        ("a probe to one host", nd_packet(nobody, us(), &solicit(), &[]), malformed),
        ("a group's link address", nd_packet(host(), us(), &solicit(), &group_option), malformed),
        ("a solicited advert to all", nd_packet(host(), ALL_NODES, &to_group, &[]), malformed),
        (
            "an advert with a group's link address",
            nd_packet(host(), us(), &to_group, &group_target),
            malformed,
        ),
    ]
}

#[test]
fn malformed_messages_are_dropped_in_silence_and_change_nothing() {
    for (what, packet, reason) in malformed() {
        let mut bench = bench();
        bench.hear(1, &frame(&packet));
        assert_eq!((bench.said(1), entries(bench.cpu())), (vec![], vec![]), "{what}");
        assert_eq!(bench.dropped(reason), 1, "{what}: {:?}", bench.drops());
    }
}

#[test]
fn a_message_in_fragments_is_ignored() {
    let packet = nd_packet(host(), us(), &solicit(), &[Opt::SourceLinkAddr(HOST)]);
    let atomic = [&[Protocol::ICMP6.0, 0, 0, 0, 0, 0, 0, 7], &packet[40..]].concat();
    let atomic = build::ip(host().into(), us().into(), Protocol::FRAGMENT, HOP_LIMIT, &atomic);
    for (bytes, l4, flags) in [(packet, 40, Flags::REASSEMBLED), (atomic, 48, Flags::NONE)] {
        let mut bench = bench();
        let cpu = bench.cpu();
        let mut pkt = cpu.pool.take().unwrap();
        pkt.append(bytes.len()).unwrap().copy_from_slice(&bytes);
        (pkt.rcvif, pkt.l4, pkt.flags) = (1, l4, flags);
        input(cpu, pkt);
        bench.run();
        assert_eq!((bench.said(1), entries(bench.cpu())), (vec![], vec![]));
        assert_eq!(bench.dropped(DropReason::NdFragmented), 1);
    }
}

#[test]
fn an_unsolicited_advertisement_creates_no_entry() {
    let mut bench = bench();
    for solicited in [true, false] {
        let message = Message::NeighborAdvert(NeighborAdvert { solicited, ..advert(host()) });
        hear(&mut bench, host(), us(), &message, &[Opt::TargetLinkAddr(HOST)]);
    }
    assert_eq!(entries(bench.cpu()), []);
    assert_eq!(bench.counted(Count::NdAdvertsIn), 2);
}

#[test]
fn an_advertisement_says_whether_a_neighbour_is_a_router() {
    let mut bench = bench();
    hear(&mut bench, host(), us(), &solicit(), &[Opt::SourceLinkAddr(HOST)]);
    for router in [true, false] {
        let message = Message::NeighborAdvert(NeighborAdvert { router, ..advert(host()) });
        hear(&mut bench, host(), us(), &message, &[Opt::TargetLinkAddr(HOST)]);
        assert_eq!(entries(bench.cpu())[0].is_router, router);
    }
}

#[test]
fn redirects_and_router_advertisements_are_not_obeyed() {
    let router = "fe80::9".parse().unwrap();
    let redirect = Message::Redirect { target: router, destination: "2001:db8:99::1".parse().unwrap() };
    let ra = Message::RouterAdvert(RouterAdvert { lifetime_s: 1800, ..RouterAdvert::default() });
    let forged = [host(), router].map(|src| (src, redirect));
    for (src, message) in forged.into_iter().chain([(router, ra)]) {
        let mut bench = bench();
        hear(&mut bench, src, us(), &message, &[Opt::TargetLinkAddr(HOST)]);
        assert_eq!((bench.said(1), entries(bench.cpu())), (vec![], vec![]));
        let reasons = [DropReason::NdMalformed, DropReason::IcmpRedirect];
        let dropped: u64 = reasons.map(|reason| bench.dropped(reason)).iter().sum();
        assert_eq!(dropped + bench.counted(Count::NdConsumed), 1);
    }
}

#[test]
fn a_message_reaches_the_cpu_that_owns_its_subject_even_if_another_one_got_it() {
    for n in 16..20 {
        let mut bench = Bench::with(1, 2, |_| ());
        bench.neighbours_answer = false;
        let host = addr6(1, n);
        hear(&mut bench, host, us(), &solicit(), &[Opt::SourceLinkAddr(HOST)]);
        bench.run();
        let owner = bench.cpu().placement.owner_of(host.into()).index();
        assert_eq!(entries(&bench.netisrs[owner].cpu).len(), 1, "{host}");
    }
}
