//! One ring of an end, as a device.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::time::Instant;

use net::driver::{Caps, Driver, DriverStats, Link};
use net::rss;
use pkt::wake::Sleeper;
use pkt::{DATA_LEN, Flags, HEADROOM, Pkt, PktVec, Pool, RingId};

use super::{End, Frame, Inlet, Owner, RING_LEN, Side, TABLE_LEN};
use crate::Waiter;

/// Buffers of the longest frame: 64 KiB and an Ethernet header.
const BUFFERS_MAX: usize = 33;
/// Empty buffers that are taken from the pool at once.
const REFILL: usize = 64;
/// Time limit for a receiver that copies a frame; its thread may have lost its CPU.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of an Ethernet header, whose last two say what follows.
const ETHER_LEN: usize = 14;

/// One ring of an end.
pub struct MemRing {
    end: End,
    queue: u16,
    /// None once it is closed.
    sleeper: Option<Sleeper>,
    /// The sender has to wake us.
    armed: bool,
    account: Option<RingId>,
    allowance: usize,
    /// Empty buffers that frames are copied into.
    empty: Vec<Pkt>,
    /// There were not enough of them.
    is_starved: bool,
    /// Frames that were sent and have not come back, and their bytes.
    out: (usize, usize),
    /// The other end's inlets that have got something since the last doorbell.
    touched: Vec<u16>,
    stats: DriverStats,
}

impl MemRing {
    pub(super) fn new(end: End, owner: Owner, allowance: usize) -> Self {
        let Owner { queue, sleeper } = owner;
        Self {
            end,
            queue,
            sleeper: Some(sleeper),
            armed: false,
            account: None,
            allowance: allowance.max(BUFFERS_MAX),
            empty: Vec::with_capacity(REFILL + BUFFERS_MAX),
            is_starved: false,
            out: (0, 0),
            touched: Vec::new(),
            stats: DriverStats::default(),
        }
    }

    /// Returns the descriptor to wait on for frames.
    #[must_use]
    pub fn waiter(&self) -> Waiter {
        Waiter::on(&self.inlet().bell)
    }

    fn inlet(&self) -> &Inlet {
        &self.side().inlets[usize::from(self.queue)]
    }

    fn side(&self) -> &Side {
        &self.end.wire.sides[self.end.side]
    }

    fn other(&self) -> &Side {
        &self.end.wire.sides[1 - self.end.side]
    }

    /// Takes back what the other end has done with.
    fn reap(&mut self, pool: &mut Pool) {
        while let Some(pkt) = self.inlet().dead.pop() {
            self.is_back(pkt, pool);
        }
        if self.out.0 > 0 && !self.other().is_open() {
            self.take_back(pool);
        }
    }

    fn is_back(&mut self, pkt: Pkt, pool: &mut Pool) {
        self.out = (self.out.0.saturating_sub(1), self.out.1.saturating_sub(pkt.len()));
        pool.give(pkt);
    }

    /// Takes back frames that will never be received.
    #[cold]
    fn take_back(&mut self, pool: &mut Pool) {
        for at in 0..self.other().inlets.len() {
            while let Some(Frame { pkt, from }) = self.other().inlets[at].frames.pop() {
                if from == self.queue {
                    self.is_back(pkt, pool);
                } else {
                    drop_pkt(self.side(), Frame { pkt, from });
                }
            }
        }
    }

    /// Whether there are buffers for any frame.
    fn refill(&mut self, pool: &mut Pool) -> bool {
        self.is_starved = false;
        if self.empty.len() >= BUFFERS_MAX {
            return true;
        }
        let account = *self.account.get_or_insert_with(|| pool.open_ring(self.allowance));
        while self.empty.len() < REFILL + BUFFERS_MAX
            && let Some(pkt) = pool.take_for(account)
        {
            self.empty.push(pkt);
        }
        self.is_starved = self.empty.len() < BUFFERS_MAX;
        !self.is_starved
    }

    /// The next frame, copied.
    fn take(&mut self) -> Option<Pkt> {
        let frame = self.inlet().frames.pop()?;
        let copy = copy(&frame.pkt, &mut self.empty);
        self.stats.rx_errors += u64::from(copy.is_none());
        drop_pkt(self.other(), frame);
        copy
    }

    /// Once awake, no sender need wake us.
    #[cold]
    fn disarm(&mut self) {
        self.armed = false;
        if let Some(sleeper) = &mut self.sleeper {
            let _ = sleeper.woken();
        }
        // Being clear already is no error, and no other is known.
        let _ = self.inlet().bell.clear();
    }
}

impl Driver for MemRing {
    fn rx(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> usize {
        if self.armed {
            self.disarm();
        }
        self.reap(pool);
        let mut got = 0;
        while got < max
            && !into.is_full()
            && !self.inlet().frames.is_empty()
            && self.refill(pool)
            && let Some(pkt) = self.take()
        {
            match into.push(pkt) {
                Ok(()) => got += 1,
                Err(pkt) => pool.give(pkt),
            }
        }
        self.stats.rx_frames += got as u64;
        got
    }

    /// To an end that is closed nothing is sent.
    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        self.reap(pool);
        let other = self.end.wire.sides.get(1 - self.end.side).filter(|other| other.is_open());
        let room = if other.is_some() { RING_LEN.saturating_sub(self.out.0) } else { 0 };
        self.stats.tx_full += u64::from(room < from.len());
        let Some(other) = other else { return };
        for pkt in from.drain_front(room.min(from.len())) {
            let (at, bytes) = (inlet_of(&pkt, other), pkt.len());
            match other.inlets[usize::from(at)].frames.push(Frame { pkt, from: self.queue }) {
                Ok(()) => {
                    self.out = (self.out.0 + 1, self.out.1 + bytes);
                    self.stats.tx_frames += 1;
                    if self.touched.last() != Some(&at) && !self.touched.contains(&at) {
                        self.touched.push(at);
                    }
                }
                // There is room for all that all rings may have out.
                Err(Frame { pkt, .. }) => {
                    self.stats.tx_errors += 1;
                    pool.give(pkt);
                }
            }
        }
    }

    fn doorbell(&mut self, _pool: &mut Pool) {
        for at in self.touched.drain(..) {
            let other = &self.end.wire.sides[1 - self.end.side];
            self.stats.doorbells += u64::from(other.inlets[usize::from(at)].waker.wake_if_sleeping());
        }
    }

    fn in_flight(&self) -> Option<usize> {
        Some(self.out.1)
    }

    /// Frames come back without a bell, and buffers come home without one.
    fn busy(&self) -> bool {
        self.is_starved || (self.out.0 > 0 && self.other().is_open())
    }

    fn may_sleep(&mut self) -> bool {
        let Some(sleeper) = &mut self.sleeper else { return true };
        if !self.armed {
            sleeper.prepare_sleep();
            self.armed = true;
        }
        self.is_starved || self.inlet().frames.is_empty()
    }

    fn caps(&self) -> Caps {
        Caps { tx_csum: true, tso: true, uso: true, buffers_max: BUFFERS_MAX }
    }

    fn link(&self) -> Link {
        if self.other().is_open() { Link::Up } else { Link::Down }
    }

    fn stats(&self) -> DriverStats {
        self.stats
    }

    fn leave(&mut self, pool: &mut Pool) {
        self.empty.drain(..).for_each(|pkt| pool.give(pkt));
        self.account.take().into_iter().for_each(|account| pool.close_ring(account));
    }

    /// Waits for a receiver that is just copying a frame of ours.
    fn close(&mut self, pool: &mut Pool) {
        self.side().open.store(0, Ordering::Release);
        while let Some(frame) = self.inlet().frames.pop() {
            drop_pkt(self.other(), frame);
        }
        let begun = Instant::now();
        loop {
            self.take_back(pool);
            self.reap(pool);
            if self.out.0 == 0 || begun.elapsed() > PATIENCE {
                break;
            }
            std::thread::yield_now();
        }
        self.leave(pool);
    }
}

impl Drop for MemRing {
    /// The end can be opened again when all of its rings have gone.
    fn drop(&mut self) {
        if self.armed {
            self.disarm();
        }
        if let Some(sleeper) = self.sleeper.take() {
            self.side().open.store(0, Ordering::Release);
            let mut owners = self.side().owners();
            owners.push(Owner { queue: self.queue, sleeper });
            owners.sort_by_key(|owner| owner.queue);
        }
    }
}

/// Sends a frame back to the ring that it came from.
fn drop_pkt(home: &Side, Frame { pkt, from }: Frame) {
    // There is room for all that the ring may have out. One that did not fit would be a leak, which is counted.
    drop(home.inlets[usize::from(from)].dead.push(pkt));
}

/// The inlet that the other end wants a frame to come by.
fn inlet_of(pkt: &Pkt, other: &Side) -> u16 {
    if other.open.load(Ordering::Relaxed) <= 1 {
        return 0;
    }
    other.table[usize::from(hash(pkt)) % TABLE_LEN].load(Ordering::Relaxed)
}

/// The stack's own hash, for what the stack places.
pub(super) fn hash(pkt: &Pkt) -> u16 {
    let packet = pkt.window(ETHER_LEN);
    match pkt.window(0)[ETHER_LEN - 2..ETHER_LEN] {
        [0x08, 0x00] => rss::hash4(packet),
        [0x86, 0xdd] => rss::hash6(packet),
        [0x08, 0x06] => rss::hash_arp(packet),
        _ => 0,
    }
}

/// Copies a frame into buffers of ours; `None` if it is longer than any frame.
fn copy(frame: &Pkt, empty: &mut Vec<Pkt>) -> Option<Pkt> {
    let kept = empty.len().checked_sub(frame.len().div_ceil(DATA_LEN).max(1))?;
    let mut parts = empty.drain(kept..);
    let mut head = parts.next()?;
    fill(&mut head, frame, 0);
    for (before, mut part) in (1..).zip(parts) {
        fill(&mut part, frame, before * DATA_LEN);
        head.chain(part);
    }
    describe(&mut head, frame);
    Some(head)
}

/// Copies as many bytes as fit from `at` on.
fn fill(pkt: &mut Pkt, frame: &Pkt, at: usize) {
    let len = frame.copy_out(at, &mut pkt.buffer_mut()[HEADROOM..]);
    let placed = pkt.place(HEADROOM, len);
    debug_assert!(placed.is_ok(), "no more was copied than there is room for");
}

/// Copies the metadata from sender and device.
fn describe(pkt: &mut Pkt, frame: &Pkt) {
    for fact in [Flags::CSUM_PARTIAL, Flags::CSUM_GOOD, Flags::GSO_ECN] {
        if frame.flags.has(fact) {
            pkt.flags.set(fact);
        }
    }
    (pkt.csum_start, pkt.csum_off) = (frame.csum_start, frame.csum_off);
    (pkt.gso, pkt.gso_size) = (frame.gso, frame.gso_size);
}
