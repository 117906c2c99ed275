//! Echo requests sent from here, and what comes of them.
//!
//! A caller asks [`source`] for CPU and source address, then goes to that CPU: there all replies come
//! together with the errors about the requests. It [`register`]s, [`send`]s, and [`unregister`]s. The time limit is
//! the caller's.

use core::net::IpAddr;
use std::collections::VecDeque;

use pkt::{DATA_LEN, NoRoom, Pkt};
use wire::{Protocol, icmp4, icmp6, ip4, ip6};

use crate::base::count::Count;
use crate::base::time::{Duration, Instant};
use crate::fib::{FibIndex, flow_hash, mark};
use crate::ip::icmp::{Message, Quoted};
use crate::ip::{ip4 as inet4, ip6 as inet6, l4, output, pmtu};
use crate::link::tables::IfIndex;
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::rss;

/// Pings that run on one CPU at the most.
const WAITERS_MAX: usize = 64;
/// Requests of one ping whose times are remembered.
const SENT_MAX: usize = 64;

/// One echo request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Destination.
    pub dst: IpAddr,
    /// From which of our addresses: what [`source`] said.
    pub src: IpAddr,
    /// By which interface, towards link-local and multicast destinations.
    pub outif: Option<IfIndex>,
    /// Identifier: with `dst`, the name of the ping.
    pub ident: u16,
    /// Sequence number.
    pub seq: u16,
    /// Bytes behind the ICMP header.
    pub payload_len: u16,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Not to be fragmented; IPv6 routers never do.
    pub dont_fragment: bool,
    /// Routing table.
    pub fib: FibIndex,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It was answered.
    Reply {
        /// Sender of the reply.
        from: IpAddr,
        /// Sequence number.
        seq: u16,
        /// Time to live, or hop limit, that was left.
        ttl: u8,
        /// Bytes of the ICMP message, header included.
        len: usize,
        /// From request to reply; `None` if the request was so long ago that its time is forgotten.
        rtt: Option<Duration>,
        /// It had been answered before.
        is_duplicate: bool,
    },
    /// It could not be delivered.
    Error {
        /// Sender of the error: a router, the destination, or ourselves by the request's source address.
        from: IpAddr,
        /// Sequence number.
        seq: u16,
        /// The error.
        message: Message,
    },
}

/// Why a ping could not be started, or a request not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// No route to the destination, or no source address in its scope.
    Unreachable,
    /// The source is not an address of this host, or of another family than the destination.
    BadSource,
    /// The payload makes a packet of more than 65535 bytes.
    TooLong,
    /// It is not to be fragmented, and does not fit the link.
    TooBig {
        /// Bytes of a packet that fits.
        mtu: u32,
    },
    /// No free buffer was left.
    NoBuffer,
    /// Limit of pings reached.
    TooMany,
    /// A ping of that destination with that identifier runs already.
    InUse,
    /// No such ping runs here.
    NotRegistered,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::TooBig { mtu } => return write!(f, "message too long: exceeds the MTU of {mtu} bytes"),
            Self::Unreachable => "network unreachable: no route, or no source address in scope",
            Self::BadSource => {
                "address not available: the source is not an address of this host, or of another family"
            }
            Self::TooLong => "message too long: a packet has at most 65535 bytes",
            Self::NoBuffer => "no buffer space available",
            Self::TooMany => "limit reached: too many pings run",
            Self::InUse => "identifier in use by another ping of this destination",
            Self::NotRegistered => "no such ping runs on this CPU",
        })
    }
}

impl core::error::Error for Error {}

/// Takes the events of a ping; runs on the netisr, so it only passes them on.
pub type Sink = Box<dyn FnMut(Event) + Send>;

/// The pings of one CPU that wait for replies.
#[derive(Default)]
pub struct Waiters {
    list: Vec<Waiter>,
}

struct Waiter {
    ident: u16,
    remote: IpAddr,
    sent: VecDeque<Sent>,
    sink: Sink,
}

struct Sent {
    seq: u16,
    at: Instant,
    is_answered: bool,
}

/// Where a ping has to be sent from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingSource {
    /// The CPU that the replies come to.
    pub cpu: CpuId,
    /// The own address to speak with.
    pub src: IpAddr,
}

/// Finds out how to ping `dst`: with the source `src` if it is given, by the interface `outif` if the destination
/// alone does not say by which (link-local, multicast). Any CPU knows.
///
/// # Errors
///
/// [`Error::Unreachable`], [`Error::BadSource`].
pub fn source(
    cpu: &Cpu,
    dst: IpAddr,
    src: Option<IpAddr>,
    outif: Option<IfIndex>,
    fib: FibIndex,
) -> Result<PingSource, Error> {
    let src = match src {
        Some(src) if cpu.tables.is_ours(src) && src.is_ipv4() == dst.is_ipv4() => src,
        Some(_) => return Err(Error::BadSource),
        None => output::source_by(cpu, fib, dst, outif.unwrap_or(0)).ok_or(Error::Unreachable)?.0,
    };
    Ok(PingSource { cpu: cpu.placement.owner(rss::hash_pair(src, dst)), src })
}

/// Begins a ping of `remote` with the identifier `ident`: from now on, `sink` is told what comes.
///
/// # Errors
///
/// [`Error::TooMany`], [`Error::InUse`].
pub fn register(cpu: &mut Cpu, ident: u16, remote: IpAddr, sink: Sink) -> Result<(), Error> {
    let waiters = &mut cpu.pings;
    if waiters.find(ident, remote).is_some() {
        return Err(Error::InUse);
    }
    if waiters.list.len() >= WAITERS_MAX {
        return Err(Error::TooMany);
    }
    waiters.list.push(Waiter { ident, remote, sent: VecDeque::new(), sink });
    Ok(())
}

/// Ends a ping.
pub fn unregister(cpu: &mut Cpu, ident: u16, remote: IpAddr) {
    cpu.pings.list.retain(|waiter| (waiter.ident, waiter.remote) != (ident, remote));
}

/// Sends an echo request of a registered ping.
///
/// # Errors
///
/// [`Error::NotRegistered`], [`Error::BadSource`], [`Error::Unreachable`], [`Error::TooLong`], [`Error::TooBig`],
/// [`Error::NoBuffer`]. Whatever goes wrong
/// later is an [`Event::Error`].
pub fn send(cpu: &mut Cpu, request: &Request) -> Result<(), Error> {
    let now = cpu.now;
    cpu.pings.find(request.ident, request.dst).ok_or(Error::NotRegistered)?.remember(request.seq, now);
    let mut pkt = payload(cpu, usize::from(request.payload_len))?;
    if let Err(error) = put_headers(&mut pkt, request).and_then(|()| check_size(cpu, &pkt, request)) {
        cpu.pool.give(pkt);
        return Err(error);
    }
    (pkt.outif, pkt.fib) = (request.outif.unwrap_or(0), mark(request.fib));
    cpu.count(if request.dst.is_ipv4() { Count::IcmpEchoSent } else { Count::Icmp6EchoSent });
    match request.dst {
        IpAddr::V4(_) => inet4::output::output(cpu, pkt),
        IpAddr::V6(_) => inet6::output::output(cpu, pkt),
    }
    Ok(())
}

/// Checks the size of a request that must not be fragmented against the link.
fn check_size(cpu: &Cpu, pkt: &Pkt, request: &Request) -> Result<(), Error> {
    let way = output::path(cpu, request.fib, request.dst, request.outif.unwrap_or(0), || flow_hash(pkt));
    let mtu = match way.map_err(|_| Error::Unreachable)? {
        output::Route::Local => return Ok(()),
        output::Route::Link { ifindex, metrics, .. } => pmtu::of_packet(cpu, pkt, metrics)
            .mtu_over(cpu.tables.ifnet(ifindex).ok_or(Error::Unreachable)?.mtu),
    };
    let fits = !request.dont_fragment || pkt.len() <= mtu as usize;
    if fits { Ok(()) } else { Err(Error::TooBig { mtu }) }
}

/// A packet of `len` bytes that count up from zero.
fn payload(cpu: &mut Cpu, len: usize) -> Result<Pkt, Error> {
    let mut whole: Option<Pkt> = None;
    let mut at = 0;
    while at < len || whole.is_none() {
        let part = cpu.pool.take().map(|part| fill(part, at, (len - at).min(DATA_LEN)));
        let Some(Ok(part)) = part else {
            whole.into_iter().for_each(|pkt| cpu.pool.give(pkt));
            return Err(Error::NoBuffer);
        };
        at += part.len();
        match &mut whole {
            Some(head) => head.chain(part),
            None => whole = Some(part),
        }
    }
    whole.ok_or(Error::NoBuffer)
}

fn fill(mut part: Pkt, from: usize, len: usize) -> Result<Pkt, NoRoom> {
    let bytes = part.append(len)?;
    bytes.iter_mut().zip(from..).for_each(|(byte, at)| *byte = at.to_le_bytes()[0]);
    Ok(part)
}

fn put_headers(pkt: &mut Pkt, request: &Request) -> Result<(), Error> {
    let &Request { ident: id, seq, ttl, dont_fragment, .. } = request;
    let done = match (request.src, request.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let header = ip4::Header { ttl, dont_fragment, ..ip4::Header::new(src, dst, Protocol::ICMP, 0) };
            inet4::icmp::put_headers(pkt, icmp4::Message::EchoRequest { id, seq }, &header)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = ip6::Header { hop_limit: ttl, ..inet6::icmp6::header(src, dst) };
            inet6::icmp6::put_headers(pkt, icmp6::Message::EchoRequest { id, seq }, &header)
        }
        _ => return Err(Error::BadSource),
    };
    done.map_err(|_| Error::TooLong)
}

/// Takes an echo reply in and reports it to its ping; false if there is none.
pub(crate) fn reply(cpu: &mut Cpu, pkt: &Pkt, ident: u16, seq: u16) -> bool {
    let now = cpu.now;
    let (from, _) = l4::ends(pkt);
    let Some(waiter) = cpu.pings.find(ident, from) else { return false };
    let ttl = pkt.window(0)[if from.is_ipv4() { 8 } else { 7 }];
    let sent = waiter.sent.iter_mut().find(|sent| sent.seq == seq);
    let rtt = sent.as_ref().map(|sent| now.since(sent.at));
    let is_duplicate = sent.is_some_and(|sent| core::mem::replace(&mut sent.is_answered, true));
    (waiter.sink)(Event::Reply { from, seq, ttl, len: l4::range(pkt).len(), rtt, is_duplicate });
    true
}

/// Reports to the ping whose request an error quotes; false if there is none.
pub(crate) fn error(cpu: &mut Cpu, from: IpAddr, quoted: &Quoted, message: Message) -> bool {
    let waiter = request_of(quoted.protocol, quoted.upper)
        .and_then(|(ident, seq)| Some((cpu.pings.find(ident, quoted.remote)?, seq)));
    if let Some((waiter, seq)) = waiter {
        (waiter.sink)(Event::Error { from, seq, message });
        return true;
    }
    false
}

/// Whether the quoted message is an echo request.
pub(crate) fn is_request(quoted: &Quoted) -> bool {
    request_of(quoted.protocol, quoted.upper).is_some()
}

/// Whether a ping has sent the quoted request.
pub(crate) fn can_have_sent(cpu: &Cpu, quoted: &Quoted) -> bool {
    let Some((ident, seq)) = request_of(quoted.protocol, quoted.upper) else { return false };
    let mut waiters = cpu.pings.list.iter();
    waiters.any(|waiter| {
        (waiter.ident, waiter.remote) == (ident, quoted.remote)
            && waiter.sent.iter().any(|sent| sent.seq == seq)
    })
}

/// Identifier and sequence number of an echo request.
fn request_of(protocol: Protocol, header: [u8; 8]) -> Option<(u16, u16)> {
    let [kind, _, _, _, id0, id1, seq0, seq1] = header;
    let is_request = matches!((protocol, kind), (Protocol::ICMP, 8) | (Protocol::ICMP6, 128));
    is_request.then_some((u16::from_be_bytes([id0, id1]), u16::from_be_bytes([seq0, seq1])))
}

impl Waiters {
    fn find(&mut self, ident: u16, remote: IpAddr) -> Option<&mut Waiter> {
        self.list.iter_mut().find(|waiter| (waiter.ident, waiter.remote) == (ident, remote))
    }
}

impl Waiter {
    fn remember(&mut self, seq: u16, at: Instant) {
        if self.sent.len() >= SENT_MAX {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent { seq, at, is_answered: false });
    }
}

#[cfg(test)]
mod tests;
