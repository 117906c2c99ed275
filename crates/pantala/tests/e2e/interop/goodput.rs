//! Goodput through the same bad path: pantala or Linux, CUBIC or NewReno.
//!
//! ```text
//!   Linux ───┐  AF_XDP  ┌─────────┐  AF_XDP
//!            ├─────────▶│ pantala │─────────▶ Linux
//!   pantala ─┘          └─────────┘           which reads
//! ```
//!
//! Each sender has a path of its own, a pipe of the same shape, so that they can be measured at the same time: whatever else
//! this machine does, it does to all of them.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use rustix::net::sockopt;
use serde_json::json;

use super::{at, ends, theirs};
use crate::firewall::section;
use crate::lab::{Attach, Family, Host, Lab, Link};
use crate::pantala::Pantala;
use crate::socket;
use crate::wait::{PATIENCE, until, until_right};

/// Bit/s of the path, and bytes of the queue before it.
const MBITS: u32 = 100;
const QUEUE_KBYTES: u32 = 256;
const CHARGEN: u16 = 19;

/// A path: of how many packets one is lost, and the round trip.
#[derive(Clone, Copy)]
struct Path {
    loss: &'static str,
    rtt_ms: u32,
}

/// The measurement: paths, repetitions, and round-trip times of each.
struct Plan {
    paths: Vec<Path>,
    rounds: usize,
    round_trips: u32,
}

/// Equal numbers of losses in a round, whether the path is long or short.
const ROUND_TRIPS: u32 = 800;

impl Plan {
    /// `PANTALA_GOODPUT` says how often, where there is time; else one path is tried once.
    fn of_environment() -> Self {
        let rounds = std::env::var("PANTALA_GOODPUT").ok().and_then(|text| text.parse().ok());
        let Some(rounds) = rounds else {
            let paths = vec![Path { loss: "0.01", rtt_ms: 10 }];
            return Self { paths, rounds: 1, round_trips: 50 };
        };
        let losses = ["0", "0.001", "0.01", "0.02"];
        let paths = losses.into_iter().flat_map(|loss| [10, 50].map(|rtt_ms| Path { loss, rtt_ms }));
        Self { paths: paths.collect(), rounds, round_trips: ROUND_TRIPS }
    }
}

/// The sender: Linux, or pantala, with an algorithm.
#[derive(Clone, Copy, PartialEq)]
struct Sender {
    is_linux: bool,
    algorithm: &'static str,
}

const SENDERS: [Sender; 4] = [
    Sender { is_linux: true, algorithm: "cubic" },
    Sender { is_linux: false, algorithm: "cubic" },
    Sender { is_linux: true, algorithm: "reno" },
    Sender { is_linux: false, algorithm: "newreno" },
];

/// The forwarder with its three hosts, on one of which another pantala sends.
struct Scene {
    lab: Lab,
    sender: Pantala,
}

impl Scene {
    fn new(test: &str) -> Option<Self> {
        let mut lab = Lab::without_pantala(test, &[1, 2, 3].map(|_| Link::new(Attach::Native)))?;
        let rules = "pipe 1 config mask all\npipe 2 config mask all\n\
                     add 100 pipe 1 tcp from any to any out xmit if2\n\
                     add 200 pipe 2 tcp from any to any in recv if2\n";
        lab.run_pantala(&section("allow", rules));
        let host = &lab.hosts[2];
        let sender = Pantala::start_by_force(&host.netns, &sender(host));
        until("the sender's link carries", || sender.is_running().then_some(()));
        Some(Self { lab, sender })
    }

    fn shape(&self, path: Path) {
        let Path { loss, rtt_ms } = path;
        let there = format!("bw {MBITS}Mbit/s queue {QUEUE_KBYTES}Kbytes delay {} plr {loss}", rtt_ms / 2);
        self.lab.pantala().shows(&format!("ipfw pipe 1 config mask all {there}"));
        self.lab.pantala().shows(&format!("ipfw pipe 2 config mask all delay {}", rtt_ms / 2));
    }

    /// Connects the reader to a sender without end.
    fn begin(&self, sender: Sender, linux: &TcpListener, family: Family) -> TcpStream {
        let [from, reader, own] = [0, 1, 2].map(|at| &self.lab.hosts[at]);
        let target = if sender.is_linux {
            sockopt::set_tcp_congestion(linux, sender.algorithm).unwrap();
            at(from.addr(family), linux.local_addr().unwrap().port())
        } else {
            self.sender.shows(&format!("sysctl net.inet.tcp.cc.algorithm={}", sender.algorithm));
            at(own.addr(family), CHARGEN)
        };
        let stream = reader.netns.run(|| TcpStream::connect_timeout(&target, PATIENCE)).unwrap().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        if !sender.is_linux {
            let algorithm = || theirs(&self.sender, ends(&stream))?.info.map(|info| info.cc);
            let is_right = |cc: &Option<String>| cc.as_deref() == Some(sender.algorithm);
            until_right("the connection has its algorithm", algorithm, is_right);
        }
        stream
    }

    /// Measures the rate of each sender over a time, Mbit/s.
    fn measure(&self, span: Duration, family: Family) -> [f64; 4] {
        let listener = socket::listen(&self.lab.hosts[0].netns, family, 0);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let streams = SENDERS.map(|sender| {
                let stream = self.begin(sender, &listener, family);
                if sender.is_linux {
                    let (serves, _) = listener.accept().unwrap();
                    scope.spawn(|| send_on(serves, &is_over));
                }
                stream
            });
            let readers = streams.map(|stream| scope.spawn(move || megabits_in(stream, span)));
            let rates = readers.map(|reader| reader.join().unwrap());
            is_over.store(true, Ordering::Relaxed);
            rates
        })
    }
}

/// The configuration of a pantala that is the host of a link.
fn sender(host: &Host) -> String {
    let [v4, v6] = [Family::V4, Family::V6].map(|family| (host.addr(family), host.router(family)));
    format!(
        "[[interface]]\nname = \"eth0\"\ndevice = \"af_xdp:{},mode=native\"\n\
         address = [\"{}/24\", \"{}/64\"]\n\
         [[route]]\nto = \"default\"\nvia = \"{}\"\n[[route]]\nto = \"default\"\nvia = \"{}\"\n\
         [[service]]\nkind = \"chargen\"\n",
        host.inside(),
        v4.0,
        v6.0,
        v4.1,
        v6.1,
    )
}

fn send_on(mut stream: TcpStream, is_over: &AtomicBool) {
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let block = vec![7; 1 << 16];
    while !is_over.load(Ordering::Relaxed) && stream.write(&block).is_ok() {}
}

/// Reads for so long, and answers what came.
fn megabits_in(mut stream: TcpStream, span: Duration) -> f64 {
    let (begun, mut bytes, mut block) = (Instant::now(), 0_u64, vec![0; 1 << 18]);
    while begun.elapsed() < span {
        match stream.read(&mut block) {
            Ok(count @ 1..) => bytes += count as u64,
            other => panic!("the sender went away: {other:?}"),
        }
    }
    Duration::from_micros(bytes * 8).as_secs_f64() / begun.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn pantala_and_linux_bring_data_through_the_same_bad_path() {
    let Some(scene) = Scene::new("interop::goodput::pantala_and_linux_bring_data_through_the_same_bad_path")
    else {
        return;
    };
    let plan = Plan::of_environment();
    for path in plan.paths {
        scene.shape(path);
        let span = plan.round_trips * Duration::from_millis(path.rtt_ms.into());
        let rounds = (0..plan.rounds).map(|round| scene.measure(span, Family::BOTH[round % 2]));
        let rounds: Vec<_> = rounds.collect();
        let medians = [0, 1, 2, 3].map(|of| median(rounds.iter().map(|round| round[of]).collect()));
        assert!(medians.iter().all(|rate| *rate > 0.0), "{medians:?}");
        let [linux_cubic, cubic, linux_reno, newreno] = medians.map(|rate| (rate * 10.0).round() / 10.0);
        let Path { loss, rtt_ms } = path;
        println!(
            "GOODPUT {}",
            json!({
                "loss": loss, "rtt_ms": rtt_ms, "rounds": plan.rounds,
                "linux_cubic": linux_cubic, "cubic": cubic, "linux_reno": linux_reno, "newreno": newreno,
            })
        );
    }
}

harness::tests![pantala_and_linux_bring_data_through_the_same_bad_path];
