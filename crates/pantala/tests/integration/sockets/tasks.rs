//! Sockets for tasks, for bodies that block: each call is a future that a runtime of the thread waits for.

use core::future::{Future, poll_fn};
use core::net::{IpAddr, SocketAddr};
use core::pin::Pin;
use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

use pantala::sockets::aio;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Runtime};

use crate::sockets::datagram_api::{Datagrams, Socket};
use crate::sockets::socket_api::{Face, Stacks, Terms};
use crate::sockets::timeout::Patience;

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().enable_time().build().unwrap();
}

pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.with(|runtime| runtime.block_on(future))
}

/// Two stacks, whose sockets are polled.
pub(crate) struct Tasks(pub(crate) Stacks);

impl Tasks {
    pub(crate) fn new() -> Self {
        Self(Stacks::new())
    }

    /// On two hosts of which the first is watched.
    pub(crate) fn apart() -> Self {
        Self(Stacks::apart())
    }
}

/// A socket, and how long a body waits for it: what tokio leaves to its timers.
pub(crate) struct Task<T> {
    pub(crate) socket: Arc<T>,
    pub(crate) patience: Arc<Patience>,
}

impl<T> Task<T> {
    pub(crate) fn new(socket: T) -> Self {
        Self { socket: Arc::new(socket), patience: Arc::default() }
    }

    fn again(&self) -> Self {
        Self { socket: Arc::clone(&self.socket), patience: Arc::clone(&self.patience) }
    }

    /// Waits as long as the body wants to; not at all is to poll once.
    fn patiently<R>(&self, future: impl Future<Output = io::Result<R>>) -> io::Result<R> {
        let late = |_| Err(io::ErrorKind::WouldBlock.into());
        wait(async {
            match self.patience.limit() {
                Some(timeout) => tokio::time::timeout(timeout, future).await.unwrap_or_else(late),
                None => future.await,
            }
        })
    }
}

impl Read for Task<aio::TcpStream> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut into = ReadBuf::new(into);
        self.patiently(poll_fn(|context| Pin::new(&mut &*self.socket).poll_read(context, &mut into)))?;
        Ok(into.filled().len())
    }
}

impl Write for Task<aio::TcpStream> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.patiently(poll_fn(|context| Pin::new(&mut &*self.socket).poll_write(context, bytes)))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.patiently(poll_fn(|context| Pin::new(&mut &*self.socket).poll_flush(context)))
    }
}

impl Face for Tasks {
    type Listener = Task<aio::TcpListener>;
    type Stream = Task<aio::TcpStream>;

    fn addrs(&self) -> [IpAddr; 2] {
        self.0.addrs()
    }

    fn bind_with(&self, addr: SocketAddr, terms: Terms) -> io::Result<Self::Listener> {
        wait(aio::TcpListener::bind_with(&self.0.server, addr, &terms.options())).map(Task::new)
    }

    fn linger_not_at_all(stream: &Self::Stream) {
        stream.socket.set_linger(Some(Duration::ZERO)).unwrap();
    }

    fn connect(&self, addr: SocketAddr) -> io::Result<Self::Stream> {
        wait(aio::TcpStream::connect(&self.0.client, addr)).map(Task::new)
    }

    fn addr(listener: &Self::Listener) -> SocketAddr {
        listener.socket.local_addr().unwrap()
    }

    fn accept(listener: &Self::Listener) -> io::Result<(Self::Stream, SocketAddr)> {
        listener.patiently(listener.socket.accept()).map(|(stream, peer)| (Task::new(stream), peer))
    }

    fn set_listener_nonblocking(listener: &Self::Listener) {
        listener.patience.set_nonblocking(true);
    }

    fn ends(stream: &Self::Stream) -> [SocketAddr; 2] {
        [stream.socket.local_addr().unwrap(), stream.socket.peer_addr().unwrap()]
    }

    fn set_read_timeout(stream: &Self::Stream, timeout: Option<Duration>) -> io::Result<()> {
        stream.patience.set_timeout(timeout)
    }

    fn set_nonblocking(stream: &Self::Stream, nonblocking: bool) {
        stream.patience.set_nonblocking(nonblocking);
    }

    fn shutdown(stream: &Self::Stream, how: Shutdown) -> io::Result<()> {
        stream.socket.shutdown(how)
    }

    fn peek(stream: &Self::Stream, into: &mut [u8]) -> io::Result<usize> {
        stream.patiently(stream.socket.peek(into))
    }

    fn clone(stream: &Self::Stream) -> Self::Stream {
        stream.again()
    }
}

impl Datagrams for Tasks {
    type Socket = Task<aio::UdpSocket>;

    fn bind_udp(&self, addr: SocketAddr) -> io::Result<Self::Socket> {
        wait(aio::UdpSocket::bind(&self.0.server, addr)).map(Task::new)
    }

    fn client_udp(&self, addr: SocketAddr) -> io::Result<Self::Socket> {
        wait(aio::UdpSocket::bind(&self.0.client, addr)).map(Task::new)
    }
}

impl Socket for Task<aio::UdpSocket> {
    fn addr(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    fn peer(&self) -> io::Result<SocketAddr> {
        self.socket.peer_addr()
    }

    fn connect(&self, to: SocketAddr) -> io::Result<()> {
        wait(self.socket.connect(to))
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.patiently(self.socket.send(bytes))
    }

    fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.patiently(self.socket.send_to(bytes, to))
    }

    fn recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.patiently(self.socket.recv_from(into))
    }

    fn peek_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.patiently(self.socket.peek_from(into))
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) {
        self.patience.set_timeout(timeout).unwrap();
    }

    fn set_nonblocking(&self, nonblocking: bool) {
        self.patience.set_nonblocking(nonblocking);
    }

    fn take_error(&self) -> Option<io::Error> {
        self.socket.take_error().unwrap()
    }
}
