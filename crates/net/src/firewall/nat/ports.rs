//! Which port a translated flow gets: one whose replies come to the CPU that owns the flow.
//!
//! The hash that places packets is linear in the XOR of their 16-bit words, and a bijection of it. So each end of a flow,
//! address and port folded together, hashes to a part of its own, and the flow hashes to the XOR of both parts. A port
//! that gives the outside end the same part as the inside end has, as far as CPUs are told apart by it, brings the
//! replies of *every* remote host to the CPU that owns the packets to it. The ends of such parts make a [class](Ports):
//! with 128 buckets, each inside end has 512 ports to choose from.
//!
//! They are tried in an order that follows from the inside end and a key that all CPUs share. So an inside end has the
//! same port for all remote hosts, whichever CPU asks (endpoint-independent mapping, RFC 4787 §4.1), and unpredictable
//! from outside (RFC 6056). Only when two inside ends want the same port for the same remote end does one of them get the
//! next; and only when the class has none left, one of the ports that serve this remote end alone.

use core::ops::RangeInclusive;

use wire::toeplitz::{fold_of, symmetric};

use crate::turn::cpu::CpuId;
use crate::turn::rss::Placement;

/// Ports of a class that are looked at, and those in the range that are offered.
const CLASS_DRAWS: u32 = 512;
const CLASS_MAX: u32 = 32;
/// Draws for ports that serve one remote end.
const DRAWS: u32 = 4096;
const MAX: u32 = 256;

/// The ports of a CPU.
///
/// Parts of hashes that place alike are a class. If the number of CPUs is a power of two, there are as many classes as
/// CPUs; else as many as buckets.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    placement: Placement,
    me: CpuId,
    /// Low bits of a hash that tell classes apart.
    bits: u32,
}

/// For which flow a port is wanted. Of addresses, only the XOR of their 16-bit words matters ([`fold`]).
#[derive(Clone, Debug)]
pub struct Ask {
    /// The inside end: its address and port.
    pub inside: u16,
    /// The address that others see.
    pub outside: u16,
    /// The remote end, as replies come from it: its address and port.
    pub remote: u16,
    /// Whether the remote end is the same to the inside; else the class says nothing.
    pub is_plain: bool,
    /// A port that is to be kept if it can be.
    pub keep: Option<u16>,
    /// The ports that may be taken.
    pub range: RangeInclusive<u16>,
    /// Seed from the inside end and the key that all CPUs share.
    pub seed: u64,
    /// Anything.
    pub dice: u64,
}

/// The XOR of the words of an address, of either family.
#[must_use]
pub const fn fold(addr: u128) -> u16 {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = addr.to_be_bytes();
    u16::from_be_bytes([a ^ c ^ e ^ g ^ i ^ k ^ m ^ o, b ^ d ^ f ^ h ^ j ^ l ^ n ^ p])
}

impl Ports {
    /// The ports whose replies come to `me`.
    #[must_use]
    pub const fn new(placement: Placement, me: CpuId) -> Self {
        let cpus = placement.cpus();
        let classes = if cpus.is_power_of_two() { cpus } else { placement.buckets() };
        Self { placement, me, bits: classes.ilog2() }
    }

    /// Ports to try, the best first. Their number is bounded: when none of them is free, there are next to none left.
    pub fn candidates(self, ask: &Ask) -> impl Iterator<Item = u16> {
        let may_be = |port: &u16| ask.range.contains(port);
        let class = move || self.class(ask).take(if ask.is_plain { CLASS_DRAWS as usize } else { 0 });
        let keep = ask.keep.filter(|port| self.is_of_class(ask, *port));
        let by_class = keep.into_iter().chain(class()).filter(may_be).take(CLASS_MAX as usize);
        let by_remote =
            self.all(ask).take(DRAWS as usize).filter(may_be).filter(move |port| self.is_mine(ask, *port));
        by_class.chain(by_remote.take(MAX as usize))
    }

    /// Whether replies to `port` come to this CPU.
    #[must_use]
    pub fn is_mine(self, ask: &Ask, port: u16) -> bool {
        self.placement.owner(symmetric(ask.outside ^ ask.remote ^ port)) == self.me
    }

    /// Tells whether replies to `port` come to the CPU that owns the flow, for any remote end.
    fn is_of_class(self, ask: &Ask, port: u16) -> bool {
        ask.is_plain && self.part(symmetric(ask.inside ^ ask.outside ^ port)) == 0
    }

    /// The class of a hash.
    const fn part(self, hash: u16) -> u16 {
        hash & !(u16::MAX << self.bits)
    }

    /// The ports of the inside end's class, in the order in which all CPUs try them.
    fn class(self, ask: &Ask) -> impl Iterator<Item = u16> {
        let class = self.part(symmetric(ask.inside));
        let outside = ask.outside;
        let order = Order::new(ask.seed, 0x1_0000 >> self.bits);
        order.map(move |nth| fold_of(low(nth << self.bits) | class) ^ outside)
    }

    /// All ports that replies of the remote end may come to, or all that are allowed if those are fewer: not all of either
    /// are right.
    fn all(self, ask: &Ask) -> impl Iterator<Item = u16> {
        let (first, len) = (u32::from(*ask.range.start()), u32::try_from(ask.range.len()).unwrap_or(0));
        let buckets = u32::from(self.placement.buckets());
        let mine = buckets.saturating_sub(u32::from(self.me.0)).div_ceil(self.placement.cpus().into()).max(1);
        let all = 0x1_0000 / buckets * mine;
        let by_owner = len > all;
        let (ports, other) = (self, ask.outside ^ ask.remote);
        Order::new(ask.dice, if by_owner { all } else { len })
            .map(move |nth| if by_owner { fold_of(ports.hash(nth, mine)) ^ other } else { low(first + nth) })
    }

    /// The hash with a number, of those that this CPU owns: it has `mine` buckets.
    fn hash(self, nth: u32, mine: u32) -> u16 {
        let bucket = u32::from(self.me.0) + nth % mine * u32::from(self.placement.cpus());
        low(nth / mine * u32::from(self.placement.buckets()) + bucket)
    }
}

/// All numbers below a bound once, from one of them on, in steps of the same length.
#[derive(Clone)]
struct Order {
    at: u32,
    step: u32,
    len: u32,
    left: u32,
}

impl Order {
    /// The order of `len` numbers, at most 2¹⁶, that follows from `seed`. Steps are random if that visits them all, as for
    /// powers of two an odd step does.
    fn new(seed: u64, len: u32) -> Self {
        let [a, b, c, d, ..] = seed.to_le_bytes();
        let (at, step) = (u32::from(u16::from_le_bytes([a, b])), u32::from(u16::from_le_bytes([c, d])) | 1);
        let step = if len.is_power_of_two() { step & (len - 1) | 1 } else { 1 };
        Self { at: at.checked_rem(len).unwrap_or(0), step, len, left: len }
    }
}

impl Iterator for Order {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        let at = self.at;
        self.at = (at + self.step) % self.len;
        Some(at)
    }
}

/// The low half of a word.
const fn low(word: u32) -> u16 {
    let [a, b, ..] = word.to_le_bytes();
    u16::from_le_bytes([a, b])
}

#[cfg(test)]
mod tests;
