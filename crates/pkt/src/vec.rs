//! Unsafe: prefetch instructions, which read nothing.
//!
//! A vector of packets, and the one loop over it that prefetches.
#![allow(unsafe_code, reason = "prefetching is an intrinsic")]

use crate::pkt::Pkt;

/// Packets that a vector holds at the most: what is taken from a ring at once.
pub const VEC_MAX: usize = 256;

/// How many packets ahead of the one in hand are fetched. Measured: 8 costs 5 to 12 % more, 4 costs 11 to 37 %.
const PREFETCH_AHEAD: usize = 16;

/// Up to [`VEC_MAX`] packets that go through a stage together.
#[derive(Default)]
pub struct PktVec {
    pkts: Vec<Pkt>,
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
    pub fn push(&mut self, pkt: Pkt) -> Result<(), Pkt> {
        if self.is_full() {
            return Err(pkt);
        }
        self.pkts.push(pkt);
        Ok(())
    }

    /// Takes the last packet.
    pub fn pop(&mut self) -> Option<Pkt> {
        self.pkts.pop()
    }

    /// Packets in the vector.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pkts.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pkts.is_empty()
    }

    /// Whether no further packet fits.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.pkts.len() >= VEC_MAX
    }

    /// The packets, in order.
    pub fn iter(&self) -> core::slice::Iter<'_, Pkt> {
        self.pkts.iter()
    }

    /// The packets, in order, to change. For loops after the first: the lines are in the cache by then.
    pub fn iter_mut(&mut self) -> core::slice::IterMut<'_, Pkt> {
        self.pkts.iter_mut()
    }

    /// Runs `visit` on each packet and its position, fetching metadata and data of those to come: for the first
    /// loop that reads them.
    pub fn for_each_prefetching(&mut self, mut visit: impl FnMut(usize, &mut Pkt)) {
        self.pkts.iter().take(PREFETCH_AHEAD).map(Pkt::lines).for_each(prefetch);
        for at in 0..self.pkts.len() {
            self.pkts.get(at + PREFETCH_AHEAD).map(Pkt::lines).into_iter().for_each(prefetch);
            visit(at, &mut self.pkts[at]);
        }
    }

    /// Moves all packets out, in order.
    pub fn drain(&mut self) -> impl Iterator<Item = Pkt> + '_ {
        self.pkts.drain(..)
    }

    /// Moves up to `n` packets from the front out, in order.
    pub fn drain_front(&mut self, n: usize) -> impl Iterator<Item = Pkt> + '_ {
        let n = n.min(self.pkts.len());
        self.pkts.drain(..n)
    }
}

fn prefetch((meta, data): (*const u8, *const u8)) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect but on the cache, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(meta.cast()) };
        // SAFETY: as above.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(data.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (meta, data);
}
