//! The admin API and the dashboard over TCP, for browsers and for Prometheus.
//!
//! ```text
//!   connection ─▶ Host, Origin ─▶ page ─▶ token ─▶ reads only ─▶ routes of the admin API
//! ```
//!
//! Browsers are the reason for what stands before the routes: any web page may let a browser send requests here. A page of
//! a name that resolves to this machine (DNS rebinding) is stopped by `Host`, one of another origin by `Origin` and by the
//! token, which browsers do not send by themselves.

mod counters;
mod guard;
mod page;
mod token;

use core::convert::Infallible;
use core::net::SocketAddr;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};

use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use rustix::net::sockopt::{set_socket_reuseaddr, set_socket_reuseport};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tokio::sync::Notify;

use super::accept::{self, Limits};
use super::body::{self, Bodies};
use super::{SharedStack, routes};
use crate::api::stack::Stack;
use crate::api::types::{HttpCounter, HttpListener};
use crate::config;
use crate::daemon::log;

pub(super) use counters::{HttpCounters, HttpEvent};
use guard::Guard;
pub(crate) use token::Token;

/// Connections that wait to be accepted, as those of the standard library's listeners.
const BACKLOG: i32 = 128;

/// The HTTP listener in force, and its counters, which stay when it changes.
#[derive(Default)]
pub(crate) struct HttpService {
    in_force: Mutex<Option<Arc<OpenHttp>>>,
    changed: Notify,
    counters: Arc<HttpCounters>,
}

/// A listener with all that its requests are checked by.
pub(crate) struct OpenHttp {
    config: config::Http,
    token: Option<Token>,
    listener: Arc<TcpListener>,
}

impl OpenHttp {
    /// Listens, unless `before` listens at the same address already.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub(crate) fn open(
        config: config::Http,
        token: Option<Token>,
        before: Option<&Self>,
    ) -> io::Result<Self> {
        let listener = match before.filter(|before| before.config.listen == config.listen) {
            Some(before) => Arc::clone(&before.listener),
            None => Arc::new(listen(config.listen, before.map(|before| &*before.listener))?),
        };
        Ok(Self { config, token, listener })
    }

    /// Whether it is as the configuration and the token file have it.
    pub(crate) fn is_as(&self, config: &config::Http, token: Option<&Token>) -> bool {
        self.config == *config && self.token.as_ref() == token
    }

    /// Returns its configuration.
    pub(crate) const fn config(&self) -> &config::Http {
        &self.config
    }

    fn serve(
        &self,
        stack: SharedStack,
        counters: &Arc<HttpCounters>,
    ) -> io::Result<impl Future<Output = Infallible> + use<>> {
        let limits = Limits::default();
        let router = routes::whole_router(stack).layer(from_fn_with_state(Bodies::new(limits), body::read));
        let router = if self.config.write { router } else { router.layer(from_fn(body::only_reads)) };
        let guard = Guard::new(self.config.hosts.clone(), self.token.clone(), Arc::clone(counters));
        let router =
            router.route("/", get(page::page)).layer(from_fn_with_state(Arc::new(guard), guard::check));
        let listener = tokio::net::TcpListener::from_std(self.listener.try_clone()?)?;
        Ok(accept::serve(listener, router, limits, Arc::clone(counters)))
    }
}

/// Listens at an address, also where `before` still does at the same port: of one of its addresses instead of all, or of all instead of
/// one.
fn listen(addr: SocketAddr, before: Option<&TcpListener>) -> io::Result<TcpListener> {
    let is_same_port =
        |before: &&TcpListener| before.local_addr().is_ok_and(|before| before.port() == addr.port());
    let listener = match (TcpListener::bind(addr), before.filter(is_same_port)) {
        (Err(why), Some(before)) if why.kind() == io::ErrorKind::AddrInUse => listen_beside(before, addr)?,
        (listener, _) => listener?,
    };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Listens beside another listener of ours. In the meantime, programs of the same user may do so too.
fn listen_beside(before: &TcpListener, addr: SocketAddr) -> io::Result<TcpListener> {
    let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&socket, true)?;
    set_socket_reuseport(&socket, true)?;
    set_socket_reuseport(before, true)?;
    // Each looks for others at the port.
    let listens = rustix::net::bind(&socket, &addr).and_then(|()| rustix::net::listen(&socket, BACKLOG));
    set_socket_reuseport(before, false)?;
    set_socket_reuseport(&socket, false)?;
    listens?;
    Ok(socket.into())
}

impl HttpService {
    /// Returns the listener in force.
    pub(crate) fn in_force(&self) -> Option<Arc<OpenHttp>> {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another listener in force, or none. Connections of the one before are closed.
    pub(crate) fn set(&self, open: Option<OpenHttp>) {
        *self.in_force.lock().unwrap_or_else(PoisonError::into_inner) = open.map(Arc::new);
        self.changed.notify_one();
    }

    /// Returns the listener as the admin API shows it.
    pub(crate) fn status(&self) -> Option<HttpListener> {
        let open = self.in_force()?;
        let counter = |event: HttpEvent| HttpCounter {
            name: event.name().to_owned(),
            sentence: event.sentence().to_owned(),
            count: self.counters.count(event),
        };
        Some(HttpListener {
            listen: open.config.listen.to_string(),
            token: open.token.is_some(),
            write: open.config.write,
            counters: HttpEvent::ALL.into_iter().map(counter).collect(),
        })
    }

    /// Serves `stack` at the listener in force, whichever that is, for ever.
    pub(crate) async fn serve(&self, stack: Arc<Mutex<dyn Stack>>) -> Infallible {
        let stack = SharedStack::new(stack, Some(Arc::clone(&self.counters)));
        loop {
            let served = self.in_force().and_then(|open| match open.serve(stack.clone(), &self.counters) {
                Ok(served) => Some(served),
                Err(why) => {
                    log::error(&format!("[http] listen {}: {why}", open.config.listen));
                    None
                }
            });
            match served {
                None => self.changed.notified().await,
                Some(served) => tokio::select! {
                    never = served => match never {},
                    () = self.changed.notified() => {}
                },
            }
        }
    }
}

/// Routes of the listener besides those of the admin API. They need no token, and say nothing of the stack.
fn is_public(path: &str) -> bool {
    path == "/"
}
