//! Unsafe: borrows descriptors that a service manager has opened, by their numbers; a request about a socket, by its number.
//!
//! Unix sockets whose file has its mode and its group from the first moment, and those that a service manager hands over.
#![expect(
    unsafe_code,
    reason = "a descriptor that a service manager has opened is known by its number alone; an ioctl is a number"
)]

use core::ffi::c_int;
use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, lchown};
use std::path::Path;

use rustix::fs::{Mode, fchmod};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::net::sockopt::socket_acceptconn;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, getsockname, socket_with};

/// The mode and the group of a socket's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The mode. A peer needs the right to write to connect.
    pub mode: u32,
    /// The number of the group; that of the process, if `None`.
    pub group: Option<u32>,
}

impl Default for Access {
    /// For the owner alone.
    fn default() -> Self {
        Self { mode: 0o600, group: None }
    }
}

/// Makes a socket that is bound to `path`, where nothing may be. It does not listen yet.
///
/// The file has its mode from the beginning, less the umask: the kernel takes it from the socket that is bound. What the
/// umask took is given when the group is right. So it never admits more users than it is meant for.
///
/// # Errors
/// The errors of `bind(2)`, or that this process may not give the file to the group. No file is left then.
pub fn bound(kind: SocketType, flags: SocketFlags, path: &Path, access: &Access) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let socket = socket_with(AddressFamily::UNIX, kind, flags, None)?;
    // The process's own group may be another than the one that is meant: until it is given away the file is the owner's.
    let first = if access.group.is_some() { access.mode & 0o700 } else { access.mode };
    fchmod(&socket, Mode::from_raw_mode(first))?;
    bind(&socket, &address)?;
    let placed = lchown(path, None, access.group).and_then(|()| set_mode(path, access.mode));
    placed.inspect_err(|_| drop(fs::remove_file(path)))?;
    Ok(socket)
}

/// Returns the bytes that were written to a Unix socket and that its peer has not read (`SIOCOUTQ`), with what the kernel adds to
/// each message.
///
/// # Errors
/// The errors of `ioctl(2)`.
pub fn unsent(socket: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: this number asks a socket for an `int`.
    let asked = unsafe { Getter::<{ TIOCOUTQ }, c_int>::new() };
    // SAFETY: as above.
    let count = unsafe { ioctl(socket, asked)? };
    Ok(u64::try_from(count).unwrap_or(0))
}

/// The number of `SIOCOUTQ`.
const TIOCOUTQ: Opcode = 0x5411;

/// The first descriptor that a service manager hands over: `SD_LISTEN_FDS_START` of sd_listen_fds(3).
const PASSED_FIRST: RawFd = 3;
/// Descriptors that are looked at.
const PASSED_MAX: RawFd = 64;

/// Returns the listening socket at `path` among the `count` descriptors that a service manager has handed over.
#[must_use]
pub fn passed(count: u32, path: &Path) -> Option<OwnedFd> {
    let count = RawFd::try_from(count).unwrap_or(PASSED_MAX).min(PASSED_MAX);
    let address = SocketAddrUnix::new(path).ok()?;
    (PASSED_FIRST..PASSED_FIRST + count).find_map(|fd| {
        // SAFETY: it is borrowed for this call alone, in which nothing else closes descriptors. If none has this number, the kernel
        // says so.
        let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
        let own = fcntl_dupfd_cloexec(borrowed, PASSED_FIRST).ok()?;
        let is_it =
            getsockname(&own).is_ok_and(|at| SocketAddrUnix::try_from(at).is_ok_and(|at| at == address));
        (is_it && socket_acceptconn(&own) == Ok(true)).then_some(own)
    })
}

/// Sets the mode of the socket, if it has not got it yet.
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    let file = fs::symlink_metadata(path)?;
    if file.mode() & 0o777 == mode {
        return Ok(());
    }
    // Another may have put something else in its place, if the folder is everybody's.
    if !file.file_type().is_socket() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}
