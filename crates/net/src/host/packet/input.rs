//! Frames come from devices and go to them: a copy for each socket that wants it.

use pkt::{Flags, Gso, Pkt, PktVec, Pool};

use super::socket::{Id, Received, Scratch, Seen, Socket, Sockets};
use crate::base::count::{Count, IfCount};
use crate::base::drop::DropReason;
use crate::base::time::Instant;
use crate::host::app::Noted;
use crate::link::tables::{IfIndex, Tables};
use crate::turn::cpu::Cpu;

/// Frames have come from a device: shows them to the sockets of this CPU, and leaves those in `frames` that no socket takes.
///
/// A socket that has as much to read as it may is not shown a frame: [`Count::PacketSocketFull`].
///
/// Drops  [`DropReason::PacketSocketFull`].
#[cold]
#[inline(never)]
pub(crate) fn received(cpu: &mut Cpu, device: IfIndex, frames: &mut PktVec) {
    let Cpu { packets: Some(sockets), counters, tables, now, .. } = cpu else { return };
    if !sockets.has_takers() {
        for pkt in frames.iter() {
            let (shown, _) = show(sockets, tables, *now, device, pkt);
            counters.add(Count::PacketSocketIn, shown.queued);
            counters.add(Count::PacketSocketFull, shown.full);
        }
        return;
    }
    let mut others = core::mem::take(&mut sockets.scratch.others);
    for pkt in frames.drain() {
        let Cpu { packets: Some(sockets), counters, tables, now, .. } = cpu else { continue };
        let (shown, taken) = show(sockets, tables, *now, device, &pkt);
        counters.add(Count::PacketSocketIn, shown.queued);
        counters.add(Count::PacketSocketFull, shown.full);
        match taken {
            Taken::Not => _ = others.push(pkt).map_err(|pkt| cpu.pool.give(pkt)),
            Taken::Queued | Taken::Full => end(cpu, device, pkt, taken),
        }
    }
    core::mem::swap(frames, &mut others);
    if let Some(sockets) = &mut cpu.packets {
        sockets.scratch.others = others;
    }
}

/// Ends a frame that is a socket's alone, and counts it as received.
fn end(cpu: &mut Cpu, device: IfIndex, pkt: Pkt, taken: Taken) {
    cpu.count(Count::RxPackets);
    cpu.counters.add_if(device, IfCount::RxPackets, 1);
    cpu.counters.add_if(device, IfCount::RxBytes, pkt.len() as u64);
    let fate =
        if taken == Taken::Full { Err(DropReason::PacketSocketFull) } else { Ok(Count::PacketSocketTaken) };
    cpu.finish(pkt, fate);
}

/// Numbers of copies of a frame.
#[derive(Default)]
struct Shown {
    queued: u64,
    full: u64,
}

/// Whether a socket has taken a frame away from the stack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    Not,
    Queued,
    /// It would have, and had no room.
    Full,
}

fn show(sockets: &mut Sockets, tables: &Tables, at: Instant, device: IfIndex, pkt: &Pkt) -> (Shown, Taken) {
    let (mut shown, mut taken) = (Shown::default(), Taken::Not);
    each_wanted(sockets, tables, (at, device, false), pkt, |socket, noted, received, bytes, _| {
        let is_queued = socket.push(received, bytes);
        if is_queued {
            shown.queued += 1;
            socket.is_noted(noted);
        } else {
            shown.full += 1;
        }
        match taken {
            _ if !socket.wanted.takes => {}
            Taken::Not | Taken::Full if is_queued => taken = Taken::Queued,
            Taken::Not => taken = Taken::Full,
            Taken::Queued | Taken::Full => {}
        }
    });
    (shown, taken)
}

/// Calls `each` for each socket that wants a frame of a device, with what it has of it.
fn each_wanted(
    sockets: &mut Sockets,
    tables: &Tables,
    (at, device, is_outgoing): (Instant, IfIndex, bool),
    pkt: &Pkt,
    mut each: impl FnMut(&mut Socket, &mut Noted<Id>, Received, &[u8], &mut Offered<'_>),
) {
    let (sockets, noted, Scratch { contiguous, untagged, offered, bytes: copies, .. }) = sockets.each();
    let mut offers = Offered { offered, copies };
    let bytes = if pkt.is_chained() {
        contiguous.clear();
        pkt.fragments().for_each(|part| contiguous.extend_from_slice(part));
        &contiguous[..]
    } else {
        pkt.head()
    };
    let is_partial = pkt.flags.has(Flags::CSUM_PARTIAL) || pkt.gso != Gso::None;
    for socket in sockets {
        let seen = Seen { at, device, bytes, is_outgoing, is_partial };
        if let Some((received, bytes)) = socket.select(tables, seen, untagged) {
            each(socket, noted, received, bytes, &mut offers);
        }
    }
}

/// Copies of frames that a device has not taken yet.
struct Offered<'s> {
    offered: &'s mut Vec<(usize, Id, Received)>,
    copies: &'s mut Vec<u8>,
}

/// Offers frames to a device by `tx`, and shows those that it takes to the sockets that want them.
#[cold]
#[inline(never)]
pub(crate) fn sent(
    sockets: &mut Sockets,
    (tables, at, device): (&Tables, Instant, IfIndex),
    pkts: &mut PktVec,
    pool: &mut Pool,
    tx: impl FnOnce(&mut Pool, &mut PktVec),
) -> Delivered {
    sockets.scratch.offered.clear();
    sockets.scratch.bytes.clear();
    let offered = pkts.len();
    for (place, pkt) in pkts.iter().enumerate() {
        each_wanted(sockets, tables, (at, device, true), pkt, |socket, _, received, bytes, offers| {
            offers.offered.push((place, socket.id(), received));
            offers.copies.extend_from_slice(bytes);
        });
    }
    tx(pool, pkts);
    sockets.deliver(offered - pkts.len())
}

/// Frames that sockets were shown, and that had no room.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivered {
    pub(crate) queued: u64,
    pub(crate) full: u64,
}

impl Sockets {
    /// Queues the copies of the first `taken` frames that were offered.
    fn deliver(&mut self, taken: usize) -> Delivered {
        let (offered, bytes) =
            (core::mem::take(&mut self.scratch.offered), core::mem::take(&mut self.scratch.bytes));
        let (mut delivered, mut rest) = (Delivered::default(), &bytes[..]);
        for &(place, id, received) in &offered {
            let Some((copy, behind)) = rest.split_at_checked(received.len) else { break };
            rest = behind;
            if place >= taken {
                break;
            }
            let is_queued = self.get_mut(id).is_some_and(|socket| socket.push(received, copy));
            if is_queued {
                delivered.queued += 1;
                self.note(id);
            } else {
                delivered.full += 1;
            }
        }
        (self.scratch.offered, self.scratch.bytes) = (offered, bytes);
        delivered
    }
}
