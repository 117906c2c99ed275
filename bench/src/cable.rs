//! A cable between two hosts in memory: what one sends the other receives, as a device would have written it.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use dev::mem;
use net::driver::{Caps, Driver, DriverStats};
use pkt::{DATA_LEN, Flags, Gso, HEADROOM, Pkt, PktVec, Pool};

/// Capabilities of the devices at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: checksums are computed and verified, each segment is a frame.
    Plain,
    /// They take super-packets and leave checksums for later, as TAP and veth do.
    Super,
    /// The wire in memory that users have ([`dev::mem`]), which takes super-packets and copies once.
    Wire,
}

/// Buffers of the longest super-packet that every kind takes.
const BUFFERS_MAX: usize = 33;
/// Buffers that an end of a wire has for what comes.
const WIRE_BUFFERS: usize = 1024;

/// One end.
pub struct End {
    kind: Kind,
    from: Arc<Mutex<Direction>>,
    to: Arc<Mutex<Direction>>,
    count: Arc<AtomicUsize>,
}

/// Frames on their way, and room for more.
#[derive(Default)]
struct Direction {
    frames: VecDeque<Frame>,
    spare: Vec<Frame>,
}

/// A frame, and what goes with it where a device takes super-packets.
#[derive(Default)]
struct Frame {
    bytes: Vec<u8>,
    is_partial: bool,
    csum: (u16, u16),
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
    let ([there, back], traffic) = pair(kind);
    Ok(([Box::new(there), Box::new(back)], traffic))
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
            Self::Super | Self::Wire => {
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

impl Frame {
    fn take(&mut self, pkt: &Pkt) {
        self.bytes.clear();
        pkt.fragments().for_each(|part| self.bytes.extend_from_slice(part));
        self.is_partial = pkt.flags.has(Flags::CSUM_PARTIAL);
        (self.csum, self.gso) = ((pkt.csum_start, pkt.csum_off), (pkt.gso, pkt.gso_size));
    }

    /// Buffers that it takes.
    const fn buffers(&self) -> usize {
        self.bytes.len().div_ceil(DATA_LEN)
    }

    /// Writes it into as many buffers as it takes; from the end, so that no chain is walked for each of them.
    fn put(&self, pool: &mut Pool) -> Option<Pkt> {
        let mut whole: Option<Pkt> = None;
        for part in self.bytes.chunks(DATA_LEN).rev() {
            let mut pkt = pool.take()?;
            write(&mut pkt, part);
            if let Some(behind) = whole.take() {
                pkt.chain(behind);
            }
            whole = Some(pkt);
        }
        let mut whole = whole?;
        if self.is_partial {
            whole.flags.set(Flags::CSUM_PARTIAL);
        }
        ((whole.csum_start, whole.csum_off), (whole.gso, whole.gso_size)) = (self.csum, self.gso);
        Some(whole)
    }
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
        let Direction { frames, spare } = &mut *way;
        let before = into.len();
        // What finds no buffers waits, as in the ring of a device.
        while into.len() - before < max
            && let Some(frame) = frames.pop_front_if(|frame| frame.buffers() <= pool.free())
            && let Some(pkt) = frame.put(pool)
        {
            spare.push(frame);
            if let Err(pkt) = into.push(pkt) {
                pool.give(pkt);
                break;
            }
        }
        into.len() - before
    }

    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        let Ok(mut way) = self.to.lock() else { return };
        self.count.fetch_add(from.len(), Ordering::Relaxed);
        for pkt in from.iter() {
            let mut frame = way.spare.pop().unwrap_or_default();
            frame.take(pkt);
            way.frames.push_back(frame);
        }
        pool.give_all(from);
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
