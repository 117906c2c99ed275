//! Capture: copies of packets where they come from devices and interfaces over others, go to them, and are dropped.
//!
//! A capture is attached to each CPU, and copies what its filter matches into a buffer of a fixed size. Its reader swaps that
//! for an empty one, as `bpf(4)` does with its store and hold buffers. What a full buffer has no room for is lost to the capture
//! alone, and counted. Without a capture nothing here is called.

mod buffer;
mod link_header;
mod sampling;

use core::num::NonZeroU32;
use std::sync::Arc;

use pkt::{Pkt, PktVec};
use wire::bpf::{Insn, Packet, Program};
use wire::ether::{EtherType, HEADER_LEN};

use self::buffer::Mark;
pub use self::buffer::{BUFFER_MAX, BUFFER_MIN, Buffer, Record};
use self::sampling::Sampler;
use crate::base::drop::DropReason;
use crate::base::time::Instant;
use crate::link::driver::Driver;
use crate::link::logical::Path;
use crate::link::tables::{IfIndex, Tables};
use crate::turn::cpu::Cpu;

/// Captures that a stack has at once.
pub const CAPTURES_MAX: usize = 8;
/// Bytes of a packet that a filter sees if it lies in several buffers, or has lost its link header. The largest super-packet is
/// shorter.
const CONTIGUOUS_MAX: usize = 65_600;

/// Where a packet was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Received from a device, or taken out of the headers of an interface over others.
    In,
    /// Given to a device, or to an interface over others before it gets its headers.
    Out,
    /// Dropped, and why.
    Drop(DropReason),
}

/// The places at which a capture copies packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Received.
    pub rx: bool,
    /// Sent.
    pub tx: bool,
    /// Dropped.
    pub drops: bool,
}

/// The packets that a capture copies, and how much of each.
#[derive(Debug)]
pub struct Selection {
    /// Interfaces by index; `None` for all devices. Frames of a VLAN have no tag; packets of a tunnel have a link header of zeros.
    pub interfaces: Option<Vec<IfIndex>>,
    /// Places.
    pub places: Places,
    /// Bytes of each packet at the most.
    pub snap_len: usize,
    /// The filter, of frames that begin with an Ethernet header.
    pub filter: Option<Program<Box<[Insn]>>>,
    /// Samples one of so many received packets, on average and by chance; `None` looks at each. What is sent or dropped is
    /// not sampled.
    pub sampling: Option<NonZeroU32>,
}

/// Counts of a capture on a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that were selected.
    pub matched: u64,
    /// Selected packets that the buffer had no room for.
    pub lost: u64,
}

/// The number of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureId(pub u32);

/// As many captures as are allowed are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

/// The captures of a CPU: at least one.
pub struct Captures {
    list: Vec<Capture>,
    /// Packets that are not in one piece are copied here for their filters.
    contiguous: Vec<u8>,
    /// Frames of VLANs without their tags.
    untagged: Vec<u8>,
}

struct Capture {
    id: CaptureId,
    selection: Arc<Selection>,
    store: Buffer,
    counts: Counts,
    /// Chooses packets, if not each is looked at.
    sampler: Option<Sampler>,
    /// The state before each packet that is offered to a device.
    offered: Vec<(Mark, Counts)>,
}

/// A packet as a capture sees it.
#[derive(Clone, Copy)]
struct Seen<'p> {
    at: Instant,
    ifindex: IfIndex,
    place: Place,
    bytes: &'p [u8],
    len: usize,
}

/// Begins to copy what `selection` selects into `store`.
///
/// # Errors
///
/// [`TooMany`].
pub fn attach(cpu: &mut Cpu, id: CaptureId, selection: Arc<Selection>, store: Buffer) -> Result<(), TooMany> {
    let captures = cpu.captures.get_or_insert_with(|| {
        let (contiguous, untagged) = (Vec::with_capacity(CONTIGUOUS_MAX), Vec::new());
        Box::new(Captures { list: Vec::new(), contiguous, untagged })
    });
    if captures.list.len() >= CAPTURES_MAX {
        return Err(TooMany);
    }
    let offered = Vec::with_capacity(pkt::VEC_MAX);
    let seed = u64::from(id.0) << 32 | u64::from(cpu.id.0);
    let sampler = selection.sampling.map(|of| Sampler::new(of, seed));
    captures.list.push(Capture { id, selection, store, counts: Counts::default(), sampler, offered });
    cpu.watched = true;
    Ok(())
}

/// Returns what was copied since the last call, and counts since the beginning; `empty` is filled from now on. `None` if there is
/// no such capture.
pub fn swap(cpu: &mut Cpu, id: CaptureId, empty: Buffer) -> Option<(Buffer, Counts)> {
    let capture = cpu.captures.as_mut()?.list.iter_mut().find(|capture| capture.id == id)?;
    Some((core::mem::replace(&mut capture.store, empty), capture.counts))
}

/// Ends a capture, and returns its buffer, whose memory should be given back by another thread; `None` if it is not there.
pub fn detach(cpu: &mut Cpu, id: CaptureId) -> Option<Buffer> {
    let list = &mut cpu.captures.as_mut()?.list;
    let at = list.iter().position(|capture| capture.id == id)?;
    let capture = list.swap_remove(at);
    if list.is_empty() {
        cpu.captures = None;
        cpu.watched = cpu.is_watched();
    }
    Some(capture.store)
}

/// Frames have come from a device.
#[cold]
#[inline(never)]
pub(crate) fn received(cpu: &mut Cpu, ifindex: IfIndex, frames: &PktVec) {
    let Cpu { captures, tables, now, .. } = cpu;
    let Some(captures) = captures else { return };
    captures.sample((*now, ifindex), tables, frames);
    if captures.list.iter().any(|capture| capture.sampler.is_none()) {
        frames.iter().for_each(|pkt| captures.see((*now, ifindex, Place::In), tables, pkt));
    }
}

/// A packet has lost its outer headers and is one of the interface `pkt.rcvif`, which has no frames.
#[cold]
#[inline(never)]
pub(crate) fn decapsulated(cpu: &mut Cpu, pkt: &Pkt, kind: EtherType) {
    let Cpu { captures, tables, now, .. } = cpu;
    if let Some(captures) = captures {
        captures.contiguous.clear();
        captures.contiguous.extend_from_slice(&[0; HEADER_LEN - 2]);
        captures.contiguous.extend_from_slice(&kind.0.to_be_bytes());
        captures.see_logical((*now, pkt.rcvif, Place::In), tables, pkt);
    }
}

/// A frame has lost its outer headers and is one of the interface `pkt.rcvif`.
#[cold]
#[inline(never)]
pub(crate) fn frame_decapsulated(cpu: &mut Cpu, pkt: &Pkt) {
    let Cpu { captures, tables, now, .. } = cpu;
    if let Some(captures) = captures {
        captures.contiguous.clear();
        captures.see_logical((*now, pkt.rcvif, Place::In), tables, pkt);
    }
}

/// A frame is about to leave by the interface `pkt.outif`, which is over others; that of a tunnel has link addresses of zeros.
#[cold]
#[inline(never)]
pub(crate) fn encapsulating(cpu: &mut Cpu, pkt: &Pkt) {
    let Cpu { captures, tables, now, .. } = cpu;
    if let Some(captures) = captures {
        captures.contiguous.clear();
        captures.see_logical((*now, pkt.outif, Place::Out), tables, pkt);
    }
}

/// A packet is about to be dropped.
#[cold]
#[inline(never)]
pub(crate) fn dropped(cpu: &mut Cpu, pkt: &Pkt, reason: DropReason) {
    let Cpu { captures, tables, now, .. } = cpu;
    if let Some(captures) = captures {
        captures.see_dropped(*now, tables, pkt, reason);
    }
}

impl Captures {
    /// Offers frames to a device, and keeps copies of those that it takes.
    #[cold]
    #[inline(never)]
    pub(crate) fn transmit(
        &mut self,
        (tables, now, ifindex): (&Tables, Instant, IfIndex),
        pkts: &mut PktVec,
        driver: &mut dyn Driver,
        pool: &mut pkt::Pool,
    ) {
        if !self.list.iter().any(|capture| capture.selection.places.tx) {
            return driver.tx(pool, pkts);
        }
        let offered = pkts.len();
        self.list.iter_mut().for_each(|capture| capture.offered.clear());
        for pkt in pkts.iter() {
            self.list.iter_mut().for_each(Capture::mark);
            self.see((now, ifindex, Place::Out), tables, pkt);
        }
        driver.tx(pool, pkts);
        let taken = offered - pkts.len();
        self.list.iter_mut().for_each(|capture| capture.retract_from(taken));
    }

    fn see(&mut self, (at, ifindex, place): (Instant, IfIndex, Place), tables: &Tables, pkt: &Pkt) {
        let Self { list, contiguous, untagged } = self;
        let len = pkt.len();
        let bytes = if pkt.is_chained() {
            contiguous.clear();
            append(contiguous, pkt);
            &contiguous[..]
        } else {
            pkt.head()
        };
        let seen = Seen { at, ifindex, place, bytes, len };
        let of_each = list.iter_mut().filter(|capture| capture.sampler.is_none());
        of_each.for_each(|capture| capture.see(tables, seen, untagged));
    }

    /// Shows chosen frames to captures that do not look at each. Only their first buffer is seen.
    fn sample(&mut self, (at, ifindex): (Instant, IfIndex), tables: &Tables, frames: &PktVec) {
        let Self { list, untagged, .. } = self;
        for capture in list {
            let Some(sampler) = &mut capture.sampler else { continue };
            let mut chosen = sampler.choose(frames.len());
            while let Some(pkt) = chosen.and_then(|at| frames.iter().nth(at)) {
                let seen = Seen { at, ifindex, place: Place::In, bytes: pkt.head(), len: pkt.len() };
                capture.see(tables, seen, untagged);
                chosen = capture.sampler.as_mut().and_then(|sampler| sampler.choose(frames.len()));
            }
        }
    }

    /// A packet of an interface over others, behind the header in `contiguous`. A capture of all devices has it there.
    fn see_logical(&mut self, (at, ifindex, place): (Instant, IfIndex, Place), tables: &Tables, pkt: &Pkt) {
        let Self { list, contiguous, untagged } = self;
        let mut chosen = list.iter_mut().filter(|capture| capture.selection.interfaces.is_some()).peekable();
        if chosen.peek().is_none() {
            return;
        }
        let len = contiguous.len() + pkt.len();
        append(contiguous, pkt);
        let seen = Seen { at, ifindex, place, bytes: contiguous, len };
        chosen.for_each(|capture| capture.see(tables, seen, untagged));
    }

    /// A packet that has lost its link header gets it back, or one without addresses if there was none.
    fn see_dropped(&mut self, at: Instant, tables: &Tables, pkt: &Pkt, reason: DropReason) {
        let Self { list, contiguous, untagged } = self;
        if !list.iter().any(|capture| capture.selection.places.drops) {
            return;
        }
        contiguous.clear();
        link_header::of(pkt, reason, |header| contiguous.extend_from_slice(header));
        let len = contiguous.len() + pkt.len();
        append(contiguous, pkt);
        let (received, sent) = (device(tables, pkt.rcvif), device(tables, pkt.outif));
        for capture in list {
            let is_selected = |ifindex: &IfIndex| *ifindex != 0 && capture.selection.has(*ifindex);
            let ifindex =
                [received, pkt.rcvif, sent, pkt.outif].into_iter().find(is_selected).unwrap_or(sent);
            let seen = Seen { at, ifindex, place: Place::Drop(reason), bytes: contiguous, len };
            // One that has left its tags behind is what the VLAN has of it.
            let path = Path::over(tables, ifindex);
            let frame = path.and_then(|path| path.frame(contiguous, untagged));
            let removed = frame.map_or(0, |frame| contiguous.len() - frame.len());
            capture.keep(Seen { bytes: frame.unwrap_or(contiguous), len: len - removed, ..seen });
        }
    }
}

/// As much of a packet as there is room for.
fn append(contiguous: &mut Vec<u8>, pkt: &Pkt) {
    for part in pkt.fragments() {
        let room = CONTIGUOUS_MAX - contiguous.len();
        contiguous.extend_from_slice(part.get(..room).unwrap_or(part));
    }
}

/// The device that a logical interface stands on.
fn device(tables: &Tables, ifindex: IfIndex) -> IfIndex {
    let below = |index: &IfIndex| tables.ifnet(*index)?.kind.parent();
    core::iter::successors(Some(ifindex), below).take(4).last().unwrap_or(ifindex)
}

impl Capture {
    /// A frame of a device, or of an interface over others: for each of the selected interfaces that it is a frame of.
    fn see(&mut self, tables: &Tables, seen: Seen<'_>, untagged: &mut Vec<u8>) {
        let selection = Arc::clone(&self.selection);
        let Some(interfaces) = &selection.interfaces else { return self.keep(seen) };
        for &ifindex in interfaces {
            let path = Path::over(tables, ifindex).filter(|path| path.device == seen.ifindex);
            if let Some(bytes) = path.and_then(|path| path.frame(seen.bytes, untagged)) {
                let len = seen.len - (seen.bytes.len() - bytes.len());
                self.keep(Seen { ifindex, bytes, len, ..seen });
            }
        }
    }

    fn keep(&mut self, seen: Seen<'_>) {
        let Self { selection, store, counts, .. } = self;
        let keep = selection.keep(&seen);
        if keep == 0 {
            return;
        }
        counts.matched += 1;
        let Seen { at, ifindex, place, bytes, len } = seen;
        let kept = bytes.get(..keep).unwrap_or(bytes);
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        counts.lost += u64::from(!store.push(Record { at, ifindex, place, len }, kept));
    }

    fn mark(&mut self) {
        self.offered.push((self.store.mark(), self.counts));
    }

    /// Forgets the packets that the device has not taken.
    fn retract_from(&mut self, taken: usize) {
        if let Some((mark, counts)) = self.offered.get(taken) {
            self.store.back_to(mark);
            self.counts = *counts;
        }
    }
}

impl Selection {
    fn has(&self, ifindex: IfIndex) -> bool {
        self.interfaces.as_ref().is_none_or(|some| some.contains(&ifindex))
    }

    /// Bytes to keep; 0 if the packet is not selected.
    fn keep(&self, seen: &Seen<'_>) -> usize {
        let is_wanted = match seen.place {
            Place::In => self.places.rx,
            Place::Out => self.places.tx,
            Place::Drop(_) => self.places.drops,
        };
        if !is_wanted || !self.has(seen.ifindex) {
            return 0;
        }
        let len = u32::try_from(seen.len).unwrap_or(u32::MAX);
        let packet = Packet { bytes: seen.bytes, len, is_outgoing: seen.place == Place::Out };
        let filtered = self.filter.as_ref().map_or(u32::MAX, |filter| filter.run(&packet));
        self.snap_len.min(usize::try_from(filtered).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests;
