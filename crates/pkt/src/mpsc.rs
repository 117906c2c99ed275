//! Unsafe: a slot is filled by the sender that claimed it and emptied by the receiver; its sequence number says when.
//!
//! The control port of a netisr: a bounded queue from many threads to one (MPSC), without locks and without
//! an allocation per message (the bounded queue of D. Vyukov, with a single reader).
//!
//! A sender *claims* the next position, *fills* the slot and *publishes* it by its sequence number. For
//! position `p` in a ring of `n` slots the number is
//!
//! ```text
//!   p      free, for the sender that claims p
//!   p + 1  filled, for the receiver
//!   p + n  emptied: free for position p + n
//! ```
//!
//! **A sender that stalls** (loses its CPU) between claim and publication blocks no other sender: others go
//! on claiming positions behind it. But positions are read in order, so the queue *ends there* for the
//! receiver until the sender goes on; it then sees that message and all behind it. Meanwhile at most the
//! rest of the ring can be filled, then senders get [`Full`]. No message is lost or overtakes another.
//! Nor is a wake-up lost: the stalled sender publishes first and looks for a sleeper
//! ([`Waker::wake_if_sleeping`](crate::wake::Waker::wake_if_sleeping)) afterwards, like everyone.
#![expect(unsafe_code, reason = "slots are handed between threads by sequence number")]

use core::{cell::Cell, fmt, marker::PhantomData, mem::MaybeUninit, sync::atomic::Ordering};

use crossbeam_utils::CachePadded;

use crate::sync::{Arc, AtomicBool, AtomicUsize, UnsafeCell};

/// A port of `capacity` slots, rounded up to a power of two (at least 2).
///
/// ```
/// let (tx, mut rx) = pkt::mpsc::port(8);
/// let other = tx.clone();
/// tx.try_send(1).unwrap();
/// other.try_send(2).unwrap();
/// assert_eq!((rx.pop(), rx.pop(), rx.pop()), (Some(1), Some(2), None));
/// ```
pub fn port<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    // With one slot, "filled at p" and "free for p + 1" would be the same number.
    let slots = capacity.max(2).next_power_of_two();
    let shared = Arc::new(Shared {
        claimed: CachePadded::new(AtomicUsize::new(0)),
        receiver_gone: AtomicBool::new(false),
        slots: (0..slots).map(Slot::free_for).collect(),
    });
    (Sender { shared: shared.clone() }, Receiver { shared, head: 0, one_thread: PhantomData })
}

/// The port has no free slot now, or for ever because its receiver is gone; here is the message back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Full<T>(pub T);

impl<T> fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full(..)")
    }
}

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the port is full")
    }
}

impl<T> core::error::Error for Full<T> {}

/// A sending end; each control thread has a clone. Its messages arrive in the order it sent them.
pub struct Sender<T: Send> {
    shared: Arc<Shared<T>>,
}

impl<T: Send> Sender<T> {
    /// Puts `message` into the port. Never waits.
    ///
    /// # Errors
    /// [`Full`], with the message, if no slot is free or the receiver is gone. A message sent at the very
    /// moment when the receiver goes is dropped with the last sender.
    pub fn try_send(&self, message: T) -> Result<(), Full<T>> {
        if self.is_abandoned() {
            return Err(Full(message));
        }
        match self.shared.claim() {
            Some(position) => {
                // SAFETY: we have just claimed it, and this is the one time we fill it.
                unsafe { self.shared.fill(position, message) };
                Ok(())
            }
            None => Err(Full(message)),
        }
    }

    /// All slots, full and free.
    pub fn capacity(&self) -> usize {
        self.shared.slots.len()
    }

    /// True when the receiver is gone.
    pub fn is_abandoned(&self) -> bool {
        self.shared.receiver_gone.load(Ordering::Acquire)
    }
}

impl<T: Send> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

/// The one receiving end. It can be sent to a thread, but not shared or cloned.
///
/// ```compile_fail,E0277
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<pkt::mpsc::Receiver<u64>>();
/// ```
pub struct Receiver<T: Send> {
    shared: Arc<Shared<T>>,
    head: usize,
    one_thread: PhantomData<Cell<()>>,
}

impl<T: Send> Receiver<T> {
    /// Takes the oldest message; `None` if there is none, or if its sender has not finished putting it in.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: it is filled, by `is_empty`; we step over it, so this is the one time we empty it.
        let message = unsafe { self.shared.empty(self.head) };
        self.head = self.head.wrapping_add(1);
        Some(message)
    }

    /// True if `pop` would answer `None`. After a fence it is safe to sleep on the answer.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let slot = self.shared.slot(self.head);
        slot.sequence.load(Ordering::Acquire) != self.head.wrapping_add(1)
    }

    /// All slots, full and free.
    pub fn capacity(&self) -> usize {
        self.shared.slots.len()
    }
}

/// Drops the messages that wait, so that callers waiting for their replies learn it now.
impl<T: Send> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.receiver_gone.store(true, Ordering::Release);
        // Bounded, also while senders that have not seen the flag go on.
        for _ in 0..self.capacity() {
            drop(self.pop());
        }
    }
}

struct Shared<T> {
    claimed: CachePadded<AtomicUsize>,
    receiver_gone: AtomicBool,
    slots: Box<[Slot<T>]>,
}

struct Slot<T> {
    sequence: AtomicUsize,
    message: UnsafeCell<MaybeUninit<T>>,
}

impl<T> Slot<T> {
    fn free_for(position: usize) -> Self {
        Self { sequence: AtomicUsize::new(position), message: UnsafeCell::new(MaybeUninit::uninit()) }
    }
}

// SAFETY: messages move from senders to the receiver (`T: Send`). A slot is touched by the one sender whose
// compare-exchange claimed its position, then by the one receiver; each passes it on with a Release store of
// the sequence number, which the next one loads with Acquire.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above; the thread that drops it last drops the messages, which may be sent to that thread.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Shared<T> {
    #[inline]
    fn slot(&self, position: usize) -> &Slot<T> {
        &self.slots[position & (self.slots.len() - 1)]
    }

    /// Takes the next position, or `None` if its slot still holds the message of the lap before.
    fn claim(&self) -> Option<usize> {
        let mut position = self.claimed.load(Ordering::Relaxed);
        loop {
            let sequence = self.slot(position).sequence.load(Ordering::Acquire);
            if sequence == position {
                match self.take_position(position) {
                    Ok(_) => return Some(position),
                    Err(current) => position = current,
                }
            } else if is_before(sequence, position) {
                return None;
            } else {
                // Another sender was faster, and perhaps its message is gone already.
                position = self.claimed.load(Ordering::Relaxed);
            }
        }
    }

    /// Fails only if another sender took the position, so some sender always gets on.
    fn take_position(&self, position: usize) -> Result<usize, usize> {
        let next = position.wrapping_add(1);
        self.claimed.compare_exchange_weak(position, next, Ordering::Relaxed, Ordering::Relaxed)
    }

    /// Moves a message into its slot and publishes it.
    ///
    /// # Safety
    /// Called once by the sender that claimed the position.
    unsafe fn fill(&self, position: usize, message: T) {
        let slot = self.slot(position);
        // SAFETY: `claim` saw (Acquire) the slot free for this position, which belongs to this sender alone;
        // the receiver does not look before the store below.
        slot.message.with_mut(|place| unsafe { place.cast::<T>().write(message) });
        slot.sequence.store(position.wrapping_add(1), Ordering::Release);
    }

    /// Moves a message out of its slot and gives the slot back.
    ///
    /// # Safety
    /// Called once by the receiver, when it has seen (Acquire) the slot filled for this position.
    #[inline]
    unsafe fn empty(&self, position: usize) -> T {
        let slot = self.slot(position);
        // SAFETY: filled, by the caller's promise, and no sender touches it before the store below.
        let message = slot.message.with(|place| unsafe { place.cast::<T>().read() });
        slot.sequence.store(position.wrapping_add(self.slots.len()), Ordering::Release);
        message
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let mask = self.slots.len() - 1;
        for (index, slot) in self.slots.iter().enumerate() {
            // Modulo the capacity, a free slot bears its own index and a filled one the next.
            if slot.sequence.load(Ordering::Relaxed) & mask == (index + 1) & mask {
                // SAFETY: the slot is filled, and as no other handle of the port exists, none is filling or reading.
                drop(slot.message.with(|place| unsafe { place.cast::<T>().read() }));
            }
        }
    }
}

/// Order of positions that may have wrapped: `a` is less than half the number space behind `b`.
fn is_before(a: usize, b: usize) -> bool {
    a.wrapping_sub(b) > usize::MAX / 2
}

#[cfg(test)]
mod tests;
