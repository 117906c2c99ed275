//! Frames in and out of one ring.
//!
//! In both directions the slave gives descriptors by moving the head, and the master gives them back by moving the
//! tail. Frames for the master are in what the slave gives; frames for the slave are in what comes back. So each end
//! moves one index, always the same, and watches the other; what it has to find there differs by the length of the ring.

mod chain;

use std::sync::Arc;

use pkt::{DATA_LEN, HEADROOM, Pkt, PktVec, Pool};

use super::Role;
use super::fault::{Counters, Fault};
use super::region::Region;
use super::ring_memory::{Desc, Index, RingMemory};

/// Descriptors that are looked at together.
const BATCH: usize = 64;
/// One part in so many of a pool is left to others: frames wait in the ring when no more is free.
pub(super) const POOL_SHARE: usize = 4;

/// Where the buffers of a ring are.
#[derive(Debug)]
pub(super) enum Buffers {
    /// Where we, the slave, have put them: what the ring says of them is not asked.
    Ours {
        /// The one region.
        region: Arc<Region>,
        /// Where the first begins, bytes.
        start: u32,
        /// Bytes of each.
        len: u32,
        /// Bytes from one to the next.
        stride: u32,
    },
    /// Where the peer, the slave, says each time.
    Theirs(Arc<[Arc<Region>]>),
}

/// One end of a ring.
#[derive(Debug)]
struct End {
    ring: RingMemory,
    buffers: Buffers,
    role: Role,
    /// Our place in the ring: the next descriptor to be dealt with.
    next: u16,
    /// Distance of the published index from our place.
    ahead: u16,
    /// Distance of the available descriptors from the index that we see.
    beyond: u16,
}

/// The end of a ring that takes frames out.
#[derive(Debug)]
pub(super) struct RxQueue {
    end: End,
    /// Frames waited last time for which there were no buffers.
    starved: bool,
}

/// The end of a ring that puts frames in.
#[derive(Debug)]
pub(super) struct TxQueue {
    end: End,
    /// Free descriptors, as far as we know.
    room: u16,
    /// Our place when we published last.
    told: u16,
    /// Bytes put in so far. It wraps.
    put: u32,
    /// For each descriptor, by its place in the ring, how many bytes were put in before it was used last.
    before: Box<[u32]>,
}

/// The result of putting a frame in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    /// It is in the ring.
    Done,
    /// There is no room for it now.
    Full,
    /// There never will be.
    TooLong,
}

impl RxQueue {
    /// The end of a ring that is empty.
    pub(super) fn new(role: Role, ring: RingMemory, buffers: Buffers) -> Self {
        let size = ring.size();
        let ahead = if role == Role::Slave { size } else { 0 };
        let mut end = End { ring, buffers, role, next: 0, ahead, beyond: 0 };
        end.step(size);
        end.next = 0;
        end.ring.let_sleep(false);
        end.publish();
        Self { end, starved: false }
    }

    /// Appends up to `max` frames, as far as there are buffers and room; answers how many descriptors it has dealt
    /// with.
    ///
    /// # Errors
    /// [`Fault::IndexJump`].
    pub(super) fn take(
        &mut self,
        pool: &mut Pool,
        into: &mut PktVec,
        max: usize,
        counters: &Counters,
    ) -> Result<usize, Fault> {
        let end = &mut self.end;
        self.starved = false;
        let ready = end.ready()?;
        let mut descs = [Desc::default(); BATCH];
        let count = end.look_ahead(&mut descs[..usize::from(ready).min(max).min(BATCH)]);
        let mut done = 0;
        while usize::from(done) < count && !into.is_full() {
            let spare = pool.free().saturating_sub(pool.total() / POOL_SHARE);
            let rest = &descs[usize::from(done)..count];
            let plain = rest.iter().take_while(|desc| end.is_plain(desc)).take(spare).count();
            let used = match plain {
                _ if spare == 0 => 0,
                // It reads the descriptors itself, and believes only what it has read.
                0 => end.take_chain(ready - done, pool, into, counters),
                _ => end.take_plain(&rest[..plain], pool, into),
            };
            if used == 0 {
                self.starved = true;
                break;
            }
            end.step(used);
            done += used;
        }
        if done > 0 {
            end.publish();
        }
        Ok(usize::from(done))
    }

    /// Wants an interrupt for what comes from now on, or none; answers whether something is there already.
    pub(super) fn let_sleep(&self, interrupts: bool) -> bool {
        self.end.ring.let_sleep(interrupts);
        // The peer writes its index and then looks at our flag; we do it the other way round, and one of us sees.
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
        self.end.ready() != Ok(0)
    }

    /// Whether frames wait that buffers were missing for.
    pub(super) const fn is_starved(&self) -> bool {
        self.starved
    }
}

impl TxQueue {
    /// The end of a ring that is empty.
    pub(super) fn new(role: Role, ring: RingMemory, buffers: Buffers) -> Self {
        let beyond = if role == Role::Slave { ring.size() } else { 0 };
        let end = End { ring, buffers, role, next: 0, ahead: 0, beyond };
        end.publish();
        let before = vec![0; usize::from(end.ring.size())].into_boxed_slice();
        Self { end, room: 0, told: 0, put: 0, before }
    }

    /// Bytes of the frames that the peer has not taken yet; none if its index makes no sense.
    pub(super) fn in_flight(&self) -> usize {
        let waiting = self.end.ready().map_or(0, |room| self.end.ring.size() - room);
        if waiting == 0 {
            return 0;
        }
        let oldest = self.end.ring.slot(self.end.next.wrapping_sub(waiting));
        let before = self.before.get(usize::from(oldest)).copied().unwrap_or(self.put);
        self.put.wrapping_sub(before) as usize
    }

    /// Notes that `len` bytes go into a descriptor, and where they begin.
    #[inline]
    fn note(&mut self, at: u16, len: u32) {
        if let Some(before) = self.before.get_mut(usize::from(self.end.ring.slot(at))) {
            *before = self.put;
        }
        self.put = self.put.wrapping_add(len);
    }

    /// Looks how much room there is.
    ///
    /// # Errors
    /// [`Fault::IndexJump`].
    pub(super) fn look(&mut self) -> Result<(), Fault> {
        self.room = self.end.ready()?;
        Ok(())
    }

    /// Puts frames in as long as each fits in one buffer; answers how many. The peer does not know of them before
    /// [`Self::tell`].
    #[inline]
    pub(super) fn put_plain<'a>(&mut self, pkts: impl Iterator<Item = &'a Pkt>) -> usize {
        let begun = self.end.next;
        let mut at = begun;
        for pkt in pkts.take(self.room.into()) {
            let (buffer, bytes) = (self.end.empty(at), pkt.head());
            let fits = !pkt.is_chained() && bytes.len() <= buffer.len as usize;
            if !fits || !self.end.write(&buffer, 0, bytes) {
                break;
            }
            self.end.ring.set_desc(at, Desc { len: length(bytes), next: false, ..buffer });
            self.note(at, length(bytes));
            at = at.wrapping_add(1);
        }
        self.end.next = at;
        let done = at.wrapping_sub(begun);
        self.room -= done;
        done.into()
    }

    /// Publishes what was put in; answers whether the peer must be woken, or `None` if it knew everything.
    pub(super) fn tell(&mut self) -> Option<bool> {
        if self.told == self.end.next {
            return None;
        }
        self.told = self.end.next;
        self.end.publish();
        // See `RxQueue::let_sleep`.
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
        Some(self.end.ring.wants_interrupt())
    }
}

impl End {
    /// Returns the number of descriptors available to us.
    #[inline]
    fn ready(&self) -> Result<u16, Fault> {
        let theirs = self.ring.seen(if self.role == Role::Slave { Index::Tail } else { Index::Head });
        let ready = theirs.wrapping_add(self.beyond).wrapping_sub(self.next);
        if ready > self.ring.size() {
            return Err(Fault::IndexJump { theirs, ours: self.next });
        }
        Ok(ready)
    }

    #[inline]
    fn publish(&self) {
        let ours = if self.role == Role::Slave { Index::Head } else { Index::Tail };
        self.ring.publish(ours, self.next.wrapping_add(self.ahead));
    }

    /// Reads the next descriptors, each once, and begins to fetch what they point to.
    #[inline]
    fn look_ahead(&self, descs: &mut [Desc]) -> usize {
        let mut index = self.next;
        for desc in descs.iter_mut() {
            *desc = self.received(index);
            if let Some(region) = self.region(desc) {
                region.prefetch(desc.offset as usize);
            }
            index = index.wrapping_add(1);
        }
        descs.len()
    }

    /// A descriptor with a piece of a frame.
    #[inline]
    fn received(&self, index: u16) -> Desc {
        let desc = self.ring.desc(index);
        match self.buffers {
            Buffers::Theirs(_) => desc,
            Buffers::Ours { .. } => {
                let ours = self.empty(index);
                // More than the buffer holds is more than any frame has.
                let len = if desc.len > ours.len { u32::MAX } else { desc.len };
                Desc { next: desc.next, len, ..ours }
            }
        }
    }

    /// A descriptor with an empty buffer.
    #[inline]
    fn empty(&self, index: u16) -> Desc {
        match self.buffers {
            Buffers::Theirs(_) => self.ring.desc(index),
            Buffers::Ours { start, len, stride, .. } => {
                let slot = u32::from(self.ring.slot(index));
                Desc { next: false, region: 0, len, offset: start + slot * stride }
            }
        }
    }

    /// The memory that a descriptor speaks of.
    #[inline]
    fn region(&self, desc: &Desc) -> Option<&Region> {
        match &self.buffers {
            Buffers::Ours { region, .. } => Some(region),
            Buffers::Theirs(regions) => regions.get(usize::from(desc.region)).map(|region| &**region),
        }
    }

    /// Reads from a buffer; answers whether it lies where the peer has memory.
    #[inline]
    fn read(&self, desc: &Desc, from: usize, to: &mut [u8]) -> bool {
        self.region(desc).is_some_and(|region| region.read(desc.offset as usize + from, to))
    }

    /// Writes into a buffer; answers whether it lies where the peer has memory.
    #[inline]
    fn write(&self, desc: &Desc, at: usize, bytes: &[u8]) -> bool {
        self.region(desc).is_some_and(|region| region.write(desc.offset as usize + at, bytes))
    }

    /// Whether it is all of a frame, and fits in one of our buffers.
    #[inline]
    fn is_plain(&self, desc: &Desc) -> bool {
        let len = desc.len as usize;
        let fits = !desc.next && (1..=DATA_LEN).contains(&len);
        fits && self.region(desc).is_some_and(|region| region.has(desc.offset as usize, len))
    }

    /// Takes frames of which each lies in one buffer, as far as there are buffers; answers how many.
    #[inline]
    fn take_plain(&self, descs: &[Desc], pool: &mut Pool, into: &mut PktVec) -> u16 {
        let new = pool.take_many(into, descs.len());
        for (pkt, desc) in new.iter_mut().zip(descs) {
            let len = desc.len as usize;
            let to = pkt.buffer_mut().get_mut(HEADROOM..HEADROOM + len);
            let there = to.is_some_and(|to| self.read(desc, 0, to)) && pkt.place(HEADROOM, len).is_ok();
            debug_assert!(there, "as `is_plain` has found");
        }
        u16::try_from(new.len()).unwrap_or(0)
    }

    /// Steps over descriptors that were dealt with.
    #[inline]
    fn step(&mut self, count: u16) {
        for _ in 0..count {
            if let Buffers::Ours { .. } = self.buffers {
                self.ring.set_desc(self.next, self.empty(self.next));
            }
            self.next = self.next.wrapping_add(1);
        }
    }
}

/// The length of something that fits a descriptor.
fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}
