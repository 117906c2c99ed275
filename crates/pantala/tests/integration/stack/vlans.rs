//! VLANs between two stacks, on a wire in memory.

use pantala::api::InterfaceChange;
use pantala::{Interface, Stack, mem};

use crate::stack::caller::{PATIENCE, echo, is_heard};

/// The trunk without addresses, a VLAN, and a VLAN behind two tags.
fn stack(end: mem::End, host: u8) -> Stack {
    let over = |name: &str, device: &str, net: u8| {
        let (v4, v6) = (format!("192.0.{net}.{host}/24"), format!("2001:db8:{net}::{host}/64"));
        Interface::new(device).name(name).address(v4).address(v6)
    };
    let stack = Stack::builder()
        .threads(2)
        .interface(Interface::mem(end).name("lan"))
        .interface(over("vlan10", "vlan:lan,10", 2))
        .interface(Interface::new("qinq:lan,100").name("outer"))
        .interface(over("inner", "vlan:outer,10", 3))
        .start()
        .unwrap();
    stack.begin_on_all(echo).unwrap();
    stack
}

fn pair() -> [Stack; 2] {
    let [one, other] = mem::wire(2).unwrap();
    let pair = [stack(one, 1), stack(other, 2)];
    for stack in &pair {
        stack.wait_ready(PATIENCE).unwrap();
    }
    pair
}

const SERVERS: [&str; 4] = ["192.0.2.1", "2001:db8:2::1", "192.0.3.1", "2001:db8:3::1"];

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
        let to = server.admin().route_to(addr.parse().unwrap());
        assert!(to.is_err(), "{addr}: {to:?}");
        set(below, true);
        server.wait_ready(PATIENCE).unwrap();
    }
}

harness::tests![connections_go_over_vlans_and_stacked_ones, a_vlan_is_as_up_as_its_trunk];
