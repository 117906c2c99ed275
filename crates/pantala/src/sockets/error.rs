//! Errors as programs know them: each has the number that the kernel's would have.

use std::io;

use net::sock::Error;
use rustix::io::Errno;

/// The error of a stack as one of the kernel's, as sockets for threads say it: for programs on the netisr, whose calls say
/// the stack's own.
#[must_use]
pub fn of(error: Error) -> io::Error {
    io::Error::from(match error {
        Error::NotFound => Errno::BADF,
        Error::WouldBlock => Errno::AGAIN,
        Error::AddrInUse => Errno::ADDRINUSE,
        Error::AddrNotAvailable | Error::Elsewhere(_) => Errno::ADDRNOTAVAIL,
        Error::Unreachable => Errno::HOSTUNREACH,
        Error::NotPermitted => Errno::ACCESS,
        Error::TooLong | Error::TooBig { .. } => Errno::MSGSIZE,
        Error::NoBuffer | Error::TooMany => Errno::NOBUFS,
        Error::NotConnected => Errno::NOTCONN,
        Error::Closed => Errno::PIPE,
        Error::Refused => Errno::CONNREFUSED,
        Error::Reset => Errno::CONNRESET,
        Error::TimedOut => Errno::TIMEDOUT,
        Error::Aborted => Errno::CONNABORTED,
        // What an address, or an argument, cannot be.
        _ => Errno::INVAL,
    })
}

/// There are as many as may be.
pub(super) fn too_many() -> io::Error {
    of(Error::TooMany)
}

/// The stack has ended.
pub(super) fn gone() -> io::Error {
    Errno::NETDOWN.into()
}

/// It has to be said where a datagram goes.
pub(super) fn no_destination() -> io::Error {
    Errno::DESTADDRREQ.into()
}

/// There is no such interface.
pub(super) fn no_device() -> io::Error {
    Errno::NODEV.into()
}

/// Another thread is about to do it.
pub(super) fn already() -> io::Error {
    Errno::ALREADY.into()
}

/// Not now.
pub(super) fn would_block() -> io::Error {
    of(Error::WouldBlock)
}
