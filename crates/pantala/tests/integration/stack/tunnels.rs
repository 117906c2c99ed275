//! Tunnels between two stacks, on a wire in memory.

use pantala::{Interface, Stack, mem};

use crate::stack::caller::{PATIENCE, echo, is_heard};

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

harness::tests![connections_go_through_tunnels_and_nested_ones];
