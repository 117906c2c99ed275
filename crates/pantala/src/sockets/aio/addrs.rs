//! Addresses of a call, as `tokio::net` takes them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::io;
use std::thread;

use tokio::sync::{Semaphore, oneshot};

use crate::sockets::addrs::no_addresses;

/// Names that are resolved at a time; others wait.
const LOOKUPS_MAX: usize = 64;
static LOOKUPS: Semaphore = Semaphore::const_new(LOOKUPS_MAX);

/// The addresses that [`bind`](super::TcpListener::bind), [`connect`](super::TcpStream::connect) and
/// [`send_to`](super::UdpSocket::send_to) take: the types that [`std::net::ToSocketAddrs`] is for. It cannot be implemented
/// elsewhere.
///
/// An address is used at once. A name is looked up by the system's resolver, on a thread of its own and in the kernel's
/// network, so any executor can wait for it.
pub trait ToSocketAddrs: Resolve {}

impl<T: Resolve + ?Sized> ToSocketAddrs for T {}

/// Addresses, or a name that is to be looked up.
#[expect(unnameable_types, reason = "it is behind the seal of `ToSocketAddrs`")]
pub enum Target {
    /// One address.
    One(SocketAddr),
    /// Several addresses, or none.
    Several(Vec<SocketAddr>),
    /// `HOST:PORT`.
    Name(String),
    /// A host and a port.
    Host(String, u16),
}

pub(super) mod sealed {
    use super::Target;

    /// The half that only this crate implements.
    #[expect(unnameable_types, reason = "that is the seal")]
    pub trait Resolve {
        /// Returns the addresses, or the name that has to be looked up.
        fn target(&self) -> Target;
    }
}
use sealed::Resolve;

impl Target {
    /// The addresses, which a name has to be looked up for.
    async fn all(self) -> io::Result<Vec<SocketAddr>> {
        match self {
            Self::One(addr) => Ok(vec![addr]),
            Self::Several(addrs) => Ok(addrs),
            Self::Name(name) => look_up(move || std::net::ToSocketAddrs::to_socket_addrs(&*name)).await,
            Self::Host(name, port) => {
                look_up(move || std::net::ToSocketAddrs::to_socket_addrs(&(&*name, port))).await
            }
        }
    }

    /// The first address.
    async fn first(self) -> io::Result<SocketAddr> {
        match self {
            Self::One(addr) => Ok(addr),
            other => other.all().await?.first().copied().ok_or_else(no_addresses),
        }
    }
}

/// Resolves a name on a thread of its own.
async fn look_up<A: Iterator<Item = SocketAddr>>(
    resolve: impl FnOnce() -> io::Result<A> + Send + 'static,
) -> io::Result<Vec<SocketAddr>> {
    let (told, found) = oneshot::channel();
    // The semaphore is never closed.
    let permit = LOOKUPS.acquire().await.map_err(io::Error::other)?;
    thread::Builder::new().name("resolver".to_owned()).spawn(move || {
        let _permit = permit;
        // The caller may have gone.
        let _ = told.send(resolve().map(Iterator::collect));
    })?;
    found.await.map_err(io::Error::other)?
}

/// Types that are an address.
macro_rules! addresses {
    ($($type:ty),*) => {
        $(impl Resolve for $type {
            fn target(&self) -> Target {
                Target::One(SocketAddr::from(*self))
            }
        })*
    };
}

addresses! { SocketAddr, SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16) }

impl Resolve for [SocketAddr] {
    fn target(&self) -> Target {
        Target::Several(self.to_vec())
    }
}

impl Resolve for str {
    fn target(&self) -> Target {
        self.parse().map_or_else(|_| Target::Name(self.to_owned()), Target::One)
    }
}

impl Resolve for String {
    fn target(&self) -> Target {
        self.as_str().target()
    }
}

impl Resolve for (&str, u16) {
    fn target(&self) -> Target {
        let &(host, port) = self;
        let addr = host.parse::<IpAddr>();
        addr.map_or_else(|_| Target::Host(host.to_owned(), port), |ip| Target::One(SocketAddr::new(ip, port)))
    }
}

impl Resolve for (String, u16) {
    fn target(&self) -> Target {
        (self.0.as_str(), self.1).target()
    }
}

impl<T: Resolve + ?Sized> Resolve for &T {
    fn target(&self) -> Target {
        (**self).target()
    }
}

/// Does `attempt` with each address until one succeeds; else returns the last error. The future does not keep `addr`.
pub(super) fn each<T, F: Future<Output = io::Result<T>>>(
    addr: impl ToSocketAddrs,
    mut attempt: impl FnMut(SocketAddr) -> F,
) -> impl Future<Output = io::Result<T>> {
    let target = addr.target();
    async move {
        if let Target::One(addr) = target {
            return attempt(addr).await;
        }
        let mut last = None;
        for addr in target.all().await? {
            match attempt(addr).await {
                Ok(done) => return Ok(done),
                Err(why) => last = Some(why),
            }
        }
        Err(last.unwrap_or_else(no_addresses))
    }
}

/// The first address. The future does not keep `addr`.
pub(super) fn first(addr: impl ToSocketAddrs) -> impl Future<Output = io::Result<SocketAddr>> {
    addr.target().first()
}
