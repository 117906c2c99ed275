//! Attacks on connections that are about to be.

use std::collections::BTreeSet;

use net::count::Count;
use net::drop::DropReason;
use net::tcp::{self, Connect, HALVES_MAX, IpTxParams};
use sim::builder::{self, Ip};
use sim::plan::Family;
use sim::station::Content;
use wire::tcp::{Flags, Header, Options};

use super::*;

/// Bytes that a half-open connection may take, with what finds it.
const HALF_MAX: usize = 300;

fn syn(ports: [u16; 2]) -> Header {
    Hand { ports, seq: 1000, ack: 0, window: 1024 }.header(Flags::SYN)
}

fn count(lab: &mut Lab, event: Count) -> u64 {
    lab.world.of(lab.host).count(event)
}

#[test]
fn a_syn_flood_is_bounded_and_clients_still_connect() {
    for family in Family::BOTH {
        let mut lab = Lab::new("syn_flood", family);
        let before = lab.memory();
        for n in 0..40_000_u32 {
            let [.., high, low] = (n + 3000).to_be_bytes();
            lab.send(&syn([u16::from_be_bytes([high, low]), ECHO]), &[]);
            if n % 100 == 0 {
                lab.run_for(MS);
            }
        }
        let halves = lab.connections();
        assert_eq!(halves, 2 * HALVES_MAX, "as many as there may be");
        let each = (lab.memory() - before) / halves;
        assert!(each <= HALF_MAX, "{each} bytes for each");
        assert!(count(&mut lab, Count::TcpCookiesSent) > 8000);
        lab.answers();
        assert!(count(&mut lab, Count::TcpCookiesTaken) > 0, "{family:?}");
        lab.end();
    }
}

#[test]
fn acknowledgments_of_cookies_that_were_never_sent_begin_nothing() {
    for family in Family::BOTH {
        let mut lab = Lab::new("bogus_cookies", family);
        // Cookies are looked for only when some were sent.
        for n in 0..40_000_u32 {
            let [.., high, low] = (n + 3000).to_be_bytes();
            lab.send(&syn([u16::from_be_bytes([high, low]), DISCARD]), &[]);
            if n % 100 == 0 {
                lab.run_for(MS);
            }
        }
        lab.run_for(10 * MS);
        assert!(count(&mut lab, Count::TcpCookiesSent) > 0);
        for n in 0..20_000_u32 {
            let ports = [u16::try_from(n % 2000).unwrap() + 1, ECHO];
            let hand = Hand { ports, seq: n, ack: n.wrapping_mul(0x9e37_79b9), window: 1024 };
            lab.send(&hand.header(Flags::ACK), b"let me in");
            if n % 100 == 0 {
                lab.run_for(MS);
            }
        }
        assert_eq!(count(&mut lab, Count::TcpCookiesTaken), 0);
        assert!(lab.held.is_empty());
        let sent = count(&mut lab, Count::TcpResetsSent);
        assert!(sent < 300, "{sent} resets");
        lab.run_for(2 * SECOND);
        lab.end();
    }
}

#[test]
fn a_thousand_initial_sequence_numbers_say_nothing_of_the_next() {
    for family in Family::BOTH {
        let mut lab = Lab::new("initial_numbers", family);
        let numbers: Vec<u32> = (0..1000).map(|n| lab.ask(&syn([4000 + n, DISCARD]), &[])[0].seq).collect();
        let steps: Vec<u32> = numbers.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
        let gcd = steps.iter().fold(0, |a, b| gcd(a, *b));
        assert_eq!(gcd, 1, "no common step");
        assert!(steps.iter().collect::<BTreeSet<_>>().len() > 990, "no step twice");
        // A clock alone would go on by a few thousand each time: all steps would be in one of sixteen equal parts.
        let mut parts = [0; 16];
        steps.iter().for_each(|step| parts[(step >> 28) as usize] += 1);
        assert!(parts.iter().all(|part| (30..100).contains(part)), "{parts:?}");
        // Nor does the same conversation, but for the clock of RFC 6528: four microseconds a number.
        lab.run_for(120 * SECOND);
        let again = lab.ask(&syn([4000, DISCARD]), &[])[0].seq.wrapping_sub(numbers[0]);
        assert!((30_000_000..32_000_000).contains(&again), "{again}");
        lab.end();
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[test]
fn the_ports_of_our_connections_are_drawn_from_all_of_them() {
    for family in Family::BOTH {
        let mut lab = Lab::new("ports", family);
        let [_, foe] = lab.addrs();
        let (settings, tx_params) = (Default::default(), IpTxParams::default());
        let wanted =
            Connect { remote: (foe, 80).into(), local: None, port: None, zone: 0, settings, tx_params };
        let connect = |lab: &mut Lab| {
            lab.on(0, |cpu| {
                let id = tcp::connect(cpu, &wanted).unwrap();
                let port = tcp::connection(cpu, id).unwrap().0.local_port;
                tcp::abort(cpu, id).unwrap();
                port
            })
        };
        let ports: Vec<u16> = (0..1600).map(|_| connect(&mut lab)).collect();
        let first = *net::pcb::EPHEMERAL.start();
        // Sixteen equal parts: with as many degrees of freedom less one, chi squared is above 37.7 once in a thousand times.
        let mut parts = [0_f64; 16];
        let width = (usize::from(u16::MAX - first) + 1).div_ceil(16);
        ports.iter().for_each(|port| parts[usize::from(port - first) / width] += 1.0);
        let chi2: f64 = parts.iter().map(|part| (part - 100.0).powi(2) / 100.0).sum();
        assert!(chi2 < 37.7, "{chi2}: {parts:?}");
        let in_turn = ports.windows(2).filter(|pair| pair[1].abs_diff(pair[0]) < 16).count();
        assert!(in_turn < 16, "{in_turn} are near the one before");
        lab.end();
    }
}

#[test]
fn what_comes_with_a_syn_is_not_read_before_the_connection_stands() {
    for family in Family::BOTH {
        let mut lab = Lab::new("syn_with_data", family);
        let mut hand = Hand { ports: [4000, ECHO], seq: 1000, ack: 0, window: 1024 };
        let got = lab.ask(&hand.header(Flags::SYN), b"early");
        assert_eq!((got.len(), got[0].ack), (1, 1001), "the SYN is acknowledged, and not what came with it");
        assert!(lab.held.is_empty());
        (hand.seq, hand.ack) = (1001, got[0].seq.wrapping_add(1));
        assert_eq!(lab.ask(&hand.header(Flags::ACK), &[]), [], "and is not there when it stands");
        let got = lab.ask(&hand.header(Flags::ACK | Flags::PSH), b"early");
        assert_eq!(got.iter().map(|got| got.len).sum::<usize>(), 5, "until it comes again");
        lab.end();
    }
}

#[test]
fn a_handshake_that_is_split_makes_one_connection_and_no_more() {
    for family in Family::BOTH {
        let mut lab = Lab::new("split_handshake", family);
        let [_, foe] = lab.addrs();
        let (settings, tx_params) = (Default::default(), IpTxParams::default());
        let wanted =
            Connect { remote: (foe, 80).into(), local: None, port: None, zone: 0, settings, tx_params };
        lab.heard();
        let id = lab.on(0, |cpu| tcp::connect(cpu, &wanted).unwrap());
        lab.run_for(2 * MS);
        let ours = lab.heard()[0];
        // In place of SYN,ACK: an ACK, and then a SYN, as in a simultaneous open; with data that must wait.
        let mut hand = Hand { ports: ours.ports, seq: 500, ack: ours.seq.wrapping_add(1), window: 1024 };
        assert_eq!(lab.ask(&hand.header(Flags::ACK), &[]), [], "which alone acknowledges nothing");
        let got = lab.ask(&hand.header(Flags::SYN), b"early");
        assert_eq!(got[0].flags, Flags::SYN | Flags::ACK);
        assert_eq!(lab.on(0, |cpu| tcp::read(cpu, id, &mut [0; 9])), Err(net::sock::Error::WouldBlock));
        hand.seq += 1;
        lab.ask(&hand.header(Flags::ACK), b"early");
        assert_eq!(lab.on(0, |cpu| tcp::read(cpu, id, &mut [0; 9])), Ok(5));
        assert_eq!(lab.connections(), 1);
        lab.on(0, |cpu| tcp::close(cpu, id)).unwrap();
        lab.end();
    }
}

#[test]
fn a_segment_from_ourselves_to_ourselves_that_comes_by_the_cable_is_dropped() {
    for family in Family::BOTH {
        let mut lab = Lab::new("land", family);
        let [host, _] = lab.addrs();
        let loopback = if family == Family::V4 { "127.0.0.1" } else { "::1" }.parse().unwrap();
        for src in [host, loopback] {
            lab.throw(&builder::tcp(Ip::new(src, host), &syn([ECHO, ECHO]), &[]));
            lab.throw(&builder::udp(Ip::new(src, host), [ECHO, ECHO], b"ping pong"));
        }
        lab.world.at(lab.foe).heard.clear();
        lab.run_for(SECOND);
        assert_eq!((lab.connections(), lab.heard().len()), (0, 0));
        assert!(!lab.world.at(lab.foe).has_heard(|heard| matches!(heard.what, Content::Udp { .. })));
        let dropped = lab.world.of(lab.host).dropped_in_all();
        assert!(dropped >= 4, "{:?}", lab.world.of(lab.host).drops());
        lab.end();
    }
}

#[test]
fn of_all_flags_only_a_syn_alone_begins_something_with_a_listener() {
    for family in Family::BOTH {
        for (port, is_open) in [(ECHO, true), (4321, false)] {
            let mut lab = Lab::new("flags_of_a_listener", family);
            for flags in (0..=u8::MAX).map(Flags) {
                let ports = [2000 + u16::from(flags.0), port];
                let hand = Hand { ports, seq: 1000, ack: 2000, window: 1024 };
                let header = Header { ack: 2000, urgent: 7, ..hand.header(flags) };
                // Some time, so that no limit of resets is reached.
                lab.run_for(20 * MS);
                let got = lab.ask(&header, &[]);
                let (syn, ack, rst) = (flags.syn(), flags.ack(), flags.rst());
                let is_begun = is_open && syn && !ack && !rst;
                let is_reset = !rst && !is_begun && (!is_open || ack);
                let answers: Vec<Flags> = got.iter().map(|got| got.flags).collect();
                let marks = Flags(answers.first().map_or(0, |first| first.0) & Flags::ECE.0);
                let expected = match (is_begun, is_reset, ack) {
                    (true, ..) => vec![Flags::SYN | Flags::ACK | marks],
                    (_, true, true) => vec![Flags::RST],
                    (_, true, false) => vec![Flags::RST | Flags::ACK],
                    _ => vec![],
                };
                assert_eq!(answers, expected, "{flags} to port {port}");
            }
            let begun = (0..=u8::MAX).map(Flags).filter(|flags| flags.syn() && !flags.ack() && !flags.rst());
            assert_eq!(lab.connections(), if is_open { begun.count() } else { 0 });
            lab.end();
        }
    }
}

#[test]
fn headers_that_cannot_be_are_dropped_and_counted() {
    for family in Family::BOTH {
        let mut lab = Lab::new("tcp_headers", family);
        let [host, foe] = lab.addrs();
        let options = Options { mss: Some(1460), ..Options::NONE };
        let whole = builder::tcp(Ip::new(foe, host), &Header { options, ..syn([4000, ECHO]) }, &[]);
        let at = if family == Family::V4 { 20 } else { 40 };
        let broken = |change: &dyn Fn(&mut [u8])| {
            let mut packet = whole.clone();
            change(&mut packet[at..]);
            mend(&mut packet, at);
            packet
        };
        // Header lengths below five words and beyond the packet; options without, and with impossible lengths.
        for (byte, value) in [(12, 4 << 4), (12, 0), (12, 15 << 4), (21, 0), (21, 1), (21, 40)] {
            lab.throw(&broken(&|tcp| tcp[byte] = value));
        }
        lab.run_for(10 * MS);
        assert_eq!(lab.world.of(lab.host).dropped(DropReason::TcpMalformed), 6);
        let mut corrupt = whole.clone();
        corrupt[at + 16] ^= 1;
        lab.throw(&corrupt);
        corrupt[at + 16..at + 18].fill(0);
        lab.throw(&corrupt);
        lab.run_for(10 * MS);
        assert_eq!(lab.world.of(lab.host).dropped(DropReason::TcpBadChecksum), 2);
        assert_eq!((lab.connections(), lab.heard().len()), (0, 0));
        // Bytes behind the end of the options do not count, nor do forty NOPs or an unknown kind.
        lab.throw(&broken(&|tcp| tcp[20..24].copy_from_slice(&[0, 3, 99, 1])));
        lab.throw(&broken(&|tcp| (tcp[1], tcp[20..24].copy_from_slice(&[1, 1, 1, 1])).1));
        lab.throw(&broken(&|tcp| (tcp[1] += 1, tcp[20..24].copy_from_slice(&[253, 4, 7, 7])).1));
        lab.run_for(10 * MS);
        assert!(lab.heard().iter().all(|got| got.flags == Flags::SYN | Flags::ACK));
        lab.end();
    }
}

/// Puts the right checksum into a segment whose header may be nonsense.
fn mend(packet: &mut [u8], at: usize) {
    use wire::Protocol;
    use wire::checksum::Sum;
    let (head, segment) = packet.split_at_mut(at);
    segment[16..18].fill(0);
    let len = u16::try_from(segment.len()).unwrap();
    let pseudo = match at {
        20 => Sum::pseudo_v4(addr(&head[12..]), addr(&head[16..]), Protocol::TCP, len),
        _ => Sum::pseudo_v6(addr6(&head[8..]), addr6(&head[24..]), Protocol::TCP, len.into()),
    };
    let sum = pseudo.bytes(segment).checksum();
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
}

fn addr(bytes: &[u8]) -> core::net::Ipv4Addr {
    (*bytes.first_chunk::<4>().unwrap()).into()
}

fn addr6(bytes: &[u8]) -> core::net::Ipv6Addr {
    (*bytes.first_chunk::<16>().unwrap()).into()
}
