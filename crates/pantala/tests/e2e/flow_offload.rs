//! Flow offload: established flows forwarded by the driver's program, as the hosts at both ends see it.

use core::net::IpAddr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::net::UdpSocket;
use std::thread;

use dev::sys::ethtool::{Ethtool, Feature};

use crate::firewall::section;
use crate::lab::{Attach, Family, Lab, Link, at};
use crate::pantala::Pantala;
use crate::socket::{ping, stream_arrives, udp};
use crate::wait::until;

const STREAM: u64 = 5_000_000;
const DATAGRAMS: u32 = 300;

/// Rules with states; and with translation, which is the default network's in IPv4 and an exchange of prefixes in IPv6.
const STATES: &str = "add 100 check-state\nadd 200 allow ip from any to any recv if1 keep-state\n";
const TRANSLATED: &str = "nat 1 config ip 10.77.2.1
nptv6 out create int_prefix fd77:0:0:1:: ext_prefix 2001:db8:99:1:: prefixlen 64
add 100 nat 1 ip4 from any to any via if2
add 110 nptv6 out ip6 from any to any via if2
add 200 allow ip from any to any
";

/// Two hosts that finish their checksums, as real NICs do, and have NAPI; pantala offloads between them.
fn lab(test: &str, attach: Attach, more: &str) -> Option<Lab> {
    let mut lab = Lab::without_pantala(test, &[Link::new(attach), Link::new(attach)])?;
    for host in &lab.hosts {
        let set = || {
            let device = Ethtool::open("eth0").unwrap();
            device.set_feature(Feature::TxChecksum, false).unwrap();
            device.set_feature(Feature::Gro, true).unwrap();
        };
        host.netns.run(set).unwrap();
    }
    let config = offloading(&lab.config(more));
    lab.pantala = Some(Pantala::start(&lab.router, &config));
    lab.attach();
    Some(lab)
}

fn offloading(config: &str) -> String {
    config.replace("rings = 1\n", "rings = 1\noffload = \"auto\"\n")
}

/// Datagrams there and back, each of which must arrive as it was sent.
fn echoed(lab: &Lab, family: Family) {
    let (a, b) = lab.pair();
    let (client, server) = (udp(&a.netns, b.addr(family)), udp(&b.netns, b.addr(family)));
    let target = at(b.addr(family), server.local_addr().unwrap().port());
    let mut buffer = [0; 2048];
    for n in 0..DATAGRAMS {
        let sent: Vec<u8> = n.to_be_bytes().into_iter().cycle().take(n as usize * 4 % 1400 + 4).collect();
        client.send_to(&sent, target).unwrap();
        let (len, from) = server.recv_from(&mut buffer).unwrap();
        assert!(buffer[..len] == sent, "datagram {n} there");
        server.send_to(&buffer[..len], from).unwrap();
        let len = client.recv(&mut buffer).unwrap();
        assert!(buffer[..len] == sent, "datagram {n} back");
    }
}

fn offloaded(lab: &Lab) -> u64 {
    lab.pantala().counter("flow_offloaded")
}

/// Streams and datagrams, nearly all packets of which the driver forwards.
fn crosses(lab: &Lab) {
    let (a, b) = lab.pair();
    lab.both(|family| {
        let before = offloaded(lab);
        echoed(lab, family);
        let wanted = u64::from(DATAGRAMS) * 2 - 40;
        until("datagrams are counted", || (offloaded(lab) >= before + wanted).then_some(()));
        let before = offloaded(lab);
        assert!(stream_arrives(&a.netns, &b.netns, b.addr(family), STREAM).unwrap());
        let wanted = STREAM / 1460 * 8 / 10;
        until("segments are counted", || (offloaded(lab) >= before + wanted).then_some(()));
    });
}

fn flows_without_rules_are_forwarded_by_the_driver() {
    for attach in [Attach::Native, Attach::Generic] {
        let test = "flow_offload::flows_without_rules_are_forwarded_by_the_driver";
        let Some(lab) = lab(test, attach, "") else { return };
        crosses(&lab);
    }
}

fn flows_with_states_are_forwarded_by_the_driver_and_counted() {
    let test = "flow_offload::flows_with_states_are_forwarded_by_the_driver_and_counted";
    let Some(lab) = lab(test, Attach::Native, &section("deny", STATES)) else { return };
    crosses(&lab);
    let states = lab.pantala().json("ipfw -D list");
    let packets = states.as_array().unwrap().iter().map(|state| state["packets"].as_u64().unwrap());
    assert!(packets.sum::<u64>() > u64::from(DATAGRAMS) * 2, "states count what the driver forwards");
}

fn translated_flows_are_forwarded_by_the_driver() {
    let test = "flow_offload::translated_flows_are_forwarded_by_the_driver";
    let Some(lab) = lab(test, Attach::Native, &section("deny", TRANSLATED)) else { return };
    crosses(&lab);
}

/// Hosts behind another one, each of both families.
const BEHIND: [[&str; 2]; 2] = [["198.51.7.1", "2001:db8:1::1"], ["198.51.200.1", "2001:db8:1::2"]];

fn where_no_rule_looks_one_record_is_for_all_packets_to_a_destination() {
    let test = "flow_offload::where_no_rule_looks_one_record_is_for_all_packets_to_a_destination";
    let routes = "[[route]]\nto = \"198.51.0.0/16\"\nvia = [\"10.77.2.2\"]\n\
                  [[route]]\nto = \"2001:db8:1::/48\"\nvia = [\"fd77:0:0:2::2\"]\n";
    let Some(lab) = lab(test, Attach::Native, routes) else { return };
    let (a, b) = lab.pair();
    for addr in BEHIND.iter().flatten() {
        b.netns.netlink().unwrap().add_address("lo", addr.parse::<IpAddr>().unwrap().into()).unwrap();
    }
    lab.both(|family| {
        echoed(&lab, family);
        let rows = lab.pantala().json("netstat -O");
        let to = |dst: IpAddr| {
            let is_to = |row: &&serde_json::Value| row["before"]["dst"] == dst.to_string();
            rows.as_array().unwrap().iter().filter(is_to).collect::<Vec<_>>()
        };
        for dst in [a.addr(family), b.addr(family)] {
            let [row] = to(dst)[..] else { panic!("{rows}") };
            assert_eq!(row["scope"], "destination", "{rows}");
        }
        // Flows that the stack has not seen a packet of, from their first on; and what is not of a flow.
        let received = lab.pantala().counter("flow_misses");
        assert!(stream_arrives(&a.netns, &b.netns, b.addr(family), STREAM).unwrap());
        assert_eq!(ping(&a.netns, b.addr(family), 5), 5);
        assert_eq!(lab.pantala().counter("flow_misses") - received, 0, "none came up");
        // Hosts behind a router: the first one to which a flow goes is enough.
        let [first, second] = BEHIND.map(|hosts| family.pick(hosts[0], hosts[1]).parse().unwrap());
        assert!(stream_arrives(&a.netns, &b.netns, first, STREAM).unwrap());
        let received = lab.pantala().counter("flow_misses");
        assert!(stream_arrives(&a.netns, &b.netns, second, STREAM).unwrap());
        assert_eq!(lab.pantala().counter("flow_misses") - received, 0, "to another host");
    });
    let shown = lab.pantala().shows("netstat -O");
    assert!(shown.contains("any    *") && shown.contains("198.51.0.0/16"), "{shown}");
}

/// Sends numbered datagrams until it is told to stop.
fn flood(socket: &UdpSocket, sent: &AtomicU64, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let number = sent.fetch_add(1, Ordering::SeqCst) + 1;
        // A full queue is no matter.
        let _ = socket.send(&number.to_be_bytes());
        if number.is_multiple_of(16) {
            thread::sleep(Duration::from_micros(500));
        }
    }
}

fn no_packet_passes_a_rule_that_denies_it_once_the_command_has_returned() {
    let test = "flow_offload::no_packet_passes_a_rule_that_denies_it_once_the_command_has_returned";
    let Some(lab) = lab(test, Attach::Native, &section("accept", "")) else { return };
    let (a, b) = lab.pair();
    lab.both(|family| {
        let (client, server) = (udp(&a.netns, b.addr(family)), udp(&b.netns, b.addr(family)));
        client.connect(at(b.addr(family), server.local_addr().unwrap().port())).unwrap();
        let (sent, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| flood(&client, &sent, &stop));
            for round in 0..20 {
                let before = offloaded(&lab);
                until("the flow is offloaded", || (offloaded(&lab) > before + 100).then_some(()));
                lab.pantala().shows("ipfw -q add 50 deny udp from any to any");
                let last = sent.load(Ordering::SeqCst);
                until("more is sent", || (sent.load(Ordering::SeqCst) > last + 500).then_some(()));
                let late = arrived(&server).filter(|number| *number > last + 1).count();
                if late > 0 {
                    stop.store(true, Ordering::Relaxed);
                }
                assert_eq!(late, 0, "round {round}: packets that were sent after the rule was there");
                lab.pantala().shows("ipfw -q delete 50");
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
    assert!(lab.pantala().counter("offload_stale") >= 40);
}

/// The numbers of all datagrams that wait.
fn arrived(socket: &UdpSocket) -> impl Iterator<Item = u64> {
    socket.set_nonblocking(true).unwrap();
    let mut buffer = [0; 64];
    core::iter::from_fn(move || {
        let len = socket.recv(&mut buffer).ok()?;
        buffer[..len].try_into().ok().map(u64::from_be_bytes)
    })
}

fn offloaded_flows_are_listed_with_both_their_ends_and_flows_that_rules_log_are_not() {
    let test =
        "flow_offload::offloaded_flows_are_listed_with_both_their_ends_and_flows_that_rules_log_are_not";
    let Some(lab) = lab(test, Attach::Native, &section("deny", TRANSLATED)) else { return };
    let (a, b) = lab.pair();
    lab.both(|family| {
        echoed(&lab, family);
        let flows = lab.pantala().json("netstat -O");
        let is_ours = |flow: &&serde_json::Value| {
            flow["before"]["src"] == a.addr(family).to_string() && flow["input"] == "if1"
        };
        let flow = flows.as_array().unwrap().iter().find(is_ours).expect("the flow is listed").clone();
        assert_eq!(flow["after"]["dst"], b.addr(family).to_string());
        assert!(flow["after"]["src"] != flow["before"]["src"] && flow["output"] == "if2", "{flow}");
        assert!(flow["packets"].as_u64().unwrap() > 200, "{flow}");
        assert!(lab.pantala().shows("netstat -O").contains("udp"));
    });
    assert!(lab.pantala().shows("ifconfig if1").contains("offload: auto"));
    lab.pantala().shows("ipfw -q add 50 count log udp from any to any");
    until("what was offloaded is counted", || {
        (lab.pantala().json("netstat -O").as_array()?.is_empty()).then_some(())
    });
    let before = offloaded(&lab);
    lab.both(|family| echoed(&lab, family));
    assert_eq!(offloaded(&lab), before, "a rule that logs sees each packet");
}

fn flows_of_rules_that_say_nooffload_stay_in_the_stack_and_others_do_not() {
    let test = "flow_offload::flows_of_rules_that_say_nooffload_stay_in_the_stack_and_others_do_not";
    let rules = "add 100 check-state\nadd 200 allow udp from any to any recv if1 keep-state nooffload
add 300 allow tcp from any to any recv if1 keep-state\n";
    let Some(lab) = lab(test, Attach::Native, &section("deny", rules)) else { return };
    let (a, b) = lab.pair();
    lab.both(|family| {
        until("all that went is counted", || {
            lab.pantala().json("netstat -O").as_array()?.is_empty().then_some(())
        });
        let (before, refused) = (offloaded(&lab), lab.pantala().counter("offload_refused"));
        echoed(&lab, family);
        until("both directions are refused", || {
            (lab.pantala().counter("offload_refused") >= refused + 2).then_some(())
        });
        assert_eq!(offloaded(&lab), before, "datagrams stay");
        assert!(stream_arrives(&a.netns, &b.netns, b.addr(family), STREAM).unwrap());
        until("segments are offloaded", || (offloaded(&lab) > before + 1000).then_some(()));
    });
    let rule = "00200 allow udp from any to any recv if1 keep-state nooffload";
    assert!(lab.pantala().shows("ipfw list").contains(rule));
    lab.pantala().shows("ipfw -q delete 200");
    lab.pantala().shows("ipfw -q add 200 allow udp from any to any recv if1 keep-state");
    lab.both(|family| {
        let before = offloaded(&lab);
        echoed(&lab, family);
        until("datagrams are offloaded", || (offloaded(&lab) > before + 400).then_some(()));
    });
}

/// Linux drops what programs redirect to a veth whose other end has neither a program nor GRO, and says nothing.
fn nothing_is_lost_for_long_when_the_other_end_of_a_veth_takes_no_redirected_frames_any_more() {
    let test = "flow_offload::nothing_is_lost_for_long_when_the_other_end_of_a_veth_takes_no_redirected_frames_any_more";
    let Some(lab) = lab(test, Attach::Native, "") else { return };
    let (a, b) = lab.pair();
    crosses(&lab);
    let off = || Ethtool::open("eth0").unwrap().set_feature(Feature::Gro, false).unwrap();
    b.netns.run(off).unwrap();
    until("pantala notices", || lab.pantala().shows("ifconfig if2").contains("receive-only").then_some(()));
    lab.both(|family| {
        assert!(stream_arrives(&a.netns, &b.netns, b.addr(family), STREAM).unwrap());
        echoed(&lab, family);
    });
}

fn a_fresh_start_after_a_kill_offloads_again() {
    let test = "flow_offload::a_fresh_start_after_a_kill_offloads_again";
    let Some(mut lab) = lab(test, Attach::Native, "") else { return };
    crosses(&lab);
    let killed = lab.pantala.take().unwrap();
    lab.pantala = Some(killed.killed_and_started_again(&lab.router));
    lab.attach();
    crosses(&lab);
}

harness::tests![
    flows_without_rules_are_forwarded_by_the_driver,
    where_no_rule_looks_one_record_is_for_all_packets_to_a_destination,
    flows_with_states_are_forwarded_by_the_driver_and_counted,
    translated_flows_are_forwarded_by_the_driver,
    no_packet_passes_a_rule_that_denies_it_once_the_command_has_returned,
    offloaded_flows_are_listed_with_both_their_ends_and_flows_that_rules_log_are_not,
    flows_of_rules_that_say_nooffload_stay_in_the_stack_and_others_do_not,
    nothing_is_lost_for_long_when_the_other_end_of_a_veth_takes_no_redirected_frames_any_more,
    a_fresh_start_after_a_kill_offloads_again,
];
