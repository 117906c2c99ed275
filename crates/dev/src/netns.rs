//! Unsafe: `unshare` of the calling thread's namespaces, and a hook that runs between `fork` and `exec`.
//!
//! Network namespaces. A *named* one is a bind mount in `/run/netns`, where `ip netns` looks for it; an
//! anonymous one lives as long as a descriptor or a thread holds it.
#![expect(unsafe_code, reason = "unshare and Command::pre_exec are unsafe")]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::io::Errno;
use rustix::mount::{
    MountPropagationFlags, UnmountFlags, mount_bind, mount_bind_recursive, mount_change, unmount,
};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::netlink::{NetlinkError, Rtnetlink};

/// Where `ip netns` keeps its namespaces.
pub const RUN_DIR: &str = "/run/netns";

/// Why a namespace could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetnsError {
    /// A name that cannot be a file name.
    #[error("{0:?} cannot name a network namespace: use 1 to 255 letters, digits, '-', '_' or '.'")]
    BadName(String),
    /// The name is taken.
    #[error("network namespace {0} already exists; `ip netns delete {0}` removes it")]
    Exists(String),
    /// No namespace of this name.
    #[error("no network namespace named {0}; `ip netns` lists them")]
    NoSuchName(String),
    /// The process may not do this.
    #[error("{doing}: needs CAP_SYS_ADMIN (run as root, or enter a user namespace first)")]
    Permission {
        /// The operation.
        doing: &'static str,
    },
    /// The kernel refused for another reason.
    #[error("{doing}: {source}")]
    Refused {
        /// The operation.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
}

impl From<NetnsError> for io::Error {
    fn from(e: NetnsError) -> Self {
        let kind = match &e {
            NetnsError::BadName(_) => io::ErrorKind::InvalidInput,
            NetnsError::Exists(_) => io::ErrorKind::AlreadyExists,
            NetnsError::NoSuchName(_) => io::ErrorKind::NotFound,
            NetnsError::Permission { .. } => io::ErrorKind::PermissionDenied,
            NetnsError::Refused { source, .. } => source.kind(),
        };
        Self::new(kind, e)
    }
}

/// A network namespace, held by a descriptor.
#[derive(Debug)]
pub struct Netns {
    fd: OwnedFd,
}

impl Netns {
    /// Makes a namespace that `ip netns` sees under `name`; its loopback is down. It outlives the process:
    /// see [`ScopedNetns`] for one that does not, and [`delete`].
    ///
    /// # Errors
    /// [`NetnsError::Exists`], [`NetnsError::Permission`].
    pub fn create(name: &str) -> Result<Self, NetnsError> {
        let file = path_of(name)?;
        prepare_run_dir().map_err(refused("prepare /run/netns"))?;
        create_empty(&file).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => NetnsError::Exists(name.to_owned()),
            _ => refused("make a file in /run/netns")(e),
        })?;
        let made = Self::anonymous().and_then(|ns| ns.bind_to(&file).map(|()| ns));
        if made.is_err() {
            let _ = fs::remove_file(&file);
        }
        made
    }

    /// Makes a namespace without a name; it goes when the value, and all that live in it, are gone.
    ///
    /// # Errors
    /// [`NetnsError::Permission`].
    pub fn anonymous() -> Result<Self, NetnsError> {
        on_a_thread(|| {
            // SAFETY: only the network namespace of this thread changes, which ends here; no memory,
            // descriptor or file system state that other code relies on is unshared.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(io::Error::from)?;
            Self::of_this_thread()
        })
        .map_err(refused("make a network namespace"))
    }

    /// Opens the namespace that `ip netns` knows as `name`.
    ///
    /// # Errors
    /// [`NetnsError::NoSuchName`].
    pub fn open(name: &str) -> Result<Self, NetnsError> {
        match File::open(path_of(name)?) {
            Ok(file) => Ok(Self { fd: file.into() }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(NetnsError::NoSuchName(name.to_owned())),
            Err(e) => Err(refused("open a network namespace")(e)),
        }
    }

    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// [`NetnsError::Refused`] if `/proc` is not there.
    pub fn current() -> Result<Self, NetnsError> {
        Self::of_this_thread().map_err(refused("open the current network namespace"))
    }

    /// Moves the calling thread, and no other, into the namespace.
    ///
    /// # Errors
    /// [`NetnsError::Permission`].
    pub fn enter(&self) -> Result<(), NetnsError> {
        set_netns(self.fd.as_fd()).map_err(refused("enter a network namespace"))
    }

    /// Runs `f` on a fresh thread inside the namespace, and waits for it. Sockets that it opens belong to
    /// the namespace for good, and may be handed back. A panic in `f` goes on in the caller.
    ///
    /// # Errors
    /// `PermissionDenied` if the namespace may not be entered.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_a_thread(|| {
            self.enter()?;
            Ok(f())
        })
    }

    /// An rtnetlink socket of this namespace.
    ///
    /// # Errors
    /// [`NetlinkError::Open`].
    pub fn netlink(&self) -> Result<Rtnetlink, NetlinkError> {
        self.run(Rtnetlink::open).map_err(NetlinkError::Open)?
    }

    /// Makes `command` run inside the namespace once it is spawned.
    ///
    /// # Errors
    /// When the process is out of descriptors.
    pub fn put<'a>(&self, command: &'a mut Command) -> io::Result<&'a mut Command> {
        let fd = self.fd.try_clone()?;
        // SAFETY: between fork and exec the hook makes one system call and neither allocates nor locks; it
        // owns the descriptor it uses, which is closed on exec.
        Ok(unsafe { command.pre_exec(move || set_netns(fd.as_fd())) })
    }

    fn of_this_thread() -> io::Result<Self> {
        Ok(Self { fd: File::open("/proc/thread-self/ns/net")?.into() })
    }

    fn bind_to(&self, file: &Path) -> Result<(), NetnsError> {
        let bound =
            self.run(|| mount_bind("/proc/thread-self/ns/net", file)).map(|r| r.map_err(io::Error::from));
        bound.and_then(|r| r).map_err(refused("name a network namespace"))
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A named namespace that is deleted when the value is dropped.
#[derive(Debug)]
pub struct ScopedNetns {
    netns: Netns,
    name: String,
}

impl ScopedNetns {
    /// Makes the namespace, as [`Netns::create`] does.
    ///
    /// # Errors
    /// [`NetnsError`].
    pub fn create(name: &str) -> Result<Self, NetnsError> {
        Ok(Self { netns: Netns::create(name)?, name: name.to_owned() })
    }

    /// The name `ip netns` shows.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl core::ops::Deref for ScopedNetns {
    type Target = Netns;

    fn deref(&self) -> &Netns {
        &self.netns
    }
}

impl Drop for ScopedNetns {
    fn drop(&mut self) {
        let _ = delete(&self.name);
    }
}

/// Deletes a named namespace: takes the name away; the namespace goes with its last process.
///
/// # Errors
/// [`NetnsError::NoSuchName`], [`NetnsError::Permission`].
pub fn delete(name: &str) -> Result<(), NetnsError> {
    let file = path_of(name)?;
    if !file.exists() {
        return Err(NetnsError::NoSuchName(name.to_owned()));
    }
    match unmount(&file, UnmountFlags::DETACH) {
        Ok(()) | Err(Errno::INVAL) => {} // EINVAL: a file without a mount, left by a crash in between
        Err(e) => return Err(refused("unmount a network namespace")(e.into())),
    }
    fs::remove_file(&file).map_err(refused("delete a network namespace"))
}

/// The names of the namespaces that begin with `prefix`, sorted.
///
/// # Errors
/// When `/run/netns` is there and cannot be read.
pub fn list(prefix: &str) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(RUN_DIR) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string().ok().filter(|n| n.starts_with(prefix)));
    }
    names.sort();
    Ok(names)
}

/// Moves the process into a user namespace and a network namespace of its own, in which it is root: for
/// users that are not root outside. Anonymous namespaces, veth pairs and TAP devices can be made there;
/// named namespaces cannot.
///
/// # Errors
/// [`NetnsError::Refused`] with `EINVAL` when the process has more than one thread: call it first in `main`.
pub fn enter_user_namespace() -> Result<(), NetnsError> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // SAFETY: the kernel refuses NEWUSER when other threads exist, so no thread is left behind with other
    // credentials; no memory or descriptors are unshared.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNET) }
        .map_err(|e| refused("make a user namespace")(e.into()))?;
    // user_namespaces(7): an unprivileged process must give up setgroups before it may map its group.
    fs::write("/proc/self/setgroups", "deny")
        .and_then(|()| fs::write("/proc/self/uid_map", format!("0 {uid} 1")))
        .and_then(|()| fs::write("/proc/self/gid_map", format!("0 {gid} 1")))
        .map_err(refused("map the user into its namespace"))
}

fn set_netns(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(move_into_link_name_space(fd, Some(LinkNameSpaceType::Network))?)
}

/// Runs `f` on a thread of its own, so that what it does to its namespaces ends with it.
fn on_a_thread<T: Send>(f: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("netns".to_owned()).spawn_scoped(scope, f)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn path_of(name: &str) -> Result<PathBuf, NetnsError> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 255 || name.starts_with('.') || !name.chars().all(fine) {
        return Err(NetnsError::BadName(name.to_owned()));
    }
    Ok(Path::new(RUN_DIR).join(name))
}

/// Makes `/run/netns` a mount point with shared propagation, so that a name made here is seen, and can be
/// deleted, in every mount namespace that has the directory; this is the arrangement that `ip netns` makes.
fn prepare_run_dir() -> io::Result<()> {
    let shared = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    fs::create_dir_all(RUN_DIR)?;
    match mount_change(RUN_DIR, shared) {
        Err(Errno::INVAL) => {
            mount_bind_recursive(RUN_DIR, RUN_DIR)?; // it was no mount point yet
            Ok(mount_change(RUN_DIR, shared)?)
        }
        other => Ok(other?),
    }
}

fn create_empty(file: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o444).open(file).map(drop)
}

fn refused(doing: &'static str) -> impl Fn(io::Error) -> NetnsError {
    move |source| match source.kind() {
        io::ErrorKind::PermissionDenied => NetnsError::Permission { doing },
        _ => NetnsError::Refused { doing, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_the_directory_are_refused() {
        for bad in ["", ".", "..", "a/b", "../etc", "a b", &"x".repeat(256)] {
            assert!(matches!(path_of(bad), Err(NetnsError::BadName(_))), "{bad}");
        }
        assert_eq!(path_of("pt-a.1").unwrap(), Path::new("/run/netns/pt-a.1"));
    }

    #[test]
    fn the_current_namespace_can_be_held() {
        assert!(Netns::current().is_ok());
    }
}
