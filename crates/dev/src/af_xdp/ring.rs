//! Unsafe: takes frames back from the kernel.
//!
//! One queue of an interface: an AF_XDP socket and its four rings.
#![allow(unsafe_code, reason = "a frame that the kernel gives back becomes a packet handle again")]

use std::sync::Arc;

use net::driver::{Caps, Driver, DriverStats, Link};
use pkt::{Arena, HEADROOM, META_LEN, Pkt, PktVec, Pool, RingId, STRIDE};

use super::lent::Lent;
use crate::Waiter;
use crate::sys::xsk::{Umem, XskError, XskSocket};
use crate::sys::xsk_ring::{Desc, RxRing};

pub(super) use crate::sys::xsk::Rings;

/// Times that one doorbell asks the kernel to go on sending.
const KICKS_MAX: usize = 8;
/// Empty chunks that the fill ring may lack before it is filled up again.
const REFILL_AT: u32 = 64;

/// Bit of [`Desc::options`]: the frame goes on in the next descriptor.
const CONTINUES: u32 = 1;

/// One queue of an interface.
pub struct XdpRing {
    arena: Arc<Arena>,
    socket: Option<Arc<XskSocket>>,
    rings: Rings,
    lent: Lent,
    account: Option<RingId>,
    allowance: usize,
    /// Pieces of the frame that the kernel is in the middle of delivering.
    partial: Option<Pkt>,
    /// Whether the frame is to be thrown away as soon as its last piece is there.
    partial_is_bad: bool,
    scratch: Vec<Desc>,
    pieces_max: usize,
    link: Link,
    stats: DriverStats,
}

/// Lends the arena to the kernel.
pub(super) fn lend(socket: &XskSocket, umem: &Umem) -> Result<(), XskError> {
    // SAFETY: the memory is an arena's, which every ring keeps alive. What the kernel owns has no `Pkt`: chunks are
    // given to it by `Pkt::into_frame` only, and come back by `Arena::reclaim` only.
    unsafe { socket.register_umem(umem) }
}

impl XdpRing {
    pub(super) fn new(
        arena: Arc<Arena>,
        socket: Arc<XskSocket>,
        rings: Rings,
        pieces_max: usize,
        allowance: usize,
    ) -> Self {
        let lent = Lent::new(arena.slots());
        Self {
            arena,
            socket: Some(socket),
            rings,
            lent,
            account: None,
            allowance,
            partial: None,
            partial_is_bad: false,
            scratch: Vec::with_capacity(pkt::VEC_MAX),
            pieces_max,
            link: Link::Up,
            stats: DriverStats::default(),
        }
    }

    /// What to wait on for frames, for as long as the ring is open.
    #[must_use]
    pub fn waiter(&self) -> Waiter {
        self.socket.as_ref().map_or_else(Waiter::never, Waiter::on)
    }

    /// Gives empty buffers to the kernel, as far as the allowance goes.
    fn refill(&mut self, pool: &mut Pool) {
        let room = self.rings.fill.room();
        if room < REFILL_AT {
            return;
        }
        let account = *self.account.get_or_insert_with(|| pool.open_ring(self.allowance));
        let lent = &mut self.lent;
        let chunks = core::iter::from_fn(|| pool.take_for(account)).map(|pkt| {
            lent.insert(u64::from(pkt.index()));
            pkt.into_frame() - HEADROOM as u64
        });
        self.rings.fill.give(chunks.take(room as usize));
    }

    /// Frames that have left: their buffers are free again.
    fn complete(&mut self, pool: &mut Pool) {
        let (arena, lent, stats) = (&self.arena, &mut self.lent, &mut self.stats);
        self.rings.completion.take(u32::MAX, |addr| match take_back(arena, lent, addr) {
            Some(pkt) => pool.give(pkt),
            None => stats.tx_errors += 1,
        });
    }

    /// Adds a received piece to the frame it belongs to; answers the frame when it is whole.
    fn piece(&mut self, desc: Desc, pool: &mut Pool) -> Option<Pkt> {
        let Some(mut pkt) = take_back(&self.arena, &mut self.lent, desc.chunk()) else {
            self.partial_is_bad = true;
            return self.end_of_frame(desc, pool);
        };
        let slot = desc.chunk() / STRIDE as u64 * STRIDE as u64 + META_LEN as u64;
        let placed =
            usize::try_from(desc.data() - slot).is_ok_and(|off| pkt.place(off, desc.len as usize).is_ok());
        if !placed {
            self.partial_is_bad = true;
            pool.give(pkt);
        } else if let Some(head) = &mut self.partial {
            head.chain(pkt);
        } else {
            self.partial = Some(pkt);
        }
        self.end_of_frame(desc, pool)
    }

    fn end_of_frame(&mut self, desc: Desc, pool: &mut Pool) -> Option<Pkt> {
        if desc.continues() {
            return None;
        }
        let whole = self.partial.take();
        if core::mem::take(&mut self.partial_is_bad) || whole.is_none() {
            self.stats.rx_errors += 1;
            whole.into_iter().for_each(|pkt| pool.give(pkt));
            return None;
        }
        whole
    }

    /// Queues the pieces of one frame, for which there is room.
    fn queue(&mut self, mut pkt: Pkt, pool: &mut Pool) {
        if pkt.buffers() > self.pieces_max {
            self.stats.tx_errors += 1;
            return pool.give(pkt);
        }
        let mut next = pkt.unchain();
        self.queue_piece(pkt, next.is_some());
        while let Some(mut pkt) = next {
            next = pkt.unchain();
            self.queue_piece(pkt, next.is_some());
        }
        self.stats.tx_frames += 1;
    }

    fn queue_piece(&mut self, pkt: Pkt, continues: bool) {
        let len = u32::try_from(pkt.len()).unwrap_or(0);
        self.lent.insert(u64::from(pkt.index()));
        let options = if continues { CONTINUES } else { 0 };
        self.scratch.push(Desc { addr: pkt.into_frame(), len, options });
    }
}

/// Makes a packet of the slot around `addr` again, if it is one that was lent from here.
fn take_back(arena: &Arena, lent: &mut Lent, addr: u64) -> Option<Pkt> {
    const OFFSET_BITS: u32 = 48;
    let addr = addr & ((1 << OFFSET_BITS) - 1);
    if !lent.remove(addr / STRIDE as u64) {
        return None;
    }
    // SAFETY: the slot was lent from this ring, which one CPU owns, and this is the only place that takes it back.
    unsafe { arena.reclaim(addr) }
}

impl Driver for XdpRing {
    fn rx(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> usize {
        self.complete(pool);
        let max = max.min(pkt::VEC_MAX - into.len());
        let mut descs = core::mem::take(&mut self.scratch);
        take(&mut self.rings.rx, max, &mut descs);
        let mut got = 0;
        for desc in descs.drain(..) {
            if let Some(pkt) = self.piece(desc, pool) {
                match into.push(pkt) {
                    Ok(()) => got += 1,
                    Err(pkt) => pool.give(pkt),
                }
            }
        }
        self.scratch = descs;
        self.refill(pool);
        self.stats.rx_frames += got as u64;
        got
    }

    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        self.complete(pool);
        let mut room = self.rings.tx.room() as usize;
        let fitting = from.iter().take_while(|pkt| {
            let fits = pkt.buffers() <= room;
            room = room.saturating_sub(pkt.buffers());
            fits
        });
        let fitting = fitting.count();
        for pkt in from.drain_front(fitting) {
            self.queue(pkt, pool);
        }
        self.rings.tx.queue(self.scratch.drain(..));
        self.stats.tx_full += u64::from(!from.is_empty());
    }

    fn doorbell(&mut self, pool: &mut Pool) {
        let Some(socket) = self.socket.clone() else { return };
        for _ in 0..KICKS_MAX {
            if self.rings.tx.waiting() == 0 || !self.rings.tx.needs_wakeup() {
                break;
            }
            self.stats.doorbells += 1;
            match socket.kick() {
                Ok(true) => self.link = Link::Up,
                Ok(false) => break,
                Err(error) => {
                    self.link = link_after(&error);
                    break;
                }
            }
        }
        self.complete(pool);
    }

    /// Frames wait for another kick, or the kernel has no buffer left to wake us with.
    fn busy(&self) -> bool {
        let starved = self.rings.fill.room() >= super::RING_LEN;
        self.link == Link::Up && (self.rings.tx.waiting() > 0 || starved)
    }

    fn caps(&self) -> Caps {
        Caps { tx_csum: false, tso: false, uso: false, buffers_max: self.pieces_max }
    }

    fn link(&self) -> Link {
        self.link
    }

    fn stats(&self) -> DriverStats {
        let kernel = self.socket.as_ref().and_then(|socket| socket.statistics().ok());
        let dropped = kernel.map_or(0, |kernel| {
            let starved = kernel.rx_fill_ring_empty_descs.unwrap_or(0);
            kernel.rx_dropped + kernel.rx_ring_full.unwrap_or(0) + starved
        });
        DriverStats { rx_dropped: dropped, ..self.stats }
    }

    fn close(&mut self, pool: &mut Pool) {
        self.link = Link::Gone;
        self.partial.take().into_iter().for_each(|pkt| pool.give(pkt));
        // With the last reference the socket is closed, and the kernel lets go of what was lent. If somebody still
        // holds one, the buffers stay with the kernel.
        let Some(socket) = self.socket.take().and_then(Arc::into_inner) else { return };
        drop(socket);
        for slot in self.lent.drain() {
            // SAFETY: the socket is closed, so nobody else has the slot.
            let pkt = unsafe { self.arena.reclaim(slot * STRIDE as u64) };
            pkt.into_iter().for_each(|pkt| pool.give(pkt));
        }
    }
}

fn take(ring: &mut RxRing, max: usize, descs: &mut Vec<Desc>) {
    ring.take(u32::try_from(max).unwrap_or(0), |desc| descs.push(desc));
}

fn link_after(error: &std::io::Error) -> Link {
    match error.raw_os_error() {
        Some(libc::ENXIO | libc::ENODEV | libc::EBADF) => Link::Gone,
        _ => Link::Down,
    }
}
