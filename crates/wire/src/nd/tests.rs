use super::*;
use crate::{Mac, icmp6};
use proptest::prelude::*;
use std::vec::Vec;

const HOST: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const PEER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
const FAR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const NOBODY: Ipv6Addr = Ipv6Addr::UNSPECIFIED;
const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const FROM_HOST: Envelope = Envelope { src: HOST, dst: PEER, hop_limit: HOP_LIMIT };

fn bytes(message: Message, options: &[Opt<'_>]) -> Vec<u8> {
    let mut out = std::vec![0xa5; 2000];
    let len = message.emit(HOST, PEER, options.iter().copied(), &mut out).unwrap();
    out.truncate(len);
    out
}

/// Validates the message in this envelope.
fn judged(envelope: Envelope, message: Message, options: &[Opt<'_>]) -> Result<Message, Error> {
    Message::parse(&envelope, &bytes(message, options)).map(|(message, _)| message)
}

const fn advert(target: Ipv6Addr, solicited: bool) -> Message {
    Message::NeighborAdvert(NeighborAdvert { router: false, solicited, replace: true, target })
}

fn all() -> [Message; 5] {
    [
        Message::RouterSolicit,
        Message::RouterAdvert(RouterAdvert::default()),
        Message::NeighborSolicit { target: FAR },
        advert(FAR, true),
        Message::Redirect { target: PEER, destination: FAR },
    ]
}

prop_compose! {
    fn router_adverts()(
        (hop_limit, managed, other, lifetime_s) in any::<(u8, bool, bool, u16)>(), (reachable_ms, retrans_ms) in any::<(u32, u32)>(),
        preference in prop::sample::select(std::vec![Preference::Low, Preference::Medium, Preference::High]),
    ) -> RouterAdvert {
        RouterAdvert { hop_limit, managed, other, preference, lifetime_s, reachable_ms, retrans_ms }
    }
}

fn messages() -> impl Strategy<Value = Message> {
    let unicast =
        any::<[u8; 16]>().prop_filter("a host", |octets| octets[0] != 0xff).prop_map(Ipv6Addr::from);
    prop_oneof![
        Just(Message::RouterSolicit),
        router_adverts().prop_map(Message::RouterAdvert),
        unicast.clone().prop_map(|target| Message::NeighborSolicit { target }),
        (any::<(bool, bool, bool)>(), unicast.clone()).prop_map(|((router, solicited, replace), target)| {
            Message::NeighborAdvert(NeighborAdvert { router, solicited, replace, target })
        }),
        unicast.prop_map(|destination| Message::Redirect { target: PEER, destination }),
    ]
}

proptest! {
    #[test]
    fn a_message_survives_the_wire_with_all_its_options(
        message in messages(), mac: [u8; 6], mtu: u32, addr: [u8; 16], len in 0_u8..=128,
        (on_link, autonomous, valid_s, preferred_s) in any::<(bool, bool, u32, u32)>(),
        servers in prop::collection::vec(any::<[u8; 16]>(), 1..5),
    ) {
        let prefix = Prefix { addr: addr.into(), len, on_link, autonomous, valid_s, preferred_s };
        let options = [
            Opt::SourceLinkAddr(Mac(mac)),
            Opt::TargetLinkAddr(Mac(mac)),
            Opt::Prefix(prefix),
            Opt::Redirected(&[7; 48]),
            Opt::Mtu(mtu),
            Opt::Rdnss { lifetime_s: valid_s, servers: &servers },
            Opt::Unknown { kind: 99, data: &[1; 14] },
        ];
        let bytes = bytes(message, &options);
        prop_assert!(icmp6::verify(HOST, PEER, &bytes));
        let (again, others) = Message::parse(&FROM_HOST, &bytes).unwrap();
        prop_assert_eq!(again, message);
        prop_assert!(others.iter().eq(options), "{:?}", others);
        prop_assert_eq!(others.source_link_addr(), Some(Mac(mac)));
        prop_assert_eq!(others.target_link_addr(), Some(Mac(mac)));
    }
}

#[test]
fn a_message_from_beyond_the_link_is_not_believed() {
    for message in all() {
        let far = Envelope { hop_limit: 254, ..FROM_HOST };
        assert_eq!(judged(FROM_HOST, message, &[]), Ok(message));
        assert_eq!(judged(far, message, &[]), Err(Error::HopLimit { found: 254 }));
    }
}

#[test]
fn a_code_is_refused() {
    for message in all() {
        let mut bytes = bytes(message, &[]);
        bytes[1] = 1;
        let expected = Error::Code { kind: message.kind(), code: 1 };
        assert_eq!(Message::parse(&FROM_HOST, &bytes).err(), Some(expected));
    }
}

#[test]
fn a_message_cut_anywhere_in_its_fixed_part_is_refused() {
    for (message, need) in all().into_iter().zip([8, 16, 24, 24, 40]) {
        let bytes = bytes(message, &[]);
        assert_eq!(bytes.len(), need);
        for have in 2..need {
            assert_eq!(Message::parse(&FROM_HOST, &bytes[..have]).err(), Some(Error::Short { need, have }));
        }
    }
    assert_eq!(Message::parse(&FROM_HOST, &[133]).err(), Some(Error::Short { need: 8, have: 1 }));
    assert_eq!(Message::parse(&FROM_HOST, &[138; 8]).err(), Some(Error::Code { kind: 138, code: 138 }));
    assert_eq!(Message::parse(&FROM_HOST, &[138, 0]).err(), Some(Error::Kind { kind: 138 }));
}

#[test]
fn bad_options_spoil_every_message() {
    let cases: [(&[u8], Error); 9] = [
        (&[1, 0, 0, 0, 0, 0, 0, 0], Error::OptionLen { kind: 1, len: 0 }),
        (&[200, 0, 0, 0, 0, 0, 0, 0], Error::OptionLen { kind: 200, len: 0 }),
        (&[200, 2, 0, 0, 0, 0, 0, 0], Error::OptionTruncated { have: 8 }),
        (&[200], Error::OptionTruncated { have: 1 }),
        (&[200, 1, 0, 0, 0, 0, 0], Error::OptionTruncated { have: 7 }),
        (&[1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], Error::OptionLen { kind: 1, len: 2 }),
        (&[2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], Error::OptionLen { kind: 2, len: 2 }),
        (&[3, 1, 64, 0, 0, 0, 0, 0], Error::OptionLen { kind: 3, len: 1 }),
        (&[5, 2, 0, 0, 0, 0, 5, 220, 0, 0, 0, 0, 0, 0, 0, 0], Error::OptionLen { kind: 5, len: 2 }),
    ];
    for message in all() {
        for (option, error) in cases {
            let bytes = [&bytes(message, &[])[..], option].concat();
            assert_eq!(Message::parse(&FROM_HOST, &bytes).err(), Some(error), "{option:?}");
        }
    }
}

#[test]
fn name_servers_of_a_wrong_length_are_ignored() {
    for units in [1, 2, 4] {
        let mut option = std::vec![0; usize::from(units) * 8];
        option[..2].copy_from_slice(&[25, units]);
        let bytes = [&bytes(Message::RouterSolicit, &[])[..], &option].concat();
        let (_, options) = Message::parse(&FROM_HOST, &bytes).unwrap();
        assert!(matches!(options.iter().next(), Some(Opt::Unknown { kind: 25, .. })), "{units}");
    }
}

#[test]
fn the_unspecified_address_has_no_link_layer_address() {
    let target = FAR;
    let envelope =
        Envelope { src: NOBODY, dst: addr::solicited_node_multicast(target), hop_limit: HOP_LIMIT };
    for message in [Message::RouterSolicit, Message::NeighborSolicit { target }] {
        assert_eq!(judged(envelope, message, &[]), Ok(message));
        assert_eq!(judged(envelope, message, &[Opt::SourceLinkAddr(MAC)]), Err(Error::LinkAddrOfUnspecified));
        assert_eq!(judged(FROM_HOST, message, &[Opt::SourceLinkAddr(MAC)]), Ok(message));
    }
}

#[test]
fn a_probe_goes_to_the_solicited_node_group() {
    let probe = Message::NeighborSolicit { target: FAR };
    for dst in [PEER, addr::ALL_NODES] {
        let envelope = Envelope { src: NOBODY, dst, hop_limit: HOP_LIMIT };
        assert_eq!(judged(envelope, probe, &[]), Err(Error::ProbeToHost { dst }));
    }
}

#[test]
fn only_hosts_are_asked_for_and_advertised() {
    let addr = addr::ALL_NODES;
    for message in [
        Message::NeighborSolicit { target: addr },
        advert(addr, true),
        Message::Redirect { target: PEER, destination: addr },
    ] {
        assert_eq!(judged(FROM_HOST, message, &[]), Err(Error::Multicast { addr }));
    }
}

#[test]
fn an_answer_is_not_sent_to_a_group() {
    let dst = addr::ALL_NODES;
    let envelope = Envelope { dst, ..FROM_HOST };
    assert_eq!(judged(envelope, advert(FAR, false), &[]), Ok(advert(FAR, false)));
    assert_eq!(judged(envelope, advert(FAR, true), &[]), Err(Error::SolicitedToGroup { dst }));
}

#[test]
fn routers_speak_from_their_link_local_address() {
    let envelope = Envelope { src: FAR, ..FROM_HOST };
    for message in [all()[1], all()[4]] {
        assert_eq!(judged(envelope, message, &[]), Err(Error::SourceNotLinkLocal { src: FAR }));
    }
}

#[test]
fn a_redirect_goes_to_a_router_or_to_the_destination() {
    let other = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9);
    let redirect = |target| judged(FROM_HOST, Message::Redirect { target, destination: FAR }, &[]);
    assert!(redirect(PEER).is_ok() && redirect(FAR).is_ok());
    assert_eq!(redirect(other), Err(Error::RedirectTarget { target: other }));
}

#[test]
fn the_reserved_preference_is_medium() {
    let mut bytes = bytes(Message::RouterAdvert(RouterAdvert::default()), &[]);
    bytes[5] |= 0x10;
    let (message, _) = Message::parse(&FROM_HOST, &bytes).unwrap();
    assert_eq!(message, Message::RouterAdvert(RouterAdvert::default()));
}

#[test]
fn an_option_that_does_not_fill_its_units_is_not_emitted() {
    let odd = [Opt::Unknown { kind: 31, data: &[1; 13] }, Opt::Mtu(1500)];
    let bytes = bytes(Message::RouterSolicit, &odd);
    let (_, options) = Message::parse(&FROM_HOST, &bytes).unwrap();
    assert!(options.iter().eq([Opt::Mtu(1500)]));
}

#[test]
fn a_buffer_too_short_gets_an_answer_and_no_panic() {
    for message in all() {
        let need = bytes(message, &[Opt::SourceLinkAddr(MAC)]).len();
        for have in 0..need {
            let mut out = std::vec![0; have];
            assert!(
                message.emit(HOST, PEER, [Opt::SourceLinkAddr(MAC)], &mut out).is_err(),
                "{have} of {need}"
            );
        }
    }
}

#[test]
fn routes_search_lists_and_nat64_prefixes_stand_on_the_wire_as_their_rfcs_draw_them() {
    let (addr, preference) = (Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0), Preference::Low);
    let route = |len, addr| Opt::RouteInfo(RouteInfo { addr, len, preference, lifetime_s: 258 });
    let nat64 = Opt::Pref64(Pref64 { prefix: [9; 12], len: 64, lifetime_s: 600 });
    for (option, drawn) in [
        (route(0, NOBODY), &[24, 1, 0, 0x18, 0, 0, 1, 2][..]),
        (route(48, addr), &[24, 2, 48, 0x18, 0, 0, 1, 2, 0x20, 1, 0xd, 0xb8, 0, 1, 0, 0]),
        (
            Opt::Dnssl { lifetime_s: 7, names: &[1, b'a', 0, 0, 0, 0, 0, 0] },
            &[31, 2, 0, 0, 0, 0, 0, 7, 1, b'a', 0, 0, 0, 0, 0, 0],
        ),
        (nat64, &[38, 2, 0x02, 0x59, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]),
    ] {
        let bytes = bytes(Message::RouterSolicit, &[option]);
        assert_eq!(&bytes[8..], drawn, "{option:?}");
        let (_, options) = Message::parse(&FROM_HOST, &bytes).unwrap();
        assert!(options.iter().eq([option]), "{option:?}");
    }
    assert_eq!(bytes(Message::RouterSolicit, &[route(65, addr)]).len(), 8 + 24);
}

#[test]
fn a_route_a_search_list_or_a_nat64_prefix_that_cannot_be_is_ignored() {
    let reserved_preference = [64, 0x10, 0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8];
    let too_long = [65, 0, 0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8];
    let nameless = [0, 0, 0, 0, 0, 9];
    let no_length = [0, 7, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    for (kind, data) in [
        (24, &reserved_preference[..]),
        (24, &too_long),
        (31, &nameless),
        (38, &no_length),
        (38, &no_length[..6]),
    ] {
        let unknown = Opt::Unknown { kind, data };
        let bytes = bytes(Message::RouterSolicit, &[unknown]);
        let (_, options) = Message::parse(&FROM_HOST, &bytes).unwrap();
        assert!(options.iter().eq([unknown]), "{kind}");
    }
}
