//! Waiting until the addresses of a stack can be used.

use core::net::IpAddr;
use core::time::Duration;
use std::io;

use pantala::api::AddressState;
use pantala::net::netisr::Netisr;
use pantala::{Interface, NotReady, Stack, mem};

use crate::stack::caller::{CLIENT, PATIENCE, SERVER, is_heard, pair};

/// Too short for what does not come.
const SOON: Duration = Duration::from_millis(30);

fn a_stack_is_ready_when_its_addresses_can_be_used_on_every_cpu() {
    let [server, client] = pair([2, 3]);
    server.wait_ready(PATIENCE).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(client.ready()).unwrap();
    for cpu in 0..3 {
        let own = CLIENT.map(|addr| addr.parse::<IpAddr>().unwrap());
        let usable = move |netisr: &mut Netisr| {
            own.map(|addr| netisr.cpu.addrs.usable(1, addr) && netisr.cpu.tables.is_ours(addr))
        };
        assert_eq!(client.call(cpu, usable).unwrap(), [true; 2], "CPU {cpu}");
    }
    assert!(is_heard(&client, 0, SERVER[1], 1000));
}

fn a_stack_is_not_ready_before_its_link_is_up_and_says_so() {
    let [one, other] = mem::wire(1).unwrap();
    let start = |end, address: &str| {
        let lan = Interface::mem(end).name("lan").address(address);
        Stack::builder().threads(1).interface(lan).start().unwrap()
    };
    let first = start(one, "192.0.2.1/24");
    let why = first.wait_ready(SOON).unwrap_err();
    assert_eq!(why, NotReady::TimedOut("interface lan has no link".to_owned()));
    assert_eq!(io::Error::from(why).kind(), io::ErrorKind::TimedOut);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| first.wait_ready(PATIENCE));
        let second = start(other, "192.0.2.2/24");
        second.wait_ready(PATIENCE).unwrap();
        waits.join().unwrap().unwrap();
    });
}

fn waiting_for_addresses_names_the_duplicate() {
    let [one, other] = mem::wire(2).unwrap();
    let first = Interface::mem(one).name("lan").address("2001:db8::1/64");
    let first = Stack::builder().threads(2).interface(first).start().unwrap();
    let state =
        || first.admin().interfaces().unwrap()[0].addresses.iter().map(|own| own.state).collect::<Vec<_>>();
    // It has asked for its own, and keeps it.
    while state().iter().any(|state| *state != AddressState::Preferred) {
        std::thread::yield_now();
    }
    // With autoconf no address is used before the link was asked for it.
    let second = Interface::mem(other).name("wan").address("2001:db8::1/64").autoconf();
    let second = Stack::builder().threads(2).interface(second).start().unwrap();
    let why = second.wait_ready(PATIENCE).unwrap_err();
    let NotReady::Duplicate { interface, address, rival } = &why else { panic!("{why}") };
    assert_eq!((interface.as_str(), address.to_string().as_str()), ("wan", "2001:db8::1"));
    assert_eq!(*rival, first.admin().interfaces().unwrap()[0].mac);
    let text = why.to_string();
    assert!(
        text.starts_with("address not available: 2001:db8::1 of interface wan is a duplicate of "),
        "{text}"
    );
    assert_eq!(io::Error::from(why).kind(), io::ErrorKind::AddrNotAvailable);
    first.wait_ready(PATIENCE).unwrap();
}

fn an_interface_that_configures_itself_waits_for_a_router() {
    let [one, other] = mem::wire(1).unwrap();
    let plain = Stack::builder().threads(1).interface(Interface::mem(one)).start().unwrap();
    let host = Interface::mem(other).name("wan").autoconf();
    let host = Stack::builder().threads(1).interface(host).start().unwrap();
    plain.wait_ready(PATIENCE).unwrap();
    // First its link-local address is tentative; then no router is there.
    let waits = core::iter::repeat_with(|| host.wait_ready(SOON).unwrap_err().to_string());
    let said: Vec<String> = waits.take_while(|said| said.contains("tentative")).collect();
    assert!(
        said.iter()
            .all(|said| said.ends_with("of interface wan is tentative: duplicate address detection runs"))
    );
    let why = host.wait_ready(SOON).unwrap_err();
    assert_eq!(why.to_string(), "timed out: interface wan has no address from a router advertisement");
}

fn waiting_for_a_stack_that_ends_fails() {
    let [one, _other] = mem::wire(1).unwrap();
    let stack = Stack::builder().threads(1).interface(Interface::mem(one)).start().unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| stack.wait_ready(PATIENCE));
        let panics = |_: &mut _| std::panic::resume_unwind(Box::new("as the test wants"));
        assert!(stack.call::<()>(0, panics).is_err());
        assert!(matches!(waits.join().unwrap(), Err(NotReady::Ended(_))));
    });
}

harness::tests![
    a_stack_is_ready_when_its_addresses_can_be_used_on_every_cpu,
    a_stack_is_not_ready_before_its_link_is_up_and_says_so,
    waiting_for_addresses_names_the_duplicate,
    an_interface_that_configures_itself_waits_for_a_router,
    waiting_for_a_stack_that_ends_fails,
];
