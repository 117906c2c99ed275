//! What the calls of unmodified programs do with sockets of a running pantala (`pantala run`).
//!
//! A call is met in one of two places: in the program, by the library that is preloaded (`preload`), or beside it, by the supervisor
//! of `pantala run --any`. Both reach the program's socket by a descriptor of their own process, and differ in how they put
//! another socket in its place: [`Socket`]. What a call means is the same, and is here.
//!
//! Nothing is remembered: the name of a Unix socket's peer says which socket it is ([`wire::program::Name`]).
//!
//! | module | what it is |
//! |---|---|
//! | [`stream`] | calls that bind, connect, accept and ask for addresses |
//! | [`datagram`] | what differs for sockets of datagrams |
//! | [`control`] | control messages of datagrams |
//! | [`filter`] | whole source filters of groups |
//! | [`options`] | options, as Linux numbers them |
//! | [`values`] | `getsockopt(2)` and `setsockopt(2)` |
//! | [`interfaces`] | interfaces and their addresses |
//! | [`ifreq`] | `ioctl(2)` about interfaces |
//! | [`addr`] | C's socket addresses |
//! | [`calls`] | system calls that a supervisor answers |
//! | [`daemon`] | requests to the daemon |
#![forbid(unsafe_code)]

pub mod addr;
pub mod calls;
pub mod control;
pub mod daemon;
pub mod datagram;
pub mod filter;
pub mod ifreq;
pub mod interfaces;
pub mod options;
pub mod stream;
pub mod values;

use core::ffi::c_int;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;

/// A program's socket during a call about it.
pub trait Socket {
    /// A descriptor of this process that refers to it.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Puts a socket of pantala in its place: the program's descriptor keeps its number, and whether `exec` closes it.
    ///
    /// # Errors
    /// The program's descriptor is gone.
    fn put_in_place(&self, new: OwnedFd) -> Result<(), Errno>;

    /// Returns the value of an option of a socket of the kernel (`getsockopt(2)`), as its first bytes; `None` for an error.
    fn option(fd: BorrowedFd<'_>, level: c_int, number: c_int) -> Option<[u8; options::VALUE_MAX]>;
}
