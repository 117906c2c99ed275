//! Sockets for tasks, as in `tokio::net`: any executor can poll them, and what reads and writes by tokio's traits uses them
//! unchanged. A future that is dropped leaves nothing behind.

mod udp;

use core::future::poll_fn;
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io;
use std::net::Shutdown;

use net::channel::Setting;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Sockets;
use super::listener::Listener;
use super::options::{KeepAlive, Options, keep};
use super::stream::Stream;
use super::tcp::tcp_options;

pub use self::udp::UdpSocket;

/// A connection.
pub struct TcpStream(Stream);

/// A listener, on all CPUs of the stack.
pub struct TcpListener(Listener);

tcp_options!(TcpStream, |stream| &stream.0);

impl TcpStream {
    /// Connects.
    ///
    /// # Errors
    ///
    /// Those of `connect(2)`.
    pub async fn connect(sockets: &Sockets, addr: SocketAddr) -> io::Result<Self> {
        Self::connect_with(sockets, addr, &Options::new()).await
    }

    /// Connects with options.
    ///
    /// # Errors
    ///
    /// As [`Self::connect`].
    pub async fn connect_with(sockets: &Sockets, addr: SocketAddr, options: &Options) -> io::Result<Self> {
        Stream::connect(&sockets.endpoint, addr, options.local, options.settings(addr)?).await.map(Self)
    }

    /// The other end.
    ///
    /// # Errors
    ///
    /// None; it returns a result as `tokio::net` does.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.ends().map(|ends| ends.remote())
    }

    /// This end.
    ///
    /// # Errors
    ///
    /// None; it returns a result as `tokio::net` does.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.ends().map(|ends| ends.local())
    }

    /// Reads no more, or sends no more, or both. A task that waits to read is woken.
    ///
    /// # Errors
    ///
    /// `NotConnected` if the connection has ended.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how)
    }

    /// Reads, and what was read stays.
    ///
    /// # Errors
    ///
    /// Those of `recv(2)`.
    pub async fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        poll_fn(|context| self.0.poll_peek(context.waker(), into)).await
    }
}

/// A shared one can be read and written by several tasks at a time.
impl AsyncRead for &TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let count = ready!(self.0.poll_read(context.waker(), into.initialize_unfilled()))?;
        into.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for &TcpStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(context.waker(), bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.shut();
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_read(context, into)
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_shutdown(context)
    }
}

impl TcpListener {
    /// Waits for connections, on all CPUs.
    ///
    /// # Errors
    ///
    /// Those of `bind(2)` and `listen(2)`.
    pub async fn bind(sockets: &Sockets, addr: SocketAddr) -> io::Result<Self> {
        Self::bind_with(sockets, addr, &Options::new()).await
    }

    /// Binds with options, which accepted connections inherit.
    ///
    /// # Errors
    ///
    /// As [`Self::bind`].
    pub async fn bind_with(sockets: &Sockets, addr: SocketAddr, options: &Options) -> io::Result<Self> {
        Listener::bind(&sockets.endpoint, options.place(addr), options.settings(addr)?).await.map(Self)
    }

    /// Where it waits.
    ///
    /// # Errors
    ///
    /// None; it returns a result as `tokio::net` does.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.addr())
    }

    /// The next connection, of whichever CPU.
    ///
    /// # Errors
    ///
    /// Those of `accept(2)`.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// Polls for a connection.
    ///
    /// # Errors
    ///
    /// As [`Self::accept`].
    pub fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let stream = ready!(self.0.poll_accept(context.waker()))?;
        let remote = stream.ends()?.remote();
        Poll::Ready(Ok((TcpStream(stream), remote)))
    }
}
