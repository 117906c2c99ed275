//! Packets from the ends and from the path between them: errors, keepalives, the stack's own replies.

use wire::icmp4;

use super::*;

/// An error from `from` to `to` about `packet`.
fn error(from: IpAddr, to: IpAddr, packet: &[u8]) -> Vec<u8> {
    let quote = &packet[..packet.len().min(64)];
    if from.is_ipv4() {
        let message = icmp4::Message::Unreachable { code: 1, mtu: 0 };
        return build::ip(from, to, Protocol::ICMP, 60, &[&message.to_bytes(quote)[..], quote].concat());
    }
    let (IpAddr::V6(src), IpAddr::V6(dst)) = (from, to) else { unreachable!() };
    let mut bytes = [&[1, 0, 0, 0, 0, 0, 0, 0], quote].concat();
    let len = u32::try_from(bytes.len()).unwrap();
    let sum = Sum::pseudo_v6(src, dst, Protocol::ICMP6, len).bytes(&bytes).checksum();
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    build::ip(from, to, Protocol::ICMP6, 60, &bytes)
}

/// The only packet that left by an interface.
fn only(bench: &mut Bench, ifindex: u16) -> Vec<u8> {
    let mut sent = sent(bench, ifindex);
    assert_eq!(sent.len(), 1);
    sent.pop().unwrap()
}

#[test]
fn errors_about_either_side_reach_the_other_with_the_ends_that_it_knows() {
    for (cpus, cast) in worlds() {
        let text = "add check-state\nadd rdr SERVER,5353 udp from any to FRONT 53 in\n\
                    add allow udp from any to SERVER keep-state\n";
        let mut bench = cast.bench(cpus, text);
        for port in 2000..2030 {
            let (there, inside) = (cast.there(port, 53), cast.redirected(port, 5353));
            assert_eq!(through(&mut bench, 2, &udp(there, b"?")), Some(inside));
            let refused = error(cast.server, cast.client, &udp(inside, b"?"));
            bench.inject(1, build::frame(1, &refused));
            bench.run();
            let told = only(&mut bench, 2);
            assert_eq!(addrs(&told), (cast.front, cast.client), "{cpus} CPUs");
            assert_eq!(ends(&upper(&told)[8..]), there, "what the client sent");
            assert!(is_right(&told));

            assert_eq!(through(&mut bench, 1, &udp(back(inside), b"!")), Some(back(there)));
            let gone = error(cast.client, cast.front, &udp(back(there), b"!"));
            bench.inject(2, build::frame(2, &gone));
            bench.run();
            let told = only(&mut bench, 1);
            assert_eq!(addrs(&told), (cast.client, cast.server));
            assert_eq!(ends(&upper(&told)[8..]), back(inside), "what the server sent");
            assert!(is_right(&told));

            let forged = error(cast.client, cast.front, &udp(back(cast.there(port, 54)), b"!"));
            bench.inject(2, build::frame(2, &forged));
            bench.run();
            assert!(sent(&mut bench, 1).is_empty(), "of a flow that nobody knows");
        }
        assert_eq!(on_their_way(&bench), 0);
    }
}

#[test]
fn nat_keepalives_probe_both_ends_and_unanswered_ones_end_the_state() {
    for (cpus, cast) in worlds() {
        let mut bench = cast.bench(cpus, RULES);
        connect(&mut bench, &cast, 2000);
        let (there, inside) = (cast.there(2000, 80), cast.redirected(2000, 8080));
        for _ in 0..3 {
            bench.advance(Duration::from_secs(290));
            let (to_server, to_client) = (sent(&mut bench, 1), sent(&mut bench, 2));
            assert!(!to_client.is_empty(), "the master asks");
            assert!(to_client.iter().all(|asked| ends(asked) == back(there) && is_right(asked)));
            assert!(to_server.iter().any(|asked| ends(asked) == inside), "the slave asks");
            assert!(to_server.iter().all(|asked| is_right(asked)));
            assert_eq!(through(&mut bench, 2, &tcp(there, ACK, 101, 701)), Some(inside), "the answers pass");
            assert_eq!(through(&mut bench, 1, &tcp(back(inside), ACK, 701, 101)), Some(back(there)));
        }
        bench.advance(Duration::from_secs(310));
        assert_eq!((states(&bench), on_their_way(&bench)), (0, 0));
    }
}

#[test]
fn what_the_stack_itself_answers_to_what_is_redirected_to_it_comes_from_the_front() {
    for (cpus, cast) in worlds() {
        let us: IpAddr = if cast.client.is_ipv4() { addr4(3, 1).into() } else { addr6(3, 1).into() };
        let text = format!(
            "add rdr {us},8080 ip from any to FRONT 80 in recv mem2\nadd allow ip from any to {us} in\n\
             add allow ip from any to any out\n"
        );
        let mut bench = cast.bench(cpus, &text);
        for port in 2000..2020 {
            let there = cast.there(port, 80);
            bench.inject(2, build::frame(2, &tcp(there, SYN, 7, 0)));
            bench.run();
            let reset = only(&mut bench, 2);
            assert_eq!(ends(&reset), back(there), "{cpus} CPUs");
            assert!(is_right(&reset) && upper(&reset)[13] & Flags::RST.0 != 0);
            // Not as fast as errors are limited.
            bench.advance(Duration::from_secs(2));
            bench.inject(2, build::frame(2, &udp(there, b"?")));
            bench.run();
            let refused = only(&mut bench, 2);
            assert_eq!(addrs(&refused), (cast.front, cast.client));
            assert_eq!(ends(&upper(&refused)[8..]), there);
            assert!(is_right(&refused));
        }
        assert_eq!(on_their_way(&bench), 0);
    }
}

#[test]
fn a_state_behind_a_redirection_that_has_none_is_where_the_answers_come() {
    let cast = CASTS[0];
    for (cpus, switch) in CPUS.into_iter().flat_map(|cpus| [(cpus, "enable"), (cpus, "disable")]) {
        let text = format!(
            "{switch} one_pass\nnat 1 config if mem2 redirect_port udp SERVER:5353 53\n\
             add 100 nat 1 udp from any to FRONT in recv mem2\n\
             add 110 nat 1 udp from SERVER to any out xmit mem2\n\
             add 200 allow udp from any to SERVER 5353 keep-state\n\
             add 210 allow udp from FRONT to any out\n"
        );
        let mut bench = cast.bench(cpus, &text);
        for port in 2000..2040 {
            let (there, inside) = (cast.there(port, 53), cast.redirected(port, 5353));
            assert_eq!(through(&mut bench, 2, &udp(there, b"?")), Some(inside));
            let answer = through(&mut bench, 1, &udp(back(inside), b"!"));
            assert_eq!(answer, Some(back(there)), "{cpus} CPUs, {switch}");
            let stranger = cast.redirected(port, 5354);
            assert_eq!(through(&mut bench, 1, &udp(back(stranger), b"!")), None, "nobody asked that");
        }
        assert_eq!(of_kind(&bench, Kind::Keep), 40);
    }
}
