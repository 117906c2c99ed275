//! A wire in memory between two stacks of one process: a device that needs no rights.
//!
//! ```text
//!   end 0                                            end 1
//!   ring 0 ── frames ─▶ ┌─────────┐                  ring 0
//!   ring 1 ── frames ─▶ │ inlet 1 │ ── a copy of ──▶ ring 1
//!      ▲                └─────────┘                     │
//!      └──────────────── dead frames ◀──────────────────┘
//! ```
//!
//! Each end has as many queues as the wire. The sender puts a frame into the inlet that the other end's table names
//! for its hash, as a NIC does; the receiver copies it into buffers of its own, once, and sends the frame back to the
//! ring that it came from. So no stack ever holds another's memory longer than a copy takes, and super-packets cross
//! whole. A ring has [`RING_LEN`] frames out at the most, and an inlet room for those of all rings, so nothing is lost on
//! the wire: what does not fit waits in the sender's output queue.
//!
//! An end that is closed takes back what it has sent. To a wire whose other end is closed nothing is sent: the link is
//! down, and comes up when it is opened (again).

mod ring;

use core::fmt;
use core::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_queue::ArrayQueue;
use net::ringmap::RingMap;
use pkt::Pkt;
use pkt::wake::{Sleeper, Waker};

pub use self::ring::MemRing;
use crate::sys::poll::EventFd;

/// Frames that a ring has sent and that have not been received, at the most.
pub const RING_LEN: usize = 512;
/// Queues of a wire at the most; as many as a NIC has.
pub const QUEUES_MAX: usize = 256;
/// Places of the table that says which queue a hash goes to: whatever number of CPUs there is, it says it exactly.
const TABLE_LEN: usize = 512;

/// One end of a wire. Its clones are the same end.
#[derive(Clone)]
pub struct End {
    wire: Arc<Wire>,
    side: usize,
}

/// The two ends of a new wire with this many queues in each direction. As many as the stack with more of them has CPUs
/// is right.
///
/// # Errors
/// `InvalidInput` for none, or more than [`QUEUES_MAX`]; when the process is out of descriptors.
pub fn wire(queues: usize) -> io::Result<[End; 2]> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    if queues == 0 || queues > QUEUES_MAX {
        let text = format!("a wire has 1 to {QUEUES_MAX} queues, not {queues}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let wire = Arc::new(Wire { number, sides: [Side::new(queues)?, Side::new(queues)?] });
    Ok([End { wire: Arc::clone(&wire), side: 0 }, End { wire, side: 1 }])
}

impl End {
    /// Opens so many rings of this end, at most as many as it has queues. From now on it receives.
    ///
    /// # Errors
    /// `AddrInUse` while it is open; `InvalidInput` if there are not so many queues, or no ring is asked for.
    pub fn open(&self, rings: usize, allowance: usize) -> io::Result<Vec<MemRing>> {
        let side = &self.wire.sides[self.side];
        if rings == 0 || rings > side.inlets.len() {
            let text = format!("it has {} queues, and {rings} are asked for", side.inlets.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let in_use = || io::Error::new(io::ErrorKind::AddrInUse, "this end of the wire is in use already");
        let owners = side.take(rings).ok_or_else(in_use)?;
        let opened = owners.into_iter().map(|owner| MemRing::new(self.clone(), owner, allowance)).collect();
        side.spread(|bucket| bucket % u16::try_from(rings).unwrap_or(1));
        side.open.store(rings, Ordering::Release);
        Ok(opened)
    }

    /// From now on the other end sends each frame to the ring whose CPU owns its flow.
    pub fn steer(&self, map: &RingMap) {
        self.wire.sides[self.side].spread(|hash| map.ring(hash & (map.buckets() - 1)));
    }

    /// Its queues.
    #[must_use]
    pub fn queues(&self) -> usize {
        self.wire.sides[self.side].inlets.len()
    }

    /// Returns an id that is unique in this process.
    #[must_use]
    pub fn id(&self) -> (u64, usize) {
        (self.wire.number, self.side)
    }
}

/// Compares by end of wire.
impl PartialEq for End {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for End {}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "End({}.{})", self.wire.number, self.side)
    }
}

struct Wire {
    number: u64,
    sides: [Side; 2],
}

/// The state of one end.
struct Side {
    inlets: Box<[Inlet]>,
    /// The inlet of each hash.
    table: Box<[AtomicU16]>,
    /// Number of open rings; 0 without a receiver.
    open: AtomicUsize,
    /// The halves of inlets that are not open. Locked when rings come and go.
    owners: Mutex<Vec<Owner>>,
}

/// Where frames for one ring arrive, and where those that it has sent come back.
struct Inlet {
    frames: ArrayQueue<Frame>,
    dead: ArrayQueue<Pkt>,
    waker: Waker,
    bell: Arc<EventFd>,
}

/// The owner's part of a ring.
struct Owner {
    queue: u16,
    sleeper: Sleeper,
}

/// A frame on the wire.
struct Frame {
    pkt: Pkt,
    /// The ring that sent it.
    from: u16,
}

impl Side {
    fn new(queues: usize) -> io::Result<Self> {
        let (mut inlets, mut owners) = (Vec::new(), Vec::new());
        for queue in (0..u16::MAX).take(queues) {
            let bell = Arc::new(EventFd::new()?);
            let rung = Arc::clone(&bell);
            // An eventfd refuses only when it is full, and then it is rung already.
            let sleeper = Sleeper::new(Box::new(move || drop(rung.notify())));
            inlets.push(Inlet {
                frames: ArrayQueue::new(RING_LEN * queues),
                dead: ArrayQueue::new(RING_LEN),
                waker: sleeper.waker(),
                bell,
            });
            owners.push(Owner { queue, sleeper });
        }
        Ok(Self {
            inlets: inlets.into(),
            table: (0..TABLE_LEN).map(|_| AtomicU16::new(0)).collect(),
            open: AtomicUsize::new(0),
            owners: Mutex::new(owners),
        })
    }

    fn spread(&self, ring: impl Fn(u16) -> u16) {
        for (hash, place) in (0..).zip(&self.table) {
            place.store(ring(hash), Ordering::Relaxed);
        }
    }

    /// Takes the owners' parts of the first rings; `None` if one is taken.
    fn take(&self, rings: usize) -> Option<Vec<Owner>> {
        let mut owners = self.owners();
        if owners.len() < self.inlets.len() {
            return None;
        }
        let taken = owners.extract_if(.., |owner| usize::from(owner.queue) < rings).collect();
        drop(owners);
        Some(taken)
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire) > 0
    }

    fn owners(&self) -> MutexGuard<'_, Vec<Owner>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
