//! Between the thread that speaks to the peer and the CPU that owns a ring: connections in, old ones and complaints out.
//!
//! The owner looks at one word per burst, and takes the lock only when that has changed. What is unmapped is unmapped by
//! the control thread.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::{ReadWriteFlags, preadv2};

use super::fault::{Counters, Fault};
use super::queue::{RxQueue, TxQueue};
use crate::sys::poll::{EventFd, PollFd, PollFlags, wait};

/// One ring pair of a connection.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) tx: TxQueue,
    /// Rung when the peer sleeps.
    pub(super) tx_bell: Arc<OwnedFd>,
    /// The peer may have fewer rings for what it sends.
    pub(super) rx: Option<(RxQueue, Arc<OwnedFd>)>,
}

/// The descriptor that a sleeping owner waits on, for the life of a ring: an epoll instance, in which the eventfd of each connection
/// has its time. It is edge-triggered, so that the peer's eventfd need never be read.
#[derive(Debug)]
pub(super) struct Sleep(OwnedFd);

impl AsFd for Sleep {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Sleep {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    pub(super) fn watch(&self, bell: impl AsFd) -> std::io::Result<()> {
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(epoll::add(&self.0, bell, epoll::EventData::new_u64(0), edge)?)
    }

    pub(super) fn forget(&self, bell: impl AsFd) {
        // It cannot but be there.
        let _ = epoll::delete(&self.0, bell);
    }

    /// Takes note of all that has rung.
    pub(super) fn clear(&self) {
        let mut events = Vec::with_capacity(4);
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        // Without a descriptor of its own, or with a signal in between, it is noted the next time.
        let _ = epoll::wait(&self.0, spare_capacity(&mut events), Some(&now));
    }
}

/// The mailbox of one ring.
#[derive(Debug)]
pub(super) struct Mailbox {
    /// Counts what was put in.
    changes: AtomicU32,
    inside: Mutex<Inside>,
    /// Wakes the owner.
    bell: EventFd,
    /// Wakes the control thread.
    control: Arc<EventFd>,
    /// Faults that the owner finds in the ring.
    pub(super) counters: Counters,
}

#[derive(Debug, Default)]
struct Inside {
    /// The wire to use from now on.
    next: Option<Option<Box<Wire>>>,
    /// Wires used before.
    old: Vec<Wire>,
    /// Its fault.
    fault: Option<Fault>,
    /// Eventfd that the owner rings, from the beginning of a connection until it has left it.
    peer_bell: Option<Arc<OwnedFd>>,
}

impl Mailbox {
    pub(super) fn new(control: Arc<EventFd>) -> std::io::Result<Self> {
        let (changes, inside, counters) = (AtomicU32::new(0), Mutex::default(), Counters::default());
        Ok(Self { changes, inside, bell: EventFd::new()?, control, counters })
    }

    pub(super) const fn bell(&self) -> &EventFd {
        &self.bell
    }

    /// Control: gives the owner another connection, or none.
    pub(super) fn put(&self, wire: Option<Box<Wire>>) {
        let unseen = {
            let mut inside = self.lock();
            inside.fault = None;
            if let Some(wire) = &wire {
                inside.peer_bell = Some(Arc::clone(&wire.tx_bell));
            }
            inside.next.replace(wire)
        };
        drop(unseen);
        self.changes.fetch_add(1, Ordering::Release);
        ring(&self.bell);
    }

    /// Control: ends what the owner has left behind, and says of what it complains.
    pub(super) fn sweep(&self) -> Option<Fault> {
        let mut inside = self.lock();
        let (old, fault) = (core::mem::take(&mut inside.old), inside.fault.take());
        drop(inside);
        drop(old);
        fault
    }

    /// Control: whether the owner may be ringing the peer.
    pub(super) fn rings_a_peer(&self) -> bool {
        self.lock().peer_bell.is_some()
    }

    /// Control: whether the peer's eventfd is full. Rings never fill it, so the peer has; and if it has also made it block,
    /// the owner waits there. It is emptied, so that the owner comes back.
    pub(super) fn is_choked(&self) -> bool {
        let Some(bell) = self.lock().peer_bell.clone() else { return false };
        let is_full = matches!(wait(&mut [PollFd::new(&bell, PollFlags::OUT)], Some(Duration::ZERO)), Ok(0));
        if is_full {
            // Whatever the peer makes of the descriptor's flags, this does not wait.
            let mut count = [0; 8];
            let _ = preadv2(&bell, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT);
        }
        is_full
    }

    /// Owner: whether something was put in after the change `seen`.
    #[inline]
    pub(super) fn has_changed(&self, seen: u32) -> bool {
        self.changes.load(Ordering::Acquire) != seen
    }

    /// Owner: takes what was put in last; the number of the change goes to `seen`.
    pub(super) fn take(&self, seen: &mut u32) -> Option<Option<Box<Wire>>> {
        let mut inside = self.lock();
        *seen = self.changes.load(Ordering::Acquire);
        inside.next.take()
    }

    /// Owner: leaves a connection behind, perhaps because of a fault.
    pub(super) fn leave(&self, wire: Wire, fault: Option<Fault>) {
        let mut inside = self.lock();
        if inside.peer_bell.as_ref().is_some_and(|bell| Arc::ptr_eq(bell, &wire.tx_bell)) {
            inside.peer_bell = None;
        }
        inside.old.push(wire);
        if inside.next.is_none() && fault.is_some() {
            inside.fault = fault;
        }
        drop(inside);
        ring(&self.control);
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An eventfd refuses only when it is full, and then it has rung.
fn ring(bell: &EventFd) {
    let _ = bell.notify();
}
