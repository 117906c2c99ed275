use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use proptest::prelude::*;
use wire::{Protocol, icmp4, icmp6, ip4, ip6};

use super::table::{DATAGRAMS_MAX, PER_SOURCE_MAX};
use super::*;
use crate::base::secret::Secret;
use crate::testkit::build::{echo_request, fix_ip4_checksum, frame, ip, udp};
use crate::testkit::{Bench, addr4, addr6};

/// Both families: the tests are one body.
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn host(self, host: u8) -> IpAddr {
        match self {
            Self::V4 => addr4(1, host).into(),
            Self::V6 => addr6(1, host.into()).into(),
        }
    }

    /// A host behind a router.
    fn far(self, host: u16) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::from_bits(0xc612_0000 + u32::from(host)).into(),
            Self::V6 => Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, host).into(),
        }
    }

    fn header_len(self) -> usize {
        if self == Self::V4 { 20 } else { 40 }
    }

    fn icmp(self) -> Protocol {
        if self == Self::V4 { Protocol::ICMP } else { Protocol::ICMP6 }
    }

    fn answered(self) -> Count {
        if self == Self::V4 { Count::IcmpEchoAnswered } else { Count::Icmp6EchoAnswered }
    }

    fn timeout(self) -> Duration {
        if self == Self::V4 { TIMEOUT4 } else { TIMEOUT6 }
    }
}

/// A stack whose link takes anything in one frame.
fn bench() -> Bench {
    Bench::with(1, 1, |config| {
        config.ifs[0].mtu = 65_535;
        config.ifs[0].caps.buffers_max = 64;
    })
}

/// Fragments of datagrams from `src` to host 1.
#[derive(Clone, Copy)]
struct Source {
    family: Family,
    src: IpAddr,
    protocol: Protocol,
    id: u16,
}

impl Source {
    fn new(family: Family) -> Self {
        Self { family, src: family.host(9), protocol: family.icmp(), id: 77 }
    }

    /// The fragment with `data` that belongs to `offset`.
    fn piece(&self, data: &[u8], offset: usize, more: bool) -> Vec<u8> {
        let offset = u16::try_from(offset).unwrap();
        match self.family {
            Family::V4 => {
                let mut packet = ip(self.src, self.family.host(1), self.protocol, 64, data);
                packet[4..6].copy_from_slice(&self.id.to_be_bytes());
                let word = (offset / 8) | if more { 0x2000 } else { 0 };
                packet[6..8].copy_from_slice(&word.to_be_bytes());
                fix_ip4_checksum(&mut packet);
                packet
            }
            Family::V6 => {
                let header = Fragment { next_header: self.protocol, offset, more, id: self.id.into() };
                let body = [&header.to_bytes()[..], data].concat();
                ip(self.src, self.family.host(1), Protocol::FRAGMENT, 64, &body)
            }
        }
    }

    /// `datagram` (the upper layer of a packet) cut before each of `cuts`.
    fn cut(&self, datagram: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
        let starts = core::iter::once(0).chain(cuts.iter().copied());
        let ends = cuts.iter().copied().chain([datagram.len()]);
        starts
            .zip(ends)
            .map(|(start, end)| self.piece(&datagram[start..end], start, end < datagram.len()))
            .collect()
    }
}

/// The upper layer of an echo request.
fn echo(family: Family, payload: &[u8]) -> Vec<u8> {
    echo_request(family.host(9), family.host(1), 1, 1, payload).split_off(family.header_len())
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 256).to_le_bytes()[0]).collect()
}

fn inject(bench: &mut Bench, packets: impl IntoIterator<Item = Vec<u8>>) {
    for packet in packets {
        bench.inject(1, frame(1, &packet));
        bench.run();
    }
}

/// The payload of the one echo reply that was sent.
fn reply(bench: &mut Bench) -> Vec<u8> {
    let sent = bench.sent(1);
    assert_eq!(sent.len(), 1, "{:?}", bench.drops());
    let packet = &sent[0][14..];
    if packet[0] >> 4 == 4 {
        let view = ip4::View::new(packet).unwrap();
        icmp4::Message::parse(view.payload()).unwrap().1.to_vec()
    } else {
        let view = ip6::View::new(packet).unwrap();
        icmp6::Message::parse(view.src(), view.dst(), view.payload()).unwrap().1.to_vec()
    }
}

/// All orders of `n` things.
fn orders(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![vec![]];
    }
    let shorter = orders(n - 1);
    shorter
        .iter()
        .flat_map(|order| {
            (0..n).map(|at| {
                let mut order = order.clone();
                order.insert(at, n - 1);
                order
            })
        })
        .collect()
}

#[test]
fn fragments_in_any_order_make_the_datagram() {
    for family in FAMILIES {
        let payload = bytes(100);
        let mut bench = bench();
        for (id, order) in (0..).zip(orders(4)) {
            let source = Source { id, ..Source::new(family) };
            let pieces = source.cut(&echo(family, &payload), &[16, 48, 56]);
            inject(&mut bench, order.into_iter().map(|at| pieces[at].clone()));
            assert_eq!(reply(&mut bench), payload);
            assert_eq!(bench.buffers_out(), 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_is_cut_and_shuffled_comes_whole(
        len in 0usize..20_000,
        cuts in prop::collection::btree_set(2usize..2500, 0..60),
        seed in any::<u64>(),
        is_ip4 in any::<bool>(),
    ) {
        let family = if is_ip4 { Family::V4 } else { Family::V6 };
        let payload = bytes(len);
        let datagram = echo(family, &payload);
        let cuts: Vec<_> = cuts.into_iter().map(|cut| cut * 8).filter(|cut| *cut < datagram.len()).collect();
        let mut pieces = Source::new(family).cut(&datagram, &cuts);
        let mut order = Secret::new(seed.into());
        pieces.sort_by_cached_key(|_| order.draw());
        let mut bench = bench();
        inject(&mut bench, pieces);
        prop_assert_eq!(reply(&mut bench), payload);
        prop_assert_eq!(bench.buffers_out(), 0);
    }
}

#[test]
fn the_longest_datagram_comes_whole_and_a_longer_one_does_not() {
    for family in FAMILIES {
        let longest = if family == Family::V4 { 65_535 - 20 } else { 65_535 };
        let cuts: Vec<_> = (1..).map(|i| i * 1232).take_while(|cut| *cut < longest).collect();
        let datagram = echo(family, &bytes(longest - 8));
        let pieces = Source::new(family).cut(&datagram, &cuts);
        // No frame takes it back; its checksum was right, or it were not answered.
        let mut bench = bench();
        inject(&mut bench, pieces.iter().rev().cloned());
        assert_eq!(bench.counted(family.answered()), 1, "{:?}", bench.drops());
        bench.forget_sent();
        // The ping of death: the last fragment ends one byte later.
        let source = Source { id: 78, ..Source::new(family) };
        let start = longest & !7;
        let before = bench.buffers_out();
        inject(&mut bench, [source.piece(&vec![0; longest + 1 - start], start, false)]);
        assert_eq!(bench.buffers_out(), before, "nothing is kept");
        assert_eq!(bench.counted(family.answered()), 1);
    }
}

#[test]
fn an_overlap_discards_the_datagram_and_what_comes_of_it_later() {
    let payload = bytes(200);
    for family in FAMILIES {
        let datagram = echo(family, &payload);
        let source = Source::new(family);
        let piece = |range: core::ops::Range<usize>| {
            source.piece(&datagram[range.clone()], range.start, range.end < datagram.len())
        };
        let end = datagram.len();
        // Of what is there, [64, 128): the front, the back, the middle, all and more.
        for evil in [56..72, 120..136, 80..96, 64..120, 72..128, 56..136, 64..136, 8..end] {
            let mut bench = bench();
            inject(&mut bench, [piece(64..128), piece(evil.clone())]);
            assert_eq!(bench.dropped(DropReason::ReassOverlap), 2, "{family:?} {evil:?}");
            assert_eq!(bench.buffers_out(), 0);
            inject(&mut bench, [piece(0..64), piece(64..128), piece(128..end)]);
            assert_eq!(bench.dropped(DropReason::ReassOverlap), 5);
            assert!(bench.sent(1).is_empty(), "nothing is answered");
            // When it is forgotten, the identification may be used again.
            bench.advance(family.timeout());
            inject(&mut bench, [piece(0..64), piece(64..128), piece(128..end)]);
            assert_eq!(reply(&mut bench), payload);
        }
    }
}

#[test]
fn an_exact_duplicate_is_ignored_and_a_changed_one_is_an_overlap() {
    for family in FAMILIES {
        let datagram = echo(family, &bytes(100));
        let pieces = Source::new(family).cut(&datagram, &[64]);
        let mut bench = bench();
        inject(&mut bench, [pieces[0].clone(), pieces[0].clone(), pieces[1].clone()]);
        assert_eq!(reply(&mut bench), bytes(100));
        assert_eq!(bench.dropped(DropReason::ReassDuplicate), 1);

        let source = Source { id: 1, ..Source::new(family) };
        let mut evil = datagram.clone();
        evil[32] ^= 1;
        inject(&mut bench, [source.piece(&datagram[..64], 0, true), source.piece(&evil[..64], 0, true)]);
        assert_eq!(bench.dropped(DropReason::ReassOverlap), 2);
    }
}

#[test]
fn fragments_that_disagree_about_the_end_discard_the_datagram() {
    let data = bytes(256);
    for family in FAMILIES {
        let source = Source::new(family);
        let last = |range: core::ops::Range<usize>| source.piece(&data[range.clone()], range.start, false);
        let more = |range: core::ops::Range<usize>| source.piece(&data[range.clone()], range.start, true);
        for (first, second) in [
            (last(64..96), more(96..128)),
            (last(64..96), last(128..160)),
            (last(64..96), last(32..64)),
            (more(128..160), last(64..96)),
        ] {
            let mut bench = bench();
            inject(&mut bench, [first, second]);
            assert_eq!(bench.dropped(DropReason::ReassMalformed), 2, "{family:?}");
        }
    }
}

#[test]
fn fragments_of_impossible_lengths_are_refused() {
    for family in FAMILIES {
        let source = Source { protocol: Protocol::UDP, ..Source::new(family) };
        let mut bench = bench();
        inject(&mut bench, [source.piece(&[0; 17], 64, true), source.piece(&[], 64, false)]);
        assert_eq!(bench.buffers_out(), 0);
        assert_eq!(bench.counted(family.answered()), 0);
        let said: Vec<_> = bench.sent(1);
        // Only IPv6 has a word for it: the payload length is wrong.
        assert_eq!(said.len(), usize::from(family == Family::V6));
    }
}

#[test]
fn fragments_of_other_datagrams_are_not_mixed_up() {
    for family in FAMILIES {
        let payloads = [bytes(100), bytes(101)];
        let datagrams = payloads.each_ref().map(|payload| echo(family, payload));
        let cut = |id: u16, datagram: &[u8]| Source { id, ..Source::new(family) }.cut(datagram, &[64]);
        let (a, b) = (cut(1, &datagrams[0]), cut(2, &datagrams[1]));
        let mut bench = bench();
        inject(&mut bench, [a[0].clone(), b[1].clone(), b[0].clone()]);
        assert_eq!(reply(&mut bench), payloads[1]);
        inject(&mut bench, [a[1].clone()]);
        assert_eq!(reply(&mut bench), payloads[0]);
    }
}

#[test]
fn an_atomic_fragment_leaves_the_queue_of_its_identification_alone() {
    let family = Family::V6;
    let payload = bytes(100);
    let datagram = echo(family, &payload);
    let source = Source::new(family);
    let pieces = source.cut(&datagram, &[64]);
    let mut bench = bench();
    inject(&mut bench, [pieces[0].clone(), source.piece(&echo(family, b"atomic"), 0, false)]);
    assert_eq!(reply(&mut bench), b"atomic");
    inject(&mut bench, [pieces[1].clone()]);
    assert_eq!(reply(&mut bench), payload);
}

#[test]
fn a_first_fragment_without_its_headers_is_told_so() {
    let source = Source { protocol: Protocol::TCP, ..Source::new(Family::V6) };
    let mut bench = bench();
    inject(&mut bench, [source.piece(&[0; 16], 0, true)]);
    let sent = bench.sent(1);
    assert_eq!(sent[0][14 + 40..][..2], [4, 3], "parameter problem, incomplete chain");
    assert_eq!(bench.dropped(DropReason::ReassFirstTooShort), 1);
    assert_eq!(bench.buffers_out(), 0);
}

#[test]
fn headers_in_front_of_the_fragment_header_stay() {
    let family = Family::V6;
    let payload = bytes(60);
    let datagram = echo(family, &payload);
    let mut bench = bench();
    for (start, end) in [(0, 32), (32, datagram.len())] {
        let more = end < datagram.len();
        let fragment =
            Fragment { next_header: Protocol::ICMP6, offset: u16::try_from(start).unwrap(), more, id: 5 };
        // Destination options with padding, then the fragment header.
        let body = [&[44, 0, 1, 4, 0, 0, 0, 0][..], &fragment.to_bytes(), &datagram[start..end]].concat();
        inject(&mut bench, [ip(family.host(9), family.host(1), Protocol::DESTINATION_OPTIONS, 64, &body)]);
    }
    assert_eq!(reply(&mut bench), payload);
}

#[test]
fn a_datagram_that_stays_unfinished_is_given_up_and_its_sender_told() {
    for family in FAMILIES {
        let pieces = Source::new(family).cut(&echo(family, &bytes(100)), &[64]);
        for (piece, told) in [(0, 1), (1, 0)] {
            let mut bench = bench();
            inject(&mut bench, [pieces[piece].clone()]);
            bench.advance(family.timeout() - Duration::from_millis(1));
            assert_eq!((bench.sent(1).len(), bench.buffers_out()), (0, 1));
            bench.advance(Duration::from_millis(1));
            let sent = bench.sent(1);
            assert_eq!((sent.len(), bench.buffers_out()), (told, 0));
            let (kind, code) = if family == Family::V4 { (11, 1) } else { (3, 1) };
            assert!(sent.iter().all(|frame| frame[14 + family.header_len()..][..2] == [kind, code]));
            assert_eq!(bench.dropped(DropReason::ReassTimeout), 1);
        }
    }
}

#[test]
fn each_datagram_has_its_own_time() {
    for (first, second) in [(Family::V6, Family::V4), (Family::V4, Family::V4), (Family::V4, Family::V6)] {
        let mut bench = bench();
        let late = |family| Source::new(family).cut(&echo(family, &bytes(100)), &[64]).remove(1);
        inject(&mut bench, [late(first)]);
        bench.advance(Duration::from_secs(5));
        inject(&mut bench, [Source { id: 9, ..Source::new(second) }.piece(&[1; 8], 64, false)]);
        bench.advance(second.timeout() - Duration::from_millis(1));
        let before = bench.buffers_out();
        bench.advance(Duration::from_millis(1));
        assert_eq!(bench.buffers_out(), before - 1, "{first:?} {second:?}");
    }
}

#[test]
fn a_datagram_of_too_many_pieces_is_discarded() {
    for family in FAMILIES {
        let source = Source::new(family);
        let mut bench = bench();
        inject(&mut bench, (1..=64).map(|at| source.piece(&[0; 8], at * 16, true)));
        assert_eq!(bench.buffers_out(), 64);
        inject(&mut bench, [source.piece(&[0; 8], 65 * 16, true)]);
        assert_eq!((bench.buffers_out(), bench.dropped(DropReason::ReassTooMany)), (0, 65));
    }
}

#[test]
fn one_source_has_few_datagrams_and_others_keep_theirs() {
    for family in FAMILIES {
        let mut bench = bench();
        let payload = bytes(100);
        let pieces = Source { id: 7, ..Source::new(family) }.cut(&echo(family, &payload), &[64]);
        inject(&mut bench, [pieces[0].clone()]);
        let flood = Source { src: family.host(66), ..Source::new(family) };
        inject(&mut bench, (0..2000).map(|id| Source { id, ..flood }.piece(&[0; 8], 64, true)));
        assert_eq!(bench.buffers_out(), 1 + PER_SOURCE_MAX);
        inject(&mut bench, [pieces[1].clone()]);
        assert_eq!(reply(&mut bench), payload);
    }
}

#[test]
fn ten_thousand_tiny_fragments_take_a_bounded_place_and_new_datagrams_still_come_whole() {
    for family in FAMILIES {
        let mut bench = bench();
        let flood = (0..10_000u16).map(|i| {
            let source = Source { src: family.far(i % 5000), id: i, ..Source::new(family) };
            source.piece(&[0; 8], 64, true)
        });
        inject(&mut bench, flood);
        assert_eq!(bench.buffers_out(), DATAGRAMS_MAX);
        assert_eq!(bench.dropped(DropReason::ReassFull), 10_000 - DATAGRAMS_MAX as u64);
        let payload = bytes(100);
        inject(&mut bench, Source::new(family).cut(&echo(family, &payload), &[64]));
        assert_eq!(reply(&mut bench), payload);
        bench.advance(family.timeout());
        assert_eq!(bench.buffers_out(), 0);
    }
}

#[test]
fn fragments_leave_most_of_the_pool_to_others() {
    for family in FAMILIES {
        let mut bench = bench();
        let total = bench.cpu().pool.total();
        // 200 sources with ten pieces each.
        let flood = (0..2000u16).map(|i| {
            let source = Source { src: family.far(i / 10), id: i / 10, ..Source::new(family) };
            source.piece(&[0; 8], usize::from(i % 10 + 1) * 16, true)
        });
        inject(&mut bench, flood);
        assert!(bench.buffers_out() <= total / 4 && bench.buffers_out() > total / 5);
    }
}

#[test]
fn congestion_on_the_way_of_a_piece_is_not_forgotten() {
    for family in FAMILIES {
        for (marks, expected) in [([2, 2], Some(2)), ([2, 3], Some(3)), ([3, 2], Some(3)), ([0, 3], None)] {
            let mut pieces = Source::new(family).cut(&echo(family, &bytes(100)), &[64]);
            for (piece, mark) in pieces.iter_mut().zip(marks) {
                match family {
                    Family::V4 => {
                        piece[1] = mark;
                        fix_ip4_checksum(piece);
                    }
                    Family::V6 => piece[1] |= mark << 4,
                }
            }
            let mut bench = bench();
            let pkts: Vec<_> = pieces.iter().map(|piece| load(&mut bench, piece)).collect();
            let whole = joined(&mut bench, pkts);
            let seen = whole.as_ref().ok().map(|pkt| match family {
                Family::V4 => pkt.window(0)[1] & 3,
                Family::V6 => pkt.window(0)[1] >> 4 & 3,
            });
            assert_eq!(seen, expected);
            let (Ok(pkt) | Err((pkt, _))) = whole;
            bench.cpu().drop_pkt(pkt, DropReason::Shutdown);
        }
    }
}

/// A packet in a buffer, as local input leaves it.
fn load(bench: &mut Bench, packet: &[u8]) -> Pkt {
    let mut pkt = bench.cpu().pool.take().unwrap();
    pkt.append(packet.len()).unwrap().copy_from_slice(packet);
    pkt.l4 = if packet[0] >> 4 == 4 { 20 } else { 48 };
    pkt
}

fn joined(bench: &mut Bench, pkts: Vec<Pkt>) -> Result<Pkt, (Pkt, DropReason)> {
    let mut pkts = VecDeque::from(pkts);
    let first = pkts.pop_front().unwrap();
    join::join(&mut bench.cpu().pool, first, pkts)
}

#[test]
fn headers_lie_in_the_first_buffer_however_small_the_pieces() {
    for family in FAMILIES {
        let datagram = echo(family, &bytes(1000));
        let cuts: Vec<_> = (1..40).map(|i| i * 8).collect();
        let pieces = Source::new(family).cut(&datagram, &cuts);
        let mut bench = bench();
        let pkts: Vec<_> = pieces.iter().map(|piece| load(&mut bench, piece)).collect();
        let Ok(whole) = joined(&mut bench, pkts) else { panic!("it is whole") };
        assert!(whole.head().len() >= 240, "{}", whole.head().len());
        let upper: Vec<u8> = whole.fragments().flatten().copied().skip(family.header_len()).collect();
        assert_eq!(upper, datagram);
        bench.cpu().drop_pkt(whole, DropReason::Shutdown);
        assert_eq!(bench.buffers_out(), 0);
    }
}

#[test]
fn a_whole_datagram_goes_to_the_cpu_of_its_flow() {
    for family in FAMILIES {
        let mut bench = Bench::with(1, 4, |_| ());
        let mut seen = [false; 4];
        for port in 1000..1032u16 {
            let whole = udp(family.host(9), family.host(1), (port, 9), &bytes(100));
            let owner = match family {
                Family::V4 => rss::hash4(whole.first_chunk().unwrap()),
                Family::V6 => rss::hash6(whole.first_chunk().unwrap()),
            };
            let owner = bench.cpu().placement.owner(owner).index();
            seen[owner] = true;
            let before = bench.netisrs[owner].cpu.counters.get(Count::UdpIn);
            let source = Source { protocol: Protocol::UDP, id: port, ..Source::new(family) };
            inject(&mut bench, source.cut(&whole[family.header_len()..], &[64]));
            assert_eq!(bench.netisrs[owner].cpu.counters.get(Count::UdpIn), before + 1);
            assert_eq!(bench.dropped(DropReason::UdpBadChecksum), 0);
        }
        assert_eq!(seen, [true; 4]);
    }
}

#[test]
fn datagrams_that_come_whole_behind_one_that_does_not_leave_nothing() {
    for family in FAMILIES {
        let mut bench = bench();
        inject(&mut bench, [Source { src: family.host(66), ..Source::new(family) }.piece(&[0; 8], 64, true)]);
        let pieces = Source::new(family).cut(&echo(family, &bytes(100)), &[64]);
        for _ in 0..2000 {
            inject(&mut bench, pieces.clone());
        }
        assert_eq!(bench.counted(family.answered()), 2000);
        assert!(bench.cpu().reass.table.remembered() <= 2 * DATAGRAMS_MAX + 1);
    }
}

#[test]
fn pieces_that_wait_for_others_when_another_configuration_comes_go_no_further() {
    for family in FAMILIES {
        let mut bench = bench();
        let pieces = Source::new(family).cut(&echo(family, &bytes(1000)), &[504]);
        let (first, second) = (pieces[..1].to_vec(), pieces[1..].to_vec());
        inject(&mut bench, first);
        assert_eq!(bench.buffers_out(), 1, "it waits");
        let tables = Arc::clone(&bench.cpu().tables);
        bench.netisrs[0].reconfigure(tables, None);
        assert_eq!((bench.dropped(DropReason::Reconfigured), bench.buffers_out()), (1, 0));
        inject(&mut bench, second);
        assert_eq!(bench.counted(family.answered()), 0, "the other half is alone");
        inject(&mut bench, pieces);
        assert_eq!(bench.counted(family.answered()), 1, "{:?}", bench.drops());
    }
}
