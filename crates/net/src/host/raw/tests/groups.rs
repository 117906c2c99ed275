//! Raw sockets and what is sent to groups.

use wire::addr::{multicast_mac_v4, multicast_mac_v6};

use super::*;
use crate::host::dgram::{Listen, MEMBERSHIPS_MAX};
use crate::ip::group::{self, Key};
use crate::testkit::build::ether;

/// A group, one that every host is in, and another sender beside the neighbour.
fn places(of: IpAddr) -> [IpAddr; 3] {
    let [group, all] = if of.is_ipv4() { ["239.1.2.3", "224.0.0.1"] } else { ["ff05::123", "ff02::1"] };
    let other = if of.is_ipv4() { addr4(1, 8).into() } else { addr6(1, 8).into() };
    [group.parse().unwrap(), all.parse().unwrap(), other]
}

/// A message of `peer` to a group.
fn to_group(group: IpAddr, peer: IpAddr, kind: u8, seq: u8) -> Vec<u8> {
    let framed = from_peer(group, peer, kind, &[0, 7, 0, seq]);
    let (mac, ethertype) = match group {
        IpAddr::V4(group) => (multicast_mac_v4(group).unwrap(), 0x0800),
        IpAddr::V6(group) => (multicast_mac_v6(group).unwrap(), 0x86dd),
    };
    ether(mac, peer_mac(peer), ethertype, &framed[14..])
}

fn join(bench: &mut Bench, id: Id, group: IpAddr, filter: group::Filter) -> Result<(), Error> {
    listen(bench.cpu(), id, &Listen { group, ifindex: 1, filter })
}

fn is_member(bench: &mut Bench, group: IpAddr) -> bool {
    group::is_joined(bench.cpu(), Key { ifindex: 1, group })
}

#[test]
fn a_socket_is_shown_what_is_sent_to_groups_that_it_has_joined_by_whom_it_wants_and_to_those_of_the_host() {
    for (ours, peer) in families() {
        let mut bench = Bench::new(1);
        let [group, all, other] = places(ours);
        let (_, reply) = echo(ours);
        let [stranger, member, picky] = [0; 3].map(|_| open(bench.cpu(), &wanted(ours)).unwrap());
        join(&mut bench, member, group, group::Filter::ALL).unwrap();
        join(&mut bench, picky, group, group::Filter::only([other])).unwrap();
        for (to, from, seq) in [(group, peer, 1), (group, other, 2), (all, peer, 3)] {
            bench.inject(1, to_group(to, from, reply, seq));
        }
        bench.run();
        let seen = [stranger, member, picky]
            .map(|id| heard(&mut bench, id).into_iter().map(|(from, to, _, bytes)| (from, to, bytes[7])));
        let seen = seen.map(Iterator::collect::<Vec<_>>);
        let [first, second, third] = [(peer, group, 1), (other, group, 2), (peer, all, 3)];
        assert_eq!(seen, [vec![third], vec![first, second, third], vec![second, third]]);
    }
}

#[test]
fn what_is_said_of_groups_is_shown_whichever_they_are() {
    let [_, (ours, _)] = families();
    let mut bench = Bench::new(1);
    let [group, ..] = places(ours);
    let ids = [0; 2].map(|_| open(bench.cpu(), &wanted(ours)).unwrap());
    join(&mut bench, ids[0], group, group::Filter::ALL).unwrap();
    let router = "fe80::9".parse().unwrap();
    bench.inject(1, to_group(group, router, 130, 0));
    bench.run();
    assert_eq!(ids.map(|id| kinds(&mut bench, id)), [[130], [130]]);
}

#[test]
fn the_host_is_in_a_group_while_a_socket_of_any_kind_wants_it() {
    for (ours, _) in families() {
        let mut bench = Bench::new(1);
        let [group, ..] = places(ours);
        let id = open(bench.cpu(), &wanted(ours)).unwrap();
        let bind = crate::host::udp::Bind {
            addr: (any(ours), 5300).into(),
            zone: 0,
            only_v6: false,
            is_shared: false,
            settings: Settings::default(),
        };
        let other = crate::host::udp::bind(bench.cpu(), &bind).unwrap();
        join(&mut bench, id, group, group::Filter::ALL).unwrap();
        let wanted = Listen { group, ifindex: 1, filter: group::Filter::ALL };
        crate::host::udp::listen(bench.cpu(), other, &wanted).unwrap();
        join(&mut bench, id, group, group::Filter::NONE).unwrap();
        assert!(is_member(&mut bench, group), "the other is still there");
        join(&mut bench, id, group, group::Filter::ALL).unwrap();
        crate::host::udp::close(bench.cpu(), other).unwrap();
        assert!(is_member(&mut bench, group), "this one is");
        close(bench.cpu(), id).unwrap();
        assert!(!is_member(&mut bench, group));
    }
}

#[test]
fn a_socket_joins_so_many_groups_and_no_more_and_leaves_those_of_a_link_that_is_gone() {
    for (ours, _) in families() {
        let mut bench = Bench::new(1);
        let id = open(bench.cpu(), &wanted(ours)).unwrap();
        let groups = (0..=MEMBERSHIPS_MAX).map(|n| match ours {
            IpAddr::V4(_) => IpAddr::from([239, 2, 0, u8::try_from(n).unwrap()]),
            IpAddr::V6(_) => IpAddr::from([0xff05, 0, 0, 0, 0, 0, 1, u16::try_from(n).unwrap()]),
        });
        let joined: Vec<_> =
            groups.map(|group| join(&mut bench, id, group, group::Filter::ALL).is_ok()).collect();
        assert_eq!(joined, [&[true; MEMBERSHIPS_MAX][..], &[false]].concat());
        bench.set_tables(crate::link::tables::Config::default());
        bench.run();
        assert_eq!(memberships(bench.cpu(), id), []);
    }
}
