//! Devices whose other end is the kernel of this machine, in a network of the test's own.

use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Instant;

use dev::netlink::{Link, LinkFlags, Rtnetlink, Veth};
use dev::netns::Netns;
use dev::sys::caps::{CapabilitySet, effective};
use dev::sys::xsk::XskSocket;
use pantala::{Interface, Stack};

use super::again_and_again;
use crate::stack::caller::echo;

/// Our end of a veth, and the kernel's.
const VETH: [&str; 2] = ["pt-dev", "pt-peer"];
/// A TAP, which is both.
const TAP: &str = "pt-tap";
/// The longest that the kernel takes to see the carrier of a veth.
const CARRIER_MAX: Duration = Duration::from_secs(20);

/// Whether there can be a network of our own. If not, the running test is skipped.
fn is_root() -> bool {
    let held =
        effective().is_ok_and(|held| held.contains(CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN));
    held || skipped("needs root")
}

fn skipped(why: &str) -> bool {
    harness::skip(why);
    false
}

/// A stack on a device, whose echo the kernel hears on the interface `host`, and goes on to hear when it stops.
fn is_heard_by_the_kernel(device: Interface, host: &str, netlink: &mut Rtnetlink) {
    let device = device.address("10.71.3.1/24");
    let stack = Stack::builder().threads(2).interface(device.rings(1)).start().unwrap();
    stack.begin_on_all(echo).unwrap();
    // What stays from one stack to the next has its address already.
    let _ = netlink.add_address(host, "10.71.3.2/24".parse().unwrap());
    let mut kernel = TcpStream::connect("10.71.3.1:7").unwrap();
    let said: Vec<u8> = (0..251).cycle().take(20_000).collect();
    kernel.write_all(&said).unwrap();
    let mut heard = vec![0; said.len()];
    kernel.read_exact(&mut heard).unwrap();
    assert!(heard == said);
    kernel.write_all(&said).unwrap();
    stack.stop().unwrap();
}

/// An interface that is up, once the kernel has seen its carrier: linkwatch sets `IFF_RUNNING` later.
fn running(netlink: &mut Rtnetlink, name: &str) -> Link {
    let started = Instant::now();
    loop {
        let link = netlink.link(name).unwrap();
        if link.flags.contains(LinkFlags::RUNNING) {
            return link;
        }
        assert!(started.elapsed() < CARRIER_MAX, "no carrier: {link:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn a_stack_on_a_tap_leaves_no_interface() {
    if !is_root() {
        return;
    }
    again_and_again(|_| {
        let network = Netns::anonymous().unwrap();
        let test = || {
            let mut netlink = Rtnetlink::open().unwrap();
            is_heard_by_the_kernel(Interface::tap(TAP), TAP, &mut netlink);
            let links = netlink.links().unwrap();
            assert!(links.iter().all(|link| link.name != TAP), "{links:?}");
        };
        network.run(test).unwrap();
    });
}

fn a_stack_on_af_xdp_leaves_no_program_and_the_interface_as_it_was() {
    if !is_root() {
        return;
    }
    if let Err(why) = XskSocket::new() {
        skipped(&format!("no AF_XDP: {why}"));
        return;
    }
    let network = Netns::anonymous().unwrap();
    let test = || {
        let mut netlink = Rtnetlink::open().unwrap();
        netlink.add_veth(&Veth::new(VETH[0], VETH[1])).unwrap();
        VETH.into_iter().for_each(|end| netlink.set_up(end, true).unwrap());
        let before = running(&mut netlink, VETH[0]);
        assert_eq!(before.xdp, None);
        again_and_again(|_| {
            is_heard_by_the_kernel(Interface::af_xdp(VETH[0]), VETH[1], &mut netlink);
            assert_eq!(running(&mut netlink, VETH[0]), before);
        });
    };
    network.run(test).unwrap();
}

harness::tests![; alone:
    a_stack_on_a_tap_leaves_no_interface,
    a_stack_on_af_xdp_leaves_no_program_and_the_interface_as_it_was,
];
