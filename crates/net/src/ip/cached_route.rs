//! Cached routes: link and network header of conversations from here, ready made, with the sums that checksums begin with. BSD
//! keeps the same with a socket (`inp_route`, its `ro_prepend`); here conversations with one host share it, so that it also
//! serves connections that last for six segments.
//!
//! A route is made when a packet has gone the usual way, and holds as long as its [adjacency](super::adj) would: new tables, and
//! another link address of a neighbour, make all of them stale. Packets that rules, a redirect, a path MTU or the state of an
//! address have a say in take no cached route.

use core::net::IpAddr;

use ipfw::rule::Hook;
use pkt::{Flags, Gso, NoRoom, Pkt};
use wire::checksum::{Sum, never_zero};
use wire::ether::{EtherType, HEADER_LEN as LINK_LEN};
use wire::tcp::CHECKSUM_OFFSET;
use wire::{Protocol, ip4, ip6};

use super::adj::Kind;
use super::ip_tx::IpTxParams;
use super::neigh::{Key as Neighbour, LinkAddrs};
use super::pmtu::{LEAST_V4, LEAST_V6};
use crate::base::count::Count;
use crate::base::four_tuple::FourTuple;
use crate::link::logical::TAGS_MAX;
use crate::link::tables::IfIndex;
use crate::out::ifq;
use crate::turn::cpu::Cpu;

/// Routes that one CPU keeps, of 128 bytes. Each has one place; of hosts that share one, the route of the last two packets' stays.
pub const CACHED_ROUTES_MAX: usize = 256;

/// Link and network header of each family.
const LEN_V4: usize = LINK_LEN + ip4::HEADER_LEN;
const LEN_V6: usize = LINK_LEN + ip6::HEADER_LEN;
/// Odd, and 2^64 divided by the golden ratio: the highest bits of products depend on all bits.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
#[expect(clippy::cast_possible_truncation, reason = "16")]
const CHECKSUM_AT: u8 = CHECKSUM_OFFSET as u8;
/// The bits of congestion notification, which change from packet to packet (RFC 3168 §5).
const ECN: u8 = 0b11;

/// One CPU's cached routes, from the first one on.
#[derive(Default)]
pub struct CachedRoutes {
    routes: Vec<CachedRoute>,
    /// The key that was last looked for in vain at each place: a route is made when it is missed twice in a row.
    missed: Vec<u64>,
}

/// The addresses of a conversation, and what its network headers say beside them.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    local: u128,
    remote: u128,
    tx_params: IpTxParams,
}

#[derive(Clone, Copy)]
struct CachedRoute {
    key: Key,
    /// That of the adjacencies when this was made: else it is stale.
    generation: u64,
    /// Both headers, without what depends on the packet: lengths, bits of congestion notification, the header checksum.
    headers: [u8; LEN_V6],
    outif: IfIndex,
    /// Bytes of the largest packet that may go there.
    mtu: u16,
    /// Sum of the pseudo-header without the length, and of the IPv4 header without what depends on the packet.
    pseudo: u32,
    header_sum: u32,
    /// Whether frames go straight to the stage of a device, and whether that completes checksums.
    is_direct: bool,
    completes: bool,
}

const _: () = assert!(size_of::<CachedRoute>() <= 128, "docs/reference/LIMITS.md says so");

impl Key {
    #[inline]
    fn new(ends: &FourTuple, tx_params: IpTxParams) -> Self {
        let bits = |addr| match addr {
            IpAddr::V4(addr) => addr.to_ipv6_mapped().to_bits(),
            IpAddr::V6(addr) => addr.to_bits(),
        };
        Self { local: bits(ends.local), remote: bits(ends.remote), tx_params: tx_params.with_ecn(0) }
    }

    #[inline]
    fn digest(&self) -> u64 {
        let folded = self.local.rotate_left(1) ^ self.remote;
        let (low, high) = (folded & u128::from(u64::MAX), folded >> 64);
        u64::try_from(low ^ high).unwrap_or(0).wrapping_mul(GOLDEN)
    }
}

#[inline]
const fn place(digest: u64) -> usize {
    (digest >> 56) as usize % CACHED_ROUTES_MAX
}

impl CachedRoutes {
    #[inline]
    fn get(&self, key: &Key, generation: u64) -> Option<&CachedRoute> {
        let route = self.routes.get(place(key.digest()))?;
        (route.generation == generation && route.key == *key).then_some(route)
    }

    /// Whether a route to be made was missed at its place the last time, too.
    fn is_wanted(&mut self, key: &Key) -> bool {
        let digest = key.digest();
        self.missed.resize(CACHED_ROUTES_MAX, 0);
        self.missed.get_mut(place(digest)).is_some_and(|last| core::mem::replace(last, digest) == digest)
    }

    fn set(&mut self, route: CachedRoute) {
        self.routes.resize(CACHED_ROUTES_MAX, CachedRoute { generation: 0, ..route });
        if let Some(free) = self.routes.get_mut(place(route.key.digest())) {
            *free = route;
        }
    }

    /// Bytes that they take.
    #[must_use]
    pub const fn memory(&self) -> usize {
        self.routes.capacity() * size_of::<CachedRoute>() + self.missed.capacity() * size_of::<u64>()
    }
}

/// Sends a segment, which starts with its TCP header with a checksum of zero, by the cached route of its conversation. It is
/// given back as it was if there is none, or if it may not go by it.
///
/// Next   the transmit ring.
#[inline]
pub(crate) fn output(
    cpu: &mut Cpu,
    mut pkt: Pkt,
    ends: &FourTuple,
    tx_params: IpTxParams,
) -> Result<(), Pkt> {
    let Some(route) = cpu.routes.get(&Key::new(ends, tx_params), cpu.adjs.generation()) else {
        return Err(pkt);
    };
    if !route.may_carry(cpu, &pkt, ends) {
        return Err(pkt);
    }
    let is_ip4 = ends.remote.is_ipv4();
    let is_complete = route.put_checksum(&mut pkt);
    let put = if is_ip4 { route.put_v4(&mut pkt, tx_params) } else { route.put_v6(&mut pkt, tx_params) };
    let (outif, is_direct) = (route.outif, route.is_direct);
    if put.is_err() {
        return Err(pkt);
    }
    pkt.outif = outif;
    pkt.flags.set(Flags::LOCAL.with(if is_complete { Flags::CSUM_GOOD } else { Flags::CSUM_PARTIAL }));
    cpu.counters.add(Count::CsumCompleted, is_complete.into());
    cpu.count(if is_ip4 { Count::Ip4Out } else { Count::Ip6Out });
    if is_direct {
        ifq::output_as_is(cpu, pkt)
    } else {
        ifq::output(cpu, pkt)
    }
    Ok(())
}

/// Returns the device by which segments of a conversation leave, if its route is cached.
#[cold]
pub(crate) fn outif(cpu: &Cpu, ends: &FourTuple, tx_params: IpTxParams) -> Option<IfIndex> {
    let mut index = cpu.routes.get(&Key::new(ends, tx_params), cpu.adjs.generation())?.outif;
    for _ in 0..=TAGS_MAX {
        match cpu.tables.ifnet(index)?.kind.parent() {
            Some(parent) => index = parent,
            None => return Some(index),
        }
    }
    None
}

impl CachedRoute {
    /// Whether nothing has a say in where the packet goes, and it fits. Addresses of a link say nothing of it without the zone.
    #[inline]
    fn may_carry(&self, cpu: &Cpu, pkt: &Pkt, ends: &FourTuple) -> bool {
        let (header, least) =
            if ends.remote.is_ipv4() { (ip4::HEADER_LEN, LEAST_V4) } else { (ip6::HEADER_LEN, LEAST_V6) };
        let len = pkt.len() + header;
        let has_rules = cpu.hooks.has(Hook::LocalOut) || cpu.hooks.has(Hook::Egress);
        ends.zone == 0
            && !has_rules
            && cpu.addrs.are_usable()
            && cpu.dests.is_empty()
            && (len <= least || cpu.paths.is_empty())
            && len <= usize::from(self.mtu)
            && pkt.gso == Gso::None
            && !pkt.is_chained()
    }

    /// Writes the checksum into the TCP header, or the sum of the pseudo-header if the device goes on from it. Returns whether it is
    /// the checksum: what a device cannot do is done here while the packet is at hand.
    #[inline]
    fn put_checksum(&self, pkt: &mut Pkt) -> bool {
        let is_complete = self.is_direct && !self.completes;
        let begun = self.pseudo + low_bits(pkt.len());
        let field = if is_complete {
            never_zero(!fold(begun + u32::from(Sum::new().bytes(pkt.head()).folded())))
        } else {
            fold(begun)
        };
        let window = pkt.window_mut(0);
        [window[CHECKSUM_OFFSET], window[CHECKSUM_OFFSET + 1]] = field.to_be_bytes();
        (pkt.csum_start, pkt.csum_off) = (0, CHECKSUM_AT);
        is_complete
    }

    #[inline]
    fn put_v4(&self, pkt: &mut Pkt, tx_params: IpTxParams) -> Result<(), NoRoom> {
        let total = low_bits(pkt.len() + ip4::HEADER_LEN);
        let mut headers = [0; LEN_V4];
        headers.copy_from_slice(&self.headers[..LEN_V4]);
        headers[LINK_LEN + 1] = tx_params.class;
        [_, _, headers[LINK_LEN + 2], headers[LINK_LEN + 3]] = total.to_be_bytes();
        let checksum = !fold(self.header_sum + u32::from(tx_params.class) + total);
        [headers[LINK_LEN + 10], headers[LINK_LEN + 11]] = checksum.to_be_bytes();
        pkt.prepend_array(&headers)
    }

    #[inline]
    fn put_v6(&self, pkt: &mut Pkt, tx_params: IpTxParams) -> Result<(), NoRoom> {
        let mut headers = self.headers;
        headers[LINK_LEN + 1] |= (tx_params.class & ECN) << 4;
        [_, _, headers[LINK_LEN + 4], headers[LINK_LEN + 5]] = low_bits(pkt.len()).to_be_bytes();
        pkt.prepend_array(&headers)
    }
}

/// A length in a field of 16 bits. What is longer has been given back before.
#[inline]
fn low_bits(len: usize) -> u32 {
    u32::from(u16::try_from(len).unwrap_or(u16::MAX))
}

/// Folds a sum of words.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "twice folded, 32 bits are 16")]
const fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

/// Makes the cached route of a conversation of which a packet has just gone the long way, if there were several, and if there
/// is none: some packets go the long way all the same.
#[cold]
pub(crate) fn learn(cpu: &mut Cpu, ends: &FourTuple, tx_params: IpTxParams) {
    let key = Key::new(ends, tx_params);
    let is_known = cpu.routes.get(&key, cpu.adjs.generation()).is_some();
    if ends.zone == 0
        && !is_known
        && cpu.routes.is_wanted(&key)
        && let Some(route) = derive(cpu, key, ends)
    {
        cpu.count(Count::RoutesCached);
        cpu.routes.set(route);
    }
}

/// `None`, if the next hop has no adjacency, or its link address is not known or its use must be reported.
fn derive(cpu: &Cpu, key: Key, ends: &FourTuple) -> Option<CachedRoute> {
    let adj = cpu.adjs.own(cpu.tables.fib.table(key.tx_params.fib).lookup(ends.remote))?;
    let addrs = match adj.kind {
        Kind::Gateway => adj.addrs,
        Kind::OnLink => cpu.neigh.settled(&Neighbour { ifindex: adj.outif, addr: ends.remote })?,
        Kind::Group => return None,
    };
    let ifnet = cpu.tables.ifnet(adj.outif)?;
    let (is_direct, completes) = (ifnet.kind.is_device(), ifnet.caps.tx_csum);
    let mut headers = [0; LEN_V6];
    headers.first_chunk_mut().map(|link: &mut LinkAddrs| *link = addrs)?;
    let (link, network) = headers.split_at_mut(LINK_LEN);
    let (ethertype, pseudo) = put_network(network, ends, key.tx_params)?;
    link.last_chunk_mut().map(|field| *field = ethertype.0.to_be_bytes())?;
    let header_sum = u32::from(Sum::new().bytes(network.get(..ip4::HEADER_LEN)?).folded());
    let (generation, mtu) = (cpu.adjs.generation(), u16::try_from(adj.mtu).unwrap_or(u16::MAX));
    Some(CachedRoute {
        key,
        generation,
        headers,
        outif: adj.outif,
        mtu,
        pseudo,
        header_sum,
        is_direct,
        completes,
    })
}

/// Writes the network header without what depends on the packet, and returns its type and the sum of the pseudo-header.
fn put_network(into: &mut [u8], ends: &FourTuple, tx_params: IpTxParams) -> Option<(EtherType, u32)> {
    Some(match (ends.local, ends.remote) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let header = ip4::Header::new(src, dst, Protocol::TCP, 0);
            let header = ip4::Header { ttl: tx_params.hops, tos: 0, dont_fragment: true, ..header };
            header.emit(into).ok()?;
            // The total length and the checksum.
            into.get_mut(2..4)?.fill(0);
            into.get_mut(10..12)?.fill(0);
            (EtherType::IPV4, u32::from(Sum::pseudo_v4(src, dst, Protocol::TCP, 0).folded()))
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = ip6::Header::new(src, dst, Protocol::TCP, 0);
            let class = tx_params.class & !ECN;
            let header = ip6::Header { hop_limit: tx_params.hops, traffic_class: class, ..header };
            header.emit(into).ok()?;
            (EtherType::IPV6, u32::from(Sum::pseudo_v6(src, dst, Protocol::TCP, 0).folded()))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
