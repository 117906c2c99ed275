use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::base::count::{Count, IfCount};
use crate::base::secret::Secret;
use crate::fib::{Prefix, Route, To};
use crate::testkit::{Bench, addr4, addr6, build};

/// Frames of a burst: a whole chunk, and a part of another.
const BURST: usize = 80;
/// Values that a byte is changed to.
const VALUES: [u8; 12] = [0, 1, 2, 0x14, 0x45, 0x46, 0x60, 0x7f, 0xa9, 0xdf, 0xe0, 0xff];

/// Hosts behind the default gateways.
const BEYOND4: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7));
const BEYOND6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2a00, 1, 0, 0, 0, 0, 0, 7));

/// A router whose default gateway, and a host on each of its links, it knows.
fn router(cpus: u16) -> Bench {
    let mut bench = Bench::with(2, cpus, |config| {
        for (zero, via) in [(BEYOND4, addr4(2, 9).into()), (BEYOND6, addr6(2, 9).into())] {
            let everything = Prefix::new(zero, 0).unwrap();
            let gateway = To::Gateway { ifindex: 2, via };
            config.routes.push(Route { fib: 0, to: everything, hops: vec![gateway.into()] });
        }
        config.ifs[1].mtu = 600;
    });
    for dst in [BEYOND4, BEYOND6, addr4(2, 9).into(), addr6(2, 9).into()] {
        let src = if dst.is_ipv4() { addr4(1, 9).into() } else { addr6(1, 9).into() };
        // The first waits for the neighbour, the second leaves an adjacency.
        for _ in 0..2 {
            bench.inject(1, build::frame(1, &build::udp(src, dst, (1, 2), b"first")));
            bench.run();
        }
    }
    bench.forget_sent();
    bench
}

/// A frame that is mostly usual, and mostly of one family.
fn frame(dice: &mut Secret, v6: bool) -> Vec<u8> {
    let mut below = |n: usize| usize::try_from(dice.below(n as u64)).unwrap();
    let v6 = v6 ^ (below(12) == 0);
    let (own, host, near, beyond): (IpAddr, IpAddr, IpAddr, IpAddr) = match v6 {
        true => (addr6(1, 1).into(), addr6(1, 9).into(), addr6(2, 9).into(), BEYOND6),
        false => (addr4(1, 1).into(), addr4(1, 9).into(), addr4(2, 9).into(), BEYOND4),
    };
    let (src, dst) = match below(12) {
        0 => (host, near),
        1 => (host, own),
        2 => (own, near),
        _ => (host, beyond),
    };
    let len = [0, 1, 17, 18, 40, 560, 580, 1400][below(8)];
    let mut frame = build::frame(1, &build::udp(src, dst, (7, 8), &vec![0x5a; len]));
    if below(3) == 0 {
        frame[below(if v6 { 54 } else { 34 })] = VALUES[below(VALUES.len())];
        if below(4) > 0 && frame[14] == 0x45 {
            build::fix_ip4_checksum(&mut frame[14..]);
        }
    }
    if below(16) == 0 {
        frame[if v6 { 21 } else { 22 }] = u8::try_from(below(3)).unwrap();
        if !v6 && frame[14] == 0x45 {
            build::fix_ip4_checksum(&mut frame[14..]);
        }
    }
    match below(8) {
        0 => frame.resize(frame.len() + 1 + below(40), 0xee),
        1 if below(3) == 0 => frame.truncate(below(60)),
        _ => {}
    }
    frame
}

/// Returns the frames that were sent, the number of answers, drops, and counters.
fn outcome(bench: &mut Bench) -> impl PartialEq + core::fmt::Debug {
    let mut sent = bench.sent(2);
    // Identifications of own fragments are drawn.
    let fragments = sent.iter_mut().filter(|frame| frame[12..14] == [0x86, 0xdd] && frame[20] == 44);
    fragments.for_each(|frame| frame[58..62].fill(0));
    sent.sort();
    let answers = bench.sent(1).len();
    let counts = [
        Count::RxPackets,
        Count::Ip4In,
        Count::Ip4Forwarded,
        Count::Ip6In,
        Count::Ip6Forwarded,
        Count::TxPackets,
    ];
    let counts = counts.map(|count| bench.counted(count));
    let counters: Vec<_> = bench.netisrs.iter().map(|netisr| netisr.cpu.counters.reader()).collect();
    let bytes =
        [(1, IfCount::RxPackets), (1, IfCount::RxBytes), (2, IfCount::TxPackets), (2, IfCount::TxBytes)];
    let bytes =
        bytes.map(|(ifindex, count)| counters.iter().map(|cpu| cpu.ifs.get(ifindex, count)).sum::<u64>());
    (sent, answers, bench.drops(), counts, bytes)
}

#[test]
fn frames_that_come_together_fare_as_if_each_had_come_alone() {
    for (cpus, v6, forwarded) in [
        (1, false, Count::Ip4Forwarded),
        (1, true, Count::Ip6Forwarded),
        (3, false, Count::Ip4Forwarded),
        (3, true, Count::Ip6Forwarded),
    ] {
        let mut sent = 0;
        for seed in 0..40 {
            let mut dice = Secret::new(seed);
            let frames: Vec<_> = (0..BURST).map(|_| frame(&mut dice, v6)).collect();
            let (mut together, mut alone) = (router(cpus), router(cpus));
            frames.iter().for_each(|frame| together.inject(1, frame.clone()));
            together.run();
            for frame in &frames {
                alone.inject(1, frame.clone());
                alone.run();
            }
            sent += together.counted(forwarded);
            assert_eq!(outcome(&mut together), outcome(&mut alone), "seed {seed} with {cpus} CPUs");
        }
        assert!(sent > 800, "{sent} of {} were forwarded", 40 * BURST);
    }
}
