//! Cost of an idle stack, its latency all the same, and the time it leaves to others under load.

use core::time::Duration;
use std::net::UdpSocket;
use std::thread;
use std::time::Instant;

use crate::lab::{Attach, Family, Lab, Link, at};
use crate::socket::{Ping, udp};
use crate::wait::until_right;

/// Duration of watching an idle stack.
const WATCHED: Duration = Duration::from_secs(3);
/// Allowed processor time: one percent of one processor.
const USED_MAX: Duration = Duration::from_millis(30);
/// Round trips whose median counts.
const TRIPS: u16 = 201;
const TRIP_MAX: Duration = Duration::from_millis(1);

fn an_idle_stack_uses_no_processor_and_answers_within_a_millisecond() {
    const TEST: &str = "polling::an_idle_stack_uses_no_processor_and_answers_within_a_millisecond";
    let links = [Attach::Native, Attach::Generic, Attach::Tap].map(|kind| Link::new(kind).rings(2));
    let Some(lab) = Lab::start(TEST, &links) else { return };
    // Duplicate address detection and the kernel's own messages come to an end.
    until_right(
        "it is idle",
        || used_in(&lab, Duration::from_secs(1)),
        |used| *used < Duration::from_millis(10),
    );
    let used = (0..3).map(|_| used_in(&lab, WATCHED)).min().unwrap();
    assert!(used < USED_MAX, "{used:?} of {WATCHED:?}");
    for host in &lab.hosts {
        lab.both(|family| {
            let echo = Echo::start(host, family);
            let ping = Ping::open(&host.netns, host.router(family));
            assert!(ping.ask(0, 56));
            let trips = (1..=TRIPS).map(|seq| (time(|| assert!(ping.ask(seq, 56))), time(|| echo.ask(seq))));
            let (ours, theirs): (Vec<_>, Vec<_>) = trips.unzip();
            let (ours, theirs) = (median(ours), median(theirs));
            // Where the machine is so busy that a program on the same host, asked in turn with pantala, needs
            // longer than a third of the limit to wake up and answer, three times that is the limit.
            let limit = TRIP_MAX.max(3 * theirs);
            assert!(ours < limit, "{:?}: {ours:?}; a program of the host: {theirs:?}", host.link.attach);
        });
    }
}

/// Processor time that all threads of pantala use in so much time.
fn used_in(lab: &Lab, time: Duration) -> Duration {
    let before = lab.pantala().processor_time();
    thread::sleep(time);
    lab.pantala().processor_time() - before
}

fn time(act: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    act();
    begun.elapsed()
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort();
    all[all.len() / 2]
}

/// A program that sleeps until it is asked something and says the same.
struct Echo {
    socket: UdpSocket,
    thread: Option<thread::JoinHandle<()>>,
}

impl Echo {
    fn start(host: &crate::lab::Host, family: Family) -> Self {
        let (server, socket) = (udp(&host.netns, host.addr(family)), udp(&host.netns, host.addr(family)));
        socket.connect(at(host.addr(family), server.local_addr().unwrap().port())).unwrap();
        let thread = thread::spawn(move || {
            let mut message = [0; 2];
            while let Ok((2, from)) = server.recv_from(&mut message) {
                server.send_to(&message, from).unwrap();
            }
        });
        Self { socket, thread: Some(thread) }
    }

    fn ask(&self, seq: u16) {
        self.socket.send(&seq.to_be_bytes()).unwrap();
        let mut answer = [0; 2];
        self.socket.recv(&mut answer).unwrap();
        assert_eq!(answer, seq.to_be_bytes());
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // An empty message ends it.
        let told = self.socket.send(&[]);
        if let (Ok(_), Some(thread)) = (told, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// Half of each processor is for others; it is said how much they got, and nothing is lost of what one at a time sends.
fn a_stack_with_a_user_share_leaves_it_and_goes_on() {
    const TEST: &str = "polling::a_stack_with_a_user_share_leaves_it_and_goes_on";
    let links = [Attach::Native, Attach::Tap].map(Link::new);
    let more = "[polling]\nuser_frac = 50\neach_burst = 32\nburst_max = 128\n";
    let Some(lab) = Lab::start_with(TEST, &links, more) else { return };
    lab.both(|family| {
        let (a, b) = lab.pair();
        let receiver = udp(&b.netns, b.addr(family));
        let sender = udp(&a.netns, b.addr(family));
        sender.connect(at(b.addr(family), receiver.local_addr().unwrap().port())).unwrap();
        for _ in 0..2000 {
            sender.send(&[7; 64]).unwrap();
            assert_eq!(receiver.recv(&mut [0; 64]).unwrap(), 64);
        }
    });
    let netisrs = lab.pantala().netisrs();
    assert!(netisrs.iter().all(|netisr| netisr.user_frac == 50 && netisr.burst <= 128), "{netisrs:#?}");
    let left: u64 = netisrs.iter().map(|netisr| netisr.user_ns).sum();
    assert!(left > 0, "{netisrs:#?}");
}

harness::tests![
    an_idle_stack_uses_no_processor_and_answers_within_a_millisecond,
    a_stack_with_a_user_share_leaves_it_and_goes_on,
];
