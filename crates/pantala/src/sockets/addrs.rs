//! Addresses of a call: several are tried, one after the other.

use core::net::SocketAddr;
use std::io;
use std::net::ToSocketAddrs;

/// Does `attempt` with each address until one succeeds; else returns the last error.
pub(super) fn each<T>(
    addrs: impl ToSocketAddrs,
    mut attempt: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = None;
    for addr in addrs.to_socket_addrs()? {
        match attempt(addr) {
            Ok(done) => return Ok(done),
            Err(why) => last = Some(why),
        }
    }
    Err(last.unwrap_or_else(no_addresses))
}

/// The first of the addresses that a name has.
pub(super) fn first(addrs: impl ToSocketAddrs) -> io::Result<SocketAddr> {
    addrs.to_socket_addrs()?.next().ok_or_else(no_addresses)
}

/// As std and tokio say it.
pub(super) fn no_addresses() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any addresses")
}
