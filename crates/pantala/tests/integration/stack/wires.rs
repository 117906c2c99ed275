//! Two stacks over a wire in memory.

use pantala::{Interface, Stack, mem};

use crate::stack::caller::{SERVER, is_heard, pair};

fn stacks_with_any_numbers_of_cpus_talk_over_a_wire_in_both_families() {
    for cpus in [[1, 1], [2, 3]] {
        let [server, client] = pair(cpus);
        for address in SERVER {
            for cpu in 0..client.cpus() {
                assert!(is_heard(&client, cpu, address, 300_000), "{cpus:?} {address} {cpu}");
            }
        }
        client.stop().unwrap();
        server.stop().unwrap();
    }
}

fn the_wire_brings_each_flow_to_the_cpu_that_owns_it() {
    let [server, client] = pair([2, 2]);
    for cpu in 0..2 {
        assert!(is_heard(&client, cpu, SERVER[0], 100_000));
    }
    let handed_over: u64 = server.admin().netisrs().unwrap().iter().map(|netisr| netisr.handoffs_in).sum();
    assert_eq!(handed_over, 0);
}

fn a_wire_is_let_go_of_when_its_stack_ends() {
    let [one, _other] = mem::wire(1).unwrap();
    let start = || Stack::builder().threads(1).interface(Interface::mem(one.clone())).start();
    let first = start().unwrap();
    let why = start().err().map(|why| why.to_string());
    assert_eq!(why.as_deref(), Some("interface mem0: this end of the wire is in use already"));
    first.stop().unwrap();
    start().unwrap().stop().unwrap();
}

harness::tests![
    stacks_with_any_numbers_of_cpus_talk_over_a_wire_in_both_families,
    the_wire_brings_each_flow_to_the_cpu_that_owns_it,
    a_wire_is_let_go_of_when_its_stack_ends
];
