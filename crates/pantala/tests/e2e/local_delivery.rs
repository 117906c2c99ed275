//! Packets for pantala itself: echo, large and small; traceroute; pinging out.

use std::process::Command;

use crate::lab::{Attach, Family, Lab, Link};
use crate::need;
use crate::socket::{Ping, ping};

const KINDS: [Attach; 3] = [Attach::Native, Attach::Generic, Attach::Tap];

fn its_own_addresses_answer_echo_on_every_kind_of_device() {
    let links = KINDS.map(Link::new);
    let Some(lab) = Lab::start("own::its_own_addresses_answer_echo_on_every_kind_of_device", &links) else {
        return;
    };
    lab.both(|family| {
        for host in &lab.hosts {
            assert_eq!(ping(&host.netns, host.router(family), 10), 10, "{}", host.link);
        }
        let (near, far) = lab.pair();
        assert_eq!(ping(&near.netns, far.router(family), 10), 10, "the address of another interface");
    });
}

fn an_echo_of_8000_bytes_is_reassembled_and_answered_in_fragments() {
    let links = KINDS.map(|kind| Link::new(kind).rings(2));
    let Some(lab) = Lab::start("own::an_echo_of_8000_bytes_is_reassembled_and_answered_in_fragments", &links)
    else {
        return;
    };
    lab.both(|family| {
        for host in &lab.hosts {
            assert!(Ping::open(&host.netns, host.router(family)).ask(7, 8_000), "{}", host.link);
        }
        for counter in family.pick(
            ["ip4_fragments_in", "ip4_reassembled", "ip4_fragments_made"],
            ["ip6_fragments_in", "ip6_reassembled", "ip6_fragments_made"],
        ) {
            assert!(lab.pantala().counter(counter) >= 3, "{counter}");
        }
    });
}

fn traceroute_names_pantala_and_then_the_host_behind_it() {
    const TEST: &str = "own::traceroute_names_pantala_and_then_the_host_behind_it";
    if !need::program("traceroute") {
        return;
    }
    let Some(lab) = Lab::start(TEST, &[Link::new(Attach::Native), Link::new(Attach::Tap)]) else { return };
    let (a, b) = lab.pair();
    lab.both(|family| {
        let mut command = Command::new("traceroute");
        command.args(["-n", "-q", "1", "-w", "3", "-m", "4"]).arg(b.addr(family).to_string());
        let out = a.netns.put(&mut command).unwrap().output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let hops: Vec<_> = text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
        assert_eq!(hops, [a.router(family).to_string(), b.addr(family).to_string()], "{text}");
    });
}

fn the_ping_command_reaches_hosts_and_tells_of_those_who_do_not_answer() {
    const TEST: &str = "own::the_ping_command_reaches_hosts_and_tells_of_those_who_do_not_answer";
    let Some(lab) = Lab::start(TEST, &[Link::new(Attach::Native), Link::new(Attach::Tap)]) else { return };
    let (a, b) = lab.pair();
    lab.both(|family: Family| {
        for host in [a, b] {
            let out = lab.pantala().shows(&format!("ping -c 3 -i 0.1 {}", host.addr(family)));
            assert!(out.contains("3 packets transmitted, 3 packets received"), "{out}");
        }
        let said = lab.pantala().command(&format!("ping -c 1 -W 1000 {}", a.neighbour(family, 77)));
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.out.contains("0 packets received"), "{said:?}");
    });
}

harness::tests![
    its_own_addresses_answer_echo_on_every_kind_of_device,
    an_echo_of_8000_bytes_is_reassembled_and_answered_in_fragments,
    traceroute_names_pantala_and_then_the_host_behind_it,
    the_ping_command_reaches_hosts_and_tells_of_those_who_do_not_answer,
];
