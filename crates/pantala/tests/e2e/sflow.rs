//! `[sflow]`: samples of frames between Linux hosts, as the collector of nfdump reads them.

use std::process::{Child, Command, Stdio};

use dev::sys::process::end_with_parent;
use serde_json::Value;

use crate::lab::{Attach, Lab, Link, at};
use crate::need;
use crate::pantala::Folder;
use crate::socket::udp;
use crate::wait::until_right;

/// `sfcapd`, which writes what it has every two seconds.
struct Collector {
    child: Child,
    folder: Folder,
}

impl Collector {
    fn start(lab: &Lab) -> Self {
        let folder = Folder::new();
        let mut command = Command::new("sfcapd");
        command.args(["-t", "2", "-b", "127.0.0.1", "-p", "6343", "-l"]).arg(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        lab.router.put(&mut command).unwrap();
        end_with_parent(&mut command);
        Self { child: command.spawn().unwrap(), folder }
    }

    fn samples(&self) -> Vec<Value> {
        let mut nfdump = Command::new("nfdump");
        let out = nfdump.args(["-o", "json", "-R"]).arg(self.folder.path()).output().unwrap();
        serde_json::from_slice(&out.stdout).unwrap_or_default()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collector_reads_samples_of_both_families_with_their_interfaces() {
    const NAME: &str = "sflow::collector_reads_samples_of_both_families_with_their_interfaces";
    if !need::program("sfcapd") || !need::program("nfdump") {
        return;
    }
    let Some(mut lab) = Lab::without_pantala(NAME, &[Link::new(Attach::Native), Link::new(Attach::Tap)])
    else {
        return;
    };
    lab.router.netlink().unwrap().set_up("lo", true).unwrap();
    let collector = Collector::start(&lab);
    let section = "[sflow]\ncollector = \"127.0.0.1:6343\"\nsampling = 4\npolling = 1\n";
    lab.run_pantala(section);
    let (a, b) = lab.pair();
    lab.both(|family| {
        let (there, back) = (udp(&a.netns, b.addr(family)), udp(&b.netns, b.addr(family)));
        let to = at(b.addr(family), back.local_addr().unwrap().port());
        let [src, dst] = family.pick(["src4_addr", "dst4_addr"], ["src6_addr", "dst6_addr"]);
        let ours = || {
            (0..400).for_each(|_| drop(there.send_to(&[0; 100], to)));
            let of_us = |sample: &Value| {
                sample[src] == a.addr(family).to_string()
                    && sample[dst] == b.addr(family).to_string()
                    && sample["dst_port"] == to.port()
            };
            collector.samples().into_iter().filter(of_us).collect::<Vec<_>>()
        };
        let told = until_right("samples are told", ours, |samples: &Vec<Value>| samples.len() > 20);
        for sample in &told {
            // Each stands for four, and came by the first interface.
            assert_eq!((&sample["in_packets"], &sample["input_snmp"]), (&4.into(), &1.into()), "{sample:#}");
        }
    });
    let metrics = lab.pantala().metrics();
    let value = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name}: {metrics}")).parse::<u64>().unwrap()
    };
    assert!(
        value("pantala_sflow_flow_samples_total") > 40 && value("pantala_sflow_counter_samples_total") > 2
    );
    assert_eq!(value("pantala_sflow_lost_total"), 0);
    // Without the section nothing is told any more.
    lab.pantala().rewrite_config(&lab.config(""));
    assert!(lab.pantala().shows("reload").contains("no samples exported"));
    until_right("no exporter", || lab.pantala().metrics(), |page: &String| !page.contains("pantala_sflow"));
}

harness::tests![collector_reads_samples_of_both_families_with_their_interfaces];
