//! What is said on a channel: records of 64 bytes, of which none is believed before it was looked at.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::end::{code, error};
use crate::pcb::Ends;
use crate::sock::Error;
use crate::tables::IfIndex;

/// Bytes of a record.
pub(super) const RECORD: usize = 64;

/// A record.
pub(super) type Record = [u8; RECORD];

/// What a program asks for.
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
    /// Waits for connections no longer.
    Unlisten(u32),
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

/// What has a [`Setting`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The connection of this lane.
    Lane(u32),
    /// The listener of this number.
    Listener(u32),
}

/// A connection to be begun, as [`crate::tcp::Connect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    /// The lane that its bytes take.
    pub lane: u32,
    /// To whom.
    pub remote: SocketAddr,
    /// From which of our addresses; the unspecified one: the route says.
    pub local: Option<IpAddr>,
    /// From which port, if not from any.
    pub port: Option<u16>,
    /// By which interface, where the address means something only with its link.
    pub zone: IfIndex,
}

/// A place to wait for connections at, as [`crate::tcp::Listen`].
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
    /// Connections that may wait to be accepted.
    pub backlog: u32,
}

/// How a connection behaves: what of it a program can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Short segments do not wait (`TCP_NODELAY`).
    NoDelay(bool),
    /// A silent peer is asked whether it is there (`SO_KEEPALIVE`).
    KeepAlive(bool),
    /// After how many milliseconds of silence (`TCP_KEEPIDLE`).
    KeepIdle(u32),
    /// How many milliseconds from one question to the next (`TCP_KEEPINTVL`).
    KeepInterval(u32),
    /// How many questions stay without an answer (`TCP_KEEPCNT`).
    KeepCount(u32),
    /// How many milliseconds something may stay unacknowledged; 0: as long as it takes (`TCP_USER_TIMEOUT`).
    UserTimeout(u32),
    /// Bytes that may wait to be acknowledged (`SO_SNDBUF`).
    SendBuffer(u32),
    /// Bytes that may wait to be read (`SO_RCVBUF`).
    ReceiveBuffer(u32),
    /// The longest segment (`TCP_MAXSEG`).
    MaxSegment(u32),
    /// Time to live, or hop limit (`IP_TTL`, `IPV6_UNICAST_HOPS`).
    Hops(u32),
    /// Type of service, or traffic class (`IP_TOS`, `IPV6_TCLASS`).
    Class(u32),
}

/// What a program is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A listener waits at this address, or does not, and its number is free.
    Listening(u32, Result<SocketAddr, Error>),
    /// A listener has gone; its number is free.
    Unlistened(u32),
    /// A lane that was offered to a listener has got a connection.
    Accepted {
        /// Its number.
        listener: u32,
        /// The lane.
        lane: u32,
        /// Between whom the connection is.
        ends: Ends,
    },
    /// A connection stands.
    Connected(u32, Ends),
    /// There is something to read for a reader that waits.
    Readable(u32),
    /// There is room for a writer that waits.
    Writable(u32),
    /// A connection has ended: the end of its stream says how.
    Ended(u32),
    /// A lane is free.
    Free(u32),
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
                put.flag(only_v6).flag(is_shared).number(backlog).done()
            }
            Self::Offer { listener, lane } => Put::new(4).number(listener).number(lane).done(),
            Self::Unlisten(listener) => Put::new(5).number(listener).done(),
            Self::Look(lane) => Put::new(6).number(lane).done(),
            Self::Close { lane, aborts } => Put::new(7).number(lane).flag(aborts).done(),
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
                backlog: take.number(),
            }),
            4 => Self::Offer { listener: number, lane: take.number() },
            5 => Self::Unlisten(number),
            6 => Self::Look(number),
            7 => Self::Close { lane: number, aborts: take.flag() },
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
            _ => return None,
        })
    }
}

/// Writes a record from its beginning. What does not fit is not written, and nothing is so long.
struct Put {
    record: Record,
    at: usize,
}

impl Put {
    fn new(what: u8) -> Self {
        Self { record: [0; RECORD], at: 0 }.byte(what)
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        if let Some(place) = self.record.get_mut(self.at..self.at + bytes.len()) {
            place.copy_from_slice(bytes);
            self.at += bytes.len();
        }
        self
    }

    fn byte(self, byte: u8) -> Self {
        self.bytes(&[byte])
    }

    fn flag(self, flag: bool) -> Self {
        self.byte(flag.into())
    }

    fn short(self, short: u16) -> Self {
        self.bytes(&short.to_le_bytes())
    }

    fn number(self, number: u32) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    fn ip(self, ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => self.byte(4).bytes(&ip.to_ipv6_mapped().octets()),
            IpAddr::V6(ip) => self.byte(6).bytes(&ip.octets()),
        }
    }

    fn addr(self, addr: SocketAddr) -> Self {
        self.ip(addr.ip()).short(addr.port())
    }

    fn ends(self, ends: &Ends) -> Self {
        self.addr(ends.local()).addr(ends.remote()).short(ends.zone)
    }

    fn done(self) -> Record {
        self.record
    }
}

/// Reads a record from its beginning. Behind its end there are zeros.
struct Take<'a> {
    record: &'a Record,
    at: usize,
}

impl<'a> Take<'a> {
    /// What it is, and its number.
    fn new(record: &'a Record) -> (u8, u32, Self) {
        let mut take = Self { record, at: 0 };
        (take.byte(), take.number(), take)
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let bytes = self.record.get(self.at..).and_then(|rest| rest.first_chunk()).copied();
        self.at += N;
        bytes.unwrap_or([0; N])
    }

    fn byte(&mut self) -> u8 {
        self.bytes::<1>()[0]
    }

    fn flag(&mut self) -> bool {
        self.byte() != 0
    }

    fn short(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes())
    }

    fn number(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    fn ip(&mut self) -> Option<IpAddr> {
        let (family, ip) = (self.byte(), Ipv6Addr::from(self.bytes::<16>()));
        match family {
            4 => ip.to_ipv4_mapped().map(IpAddr::V4),
            6 => Some(IpAddr::V6(ip)),
            _ => None,
        }
    }

    fn addr(&mut self) -> Option<SocketAddr> {
        Some((self.ip()?, self.short()).into())
    }

    fn ends(&mut self) -> Option<Ends> {
        let (local, remote, zone) = (self.addr()?, self.addr()?, self.short());
        Some(Ends::new(local, remote, zone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addrs() -> [SocketAddr; 2] {
        [([10, 0, 1, 2], 80).into(), ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xfff], 65_535).into()]
    }

    fn commands() -> Vec<Command> {
        let settings = (1..=11).filter_map(|which| Setting::of(which, 1));
        let mut all: Vec<_> = settings
            .flat_map(|set| [Target::Lane(7), Target::Listener(9)].map(|at| Command::Set(at, set)))
            .collect();
        for addr in addrs() {
            let (lane, zone) = (u32::MAX, 3);
            all.push(Command::Connect(Connect {
                lane,
                remote: addr,
                local: Some(addr.ip()),
                port: Some(9),
                zone,
            }));
            all.push(Command::Connect(Connect { lane, remote: addr, local: None, port: None, zone: 0 }));
            let (listener, backlog) = (5, 128);
            all.push(Command::Listen(Listen {
                listener,
                addr,
                zone,
                only_v6: true,
                is_shared: false,
                backlog,
            }));
            all.push(Command::Listen(Listen {
                listener,
                addr,
                zone,
                only_v6: false,
                is_shared: true,
                backlog,
            }));
        }
        all.extend([Command::Offer { listener: 1, lane: 2 }, Command::Unlisten(3)]);
        all.extend([Command::Look(4), Command::Close { lane: 5, aborts: true }]);
        all
    }

    fn events() -> Vec<Event> {
        let mut all = vec![Event::Listening(1, Err(Error::AddrInUse))];
        for addr in addrs() {
            let ends = Ends::new(addr, addr, 0);
            all.push(Event::Listening(1, Ok(addr)));
            all.push(Event::Accepted { listener: 2, lane: 3, ends });
            all.push(Event::Connected(4, ends));
        }
        let lane = 1 << 20;
        all.extend([Event::Readable(lane), Event::Writable(lane), Event::Ended(lane), Event::Free(lane)]);
        all.push(Event::Unlistened(5));
        all
    }

    #[test]
    fn what_is_said_is_what_is_heard() {
        for command in commands() {
            assert_eq!(Command::decode(&command.encode()), Some(command));
        }
        for event in events() {
            assert_eq!(Event::decode(&event.encode()), Some(event));
        }
    }

    #[test]
    fn what_is_no_record_is_not_taken_for_one() {
        for what in [0, 8, 255] {
            assert_eq!(Command::decode(&[what; RECORD]), None);
        }
        assert_eq!(Event::decode(&[0; RECORD]), None);
        assert_eq!(Event::decode(&[10; RECORD]), None);
        let mut family = commands()[22].encode();
        family[5] = 5;
        assert_eq!(Command::decode(&family), None, "an address of no family");
        let mut setting = commands()[0].encode();
        setting[6] = 12;
        assert_eq!(Command::decode(&setting), None, "a setting that there is not");
    }
}
