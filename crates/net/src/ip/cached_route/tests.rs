use core::net::IpAddr;
use core::time::Duration;

use wire::ether::Mac;
use wire::tcp;

use super::*;
use crate::fib::{Prefix, Route, To};
use crate::firewall::Hooks;
use crate::ip::{host_cache, ip_tx, neigh};
use crate::link::driver::Caps;
use crate::link::tables::Config;
use crate::testkit::link::{FAMILIES, Family};
use crate::testkit::{Bench, Frame};

const PARAMS: IpTxParams = IpTxParams { hops: 61, class: 0b1011_1000, fib: 0 };
const OTHER: Mac = Mac([6, 0, 0, 0, 0, 0x66]);

/// A host behind a gateway on the second link.
fn far(family: Family) -> IpAddr {
    match family {
        Family::V4 => "198.51.100.1".parse().unwrap(),
        Family::V6 => "2001:db8:ffff::1".parse().unwrap(),
    }
}

fn configure(config: &mut Config, family: Family, tx_csum: bool) {
    let via = To::Gateway { ifindex: 2, via: family.addr(2, 254) };
    config.routes.push(Route::new(Prefix::host(far(family)), via));
    config.ifs[1].caps = Caps { tx_csum, ..config.ifs[1].caps };
}

fn bench(family: Family, tx_csum: bool) -> Bench {
    Bench::with(2, 1, |config| configure(config, family, tx_csum))
}

fn ends(family: Family, remote: IpAddr) -> FourTuple {
    FourTuple::new((family.addr(2, 1), 80).into(), (remote, 5000).into(), 0)
}

/// A segment with so many bytes of payload, without its network header.
fn segment(bench: &mut Bench, len: usize) -> Pkt {
    let options = tcp::Options { timestamps: Some((1, 2)), ..tcp::Options::NONE };
    let flags = tcp::Flags::ACK;
    let header =
        tcp::Header { src_port: 80, dst_port: 5000, seq: 7, ack: 9, flags, window: 512, urgent: 0, options };
    let payload: Vec<u8> = (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let mut pkt = bench.cpu().pool.take().unwrap();
    pkt.append(len).unwrap().copy_from_slice(&payload);
    header.emit(pkt.prepend(header.header_len()).unwrap()).unwrap();
    pkt
}

/// Sends it with a route lookup, and what else there is to do for a packet.
fn send_the_long_way(bench: &mut Bench, ends: &FourTuple, params: IpTxParams, len: usize) -> Vec<Frame> {
    let mut pkt = segment(bench, len);
    ip_tx::put_network(&mut pkt, (Protocol::TCP, CHECKSUM_OFFSET), ends, params, true).unwrap();
    ip_tx::output(bench.cpu(), pkt);
    bench.run();
    bench.sent_frames(2)
}

/// Sends it by the cached route; `None` if it may not go by it, or there is none.
fn send(bench: &mut Bench, ends: &FourTuple, params: IpTxParams, len: usize) -> Option<Vec<Frame>> {
    let pkt = segment(bench, len);
    match output(bench.cpu(), pkt, ends, params) {
        Ok(()) => {
            bench.run();
            Some(bench.sent_frames(2))
        }
        Err(pkt) => {
            assert_eq!(pkt.len(), tcp::STAMPED_LEN + len, "given back as it was");
            bench.cpu().pool.give(pkt);
            None
        }
    }
}

/// Sends two segments the long way, so that the next one has a cached route.
fn learn_twice(bench: &mut Bench, ends: &FourTuple) {
    for _ in 0..2 {
        send_the_long_way(bench, ends, PARAMS, 10);
        learn(bench.cpu(), ends, PARAMS);
    }
}

fn each_case(mut test: impl FnMut(Family, &mut Bench, FourTuple)) {
    for family in FAMILIES {
        for remote in [far(family), family.addr(2, 20)] {
            for tx_csum in [false, true] {
                test(family, &mut bench(family, tx_csum), ends(family, remote));
            }
        }
    }
}

#[test]
fn a_segment_by_a_cached_route_is_the_frame_that_it_is_the_long_way() {
    each_case(|_, bench, ends| {
        learn_twice(bench, &ends);
        for ecn in [0, 2] {
            for len in [0, 1, 333, 501, 1400] {
                let params = PARAMS.with_ecn(ecn);
                let sent = send(bench, &ends, params, len).expect("a cached route");
                assert_eq!(sent, send_the_long_way(bench, &ends, params, len), "{ends:?} {len}");
                assert_eq!(sent.len(), 1);
            }
        }
        assert_eq!(bench.counted(Count::RoutesCached), 1);
        assert!(bench.drops().is_empty());
    });
}

#[test]
fn a_route_is_cached_for_the_second_packet_in_a_row_and_for_what_its_header_says() {
    each_case(|_, bench, ends| {
        assert_eq!(send(bench, &ends, PARAMS, 10), None);
        (0..2).for_each(|_| drop(send_the_long_way(bench, &ends, PARAMS, 10)));
        learn(bench.cpu(), &ends, PARAMS);
        assert_eq!(send(bench, &ends, PARAMS, 10), None, "one packet may be all that there is");
        learn(bench.cpu(), &ends, PARAMS);
        assert!(send(bench, &ends, PARAMS, 10).is_some());
        assert_eq!(send(bench, &ends, IpTxParams { hops: 62, ..PARAMS }, 10), None);
        assert_eq!(send(bench, &ends, IpTxParams { class: 0, ..PARAMS }, 10), None);
    });
}

#[test]
fn another_link_address_and_other_tables_make_it_stale() {
    each_case(|family, bench, ends| {
        let first_hop = if ends.remote == far(family) { family.addr(2, 254) } else { ends.remote };
        learn_twice(bench, &ends);
        assert!(neigh::set_static(bench.cpu(), neigh::Key { ifindex: 2, addr: first_hop }, OTHER));
        assert_eq!(send(bench, &ends, PARAMS, 10), None);
        learn_twice(bench, &ends);
        let sent = send(bench, &ends, PARAMS, 10).expect("a cached route");
        assert_eq!(sent[0].bytes[..6], OTHER.0);
        assert_eq!(sent, send_the_long_way(bench, &ends, PARAMS, 10));

        let ifs = bench.cpu().tables.ifnets().cloned().collect();
        let mut config = Config { generation: 3, ifs, forwarding: true, ..Config::default() };
        configure(&mut config, family, true);
        bench.set_tables(config);
        assert_eq!(send(bench, &ends, PARAMS, 10), None);
    });
}

#[test]
fn a_packet_that_rules_redirects_or_the_mtu_have_a_say_in_takes_the_long_way() {
    each_case(|family, bench, ends| {
        learn_twice(bench, &ends);
        for hook in [Hook::LocalOut, Hook::Egress] {
            bench.cpu().hooks = Hooks::default().with(hook);
            assert_eq!(send(bench, &ends, PARAMS, 10), None, "{hook:?}");
        }
        bench.cpu().hooks = Hooks::default().with(Hook::Ingress);
        assert!(send(bench, &ends, PARAMS, 10).is_some(), "rules for other packets");
        bench.cpu().hooks = Hooks::default();

        let headers = tcp::STAMPED_LEN + if family == Family::V4 { 20 } else { 40 };
        assert!(send(bench, &ends, PARAMS, 1500 - headers).is_some());
        assert_eq!(send(bench, &ends, PARAMS, 1501 - headers), None);

        let router = neigh::Key { ifindex: 2, addr: family.addr(2, 253) };
        host_cache::redirect(bench.cpu(), far(family), router);
        assert_eq!(send(bench, &ends, PARAMS, 10), None);
    });
}

#[test]
fn a_conversation_of_another_link_takes_no_route_of_the_same_addresses() {
    each_case(|_, bench, ends| {
        learn_twice(bench, &ends);
        let scoped = FourTuple { zone: 1, ..ends };
        assert!(send(bench, &ends, PARAMS, 10).is_some());
        assert_eq!(send(bench, &scoped, PARAMS, 10), None, "addresses that mean something only with a link");
    });
}

#[test]
fn packets_that_cannot_go_by_a_cached_route_do_not_make_it_anew() {
    each_case(|_, bench, ends| {
        learn_twice(bench, &ends);
        (0..5).for_each(|_| learn_twice(bench, &ends));
        assert_eq!(bench.counted(Count::RoutesCached), 1);
    });
}

#[test]
fn a_neighbour_whose_use_is_to_be_reported_has_none() {
    for family in FAMILIES {
        let mut bench = bench(family, true);
        let ends = ends(family, family.addr(2, 20));
        learn_twice(&mut bench, &ends);
        bench.neighbours_answer = false;
        // Not heard of for a while: stale (RFC 4861 §7.3.2).
        bench.advance(Duration::from_secs(60));
        assert_eq!(send(&mut bench, &ends, PARAMS, 10), None);
    }
}

#[test]
fn hosts_that_share_a_place_take_it_from_each_other_and_there_are_no_more_than_places() {
    let mut bench = bench(Family::V4, true);
    for host in 10..250 {
        learn_twice(&mut bench, &ends(Family::V4, Family::V4.addr(2, host)));
    }
    let cached = (10..250).filter(|host| {
        let ends = ends(Family::V4, Family::V4.addr(2, *host));
        send(&mut bench, &ends, PARAMS, 10).is_some()
    });
    assert!(cached.count() > 100);
    assert!(bench.cpu().routes.memory() <= CACHED_ROUTES_MAX * (128 + 8));
}
