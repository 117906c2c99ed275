//! The interface of sockets for the bodies, of the kernel and of a stack.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::{self, Shutdown};
use std::os::fd::OwnedFd;

use dev::netns::Netns;
use pantala::sockets::{Options, Sockets, blocking};
use pantala::{Interface, Stack, mem};
use rustix::net::{AddressFamily, SocketType, sockopt};
use tokio::net::TcpSocket;
use tokio::runtime::Builder;

use crate::sockets::hosts::{self, Host, Places};

/// Options of a listener.
#[derive(Clone, Copy, Default)]
pub(crate) struct Terms {
    /// At the unspecified IPv6 address it takes no IPv4 connections.
    pub(crate) only_v6: bool,
    /// Others may listen at the same place.
    pub(crate) is_shared: bool,
}

/// A host that listens, and one that connects to it.
pub(crate) trait Face: Sync {
    type Listener: Send + Sync;
    type Stream: Read + Write + Send + Sync;

    /// Addresses of the host that listens.
    fn addrs(&self) -> [IpAddr; 2];
    fn bind_with(&self, addr: SocketAddr, terms: Terms) -> io::Result<Self::Listener>;
    fn connect(&self, addr: SocketAddr) -> io::Result<Self::Stream>;
    fn addr(listener: &Self::Listener) -> SocketAddr;
    fn accept(listener: &Self::Listener) -> io::Result<(Self::Stream, SocketAddr)>;
    fn set_listener_nonblocking(listener: &Self::Listener);
    fn ends(stream: &Self::Stream) -> [SocketAddr; 2];
    fn set_read_timeout(stream: &Self::Stream, timeout: Option<Duration>) -> io::Result<()>;
    fn set_nonblocking(stream: &Self::Stream, nonblocking: bool);
    fn shutdown(stream: &Self::Stream, how: Shutdown) -> io::Result<()>;
    fn peek(stream: &Self::Stream, into: &mut [u8]) -> io::Result<usize>;
    fn clone(stream: &Self::Stream) -> Self::Stream;
    /// Sets linger to zero: dropping resets the connection, and written data is discarded.
    fn linger_not_at_all(stream: &Self::Stream);

    fn bind(&self, addr: SocketAddr) -> io::Result<Self::Listener> {
        self.bind_with(addr, Terms::default())
    }
}

/// Methods under the same names in both.
macro_rules! same {
    ($listener:ty, $stream:ty) => {
        type Listener = $listener;
        type Stream = $stream;

        fn addr(listener: &Self::Listener) -> SocketAddr {
            listener.local_addr().unwrap()
        }

        fn accept(listener: &Self::Listener) -> io::Result<(Self::Stream, SocketAddr)> {
            listener.accept()
        }

        fn set_listener_nonblocking(listener: &Self::Listener) {
            listener.set_nonblocking(true).unwrap();
        }

        fn ends(stream: &Self::Stream) -> [SocketAddr; 2] {
            [stream.local_addr().unwrap(), stream.peer_addr().unwrap()]
        }

        fn set_read_timeout(stream: &Self::Stream, timeout: Option<Duration>) -> io::Result<()> {
            stream.set_read_timeout(timeout)
        }

        fn set_nonblocking(stream: &Self::Stream, nonblocking: bool) {
            stream.set_nonblocking(nonblocking).unwrap();
        }

        fn shutdown(stream: &Self::Stream, how: Shutdown) -> io::Result<()> {
            stream.shutdown(how)
        }

        fn peek(stream: &Self::Stream, into: &mut [u8]) -> io::Result<usize> {
            stream.peek(into)
        }

        fn clone(stream: &Self::Stream) -> Self::Stream {
            stream.try_clone().unwrap()
        }
    };
}

impl Terms {
    /// Converts to the options of a stack's sockets.
    pub(crate) fn options(self) -> Options {
        Options::new().only_v6(self.only_v6).reuse_port(self.is_shared)
    }
}

/// Longest time without progress before the test has failed.
const PATIENCE: Duration = Duration::from_secs(20);
/// As long a queue as std::net asks for.
const BACKLOG: u32 = 128;

/// Where this process finds addresses of pantala, as whose program it runs.
pub(crate) const PROGRAM_ADDRS: &str = "PANTALA_SUITE_ADDRS";

/// The addresses of both families, if this process is a program on pantala.
fn program_addrs() -> Option<[IpAddr; 2]> {
    let text = std::env::var(PROGRAM_ADDRS).ok()?;
    let (four, six) = text.split_once(',')?;
    Some([four.parse().unwrap(), six.parse().unwrap()])
}

/// The kernel's: on loopback, or on two hosts and what watches the server's.
#[derive(Default)]
pub(crate) struct Kernel {
    pub(crate) hosts: Option<([Netns; 2], OwnedFd)>,
}

impl Kernel {
    /// Does something on a host.
    pub(crate) fn on<T: Send>(
        &self,
        host: Host,
        what: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        match &self.hosts {
            Some((hosts, _)) => hosts[host as usize].run(what)?,
            None => what(),
        }
    }
}

impl Face for Kernel {
    same!(net::TcpListener, net::TcpStream);

    fn addrs(&self) -> [IpAddr; 2] {
        match &self.hosts {
            Some(_) => hosts::addrs(Host::Server, 0),
            None => {
                program_addrs().unwrap_or_else(|| [[127, 0, 0, 1].into(), net::Ipv6Addr::LOCALHOST.into()])
            }
        }
    }

    fn bind_with(&self, addr: SocketAddr, terms: Terms) -> io::Result<Self::Listener> {
        let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = self.on(Host::Server, || Ok(rustix::net::socket(family, SocketType::STREAM, None)?))?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        sockopt::set_socket_reuseport(&socket, terms.is_shared)?;
        if addr.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, terms.only_v6)?;
        }
        // By libc, whose calls a preloaded library meets.
        let socket = net::TcpStream::from(socket);
        socket.set_nonblocking(true)?;
        let socket = TcpSocket::from_std_stream(socket);
        socket.bind(addr)?;
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let _within = runtime.enter();
        let listener = socket.listen(BACKLOG)?.into_std()?;
        listener.set_nonblocking(false)?;
        Ok(listener)
    }

    fn linger_not_at_all(stream: &Self::Stream) {
        TcpSocket::from_std_stream(stream.try_clone().unwrap()).set_zero_linger().unwrap();
    }

    fn connect(&self, addr: SocketAddr) -> io::Result<Self::Stream> {
        self.on(Host::Client, || net::TcpStream::connect(addr))
    }
}

/// Sockets of two stacks with a wire between them, the first of two CPUs.
pub(crate) struct Stacks {
    pub(crate) server: Sockets,
    pub(crate) client: Sockets,
    /// They end with the test.
    pub(crate) stacks: [Stack; 2],
    /// Where what comes is logged next, if it is.
    pub(crate) places: Places,
}

impl Stacks {
    pub(crate) fn new() -> Self {
        let ends = mem::wire(2).unwrap();
        let stacks: Vec<Stack> = (1..).zip(ends).map(|(host, end)| stack(host, end)).collect();
        Self::of(stacks.try_into().unwrap_or_else(|_| unreachable!()))
    }

    pub(crate) fn of(stacks: [Stack; 2]) -> Self {
        let [server, client] = [0, 1].map(|at: usize| stacks[at].sockets().unwrap());
        stacks.iter().for_each(|stack| stack.wait_ready(PATIENCE).unwrap());
        let stacks = Self { server, client, stacks, places: Places::default() };
        // Each knows the link address of the other from now on: no datagram of a body waits for it.
        for addr in stacks.addrs() {
            let listener = stacks.bind((addr, 0).into()).unwrap();
            stacks.connect(Self::addr(&listener)).unwrap();
        }
        stacks
    }
}

fn stack(host: u8, end: mem::End) -> Stack {
    let lan =
        Interface::mem(end).address(format!("192.0.2.{host}/24")).address(format!("2001:db8::{host}/64"));
    Stack::builder().threads(2).interface(lan).start().unwrap()
}

impl Face for Stacks {
    same!(blocking::TcpListener, blocking::TcpStream);

    fn addrs(&self) -> [IpAddr; 2] {
        ["192.0.2.1", "2001:db8::1"].map(|addr| addr.parse().unwrap())
    }

    fn bind_with(&self, addr: SocketAddr, terms: Terms) -> io::Result<Self::Listener> {
        blocking::TcpListener::bind_with(&self.server, addr, &terms.options())
    }

    fn linger_not_at_all(stream: &Self::Stream) {
        stream.set_linger(Some(Duration::ZERO)).unwrap();
    }

    fn connect(&self, addr: SocketAddr) -> io::Result<Self::Stream> {
        blocking::TcpStream::connect(&self.client, addr)
    }
}
