//! Where the packets lie that a rule can match.

use core::ops::RangeInclusive;

use ipfw::rule::{Addr, Clause, Match, Net, Rule};

use super::{DIMS, DST, DST_PORT, PROTO, RECV, SRC, SRC_PORT, VIA, XMIT, word_of};
use crate::firewall::ruleset::program::{End, Set};
use crate::firewall::ruleset::resolve;
use crate::link::tables::Tables;

/// A range in each dimension.
pub(in super::super) type Area = [(u32, u32); DIMS];

/// Boxes that a rule is divided into: a list of ports or addresses is a box for each. With more, the list becomes the
/// range from its first to its last.
const BOXES_MAX: usize = 32;

const ALL: Area = [(0, u32::MAX); DIMS];

/// One way in which a clause can hold: ranges in some dimensions.
type RangeList = Vec<(usize, (u32, u32))>;

/// The boxes that all packets of a family lie in that the rule matches; none if there are no such packets.
pub(in super::super) fn area(rule: &Rule, is_ip4: bool, tables: &Tables) -> Vec<Area> {
    let mut boxes = vec![ALL];
    for clause in &rule.body {
        let Some(mut ways) = ways(clause, is_ip4, tables) else { continue };
        if ways.len() * boxes.len() > BOXES_MAX {
            ways = vec![hull(&ways)];
        }
        let parts = boxes.iter().flat_map(|whole| ways.iter().filter_map(|way| part(whole, way)));
        boxes = parts.collect();
    }
    boxes
}

/// Returns the part of a box that lies in all ranges; `None` if it is empty.
fn part(whole: &Area, way: &RangeList) -> Option<Area> {
    let mut part = *whole;
    for (dim, (from, to)) in way {
        let range = part.get_mut(*dim)?;
        *range = (range.0.max(*from), range.1.min(*to));
        if range.0 > range.1 {
            return None;
        }
    }
    Some(part)
}

/// The smallest ranges that hold all of many ways, in the dimensions that all of them name.
fn hull(ways: &[RangeList]) -> RangeList {
    let range = |dim: usize| {
        let mut all = None;
        for way in ways {
            let (_, (from, to)) = way.iter().find(|(of, _)| *of == dim)?;
            let (first, last) = all.unwrap_or((*from, *to));
            all = Some((first.min(*from), last.max(*to)));
        }
        all.map(|range| (dim, range))
    };
    (0..DIMS).filter_map(range).collect()
}

/// The ways in which a clause can hold; `None` if it may hold anywhere.
fn ways(clause: &Clause, is_ip4: bool, tables: &Tables) -> Option<Vec<RangeList>> {
    let mut all = Vec::new();
    for term in &clause.any {
        all.extend(if term.not { None } else { of_term(&term.is, is_ip4, tables) }?);
    }
    Some(all)
}

fn of_term(is: &Match, is_ip4: bool, tables: &Tables) -> Option<Vec<RangeList>> {
    match is {
        Match::Proto(proto) => Some(vec![proto_is(*proto)]),
        Match::Src(addr) => of_addr(End::Src, addr, is_ip4, tables),
        Match::Dst(addr) => of_addr(End::Dst, addr, is_ip4, tables),
        Match::SrcPort(ranges) => Some(of_ranges(SRC_PORT, ranges)),
        Match::DstPort(ranges) => Some(of_ranges(DST_PORT, ranges)),
        Match::Recv(which) => Some(of_set(RECV, &resolve::interfaces(which, tables)?)),
        Match::Xmit(which) => Some(of_set(XMIT, &resolve::interfaces(which, tables)?)),
        Match::Via(which) => Some(of_set(VIA, &resolve::interfaces(which, tables)?)),
        Match::IcmpTypes(_) if !is_ip4 => Some(Vec::new()),
        Match::Icmp6Types(_) if is_ip4 => Some(Vec::new()),
        Match::IcmpTypes(types) => Some(of_icmp(1, &[*types, 0, 0, 0])),
        Match::Icmp6Types(types) => Some(of_icmp(58, types)),
        Match::TcpFlags(_)
        | Match::Established
        | Match::Setup
        | Match::TcpOptions(_)
        | Match::TcpSeq(_)
        | Match::TcpAck(_)
        | Match::TcpWin(_)
        | Match::TcpMss(_)
        | Match::TcpDataLen(_) => Some(vec![proto_is(6)]),
        Match::Version(version) if *version != if is_ip4 { 4 } else { 6 } => Some(Vec::new()),
        _ => None,
    }
}

fn proto_is(proto: u8) -> RangeList {
    vec![(PROTO, (proto.into(), proto.into()))]
}

/// ICMP's type is where others have their source port.
fn of_icmp(proto: u8, types: &Set) -> Vec<RangeList> {
    let with_proto = |mut way: RangeList| {
        way.extend(proto_is(proto));
        way
    };
    of_set(SRC_PORT, types).into_iter().map(with_proto).collect()
}

fn of_ranges(dim: usize, ranges: &[RangeInclusive<u16>]) -> Vec<RangeList> {
    let filled = ranges.iter().filter(|range| !range.is_empty());
    filled.map(|range| vec![(dim, ((*range.start()).into(), (*range.end()).into()))]).collect()
}

/// A range for each run of bits.
fn of_set(dim: usize, set: &Set) -> Vec<RangeList> {
    let has = |bit: u32| set.get((bit / 64) as usize).is_some_and(|word| word >> (bit % 64) & 1 != 0);
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for bit in (0..256).filter(|bit| has(*bit)) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == bit => *last = bit,
            _ => runs.push((bit, bit)),
        }
    }
    runs.into_iter().map(|run| vec![(dim, run)]).collect()
}

fn of_addr(end: End, addr: &Addr, is_ip4: bool, tables: &Tables) -> Option<Vec<RangeList>> {
    let dim = if end == End::Src { SRC } else { DST };
    let nets = |nets: &[Net]| nets.iter().filter_map(|net| of_net(dim, *net, is_ip4)).collect();
    match addr {
        Addr::Nets(list) => Some(nets(list)),
        Addr::Interface { name, net } => Some(nets(&resolve::addresses(name, *net, tables))),
        Addr::Hosts { .. } if !is_ip4 => Some(Vec::new()),
        Addr::Hosts { base, .. } => {
            let first = base.to_bits();
            // One that goes over the end of all addresses goes on at their beginning.
            let last = first.checked_add(255)?;
            Some(vec![vec![(dim, (first, last))]])
        }
        Addr::Me6 if is_ip4 => Some(Vec::new()),
        Addr::Any | Addr::Me | Addr::Me6 | Addr::Table(_) => None,
    }
}

/// `None` if it is of the other family.
#[expect(clippy::cast_possible_truncation, reason = "addresses are taken apart")]
fn of_net(dim: usize, net: Net, is_ip4: bool) -> Option<RangeList> {
    match net {
        Net::V4 { addr, mask } if is_ip4 => Some(vec![(dim, word(addr.to_bits(), mask.to_bits()))]),
        Net::V6 { addr, mask } if !is_ip4 => {
            let (addr, mask) = (addr.to_bits(), mask.to_bits());
            let of_word = |n: usize| {
                let shift = 96 - 32 * n;
                (word_of(dim, n), word((addr >> shift) as u32, (mask >> shift) as u32))
            };
            let is_asked = |(_, range): &(usize, (u32, u32))| *range != (0, u32::MAX);
            Some((0..4).map(of_word).filter(is_asked).collect())
        }
        _ => None,
    }
}

const fn word(addr: u32, mask: u32) -> (u32, u32) {
    (addr & mask, addr | !mask)
}
