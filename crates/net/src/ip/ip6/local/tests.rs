use core::net::Ipv6Addr;

use wire::Protocol;

use crate::base::drop::DropReason;
use crate::testkit::{Bench, addr6, build};

const NO_NEXT: u8 = Protocol::NO_NEXT.0;
const DESTINATION: u8 = Protocol::DESTINATION_OPTIONS.0;

/// Returns the drop reasons when `payload` comes to `dst` behind an IPv6 header with next header `first`.
fn drops(dst: Ipv6Addr, first: Protocol, payload: &[u8]) -> Vec<(DropReason, u64)> {
    let mut bench = Bench::new(1);
    bench.inject(1, build::frame(1, &build::ip(addr6(1, 9).into(), dst.into(), first, 255, payload)));
    bench.run();
    bench.drops()
}

fn reason(first: Protocol, payload: &[u8]) -> DropReason {
    let drops = drops(addr6(1, 1), first, payload);
    assert_eq!(drops.len(), 1, "{drops:?}");
    drops[0].0
}

#[test]
fn a_chain_without_an_upper_layer_ends_in_silence() {
    assert_eq!(reason(Protocol::NO_NEXT, &[]), DropReason::NoProtocol);
    assert_eq!(
        reason(Protocol::DESTINATION_OPTIONS, &[NO_NEXT, 0, 1, 4, 0, 0, 0, 0]),
        DropReason::NoProtocol
    );
    assert_eq!(reason(Protocol(200), &[]), DropReason::NoProtocol);
}

#[test]
fn the_longest_chains_are_not_followed() {
    let chain = |headers: usize| {
        let mut chain = [DESTINATION, 0, 1, 4, 0, 0, 0, 0].repeat(headers);
        let last = chain.len() - 8;
        chain[last] = NO_NEXT;
        chain
    };
    assert_eq!(reason(Protocol::DESTINATION_OPTIONS, &chain(8)), DropReason::NoProtocol);
    assert_eq!(reason(Protocol::DESTINATION_OPTIONS, &chain(9)), DropReason::Ip6TooManyExtensions);
    assert_eq!(reason(Protocol::DESTINATION_OPTIONS, &chain(160)), DropReason::Ip6TooManyExtensions);
    let options = [&[NO_NEXT, 100][..], &[0; 806]].concat();
    assert_eq!(reason(Protocol::DESTINATION_OPTIONS, &options), DropReason::Ip6TooManyExtensions);
}

#[test]
fn a_routing_header_with_segments_left_is_not_obeyed() {
    for kind in [0, 2, 3, 4, 200] {
        let header = |left| [&[NO_NEXT, 2, kind, left, 0, 0, 0, 0][..], &addr6(1, 7).octets()].concat();
        let mut bench = Bench::new(1);
        let packet = build::ip(addr6(1, 9).into(), addr6(1, 1).into(), Protocol::ROUTING, 64, &header(1));
        bench.inject(1, build::frame(1, &packet));
        bench.run();
        assert_eq!(bench.drops(), [(DropReason::Ip6BadExtension, 1)]);
        let told = bench.sent(1);
        let parameter_problem = [&[4, 0][..], &told[0][56..58], &42_u32.to_be_bytes()].concat();
        assert_eq!((told.len(), &told[0][54..62]), (1, &parameter_problem[..]));
        assert_eq!(reason(Protocol::ROUTING, &header(0)), DropReason::NoProtocol);
    }
}

#[test]
fn unknown_destination_options_are_treated_as_their_type_says() {
    let header = |kind| [NO_NEXT, 0, kind, 4, 0, 0, 0, 0];
    assert_eq!(reason(Protocol::DESTINATION_OPTIONS, &header(0x1e)), DropReason::NoProtocol);
    for kind in [0x5e, 0x9e, 0xde] {
        assert_eq!(reason(Protocol::DESTINATION_OPTIONS, &header(kind)), DropReason::Ip6UnknownOption);
    }
}

#[test]
fn discovery_in_an_atomic_fragment_is_ignored() {
    let solicit = wire::nd::Message::NeighborSolicit { target: addr6(1, 1) };
    let mut body = vec![0; 64];
    let len = solicit.emit(addr6(1, 9), addr6(1, 1), [], &mut body).unwrap();
    body.truncate(len);
    let atomic = [&[Protocol::ICMP6.0, 0, 0, 0, 0, 0, 0, 7][..], &body].concat();
    assert_eq!(reason(Protocol::FRAGMENT, &atomic), DropReason::NdFragmented);
    assert_eq!(drops(addr6(1, 1), Protocol::ICMP6, &body), []);
}

#[test]
fn discovery_with_a_wrong_checksum_is_ignored() {
    let mut body = [0; 24];
    body[0] = 135;
    body[8..24].copy_from_slice(&addr6(1, 1).octets());
    assert_eq!(reason(Protocol::ICMP6, &body), DropReason::IcmpBadChecksum);
}

#[test]
fn no_protocol_unreachable_is_sent_to_a_group() {
    let drops = drops("ff02::1".parse().unwrap(), Protocol(200), &[7; 8]);
    assert_eq!(drops, [(DropReason::NoProtocol, 1)]);
}
