//! Keepalives of idle connections.

use super::*;
use crate::testkit::Bench;

/// Answers of an end that is still there.
fn answers(world: &mut World, keepalives: &[Keepalive]) {
    for keepalive in keepalives {
        let answer = segment(ACK, keepalive.ack, keepalive.seq.wrapping_add(1), 0);
        assert!(world.hit(keepalive.flow.reversed(), answer).is_some());
    }
}

#[test]
fn an_idle_connection_is_asked_every_five_seconds_in_its_last_twenty_and_dies_unanswered() {
    for family in FAMILIES {
        let mut world = World::new(family);
        let flow = world.connect(1000);
        world.seconds(279);
        assert!(world.keepalives.is_empty());
        let mut asked = Vec::new();
        for _ in 0..25 {
            world.seconds(1);
            asked.push(world.keepalives.len());
            world.keepalives.clear();
        }
        assert_eq!(asked.iter().sum::<usize>(), 8, "{asked:?}");
        assert_eq!(asked.iter().filter(|asked| **asked == 2).count(), 4, "each time both ends");
        assert!(world.left(flow).is_none() && world.states.is_empty());
    }
}

#[test]
fn an_answer_keeps_the_connection() {
    for family in FAMILIES {
        let mut world = World::new(family);
        let flow = world.connect(1000);
        for _ in 0..10 {
            world.seconds(281);
            let keepalives = core::mem::take(&mut world.keepalives);
            let [to_server, to_client] = keepalives[..] else { panic!("{keepalives:?}") };
            assert_eq!((to_server.flow, to_client.flow), (flow, flow.reversed()));
            assert_eq!(
                (to_server.seq, to_server.ack),
                (ISS, IRS + 1),
                "the byte before the one that it expects"
            );
            assert_eq!(to_client.ack, ISS.wrapping_add(1));
            answers(&mut world, &[to_server]);
            assert_eq!(world.left(flow), Some(300));
        }
    }
}

#[test]
fn connections_that_are_not_open_and_all_if_it_is_switched_off_die_unasked() {
    for family in FAMILIES {
        let mut world = World::with(family, Settings { keepalive: false, ..Settings::default() });
        world.connect(1);
        world.seconds(301);
        world.states.configure(Settings::default());
        let half_open = world.flow(Protocol::TCP, 2);
        world.install(half_open, segment(SYN, ISS, 0, 0));
        let datagrams = world.flow(Protocol::UDP, 3);
        world.install(datagrams, DATAGRAM);
        world.seconds(30);
        assert!(world.keepalives.is_empty() && world.states.is_empty());
    }
}

#[test]
fn of_many_idle_connections_a_few_are_asked_at_a_time_and_all_are() {
    let mut world = World::new(Family::V4);
    (0..100).for_each(|port| _ = world.connect(port));
    world.now = world.now + Duration::from_secs(280);
    let mut ticks = 0;
    while world.keepalives.len() < 200 {
        let before = world.keepalives.len();
        world.states.tick(world.now, 256, &mut world.keepalives);
        assert!(world.keepalives.len() - before <= 8);
        world.now = world.now + Duration::from_millis(250);
        ticks += 1;
        assert!(ticks < 100, "{} asked", world.keepalives.len());
    }
}

#[test]
fn the_states_of_a_redirected_connection_ask_one_end_each() {
    for (kind, direction) in [(Kind::RedirectMaster, 1), (Kind::RedirectSlave, 0)] {
        let mut world = World::new(Family::V4);
        let flow = world.connect(1);
        let id = world.states.find(&flow, world.states.hash(&flow), ANY, world.now).unwrap();
        world.states.get_mut(id).unwrap().kind = kind;
        world.seconds(281);
        let expected = [flow, flow.reversed()][direction];
        assert_eq!(world.keepalives.iter().map(|keepalive| keepalive.flow).collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn a_keepalive_is_a_whole_packet_that_the_firewall_is_not_asked_about() {
    for family in FAMILIES {
        let mut world = World::new(family);
        let flow = world.connect(1000);
        world.seconds(281);
        let mut bench = Bench::new(1);
        for keepalive in core::mem::take(&mut world.keepalives) {
            let pkt = keepalive.packet(&mut bench.cpu().pool).unwrap();
            assert!(pkt.flags.has(pkt::Flags::GENERATED));
            let packet = pkt.head().to_vec();
            bench.cpu().pool.give(pkt);
            let slices = etherparse::SlicedPacket::from_ip(&packet).unwrap();
            let Some(etherparse::TransportSlice::Tcp(tcp)) = &slices.transport else { panic!("{slices:?}") };
            let [from, to] = keepalive.flow.ends();
            assert_eq!((tcp.source_port(), tcp.destination_port()), (from.port, to.port));
            assert!(tcp.ack() && !tcp.syn() && tcp.payload().is_empty());
            assert_eq!(tcp.sequence_number(), keepalive.seq);
            let sum = match slices.net.as_ref().unwrap() {
                etherparse::NetSlice::Ipv4(ip) => {
                    tcp.to_header().calc_checksum_ipv4(&ip.header().to_header(), &[])
                }
                etherparse::NetSlice::Ipv6(ip) => {
                    tcp.to_header().calc_checksum_ipv6(&ip.header().to_header(), &[])
                }
                _ => panic!("no address"),
            };
            assert_eq!(sum.unwrap(), tcp.checksum());
            assert_eq!(keepalive.flow.key, flow.key);
        }
    }
}
