//! Reassembly of datagrams for this host: one engine for both families.
//!
//! Fragments are placed by their addresses alone, so all of a datagram meet on one CPU. What becomes whole goes on
//! where its flow lives. Everything is bounded, and what is old gives way to what is new: a datagram that lives comes
//! whole within milliseconds, so what has waited longest is the least likely to.

mod datagram;
mod join;
mod table;

use core::net::IpAddr;
use std::collections::VecDeque;

use pkt::{Flags, Pkt};
use wire::ip6_ext::{At, Fragment, Role, walk};
use wire::{ip4, ip6};

use self::datagram::{Datagram, Outcome, Piece};
use self::table::Table;
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::base::time::Duration;
use crate::ip::icmp::Problem;
use crate::ip::{ip6 as inet6, l4};
use crate::link::tables::IfIndex;
use crate::out::offload;
use crate::turn::cpu::Cpu;
use crate::turn::netisr::dispatch;
use crate::turn::next::Next;
use crate::turn::rss;
use crate::turn::timers::Timer;

/// Buffers that wait at the most, unless that is more than a quarter of the pool.
const BUFFERS_MAX: usize = 2048;

/// Reassembly timeout of IPv4. RFC 1122 §3.3.2 would have 60 to 120 seconds, from a time when the 16
/// bits of identification did not come round so soon; at today's rates fragments of different datagrams then meet
/// (RFC 4963). Linux waits as long as this.
const TIMEOUT4: Duration = Duration::from_secs(30);
//= https://www.rfc-editor.org/rfc/rfc8200#section-4.5
//# If insufficient fragments are received to complete reassembly
//# of a packet within 60 seconds of the reception of the first-
//# arriving fragment of that packet, reassembly of that packet
//# must be abandoned and all the fragments that have been received
//# for that packet must be discarded.
const TIMEOUT6: Duration = Duration::from_secs(60);

/// Datagrams that wait for fragments.
pub struct Reass {
    table: Table,
    timer_is_set: bool,
}

/// The fields that all fragments of a datagram share, and no others.
//= https://www.rfc-editor.org/rfc/rfc791#section-3.2
//= https://www.rfc-editor.org/rfc/rfc8200#section-4.5
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    src: IpAddr,
    dst: IpAddr,
    id: u32,
    /// IPv4 only: in IPv6, fragments may differ, and the first one's counts.
    protocol: u8,
    /// IPv6 link-local sources only, which are different hosts on different links. All others may come over
    /// several links.
    ifindex: IfIndex,
}

/// Takes a fragment of an IPv4 datagram for this host in. When the datagram is whole it goes on at
/// [`crate::ip::ip4::local::input`], with [`Flags::REASSEMBLED`], on the CPU that owns it.
///
/// Drops  [`DropReason::ReassMalformed`], [`DropReason::ReassOverlap`], [`DropReason::ReassTooLong`],
///        [`DropReason::ReassTooMany`], [`DropReason::ReassDuplicate`], [`DropReason::ReassFull`],
///        [`DropReason::ReassSourceFull`], and later [`DropReason::ReassTimeout`].
///
/// # Spec
/// RFC 791 §3.2; RFC 1122 §3.3.2; RFC 1858.
pub fn input4(cpu: &mut Cpu, pkt: Pkt) {
    cpu.count(Count::Ip4FragmentsIn);
    match read4(&pkt) {
        Ok((key, start, more)) => {
            let pkt = detached(cpu, pkt);
            input(cpu, key, Piece::new(pkt, start, more));
        }
        Err(reason) => cpu.drop_pkt(pkt, reason),
    }
}

/// Puts a datagram together for the firewall: when it is whole, it comes in again, on the CPU that owns it.
///
/// Drops  as [`input4`], [`input6`].
pub(crate) fn in_transit(cpu: &mut Cpu, mut pkt: Pkt) {
    pkt.flags.set(Flags::TRANSIT);
    if l4::is_ip4(&pkt) {
        return input4(cpu, pkt);
    }
    let chain = ip6::View::new_quoted(pkt.head()).ok().and_then(|view| walk(&view, Role::Host).ok());
    match chain.and_then(|chain| chain.fragment) {
        Some(fragment) => input6(cpu, pkt, &fragment),
        None => cpu.drop_pkt(pkt, DropReason::ReassMalformed),
    }
}

fn read4(pkt: &Pkt) -> Result<(Key, u16, bool), DropReason> {
    let view = ip4::View::new_quoted(pkt.head()).map_err(|_| DropReason::ReassMalformed)?;
    let (start, more) = (view.fragment_offset(), view.more_fragments());
    let len = pkt.len() - view.header_len();
    let end = usize::from(start) + len;
    if len == 0 || more && !len.is_multiple_of(8) {
        return Err(DropReason::ReassMalformed);
    }
    if view.header_len() + end > usize::from(u16::MAX) {
        return Err(DropReason::ReassTooLong);
    }
    let (src, dst) = (view.src().into(), view.dst().into());
    let (id, protocol) = (u32::from(view.id()), view.protocol().0);
    Ok((Key { src, dst, id, protocol, ifindex: 0 }, start, more))
}

/// Takes a fragment of an IPv6 packet for this host in: not an atomic one, which is whole as it is. `fragment` is its
/// fragment header. When the packet is whole it goes on at [`crate::ip::ip6::local::input`], without fragment header and
/// with [`Flags::REASSEMBLED`], on the CPU that owns it.
///
/// Next   [`Next::Answer`].
/// Drops  as [`input4`].
///
/// # Spec
/// RFC 8200 §4.5; RFC 5722; RFC 6946.
pub fn input6(cpu: &mut Cpu, mut pkt: Pkt, fragment: &At<Fragment>) {
    cpu.count(Count::Ip6FragmentsIn);
    let At { at, header: Fragment { offset, more, id, .. }, .. } = *fragment;
    let data_at = at + Fragment::LEN;
    let len = pkt.len().saturating_sub(data_at);
    // Fragments in fragments: only an attacker makes them.
    if len == 0 || pkt.flags.has(Flags::REASSEMBLED) {
        return cpu.drop_pkt(pkt, DropReason::ReassMalformed);
    }
    if let Err(error) = fragment.header.check_data(at, at.saturating_sub(ip6::HEADER_LEN), len) {
        let next = inet6::refuse(&error, inet6::dst(&pkt));
        return dispatch(cpu, pkt, next);
    }
    let (src, dst) = l4::ends(&pkt);
    let is_scoped = inet6::src(&pkt).is_unicast_link_local();
    let ifindex = if is_scoped { pkt.rcvif } else { 0 };
    pkt.l4 = u16::try_from(data_at).unwrap_or(u16::MAX);
    let pkt = detached(cpu, pkt);
    input(cpu, Key { src, dst, id, protocol: 0, ifindex }, Piece::new(pkt, offset, more));
}

/// The fragment in buffers of this CPU, so that it keeps none from the receive ring that it came by, perhaps another
/// CPU's, however long it waits. Without a free buffer it stays where it is.
fn detached(cpu: &mut Cpu, pkt: Pkt) -> Pkt {
    let Some(mut copy) = offload::copy(cpu, &pkt, &[], 0, pkt.len()) else { return pkt };
    (copy.tag, copy.fib) = (pkt.tag, pkt.fib);
    cpu.pool.give(pkt);
    copy
}

/// Puts a piece to the others of its datagram, and sends the datagram on if that makes it whole.
fn input(cpu: &mut Cpu, key: Key, piece: Piece) {
    if !make_room(cpu, &key, piece.buffers) {
        return cpu.drop_pkt(piece.pkt, DropReason::ReassFull);
    }
    let timeout = if key.src.is_ipv4() { TIMEOUT4 } else { TIMEOUT6 };
    let outcome = cpu.reass.table.insert(key, piece, cpu.now + timeout);
    set_timer(cpu);
    match outcome {
        Outcome::Kept => (),
        Outcome::Refused(pkt, reason) => cpu.drop_pkt(pkt, reason),
        Outcome::Ruined(pieces, reason) => bury_all(cpu, pieces, reason),
        Outcome::Whole => whole(cpu, &key),
    }
}

fn whole(cpu: &mut Cpu, key: &Key) {
    let mut pkts: VecDeque<_> =
        cpu.reass.table.remove(key).into_iter().flat_map(Datagram::into_pkts).collect();
    let Some(first) = pkts.pop_front() else { return };
    let (joined, reassembled) = match key.src.is_ipv4() {
        true => (Count::Ip4FragmentsJoined, Count::Ip4Reassembled),
        false => (Count::Ip6FragmentsJoined, Count::Ip6Reassembled),
    };
    cpu.counters.add(joined, pkts.len() as u64);
    match join::join(&mut cpu.pool, first, pkts) {
        Ok(pkt) => {
            cpu.count(reassembled);
            deliver(cpu, pkt);
        }
        Err((pkt, reason)) => cpu.drop_pkt(pkt, reason),
    }
}

/// Brings a whole datagram to the CPU that its flow belongs to, which only now shows: up or, if it was put together on
/// its way, to where it would have come in had it been whole.
fn deliver(cpu: &mut Cpu, mut pkt: Pkt) {
    if pkt.flags.has(Flags::TRANSIT) {
        pkt.flags.clear(Flags::TRANSIT);
        let again = if l4::is_ip4(&pkt) { Next::Ip4 } else { Next::Ip6 };
        let next = rss::place(cpu, &mut pkt, again);
        return dispatch(cpu, pkt, next);
    }
    let is_ip4 = l4::is_ip4(&pkt);
    pkt.hash = if is_ip4 { rss::hash4(pkt.window(0)) } else { rss::hash6(pkt.window(0)) };
    pkt.flags.set(Flags::HASH);
    pkt.resume = l4::resume(&pkt) as u8;
    let owner = cpu.placement.owner(pkt.hash);
    let here = if is_ip4 { Next::Local4 } else { Next::Local6 };
    dispatch(cpu, pkt, if owner == cpu.id { here } else { Next::HandOff(owner) });
}

/// Makes room for `buffers` more of the datagram `key`; old ones give way. False if there cannot be room.
fn make_room(cpu: &mut Cpu, key: &Key, buffers: usize) -> bool {
    if let Some((oldest, reason)) = cpu.reass.table.crowded_out(key) {
        evict(cpu, &oldest, reason);
    }
    let max = BUFFERS_MAX.min(cpu.pool.total() / 4);
    while cpu.reass.table.buffers() + buffers > max {
        let Some(oldest) = cpu.reass.table.oldest() else { return false };
        evict(cpu, &oldest, DropReason::ReassFull);
    }
    true
}

fn evict(cpu: &mut Cpu, key: &Key, reason: DropReason) {
    if let Some(datagram) = cpu.reass.table.remove(key) {
        bury_all(cpu, datagram.pieces, reason);
    }
}

fn bury_all(cpu: &mut Cpu, pieces: Vec<Piece>, reason: DropReason) {
    pieces.into_iter().for_each(|piece| cpu.drop_pkt(piece.pkt, reason));
}

/// Sees to it that the timer fires when the first datagram is late. It looks again after the shorter of the two
/// timeouts at the latest, so that none which begins meanwhile is late before that.
fn set_timer(cpu: &mut Cpu) {
    if !core::mem::replace(&mut cpu.reass.timer_is_set, true) {
        let first = cpu.reass.table.deadline();
        let latest = cpu.now + TIMEOUT4;
        cpu.timers.set(first.map_or(latest, |first| first.min(latest)), Timer::Reass);
    }
}

/// Gives up datagrams that waited too long, and tells their senders if the first fragment is there to be quoted.
///
/// Next   [`Next::Answer`].
/// Drops  [`DropReason::ReassTimeout`].
pub fn timer(cpu: &mut Cpu) {
    cpu.reass.timer_is_set = false;
    let late = cpu.reass.table.take_late(cpu.now);
    late.into_iter().for_each(|datagram| give_up(cpu, datagram));
    if !cpu.reass.table.is_empty() {
        set_timer(cpu);
    }
}

//= https://www.rfc-editor.org/rfc/rfc792
//# If fragment zero is not available then no time exceeded need be
//# sent at all.
fn give_up(cpu: &mut Cpu, datagram: Datagram) {
    for piece in datagram.pieces {
        let next = match piece.start {
            0 => Next::Answer(Problem::ReassemblyTimeExceeded),
            _ => Next::Drop(DropReason::ReassTimeout),
        };
        dispatch(cpu, piece.pkt, next);
    }
}

impl Reass {
    /// Nothing waits. `key` keys the table.
    #[must_use]
    pub fn new(key: u128) -> Self {
        Self { table: Table::new(key), timer_is_set: false }
    }

    /// Takes out all fragments that wait.
    pub(crate) fn drain(&mut self) -> Vec<Pkt> {
        self.table.drain()
    }
}

#[cfg(test)]
mod tests;
