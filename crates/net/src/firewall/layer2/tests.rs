use core::net::IpAddr;
use core::time::Duration;

use wire::Protocol;
use wire::ether::Mac;
use wire::tcp::{Flags, Header, Options};

use crate::base::drop::DropReason;
use crate::link::bridge::{Bridge, Port};
use crate::link::logical::Kind;
use crate::link::tables::{IfIndex, Ifnet};
use crate::testkit::link::{FAMILIES, Family};
use crate::testkit::rules::rules;
use crate::testkit::{Bench, build, ifnet, mac};
use crate::turn::sysctl::{self, Variable};

/// Ports 1 and 2 are of the bridge 3, which routes, too.
const BRIDGE: IfIndex = 3;

/// A bridge that asks these rules, with deny at their end.
fn bridge(cpus: u16, text: &str) -> Bench {
    let mut bench = Bench::with(2, cpus, |config| {
        for ifnet in &mut config.ifs {
            let port = Port { bridge: BRIDGE, ..Port::default() };
            (ifnet.port, ifnet.addrs) = (Some(port), Vec::new());
        }
        config
            .ifs
            .push(Ifnet { kind: Kind::Bridge(Bridge { storm: 0, ..Bridge::default() }), ..ifnet(BRIDGE) });
    });
    bench.neighbours_answer = false;
    bench.set_rules(&mut rules(text));
    switch(&mut bench, "net.link.bridge.ipfw", 1);
    bench
}

fn switch(bench: &mut Bench, name: &str, value: i64) {
    let variable = Variable::named(name).unwrap();
    bench.netisrs.iter_mut().for_each(|one| sysctl::set(&mut one.cpu, variable, value));
}

fn station(host: u8) -> Mac {
    Mac([6, 0, 0, 0, 7, host])
}

fn ends(family: Family) -> (IpAddr, IpAddr) {
    (family.addr(9, 10), family.addr(9, 20))
}

/// A frame of station 10 on port 1 to station 20 on port 2, or back.
fn frame(from: IfIndex, packet: &[u8]) -> Vec<u8> {
    let kind = if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
    let [to, by] = if from == 1 { [20, 10] } else { [10, 20] };
    build::ether(station(to), station(by), kind, packet)
}

fn udp(family: Family, from: IfIndex, port: u16) -> Vec<u8> {
    let (one, other) = ends(family);
    frame(
        from,
        &if from == 1 {
            build::udp(one, other, (port, 53), b"?")
        } else {
            build::udp(other, one, (53, port), b"!")
        },
    )
}

fn tcp(family: Family, from: IfIndex, flags: Flags, seq: u32, ack: u32) -> Vec<u8> {
    let (one, other) = ends(family);
    let (src, dst) = if from == 1 { (one, other) } else { (other, one) };
    let (src_port, dst_port) = if from == 1 { (1000, 80) } else { (80, 1000) };
    let header = Header { src_port, dst_port, seq, ack, flags, window: 9, urgent: 0, options: Options::NONE };
    frame(from, &build::tcp(src, dst, &header, &[]))
}

/// Injects a frame at a port; whether it came out of the other one as it was, but for padding, and nothing else did.
fn passes(bench: &mut Bench, from: IfIndex, frame: &[u8]) -> bool {
    bench.inject(from, frame.to_vec());
    bench.run();
    let (sent, back) = (bench.sent(3 - from), bench.sent(from));
    assert!(back.is_empty(), "an answer: {back:02x?}");
    assert!(sent.iter().all(|sent| frame.starts_with(sent)), "{sent:02x?} of {frame:02x?}");
    assert!(sent.len() <= 1);
    sent.len() == 1
}

#[test]
fn rules_match_frames_that_a_bridge_forwards_by_link_port_and_packet() {
    for cpus in [1, 4] {
        for family in FAMILIES {
            for (rule, reaches) in [
                ("deny ip from any to any layer2", false),
                ("deny ip from any to any bridged", false),
                ("deny ip from any to any not layer2", true),
                ("deny udp from any to any 53", false),
                ("deny udp from any to any 54", true),
                ("deny udp from any to any 53 layer2 in recv mem1", false),
                ("deny udp from any to any 53 layer2 recv mem2", true),
                ("deny ip from any to any out", true),
                ("deny ip from any to any layer2 via mem1", false),
                ("deny ip from any to any MAC 06:00:00:00:07:14 any", false),
                ("deny ip from any to any MAC any 06:00:00:00:07:00/40", false),
                ("deny ip from any to any MAC any 06:00:00:00:07:14", true),
                ("deny ip from any to any mac-type ipv4,ipv6", false),
                ("deny ip from any to any mac-type arp", true),
                ("deny ip4 from any to any layer2", family != Family::V4),
                ("deny ip6 from any to any layer2", family != Family::V6),
                ("deny ip from any to any forward", true),
            ] {
                let mut bench = bridge(cpus, &format!("add {rule}\nadd allow ip from any to any\n"));
                assert_eq!(passes(&mut bench, 1, &udp(family, 1, 1)), reaches, "{rule}, {cpus} CPUs");
                let denied = bench.drops();
                let expected = if reaches { vec![] } else { vec![(DropReason::FirewallDeny, 1)] };
                assert_eq!(denied, expected, "{rule}");
                switch(&mut bench, "net.link.bridge.ipfw", 0);
                assert!(passes(&mut bench, 1, &udp(family, 1, 1)), "{rule} is not asked");
            }
        }
    }
}

#[test]
fn a_bridge_is_a_transparent_stateful_firewall_whatever_cpu_a_frame_comes_in_on() {
    const RULES: &str = "add check-state\nadd allow tcp from any to any 80 layer2 recv mem1 setup keep-state\n\
                         add allow udp from any to any 53 layer2 recv mem1 keep-state\n";
    for cpus in [1, 2, 4] {
        for family in FAMILIES {
            let mut bench = bridge(cpus, RULES);
            assert!(!passes(&mut bench, 2, &udp(family, 2, 7)), "without a question");
            assert!(passes(&mut bench, 1, &udp(family, 1, 7)));
            assert!(passes(&mut bench, 2, &udp(family, 2, 7)));
            assert!(!passes(&mut bench, 2, &udp(family, 2, 8)), "another flow");
            let ack = Flags(Flags::SYN.0 | Flags::ACK.0);
            assert!(!passes(&mut bench, 1, &tcp(family, 1, Flags::ACK, 5, 5)), "of no connection");
            assert!(passes(&mut bench, 1, &tcp(family, 1, Flags::SYN, 100, 0)));
            assert!(passes(&mut bench, 2, &tcp(family, 2, ack, 700, 101)));
            // Padding is no part of the packet.
            let padded = [tcp(family, 1, Flags::ACK, 101, 701), vec![0; 26]].concat();
            bench.inject(1, padded);
            bench.run();
            assert_eq!(bench.sent(2), [tcp(family, 1, Flags::ACK, 101, 701)]);
            assert!(passes(&mut bench, 2, &tcp(family, 2, Flags::ACK, 701, 101)));
            // An error is of the flow that it quotes.
            let (one, _) = ends(family);
            let router = family.addr(9, 77);
            let quoted = &tcp(family, 1, Flags::ACK, 101, 701)[14..];
            let mut error = vec![0; 8];
            let protocol = if family == Family::V4 { Protocol::ICMP } else { Protocol::ICMP6 };
            error[0] = if family == Family::V4 { 3 } else { 1 };
            error.extend_from_slice(quoted);
            let error = frame(2, &build::ip(router, one, protocol, 64, &error));
            assert!(passes(&mut bench, 2, &error), "{cpus} CPUs, {family:?}: {:?}", bench.drops());
        }
    }
}

#[test]
fn frames_without_ip_match_only_rules_that_ask_for_nothing_of_it() {
    let other = build::ether(station(20), station(10), 0x88b5, &[7; 50]);
    let arp = build::ether(
        Mac::BROADCAST,
        station(10),
        0x0806,
        &[0, 1, 8, 0, 6, 4, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2],
    );
    for cpus in [1, 4] {
        for (rule, reaches) in [
            ("deny ip from any to any layer2", false),
            ("deny ip from any to any mac-type 0x88b5", false),
            ("deny ip from any to any not mac-type 0x88b5", true),
            ("deny ip from any to any MAC any 06:00:00:00:07:0a", false),
            ("deny ip from any to any MAC any 06:00:00:00:07:0b", true),
            ("deny udp from any to any", true),
            ("deny ip4 from any to any", true),
            ("deny ip6 from any to any", true),
            ("deny ip from ::/0 to any", true),
            ("deny ip from any to any iplen 0-65535", true),
            ("deny ip from not ::/0 to any", false),
            ("deny ip from any to any not iplen 0-65535", false),
            ("deny ip from not 1.2.3.4 to any", false),
            ("deny ip from any to any not layer2", true),
            ("deny ip from any to any out", true),
            ("deny ip from any to any recv mem1 in", false),
            ("deny ip from any to any recv mem2", true),
        ] {
            let text = format!("add check-state\nadd {rule}\nadd allow ip from any to any keep-state\n");
            let mut bench = bridge(cpus, &text);
            assert_eq!(passes(&mut bench, 1, &other), reaches, "{rule}");
            assert!(passes(&mut bench, 1, &arp), "{rule}: ARP is not asked about");
        }
        let mut bench = bridge(cpus, "add allow ip from any to any mac-type 0x88b5\n");
        assert!(passes(&mut bench, 1, &arp));
        switch(&mut bench, "net.link.bridge.ipfw_arp", 1);
        assert!(!passes(&mut bench, 1, &arp), "the last rule denies it now");
        assert!(passes(&mut bench, 1, &other));
    }
}

#[test]
fn what_a_bridge_takes_for_itself_or_sends_is_asked_about_where_ip_asks() {
    for family in FAMILIES {
        let mut bench = bridge(1, "add deny ip from any to any layer2\nadd allow ip from any to any\n");
        let echo = build::echo_request(family.addr(BRIDGE, 9), family.addr(BRIDGE, 1), 1, 1, &[1; 8]);
        let kind = if family == Family::V4 { 0x0800 } else { 0x86dd };
        bench.inject(1, build::ether(mac(BRIDGE), station(10), kind, &echo));
        bench.run();
        assert_eq!(bench.drops(), [], "{family:?}");
        assert!(!bench.sent(1).is_empty(), "its sender is looked for");
    }
}

#[test]
fn a_pipe_delays_frames_of_a_bridge_and_changes_nothing_else() {
    for cpus in [1, 4] {
        for family in FAMILIES {
            let rules = "pipe 1 config delay 50\nadd pipe 1 udp from any to any layer2\nadd allow ip from any to any\n";
            let mut bench = bridge(cpus, rules);
            let asked = udp(family, 1, 7);
            assert!(!passes(&mut bench, 1, &asked), "not yet");
            bench.advance(Duration::from_millis(60));
            bench.run();
            assert_eq!(bench.sent(2), [asked], "{cpus} CPUs, {family:?}: {:?}", bench.drops());
        }
    }
}

#[test]
fn a_bridge_answers_nobody_and_translates_nothing() {
    for family in FAMILIES {
        for (rule, reaches) in [
            ("reset tcp from any to any layer2", false),
            ("unreach host tcp from any to any layer2", false),
            ("fwd 192.0.2.1 tcp from any to any layer2", true),
            ("reass tcp from any to any layer2", true),
        ] {
            let mut bench = bridge(1, &format!("add {rule}\nadd allow ip from any to any\n"));
            let syn = tcp(family, 1, Flags::SYN, 100, 0);
            assert_eq!(passes(&mut bench, 1, &syn), reaches, "{rule}");
            assert_eq!(bench.dropped(DropReason::FirewallReject), u64::from(!reaches), "{rule}");
        }
    }
}

#[test]
fn packets_that_are_no_frames_of_a_bridge_meet_no_rule_of_it() {
    let mut bench = bridge(1, "add deny ip from any to any layer2\nadd allow ip from any to any\n");
    assert!(!bench.cpu().takes_detour, "no other packet could meet one");
    let bad = frame(1, &[0x45, 0, 0, 200, 0, 0, 0, 0, 64, 17, 1, 1, 10, 0, 0, 1, 10, 0, 0, 2, 0, 0, 0, 0]);
    assert!(!passes(&mut bench, 1, &bad));
    assert_eq!(bench.drops(), [(DropReason::Ip4BadChecksum, 1)]);
}
