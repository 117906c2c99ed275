//! Errors of ICMP, as a socket is told of them.

use super::*;
use crate::host::pcb::FourTuple;

/// An error of `from` about a datagram that we sent: of IPv4, or of IPv6.
fn report(from: IpAddr, sent: &[u8], four: icmp4::Message, six: icmp6::Message) -> Vec<u8> {
    let quoted = &sent[HEADER_LEN..];
    match from {
        IpAddr::V4(_) => {
            let to = ip4::Header::parse(quoted).unwrap().src;
            ip(from, to.into(), wire::Protocol::ICMP, 64, &[&four.to_bytes(quoted), quoted].concat())
        }
        IpAddr::V6(src) => {
            let to = ip6::Header::parse(quoted).unwrap().src;
            let header = six.to_bytes(src, to, quoted);
            ip(from, to.into(), wire::Protocol::ICMP6, 64, &[&header, quoted].concat())
        }
    }
}

/// The error of either family, the type and the code of each, the error of the socket, what is said besides, and whether any socket is
/// told.
type Case = (icmp4::Message, icmp6::Message, [(u8, u8); 2], Error, u32, bool);

/// Errors of a router.
fn errors() -> [Case; 4] {
    use icmp4::Message as Four;
    use icmp6::Message as Six;
    let big = Error::TooBig { mtu: 1280 };
    [
        (
            Four::Unreachable { code: 1, mtu: 0 },
            Six::Unreachable { code: 3 },
            [(3, 1), (1, 3)],
            Error::HostUnreachable,
            0,
            true,
        ),
        (
            Four::Unreachable { code: 4, mtu: 1280 },
            Six::PacketTooBig { mtu: 1280 },
            [(3, 4), (2, 0)],
            big,
            1280,
            true,
        ),
        (
            Four::TimeExceeded { code: 0 },
            Six::TimeExceeded { code: 0 },
            [(11, 0), (3, 0)],
            Error::HostUnreachable,
            0,
            false,
        ),
        (
            Four::ParameterProblem { code: 0, pointer: 9 },
            Six::ParameterProblem { code: 1, pointer: 6 },
            [(12, 0), (4, 1)],
            Error::HostUnreachable,
            9,
            false,
        ),
    ]
}

#[test]
fn a_socket_for_all_errors_is_told_of_type_code_mtu_and_sender_and_another_of_what_concerns_delivery() {
    for (addr, peer) in families() {
        let router: IpAddr = if addr.is_ipv4() { addr4(1, 9).into() } else { addr6(1, 9).into() };
        for (four, six, kinds, error, mut info, is_for_any) in errors() {
            for all_errors in [true, false] {
                let mut bench = Bench::new(1);
                let mut wanted = to_connect((peer, 7).into());
                (wanted.settings.all_errors, wanted.settings.dont_fragment) = (all_errors, true);
                let id = connect(bench.cpu(), &wanted).unwrap();
                send(bench.cpu(), id, &[1; 1400]).unwrap();
                bench.run();
                let sent = bench.sent(1);
                bench.inject(1, frame_from(1, router, &report(router, &sent[0], four, six)));
                bench.run();
                let (kind, code) = kinds[usize::from(!addr.is_ipv4())];
                if kind == 4 {
                    info = 6;
                }
                let icmp = Some(Icmp { from: router, kind, code, info });
                let expected = Failure { to: (peer, 7).into(), error, icmp };
                let expected = (all_errors || is_for_any).then_some(expected);
                let mut quote = Vec::new();
                let told = failure_with_quote(bench.cpu(), id, &mut quote);
                assert_eq!(told, expected, "{kind} {code} {all_errors}");
                // As much of the datagram as there is room for.
                let kept = if all_errors { QUOTE_MAX } else { 0 };
                assert_eq!(quote, vec![1; kept], "{kind} {code} {all_errors}");
                assert_eq!(failure(bench.cpu(), id), None);
            }
        }
    }
}

#[test]
fn what_the_path_does_not_take_is_told_the_socket_though_the_cpu_that_has_made_it_did_not_know_yet() {
    for ((addr, peer), dont_fragment) in families().into_iter().flat_map(|pair| [(pair, true), (pair, false)])
    {
        let router: IpAddr = if addr.is_ipv4() { addr4(1, 9).into() } else { addr6(1, 9).into() };
        let mut bench = Bench::with(1, 8, |_| ());
        let mut wanted = to_bind(addr);
        wanted.settings.dont_fragment = true;
        let ids = everywhere(&mut bench, &wanted);
        let mut tried = 0;
        for to in (1..=20).map(|port| SocketAddr::new(peer, port)) {
            let owner =
                bench.cpu().placement.owner(FourTuple::new((addr, PORT).into(), to, 0).flow()).index();
            let from = (owner + 1) % ids.len();
            set_whole(&mut bench, &ids, true);
            send_to(cpu(&mut bench, from), ids[from], to, &[7; 1400]).unwrap();
            bench.run();
            let sent = bench.sent(1);
            let (four, six) = (
                icmp4::Message::Unreachable { code: 4, mtu: 1280 },
                icmp6::Message::PacketTooBig { mtu: 1280 },
            );
            bench.inject(1, frame_from(1, router, &report(router, &sent[0], four, six)));
            // The sender is in the middle of a turn meanwhile.
            for at in (0..3).flat_map(|_| 0..ids.len()).filter(|at| *at != from) {
                bench.netisrs[at].turn(bench.now);
            }
            let told = failure(cpu(&mut bench, owner), ids[owner]);
            set_whole(&mut bench, &ids, dont_fragment);
            let long = send_to(cpu(&mut bench, from), ids[from], to, &[8; 1400]);
            bench.run();
            let later = failure(cpu(&mut bench, owner), ids[owner]);
            let frames = bench.sent(1).len();
            if told.is_none() {
                // The error came by the sender's CPU.
                continue;
            }
            tried += 1;
            assert_eq!(long, Ok(()));
            let expected = Failure { to, error: Error::TooBig { mtu: 1280 }, icmp: None };
            assert_eq!(later, dont_fragment.then_some(expected));
            // Routers may cut one of IPv4.
            let cut = if peer.is_ipv4() { 1 } else { 2 };
            assert_eq!(frames, if dont_fragment { 0 } else { cut });
            // It knows now.
            let long = send_to(cpu(&mut bench, from), ids[from], to, &[9; 1400]);
            assert_eq!(long.is_err(), dont_fragment);
            bench.run();
            bench.forget_sent();
        }
        assert!(tried >= 10, "{tried}");
        assert_eq!(bench.dropped(DropReason::TooBig), if dont_fragment { tried } else { 0 });
    }
}

/// On each CPU, datagrams must not be cut, or may be.
fn set_whole(bench: &mut Bench, ids: &[Id], dont_fragment: bool) {
    for (at, id) in ids.iter().enumerate() {
        change(cpu(bench, at), *id, |settings| settings.dont_fragment = dont_fragment).unwrap();
    }
}
