//! Ends that connect again while their connection before is in TIME-WAIT.

use super::*;
use crate::host::tcp::pcbs::HALVES_MAX;
use crate::host::tcp::seq::Seq;

/// Injects a segment from a port of a host on the wire; returns the replies.
fn comes(bench: &mut Bench, (them, us): (IpAddr, IpAddr), header: &Header) -> Vec<Header> {
    bench.inject(1, frame(1, &tcp(them, us, header, &[])));
    bench.run();
    let at = if us.is_ipv4() { 34 } else { 54 };
    bench.sent(1).iter().filter_map(|frame| Header::parse(&frame[at..]).ok()).collect()
}

fn hosts() -> [(IpAddr, IpAddr); 2] {
    [(addr4(1, 9).into(), addr4(1, 1).into()), (addr6(1, 9).into(), addr6(1, 1).into())]
}

fn header(src_port: u16, flags: Flags, seq: u32, ack: u32) -> Header {
    let options = Options::NONE;
    Header { src_port, dst_port: 80, seq, ack, flags, window: 60_000, urgent: 0, options }
}

/// A connection from this port comes, is sent a thousand bytes, and ends: it is in TIME-WAIT here. Behind all that was sent.
fn ends_in_time_wait(host: &mut Host, between: (IpAddr, IpAddr), port: u16) -> u32 {
    let answer = comes(&mut host.bench, between, &header(port, Flags::SYN, 1, 0));
    let iss = answer[0].seq;
    comes(&mut host.bench, between, &header(port, Flags::ACK, 2, iss.wrapping_add(1)));
    let (at, id) = host.accept().unwrap();
    assert_eq!(send(host.cpu(at), id, &bytes(1000)), Ok(1000));
    close(host.cpu(at), id).unwrap();
    host.bench.run();
    let behind = iss.wrapping_add(1 + 1000 + 1);
    comes(&mut host.bench, between, &header(port, Flags::ACK | Flags::FIN, 2, behind));
    behind
}

#[test]
fn a_connection_that_follows_one_in_time_wait_begins_behind_all_that_one_has_sent() {
    for between in hosts() {
        let mut host = Host::new(1, between.1, |_| ());
        let behind = ends_in_time_wait(&mut host, between, 5000);
        // No time has passed: the clock of initial sequence numbers is where it was.
        let again = comes(&mut host.bench, between, &header(5000, Flags::SYN, 100, 0));
        assert_eq!((again.len(), again[0].flags, again[0].ack), (1, Flags::SYN | Flags::ACK, 101));
        assert!(Seq(again[0].seq).is_after(Seq(behind)), "{} is not after {behind}", again[0].seq);
        comes(&mut host.bench, between, &header(5000, Flags::ACK, 101, again[0].seq.wrapping_add(1)));
        assert!(host.accept().is_some());
    }
}

#[test]
fn a_cookie_follows_a_connection_in_time_wait_only_if_it_lies_behind_it() {
    for between in hosts() {
        let mut host = Host::new(1, between.1, |_| ());
        let ends: Vec<_> = (0..16).map(|n| (n, ends_in_time_wait(&mut host, between, 5000 + n))).collect();
        for at in 0..HALVES_MAX {
            let port = 6000 + u16::try_from(at % 50_000).unwrap();
            comes(&mut host.bench, between, &header(port, Flags::SYN, u32::try_from(at).unwrap(), 0));
        }
        let mut outcomes = [0; 2];
        for (n, behind) in ends {
            let again = comes(&mut host.bench, between, &header(5000 + n, Flags::SYN, 100, 0));
            outcomes[again.len()] += 1;
            assert!(again.iter().all(|answer| Seq(answer.seq).is_after(Seq(behind))), "{again:?}");
        }
        assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
    }
}
