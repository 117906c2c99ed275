//! Rights of each thread once it runs.
//!
//! | thread | user | capabilities | system calls |
//! |---|---|---|---|
//! | control | `user` | those of [`CONTROL`] | all |
//! | netisr | `user` | none | [`Role::Netisr`] |
//! | library (files) | `user` | none | [`Role::Reader`] |
//! | memif | `user` | none; of root's, in a program that stays root, `DAC_OVERRIDE` while it connects | all |
//! | sockets, programs | `user` | none | all |
//!
//! `user` is what `pantala up` becomes before it starts a thread (`identity`); in a program that embeds a stack it is the
//! program's own. All have `no_new_privs`, and no supplementary group.

use dev::sys::caps::{self, CapabilitySet};
pub(crate) use dev::sys::seccomp::Role;
use dev::sys::seccomp::{self, Otherwise};
use dev::sys::user;

use super::log;
use crate::StackError;
use crate::config::Seccomp;

/// Capabilities of the control thread, to open devices again that come back or that a new configuration names, and to put
/// interfaces back as they were:
///
/// - `NET_ADMIN`: sets interfaces up, their MTU, queues and receive hash; makes TAPs; attaches XDP programs.
/// - `NET_RAW`: opens AF_XDP sockets.
/// - `BPF`: loads the programs that redirect and steer, and makes the map of sockets.
/// - `IPC_LOCK`: AF_XDP locks the packet buffers in memory each time its first device is opened.
const CONTROL: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::IPC_LOCK);

/// A netisr, or another thread that touches bytes from outside, needs nothing for it: its descriptors are open.
pub(crate) fn drop_all() {
    keep_at_most(CapabilitySet::empty());
}

/// memif's thread connects to sockets with the rights of its program. For one that is root these are a capability, which is
/// in force only while it connects.
pub(crate) fn drop_all_but_to_connect() {
    if cfg!(miri) {
        return;
    }
    let is_root = user::current().0 == 0;
    keep_at_most(if is_root { CapabilitySet::DAC_OVERRIDE } else { CapabilitySet::empty() });
    if let Err(why) = caps::put_aside() {
        log::warning(&format!("cannot lower capabilities: {why}"));
    }
}

/// Drops all rights, and confines the thread to the system calls that its code is known to make.
pub(crate) fn drop_all_and_confine(role: Role, seccomp: Seccomp) {
    drop_all();
    let otherwise = match seccomp {
        Seccomp::Off => return,
        Seccomp::Refuse => Otherwise::Refuse,
        Seccomp::Kill => Otherwise::Kill,
        Seccomp::Log => Otherwise::Log,
    };
    if cfg!(miri) {
        return;
    }
    if let Err(why) = seccomp::confine(role, otherwise) {
        log::warning(&format!("no seccomp filter for a thread: {why}"));
    }
}

/// The control thread goes on with what it needs.
pub(crate) fn drop_for_control() {
    keep_at_most(CONTROL);
}

/// Returns the number of a group that was given by name or number.
///
/// # Errors
/// There is no such group, or the system cannot say.
pub(crate) fn group(name: &str) -> Result<u32, StackError> {
    if let Ok(gid) = name.parse() {
        return Ok(gid);
    }
    let found = user::group(name).map_err(|why| StackError::System { doing: "look for a group", why })?;
    found.ok_or_else(|| StackError::Misfit(format!("no group {name}; `groupadd --system {name}` makes it")))
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
