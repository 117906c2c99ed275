//! Descriptors of `/dev/net/tun`, opened while the process may open it.
//!
//! Many systems let root alone open the node. A process that gives root up keeps some descriptors of no interface, so that it
//! can make TAP queues afterwards; `CAP_NET_ADMIN` decides then. A queue whose interface was deleted gives its descriptor back.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

const NODE: &str = "/dev/net/tun";
/// Descriptors kept, and so TAP queues opened after root was given up, unless their interfaces are deleted.
pub const KEPT_MAX: usize = 64;

/// The descriptors; [`None`] until [`fill`] was called.
static KEPT: Mutex<Option<Vec<OwnedFd>>> = Mutex::new(None);

/// Keeps [`KEPT_MAX`] descriptors. Without the node there are none, which is no error.
///
/// # Errors
/// The process has too many descriptors.
pub fn fill() -> io::Result<()> {
    let mut opened = Vec::with_capacity(KEPT_MAX);
    while opened.len() < KEPT_MAX {
        match open_node() {
            Ok(fd) => opened.push(fd),
            Err(Errno::MFILE | Errno::NFILE) => return Err(Errno::MFILE.into()),
            Err(_) => break,
        }
    }
    *kept() = Some(opened);
    Ok(())
}

/// Whether every user may open the node.
#[must_use]
pub fn is_open_to_all() -> bool {
    rustix::fs::stat(NODE).is_ok_and(|node| node.st_mode & 0o006 == 0o006)
}

/// Takes a descriptor that is kept, or opens the node.
pub(super) fn open() -> rustix::io::Result<OwnedFd> {
    let taken = kept().as_mut().and_then(Vec::pop);
    taken.map_or_else(open_node, Ok)
}

/// Takes the descriptor of a queue whose interface is gone: there are never more than were opened.
pub(super) fn give_back(fd: OwnedFd) {
    if let Some(kept) = kept().as_mut() {
        kept.push(fd);
    }
}

fn open_node() -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(NODE, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
}

fn kept() -> MutexGuard<'static, Option<Vec<OwnedFd>>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}
