//! The socket's file: whose it is, who may use it, and when it goes.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::sockopt::socket_peercred;

/// Owner and group may use it, nobody else.
const MODE: u32 = 0o660;

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
    inode: u64,
}

impl Bound {
    pub(crate) fn new(path: &Path) -> Result<Self, BindError> {
        let refused = |why| BindError::Refused { path: path.to_owned(), why };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(refused)?;
        }
        make_room(path)?;
        let (listener, inode) = listen(path).map_err(refused)?;
        Ok(Self { listener, path: path.to_owned(), inode })
    }

    /// Another handle on the listening socket, non-blocking.
    pub(crate) fn listener(&self) -> io::Result<UnixListener> {
        let listener = self.listener.try_clone()?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }
}

impl Drop for Bound {
    /// Removes the file, unless somebody has put another in its place.
    fn drop(&mut self) {
        if fs::metadata(&self.path).is_ok_and(|file| file.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Succeeds if nobody listens at `path` and nothing that is worth keeping is there.
fn make_room(path: &Path) -> Result<(), BindError> {
    let path_buf = || path.to_owned();
    let Ok(file) = fs::symlink_metadata(path) else { return Ok(()) };
    if !file.file_type().is_socket() {
        return Err(BindError::NotSocket { path: path_buf() });
    }
    match UnixStream::connect(path) {
        Ok(peer) => {
            let pid = socket_peercred(&peer).map_or(0, |peer| peer.pid.as_raw_nonzero().get());
            Err(BindError::Running { path: path_buf(), pid })
        }
        // Nobody listens: its process is gone without having cleaned up.
        Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(why) => Err(BindError::Refused { path: path_buf(), why }),
    }
}

/// Binds beside the path, sets the mode and moves into place: nobody ever sees the socket with another mode, and a
/// left-over one is replaced.
fn listen(path: &Path) -> io::Result<(UnixListener, u64)> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let _ = fs::remove_file(&beside);
    let listener = UnixListener::bind(&beside)?;
    let placed = fs::set_permissions(&beside, fs::Permissions::from_mode(MODE))
        .and_then(|()| fs::rename(&beside, path))
        .and_then(|()| fs::metadata(path));
    match placed {
        Ok(file) => Ok((listener, file.ino())),
        Err(why) => {
            let _ = fs::remove_file(&beside);
            Err(why)
        }
    }
}
