//! Rings: their assignment to CPUs, steering, and moving them while packets flow.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::HashSet;
use std::net::UdpSocket;
use std::thread;

use crate::lab::{Attach, Family, Lab, Link, at};
use crate::need;
use crate::pantala::Pantala;
use crate::socket::{ping, udp};
use crate::wait::until_right;

const FLOWS: u32 = 32;
/// Datagrams of each flow that are on their way at once.
const WINDOW: u32 = 6;
/// Moves under load; each goes to the other CPU.
const MOVES: u32 = 60;

fn rings_are_spread_over_the_cpus_and_the_steering_is_shown() {
    const TEST: &str = "rings::rings_are_spread_over_the_cpus_and_the_steering_is_shown";
    if !need::two_cpus() {
        return;
    }
    let links = [
        Link::new(Attach::Native).rings(2),
        Link::new(Attach::Tap).rings(2),
        Link::new(Attach::Tap),
        Link::new(Attach::Tap),
    ];
    let Some(lab) = Lab::start(TEST, &links) else { return };
    let [first, second, ..] = *cpus(lab.pantala()) else { panic!("two CPUs") };
    let rings = lab.pantala().json("intrctl list");
    let told = |ring: &serde_json::Value| {
        let text = |key: &str| ring[key].as_str().unwrap().to_owned();
        (text("interface"), ring["ring"].as_u64().unwrap(), ring["cpu"].as_u64().unwrap(), text("steering"))
    };
    let told: Vec<_> = rings.as_array().unwrap().iter().map(told).collect();
    let expected = [
        ("if1", 0, first, "hand_off"),
        ("if1", 1, second, "hand_off"),
        ("if2", 0, first, "program"),
        ("if2", 1, second, "program"),
        // Devices with fewer rings than CPUs are laid side by side.
        ("if3", 0, first, "hand_off"),
        ("if4", 0, second, "hand_off"),
    ];
    let expected =
        expected.map(|(name, ring, cpu, how)| (name.to_owned(), ring, u64::from(cpu), how.to_owned()));
    assert_eq!(told, expected);
    let said = lab.pantala().stderr();
    assert!(said.contains("steering: program"), "{said}");
    assert!(said.contains("steering: hand-off (interface port1: the driver does not support"), "{said}");
    lab.both(|family| assert_eq!(ping(&lab.hosts[0].netns, lab.hosts[3].addr(family), 3), 3));
    // Each CPU has buffers for one ring more than it began with.
    lab.pantala().shows(&format!("intrctl affinity if4 0 {first}"));
    let refused = lab.pantala().command(&format!("intrctl affinity if2 1 {first}"));
    assert!(
        refused.code == Some(1) && refused.err.contains("no buffers for more than its 4 rings"),
        "{refused:?}"
    );
    lab.both(|family| assert_eq!(ping(&lab.hosts[0].netns, lab.hosts[3].addr(family), 3), 3));
}

fn rings_that_move_while_packets_flow_lose_none() {
    const TEST: &str = "rings::rings_that_move_while_packets_flow_lose_none";
    if !need::two_cpus() {
        return;
    }
    for kinds in [[Attach::Native; 2], [Attach::Tap; 2], [Attach::Generic, Attach::Tap]] {
        let Some(lab) = Lab::start(TEST, &kinds.map(|kind| Link::new(kind).rings(2))) else { return };
        // What arrives before the interfaces are in the tables dies.
        let dropped = |reason| lab.pantala().dropped(reason);
        let reasons = ["handoff_full", "ifq_full", "no_device", "interface_gone", "no_buffer"];
        let before = reasons.map(dropped);
        lab.both(|family| move_under_load(&lab, family));
        assert_eq!(reasons.map(dropped), before, "{reasons:?}");
        buffers_are_all_there(lab.pantala());
    }
}

/// Every datagram arrives, once, while rings go from CPU to CPU and back.
fn move_under_load(lab: &Lab, family: Family) {
    let (a, b) = lab.pair();
    let receiver = udp(&b.netns, b.addr(family));
    let to = at(b.addr(family), receiver.local_addr().unwrap().port());
    let flows: Vec<UdpSocket> = (0..FLOWS).map(|_| udp(&a.netns, b.addr(family))).collect();
    flows.iter().for_each(|flow| flow.connect(to).unwrap());
    // One after the other, so that the neighbour is known to all CPUs: not many packets wait for one.
    for flow in &flows {
        flow.send(&[0; 8]).unwrap();
        receiver.recv(&mut [0; 8]).unwrap();
    }
    let before = lab.pantala().counter(family.pick("ip4_forwarded", "ip6_forwarded"));
    let all_moved = AtomicBool::new(false);
    let sent = thread::scope(|scope| {
        let traffic = scope.spawn(|| windows(&flows, &receiver, &all_moved));
        let stop = StopAtEnd(&all_moved);
        move_rings(lab.pantala());
        drop(stop);
        traffic.join().unwrap()
    });
    let forwarded = lab.pantala().counter(family.pick("ip4_forwarded", "ip6_forwarded")) - before;
    assert!(forwarded >= sent, "{sent} sent and received, {forwarded} forwarded");
    assert!(sent > u64::from(FLOWS * WINDOW) * 20, "there was load: {sent}");
}

/// Ends the traffic, also when a check has failed.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends window after window until all rings have moved; answers how many datagrams made the whole way.
fn windows(flows: &[UdpSocket], receiver: &UdpSocket, enough: &AtomicBool) -> u64 {
    let mut number = 0_u64;
    while !enough.load(Ordering::Relaxed) {
        let first = number;
        for flow in (0..WINDOW).flat_map(|_| flows) {
            flow.send(&number.to_be_bytes()).unwrap();
            number += 1;
        }
        let mut missing: HashSet<u64> = (first..number).collect();
        while !missing.is_empty() {
            let mut message = [0; 8];
            receiver.recv(&mut message).unwrap_or_else(|why| panic!("{why}; lost: {missing:?}"));
            assert!(missing.remove(&u64::from_be_bytes(message)), "{message:?} came twice");
        }
    }
    number
}

/// One ring after the other goes to the other CPU and back.
fn move_rings(pantala: &Pantala) {
    let [first, second, ..] = *cpus(pantala) else { panic!("two CPUs") };
    for round in 0..MOVES {
        let (interface, ring) = (1 + round / 2 % 2, round / 4 % 2);
        let (home, away) = if ring == 0 { (first, second) } else { (second, first) };
        let to = if round % 2 == 0 { away } else { home };
        pantala.shows(&format!("intrctl affinity if{interface} {ring} {to}"));
        let rings = pantala.json(&format!("intrctl list if{interface}"));
        assert_eq!(rings[ring as usize]["cpu"], to);
    }
}

fn cpus(pantala: &Pantala) -> Vec<u32> {
    pantala.netisrs().iter().map(|netisr| netisr.cpu).collect()
}

/// Buffers that are neither free nor in a ring are on their way, and soon end.
fn buffers_are_all_there(pantala: &Pantala) {
    let in_the_stack = || -> i64 {
        let pools = pantala.json("netstat -m");
        let number = |pool: &serde_json::Value, key: &str| pool[key].as_i64().unwrap();
        let used = |pool| number(pool, "buffers") - number(pool, "free") - number(pool, "in_rings");
        pools.as_array().unwrap().iter().map(used).sum()
    };
    until_right("no buffer is lost", in_the_stack, |used| *used == 0);
}

fn a_ring_that_cannot_move_stays_and_says_why() {
    const TEST: &str = "rings::a_ring_that_cannot_move_stays_and_says_why";
    let Some(lab) = Lab::start(TEST, &[Link::new(Attach::Tap)]) else { return };
    let pantala = lab.pantala();
    let cpu = pantala.netisrs()[0].cpu;
    for (line, code, says) in [
        ("intrctl affinity if7 0 0".to_owned(), 1, "did you mean `if1`?"),
        (format!("intrctl affinity if1 1 {cpu}"), 1, "its only ring is 0"),
        ("intrctl affinity if1 0 999".to_owned(), 1, "no netisr runs on CPU 999"),
        ("intrctl affinity if1".to_owned(), 2, "takes an interface, the number of a ring, and a CPU"),
    ] {
        let said = pantala.command(&line);
        assert_eq!((said.code, said.out.as_str()), (Some(code), ""), "{line}: {said:?}");
        assert!(said.err.contains(says), "{line}: {}", said.err);
    }
    assert_eq!(pantala.shows(&format!("intrctl affinity if1 0 {cpu}")), "", "it is there already");
    lab.both(|family| assert_eq!(ping(&lab.hosts[0].netns, lab.hosts[0].router(family), 2), 2));
}

harness::tests![
    rings_are_spread_over_the_cpus_and_the_steering_is_shown,
    rings_that_move_while_packets_flow_lose_none,
    a_ring_that_cannot_move_stays_and_says_why,
];
