//! memif between two pantalas, and between pantala and DPDK's `testpmd`.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use ipnet::IpNet;
use pantala::api::MemifState;
use rustix::process::Signal;
use serde_json::Value;

use crate::lab::{Attach, Family, Lab, Link, namespace};
use crate::need;
use crate::pantala::{Folder, Pantala};
use crate::socket::stream_arrives;
use crate::wait::{until, until_right};

const ADDRESSES: [[&str; 2]; 2] = [["192.0.2.1", "2001:db8::1"], ["192.0.2.2", "2001:db8::2"]];

/// A configuration with one interface `m`, at this socket.
fn config(folder: &Folder, role: &str, [v4, v6]: [&str; 2], more: &str) -> String {
    let socket = folder.file("m.sock");
    format!(
        "{more}\n[[interface]]\nname = \"m\"\ndevice = \"memif:{},id=3,role={role}\"\n\
         address = [\"{v4}/24\", \"{v6}/64\"]\nrings = {}\n",
        socket.display(),
        if more.contains("[0, 1]") { 2 } else { 1 },
    )
}

fn is_connected(pantala: &Pantala) -> bool {
    let interface = pantala.interface("m");
    interface.device.unwrap().memif.unwrap().state == MemifState::Connected && interface.link.active
}

/// Both families, small packets and some that must be fragmented.
fn pings(pantala: &Pantala, addresses: [&str; 2]) {
    for address in addresses {
        // An address may still be asking whether it is alone.
        until_right(
            "an answer",
            || pantala.command(&format!("ping -c 1 -W 200 {address}")).code,
            |code| *code == Some(0),
        );
        for size in [56, 3000] {
            let said = pantala.shows(&format!("ping -c 20 -i 0.002 -s {size} {address}"));
            assert!(said.contains("20 packets received"), "{said}");
        }
    }
}

fn two_pantalas_are_neighbours_over_memif_whoever_is_master() {
    if !need::lab(&[]) || !need::two_cpus() {
        return;
    }
    for (roles, more) in [
        (["master", "slave"], ""),
        (["client", "server"], "polling = \"never\""),
        (["slave", "master"], "cpus = [0, 1]"),
    ] {
        let (folder, netns) = (Folder::new(), namespace());
        let ends =
            [0, 1].map(|end| Pantala::start(&netns, &config(&folder, roles[end], ADDRESSES[end], more)));
        until_right("both are connected", || ends.iter().all(is_connected), |both| *both);
        for end in [0, 1] {
            pings(&ends[end], ADDRESSES[1 - end]);
        }
        let shown = ends[0].shows("ifconfig m");
        assert!(shown.contains("peer: connected pantala ") && shown.contains(" m rings "), "{shown}");
        assert!(shown.contains("id 3 socket ") && shown.contains("status: active"), "{shown}");
    }
}

fn a_peer_that_is_killed_is_missed_and_welcome_again() {
    if !need::lab(&[]) {
        return;
    }
    for roles in [["master", "slave"], ["slave", "master"]] {
        let (folder, netns) = (Folder::new(), namespace());
        let [stays, goes] =
            [0, 1].map(|end| Pantala::start(&netns, &config(&folder, roles[end], ADDRESSES[end], "")));
        let mut goes = Some(goes);
        for round in 1..4 {
            until_right("it is connected", || is_connected(&stays), |is| *is);
            pings(&stays, ADDRESSES[1]);
            let gone = goes.take().unwrap();
            gone.signal(Signal::STOP); // it goes on holding its end, and the ring fills
            assert_ne!(stays.command("ping -c 600 -i 0.0005 -W 100 192.0.2.2").code, Some(0));
            goes = Some(gone.killed_and_started_again(&netns));
            let memif = until("it is missed", || {
                let memif = stays.interface("m").device.unwrap().memif.unwrap();
                (memif.ends == round).then_some(memif)
            });
            let why = memif.last_error.unwrap();
            assert!(why == "the peer hung up" || why.starts_with("cannot connect to "), "{why}");
        }
        until_right("it is connected", || is_connected(&stays), |is| *is);
        pings(&stays, ADDRESSES[1]);
        // At rest, every buffer is home again.
        let home =
            |pools: &Value| pools.as_array().unwrap().iter().all(|pool| pool["free"] == pool["buffers"]);
        until_right("all buffers are home", || stays.json("netstat -m"), home);
    }
}

/// Length of each stream, bytes.
const STREAM: u64 = 16 << 20;

/// Two hosts of Linux, each behind a router of its own, and memif between the two routers.
fn streams_cross_two_routers_that_memif_joins() {
    let links = [Link::new(Attach::Tap), Link::new(Attach::Tap)];
    let test = "memif::streams_cross_two_routers_that_memif_joins";
    let Some(mut lab) = Lab::without_pantala(test, &links) else { return };
    let folder = Folder::new();
    let start = |end: usize, role| {
        let other = &lab.hosts[1 - end];
        let routes = Family::BOTH.map(|family| {
            let to = IpNet::new_assert(other.router(family), family.pick(24, 64)).trunc();
            let via = family.pick(ADDRESSES[1 - end][0], ADDRESSES[1 - end][1]);
            format!("[[route]]\nto = \"{to}\"\nvia = [\"{via}\"]\n")
        });
        let more = format!("forwarding = true\n{}", lab.hosts[end].section());
        let text = config(&folder, role, ADDRESSES[end], &more) + &routes.concat();
        Pantala::start(&lab.router, &text)
    };
    let (first, second) = (start(0, "master"), start(1, "slave"));
    lab.pantala = Some(first);
    lab.attach();
    until_right(
        "both are connected",
        || [lab.pantala(), &second].into_iter().all(is_connected),
        |both| *both,
    );
    let (a, b) = lab.pair();
    lab.both(|family| {
        assert!(stream_arrives(&a.netns, &b.netns, b.addr(family), STREAM).unwrap());
        assert!(stream_arrives(&b.netns, &a.netns, a.addr(family), STREAM).unwrap());
    });
    let metrics = lab.pantala().metrics();
    for line in
        ["pantala_memif_connected{if=\"m\"} 1", "pantala_memif_faults_total{if=\"m\",fault=\"bad_chain\"} 0"]
    {
        assert!(metrics.lines().any(|known| known == line), "{line} is not in\n{metrics}");
    }
}

/// DPDK's testpmd, which answers ARP and pings; ended with the value.
struct TestPmd(Child);

impl TestPmd {
    fn start(folder: &Folder, role: &str) -> Self {
        let socket = folder.file("m.sock");
        let device =
            format!("--vdev=net_memif0,role={role},id=3,socket={},socket-abstract=no", socket.display());
        let prefix = format!("--file-prefix=pt-e2e-{}-{role}", std::process::id());
        let eal = ["-l", "0,1", "--no-huge", "-m", "256", "--no-pci", "--no-shconf", "--no-telemetry"];
        let program = ["--", "-i", "--forward-mode=icmpecho", "--total-num-mbufs=8192", "--no-flush-rx"];
        let mut command = Command::new("dpdk-testpmd");
        command.args(eal).args([prefix, device]).args(program);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"start\n").unwrap();
        Self(child)
    }
}

impl Drop for TestPmd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn dpdk_answers_pings_over_memif_whoever_is_master() {
    if !need::lab(&[]) || !need::program("dpdk-testpmd") {
        return;
    }
    for (ours, theirs) in [("master", "client"), ("slave", "server")] {
        let (folder, netns) = (Folder::new(), namespace());
        // What testpmd listens at, only root may connect to.
        let user = if ours == "slave" { "user = \"root\"" } else { "" };
        let more = format!("cpus = [0]\n{user}");
        let pantala = Pantala::start(&netns, &config(&folder, ours, ADDRESSES[0], &more));
        for round in 1..3 {
            let dpdk = TestPmd::start(&folder, theirs);
            until_right("DPDK is connected", || is_connected(&pantala), |is| *is);
            let ping = || pantala.command("ping -c 1 -W 200 192.0.2.2").code;
            until_right("DPDK answers", ping, |code| *code == Some(0));
            let said = pantala.shows("ping -c 200 -i 0.001 -s 1400 192.0.2.2");
            assert!(said.contains("200 packets received"), "{said}");
            assert!(pantala.shows("ifconfig m").contains("peer: connected DPDK "));
            drop(dpdk); // killed
            until_right("it is missed", || is_connected(&pantala), |is| !is);
            assert_eq!(pantala.interface("m").device.unwrap().memif.unwrap().connects, round);
            if theirs == "server" {
                std::fs::remove_file(folder.file("m.sock")).unwrap(); // it had no time to
            }
        }
    }
}

harness::tests![
    two_pantalas_are_neighbours_over_memif_whoever_is_master,
    a_peer_that_is_killed_is_missed_and_welcome_again,
    streams_cross_two_routers_that_memif_joins,
    dpdk_answers_pings_over_memif_whoever_is_master,
];
