//! Messages between a process whose sockets pantala serves and the daemon, and the names of those sockets.
//!
//! A process sends a [`Request`] and gets a [`Reply`], in order, on one Unix stream. A socket is one end of a pair of Unix
//! sockets; the daemon's end is bound to an abstract name that says which socket it is ([`Name`]). A process therefore
//! keeps no table: `dup`, `fork`, `exec` and `SCM_RIGHTS` carry a socket's identity as they carry its descriptor.
//!
//! Neither end trusts what the other sends. Each message has one length, and what cannot be is `None`.

mod head;
mod interface;
mod option;
mod report;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

pub use self::head::{Details, HEAD_LEN, Head};
pub use self::interface::{
    INTERFACE_BASE, INTERFACE_NAME_LEN, InterfaceRecord, PAGE_LEN, RECORD_LEN, RECORDS_MAX, own_number,
    seen_number,
};
use self::option::OPTIONS_LEN;
pub use self::option::{Options, SockOpt};
pub use self::report::{Icmp, QUOTE_MAX, REPORT_LEN, Report};

/// Bytes of a socket address: family, address, port, scope.
pub const ADDR_LEN: usize = 23;
/// Bytes of a request.
pub const REQUEST_LEN: usize = 192;
/// Bytes of a reply.
pub const REPLY_LEN: usize = 32;
/// Bytes behind the reply to [`Request::Info`]: `struct tcp_info` of Linux.
pub const INFO_LEN: usize = 248;
/// Bytes of a name, without the NUL in front that makes it an abstract one.
pub const NAME_LEN: usize = 16 + 2 * ADDR_LEN;

/// Senders of a source filter at the most.
pub const SENDERS_MAX: usize = 64;
/// Bytes of the senders of a source filter.
pub const SENDERS_LEN: usize = SENDERS_MAX * 17;

const MARK: &[u8; 7] = b"pantala";
/// Where a request has the thread that it is for.
const THREAD_AT: usize = REQUEST_LEN - 4;
const _: () = assert!(10 + 2 * ADDR_LEN + OPTIONS_LEN <= THREAD_AT && 8 + ADDR_LEN <= REPLY_LEN);

/// The kind of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It is bound, and accepts connections or will.
    Listener,
    /// A connection, or one that begins.
    Stream,
    /// A socket of datagrams. Each message on the pair is one. It begins with a header ([`Head`]) if the socket has no peer, or a
    /// descriptor comes with it.
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
        /// Options that were set before.
        options: Options,
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
        /// Options that were set before.
        options: Options,
    },
    /// A bound socket accepts connections.
    Listen {
        /// The socket.
        id: u64,
        /// Connections that may wait to be accepted.
        backlog: u32,
    },
    /// Removes the peer of a socket of datagrams: the reply carries another descriptor.
    Disconnect(u64),
    /// Makes a socket of datagrams that is not bound yet, or binds one: the reply carries another descriptor.
    Rebind {
        /// The socket; 0: another one is made.
        id: u64,
        /// Local address and port; of one that is made, its family.
        addr: SocketAddr,
        /// Options that were set before, of one that is made.
        options: Options,
    },
    /// Sets an option.
    Set {
        /// The socket.
        id: u64,
        /// The option.
        option: SockOpt,
        /// Its value.
        value: i32,
    },
    /// Asks for the value of an option.
    Get {
        /// The socket.
        id: u64,
        /// The option.
        option: SockOpt,
    },
    /// Asks for `TCP_INFO` of a connection: [`INFO_LEN`] bytes come behind the reply, if it is no error.
    Info(u64),
    /// Joins or leaves a group; or, without one, sends to groups by an interface.
    Group {
        /// The socket.
        id: u64,
        /// The group.
        group: Option<IpAddr>,
        /// The interface with this address, unless it is unspecified.
        addr: IpAddr,
        /// Else the one of this number; 0: none is named.
        interface: u32,
        /// It is joined; a sender that is to be blocked is.
        joins: bool,
        /// One sender of the group, and whether all others are listened to instead.
        sender: Option<(IpAddr, bool)>,
    },
    /// Sets the whole source filter of a group: [`SENDERS_LEN`] bytes follow.
    SetFilter {
        /// The socket.
        id: u64,
        /// The group, and its interface.
        group: Group,
        /// All but the senders that follow are listened to.
        excludes: bool,
        /// Senders that follow.
        count: u16,
    },
    /// Asks for the source filter of a group: [`SENDERS_LEN`] bytes come behind the reply, if it is no error. Its value is twice the number of
    /// senders, and one more if these are excluded.
    Filter {
        /// The socket.
        id: u64,
        /// The group, and its interface.
        group: Group,
    },
    /// Asks how a connection ended: the reply has its error, 0 while it has none.
    Outcome(u64),
    /// Asks for the error of a socket of datagrams that was not told yet: the reply's value is its number, or 0.
    Failure {
        /// The socket.
        id: u64,
        /// A call that receives has met its message: it is sent again only if there was an error.
        receives: bool,
    },
    /// Takes the first of the queue of errors of a socket of datagrams: [`REPORT_LEN`] bytes and [`QUOTE_MAX`] come behind the reply,
    /// if it is no error. Its value is the number of bytes that are quoted of the datagram.
    Report(u64),
    /// A datagram is too long for any packet: the queue of errors gets the MTU of the link on its way.
    TooLong {
        /// The socket.
        id: u64,
        /// The destination.
        to: SocketAddr,
    },
    /// Asks for the local address of a connection.
    Local(u64),
    /// Asks whether there is a route to a host.
    Route(IpAddr),
    /// Asks for the list of interfaces and addresses from this place on: [`PAGE_LEN`] bytes of records ([`InterfaceRecord`]) come behind the
    /// reply, if it is no error. Its value is the number of records in the whole list.
    Interfaces(u32),
}

/// A group, and the interface that a program names with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The group.
    pub ip: IpAddr,
    /// The interface with this address, unless it is unspecified.
    pub addr: IpAddr,
    /// Else the one of this number; 0: none is named.
    pub interface: u32,
}

/// The reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// 0, or the number of an error as Linux has it.
    pub errno: i32,
    /// An address, where one was asked for.
    pub addr: SocketAddr,
    /// A value, where one was asked for.
    pub value: i32,
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
            Self::Bind { transport, addr, options } => {
                put(2, 0).byte(transport.number()).addr(addr).bytes(&options.emit())
            }
            Self::Connect { transport, id, local, remote, options } => {
                put(3, id).byte(transport.number()).addr(local).addr(remote).bytes(&options.emit())
            }
            Self::Outcome(id) => put(4, id),
            Self::Report(id) => put(13, id),
            Self::Failure { id, receives } => put(14, id).byte(receives.into()),
            Self::TooLong { id, to } => put(15, id).addr(to),
            Self::SetFilter { id, group, excludes, count } => {
                put(16, id).group(group).byte(excludes.into()).bytes(&count.to_be_bytes())
            }
            Self::Filter { id, group } => put(17, id).group(group),
            Self::Local(id) => put(5, id),
            Self::Route(to) => put(6, 0).addr((to, 0).into()),
            Self::Interfaces(from) => put(18, from.into()),
            Self::Listen { id, backlog } => put(7, id).bytes(&backlog.to_be_bytes()),
            Self::Disconnect(id) => put(8, id),
            Self::Rebind { id, addr, options } => put(19, id).addr(addr).bytes(&options.emit()),
            Self::Set { id, option, value } => put(9, id).byte(option.number()).bytes(&value.to_be_bytes()),
            Self::Get { id, option } => put(10, id).byte(option.number()),
            Self::Info(id) => put(11, id),
            Self::Group { id, group, addr, interface, joins, sender } => {
                let put = put(12, id).byte(group.is_some().into()).ip(group.unwrap_or(NO_ADDR.ip()));
                let put = put.ip(addr).bytes(&interface.to_be_bytes()).byte(joins.into());
                let (ip, is_blocked) = sender.unwrap_or((NO_ADDR.ip(), false));
                put.byte(sender.is_some().into()).ip(ip).byte(is_blocked.into())
            }
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
                Self::Bind { transport, addr, options: Options::parse(&take.array()?) }
            }
            3 => {
                let transport = Transport::of(take.byte()?)?;
                let (local, remote) = (take.addr()?, take.addr()?);
                Self::Connect { transport, id, local, remote, options: Options::parse(&take.array()?) }
            }
            4 => Self::Outcome(id),
            5 => Self::Local(id),
            6 => Self::Route(take.addr()?.ip()),
            7 => Self::Listen { id, backlog: u32::from_be_bytes(take.array()?) },
            8 => Self::Disconnect(id),
            19 => Self::Rebind { id, addr: take.addr()?, options: Options::parse(&take.array()?) },
            9 => {
                let option = SockOpt::of(take.byte()?)?;
                Self::Set { id, option, value: i32::from_be_bytes(take.array()?) }
            }
            10 => Self::Get { id, option: SockOpt::of(take.byte()?)? },
            11 => Self::Info(id),
            13 => Self::Report(id),
            14 => Self::Failure { id, receives: take.byte()? != 0 },
            15 => Self::TooLong { id, to: take.addr()? },
            16 => {
                let (group, excludes) = (take.group()?, take.byte()? != 0);
                let count = u16::from_be_bytes(take.array()?);
                Self::SetFilter { id, group, excludes, count }
            }
            17 => Self::Filter { id, group: take.group()? },
            18 => Self::Interfaces(u32::try_from(id).ok()?),
            12 => {
                let (is_named, group, addr) = (take.byte()? != 0, take.ip()?, take.ip()?);
                let interface = u32::from_be_bytes(take.array()?);
                let (group, joins) = (is_named.then_some(group), take.byte()? != 0);
                let (is_of_one, ip, is_blocked) = (take.byte()? != 0, take.ip()?, take.byte()? != 0);
                let sender = is_of_one.then_some((ip, is_blocked));
                Self::Group { id, group, addr, interface, joins, sender }
            }
            _ => return None,
        })
    }
}

/// Notes in a request that it is made for a thread of another process.
pub fn set_thread(request: &mut [u8; REQUEST_LEN], thread: u32) {
    if let Some(place) = request.get_mut(THREAD_AT..) {
        place.copy_from_slice(&thread.to_be_bytes());
    }
}

/// Returns the thread that a request is made for; `None`: the process that makes it has no other.
#[must_use]
pub fn thread(request: &[u8; REQUEST_LEN]) -> Option<u32> {
    let number = u32::from_be_bytes(*request.last_chunk()?);
    (number != 0).then_some(number)
}

impl Reply {
    /// Writes a reply.
    #[must_use]
    pub fn emit(&self) -> [u8; REPLY_LEN] {
        let put = Put::<REPLY_LEN>::default().bytes(&self.errno.to_be_bytes());
        put.addr(self.addr).bytes(&self.value.to_be_bytes()).bytes
    }

    /// Reads a reply; `None` if it is none.
    #[must_use]
    pub fn parse(bytes: &[u8; REPLY_LEN]) -> Option<Self> {
        let mut take = Take(bytes);
        let (errno, addr) = (i32::from_be_bytes(take.array()?), take.addr()?);
        Some(Self { errno, addr, value: i32::from_be_bytes(take.array()?) })
    }
}

/// Writes an address: the peer's, which comes with the descriptor of an accepted connection.
#[must_use]
pub fn emit_addr(addr: SocketAddr) -> [u8; ADDR_LEN] {
    Put::<ADDR_LEN>::default().addr(addr).bytes
}

/// Reads an address; `None` if it is none.
#[must_use]
pub fn parse_addr(bytes: &[u8]) -> Option<SocketAddr> {
    Take(bytes).addr()
}

/// Writes the senders of a source filter, as many as there may be.
#[must_use]
pub fn emit_senders(senders: &[IpAddr]) -> [u8; SENDERS_LEN] {
    senders.iter().take(SENDERS_MAX).fold(Put::<SENDERS_LEN>::default(), |put, ip| put.ip(*ip)).bytes
}

/// Reads the senders of a source filter, up to what is none.
pub fn parse_senders(bytes: &[u8; SENDERS_LEN]) -> impl Iterator<Item = IpAddr> {
    let mut take = Take(bytes);
    core::iter::from_fn(move || take.ip())
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

    fn ip(self, ip: IpAddr) -> Self {
        let (family, ip) = match ip {
            IpAddr::V4(ip) => (4, ip.to_ipv6_mapped()),
            IpAddr::V6(ip) => (6, ip),
        };
        self.byte(family).bytes(&ip.octets())
    }

    fn group(self, group: Group) -> Self {
        self.ip(group.ip).ip(group.addr).bytes(&group.interface.to_be_bytes())
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

    fn ip(&mut self) -> Option<IpAddr> {
        let (family, ip) = (self.byte()?, Ipv6Addr::from(self.array::<16>()?));
        match family {
            4 => ip.to_ipv4_mapped().map(IpAddr::V4),
            6 => Some(ip.into()),
            _ => None,
        }
    }

    fn group(&mut self) -> Option<Group> {
        Some(Group { ip: self.ip()?, addr: self.ip()?, interface: u32::from_be_bytes(self.array()?) })
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
            id: u64, one in addr(), two in addr(), which in 0..SockOpt::ALL.len(), value: i32, errno: i32,
        ) {
            let [tcp, udp] = [Transport::Tcp, Transport::Udp];
            let (option, mut options) = (SockOpt::ALL[which], Options::default());
            options.set(option, value);
            let requests = [
                Request::Hello,
                Request::Bind { transport: tcp, addr: one, options },
                Request::Bind { transport: udp, addr: one, options },
                Request::Connect { transport: tcp, id, local: one, remote: two, options },
                Request::Connect { transport: udp, id, local: one, remote: two, options },
                Request::Listen { id, backlog: value.cast_unsigned() },
                Request::Disconnect(id),
                Request::Rebind { id, addr: one, options },
                Request::Set { id, option, value },
                Request::Get { id, option },
                Request::Info(id),
                Request::Group { id, group: Some(one.ip()), addr: two.ip(), interface: 7, joins: value > 0, sender: Some((two.ip(), value < 0)) },
                Request::Group { id, group: None, addr: two.ip(), interface: 0, joins: false, sender: None },
                Request::Outcome(id),
                Request::Report(id),
                Request::Filter { id, group: Group { ip: one.ip(), addr: two.ip(), interface: 7 } },
                Request::SetFilter {
                    id,
                    group: Group { ip: one.ip(), addr: two.ip(), interface: 7 },
                    excludes: value > 0,
                    count: 9,
                },
                Request::TooLong { id, to: one },
                Request::Failure { id, receives: value > 0 },
                Request::Local(id),
                Request::Route(one.ip()),
                Request::Interfaces(value.cast_unsigned()),
            ];
            for request in requests {
                let mut bytes = request.emit();
                prop_assert_eq!(thread(&bytes), None);
                set_thread(&mut bytes, 7);
                prop_assert_eq!((Request::parse(&bytes), thread(&bytes)), (Some(request), Some(7)));
            }
            let reply = Reply { errno, addr: one, value };
            prop_assert_eq!(Reply::parse(&reply.emit()), Some(reply));
            prop_assert_eq!(parse_addr(&emit_addr(two)), Some(two));
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
