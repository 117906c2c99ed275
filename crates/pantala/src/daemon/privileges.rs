//! Rights of each thread once it runs.
//!
//! | thread | user | capabilities | system calls |
//! |---|---|---|---|
//! | control | `user` | those of [`CONTROL`] | all |
//! | netisr | `user` | none | [`Role::Netisr`] |
//! | library (files) | `user` | none | [`Role::Reader`] |
//! | memif, sockets | `user` | none | all |
//!
//! `user` is what `pantala up` becomes before it starts a thread ([`leave_root`]); in a program that embeds a stack it is the
//! program's own. All have `no_new_privs`, and no supplementary group.

use std::fs::File;
use std::path::Path;

use dev::sys::caps::{self, CapabilitySet};
pub(crate) use dev::sys::seccomp::Role;
use dev::sys::seccomp::{self, Otherwise};
use dev::sys::user::{self, User};

use super::log;
use crate::StackError;
use crate::api::server::Access;
use crate::config::{Config, Seccomp};

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

/// The user of its own that a system may have for pantala.
const OWN: &str = "pantala";
/// The one for programs without, and its number where no file names it.
const SHARED: (&str, u32) = ("nobody", 65_534);

/// A netisr, or another thread that touches bytes from outside, needs nothing for it: its descriptors are open.
pub(crate) fn drop_all() {
    keep_at_most(CapabilitySet::empty());
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
        log::warning(&format!("a thread may make any system call: {why}"));
    }
}

/// The control thread goes on with what it needs.
pub(crate) fn drop_for_control() {
    keep_at_most(CONTROL);
}

/// The user to become: `None` if this process is to stay what it is.
///
/// # Errors
/// The configuration names one that is not there, or that this process may not become.
pub(crate) fn identity(config: &Config) -> Result<Option<User>, StackError> {
    let misfit = |text: String| Err(StackError::Misfit(text));
    let (uid, _) = user::current();
    if uid != 0 {
        return match &config.user {
            Some(name) if named(name)?.is_none_or(|user| user.uid != uid) => misfit(format!(
                "user = \"{name}\": only root can become another user; start as root, or leave it out"
            )),
            _ => Ok(None),
        };
    }
    let found = match &config.user {
        Some(name) => match named(name)? {
            Some(user) => user,
            None => {
                return misfit(format!(
                    "user = \"{name}\": no such user; `useradd --system {name}` makes it"
                ));
            }
        },
        None => usual()?,
    };
    let gid = match &config.group {
        Some(name) => group(name)?,
        None => found.gid,
    };
    Ok(Some(User { gid, ..found }).filter(|user| user.uid != 0))
}

/// Becomes another user, before any thread is started. Capabilities are kept until devices are open.
///
/// # Errors
/// The configuration asks for it, and the kernel refuses.
pub(crate) fn leave_root(identity: Option<&User>, config: &Config) -> Result<(), StackError> {
    let Some(User { name, uid, gid }) = identity else { return Ok(()) };
    match user::become_user(*uid, *gid) {
        Ok(()) => log::debug(&format!("goes on as user {name} ({uid}), group {gid}")),
        Err(why) if config.user.is_some() => {
            return Err(StackError::Misfit(format!("cannot become user {name}: {why}")));
        }
        // The root of a user namespace that has no other user is an ordinary user outside of it.
        Err(why) => log::info(&format!("stays user 0, which has no {name} beside it here: {why}")),
    }
    Ok(())
}

/// Says what this user will not be able to do later.
pub(crate) fn warn_of_what_is_out_of_reach(identity: Option<&User>, file: Option<&Path>) {
    let (Some(user), Some(file)) = (identity, file) else { return };
    if let Err(why) = File::open(file) {
        let (file, name) = (file.display(), &user.name);
        log::warning(&format!(
            "{file}: {why} for user {name}, so it cannot be read again by `pantala reload`"
        ));
    }
}

/// Sets the owner of a control socket: its folder, if it is made, belongs to the user that removes the socket at the end, unless
/// other programs run as that user, too.
pub(crate) fn access(mode: u32, named: Option<&str>, identity: Option<&User>) -> Result<Access, StackError> {
    let group = named.map(group).transpose()?;
    let folder_of = identity.map(|user| user.uid).filter(|uid| *uid != SHARED.1);
    Ok(Access { mode, group, folder_of })
}

/// Returns `pantala`, if there is such a user, else `nobody`.
fn usual() -> Result<User, StackError> {
    for name in [OWN, SHARED.0] {
        if let Some(user) = named(name)? {
            return Ok(user);
        }
    }
    let (name, number) = SHARED;
    Ok(User { name: name.to_owned(), uid: number, gid: number })
}

/// A user by name or number.
fn named(name: &str) -> Result<Option<User>, StackError> {
    if let Ok(uid) = name.parse() {
        return Ok(Some(User { name: name.to_owned(), uid, gid: uid }));
    }
    user::user(name).map_err(|why| StackError::System { doing: "look for a user", why })
}

/// A group by name or number.
fn group(name: &str) -> Result<u32, StackError> {
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
