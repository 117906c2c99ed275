//! The kernel's own forwarding.

use anyhow::Result;

use super::Router;
use crate::veth::lab::{IN, Lab, OUT};
use crate::veth::thread::Thread;

/// Follows connections, and lets new ones pass.
pub(super) const STATEFUL: &str = "chain forward { type filter hook forward priority 0; policy drop; \
     ct state established,related accept; ct state new accept; }";
/// Gives what leaves the router's address.
pub(super) const MASQUERADE: &str =
    "chain post { type nat hook postrouting priority 100; oifname \"pt-r1\" masquerade; }";
const _: () = assert!(OUT.len() == "pt-r1".len());

/// It forwards as long as the lab is there.
pub(super) struct Kernel;

impl Kernel {
    pub(super) fn start(lab: &Lab, rules: Option<&str>) -> Result<Self> {
        lab.configure_kernel()?;
        if let Some(chain) = rules {
            lab.in_router("nft", &[&format!("table inet pt {{ {chain} ; }}")])?;
        }
        Ok(Self)
    }
}

impl Router for Kernel {
    /// Where it receives in a thread, that one forwards too.
    fn thread(&self) -> Option<Thread> {
        Thread::of_kernel(&format!("napi/{IN}")).ok()
    }
}
