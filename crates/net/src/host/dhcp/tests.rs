use core::net::SocketAddr;
use std::sync::mpsc::{Receiver, sync_channel};

use super::*;
use crate::ip::neigh;
use crate::testkit::build::{self, ether};
use crate::testkit::{Bench, addr4, mac};

const HOST: Mac = Mac([6, 0, 0, 0, 0, 9]);

/// A bench with DHCP on interface 1, and the messages that came.
fn bench(room: usize) -> (Bench, Receiver<Arrived>) {
    let mut bench = Bench::new(2);
    let (sender, receiver) = sync_channel(room);
    let sink: Sink = Box::new(move |arrived| sender.try_send(arrived).is_ok());
    bench.cpu().dhcp = Some(Box::new(Dhcp::new(vec![1], false, sink)));
    (bench, receiver)
}

fn datagram(to: Ipv4Addr, from: Ipv4Addr, ports: (u16, u16), message: &[u8]) -> Vec<u8> {
    build::udp(from.into(), to.into(), ports, message)
}

#[test]
fn a_host_without_an_address_is_heard_where_there_is_dhcp_and_nowhere_else() {
    let (mut bench, heard) = bench(4);
    let all = Ipv4Addr::BROADCAST;
    let none = Ipv4Addr::UNSPECIFIED;
    for (interface, ports, is_heard) in [(1, (68, 67), true), (1, (68, 69), false), (2, (68, 67), false)] {
        let packet = datagram(all, none, ports, b"discover");
        bench.inject(interface, ether(Mac::BROADCAST, HOST, 0x0800, &packet));
        bench.run();
        let came = heard.try_recv();
        assert_eq!(came.is_ok(), is_heard, "{interface} {ports:?}");
        if let Ok(arrived) = came {
            assert_eq!((arrived.ifindex, &*arrived.message), (1, &b"discover"[..]));
            assert_eq!(arrived.from, SocketAddr::new(none.into(), 68));
        }
    }
    assert_eq!(bench.dropped(DropReason::Ip4MartianSource), 2);
    // What has an address speaks to ours.
    let packet = datagram(addr4(1, 1), addr4(1, 9), (68, 67), b"request");
    bench.inject(1, ether(mac(1), HOST, 0x0800, &packet));
    bench.run();
    assert_eq!(heard.try_recv().unwrap().message, b"request");
}

#[test]
fn of_too_many_messages_the_newest_are_dropped_and_counted() {
    let (mut bench, heard) = bench(2);
    for _ in 0..5 {
        let packet = datagram(Ipv4Addr::BROADCAST, Ipv4Addr::UNSPECIFIED, (68, 67), b"flood");
        bench.inject(1, ether(Mac::BROADCAST, HOST, 0x0800, &packet));
        bench.run();
    }
    assert_eq!(heard.try_iter().count(), 2);
    assert_eq!(bench.dropped(DropReason::DhcpQueueFull), 3);
}

#[test]
fn a_message_goes_to_the_link_address_that_is_named_to_all_or_by_a_route() {
    let (mut bench, _heard) = bench(1);
    let peer = crate::testkit::peer_mac(addr4(1, 9).into());
    let key = neigh::Key { ifindex: 1, addr: addr4(1, 9).into() };
    assert!(neigh::set_static(bench.cpu(), key, peer));
    let from = SocketAddr::new(addr4(1, 1).into(), SERVER);
    for (to, link, is_named) in
        [(addr4(1, 77), HOST, true), (Ipv4Addr::BROADCAST, Mac::BROADCAST, false), (addr4(1, 9), peer, false)]
    {
        let outgoing = Outgoing {
            ifindex: 1,
            from,
            to: SocketAddr::new(to.into(), CLIENT),
            mac: is_named.then_some(link),
            message: b"offer".to_vec(),
        };
        assert!(send(bench.cpu(), &outgoing));
        bench.run();
        let sent = bench.sent(1);
        let frame = sent.last().unwrap_or_else(|| panic!("{to}: {:?}", bench.drops()));
        assert_eq!(frame[..6], link.octets());
        assert_eq!(frame[6..12], mac(1).octets());
        assert_eq!(frame[30..34], to.octets());
        assert_eq!(frame[34..38], [0, 67, 0, 68]);
        assert_eq!(&frame[42..47], b"offer");
    }
    let long = Outgoing { ifindex: 1, from, to: from, mac: None, message: vec![0; MESSAGE_MAX + 1] };
    assert!(!send(bench.cpu(), &long));
}

#[test]
fn messages_of_dhcpv6_come_from_the_group_where_there_is_a_server_and_leave_to_it() {
    let client = crate::testkit::addr6(1, 9);
    let own = link_local();
    let group = SocketAddr::new(dhcp6::ALL_AGENTS.into(), dhcp6::SERVER);
    for is_server in [true, false] {
        let mut bench = Bench::with(2, 1, |config| {
            config.ifs[0].groups = if is_server { vec![dhcp6::ALL_AGENTS.into()] } else { Vec::new() };
        });
        let (sender, heard) = sync_channel(4);
        let sink: Sink = Box::new(move |arrived| sender.try_send(arrived).is_ok());
        bench.cpu().dhcp = Some(Box::new(Dhcp::new(vec![1], false, sink)));
        let packet = build::udp(client.into(), group.ip(), (546, 547), b"question");
        let to = wire::addr::multicast_mac_v6(dhcp6::ALL_AGENTS).unwrap();
        bench.inject(1, ether(to, HOST, 0x86dd, &packet));
        bench.run();
        let came = heard.try_recv().map(|arrived| (arrived.from, arrived.to, arrived.message));
        let expected = (SocketAddr::new(client.into(), 546), group, b"question".to_vec());
        assert_eq!(came.ok(), is_server.then_some(expected));
        let from = SocketAddr::new(own, dhcp6::CLIENT);
        let outgoing = Outgoing { ifindex: 1, from, to: group, mac: None, message: b"solicit".to_vec() };
        assert!(send(bench.cpu(), &outgoing));
        bench.run();
        let sent = bench.sent(1);
        let is_one = |frame: &&Vec<u8>| frame.ends_with(b"solicit");
        let frame = sent.iter().find(is_one).unwrap_or_else(|| panic!("{:?}", bench.drops()));
        assert_eq!((&frame[..6], &frame[54..58]), (&to.octets()[..], &[2, 34, 2, 35][..]));
    }
}

fn link_local() -> IpAddr {
    wire::addr::link_local_from_mac(mac(1)).into()
}
