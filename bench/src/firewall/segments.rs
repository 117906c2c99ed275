//! Short connections as they pass a router: the segments of both ends, in order.
//!
//! Eight segments: the handshake, a question and its answer, and both ends' goodbye. In each turn a CPU's clients begin a
//! few connections, and all that began in the seven turns before go one segment further.

use core::net::IpAddr;
use core::sync::atomic::Ordering;
use std::sync::Arc;

use anyhow::{Context, Result};
use net::cpu::CpuId;
use net::driver::{Caps, Driver, DriverStats};
use net::rss::{Placement, hash_flow};
use pkt::{Arena, HEADROOM, Pkt, PktVec, Pool, VEC_MAX};
use wire::ether::{self, EtherType};
use wire::tcp::{Flags, Header, Options};
use wire::{Protocol, ip4, ip6};

use super::flows::{destination, origin};
use super::locked::Locked;
use crate::frames::{Family, GATEWAY, ROUTER, SENDER};
use crate::wire::Supply;

/// Connections that begin in one turn.
pub const NEW: usize = 32;
/// Segments of a connection, and of one of its ends.
pub const SEGMENTS: usize = 8;
/// Segments that each end sends in one turn.
pub const EACH: usize = NEW * SEGMENTS / 2;
/// The server's port.
pub const PORT: u16 = 80;
/// Bytes of the longest frame; those of IPv4 have 64.
const FRAME_MAX: usize = 80;
/// Packets that the stack takes at once.
const CHUNK: usize = 64;
/// Where the sequence numbers of client and server begin.
const BEGIN: [u32; 2] = [1000, 9000];

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// A connection: the last 16 bits of its client's address, and the client's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    low: u16,
    port: u16,
}

/// `count` connections that this CPU owns.
#[must_use]
pub fn connections(family: Family, placement: Placement, owner: CpuId, count: usize) -> Vec<Connection> {
    let all = (0_u32..).map(|n| {
        let low = u16::try_from(n.wrapping_mul(40_503) & 0xffff).unwrap_or(0);
        Connection { low, port: 1024 + u16::try_from(n >> 16 & 0x7fff).unwrap_or(0) }
    });
    let is_ours = |connection: &Connection| {
        let (client, _) = origin(family, connection.low.into());
        let hash = hash_flow((client, connection.port), (server(family), PORT));
        placement.owner(hash) == owner
    };
    all.filter(is_ours).take(count).collect()
}

/// Returns the server's address.
#[must_use]
pub const fn server(family: Family) -> IpAddr {
    destination(family)
}

/// A step of an end: its number, its flags, and the progress of both ends since the beginning; behind the
/// question the numbers of both are `DATA` higher.
type Step = (usize, Flags, [u32; 2], bool);

const SYN_ACK: Flags = Flags(Flags::SYN.0 | Flags::ACK.0);
const FIN_ACK: Flags = Flags(Flags::FIN.0 | Flags::ACK.0);
/// Bytes of question and answer.
const DATA: u32 = 6;
const CLIENT: [Step; 4] = [
    (0, Flags::SYN, [0, 0], false),
    (2, Flags::ACK, [1, 1], false),
    (3, Flags::ACK, [1, 1], true),
    (6, FIN_ACK, [1 + DATA, 2 + DATA], false),
];
const SERVER: [Step; 4] = [
    (1, SYN_ACK, [0, 1], false),
    (4, Flags::ACK, [1, 1 + DATA], true),
    (5, FIN_ACK, [1 + DATA, 1 + DATA], false),
    (7, Flags::ACK, [2 + DATA, 2 + DATA], false),
];

/// A segment of any connection.
struct Template {
    step: usize,
    frame: [u8; FRAME_MAX],
    len: usize,
}

/// One end's link to the router: what it says, and the place where all that it hears ends.
pub struct Link {
    templates: Vec<Template>,
    places: Places,
    connections: Arc<[Connection]>,
    /// Turns so far.
    turn: usize,
    /// Segments of this turn that are not sent yet.
    supply: Supply,
    heard: Supply,
    /// A filter before the stack.
    guard: Option<Arc<Locked>>,
}

/// Where a connection stands in a frame.
#[derive(Clone, Copy)]
struct Places {
    /// The end of the client's address.
    low: usize,
    /// Its complement, for the header's checksum.
    complement: Option<usize>,
    /// The client's port.
    port: usize,
    /// The complement of both, for the segment's checksum: the urgent pointer, which means nothing here.
    urgent: usize,
}

impl Link {
    /// The link of one end of these connections. `supply` says how many segments it may still send in this turn.
    ///
    /// # Errors
    ///
    /// None is expected.
    pub fn new(
        family: Family,
        end: End,
        connections: Arc<[Connection]>,
        [supply, heard]: [Supply; 2],
        guard: Option<Arc<Locked>>,
    ) -> Result<Self> {
        let steps = if end == End::Client { CLIENT } else { SERVER };
        let templates = steps.into_iter().map(|step| template(family, end, step)).collect::<Result<_>>()?;
        Ok(Self { templates, places: Places::of(family, end), connections, turn: 0, supply, heard, guard })
    }

    /// Segment `number` of this turn.
    #[inline]
    fn write(&self, pkt: &mut Pkt, number: usize) {
        let Some(template) = self.templates.get(number / NEW) else { return };
        let begun = (self.turn + SEGMENTS - template.step) * NEW + number % NEW;
        let Some(connection) = self.connections.get(begun % self.connections.len()) else { return };
        if let Some(room) = pkt.buffer_mut()[HEADROOM..].first_chunk_mut::<FRAME_MAX>() {
            *room = template.frame;
            self.places.write(room, *connection);
        }
        let placed = pkt.place(HEADROOM, template.len);
        debug_assert!(placed.is_ok(), "a small frame fits into any buffer");
    }
}

/// Both links with nothing between them: what is subtracted to see the router alone.
pub struct Links {
    links: [Link; 2],
    pool: Pool,
    pkts: PktVec,
    supply: Supply,
    heard: Supply,
}

impl Links {
    /// Two links.
    ///
    /// # Errors
    ///
    /// When there is no memory.
    pub fn new(family: Family) -> Result<Self> {
        let ours: Arc<[_]> = connections(family, Placement::new(1), CpuId(0), NEW * SEGMENTS).into();
        let (supply, heard) = (Supply::default(), Supply::default());
        let link =
            |end| Link::new(family, end, Arc::clone(&ours), [Arc::clone(&supply), Arc::clone(&heard)], None);
        let links = [link(End::Client)?, link(End::Server)?];
        let pool = Arena::carve(1, VEC_MAX, false)?.pop().context("no pool")?;
        Ok(Self { links, pool, pkts: PktVec::new(), supply, heard })
    }

    /// Passes the segments of so many turns on; answers how many that were since the start.
    pub fn pass(&mut self, turns: usize) -> usize {
        let Self { links: [client, server], pool, pkts, supply, heard } = self;
        let mut one_way = |from: &mut Link, to: &mut Link| {
            supply.store(EACH, Ordering::Relaxed);
            while from.rx(pool, pkts, CHUNK) > 0 {
                to.tx(pool, pkts);
            }
        };
        for _ in 0..turns {
            one_way(client, server);
            one_way(server, client);
        }
        heard.load(Ordering::Relaxed)
    }
}

impl Driver for Link {
    fn rx(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> usize {
        let left = self.supply.load(Ordering::Relaxed);
        self.turn += usize::from(left == EACH);
        let before = into.len();
        let new = pool.take_many(into, max.min(left)).len();
        for (number, pkt) in (EACH - left..).zip(into.iter_mut().skip(before)) {
            self.write(pkt, number);
        }
        self.supply.store(left - new, Ordering::Relaxed);
        if let Some(guard) = &self.guard {
            guard.filter(pool, into, before);
        }
        into.len() - before
    }

    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        self.heard.fetch_add(from.len(), Ordering::Relaxed);
        pool.give_all(from);
    }

    fn doorbell(&mut self, _pool: &mut Pool) {}

    fn caps(&self) -> Caps {
        Caps { tx_csum: false, tso: false, uso: false, buffers_max: 1 }
    }

    fn stats(&self) -> DriverStats {
        DriverStats::default()
    }

    fn close(&mut self, _pool: &mut Pool) {}
}

fn template(family: Family, end: End, (step, flags, [said, heard], has_data): Step) -> Result<Template> {
    let mut frame = [0; FRAME_MAX];
    let from_client = end == End::Client;
    let (client, server) = (family.source_of_flows(), server(family));
    let (src, dst) = if from_client { (client, server) } else { (server, client) };
    let [ours, theirs] = if from_client { BEGIN } else { [BEGIN[1], BEGIN[0]] };
    let header = Header {
        src_port: if from_client { 0 } else { PORT },
        dst_port: if from_client { PORT } else { 0 },
        seq: ours + said,
        ack: if flags.contains(Flags::ACK) { theirs + heard } else { 0 },
        flags,
        window: 8192,
        urgent: u16::MAX,
        options: Options::NONE,
    };
    let data = [0_u8; DATA as usize];
    let data = if has_data { &data[..] } else { &[] };
    let segment = header.header_len() + data.len();
    let (link, packet) = frame.split_at_mut(ether::HEADER_LEN);
    let (ethertype, at) = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let ip = ip4::Header::new(src, dst, Protocol::TCP, u16::try_from(segment)?);
            let at = ip.emit(packet).ok().context("no room")?;
            header.emit_v4(src, dst, data, &mut packet[at..]).ok().context("no room")?;
            (EtherType::IPV4, at)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let ip = ip6::Header::new(src, dst, Protocol::TCP, u16::try_from(segment)?);
            let at = ip.emit(packet).ok().context("no room")?;
            header.emit_v6(src, dst, data, &mut packet[at..]).ok().context("no room")?;
            (EtherType::IPV6, at)
        }
        _ => anyhow::bail!("two families"),
    };
    let sender = if from_client { SENDER } else { GATEWAY };
    link.copy_from_slice(&ether::Header { dst: ROUTER, src: sender, ethertype }.to_bytes());
    Ok(Template { step, frame, len: (ether::HEADER_LEN + at + segment).max(64) })
}

impl Places {
    const fn of(family: Family, end: End) -> Self {
        let from_client = matches!(end, End::Client);
        let (low, complement, upper) = match family {
            Family::Ip4 => (if from_client { 28 } else { 32 }, Some(18), 34),
            Family::Ip6 => (if from_client { 36 } else { 52 }, None, 54),
        };
        Self { low, complement, port: if from_client { upper } else { upper + 2 }, urgent: upper + 18 }
    }

    #[inline]
    fn write(self, frame: &mut [u8; FRAME_MAX], Connection { low, port }: Connection) {
        let mut put = |at: usize, word: u16| frame[at..at + 2].copy_from_slice(&word.to_be_bytes());
        put(self.low, low);
        put(self.port, port);
        if let Some(at) = self.complement {
            put(at, !low);
        }
        let (sum, carry) = low.overflowing_add(port);
        put(self.urgent, !(sum + u16::from(carry)));
    }
}

#[cfg(test)]
mod tests {
    use wire::tcp::View;

    use super::*;

    #[test]
    fn segments_are_right_in_all_their_checksums() {
        for family in [Family::Ip4, Family::Ip6] {
            let mut pool = Arena::carve(1, 256, false).unwrap().pop().unwrap();
            let ours: Arc<[_]> = connections(family, Placement::new(2), CpuId(1), 100).into();
            for end in [End::Client, End::Server] {
                let supply = Supply::new(EACH.into());
                let counts = [Arc::clone(&supply), Supply::default()];
                let mut link = Link::new(family, end, Arc::clone(&ours), counts, None).unwrap();
                let mut pkts = PktVec::new();
                assert_eq!(link.rx(&mut pool, &mut pkts, 256), EACH);
                for pkt in pkts.drain() {
                    check(family, &pkt.head()[ether::HEADER_LEN..]);
                    pool.give(pkt);
                }
            }
        }
    }

    fn check(family: Family, packet: &[u8]) {
        if family == Family::Ip4 {
            let header = ip4::Header::parse(packet).unwrap();
            let segment = ip4::View::new(packet).unwrap().payload();
            assert!(View::new(segment).unwrap().verify_v4(header.src, header.dst));
        } else {
            let header = ip6::Header::parse(packet).unwrap();
            let segment = &packet[ip6::HEADER_LEN..][..usize::from(header.payload_len)];
            assert!(View::new(segment).unwrap().verify_v6(header.src, header.dst));
        }
    }
}
