//! Helpers of the tests that need a kernel.

#![expect(unreachable_pub, reason = "a module of a test binary")]

use core::sync::atomic::{AtomicU32, Ordering};

use dev::netlink::{Rtnetlink, Veth};
use dev::netns::ScopedNetns;
use dev::sys::caps::{CapabilitySet, effective};

pub mod cable;
pub mod port;

/// Whether this process may make namespaces and load programs. If not, the running test is skipped.
pub fn is_root() -> bool {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
    if effective().is_ok_and(|c| c.contains(needed)) {
        return true;
    }
    harness::skip("needs root");
    false
}

/// A namespace of its own for the test, deleted when dropped (also by a panic), its IPv6 silent so that no
/// router solicitations mix with the frames of the test.
pub fn netns(test: &str) -> ScopedNetns {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let name = format!("pt-{test}-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    let ns = ScopedNetns::create(&name).unwrap();
    ns.run(|| {
        for scope in ["all", "default"] {
            // A kernel without IPv6 has nothing to be silenced.
            let _ = dev::sys::sysctl::set(&format!("ipv6.conf.{scope}.disable_ipv6"), 1);
        }
    })
    .unwrap();
    ns
}

/// Makes a veth pair in the current namespace, both ends up; answers their indices.
pub fn veth_up(veth: &Veth<'_>) -> [u32; 2] {
    let mut nl = Rtnetlink::open().unwrap();
    nl.add_veth(veth).unwrap();
    veth.ends.map(|end| {
        nl.set_up(end.name, true).unwrap();
        nl.link(end.name).unwrap().index
    })
}
