use core::net::IpAddr;
use core::time::Duration;

use ::wire::ether::Mac;

use super::*;
use crate::kit::link::{FAMILIES, Family, Said, answer, question};
use crate::kit::{Bench, build, mac};
use crate::netisr::dispatch;

const HOST: Mac = Mac([6, 0, 0, 0, 0, 0x10]);
const SECOND: Duration = Duration::from_secs(1);

/// A stack on whose link nobody answers by itself.
fn bench() -> Bench {
    let mut bench = Bench::new(2);
    bench.neighbours_answer = false;
    bench
}

/// Forwards a packet to `to`, on the link of interface 2. `n` marks it.
fn forward(bench: &mut Bench, to: IpAddr, n: u8) {
    forward_quietly(bench, to, n);
    bench.run();
}

fn forward_quietly(bench: &mut Bench, to: IpAddr, n: u8) {
    let from = if to.is_ipv4() { Family::V4 } else { Family::V6 }.addr(1, 9);
    let cpu = bench.cpu();
    let mut pkt = cpu.pool.take().expect("a buffer");
    let bytes = build::udp(from, to, (1, 2), &[n]);
    pkt.append(bytes.len()).unwrap().copy_from_slice(&bytes);
    pkt.outif = 2;
    let next = link(cpu, &mut pkt, to);
    dispatch(cpu, pkt, next);
}

/// The packets that left by interface 2: to which link address, and their marks.
fn forwarded(bench: &mut Bench) -> Vec<(Mac, u8)> {
    let frames = bench.sent(2).into_iter().filter(|frame| crate::kit::link::said(frame).is_none());
    frames.map(|frame| (Mac(*frame.first_chunk().unwrap()), *frame.last().unwrap())).collect()
}

fn state(bench: &mut Bench, addr: IpAddr) -> Option<State> {
    entries(bench.cpu()).into_iter().find(|entry| entry.key.addr == addr).map(|entry| entry.state)
}

#[test]
fn the_first_packet_waits_for_the_answer_and_the_next_goes_at_once() {
    for family in FAMILIES {
        let (mut bench, host) = (bench(), family.addr(2, 16));
        forward(&mut bench, host, 1);
        assert!(
            matches!(bench.said(2)[..], [Said::Asked { target, source, .. }]
            if target == host && source == family.addr(2, 1)),
            "{family:?}"
        );
        bench.hear(2, &answer(2, HOST, host));
        forward(&mut bench, host, 2);
        assert_eq!(forwarded(&mut bench), [(HOST, 1), (HOST, 2)], "{family:?}");
        assert_eq!(state(&mut bench, host), Some(State::Reachable));
    }
}

#[test]
fn a_frame_has_our_source_and_the_ethertype_of_its_packet() {
    for (family, ethertype) in FAMILIES.into_iter().zip([[0x08, 0x00], [0x86, 0xdd]]) {
        let (mut bench, host) = (bench(), family.addr(2, 16));
        bench.hear(2, &question(HOST, host, family.addr(2, 1)));
        bench.forget_sent();
        forward(&mut bench, host, 1);
        let frame = &bench.sent(2)[0];
        assert_eq!((&frame[6..12], &frame[12..14]), (&mac(2).0[..], &ethertype[..]));
    }
}

#[test]
fn a_neighbour_that_never_answers_is_asked_three_times_and_its_packets_are_answered() {
    for family in FAMILIES {
        let (mut bench, host) = (bench(), family.addr(2, 16));
        forward(&mut bench, host, 1);
        bench.advance(SECOND * 2 + SECOND / 2);
        assert_eq!(bench.said(2).len(), 3, "{family:?}");
        assert_eq!(bench.dropped(DropReason::NeighUnreachable), 0);
        bench.advance(SECOND);
        assert_eq!(bench.dropped(DropReason::NeighUnreachable), 1);
        assert_eq!(state(&mut bench, host), None);
    }
}
