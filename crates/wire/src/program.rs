//! Messages between a process whose sockets pantala serves and the daemon, and the names of those sockets.
//!
//! A process sends a [`Request`] and gets a [`Reply`], in order, on one Unix stream. A socket is one end of a pair of Unix
//! sockets; the daemon's end is bound to an abstract name that says which socket it is ([`Name`]). A process therefore
//! keeps no table: `dup`, `fork`, `exec` and `SCM_RIGHTS` carry a socket's identity as they carry its descriptor.
//!
//! Neither end trusts what the other sends. Each message has one length, and what cannot be is `None`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Bytes of a socket address: family, address, port, scope.
pub const ADDR_LEN: usize = 23;
/// Bytes of a request.
pub const REQUEST_LEN: usize = 64;
/// Bytes of a reply.
pub const REPLY_LEN: usize = 32;
/// Bytes of a name, without the NUL in front that makes it an abstract one.
pub const NAME_LEN: usize = 16 + 2 * ADDR_LEN;

const MARK: &[u8; 7] = b"pantala";
/// In the family of an address: see [`mark_returned`].
const RETURNED: u8 = 0x80;
const _: () = assert!(10 + 2 * ADDR_LEN <= REQUEST_LEN && 4 + ADDR_LEN <= REPLY_LEN);

/// The kind of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It is bound, and accepts connections or will.
    Listener,
    /// A connection, or one that begins.
    Stream,
    /// A socket of datagrams. Each message on the pair is one; it begins with the peer's address ([`emit_addr`]) unless the socket
    /// is connected.
    Datagram,
}

/// The transport protocol of a socket that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// The identity of a socket, as the peer's name of its Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// Its kind.
    pub role: Role,
    /// Its number, which is unique in a daemon's life.
    pub id: u64,
    /// The local address; unspecified while a connection begins.
    pub local: SocketAddr,
    /// The peer's address; unspecified for a socket without one.
    pub remote: SocketAddr,
}

/// A request of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Asks whether this user may use pantala.
    Hello,
    /// Binds a socket: the reply carries its descriptor and its address.
    Bind {
        /// Its transport protocol.
        transport: Transport,
        /// Local address and port; 0: any port.
        addr: SocketAddr,
        /// Others may bind the same (`SO_REUSEPORT`).
        is_shared: bool,
        /// IPv4 connections are not accepted (`IPV6_V6ONLY`).
        only_v6: bool,
    },
    /// Begins a connection, or connects a socket of datagrams: the reply carries its descriptor.
    Connect {
        /// Its transport protocol.
        transport: Transport,
        /// The bound socket that becomes the connection; 0: none.
        id: u64,
        /// The local address, of a socket that is not bound; [`NO_ADDR`]: any.
        local: SocketAddr,
        /// The peer's address.
        remote: SocketAddr,
    },
    /// Asks how a connection ended: the reply has its error, 0 while it has none.
    Outcome(u64),
    /// Asks for the local address of a connection.
    Local(u64),
    /// Asks whether there is a route to a host.
    Route(IpAddr),
}

/// The reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// 0, or the number of an error as Linux has it.
    pub errno: i32,
    /// An address, where one was asked for.
    pub addr: SocketAddr,
}

/// No address.
pub const NO_ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

impl Transport {
    /// Its number in IP.
    const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }

    const fn of(number: u8) -> Option<Self> {
        match number {
            6 => Some(Self::Tcp),
            17 => Some(Self::Udp),
            _ => None,
        }
    }
}

impl Name {
    /// Writes a name.
    #[must_use]
    pub fn emit(&self) -> [u8; NAME_LEN] {
        let role = match self.role {
            Role::Listener => 1,
            Role::Stream => 2,
            Role::Datagram => 3,
        };
        let put = Put::<NAME_LEN>::default().bytes(MARK).byte(role).bytes(&self.id.to_be_bytes());
        put.addr(self.local).addr(self.remote).bytes
    }

    /// Reads a name; `None` if it is another's.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut take = Take(bytes.strip_prefix(MARK)?);
        let role = match take.byte()? {
            1 => Role::Listener,
            2 => Role::Stream,
            3 => Role::Datagram,
            _ => return None,
        };
        let (id, local, remote) = (u64::from_be_bytes(take.array()?), take.addr()?, take.addr()?);
        take.0.is_empty().then_some(Self { role, id, local, remote })
    }
}

impl Request {
    /// Writes a request.
    #[must_use]
    pub fn emit(&self) -> [u8; REQUEST_LEN] {
        let put = |what: u8, id: u64| Put::<REQUEST_LEN>::default().byte(what).bytes(&id.to_be_bytes());
        match *self {
            Self::Hello => put(1, 0),
            Self::Bind { transport, addr, is_shared, only_v6 } => {
                put(2, 0).byte(transport.number()).addr(addr).byte(is_shared.into()).byte(only_v6.into())
            }
            Self::Connect { transport, id, local, remote } => {
                put(3, id).byte(transport.number()).addr(local).addr(remote)
            }
            Self::Outcome(id) => put(4, id),
            Self::Local(id) => put(5, id),
            Self::Route(to) => put(6, 0).addr((to, 0).into()),
        }
        .bytes
    }

    /// Reads a request; `None` if it is none.
    #[must_use]
    pub fn parse(bytes: &[u8; REQUEST_LEN]) -> Option<Self> {
        let mut take = Take(bytes);
        let (what, id) = (take.byte()?, u64::from_be_bytes(take.array()?));
        Some(match what {
            1 => Self::Hello,
            2 => {
                let (transport, addr) = (Transport::of(take.byte()?)?, take.addr()?);
                Self::Bind { transport, addr, is_shared: take.byte()? != 0, only_v6: take.byte()? != 0 }
            }
            3 => {
                let transport = Transport::of(take.byte()?)?;
                Self::Connect { transport, id, local: take.addr()?, remote: take.addr()? }
            }
            4 => Self::Outcome(id),
            5 => Self::Local(id),
            6 => Self::Route(take.addr()?.ip()),
            _ => return None,
        })
    }
}

impl Reply {
    /// Writes a reply.
    #[must_use]
    pub fn emit(&self) -> [u8; REPLY_LEN] {
        Put::<REPLY_LEN>::default().bytes(&self.errno.to_be_bytes()).addr(self.addr).bytes
    }

    /// Reads a reply; `None` if it is none.
    #[must_use]
    pub fn parse(bytes: &[u8; REPLY_LEN]) -> Option<Self> {
        let mut take = Take(bytes);
        Some(Self { errno: i32::from_be_bytes(take.array()?), addr: take.addr()? })
    }
}

/// Writes an address: the peer's, which comes with the descriptor of an accepted connection.
#[must_use]
pub fn emit_addr(addr: SocketAddr) -> [u8; ADDR_LEN] {
    Put::<ADDR_LEN>::default().addr(addr).bytes
}

/// Marks the address of a datagram that a program has received and not read: it gives it back before its socket is connected, since
/// what waits at the old one would be lost.
pub fn mark_returned(message: &mut [u8]) {
    if let Some(family) = message.first_mut() {
        *family |= RETURNED;
    }
}

/// Reads the address of a message that is given back; `None` if it is not.
#[must_use]
pub fn parse_returned(message: &[u8]) -> Option<SocketAddr> {
    let mut header = *message.first_chunk::<ADDR_LEN>()?;
    if header[0] & RETURNED == 0 {
        return None;
    }
    header[0] &= !RETURNED;
    parse_addr(&header)
}

/// Reads an address; `None` if it is none.
#[must_use]
pub fn parse_addr(bytes: &[u8]) -> Option<SocketAddr> {
    Take(bytes).addr()
}

/// Writes from the beginning. What does not fit is not written, and nothing is so long.
struct Put<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Default for Put<N> {
    fn default() -> Self {
        Self { bytes: [0; N], at: 0 }
    }
}

impl<const N: usize> Put<N> {
    fn bytes(mut self, bytes: &[u8]) -> Self {
        if let Some(place) = self.bytes.get_mut(self.at..self.at + bytes.len()) {
            place.copy_from_slice(bytes);
            self.at += bytes.len();
        }
        self
    }

    fn byte(self, byte: u8) -> Self {
        self.bytes(&[byte])
    }

    fn addr(self, addr: SocketAddr) -> Self {
        let (family, ip, scope) = match addr {
            SocketAddr::V4(addr) => (4, addr.ip().to_ipv6_mapped(), 0),
            SocketAddr::V6(addr) => (6, *addr.ip(), addr.scope_id()),
        };
        self.byte(family).bytes(&ip.octets()).bytes(&addr.port().to_be_bytes()).bytes(&scope.to_be_bytes())
    }
}

/// Reads from the beginning.
struct Take<'a>(&'a [u8]);

impl Take<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn addr(&mut self) -> Option<SocketAddr> {
        let (family, ip) = (self.byte()?, Ipv6Addr::from(self.array::<16>()?));
        let (port, scope) = (u16::from_be_bytes(self.array()?), u32::from_be_bytes(self.array()?));
        match family {
            4 => Some(SocketAddr::new(ip.to_ipv4_mapped()?.into(), port)),
            6 => Some(SocketAddrV6::new(ip, port, 0, scope).into()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn addr() -> impl Strategy<Value = SocketAddr> {
        let four = (any::<[u8; 4]>(), any::<u16>()).prop_map(|(ip, port)| (ip, port).into());
        let six = (any::<[u8; 16]>(), any::<u16>(), any::<u32>())
            .prop_map(|(ip, port, scope)| SocketAddrV6::new(ip.into(), port, 0, scope).into());
        prop_oneof![four, six]
    }

    proptest! {
        #[test]
        fn a_request_a_reply_and_a_name_are_read_as_they_were_written(
            id: u64, one in addr(), two in addr(), is_shared: bool, only_v6: bool, errno: i32,
        ) {
            let [tcp, udp] = [Transport::Tcp, Transport::Udp];
            let requests = [
                Request::Hello,
                Request::Bind { transport: tcp, addr: one, is_shared, only_v6 },
                Request::Bind { transport: udp, addr: one, is_shared, only_v6 },
                Request::Connect { transport: tcp, id, local: one, remote: two },
                Request::Connect { transport: udp, id, local: one, remote: two },
                Request::Outcome(id),
                Request::Local(id),
                Request::Route(one.ip()),
            ];
            for request in requests {
                prop_assert_eq!(Request::parse(&request.emit()), Some(request));
            }
            let reply = Reply { errno, addr: one };
            prop_assert_eq!(Reply::parse(&reply.emit()), Some(reply));
            let mut addr = emit_addr(two);
            prop_assert_eq!((parse_addr(&addr), parse_returned(&addr)), (Some(two), None));
            mark_returned(&mut addr);
            prop_assert_eq!((parse_addr(&addr), parse_returned(&addr)), (None, Some(two)));
            for role in [Role::Listener, Role::Stream, Role::Datagram] {
                let name = Name { role, id, local: one, remote: two };
                prop_assert_eq!(Name::parse(&name.emit()), Some(name));
            }
        }

        #[test]
        fn any_bytes_are_a_message_or_none(
            request: [u8; REQUEST_LEN], reply: [u8; REPLY_LEN], name in prop::collection::vec(any::<u8>(), 0..110),
        ) {
            let _ = (Request::parse(&request), Reply::parse(&reply), parse_addr(&name), Name::parse(&name));
            let marked: std::vec::Vec<u8> = MARK.iter().chain(&name).copied().collect();
            if let Some(read) = Name::parse(&marked) {
                prop_assert_eq!(Name::parse(&read.emit()), Some(read));
            }
        }
    }
}
