//! A cable between two hosts in memory: what one sends the other receives, as a device would have written it.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::io;
use std::sync::{Arc, Mutex};

use dev::mem;
use net::driver::{Caps, Driver, DriverStats};
use pkt::{DATA_LEN, Flags, Gso, HEADROOM, Pkt, PktVec, Pool};

use crate::indirect::Indirect;

/// Capabilities of the devices at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: checksums are computed and verified, each segment is a frame.
    Plain,
    /// They take super-packets and leave checksums for later, as TAP and veth do.
    Super,
    /// As [`Self::Super`], and what comes waits in a [queue](Indirect) between driver and stack.
    Indirect,
    /// The wire in memory that users have ([`dev::mem`]), which takes super-packets and copies once.
    Wire,
}

/// Buffers of the longest super-packet that every kind takes.
const BUFFERS_MAX: usize = 33;
/// Frames on their way in one direction, at the most: a power of two.
const FRAMES_MAX: usize = 1024;
/// Buffers that an end of a wire has for what comes.
const WIRE_BUFFERS: usize = 1024;

/// One end.
pub struct End {
    kind: Kind,
    from: Arc<Mutex<Direction>>,
    to: Arc<Mutex<Direction>>,
    count: Arc<AtomicUsize>,
}

/// Frames on their way, in a ring: what does not fit waits where it is sent, as before the ring of a device.
struct Direction {
    frames: Box<[Frame]>,
    /// The first that has not been received, and those behind it.
    first: usize,
    len: usize,
}

/// A frame, and what goes with it where a device takes super-packets.
#[derive(Default)]
struct Frame {
    bytes: Vec<u8>,
    is_partial: bool,
    csum: (u16, u8),
    gso: (Gso, u16),
}

/// Bytes that have crossed a cable.
#[derive(Clone, Default)]
pub struct Traffic(Arc<AtomicUsize>);

/// The ends of a new cable, as devices. What goes over [`Kind::Wire`] is not counted.
///
/// # Errors
///
/// When the process is out of descriptors.
pub fn cable(kind: Kind) -> io::Result<([Box<dyn Driver>; 2], Traffic)> {
    if kind == Kind::Wire {
        let [there, back] = mem::wire(1)?;
        return Ok(([plugged(&there)?, plugged(&back)?], Traffic::default()));
    }
    let (ends, traffic) = pair(kind);
    let ends = ends.map(|end| -> Box<dyn Driver> { Box::new(end) });
    let queued = |end| -> Box<dyn Driver> { Box::new(Indirect::new(end)) };
    Ok((if kind == Kind::Indirect { ends.map(queued) } else { ends }, traffic))
}

/// An end of a wire, which stays open.
fn plugged(end: &mem::End) -> io::Result<Box<dyn Driver>> {
    let ring = end.open(1, WIRE_BUFFERS)?.pop();
    Ok(Box::new(ring.ok_or_else(|| io::Error::other("it has no ring"))?))
}

fn pair(kind: Kind) -> ([End; 2], Traffic) {
    let (there, back) = (Arc::<Mutex<Direction>>::default(), Arc::<Mutex<Direction>>::default());
    let traffic = Traffic::default();
    let end = |from: &Arc<_>, to: &Arc<_>| End {
        kind,
        from: Arc::clone(from),
        to: Arc::clone(to),
        count: Arc::clone(&traffic.0),
    };
    ([end(&back, &there), end(&there, &back)], traffic)
}

impl Kind {
    /// Returns the offloads of such a device.
    #[must_use]
    pub const fn caps(self) -> Caps {
        match self {
            Self::Plain => Caps { tx_csum: false, tso: false, uso: false, buffers_max: 1 },
            Self::Super | Self::Indirect | Self::Wire => {
                Caps { tx_csum: true, tso: true, uso: false, buffers_max: BUFFERS_MAX }
            }
        }
    }
}

impl Traffic {
    /// Frames that either end has sent.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Default for Direction {
    fn default() -> Self {
        Self { frames: (0..FRAMES_MAX).map(|_| Frame::default()).collect(), first: 0, len: 0 }
    }
}

impl Direction {
    /// The oldest frame.
    fn front(&self) -> Option<&Frame> {
        self.frames.get(self.first).filter(|_| self.len > 0)
    }

    fn pop(&mut self) {
        self.len -= 1;
        // What is empty begins anew, so that few frames are used by turns.
        self.first = if self.len == 0 { 0 } else { (self.first + 1) % FRAMES_MAX };
    }

    fn push(&mut self, pkt: &Pkt) {
        if let Some(frame) = self.frames.get_mut((self.first + self.len) % FRAMES_MAX) {
            frame.take(pkt);
            self.len += 1;
        }
    }
}

impl Frame {
    fn take(&mut self, pkt: &Pkt) {
        self.bytes.clear();
        if pkt.is_chained() {
            pkt.fragments().for_each(|part| self.bytes.extend_from_slice(part));
        } else {
            self.bytes.extend_from_slice(pkt.head());
        }
        self.is_partial = pkt.flags.has(Flags::CSUM_PARTIAL);
        (self.csum, self.gso) = ((pkt.csum_start, pkt.csum_off), (pkt.gso, pkt.gso_size));
    }

    /// Buffers that it takes.
    const fn buffers(&self) -> usize {
        self.bytes.len().div_ceil(DATA_LEN)
    }

    /// Writes it into as many buffers as it takes; from the end, so that no chain is walked for each of them.
    fn put(&self, pool: &mut Pool) -> Option<Pkt> {
        let mut whole =
            if self.buffers() == 1 { filled(pool, &self.bytes) } else { chained(pool, &self.bytes) }?;
        if self.is_partial {
            whole.flags.set(Flags::CSUM_PARTIAL);
        }
        ((whole.csum_start, whole.csum_off), (whole.gso, whole.gso_size)) = (self.csum, self.gso);
        Some(whole)
    }
}

fn filled(pool: &mut Pool, bytes: &[u8]) -> Option<Pkt> {
    let mut pkt = pool.take()?;
    write(&mut pkt, bytes);
    Some(pkt)
}

fn chained(pool: &mut Pool, bytes: &[u8]) -> Option<Pkt> {
    let mut whole: Option<Pkt> = None;
    for part in bytes.chunks(DATA_LEN).rev() {
        let mut pkt = filled(pool, part)?;
        if let Some(behind) = whole.take() {
            pkt.chain(behind);
        }
        whole = Some(pkt);
    }
    whole
}

/// As a device writes a frame.
fn write(pkt: &mut Pkt, bytes: &[u8]) {
    if let Some(room) = pkt.buffer_mut()[HEADROOM..].get_mut(..bytes.len()) {
        room.copy_from_slice(bytes);
    }
    let placed = pkt.place(HEADROOM, bytes.len());
    debug_assert!(placed.is_ok(), "no more than a buffer holds");
}

impl Driver for End {
    fn rx(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> usize {
        let Ok(mut way) = self.from.lock() else { return 0 };
        let before = into.len();
        let most = max.min(into.room());
        // What finds no buffers waits, as in the ring of a device.
        while into.len() - before < most
            && let Some(frame) = way.front().filter(|frame| frame.buffers() <= pool.free())
            && let Some(pkt) = frame.put(pool)
        {
            way.pop();
            if let Err(pkt) = into.push(pkt) {
                pool.give(pkt);
                break;
            }
        }
        into.len() - before
    }

    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        let Ok(mut way) = self.to.lock() else { return };
        let room = FRAMES_MAX - way.len;
        self.count.fetch_add(from.len().min(room), Ordering::Relaxed);
        if from.len() <= room {
            from.iter().for_each(|pkt| way.push(pkt));
            return pool.give_all(from);
        }
        for pkt in from.drain_front(room) {
            way.push(&pkt);
            pool.give(pkt);
        }
    }

    fn doorbell(&mut self, _pool: &mut Pool) {}

    fn caps(&self) -> Caps {
        self.kind.caps()
    }

    fn stats(&self) -> DriverStats {
        DriverStats::default()
    }

    fn close(&mut self, _pool: &mut Pool) {}
}
