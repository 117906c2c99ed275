//! Two rings, two CPUs: both work, packets are handed over, and no flow is reordered.

use core::ops::Range;
use std::net::UdpSocket;
use std::thread;

use crate::lab::{Attach, Family, Lab, Link, at};
use crate::need;
use crate::socket::udp;

const FLOWS: u16 = 64;
const EACH: u32 = 1_000;
/// Datagrams of each flow that are on their way at once.
const WINDOW: u32 = 4;

fn two_cpus_share_the_work_and_keep_the_order_of_each_flow() {
    const TEST: &str = "order::two_cpus_share_the_work_and_keep_the_order_of_each_flow";
    if !need::two_cpus() {
        return;
    }
    for kinds in [[Attach::Native; 2], [Attach::Generic; 2], [Attach::Tap; 2], [Attach::Native, Attach::Tap]]
    {
        let Some(lab) = Lab::start(TEST, &kinds.map(|kind| Link::new(kind).rings(2))) else { return };
        lab.both(|family| flows_keep_their_order(&lab, family));
        let netisrs = lab.pantala().netisrs();
        assert_eq!(netisrs.len(), 2);
        assert!(netisrs.iter().all(|netisr| netisr.packets > 10_000), "{kinds:?}: {netisrs:#?}");
        if kinds[0] == Attach::Native {
            // A veth spreads flows by a hash of its own.
            assert!(netisrs.iter().all(|netisr| netisr.handoffs_out > 1000), "{kinds:?}: {netisrs:#?}");
        }
        assert_eq!(lab.pantala().dropped("handoff_full"), 0);
    }
}

fn flows_keep_their_order(lab: &Lab, family: Family) {
    let (a, b) = lab.pair();
    let receiver = udp(&b.netns, b.addr(family));
    let to = at(b.addr(family), receiver.local_addr().unwrap().port());
    let senders: Vec<_> = (0..FLOWS).map(|_| udp(&a.netns, b.addr(family))).collect();
    senders.iter().for_each(|sender| sender.connect(to).unwrap());
    thread::scope(|scope| {
        let (told, go) = std::sync::mpsc::channel();
        scope.spawn(move || {
            for window in windows() {
                send_window(&senders, window);
                // The receiver is gone if it found a fault.
                let Ok(()) = go.recv() else { return };
            }
        });
        for window in windows() {
            receive_window(&receiver, window);
            told.send(()).unwrap();
        }
    });
}

/// In-flight limits of each flow. At first it is one datagram: not more wait for a neighbour that is not yet
/// known.
fn windows() -> impl Iterator<Item = Range<u32>> {
    let rest = (1..EACH).step_by(WINDOW as usize).map(|first| first..(first + WINDOW).min(EACH));
    core::iter::once(0..1).chain(rest)
}

fn send_window(senders: &[UdpSocket], window: Range<u32>) {
    for number in window {
        for (flow, sender) in (0_u16..).zip(senders) {
            let message = [&flow.to_be_bytes()[..], &number.to_be_bytes()].concat();
            sender.send(&message).unwrap();
        }
    }
}

/// Each flow's datagrams must come one after the other.
fn receive_window(receiver: &UdpSocket, window: Range<u32>) {
    let mut next = [window.start; FLOWS as usize];
    for _ in 0..window.len() * usize::from(FLOWS) {
        let mut message = [0; 6];
        receiver.recv(&mut message).expect("no datagram is lost");
        let [f0, f1, number @ ..] = message;
        let flow = usize::from(u16::from_be_bytes([f0, f1]));
        assert_eq!(u32::from_be_bytes(number), next[flow], "flow {flow}");
        next[flow] += 1;
    }
}

harness::tests![two_cpus_share_the_work_and_keep_the_order_of_each_flow];
