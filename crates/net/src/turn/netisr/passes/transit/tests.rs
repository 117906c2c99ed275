use core::net::IpAddr;

use crate::base::count::{Count, IfCount};
use crate::base::secret::Secret;
use crate::fib::{Prefix, Route, To};
use crate::testkit::{Bench, addr4, addr6, build};

/// Frames of a burst: a whole chunk, and a part of another.
const BURST: usize = 80;
/// Values that a byte is changed to.
const VALUES: [u8; 12] = [0, 1, 2, 0x14, 0x45, 0x46, 0x60, 0x7f, 0xa9, 0xdf, 0xe0, 0xff];

/// A router whose default gateway, and a host on each of its links, it knows.
fn router() -> Bench {
    let mut bench = Bench::with(2, 1, |config| {
        let gateway = To::Gateway { ifindex: 2, via: addr4(2, 9).into() };
        let everything = Prefix::new(IpAddr::from([0u8; 4]), 0).unwrap();
        config.routes.push(Route { to: everything, hops: vec![gateway.into()] });
        config.ifs[1].mtu = 600;
    });
    for dst in [IpAddr::from([198, 51, 100, 7]), addr4(2, 9).into(), addr6(2, 9).into()] {
        let src = if dst.is_ipv4() { addr4(1, 9).into() } else { addr6(1, 9).into() };
        bench.inject(1, build::frame(1, &build::udp(src, dst, (1, 2), b"first")));
        bench.run();
    }
    bench.forget_sent();
    bench
}

/// A frame that is mostly usual.
fn frame(dice: &mut Secret) -> Vec<u8> {
    let mut below = |n: usize| usize::try_from(dice.below(n as u64)).unwrap();
    let (src4, src6) = (IpAddr::from(addr4(1, 9)), IpAddr::from(addr6(1, 9)));
    let (src, dst) = match below(12) {
        0 => (src6, addr6(2, 9).into()),
        1 => (src4, addr4(2, 9).into()),
        2 => (src4, addr4(1, 1).into()),
        3 => (addr4(1, 1).into(), addr4(2, 9).into()),
        n => (src4, IpAddr::from([198, 51, 100, u8::try_from(n).unwrap()])),
    };
    let len = [0, 1, 17, 18, 40, 560, 580, 1400][below(8)];
    let mut frame = build::frame(1, &build::udp(src, dst, (7, 8), &vec![0x5a; len]));
    let header = frame.get(14..).is_some_and(|ip| ip[0] == 0x45);
    if below(3) == 0 {
        frame[below(34)] = VALUES[below(VALUES.len())];
        if header && below(4) > 0 && frame[14] == 0x45 {
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

/// What came of frames: those sent, drops, and counters.
fn outcome(bench: &mut Bench) -> impl PartialEq + core::fmt::Debug {
    let mut sent = bench.sent(2);
    sent.sort();
    let answers = bench.sent(1).len();
    let counts = [Count::RxPackets, Count::Ip4In, Count::Ip4Forwarded, Count::Ip6In, Count::TxPackets];
    let counts = counts.map(|count| bench.counted(count));
    let counters = bench.netisrs[0].cpu.counters.reader();
    let bytes =
        [(1, IfCount::RxPackets), (1, IfCount::RxBytes), (2, IfCount::TxPackets), (2, IfCount::TxBytes)];
    let bytes = bytes.map(|(ifindex, count)| counters.ifs.get(ifindex, count));
    (sent, answers, bench.drops(), counts, bytes)
}

#[test]
fn frames_that_come_together_fare_as_if_each_had_come_alone() {
    let mut sent = 0;
    for seed in 0..60 {
        let mut dice = Secret::new(seed);
        let frames: Vec<_> = (0..BURST).map(|_| frame(&mut dice)).collect();
        let (mut together, mut alone) = (router(), router());
        frames.iter().for_each(|frame| together.inject(1, frame.clone()));
        together.run();
        for frame in &frames {
            alone.inject(1, frame.clone());
            alone.run();
        }
        sent += together.counted(Count::Ip4Forwarded);
        assert_eq!(outcome(&mut together), outcome(&mut alone), "seed {seed}");
    }
    assert!(sent > 1000, "{sent} of {} were forwarded", 60 * BURST);
}
