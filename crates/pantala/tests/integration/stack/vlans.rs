//! VLANs between two stacks, on a wire in memory.

use dev::sys::libpcap;
use pantala::api::InterfaceChange;
use pantala::{Builder, Interface, Stack, mem};

use crate::stack::caller::{PATIENCE, echo, is_heard};
use crate::stack::captures::{Dump, Folder, packets};

/// The trunk without addresses, two VLANs, and one behind two tags.
fn stack(end: mem::End, host: u8) -> Stack {
    start(builder(end, host))
}

fn start(builder: Builder) -> Stack {
    let stack = builder.start().unwrap();
    stack.begin_on_all(echo).unwrap();
    stack
}

fn builder(end: mem::End, host: u8) -> Builder {
    let over = |name: &str, device: &str, net: u8| {
        let (v4, v6) = (format!("192.0.{net}.{host}/24"), format!("2001:db8:{net}::{host}/64"));
        Interface::new(device).name(name).address(v4).address(v6)
    };
    Stack::builder()
        .threads(2)
        .interface(Interface::mem(end).name("lan"))
        .interface(over("vlan10", "vlan:lan,10", 2))
        .interface(over("vlan20", "vlan:lan,20", 4))
        .interface(Interface::new("qinq:lan,100").name("outer"))
        .interface(over("inner", "vlan:outer,10", 3))
}

fn pair() -> [Stack; 2] {
    let [one, other] = mem::wire(2).unwrap();
    let pair = [stack(one, 1), stack(other, 2)];
    for stack in &pair {
        stack.wait_ready(PATIENCE).unwrap();
    }
    pair
}

/// Addresses on `vlan10`, on the VLAN behind two tags, and on `vlan20`.
const SERVERS: [&str; 6] =
    ["192.0.2.1", "2001:db8:2::1", "192.0.3.1", "2001:db8:3::1", "192.0.4.1", "2001:db8:4::1"];

fn connections_go_over_vlans_and_stacked_ones() {
    let [server, client] = pair();
    for (cpu, addr) in [0, 1].into_iter().cycle().zip(SERVERS) {
        assert!(is_heard(&client, cpu, addr, 200_000), "{addr}");
    }
    let counted = |name: &str| {
        let all = server.admin().interfaces().unwrap();
        all.into_iter().find(|shown| shown.name == name).unwrap().counters
    };
    assert!(counted("vlan10").rx_bytes > 400_000 && counted("inner").tx_bytes > 400_000);
    assert!(counted("outer").rx_packets >= counted("inner").rx_packets);
}

fn a_vlan_is_as_up_as_its_trunk() {
    let [server, client] = pair();
    let set = |name: &str, up| {
        server
            .admin()
            .change_interface(name, &InterfaceChange { up: Some(up), ..InterfaceChange::default() })
            .unwrap();
    };
    for (below, addr) in [("lan", SERVERS[0]), ("lan", SERVERS[3]), ("outer", SERVERS[2])] {
        assert!(is_heard(&client, 0, addr, 1000), "{addr}");
        set(below, false);
        let to = server.admin().route_to(0, addr.parse().unwrap());
        assert!(to.is_err(), "{addr}: {to:?}");
        set(below, true);
        server.wait_ready(PATIENCE).unwrap();
    }
}

/// VLANs, and the third byte of their IPv4 addresses.
const NETS: [(&str, u8); 2] = [("vlan10", 2), ("inner", 3)];

/// The third byte of the source of a packet of IPv4 without tags.
fn net(frame: &[u8]) -> Option<u8> {
    (frame[12..14] == [8, 0]).then(|| frame[28])
}

/// The tags of a frame.
fn tags(frame: &[u8]) -> Vec<u16> {
    let tags = frame[12..].chunks(4).take_while(|tag| matches!(tag[..2], [0x81, 0] | [0x88, 0xa8]));
    tags.map(|tag| u16::from_be_bytes([tag[2], tag[3]]) & 0xfff).collect()
}

fn a_vlan_is_captured_by_its_name_without_its_tags() {
    if libpcap::compile("ip", 96).is_err() {
        return harness::skip("needs libpcap");
    }
    let folder = Folder::new("vlan");
    let [one, other] = mem::wire(2).unwrap();
    let server = start(builder(one, 1).admin(folder.file("socket")));
    let client = stack(other, 2);
    for stack in [&server, &client] {
        stack.wait_ready(PATIENCE).unwrap();
    }
    // Interfaces, and the tags that frames have on each.
    let cases: [(&str, &str, &[&[u16]]); 6] = [
        ("vlan10", "", &[&[]]),
        ("vlan10", "tcp port 7 or icmp", &[&[]]),
        ("inner", "", &[&[]]),
        ("outer", "", &[&[10]]),
        ("vlan10,inner", "tcp", &[&[], &[]]),
        ("lan,inner", "tcp or vlan 100", &[&[100, 10], &[]]),
    ];
    for (names, filter, expected) in cases {
        let file = folder.file(&format!("{names}-{}.pcapng", filter.len()));
        let (socket, path) = (folder.file("socket"), file.display().to_string());
        let dump = Dump::start(&socket, &["-ni", names, "-c", "40", "-w", &path, filter]);
        for addr in [SERVERS; 4].into_iter().flatten() {
            assert!(is_heard(&client, 0, addr, 2000), "{addr}");
        }
        let said = dump.ended();
        assert!(said.is_ok, "{names} {filter}: {}", said.err);
        let shown = packets(&std::fs::read(&file).unwrap());
        assert_eq!(shown.len(), 40);
        assert!(shown.iter().all(|(on, ..)| (*on as usize) < expected.len()), "{names} {filter}");
        for (at, expected) in (0..).zip(expected) {
            let mut here = shown.iter().filter(|(on, ..)| *on == at).peekable();
            assert!(here.peek().is_some(), "{names} {filter}: nothing on interface {at}");
            assert!(here.all(|(.., frame)| tags(frame) == *expected), "{names} {filter}: {shown:?}");
            let of_it =
                names.split(',').nth(at as usize).and_then(|name| NETS.iter().find(|(own, _)| *own == name));
            let here = shown.iter().filter(|(on, ..)| *on == at).filter_map(|(.., frame)| net(frame));
            if let Some((name, own)) = of_it {
                assert!(
                    here.clone().count() > 0 && here.clone().all(|net| net == *own),
                    "{name}: {:?}",
                    here.collect::<Vec<_>>()
                );
            }
        }
    }
}

harness::tests![
    connections_go_over_vlans_and_stacked_ones,
    a_vlan_is_as_up_as_its_trunk,
    a_vlan_is_captured_by_its_name_without_its_tags
];
