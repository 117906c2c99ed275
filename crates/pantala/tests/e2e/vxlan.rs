//! VXLANs between pantala and the kernel: each family inside each, and what a dissector says of the frames.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Child, Command, Stdio};

use dev::netns::Netns;

use crate::lab::{Attach, Family, Host, Lab, Link};
use crate::need;
use crate::pantala::Folder;
use crate::socket::{Ping, ping, stream_arrives};
use crate::wait::until;

/// An address on the inner network of a host; 1 is pantala, 2 is the host.
fn inner(host: &Host, family: Family, number: u8) -> IpAddr {
    let [_, net] = host.number().to_be_bytes();
    let v6 = Ipv6Addr::new(0xfd88, 0, 0, host.number(), 0, 0, 0, number.into());
    family.pick(Ipv4Addr::new(10, 88, net, number).into(), v6.into())
}

fn vni(host: &Host) -> u16 {
    40 + host.number()
}

/// pantala's end of the VXLAN to a host.
fn section(host: &Host, outer: Family) -> String {
    let (vni, local, remote) = (vni(host), host.router(outer), host.addr(outer));
    let [v4, v6] = Family::BOTH.map(|family| inner(host, family, 1));
    format!(
        "[[interface]]\nname = \"vx{vni}\"\ndevice = \"vxlan:{vni},{local},{remote}\"\naddress = [\"{v4}/24\", \"{v6}/64\"]\n"
    )
}

fn ip(netns: &Netns, words: &str) {
    let status = netns.run(|| Command::new("ip").args(words.split(' ')).status()).unwrap().unwrap();
    assert!(status.success(), "ip {words}");
}

/// The kernel's end, and a route to the inner network of the other host.
fn join(host: &Host, other: &Host, outer: Family) {
    let (vni, local, remote) = (vni(host), host.addr(outer), host.router(outer));
    ip(
        &host.netns,
        &format!("link add vx type vxlan id {vni} local {local} remote {remote} dstport 4789 dev eth0"),
    );
    ip(&host.netns, "link set vx up");
    for family in Family::BOTH {
        let (own, there) = (inner(host, family, 2), inner(other, family, 0));
        let length = family.pick(24, 64);
        ip(&host.netns, &format!("address add {own}/{length} dev vx nodad"));
        ip(&host.netns, &format!("route add {there}/{length} via {}", inner(host, family, 1)));
    }
}

/// Captures the next frames of a host's link.
fn capture(host: &Host, file: &str) -> Child {
    let mut tshark = Command::new("tshark");
    tshark.args(["-q", "-n", "-i", "eth0", "-f", "udp port 4789", "-c", "200", "-w", file]);
    let tshark = tshark.stdout(Stdio::null()).stderr(Stdio::null());
    let child = host.netns.run(|| tshark.spawn()).unwrap().unwrap();
    until("tshark captures", || std::fs::metadata(file).ok().filter(|meta| meta.len() > 0));
    child
}

/// Frames in a capture that match a filter.
fn dissected(file: &str, filter: &str) -> Vec<String> {
    let output = Command::new("tshark").args(["-n", "-r", file, "-Y", filter]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn hosts_reach_each_other_through_two_vxlans_and_a_dissector_finds_no_fault() {
    if !["ip", "tshark"].into_iter().all(need::program) {
        return;
    }
    for outers in [[Family::V4, Family::V6], [Family::V6, Family::V4]] {
        let links = [Link::new(Attach::Native), Link::new(Attach::Tap)];
        let name = "vxlan::hosts_reach_each_other_through_two_vxlans_and_a_dissector_finds_no_fault";
        let Some(mut lab) = Lab::without_pantala(name, &links) else { return };
        let more: String = lab.hosts.iter().zip(outers).map(|(host, outer)| section(host, outer)).collect();
        lab.run_pantala(&more);
        let (a, b) = lab.pair();
        join(a, b, outers[0]);
        join(b, a, outers[1]);
        let folder = Folder::new();
        let file = folder.file("vxlan.pcapng").display().to_string();
        let mut tshark = capture(a, &file);
        lab.both(|family| {
            for (from, to) in [(a, b), (b, a)] {
                assert_eq!(ping(&from.netns, inner(from, family, 1), 3), 3, "{outers:?}: to pantala");
                assert_eq!(ping(&from.netns, inner(to, family, 2), 3), 3, "{outers:?}: to the host behind");
                let there = inner(to, family, 2);
                assert!(stream_arrives(&from.netns, &to.netns, there, 2_000_000).unwrap(), "{outers:?}");
            }
            // What fills the link's MTU with all headers passes; the stack answers what does not.
            let most = outers[0].pick(1450, 1430) - family.pick(28, 48);
            assert!(Ping::open(&a.netns, inner(a, family, 1)).dont_fragment().ask(9, most), "{outers:?}");
        });
        assert!(tshark.wait().unwrap().success());
        let router = a.router(outers[0]);
        let from_pantala = format!("{} == {router}", outers[0].pick("ip.src", "ipv6.src"));
        assert!(dissected(&file, &format!("vxlan.vni == {} && {from_pantala}", vni(a))).len() > 20);
        let faults = format!("(_ws.malformed || _ws.expert.severity == error) && {from_pantala}");
        assert_eq!(dissected(&file, &faults), [""; 0]);
        let shown = lab.pantala().interfaces();
        for host in &lab.hosts {
            let vx = shown.iter().find(|shown| shown.name == format!("vx{}", vni(host))).unwrap();
            assert!(
                vx.fdb.iter().any(|station| !station.is_static && station.vtep.is_some()),
                "{:?}",
                vx.fdb
            );
        }
        assert_eq!(lab.pantala().dropped("tunnel_malformed") + lab.pantala().dropped("vxlan_unknown"), 0);
    }
}

harness::tests![hosts_reach_each_other_through_two_vxlans_and_a_dissector_finds_no_fault];
