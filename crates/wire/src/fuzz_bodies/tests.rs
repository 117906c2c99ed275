use crate::protocol::Protocol;
use crate::*;
use core::net::{Ipv4Addr, Ipv6Addr};
use std::vec;
use std::vec::Vec;

const ROUNDS: usize = 20_000;

/// xorshift64*: the same numbers on every run.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound.max(1)).unwrap()).unwrap()
    }

    fn byte(&mut self) -> u8 {
        const TELLING: [u8; 12] = [0, 1, 2, 3, 4, 5, 7, 8, 0x7f, 0x80, 0xfe, 0xff];
        if self.below(2) == 0 { TELLING[self.below(TELLING.len())] } else { self.next().to_le_bytes()[0] }
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.below(5) {
            let at = self.below(bytes.len());
            match self.below(8) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, self.byte()),
                2 if !bytes.is_empty() => drop(bytes.remove(at)),
                3 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                4 => bytes.extend_from_within(at..),
                _ if !bytes.is_empty() => bytes[at] = self.byte(),
                _ => bytes.push(self.byte()),
            }
            bytes.truncate(4000);
        }
    }
}

/// Feeds mutated `seeds` to `body`; every seed itself first.
fn run(seeds: &[Vec<u8>], body: fn(&[u8])) {
    let mut rng = Rng(0x70_616e_7461_6c61);
    seeds.iter().for_each(|seed| body(seed));
    for _ in 0..ROUNDS {
        let mut bytes = seeds[rng.below(seeds.len())].clone();
        rng.mutate(&mut bytes);
        body(&bytes);
    }
}

fn ip4_seeds() -> Vec<Vec<u8>> {
    let options: [&[u8]; 6] = [
        &[],
        &[1, 1, 148, 4, 0, 0],
        &[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0],
        &[131, 7, 8, 10, 0, 0, 1, 0],
        &[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        &[137, 11, 8, 10, 0, 0, 1, 10, 0, 0, 2, 130, 4, 1, 2, 0],
    ];
    let seed = |bytes: &[u8]| {
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let mut header = ip4::Header::new(src, dst, Protocol::TCP, 40);
        header.options = ip4::Options::from_bytes(bytes).unwrap();
        let mut packet = vec![0; header.header_len() + 40];
        let len = header.emit(&mut packet).unwrap();
        packet[len..].copy_from_slice(&tcp_seeds()[1][..40]);
        packet
    };
    options.into_iter().map(seed).collect()
}

fn ip6_seeds() -> Vec<Vec<u8>> {
    let chains: [(u8, &[u8]); 7] = [
        (58, &[128, 0, 0, 0, 0, 1, 0, 1]),
        (0, &[58, 0, 5, 2, 0, 0, 1, 0, 128, 0, 0, 0, 0, 1, 0, 1]),
        (
            43,
            &[
                60, 2, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 59, 0, 1, 4, 0, 0,
                0, 0,
            ],
        ),
        (44, &[17, 0, 0, 1, 0, 0, 0, 7, 0, 1, 0, 2, 0, 8, 0, 0]),
        (44, &[60, 0, 0, 0, 0, 0, 0, 7, 6, 0, 0xc3, 1, 9, 1, 1, 0]),
        (
            51,
            &[
                60, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 9, 9, 9, 9, 60, 0, 0x41, 4, 0, 0, 0, 0, 50, 0, 1, 4, 0,
                0, 0, 0,
            ],
        ),
        (44, &[6, 0, 0, 9, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8]),
    ];
    let seed = |(next, payload): (u8, &[u8])| {
        let (src, dst) = (Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
        let len = u16::try_from(payload.len()).unwrap();
        let mut packet = ip6::Header::new(src, dst, Protocol(next), len).to_bytes().to_vec();
        packet.extend(payload);
        packet
    };
    chains.into_iter().map(seed).collect()
}

fn tcp_seeds() -> Vec<Vec<u8>> {
    let block = |left| tcp::SackBlock { left, right: left + 1000 };
    let mut sack = tcp::SackBlocks::NONE;
    [block(1), block(5000), block(9000)].into_iter().for_each(|block| assert!(sack.push(block)));
    let options = [
        tcp::Options::NONE,
        tcp::Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some((1, 0)),
            fast_open: tcp::Cookie::new(&[7; 8]),
            ..tcp::Options::NONE
        },
        tcp::Options { mss: Some(1460), signature: Some([9; 16]), ..tcp::Options::NONE },
        tcp::Options { mss: Some(1460), user_timeout: tcp::UserTimeout::of_secs(120), ..tcp::Options::NONE },
        tcp::Options { timestamps: Some((1, 2)), sack, ..tcp::Options::NONE },
        tcp::Options { sack_permitted: true, sack, ..tcp::Options::NONE },
    ];
    let seed = |options| {
        let flags = tcp::Flags::SYN | tcp::Flags::ACK;
        let header = tcp::Header {
            src_port: 80,
            dst_port: 3000,
            seq: 1,
            ack: 2,
            flags,
            window: 3,
            urgent: 0,
            options,
        };
        let mut out = vec![0; tcp::HEADER_MAX];
        header.emit(&mut out).unwrap();
        out
    };
    options.into_iter().map(seed).collect()
}

fn nd_seeds() -> Vec<Vec<u8>> {
    let (mac, addr) = (Mac([2, 0, 0, 0, 0, 1]), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
    let prefix = nd::Prefix { addr, len: 64, on_link: true, autonomous: true, valid_s: 9, preferred_s: 8 };
    let advert = nd::NeighborAdvert { router: true, solicited: false, replace: true, target: addr };
    let servers = [[1; 16], [2; 16]];
    let quote = [7; 48];
    let messages = [
        (1, nd::Message::RouterSolicit, vec![]),
        (0, nd::Message::RouterSolicit, vec![nd::Opt::SourceLinkAddr(mac)]),
        (
            0,
            nd::Message::RouterAdvert(nd::RouterAdvert { lifetime_s: 1800, ..Default::default() }),
            vec![
                nd::Opt::SourceLinkAddr(mac),
                nd::Opt::Mtu(1500),
                nd::Opt::Prefix(prefix),
                nd::Opt::Rdnss { lifetime_s: 60, servers: &servers },
                nd::Opt::Unknown { kind: 99, data: &[0; 14] },
                nd::Opt::RouteInfo(nd::RouteInfo {
                    addr,
                    len: 128,
                    preference: nd::Preference::High,
                    lifetime_s: 60,
                }),
                nd::Opt::Dnssl { lifetime_s: 60, names: &[1, b'x', 0, 0, 0, 0, 0, 0] },
                nd::Opt::Pref64(nd::Pref64 { prefix: [0; 12], len: 96, lifetime_s: 64 }),
            ],
        ),
        (3, nd::Message::NeighborSolicit { target: addr }, vec![]),
        (0, nd::Message::NeighborAdvert(advert), vec![nd::Opt::TargetLinkAddr(mac)]),
        (0, nd::Message::Redirect { target: addr, destination: addr }, vec![nd::Opt::Redirected(&quote)]),
    ];
    let seed = |(envelope, message, options): (u8, nd::Message, Vec<nd::Opt<'_>>)| {
        let mut out = vec![0; 512];
        let len = message.emit(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, options, &mut out[1..]).unwrap();
        out[0] = envelope;
        out.truncate(1 + len);
        out
    };
    messages.into_iter().map(seed).collect()
}

#[test]
fn any_frame_is_read_or_refused() {
    let arp = arp::Packet::request(Mac([2; 6]), Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
        .to_bytes()
        .to_vec();
    let header = ether::Header { dst: Mac::BROADCAST, src: Mac([2; 6]), ethertype: EtherType::VLAN };
    let tag = ether::Tag::new(7, EtherType::IPV4).to_bytes().to_vec();
    run(&[arp, header.to_bytes().to_vec(), tag], super::ether);
}

#[test]
fn any_ipv4_packet_is_read_or_refused() {
    run(&ip4_seeds(), super::ip4);
}

#[test]
fn any_ipv6_packet_is_read_or_refused() {
    run(&ip6_seeds(), super::ip6);
}

#[test]
fn any_tcp_segment_is_read_or_refused() {
    run(&tcp_seeds(), super::tcp);
}

#[test]
fn any_message_of_neighbour_discovery_is_read_or_refused() {
    run(&nd_seeds(), super::nd);
}

#[test]
fn the_seeds_are_good_packets() {
    assert!(ip4_seeds().iter().all(|seed| ip4::Header::parse(seed).is_ok()));
    assert!(ip4_seeds().iter().all(|seed| ip4::View::new(seed).unwrap().options().summary().is_ok()));
    assert!(ip6_seeds().iter().all(|seed| ip6::Header::parse(seed).is_ok()));
    assert!(tcp_seeds().iter().all(|seed| tcp::Header::parse(seed).is_ok()));
    for seed in nd_seeds() {
        assert_eq!(nd::Message::parse(&super::envelope(seed[0]), &seed[1..]).err(), None);
    }
}

fn membership_seeds() -> Vec<Vec<u8>> {
    let group4 = Ipv4Addr::new(232, 1, 2, 3).octets();
    let group6 = Ipv6Addr::new(0xff3e, 0, 0, 0, 0, 0, 0, 9).octets();
    let query4 = [&[3, 0x11, 0x84, 0, 0][..], &group4, &[0x0a, 125, 0, 2, 10, 0, 0, 1, 10, 0, 0, 2]].concat();
    let query6 = [&[0, 130, 0, 0, 0, 0x27, 0x10, 0, 0][..], &group6, &[2, 125, 0, 1], &group6].concat();
    let report4 = [&[1, 0x22, 0, 0, 0, 0, 0, 0, 2][..], &[1, 0, 0, 1], &group4, &[10, 0, 0, 1]].concat();
    let report4 = [&report4[..], &[4, 1, 0, 0], &group4, &[0; 4]].concat();
    let report6 = [&[0, 143, 0, 0, 0, 0, 0, 0, 1, 5, 0, 0, 1][..], &group6, &group6].concat();
    let short = [&[1, 0x16, 0, 0, 0][..], &group4].concat();
    vec![query4, query6, report4, report6, short]
}

#[test]
fn messages_about_groups_say_no_more_than_lies_in_them() {
    run(&membership_seeds(), super::membership);
}

/// Found by the fuzzer: packed without padding, a Fast Open request fits behind four blocks, and padded it does not.
#[test]
fn options_that_are_packed_tighter_than_we_write_come_back_without_what_has_no_room() {
    super::tcp(include_bytes!("../../../../fuzz/corpus/wire_tcp/packed_scale_sack_and_fast_open"));
}

fn bpdu_seeds() -> Vec<Vec<u8>> {
    let id = bpdu::BridgeId { priority: 0x8000, mac: Mac([2, 0, 0, 0, 0, 1]) };
    let vector = bpdu::Vector { root: id, cost: 20_000, bridge: id, port: 0x8001 };
    let config = bpdu::Config { vector, ..bpdu::Config::default() };
    let seed = |unit: bpdu::Bpdu| {
        let mut bytes = vec![0; bpdu::LEN_MAX + 7];
        unit.emit(&mut bytes).unwrap();
        bytes
    };
    vec![seed(bpdu::Bpdu::Rst(config)), seed(bpdu::Bpdu::Config(config)), seed(bpdu::Bpdu::Tcn)]
}

#[test]
fn spanning_tree_units_are_written_as_they_were_read() {
    run(&bpdu_seeds(), super::bpdu);
}

#[test]
fn routes_of_others_are_taken_apart_without_a_panic() {
    run(&rtnetlink::tests::seeds(), super::routes);
}

#[test]
fn dhcpv6_messages_say_no_more_than_lies_in_them() {
    run(&dhcp6::tests::seeds(), super::dhcp6);
}

#[test]
fn pppoe_packets_and_what_ppp_negotiates_say_no_more_than_lies_in_them() {
    run(&pppoe::tests::seeds(), super::pppoe);
    run(&ppp::tests::seeds(), super::pppoe);
}
