use core::net::IpAddr;

use pkt::DATA_LEN;
use proptest::prelude::*;
use wire::{Protocol, ip4};

use super::*;
use crate::testkit::{Bench, Frame, addr4, addr6, build};

/// A datagram that may be fragmented, perhaps a fragment itself, with options.
fn datagram(payload: &[u8], options: &[u8], (offset, more): (u16, bool)) -> Vec<u8> {
    let header = ip4::Header {
        id: 0x1234,
        dont_fragment: false,
        fragment_offset: offset,
        more_fragments: more,
        options: ip4::Options::from_bytes(options).unwrap(),
        ..ip4::Header::new(addr4(1, 9), addr4(2, 9), Protocol::UDP, u16::try_from(payload.len()).unwrap())
    };
    let mut packet = vec![0; 60];
    let len = header.emit(&mut packet).unwrap();
    packet.truncate(len);
    packet.extend_from_slice(payload);
    packet
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from((i * 7 + i / 256) % 256).unwrap()).collect()
}

/// The pieces that leave by interface 2, whose MTU is `mtu`. The neighbour is known before they come: fewer wait for
/// one than a datagram may be cut into.
fn forwarded(packet: &[u8], mtu: u32) -> Vec<Vec<u8>> {
    let mut bench = Bench::with(2, 1, |config| config.ifs[1].mtu = mtu);
    bench.inject(1, build::frame(1, &build::udp(addr4(1, 9).into(), addr4(2, 9).into(), (1, 2), b"first")));
    bench.run();
    bench.forget_sent();
    bench.inject(1, Frame::from(build::frame(1, packet)));
    bench.run();
    assert_eq!(bench.counted(Count::Ip4Forwarded), 2);
    bench.sent(2).into_iter().map(|frame| frame[14..].to_vec()).collect()
}

/// Joins fragments as a naive receiver does: payload by offset, and the more-fragments flag.
fn joined(pieces: &[Vec<u8>], start: u16) -> (Vec<u8>, bool) {
    let mut whole = Vec::new();
    let mut more = true;
    for piece in pieces {
        let view = View::new(piece).unwrap();
        assert!(view.verify_checksum());
        assert_eq!((view.id(), view.ttl()), (0x1234, 63));
        assert_eq!(usize::from(view.fragment_offset() - start), whole.len());
        assert!(more, "a piece behind the last");
        assert!(
            piece.len() % 8 == view.header_len() % 8
                || !view.more_fragments()
                || pieces.last() == Some(piece)
        );
        whole.extend_from_slice(view.payload());
        more = view.more_fragments();
    }
    (whole, more)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pieces_joined_are_the_datagram(len in 1500usize..9000, mtu in 68u32..1480, part in any::<(u16, bool)>()) {
        let part = (part.0 % 1000 * 8, part.1);
        let payload = bytes(if part.1 { len & !7 } else { len });
        let pieces = forwarded(&datagram(&payload, &[], part), mtu);
        prop_assert!(pieces.iter().all(|piece| piece.len() <= mtu as usize));
        let (whole, more) = joined(&pieces, part.0);
        prop_assert!(whole == payload, "{len} bytes over an MTU of {mtu} changed");
        prop_assert_eq!(more, part.1);
    }
}

#[test]
fn only_options_that_say_so_are_copied_into_later_pieces() {
    let record_route = [7, 7, 4, 0, 0, 0, 0];
    let router_alert = [148, 4, 0, 0];
    let options = [&record_route[..], &router_alert, &[1]].concat();
    let pieces = forwarded(&datagram(&bytes(1000), &options, (0, false)), 576);
    assert_eq!(pieces.len(), 2);
    let options = |piece: &[u8]| View::new(piece).unwrap().option_bytes().to_vec();
    assert_eq!(options(&pieces[0]), [&record_route[..], &router_alert, &[1]].concat());
    assert_eq!(options(&pieces[1]), router_alert);
    assert_eq!(joined(&pieces, 0).0, bytes(1000));
}

#[test]
fn a_partial_checksum_is_completed_before_it_is_cut() {
    let whole = build::udp(addr4(1, 9).into(), addr4(2, 9).into(), (1, 2), &bytes(1000));
    let mut partial = whole.clone();
    partial[6] = 0;
    build::fix_ip4_checksum(&mut partial);
    let pseudo = wire::checksum::partial_v4(addr4(1, 9), addr4(2, 9), Protocol::UDP, 1008);
    partial[26..28].copy_from_slice(&pseudo.to_be_bytes());
    let mut bench = Bench::with(2, 1, |config| config.ifs[1].mtu = 576);
    bench.inject(1, Frame { partial: Some((34, 6)), ..build::frame(1, &partial).into() });
    bench.run();
    let sent = bench.sent(2);
    let payload: Vec<_> = sent.iter().flat_map(|frame| frame[34..].to_vec()).collect();
    assert!(payload == whole[20..], "the checksum is that of the whole");
}

#[test]
fn without_buffers_no_piece_is_sent() {
    let mut bench = Bench::with(2, 1, |config| config.ifs[1].mtu = 68);
    let mut hoard = Vec::new();
    while bench.cpu().pool.free() > 10 {
        hoard.push(bench.cpu().pool.take().unwrap());
    }
    bench.inject(1, build::frame(1, &datagram(&bytes(1400), &[], (0, false))));
    bench.run();
    assert_eq!(bench.drops(), [(DropReason::NoBuffer, 1)]);
    assert!(bench.sent(2).is_empty());
    hoard.into_iter().for_each(|pkt| bench.cpu().pool.give(pkt));
}

/// Sends a UDP datagram of ours, and answers what leaves by interface 2.
fn sent_from_here(dst: IpAddr, payload: &[u8], change: impl FnOnce(&mut [u8])) -> (Bench, Vec<Vec<u8>>) {
    let src: IpAddr = if dst.is_ipv4() { addr4(2, 1).into() } else { addr6(2, 1).into() };
    let mut packet = build::udp(src, dst, (1, 2), payload);
    change(&mut packet);
    let mut bench = Bench::new(2);
    let pkt = crate::testkit::load(&mut bench.cpu().pool, &packet.into()).unwrap();
    let output = if dst.is_ipv4() { output } else { crate::ip::ip6::output::output };
    output(bench.cpu(), pkt);
    bench.run();
    let sent = bench.sent(2).into_iter().map(|frame| frame[14..].to_vec()).collect();
    (bench, sent)
}

#[test]
fn what_is_made_here_gets_its_header_finished() {
    let (_, sent) = sent_from_here(addr4(2, 9).into(), b"ours", |ip| ip[10..12].fill(0xee));
    let view = View::new(&sent[0]).unwrap();
    assert!(view.verify_checksum());
    assert_eq!((view.id(), view.ttl()), (0, 64));
    let (_, sent) = sent_from_here(addr4(2, 9).into(), b"ours", |ip| ip[6] = 0);
    assert_ne!(View::new(&sent[0]).unwrap().id(), 0);
}

#[test]
fn what_is_made_here_and_too_big_is_cut_by_either_family() {
    let payload = bytes(4000);
    assert!(payload.len() > DATA_LEN);
    let (_, sent) = sent_from_here(addr4(2, 9).into(), &payload, |ip| ip[6] = 0);
    let whole: Vec<_> = sent.iter().flat_map(|packet| packet[20..].to_vec()).collect();
    assert!(sent.len() == 3 && whole[8..] == payload, "IPv4");
    let (_, sent) = sent_from_here(addr6(2, 9).into(), &payload, |_| ());
    let whole: Vec<_> = sent.iter().flat_map(|packet| packet[48..].to_vec()).collect();
    assert!(sent.len() == 3 && whole[8..] == payload, "IPv6");
    let mut offset = 0;
    for (i, packet) in sent.iter().enumerate() {
        let view = wire::ip6::View::new(packet).unwrap();
        let chain = wire::ip6_ext::walk(&view, wire::ip6_ext::Role::Host).unwrap();
        let fragment = chain.fragment.unwrap().header;
        assert_eq!((usize::from(fragment.offset), fragment.more), (offset, i < 2));
        assert_eq!(fragment.next_header, Protocol::UDP);
        assert_eq!(fragment.id.to_be_bytes(), sent[0][44..48]);
        offset += packet.len() - 48;
    }
}

#[test]
fn what_must_not_be_cut_is_not() {
    let (bench, sent) = sent_from_here(addr4(2, 9).into(), &bytes(1473), |_| ());
    assert!(sent.is_empty());
    assert_eq!(bench.drops(), [(DropReason::TooBig, 1)]);
}
