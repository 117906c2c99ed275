//! Without root: a user namespace gives a network of one's own.
//!
//! A program with one thread, because the kernel refuses the step to any other; so without the test harness.

use core::error::Error;
use std::io::Write;

use dev::netlink::{Rtnetlink, Veth};
use dev::netns::{Netns, NetnsError, enter_user_namespace};
use dev::sys::tun::{Tap, TunError};

fn main() -> Result<(), Box<dyn Error>> {
    match enter_user_namespace() {
        Err(NetnsError::Permission { .. }) => {
            writeln!(std::io::stderr(), "SKIPPED: user namespaces are forbidden here")?;
            return Ok(());
        }
        other => other?,
    }
    let mut nl = Rtnetlink::open()?;
    assert_eq!(nl.links()?.len(), 1, "only lo is there");
    nl.add_veth(&Veth::new("a", "b"))?;
    let there = Netns::anonymous()?;
    nl.move_to("b", &there)?;
    assert_eq!(there.netlink()?.link("b")?.kind.as_deref(), Some("veth"));
    match Tap::open("t0", 2) {
        Err(TunError::NodeForbidden) => writeln!(std::io::stderr(), "SKIPPED: may not open /dev/net/tun")?,
        tap => assert_eq!(tap?.queues.len(), 2),
    }
    assert!(Netns::create("pt-forbidden").is_err(), "names are for root outside");
    writeln!(std::io::stdout(), "test a_user_namespace_gives_a_network_of_ones_own ... ok")?;
    Ok(())
}
