//! `[[serve]]` and `pantala serve`: a web server for the files of a folder, on the netisrs.
//!
//! ```text
//!   netisr: Web ── asks ──▶ library thread ─▶ openat2, read
//!      ▲  connections, heads, what is    │
//!      └─ sent ◀──── answers, a message ─┘
//! ```
//!
//! A netisr never waits for a disk: what is not remembered is asked for, and the connection waits
//! ([ADR 17](../../../../docs/design/adr/0017-files-are-read-by-a-thread.md)).
//!
//! | module | what it is |
//! |---|---|
//! | [`request`], [`range`], [`condition`] | bytes become a request |
//! | [`response`], [`mime`] | an answer becomes bytes |
//! | [`library`] | the thread that reads files, and nothing outside of their folder |
//! | [`web`], [`visit`] | the program on each netisr, and what it knows of a connection |
//! | [`budget`] | memory that is held for readers |
//! | [`hits`] | its counters |

mod budget;
mod condition;
mod hits;
mod library;
mod mime;
mod range;
mod request;
mod response;
mod visit;
mod web;

use budget::Budget;
pub use budget::Limits;
pub(crate) use hits::Hit;
use library::FileReader;
pub use web::Web;

use core::net::SocketAddr;
use std::io;
use std::path::Path;
use std::thread::JoinHandle;

use net::msg::Remote;

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
    let (desks, reader) = FileReader::open(folder, remotes, seccomp)?;
    let budgets = Budget::of(limits, desks.len());
    let webs = desks.into_iter().zip(budgets).map(|(desk, budget)| Web::new(addr, desk, budget));
    Ok((webs.collect(), reader))
}

/// Whether a folder can be served.
///
/// # Errors
///
/// As [`folder()`].
pub(crate) fn look(folder: &Path) -> io::Result<()> {
    library::open(folder).map(drop)
}
