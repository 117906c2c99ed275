//! Records on a channel, of 64 bytes. None is trusted before it was validated.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::bytes::{Put, Record, Take};
use super::end::{code, error};
use crate::host::pcb::FourTuple;
use crate::host::sock::Error;
use crate::host::udp::{Failure, Icmp};
use crate::link::tables::IfIndex;

/// A command of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Changes how a connection behaves, or will when it begins; of a listener, how those behave that it accepts.
    Set(Target, Setting),
    /// Begins a connection on a lane.
    Connect(Connect),
    /// Waits for connections.
    Listen(Listen),
    /// A lane for one connection that a listener accepts.
    Offer {
        /// Its number.
        listener: u32,
        /// A lane that was begun.
        lane: u32,
    },
    /// A listener that has its place takes connections from now on; one that does already has another backlog. [`Event::Listening`] answers.
    Open {
        /// Its number.
        listener: u32,
        /// Connections that may wait to be accepted.
        backlog: u32,
    },
    /// Waits for connections no longer.
    Unlisten(u32),
    /// Waits for datagrams, on a lane.
    Bind(Question, Bind),
    /// The datagrams of a lane are spoken with one other end from now on, if that is on this CPU: what [`Event::Answer`]
    /// says.
    Speak {
        /// Which lane, and what the answer is to be called.
        question: Question,
        /// Peer.
        remote: SocketAddr,
        /// By which interface, where the address means something only with its link.
        zone: IfIndex,
    },
    /// The datagrams of this lane are another CPU's from now on.
    Vacate(Question),
    /// Listens to a group on a lane of datagrams, or no longer.
    Join(Question, Join),
    /// Names a sender of the whole source filter that a [`Self::Join`] sets next.
    Name {
        /// The lane.
        lane: u32,
        /// The sender.
        sender: IpAddr,
    },
    /// A lane of datagrams sends to groups by this interface; by none that it names: where the route leads, or the first.
    GroupsBy(Question, Link),
    /// There is something to send on a lane, or room for what has come.
    Look(u32),
    /// The program has left a lane. What it has written is still sent, unless the connection is to be aborted.
    Close {
        /// Both halves of its near end have been dropped.
        lane: u32,
        /// The connection ends here and now.
        aborts: bool,
    },
}

/// The target of a [`Setting`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The connection of this lane.
    Lane(u32),
    /// The listener of this number.
    Listener(u32),
}

/// A connection to be begun, as [`crate::host::tcp::Connect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    /// The lane that its bytes take.
    pub lane: u32,
    /// Destination.
    pub remote: SocketAddr,
    /// From which of our addresses; the unspecified one: the route says.
    pub local: Option<IpAddr>,
    /// From which port, if not from any.
    pub port: Option<u16>,
    /// By which interface, where the address means something only with its link.
    pub zone: IfIndex,
}

/// A place to wait for connections at, as [`crate::host::tcp::Listen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The program's number for it, below [`super::LISTENERS_MAX`].
    pub listener: u32,
    /// Our address, or the unspecified one; and the port, or 0.
    pub addr: SocketAddr,
    /// The interface, where the address means something only with its link.
    pub zone: IfIndex,
    /// With the unspecified IPv6 address: that IPv4 connections are not for it.
    pub only_v6: bool,
    /// Others may wait for the same.
    pub is_shared: bool,
    /// Connections that may wait to be accepted; `None`: it takes its place, and no connections before [`Command::Open`].
    pub backlog: Option<u32>,
}

/// A question about a lane of datagrams, and what the program calls the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The lane.
    pub lane: u32,
    /// The number of the answer.
    pub serial: u32,
}

/// A place to wait for datagrams at, as [`crate::host::udp::Bind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    /// Our address, a group, or the unspecified one; and the port, or 0.
    pub addr: SocketAddr,
    /// The interface, where the address means something only with its link.
    pub zone: IfIndex,
    /// With the unspecified IPv6 address: that IPv4 datagrams are not for it.
    pub only_v6: bool,
    /// Others may wait for the same.
    pub is_shared: bool,
    /// The address need not be ours (`IP_BINDANY`).
    pub bind_any: bool,
    /// Datagrams come and go by this interface alone; 0: by any.
    pub device: IfIndex,
}

/// An interface, as programs name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The one with this address of ours, unless it is the unspecified one.
    pub addr: IpAddr,
    /// Else the one of this number; 0: none is named.
    pub ifindex: IfIndex,
}

/// A group to be listened to, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    /// Which.
    pub group: IpAddr,
    /// On which link; where none is named: where the route leads, or the first.
    pub on: Link,
    /// From now on, and not no longer.
    pub joins: bool,
    /// Whose datagrams.
    pub of: Sender,
}

/// Senders to a group that a socket listens to, one at a time (RFC 3678 §4.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// All of them.
    Any,
    /// This one besides those that were named before.
    Only(IpAddr),
    /// All but this one and those that were named before: to be joined is to be blocked.
    AllBut(IpAddr),
    /// Senders that [`Command::Name`] has named, in place of all that were known before.
    Named,
    /// All but the senders that [`Command::Name`] has named, in place of all that were known before.
    AllButNamed,
}

/// A setting of a connection or a socket. Options of single datagrams go with them
/// ([`super::datagram::SendParams`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Short segments do not wait (`TCP_NODELAY`).
    NoDelay(bool),
    /// A silent peer is asked whether it is there (`SO_KEEPALIVE`).
    KeepAlive(bool),
    /// After how many milliseconds of silence (`TCP_KEEPIDLE`).
    KeepIdle(u32),
    /// Interval of keepalive probes, in milliseconds (`TCP_KEEPINTVL`).
    KeepInterval(u32),
    /// Number of unanswered keepalive probes (`TCP_KEEPCNT`).
    KeepCount(u32),
    /// User timeout in milliseconds; 0: none (`TCP_USER_TIMEOUT`).
    UserTimeout(u32),
    /// The other end is told how long, and may change it (RFC 5482; `TCP_UTO_ENABLE`).
    TellsUserTimeout(bool),
    /// Announced user timeout in milliseconds; 0: that of [`Self::UserTimeout`] (`TCP_UTO_ADVERTISE`).
    ToldUserTimeout(u32),
    /// Whether it may change it (`TCP_UTO_CHANGEABLE`).
    YieldsUserTimeout(bool),
    /// Connections of a listener on a CPU that may bring data with their SYN (RFC 7413; `TCP_FASTOPEN`).
    FastOpens(u32),
    /// Bytes that may wait to be acknowledged (`SO_SNDBUF`).
    SendBuffer(u32),
    /// Bytes that may wait to be read (`SO_RCVBUF`).
    ReceiveBuffer(u32),
    /// The longest segment (`TCP_MAXSEG`).
    MaxSegment(u32),
    /// Congestion control (`TCP_CONGESTION`): NewReno, or else CUBIC.
    NewReno(bool),
    /// Time to live, or hop limit (`IP_TTL`, `IPV6_UNICAST_HOPS`).
    Hops(u32),
    /// Type of service, or traffic class (`IP_TOS`, `IPV6_TCLASS`).
    Class(u32),
    /// Routing table (`SO_SETFIB`).
    Fib(u32),
    /// Its address need not be ours (`IP_BINDANY`, `IPV6_BINDANY`).
    BindAny(bool),
    /// Datagrams are not fragmented: those that are too big fail (`IP_DONTFRAG`, `IPV6_DONTFRAG`).
    DontFragment(bool),
    /// Short segments wait until more is written, for 200 ms at the most (`TCP_CORK`).
    Cork(bool),
    /// Each segment is acknowledged at once (`TCP_QUICKACK`).
    QuickAck(bool),
    /// Bytes go with the SYN if the other end has given a cookie before (RFC 7413; `TCP_FASTOPEN_CONNECT`).
    FastOpen(bool),
    /// Packets come and go by this interface alone (`SO_BINDTODEVICE`); 0: by any.
    Device(u32),
    /// A socket of datagrams gets all ICMP errors (`IP_RECVERR`, `IPV6_RECVERR` of Linux).
    AllErrors(bool),
}

/// An event for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A listener waits at this address, or does not, and its number is free; again when it was opened.
    Listening(u32, Result<SocketAddr, Error>),
    /// A listener has gone; its number is free.
    Unlistened(u32),
    /// A lane that was offered to a listener has got a connection.
    Accepted {
        /// Its number.
        listener: u32,
        /// The lane.
        lane: u32,
        /// Addresses of the connection.
        ends: FourTuple,
    },
    /// A connection stands.
    Connected(u32, FourTuple),
    /// Reply to a request: the local address, or an error.
    Answer(Question, Result<SocketAddr, Error>),
    /// A part of a datagram of this lane that did not arrive, as an ICMP error quotes it. The error comes behind all parts.
    Quote(u32, Quote),
    /// A datagram of this lane did not arrive.
    Failed(u32, Failure),
    /// There is something to read for a reader that waits.
    Readable(u32),
    /// There is room for a writer that waits.
    Writable(u32),
    /// A connection has ended: the end of its stream says how.
    Ended(u32),
    /// A lane is free.
    Free(u32),
}

/// Bytes in a [`Quote`] at the most.
pub(super) const QUOTE_PART: usize = 56;

/// A part of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    pub(super) len: u8,
    pub(super) bytes: [u8; QUOTE_PART],
}

impl Quote {
    /// Returns the bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len.into()).unwrap_or_default()
    }
}

impl Command {
    pub(super) fn encode(&self) -> Record {
        match *self {
            Self::Set(target, setting) => {
                let (is_listener, number) = match target {
                    Target::Lane(lane) => (false, lane),
                    Target::Listener(listener) => (true, listener),
                };
                let (which, value) = setting.parts();
                Put::new(1).number(number).flag(is_listener).byte(which).number(value).done()
            }
            Self::Connect(Connect { lane, remote, local, port, zone }) => {
                let local = local.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
                Put::new(2).number(lane).addr(remote).ip(local).short(port.unwrap_or(0)).short(zone).done()
            }
            Self::Listen(Listen { listener, addr, zone, only_v6, is_shared, backlog }) => {
                let put = Put::new(3).number(listener).addr(addr).short(zone);
                put.flag(only_v6).flag(is_shared).flag(backlog.is_some()).number(backlog.unwrap_or(0)).done()
            }
            Self::Offer { listener, lane } => Put::new(4).number(listener).number(lane).done(),
            Self::Unlisten(listener) => Put::new(5).number(listener).done(),
            Self::Look(lane) => Put::new(6).number(lane).done(),
            Self::Close { lane, aborts } => Put::new(7).number(lane).flag(aborts).done(),
            Self::Bind(question, Bind { addr, zone, only_v6, is_shared, bind_any, device }) => {
                let put = Put::new(8).question(question).addr(addr).short(zone);
                put.flag(only_v6).flag(is_shared).flag(bind_any).short(device).done()
            }
            Self::Speak { question, remote, zone } => {
                Put::new(9).question(question).addr(remote).short(zone).done()
            }
            Self::Vacate(question) => Put::new(10).question(question).done(),
            Self::Join(question, Join { group, on, joins, of }) => {
                let (kind, sender) = match of {
                    Sender::Any => (0, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
                    Sender::Only(sender) => (2, sender),
                    Sender::AllBut(sender) => (4, sender),
                    Sender::Named => (6, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
                    Sender::AllButNamed => (8, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
                };
                let put = Put::new(11).question(question).ip(group).link(on);
                put.byte(kind | u8::from(joins)).ip(sender).done()
            }
            Self::Name { lane, sender } => Put::new(14).number(lane).ip(sender).done(),
            Self::GroupsBy(question, link) => Put::new(12).question(question).link(link).done(),
            Self::Open { listener, backlog } => Put::new(13).number(listener).number(backlog).done(),
        }
    }

    /// `None` if it is none.
    pub(super) fn decode(record: &Record) -> Option<Self> {
        let (what, number, mut take) = Take::new(record);
        Some(match what {
            1 => {
                let target = if take.flag() { Target::Listener(number) } else { Target::Lane(number) };
                Self::Set(target, Setting::of(take.byte(), take.number())?)
            }
            2 => {
                let (remote, local) = (take.addr()?, take.ip()?);
                let (port, zone) = (take.short(), take.short());
                let local = Some(local).filter(|local| !local.is_unspecified());
                let port = Some(port).filter(|port| *port != 0);
                Self::Connect(Connect { lane: number, remote, local, port, zone })
            }
            3 => Self::Listen(Listen {
                listener: number,
                addr: take.addr()?,
                zone: take.short(),
                only_v6: take.flag(),
                is_shared: take.flag(),
                backlog: if take.flag() { Some(take.number()) } else { None },
            }),
            4 => Self::Offer { listener: number, lane: take.number() },
            5 => Self::Unlisten(number),
            6 => Self::Look(number),
            7 => Self::Close { lane: number, aborts: take.flag() },
            8 => Self::Bind(
                take.question(number),
                Bind {
                    addr: take.addr()?,
                    zone: take.short(),
                    only_v6: take.flag(),
                    is_shared: take.flag(),
                    bind_any: take.flag(),
                    device: take.short(),
                },
            ),
            9 => Self::Speak { question: take.question(number), remote: take.addr()?, zone: take.short() },
            10 => Self::Vacate(take.question(number)),
            11 => {
                let (question, group, on) = (take.question(number), take.ip()?, take.link()?);
                let (kind, sender) = (take.byte(), take.ip()?);
                let of = match kind & !1 {
                    0 => Sender::Any,
                    2 => Sender::Only(sender),
                    4 => Sender::AllBut(sender),
                    6 => Sender::Named,
                    8 => Sender::AllButNamed,
                    _ => return None,
                };
                Self::Join(question, Join { group, on, joins: kind & 1 != 0, of })
            }
            12 => Self::GroupsBy(take.question(number), take.link()?),
            13 => Self::Open { listener: number, backlog: take.number() },
            14 => Self::Name { lane: number, sender: take.ip()? },
            _ => return None,
        })
    }
}

impl Event {
    pub(super) fn encode(&self) -> Record {
        match *self {
            Self::Listening(listener, Ok(addr)) => Put::new(1).number(listener).addr(addr).done(),
            Self::Listening(listener, Err(why)) => Put::new(2).number(listener).number(code(why)).done(),
            Self::Unlistened(listener) => Put::new(3).number(listener).done(),
            Self::Accepted { listener, lane, ends } => {
                Put::new(4).number(lane).ends(&ends).number(listener).done()
            }
            Self::Connected(lane, ends) => Put::new(5).number(lane).ends(&ends).done(),
            Self::Readable(lane) => Put::new(6).number(lane).done(),
            Self::Writable(lane) => Put::new(7).number(lane).done(),
            Self::Ended(lane) => Put::new(8).number(lane).done(),
            Self::Free(lane) => Put::new(9).number(lane).done(),
            Self::Answer(question, Ok(addr)) => Put::new(10).question(question).addr(addr).done(),
            Self::Answer(question, Err(why)) => Put::new(11).question(question).number(code(why)).done(),
            Self::Failed(lane, Failure { to, error, icmp }) => {
                let put = Put::new(12).number(lane).addr(to).number(code(error)).flag(icmp.is_some());
                let put = icmp.into_iter().fold(put, |put, Icmp { from, kind, code, info }| {
                    put.ip(from).byte(kind).byte(code).number(info)
                });
                put.done()
            }
            Self::Quote(lane, Quote { len, bytes }) => {
                Put::new(13).number(lane).byte(len).bytes(&bytes).done()
            }
        }
    }

    /// `None` if it is none.
    pub(super) fn decode(record: &Record) -> Option<Self> {
        let (what, number, mut take) = Take::new(record);
        let (listener, lane) = (number, number);
        Some(match what {
            1 => Self::Listening(listener, Ok(take.addr()?)),
            2 => Self::Listening(listener, Err(error(take.number())?)),
            3 => Self::Unlistened(listener),
            4 => {
                let ends = take.ends()?;
                Self::Accepted { lane, ends, listener: take.number() }
            }
            5 => Self::Connected(lane, take.ends()?),
            6 => Self::Readable(lane),
            7 => Self::Writable(lane),
            8 => Self::Ended(lane),
            9 => Self::Free(lane),
            10 => Self::Answer(take.question(lane), Ok(take.addr()?)),
            11 => Self::Answer(take.question(lane), Err(error(take.number())?)),
            12 => {
                let (to, error) = (take.addr()?, error(take.number())?);
                let icmp = match take.flag() {
                    true => Some(Icmp {
                        from: take.ip()?,
                        kind: take.byte(),
                        code: take.byte(),
                        info: take.number(),
                    }),
                    false => None,
                };
                Self::Failed(lane, Failure { to, error, icmp })
            }
            13 => Self::Quote(lane, Quote { len: take.byte(), bytes: take.bytes() }),
            _ => return None,
        })
    }
}

impl Setting {
    fn parts(self) -> (u8, u32) {
        match self {
            Self::NoDelay(on) => (1, on.into()),
            Self::KeepAlive(on) => (2, on.into()),
            Self::KeepIdle(ms) => (3, ms),
            Self::KeepInterval(ms) => (4, ms),
            Self::KeepCount(count) => (5, count),
            Self::UserTimeout(ms) => (6, ms),
            Self::SendBuffer(bytes) => (7, bytes),
            Self::ReceiveBuffer(bytes) => (8, bytes),
            Self::MaxSegment(bytes) => (9, bytes),
            Self::Hops(hops) => (10, hops),
            Self::Class(class) => (11, class),
            Self::Fib(fib) => (18, fib),
            Self::TellsUserTimeout(on) => (12, on.into()),
            Self::ToldUserTimeout(ms) => (13, ms),
            Self::YieldsUserTimeout(on) => (14, on.into()),
            Self::FastOpens(count) => (15, count),
            Self::NewReno(on) => (16, on.into()),
            Self::BindAny(on) => (17, on.into()),
            Self::DontFragment(on) => (19, on.into()),
            Self::AllErrors(on) => (20, on.into()),
            Self::Device(device) => (21, device),
            Self::Cork(on) => (22, on.into()),
            Self::QuickAck(on) => (23, on.into()),
            Self::FastOpen(on) => (24, on.into()),
        }
    }

    fn of(which: u8, value: u32) -> Option<Self> {
        Some(match which {
            1 => Self::NoDelay(value != 0),
            2 => Self::KeepAlive(value != 0),
            3 => Self::KeepIdle(value),
            4 => Self::KeepInterval(value),
            5 => Self::KeepCount(value),
            6 => Self::UserTimeout(value),
            7 => Self::SendBuffer(value),
            8 => Self::ReceiveBuffer(value),
            9 => Self::MaxSegment(value),
            10 => Self::Hops(value),
            11 => Self::Class(value),
            12 => Self::TellsUserTimeout(value != 0),
            13 => Self::ToldUserTimeout(value),
            14 => Self::YieldsUserTimeout(value != 0),
            15 => Self::FastOpens(value),
            16 => Self::NewReno(value != 0),
            17 => Self::BindAny(value != 0),
            18 => Self::Fib(value),
            19 => Self::DontFragment(value != 0),
            20 => Self::AllErrors(value != 0),
            21 => Self::Device(value),
            22 => Self::Cork(value != 0),
            23 => Self::QuickAck(value != 0),
            24 => Self::FastOpen(value != 0),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
