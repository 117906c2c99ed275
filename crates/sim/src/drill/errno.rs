//! Errors as programs know them.

use net::sock::Error;

/// The name of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub &'static str);

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        Self(match error {
            Error::NotFound => "EBADF",
            Error::WouldBlock => "EWOULDBLOCK",
            Error::AddrInUse => "EADDRINUSE",
            Error::AddrNotAvailable => "EADDRNOTAVAIL",
            Error::BadAddress | Error::Elsewhere(_) | Error::NothingUrgent => "EINVAL",
            Error::HostUnreachable => "EHOSTUNREACH",
            Error::NetworkUnreachable => "ENETUNREACH",
            Error::NotPermitted => "EACCES",
            Error::TooLong | Error::TooBig { .. } => "EMSGSIZE",
            Error::NotConnected => "ENOTCONN",
            Error::Closed => "EPIPE",
            Error::Refused => "ECONNREFUSED",
            Error::Reset => "ECONNRESET",
            Error::TimedOut => "ETIMEDOUT",
            Error::Aborted => "ECONNABORTED",
            _ => "ENOBUFS",
        })
    }
}

/// Names that systems give to one error.
const SAME: [[&str; 2]; 2] = [["EAGAIN", "EWOULDBLOCK"], ["EOPNOTSUPP", "ENOTSUP"]];

impl Errno {
    /// Whether a script that writes `name` means this.
    pub(super) fn is(self, name: &str) -> bool {
        self.0 == name || SAME.iter().any(|pair| pair.contains(&self.0) && pair.contains(&name))
    }
}
