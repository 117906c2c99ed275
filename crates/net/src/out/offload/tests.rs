#![expect(clippy::cast_possible_truncation, reason = "lengths in tests are small")]

use core::net::IpAddr;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use pkt::{DATA_LEN, Gso};
use proptest::prelude::*;
use wire::checksum::{partial_v4, partial_v6};
use wire::{Protocol, tcp};

use super::*;
use crate::base::drop::DropReason;
use crate::testkit::{Bench, Frame, addr4, addr6, build, mac, peer_mac};

/// Both families' addresses of a sender and a receiver.
fn families() -> [(IpAddr, IpAddr); 2] {
    [(addr4(1, 9).into(), addr4(2, 9).into()), (addr6(1, 9).into(), addr6(2, 9).into())]
}

fn l3_len(addr: IpAddr) -> usize {
    if addr.is_ipv4() { 20 } else { 40 }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 256) as u8).collect()
}

/// A frame around an IP packet, as `neigh` leaves it.
fn framed(packet: &[u8]) -> Vec<u8> {
    let ethertype = if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
    build::ether(peer_mac(addr4(2, 9).into()), mac(2), ethertype, packet)
}

/// Makes the checksum of a packet's TCP or UDP partial, and says of what it is, for the packet in its frame.
fn made_partial(packet: &mut [u8], (src, dst): (IpAddr, IpAddr), protocol: Protocol) -> (u16, u8) {
    let l4 = l3_len(src);
    let off = if protocol == Protocol::TCP { 16 } else { 6 };
    let len = packet.len() - l4;
    let partial = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => partial_v4(src, dst, protocol, len as u16),
        (IpAddr::V6(src), IpAddr::V6(dst)) => partial_v6(src, dst, protocol, len as u32),
        _ => unreachable!("addresses of one family"),
    };
    packet[l4 + off..][..2].copy_from_slice(&partial.to_be_bytes());
    (14 + l4 as u16, off as u8)
}

fn tcp_header(flags: tcp::Flags) -> tcp::Header {
    let options = tcp::Options::parse(&[8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 1]).unwrap();
    tcp::Header { src_port: 1, dst_port: 2, seq: 0xffff_fff0, ack: 7, flags, window: 9, urgent: 0, options }
}

/// A super-packet as a device with segmentation offload would be given it.
fn super_packet(family: (IpAddr, IpAddr), protocol: Protocol, payload: &[u8], size: u16) -> Frame {
    let all = tcp::Flags(tcp::Flags::ACK.0 | tcp::Flags::PSH.0 | tcp::Flags::FIN.0 | tcp::Flags::CWR.0);
    let mut packet = match protocol {
        Protocol::TCP => build::tcp(family.0, family.1, &tcp_header(all), payload),
        _ => build::udp(family.0, family.1, (1000, 2000), payload),
    };
    let partial = made_partial(&mut packet, family, protocol);
    let gso = match (protocol, family.0) {
        (Protocol::TCP, IpAddr::V4(_)) => Gso::Tcp4,
        (Protocol::TCP, IpAddr::V6(_)) => Gso::Tcp6,
        _ => Gso::Udp,
    };
    Frame { bytes: framed(&packet), gso, gso_size: size, partial: Some(partial), ..Frame::default() }
}

/// Returns the frames that a device with `caps` is given for `frame`.
fn sent_by(caps: Caps, frame: &Frame) -> Vec<Frame> {
    let mut bench = bench(caps);
    push(&mut bench, frame, caps);
    bench.run();
    assert_eq!(bench.drops(), []);
    assert_eq!(bench.buffers_out(), 0);
    bench.sent_frames(2)
}

fn bench(caps: Caps) -> Bench {
    Bench::with(2, 1, |config| config.ifs[1].caps = caps)
}

fn push(bench: &mut Bench, frame: &Frame, caps: Caps) {
    let mut pkt = crate::testkit::load(&mut bench.cpu().pool, frame).unwrap();
    pkt.outif = 2;
    assert!(is_needed(&pkt, caps));
    output(bench.cpu(), pkt, caps);
}

/// One segment as a receiver reads it.
struct Segment {
    seq: u32,
    flags: u8,
    payload: Vec<u8>,
    id: Option<u16>,
}

/// Reads a frame with another parser, and verifies every checksum in it.
fn read(frame: &[u8]) -> Segment {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    let id = match sliced.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            Some(header.identification)
        }
        _ => None,
    };
    let ip_payload = sliced.net.as_ref().unwrap().ip_payload_ref().unwrap().payload;
    match sliced.transport.unwrap() {
        TransportSlice::Tcp(tcp) => {
            let right = match sliced.net.unwrap() {
                NetSlice::Ipv4(ip) => {
                    tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination()).unwrap()
                }
                NetSlice::Ipv6(ip) => {
                    tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination()).unwrap()
                }
                _ => panic!("an IP packet"),
            };
            // Ones' complement has two zeros.
            assert_eq!(tcp.checksum() % 0xffff, right % 0xffff);
            Segment { seq: tcp.sequence_number(), flags: ip_payload[13], payload: tcp.payload().to_vec(), id }
        }
        TransportSlice::Udp(udp) => {
            assert_eq!(usize::from(udp.length()), ip_payload.len());
            let header = udp.to_header();
            let right = match sliced.net.unwrap() {
                NetSlice::Ipv4(ip) => header.calc_checksum_ipv4_raw(
                    ip.header().source(),
                    ip.header().destination(),
                    udp.payload(),
                ),
                NetSlice::Ipv6(ip) => header.calc_checksum_ipv6_raw(
                    ip.header().source(),
                    ip.header().destination(),
                    udp.payload(),
                ),
                _ => panic!("an IP packet"),
            };
            assert_eq!(udp.checksum(), right.unwrap());
            Segment { seq: 0, flags: 0, payload: udp.payload().to_vec(), id }
        }
        _ => panic!("TCP or UDP"),
    }
}

const PLAIN: Caps = Caps { tx_csum: false, tso: false, uso: false, buffers_max: 1 };

fn segments_are_the_super_packet(len: usize, size: u16) {
    let payload = bytes(len);
    for family in families() {
        let frame = super_packet(family, Protocol::TCP, &payload, size);
        let sent = sent_by(PLAIN, &frame);
        assert_eq!(sent.len(), len.div_ceil(usize::from(size)).max(1));
        let segments: Vec<_> = sent.iter().map(|frame| read(&frame.bytes)).collect();
        let last = segments.len() - 1;
        let mut expected = 0xffff_fff0_u32;
        for (i, segment) in segments.iter().enumerate() {
            assert_eq!(segment.seq, expected);
            expected = expected.wrapping_add(segment.payload.len() as u32);
            assert!(segment.payload.len() <= usize::from(size));
            let flags = tcp::Flags(segment.flags);
            assert!(flags.ack());
            assert_eq!((flags.psh(), flags.fin()), (i == last, i == last));
            assert_eq!(flags.contains(tcp::Flags::CWR), i == 0);
            assert_eq!(segment.id.map(usize::from), family.0.is_ipv4().then_some(i));
        }
        let joined: Vec<_> = segments.iter().flat_map(|segment| segment.payload.clone()).collect();
        assert!(joined == payload, "{len} bytes in segments of {size} changed");
        assert!(sent.iter().all(|frame| frame.gso == Gso::None && frame.partial.is_none()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// No more of them than a stage holds: a ring that takes none in between would make the queue drop.
    #[test]
    fn segments_put_together_are_the_super_packet(len in 0usize..60_000, size in 256u16..1460) {
        segments_are_the_super_packet(len, size);
    }

    #[test]
    fn a_partial_checksum_is_completed_across_buffers(len in 0usize..6000) {
        let payload = bytes(len);
        for family in families() {
            let mut packet = build::udp(family.0, family.1, (1000, 2000), &payload);
            let whole = framed(&packet);
            let partial = Some(made_partial(&mut packet, family, Protocol::UDP));
            let frame = Frame { bytes: framed(&packet), partial, ..Frame::default() };
            let sent = sent_by(Caps { buffers_max: 8, ..PLAIN }, &frame);
            prop_assert_eq!(&sent[0].bytes, &whole);
            prop_assert_eq!(sent[0].partial, None);
        }
    }
}

#[test]
fn datagrams_put_together_are_the_super_packet() {
    let payload = bytes(10_001);
    for family in families() {
        let sent = sent_by(PLAIN, &super_packet(family, Protocol::UDP, &payload, 1000));
        let datagrams: Vec<_> = sent.iter().map(|frame| read(&frame.bytes).payload).collect();
        assert_eq!(datagrams.len(), 11);
        assert!(datagrams[..10].iter().all(|datagram| datagram.len() == 1000));
        assert_eq!(datagrams.concat(), payload);
    }
}

#[test]
fn a_device_that_sums_gets_segments_with_partial_checksums() {
    let caps = Caps { tx_csum: true, ..PLAIN };
    for family in families() {
        let sent = sent_by(caps, &super_packet(family, Protocol::TCP, &bytes(3000), 1400));
        assert_eq!(sent.len(), 3);
        for frame in sent {
            let mut packet = frame.bytes[14..].to_vec();
            let expected = made_partial(&mut packet, family, Protocol::TCP);
            assert_eq!((frame.partial, &frame.bytes[14..]), (Some(expected), &packet[..]));
        }
    }
}

#[test]
fn a_segment_longer_than_a_buffer_is_a_chain_for_who_takes_chains() {
    let frame = super_packet(families()[0], Protocol::TCP, &bytes(20_000), 8948);
    let sent = sent_by(Caps { buffers_max: 8, ..PLAIN }, &frame);
    assert_eq!(
        sent.iter().map(|frame| read(&frame.bytes).payload.len()).collect::<Vec<_>>(),
        [8948, 8948, 2104]
    );
    assert_eq!(sent[0].buffers, 5);
}

#[test]
fn a_chain_for_a_device_that_takes_none_is_made_one_buffer_or_dies() {
    let mut bench = bench(PLAIN);
    for (len, is_sent) in [(DATA_LEN, true), (DATA_LEN + 1, false)] {
        let mut pkt = crate::testkit::load(&mut bench.cpu().pool, &bytes(1000).into()).unwrap();
        let rest = crate::testkit::load(&mut bench.cpu().pool, &bytes(len - 1000).into()).unwrap();
        pkt.chain(rest);
        pkt.outif = 2;
        output(bench.cpu(), pkt, PLAIN);
        bench.run();
        let sent = bench.sent_frames(2);
        assert_eq!(sent.iter().map(|frame| (frame.bytes.len(), frame.buffers)).collect::<Vec<_>>(), {
            if is_sent { vec![(len, 1)] } else { vec![] }
        });
    }
    assert_eq!(bench.dropped(DropReason::TooManyBuffers), 1);
}

#[test]
fn when_buffers_run_out_no_segment_is_sent() {
    let mut bench = bench(PLAIN);
    let frame = super_packet(families()[0], Protocol::TCP, &bytes(60_000), 500);
    let mut hoard = Vec::new();
    while bench.cpu().pool.free() > 100 {
        hoard.push(bench.cpu().pool.take().unwrap());
    }
    push(&mut bench, &frame, PLAIN);
    bench.run();
    assert_eq!(bench.drops(), [(DropReason::NoBuffer, 1)]);
    assert!(bench.sent(2).is_empty());
    hoard.into_iter().for_each(|pkt| bench.cpu().pool.give(pkt));
}

#[test]
fn super_packets_that_are_not_what_they_say_die() {
    let good = super_packet(families()[0], Protocol::TCP, &bytes(5000), 1000);
    let wrong_kind = Frame { gso: Gso::Tcp6, ..good.clone() };
    let udp = Frame { gso: Gso::Udp, ..good.clone() };
    let size_zero = Frame { gso_size: 0, ..good.clone() };
    let tiny = Frame { gso_size: 1, ..good.clone() };
    let mut cut = good.clone();
    cut.bytes.truncate(14 + 20 + 19);
    let mut long_header = good;
    long_header.bytes[14 + 20 + 12] = 0xf0;
    long_header.bytes.truncate(14 + 20 + 40);
    for frame in [wrong_kind, udp, size_zero, tiny, cut, long_header] {
        let mut bench = bench(PLAIN);
        push(&mut bench, &frame, PLAIN);
        bench.run();
        assert_eq!(bench.drops(), [(DropReason::OffloadMalformed, 1)]);
    }
}

#[test]
fn a_super_packet_of_too_many_segments_dies_and_one_of_as_many_as_may_be_does_not() {
    for (family, protocol) in
        families().into_iter().flat_map(|of| [Protocol::TCP, Protocol::UDP].map(|it| (of, it)))
    {
        for (payload, dies) in [(1024, 0), (1025, 1)] {
            let mut bench = bench(PLAIN);
            push(&mut bench, &super_packet(family, protocol, &bytes(payload), 2), PLAIN);
            bench.run();
            assert_eq!(
                bench.dropped(DropReason::OffloadMalformed),
                dies,
                "{protocol:?}: {payload} bytes by two"
            );
        }
    }
}

#[test]
fn a_partial_checksum_outside_of_the_packet_kills_it() {
    for partial in [(14, 255), (60_000, 6), (14 + 20, 200)] {
        let mut bench = bench(PLAIN);
        let packet = build::udp(families()[0].0, families()[0].1, (1, 2), b"short");
        let frame = Frame { bytes: framed(&packet), partial: Some(partial), ..Frame::default() };
        push(&mut bench, &frame, PLAIN);
        assert_eq!(bench.drops(), [(DropReason::OffloadMalformed, 1)]);
    }
}

#[test]
fn the_length_of_the_longest_segment_counts_from_the_network_header() {
    let mut bench = Bench::new(1);
    for family in families() {
        let mut frame = super_packet(family, Protocol::TCP, &bytes(5000), 1000);
        frame.bytes.drain(..14);
        let pkt = crate::testkit::load(&mut bench.cpu().pool, &frame).unwrap();
        assert_eq!(segment_len(&pkt), l3_len(family.0) + 32 + 1000);
        bench.cpu().pool.give(pkt);
    }
}
