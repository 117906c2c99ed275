//! Listeners and connections with addresses that are not ours, as transparent proxies have them.

use super::*;
use crate::testkit::rules::rules;

/// A host on the link, our address there, and one that is neither.
fn families() -> [(IpAddr, IpAddr, IpAddr); 2] {
    let v4 = (addr4(1, 9).into(), addr4(1, 1).into(), [203, 0, 113, 9].into());
    [v4, (addr6(1, 9).into(), addr6(1, 1).into(), "2001:db8:ffff::9".parse().unwrap())]
}

/// A host whose rules bring what is for others here.
fn bench(own: IpAddr) -> Bench {
    let mut bench = Bench::new(1);
    bench.set_rules(&mut rules(&format!(
        "add fwd {own} tcp from any to any in\nadd allow ip from any to any\n"
    )));
    bench
}

/// Source, destination, and TCP header of the only segment that was sent.
fn sent(bench: &mut Bench) -> (IpAddr, IpAddr, Header) {
    let frames = bench.sent(1);
    let [frame] = frames.as_slice() else { panic!("{} frames", frames.len()) };
    let packet = &frame[14..];
    let (src, dst, at): (IpAddr, IpAddr, _) = if packet[0] >> 4 == 4 {
        let addr = |at: usize| IpAddr::from(*packet[at..].first_chunk::<4>().unwrap());
        (addr(12), addr(16), 20)
    } else {
        let addr = |at: usize| IpAddr::from(*packet[at..].first_chunk::<16>().unwrap());
        (addr(8), addr(24), 40)
    };
    (src, dst, Header::parse(&packet[at..]).unwrap())
}

#[test]
fn a_listener_that_may_bind_to_any_address_answers_from_one_that_is_not_ours() {
    for (them, own, strange) in families() {
        let mut bench = bench(own);
        let mut wanted = listen_on((strange, 80).into());
        assert_eq!(listen(bench.cpu(), &wanted), Err(Error::AddrNotAvailable));
        wanted.settings.bind_any = true;
        let listener = listen(bench.cpu(), &wanted).unwrap();
        bench.inject(1, syn(them, strange, 5000));
        bench.run();
        let (src, dst, answer) = sent(&mut bench);
        assert_eq!((src, dst, answer.flags), (strange, them, Flags::SYN | Flags::ACK));
        let ack = Header {
            src_port: 5000,
            dst_port: 80,
            seq: 2,
            ack: answer.seq + 1,
            flags: Flags::ACK,
            window: 1000,
            urgent: 0,
            options: Options::NONE,
        };
        bench.inject(1, frame(1, &tcp(them, strange, &ack, &[])));
        bench.run();
        let accepted = accept(bench.cpu(), listener).unwrap();
        assert_eq!((accepted.ends.local, accepted.ends.remote), (strange, them));
    }
}

#[test]
fn a_connection_that_may_bind_to_any_address_begins_from_one_that_is_not_ours() {
    for (them, own, strange) in families() {
        let mut bench = bench(own);
        let mut wanted = Connect { local: Some(strange), ..connector((them, 80).into()) };
        assert_eq!(connect(bench.cpu(), &wanted), Err(Error::AddrNotAvailable));
        wanted.settings.bind_any = true;
        let id = connect(bench.cpu(), &wanted).unwrap();
        bench.run();
        let (src, dst, syn) = sent(&mut bench);
        assert_eq!((src, dst, syn.flags), (strange, them, Flags::SYN));
        let (flags, ack) = (Flags::SYN | Flags::ACK, syn.seq + 1);
        let answer = Header { src_port: 80, dst_port: syn.src_port, seq: 1, ack, flags, window: 1000, ..syn };
        bench.inject(1, frame(1, &tcp(them, strange, &answer, &[])));
        bench.run();
        assert_eq!(connection(bench.cpu(), id).unwrap().1.state(), State::Established);
        let group: IpAddr = if own.is_ipv4() { [224, 0, 0, 9].into() } else { "ff02::9".parse().unwrap() };
        wanted.local = Some(group);
        assert_eq!(connect(bench.cpu(), &wanted), Err(Error::AddrNotAvailable));
    }
}
