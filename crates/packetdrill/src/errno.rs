//! Errors as C knows them.

use core::ffi::c_int;

use sim::drill::Errno;

/// Why a call has failed: a number of `errno.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) c_int);

/// Errors of sockets, by their names.
const CODES: &[(&str, c_int)] = &[
    ("EACCES", libc::EACCES),
    ("EADDRINUSE", libc::EADDRINUSE),
    ("EADDRNOTAVAIL", libc::EADDRNOTAVAIL),
    ("EALREADY", libc::EALREADY),
    ("EBADF", libc::EBADF),
    ("ECONNABORTED", libc::ECONNABORTED),
    ("ECONNREFUSED", libc::ECONNREFUSED),
    ("ECONNRESET", libc::ECONNRESET),
    ("EDESTADDRREQ", libc::EDESTADDRREQ),
    ("EHOSTUNREACH", libc::EHOSTUNREACH),
    ("EINPROGRESS", libc::EINPROGRESS),
    ("EINVAL", libc::EINVAL),
    ("EISCONN", libc::EISCONN),
    ("EMSGSIZE", libc::EMSGSIZE),
    ("ENOBUFS", libc::ENOBUFS),
    ("ENOENT", libc::ENOENT),
    ("ENOPROTOOPT", libc::ENOPROTOOPT),
    ("ENOTCONN", libc::ENOTCONN),
    ("EOPNOTSUPP", libc::EOPNOTSUPP),
    ("EPIPE", libc::EPIPE),
    ("ETIMEDOUT", libc::ETIMEDOUT),
    ("EWOULDBLOCK", libc::EWOULDBLOCK),
];

impl From<Errno> for Code {
    fn from(Errno(name): Errno) -> Self {
        let number = CODES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
        Self(number.unwrap_or(libc::EIO))
    }
}
