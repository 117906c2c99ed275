//! Sockets for tasks, as in `tokio::net`: any executor can poll them, and what reads and writes by tokio's traits uses them
//! unchanged. A future that is dropped leaves nothing behind.

mod addrs;
mod builder;
mod split;
mod udp;

use core::future::poll_fn;
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io;
use std::net::Shutdown;

use net::channel::Setting;
#[cfg(feature = "cli")]
use net::pcb::FourTuple;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Sockets;
use super::listener::Listener;
use super::options::{KeepAlive, Options, keep};
use super::stream::Stream;
use super::tcp::tcp_options;
use addrs::each;

pub use self::addrs::ToSocketAddrs;
pub use self::builder::TcpSocket;
pub use self::split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use self::udp::UdpSocket;

/// A connection.
pub struct TcpStream(Stream);

/// A listener, on all CPUs of the stack.
pub struct TcpListener(Listener);

tcp_options!(TcpStream, |stream| &stream.0);

impl TcpStream {
    /// Connects: to `"10.0.0.1:80"`, `("10.0.0.1", 80)`, a `SocketAddr`, or each of several until one accepts. Names are
    /// resolved by the system, in the kernel's network.
    ///
    /// # Errors
    ///
    /// The errors of `connect(2)`, of the last address; `InvalidInput` without any address.
    pub async fn connect(sockets: &Sockets, addr: impl ToSocketAddrs) -> io::Result<Self> {
        Self::connect_with(sockets, addr, &Options::new()).await
    }

    /// Connects with options.
    ///
    /// # Errors
    ///
    /// As [`Self::connect`].
    pub async fn connect_with(
        sockets: &Sockets,
        addr: impl ToSocketAddrs,
        options: &Options,
    ) -> io::Result<Self> {
        each(addr, |addr| async move {
            let settings = options.settings(addr)?;
            Stream::connect(&sockets.endpoint, addr, options.local, settings, &[]).await.map(Self)
        })
        .await
    }

    /// Connects with options, and sends `early`, which is no longer than a segment, with the SYN if it can.
    #[cfg(feature = "cli")]
    pub(crate) async fn connect_early(
        sockets: &Sockets,
        addr: SocketAddr,
        options: &Options,
        early: &[u8],
    ) -> io::Result<Self> {
        let settings = options.settings(addr)?;
        Stream::connect(&sockets.endpoint, addr, options.local, settings, early).await.map(Self)
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

    /// Splits it into halves that borrow it, for two futures of one task.
    pub const fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        (ReadHalf(self), WriteHalf(self))
    }

    /// Splits it into halves for two tasks. [`OwnedReadHalf::reunite`] joins them again; the connection is closed when both are
    /// dropped, and a write half that is dropped shuts its direction down.
    #[must_use]
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        split::owned(self)
    }

    /// Changes how it behaves.
    #[cfg(feature = "cli")]
    pub(crate) fn change(&self, settings: &[Setting]) -> io::Result<()> {
        self.0.set(settings)
    }

    /// Returns its addresses, and the CPU where it is.
    #[cfg(feature = "cli")]
    pub(crate) fn place(&self) -> io::Result<(usize, FourTuple)> {
        Ok((self.0.cpu(), self.0.ends()?))
    }

    /// Peeks at received bytes without consuming them.
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

impl core::fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TcpListener").field("addr", &self.0.addr()).finish()
    }
}

impl TcpListener {
    /// Binds and listens on all CPUs: at `"10.0.0.1:80"`, `("::", 80)`, a `SocketAddr`, or the first of several that it can.
    ///
    /// # Errors
    ///
    /// The errors of `bind(2)` and `listen(2)`, of the last address; `InvalidInput` without any address.
    pub async fn bind(sockets: &Sockets, addr: impl ToSocketAddrs) -> io::Result<Self> {
        Self::bind_with(sockets, addr, &Options::new()).await
    }

    /// Binds with options, which accepted connections inherit.
    ///
    /// # Errors
    ///
    /// As [`Self::bind`].
    pub async fn bind_with(
        sockets: &Sockets,
        addr: impl ToSocketAddrs,
        options: &Options,
    ) -> io::Result<Self> {
        each(addr, |addr| async move {
            Listener::bind(&sockets.endpoint, options.place(addr), options.settings(addr)?).await.map(Self)
        })
        .await
    }

    /// Takes connections, or has another backlog, on all CPUs when this ends.
    #[cfg(feature = "cli")]
    pub(crate) async fn open(&self, backlog: u32) -> io::Result<()> {
        self.0.open(backlog).await
    }

    /// Changes how connections behave that are accepted from now on.
    #[cfg(feature = "cli")]
    pub(crate) fn set(&self, settings: &[Setting]) -> io::Result<()> {
        self.0.set(settings)
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
