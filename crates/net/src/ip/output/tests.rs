use core::net::IpAddr;

use wire::ether::Mac;

use super::*;
use crate::fib::{Prefix, Route, To};
use crate::link::tables::Config;
use crate::testkit::{Bench, addr4, addr6, build, load, mac};

fn ip(addr: &str) -> IpAddr {
    addr.parse().unwrap()
}

fn link_local(i: IfIndex) -> IpAddr {
    wire::addr::link_local_from_mac(mac(i)).into()
}

fn defaults(config: &mut Config) {
    let route =
        |prefix, via| Route::new(Prefix::new(ip(prefix), 0).unwrap(), To::Gateway { ifindex: 2, via });
    config.routes.extend([route("0.0.0.0", addr4(2, 254).into()), route("::", ip("fe80::254"))]);
}

#[test]
fn the_source_is_on_the_link_that_the_packet_leaves_by() {
    let mut bench = Bench::with(2, 1, defaults);
    let mut source = |dst, outif| source_on(bench.cpu(), 0, dst, outif);
    assert_eq!(source(addr4(1, 9).into(), 0), Some((addr4(1, 1).into(), 1)));
    assert_eq!(source(addr6(1, 9).into(), 0), Some((addr6(1, 1).into(), 1)));
    assert_eq!(source(ip("198.51.100.1"), 0), Some((addr4(2, 1).into(), 2)));
    assert_eq!(source(ip("2001:4860::1"), 0), Some((addr6(2, 1).into(), 2)));
    assert_eq!(source(ip("fe80::9"), 2), Some((link_local(2), 2)));
    assert_eq!(source(ip("ff02::1"), 1), Some((link_local(1), 1)));
    assert_eq!(source(ip("ff0e::1"), 1), Some((addr6(1, 1).into(), 1)));
    assert_eq!(source(addr4(2, 1).into(), 0), Some((addr4(2, 1).into(), 0)));
}

#[test]
fn without_a_route_there_is_no_source() {
    let mut bench = Bench::new(2);
    for dst in ["198.51.100.1", "2001:4860::1"] {
        assert_eq!(source_for(bench.cpu(), 0, ip(dst)), None);
    }
}

#[test]
fn an_interface_without_an_address_borrows_one() {
    let mut bench = Bench::with(2, 1, |config| {
        defaults(config);
        config.ifs[1].addrs.retain(|own| own.addr == link_local(2));
    });
    assert_eq!(source_for(bench.cpu(), 0, ip("198.51.100.1")), Some((addr4(1, 1).into(), 2)));
}

#[test]
fn of_several_addresses_the_nearest_is_chosen() {
    let mut bench = Bench::with(1, 1, |config| {
        let more = [("10.0.7.1", 16), ("fd00::1", 64), ("2001:db8:1:0:8000::1", 64)];
        let more = more.map(|(addr, prefix_len)| IfAddr { addr: ip(addr), prefix_len });
        config.ifs[0].addrs.extend(more);
    });
    let mut source = |dst| source_for(bench.cpu(), 0, ip(dst)).map(|(addr, _)| addr);
    assert_eq!(source("10.0.1.9"), Some(addr4(1, 1).into()));
    assert_eq!(source("10.0.9.9"), Some(ip("10.0.7.1")));
    assert_eq!(source("fd00::9"), Some(ip("fd00::1")));
    assert_eq!(source("2001:db8:1:0:8000::9"), Some(ip("2001:db8:1:0:8000::1")));
    assert_eq!(source("2001:db8:1::9"), Some(addr6(1, 1).into()));
}

/// Sends a datagram of ours, and lets it go where it goes.
fn send(bench: &mut Bench, src: IpAddr, dst: IpAddr, outif: IfIndex) {
    let packet = build::udp(src, dst, (1, 2), b"ours");
    let mut pkt = load(&mut bench.cpu().pool, &packet.into()).unwrap();
    pkt.outif = outif;
    let output = if dst.is_ipv4() { crate::ip::ip4::output::output } else { crate::ip::ip6::output::output };
    output(bench.cpu(), pkt);
    bench.run();
}

#[test]
fn groups_and_broadcasts_leave_by_the_interface_that_is_named() {
    let cases = [
        (addr4(2, 1).into(), ip("255.255.255.255"), 2, Mac::BROADCAST),
        (addr4(2, 1).into(), addr4(2, 255).into(), 0, Mac::BROADCAST),
        (addr4(2, 1).into(), ip("224.0.0.1"), 2, Mac([1, 0, 0x5e, 0, 0, 1])),
        (link_local(2), ip("ff02::1"), 2, Mac([0x33, 0x33, 0, 0, 0, 1])),
    ];
    for (src, dst, outif, mac) in cases {
        let mut bench = Bench::new(2);
        send(&mut bench, src, dst, outif);
        let sent = bench.sent(2);
        assert_eq!((sent.len(), &sent[0][..6]), (1, &mac.0[..]), "{dst}");
        assert!(bench.sent(1).is_empty());
    }
}

#[test]
fn what_is_for_ourselves_comes_in_again_on_the_cpu_that_owns_it() {
    for cpus in [1, 2] {
        for (src, dst) in [(addr4(1, 1).into(), addr4(2, 1).into()), (addr6(1, 1).into(), addr6(2, 1).into())]
        {
            let mut bench = Bench::with(2, cpus, |_| ());
            send(&mut bench, src, dst, 0);
            assert_eq!(bench.counted(Count::Ip4Local) + bench.counted(Count::Ip6Local), 1);
            assert!(bench.sent(1).is_empty() && bench.sent(2).is_empty());
        }
    }
}

#[test]
fn without_a_way_the_packet_dies() {
    for (src, dst) in [(addr4(1, 1).into(), ip("198.51.100.1")), (addr6(1, 1).into(), ip("2001:4860::1"))] {
        let mut bench = Bench::new(2);
        send(&mut bench, src, dst, 0);
        assert_eq!(bench.drops(), [(DropReason::NoRoute, 1)]);
    }
}

#[test]
fn answers_leave_by_the_route_though_the_question_came_by_another_interface() {
    for (us, them) in
        [(addr4(1, 1).into(), ip("198.51.100.9")), (IpAddr::from(addr6(1, 1)), ip("2001:db8:77::9"))]
    {
        let mut bench = Bench::with(2, 1, defaults);
        let echo = build::echo_request(them, us, 1, 1, b"echo");
        let closed = build::udp(them, us, (7, 9), b"nothing listens");
        for packet in [echo, closed] {
            bench.inject(1, build::frame_from(1, us, &packet));
            bench.run();
            assert_eq!(bench.drops().iter().filter(|(why, _)| *why == DropReason::NoRoute).count(), 0);
            let to_them = |frame: &Vec<u8>| frame.len() > 60;
            assert_eq!(bench.sent(1).iter().filter(|frame| to_them(frame)).count(), 0);
            assert!(
                bench
                    .sent(2)
                    .iter()
                    .any(|frame| [0x0800, 0x86dd].contains(&u16::from_be_bytes([frame[12], frame[13]])))
            );
        }
    }
}
