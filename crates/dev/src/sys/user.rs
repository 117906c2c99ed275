//! Unsafe: calls `getpwnam_r(3)` and `getgrnam_r(3)`, which fill memory of ours.
//!
//! Users and groups by their names, and becoming one.
#![expect(unsafe_code, reason = "libc's functions write through pointers")]

use core::mem::MaybeUninit;
use std::ffi::CString;
use std::io;

use rustix::process::{getegid, geteuid, parent_process_death_signal, set_parent_process_death_signal};
use rustix::thread as task;
use rustix::thread::{CapabilitySets, Gid, Uid};

/// Bytes of an entry; those of groups with many members are longer than this, and asked for again with more.
const ENTRY: usize = 1024;
const ENTRY_MAX: usize = 1 << 20;

/// A user, and its first group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Its name; its number if it has none.
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
}

/// Finds a user by name; `None` if there is none.
///
/// # Errors
/// The error of a failed lookup.
pub fn user(name: &str) -> io::Result<Option<User>> {
    let wanted = CString::new(name)?;
    look_up(|entry: *mut libc::passwd, buffer, found| {
        // SAFETY: the name ends with a NUL, the entry and the buffer are writable for the lengths given, and `found` is a
        // place for a pointer.
        unsafe { libc::getpwnam_r(wanted.as_ptr(), entry, buffer.as_mut_ptr(), buffer.len(), found) }
    })
    .map(|entry| entry.map(|entry| User { name: name.to_owned(), uid: entry.pw_uid, gid: entry.pw_gid }))
}

/// Finds the number of a group by its name; `None` if there is none.
///
/// # Errors
/// The error of a failed lookup.
pub fn group(name: &str) -> io::Result<Option<u32>> {
    let wanted = CString::new(name)?;
    look_up(|entry: *mut libc::group, buffer, found| {
        // SAFETY: as in `user`.
        unsafe { libc::getgrnam_r(wanted.as_ptr(), entry, buffer.as_mut_ptr(), buffer.len(), found) }
    })
    .map(|entry| entry.map(|entry| entry.gr_gid))
}

/// Becomes another user with one group and no others, and keeps all capabilities, to be given up when they are not needed
/// any more ([`super::caps::drop_all_but`]).
///
/// Acts on the calling thread and on those it starts afterwards: call it before any thread is started.
///
/// # Errors
/// `EPERM` without the right to; `EINVAL` if the user namespace has no such user. Nothing has changed then.
pub fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    let held = task::capabilities(None)?;
    let (before, death) = ((geteuid(), getegid()), parent_process_death_signal()?);
    task::set_keep_capabilities(true)?;
    let changed = task::set_thread_res_gid(gid, gid, gid)
        .and_then(|()| task::set_thread_groups(&[]))
        .and_then(|()| task::set_thread_res_uid(uid, uid, uid));
    if let Err(why) = changed {
        // As it was, as far as the kernel allows: the caller may go on without it.
        let _ = task::set_thread_res_gid(before.1, before.1, before.1);
        let _ = task::set_keep_capabilities(false);
        return Err(why.into());
    }
    task::set_keep_capabilities(false)?;
    // The kernel has put them out of force, and forgotten the signal, with the change of the user.
    task::set_capabilities(None, CapabilitySets { effective: held.effective, ..held })?;
    Ok(set_parent_process_death_signal(death)?)
}

/// The user and the group that the calling thread acts as.
#[must_use]
pub fn current() -> (u32, u32) {
    (geteuid().as_raw(), getegid().as_raw())
}

/// Calls a function of libc that fills an entry whose strings are in a buffer, with a larger buffer as long as it asks for
/// one.
fn look_up<T>(
    mut ask: impl FnMut(*mut T, &mut [libc::c_char], *mut *mut T) -> libc::c_int,
) -> io::Result<Option<T>> {
    let mut len = ENTRY;
    loop {
        let (mut entry, mut buffer, mut found) =
            (MaybeUninit::<T>::uninit(), vec![0; len], core::ptr::null_mut());
        match ask(entry.as_mut_ptr(), &mut buffer, &raw mut found) {
            libc::ERANGE if len < ENTRY_MAX => len *= 4,
            0 if found.is_null() => return Ok(None),
            // Only its numbers are read: its strings end with the buffer.
            // SAFETY: libc has filled the entry, as it says by pointing at it.
            0 => return Ok(Some(unsafe { entry.assume_init() })),
            // As some systems say that there is none (getpwnam(3)).
            libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::caps::{CapabilitySet, effective};
    use super::*;

    #[test]
    fn users_and_groups_are_found_by_name_and_missed_without_an_error() {
        assert_eq!(user("root").unwrap(), Some(User { name: "root".to_owned(), uid: 0, gid: 0 }));
        assert_eq!(group("root").unwrap(), Some(0));
        assert_eq!((user("pt-no-such").unwrap(), group("pt-no-such").unwrap()), (None, None));
        assert!(user("a\0b").is_err());
    }

    #[test]
    fn another_user_has_its_group_alone_and_the_capabilities_it_had() {
        let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
        if !effective().unwrap().contains(needed) {
            use std::io::Write;
            let _ = writeln!(io::stderr(), "SKIPPED: another_user_has_its_group_alone: needs root");
            return;
        }
        // Credentials are of a thread, to the kernel.
        std::thread::spawn(|| {
            let before = effective().unwrap();
            become_user(65_534, 65_533).unwrap();
            assert_eq!((current(), effective().unwrap()), ((65_534, 65_533), before));
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            assert!(status.contains("Groups:\t \n") || status.contains("Groups:\t\n"), "{status}");
            assert!(status.contains("Uid:\t65534\t65534\t65534\t65534\n"), "{status}");
        })
        .join()
        .unwrap();
        assert_eq!(geteuid().as_raw(), 0, "the others are as they were");
    }
}
