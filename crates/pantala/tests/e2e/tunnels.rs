//! Packets of tunnels (gif and GRE, each family inside each) as a dissector reads them.

use core::fmt::Write as _;
use core::net::IpAddr;
use std::process::{Child, Command, Stdio};

use crate::lab::{Attach, Family, Host, Lab, Link};
use crate::need;
use crate::pantala::Folder;
use crate::wait::until;

/// Behind `gif:` or `gre:` and the two ends.
const KINDS: [(&str, &str); 3] = [("gif", ""), ("gre", ""), ("gre", ",key=4294967295")];
/// Requests into each tunnel, of each family.
const PINGS: usize = 3;

/// The tunnels: number, device, and what says in a dissection that a packet is of its kind.
fn tunnels(host: &Host) -> Vec<(u8, String, &'static str)> {
    let both = KINDS.into_iter().flat_map(|kind| Family::BOTH.map(|outer| (kind, outer)));
    let numbered = (1..).zip(both);
    let tunnel = |(number, ((word, more), outer)): (u8, ((&str, &str), Family))| {
        let device = format!("{word}:{},{}{more}", host.router(outer), host.addr(outer));
        let says = match (word, more) {
            ("gif", _) => "!gre",
            (_, "") => "gre && !gre.key",
            _ => "gre.key == 4294967295",
        };
        (number, device, says)
    };
    numbered.map(tunnel).collect()
}

/// An address in a tunnel: 1 is pantala's.
fn inner(number: u8, family: Family, host: u8) -> IpAddr {
    let (v4, v6) = (format!("10.99.{number}.{host}"), format!("fd99:0:0:{number}::{host}"));
    family.pick(v4, v6).parse().unwrap()
}

/// Captures so many tunnelled packets of a host's link.
fn capture(host: &Host, file: &str, packets: usize) -> Child {
    const FILTER: &str =
        "ip proto 4 or ip proto 41 or ip proto 47 or ip6 proto 4 or ip6 proto 41 or ip6 proto 47";
    let mut tshark = Command::new("tshark");
    tshark.args(["-q", "-n", "-i", "eth0", "-f", FILTER, "-c", &packets.to_string(), "-w", file]);
    let tshark = tshark.stdout(Stdio::null()).stderr(Stdio::null());
    let child = host.netns.run(|| tshark.spawn()).unwrap().unwrap();
    until("tshark captures", || std::fs::metadata(file).ok().filter(|meta| meta.len() > 0));
    child
}

/// Packets in a capture that match a filter.
fn dissected(file: &str, filter: &str) -> Vec<String> {
    let output = Command::new("tshark").args(["-n", "-r", file, "-Y", filter]).output().unwrap();
    assert!(output.status.success(), "{filter}: {output:?}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn a_dissector_finds_each_family_in_each_tunnel_and_no_fault() {
    if !need::program("tshark") {
        return;
    }
    let name = "tunnels::a_dissector_finds_each_family_in_each_tunnel_and_no_fault";
    let Some(mut lab) = Lab::without_pantala(name, &[Link::new(Attach::Tap)]) else { return };
    let all = tunnels(&lab.hosts[0]);
    let sections = all.iter().fold(String::new(), |mut text, (number, device, _)| {
        let [v4, v6] = Family::BOTH.map(|family| inner(*number, family, 1));
        let _ = writeln!(
            text,
            "[[interface]]\nname = \"t{number}\"\ndevice = \"{device}\"\naddress = [\"{v4}/24\", \"{v6}/64\"]"
        );
        text
    });
    lab.run_pantala(&sections);
    let host = &lab.hosts[0];
    let folder = Folder::new();
    let file = folder.file("tunnels.pcapng").display().to_string();
    let mut tshark = capture(host, &file, all.len() * 2 * PINGS);
    for (number, ..) in &all {
        for family in Family::BOTH {
            // The host has no such tunnel, and does not answer.
            lab.pantala().command(&format!("ping -c {PINGS} -i 0.01 -W 1 {}", inner(*number, family, 2)));
        }
    }
    assert!(tshark.wait().unwrap().success());
    for (number, device, says) in &all {
        for family in Family::BOTH {
            let (to, echo) = (inner(*number, family, 2), family.pick("icmp.type == 8", "icmpv6.type == 128"));
            let says = match device.starts_with("gre:") {
                true => format!("{says} && gre.proto == {}", family.pick("0x0800", "0x86dd")),
                false => says.to_string(),
            };
            let filter = format!("{says} && {echo} && {} == {to}", family.pick("ip.dst", "ipv6.dst"));
            assert_eq!(dissected(&file, &filter).len(), PINGS, "{device}: {filter}");
        }
    }
    assert_eq!(dissected(&file, "_ws.malformed || _ws.expert.severity == error"), [""; 0]);
    let shown = lab.pantala().shows("ifconfig t6");
    assert!(shown.contains("\ttunnel inet6 ") && shown.contains("\tgrekey: 4294967295\n"), "{shown}");
}

harness::tests![a_dissector_finds_each_family_in_each_tunnel_and_no_fault];
