//! Errors of the stack as `std::io::Error`: each has the number and the kind of the kernel's.

use std::io;

use net::sock::Error;
use rustix::io::Errno;

/// Converts an error of the stack to the `std::io::Error` that sockets for threads and tasks return: the one of the kernel's
/// sockets, with its `errno` and its [`std::io::ErrorKind`]. It is for applications on the netisr, whose calls return the
/// stack's own.
#[must_use]
pub fn of(error: Error) -> io::Error {
    io::Error::from(match error {
        Error::NotFound => Errno::BADF,
        Error::WouldBlock => Errno::AGAIN,
        Error::AddrInUse => Errno::ADDRINUSE,
        Error::AddrNotAvailable | Error::Elsewhere(_) => Errno::ADDRNOTAVAIL,
        Error::NetworkUnreachable => Errno::NETUNREACH,
        Error::HostUnreachable => Errno::HOSTUNREACH,
        Error::NotPermitted => Errno::ACCESS,
        Error::TooLong | Error::TooBig { .. } => Errno::MSGSIZE,
        Error::NoBuffer | Error::TooMany => Errno::NOBUFS,
        Error::NotConnected => Errno::NOTCONN,
        Error::Closed => Errno::PIPE,
        Error::Refused => Errno::CONNREFUSED,
        Error::Reset => Errno::CONNRESET,
        Error::TimedOut => Errno::TIMEDOUT,
        Error::Aborted => Errno::CONNABORTED,
        Error::NoInterface => Errno::NODEV,
        Error::InterfaceDown => Errno::NETDOWN,
        // `BadAddress`, `NothingUrgent`, `BadMessage`, `BadFrame`, `BadKey`, `NoTable`.
        _ => Errno::INVAL,
    })
}

/// Limit reached.
pub(super) fn too_many() -> io::Error {
    of(Error::TooMany)
}

/// Network down: the stack has ended.
pub(super) fn gone() -> io::Error {
    Errno::NETDOWN.into()
}

/// Destination address required.
pub(super) fn no_destination() -> io::Error {
    Errno::DESTADDRREQ.into()
}

/// No such interface.
pub(super) fn no_device() -> io::Error {
    Errno::NODEV.into()
}

/// Address family not supported by this socket.
pub(super) fn family() -> io::Error {
    Errno::AFNOSUPPORT.into()
}

/// Another call of the kind is in progress.
pub(super) fn already() -> io::Error {
    Errno::ALREADY.into()
}

/// The operation would block.
pub(super) fn would_block() -> io::Error {
    of(Error::WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::ErrorKind::*;
    use net::cpu::CpuId;

    #[test]
    fn each_error_has_the_errno_and_the_kind_of_the_kernel_s() {
        let table = [
            (Error::NotFound, 9, None),
            (Error::WouldBlock, 11, Some(WouldBlock)),
            (Error::AddrInUse, 98, Some(AddrInUse)),
            (Error::AddrNotAvailable, 99, Some(AddrNotAvailable)),
            (Error::Elsewhere(CpuId(1)), 99, Some(AddrNotAvailable)),
            (Error::BadAddress, 22, Some(InvalidInput)),
            (Error::NetworkUnreachable, 101, Some(NetworkUnreachable)),
            (Error::HostUnreachable, 113, Some(HostUnreachable)),
            (Error::NotPermitted, 13, Some(PermissionDenied)),
            (Error::TooLong, 90, None),
            (Error::TooBig { mtu: 1280 }, 90, None),
            (Error::NoBuffer, 105, None),
            (Error::TooMany, 105, None),
            (Error::NotConnected, 107, Some(NotConnected)),
            (Error::Closed, 32, Some(BrokenPipe)),
            (Error::Refused, 111, Some(ConnectionRefused)),
            (Error::Reset, 104, Some(ConnectionReset)),
            (Error::TimedOut, 110, Some(TimedOut)),
            (Error::Aborted, 103, Some(ConnectionAborted)),
            (Error::NothingUrgent, 22, Some(InvalidInput)),
            (Error::BadMessage, 22, Some(InvalidInput)),
            (Error::BadFrame, 22, Some(InvalidInput)),
            (Error::NoInterface, 19, None),
            (Error::InterfaceDown, 100, Some(NetworkDown)),
            (Error::BadKey, 22, Some(InvalidInput)),
            (Error::NoTable, 22, Some(InvalidInput)),
        ];
        for (error, errno, kind) in table {
            let says = of(error);
            assert_eq!(says.raw_os_error(), Some(errno), "{error:?}");
            // For some numbers std has no kind that is stable.
            assert!(kind.is_none_or(|kind| says.kind() == kind), "{error:?}: {:?}", says.kind());
        }
        assert_eq!(table.len(), net::channel::ERRORS, "each error of the stack has its row");
        let own =
            [gone(), no_destination(), no_device(), already(), family()].map(|error| error.raw_os_error());
        assert_eq!(own, [100, 89, 19, 114, 97].map(Some));
        assert_eq!(gone().kind(), NetworkDown);
    }
}
