//! Sockets that block, as in [`std::net`]: the same names, the same errors, the same timeouts. What is different is said
//! where it is, and in `docs/reference/SOCKETS.md`.

mod builder;
mod udp;

use core::future::poll_fn;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Poll, Waker};
use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::{Shutdown, ToSocketAddrs};
use std::sync::{Arc, Mutex};

use net::channel::Setting;

use super::Sockets;
use super::addrs::each;
use super::endpoint::lock;
use super::listener::Listener;
use super::options::{KeepAlive, Options, keep};
use super::stream::Stream;
use super::tcp::tcp_options;
use super::wakers::{block_on, now};

pub use self::builder::TcpSocket;
pub use self::udp::UdpSocket;

/// A connection.
#[derive(Clone)]
pub struct TcpStream(Arc<Blocking<Stream>>);

/// A listener, on all CPUs of the stack.
#[derive(Clone)]
pub struct TcpListener(Arc<Blocking<Listener>>);

/// A socket, and how long its program waits for it.
struct Blocking<T> {
    socket: T,
    is_nonblocking: AtomicBool,
    read_timeout: Mutex<Option<Duration>>,
    write_timeout: Mutex<Option<Duration>>,
}

impl<T> Blocking<T> {
    fn new(socket: T) -> Arc<Self> {
        let (is_nonblocking, read_timeout) = (AtomicBool::new(false), Mutex::default());
        Arc::new(Self { socket, is_nonblocking, read_timeout, write_timeout: Mutex::default() })
    }

    fn wait<R>(
        &self,
        timeout: &Mutex<Option<Duration>>,
        mut what: impl FnMut(&Waker) -> Poll<io::Result<R>>,
    ) -> io::Result<R> {
        if self.is_nonblocking.load(Ordering::Relaxed) {
            return now(what);
        }
        let timeout = *lock(timeout);
        block_on(timeout, poll_fn(|context| what(context.waker())))
    }
}

tcp_options!(TcpStream, |stream| &stream.0.socket);

impl TcpStream {
    /// Connects: to `"10.0.0.1:80"`, `("10.0.0.1", 80)`, a `SocketAddr`, or each of several until one accepts. Names are
    /// resolved by the system, in the kernel's network.
    ///
    /// # Errors
    ///
    /// The errors of `connect(2)`, of the last address; `InvalidInput` without any address.
    pub fn connect(sockets: &Sockets, addr: impl ToSocketAddrs) -> io::Result<Self> {
        Self::connect_with(sockets, addr, &Options::new())
    }

    /// Connects with options.
    ///
    /// # Errors
    ///
    /// As [`Self::connect`].
    pub fn connect_with(sockets: &Sockets, addr: impl ToSocketAddrs, options: &Options) -> io::Result<Self> {
        each(addr, |addr| Self::connect_to(sockets, &addr, options, None))
    }

    /// Connects to one address, within `timeout`.
    ///
    /// # Errors
    ///
    /// As [`Self::connect`], and of the kind `TimedOut`.
    pub fn connect_timeout(sockets: &Sockets, addr: &SocketAddr, timeout: Duration) -> io::Result<Self> {
        check(Some(timeout))?;
        let connected = Self::connect_to(sockets, addr, &Options::new(), Some(timeout));
        connected.map_err(|why| match why.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => why,
        })
    }

    pub(crate) fn connect_to(
        sockets: &Sockets,
        addr: &SocketAddr,
        options: &Options,
        timeout: Option<Duration>,
    ) -> io::Result<Self> {
        let connects =
            Stream::connect(&sockets.endpoint, *addr, options.local, options.settings(*addr)?, &[]);
        block_on(timeout, connects).map(|stream| Self(Blocking::new(stream)))
    }

    /// The other end.
    ///
    /// # Errors
    ///
    /// None; it returns a result as `std::net` does.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.socket.ends().map(|ends| ends.remote())
    }

    /// This end.
    ///
    /// # Errors
    ///
    /// None; it returns a result as `std::net` does.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.socket.ends().map(|ends| ends.local())
    }

    /// Reads no more, or sends no more, or both. A thread that waits to read is woken.
    ///
    /// # Errors
    ///
    /// `NotConnected` if the connection has ended.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.socket.shutdown(how)
    }

    /// Returns another handle of the connection; it is closed when all are dropped.
    ///
    /// # Errors
    ///
    /// None; it returns a result as `std::net` does.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(self.clone())
    }

    /// Sets the read timeout; afterwards a read fails with `WouldBlock`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` of no time at all.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        *lock(&self.0.read_timeout) = check(timeout)?;
        Ok(())
    }

    /// Sets the write timeout; afterwards a write fails with `WouldBlock`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` of no time at all.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        *lock(&self.0.write_timeout) = check(timeout)?;
        Ok(())
    }

    /// Returns the read timeout.
    ///
    /// # Errors
    ///
    /// None; it returns a result as `std::net` does.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(*lock(&self.0.read_timeout))
    }

    /// Returns the write timeout.
    ///
    /// # Errors
    ///
    /// None; it returns a result as `std::net` does.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(*lock(&self.0.write_timeout))
    }

    /// Sets non-blocking mode: calls that would wait fail with `WouldBlock`.
    ///
    /// # Errors
    ///
    /// None; it returns a result as `std::net` does.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.is_nonblocking.store(nonblocking, Ordering::Relaxed);
        Ok(())
    }

    /// Reads, and what was read stays.
    ///
    /// # Errors
    ///
    /// Those of `recv(2)`.
    pub fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        self.0.wait(&self.0.read_timeout, |waker| self.0.socket.poll_peek(waker, into))
    }
}

impl Read for &TcpStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.wait(&self.0.read_timeout, |waker| self.0.socket.poll_read(waker, into))
    }
}

impl Write for &TcpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.wait(&self.0.write_timeout, |waker| self.0.socket.poll_write(waker, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }
}

impl Write for TcpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl core::fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TcpListener").field("addr", &self.0.socket.addr()).finish()
    }
}

impl TcpListener {
    /// Binds and listens on all CPUs: at `"10.0.0.1:80"`, `("::", 80)`, a `SocketAddr`, or the first of several that it can.
    ///
    /// # Errors
    ///
    /// The errors of `bind(2)` and `listen(2)`, of the last address; `InvalidInput` without any address.
    pub fn bind(sockets: &Sockets, addr: impl ToSocketAddrs) -> io::Result<Self> {
        Self::bind_with(sockets, addr, &Options::new())
    }

    /// Binds with options, which accepted connections inherit.
    ///
    /// # Errors
    ///
    /// As [`Self::bind`].
    pub fn bind_with(sockets: &Sockets, addr: impl ToSocketAddrs, options: &Options) -> io::Result<Self> {
        each(addr, |addr| {
            let binds = Listener::bind(&sockets.endpoint, options.place(addr), options.settings(addr)?);
            block_on(None, binds).map(|listener| Self(Blocking::new(listener)))
        })
    }

    /// Where it waits.
    ///
    /// # Errors
    ///
    /// None; it returns a result as `std::net` does.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.socket.addr())
    }

    /// The next connection, of whichever CPU.
    ///
    /// # Errors
    ///
    /// Those of `accept(2)`.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let stream = self.0.wait(&self.0.read_timeout, |waker| self.0.socket.poll_accept(waker))?;
        let remote = stream.ends()?.remote();
        Ok((TcpStream(Blocking::new(stream)), remote))
    }

    /// All connections that will come.
    pub fn incoming(&self) -> impl Iterator<Item = io::Result<TcpStream>> {
        core::iter::repeat_with(|| self.accept().map(|(stream, _)| stream))
    }

    /// If none waits, [`Self::accept`] fails with `WouldBlock`.
    ///
    /// # Errors
    ///
    /// None; it returns a result as `std::net` does.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.is_nonblocking.store(nonblocking, Ordering::Relaxed);
        Ok(())
    }

    /// Returns another handle of the listener; it goes when all are dropped.
    ///
    /// # Errors
    ///
    /// None; it returns a result as `std::net` does.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(self.clone())
    }
}

/// No time at all is not a timeout.
fn check(timeout: Option<Duration>) -> io::Result<Option<Duration>> {
    if timeout.is_some_and(|timeout| timeout.is_zero()) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(timeout)
}
