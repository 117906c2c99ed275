//! A folder and the programs that serve it.

use core::net::SocketAddr;
use std::io;
use std::path::Path;
use std::thread::JoinHandle;

use net::msg::Remote;

use super::budget::Budget;
use super::file_reader::FileReader;
use super::{Limits, Web};
use crate::config::Seccomp;

/// The programs that serve the files of a folder at `addr`, one for each of the CPUs that these remotes reach, in their
/// order; and the thread that reads files for them, which ends with the last of them. Together they hold no more memory for
/// readers than `limits` say.
///
/// # Errors
///
/// If the folder cannot be opened, or is none.
pub fn folder(
    folder: &Path,
    addr: SocketAddr,
    remotes: Vec<Remote>,
    limits: Limits,
) -> io::Result<(Vec<Web>, JoinHandle<()>)> {
    confined_folder(folder, addr, remotes, limits, Seccomp::default())
}

/// Makes one whose thread is confined; `seccomp` is the action on other system calls.
pub(crate) fn confined_folder(
    folder: &Path,
    addr: SocketAddr,
    remotes: Vec<Remote>,
    limits: Limits,
    seccomp: Seccomp,
) -> io::Result<(Vec<Web>, JoinHandle<()>)> {
    let (clients, reader) = FileReader::open(folder, remotes, seccomp)?;
    let budgets = Budget::of(limits, clients.len());
    let webs = clients.into_iter().zip(budgets).map(|(cx, budget)| Web::new(addr, cx, budget));
    Ok((webs.collect(), reader))
}

#[cfg(feature = "cli")]
/// Whether a folder can be served.
///
/// # Errors
///
/// As [`folder()`].
pub(crate) fn look(folder: &Path) -> io::Result<()> {
    super::file_reader::open(folder).map(drop)
}
