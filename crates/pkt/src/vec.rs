//! Unsafe: prefetch instructions, which read nothing; pushing without a look at the capacity, which is fixed.
//!
//! A vector of packets, and the one loop over it that prefetches.
#![allow(unsafe_code, reason = "prefetching is an intrinsic; a vector never grows, so its room is known")]

use crate::pkt::Pkt;

/// Packets that a vector holds at the most: what is taken from a ring at once.
pub const VEC_MAX: usize = 256;

/// Packets that are prefetched together, while those of the block before are in hand. Measured, one by one: 8 ahead
/// cost 5 to 12 % more than 16, 4 cost 11 to 37 %.
const PREFETCH_AHEAD: usize = 16;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Up to [`VEC_MAX`] packets that go through a stage together.
pub struct PktVec {
    /// Made with room for [`VEC_MAX`], and never grown or shrunk.
    pkts: Vec<Pkt>,
}

impl Default for PktVec {
    fn default() -> Self {
        Self::new()
    }
}

impl PktVec {
    /// An empty vector with its full room reserved: pushing never allocates.
    #[must_use]
    pub fn new() -> Self {
        Self { pkts: Vec::with_capacity(VEC_MAX) }
    }

    /// Adds a packet at the end.
    ///
    /// # Errors
    ///
    /// Gives the packet back when there are already [`VEC_MAX`].
    #[inline]
    pub fn push(&mut self, pkt: Pkt) -> Result<(), Pkt> {
        let len = self.pkts.len();
        if len >= VEC_MAX {
            return Err(pkt);
        }
        // SAFETY: there is room for `VEC_MAX` since `new`, and `len` is less.
        let end = unsafe { self.pkts.as_mut_ptr().add(len) };
        // SAFETY: as above; nothing that would have to be dropped is there.
        unsafe { end.write(pkt) };
        // SAFETY: just written.
        unsafe { self.pkts.set_len(len + 1) };
        Ok(())
    }

    /// Packets that still fit.
    #[inline]
    #[must_use]
    pub fn room(&self) -> usize {
        VEC_MAX - self.pkts.len()
    }

    /// Moves the last `n` packets of `from` to the end, in order, or as many as there are and fit; the packets that are
    /// new here.
    #[inline]
    pub(crate) fn append_last(&mut self, from: &mut Vec<Pkt>, n: usize) -> &mut [Pkt] {
        let (old, n) = (self.pkts.len(), n.min(from.len()).min(self.room()));
        let left = from.len() - n;
        // SAFETY: `left` is at most the length.
        let first = unsafe { from.as_ptr().add(left) };
        // SAFETY: there is room for `VEC_MAX` since `new`, and `n` was made to fit.
        let end = unsafe { self.pkts.as_mut_ptr().add(old) };
        // SAFETY: `n` packets stand at `first`, and room for them at `end`, in another vector.
        unsafe { core::ptr::copy_nonoverlapping(first, end, n) };
        // SAFETY: shorter than before; what is cut off has moved.
        unsafe { from.set_len(left) };
        // SAFETY: just written.
        unsafe { self.pkts.set_len(old + n) };
        &mut self.pkts[old..]
    }

    /// Moves all packets to the end of `to`.
    #[inline]
    pub(crate) fn append_to(&mut self, to: &mut Vec<Pkt>) {
        to.append(&mut self.pkts);
    }

    /// Moves all packets to the end of `to`, in order, if they fit there; moves none if they do not.
    #[inline]
    pub fn append_all(&mut self, to: &mut Self) -> bool {
        if to.is_empty() {
            core::mem::swap(self, to);
        } else if self.len() <= to.room() {
            self.append_to(&mut to.pkts);
        }
        self.is_empty()
    }

    /// Takes the last packet.
    #[inline]
    pub fn pop(&mut self) -> Option<Pkt> {
        self.pkts.pop()
    }

    /// Packets in the vector.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.pkts.len()
    }

    /// Whether there is none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pkts.is_empty()
    }

    /// Whether no further packet fits.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.pkts.len() >= VEC_MAX
    }

    /// The packets, in order.
    #[inline]
    pub fn iter(&self) -> core::slice::Iter<'_, Pkt> {
        self.pkts.iter()
    }

    /// The packets, in order, to change. For loops after the first: the lines are in the cache by then.
    #[inline]
    pub fn iter_mut(&mut self) -> core::slice::IterMut<'_, Pkt> {
        self.pkts.iter_mut()
    }

    /// Runs `visit` on each packet and its position, fetching metadata and data of those to come: for the first
    /// loop that reads them.
    #[inline]
    pub fn for_each_prefetching(&mut self, mut visit: impl FnMut(usize, &mut Pkt)) {
        let mut blocks = self.pkts.chunks_mut(PREFETCH_AHEAD);
        let (mut fetched, mut at) = (fetch(blocks.next()), 0_usize);
        while let Some(block) = fetched {
            fetched = fetch(blocks.next());
            for pkt in block {
                visit(at, pkt);
                at = at.wrapping_add(1);
            }
        }
    }

    /// Moves all packets out, in order.
    #[inline]
    pub fn drain(&mut self) -> impl Iterator<Item = Pkt> + '_ {
        self.pkts.drain(..)
    }

    /// Begins to fetch all packets from the cache of the CPU that had them last, to be written here: it gives their lines
    /// up at once, where it would first share them if they were only to be read.
    #[inline]
    pub fn fetch_to_write(&self) {
        for (meta, data) in self.pkts.iter().map(Pkt::lines) {
            prefetch_to_write(meta);
            prefetch_to_write(data);
        }
    }

    /// Moves all packets out, in order, each with its position.
    #[inline]
    pub fn take_each(&mut self, mut take: impl FnMut(usize, Pkt)) {
        let len = self.pkts.len();
        // SAFETY: shorter than before; what is cut off is moved out below, or, should `take` panic, lost as if dropped.
        unsafe { self.pkts.set_len(0) };
        for at in 0..len {
            // SAFETY: `at` is less than the length was, and nothing is pushed while the vector is borrowed.
            let place = unsafe { self.pkts.as_ptr().add(at) };
            // SAFETY: each packet is read once, and is not in the vector any more.
            take(at, unsafe { place.read() });
        }
    }

    /// Moves up to `n` packets from the front out, in order.
    #[inline]
    pub fn drain_front(&mut self, n: usize) -> impl Iterator<Item = Pkt> + '_ {
        let n = n.min(self.pkts.len());
        self.pkts.drain(..n)
    }
}

/// Fetches a block of packets.
#[inline]
fn fetch(block: Option<&mut [Pkt]>) -> Option<&mut [Pkt]> {
    block.inspect(|block| block.iter().map(Pkt::lines).for_each(prefetch))
}

#[inline]
fn prefetch((meta, data): (*const u8, *const u8)) {
    prefetch_line(meta);
    prefetch_line(data);
}

/// Fetches the cache line that `what` begins in, without waiting for it.
#[inline]
pub fn prefetch_ref<T>(what: &T) {
    prefetch_line(core::ptr::from_ref(what).cast());
}

/// Fetches all lines of `what`, without waiting for them.
#[inline]
pub fn prefetch_whole<T>(what: &T) {
    let first: *const u8 = core::ptr::from_ref(what).cast();
    (0..size_of::<T>()).step_by(LINE).for_each(|at| prefetch_line(first.wrapping_add(at)));
}

#[inline]
fn prefetch_to_write(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as below. A processor that does not know the instruction does nothing.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    prefetch_line(line);
}

#[inline]
pub(crate) fn prefetch_line(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect but on the cache, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}
