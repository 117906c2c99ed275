use core::net::IpAddr;
use core::time::Duration;

use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::testkit::rules::rules;
use crate::testkit::{Bench, addr4, addr6, build, peer_mac};

/// A host on the link of interface 1 and one on that of interface 2, of both families.
fn families() -> [(IpAddr, IpAddr); 2] {
    [(addr4(1, 9).into(), addr4(2, 9).into()), (addr6(1, 9).into(), addr6(2, 9).into())]
}

const DISCOVERY: &str = "add 1 allow ipv6-icmp from any to any icmp6types 135,136\n";

fn router(cpus: u16, text: &str) -> Bench {
    let mut bench = Bench::with(3, cpus, |_| ());
    bench.set_rules(&mut rules(&(DISCOVERY.to_owned() + text)));
    bench
}

fn inject(bench: &mut Bench, (src, dst): (IpAddr, IpAddr), port: u16) {
    bench.inject(1, build::frame(1, &build::udp((src, dst).0, dst, (port, 53), b"through a pipe")));
    bench.run();
}

#[test]
fn a_packet_leaves_a_pipe_when_its_delay_is_over_wherever_it_was_sent_in() {
    for family in families() {
        for hook in ["in", "out", "forward"] {
            for cpus in [1, 3] {
                let mut bench = router(
                    cpus,
                    &format!(
                        "pipe 1 config delay 100\nadd pipe 1 udp from any to any {hook}\nadd allow ip from any to any\n"
                    ),
                );
                for port in 1..=9 {
                    inject(&mut bench, family, port);
                }
                bench.advance(Duration::from_millis(99));
                assert_eq!(bench.sent(2).len(), 0, "{hook}");
                assert_eq!(bench.buffers_out(), 9);
                bench.advance(Duration::from_millis(2));
                let sent = bench.sent(2);
                assert_eq!(sent.len(), 9, "{hook}");
                assert!(sent.iter().all(|frame| frame[..6] == peer_mac(family.1).0));
            }
        }
    }
}

#[test]
fn an_exact_pipe_is_on_one_cpu_and_packets_come_back_to_theirs() {
    for family in families() {
        let mut bench = router(
            4,
            "pipe 1 config bw 8Kbit/s queue 100 exact\nadd pipe 1 udp from any to any in\nadd allow ip from any to any\n",
        );
        for port in 1..=20 {
            inject(&mut bench, family, port);
        }
        // 42 or 62 bytes: between 42 and 62 ms each.
        bench.advance(Duration::from_millis(500));
        let sent = bench.sent(2).len();
        assert!((7..=12).contains(&sent), "{sent} in half a second");
        bench.advance(Duration::from_secs(2));
        assert_eq!(sent + bench.sent(2).len(), 20, "and in the end all");
        assert_eq!(bench.counted(Count::Strays), 0);
    }
}

#[test]
fn behind_a_pipe_the_walk_is_over_or_goes_on_as_one_pass_says() {
    for family in families() {
        for (switch, reaches) in [("enable", true), ("disable", false)] {
            let mut bench = router(
                1,
                &format!(
                    "{switch} one_pass\npipe 1 config delay 10\nadd pipe 1 udp from any to any in\n\
                     add deny udp from any to any in\nadd allow ip from any to any\n"
                ),
            );
            inject(&mut bench, family, 1);
            bench.advance(Duration::from_millis(20));
            assert_eq!(bench.sent(2).len(), usize::from(reaches));
            assert_eq!(bench.dropped(DropReason::FirewallDeny), u64::from(!reaches));
        }
    }
}

#[test]
fn what_goes_another_way_than_its_route_still_does_behind_a_pipe() {
    for (src, dst) in families() {
        let elsewhere: IpAddr = if src.is_ipv4() { addr4(3, 77).into() } else { addr6(3, 77).into() };
        let mut bench = router(
            1,
            &format!(
                "pipe 1 config delay 10\nadd fwd {elsewhere} udp from any to any in\n\
                 add pipe 1 udp from any to any out\nadd allow ip from any to any\n"
            ),
        );
        inject(&mut bench, (src, dst), 1);
        bench.advance(Duration::from_millis(20));
        assert_eq!((bench.sent(2).len(), bench.sent(3).len()), (0, 1));
    }
}

#[test]
fn what_is_for_us_or_from_us_passes_pipes_too() {
    for (src, _) in families() {
        let us: IpAddr = if src.is_ipv4() { addr4(1, 1).into() } else { addr6(1, 1).into() };
        for hook in ["local-in", "local-out"] {
            let mut bench = router(
                1,
                &format!(
                    "pipe 1 config delay 50\nadd pipe 1 ip from any to any {hook}\nadd allow ip from any to any\n"
                ),
            );
            // The neighbour is known already: its own questions would wait in the pipe as well.
            bench.inject(1, build::frame_from(1, src, &build::echo_request(src, us, 1, 1, b"?")));
            bench.run();
            let at_once = bench.sent(1).len();
            bench.advance(Duration::from_millis(500));
            assert!(at_once == 0 && !bench.sent(1).is_empty(), "{hook} {src}");
        }
    }
}

#[test]
fn a_pipe_that_is_gone_or_full_buries_what_is_sent_to_it() {
    for family in families() {
        let mut bench = router(1, "add pipe 9 udp from any to any in\n");
        inject(&mut bench, family, 1);
        assert_eq!(bench.dropped(DropReason::PipeGone), 1);
        let mut bench = router(1, "pipe 1 config bw 1Kbit/s queue 5\nadd pipe 1 udp from any to any in\n");
        for port in 1..=30 {
            inject(&mut bench, family, port);
        }
        assert!(bench.dropped(DropReason::PipeFull) >= 24);
    }
}

#[test]
fn a_copy_has_a_buffer_of_its_own_comes_behind_its_original_and_each_is_what_was_sent() {
    for family in families() {
        for cpus in [1, 3] {
            for config in ["delay 10", "delay 10 exact"] {
                let mut bench = router(
                    cpus,
                    &format!(
                        "pipe 1 config {config} duplicate 1\nadd pipe 1 udp from any to any out\n\
                         add allow ip from any to any\n"
                    ),
                );
                for port in 1..=9 {
                    inject(&mut bench, family, port);
                }
                assert_eq!(bench.buffers_out(), 18);
                bench.advance(Duration::from_millis(20));
                let mut sent = bench.sent(2);
                assert_eq!((sent.len(), bench.counted(Count::PipeCopied)), (18, 9));
                sent.sort();
                assert!(sent.chunks(2).all(|pair| pair[0] == pair[1]), "each came twice");
                sent.dedup();
                assert_eq!((sent.len(), bench.buffers_out()), (9, 0));
            }
        }
    }
}

#[test]
fn a_copy_is_a_packet_like_any_other_and_a_full_queue_takes_no_copy_either() {
    for family in families() {
        let mut bench = router(
            1,
            "pipe 1 config bw 8Kbit/s queue 1 duplicate 1\nadd pipe 1 udp from any to any out\nadd allow ip from any to any\n",
        );
        // The first is being sent, and its copy waits.
        (1..=3).for_each(|port| inject(&mut bench, family, port));
        assert_eq!(bench.dropped(DropReason::PipeFull), 4);
        bench.advance(Duration::from_secs(1));
        assert_eq!((bench.sent(2).len(), bench.buffers_out()), (2, 0));
    }
}

#[test]
fn packets_that_a_pipe_holds_back_leave_behind_those_that_overtake_them() {
    for family in families() {
        let mut bench = router(
            1,
            "pipe 1 config delay 10 reorder 1/2\nadd pipe 1 udp from any to any out\nadd allow ip from any to any\n",
        );
        (1..=9).for_each(|port| inject(&mut bench, family, port));
        bench.advance(Duration::from_millis(100));
        let port = |frame: &Vec<u8>| frame[if family.0.is_ipv4() { 35 } else { 55 }];
        let ports: Vec<u8> = bench.sent(2).iter().map(port).collect();
        let mut sorted = ports.clone();
        sorted.sort_unstable();
        assert!(ports != sorted && sorted.into_iter().eq(1..=9), "{ports:?}");
        assert!(bench.counted(Count::PipeMoved) > 0);
    }
}
