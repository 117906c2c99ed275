//! Unix sockets whose file has its mode and its group from the first moment.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, lchown};
use std::path::Path;

use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

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
