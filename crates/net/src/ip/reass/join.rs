//! One packet of all pieces.

use std::collections::VecDeque;

use pkt::{Flags, Pkt, Pool};
use wire::checksum::Sum;
use wire::ip6_ext::Fragment;
use wire::{ip4, ip6};

use crate::base::drop::DropReason;
use crate::ip::forward::LINK_GROUP;
use crate::ip::ip6::headers;
use crate::ip::l4;

/// Bytes that lie in the first buffer, where headers are looked for, however small the first pieces were.
const LINEAR: usize = 256;
/// ECN field: not ECN-capable transport.
const NOT_ECT: u8 = 0b00;
/// Congestion experienced.
const CE: u8 = 0b11;

/// Makes one packet of the pieces of a datagram that is whole, which all still have their headers; each's data starts
/// at its `l4`. The packet is a chain of their buffers under the first one's header.
///
/// # Errors
///
/// Gives the packet back if it cannot be what it says.
pub(super) fn join(
    pool: &mut Pool,
    mut first: Pkt,
    mut rest: VecDeque<Pkt>,
) -> Result<Pkt, (Pkt, DropReason)> {
    let congestion = congestion(rest.iter().chain([&first]));
    let groups = rest.iter().chain([&first]).any(|pkt| pkt.flags.any(LINK_GROUP));
    rest.iter_mut().for_each(|pkt| pkt.trim_front(usize::from(pkt.l4)));
    pull_up(pool, &mut first, &mut rest);
    chain(&mut first, rest);
    let finished = if l4::is_ip4(&first) { finish4(&mut first) } else { finish6(&mut first) };
    match (congestion, finished) {
        (None, _) => return Err((first, DropReason::ReassMalformed)),
        (_, None) => return Err((first, DropReason::ReassTooLong)),
        (Some(true), _) => mark_congestion(&mut first),
        (Some(false), _) => (),
    }
    describe(&mut first, groups);
    Ok(first)
}

/// Moves the first bytes of the datagram into its first buffer.
fn pull_up(pool: &mut Pool, first: &mut Pkt, rest: &mut VecDeque<Pkt>) {
    while first.head().len() < LINEAR
        && let Some(next) = rest.front_mut()
    {
        let n = next.head().len().min(LINEAR - first.head().len());
        let Ok(room) = first.append(n) else { return };
        room.copy_from_slice(&next.head()[..n]);
        next.trim_front(n);
        if !next.is_empty() {
            return;
        }
        rest.pop_front().into_iter().for_each(|empty| pool.give(empty));
    }
}

/// Links all behind `first`: from the back, so that each chain is walked once.
fn chain(first: &mut Pkt, rest: VecDeque<Pkt>) {
    let tail = rest.into_iter().rev().reduce(|tail, mut pkt| {
        pkt.chain(tail);
        pkt
    });
    tail.into_iter().for_each(|tail| first.chain(tail));
}

/// Writes an IPv4 header for the whole: its length, no fragment any more, checksum. `None` if it is too long.
fn finish4(pkt: &mut Pkt) -> Option<()> {
    let total = u16::try_from(pkt.len()).ok()?;
    let header_len = usize::from(pkt.l4).max(ip4::HEADER_LEN);
    let header = pkt.head_mut().get_mut(..header_len)?;
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header[6..8].fill(0);
    write_checksum4(header);
    Some(())
}

fn write_checksum4(header: &mut [u8]) {
    header[10..12].fill(0);
    let checksum = Sum::new().bytes(header).checksum();
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// Takes the fragment header out, and writes the length of the whole. `None` if it is too long.
//= https://www.rfc-editor.org/rfc/rfc8200#section-4.5
//# The Next Header field of the last header of the Per-Fragment
//# headers is obtained from the Next Header field of the first
//# fragment's Fragment header.
fn finish6(pkt: &mut Pkt) -> Option<()> {
    let payload_len = u16::try_from(pkt.len() - ip6::HEADER_LEN - Fragment::LEN).ok()?;
    let fragment_at = usize::from(pkt.l4).checked_sub(Fragment::LEN)?;
    let named_by = headers::named_by(pkt.head(), fragment_at)?;
    let head = pkt.head_mut();
    head[named_by] = *head.get(fragment_at)?;
    head[4..6].copy_from_slice(&payload_len.to_be_bytes());
    head.copy_within(..fragment_at, Fragment::LEN);
    pkt.trim_front(Fragment::LEN);
    Some(())
}

/// Whether the whole is marked with congestion, because a piece is. `None` if pieces contradict each other: a sender
/// that cannot be told of congestion is not marked with it.
//= https://www.rfc-editor.org/rfc/rfc3168#section-5.3
fn congestion<'a>(pkts: impl Iterator<Item = &'a Pkt>) -> Option<bool> {
    let seen = pkts.fold(0u8, |seen, pkt| seen | 1 << codepoint(pkt));
    let has = |codepoint: u8| seen >> codepoint & 1 != 0;
    if has(CE) && has(NOT_ECT) { None } else { Some(has(CE)) }
}

fn codepoint(pkt: &Pkt) -> u8 {
    let [v0, v1, ..] = *pkt.window(0);
    let class = if v0 >> 4 == 4 { v1 } else { v1 >> 4 };
    class & CE
}

fn mark_congestion(pkt: &mut Pkt) {
    let header_len = usize::from(pkt.l4);
    let is_ip4 = l4::is_ip4(pkt);
    let head = pkt.head_mut();
    if is_ip4 {
        head[1] |= CE;
        head.get_mut(..header_len).into_iter().for_each(write_checksum4);
    } else {
        head[1] |= CE << 4;
    }
}

/// Keeps what is true of the whole: by which interface it came, and whether any of it was for many.
fn describe(pkt: &mut Pkt, groups: bool) {
    let (rcvif, is_in_transit) = (pkt.rcvif, pkt.flags.has(Flags::TRANSIT));
    pkt.forget();
    pkt.rcvif = rcvif;
    pkt.flags.set(if is_in_transit { Flags::REASSEMBLED.with(Flags::TRANSIT) } else { Flags::REASSEMBLED });
    if groups {
        pkt.flags.set(Flags::MULTICAST);
    }
}
