//! DPDK's memif at the other end: its `dpdk-testpmd`, of the package `dpdk-dev`.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use dev::memif::{Options, Role};
use net::driver::Driver;

use crate::memif::end::{End, Place, frame, until};

/// A testpmd at its prompt. It is ended with the test, whatever happens.
struct TestPmd {
    child: Child,
    prompt: ChildStdin,
    said: Arc<Mutex<String>>,
}

impl TestPmd {
    /// Starts one, with an interface in the role that `ours` is not; `None`, loudly, if the machine has none.
    fn start(place: &Place, ours: Role, rings: u16) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let role = if ours == Role::Master { "client" } else { "server" };
        let socket = place.socket();
        let device =
            format!("net_memif0,role={role},socket={},socket-abstract=no,rsize=10", socket.display());
        let prefix = format!("--file-prefix=pt-{}-{count}", std::process::id());
        let eal = ["-l", "0,1", "--no-huge", "-m", "256", "--no-pci", "--no-shconf", "--no-telemetry"];
        let queues = [format!("--rxq={rings}"), format!("--txq={rings}")];
        let program = ["--", "-i", "--total-num-mbufs=8192", "--port-topology=loop", "--no-flush-rx"];
        // Line by line, also into a pipe.
        let mut command = Command::new("stdbuf");
        command
            .args(["-oL", "dpdk-testpmd"])
            .args(eal)
            .arg(prefix)
            .arg(format!("--vdev={device}"))
            .args(program)
            .args(queues);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let Ok(mut child) = piped else {
            harness::skip("needs dpdk-testpmd (package dpdk-dev)");
            return None;
        };
        let (prompt, said) = (child.stdin.take().unwrap(), Arc::<Mutex<String>>::default());
        let (mut out, heard) = (child.stdout.take().unwrap(), Arc::clone(&said));
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(len @ 1..) = out.read(&mut some) {
                heard.lock().unwrap().push_str(&String::from_utf8_lossy(&some[..len]));
            }
        });
        let pmd = Self { child, prompt, said };
        until("testpmd is ready", || pmd.said.lock().unwrap().contains("testpmd>"));
        Some(pmd)
    }

    fn say(&mut self, line: &str) {
        writeln!(self.prompt, "{line}").unwrap();
    }

    /// Starts forwarding in a mode.
    fn forward(&mut self, mode: &str) {
        self.say(&format!("set fwd {mode}"));
        self.say("start");
    }

    /// Received and sent packets, as it counts them itself.
    fn counted(&mut self) -> (u64, u64) {
        self.said.lock().unwrap().clear();
        self.say("show port stats 0");
        let mut counts = (0, 0);
        until("testpmd tells its counts", || {
            let said = self.said.lock().unwrap().clone();
            let number = |word: &str| {
                let rest = said.split_once(word)?.1.trim_start();
                rest.split_once(char::is_whitespace)?.0.parse().ok()
            };
            number("RX-packets:").zip(number("TX-packets:")).map(|both| counts = both).is_some()
        });
        counts
    }
}

impl Drop for TestPmd {
    fn drop(&mut self) {
        let _ = writeln!(self.prompt, "quit");
        for _ in 0..500 {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `body` with an end of ours in each role, and testpmd in the other.
fn with_testpmd(rings: u16, body: impl Fn(&Place, Role, &mut End, &mut TestPmd)) {
    for role in [Role::Master, Role::Slave] {
        let place = Place::new();
        let mut end = End::open(Options { rings, ring_size: 1024, ..place.options(role) });
        let Some(mut pmd) = TestPmd::start(&place, role, rings) else { return };
        until("DPDK is connected", || end.is_up());
        assert!(end.status().peer.starts_with("DPDK"), "{:?}", end.status());
        body(&place, role, &mut end, &mut pmd);
    }
}

/// Ethernet addresses, and a payload by which it is known.
fn ethernet(len: usize, seed: usize) -> Vec<u8> {
    let mut bytes = frame(len, seed);
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    bytes
}

fn swapped(bytes: &[u8]) -> Vec<u8> {
    [&bytes[6..12], &bytes[..6], &bytes[12..]].concat()
}

fn dpdk_returns_every_frame_with_its_addresses_swapped() {
    with_testpmd(1, |_, _, end, pmd| {
        pmd.forward("macswap");
        let lengths = [60, 64, 65, 128, 512, 1514, 2048, 2049, 4100, 9018];
        for (seed, len) in lengths.into_iter().enumerate() {
            let sent = ethernet(len, seed);
            until("it is taken", || end.send(0, core::slice::from_ref(&sent)) == 1);
            assert_eq!(end.receive(0, 1), [swapped(&sent)], "{len}");
        }
        for round in 0..200 {
            let frames: Vec<_> = (0..200).map(|seed| ethernet(60 + seed, round + seed)).collect();
            let mut sent = 0;
            until("they are taken", || {
                sent += end.send(0, &frames[sent..]);
                sent == 200
            });
            assert!(end.receive(0, 200).iter().zip(&frames).all(|(got, sent)| *got == swapped(sent)));
        }
        let all = 40_000 + lengths.len() as u64;
        assert_eq!(pmd.counted(), (all, all));
        let stats = end.rings[0].stats();
        assert_eq!((stats.rx_frames, stats.tx_frames, stats.rx_errors, stats.tx_errors), (all, all, 0, 0));
    });
}

fn two_rings_of_dpdk_are_kept_apart() {
    with_testpmd(2, |_, _, end, pmd| {
        pmd.forward("macswap");
        for ring in [0, 1, 1, 0] {
            let sent = ethernet(100, ring);
            until("it is taken", || end.send(ring, core::slice::from_ref(&sent)) == 1);
            assert_eq!(end.receive(ring, 1), [swapped(&sent)], "{ring}");
        }
        assert_eq!(pmd.counted(), (4, 4));
    });
}

fn a_flood_from_dpdk_is_counted_the_same_at_both_ends() {
    with_testpmd(1, |_, _, end, pmd| {
        pmd.forward("txonly");
        let mut got = 0;
        until("frames come", || {
            got += (0..64).map(|_| end.turn()).sum::<usize>();
            got > 200_000
        });
        pmd.say("stop");
        let (_, sent) = pmd.counted();
        until("the last ones are here", || {
            got += end.turn();
            got as u64 >= sent
        });
        assert_eq!((end.turn(), end.rings[0].stats().rx_frames), (0, sent));
        assert_eq!(end.rings[0].stats().rx_errors, 0);
    });
}

fn dpdk_may_be_killed_and_come_back() {
    with_testpmd(1, |place, role, end, pmd| {
        pmd.forward("macswap");
        pmd.child.kill().unwrap();
        until("its death is noticed", || end.is_down());
        assert_eq!(end.send(0, &[ethernet(100, 1)]), 1, "taken, and refused");
        assert_eq!(end.rings[0].stats().tx_errors, 1);
        if role == Role::Slave {
            std::fs::remove_file(place.socket()).unwrap(); // it had no time to
        }
        let mut pmd = TestPmd::start(place, role, 1).unwrap();
        until("DPDK is connected again", || end.is_up());
        pmd.forward("macswap");
        until("it is taken", || end.send(0, &[ethernet(100, 2)]) == 1);
        assert_eq!(end.receive(0, 1), [swapped(&ethernet(100, 2))]);
        assert_eq!(end.status().connects, 2);
    });
}

harness::tests![
    dpdk_returns_every_frame_with_its_addresses_swapped,
    two_rings_of_dpdk_are_kept_apart,
    a_flood_from_dpdk_is_counted_the_same_at_both_ends,
    dpdk_may_be_killed_and_come_back,
];
