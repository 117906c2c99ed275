//! `pantala iperf` and Debian's iperf3, in both roles, over a TAP.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use dev::netns::Netns;
use dev::sys::process::end_with_parent;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::lab::{Attach, Link, namespace};
use crate::need::{self, Permit};
use crate::pantala::{PROGRAM, Said};
use crate::wait::{until, until_right};

/// pantala's address and the kernel's, of both families.
const ADDRESSES: [[&str; 2]; 2] = [["10.71.0.1", "10.71.0.2"], ["fd71::1", "fd71::2"]];

/// Options of a test, and the sums that its report has.
const RUNS: &[(&str, &[&str])] = &[
    ("-n 8M", &["sum_received"]),
    ("-n 8M -R", &["sum_received"]),
    ("-t 1 -R", &["sum_received"]),
    ("-n 8M -P 4", &["sum_received"]),
    ("-t 1 -P 2 --bidir -b 20M", &["sum_received", "sum_received_bidir_reverse"]),
    ("-t 1 -u -b 8M -l 1000", &["sum"]),
    ("-t 1 -u -b 8M -l 1000 -R -P 4", &["sum"]),
];

fn ready() -> Option<(Netns, Permit)> {
    if !need::program("iperf3") || !need::lab(&[Link::new(Attach::Tap)]) {
        return None;
    }
    let permit = Permit::wait();
    let netns = namespace();
    netns.netlink().unwrap().set_up("lo", true).unwrap();
    Some((netns, permit))
}

fn command(netns: &Netns, program: &str, line: &str) -> Command {
    let mut command = Command::new(program);
    command.args(line.split_whitespace()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    netns.put(&mut command).unwrap();
    end_with_parent(&mut command);
    command
}

fn run(netns: &Netns, program: &str, line: &str) -> Said {
    command(netns, program, line).output().unwrap().into()
}

fn interrupt(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, Signal::INT).unwrap();
}

/// Runs `line` of a client until its server, which has just been started or ends another test, is ready.
fn when_served(netns: &Netns, program: &str, line: &str) -> Said {
    let early = ["refused", "unreachable", "No route", "unable to connect", "busy"];
    let is_ready = |said: &Said| !early.iter().any(|why| said.out.contains(why) || said.err.contains(why));
    until_right(line, || run(netns, program, line), is_ready)
}

/// Reads the report of either program: bytes or datagrams arrived.
fn check(said: &Said, line: &str, sums: &[&str]) {
    let report: Value =
        serde_json::from_str(&said.out).unwrap_or_else(|why| panic!("{line}: {why}: {said:?}"));
    assert_eq!(said.code, Some(0), "{line}: {} {}", said.err, report["error"]);
    for sum in sums {
        let sum = &report["end"][sum];
        assert!(sum["bytes"].as_u64().is_some_and(|bytes| bytes > 500_000), "{line}: {report:#}");
        if line.contains("-u") {
            // 1000 datagrams a second; on a busy machine fewer, and receivers that have no CPU lose some.
            assert!(sum["packets"].as_u64().is_some_and(|count| count > 500), "{line}: {report:#}");
            assert!(sum["lost_percent"].as_f64().is_some_and(|lost| lost < 25.0), "{line}: {report:#}");
            assert!(sum["jitter_ms"].as_f64().is_some(), "{line}: {report:#}");
        }
    }
    assert!(report.get("error").is_none(), "{line}: {report:#}");
}

fn iperf3_tests_against_our_server() {
    let Some((netns, _permit)) = ready() else { return };
    let mut server = command(&netns, PROGRAM, "iperf -s").spawn().unwrap();
    for [own, _] in ADDRESSES {
        for (options, sums) in RUNS {
            let line = format!("-c {own} -J {options}");
            check(&when_served(&netns, "iperf3", &line), &line, sums);
        }
    }
    interrupt(&server);
    until("it ends", || server.try_wait().unwrap());
    let said: Said = server.wait_with_output().unwrap().into();
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said:?}");
    for part in ["Server listening on 5201 (test #15)", "[TX-S]", "0/", "sender", "receiver"] {
        assert!(said.out.contains(part), "{part}: {said:?}");
    }
}

fn our_client_tests_against_the_server_of_iperf3() {
    let Some((netns, _permit)) = ready() else { return };
    let mut server = command(&netns, "iperf3", "-s").spawn().unwrap();
    until("iperf3 listens", || netns.run(|| TcpStream::connect(("::1", 5201))).unwrap().ok());
    for [_, other] in ADDRESSES {
        for (options, sums) in RUNS {
            let line = format!("iperf -c {other} -J {options}");
            check(&when_served(&netns, PROGRAM, &line), &line, sums);
        }
    }
    let text = when_served(&netns, PROGRAM, "iperf -c 10.71.0.2 -t 1 -i 0.5");
    for part in ["Connecting to host 10.71.0.2, port 5201", "Retr  Cwnd", "0.00-0.5", "sender", "iperf Done."]
    {
        assert!(text.out.contains(part), "{part}: {text:?}");
    }
    server.kill().unwrap();
    server.wait().unwrap();
}

fn round_trip_times_are_measured_without_load_and_under_it() {
    let Some((netns, _permit)) = ready() else { return };
    let mut server = command(&netns, "iperf3", "-s").spawn().unwrap();
    until("iperf3 listens", || netns.run(|| TcpStream::connect(("::1", 5201))).unwrap().ok());
    for [_, other] in ADDRESSES {
        let said = when_served(&netns, PROGRAM, &format!("iperf -c {other} --rrul -t 1 -J"));
        let report: Value = serde_json::from_str(&said.out).unwrap_or_else(|why| panic!("{why}: {said:?}"));
        assert_eq!(
            (said.code, report["end"]["streams"].as_array().map(Vec::len)),
            (Some(0), Some(8)),
            "{report:#}"
        );
        let times = &report["end"]["rrul"];
        // The first ones may be lost while the other end's address is new.
        assert!(times["idle"]["sent"] == 20 && times["idle"]["lost"].as_u64() < Some(20), "{times:#}");
        assert!(times["loaded"]["sent"].as_u64() >= Some(5), "{times:#}");
        let [median, most] = ["median_ms", "max_ms"].map(|key| times["loaded"][key].as_f64().unwrap());
        assert!(0.0 < median && median <= most, "{times:#}");
    }
    let text = when_served(&netns, PROGRAM, "iperf -c 10.71.0.2 --rrul -t 1 -P 1");
    assert!(text.out.contains("\n  idle ") && text.out.contains("\n  loaded "), "{text:?}");
    server.kill().unwrap();
    server.wait().unwrap();
}

fn an_interrupted_client_shows_the_summary_so_far() {
    let Some((netns, _permit)) = ready() else { return };
    let mut server = command(&netns, "iperf3", "-s").spawn().unwrap();
    until("iperf3 listens", || netns.run(|| TcpStream::connect(("::1", 5201))).unwrap().ok());
    // A server that has just heard of another connection may still be busy with it.
    let (client, mut out) = until("a test runs", || {
        let mut client = command(&netns, PROGRAM, "iperf -c 10.71.0.2 -t 60 -i 0.1").spawn().unwrap();
        let mut out = std::io::BufReader::new(client.stdout.take().unwrap());
        let (mut line, mut intervals) = (String::new(), 0);
        while intervals < 3 {
            intervals += usize::from(line.contains("bits/sec"));
            line.clear();
            if std::io::BufRead::read_line(&mut out, &mut line).unwrap() == 0 {
                client.wait().unwrap();
                return None;
            }
        }
        Some((client, out))
    });
    interrupt(&client);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut out, &mut rest).unwrap();
    let said: Said = client.wait_with_output().unwrap().into();
    assert_eq!((said.code, said.err.trim()), (Some(1), "pantala: iperf: interrupted"), "{said:?}");
    assert!(rest.contains("sender"), "{rest}");
    server.kill().unwrap();
    server.wait().unwrap();
}

harness::tests![
    iperf3_tests_against_our_server,
    our_client_tests_against_the_server_of_iperf3,
    an_interrupted_client_shows_the_summary_so_far,
    round_trip_times_are_measured_without_load_and_under_it,
];
