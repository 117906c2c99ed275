//! Tunnels by their outer addresses: the interface of a packet, by the longest match (`ip_encap`).
//!
//! A tunnel with one other end matches in all of its bits, so no other matches longer: it is found first, in a hash table. Those of
//! prefixes are ranges of addresses, cut where one lies in another, and found by halving, whatever lengths there are. Both are made
//! with the tables, and only read after that.

use core::net::IpAddr;

use super::{Encap, Tunnel};
use crate::link::logical::Kind;
use crate::link::tables::{IfIndex, Ifnet};

/// The tunnels of an [`crate::link::logical::Logical`], by their ends.
#[derive(Debug, Default)]
pub struct Tunnels {
    /// Tunnels with one other end; a power of two of places, at least twice as many as tunnels. Empty without any.
    whole: Vec<Option<(Tunnel, IfIndex)>>,
    /// Tunnels of prefixes: sorted, each range ends where the next begins.
    ranges: Vec<Range>,
}

/// Other ends from an address on, that send to one address of ours.
#[derive(Debug)]
struct Range {
    /// Our end and the encapsulation.
    here: (IpAddr, Encap),
    /// The first other end, as a number.
    first: u128,
    /// The most specific tunnel that has them, if any has.
    ifindex: Option<IfIndex>,
}

impl Tunnels {
    /// Returns the tunnels among interfaces, those that are down included. Of equal ones that with the lowest index is found.
    pub(in crate::link) fn of(ifs: &[Ifnet]) -> Self {
        let tunnel = |ifnet: &Ifnet| match ifnet.kind {
            Kind::Tunnel(tunnel) => Some((tunnel.masked(tunnel.remote_len), ifnet.index)),
            _ => None,
        };
        let mut all: Vec<_> = ifs.iter().filter_map(tunnel).collect();
        all.sort_unstable();
        all.dedup_by_key(|(tunnel, _)| *tunnel);
        let (whole, wide): (Vec<_>, Vec<_>) = all.into_iter().partition(|(tunnel, _)| tunnel.has_one_end());
        let mut tunnels = Self { whole: Vec::new(), ranges: ranges(wide) };
        if !whole.is_empty() {
            tunnels.whole.resize((2 * whole.len()).next_power_of_two(), None);
        }
        for entry in whole {
            let at = tunnels.places(&entry.0).find(|at| tunnels.whole[*at].is_none());
            tunnels.whole[at.unwrap_or(0)] = Some(entry);
        }
        tunnels
    }

    /// Returns whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.ranges.is_empty()
    }

    /// Returns the interface of packets between these ends, of which both are whole: the most specific one.
    #[inline]
    #[must_use]
    pub fn find(&self, ends: &Tunnel) -> Option<IfIndex> {
        self.exactly(ends).or_else(|| self.among_ranges(ends))
    }

    /// Returns the interface of the tunnel that has just these two ends.
    #[inline]
    #[must_use]
    pub fn exactly(&self, ends: &Tunnel) -> Option<IfIndex> {
        for at in self.places(ends) {
            let (tunnel, ifindex) = self.whole.get(at)?.as_ref()?;
            if tunnel == ends {
                return Some(*ifindex);
            }
        }
        None
    }

    fn among_ranges(&self, ends: &Tunnel) -> Option<IfIndex> {
        let (here, remote) = ((ends.local, ends.encap), number(ends.remote));
        let behind = self.ranges.partition_point(|range| (range.here, range.first) <= (here, remote));
        let range = self.ranges.get(behind.checked_sub(1)?)?;
        range.ifindex.filter(|_| range.here == here)
    }

    /// Where a tunnel may stand, in the order in which it is looked for.
    fn places(&self, ends: &Tunnel) -> impl Iterator<Item = usize> + use<> {
        let (len, first) = (self.whole.len(), mixed(ends));
        // A hash of other widths does no harm.
        #[expect(clippy::cast_possible_truncation, reason = "masked")]
        (0..len).map(move |step| (first as usize).wrapping_add(step) & len.wrapping_sub(1))
    }
}

/// Spreads tunnels over the table. Only tunnels that were configured are in it, so that no sender makes its runs longer.
fn mixed(ends: &Tunnel) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let encap = match ends.encap {
        Encap::Ip => 0,
        Encap::Gre { key: None } => 1,
        Encap::Gre { key: Some(key) } => 2 + u64::from(key),
    };
    let fold = |addr: IpAddr| {
        let number = number(addr);
        #[expect(clippy::cast_possible_truncation, reason = "both halves")]
        let (high, low) = ((number >> 64) as u64, number as u64);
        (high.wrapping_mul(FACTOR) ^ low).wrapping_mul(FACTOR).rotate_left(29)
    };
    let sum = fold(ends.local).wrapping_add(fold(ends.remote).rotate_left(17)).wrapping_add(encap);
    (sum ^ sum >> 32).wrapping_mul(FACTOR) >> 32
}

/// An address as a number, in the order of addresses; each family has its own local end, so they do not meet.
fn number(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(addr) => addr.to_bits().into(),
        IpAddr::V6(addr) => addr.to_bits(),
    }
}

/// Cuts tunnels of prefixes into ranges that do not overlap; in each the longest prefix counts.
fn ranges(mut wide: Vec<(Tunnel, IfIndex)>) -> Vec<Range> {
    // Of prefixes that begin together, the longer one lies in the shorter.
    wide.sort_unstable_by_key(|(tunnel, _)| {
        (tunnel.local, tunnel.encap, number(tunnel.remote), tunnel.remote_len)
    });
    let mut ranges: Vec<Range> = Vec::new();
    let mut begin = |here, first, ifindex| {
        if ranges.last().is_some_and(|last| last.here == here && last.first == first) {
            ranges.pop();
        }
        ranges.push(Range { here, first, ifindex });
    };
    // The prefixes around the one at hand: the last address of each, and its interface.
    let mut around: Vec<(u128, IfIndex)> = Vec::new();
    for (at, (tunnel, ifindex)) in wide.iter().enumerate() {
        let (here, first) = ((tunnel.local, tunnel.encap), number(tunnel.remote));
        while let Some((last, _)) = around.pop_if(|(last, _)| *last < first) {
            begin(here, last + 1, around.last().map(|(_, outer)| *outer));
        }
        begin(here, first, Some(*ifindex));
        around.push((first | below(tunnel), *ifindex));
        let next = wide.get(at + 1).map(|(next, _)| (next.local, next.encap));
        if next != Some(here) {
            while let Some((last, _)) = around.pop() {
                // Behind the last address of all there is none.
                if let Some(next) = last.checked_add(1) {
                    begin(here, next, around.last().map(|(_, outer)| *outer));
                }
            }
        }
    }
    ranges
}

/// The bits of an address behind a tunnel's prefix.
fn below(tunnel: &Tunnel) -> u128 {
    let bits = if tunnel.remote.is_ipv4() { 32 } else { 128_u32 };
    let free = bits.saturating_sub(tunnel.remote_len.into());
    1_u128.checked_shl(free).map_or(u128::MAX, |size| size - 1)
}

#[cfg(test)]
mod tests;
