use core::net::IpAddr;

use pkt::Pool;
use wire::Protocol;

use super::*;
use crate::link::driver::{Caps, DriverStats};
use crate::testkit::{Bench, addr4, addr6, build};

const ID: CaptureId = CaptureId(7);
const ALL: Places = Places { rx: true, tx: true, drops: true };
const PASSING: Places = Places { drops: false, ..ALL };
const DROPS: Places = Places { rx: false, tx: false, drops: true };

/// What a capture has of a packet.
type Copy = (IfIndex, Place, Vec<u8>);

fn selection(places: Places) -> Selection {
    Selection { interfaces: None, places, snap_len: 1 << 18, filter: None, sampling: None }
}

fn begin(bench: &mut Bench, selection: Selection) {
    let selection = Arc::new(selection);
    for netisr in &mut bench.netisrs {
        attach(&mut netisr.cpu, ID, Arc::clone(&selection), Buffer::new(0)).unwrap();
    }
}

fn copies(bench: &mut Bench) -> (Vec<Copy>, Counts) {
    let (buffer, counts) = swap(bench.cpu(), ID, Buffer::new(0)).unwrap();
    let copy = |(record, bytes): (&Record, &[u8])| (record.ifindex, record.place, bytes.to_vec());
    (buffer.packets().map(copy).collect(), counts)
}

/// The families: a host on the link of interface 1, one on that of interface 2.
fn hosts() -> [[IpAddr; 2]; 2] {
    [[addr4(1, 2).into(), addr4(2, 2).into()], [addr6(1, 2).into(), addr6(2, 2).into()]]
}

fn udp([src, dst]: [IpAddr; 2], len: usize) -> Vec<u8> {
    build::frame_from(1, src, &build::udp(src, dst, (1, 2), &vec![7; len]))
}

#[test]
fn a_forwarded_packet_is_captured_as_it_came_and_as_it_left() {
    for hosts in hosts() {
        let mut bench = Bench::new(2);
        bench.inject(1, udp(hosts, 1));
        bench.run();
        bench.forget_sent();
        begin(&mut bench, selection(PASSING));
        let frame = udp(hosts, 100);
        bench.inject(1, frame.clone());
        bench.run();
        let sent = bench.sent(2).remove(0);
        assert_ne!(frame, sent);
        let expected = vec![(1, Place::In, frame), (2, Place::Out, sent)];
        assert_eq!(copies(&mut bench), (expected, Counts { matched: 2, lost: 0 }));
    }
}

#[test]
fn on_several_cpus_each_packet_is_captured_once_where_it_comes_and_once_where_it_goes() {
    for [src, dst] in hosts() {
        let mut bench = Bench::with(2, 3, |_| ());
        bench.inject(1, udp([src, dst], 1));
        bench.run();
        bench.forget_sent();
        begin(&mut bench, selection(PASSING));
        let flow = |port| build::frame_from(1, src, &build::udp(src, dst, (port, 9), &[0; 30]));
        let mut came: Vec<Vec<u8>> = (1..100).map(flow).collect();
        came.iter().for_each(|frame| bench.inject(1, frame.clone()));
        bench.run();
        let (mut seen, mut cpus) = ([Vec::new(), Vec::new()], 0);
        for netisr in &mut bench.netisrs {
            let (buffer, counts) = swap(&mut netisr.cpu, ID, Buffer::new(0)).unwrap();
            cpus += usize::from(counts.matched > 0);
            for (record, bytes) in buffer.packets().filter(|(_, bytes)| bytes.ends_with(&[0; 30])) {
                seen[usize::from(record.ifindex) - 1].push(bytes.to_vec());
            }
        }
        let mut left = bench.sent(2);
        left.retain(|frame| frame.ends_with(&[0; 30]));
        [&mut came, &mut left].into_iter().chain(&mut seen).for_each(|frames| frames.sort());
        assert_eq!((seen, cpus), ([came, left], 3), "{src}");
    }
}

#[test]
fn a_drop_is_captured_with_its_reason_and_the_header_of_its_frame() {
    for hosts in hosts() {
        let is_v4 = hosts[0].is_ipv4();
        let mut bench = Bench::new(2);
        begin(&mut bench, selection(DROPS));
        let good = udp(hosts, 20);
        let changed = |at: usize, to: &[u8]| {
            let mut frame = good.clone();
            frame[at..at + to.len()].copy_from_slice(to);
            frame
        };
        let version = if is_v4 { DropReason::Ip4BadVersion } else { DropReason::Ip6BadVersion };
        let short = if is_v4 { DropReason::Ip4Short } else { DropReason::Ip6Short };
        let cases = [
            (changed(0, &[6, 1, 1, 1, 1, 1]), DropReason::EtherNotForUs),
            (changed(0, &[0x46, 0, 0, 48, 1, 1]), DropReason::EtherNotForUs),
            (changed(6, &[1]), DropReason::EtherMulticastSource),
            (changed(12, &[0x88, 0xb5]), DropReason::EtherUnknownType),
            (changed(14, &[0x50]), version),
            (good[..24].to_vec(), short),
        ];
        for (frame, reason) in cases {
            bench.inject(1, frame.clone());
            bench.run();
            assert_eq!(copies(&mut bench).0, [(1, Place::Drop(reason), frame)], "{reason:?}");
        }
    }
}

#[test]
fn a_drop_on_the_way_out_is_captured_with_a_link_header() {
    for [src, dst] in hosts() {
        let mut bench = Bench::with(2, 1, |config| config.ifs[1].up = false);
        begin(&mut bench, Selection { interfaces: Some(vec![1]), ..selection(DROPS) });
        let frame = udp([src, dst], 20);
        bench.inject(1, frame.clone());
        bench.run();
        let (copies, _) = copies(&mut bench);
        let [(1, Place::Drop(reason), bytes)] = &copies[..] else { panic!("{copies:?}") };
        assert_eq!((bench.dropped(*reason), &bytes[12..]), (1, &frame[12..]));
    }
}

#[test]
fn a_slow_reader_loses_copies_alone_and_the_count_says_how_many() {
    for hosts in hosts() {
        let mut bench = Bench::new(2);
        begin(&mut bench, Selection { interfaces: Some(vec![1]), ..selection(PASSING) });
        let frame = udp(hosts, 1000);
        let fits = BUFFER_MIN / frame.len();
        for _ in 0..fits + 9 {
            bench.inject(1, frame.clone());
            bench.run();
        }
        assert_eq!(bench.sent(2).len(), fits + 9, "all are forwarded");
        let (kept, counts) = copies(&mut bench);
        assert!(kept.iter().all(|(_, _, bytes)| *bytes == frame));
        let matched = counts.matched;
        assert_eq!((kept.len(), counts), (fits, Counts { matched, lost: matched - fits as u64 }));
        bench.inject(1, frame.clone());
        bench.run();
        assert_eq!(copies(&mut bench).0, [(1, Place::In, frame)], "an empty buffer takes more");
    }
}

#[test]
fn a_filter_and_a_snap_length_select_what_is_copied() {
    let insn = |code, jt, jf, k| Insn { code, jt, jf, k };
    // `icmp or icmp6`, and 60 bytes of it.
    let icmp = [
        insn(0x28, 0, 0, 12),
        insn(0x15, 0, 2, 0x800),
        insn(0x30, 0, 0, 23),
        insn(0x15, 3, 4, 1),
        insn(0x15, 0, 3, 0x86dd),
        insn(0x30, 0, 0, 20),
        insn(0x15, 0, 1, 58),
        insn(6, 0, 0, 60),
        insn(6, 0, 0, 0),
    ];
    for [src, dst] in hosts() {
        let mut bench = Bench::new(2);
        let filter = Program::new(Box::from(icmp)).ok();
        begin(
            &mut bench,
            Selection { interfaces: Some(vec![1]), filter, ..selection(Places { tx: false, ..ALL }) },
        );
        let protocol = if src.is_ipv4() { Protocol::ICMP } else { Protocol::ICMP6 };
        let echo = build::frame_from(1, src, &build::echo_request(src, dst, 1, 1, &[0; 90]));
        assert_eq!(echo[if src.is_ipv4() { 23 } else { 20 }], protocol.0);
        bench.inject(1, udp([src, dst], 20));
        bench.inject(1, echo.clone());
        bench.run();
        let ours =
            |(_, place, bytes): &Copy| *place == Place::In && bytes[..60] == echo[..60] && bytes.len() == 60;
        let (kept, _) = copies(&mut bench);
        assert_eq!(kept.iter().filter(|copy| ours(copy)).count(), 1);
        assert!(kept.iter().all(|(_, _, bytes)| bytes.len() <= 60 && bytes[20] != 17 && bytes[23] != 17));
    }
}

#[test]
fn a_packet_in_several_buffers_is_captured_whole() {
    for hosts in hosts() {
        let mut bench = Bench::new(2);
        begin(&mut bench, selection(Places { tx: false, ..PASSING }));
        let frame = udp(hosts, 5000);
        bench.inject(1, frame.clone());
        bench.run();
        assert_eq!(copies(&mut bench).0[0], (1, Place::In, frame));
    }
}

#[test]
fn captures_beyond_their_bound_are_refused_and_without_one_nothing_is_kept() {
    let mut bench = Bench::new(1);
    let selection = Arc::new(selection(ALL));
    let mut more = |n| attach(bench.cpu(), CaptureId(n), Arc::clone(&selection), Buffer::new(0));
    let max = u32::try_from(CAPTURES_MAX).unwrap();
    assert!((0..max).all(|n| more(n).is_ok()));
    assert_eq!(more(max), Err(TooMany));
    assert!((0..max).all(|n| detach(bench.cpu(), CaptureId(n)).is_some()));
    assert!(bench.cpu().captures.is_none());
    assert!(swap(bench.cpu(), CaptureId(0), Buffer::new(0)).is_none());
}

/// Takes so many frames and no more.
struct Narrow(usize);

impl Driver for Narrow {
    fn rx(&mut self, _: &mut Pool, _: &mut PktVec, _: usize) -> usize {
        0
    }

    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        from.drain_front(self.0).for_each(|pkt| pool.give(pkt));
    }

    fn doorbell(&mut self, _: &mut Pool) {}

    fn caps(&self) -> Caps {
        Caps::default()
    }

    fn stats(&self) -> DriverStats {
        DriverStats::default()
    }

    fn close(&mut self, _: &mut Pool) {}
}

#[test]
fn what_a_device_does_not_take_is_captured_when_it_does() {
    let mut bench = Bench::new(1);
    begin(&mut bench, selection(PASSING));
    let cpu = bench.cpu();
    let mut pkts = PktVec::new();
    for n in 0..5 {
        let mut pkt = cpu.pool.take().unwrap();
        pkt.append(60).unwrap().fill(n);
        pkts.push(pkt).unwrap();
    }
    let Cpu { captures, pool, now, tables, .. } = cpu;
    let captures = captures.as_mut().unwrap();
    captures.transmit((tables, *now, 1), &mut pkts, &mut Narrow(2), pool);
    captures.transmit((tables, *now, 1), &mut pkts, &mut Narrow(9), pool);
    let (kept, counts) = copies(&mut bench);
    let firsts: Vec<u8> = kept.iter().map(|(_, _, bytes)| bytes[0]).collect();
    assert_eq!((firsts, counts.matched), (vec![0, 1, 2, 3, 4], 5));
}

#[test]
fn frames_and_drops_of_a_vlan_are_captured_without_its_tag_beside_those_of_its_device() {
    use crate::link::logical::{Kind, Vlan};
    for [src, dst] in hosts() {
        let mut bench = Bench::with(2, 1, |config| {
            let kind = Kind::Vlan(Vlan { parent: 1, tpid: EtherType::VLAN, vid: 10, pcp: 0 });
            config.ifs.push(crate::link::tables::Ifnet { kind, ..crate::testkit::ifnet(3) });
        });
        begin(&mut bench, Selection { interfaces: Some(vec![1, 3]), ..selection(ALL) });
        let plain = udp([src, dst], 20);
        let tagged = |vid: u8, frame: &[u8]| [&frame[..12], &[0x81, 0, 0, vid], &frame[12..]].concat();
        // The header is broken behind the tag.
        let mut broken = plain.clone();
        broken[14] = 0x50;
        bench.inject(1, tagged(10, &broken));
        bench.inject(1, tagged(11, &plain));
        bench.run();
        let (copies, _) = copies(&mut bench);
        let version = if src.is_ipv4() { DropReason::Ip4BadVersion } else { DropReason::Ip6BadVersion };
        let expected = [
            (1, Place::In, tagged(10, &broken)),
            (3, Place::In, broken.clone()),
            (1, Place::In, tagged(11, &plain)),
            (1, Place::Drop(version), tagged(10, &broken)),
            (1, Place::Drop(DropReason::VlanUnknown), tagged(11, &plain)),
        ];
        for copy in &expected {
            assert!(copies.contains(copy), "{copy:?} is not among {copies:?}");
        }
        assert_eq!(copies.len(), expected.len());
        begin_again(&mut bench, Selection { interfaces: Some(vec![3]), ..selection(DROPS) });
        bench.inject(1, tagged(10, &broken));
        bench.run();
        assert_eq!(self::copies(&mut bench).0, [(3, Place::Drop(version), broken)], "of the VLAN alone");
    }
}

fn begin_again(bench: &mut Bench, selection: Selection) {
    detach(bench.cpu(), ID);
    begin(bench, selection);
}

#[test]
fn a_sample_has_about_one_received_packet_of_so_many_and_all_are_forwarded() {
    for hosts in hosts() {
        let mut bench = Bench::new(2);
        bench.inject(1, udp(hosts, 1));
        bench.run();
        bench.forget_sent();
        let sampling = NonZeroU32::new(10);
        begin(&mut bench, Selection { snap_len: 64, sampling, ..selection(Places { tx: false, ..PASSING }) });
        let frame = udp(hosts, 100);
        for _ in 0..40 {
            (0..50).for_each(|_| bench.inject(1, frame.clone()));
            bench.run();
        }
        assert_eq!(bench.sent(2).len(), 2000);
        let (kept, counts) = copies(&mut bench);
        assert!((150..250).contains(&kept.len()), "{}", kept.len());
        assert!(kept.iter().all(|copy| *copy == (1, Place::In, frame[..64].to_vec())));
        assert_eq!(counts, Counts { matched: kept.len() as u64, lost: 0 });
    }
}
