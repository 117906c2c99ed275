//! Halves of a connection, as in `tokio::net::tcp`.

use core::fmt;
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::TcpStream;

/// The read half of a borrowed connection: [`TcpStream::split`].
#[derive(Debug)]
pub struct ReadHalf<'a>(pub(super) &'a TcpStream);

/// The write half of a borrowed connection: [`TcpStream::split`].
#[derive(Debug)]
pub struct WriteHalf<'a>(pub(super) &'a TcpStream);

/// The read half of a connection: [`TcpStream::into_split`].
#[derive(Debug)]
pub struct OwnedReadHalf(Arc<TcpStream>);

/// The write half of a connection: [`TcpStream::into_split`]. When it is dropped, the peer reads the end of the stream.
#[derive(Debug)]
pub struct OwnedWriteHalf {
    stream: Arc<TcpStream>,
    /// False once it is reunited or forgotten.
    shuts_down: bool,
}

/// Two halves of different connections.
#[derive(Debug)]
pub struct ReuniteError(
    /// The read half that was given.
    pub OwnedReadHalf,
    /// The write half that was given.
    pub OwnedWriteHalf,
);

pub(super) fn owned(stream: TcpStream) -> (OwnedReadHalf, OwnedWriteHalf) {
    halves(Arc::new(stream))
}

fn halves(stream: Arc<TcpStream>) -> (OwnedReadHalf, OwnedWriteHalf) {
    (OwnedReadHalf(Arc::clone(&stream)), OwnedWriteHalf { stream, shuts_down: true })
}

impl OwnedReadHalf {
    /// Joins the two halves of a connection.
    ///
    /// # Errors
    ///
    /// Both, if they are of different connections.
    pub fn reunite(self, other: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
        if !Arc::ptr_eq(&self.0, &other.stream) {
            return Err(ReuniteError(self, other));
        }
        other.forget();
        // There are no other clones.
        Arc::try_unwrap(self.0).map_err(|stream| {
            let (reader, writer) = halves(stream);
            ReuniteError(reader, writer)
        })
    }

    /// Peeks at received bytes without consuming them.
    ///
    /// # Errors
    ///
    /// As [`TcpStream::peek`].
    pub async fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        self.0.peek(into).await
    }

    /// Returns the remote address.
    ///
    /// # Errors
    ///
    /// None; it returns a result as `tokio::net` does.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    /// Returns the local address.
    ///
    /// # Errors
    ///
    /// None; it returns a result as `tokio::net` does.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl OwnedWriteHalf {
    /// Joins the two halves of a connection.
    ///
    /// # Errors
    ///
    /// Both, if they are of different connections.
    pub fn reunite(self, other: OwnedReadHalf) -> Result<TcpStream, ReuniteError> {
        other.reunite(self)
    }

    /// Drops it without shutting its direction down.
    pub fn forget(mut self) {
        self.shuts_down = false;
    }

    /// Returns the remote address.
    ///
    /// # Errors
    ///
    /// None; it returns a result as `tokio::net` does.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }

    /// Returns the local address.
    ///
    /// # Errors
    ///
    /// None; it returns a result as `tokio::net` does.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        if self.shuts_down {
            self.stream.0.shut();
        }
    }
}

impl AsRef<TcpStream> for OwnedReadHalf {
    fn as_ref(&self) -> &TcpStream {
        &self.0
    }
}

impl AsRef<TcpStream> for OwnedWriteHalf {
    fn as_ref(&self) -> &TcpStream {
        &self.stream
    }
}

/// Halves read and write as a shared connection does.
macro_rules! reads {
    ($half:ty, |$own:ident| $stream:expr) => {
        impl AsyncRead for $half {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                into: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                let $own = &*self;
                let mut stream: &TcpStream = $stream;
                Pin::new(&mut stream).poll_read(context, into)
            }
        }
    };
}

macro_rules! writes {
    ($half:ty, |$own:ident| $stream:expr) => {
        impl AsyncWrite for $half {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                let $own = &*self;
                let mut stream: &TcpStream = $stream;
                Pin::new(&mut stream).poll_write(context, bytes)
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                let $own = &*self;
                let mut stream: &TcpStream = $stream;
                Pin::new(&mut stream).poll_shutdown(context)
            }
        }
    };
}

reads!(ReadHalf<'_>, |half| half.0);
reads!(OwnedReadHalf, |half| &half.0);
writes!(WriteHalf<'_>, |half| half.0);
writes!(OwnedWriteHalf, |half| &half.stream);

impl fmt::Display for ReuniteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the halves are of different connections")
    }
}

impl core::error::Error for ReuniteError {}
