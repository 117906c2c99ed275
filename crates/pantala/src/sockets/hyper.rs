//! A connector for the HTTP clients of hyper-util, in place of its `HttpConnector`.
//!
//! ```
//! use http_body_util::Empty;
//! use hyper::body::Bytes;
//! use hyper_util::client::legacy::Client;
//! use hyper_util::rt::TokioExecutor;
//! use pantala::sockets::{Sockets, hyper::Connector};
//!
//! fn client(sockets: &Sockets) -> Client<Connector, Empty<Bytes>> {
//!     Client::builder(TokioExecutor::new()).build(Connector::new(sockets))
//! }
//! ```

use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;

use ::hyper::Uri;
use ::hyper::http::uri::Scheme;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tower_service::Service;

use super::aio::TcpStream;
use super::{Options, Sockets};

/// Connects to the host of a URI over a stack. It knows no TLS; what adds it wraps this connector.
#[derive(Clone, Debug)]
pub struct Connector {
    sockets: Sockets,
    options: Options,
    enforces_http: bool,
}

/// The addresses of a connection, among the extensions of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpInfo {
    /// Local address.
    pub local: SocketAddr,
    /// Address of the server.
    pub remote: SocketAddr,
}

impl Connector {
    /// A connector for `http` URIs.
    #[must_use]
    pub fn new(sockets: &Sockets) -> Self {
        Self { sockets: sockets.clone(), options: Options::new(), enforces_http: true }
    }

    /// Sets the options of connections.
    #[must_use]
    pub fn options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// Sets whether URIs of another scheme than `http` are refused, which is so unless said otherwise. Not so below a connector
    /// that adds TLS.
    #[must_use]
    pub fn enforce_http(self, enforces_http: bool) -> Self {
        Self { enforces_http, ..self }
    }

    /// The host and port of a URI.
    fn target(&self, uri: &Uri) -> io::Result<(String, u16)> {
        let wrong = |text| io::Error::new(io::ErrorKind::InvalidInput, text);
        if self.enforces_http && uri.scheme() != Some(&Scheme::HTTP) {
            return Err(wrong("the URI must have the scheme `http`"));
        }
        let host = uri.host().ok_or_else(|| wrong("the URI has no host"))?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let usual = if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
        Ok((bare.to_owned(), uri.port_u16().unwrap_or(usual)))
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (target, sockets, options) = (self.target(&uri), self.sockets.clone(), self.options.clone());
        Box::pin(async move { TcpStream::connect_with(&sockets, target?, &options).await.map(TokioIo::new) })
    }
}

impl Connection for TcpStream {
    fn connected(&self) -> Connected {
        match (self.local_addr(), self.peer_addr()) {
            (Ok(local), Ok(remote)) => Connected::new().extra(HttpInfo { local, remote }),
            _ => Connected::new(),
        }
    }
}
