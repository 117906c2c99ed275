//! The client side of the admin API, as the commands use it.

use core::ops::ControlFlow;
use std::io;
use std::path::{Path, PathBuf};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

use super::types::{CaptureRequest, Error, PingEvent, PingRequest, StackChange, TraceRequest, TracedPacket};

/// Enough for a table of a million routes.
const ANSWER_MAX: usize = 512 << 20;
/// One event of a ping.
const LINE_MAX: usize = 64 * 1024;

/// Speaks to a running pantala, one request at a time.
#[derive(Debug)]
pub struct Client {
    socket: PathBuf,
    runtime: Runtime,
}

/// Why a request brought no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Connection refused.
    #[error(
        "no pantala is running at {}; start one with `pantala up`, or name another socket with --socket",
        .0.display()
    )]
    NotRunning(PathBuf),
    /// The socket cannot be used.
    #[error("cannot use {}: {why}", socket.display())]
    Socket {
        /// The socket.
        socket: PathBuf,
        /// The reason.
        why: io::Error,
    },
    /// The peer does not speak this API.
    #[error("the program at {} is not this version of pantala: {why}", socket.display())]
    Strange {
        /// The socket.
        socket: PathBuf,
        /// The difference.
        why: String,
    },
    /// It was understood and refused.
    #[error(transparent)]
    Refused(#[from] Error),
    /// The output can no longer be written.
    #[error(transparent)]
    Output(io::Error),
}

impl Client {
    /// A client for the socket at `path`. Nothing is connected yet.
    ///
    /// # Errors
    /// The operating system gives no event queue.
    pub fn new(path: &Path) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { socket: path.to_owned(), runtime })
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.request(Method::GET, path, None::<&()>)
    }

    /// Makes or triggers something.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, ClientError> {
        self.request(Method::POST, path, Some(body))
    }

    /// Changes a part of something.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn patch<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, ClientError> {
        self.request(Method::PATCH, path, Some(body))
    }

    /// Puts something in its place.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn put<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, ClientError> {
        self.request(Method::PUT, path, Some(body))
    }

    /// Removes something.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.request(Method::DELETE, path, None::<&()>)
    }

    /// Reads a resource that is text.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn text(&self, path: &str) -> Result<String, ClientError> {
        let bytes = self.runtime.block_on(self.exchange(Method::GET, path, Vec::new()))?;
        String::from_utf8(bytes.into()).map_err(|_| self.strange("not UTF-8"))
    }

    /// Pings, and shows each event to `see` until it breaks off, the ping is done or the user interrupts.
    ///
    /// # Errors
    /// See [`ClientError`]; [`ClientError::Output`] is what `see` fails with.
    pub fn ping(
        &self,
        request: &PingRequest,
        see: impl FnMut(PingEvent) -> io::Result<ControlFlow<()>>,
    ) -> Result<(), ClientError> {
        self.stream(Method::POST, "/v1/ping", request, see)
    }

    /// Captures packets, and shows the pcapng part by part to `see`, until that breaks off or the stack ends.
    ///
    /// # Errors
    /// See [`ClientError`]; [`ClientError::Output`] is what `see` fails with.
    pub fn capture(
        &self,
        request: &CaptureRequest,
        mut see: impl FnMut(&[u8]) -> io::Result<ControlFlow<()>>,
    ) -> Result<(), ClientError> {
        let body = serde_json::to_vec(request).unwrap_or_default();
        self.runtime.block_on(async {
            let answer = self.send(Method::POST, "/v1/capture", body).await?;
            if !answer.status().is_success() {
                return Err(self.refusal(answer).await);
            }
            let mut parts = answer.into_body();
            while let Some(frame) = parts.frame().await {
                let frame = frame.map_err(|why| self.strange(why))?;
                let part = frame.data_ref().map_or(&[][..], |bytes| bytes);
                if see(part).map_err(ClientError::Output)?.is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Traces packets, and shows one after the other to `see`, until that breaks off, all have come, or the stack ends. An
    /// interrupt ends it.
    ///
    /// # Errors
    /// See [`ClientError`]; [`ClientError::Output`] is what `see` fails with.
    pub fn trace(
        &self,
        request: &TraceRequest,
        see: impl FnMut(TracedPacket) -> io::Result<ControlFlow<()>>,
    ) -> Result<(), ClientError> {
        self.stream(Method::POST, "/v1/trace", request, see)
    }

    /// Shows changes of the stack to `see`, until that breaks off or the stack ends. An interrupt ends it.
    ///
    /// # Errors
    /// See [`ClientError`]; [`ClientError::Output`] is what `see` fails with.
    pub fn changes(
        &self,
        see: impl FnMut(StackChange) -> io::Result<ControlFlow<()>>,
    ) -> Result<(), ClientError> {
        self.stream(Method::GET, "/v1/changes", &(), see)
    }

    /// Sends a request, and shows the lines of its answer to `see`, until that breaks off, all have come or the user interrupts.
    fn stream<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        request: &impl Serialize,
        mut see: impl FnMut(T) -> io::Result<ControlFlow<()>>,
    ) -> Result<(), ClientError> {
        let body = serde_json::to_vec(request).unwrap_or_default();
        self.runtime.block_on(async {
            let answer = self.send(method, path, body).await?;
            if !answer.status().is_success() {
                return Err(self.refusal(answer).await);
            }
            tokio::select! {
                ended = self.events(answer.into_body(), &mut see) => ended,
                _ = tokio::signal::ctrl_c() => Ok(()),
            }
        })
    }

    async fn events<T: DeserializeOwned>(
        &self,
        mut body: Incoming,
        see: &mut impl FnMut(T) -> io::Result<ControlFlow<()>>,
    ) -> Result<(), ClientError> {
        let mut held = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|why| self.strange(why))?;
            held.extend_from_slice(frame.data_ref().map_or(&[][..], |bytes| bytes));
            while let Some(end) = held.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = held.drain(..=end).collect();
                let event = serde_json::from_slice(&line).map_err(|why| self.strange(why))?;
                if see(event).map_err(ClientError::Output)?.is_break() {
                    return Ok(());
                }
            }
            if held.len() > LINE_MAX {
                return Err(self.strange("a line without end"));
            }
        }
        Ok(())
    }

    fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, ClientError> {
        let body = body.map(serde_json::to_vec).transpose().map_err(|why| self.strange(why))?;
        let bytes = self.runtime.block_on(self.exchange(method, path, body.unwrap_or_default()))?;
        serde_json::from_slice(&bytes).map_err(|why| self.strange(why))
    }

    async fn exchange(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Bytes, ClientError> {
        let answer = self.send(method, path, body).await?;
        if !answer.status().is_success() {
            return Err(self.refusal(answer).await);
        }
        self.whole(answer.into_body()).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, ClientError> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|why| self.unconnected(why))?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(|why| self.strange(why))?;
        // It ends by itself when the answer has been read.
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "pantala")
            .body(Full::new(Bytes::from(body)))
            .map_err(|why| self.strange(why))?;
        sender.send_request(request).await.map_err(|why| self.strange(why))
    }

    async fn whole(&self, body: Incoming) -> Result<Bytes, ClientError> {
        let body = Limited::new(body, ANSWER_MAX).collect().await;
        Ok(body.map_err(|why| self.strange(why))?.to_bytes())
    }

    async fn refusal(&self, answer: Response<Incoming>) -> ClientError {
        let status = answer.status();
        match self.whole(answer.into_body()).await {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_or_else(|_| self.strange(plain(status)), ClientError::Refused),
            Err(error) => error,
        }
    }

    fn unconnected(&self, why: io::Error) -> ClientError {
        let socket = self.socket.clone();
        match why.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => ClientError::NotRunning(socket),
            _ => ClientError::Socket { socket, why },
        }
    }

    fn strange(&self, why: impl ToString) -> ClientError {
        ClientError::Strange { socket: self.socket.clone(), why: why.to_string() }
    }
}

fn plain(status: StatusCode) -> String {
    format!("HTTP status {status}")
}

/// Escapes `text` as one segment of a path: bytes that have a meaning there become `%XX`.
#[must_use]
pub fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':');
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
