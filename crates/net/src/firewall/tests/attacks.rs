//! Attacks on firewalls: guessed resets, forged errors, floods without a connection, and fragments that hide
//! something.

use super::*;
use crate::testkit::rules::Script;

/// A stateful firewall, as most people write it.
const STATEFUL: &str = "add check-state\nadd allow tcp from any to any 80 in recv mem1 setup keep-state\n\
    add allow udp from any to any 53 in recv mem1 keep-state\n";
/// First sequence numbers of client and server.
const CLIENT: u32 = 100;
const SERVER: u32 = 700;
const PORTS: (u16, u16) = (1000, 80);
const BACK: (u16, u16) = (80, 1000);

/// The firewall, denying what lies outside of windows if it is `strict`, and one open connection.
fn with_connection(family: (IpAddr, IpAddr), strict: bool) -> Bench {
    let mut bench = Bench::new(2);
    let mut script: Script = rules(&(DISCOVERY.to_owned() + STATEFUL));
    script.settings.strict = strict;
    bench.set_rules(&mut script);
    open(&mut bench, family, PORTS.0);
    bench
}

/// A handshake; answers whether it was let through.
fn open(bench: &mut Bench, family: (IpAddr, IpAddr), port: u16) -> bool {
    let (there, here) = ((port, PORTS.1), (PORTS.1, port));
    passes(bench, 1, &tcp(family, there, Flags::SYN, CLIENT, 0))
        && passes(bench, 2, &tcp(back(family), here, with_ack(Flags::SYN), SERVER, CLIENT + 1))
        && passes(bench, 1, &tcp(family, there, Flags::ACK, CLIENT + 1, SERVER + 1))
}

/// Whether the server still reaches the client, long after a closed connection would have been forgotten.
fn is_open(bench: &mut Bench, family: (IpAddr, IpAddr)) -> bool {
    bench.advance(Duration::from_secs(100));
    bench.forget_sent();
    passes(bench, 2, &tcp(back(family), BACK, Flags::ACK, SERVER + 1, CLIENT + 1))
}

fn states(bench: &mut Bench) -> usize {
    bench.cpu().firewall.as_ref().unwrap().states().len()
}

/// Blind reset (RFC 5961 §3.2). Only one with exactly the next sequence number ends the connection; one elsewhere in the
/// window is passed on for the host to ask back, and one outside of it is denied if rules are strict.
#[test]
fn resets_that_are_guessed_do_not_end_a_connection_and_the_right_one_does() {
    for family in families() {
        for strict in [false, true] {
            let mut bench = with_connection(family, strict);
            for guess in 0..2000_u32 {
                let seq = guess.wrapping_mul(0x0010_0001).wrapping_add(CLIENT + 2);
                let reset = tcp(family, PORTS, Flags::RST, seq, 0);
                let is_in_window = seq.wrapping_sub(CLIENT + 1) < 9000;
                assert_eq!(passes(&mut bench, 1, &reset), is_in_window || !strict, "{seq}");
            }
            assert!(is_open(&mut bench, family));
            assert!(passes(&mut bench, 1, &tcp(family, PORTS, Flags::RST, CLIENT + 1, 0)));
            assert!(!is_open(&mut bench, family), "that one was the client's");
        }
    }
}

/// Blind SYN (RFC 5961 §4.2): the host that gets it asks back. The state is neither ended nor replaced.
#[test]
fn a_syn_into_an_open_connection_neither_ends_it_nor_takes_its_place() {
    for family in families() {
        for strict in [false, true] {
            let mut bench = with_connection(family, strict);
            for guess in 0..500_u32 {
                let seq = guess.wrapping_mul(0x0083_0001);
                assert!(
                    passes(&mut bench, 1, &tcp(family, PORTS, Flags::SYN, seq, 0)),
                    "the server asks back"
                );
                let challenge = tcp(back(family), BACK, Flags::ACK, SERVER + 1, CLIENT + 1);
                assert!(passes(&mut bench, 2, &challenge));
                let other_way = tcp(back(family), BACK, with_ack(Flags::SYN), seq, seq);
                let passed = passes(&mut bench, 2, &other_way);
                assert!(!passed || !strict);
            }
            assert_eq!((states(&mut bench), bench.counted(Count::StateRecycled)), (1, 0));
            assert!(is_open(&mut bench, family));
        }
    }
}

/// Floods of segments that belong to nothing: none of them makes a state, and each dies at its first rule that fits.
#[test]
fn floods_of_segments_of_no_connection_make_no_states() {
    for family in families() {
        let mut bench = with_connection(family, false);
        let kinds = [Flags::ACK, Flags::FIN, Flags::RST, with_ack(Flags::SYN), Flags(0), Flags(0xff)];
        for n in 0..600_u16 {
            let flags = kinds[usize::from(n) % kinds.len()];
            assert!(!passes(&mut bench, 1, &tcp(family, (2000 + n, 80), flags, n.into(), 9)), "{flags:?}");
        }
        assert_eq!((states(&mut bench), bench.counted(Count::StateInstalled)), (1, 1));
        assert_eq!(bench.drops(), [(DropReason::FirewallDeny, 600)]);
        assert!(is_open(&mut bench, family));
    }
}

/// Forged segments with impossible numbers do not extend the state's life.
#[test]
fn segments_outside_of_the_window_keep_no_connection_alive() {
    for family in families() {
        let mut bench = with_connection(family, false);
        for _ in 0..31 {
            bench.advance(Duration::from_secs(10));
            bench.forget_sent();
            let forged = tcp(family, PORTS, Flags::ACK, CLIENT + 0x4000_0000, SERVER + 1);
            passes(&mut bench, 1, &forged);
        }
        assert_eq!(states(&mut bench), 0, "300 s are over");
    }
}

/// Naptha: connections that are opened and then left alone, so that they fill the other end's tables. Each source has a
/// few of them, for as long as no keepalive is answered.
#[test]
fn silent_connections_are_few_and_time_out() {
    for family in families() {
        let mut bench = router(
            "add check-state\nadd allow tcp from any to any 80 in recv mem1 setup limit src-addr 10\n",
        );
        let opened = (0..50).filter(|n| open(&mut bench, family, 2000 + n)).count();
        assert_eq!((opened, states(&mut bench)), (10, 10));
        bench.advance(Duration::from_secs(302));
        bench.forget_sent();
        assert_eq!(states(&mut bench), 0);
        assert!(open(&mut bench, family, 3000));
    }
}

/// Errors with invented quotes: another flow, a sequence number that was never sent, another host's packet, a
/// direction that was silent, less than ports. None passes, and what is real does.
#[test]
fn an_error_that_quotes_what_was_never_sent_is_denied() {
    for family in families() {
        let (src, dst) = family;
        let router: IpAddr = if src.is_ipv4() { addr4(2, 200).into() } else { addr6(2, 200).into() };
        let other: IpAddr = if src.is_ipv4() { addr4(1, 77).into() } else { addr6(1, 77).into() };
        let mut bench = with_connection(family, false);
        assert!(passes(&mut bench, 1, &udp(family, (4000, 53))));
        let sent = |ports, seq| tcp(family, ports, Flags::ACK, seq, SERVER + 1);
        let forged = [
            ("another port", sent((1001, 80), CLIENT + 1)),
            ("a number that was never sent", sent(PORTS, CLIENT + 0x1000_0000)),
            ("one that is long acknowledged", sent(PORTS, CLIENT.wrapping_sub(0x1000_0000))),
            ("another source", tcp((other, dst), PORTS, Flags::ACK, CLIENT + 1, SERVER + 1)),
            ("another destination", udp((src, router), (4000, 53))),
            ("another protocol", udp(family, PORTS)),
            ("nothing with ports", build::ip(src, dst, Protocol::GRE, 64, &[0; 20])),
        ];
        for (what, quoted) in forged {
            assert!(!passes(&mut bench, 2, &error_about(&quoted, router)), "{what}");
        }
        // An answer to the client that the server never sent, told to the server.
        let unanswered = udp(back(family), (53, 4000));
        assert!(!passes(&mut bench, 1, &error_about(&unanswered, other)), "a silent direction");
        // To a host that did not send the quoted packet.
        let mut misdirected = error_about(&sent(PORTS, CLIENT + 1), router);
        readdress(&mut misdirected, other);
        assert!(!passes(&mut bench, 2, &misdirected), "for somebody else");
        assert!(passes(&mut bench, 2, &error_about(&sent(PORTS, CLIENT + 1), router)));
        assert!(passes(&mut bench, 2, &error_about(&udp(family, (4000, 53)), router)));
        assert!(is_open(&mut bench, family), "an error ends no connection");
    }
}

/// Only 128 bytes of a quote are examined: ports behind more headers than that are not found.
#[test]
fn an_error_about_a_packet_with_very_long_extension_headers_belongs_to_no_flow() {
    let family = families()[1];
    for (len, is_found) in [(8, true), (64, true), (88, false)] {
        let mut bench = router(STATEFUL);
        let whole = udp(family, (4000, 53));
        let mut options = vec![Protocol::UDP.0, u8::try_from(len / 8 - 1).unwrap(), 1];
        options.push(u8::try_from(len - 4).unwrap());
        options.resize(len, 0);
        let body = [&options[..], &whole[40..]].concat();
        let sent = build::ip(family.0, family.1, Protocol::DESTINATION_OPTIONS, 64, &body);
        assert!(passes(&mut bench, 1, &sent));
        assert_eq!(passes(&mut bench, 2, &error_about(&sent, addr6(2, 200).into())), is_found, "{len}");
    }
}

/// All states of a flood end in the same moment: a turn ends no more of them than it has time for.
#[test]
fn states_that_end_together_are_ended_a_bounded_number_a_turn() {
    for family in families() {
        let mut bench = router("add allow udp from any to any keep-state\n");
        for port in 0..5000 {
            bench.inject(1, build::frame(1, &udp(family, (port, 53))));
            bench.run();
        }
        bench.forget_sent();
        let (mut left, mut turns) = (states(&mut bench), 0);
        assert_eq!(left, 5000);
        bench.now = bench.now + Duration::from_secs(15);
        while left > 0 && turns < 100 {
            let now = bench.now + Duration::from_micros(1);
            bench.now = now;
            bench.netisrs[0].turn(now);
            let stay = states(&mut bench);
            assert!(left - stay <= 1024, "{} in one turn", left - stay);
            (left, turns) = (stay, turns + 1);
        }
        assert!((5..100).contains(&turns), "{turns} turns");
    }
}

/// Gives an error of ICMP another destination, and right checksums.
fn readdress(error: &mut Vec<u8>, to: IpAddr) {
    match to {
        IpAddr::V4(to) => {
            error[16..20].copy_from_slice(&to.octets());
            build::fix_ip4_checksum(error);
        }
        IpAddr::V6(to) => {
            let (from, body) =
                (core::net::Ipv6Addr::from(*error[8..].first_chunk::<16>().unwrap()), &error[48..]);
            let header = icmp6::Message::Unreachable { code: 3 }.to_bytes(from, to, body);
            *error = build::ip(from.into(), to.into(), Protocol::ICMP6, 60, &[&header, body].concat());
        }
    }
}

/// Bytes `at..to` of a packet's payload as a fragment; the last one of them if `to` is their end.
fn fragment(packet: &[u8], id: u16, at: usize, to: usize) -> Vec<u8> {
    let header = if packet[0] >> 4 == 4 { 20 } else { 40 };
    let (payload, is_last) = (&packet[header..], to == packet.len() - header);
    let part = &payload[at..to];
    let word = u16::try_from(at).unwrap();
    if header == 20 {
        let mut fragment = [&packet[..20], part].concat();
        let len = u16::try_from(fragment.len()).unwrap();
        fragment[2..4].copy_from_slice(&len.to_be_bytes());
        fragment[4..6].copy_from_slice(&id.to_be_bytes());
        fragment[6..8].copy_from_slice(&((word / 8) | if is_last { 0 } else { 0x2000 }).to_be_bytes());
        build::fix_ip4_checksum(&mut fragment);
        return fragment;
    }
    let mut between = [packet[6], 0, 0, 0, 0, 0, 0, 0];
    between[2..4].copy_from_slice(&(word | u16::from(!is_last)).to_be_bytes());
    between[6..8].copy_from_slice(&id.to_be_bytes());
    let addr = |at: usize| core::net::Ipv6Addr::from(*packet[at..].first_chunk::<16>().unwrap());
    build::ip(addr(8).into(), addr(24).into(), Protocol::FRAGMENT, 64, &[&between[..], part].concat())
}

/// Tiny first fragment (RFC 1858 §3, RFC 7112 §5): what rules ask for must be in it, wherever it is cut.
#[test]
fn a_first_fragment_passes_only_with_all_of_its_transport_header() {
    for (src, dst) in families() {
        let segment = tcp((src, dst), (1, 80), Flags::SYN, 1, 0);
        let datagram = build::udp(src, dst, (1, 53), &[7; 40]);
        let echo = build::echo_request(src, dst, 1, 1, &[7; 40]);
        let cases = [(&segment, 20), (&datagram, 8), (&echo, 4)];
        for (packet, header) in cases {
            let mut bench = router("add count ip from any to any frag\nadd allow ip from any to any\n");
            let len = packet.len() - if src.is_ipv4() { 20 } else { 40 };
            let mut died = 0;
            for cut in (8..len).step_by(8) {
                let passed = passes(&mut bench, 1, &fragment(packet, 1, 0, cut));
                assert_eq!(passed, cut >= header, "{cut} of {header}");
                died += u64::from(!passed);
            }
            assert_eq!(bench.dropped(DropReason::FirewallBogus), died);
        }
    }
}

/// A second fragment that begins where TCP's flags stand would write others over those that rules were asked about
/// (RFC 3128).
#[test]
fn a_fragment_that_would_write_over_the_flags_dies() {
    for (src, dst) in families() {
        let mut bench = router("add allow ip from any to any\n");
        let segment = [tcp((src, dst), (1, 80), Flags::SYN, 1, 0), vec![0; 20]].concat();
        assert!(!passes(&mut bench, 1, &fragment(&segment, 1, 8, 24)));
        assert_eq!(bench.drops(), [(DropReason::FirewallBogus, 1)]);
        assert!(passes(&mut bench, 1, &fragment(&segment, 1, 24, 32)), "data alone");
    }
}

/// Behind extension headers there may be nothing to ask about: of IPv6 a first fragment has all of them.
#[test]
fn a_first_fragment_without_its_whole_header_chain_dies() {
    let (src, dst) = families()[1];
    let mut bench = router("add allow ip from any to any\n");
    // Destination options of 64 bytes, of which the first fragment has 8.
    let mut options = vec![Protocol::TCP.0, 7, 1, 60];
    options.resize(64, 0);
    let packet = build::ip(src, dst, Protocol::DESTINATION_OPTIONS, 64, &[&options[..], &[0; 20]].concat());
    assert!(!passes(&mut bench, 1, &fragment(&packet, 1, 0, 8)));
    assert_eq!(bench.drops(), [(DropReason::FirewallBogus, 1)]);
}

/// Later fragments have no ports: neither a state nor a rule that asks for a port is theirs.
#[test]
fn fragments_do_not_pass_on_the_strength_of_somebody_elses_state() {
    for family in families() {
        let mut bench = with_connection(family, false);
        assert!(passes(&mut bench, 1, &udp(family, (4000, 53))), "there is a state of UDP, too");
        for whole in
            [build::udp(family.0, family.1, (4000, 53), &[9; 64]), tcp(family, PORTS, Flags::ACK, 0, 0)]
        {
            let whole = [whole, vec![0; 32]].concat();
            assert!(!passes(&mut bench, 1, &fragment(&whole, 3, 24, 40)));
        }
        assert!(!passes(
            &mut bench,
            2,
            &fragment(&build::udp(family.1, family.0, (53, 4000), &[9; 64]), 3, 24, 40)
        ));
        assert_eq!(bench.drops(), [(DropReason::FirewallDeny, 3)]);
    }
}

/// A fragment that is all of its datagram (RFC 6946) hides nothing.
#[test]
fn an_atomic_fragment_meets_the_rules_of_the_whole_packet() {
    let family = families()[1];
    let mut bench = router(STATEFUL);
    let atomic = |port| {
        let whole = build::udp(family.0, family.1, (4000, port), b"payload.");
        fragment(&whole, 5, 0, whole.len() - 40)
    };
    assert!(passes(&mut bench, 1, &atomic(53)));
    assert!(!passes(&mut bench, 1, &atomic(54)));
    assert_eq!(states(&mut bench), 1);
    assert!(passes(&mut bench, 2, &udp(back(family), (53, 4000))), "its state is that of the flow");
}

/// Overlapping fragments (RFC 1858 §4, RFC 5722): what rules were asked about is what arrives, or nothing does. Routers
/// put nothing of IPv6 together: what has no ports is denied.
#[test]
fn fragments_that_overlap_never_become_a_datagram_that_rules_have_not_seen() {
    const REASS: &str = "add reass ip from any to any in\n";
    for family in families() {
        let whole = build::udp(family.0, family.1, (4000, 53), &[9; 64]);
        let evil = build::udp(family.0, family.1, (4000, 22), &[6; 64]);
        let mut bench = router(&(REASS.to_owned() + STATEFUL));
        let parts = [fragment(&whole, 7, 0, 24), fragment(&evil, 7, 8, 40), fragment(&evil, 7, 0, 16)];
        for part in parts.iter().chain([&fragment(&whole, 7, 24, 72)]) {
            bench.inject(1, build::frame(1, part));
            bench.run();
        }
        let is_ip4 = family.0.is_ipv4();
        for frame in bench.sent(2) {
            assert!(!is_ip4, "the datagram is dropped as a whole");
            let first = &fragment(&whole, 7, 0, 24);
            assert_eq!(frame[14 + 40..], first[40..], "only what says its ports");
        }
        assert_eq!(bench.dropped(DropReason::ReassOverlap) > 0, is_ip4);
        // Without an overlap it arrives.
        let mut bench = router(&(REASS.to_owned() + STATEFUL));
        [(0, 24), (24, 72)].iter().for_each(|(at, to)| {
            bench.inject(1, build::frame(1, &fragment(&whole, 8, *at, *to)));
            bench.run();
        });
        assert_eq!(bench.sent(2).len(), 1, "the datagram, or its first fragment");
    }
}

/// Ping of death: the last fragment ends behind the 65,535th byte.
#[test]
fn a_datagram_that_would_be_too_long_dies_in_reassembly() {
    let family = families()[0];
    let mut bench = router("add reass ip from any to any in\nadd allow ip from any to any\n");
    let echo = build::echo_request(family.0, family.1, 1, 1, &[7; 1392]);
    for n in 0..48_u16 {
        let mut part = fragment(&echo, 9, 0, if n == 47 { 1400 } else { 1400 - 8 });
        let more = if n == 47 { 0 } else { 0x2000 };
        part[6..8].copy_from_slice(&(more | (n * 174)).to_be_bytes());
        build::fix_ip4_checksum(&mut part);
        bench.inject(1, build::frame(1, &part));
        bench.run();
    }
    assert!(bench.sent(2).is_empty());
    assert_eq!(bench.dropped(DropReason::ReassTooLong), 1);
    bench.advance(Duration::from_secs(40));
    assert_eq!(bench.buffers_out(), 0);
}

/// FragmentSmack: thousands of datagrams of which only a piece comes. They take a bounded place, others pass meanwhile,
/// and in the end all of it is given back.
#[test]
fn pieces_without_end_take_a_bounded_place_and_whole_datagrams_pass() {
    for family in families() {
        let mut bench = router(&("add reass ip from any to any in\n".to_owned() + STATEFUL));
        let whole = build::udp(family.0, family.1, (4000, 53), &[9; 64]);
        for id in 0..5000 {
            bench.inject(1, build::frame(1, &fragment(&whole, id, 24, 40)));
            bench.run();
            assert!(bench.buffers_out() <= 300, "{}", bench.buffers_out());
        }
        bench.forget_sent();
        assert!(passes(&mut bench, 1, &udp(family, (5000, 53))));
        bench.advance(Duration::from_secs(70));
        assert_eq!(bench.buffers_out(), 0);
    }
}
