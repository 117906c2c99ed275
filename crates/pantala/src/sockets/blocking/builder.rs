//! Sockets that are configured before they connect or listen.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::io;
use std::sync::Mutex;

use super::{TcpListener, TcpStream};
use crate::sockets::builder::tcp_socket;
use crate::sockets::endpoint::lock;
use crate::sockets::{KeepAlive, Options, Sockets, error};

tcp_socket!(TcpSocket);

impl TcpSocket {
    /// Connects.
    ///
    /// # Errors
    ///
    /// The errors of `connect(2)`; `EAFNOSUPPORT` of the other family.
    pub fn connect(self, addr: SocketAddr) -> io::Result<TcpStream> {
        let options = self.connects(addr)?;
        TcpStream::connect_with(&self.sockets, addr, &options)
    }

    /// Listens on all CPUs. `backlog` connections may wait on each, besides those that the program has been handed.
    ///
    /// # Errors
    ///
    /// The errors of `bind(2)` and `listen(2)`.
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        let (addr, options) = self.listens(backlog);
        TcpListener::bind_with(&self.sockets, addr, &options)
    }
}
