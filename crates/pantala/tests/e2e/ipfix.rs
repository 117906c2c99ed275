//! `[ipfix]`: flows of Linux hosts, as the collector of nfdump reads them.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use dev::netns::Netns;
use dev::sys::process::end_with_parent;
use serde_json::Value;

use crate::firewall::section;
use crate::lab::{Attach, Lab, Link, at};
use crate::need;
use crate::pantala::{Folder, PROGRAM};
use crate::socket::{stream_arrives, udp};
use crate::wait::{until, until_right};

/// States of what the first host begins, before its IPv4 packets get the address of the second interface. They are asked on
/// the way in alone, so that each packet counts once.
const RULES: &str = "disable one_pass\n\
    nat 1 config if if2\n\
    add 100 nat 1 ip4 from any to any in recv if2\n\
    add 150 skipto 1000 ip from any to any out\n\
    add 200 check-state\n\
    add 300 skipto 1000 ip from any to any in recv if1 keep-state\n\
    add 1000 nat 1 ip4 from any to any out xmit if2\n\
    add 1010 allow ip from any to any\n";

/// `nfcapd`, which writes what it has every two seconds.
struct Collector {
    child: Child,
    folder: Folder,
    port: u16,
}

impl Collector {
    fn start(netns: &Netns, port: u16) -> Self {
        let folder = Folder::new();
        let mut command = Command::new("nfcapd");
        command.args(["-t", "2", "-b", "127.0.0.1", "-p"]).arg(port.to_string()).arg("-l").arg(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        netns.put(&mut command).unwrap();
        end_with_parent(&mut command);
        Self { child: command.spawn().unwrap(), folder, port }
    }

    fn section(&self, more: &str) -> String {
        format!("[ipfix]\ncollector = \"127.0.0.1:{}\"\n{more}", self.port)
    }

    /// All flows that it has written.
    fn flows(&self) -> Vec<Value> {
        flows(self.folder.path())
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn flows(folder: &Path) -> Vec<Value> {
    let out = Command::new("nfdump").args(["-o", "json", "-R"]).arg(folder).output().unwrap();
    serde_json::from_slice(&out.stdout).unwrap_or_default()
}

fn lab(test: &str) -> Option<Lab> {
    if !need::program("nfcapd") || !need::program("nfdump") {
        return None;
    }
    let lab = Lab::without_pantala(test, &[Link::new(Attach::Native), Link::new(Attach::Tap)])?;
    lab.router.netlink().unwrap().set_up("lo", true).unwrap();
    Some(lab)
}

fn collector_reads_flows_of_both_families_with_their_counts_and_their_nat() {
    let Some(mut lab) = lab("ipfix::collector_reads_flows_of_both_families_with_their_counts_and_their_nat")
    else {
        return;
    };
    let collector = Collector::start(&lab.router, 9995);
    let more = "inactive_timeout = 1\ntemplate_interval = 1\n";
    lab.run_pantala(&(section("deny", RULES) + &collector.section(more)));
    let (a, b) = lab.pair();
    lab.both(|family| {
        let (there, back) = (udp(&a.netns, b.addr(family)), udp(&b.netns, b.addr(family)));
        let (source, port) = (there.local_addr().unwrap().port(), back.local_addr().unwrap().port());
        for _ in 0..3 {
            there.send_to(&[0; 100], at(b.addr(family), port)).unwrap();
        }
        assert!(stream_arrives(&a.netns, &b.netns, b.addr(family), 1_000_000).unwrap());
        let [src, dst] = family.pick(["src4_addr", "dst4_addr"], ["src6_addr", "dst6_addr"]);
        let sum =
            |flows: &[Value], key: &str| flows.iter().filter_map(|flow| flow[key].as_u64()).sum::<u64>();
        let of = |proto: u64| {
            let flows = collector.flows().into_iter().filter(|flow| flow["proto"] == proto);
            let ends = |flow: &Value| {
                flow[src] == a.addr(family).to_string() && flow[dst] == b.addr(family).to_string()
            };
            flows.filter(ends).collect::<Vec<_>>()
        };
        let is_told = |flows: &Vec<Value>| sum(flows, "in_packets") == 3;
        let datagrams = until_right("three datagrams are told", || of(17), is_told);
        assert_eq!(sum(&datagrams, "in_bytes"), 3 * family.pick(128, 148), "{datagrams:#?}");
        assert_eq!((&datagrams[0]["src_port"], &datagrams[0]["dst_port"]), (&source.into(), &port.into()));
        let stream = until_right("the stream is told", || of(6), |flows| sum(flows, "in_bytes") > 1_000_000);
        assert!(
            stream.iter().any(|flow| flow["tcp_flags"]
                .as_str()
                .is_some_and(|flags| flags.contains('S') && flags.contains('F') && flags.contains('A'))),
            "{stream:#?}"
        );
        if let Some(outside) = family.pick(Some(b.router(family).to_string()), None) {
            for flow in datagrams.iter().chain(&stream) {
                assert_eq!(flow["src4_xlt_ip"], outside, "{flow:#}");
            }
        }
    });
    let metrics = lab.pantala().metrics();
    let value = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name}: {metrics}")).parse::<u64>().unwrap()
    };
    assert!(value("pantala_ipfix_records_total") >= 4 && value("pantala_ipfix_lost_total") == 0);
}

fn a_reload_moves_flows_to_another_collector_or_to_none() {
    let Some(mut lab) = lab("ipfix::a_reload_moves_flows_to_another_collector_or_to_none") else { return };
    let collectors = [9996, 9997].map(|port| Collector::start(&lab.router, port));
    let rules = section("deny", RULES);
    lab.run_pantala(&rules);
    assert!(!lab.pantala().metrics().contains("pantala_ipfix"));
    let (a, b) = lab.pair();
    let to = b.addr(crate::lab::Family::V4);
    let (there, back) = (udp(&a.netns, to), udp(&b.netns, to));
    let to = at(to, back.local_addr().unwrap().port());
    for (collector, next) in [(&collectors[0], &collectors[1]), (&collectors[1], &collectors[0])] {
        lab.pantala().rewrite_config(&lab.config(&(rules.clone() + &collector.section(""))));
        lab.pantala().shows("reload");
        until("the flow is followed", || {
            there.send_to(b"?", to).unwrap();
            lab.pantala().metrics().contains("pantala_ipfix_flows 1\n").then_some(())
        });
        // Another collector gets nothing of it, and this one gets the rest.
        let before = next.flows().len();
        lab.pantala().rewrite_config(&lab.config(&rules));
        lab.pantala().shows("reload");
        until("what is left is told", || collector.flows().first().map(drop));
        assert_eq!(next.flows().len(), before);
    }
}

fn a_section_that_is_wrong_is_refused() {
    let folder = Folder::new();
    let file = folder.file("pantala.toml");
    std::fs::write(&file, "[ipfix]\n[[interface]]\ndevice = \"tap:t0\"\n").unwrap();
    let out = Command::new(PROGRAM).args(["check", "-c"]).arg(&file).output().unwrap();
    assert_ne!(out.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&out.stderr).contains("[ipfix] has no collector"));
}

harness::tests![
    collector_reads_flows_of_both_families_with_their_counts_and_their_nat,
    a_reload_moves_flows_to_another_collector_or_to_none,
    a_section_that_is_wrong_is_refused,
];
