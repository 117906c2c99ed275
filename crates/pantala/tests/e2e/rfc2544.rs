//! The benchmark of RFC 2544: through the kernel and through pantala, over TAP and AF_XDP.

use std::path::Path;

use dev::netlink::Veth;
use dev::netns::Netns;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::firewall::section;
use crate::lab::{Attach, Family, Link, namespace};
use crate::need::{self, Permit};
use crate::pantala::{Folder, Pantala, Said};
use crate::pktgen::{Ports, Router, Track, configure, count, net, start};
use crate::wait::until;

/// Quick trials, at a rate that every router forwards.
const QUICK: &str = "--trial 400ms --settle 300ms --pause 0s --repeat 1 --max-rate 2kpps";

/// The command line of a run between the two links of a track.
fn line(track: &Track, family: Family, more: &str) -> String {
    let [tx, rx] = track.devices();
    let [here, there] = [1, 2].map(|number| net(family, number, 2));
    let six = family.pick("", "-6");
    format!("rfc2544 {tx} {rx} {six} --tx-addr {here} --rx-addr {there} {more}")
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// Every frame of every trial is received or lost.
fn is_accounted(report: &Value) {
    for trial in report["trials"].as_array().unwrap() {
        for counts in trial["outcome"]["directions"].as_array().unwrap() {
            let [sent, received, lost] = ["/sent", "/received", "/lost"].map(|path| count(counts, path));
            assert!(sent > 0 && sent == received + lost, "{trial:#}");
        }
    }
}

fn every_test_runs_over_any_device_through_any_router_and_is_in_the_report() {
    for (who, ports) in [
        (Router::Kernel, Ports::Tap),
        (Router::Kernel, Ports::Xdp("native")),
        (Router::Pantala, Ports::Xdp("generic")),
    ] {
        let Some(track) = Track::build_with(who, ports, "") else { return };
        for family in Family::BOTH {
            let (folder, size) = (Folder::new(), family.pick(64, 84));
            let dir = folder.path().join("r");
            let more = format!(
                "{QUICK} --sizes {size},512 --both-ways --flows 3 --reset-command true --report {}",
                dir.display()
            );
            let said = track.run(&line(&track, family, &more));
            assert_eq!(said.code, Some(0), "{who:?} {ports:?} {family:?}: {said:?}");
            let report: Value = serde_json::from_str(&said.out).unwrap();
            assert_eq!(json(&dir.join("report.json")), report);
            is_accounted(&report);
            let sizes = report["sizes"].as_array().unwrap();
            assert_eq!(sizes.len(), 2);
            for result in sizes {
                // The highest rate, if the machine was not busy with something else.
                let rate = count(result, "/throughput/rate");
                assert!((1_000_000..=2_000_000).contains(&rate), "{result:#}");
                assert!(count(result, "/latency/0/directions/1/p50") > 0, "{result:#}");
                assert!(result["loss"].as_array().unwrap().len() >= 2, "{result:#}");
                assert!(count(result, "/back_to_back/max") > 0, "{result:#}");
                assert_eq!(result["recovery"].as_array().unwrap().len(), 1);
            }
            assert_eq!(report["reset"]["state"], "measured", "{report:#}");
            let markdown = std::fs::read_to_string(dir.join("report.md")).unwrap();
            for part in ["## Results", "### Throughput", "### Reset", "What differs from the standard"] {
                assert!(markdown.contains(part), "{part}: {markdown}");
            }
        }
    }
}

/// A pipe is a device of a known rate: what is above is lost when its queue is full.
fn the_throughput_of_a_pipe_is_its_bandwidth() {
    const FRAME: u64 = 512;
    const RATE: u64 = 2000;
    // A pipe counts IP packets, the standard Ethernet frames with FCS.
    let bits = RATE * (FRAME - 18) * 8;
    let rules =
        format!("pipe 1 config bw {bits}bit/s queue 100\nadd 100 pipe 1 udp from any to any out xmit if2\n");
    let Some(track) = Track::build_with(Router::Pantala, Ports::Xdp("generic"), &section("allow", &rules))
    else {
        return;
    };
    for family in Family::BOTH {
        let more = format!(
            "--trial 2s --settle 500ms --pause 100ms --tests throughput,loss --resolution 2% --max-rate 8kpps --sizes {FRAME}"
        );
        let said = track.run(&line(&track, family, &more));
        assert_eq!(said.code, Some(0), "{said:?}");
        let report: Value = serde_json::from_str(&said.out).unwrap();
        is_accounted(&report);
        let found = count(&report, "/sizes/0/throughput/rate") / 1000;
        // The queue takes a twentieth of a second of each trial; a busy machine sends in bursts.
        assert!((RATE * 7 / 10..=RATE * 11 / 10).contains(&found), "{family:?} {found}: {report:#}");
        assert_eq!(report["sizes"][0]["throughput"]["limit"], "device", "{family:?}");
        let most = report.pointer("/sizes/0/loss/0/loss_percent").and_then(Value::as_f64).unwrap();
        assert!((70.0..80.0).contains(&most), "three of four are lost at four times the rate: {report:#}");
    }
}

fn an_interrupted_run_is_resumed_where_it_was() {
    let Some(track) = Track::build_with(Router::Kernel, Ports::Xdp("native"), "") else { return };
    let folder = Folder::new();
    let dir = folder.path().join("r");
    let more = format!("{QUICK} --sizes 64,128,256,512 --tests throughput,loss --report {}", dir.display());
    let child = track.start(&line(&track, Family::V4, &more));
    let state = dir.join("run.json");
    until("two trials are kept", || {
        (state.exists() && json(&state)["trials"].as_array()?.len() >= 2).then_some(())
    });
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let said: Said = child.wait_with_output().unwrap().into();
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("--resume"), "{said:?}");
    let before: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&before["interrupted"], &before), (&Value::from(true), &json(&dir.join("report.json"))));
    let again = track.run(&line(&track, Family::V4, &more));
    assert!(again.code == Some(1) && again.err.contains("has a run already"), "{again:?}");
    let resumed = track.run(&format!("rfc2544 --resume {}", dir.display()));
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let after: Value = serde_json::from_str(&resumed.out).unwrap();
    let trials = |report: &Value| report["trials"].as_array().unwrap().clone();
    assert!(trials(&after).starts_with(&trials(&before)), "what was measured is not measured again");
    assert_eq!((&after["interrupted"], after["sizes"].as_array().unwrap().len()), (&Value::from(false), 4));
}

fn a_device_that_does_not_forward_is_an_error_that_names_both_sides() {
    let Some(track) = Track::build_with(Router::Kernel, Ports::Xdp("native"), "") else { return };
    track.router.run(|| dev::sys::sysctl::set("ipv4.ip_forward", 0).unwrap()).unwrap();
    let said = track.run(&line(&track, Family::V4, QUICK));
    assert_eq!(said.code, Some(1), "{said:?}");
    for part in ["no learning frame from af_xdp:g0", "arrives at af_xdp:g1", "10.78.1.2", "10.78.2.2"] {
        assert!(said.err.contains(part), "{part}: {said:?}");
    }
    let silent = format!("{QUICK} --tx-gateway 10.78.1.77");
    let said = track.run(&line(&track, Family::V4, &silent));
    assert!(said.code == Some(1) && said.err.contains("10.78.1.77 does not answer"), "{said:?}");
}

/// Three cables between a generator's namespace and a device under test.
struct Star {
    generator: Netns,
    _pantala: Option<Pantala>,
    _dut: Netns,
    _permit: Permit,
}

impl Star {
    /// The kernel as a router, or a bridge of pantala's.
    fn build(who: Router) -> Option<Self> {
        if !need::lab(&[Link::new(Attach::Native)]) {
            return None;
        }
        let permit = Permit::wait();
        let (generator, dut) = (namespace(), namespace());
        let mut netlink = generator.netlink().unwrap();
        for (here, there) in [("g0", "r0"), ("g1", "r1"), ("g2", "r2")] {
            netlink.add_veth(&Veth::new(here, there)).unwrap();
            netlink.move_to(there, &dut).unwrap();
            netlink.set_up(here, true).unwrap();
            dut.netlink().unwrap().set_up(there, true).unwrap();
        }
        let ports: String = (0..3)
            .map(|at| format!("[[interface]]\nname = \"if{at}\"\ndevice = \"af_xdp:r{at},mode=generic\"\n"))
            .collect();
        let bridge = "[[interface]]\nname = \"br0\"\ndevice = \"bridge:if0,if1,if2\"\n";
        let pantala = match who {
            Router::Kernel => {
                configure(&dut, &["r0", "r1", "r2"]);
                None
            }
            Router::Pantala => Some(Pantala::start(&dut, &format!("{ports}{bridge}"))),
        };
        Some(Self { generator, _pantala: pantala, _dut: dut, _permit: permit })
    }
}

fn each_port_of_a_mesh_sends_to_all_others_and_each_pair_is_counted() {
    for (who, more) in [(Router::Kernel, ""), (Router::Pantala, "--switch")] {
        let Some(star) = Star::build(who) else { return };
        for family in Family::BOTH {
            let addrs = [1, 2, 3].map(|number| net(family, number, 2).to_string()).join(",");
            let line = format!(
                "rfc2544 af_xdp:g0 af_xdp:g1 af_xdp:g2 --mesh {more} {} --addrs {addrs} --flows 2 {QUICK} --tests throughput,latency,recovery --sizes 128",
                family.pick("", "-6")
            );
            let said: Said = start(&star.generator, &line).wait_with_output().unwrap().into();
            assert_eq!(said.code, Some(0), "{who:?} {family:?}: {said:?}");
            let report: Value = serde_json::from_str(&said.out).unwrap();
            is_accounted(&report);
            let trials = report["trials"].as_array().unwrap();
            let latency = trials.iter().find(|trial| trial["spec"]["test"] == "latency").unwrap();
            for (from, counts) in latency["outcome"]["directions"].as_array().unwrap().iter().enumerate() {
                let pairs = counts["pairs"].as_array().unwrap();
                let to: Vec<u64> = pairs.iter().map(|pair| count(pair, "/to")).collect();
                assert_eq!(to, [(from as u64 + 1) % 3, (from as u64 + 2) % 3], "{counts:#}");
                let sent: Vec<u64> = pairs.iter().map(|pair| count(pair, "/sent")).collect();
                assert!(sent[0].abs_diff(sent[1]) <= 1 && sent.iter().sum::<u64>() == count(counts, "/sent"));
                let received: u64 = pairs.iter().map(|pair| count(pair, "/received")).sum();
                assert_eq!(received, count(counts, "/received"), "{counts:#}");
                assert_eq!(
                    (count(counts, "/lost"), count(counts, "/duplicated")),
                    (0, 0),
                    "{who:?}: {counts:#}"
                );
                assert!(pairs.iter().all(|pair| count(pair, "/latency_ns/p50") > 0), "{counts:#}");
            }
        }
    }
}

harness::tests![
    each_port_of_a_mesh_sends_to_all_others_and_each_pair_is_counted,
    every_test_runs_over_any_device_through_any_router_and_is_in_the_report,
    the_throughput_of_a_pipe_is_its_bandwidth,
    an_interrupted_run_is_resumed_where_it_was,
    a_device_that_does_not_forward_is_an_error_that_names_both_sides,
];
