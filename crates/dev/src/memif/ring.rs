//! One ring pair as a device.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use net::driver::{Caps, Driver, DriverStats, Link};
use pkt::{DATA_LEN, PktVec, Pool};

use super::FRAME_MAX;
use super::fault::Fault;
use super::mailbox::{Mailbox, Sleep, Wire};
use super::queue::{Put, RxQueue, TxQueue};
use crate::Waiter;

/// One ring pair of an interface, through all its connections. Frames are copied: no buffer of ours is ever with the
/// peer.
pub struct MemifRing {
    mailbox: Arc<Mailbox>,
    /// The last change in the mailbox that was seen.
    seen: u32,
    wire: Option<Box<Wire>>,
    sleep: Arc<Sleep>,
    /// The peer is to wake us.
    armed: bool,
    stats: DriverStats,
}

impl MemifRing {
    pub(super) fn new(mailbox: &Arc<Mailbox>) -> std::io::Result<Self> {
        let sleep = Sleep::new()?;
        sleep.watch(mailbox.bell())?;
        Ok(Self {
            mailbox: Arc::clone(mailbox),
            seen: 0,
            wire: None,
            sleep: Arc::new(sleep),
            armed: false,
            stats: DriverStats::default(),
        })
    }

    /// Returns the descriptor to wait on for frames and for changes of the peer.
    #[must_use]
    pub fn waiter(&self) -> Waiter {
        Waiter::on(&self.sleep)
    }

    /// Takes the connection that the control thread has put into the mailbox.
    #[cold]
    fn change(&mut self) {
        self.sleep.clear();
        let Some(next) = self.mailbox.take(&mut self.seen) else { return };
        self.give_up(None);
        self.wire = next;
        if let Some(Wire { rx: Some((_, bell)), .. }) = self.wire.as_deref()
            && let Err(why) = self.sleep.watch(bell)
        {
            self.give_up(Some(Fault::system("wait for a ring")(why)));
        }
    }

    /// Gives a connection up.
    #[cold]
    fn give_up(&mut self, fault: Option<Fault>) {
        let Some(wire) = self.wire.take() else { return };
        if let Some((_, bell)) = &wire.rx {
            self.sleep.forget(bell);
        }
        if let Some(fault) = &fault {
            self.stats.rx_errors += 1;
            self.mailbox.counters.fatal(fault);
        }
        self.mailbox.leave(*wire, fault);
    }

    /// Once awake, the peer need not wake us.
    #[cold]
    fn disarm(&mut self) {
        self.armed = false;
        self.sleep.clear();
        if let Some(queue) = self.queue() {
            queue.let_sleep(false);
        }
    }

    fn queue(&self) -> Option<&RxQueue> {
        self.wire.as_deref()?.rx.as_ref().map(|(queue, _)| queue)
    }
}

impl Driver for MemifRing {
    fn rx(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> usize {
        if self.armed {
            self.disarm();
        }
        if self.mailbox.has_changed(self.seen) {
            self.change();
        }
        let before = into.len();
        while let left @ 1.. = max - (into.len() - before)
            && let Some(Wire { rx: Some((queue, _)), .. }) = self.wire.as_deref_mut()
        {
            match queue.take(pool, into, left, &self.mailbox.counters) {
                Ok(0) => break,
                Ok(_) => {}
                Err(fault) => self.give_up(Some(fault)),
            }
        }
        let got = into.len() - before;
        self.stats.rx_frames += got as u64;
        got
    }

    /// Without a peer, frames are refused.
    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        let done = if let Some(wire) = self.wire.as_deref_mut() {
            let (done, fault) = put_all(&mut wire.tx, from, &mut self.stats);
            if fault.is_some() {
                self.give_up(fault);
            }
            done
        } else {
            self.stats.tx_errors += from.len() as u64;
            from.len()
        };
        if done == from.len() {
            return pool.give_all(from);
        }
        for pkt in from.drain_front(done) {
            pool.give(pkt);
        }
    }

    fn doorbell(&mut self, _pool: &mut Pool) {
        let Some(wire) = self.wire.as_deref_mut() else { return };
        let Some(sleeps) = wire.tx.tell() else { return };
        self.stats.doorbells += 1;
        if sleeps {
            wake(&wire.tx_bell);
        }
    }

    /// Frames not yet taken by the peer. Without a peer, frames are gone as soon as they are taken.
    fn in_flight(&self) -> Option<usize> {
        Some(self.wire.as_deref().map_or(0, |wire| wire.tx.in_flight()))
    }

    /// Returning buffers wake no receiver.
    fn busy(&self) -> bool {
        self.queue().is_some_and(RxQueue::is_starved)
    }

    fn may_sleep(&mut self) -> bool {
        self.armed = true;
        let something = self.queue().is_some_and(|queue| !queue.is_starved() && queue.let_sleep(true));
        !something && !self.mailbox.has_changed(self.seen)
    }

    /// There is no offload: frames are as on a wire.
    fn caps(&self) -> Caps {
        Caps { buffers_max: FRAME_MAX.div_ceil(DATA_LEN), ..Caps::default() }
    }

    fn link(&self) -> Link {
        if self.wire.is_some() { Link::Up } else { Link::Down }
    }

    fn stats(&self) -> DriverStats {
        let faults = self.mailbox.counters.read().frames();
        DriverStats { rx_errors: self.stats.rx_errors + faults, ..self.stats }
    }

    /// No buffer is with the peer.
    fn close(&mut self, _pool: &mut Pool) {
        self.give_up(None);
    }
}

impl Drop for MemifRing {
    fn drop(&mut self) {
        self.give_up(None);
    }
}

/// Puts frames in from the front of `from`; answers how many are dealt with, and what was wrong.
fn put_all(tx: &mut TxQueue, from: &PktVec, stats: &mut DriverStats) -> (usize, Option<Fault>) {
    if let Err(fault) = tx.look() {
        return (0, Some(fault));
    }
    let mut done = 0;
    loop {
        let plain = tx.put_plain(from.iter().skip(done));
        stats.tx_frames += plain as u64;
        done += plain;
        let Some(odd) = from.iter().nth(done) else { return (done, None) };
        match tx.put(odd) {
            Ok(Put::Done) => stats.tx_frames += 1,
            Ok(Put::TooLong) => stats.tx_errors += 1,
            Ok(Put::Full) => {
                stats.tx_full += 1;
                return (done, None);
            }
            Err(fault) => return (done, Some(fault)),
        }
        done += 1;
    }
}

/// A peer that does not read its eventfd has it full, and ready.
#[cold]
fn wake(bell: &OwnedFd) {
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}
