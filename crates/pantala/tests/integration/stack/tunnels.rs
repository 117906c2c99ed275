//! Tunnels between two stacks, on a wire in memory.

use core::net::IpAddr;
use std::process::Command;

use pantala::api::CaptureRequest;
use pantala::{Interface, Stack, mem};
use wire::pcap::{Block, Blocks, Direction, ETHERNET, RAW};

use crate::stack::caller::{PATIENCE, echo, is_heard};
use crate::stack::captures::Folder;

/// A tunnel over each family, one through the first one, and GRE over each family.
fn stack(end: mem::End, host: u8, other: u8) -> Stack {
    let over = |name: &str, device: String, net: u8| {
        let (v4, v6) = (format!("192.0.{net}.{host}/24"), format!("2001:db8:{net}::{host}/64"));
        Interface::new(device).name(name).address(v4).address(v6)
    };
    let lan = Interface::mem(end).name("lan");
    let lan = lan.address(format!("192.0.1.{host}/24")).address(format!("2001:db8:1::{host}/64"));
    let stack = Stack::builder()
        .threads(2)
        .interface(lan)
        .interface(Interface::new("lo").name("lo1").address(format!("198.51.100.{host}/32")))
        .interface(over("over4", format!("gif:192.0.1.{host},192.0.1.{other}"), 2))
        .interface(over("over6", format!("gif:2001:db8:1::{host},2001:db8:1::{other}"), 3))
        .interface(over("nested", format!("gif:192.0.2.{host},192.0.2.{other}"), 4))
        .interface(over("gre4", format!("gre:192.0.1.{host},192.0.1.{other}"), 5))
        .interface(over("gre6", format!("gre:2001:db8:1::{host},2001:db8:1::{other},key=7"), 6))
        .start()
        .unwrap();
    stack.begin_on_all(echo).unwrap();
    stack
}

const SERVERS: [&str; 10] = [
    "192.0.2.1",
    "2001:db8:2::1",
    "192.0.3.1",
    "2001:db8:3::1",
    "192.0.4.1",
    "2001:db8:4::1",
    "192.0.5.1",
    "2001:db8:5::1",
    "192.0.6.1",
    "2001:db8:6::1",
];

fn connections_go_through_tunnels_and_nested_ones() {
    let [one, other] = mem::wire(2).unwrap();
    let (server, client) = (stack(one, 1, 2), stack(other, 2, 1));
    for stack in [&server, &client] {
        stack.wait_ready(PATIENCE).unwrap();
    }
    for (cpu, addr) in [0, 1].into_iter().cycle().zip(SERVERS) {
        assert!(is_heard(&client, cpu, addr, 200_000), "{addr}");
    }
    let counted = |name: &str| {
        let all = server.admin().interfaces().unwrap();
        all.into_iter().find(|shown| shown.name == name).unwrap().counters
    };
    assert!(counted("over6").rx_bytes > 400_000 && counted("nested").tx_bytes > 400_000);
    assert!(counted("over4").rx_packets > counted("nested").rx_packets);
    assert!(counted("gre4").rx_bytes > 400_000 && counted("gre6").tx_bytes > 400_000);
}

/// The packets of each interface: its link type, and direction and bytes of each.
type Captured = Vec<(String, u16, Vec<(Direction, Vec<u8>)>)>;

fn captured(pcapng: &[u8]) -> Captured {
    let mut all = Captured::new();
    for (_, block) in Blocks::new(pcapng) {
        match block {
            Block::Interface(link_type, name) => all.push((name.to_owned(), link_type, Vec::new())),
            Block::Packet(packet) => {
                let interface = &mut all[usize::try_from(packet.interface).unwrap()];
                interface.2.push((packet.direction.unwrap(), packet.bytes.to_vec()));
            }
            _ => {}
        }
    }
    all
}

/// Whether a packet is of TCP with the echo port, at its address or from it.
fn is_of_echo(packet: &[u8], server: IpAddr) -> bool {
    let (ends, octets, protocol, ports) = match server {
        IpAddr::V4(addr) => (12..20, addr.octets().to_vec(), 9, 20),
        IpAddr::V6(addr) => (8..40, addr.octets().to_vec(), 6, 40),
    };
    let has_version = packet[0] >> 4 == if server.is_ipv4() { 4 } else { 6 };
    let is_end = |end: &[u8]| end == octets;
    let is_between = packet.get(ends).is_some_and(|ends| ends.chunks(octets.len()).any(is_end));
    let has_port = packet.get(ports..ports + 4).is_some_and(|two| two[..2] == [0, 7] || two[2..] == [0, 7]);
    has_version && packet[protocol] == 6 && is_between && has_port
}

fn one_capture_has_a_wire_and_its_tunnels_each_with_its_link_type() {
    let [one, other] = mem::wire(2).unwrap();
    let (server, client) = (stack(one, 1, 2), stack(other, 2, 1));
    for stack in [&server, &client] {
        stack.wait_ready(PATIENCE).unwrap();
    }
    let names = ["lan", "over4", "over6", "nested", "gre4", "gre6"];
    let lo = CaptureRequest { interfaces: vec!["lo1".into()], ..CaptureRequest::default() };
    let refused = server.admin().begin_capture(&lo).unwrap_err();
    assert!(refused.to_string().contains("no packet comes or goes by `lo1`"), "{refused}");
    let mut files = Vec::new();
    for with_link_header in [false, true] {
        let interfaces = names.map(str::to_owned).to_vec();
        let request = CaptureRequest { interfaces, with_link_header, ..CaptureRequest::default() };
        let capture = server.admin().begin_capture(&request).unwrap();
        for (cpu, addr) in [0, 1].into_iter().cycle().zip(SERVERS) {
            assert!(is_heard(&client, cpu, addr, 1000), "{addr}");
        }
        // What the client has heard was captured before.
        let pcapng = server.admin().read_capture(capture).unwrap().pcapng;
        server.admin().end_capture(capture);
        let all = captured(&pcapng);
        let shown: Vec<_> = all.iter().map(|(name, link_type, _)| (name.as_str(), *link_type)).collect();
        let bare = if with_link_header { ETHERNET } else { RAW };
        let expected = names.map(|name| (name, if name == "lan" { ETHERNET } else { bare }));
        assert_eq!(shown, expected);
        for (at, addr) in SERVERS.into_iter().enumerate() {
            let (name, link_type, packets) = &all[1 + at / 2];
            let skip = if *link_type == ETHERNET { 14 } else { 0 };
            for direction in [Direction::In, Direction::Out] {
                let is_it = |(seen, bytes): &&(Direction, Vec<u8>)| {
                    *seen == direction && is_of_echo(&bytes[skip..], addr.parse().unwrap())
                };
                let count = packets.iter().filter(is_it).count();
                assert!(count >= 2, "{name}, {direction:?}: {count} of {}", packets.len());
                assert!(packets.iter().all(|(_, bytes)| bytes[..skip.min(12)] == [0; 12][..skip.min(12)]));
            }
        }
        files.push(pcapng);
    }
    // tshark reads both, tcpdump the one with one link type.
    let folder = Folder::new("tunnels");
    for (at, (reader, flags)) in [("tshark", ["-r"]), ("tcpdump", ["-nr"])].into_iter().enumerate() {
        let file = folder.file(reader);
        std::fs::write(&file, &files[at]).unwrap();
        let Ok(said) = Command::new(reader).args(flags).arg(&file).output() else {
            return harness::skip(format!("needs {reader}"));
        };
        let lines = String::from_utf8_lossy(&said.stdout);
        assert!(said.status.success(), "{reader}: {}", String::from_utf8_lossy(&said.stderr));
        assert!(SERVERS.iter().all(|addr| lines.contains(addr)), "{reader}: {lines}");
        assert!(!lines.to_lowercase().contains("malformed"), "{reader}: {lines}");
    }
}

harness::tests![
    connections_go_through_tunnels_and_nested_ones,
    one_capture_has_a_wire_and_its_tunnels_each_with_its_link_type,
];
