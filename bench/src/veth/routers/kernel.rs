//! The kernel's own forwarding.

use anyhow::Result;

use super::{Filter, Router};
use crate::veth::lab::{IN, Lab};
use crate::veth::thread::Thread;

/// It forwards as long as the lab is there.
pub(super) struct Kernel;

impl Kernel {
    pub(super) fn start(lab: &Lab, filter: Filter) -> Result<Self> {
        lab.configure_kernel()?;
        if let Some(chain) = filter.nftables(lab.family) {
            lab.in_router("nft", &[&format!("table inet pt {{ {chain} }}")])?;
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
