//! Sleep of a netisr without a lost wake-up; it is woken only while it sleeps.
//!
//! ```text
//!   owner (netisr)                          sender
//!   O1  sleeping ← true                     S1  publish to a ring or port
//!   O2  fence                               S2  fence
//!   O3  look at all queues once more        S3  if sleeping …
//! O4  nothing: wait on the bell           S4  … and this sender clears it: ring the bell
//! ```
//!
//! # Why no wake-up is lost
//!
//! What must not happen is that O3 misses the message of S1 *and* S3 misses the flag of O1: then the owner
//! sleeps and no sender rings. Sequentially consistent fences have one total order. If S2 comes before O2,
//! then O3, after O2, sees what was stored before S2: the message. If O2 comes before S2, then S3 sees
//! what was stored before O2: the flag, or a later value of it. There is no third case.
//!
//! A later value is `false` again, stored by another sender (which then rings, S4) or by the owner
//! (which is awake then, and repeats the sequence, with a new fence, before it sleeps).
//!
//! # Why both fences are needed
//!
//! Release and Acquire order what comes *before* a store and *after* a load; they let a load overtake an
//! earlier store to another place. Processors do that, also x86: the store waits in a store buffer while the
//! load is answered from the cache.
//!
//! - Without O2, the queues may be read (empty) while the flag is still in the owner's store buffer. The
//!   sender publishes, fences, reads `false`, goes. Then the flag becomes visible: asleep, with a message.
//! - Without S2, the flag may be read (`false`) while the message is still in the sender's store buffer. The
//!   owner sets the flag, fences, finds nothing, sleeps. Then the message becomes visible: the same.
//!
//! A fence on one side cannot replace the other: the argument above needs two points to compare. The sender's
//! fence costs some 20 to 40 cycles, hence one call per publication (per peer and turn), not per packet.
//!
//! # Senders
//!
//! Of many senders that see the flag, the one that clears it rings, so there is one ring per sleep. A
//! ring may come late, when the owner is awake already (it was cancelled, or its deadline came): the bell must
//! keep it, as an eventfd does, and the owner's next sleep is then a short one.

use core::sync::atomic::Ordering;

use crossbeam_utils::CachePadded;

use crate::{
    counters::{CounterBlock, CounterReader, Index},
    sync::{Arc, AtomicBool, fence},
};

/// Rings the bell of a sleeping netisr: writes to its eventfd, or marks it runnable in the simulator.
///
/// It must be *sticky*: if rung before the owner waits, the wait ends at once.
pub type Wakeup = Box<dyn Fn() + Send + Sync>;

/// The owner's end.
///
/// ```
/// # use std::sync::mpsc;
/// # let (ring, bell) = mpsc::sync_channel::<()>(1);
/// # let (mut tx, mut rx) = pkt::ring::ring::<u32>(8);
/// let mut sleeper = pkt::wake::Sleeper::new(Box::new(move || drop(ring.try_send(()))));
/// let waker = sleeper.waker();
/// # let sender = std::thread::spawn(move || {
/// // a sender:
/// tx.push(7).unwrap();
/// tx.publish();
/// waker.wake_if_sleeping();
/// # (tx, waker)
/// # });
///
/// // the owner:
/// let message = loop {
///     if let Some(message) = rx.pop() {
///         break message;
///     }
///     sleeper.prepare_sleep();
///     if !rx.is_empty() {
///         sleeper.cancel();
///         continue;
///     }
///     bell.recv().unwrap();
///     sleeper.woken();
/// };
/// assert_eq!(message, 7);
/// ```
pub struct Sleeper {
    shared: Arc<Shared>,
    prepared: bool,
    counters: CounterBlock<Sleep>,
}

impl Sleeper {
    /// A netisr that is awake; senders ring `bell` when it is not.
    pub fn new(bell: Wakeup) -> Self {
        let shared = Shared { sleeping: CachePadded::new(AtomicBool::new(false)), bell };
        Self { shared: Arc::new(shared), prepared: false, counters: CounterBlock::new() }
    }

    /// An end for a sender. Make it once, and clone it.
    pub fn waker(&self) -> Waker {
        Waker { shared: self.shared.clone() }
    }

    /// Announces sleep. Now look at *all* queues once more; then [`cancel`](Self::cancel), or wait for the bell
    /// and afterwards call [`woken`](Self::woken).
    pub fn prepare_sleep(&mut self) {
        debug_assert!(!self.prepared, "prepare_sleep twice");
        self.prepared = true;
        // Relaxed, because the fence orders it.
        self.shared.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Takes the announcement back: there was something to do. True if a sender was faster and rings, or will
    /// ring, the bell: the next wait will then be cut short unless the bell is silenced first.
    pub fn cancel(&mut self) -> bool {
        self.counters.inc(Sleep::Cancelled);
        self.awake()
    }

    /// The wait is over: bell, deadline, device or signal. True if a sender rang, or is about to.
    pub fn woken(&mut self) -> bool {
        self.counters.inc(Sleep::Slept);
        self.awake()
    }

    /// Returns counters of its sleeps and wake-ups.
    pub fn counters(&self) -> CounterReader<Sleep> {
        self.counters.reader()
    }

    /// Exactly one sender rings when the flag is found cleared, so the owner can count the rings.
    fn awake(&mut self) -> bool {
        debug_assert!(self.prepared, "awake without prepare_sleep");
        self.prepared = false;
        // Acquire: what the sender that rang has published is seen by the next look at the queues.
        let rung = !self.shared.sleeping.swap(false, Ordering::AcqRel);
        self.counters.add(Sleep::Rung, u64::from(rung));
        rung
    }
}

/// A sender's end; every thread that sends to the netisr has one.
#[derive(Clone)]
pub struct Waker {
    shared: Arc<Shared>,
}

impl Waker {
    /// Call it after publishing. Rings the bell if the owner sleeps and no other sender has rung yet; true if it rang.
    #[inline]
    pub fn wake_if_sleeping(&self) -> bool {
        fence(Ordering::SeqCst);
        // A load first: while the owner is awake, the line stays shared by all senders.
        self.shared.sleeping.load(Ordering::Relaxed) && self.shared.wake()
    }
}

struct Shared {
    sleeping: CachePadded<AtomicBool>,
    bell: Wakeup,
}

impl Shared {
    #[cold]
    fn wake(&self) -> bool {
        // Not a swap: a sender that comes second writes nothing, so every `false` has a ring or an owner behind it.
        let first = self.sleeping.compare_exchange(true, false, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if first {
            (self.bell)();
        }
        first
    }
}

/// Counters of a [`Sleeper`], counted when the sleep ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// Went to sleep, and is awake again.
    Slept,
    /// Found something to do when looking once more.
    Cancelled,
    /// A sender rang.
    Rung,
}

impl Index for Sleep {
    const COUNT: usize = 3;
    fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests;
