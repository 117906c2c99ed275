//! Delivery of datagrams to groups.

use super::*;
use crate::testkit::build::udp as datagram;

/// A neighbour sends to a group, from port `port`.
fn send(bench: &mut Bench, from: IpAddr, port: u16, group: IpAddr) {
    hear(bench, &datagram(from, group, (port, PORT), &port.to_be_bytes()));
}

/// Returns the datagrams read by each socket: source and port.
fn read_all(bench: &mut Bench, ids: &[Id]) -> Vec<(IpAddr, u16)> {
    let mut got = Vec::new();
    for (netisr, id) in bench.netisrs.iter_mut().zip(ids) {
        while let Ok(received) = udp::recv(&mut netisr.cpu, *id, &mut [0; 2]) {
            got.push((received.from.ip(), received.from.port()));
        }
    }
    got.sort_unstable();
    got
}

#[test]
fn each_member_gets_each_datagram_of_a_wanted_source_once_on_any_cpu() {
    for (cpus, family) in each() {
        let mut bench = Bench::with(1, cpus, |_| ());
        let [a, b] = [7, 8].map(|host| family.sender(host));
        let filters = [Filter::ALL, Filter::only([a]), Filter::except([a])];
        let group = family.group(1);
        let sockets = filters.clone().map(|filter| {
            let ids = everywhere(&mut bench, family);
            listen(&mut bench, &ids, group, &filter);
            ids
        });
        let stranger = everywhere(&mut bench, family);
        for port in 1..=50 {
            send(&mut bench, a, port, group);
            send(&mut bench, b, port, group);
            send(&mut bench, a, port, family.group(2));
        }
        for (ids, filter) in sockets.iter().zip(&filters) {
            let senders = [a, b].into_iter().filter(|sender| filter.admits(*sender));
            let wanted: Vec<_> =
                senders.flat_map(|sender| (1..=50).map(move |port| (sender, port))).collect();
            assert_eq!(read_all(&mut bench, ids), wanted, "{filter:?}");
        }
        assert_eq!(read_all(&mut bench, &stranger), [], "who has not joined has nothing");
        assert_eq!(
            bench.dropped(DropReason::GroupNotJoined) + bench.dropped(DropReason::ForwardMulticast),
            50
        );
        for ids in [&sockets[0], &sockets[2]] {
            listen(&mut bench, ids, group, &Filter::NONE);
        }
        send(&mut bench, b, 1, group);
        assert_eq!(bench.dropped(DropReason::GroupSource), 1);
    }
}

#[test]
fn a_cpu_lets_in_what_its_own_sockets_listen_to_before_it_is_told_that_all_are_in_the_group() {
    for (cpus, family) in each() {
        let mut bench = Bench::with(1, cpus, |_| ());
        let ids = everywhere(&mut bench, family);
        let key = Key { ifindex: 1, group: family.group(1) };
        let mut wanted = Listen { group: key.group, ifindex: 1, filter: Filter::ALL };
        for (netisr, id) in bench.netisrs.iter_mut().zip(&ids) {
            udp::listen(&mut netisr.cpu, *id, &wanted).unwrap();
            assert!(is_joined(&netisr.cpu, key), "{cpus}");
        }
        bench.run();
        wanted.filter = Filter::NONE;
        for (netisr, id) in bench.netisrs.iter_mut().zip(&ids) {
            udp::listen(&mut netisr.cpu, *id, &wanted).unwrap();
        }
        bench.run();
        assert!(bench.netisrs.iter().all(|netisr| !is_joined(&netisr.cpu, key)));
    }
}

#[test]
fn everybody_has_what_is_sent_to_all_nodes_unless_it_says_no() {
    for (cpus, family) in each() {
        let mut bench = Bench::with(1, cpus, |_| ());
        let [plain, picky] = [0; 2].map(|_| everywhere(&mut bench, family));
        listen(&mut bench, &picky, family.all(), &Filter::except([family.sender(7)]));
        bench.advance(SECOND * 3);
        assert_eq!(told(&mut bench, family), [], "nobody is told of it");
        send(&mut bench, family.sender(7), 1, family.all());
        send(&mut bench, family.sender(8), 2, family.all());
        assert_eq!(read_all(&mut bench, &plain), [(family.sender(7), 1), (family.sender(8), 2)]);
        assert_eq!(read_all(&mut bench, &picky), [(family.sender(8), 2)]);
    }
}

#[test]
fn local_members_get_one_copy_unless_multicast_loopback_is_off() {
    for (cpus, family) in each() {
        let mut bench = Bench::with(1, cpus, |_| ());
        let ids = everywhere(&mut bench, family);
        let group = family.group(1);
        listen(&mut bench, &ids, group, &Filter::ALL);
        bench.advance(SECOND * 3);
        let last = usize::from(cpus) - 1;
        for (no_loop, group_hops) in [(false, 1), (true, 1), (false, 0), (true, 0)] {
            bench.forget_sent();
            let cpu = &mut bench.netisrs[last].cpu;
            udp::change(cpu, ids[last], |settings| {
                (settings.no_loop, settings.group_hops) = (no_loop, group_hops);
            })
            .unwrap();
            udp::send_to(cpu, ids[last], core::net::SocketAddr::new(group, PORT), &[1, 2]).unwrap();
            bench.run();
            let heard = read_all(&mut bench, &ids);
            assert_eq!(heard.len(), usize::from(!no_loop), "{no_loop} {group_hops}");
            assert!(heard.iter().all(|from| *from == (family.addr(1, 1), PORT)));
            let left = bench.sent(1);
            assert_eq!(left.len(), usize::from(group_hops), "what has no hop left stays here");
            assert!(left.iter().all(|frame| Mac(*frame.first_chunk().unwrap()) == group_mac(group)));
        }
    }
}

#[test]
fn what_is_sent_to_a_group_leaves_by_the_interface_that_the_program_names() {
    for family in FAMILIES {
        let mut bench = Bench::new(2);
        let ids = everywhere(&mut bench, family);
        let group = family.group(1);
        for ifindex in [1, 2] {
            udp::change(bench.cpu(), ids[0], |settings| settings.group_if = ifindex).unwrap();
            udp::send_to(bench.cpu(), ids[0], core::net::SocketAddr::new(group, PORT), b"x").unwrap();
            bench.run();
            assert_eq!((bench.sent(ifindex).len(), bench.sent(3 - ifindex).len()), (1, 0));
        }
        let wanted = Listen { group, ifindex: 0, filter: Filter::ALL };
        udp::listen(bench.cpu(), ids[0], &wanted).unwrap();
        assert_eq!(udp::memberships(bench.cpu(), ids[0])[0].key, Key { ifindex: 2, group });
    }
}
