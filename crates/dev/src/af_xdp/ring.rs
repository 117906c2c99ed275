//! Unsafe: takes frames back from the kernel.
//!
//! One queue of an interface: an AF_XDP socket and its four rings.
#![allow(unsafe_code, reason = "a frame that the kernel gives back becomes a packet handle again")]

use std::sync::Arc;

use net::driver::{Caps, Driver, DriverStats, Link};
use pkt::{Arena, HEADROOM, META_LEN, Pkt, PktVec, Pool, RingId, STRIDE, VEC_MAX};

use super::kernel_slots::Lent;
use super::umem::{OpenSockets, Opened, SharedUmem};
use super::{Options, RING_LEN, SINGLE_BUFFER};
use crate::Waiter;
use crate::sys::carrier::Carrier;
use crate::sys::xsk::{Umem, XskError, XskSocket};
use crate::sys::xsk_ring::Desc;

pub(super) use crate::sys::xsk::Rings;

/// Times that one doorbell asks the kernel to go on sending.
const KICKS_MAX: usize = 8;
/// Empty chunks that the fill ring may lack before it is filled up again.
const REFILL_AT: u32 = 64;

/// Completions that are taken at once: a vector full.
const COMPLETIONS: u32 = 256;
const _: () = assert!(COMPLETIONS as usize == VEC_MAX);

/// Bit of [`Desc::options`]: the frame goes on in the next descriptor.
const CONTINUES: u32 = 1;

/// One queue of an interface.
pub struct XdpRing {
    arena: Arc<Arena>,
    open: Arc<OpenSockets>,
    /// None once closed.
    socket: Option<Arc<XskSocket>>,
    rings: Rings,
    zero_copy: bool,
    lent: Lent,
    account: Option<RingId>,
    allowance: usize,
    busy_poll: bool,
    /// Pieces of the frame that the kernel is in the middle of delivering.
    partial: Option<Pkt>,
    /// Whether the frame is to be thrown away as soon as its last piece is there.
    partial_is_bad: bool,
    scratch: Vec<Desc>,
    /// Empty buffers on their way from or to the pool.
    empty: PktVec,
    pieces_max: usize,
    /// Bytes of the pieces that the kernel has not sent yet.
    in_flight: usize,
    /// Bytes of the longest frame that can have come over the wire.
    frame_max: usize,
    carrier: Arc<Carrier>,
    /// Link state at the last doorbell.
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
        umem: &SharedUmem,
        (socket, rings): Opened,
        carrier: Arc<Carrier>,
        zero_copy: bool,
        pieces_max: usize,
        options: &Options,
    ) -> Self {
        Self {
            arena: Arc::clone(umem.arena()),
            open: Arc::clone(umem.open_sockets()),
            socket: Some(socket),
            rings,
            zero_copy,
            lent: Lent::new(umem.arena().slots()),
            account: None,
            allowance: options.allowance,
            busy_poll: options.busy_poll,
            partial: None,
            partial_is_bad: false,
            scratch: Vec::with_capacity(RING_LEN as usize),
            empty: PktVec::new(),
            pieces_max,
            in_flight: 0,
            frame_max: options.frame_max().max(SINGLE_BUFFER) as usize,
            carrier,
            link: Link::Up,
            stats: DriverStats::default(),
        }
    }

    /// Returns the descriptor to wait on for frames, for as long as the ring is open.
    #[must_use]
    pub fn waiter(&self) -> Waiter {
        self.socket.as_ref().map_or_else(Waiter::never, Waiter::on)
    }

    /// Gives empty buffers to the kernel, as far as the allowance goes.
    ///
    /// The ring is kept full. A quarter of it would stay warmer in the cache: measured, 6 % of the cost of a full-sized
    /// frame, nothing of a small one's. But what comes during one long turn must find room.
    fn refill(&mut self, pool: &mut Pool) {
        let wanted = self.rings.fill.room();
        if wanted < REFILL_AT {
            return;
        }
        let account = *self.account.get_or_insert_with(|| pool.open_ring(self.allowance));
        let Self { rings, lent, empty, .. } = self;
        let (mut given, mut left) = (0, wanted as usize);
        while left > 0 && !pool.take_many_for(account, empty, left).is_empty() {
            left -= empty.len();
            given += rings.fill.give(empty.drain().map(|pkt| {
                lent.insert(u64::from(pkt.index()));
                pkt.into_frame() - HEADROOM as u64
            }));
        }
        if given > 0 && self.rings.fill.needs_wakeup() {
            self.wake_receiver();
        }
    }

    /// Runs the driver's receive loop where that is busy polled. Elsewhere: a driver without a copy that ran out of chunks
    /// does not look for new ones by itself.
    fn wake_receiver(&self) {
        // An error says that the interface is down or gone, as the next doorbell does.
        let _ = self.socket.as_ref().map(|socket| socket.wake_receiver());
    }

    /// Frames that have left: their buffers are free again.
    fn complete(&mut self, pool: &mut Pool) {
        let Self { arena, lent, stats, in_flight, empty, .. } = self;
        let mut more = true;
        while more {
            let count = self.rings.completion.take(COMPLETIONS, |addr| match take_back(arena, lent, addr) {
                Some(pkt) => {
                    *in_flight = in_flight.saturating_sub(pkt.len());
                    // There is room for so many.
                    let _ = empty.push(pkt);
                }
                None => stats.tx_errors += 1,
            });
            pool.give_all(empty);
            more = count == COMPLETIONS;
        }
    }

    /// Takes frames until there are `full`.
    fn take(&mut self, pool: &mut Pool, into: &mut PktVec, full: usize) {
        while into.len() < full && self.some_pieces(pool, into, full - into.len()) {}
    }

    /// Takes up to `max` pieces; answers whether there were any.
    fn some_pieces(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> bool {
        let mut descs = core::mem::take(&mut self.scratch);
        let arena = &self.arena;
        let count = self.rings.rx.take(u32::try_from(max).unwrap_or(0), |desc| {
            arena.prefetch(desc.chunk());
            descs.push(desc);
        });
        for desc in descs.drain(..) {
            let is_alone = !desc.continues() && self.partial.is_none() && !self.partial_is_bad;
            let whole = if is_alone { self.alone(desc, pool) } else { self.piece(desc, pool) };
            whole.and_then(|pkt| into.push(pkt).err()).into_iter().for_each(|pkt| pool.give(pkt));
        }
        self.scratch = descs;
        count > 0
    }

    /// The frame that has come in one piece, as nearly all do.
    #[inline]
    fn alone(&mut self, desc: Desc, pool: &mut Pool) -> Option<Pkt> {
        let pkt = self.placed(desc, pool);
        if pkt.as_ref().is_none_or(|pkt| pkt.len() > self.frame_max) {
            self.partial = pkt;
            return self.end_of_frame(pool);
        }
        pkt
    }

    /// Adds a received piece to the frame it belongs to; answers the frame when it is whole.
    fn piece(&mut self, desc: Desc, pool: &mut Pool) -> Option<Pkt> {
        match (self.placed(desc, pool), &mut self.partial) {
            (Some(pkt), Some(head)) => head.chain(pkt),
            (Some(pkt), none) => *none = Some(pkt),
            (None, _) => self.partial_is_bad = true,
        }
        if desc.continues() { None } else { self.end_of_frame(pool) }
    }

    /// The buffer that the kernel says it has written a piece into; `None` if that cannot be.
    fn placed(&mut self, desc: Desc, pool: &mut Pool) -> Option<Pkt> {
        let mut pkt = take_back(&self.arena, &mut self.lent, desc.chunk())?;
        let start = u64::from(pkt.index()) * STRIDE as u64 + META_LEN as u64;
        let off = desc.data().checked_sub(start).and_then(|off| usize::try_from(off).ok());
        if off.is_some_and(|off| pkt.place(off, desc.len as usize).is_ok()) {
            return Some(pkt);
        }
        pool.give(pkt);
        None
    }

    fn end_of_frame(&mut self, pool: &mut Pool) -> Option<Pkt> {
        let whole = self.partial.take();
        let too_long = whole.as_ref().is_none_or(|pkt| pkt.len() > self.frame_max);
        if core::mem::take(&mut self.partial_is_bad) || too_long {
            self.stats.rx_errors += 1;
            whole.into_iter().for_each(|pkt| pool.give(pkt));
            return None;
        }
        whole
    }

    /// Queues the pieces of one frame, for which there is room.
    fn queue(&mut self, mut pkt: Pkt, pool: &mut Pool) {
        // The kernel drops an empty piece, and keeps its buffer.
        if pkt.buffers() > self.pieces_max || pkt.fragments().any(<[u8]>::is_empty) {
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

    /// Queues frames of one piece each, for which there is room.
    fn queue_alone(&mut self, pkts: impl Iterator<Item = Pkt>) {
        let Self { rings, lent, in_flight, stats, .. } = self;
        let descs = pkts.map(|pkt| {
            *in_flight += pkt.len();
            lent.insert(u64::from(pkt.index()));
            let len = u32::try_from(pkt.head_len()).unwrap_or(0);
            Desc { addr: pkt.into_frame(), len, options: 0 }
        });
        stats.tx_frames += u64::from(rings.tx.queue(descs));
    }

    /// Queues frames of any number of pieces, as many as there is room for.
    fn queue_any(&mut self, from: &mut PktVec, mut room: usize, pool: &mut Pool) {
        let fitting = from.iter().take_while(|pkt| {
            let left = room.checked_sub(pkt.buffers());
            room = left.unwrap_or(0);
            left.is_some()
        });
        let fitting = fitting.count();
        for pkt in from.drain_front(fitting) {
            self.queue(pkt, pool);
        }
        self.rings.tx.queue(self.scratch.drain(..));
    }

    /// Once the device was taken away the kernel sends nothing any more, and would keep what is queued.
    #[cold]
    fn refuse(&mut self, pool: &mut Pool, from: &mut PktVec) {
        let count = from.len();
        self.stats.tx_errors += count as u64;
        from.drain_front(count).for_each(|pkt| pool.give(pkt));
    }

    fn queue_piece(&mut self, pkt: Pkt, continues: bool) {
        let len = u32::try_from(pkt.len()).unwrap_or(0);
        self.in_flight += pkt.len();
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
        if self.socket.is_none() {
            return 0;
        }
        self.complete(pool);
        let before = into.len();
        let full = VEC_MAX.min(before.saturating_add(max));
        self.take(pool, into, full);
        self.refill(pool);
        if self.busy_poll && into.len() == before {
            self.wake_receiver();
            self.take(pool, into, full);
        }
        let got = into.len() - before;
        self.stats.rx_frames += got as u64;
        got
    }

    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        if self.socket.is_none() {
            return;
        }
        if self.link == Link::Gone {
            return self.refuse(pool, from);
        }
        self.complete(pool);
        let room = self.rings.tx.room() as usize;
        if from.iter().all(|pkt| !pkt.is_chained() && !pkt.is_empty()) {
            self.queue_alone(from.drain_front(room));
        } else {
            self.queue_any(from, room, pool);
        }
        self.stats.tx_full += u64::from(!from.is_empty());
    }

    /// Each system call sends up to the budget, and no more than there is room for completions.
    fn doorbell(&mut self, pool: &mut Pool) {
        let Some(socket) = self.socket.clone() else { return };
        let mut waiting = self.rings.tx.waiting();
        for _ in 0..KICKS_MAX {
            if waiting == 0 || !self.rings.tx.needs_wakeup() {
                break;
            }
            self.stats.doorbells += 1;
            self.link = link_after(socket.kick());
            self.complete(pool);
            let before = core::mem::replace(&mut waiting, self.rings.tx.waiting());
            if waiting == before {
                break;
            }
        }
    }

    /// Frames in the completion ring are not in flight any more.
    fn in_flight(&self) -> Option<usize> {
        Some(self.in_flight)
    }

    /// Frames wait for another kick, or the kernel has no buffer left to wake us with.
    fn busy(&self) -> bool {
        let chunks = (RING_LEN - self.rings.fill.room()) as usize;
        self.link == Link::Up && (self.rings.tx.waiting() > 0 || chunks < self.pieces_max)
    }

    fn caps(&self) -> Caps {
        Caps { tx_csum: false, tso: false, uso: false, buffers_max: self.pieces_max }
    }

    /// Asks the kernel: three system calls. Frames go, and get lost, where the wire does not carry, so that sending does
    /// not say it.
    fn link(&self) -> Link {
        let is_dark = || self.carrier.is_running().is_ok_and(|running| !running);
        match self.socket.as_ref().map_or(Link::Gone, |socket| link_after(socket.kick())) {
            Link::Up if is_dark() => Link::Down,
            other => other,
        }
    }

    fn stats(&self) -> DriverStats {
        let Some(Ok(kernel)) = self.socket.as_ref().map(|socket| socket.statistics()) else {
            return self.stats;
        };
        DriverStats {
            rx_dropped: kernel.rx_dropped + kernel.rx_ring_full.unwrap_or(0),
            rx_errors: self.stats.rx_errors + kernel.rx_invalid_descs,
            tx_errors: self.stats.tx_errors + kernel.tx_invalid_descs,
            ..self.stats
        }
    }

    /// Kernel and ring go on as they are. The buffers that the kernel has come home one by one, as packets or sent.
    fn leave(&mut self, pool: &mut Pool) {
        self.complete(pool);
        self.account.take().into_iter().for_each(|account| pool.close_ring(account));
    }

    /// Frames still in the rings come back with a copy, because the kernel then touches no buffer of a closed socket.
    /// Without, the device may go on writing for a while, and its end is not to be known: those buffers stay lent.
    fn close(&mut self, pool: &mut Pool) {
        self.complete(pool);
        self.partial.take().into_iter().for_each(|pkt| pool.give(pkt));
        self.stats = self.stats();
        self.link = Link::Gone;
        let Some(socket) = self.socket.take() else { return };
        if !self.open.close(socket) || self.zero_copy {
            return;
        }
        self.in_flight = 0;
        for slot in self.lent.drain() {
            // SAFETY: the socket is closed, so no other handle of the slot exists.
            let pkt = unsafe { self.arena.reclaim(slot * STRIDE as u64) };
            pkt.into_iter().for_each(|pkt| pool.give(pkt));
        }
        self.leave(pool);
    }
}

fn link_after(kick: std::io::Result<bool>) -> Link {
    match kick.map_err(|error| error.raw_os_error()) {
        Ok(_) => Link::Up,
        Err(Some(libc::ENXIO | libc::ENODEV | libc::EBADF)) => Link::Gone,
        Err(_) => Link::Down,
    }
}
