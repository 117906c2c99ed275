//! A host that is not this stack: answers ARP, neighbour discovery and echo requests, sends and receives numbered
//! flows, and remembers what it heard.
//!
//! It shares the header formats with the stack and nothing else, so tests see what is really on the wire.

mod flow;
mod gather;
mod input;
mod link;

use core::net::{IpAddr, Ipv6Addr};
use std::collections::{BTreeMap, VecDeque};

use net::tables::IfAddr;
use net::time::{Duration, Instant};
use wire::EtherType;
use wire::ether::Mac;

pub use flow::{Flow, FlowId, Tally};
pub(crate) use link::nd_packet;

use crate::builder::{self, Ip};
use crate::frame::Frame;
use gather::Gather;

/// A station, with one plug.
pub struct Station {
    /// Its name, for messages.
    pub name: String,
    /// Its link address.
    pub mac: Mac,
    /// Packets heard outside of flows, oldest first; at most [`HEARD_MAX`].
    pub heard: VecDeque<ReceivedPacket>,
    /// Packets received that no host should have sent: what was wrong with them.
    pub complaints: Vec<Complaint>,
    /// Packets that it lost itself: their next hop was not found in time.
    pub lost: u64,
    /// Does not answer to anything, as if unplugged.
    pub mute: bool,
    /// Says that it is a router.
    pub is_router: bool,
    /// Claims any IPv6 address that is asked for.
    pub claims_all: bool,
    /// Tags of its frames, the outer one first: type and control information.
    tags: Vec<(EtherType, u16)>,
    addrs: Vec<IfAddr>,
    gateways: Vec<IpAddr>,
    neighbours: BTreeMap<IpAddr, Mac>,
    /// Packets that wait for a neighbour's address.
    waiting: VecDeque<(IpAddr, Vec<u8>)>,
    /// When to ask again for the addresses that are waited for.
    ask_at: Option<Instant>,
    asked: u32,
    out: Vec<Frame>,
    sending: Vec<flow::Sending>,
    tallies: BTreeMap<FlowId, Tally>,
    gather: Gather,
    /// Sends whole packets only up to this length, and fragments beyond.
    mtu: usize,
    now: Instant,
    next_id: u16,
}

/// Entries of [`Station::heard`] that are kept.
pub const HEARD_MAX: usize = 4096;
/// Packets that wait for addresses; more are lost.
const WAITING_MAX: usize = 1024;
/// Interval of repeated requests.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Questions until it gives up.
const ASKED_MAX: u32 = 5;

/// Something wrong that a station received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// When.
    pub at: Instant,
    /// In words.
    pub text: String,
}

/// A packet that a station heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedPacket {
    /// When.
    pub at: Instant,
    /// Its source.
    pub from: IpAddr,
    /// To which of its addresses.
    pub to: IpAddr,
    /// Time to live, or hop limit, on arrival.
    pub ttl: u8,
    /// Its content.
    pub what: Content,
}

/// The content of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// An answer to an echo request.
    EchoReply {
        /// Its identifier.
        id: u16,
        /// Its sequence number.
        seq: u16,
        /// Bytes of its payload.
        len: usize,
    },
    /// An echo request, which was answered.
    EchoRequest {
        /// Its identifier.
        id: u16,
        /// Its sequence number.
        seq: u16,
        /// Bytes of its payload.
        len: usize,
    },
    /// An ICMP error.
    Error {
        /// The error.
        error: IcmpError,
        /// Destination of the packet that it is about.
        about: IpAddr,
        /// Ports of that packet, or identifier and sequence number.
        ports: [u16; 2],
    },
    /// A UDP datagram that is not part of a flow.
    Udp {
        /// From and to.
        ports: [u16; 2],
        /// Bytes of its payload.
        len: usize,
    },
    /// A TCP segment.
    Tcp {
        /// From and to.
        ports: [u16; 2],
        /// Its flags.
        flags: u8,
        /// Bytes of its payload.
        len: usize,
        /// Sequence number, and acknowledgment.
        numbers: [u32; 2],
        /// Window, not scaled.
        window: u16,
    },
    /// Something else: IP protocol.
    Other(u8),
}

/// ICMP errors of both families by what they mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IcmpError {
    /// The hop limit ran out.
    TimeExceeded,
    /// Fragments are missing.
    ReassemblyTime,
    /// Bigger than this MTU.
    TooBig(u32),
    /// No route leads there.
    NoRoute,
    /// The host does not answer.
    Host,
    /// Forbidden or rejected.
    Prohibited,
    /// Port unreachable.
    Port,
    /// Protocol unreachable.
    Protocol,
    /// Another one: type and code.
    Other(u8, u8),
}

impl Station {
    /// A station with these addresses, and a link-local one that follows from `mac`.
    #[must_use]
    pub fn new(name: &str, mac: Mac, addrs: &[IfAddr]) -> Self {
        let link_local = IfAddr { addr: wire::addr::link_local_from_mac(mac).into(), prefix_len: 64 };
        Self {
            name: name.to_owned(),
            mac,
            heard: VecDeque::new(),
            complaints: Vec::new(),
            lost: 0,
            mute: false,
            is_router: false,
            claims_all: false,
            tags: Vec::new(),
            addrs: addrs.iter().copied().chain([link_local]).collect(),
            gateways: Vec::new(),
            neighbours: BTreeMap::new(),
            waiting: VecDeque::new(),
            ask_at: None,
            asked: 0,
            out: Vec::new(),
            sending: Vec::new(),
            tallies: BTreeMap::new(),
            gather: Gather::default(),
            mtu: 1500,
            now: Instant::START,
            next_id: 1,
        }
    }

    /// Gives it another address.
    pub fn add(&mut self, addr: IfAddr) {
        self.addrs.push(addr);
    }

    /// Sends what is not on its link to this router.
    #[must_use]
    pub fn gateway(mut self, router: IpAddr) -> Self {
        self.gateways.push(router);
        self
    }

    /// On a VLAN: its frames have this tag, behind those that it was given before. It takes no others, whatever their priority.
    #[must_use]
    pub fn tagged(mut self, tpid: EtherType, tci: u16) -> Self {
        self.tags.push((tpid, tci));
        self
    }

    /// Sends packets of at most this length, and fragments of longer ones.
    #[must_use]
    pub const fn mtu(mut self, mtu: usize) -> Self {
        self.mtu = mtu;
        self
    }

    /// Takes its prefixes for so many bits shorter than they are, and knows no router: it looks for all these hosts on its link.
    pub fn stretch_prefixes(&mut self, bits: u8) {
        self.gateways.clear();
        for own in &mut self.addrs {
            own.prefix_len = own.prefix_len.saturating_sub(bits);
        }
    }

    /// Its address that fits `peer`: of its family, and link-local if that is.
    #[must_use]
    pub fn addr_for(&self, peer: IpAddr) -> Option<IpAddr> {
        let local = |addr: IpAddr| matches!(addr, IpAddr::V6(addr) if addr.is_unicast_link_local());
        let mut own = self.addrs.iter().map(|own| own.addr);
        own.find(|own| own.is_ipv4() == peer.is_ipv4() && local(*own) == local(peer))
    }

    /// The header of a packet from here to `dst`.
    #[must_use]
    pub fn ip_to(&self, dst: IpAddr) -> Ip {
        let id = self.next_id;
        Ip { id, ..Ip::new(self.addr_for(dst).unwrap_or(dst), dst) }
    }

    /// Sends an echo request.
    pub fn ping(&mut self, dst: IpAddr, id_seq: [u16; 2], len: usize) {
        let ip = self.ip_to(dst);
        let ip = if len + 48 > self.mtu { ip.may_fragment(ip.id) } else { ip };
        let payload: Vec<u8> = (0..len).map(|at| (at % 251).to_le_bytes()[0]).collect();
        self.send(builder::echo(ip, false, id_seq, &payload));
    }

    /// Sends a UDP datagram under this IP header.
    pub fn send_udp(&mut self, ip: Ip, ports: [u16; 2], payload: &[u8]) {
        self.send(builder::udp(ip, ports, payload));
    }

    /// Sends a packet to its destination's next hop; one that is longer than the MTU in fragments.
    pub fn send(&mut self, packet: Vec<u8>) {
        let Some(dst) = destination(&packet) else { return };
        self.next_id = self.next_id.wrapping_add(1).max(1);
        let next_hop = self.next_hop(dst);
        for fragment in builder::fragments(&packet, self.mtu, self.next_id.into()) {
            self.send_via(next_hop, fragment);
        }
    }

    /// Puts a frame on the cable as it is.
    pub fn send_frame(&mut self, frame: Frame) {
        self.out.push(frame);
    }

    /// Whether one of what it heard fulfils `is_it`.
    #[must_use]
    pub fn has_heard(&self, is_it: impl Fn(&ReceivedPacket) -> bool) -> bool {
        self.heard.iter().any(is_it)
    }

    /// Replies to echo requests with identifier `id` that it heard.
    #[must_use]
    pub fn replies(&self, id: u16) -> usize {
        let is_it =
            |heard: &&ReceivedPacket| matches!(heard.what, Content::EchoReply { id: of, .. } if of == id);
        self.heard.iter().filter(is_it).count()
    }

    /// Returns the ICMP errors that it heard, in order, with their senders.
    pub fn errors(&self) -> impl Iterator<Item = (IpAddr, IcmpError)> {
        self.heard.iter().filter_map(|heard| match heard.what {
            Content::Error { error, .. } => Some((heard.from, error)),
            _ => None,
        })
    }

    /// Does what is due at `now`; answers the frames that it sends.
    pub fn poll(&mut self, now: Instant) -> Vec<Frame> {
        self.now = now;
        self.send_flows();
        if self.ask_at.is_some_and(|at| at <= now) {
            self.ask_again();
        }
        let out = core::mem::take(&mut self.out).into_iter();
        out.map(|frame| self.tags.iter().rev().fold(frame, |frame, (tpid, tci)| frame.tagged(*tpid, *tci)))
            .collect()
    }

    /// When it wants to be polled.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        if !self.out.is_empty() {
            return Instant::START;
        }
        let flows = self.sending.iter().map(flow::Sending::deadline);
        flows.chain(self.ask_at).min().unwrap_or(Instant::NEVER)
    }

    /// Whether all its flows have been sent and nothing waits for an address.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.sending.is_empty() && self.out.is_empty() && self.waiting.is_empty()
    }

    fn next_hop(&self, dst: IpAddr) -> IpAddr {
        if dst.is_multicast() || self.addrs.iter().any(|own| own.covers(dst)) {
            return dst;
        }
        let gateway = self.gateways.iter().find(|router| router.is_ipv4() == dst.is_ipv4());
        gateway.copied().unwrap_or(dst)
    }

    fn send_via(&mut self, next_hop: IpAddr, packet: Vec<u8>) {
        match self.neighbour(next_hop) {
            Some(mac) => self.out.push(self.frame(mac, &packet)),
            None if self.waiting.len() < WAITING_MAX => {
                self.waiting.push_back((next_hop, packet));
                self.ask(next_hop);
            }
            None => self.lost += 1,
        }
    }

    fn frame(&self, dst: Mac, packet: &[u8]) -> Frame {
        let is_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
        Frame::around(self.mac, dst, if is_v4 { EtherType::IPV4 } else { EtherType::IPV6 }, packet)
    }

    fn has(&self, addr: IpAddr) -> bool {
        self.addrs.iter().any(|own| own.addr == addr)
    }

    fn hear(&mut self, from: IpAddr, to: IpAddr, ttl: u8, what: Content) {
        if self.heard.len() >= HEARD_MAX {
            self.heard.pop_front();
        }
        self.heard.push_back(ReceivedPacket { at: self.now, from, to, ttl, what });
    }

    fn complain(&mut self, about: impl Into<String>) {
        if self.complaints.len() < HEARD_MAX {
            let text = format!("{}: {}", self.name, about.into());
            self.complaints.push(Complaint { at: self.now, text });
        }
    }
}

/// The destination of an IP packet.
fn destination(packet: &[u8]) -> Option<IpAddr> {
    let octets = |at: usize| packet.get(at..)?.first_chunk::<16>();
    match packet.first()? >> 4 {
        4 => packet.get(16..)?.first_chunk::<4>().map(|octets| IpAddr::from(*octets)),
        _ => octets(24).map(|octets| Ipv6Addr::from(*octets).into()),
    }
}
