//! Unsafe: slots are written by one thread and read by another; the two indices say whose turn it is.
//!
//! A bounded queue from one CPU to one other (SPSC), published in batches. There is one ring per ordered pair
//! of CPUs; packets are handed off through it, and buffers come home through the one that runs back.
//!
//! ```text
//!              head              published         tail
//!   ───────────┼─────────────────┼─────────────────┼──────────
//!    free      │ consumer's      │ staged          │ free
//! ```
//!
//! Both indices run freely and wrap; a slot is an index modulo the capacity. Each end remembers the other's
//! index and looks again only when what it remembers does not suffice, so that a line crosses between CPUs
//! about once per batch, not once per item.
#![expect(unsafe_code, reason = "slots are handed between threads by index")]

use core::{cell::Cell, marker::PhantomData, mem::MaybeUninit, sync::atomic::Ordering};

use crossbeam_utils::CachePadded;

use crate::sync::{Arc, AtomicBool, AtomicUsize, UnsafeCell};

/// A ring of `capacity` slots, rounded up to a power of two (at least 1), and its two ends.
///
/// Items that are still inside when both ends are gone are dropped.
///
/// ```
/// let (mut tx, mut rx) = pkt::ring::ring(4);
/// tx.push("a").unwrap();
/// tx.push("b").unwrap();
/// assert_eq!(rx.pop(), None); // staged only
/// assert_eq!(tx.publish(), 2);
/// assert_eq!((rx.pop(), rx.pop(), rx.pop()), (Some("a"), Some("b"), None));
/// ```
pub fn ring<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let slots = capacity.max(1).next_power_of_two();
    let shared = Arc::new(Shared {
        producer: CachePadded::new(End::new()),
        consumer: CachePadded::new(End::new()),
        slots: (0..slots).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
        mask: slots - 1,
    });
    let tx =
        Producer { shared: shared.clone(), tail: 0, published: 0, head_seen: 0, one_thread: PhantomData };
    let rx = Consumer { shared, head: 0, tail_seen: 0, one_thread: PhantomData };
    (tx, rx)
}

/// The end that fills the ring. It can be sent to a thread, but not shared or cloned.
///
/// ```compile_fail,E0277
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<pkt::ring::Producer<u64>>();
/// ```
pub struct Producer<T: Send> {
    shared: Arc<Shared<T>>,
    tail: usize,
    published: usize,
    head_seen: usize,
    one_thread: PhantomData<Cell<()>>,
}

impl<T: Send> Producer<T> {
    /// Stages `item`; the consumer sees it after the next [`publish`](Self::publish).
    ///
    /// # Errors
    /// The item, if the ring is full.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.is_full() {
            return Err(item);
        }
        // SAFETY: the consumer is done with this slot (`head_seen` was loaded with Acquire), and does not look
        // at it again before `publish`.
        unsafe { self.shared.write(self.tail, item) };
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }

    /// Shows all staged items to the consumer with one store; returns how many they were.
    #[inline]
    pub fn publish(&mut self) -> usize {
        let staged = self.staged();
        if staged > 0 {
            self.published = self.tail;
            self.shared.producer.index.store(self.tail, Ordering::Release);
        }
        staged
    }

    /// Items pushed, but not yet published.
    #[inline]
    pub fn staged(&self) -> usize {
        self.tail.wrapping_sub(self.published)
    }

    /// True if the next push would fail.
    #[inline]
    pub fn is_full(&mut self) -> bool {
        self.used() == self.capacity() && self.free() == 0
    }

    /// Slots that can be filled now. Looks at the consumer's index, so ask once per batch.
    #[inline]
    pub fn free(&mut self) -> usize {
        self.head_seen = self.shared.consumer.index.load(Ordering::Acquire);
        self.capacity() - self.used()
    }

    /// All slots, full and free.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.shared.mask + 1
    }

    /// True when the consumer is gone: what is pushed from now on dies with the ring.
    pub fn is_abandoned(&self) -> bool {
        self.shared.consumer.gone.load(Ordering::Acquire)
    }

    /// Upper bound of the slots in use: the consumer may have taken more since we looked.
    #[inline]
    fn used(&self) -> usize {
        self.tail.wrapping_sub(self.head_seen)
    }
}

/// Publishes what is staged, then leaves.
impl<T: Send> Drop for Producer<T> {
    fn drop(&mut self) {
        self.publish();
        self.shared.producer.gone.store(true, Ordering::Release);
    }
}

/// The end that empties the ring. It can be sent to a thread, but not shared or cloned.
///
/// ```compile_fail,E0277
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<pkt::ring::Consumer<u64>>();
/// ```
pub struct Consumer<T: Send> {
    shared: Arc<Shared<T>>,
    head: usize,
    tail_seen: usize,
    one_thread: PhantomData<Cell<()>>,
}

impl<T: Send> Consumer<T> {
    /// Takes the oldest item and gives its slot back at once. For many, [`drain`](Self::drain) is cheaper.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.ready(1) == 0 {
            return None;
        }
        // SAFETY: an item is known to wait.
        let item = unsafe { self.take() };
        self.release();
        Some(item)
    }

    /// Takes up to `max` items in order and gives their slots back together; returns how many they were.
    ///
    /// Items published while it runs wait for the next call. If `f` panics, the items it has seen are gone
    /// and the others stay.
    #[inline]
    pub fn drain(&mut self, max: usize, mut f: impl FnMut(T)) -> usize {
        let count = self.ready(max).min(max);
        let batch = Batch(self);
        for _ in 0..count {
            // SAFETY: `count` items are known to wait.
            f(unsafe { batch.0.take() });
        }
        count
    }

    /// Published items waiting. Looks at the producer's index.
    #[inline]
    pub fn len(&self) -> usize {
        self.tail().wrapping_sub(self.head)
    }

    /// True if nothing published waits. After a fence it is safe to sleep on the answer.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail()
    }

    /// All slots, full and free.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.shared.slots.len()
    }

    /// True when the producer is gone: once the ring is found empty after this, it stays empty.
    pub fn is_abandoned(&self) -> bool {
        self.shared.producer.gone.load(Ordering::Acquire)
    }

    /// Items known to wait; looks for more only if fewer than `wanted` are known.
    #[inline]
    fn ready(&mut self, wanted: usize) -> usize {
        if self.tail_seen.wrapping_sub(self.head) < wanted {
            self.tail_seen = self.tail();
        }
        self.tail_seen.wrapping_sub(self.head)
    }

    #[inline]
    fn tail(&self) -> usize {
        self.shared.producer.index.load(Ordering::Acquire)
    }

    /// Moves the oldest item out of its slot, which is given back later.
    ///
    /// # Safety
    /// An item is known to wait: `head` is before `tail_seen`.
    #[inline]
    unsafe fn take(&mut self) -> T {
        // SAFETY: `tail_seen` was loaded with Acquire, so the filling happened before; we step over the slot below, so it
        // is read once; the producer fills it again only after `release`.
        let item = unsafe { self.shared.read(self.head) };
        self.head = self.head.wrapping_add(1);
        item
    }

    #[inline]
    fn release(&self) {
        self.shared.consumer.index.store(self.head, Ordering::Release);
    }
}

impl<T: Send> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.shared.consumer.gone.store(true, Ordering::Release);
    }
}

/// Gives the slots of a batch back also when the closure that eats it unwinds.
struct Batch<'a, T: Send>(&'a mut Consumer<T>);

impl<T: Send> Drop for Batch<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.release();
    }
}

struct Shared<T> {
    producer: CachePadded<End>,
    consumer: CachePadded<End>,
    slots: Box<[Slot<T>]>,
    /// One less than there are slots: a power of two.
    mask: usize,
}

type Slot<T> = UnsafeCell<MaybeUninit<T>>;

/// Position that one end publishes to the other: the line is written by one CPU and read by the other.
struct End {
    index: AtomicUsize,
    gone: AtomicBool,
}

impl End {
    fn new() -> Self {
        Self { index: AtomicUsize::new(0), gone: AtomicBool::new(false) }
    }
}

// SAFETY: items move from the producer's thread to the consumer's (`T: Send`); a slot is touched by one end at
// a time: by the producer in `tail..head + capacity`, by the consumer in `head..published`. The ends pass
// slots to each other by Release stores and Acquire loads of the indices.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above; the thread that drops it last drops the items, which may be sent to that thread.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Shared<T> {
    #[inline]
    fn slot(&self, index: usize) -> &Slot<T> {
        // SAFETY: no number is greater than the mask when it has been masked, and there is one slot more than that.
        unsafe { self.slots.get_unchecked(index & self.mask) }
    }

    /// Moves an item into its slot.
    ///
    /// # Safety
    /// The slot is empty, the emptying happened before, and the consumer does not look at it meanwhile.
    #[inline]
    unsafe fn write(&self, index: usize, item: T) {
        // SAFETY: the caller's promise.
        self.slot(index).with_mut(|slot| unsafe { slot.cast::<T>().write(item) });
    }

    /// Moves an item out of its slot.
    ///
    /// # Safety
    /// The slot is filled, the filling happened before, and the slot is not read again until it is refilled.
    #[inline]
    unsafe fn read(&self, index: usize) -> T {
        // SAFETY: the caller's promise.
        self.slot(index).with(|slot| unsafe { slot.cast::<T>().read() })
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let mut head = self.consumer.index.load(Ordering::Relaxed);
        let tail = self.producer.index.load(Ordering::Relaxed);
        while head != tail {
            // SAFETY: both ends are gone (and published what they had), so `head..tail` are filled slots that
            // no other thread will read.
            drop(unsafe { self.read(head) });
            head = head.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests;
