//! The interface of datagram sockets for the bodies.

use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::net;

use pantala::sockets::blocking;

use crate::sockets::hosts::Host;
use crate::sockets::socket_api::{Face, Kernel, Stacks};

/// A socket of datagrams.
pub(crate) trait Socket: Send + Sync {
    fn addr(&self) -> SocketAddr;
    fn peer(&self) -> io::Result<SocketAddr>;
    fn connect(&self, to: SocketAddr) -> io::Result<()>;
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;
    fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize>;
    fn recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)>;
    fn peek_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)>;
    /// Waits no longer than this to read; `None`: as long as it takes.
    fn set_read_timeout(&self, timeout: Option<Duration>);
    fn set_nonblocking(&self, nonblocking: bool);
    fn take_error(&self) -> Option<io::Error>;
}

/// A host that waits for datagrams, and one that sends to it.
pub(crate) trait Datagrams: Face {
    type Socket: Socket;

    /// A socket of the host that waits.
    fn bind_udp(&self, addr: SocketAddr) -> io::Result<Self::Socket>;
    /// One of the other host, at any port.
    fn client_udp(&self, addr: SocketAddr) -> io::Result<Self::Socket>;
}

macro_rules! same {
    ($socket:ty) => {
        impl Socket for $socket {
            fn addr(&self) -> SocketAddr {
                self.local_addr().unwrap()
            }

            fn peer(&self) -> io::Result<SocketAddr> {
                self.peer_addr()
            }

            fn connect(&self, to: SocketAddr) -> io::Result<()> {
                self.connect(to)
            }

            fn send(&self, bytes: &[u8]) -> io::Result<usize> {
                self.send(bytes)
            }

            fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
                self.send_to(bytes, to)
            }

            fn recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
                self.recv_from(into)
            }

            fn peek_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
                self.peek_from(into)
            }

            fn set_read_timeout(&self, timeout: Option<Duration>) {
                self.set_read_timeout(timeout).unwrap();
            }

            fn set_nonblocking(&self, nonblocking: bool) {
                self.set_nonblocking(nonblocking).unwrap();
            }

            fn take_error(&self) -> Option<io::Error> {
                self.take_error().unwrap()
            }
        }
    };
}

same!(net::UdpSocket);
same!(blocking::UdpSocket);

impl Datagrams for Kernel {
    type Socket = net::UdpSocket;

    fn bind_udp(&self, addr: SocketAddr) -> io::Result<Self::Socket> {
        self.on(Host::Server, || net::UdpSocket::bind(addr))
    }

    fn client_udp(&self, addr: SocketAddr) -> io::Result<Self::Socket> {
        self.on(Host::Client, || net::UdpSocket::bind(addr))
    }
}

impl Datagrams for Stacks {
    type Socket = blocking::UdpSocket;

    fn bind_udp(&self, addr: SocketAddr) -> io::Result<Self::Socket> {
        blocking::UdpSocket::bind(&self.server, addr)
    }

    fn client_udp(&self, addr: SocketAddr) -> io::Result<Self::Socket> {
        blocking::UdpSocket::bind(&self.client, addr)
    }
}
