//! Connections that are opened with a cookie (RFC 7413).

use super::*;
use wire::tcp::Cookie;

/// A host that lets `most` connections on each CPU bring data with their SYN.
fn opening(cpus: u16, addr: IpAddr, most: usize) -> Host {
    let mut host = Host::new(cpus, addr, |listen| listen.settings.fast_open_max = most);
    host.bench.netisrs.iter_mut().for_each(|netisr| set_cookie_key(&mut netisr.cpu, 7));
    host
}

/// A SYN of a host on the wire, with this cookie and data.
fn opener(us: IpAddr, them: IpAddr, src_port: u16, cookie: Option<Cookie>) -> Vec<u8> {
    let options = Options { mss: Some(1460), fast_open: cookie, ..Options::NONE };
    let (flags, window) = (Flags::SYN, 1000);
    let header = Header { src_port, dst_port: 80, seq: 1, ack: 0, flags, window, urgent: 0, options };
    frame(1, &tcp(them, us, &header, b"hello"))
}

/// Returns the replies: the acknowledgment, and the cookie.
fn answers(bench: &mut Bench) -> Vec<(u32, Option<Cookie>)> {
    let header = |frame: &Vec<u8>| {
        let at = if frame[14] >> 4 == 4 { 34 } else { 54 };
        let header = Header::parse(&frame[at..]).unwrap();
        (header.ack, header.options.fast_open)
    };
    bench.sent(1).iter().map(header).collect()
}

fn ends() -> [(IpAddr, IpAddr); 2] {
    [(addr4(1, 1).into(), addr4(1, 9).into()), (addr6(1, 1).into(), addr6(1, 9).into())]
}

#[test]
fn the_second_connection_brings_data_that_is_read_before_it_stands_on_any_number_of_cpus() {
    for (cpus, addr) in [1, 2, 4, 8].into_iter().flat_map(|cpus| families().map(|addr| (cpus, addr))) {
        let mut host = opening(cpus, addr, 4);
        // Each CPU asks for a cookie of its own, which is good for listeners on all of them.
        for round in 0..2_u64 {
            for from in 0..usize::from(cpus) {
                let mut wanted = connector(host.addr);
                wanted.settings.fast_open = true;
                let id = connect(host.cpu(from), &wanted).unwrap();
                assert_eq!(send(host.cpu(from), id, b"hello"), Ok(5));
                host.bench.run();
                let (at, server) = host.accept().unwrap();
                let mut read_here = [0; 9];
                assert_eq!((at, read(host.cpu(at), server, &mut read_here)), (from, Ok(5)));
                assert!(host.carry((at, server), (from, id), b"and back") == b"and back");
            }
            assert_eq!(host.bench.counted(Count::TcpOpened), round * u64::from(cpus));
        }
    }
}

#[test]
fn without_fast_open_no_cookie_is_given_or_taken() {
    for ((us, them), most, may) in
        ends().into_iter().flat_map(|ends| [(ends, 0, true), (ends, 4, false), (ends, 4, true)])
    {
        let mut host = Host::new(1, us, |listen| {
            (listen.settings.fast_open_max, listen.settings.may_open_fast) = (most, may);
        });
        set_cookie_key(host.cpu(0), 7);
        host.bench.inject(1, opener(us, them, 1, Some(Cookie::REQUEST)));
        host.bench.run();
        let [(2, given)] = answers(&mut host.bench)[..] else { panic!("the data was taken") };
        assert_eq!(given.is_some(), most > 0 && may, "{most} at the most, where it is {may}");
    }
}

#[test]
fn a_fast_open_cookie_is_given_on_request_and_only_a_valid_one_opens() {
    for (us, them) in ends() {
        let mut host = opening(1, us, 4);
        let bench = &mut host.bench;
        bench.inject(1, opener(us, them, 1, Some(Cookie::REQUEST)));
        bench.run();
        let [(2, Some(cookie))] = answers(bench)[..] else {
            panic!("the data was taken, or no cookie given")
        };
        bench.inject(1, opener(us, them, 2, Cookie::new(&[1; 8])));
        bench.run();
        assert_eq!(answers(bench), [(2, Some(cookie))], "a bad one is replaced");
        bench.inject(1, opener(us, them, 3, None));
        bench.run();
        assert_eq!(answers(bench), [(2, None)]);
        assert!(host.accept().is_none());
        host.bench.inject(1, opener(us, them, 4, Some(cookie)));
        host.bench.run();
        assert_eq!(answers(&mut host.bench), [(7, None)]);
        let server = host.accept().unwrap();
        assert_eq!(read(host.cpu(0), server.1, &mut [0; 9]), Ok(5));
        // It replies, but is not acknowledged: it ends as others do.
        assert_eq!(send(host.cpu(0), server.1, b"hi"), Ok(2));
        host.bench.advance(Duration::from_secs(200));
        assert_eq!(host.state(server), Some(State::Closed));
        let counted = [Count::TcpTimeouts, Count::TcpRetransmits].map(|count| host.bench.counted(count));
        assert!(counted[0] > 5 && counted[1] >= counted[0], "{counted:?}");
    }
}

#[test]
fn as_many_as_may_be_are_opened_and_the_others_go_the_usual_way() {
    for (us, them) in ends() {
        let mut host = opening(1, us, 2);
        host.bench.inject(1, opener(us, them, 1, Some(Cookie::REQUEST)));
        host.bench.run();
        let cookie = answers(&mut host.bench)[0].1;
        let acknowledged = |host: &mut Host, ports: core::ops::Range<u16>| {
            ports.for_each(|port| host.bench.inject(1, opener(us, them, port, cookie)));
            host.bench.run();
            let mut acks: Vec<u32> = answers(&mut host.bench).iter().map(|(ack, _)| *ack).collect();
            acks.sort_unstable();
            acks
        };
        assert_eq!(acknowledged(&mut host, 10..14), [2, 2, 7, 7]);
        assert_eq!(host.bench.counted(Count::TcpOpensLimited), 2);
        // Accepted, they still count, until they stand or end.
        assert!(host.accept().is_some() && host.accept().is_some());
        assert_eq!(acknowledged(&mut host, 20..22), [2, 2]);
        host.bench.advance(Duration::from_secs(200));
        host.bench.forget_sent();
        assert_eq!(acknowledged(&mut host, 30..33), [2, 7, 7]);
        let ends = [host.accept().unwrap(), host.accept().unwrap()];
        for (at, id) in ends {
            abort(host.cpu(at), id).unwrap();
        }
        host.bench.run();
        host.bench.forget_sent();
        assert_eq!(acknowledged(&mut host, 40..43), [2, 7, 7]);
    }
}

#[test]
fn a_listener_that_does_not_say_so_gives_no_cookies_and_takes_no_data() {
    for (us, them) in ends() {
        let mut host = opening(1, us, 0);
        host.bench.inject(1, opener(us, them, 1, Some(Cookie::REQUEST)));
        host.bench.run();
        assert_eq!(answers(&mut host.bench), [(2, None)]);
        // Nor does one without a key.
        let mut host = Host::new(1, us, |listen| listen.settings.fast_open_max = 4);
        host.bench.inject(1, opener(us, them, 1, Some(Cookie::REQUEST)));
        host.bench.run();
        assert_eq!(answers(&mut host.bench), [(2, None)]);
    }
}

/// The acknowledgments of SYNs with data that come from these ports, in order: 2 of the SYN alone, 7 of the data too.
fn acknowledged(
    host: &mut Host,
    (us, them): (IpAddr, IpAddr),
    cookie: Option<Cookie>,
    ports: core::ops::Range<u16>,
) -> Vec<u32> {
    host.bench.forget_sent();
    ports.for_each(|port| host.bench.inject(1, opener(us, them, port, cookie)));
    host.bench.run();
    let mut acks: Vec<u32> = answers(&mut host.bench).iter().map(|(ack, _)| *ack).collect();
    acks.sort_unstable();
    acks
}

/// A reset of what a port has opened, as the host sends it whose address was forged.
fn reset(us: IpAddr, them: IpAddr, src_port: u16) -> Vec<u8> {
    let (flags, options) = (Flags::RST, Options::NONE);
    let header = Header { src_port, dst_port: 80, seq: 7, ack: 0, flags, window: 0, urgent: 0, options };
    frame(1, &tcp(them, us, &header, &[]))
}

/// A host that lets `most` be opened, and a cookie that is good there.
fn with_cookie((us, them): (IpAddr, IpAddr), most: usize) -> (Host, Option<Cookie>) {
    let mut host = opening(1, us, most);
    host.bench.inject(1, opener(us, them, 1, Some(Cookie::REQUEST)));
    host.bench.run();
    let cookie = answers(&mut host.bench)[0].1;
    (host, cookie)
}

#[test]
fn what_was_opened_and_is_reset_before_it_stands_counts_for_another_minute() {
    for ends in ends() {
        let (mut host, cookie) = with_cookie(ends, 2);
        assert_eq!(acknowledged(&mut host, ends, cookie, 10..13), [2, 7, 7]);
        (10..12).for_each(|port| host.bench.inject(1, reset(ends.0, ends.1, port)));
        host.bench.run();
        assert_eq!(acknowledged(&mut host, ends, cookie, 20..23), [2, 2, 2], "there is no room yet");
        host.bench.advance(Duration::from_secs(61));
        assert_eq!(acknowledged(&mut host, ends, cookie, 30..33), [2, 7, 7]);
    }
}

#[test]
fn a_flood_with_a_stolen_cookie_and_its_resets_opens_no_more_than_may_be_and_leaves_nothing() {
    /// Limit of pending opens.
    const MOST: usize = 8;
    for ends in ends() {
        let (mut host, cookie) = with_cookie(ends, MOST);
        let before = host.cpu(0).tcp.as_ref().map_or(0, |pcbs| pcbs.memory());
        for round in 0..100_u16 {
            let ports = 1000 + round * 100..1100 + round * 100;
            acknowledged(&mut host, ends, cookie, ports.clone());
            ports.for_each(|port| host.bench.inject(1, reset(ends.0, ends.1, port)));
            host.bench.run();
            host.bench.forget_sent();
        }
        // An idle listener keeps what was opened, and so do those that were reset.
        assert_eq!(host.bench.counted(Count::TcpOpened), MOST as u64);
        assert_eq!(host.bench.counted(Count::TcpOpensLimited), 10_000 - MOST as u64);
        host.bench.advance(Duration::from_secs(200));
        let pcbs = host.cpu(0).tcp.as_ref().unwrap();
        assert_eq!(pcbs.len(), 0, "connections are left");
        assert!(pcbs.memory() <= before + (1 << 20), "{} bytes are left of {before}", pcbs.memory());
    }
}

#[test]
fn a_flood_with_forged_cookies_opens_nothing_and_each_is_answered_as_a_syn() {
    for ends in ends() {
        let (mut host, _) = with_cookie(ends, 16);
        for round in 0..100_u16 {
            let cookie = Cookie::new(&u64::from(round).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
            let acks = acknowledged(&mut host, ends, cookie, 1000 + round * 100..1100 + round * 100);
            assert!(acks.len() == 100 && acks.iter().all(|ack| *ack == 2), "{acks:?}");
        }
        assert_eq!(host.bench.counted(Count::TcpOpened), 0);
        // The request of the one that is good is among them.
        assert_eq!(host.bench.counted(Count::TcpOpenCookies), 10_001);
        assert!(host.accept().is_none());
        host.bench.advance(Duration::from_secs(200));
        assert_eq!(host.cpu(0).tcp.as_ref().unwrap().len(), 0);
    }
}
