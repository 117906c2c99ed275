//! What each thread may still do once it runs.

use dev::sys::caps::{self, CapabilitySet};

use super::log;

/// A netisr touches bytes from outside, and needs nothing for it: its descriptors are open.
pub(crate) fn drop_all() {
    keep_at_most(CapabilitySet::empty());
}

/// The control thread opens devices when the configuration is read again, and puts interfaces back at the end.
/// AF_XDP locks the packet buffers in memory each time its first device is opened.
pub(crate) fn drop_for_control() {
    let network = CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
    keep_at_most(network | CapabilitySet::BPF | CapabilitySet::IPC_LOCK);
}

/// That privileges cannot be given up is a reason to say so, not to stop working.
fn keep_at_most(wanted: CapabilitySet) {
    // Miri has no kernel that could be asked.
    if cfg!(miri) {
        return;
    }
    let dropped = caps::effective().map(|held| caps::drop_all_but(held & wanted));
    match dropped {
        Ok(Ok(())) => {}
        Ok(Err(why)) => log::warning(&why.to_string()),
        Err(why) => log::warning(&format!("cannot drop privileges: {why}")),
    }
}
