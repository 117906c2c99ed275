use core::net::{Ipv4Addr, Ipv6Addr};
use std::sync::mpsc::{Receiver, channel};

use super::*;
use crate::base::drop::DropReason;
use crate::testkit::build::{frame, ip};
use crate::testkit::{Bench, addr4, addr6};

/// A neighbour to be pinged, and a router that is not on the way, for both families.
fn families() -> [(IpAddr, IpAddr); 2] {
    [(addr4(1, 9).into(), addr4(1, 77).into()), (addr6(1, 9).into(), addr6(1, 77).into())]
}

const IDENT: u16 = 4711;

/// A ping under way.
struct Ping {
    cpu: usize,
    request: Request,
    events: Receiver<Event>,
}

impl Ping {
    /// Begins to ping `dst` with packets of `payload_len` bytes.
    fn begin(bench: &mut Bench, dst: IpAddr, payload_len: u16) -> Self {
        let PingSource { cpu, src } = source(bench.cpu(), dst, None, None, 0).unwrap();
        let (sender, events) = channel();
        let cpu = cpu.index();
        let sink: Sink = Box::new(move |event| sender.send(event).unwrap_or_default());
        register(&mut bench.netisrs[cpu].cpu, IDENT, dst, sink).unwrap();
        let request = Request {
            dst,
            src,
            outif: None,
            ident: IDENT,
            seq: 1,
            payload_len,
            ttl: 9,
            dont_fragment: false,
            fib: 0,
        };
        Self { cpu, request, events }
    }

    fn send(&self, bench: &mut Bench) -> Result<(), Error> {
        send(&mut bench.netisrs[self.cpu].cpu, &self.request)
    }

    fn events(&self) -> Vec<Event> {
        self.events.try_iter().collect()
    }
}

/// The packets that were sent.
fn packets(bench: &mut Bench) -> Vec<Vec<u8>> {
    bench.sent(1).into_iter().map(|frame| frame[14..].to_vec()).collect()
}

/// Makes the reply to `request`.
fn reply_to(request: &[u8]) -> Vec<u8> {
    let (id, seq) = (IDENT, 1);
    if request[0] >> 4 == 4 {
        let view = ip4::View::new(request).unwrap();
        let payload = &view.payload()[8..];
        let header = icmp4::Message::EchoReply { id, seq }.to_bytes(payload);
        ip(view.dst().into(), view.src().into(), Protocol::ICMP, 55, &[&header, payload].concat())
    } else {
        let view = ip6::View::new(request).unwrap();
        let (src, dst, payload) = (view.dst(), view.src(), &view.payload()[8..]);
        let header = icmp6::Message::EchoReply { id, seq }.to_bytes(src, dst, payload);
        ip(src.into(), dst.into(), Protocol::ICMP6, 55, &[&header, payload].concat())
    }
}

/// Makes the time-exceeded error of `router` about a request.
fn time_exceeded(router: IpAddr, request: &[u8], quote_len: usize) -> Vec<u8> {
    let quote = &request[..quote_len];
    match router {
        IpAddr::V4(router) => {
            let header = icmp4::Message::TimeExceeded { code: 0 }.to_bytes(quote);
            let to = ip4::View::new(request).unwrap().src();
            ip(router.into(), to.into(), Protocol::ICMP, 60, &[&header, quote].concat())
        }
        IpAddr::V6(router) => {
            let to = ip6::View::new(request).unwrap().src();
            let header = icmp6::Message::TimeExceeded { code: 0 }.to_bytes(router, to, quote);
            ip(router.into(), to.into(), Protocol::ICMP6, 60, &[&header, quote].concat())
        }
    }
}

#[test]
fn a_reply_tells_its_round_trip_time() {
    for cpus in [1, 4] {
        for (dst, _) in families() {
            let mut bench = Bench::with(1, cpus, |_| ());
            let ping = Ping::begin(&mut bench, dst, 56);
            ping.send(&mut bench).unwrap();
            bench.run();
            let requests = packets(&mut bench);
            assert_eq!(requests.len(), 1);
            bench.advance(Duration::from_millis(3));
            // The second one is a duplicate.
            for _ in 0..2 {
                bench.inject(1, frame(1, &reply_to(&requests[0])));
            }
            bench.run();
            let rtt = Some(Duration::from_millis(3));
            let reply =
                |is_duplicate| Event::Reply { from: dst, seq: 1, ttl: 55, len: 64, rtt, is_duplicate };
            assert_eq!(ping.events(), [reply(false), reply(true)]);
            assert_eq!(bench.dropped(DropReason::IcmpUnsolicited), 0);
        }
    }
}

#[test]
fn a_request_has_the_time_to_live_and_the_size_that_were_asked_for() {
    for (dst, _) in families() {
        let mut bench = Bench::new(1);
        for payload_len in [0, 1, 56, 1400] {
            let ping = Ping::begin(&mut bench, dst, payload_len);
            ping.send(&mut bench).unwrap();
            bench.run();
            let request = packets(&mut bench).remove(0);
            let is_ip4 = dst.is_ipv4();
            let header_len = if is_ip4 { 20 } else { 40 };
            assert_eq!(request.len(), header_len + 8 + usize::from(payload_len));
            assert_eq!(request[if is_ip4 { 8 } else { 7 }], 9);
            unregister(bench.cpu(), IDENT, dst);
        }
    }
}

#[test]
fn a_request_longer_than_the_link_goes_in_fragments_and_so_does_its_reply() {
    for (dst, _) in families() {
        let mut far = Bench::new(1);
        let mut bench = Bench::new(1);
        let ping = Ping::begin(&mut bench, dst, 20_000);
        // The first time, few fragments wait for the neighbour's link address.
        ping.send(&mut bench).unwrap();
        bench.run();
        bench.forget_sent();
        ping.send(&mut bench).unwrap();
        bench.run();
        let fragments = packets(&mut bench);
        assert!(fragments.len() > 10 && fragments.iter().all(|packet| packet.len() <= 1500));
        // Another stack answers: it is host 1 on its link, so the addresses change places.
        for _ in 0..2 {
            far.forget_sent();
            fragments.iter().for_each(|packet| far.inject(1, frame(1, &swapped(packet))));
            far.run();
        }
        for packet in packets(&mut far) {
            bench.inject(1, frame(1, &swapped(&packet)));
        }
        bench.run();
        assert!(
            matches!(ping.events()[..], [Event::Reply { len: 20_008, is_duplicate: false, .. }]),
            "{:?} {:?}",
            far.drops(),
            bench.drops()
        );
    }
}

/// The packet with source and destination exchanged, which changes no checksum.
fn swapped(packet: &[u8]) -> Vec<u8> {
    let (at, len) = if packet[0] >> 4 == 4 { (12, 4) } else { (8, 16) };
    let mut packet = packet.to_vec();
    let (src, dst) = packet[at..at + 2 * len].split_at_mut(len);
    src.swap_with_slice(dst);
    packet
}

#[test]
fn an_error_from_a_router_finds_the_ping_on_whatever_cpu() {
    for (dst, router) in families() {
        let mut bench = Bench::with(1, 4, |_| ());
        let ping = Ping::begin(&mut bench, dst, 56);
        ping.send(&mut bench).unwrap();
        bench.run();
        let request = packets(&mut bench).remove(0);
        // Routers with many addresses: their errors come in on all CPUs.
        for host in 1..=32u8 {
            let router = match router {
                IpAddr::V4(_) => Ipv4Addr::new(198, 51, 100, host).into(),
                IpAddr::V6(_) => Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, host.into()).into(),
            };
            bench.inject(1, frame(1, &time_exceeded(router, &request, 64)));
            bench.run();
            let message = match router {
                IpAddr::V4(_) => Message::V4(icmp4::Message::TimeExceeded { code: 0 }),
                IpAddr::V6(_) => Message::V6(icmp6::Message::TimeExceeded { code: 0 }),
            };
            assert_eq!(ping.events(), [Event::Error { from: router, seq: 1, message }]);
        }
    }
}

#[test]
fn a_neighbour_that_does_not_answer_is_said_to_be_unreachable() {
    for (dst, _) in families() {
        let mut bench = Bench::with(1, 4, |_| ());
        bench.neighbours_answer = false;
        let ping = Ping::begin(&mut bench, dst, 56);
        ping.send(&mut bench).unwrap();
        bench.advance(Duration::from_secs(5));
        let message = match dst {
            IpAddr::V4(_) => Message::V4(icmp4::Message::Unreachable { code: 1, mtu: 0 }),
            IpAddr::V6(_) => Message::V6(icmp6::Message::Unreachable { code: 3 }),
        };
        assert_eq!(ping.events(), [Event::Error { from: ping.request.src, seq: 1, message }]);
    }
}

#[test]
fn our_own_addresses_answer_us() {
    for cpus in [1, 4] {
        for dst in [IpAddr::from(addr4(1, 1)), addr6(1, 1).into()] {
            let mut bench = Bench::with(1, cpus, |_| ());
            let ping = Ping::begin(&mut bench, dst, 56);
            ping.send(&mut bench).unwrap();
            bench.run();
            assert!(matches!(ping.events()[..], [Event::Reply { seq: 1, ttl: 64, len: 64, .. }]));
        }
    }
}

#[test]
fn what_cannot_be_sent_is_refused() {
    for (dst, _) in families() {
        let mut bench = Bench::new(1);
        let ping = Ping::begin(&mut bench, dst, 2000);
        let kept = Request { dont_fragment: true, ..ping.request };
        assert_eq!(send(bench.cpu(), &kept), Err(Error::TooBig { mtu: 1500 }));
        let huge = Request { payload_len: u16::MAX, ..ping.request };
        assert_eq!(send(bench.cpu(), &huge), Err(Error::TooLong));
        let other = Request { ident: 1, ..ping.request };
        assert_eq!(send(bench.cpu(), &other), Err(Error::NotRegistered));
        assert_eq!(register(bench.cpu(), IDENT, dst, Box::new(|_| ())), Err(Error::InUse));
        assert_eq!(source(bench.cpu(), dst, Some(dst), None, 0), Err(Error::BadSource));
        let nowhere = match dst {
            IpAddr::V4(_) => Ipv4Addr::new(203, 0, 113, 1).into(),
            IpAddr::V6(_) => Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 1).into(),
        };
        assert_eq!(source(bench.cpu(), nowhere, None, None, 0), Err(Error::Unreachable));
        unregister(bench.cpu(), IDENT, dst);
        assert_eq!(ping.send(&mut bench), Err(Error::NotRegistered));
        assert!(bench.sent(1).is_empty());
    }
}

#[test]
fn no_more_pings_run_than_may() {
    let mut bench = Bench::new(1);
    let dst = addr4(1, 9).into();
    for ident in 0..64 {
        register(bench.cpu(), ident, dst, Box::new(|_| ())).unwrap();
    }
    assert_eq!(register(bench.cpu(), 64, dst, Box::new(|_| ())), Err(Error::TooMany));
}

#[test]
fn unexpected_replies_and_errors_are_dropped() {
    for (dst, router) in families() {
        let mut bench = Bench::new(1);
        let ping = Ping::begin(&mut bench, dst, 56);
        ping.send(&mut bench).unwrap();
        bench.run();
        let request = packets(&mut bench).remove(0);
        unregister(bench.cpu(), IDENT, dst);
        bench.inject(1, frame(1, &reply_to(&request)));
        bench.inject(1, frame(1, &time_exceeded(router, &request, 64)));
        bench.run();
        assert_eq!(bench.dropped(DropReason::IcmpUnsolicited), 2);
        // One that quotes too little to be of use.
        let is_ip4 = dst.is_ipv4();
        let short = time_exceeded(router, &request, if is_ip4 { 27 } else { 47 });
        bench.inject(1, frame(1, &short));
        // And one that says of a link that it is smaller than any.
        bench.inject(1, frame(1, &too_small(router, &request)));
        bench.run();
        assert_eq!(bench.dropped(DropReason::IcmpMalformed), 2);
        assert_eq!(ping.events(), []);
    }
}

/// A claim that the path carries less than any link does.
fn too_small(router: IpAddr, request: &[u8]) -> Vec<u8> {
    match router {
        IpAddr::V4(_) => {
            let header = icmp4::Message::Unreachable { code: 4, mtu: 67 }.to_bytes(request);
            let to = ip4::View::new(request).unwrap().src();
            ip(router, to.into(), Protocol::ICMP, 60, &[&header, request].concat())
        }
        IpAddr::V6(from) => {
            let to = ip6::View::new(request).unwrap().src();
            let header = icmp6::Message::PacketTooBig { mtu: 1279 }.to_bytes(from, to, request);
            ip(router, to.into(), Protocol::ICMP6, 60, &[&header, request].concat())
        }
    }
}

#[test]
fn more_pings_at_once_than_there_is_room_for_are_refused() {
    for (dst, _) in families() {
        let mut bench = Bench::new(1);
        let mut begin =
            |ident: usize| register(bench.cpu(), u16::try_from(ident).unwrap(), dst, Box::new(|_| ()));
        for ident in 0..WAITERS_MAX {
            assert_eq!(begin(ident), Ok(()));
        }
        assert_eq!(begin(WAITERS_MAX), Err(Error::TooMany));
        unregister(bench.cpu(), 0, dst);
        assert_eq!(register(bench.cpu(), 9999, dst, Box::new(|_| ())), Ok(()));
    }
}

#[test]
fn of_many_requests_under_way_the_oldest_is_forgotten_and_its_reply_has_no_time() {
    for (dst, _) in families() {
        let mut bench = Bench::new(1);
        let mut ping = Ping::begin(&mut bench, dst, 8);
        let mut requests = Vec::new();
        for seq in 1..=SENT_MAX + 1 {
            ping.request.seq = u16::try_from(seq).unwrap();
            ping.send(&mut bench).unwrap();
            bench.run();
            requests.append(&mut packets(&mut bench));
        }
        // A reply of the kit is about the first one.
        bench.inject(1, frame(1, &reply_to(&requests[0])));
        bench.run();
        let [Event::Reply { seq: 1, rtt, .. }] = ping.events()[..] else { panic!("one reply") };
        assert_eq!(rtt, None, "nobody knows when it was sent");
    }
}
