//! The socket's file: its owner, its mode, and when it goes.

use core::time::Duration;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use dev::sys::{process, unix_socket};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SocketFlags, SocketType, listen as hear};

use crate::daemon::log;

/// Time limit of a process that is ending.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;
/// Mode of a folder that is made for the socket.
const FOLDER_MODE: u32 = 0o755;

/// The owner, group and mode of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The mode of its file. By default 0660: its owner, which is the user that makes it, and its group.
    pub mode: u32,
    /// The number of its group; that of the process, if `None`.
    pub group: Option<u32>,
    /// The number of the user that a folder belongs to which is made for it; the one that makes it, if `None`.
    pub folder_of: Option<u32>,
}

impl Default for Access {
    fn default() -> Self {
        Self { mode: 0o660, group: None, folder_of: None }
    }
}

/// Why the control socket cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Another instance answers there.
    #[error(
        "pantala (process {pid}) is already running at {}; stop it first, or choose another socket with --socket",
        path.display()
    )]
    Running {
        /// The socket.
        path: PathBuf,
        /// The process that listens.
        pid: i32,
    },
    /// Something that is not a socket is in the way.
    #[error("{} exists and is not a socket; remove it, or choose another socket with --socket", path.display())]
    NotSocket {
        /// The path.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot listen at {}: {why}", path.display())]
    Refused {
        /// The socket.
        path: PathBuf,
        /// The reason.
        why: io::Error,
    },
}

/// A listening socket and its file.
#[derive(Debug)]
pub(crate) struct Bound {
    listener: UnixListener,
    path: PathBuf,
    /// The file that was made; none, if the service manager has made it.
    inode: Option<u64>,
}

impl Bound {
    pub(crate) fn new(path: &Path, access: &Access) -> Result<Self, BindError> {
        let refused = |why| BindError::Refused { path: path.to_owned(), why };
        if let Some(listener) = passed(path) {
            return Ok(Self { listener, path: path.to_owned(), inode: None });
        }
        if let Some(folder) = path.parent() {
            make_folder(folder, access).map_err(refused)?;
        }
        make_room(path)?;
        let (listener, inode) = listen(path, access).map_err(refused)?;
        Ok(Self { listener, path: path.to_owned(), inode: Some(inode) })
    }

    /// Another handle on the listening socket, non-blocking.
    pub(crate) fn listener(&self) -> io::Result<UnixListener> {
        let listener = self.listener.try_clone()?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }
}

impl Drop for Bound {
    /// Removes the file, unless it was replaced.
    fn drop(&mut self) {
        if fs::metadata(&self.path).is_ok_and(|file| Some(file.ino()) == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns the socket at `path` that the service manager listens at for this process (sd_listen_fds(3)).
fn passed(path: &Path) -> Option<UnixListener> {
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    let is_ours = number("LISTEN_PID") == Some(std::process::id());
    let socket = unix_socket::passed(number("LISTEN_FDS").filter(|_| is_ours)?, path)?;
    log::info(&format!("{}: the service manager's socket", path.display()));
    Some(UnixListener::from(socket))
}

/// Makes the folder, if it is not there. Its owner may remove the socket at the end.
fn make_folder(folder: &Path, access: &Access) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.exists() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
    chown(folder, access.folder_of, None)
}

/// Succeeds if no process listens at `path` and nothing that is worth keeping is there. A process that listens and is ending is
/// waited for.
fn make_room(path: &Path) -> Result<(), BindError> {
    let path_buf = || path.to_owned();
    let Ok(file) = fs::symlink_metadata(path) else { return Ok(()) };
    if !file.file_type().is_socket() {
        return Err(BindError::NotSocket { path: path_buf() });
    }
    match UnixStream::connect(path) {
        Ok(peer) => {
            let pid = socket_peercred(&peer).map_or(0, |peer| peer.pid.as_raw_nonzero().get());
            if has_ended(pid) { Ok(()) } else { Err(BindError::Running { path: path_buf(), pid }) }
        }
        // A stale socket: its process is gone without having cleaned up.
        Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(why) => Err(BindError::Refused { path: path_buf(), why }),
    }
}

/// Whether the process that listened has ended: one that was killed is waited for.
fn has_ended(pid: i32) -> bool {
    // Of another namespace of processes: nothing is known of it.
    let Some(pid) = u32::try_from(pid).ok().filter(|pid| *pid != 0) else { return false };
    if !process::is_ending(pid) {
        return false;
    }
    log::info(&format!("process {pid} is ending: waiting for up to {} s", PATIENCE.as_secs()));
    process::ends_within(pid, PATIENCE)
}

/// Binds beside the path and moves into place, so that a left-over socket is replaced and clients find one or the other. The file
/// never exists with another mode than the one that was asked for.
fn listen(path: &Path, access: &Access) -> io::Result<(UnixListener, u64)> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let _ = fs::remove_file(&beside);
    let rights = unix_socket::Access { mode: access.mode, group: access.group };
    let socket = unix_socket::bound(SocketType::STREAM, SocketFlags::CLOEXEC, &beside, &rights)?;
    let placed = hear(&socket, BACKLOG)
        .map_err(io::Error::from)
        .and_then(|()| fs::rename(&beside, path))
        .and_then(|()| fs::symlink_metadata(path));
    match placed {
        Ok(file) => Ok((UnixListener::from(socket), file.ino())),
        Err(why) => {
            let _ = fs::remove_file(&beside);
            Err(why)
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{Mode, fchmod};
    use rustix::net::{AddressFamily, SocketAddrUnix, bind, socket_with};

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("pt-socket-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn the_socket_has_the_mode_that_was_asked_for_whatever_the_umask() {
        let folder = folder("mode");
        for (at, asked) in [0o600, 0o660, 0o666, 0o640].into_iter().enumerate() {
            let path = folder.join(at.to_string());
            let bound = Bound::new(&path, &Access { mode: asked, ..Access::default() }).unwrap();
            assert_eq!(mode(&path), asked);
            drop(bound);
            assert!(!path.exists());
        }
        fs::remove_dir_all(folder).unwrap();
    }

    /// The umask of this process is 022 or so: a file that `bind` makes by itself is readable for all, until its mode is set.
    #[test]
    fn the_kernel_makes_the_file_with_the_mode_of_the_socket() {
        let folder = folder("kernel");
        let path = folder.join("s");
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        fchmod(&socket, Mode::from_raw_mode(0o600)).unwrap();
        bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        assert_eq!(mode(&path), 0o600, "before anything else was done to it");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_socket_that_a_process_listens_at_is_left_to_it() {
        let folder = folder("living");
        let path = folder.join("s");
        let _listener = UnixListener::bind(&path).unwrap();
        let why = Bound::new(&path, &Access::default()).unwrap_err();
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(matches!(why, BindError::Running { pid, .. } if pid == own), "{why}");
        fs::remove_dir_all(folder).unwrap();
    }
}
