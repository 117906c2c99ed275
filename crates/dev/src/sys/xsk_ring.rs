//! Unsafe: reads and writes rings that are shared with the kernel.
//!
//! The four rings of an AF_XDP socket. Each has one producer and one consumer; one of them is the kernel.
//! Indices run through all of `u32` and wrap; entries are found by masking them, so that no index of the
//! kernel's can lead outside the ring, and a count that exceeds the ring's size is taken as nothing there.
//!
//! Entries are what the kernel says: check [`Desc::lies_within`] before you touch memory.
#![expect(unsafe_code, reason = "the rings are raw memory shared with the kernel")]

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use rustix::net::xdp::XdpRingOffset;

use super::mmap::Mapping;

/// A piece of a frame in the UMEM (`struct xdp_desc`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Desc {
    /// Where: in unaligned mode the chunk's address in the low 48 bits and an offset from it above;
    /// see [`Self::chunk`] and [`Self::data`].
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
    /// Bit 0: the frame goes on in the next descriptor.
    pub options: u32,
}

impl Desc {
    /// The address, from the start of the UMEM, of the chunk as it was given to the fill ring (unaligned
    /// mode only; in aligned mode it equals [`Self::data`]).
    pub const fn chunk(&self) -> u64 {
        self.addr & ADDRESS_MASK
    }

    /// The address, from the start of the UMEM, of the first byte.
    pub const fn data(&self) -> u64 {
        self.chunk() + (self.addr >> OFFSET_SHIFT)
    }

    /// Whether the frame goes on in the next descriptor.
    pub const fn continues(&self) -> bool {
        self.options & CONTINUES != 0
    }

    /// Whether all its bytes are inside a UMEM of this many bytes.
    pub const fn lies_within(&self, umem_len: u64) -> bool {
        match self.data().checked_add(self.len as u64) {
            Some(end) => end <= umem_len,
            None => false,
        }
    }
}

/// Free chunks for the kernel to receive into.
#[derive(Debug)]
pub struct FillRing(Producer<u64>);

/// Chunks whose frames were sent, back from the kernel.
#[derive(Debug)]
pub struct CompletionRing(Consumer<u64>);

/// Received frames.
#[derive(Debug)]
pub struct RxRing(Consumer<Desc>);

/// Frames to send.
#[derive(Debug)]
pub struct TxRing(Producer<Desc>);

impl FillRing {
    /// Gives chunks to the kernel, by their addresses, until the ring is full or there are no more; answers
    /// how many. Nothing is taken from `chunks` that does not fit.
    pub fn give(&mut self, chunks: impl IntoIterator<Item = u64>) -> u32 {
        self.0.extend(chunks)
    }

    /// Returns the free entries.
    pub fn room(&self) -> u32 {
        self.0.room()
    }

    /// Whether the kernel sleeps and must be woken (`poll` or `recvfrom`) to see what was given.
    pub fn needs_wakeup(&self) -> bool {
        self.0.ring.needs_wakeup()
    }
}

impl CompletionRing {
    /// Takes back at most `max` addresses, as they were given to the transmit ring; answers how many.
    ///
    /// In copy mode Linux 6.17 and later keep a mark in bit 0 and give odd addresses back even: find a slot
    /// by dividing, not by comparing.
    pub fn take(&mut self, max: u32, each: impl FnMut(u64)) -> u32 {
        self.0.drain(max, each)
    }

    /// Returns the entries available.
    pub fn ready(&self) -> u32 {
        self.0.ready()
    }
}

impl RxRing {
    /// Takes at most `max` descriptors; answers how many.
    pub fn take(&mut self, max: u32, each: impl FnMut(Desc)) -> u32 {
        self.0.drain(max, each)
    }

    /// Returns the entries available.
    pub fn ready(&self) -> u32 {
        self.0.ready()
    }
}

impl TxRing {
    /// Queues descriptors until the ring is full or there are no more; answers how many. Nothing is taken
    /// from `frames` that does not fit. The pieces of one frame must be queued together: see [`Self::room`].
    pub fn queue(&mut self, frames: impl IntoIterator<Item = Desc>) -> u32 {
        self.0.extend(frames)
    }

    /// Returns the free entries.
    pub fn room(&self) -> u32 {
        self.0.room()
    }

    /// Returns the entries that the kernel has not taken yet.
    pub fn waiting(&self) -> u32 {
        self.0.ring.size() - self.0.room()
    }

    /// Whether the kernel must be told (by [`super::xsk::XskSocket::kick`]) to send what is queued.
    pub fn needs_wakeup(&self) -> bool {
        self.0.ring.needs_wakeup()
    }
}

/// A type that a ring may hold.
///
/// # Safety
/// Any bit pattern is a value, and the layout is the kernel's.
unsafe trait Entry: Copy {}
// SAFETY: a plain number.
unsafe impl Entry for u64 {}
// SAFETY: three plain numbers without padding, as `struct xdp_desc`.
unsafe impl Entry for Desc {}

/// The half of a ring that we write.
#[derive(Debug)]
struct Producer<T> {
    ring: Shared<T>,
    /// Where the next entry goes; what we published last.
    head: u32,
}

impl<T: Entry> Producer<T> {
    fn new(ring: Shared<T>) -> Self {
        let head = ring.producer().load(Ordering::Relaxed);
        Self { ring, head }
    }

    /// The kernel's index is read each time: relying on the one seen before makes batches short.
    fn room(&self) -> u32 {
        let taken = self.ring.consumer().load(Ordering::Acquire);
        self.ring.size().saturating_sub(self.head.wrapping_sub(taken))
    }

    fn extend(&mut self, entries: impl IntoIterator<Item = T>) -> u32 {
        let room = self.room();
        let start = self.head;
        for entry in entries.into_iter().take(room as usize) {
            self.ring.write(self.head, entry);
            self.head = self.head.wrapping_add(1);
        }
        let count = self.head.wrapping_sub(start);
        if count > 0 {
            self.ring.producer().store(self.head, Ordering::Release);
        }
        count
    }
}

/// The half of a ring that we read.
#[derive(Debug)]
struct Consumer<T> {
    ring: Shared<T>,
    /// The next entry to be read; what we published last.
    tail: u32,
}

impl<T: Entry> Consumer<T> {
    fn new(ring: Shared<T>) -> Self {
        let tail = ring.consumer().load(Ordering::Relaxed);
        Self { ring, tail }
    }

    fn ready(&self) -> u32 {
        let count = self.ring.producer().load(Ordering::Acquire).wrapping_sub(self.tail);
        if count <= self.ring.size() { count } else { 0 }
    }

    fn drain(&mut self, max: u32, mut each: impl FnMut(T)) -> u32 {
        let count = self.ready().min(max);
        if count == 0 {
            return 0; // and leave the kernel its cache line
        }
        for _ in 0..count {
            let entry = self.ring.read(self.tail);
            self.tail = self.tail.wrapping_add(1);
            each(entry);
        }
        self.ring.consumer().store(self.tail, Ordering::Release);
        count
    }
}

/// A mapped ring: two indices, a flags word, and a power of two of entries.
#[derive(Debug)]
struct Shared<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: Option<NonNull<AtomicU32>>,
    entries: NonNull<T>,
    mask: u32,
    /// Keeps the pointers valid.
    _map: Mapping,
}

// SAFETY: the pointers lead into the mapping that the value owns; the other party is the kernel, which does
// not care which thread we are.
unsafe impl<T: Send> Send for Shared<T> {}

/// Where the parts of a ring are, and how many entries it has.
pub(super) type Layout = (XdpRingOffset, u32);

impl<T: Entry> Shared<T> {
    /// `None` if the mapping does not hold what the layout says.
    fn new(map: Mapping, (offsets, entries): Layout) -> Option<Self> {
        if !entries.is_power_of_two() || map.len() < mapped_bytes(&offsets, entries, size_of::<T>())? {
            return None;
        }
        let word = |offset: u64| part::<AtomicU32>(&map, offset);
        Some(Self {
            producer: word(offsets.producer)?,
            consumer: word(offsets.consumer)?,
            flags: offsets.flags.and_then(word),
            entries: part::<T>(&map, offsets.desc)?,
            mask: entries - 1,
            _map: map,
        })
    }

    fn size(&self) -> u32 {
        self.mask + 1
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: `new` has checked that it is inside the mapping, and aligned; it is only used atomically.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for the producer.
        unsafe { self.consumer.as_ref() }
    }

    fn needs_wakeup(&self) -> bool {
        // SAFETY: as for the producer.
        self.flags
            .is_some_and(|f| unsafe { f.as_ref() }.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0)
    }

    fn read(&self, index: u32) -> T {
        // SAFETY: masked, so inside the mapping. The kernel does not write between the two indices, and any
        // bit pattern is a value.
        unsafe { self.slot(index).read_volatile() }
    }

    fn write(&mut self, index: u32, entry: T) {
        // SAFETY: masked, so inside the mapping; the kernel does not read beyond the producer index, which is
        // published after this.
        unsafe { self.slot(index).write_volatile(entry) };
    }

    fn slot(&self, index: u32) -> NonNull<T> {
        // SAFETY: the masked index is below the number of entries, all of which `new` found in the mapping.
        unsafe { self.entries.add((index & self.mask) as usize) }
    }
}

/// Returns the length of a ring's mapping.
pub(super) fn bytes<R: FromMapping>((offsets, entries): &Layout) -> Option<usize> {
    mapped_bytes(offsets, *entries, R::ENTRY)
}

fn mapped_bytes(offsets: &XdpRingOffset, entries: u32, entry_size: usize) -> Option<usize> {
    let entries = (entries as usize).checked_mul(entry_size)?;
    usize::try_from(offsets.desc).ok()?.checked_add(entries)
}

/// A pointer to a `T` at this offset, if it is there and aligned.
fn part<T>(map: &Mapping, offset: u64) -> Option<NonNull<T>> {
    let offset = usize::try_from(offset).ok()?;
    let fits = offset.checked_add(size_of::<T>())? <= map.len();
    // SAFETY: the offset is inside the mapping.
    let pointer = fits.then(|| unsafe { map.start().add(offset) })?.cast::<T>();
    pointer.is_aligned().then_some(pointer)
}

/// Makes the typed ring of a mapping; `None` if the mapping does not hold what the layout says.
pub(super) trait FromMapping: Sized {
    /// Bytes of one entry.
    const ENTRY: usize;
    /// Makes the ring.
    fn from_mapping(map: Mapping, layout: Layout) -> Option<Self>;
}

macro_rules! ring_of {
    ($ring:ident, $half:ident, $entry:ty) => {
        impl FromMapping for $ring {
            const ENTRY: usize = size_of::<$entry>();

            fn from_mapping(map: Mapping, layout: Layout) -> Option<Self> {
                Some(Self($half::new(Shared::new(map, layout)?)))
            }
        }
    };
}
ring_of!(FillRing, Producer, u64);
ring_of!(CompletionRing, Consumer, u64);
ring_of!(RxRing, Consumer, Desc);
ring_of!(TxRing, Producer, Desc);

const OFFSET_SHIFT: u32 = 48;
const ADDRESS_MASK: u64 = (1 << OFFSET_SHIFT) - 1;
const CONTINUES: u32 = libc::XDP_PKT_CONTD;

#[cfg(test)]
mod tests {
    use super::*;

    const OFFSETS: XdpRingOffset = XdpRingOffset { producer: 0, consumer: 64, desc: 192, flags: Some(128) };

    /// A ring in private memory, whose indices both stand at `start`; the test plays the kernel.
    fn shared<T: Entry>(entries: u32, start: u32) -> Shared<T> {
        let ring = Shared::new(Mapping::anonymous(4096).unwrap(), (OFFSETS, entries)).unwrap();
        ring.producer().store(start, Ordering::Relaxed);
        ring.consumer().store(start, Ordering::Relaxed);
        ring
    }

    #[test]
    fn a_producer_fills_the_ring_across_the_wrap_of_the_index_and_takes_no_more() {
        let mut fill = FillRing(Producer::new(shared(4, u32::MAX - 1)));
        let mut chunks = (1..=6_u64).map(|n| n * 4096);
        assert_eq!(fill.give(chunks.by_ref()), 4);
        assert_eq!(fill.room(), 0);
        assert_eq!(chunks.next(), Some(5 * 4096), "what does not fit is not taken");
        assert_eq!(fill.0.ring.producer().load(Ordering::Relaxed), 2);
        assert_eq!(fill.0.ring.read(u32::MAX), 2 * 4096);
        fill.0.ring.consumer().store(u32::MAX, Ordering::Relaxed); // the kernel takes one
        assert_eq!(fill.room(), 1);
    }

    #[test]
    fn a_consumer_reads_what_is_there_in_order_and_says_so() {
        let mut rx = RxRing(Consumer::new(shared(4, u32::MAX)));
        for n in 0..3_u32 {
            rx.0.ring.write(u32::MAX.wrapping_add(n), Desc { addr: u64::from(n), len: 60, options: 0 });
        }
        rx.0.ring.producer().store(2, Ordering::Release);
        let mut seen = Vec::new();
        assert_eq!(rx.take(2, |d| seen.push(d.addr)), 2);
        assert_eq!(rx.take(2, |d| seen.push(d.addr)), 1);
        assert_eq!((seen, rx.ready()), (vec![0, 1, 2], 0));
        assert_eq!(rx.0.ring.consumer().load(Ordering::Relaxed), 2);
    }

    #[test]
    fn indices_that_cannot_be_are_taken_as_nothing_there() {
        let mut completions = CompletionRing(Consumer::new(shared(4, 0)));
        completions.0.ring.producer().store(5, Ordering::Relaxed);
        assert_eq!(completions.take(10, |_| panic!("nothing may be read")), 0);
        let mut tx = TxRing(Producer::new(shared(4, 0)));
        tx.0.ring.consumer().store(77, Ordering::Relaxed);
        assert_eq!(tx.queue([Desc::default()]), 0);
        assert_eq!(tx.waiting(), 4);
    }

    #[test]
    fn a_layout_that_the_mapping_does_not_hold_is_refused() {
        let refuse = |offsets, entries| {
            let map = Mapping::anonymous(4096).unwrap();
            // With huge pages the mapping is larger than asked for.
            let entries =
                if entries > 8 { u32::try_from(map.len() / 4).unwrap().next_power_of_two() } else { entries };
            Shared::<u64>::new(map, (offsets, entries)).is_none()
        };
        assert!(refuse(OFFSETS, 1024));
        assert!(refuse(OFFSETS, 3));
        assert!(refuse(XdpRingOffset { producer: 2, ..OFFSETS }, 4));
        assert!(refuse(XdpRingOffset { desc: u64::MAX - 8, ..OFFSETS }, 4));
        assert!(!refuse(OFFSETS, 8));
    }

    #[test]
    fn an_unaligned_address_carries_its_offset_in_the_upper_16_bits() {
        let d = Desc { addr: 256 << 48 | 64, len: 100, options: CONTINUES };
        assert_eq!((d.chunk(), d.data(), d.continues()), (64, 320, true));
        assert!(d.lies_within(420) && !d.lies_within(419));
    }

    #[test]
    fn the_wakeup_flag_is_read_each_time() {
        let tx = TxRing(Producer::new(shared(4, 0)));
        assert!(!tx.needs_wakeup());
        // SAFETY: the flags word lies inside the mapping that `tx` owns.
        unsafe { tx.0.ring.flags.unwrap().as_ref() }.store(1, Ordering::Relaxed);
        assert!(tx.needs_wakeup());
    }
}
