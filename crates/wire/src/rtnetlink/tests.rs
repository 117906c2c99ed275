use super::*;
use core::net::{Ipv4Addr, Ipv6Addr};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{RouteAddress, RouteAttribute};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

/// An attribute, padded.
pub(crate) fn attr(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(value.len() + 4).unwrap();
    let mut bytes = [len.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A message: header and body.
pub(crate) fn message(kind: u16, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(HEADER_LEN + body.len()).unwrap();
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&[1, 4, 7, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn octets(addr: IpAddr) -> Vec<u8> {
    match addr {
        IpAddr::V4(addr) => addr.octets().to_vec(),
        IpAddr::V6(addr) => addr.octets().to_vec(),
    }
}

/// The body of a route of BGP, with these attributes.
pub(crate) fn route(to: IpAddr, len: u8, attrs: &[Vec<u8>]) -> Vec<u8> {
    let family = if to.is_ipv4() { AF_INET } else { AF_INET6 };
    let mut body = vec![family, len, 0, 0, 254, 186, 0, 1, 0, 0, 0, 0];
    body.extend(attr(1, &octets(to)));
    body.extend(attrs.concat());
    body
}

fn next_hop(family: u8, id: u32, attrs: &[Vec<u8>]) -> Vec<u8> {
    let mut body = vec![family, 0, 11, 0, 4, 0, 0, 0];
    body.extend(attr(1, &id.to_ne_bytes()));
    body.extend(attrs.concat());
    body
}

fn only(bytes: &[u8]) -> Content<'_> {
    let mut all = messages(bytes);
    let content = all.next().unwrap().unwrap().content().unwrap();
    assert!(all.next().is_none());
    content
}

fn families() -> [(IpAddr, u8, IpAddr); 2] {
    let v6 = |text: &str| text.parse::<Ipv6Addr>().unwrap().into();
    [
        (Ipv4Addr::new(198, 51, 100, 0).into(), 24, Ipv4Addr::new(10, 0, 0, 1).into()),
        (v6("2001:db8:7::"), 48, v6("fe80::1")),
    ]
}

/// `struct rtnexthop` with a gateway.
fn member(ifindex: u32, weight: u8, flags: u8, via: IpAddr) -> Vec<u8> {
    let via = attr(5, &octets(via));
    let len = u16::try_from(8 + via.len()).unwrap();
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend_from_slice(&[flags, weight - 1]);
    bytes.extend_from_slice(&ifindex.to_ne_bytes());
    bytes.extend(via);
    bytes
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (to, len, via) in families() {
        let single = [attr(5, &octets(via)), attr(4, &3u32.to_ne_bytes()), attr(6, &20u32.to_ne_bytes())];
        let several = [member(3, 1, 0, via), member(4, 9, 4, via)].concat();
        seeds.push(message(24, &route(to, len, &single)));
        seeds.push(message(24, &route(to, len, &[attr(9, &several), attr(15, &1000u32.to_ne_bytes())])));
        seeds.push(message(25, &route(to, len, &[])));
        let family = if to.is_ipv4() { AF_INET } else { AF_INET6 };
        seeds.push(message(104, &next_hop(family, 7, &single[..1])));
    }
    let group = [8u32.to_ne_bytes(), [1, 0, 0, 0], 9u32.to_ne_bytes(), [0; 4]].concat();
    seeds.push(message(104, &next_hop(0, 10, &[attr(2, &group)])));
    seeds.push(message(105, &next_hop(0, 10, &[])));
    seeds.push(message(
        16,
        &[&[0; 4][..], &[7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], &attr(3, b"eth0\0")].concat(),
    ));
    let framed: Vec<Vec<u8>> =
        seeds.iter().map(|seed| [&crate::fpm::header(seed.len()).unwrap()[..], seed].concat()).collect();
    seeds.extend(framed);
    seeds
}

#[test]
fn a_route_with_one_gateway_is_read() {
    for (to, len, via) in families() {
        let attrs = [
            attr(5, &octets(via)),
            attr(4, &3u32.to_ne_bytes()),
            attr(6, &20u32.to_ne_bytes()),
            attr(8, &attr(2, &1400u32.to_ne_bytes())),
        ];
        let bytes = message(24, &route(to, len, &attrs));
        let Content::NewRoute(route) = only(&bytes) else { panic!() };
        assert_eq!((route.to, route.len, route.table, route.protocol), (to, len, 254, 186));
        assert_eq!((route.priority, route.mtu, route.action), (20, 1400, Action::Unicast));
        let hop = Hop { via: Some(via), ..Hop::with(0, 3, 1) };
        assert_eq!(route.hops().collect::<Vec<_>>(), [hop]);
    }
}

#[test]
fn several_gateways_are_read_with_their_weights_and_flags() {
    for (to, len, via) in families() {
        let several = [member(3, 1, 0, via), member(4, 9, 4, via), member(5, 1, 16, via)].concat();
        let bytes = message(24, &route(to, len, &[attr(9, &several)]));
        let Content::NewRoute(route) = only(&bytes) else { panic!() };
        let hop = |flags, ifindex, weight| Hop { via: Some(via), ..Hop::with(flags, ifindex, weight) };
        assert_eq!(route.hops().collect::<Vec<_>>(), [hop(0, 3, 1), hop(4, 4, 9), hop(16, 5, 1)]);
        assert!(route.hops().nth(1).unwrap().is_onlink && route.hops().nth(2).unwrap().is_dead);
    }
}

#[test]
fn an_ipv4_route_over_an_ipv6_gateway_is_read() {
    let [(to, len, _), (_, _, via)] = families();
    let bytes = message(24, &route(to, len, &[attr(18, &[&[10, 0][..], &octets(via)].concat())]));
    let Content::NewRoute(route) = only(&bytes) else { panic!() };
    assert_eq!(route.hops().next().unwrap().via, Some(via));
}

#[test]
fn next_hops_groups_and_their_end_are_read() {
    let [(_, _, via), _] = families();
    let single = message(104, &next_hop(AF_INET, 7, &[attr(6, &octets(via)), attr(5, &3u32.to_ne_bytes())]));
    let Content::NewNextHop(NextHop { id: 7, kind: NextHopKind::Hop(hop) }) = only(&single) else { panic!() };
    assert_eq!(hop, Hop { via: Some(via), ..Hop::with(4, 3, 1) });
    let group = [8u32.to_ne_bytes(), [1, 0, 0, 0], 9u32.to_ne_bytes(), [0, 1, 0, 0]].concat();
    let group = message(104, &next_hop(0, 10, &[attr(2, &group)]));
    let Content::NewNextHop(NextHop { id: 10, kind: NextHopKind::Group(members) }) = only(&group) else {
        panic!()
    };
    let expected = [Member { id: 8, weight: 2 }, Member { id: 9, weight: 257 }];
    assert_eq!(members.collect::<Vec<_>>(), expected);
    let gone = message(105, &next_hop(0, 10, &[]));
    assert!(matches!(only(&gone), Content::DelNextHop(10)));
}

#[test]
fn several_messages_in_one_frame_come_in_their_order() {
    let [(to, len, via), _] = families();
    let both = [message(25, &route(to, len, &[])), message(24, &route(to, len, &[attr(5, &octets(via))]))];
    let mut stream = crate::fpm::header(both.concat().len()).unwrap().to_vec();
    stream.extend(both.concat());
    let (inside, rest) = crate::fpm::frame(&stream).unwrap().unwrap();
    assert_eq!(rest, []);
    let read: Vec<Content<'_>> =
        messages(inside).map(|message| message.unwrap().content().unwrap()).collect();
    assert!(matches!(read[..], [Content::DelRoute(_), Content::NewRoute(_)]));
    (0..stream.len()).for_each(|cut| assert_eq!(crate::fpm::frame(&stream[..cut]), Ok(None), "{cut}"));
    stream[0] = 2;
    assert_eq!(crate::fpm::frame(&stream), Err(crate::fpm::NotFpm));
}

#[test]
fn what_breaks_off_is_malformed_and_not_half_a_route() {
    for seed in &seeds()[..11] {
        for cut in HEADER_LEN..seed.len() {
            let mut bytes = seed[..cut].to_vec();
            // The end of the whole message is found out of the length, the end within it by the attributes.
            assert_eq!(messages(&bytes).next().unwrap().err(), Some(Malformed));
            bytes[..4].copy_from_slice(&u32::try_from(cut).unwrap().to_ne_bytes());
            let _ = messages(&bytes).next().unwrap().unwrap().content();
        }
    }
    let [(to, _, _), (to6, _, _)] = families();
    for body in [route(to, 33, &[]), route(to6, 129, &[]), route(to, 24, &[attr(5, &[1, 2, 3])])] {
        let bytes = message(24, &body);
        assert_eq!(messages(&bytes).next().unwrap().unwrap().content().err(), Some(Malformed));
    }
}

/// A route as the other parser reads it: destination, table, protocol, gateway, interface, priority.
type Plain = (Option<IpAddr>, u32, u8, Option<IpAddr>, u32, u32);

fn by_the_oracle(bytes: &[u8]) -> Option<Plain> {
    use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
    let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes).ok()?;
    let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)) = message.payload else {
        return None;
    };
    let ip = |addr: &RouteAddress| match addr {
        RouteAddress::Inet(addr) => Some(IpAddr::from(*addr)),
        RouteAddress::Inet6(addr) => Some(IpAddr::from(*addr)),
        _ => None,
    };
    let mut read: Plain = (None, route.header.table.into(), route.header.protocol.into(), None, 0, 0);
    for attr in &route.attributes {
        match attr {
            RouteAttribute::Destination(addr) => read.0 = ip(addr),
            RouteAttribute::Table(table) => read.1 = *table,
            RouteAttribute::Gateway(addr) => read.3 = ip(addr),
            RouteAttribute::Oif(oif) => read.4 = *oif,
            RouteAttribute::Priority(priority) => read.5 = *priority,
            _ => {}
        }
    }
    Some(read)
}

proptest! {
    #[test]
    fn plain_routes_are_read_as_another_parser_reads_them(
        is_v4: bool, bits: u128, len in 0u8..=128, via: u128, oif: u32, priority: u32, table: u32, protocol: u8,
    ) {
        let addr = |bits: u128| if is_v4 {
            IpAddr::from(Ipv4Addr::from_bits(u32::try_from(bits >> 96).unwrap()))
        } else {
            IpAddr::from(Ipv6Addr::from_bits(bits))
        };
        let len = if is_v4 { len % 33 } else { len };
        let attrs = [
            attr(15, &table.to_ne_bytes()),
            attr(6, &priority.to_ne_bytes()),
            attr(5, &octets(addr(via))),
            attr(4, &oif.to_ne_bytes()),
        ];
        let mut body = route(addr(bits), len, &attrs);
        body[5] = protocol;
        let bytes = message(24, &body);
        let Content::NewRoute(read) = only(&bytes) else { panic!() };
        let hop = read.hops().next().unwrap();
        let ours = (Some(read.to), read.table, read.protocol, hop.via, hop.ifindex, read.priority);
        prop_assert_eq!(Some(ours), by_the_oracle(&bytes));
        prop_assert_eq!(read.len, len);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        crate::fuzz_bodies::routes(&bytes);
    }
}
