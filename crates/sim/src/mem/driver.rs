//! The driver of one ring pair of a [`Nic`].

use net::driver::{Caps, Driver, DriverStats, Link};
use pkt::{PktVec, Pool, RingId};

use super::Nic;

/// The side of a ring pair that the stack sees.
pub struct MemDriver {
    nic: Nic,
    ring: usize,
    caps: Caps,
    /// The receive ring's account with the pool of the CPU that owns it now.
    account: Option<RingId>,
}

impl MemDriver {
    pub(super) fn new(nic: Nic, ring: usize) -> Self {
        let caps = nic.spec().caps;
        Self { nic, ring, caps, account: None }
    }

    /// Which card it drives.
    #[must_use]
    pub const fn nic(&self) -> &Nic {
        &self.nic
    }
}

impl Driver for MemDriver {
    fn rx(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> usize {
        let mut state = self.nic.lock();
        let (gone, spec) = (state.gone, state.spec);
        let ring = &mut state.rings[self.ring];
        ring.reap(pool);
        let taken = ring.take_received(into, max);
        if !gone {
            let account = *self.account.get_or_insert_with(|| pool.open_ring(spec.allowance));
            ring.post(pool, account, spec.ring_len);
        }
        drop(state);
        taken
    }

    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        let mut state = self.nic.lock();
        let ring_len = state.spec.ring_len;
        state.rings[self.ring].reap(pool);
        let free = ring_len.saturating_sub(state.rings[self.ring].in_flight());
        if free < from.len() {
            state.rings[self.ring].stats.tx_full += 1;
        }
        for pkt in from.drain_front(free) {
            if state.takes(&pkt) {
                state.rings[self.ring].send(pkt);
            } else {
                state.counts.refused += 1;
                state.rings[self.ring].stats.tx_errors += 1;
                pool.give(pkt);
            }
        }
        drop(state);
    }

    fn doorbell(&mut self, _: &mut Pool) {
        self.nic.lock().rings[self.ring].ring();
    }

    fn in_flight(&self) -> Option<usize> {
        Some(self.nic.lock().rings[self.ring].bytes_in_flight())
    }

    fn busy(&self) -> bool {
        let state = self.nic.lock();
        !state.gone && !state.down && state.rings[self.ring].is_busy(self.caps.buffers_max.max(1))
    }

    fn caps(&self) -> Caps {
        self.caps
    }

    fn link(&self) -> Link {
        let state = self.nic.lock();
        match (state.gone, state.down) {
            (true, _) => Link::Gone,
            (_, true) => Link::Down,
            _ => Link::Up,
        }
    }

    fn stats(&self) -> DriverStats {
        self.nic.lock().rings[self.ring].stats
    }

    fn leave(&mut self, pool: &mut Pool) {
        self.account.take().into_iter().for_each(|account| pool.close_ring(account));
    }

    fn close(&mut self, pool: &mut Pool) {
        self.nic.lock().rings[self.ring].close(pool);
        self.leave(pool);
    }
}
