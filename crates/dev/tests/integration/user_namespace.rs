//! Without root: a user namespace gives a network of one's own.
//!
//! In a process with one thread, because the kernel refuses the step to any other.
use dev::netlink::{Rtnetlink, Veth};
use dev::netns::{Netns, NetnsError, enter_user_namespace};
use dev::sys::tun::{Tap, TunError};

harness::tests![; alone: a_user_namespace_gives_a_network_of_ones_own];

fn a_user_namespace_gives_a_network_of_ones_own() {
    match enter_user_namespace() {
        Err(NetnsError::Permission { .. }) => return harness::skip("user namespaces are forbidden here"),
        other => other.unwrap(),
    }
    let mut nl = Rtnetlink::open().unwrap();
    assert_eq!(nl.links().unwrap().len(), 1, "only lo is there");
    nl.add_veth(&Veth::new("a", "b")).unwrap();
    let there = Netns::anonymous().unwrap();
    nl.move_to("b", &there).unwrap();
    assert_eq!(there.netlink().unwrap().link("b").unwrap().kind.as_deref(), Some("veth"));
    match Tap::open("t0", 2) {
        Err(TunError::NodeForbidden) => harness::skip("may not open /dev/net/tun"),
        tap => assert_eq!(tap.unwrap().queues.len(), 2),
    }
    assert!(Netns::create("pt-forbidden").is_err(), "names are for root outside");
}
