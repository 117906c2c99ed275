use core::net::Ipv4Addr;

use super::*;
use crate::ip::neigh::entries;
use crate::testkit::link::{Said, arp};
use crate::testkit::{Bench, addr4, mac};

const HOST: Mac = Mac([6, 0, 0, 0, 0, 0x10]);

/// Host 16 asks for us on interface 1.
fn request() -> Packet {
    Packet::request(HOST, addr4(1, 16), addr4(1, 1))
}

fn bench() -> Bench {
    let mut bench = Bench::new(2);
    bench.neighbours_answer = false;
    bench
}

/// Returns the replies to `packet`, heard on interface 1, from its sender to `to`.
fn after(bench: &mut Bench, to: Mac, packet: &Packet) -> Vec<Said> {
    bench.hear(1, &arp(packet.sender_mac, to, packet));
    bench.said(1)
}

#[test]
fn a_request_for_our_address_is_answered_to_the_asker_alone() {
    for to in [Mac::BROADCAST, mac(1)] {
        let mut bench = bench();
        let said = after(&mut bench, to, &request());
        assert_eq!(said, [Said::Answered { to: HOST, target: addr4(1, 1).into(), mac: Some(mac(1)) }]);
        assert_eq!(bench.counted(Count::ArpConsumed), 1);
    }
}

#[test]
fn a_probe_for_our_address_is_answered_and_its_sender_not_learned() {
    let mut bench = bench();
    let probe = Packet { sender_ip: Ipv4Addr::UNSPECIFIED, ..request() };
    assert!(matches!(after(&mut bench, Mac::BROADCAST, &probe)[..], [Said::Answered { to: HOST, .. }]));
    assert_eq!(entries(bench.cpu()), []);
}

#[test]
fn a_request_for_another_address_is_not_answered() {
    // Not even for one that we have on another interface.
    for target_ip in [addr4(1, 2), addr4(2, 1), Ipv4Addr::new(192, 0, 2, 1)] {
        let mut bench = bench();
        assert_eq!(after(&mut bench, Mac::BROADCAST, &Packet { target_ip, ..request() }), []);
        assert_eq!(bench.dropped(DropReason::ArpNotForUs), 1, "{target_ip}");
    }
}

#[test]
fn a_sender_that_cannot_be_is_neither_answered_nor_learned() {
    let base = request();
    let senders = [
        Packet { sender_mac: Mac::BROADCAST, ..base },
        Packet { sender_mac: Mac([1, 0, 0x5e, 0, 0, 1]), ..base },
        Packet { sender_mac: Mac::ZERO, ..base },
        Packet { sender_ip: Ipv4Addr::new(127, 0, 0, 1), ..base },
        Packet { sender_ip: Ipv4Addr::new(224, 0, 0, 1), ..base },
        Packet { sender_ip: Ipv4Addr::BROADCAST, ..base },
        Packet { sender_ip: addr4(1, 255), ..base },
        Packet { sender_ip: addr4(1, 0), ..base },
        Packet { sender_ip: Ipv4Addr::UNSPECIFIED, operation: Operation::Reply, ..base },
    ];
    for packet in senders {
        let mut bench = bench();
        bench.hear(1, &arp(HOST, Mac::BROADCAST, &packet));
        assert_eq!(bench.said(1), [], "{packet:?}");
        assert_eq!(bench.dropped(DropReason::ArpNotCredible), 1, "{packet:?}");
        assert_eq!(entries(bench.cpu()), []);
    }
}

#[test]
fn malformed_packets_are_counted_and_change_nothing() {
    let spoil = |at: usize, value: u8| {
        let mut bytes = request().to_bytes().to_vec();
        bytes[at] = value;
        bytes
    };
    let short = request().to_bytes()[..PACKET_LEN - 1].to_vec();
    for bytes in
        [spoil(1, 6), spoil(3, 6), spoil(4, 5), spoil(4, 0), spoil(5, 16), spoil(7, 3), short, vec![]]
    {
        let mut bench = bench();
        bench.hear(1, &crate::testkit::build::ether(Mac::BROADCAST, HOST, 0x0806, &bytes));
        assert_eq!((bench.said(1), entries(bench.cpu())), (vec![], vec![]));
        assert_eq!(bench.dropped(DropReason::ArpMalformed), 1, "{bytes:?}");
    }
}

#[test]
fn our_own_packets_coming_back_are_no_conflict() {
    let mut bench = bench();
    let ours = Packet::request(mac(1), addr4(1, 1), addr4(1, 1));
    assert_eq!(after(&mut bench, Mac::BROADCAST, &ours), []);
    assert_eq!(bench.counted(Count::ArpConflicts), 0);
}

#[test]
fn a_storm_of_requests_costs_no_buffers_and_one_entry() {
    let mut bench = bench();
    for _ in 0..3000 {
        assert_eq!(after(&mut bench, Mac::BROADCAST, &request()).len(), 1);
    }
    assert_eq!(bench.buffers_out(), 0);
    assert_eq!(entries(bench.cpu()).len(), 1);
}
