//! Which CPU owns a packet: placement by symmetric Toeplitz hash.
//!
//! Both directions of a flow hash alike, so they meet on one CPU. The hash places and does nothing else: any sender can
//! choose where their packets go, so tables are never keyed by it.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pkt::{Flags, Pkt, PktVec, WINDOW};
use wire::ether::{EtherType, HEADER_LEN};
use wire::protocol::Protocol;
use wire::toeplitz;

pub use crate::base::rss_hash::{hash_addr, hash_flow, hash_pair};
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::next::{Next, Resume};

/// Buckets that hashes fall into before they are dealt to CPUs: as many as the redirect table of the least NIC has
/// entries.
const BUCKETS_MIN: u16 = 128;
/// Buckets of each CPU, at the least: one of them has no more than a quarter more than another.
const BUCKETS_OF_CPU: u16 = 4;
/// More CPUs than this share their buckets unevenly.
const CPUS_EVEN: u16 = 4096;

/// Deals hashes to CPUs.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    cpus: u16,
    mask: u16,
    /// 2³² by the number of CPUs, rounded up: a multiplication by it in place of a division.
    inverse: u32,
}

impl Placement {
    /// Deals to `cpus` CPUs. With more than 32, 128 buckets would load some CPUs with up to twice the share of others,
    /// so there are more: 256 for up to 64 CPUs, 512 for up to 128. The tables of NICs for so many CPUs hold that.
    #[must_use]
    pub const fn new(cpus: u16) -> Self {
        let even = if cpus > CPUS_EVEN { CPUS_EVEN } else { cpus };
        let buckets = (even * BUCKETS_OF_CPU).next_power_of_two();
        let buckets = if buckets > BUCKETS_MIN { buckets } else { BUCKETS_MIN };
        Self { cpus, mask: buckets - 1, inverse: (u32::MAX / cpus as u32).wrapping_add(1) }
    }

    /// CPUs that packets are dealt to.
    #[must_use]
    pub const fn cpus(self) -> u16 {
        self.cpus
    }

    /// Buckets that hashes fall into: a power of two.
    #[must_use]
    pub const fn buckets(self) -> u16 {
        self.mask + 1
    }

    /// The CPU that owns what hashes to `hash`: the remainder of its bucket by the number of CPUs. (D. Lemire, "Faster
    /// remainders when the divisor is a constant", 2019: exact for numbers of 16 bits.)
    #[inline]
    #[must_use]
    pub const fn owner(self, hash: u16) -> CpuId {
        let fraction = self.inverse.wrapping_mul((hash & self.mask) as u32);
        let [_, _, high, low, ..] = (fraction as u64 * self.cpus as u64).to_be_bytes();
        CpuId(u16::from_be_bytes([high, low]))
    }

    /// Returns the share of one of the CPUs.
    #[must_use]
    pub const fn share(self, cpu: CpuId) -> Share {
        let (cpus, mask) = (self.cpus as u32, self.mask as u32);
        Share {
            mask,
            offset: cpus - cpu.0 as u32,
            inverse: self.inverse,
            largest: self.inverse.wrapping_sub(1),
        }
    }

    /// The CPU that owns what concerns one address: its neighbour entry, or its state as one of ours.
    #[must_use]
    pub fn owner_of(self, addr: IpAddr) -> CpuId {
        self.owner(hash_addr(addr))
    }
}

/// The hashes that one CPU owns: the test of every packet, without computing the owner.
///
/// The CPU's number is added to a bucket with the sign turned, so that its own buckets are multiples of the number of
/// CPUs: those whose product with the inverse leaves next to nothing. (Lemire, as above; exact for what
/// [`Placement::new`] makes.)
#[derive(Clone, Copy, Debug)]
pub struct Share {
    mask: u32,
    /// CPUs, less the number of this one.
    offset: u32,
    inverse: u32,
    /// Largest remainder of a multiple.
    largest: u32,
}

impl Share {
    /// Whether what hashes to `hash` belongs to this CPU.
    #[inline]
    #[must_use]
    pub const fn has(self, hash: u16) -> bool {
        (hash as u32 & self.mask).wrapping_add(self.offset).wrapping_mul(self.inverse) <= self.largest
    }
}

/// Says whose a packet is: answers `here` if it is this CPU's.
///
/// TCP and UDP are placed by addresses and ports, so that both directions meet; everything else, and every fragment,
/// by addresses alone. ARP and neighbour discovery are placed by the address that they are about, because its entry
/// has one owner.
///
/// Reads  the packet's first 64 bytes.   Writes `pkt.hash`, `pkt.resume`.
/// Next   `here`, [`Next::HandOff`].
pub fn place(cpu: &Cpu, pkt: &mut Pkt, here: Next) -> Next {
    if cpu.placement.cpus == 1 { here } else { place_among(cpu, pkt, here) }
}

/// [`place`] where there is more than one CPU.
#[inline(always)]
pub fn place_among(cpu: &Cpu, pkt: &mut Pkt, here: Next) -> Next {
    // A device that is known to compute the same has done it already.
    if !pkt.flags.has(Flags::HASH) {
        pkt.hash = match here {
            Next::Ip4 => hash4(pkt.window(0)),
            Next::Ip6 => hash6(pkt.window(0)),
            _ => hash_arp(pkt.window(0)),
        };
        pkt.flags.set(Flags::HASH);
    }
    if cpu.share.has(pkt.hash) {
        return here;
    }
    pkt.resume = Resume::at(here) as u8;
    Next::HandOff(cpu.placement.owner(pkt.hash))
}

/// Hashes the frames of a chunk whose device does not; its first one tells. [`is_mine`] looks after the others.
pub fn hash_frames(frames: &mut PktVec) {
    if frames.iter().next().is_some_and(|first| !first.flags.has(Flags::HASH)) {
        frames.for_each_prefetching(|_, frame| hash_frame(frame));
    }
}

/// Notes what an IP packet hashes to whose Ethernet header is still on it.
#[inline(always)]
fn hash_frame(frame: &mut Pkt) {
    let ip = frame.window(HEADER_LEN);
    let [.., type_hi, type_lo] = *frame.window(0).first_chunk::<HEADER_LEN>().unwrap_or(&[0; HEADER_LEN]);
    frame.hash = match EtherType(u16::from_be_bytes([type_hi, type_lo])) {
        EtherType::IPV4 => hash4(ip),
        EtherType::IPV6 => hash6(ip),
        _ => return,
    };
    frame.flags.set(Flags::HASH);
}

/// [`hash_frame`] for the few, so that its code is not in the loop that asks whose a frame is.
#[inline(never)]
fn hash_one(frame: &mut Pkt) {
    hash_frame(frame);
}

/// Whether the CPU with this share owns the IP packet that `frame` carries. One that it does not own is made ready for
/// [`hand_off`]: the Ethernet header is taken off.
///
/// Writes `pkt.hash`, `pkt.resume`.
#[inline(always)]
pub fn is_mine(share: Share, frame: &mut Pkt, place: Next) -> bool {
    if !frame.flags.has(Flags::HASH) {
        hash_one(frame);
    }
    if share.has(frame.hash) {
        return true;
    }
    frame.trim_front(HEADER_LEN);
    frame.resume = Resume::at(place) as u8;
    false
}

/// Where a frame goes that [`is_mine`] made ready; `None` for any other.
#[inline]
pub fn hand_off(cpu: &Cpu, pkt: &Pkt) -> Option<Next> {
    Resume::next(pkt.resume).map(|_| Next::HandOff(cpu.placement.owner(pkt.hash)))
}

/// Whether a packet that came from outside is on a CPU that does not own it: a bug of the stack, or of a device that
/// vouches for a hash that is not ours. Errors of ICMP are the CPU's that owns what they quote, if a firewall has states.
#[must_use]
pub fn is_stray(cpu: &Cpu, pkt: &Pkt) -> bool {
    let ip = pkt.window(0);
    let hash = if ip[0] >> 4 == 4 { hash4(ip) } else { hash6(ip) };
    let is_error = cpu.firewall.is_some() && matches!(Protocol(pkt.proto), Protocol::ICMP | Protocol::ICMP6);
    !is_error && !pkt.flags.has(Flags::LOCAL) && cpu.placement.owner(hash) != cpu.id
}

/// The hash of an ARP packet: of the sender's address, or of the target's if the sender is only probing for it.
#[must_use]
#[cold]
pub fn hash_arp(arp: &[u8; WINDOW]) -> u16 {
    let addr = |at: usize| Ipv4Addr::new(arp[at], arp[at + 1], arp[at + 2], arp[at + 3]);
    let (sender, target) = (addr(14), addr(24));
    hash_addr(if sender.is_unspecified() { target } else { sender }.into())
}

/// The hash of an IPv4 packet, from its first 64 bytes. Nothing is validated yet: nonsense is placed anywhere.
#[must_use]
#[inline]
pub fn hash4(ip: &[u8; WINDOW]) -> u16 {
    let mut fold = word(ip, 12) ^ word(ip, 16);
    let is_fragment = word(ip, 4) & FRAGMENT != 0;
    if has_ports(ip[9]) && !is_fragment {
        fold ^= word(ip, usize::from(ip[0] & 0xf) * 4);
    }
    symmetric(fold)
}

/// The hash of an IPv6 packet, from its first 64 bytes. Ports behind extension headers are not looked for.
#[must_use]
#[inline]
pub fn hash6(ip: &[u8; WINDOW]) -> u16 {
    if ip[6] == Protocol::ICMP6.0
        && let Some(neighbour) = nd_subject(ip)
    {
        return hash_addr(neighbour.into());
    }
    let addrs = [8, 12, 16, 20, 24, 28, 32, 36].into_iter().fold(0, |fold, at| fold ^ word(ip, at));
    symmetric(if has_ports(ip[6]) { addrs ^ word(ip, 40) } else { addrs })
}

/// Fragment bits of the second word of an IPv4 header, as it lies in memory.
const FRAGMENT: u32 = u32::from_ne_bytes([0, 0, 0x3f, 0xff]);

/// Four bytes as they lie in memory: words are only folded, so their order does not matter before the end.
#[inline]
fn word(ip: &[u8; WINDOW], at: usize) -> u32 {
    u32::from_ne_bytes([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]])
}

/// The hash of a fold of words as they lie in memory.
#[inline]
fn symmetric(fold: u32) -> u16 {
    let [a, b, c, d] = fold.to_ne_bytes();
    toeplitz::symmetric(u16::from_be_bytes([a ^ c, b ^ d]))
}

/// The address that a neighbour discovery message is about: the target of an advertisement, the source of a
/// solicitation, or its target if the source is not known yet (duplicate address detection, RFC 4862 §5.4).
#[cold]
fn nd_subject(ip: &[u8; WINDOW]) -> Option<Ipv6Addr> {
    let at = |at: usize| ip.get(at..)?.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets));
    match ip[40] {
        ND_ADVERTISEMENT => at(48),
        ND_ROUTER_SOLICITATION..=ND_REDIRECT => at(8).filter(|src| !src.is_unspecified()).or_else(|| at(48)),
        _ => None,
    }
}

const ND_ROUTER_SOLICITATION: u8 = 133;
const ND_ADVERTISEMENT: u8 = 136;
const ND_REDIRECT: u8 = 137;

const fn has_ports(protocol: u8) -> bool {
    protocol == Protocol::TCP.0 || protocol == Protocol::UDP.0
}

#[cfg(test)]
mod tests;
