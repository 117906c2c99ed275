use core::net::IpAddr;
use core::time::Duration;

use wire::tcp::{Flags, Header, Options};

use crate::base::count::Count;
use crate::ip::neigh;
use crate::testkit::link::{FAMILIES, Family};
use crate::testkit::rules::rules;
use crate::testkit::{Bench, build, peer_mac};

/// The address, or the prefix, that others see instead of those on the first link.
const TRANSLATED: &str = "nat 1 config ip 10.0.2.1 same_ports
nptv6 out create int_prefix 2001:db8:1:: ext_prefix 2001:db8:99:: prefixlen 48
add allow ipv6-icmp from any to any icmp6types 135,136
add nat 1 ip4 from any to any via mem2
add nptv6 out ip6 from any to any via mem2
add allow ip from any to any
";

fn bench() -> Bench {
    let mut bench = Bench::new(2);
    bench.netisrs[0].set_flows(Some(64));
    bench.set_rules(&mut rules(TRANSLATED));
    bench
}

/// Lets a packet from the link of one interface through; what left by the other one, and whether the flow cache knew how.
fn go(bench: &mut Bench, from: u16, packet: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let before = bench.counted(Count::FlowHits);
    bench.inject(from, build::frame(from, packet));
    bench.run();
    let is_ip = |frame: &Vec<u8>| matches!(frame[12..14], [8, 0] | [0x86, 0xdd]);
    let sent = bench.sent(3 - from).into_iter().filter(is_ip).collect();
    (sent, bench.counted(Count::FlowHits) > before)
}

/// The ends that a frame of UDP is between.
fn ends(family: Family, frame: &[u8]) -> [(IpAddr, u16); 2] {
    let packet = &frame[14..];
    let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    match family {
        Family::V4 => {
            let addr = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&packet[at..at + 4]).unwrap());
            [(addr(12), port(20)), (addr(16), port(22))]
        }
        Family::V6 => {
            let addr = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&packet[at..at + 16]).unwrap());
            [(addr(8), port(40)), (addr(24), port(42))]
        }
    }
}

#[test]
fn translated_flows_are_forwarded_fast_both_ways_as_they_were_before() {
    for family in FAMILIES {
        let mut bench = bench();
        let (inside, remote) = ((family.addr(1, 9), 1000), (family.addr(2, 9), 53));
        let question = build::udp(inside.0, remote.0, (inside.1, remote.1), b"what");
        let out: Vec<_> = (0..6).map(|_| go(&mut bench, 1, &question)).collect();
        assert_eq!(out.iter().map(|(_, is_hit)| *is_hit).collect::<Vec<_>>()[4..], [true, true]);
        assert!(out[1..].iter().all(|(sent, _)| *sent == out[1].0 && sent.len() == 1), "{family:?}");
        let [outside, to] = ends(family, &out[1].0[0]);
        assert!(outside != inside && to == remote);
        let answer = build::udp(remote.0, outside.0, (remote.1, outside.1), b"that");
        let back: Vec<_> = (0..6).map(|_| go(&mut bench, 2, &answer)).collect();
        assert!(back[4].1 && back[5].1 && back[1..].iter().all(|(sent, _)| *sent == back[1].0));
        assert_eq!(ends(family, &back[1].0[0]), [remote, inside]);
    }
}

/// The usual router of a home or an office: what goes out has a state and is translated, and only its answers come in.
const OFFICE: &str = "disable one_pass
nat 1 config ip 10.0.2.1
nptv6 out create int_prefix 2001:db8:1:: ext_prefix 2001:db8:99:: prefixlen 48
add 10 allow ipv6-icmp from any to any icmp6types 135,136
add 100 nat 1 ip4 from any to any in recv mem2
add 110 nptv6 out ip6 from any to any in recv mem2
add 200 check-state
add 400 skipto 1000 tcp from any to any in recv mem1 setup keep-state
add 410 skipto 1000 udp from any to any in recv mem1 keep-state
add 500 deny ip from any to any
add 1000 nat 1 ip4 from any to any out xmit mem2
add 1010 nptv6 out ip6 from any to any out xmit mem2
add 1020 allow ip from any to any
";

/// Connections, as a web server behind a router sees them.
const SERVER: &str = "add check-state
add allow tcp from any to any 80 setup keep-state
";

#[test]
fn a_connection_that_both_ends_have_closed_leaves_its_place_in_the_flow_cache_to_another() {
    for family in FAMILIES {
        let mut bench = Bench::new(2);
        bench.netisrs[0].set_flows(Some(64));
        bench.set_rules(&mut rules(SERVER));
        let live = |bench: &Bench| {
            let cpu = &bench.netisrs[0].cpu;
            cpu.flows.as_ref().unwrap().usage(cpu).0
        };
        let (client, server) = (family.addr(1, 9), family.addr(2, 9));
        for (ifindex, addr) in [(1, client), (2, server)] {
            assert!(neigh::set_static(bench.cpu(), neigh::Key { ifindex, addr }, peer_mac(addr)));
        }
        let send = |bench: &mut Bench, from: u16, flags: Flags, [seq, ack]: [u32; 2]| {
            let (src, dst, src_port, dst_port) =
                if from == 1 { (client, server, 1000, 80) } else { (server, client, 80, 1000) };
            let options = Options::NONE;
            let header = Header { src_port, dst_port, seq, ack, flags, window: 9000, urgent: 0, options };
            let (sent, is_hit) = go(bench, from, &build::tcp(src, dst, &header, b""));
            assert_eq!(sent.len(), 1, "{family:?}");
            is_hit
        };
        send(&mut bench, 1, Flags::SYN, [99, 0]);
        send(&mut bench, 2, Flags::SYN | Flags::ACK, [499, 100]);
        for from in [1, 2, 1, 2, 1, 2] {
            send(&mut bench, from, Flags::ACK, if from == 1 { [100, 500] } else { [500, 100] });
        }
        assert_eq!(live(&bench), 2, "both directions are known");
        assert!(send(&mut bench, 1, Flags::FIN | Flags::ACK, [100, 500]));
        assert_eq!(live(&bench), 2, "the other end may go on");
        assert!(send(&mut bench, 2, Flags::FIN | Flags::ACK, [500, 101]));
        assert!(send(&mut bench, 1, Flags::ACK, [101, 501]), "and the last one is forwarded fast");
        assert_eq!(live(&bench), 0, "{family:?}");
    }
}

/// Flows, each with as many packets out as in; 300,000 of them in all, if there is time.
const FLOWS: u16 = 50;

#[test]
fn nearly_all_of_300000_packets_with_a_state_and_a_translation_are_forwarded_by_the_flow_cache() {
    let rounds: u32 = if std::env::var_os("PANTALA_WORLDS").is_some() { 3000 } else { 300 };
    for family in FAMILIES {
        let mut bench = Bench::new(2);
        bench.netisrs[0].set_flows(Some(256));
        bench.set_rules(&mut rules(OFFICE));
        let (inside, remote) = (family.addr(1, 9), family.addr(2, 9));
        let questions: Vec<_> =
            (0..FLOWS).map(|n| build::udp(inside, remote, (1000 + n, 53), b"what")).collect();
        let answers: Vec<_> = questions
            .iter()
            .map(|question| {
                go(&mut bench, 1, question);
                let [outside, to] = ends(family, &go(&mut bench, 1, question).0[0]);
                assert!(outside.0 != inside && to == (remote, 53));
                build::udp(remote, outside.0, (53, outside.1), b"that")
            })
            .collect();
        let before = [Count::FlowHits, Count::FlowMisses].map(|count| bench.counted(count));
        for _ in 0..rounds {
            for (from, packets) in [(1, &questions), (2, &answers)] {
                packets.iter().for_each(|packet| bench.inject(from, build::frame(from, packet)));
                bench.run();
                assert_eq!(bench.sent(3 - from).len(), packets.len(), "{family:?}");
            }
        }
        let after = [Count::FlowHits, Count::FlowMisses].map(|count| bench.counted(count));
        let [hits, misses] = [after[0] - before[0], after[1] - before[1]];
        let all = u64::from(rounds) * 2 * u64::from(FLOWS);
        // Neighbours speak, too.
        assert!(
            hits <= all && misses <= 6 * u64::from(FLOWS) && hits + misses >= all,
            "{family:?}: {hits} hits of {all}"
        );
        let now = bench.cpu().now;
        let states = bench.cpu().firewall.as_ref().unwrap().states().page(0, usize::MAX, false, now).0;
        let counted: u64 = states.iter().map(|state| state.packets).sum();
        assert_eq!(
            (states.len(), counted),
            (FLOWS.into(), 2 * (all + 2 * u64::from(FLOWS))),
            "two hooks each"
        );
    }
}

#[test]
fn a_binding_of_another_host_that_is_seen_as_the_same_end_is_not_taken_for_the_one_before() {
    let (mut bench, family) = (bench(), Family::V4);
    let remote = (family.addr(2, 9), 53);
    let host = |n: u8| family.addr(1, n);
    let question = |n: u8| build::udp(host(n), remote.0, (4000, 53), b"what");
    let answer = build::udp(remote.0, family.addr(2, 1), (53, 4000), b"that");
    for (ifindex, n) in [(2, 9), (1, 9), (1, 10), (1, 11)] {
        // Nothing changes meanwhile that makes all flows unknown.
        let addr = family.addr(ifindex, n);
        assert!(neigh::set_static(bench.cpu(), neigh::Key { ifindex, addr }, peer_mac(addr)));
    }
    for n in [9, 10, 11] {
        for _ in 0..6 {
            go(&mut bench, 1, &question(n));
        }
        let back: Vec<_> = (0..10).map(|_| go(&mut bench, 2, &answer)).collect();
        assert!(back[9].1, "the answer's way is known");
        for (sent, _) in back.iter().filter(|(sent, _)| !sent.is_empty()) {
            assert_eq!(ends(family, &sent[0]), [remote, (host(n), 4000)]);
            assert_eq!(sent[0][..6], peer_mac(host(n)).0, "and its link address");
        }
        bench.advance(Duration::from_secs(400));
    }
}
