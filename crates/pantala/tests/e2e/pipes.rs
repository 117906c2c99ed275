//! Pipes, as Linux hosts on both sides see them.

use core::time::Duration;
use std::time::Instant;

use crate::firewall::section;
use crate::lab::{Attach, Lab, Link};
use crate::socket::{ping, stream_arrives};

const BITS_PER_SECOND: u64 = 16_000_000;
const BYTES: u64 = 4_000_000;
const DELAY: Duration = Duration::from_millis(100);

fn a_pipe_gives_a_transfer_its_bandwidth_and_an_echo_its_delay() {
    let name = "pipes::a_pipe_gives_a_transfer_its_bandwidth_and_an_echo_its_delay";
    let rules = format!(
        "pipe 1 config bw {BITS_PER_SECOND}bit/s queue 100\npipe 2 config delay {}\n\
         add 100 pipe 1 tcp from any to any out xmit if2\n\
         add 200 pipe 2 icmp from any to any out xmit if2\n\
         add 210 pipe 2 ipv6-icmp from any to any out xmit if2\n",
        DELAY.as_millis()
    );
    let links = [Link::new(Attach::Native).rings(2), Link::new(Attach::Tap).rings(2)];
    let Some(mut lab) = Lab::without_pantala(name, &links) else { return };
    lab.run_pantala(&section("allow", &rules));
    let (a, b) = lab.pair();
    lab.both(|family| {
        let begun = Instant::now();
        assert!(stream_arrives(&a.netns, &b.netns, b.addr(family), BYTES).unwrap());
        let least = Duration::from_nanos(BYTES * 8 * 1_000_000_000 / BITS_PER_SECOND);
        assert!(begun.elapsed() >= least, "{BYTES} bytes in {:?}", begun.elapsed());
        let begun = Instant::now();
        assert_eq!(ping(&a.netns, b.addr(family), 5), 5);
        assert!(begun.elapsed() >= DELAY * 5, "five echoes in {:?}", begun.elapsed());
    });
    let pipes = lab.pantala().json("ipfw pipe show");
    for (pipe, least) in [(&pipes[0]["own"], 2 * BYTES), (&pipes[1]["own"], 2 * 5 * 84)] {
        assert!(pipe["bytes"].as_u64().unwrap() >= least, "{pipe}");
        assert_eq!((&pipe["waiting_packets"], &pipe["waiting_bytes"]), (&0.into(), &0.into()));
    }
    let text = lab.pantala().shows("ipfw pipe show");
    assert!(text.starts_with("00001:  16.000 Mbit/s    0 ms burst 0\n"), "{text}");
    assert!(text.contains("00002: unlimited       100 ms burst 0\n"), "{text}");
}

harness::tests![a_pipe_gives_a_transfer_its_bandwidth_and_an_echo_its_delay];
