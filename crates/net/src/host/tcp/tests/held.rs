//! Connections that wait until the queue of their interface has room.

use std::collections::HashSet;

use super::*;
use crate::link::tables::{Config, QueueSpec};
use crate::testkit::build::{frame_from, udp};

/// More than the queue holds.
const CONNECTIONS: usize = 300;
const QUEUE: usize = 100;

fn peers() -> [IpAddr; 2] {
    [addr4(1, 9).into(), addr6(1, 9).into()]
}

/// A host with a short queue that has spoken with `peer`, so that it knows the way, and whose ring is full.
fn bench(peer: IpAddr) -> Bench {
    let mut bench = Bench::with(2, 1, |config: &mut Config| {
        for ifnet in &mut config.ifs {
            ifnet.queue = QueueSpec { packets_max: QUEUE, ..ifnet.queue };
        }
    });
    for _ in 0..4 {
        connect(bench.cpu(), &connector((peer, 80).into())).unwrap();
        bench.run();
    }
    bench.forget_sent();
    bench.make_room(1, 0);
    bench
}

fn begin(bench: &mut Bench, peer: IpAddr, connections: usize) -> Vec<Id> {
    let wanted = connector((peer, 80).into());
    (0..connections).map(|_| connect(bench.cpu(), &wanted).unwrap()).collect()
}

/// Local ports of SYNs that were sent.
fn syns(bench: &mut Bench) -> Vec<u16> {
    let sent = bench.sent(1);
    let segment = |frame: &Vec<u8>| {
        let (protocol, at) = if frame[14] >> 4 == 4 { (frame[23], 34) } else { (frame[20], 54) };
        (protocol == 6).then(|| u16::from_be_bytes([frame[at], frame[at + 1]]))
    };
    sent.iter().filter_map(segment).collect()
}

#[test]
fn what_connections_say_waits_with_them_and_not_in_a_queue_that_would_drop_it() {
    for peer in peers() {
        let mut bench = bench(peer);
        begin(&mut bench, peer, CONNECTIONS);
        bench.run();
        let waiting = bench.cpu().ifqs.state(1).unwrap().packets;
        assert!(waiting > 0 && waiting <= QUEUE, "{waiting}");
        assert!(bench.counted(Count::TcpHeld) >= (CONNECTIONS - QUEUE) as u64);
        let mut ports = HashSet::new();
        for round in 0.. {
            bench.make_room(1, 40);
            bench.run();
            let sent = syns(&mut bench);
            assert_eq!(sent.len(), 40.min(CONNECTIONS - ports.len()), "round {round}: the device is busy");
            ports.extend(sent);
            if ports.len() == CONNECTIONS {
                break;
            }
        }
        assert_eq!((bench.drops(), bench.counted(Count::TcpRetransmits)), (vec![], 0));
    }
}

#[test]
fn forwarded_packets_that_keep_the_queue_full_do_not_hold_connections_for_ever() {
    for peer in peers() {
        let mut bench = bench(peer);
        let (from, to): (IpAddr, IpAddr) = match peer {
            IpAddr::V4(_) => (addr4(2, 9).into(), addr4(1, 8).into()),
            IpAddr::V6(_) => (addr6(2, 9).into(), addr6(1, 8).into()),
        };
        let flood = frame_from(2, from, &udp(from, to, (1, 2), &[0; 100]));
        let own = 64;
        let mut ports = HashSet::new();
        for round in 0..200 {
            bench.make_room(1, 40);
            (0..2 * QUEUE).for_each(|_| bench.inject(2, flood.clone()));
            bench.run();
            if round == 4 {
                begin(&mut bench, peer, own);
            }
            ports.extend(syns(&mut bench));
        }
        assert!(bench.dropped(DropReason::IfqFull) > 0, "the flood is too much");
        assert_eq!(ports.len(), own);
        bench.make_room(1, usize::MAX);
        bench.run();
    }
}

#[test]
fn held_connections_end_with_their_interface_and_with_their_program() {
    for peer in peers() {
        let mut bench = bench(peer);
        let all = begin(&mut bench, peer, CONNECTIONS);
        bench.run();
        for id in all.iter().skip(CONNECTIONS / 2) {
            abort(bench.cpu(), *id).unwrap();
        }
        bench.run();
        let tables = &bench.cpu().tables;
        let mut ifs: Vec<_> = tables.ifnets().cloned().collect();
        ifs[0].up = false;
        bench.set_tables(Config { generation: 2, ifs, forwarding: true, ..Config::default() });
        bench.run();
        assert_eq!(bench.cpu().tcp.as_ref().unwrap().held.len(), 0);
    }
}
