use core::net::Ipv6Addr;

use wire::ether::{HEADER_LEN, Mac};
use wire::icmp6::{self, kind};

use super::*;
use crate::kit::{Bench, addr6, build, mac};

const QUERIER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
const SECOND: Duration = Duration::from_secs(1);

/// A query of `len` bytes that wants an answer within ten seconds.
fn query(src: Ipv6Addr, hop_limit: u8, len: usize, group: Ipv6Addr) -> Vec<u8> {
    let mut message = vec![0; len];
    message[0] = kind::MLD_QUERY;
    message[4..6].copy_from_slice(&10_000_u16.to_be_bytes());
    message[8..24].copy_from_slice(&group.octets());
    let body = [&ROUTER_ALERT[..], &message].concat();
    build::ip(src.into(), wire::addr::ALL_NODES.into(), Protocol::HOP_BY_HOP, hop_limit, &body)
}

fn hear(bench: &mut Bench, packet: &[u8], l4: u16) {
    let cpu = bench.cpu();
    let mut pkt = cpu.pool.take().unwrap();
    pkt.append(packet.len()).unwrap().copy_from_slice(packet);
    (pkt.rcvif, pkt.l4) = (1, l4);
    input(cpu, pkt);
    bench.run();
}

/// The reports that were sent: type, source, destination, groups.
fn reports(bench: &mut Bench) -> Vec<(u8, Ipv6Addr, Ipv6Addr, Vec<Ipv6Addr>)> {
    bench.sent(1).iter().filter_map(|frame| report(frame)).collect()
}

fn report(frame: &[u8]) -> Option<(u8, Ipv6Addr, Ipv6Addr, Vec<Ipv6Addr>)> {
    let header = ip6::Header::parse(&frame[HEADER_LEN..]).ok()?;
    let (alert, message) = frame[HEADER_LEN + 40..].split_at_checked(8)?;
    if header.next_header != Protocol::HOP_BY_HOP {
        return None;
    }
    assert_eq!((alert, header.hop_limit), (&ROUTER_ALERT[..], 1));
    assert_eq!(Some(Mac(*frame.first_chunk()?)), wire::addr::multicast_mac_v6(header.dst));
    assert!(icmp6::verify(header.src, header.dst, message));
    let addrs = |bytes: &[u8], size: usize| -> Vec<Ipv6Addr> {
        let last = bytes.chunks(size).map(|part| part[size - 16..].first_chunk::<16>().unwrap());
        last.map(|octets| Ipv6Addr::from(*octets)).collect()
    };
    let groups =
        if message[0] == kind::MLD_REPORT { addrs(&message[8..], 16) } else { addrs(&message[8..], 20) };
    Some((message[0], header.src, header.dst, groups))
}

fn link_local() -> Ipv6Addr {
    addr::link_local(mac(1))
}

fn all_groups() -> Vec<Ipv6Addr> {
    let mut groups = [link_local(), addr6(1, 1)].map(solicited_node_multicast).to_vec();
    groups.push(ALL_ROUTERS);
    groups.sort_unstable();
    groups.dedup();
    groups
}

#[test]
fn a_new_address_is_reported_before_and_after_it_has_been_asked_for() {
    let new = addr6(1, 0x77);
    let mut bench = Bench::cold(1, 1, |config| config.ifs[0].addrs[1].addr = new.into());
    bench.advance(SECOND * 5);
    let group = solicited_node_multicast(new);
    let about: Vec<_> = reports(&mut bench).into_iter().filter(|report| report.3 == [group]).collect();
    assert_eq!(about.len(), 2, "{about:?}");
    assert!(about.iter().all(|report| (report.0, report.2) == (kind::MLD2_REPORT, ALL_MLD2_ROUTERS)));
    assert_eq!(about[0].1, Ipv6Addr::UNSPECIFIED, "no address of ours is certain yet");
}

#[test]
fn a_general_query_is_answered_with_all_groups_within_its_time() {
    let mut bench = Bench::new(1);
    hear(&mut bench, &query(QUERIER, 1, 28, Ipv6Addr::UNSPECIFIED), 48);
    bench.advance(SECOND * 10);
    assert_eq!(reports(&mut bench), [(kind::MLD2_REPORT, link_local(), ALL_MLD2_ROUTERS, all_groups())]);
    bench.advance(SECOND * 60);
    assert_eq!(reports(&mut bench), [], "once");
}

#[test]
fn a_version_1_query_is_answered_with_a_report_to_each_group() {
    let mut bench = Bench::new(1);
    hear(&mut bench, &query(QUERIER, 1, 24, Ipv6Addr::UNSPECIFIED), 48);
    bench.advance(SECOND * 10);
    let each = all_groups().into_iter().map(|group| (kind::MLD_REPORT, link_local(), group, vec![group]));
    assert_eq!(reports(&mut bench), each.collect::<Vec<_>>());
}

#[test]
fn a_query_for_one_group_is_answered_only_if_we_are_in_it() {
    for (group, answers) in
        [(solicited_node_multicast(addr6(1, 1)), 1), (solicited_node_multicast(addr6(1, 2)), 0)]
    {
        let mut bench = Bench::new(1);
        hear(&mut bench, &query(QUERIER, 1, 28, group), 48);
        bench.advance(SECOND * 10);
        let reports = reports(&mut bench);
        assert_eq!(reports.len(), answers);
        assert!(reports.iter().all(|report| report.3 == [group]));
    }
}

#[test]
fn a_storm_of_queries_is_answered_once() {
    let mut bench = Bench::new(1);
    for n in 0..1000 {
        hear(&mut bench, &query(QUERIER, 1, 28, solicited_node_multicast(addr6(1, n))), 48);
    }
    bench.advance(SECOND * 10);
    assert_eq!(reports(&mut bench).len(), 1);
}

#[test]
fn a_query_finds_its_way_from_the_wire() {
    let mut bench = Bench::new(1);
    let mut packet = query(QUERIER, 1, 28, Ipv6Addr::UNSPECIFIED);
    let sum = wire::checksum::Sum::pseudo_v6(QUERIER, wire::addr::ALL_NODES, Protocol::ICMP6, 28);
    let sum = sum.bytes(&packet[48..]).checksum();
    packet[50..52].copy_from_slice(&sum.to_be_bytes());
    let all_nodes = Mac([0x33, 0x33, 0, 0, 0, 1]);
    bench.inject(1, build::ether(all_nodes, Mac([6, 0, 0, 0, 0, 9]), 0x86dd, &packet));
    bench.advance(SECOND * 10);
    assert_eq!(reports(&mut bench).len(), 1, "{:?}", bench.drops());
}

#[test]
fn a_query_that_did_not_come_from_a_router_on_this_link_is_ignored() {
    let good = query(QUERIER, 1, 28, Ipv6Addr::UNSPECIFIED);
    let without_alert =
        build::ip(QUERIER.into(), wire::addr::ALL_NODES.into(), Protocol::ICMP6, 1, &good[48..]);
    let bad = [
        (query(addr6(1, 9), 1, 28, Ipv6Addr::UNSPECIFIED), 48),
        (query(QUERIER, 2, 28, Ipv6Addr::UNSPECIFIED), 48),
        (query(QUERIER, 1, 26, Ipv6Addr::UNSPECIFIED), 48),
        (query(QUERIER, 1, 28, addr6(1, 1)), 48),
        (good[..60].to_vec(), 48),
        (without_alert, 40),
    ];
    for (packet, l4) in bad {
        let mut bench = Bench::new(1);
        hear(&mut bench, &packet, l4);
        bench.advance(SECOND * 10);
        assert_eq!(reports(&mut bench), []);
        assert_eq!(bench.dropped(DropReason::MldMalformed), 1);
    }
}
