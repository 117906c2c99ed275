//! The bodies about groups.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::datagrams::any;
use crate::sockets::datagram_api::Socket;
use crate::sockets::hosts::{Group, Host, Hosts, addrs};

/// A group of each family, of no protocol.
pub(super) const GROUPS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(239, 1, 2, 3)), IpAddr::V6(Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 0x123))];

/// A socket that waits at any address, one that sends to groups by the first wire, and where a group of that family is heard.
fn each<F: Hosts>(face: &F, what: impl Fn(F::Socket, F::Socket, SocketAddr)) {
    for group in GROUPS {
        let everywhere = any((group, 0).into());
        let server = face.bind_udp(everywhere).unwrap();
        let client = face.client_udp(everywhere).unwrap();
        F::group(&client, Group::By(face.link(Host::Client, 0))).unwrap();
        let at = (group, server.addr().port()).into();
        what(server, client, at);
    }
}

/// Returns the next datagram.
fn heard(socket: &impl Socket) -> Vec<u8> {
    let mut into = [0; 32];
    let count = socket.recv_from(&mut into).unwrap().0;
    into[..count].to_vec()
}

pub(crate) fn a_group_is_heard_from_when_it_is_joined_until_it_is_left<F: Hosts>(face: &F) {
    each(face, |server, client, group| {
        let (lan, own) = (face.link(Host::Server, 0), addrs(Host::Server, 0));
        let own = (own[usize::from(group.is_ipv6())], group.port()).into();
        client.send_to(b"before", group).unwrap();
        face.has_come(group);
        client.send_to(b"to one", own).unwrap();
        assert_eq!(heard(&server), b"to one");
        F::group(&server, Group::Join(group.ip(), lan)).unwrap();
        client.send_to(b"to all", group).unwrap();
        assert_eq!(heard(&server), b"to all");
        F::group(&server, Group::Leave(group.ip(), lan)).unwrap();
        client.send_to(b"behind", group).unwrap();
        face.has_come(group);
        client.send_to(b"to one", own).unwrap();
        assert_eq!(heard(&server), b"to one");
        let why = F::group(&server, Group::Leave(group.ip(), lan)).unwrap_err();
        assert_eq!(why.raw_os_error(), Some(99), "EADDRNOTAVAIL");
    });
}

pub(crate) fn what_is_sent_to_a_group_goes_as_far_as_was_asked_for<F: Hosts>(face: &F) {
    each(face, |server, client, group| {
        F::group(&server, Group::Join(group.ip(), face.link(Host::Server, 0))).unwrap();
        // Over IPv6 Linux checks the hop limit only where the sender's host has a listener.
        let other = face.client_udp(any(group)).unwrap();
        F::group(&other, Group::Join(group.ip(), face.link(Host::Client, 0))).unwrap();
        face.seen();
        client.send_to(b"usual", group).unwrap();
        assert_eq!(heard(&server), b"usual");
        F::group(&client, Group::Ttl(0)).unwrap();
        client.send_to(b"stays", group).unwrap();
        F::group(&client, Group::Ttl(9)).unwrap();
        client.send_to(b"goes", group).unwrap();
        assert_eq!(heard(&server), b"goes");
        let mut hops: Vec<u8> =
            face.seen().iter().filter(|seen| seen.to == group).map(|seen| seen.hops).collect();
        hops.dedup();
        assert_eq!(hops, [1, 9]);
    });
}

pub(crate) fn multicast_loopback_follows_its_option<F: Hosts>(face: &F) {
    each(face, |_, client, group| {
        let other = face.client_udp(any(group)).unwrap();
        let at = (group.ip(), other.addr().port()).into();
        F::group(&other, Group::Join(group.ip(), face.link(Host::Client, 0))).unwrap();
        client.send_to(b"usual", at).unwrap();
        assert_eq!(heard(&other), b"usual");
        F::group(&client, Group::Loop(false)).unwrap();
        client.send_to(b"not here", at).unwrap();
        F::group(&client, Group::Loop(true)).unwrap();
        client.send_to(b"here", at).unwrap();
        assert_eq!(heard(&other), b"here");
    });
}

pub(crate) fn what_is_sent_to_a_group_leaves_by_the_interface_that_is_named<F: Hosts>(face: &F) {
    each(face, |server, client, group| {
        F::group(&server, Group::Join(group.ip(), face.link(Host::Server, 1))).unwrap();
        client.send_to(b"by the first", group).unwrap();
        face.has_come(group);
        F::group(&client, Group::By(face.link(Host::Client, 1))).unwrap();
        client.send_to(b"by the second", group).unwrap();
        let mut into = [0; 32];
        let (count, from) = server.recv_from(&mut into).unwrap();
        assert_eq!((&into[..count], from.port()), (&b"by the second"[..], client.addr().port()));
        assert_eq!(from.ip(), addrs(Host::Client, 1)[usize::from(group.is_ipv6())]);
    });
}
