//! The offload program against a rewrite that is made anew: run by the kernel on made-up frames of both families.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use dev::bpf::map::XskMap;
use dev::bpf::offload::{self, Offload, PortWords, Writer};
use dev::bpf::prog::Program;
use dev::netlink::Rtnetlink;
use net::flow::offload::{
    BITS_V4, BITS_V6, Ends, FlowTable, Forwarded, OffloadedFlow, RecordId, Refused, Scope,
};
use wire::checksum::Sum;

use crate::support::{is_root, netns};

const PASS: u32 = 2;
const REDIRECT: u32 = 4;
const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];
const NEXT: [u8; 12] = [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 2];
const NUMBER: u16 = 3;
const OUT: u16 = 4;
const MTU: u16 = 600;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMP6: u8 = 58;
const ESP: u8 = 50;
const SCTP: u8 = 132;

/// A small generator, so that a failure repeats (xorshift64*).
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> usize {
        usize::try_from((self.next() >> 33) % n).unwrap()
    }

    fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[0]
    }

    fn port(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn addr(&mut self, is_ip4: bool) -> IpAddr {
        let mut bytes = [0; 16];
        bytes.fill_with(|| self.byte());
        if is_ip4 {
            Ipv4Addr::new(10, bytes[0], bytes[1], bytes[2]).into()
        } else {
            bytes[0] = 0xfd;
            Ipv6Addr::from(bytes).into()
        }
    }

    fn ends(&mut self, is_ip4: bool) -> Ends {
        Ends { src: self.addr(is_ip4), dst: self.addr(is_ip4), src_port: self.port(), dst_port: self.port() }
    }
}

/// A loaded program, its table, and the loopback interface as its egress.
struct Rig {
    program: Program,
    table: Arc<Offload>,
    writer: Writer,
    port: PortWords,
    _sockets: XskMap,
}

impl Rig {
    fn new(flows: u32) -> Self {
        let table = Arc::new(Offload::new(flows, [11, 22, 33, 44]).unwrap());
        let (sockets, port) = (XskMap::new(1).unwrap(), PortWords::new().unwrap());
        let program = offload::load(&sockets, &table, &port, false).unwrap();
        let lo = Rtnetlink::open().unwrap().link("lo").unwrap().index;
        table.add_device(NUMBER, lo, true, false).unwrap();
        table.add_device(OUT, lo, false, true).unwrap();
        port.set(NUMBER, OURS);
        let writer = Writer(Arc::clone(&table));
        Self { program, table, writer, port, _sockets: sockets }
    }

    fn offload(&mut self, flow: &OffloadedFlow) -> Result<RecordId, Refused> {
        self.writer.insert(&OffloadedFlow { generation: self.writer.generation(), ..*flow })
    }
}

fn flow(rng: &mut Rng) -> OffloadedFlow {
    let is_ip4 = rng.below(2) == 0;
    let before = rng.ends(is_ip4);
    let after = match rng.below(3) {
        0 => before,
        1 => Ends { src: rng.addr(is_ip4), src_port: rng.port(), ..before },
        _ => rng.ends(is_ip4),
    };
    OffloadedFlow {
        generation: 0,
        scope: Scope::Flow,
        rcvif: NUMBER,
        protocol: if rng.below(2) == 0 { TCP } else { UDP },
        class: rng.byte() & 0xfc,
        before,
        after,
        outif: OUT,
        link: NEXT,
        mtu: MTU,
    }
}

/// Fields of a packet that differ within its flow.
struct Shape {
    ttl: u8,
    ecn: u8,
    flags: u8,
    payload: usize,
    checksum: Checksum,
}

#[derive(Clone, Copy, PartialEq)]
enum Checksum {
    Right,
    None,
    Partial,
}

/// A frame of a flow between these ends, made from nothing.
fn frame(link: [u8; 12], ends: &Ends, protocol: u8, class: u8, shape: &Shape) -> Vec<u8> {
    let mut l4 = vec![0; if protocol == TCP { 20 } else { 8 }];
    l4[..2].copy_from_slice(&ends.src_port.to_be_bytes());
    l4[2..4].copy_from_slice(&ends.dst_port.to_be_bytes());
    l4.extend((0..shape.payload).map(|n| n.to_le_bytes()[0].wrapping_mul(31)));
    let len = u16::try_from(l4.len()).unwrap();
    let at = if protocol == TCP {
        (l4[12], l4[13]) = (0x50, shape.flags);
        16
    } else {
        l4[4..6].copy_from_slice(&len.to_be_bytes());
        6
    };
    let pseudo = |len: u16| match (ends.src, ends.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Sum::pseudo_v4(src, dst, wire::Protocol(protocol), len),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Sum::pseudo_v6(src, dst, wire::Protocol(protocol), len.into()),
        _ => unreachable!("one family"),
    };
    let checksum = match shape.checksum {
        Checksum::None if protocol == UDP => 0,
        Checksum::Partial => pseudo(len).folded(),
        _ if protocol == UDP => pseudo(len).bytes(&l4).checksum_never_zero(),
        _ => pseudo(len).bytes(&l4).checksum(),
    };
    l4[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    let class = class & 0xfc | shape.ecn;
    let mut frame = link.to_vec();
    match (ends.src, ends.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut ip = [0; 20];
            (ip[0], ip[1], ip[6], ip[8], ip[9]) = (0x45, class, 0x40, shape.ttl, protocol);
            ip[2..4].copy_from_slice(&(len + 20).to_be_bytes());
            ip[12..16].copy_from_slice(&src.octets());
            ip[16..20].copy_from_slice(&dst.octets());
            let sum = Sum::new().bytes(&ip).checksum();
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            frame.extend([8, 0].iter().chain(&ip));
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut ip = [0; 40];
            (ip[0], ip[1], ip[6], ip[7]) = (0x60 | class >> 4, class << 4 | 5, protocol, shape.ttl);
            ip[4..6].copy_from_slice(&len.to_be_bytes());
            ip[8..24].copy_from_slice(&src.octets());
            ip[24..40].copy_from_slice(&dst.octets());
            frame.extend([0x86, 0xdd].iter().chain(&ip));
        }
        _ => unreachable!("one family"),
    }
    frame.extend(l4);
    frame
}

fn incoming() -> [u8; 12] {
    let mut link = [7; 12];
    link[..6].copy_from_slice(&OURS);
    link
}

fn shape(rng: &mut Rng) -> Shape {
    Shape {
        ttl: [64, 255, 2, 3, 1, 0][rng.below(6)],
        ecn: u8::try_from(rng.below(4)).unwrap(),
        flags: [0x10, 0x18, 0x10, 0x30, 0x02, 0x11, 0x14, 0x12][rng.below(8)],
        payload: [0, 1, 2, 31, 400, 552, 572, 573, 600][rng.below(9)],
        checksum: [Checksum::Right, Checksum::Right, Checksum::Right, Checksum::None, Checksum::Partial]
            [rng.below(5)],
    }
}

/// Whether the driver forwards a packet of this shape: the conditions once more, from the other side.
fn is_forwarded(flow: &OffloadedFlow, shape: &Shape, frame: &[u8]) -> bool {
    let closes = flow.protocol == TCP && shape.flags & 7 != 0;
    shape.ttl > 1 && !closes && shape.checksum != Checksum::Partial && frame.len() - 14 <= MTU.into()
}

fn in_namespace(test: &str, body: impl FnOnce() + Send) {
    if is_root() {
        netns(test).run(body).unwrap();
    }
}

fn random_packets_leave_the_program_as_a_new_header_would_be() {
    in_namespace("offl-rw", || {
        let mut rig = Rig::new(1024);
        let (mut forwarded, mut translated, mut came_up) = (0, 0, 0);
        for seed in 1..=200 {
            let rng = &mut Rng(seed * 0x9e37_79b9);
            let flow = flow(rng);
            let record = rig.offload(&flow).unwrap();
            let mut expected = Forwarded::default();
            for n in 0..100 {
                let shape = shape(rng);
                let mut sent = frame(incoming(), &flow.before, flow.protocol, flow.class, &shape);
                let len = sent.len() - 14;
                sent.resize(sent.len().max(60), 0);
                let (result, left) = rig.program.test_rewrite(&sent).unwrap();
                let context = format!("seed {seed}, packet {n}: {flow:?}");
                if !is_forwarded(&flow, &shape, &sent[..14 + len]) {
                    assert_eq!((result, &left), (PASS, &sent), "{context}");
                    came_up += 1;
                    continue;
                }
                let after = Shape { ttl: shape.ttl - 1, ..shape };
                let mut wanted = frame(NEXT, &flow.after, flow.protocol, flow.class, &after);
                wanted.resize(wanted.len().max(60), 0);
                assert_eq!((result, &left), (REDIRECT, &wanted), "{context}");
                expected.packets += 1;
                expected.bytes += len as u64;
                forwarded += 1;
                translated += u32::from(flow.before != flow.after);
            }
            assert_eq!(rig.writer.counted(record), expected, "seed {seed}");
            rig.writer.remove(record);
        }
        assert!(
            forwarded > 2000 && translated > 1000 && came_up > 2000,
            "{forwarded} {translated} {came_up}"
        );
        assert_eq!(rig.table.records(), 0);
    });
}

/// A change of one byte of a frame, which makes it another flow's, or no packet for the driver; or nothing that it looks at.
fn a_frame_with_any_one_byte_changed_is_forwarded_only_if_its_flow_is_the_same() {
    in_namespace("offl-byte", || {
        let mut rig = Rig::new(1024);
        for seed in 1..=24 {
            let rng = &mut Rng(seed);
            let flow = flow(rng);
            let record = rig.offload(&flow).unwrap();
            let usual = Shape { ttl: 64, ecn: 0, flags: 0x10, payload: 20, checksum: Checksum::Right };
            let sent = frame(incoming(), &flow.before, flow.protocol, flow.class, &usual);
            let l4 = if flow.before.src.is_ipv4() { 34 } else { 54 };
            for at in 0..l4 + 8 {
                let mut changed = sent.clone();
                changed[at] ^= 1 << rng.below(8);
                let result = rig.program.test_rewrite(&changed).unwrap();
                let is_same = match (at, l4) {
                    (6..12, _) => true,
                    (12..14, _) => false,
                    (14..34, 34) => false,
                    (15, 54) => (changed[15] ^ sent[15]) & 0xc0 == 0,
                    (16..18, 54) => true,
                    (21, 54) => changed[21] > 1,
                    (at, l4) if at >= l4 + 4 => flow.protocol == TCP || at >= l4 + 6,
                    _ => false,
                };
                assert_eq!(result.0 == REDIRECT, is_same, "seed {seed}, byte {at} of {flow:?}");
                assert!(is_same || result.1 == changed, "what comes up is as it came");
            }
            for len in 14..sent.len() {
                if len >= l4 {
                    let (result, left) = rig.program.test_rewrite(&sent[..len]).unwrap();
                    assert_eq!((result, &left[..]), (PASS, &sent[..len]), "cut short");
                }
            }
            rig.writer.remove(record);
        }
    });
}

/// The record for all packets to destinations that have so many bits in common with this one.
fn to_destination(dst: IpAddr, bits: u8) -> OffloadedFlow {
    let src = if dst.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let ends = Ends { src, dst: beginning(dst, bits, src), src_port: 0, dst_port: 0 };
    OffloadedFlow {
        generation: 0,
        scope: Scope::Destination(bits),
        rcvif: NUMBER,
        protocol: 0,
        class: 0,
        before: ends,
        after: ends,
        outif: OUT,
        link: NEXT,
        mtu: MTU,
    }
}

/// Joins the first bits of an address with the others of another one.
fn beginning(of: IpAddr, bits: u8, rest: IpAddr) -> IpAddr {
    let join = |of: u128, rest: u128, behind: u32| {
        let mask = u128::MAX.checked_shl(behind).unwrap_or(0);
        of & mask | rest & !mask
    };
    match (of, rest) {
        (IpAddr::V4(of), IpAddr::V4(rest)) => {
            let all = join(of.to_bits().into(), rest.to_bits().into(), 32 - u32::from(bits));
            Ipv4Addr::from_bits(u32::try_from(all).unwrap()).into()
        }
        (IpAddr::V6(of), IpAddr::V6(rest)) => {
            Ipv6Addr::from_bits(join(of.to_bits(), rest.to_bits(), 128 - u32::from(bits))).into()
        }
        _ => panic!("of two families"),
    }
}

/// An address that differs from this one in one bit, number `bit` from the left.
fn flipped(addr: IpAddr, bit: u8) -> IpAddr {
    match addr {
        IpAddr::V4(addr) => Ipv4Addr::from_bits(addr.to_bits() ^ 1 << (31 - bit)).into(),
        IpAddr::V6(addr) => Ipv6Addr::from_bits(addr.to_bits() ^ 1 << (127 - bit)).into(),
    }
}

/// Gives a frame another protocol number, and IPv4 the checksum for it.
fn with_protocol(mut frame: Vec<u8>, protocol: u8) -> Vec<u8> {
    if frame[12] == 8 {
        (frame[23], frame[24], frame[25]) = (protocol, 0, 0);
        let sum = Sum::new().bytes(&frame[14..34]).checksum();
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    } else {
        frame[20] = protocol;
    }
    frame
}

fn all_flows_to_a_destination_leave_as_by_the_slow_path_and_what_it_would_look_at_comes_up() {
    in_namespace("offl-to", || {
        let mut rig = Rig::new(1024);
        let ours =
            [IpAddr::from(Ipv4Addr::new(10, 1, 1, 1)), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).into()];
        rig.table.set_own(ours.into_iter());
        let (mut forwarded, mut came_up, mut discovery) = (0, 0, 0);
        for seed in 1..=100 {
            let rng = &mut Rng(seed * 0x9e37_79b9);
            let is_ip4 = rng.below(2) == 0;
            let of = rng.addr(is_ip4);
            let bits = if is_ip4 { BITS_V4[rng.below(3)] } else { BITS_V6[rng.below(4)] };
            let record = rig.offload(&to_destination(of, bits)).unwrap();
            // Another that has the first bits in common, of other destinations, is not in its way.
            let other = rig.offload(&to_destination(flipped(of, 15), if is_ip4 { 24 } else { 64 })).unwrap();
            let mut expected = Forwarded::default();
            for n in 0..100 {
                let is_for = rng.below(4) > 0;
                // All bits but that of the other one.
                let differs = u8::try_from(rng.below(u64::from(bits) - 1)).unwrap();
                let differs = if differs < 15 { differs } else { differs + 1 };
                let dst = beginning(if is_for { of } else { flipped(of, differs) }, bits, rng.addr(is_ip4));
                let (shape, number) = (shape(rng), [TCP, UDP, UDP, ICMP, ICMP6, ESP, SCTP, 0][rng.below(8)]);
                let mut ends = Ends { dst, ..rng.ends(is_ip4) };
                if number == ICMP6 && rng.below(4) == 0 {
                    // The type and code of a message.
                    ends.src_port = u16::from_be_bytes([[132, 133, 135, 136, 137, 138][rng.below(6)], 0]);
                }
                let protocol = if number == TCP { TCP } else { UDP };
                let made = |link, shape: &Shape| {
                    let mut frame = with_protocol(frame(link, &ends, protocol, n, shape), number);
                    let len = frame.len() - 14;
                    frame.resize(frame.len().max(60), 0);
                    (frame, len)
                };
                let (sent, len) = made(incoming(), &shape);
                let icmp = if is_ip4 { ICMP } else { ICMP6 };
                let is_partial = shape.checksum == Checksum::Partial && [TCP, UDP].contains(&number);
                let [kind, _] = ends.src_port.to_be_bytes();
                let is_discovery = number == ICMP6 && (133..=137).contains(&kind);
                discovery += u32::from(is_discovery && !is_ip4);
                let is_known = [TCP, UDP, ESP, icmp].contains(&number) && !is_discovery;
                let goes = is_for && shape.ttl > 1 && is_known && !is_partial && len <= MTU.into();
                let (result, left) = rig.program.test_rewrite(&sent).unwrap();
                let context = format!("seed {seed}, packet {n} of protocol {number}: {ends:?} {of}/{bits}");
                if goes && result == PASS && rig.table.is_own(ends.src) {
                    continue;
                }
                if !goes {
                    assert_eq!((result, &left), (PASS, &sent), "{context}");
                    came_up += 1;
                    continue;
                }
                let (wanted, _) = made(NEXT, &Shape { ttl: shape.ttl - 1, ..shape });
                assert_eq!((result, &left), (REDIRECT, &wanted), "{context}");
                expected.packets += 1;
                expected.bytes += len as u64;
                forwarded += 1;
            }
            assert_eq!(rig.writer.counted(record), expected, "seed {seed}");
            rig.writer.remove(record);
            rig.writer.remove(other);
        }
        assert!(forwarded > 1000 && came_up > 2000 && discovery > 50, "{forwarded} {came_up} {discovery}");
        assert_eq!(rig.table.records(), 0);
    });
}

fn what_comes_from_an_address_of_ours_or_of_nobody_is_left_to_the_stack() {
    in_namespace("offl-src", || {
        let mut rig = Rig::new(1024);
        let ours =
            [IpAddr::from(Ipv4Addr::new(10, 1, 1, 1)), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).into()];
        rig.table.set_own(ours.into_iter());
        let usual = Shape { ttl: 64, ecn: 0, flags: 0x02, payload: 20, checksum: Checksum::Right };
        let rng = &mut Rng(5);
        for is_ip4 in [true, false] {
            let dst = rng.addr(is_ip4);
            rig.offload(&to_destination(dst, if is_ip4 { 32 } else { 128 })).unwrap();
            let result = |rig: &Rig, src: IpAddr| {
                let ends = Ends { src, dst, src_port: 1, dst_port: 2 };
                rig.program.test_rewrite(&frame(incoming(), &ends, TCP, 0, &usual)).unwrap().0
            };
            let of_nobody: &[&str] = if is_ip4 {
                &[
                    "0.0.0.0",
                    "0.1.2.3",
                    "127.0.0.1",
                    "169.254.1.1",
                    "224.0.0.1",
                    "240.0.0.1",
                    "255.255.255.255",
                ]
            } else {
                &["::", "::1", "::ffff:10.0.0.1", "fe80::1", "febf::1", "ff02::1", "ff0e::1"]
            };
            let refused = ours.into_iter().filter(|own| own.is_ipv4() == is_ip4);
            for src in of_nobody.iter().map(|src| src.parse().unwrap()).chain(refused) {
                assert_eq!(result(&rig, src), PASS, "{src}");
            }
            let others: &[&str] = if is_ip4 {
                &["1.0.0.1", "126.0.0.2", "128.0.0.1", "169.253.1.1", "223.255.255.255"]
            } else {
                &["2001:db8::1", "fd00::2", "fd00:0:0:1::", "fec0::1", "64:ff9b::1"]
            };
            for src in others.iter().map(|src| src.parse().unwrap()) {
                assert!(!rig.table.is_own(src), "{src} shares a bit with one of ours");
                assert_eq!(result(&rig, src), REDIRECT, "{src}");
            }
        }
    });
}

fn a_record_of_an_earlier_generation_and_one_that_is_removed_forward_nothing() {
    in_namespace("offl-gen", || {
        let mut rig = Rig::new(1024);
        let usual = Shape { ttl: 64, ecn: 0, flags: 0x10, payload: 20, checksum: Checksum::Right };
        for seed in 1..=8 {
            let flow = flow(&mut Rng(seed));
            let sent = frame(incoming(), &flow.before, flow.protocol, flow.class, &usual);
            let result = |rig: &Rig| rig.program.test_rewrite(&sent).unwrap().0;
            assert_eq!(result(&rig), PASS, "no record");
            let record = rig.offload(&flow).unwrap();
            assert_eq!(result(&rig), REDIRECT);
            assert_eq!(rig.offload(&flow), Err(Refused::Known), "its owner removes it first");
            let before = rig.port.came_up();
            rig.table.invalidate();
            offload::grace::wait().unwrap();
            assert_eq!(result(&rig), PASS, "stale");
            assert_eq!(rig.port.came_up().stale, before.stale + 1);
            rig.writer.remove(record);
            let record = rig.offload(&flow).unwrap();
            assert_eq!((result(&rig), rig.writer.counted(record).packets), (REDIRECT, 1));
            rig.port.set(0, OURS);
            assert_eq!(result(&rig), PASS, "off");
            rig.port.set(NUMBER, OURS);
            rig.writer.remove(record);
            assert_eq!(result(&rig), PASS, "removed");
            let elsewhere = OffloadedFlow { outif: 9, ..flow };
            assert_eq!(rig.offload(&elsewhere), Err(Refused::Interface));
        }
    });
}

fn many_flows_find_their_records_and_what_has_no_room_is_refused() {
    in_namespace("offl-many", || {
        let mut rig = Rig::new(2048);
        let rng = &mut Rng(77);
        let usual = Shape { ttl: 64, ecn: 0, flags: 0x10, payload: 20, checksum: Checksum::Right };
        let (mut there, mut refused) = (Vec::new(), 0);
        for _ in 0..2048 {
            let flow = flow(rng);
            match rig.offload(&flow) {
                Ok(record) => there.push((flow, record)),
                Err(why) => {
                    assert_eq!(why, Refused::Full);
                    refused += 1;
                }
            }
        }
        assert!(refused < 100, "{refused} of 2048");
        for (flow, record) in &there {
            let sent = frame(incoming(), &flow.before, flow.protocol, flow.class, &usual);
            let wanted = frame(NEXT, &flow.after, flow.protocol, flow.class, &Shape { ttl: 63, ..usual });
            assert_eq!(rig.program.test_rewrite(&sent).unwrap(), (REDIRECT, wanted));
            assert_eq!(rig.writer.counted(*record).packets, 1);
        }
        for _ in 0..40_000 {
            let mut flow = flow(rng);
            flow.before.src = rng.addr(flow.before.dst.is_ipv4());
            match rig.offload(&flow) {
                Ok(record) => there.push((flow, record)),
                Err(why) => refused += u32::from(why == Refused::Full),
            }
        }
        assert!(refused > 10_000, "the table is bounded");
        let mut full = 0;
        for _ in 0..40_000 {
            let flow = to_destination(rng.addr(true), 32);
            match rig.offload(&flow) {
                Ok(record) => there.push((flow, record)),
                Err(why) => full += u32::from(why == Refused::Full),
            }
        }
        assert!(full > 10_000, "and that of destinations");
        assert_eq!(rig.table.records(), u32::try_from(there.len()).unwrap());
    });
}

harness::tests![
    random_packets_leave_the_program_as_a_new_header_would_be,
    a_frame_with_any_one_byte_changed_is_forwarded_only_if_its_flow_is_the_same,
    all_flows_to_a_destination_leave_as_by_the_slow_path_and_what_it_would_look_at_comes_up,
    what_comes_from_an_address_of_ours_or_of_nobody_is_left_to_the_stack,
    a_record_of_an_earlier_generation_and_one_that_is_removed_forward_nothing,
    many_flows_find_their_records_and_what_has_no_room_is_refused,
];
