//! A queue of an interface that the kernel goes on using: frames that the program has taken, and copies of those for groups,
//! which went to the kernel.

use core::cell::Cell;
use std::io;
use std::sync::Arc;

use net::driver::{Caps, Driver, DriverStats, Link};
use pkt::{DATA_LEN, HEADROOM, Pkt, PktVec, Pool, RingId};

use super::ring::XdpRing;
use crate::Waiter;
use crate::bpf::share;
use crate::sys::packet::{PacketSocket, Received};
use crate::sys::poll::AnyOf;

/// Buffers that copies may have out: what is more stays in the socket, which drops when it is full.
const ALLOWANCE: usize = 256;
/// Copies taken at once: groups do not hold up the rest.
const COPIES_MAX: usize = 32;
/// Bytes of both addresses, before a tag.
const ADDRESSES: usize = 12;
const TAG: usize = 4;

/// One queue of a shared interface.
pub struct SharedRing {
    ring: XdpRing,
    copies: Option<Copies>,
}

/// The packet socket of a shared interface.
struct Copies {
    socket: Arc<PacketSocket>,
    /// Readable if the ring or the socket is.
    either: Arc<AnyOf>,
    account: Option<RingId>,
    received: u64,
    errors: u64,
    dropped: Cell<u64>,
}

impl SharedRing {
    pub(super) const fn without_copies(ring: XdpRing) -> Self {
        Self { ring, copies: None }
    }

    pub(super) fn with_copies(ring: XdpRing, ifindex: u32) -> io::Result<Self> {
        let filter = share::copies().map_err(io::Error::other)?;
        let socket = Arc::new(PacketSocket::open(ifindex, &filter)?);
        let queue = ring.waiter().descriptor().ok_or(io::ErrorKind::NotConnected)?;
        let either = Arc::new(AnyOf::new(&[queue.as_fd(), std::os::fd::AsFd::as_fd(&*socket)])?);
        let copies = Copies { socket, either, account: None, received: 0, errors: 0, dropped: Cell::new(0) };
        Ok(Self { ring, copies: Some(copies) })
    }

    /// Returns the descriptor to wait on for frames, for as long as the ring is open.
    #[must_use]
    pub fn waiter(&self) -> Waiter {
        self.copies.as_ref().map_or_else(|| self.ring.waiter(), |copies| Waiter::on(&copies.either))
    }
}

impl Copies {
    /// Appends up to `max` copies.
    fn receive(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> usize {
        let account = *self.account.get_or_insert_with(|| pool.open_ring(ALLOWANCE));
        let mut got = 0;
        while got < max && !into.is_full() {
            let Some(mut pkt) = pool.take_for(account) else { break };
            let there = self.socket.receive(&mut pkt.buffer_mut()[HEADROOM..]);
            let Ok(Some(received)) = there else {
                self.errors += u64::from(there.is_err());
                pool.give(pkt);
                break;
            };
            if !place(&mut pkt, received) {
                self.errors += 1;
                pool.give(pkt);
                continue;
            }
            match into.push(pkt) {
                Ok(()) => got += 1,
                Err(pkt) => pool.give(pkt),
            }
        }
        self.received += got as u64;
        got
    }
}

/// Lets the packet be the frame, with its tag where it was on the wire; answers whether it is whole.
fn place(pkt: &mut Pkt, Received { len, tag }: Received) -> bool {
    if !(ADDRESSES..=DATA_LEN).contains(&len) {
        return false;
    }
    let Some(tag) = tag else { return pkt.place(HEADROOM, len).is_ok() };
    let buffer = pkt.buffer_mut();
    buffer.copy_within(HEADROOM..HEADROOM + ADDRESSES, HEADROOM - TAG);
    for (at, half) in (HEADROOM - TAG + ADDRESSES..).step_by(2).zip(tag) {
        buffer[at..at + 2].copy_from_slice(&half.to_be_bytes());
    }
    pkt.place(HEADROOM - TAG, len + TAG).is_ok()
}

impl Driver for SharedRing {
    fn rx(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> usize {
        let got = self.ring.rx(pool, into, max);
        let left = max.saturating_sub(got).min(COPIES_MAX);
        got + self.copies.as_mut().map_or(0, |copies| copies.receive(pool, into, left))
    }

    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        self.ring.tx(pool, from);
    }

    fn doorbell(&mut self, pool: &mut Pool) {
        self.ring.doorbell(pool);
    }

    fn in_flight(&self) -> Option<usize> {
        self.ring.in_flight()
    }

    fn busy(&self) -> bool {
        self.ring.busy()
    }

    fn may_sleep(&mut self) -> bool {
        self.ring.may_sleep()
    }

    fn caps(&self) -> Caps {
        self.ring.caps()
    }

    fn link(&self) -> Link {
        self.ring.link()
    }

    fn stats(&self) -> DriverStats {
        let own = self.ring.stats();
        let Some(copies) = &self.copies else { return own };
        copies.dropped.set(copies.dropped.get() + u64::from(copies.socket.dropped().unwrap_or(0)));
        DriverStats {
            rx_frames: own.rx_frames + copies.received,
            rx_dropped: own.rx_dropped + copies.dropped.get(),
            rx_errors: own.rx_errors + copies.errors,
            ..own
        }
    }

    fn leave(&mut self, pool: &mut Pool) {
        self.ring.leave(pool);
        let account = self.copies.as_mut().and_then(|copies| copies.account.take());
        account.into_iter().for_each(|account| pool.close_ring(account));
    }

    fn close(&mut self, pool: &mut Pool) {
        self.ring.close(pool);
        self.leave(pool);
        self.copies = None;
    }
}
