//! Errors of ICMP, as a socket is told of them.

use super::*;

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
