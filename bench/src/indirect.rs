//! The way that the stack does not go: a queue between driver and stack.
//!
//! Where a driver must not call the stack (because it holds a lock that the stack wants), it queues what it receives, and
//! the stack takes it from there when the driver is done. This wraps a driver so, to show what direct input saves.

use std::collections::VecDeque;

use net::driver::{Caps, Driver, DriverStats};
use pkt::{Pkt, PktVec, Pool};

/// Frames that the queue holds: what was polled in one go in those days.
pub const QUEUE_MAX: usize = 50;

/// A driver behind a queue.
pub struct Indirect {
    driver: Box<dyn Driver>,
    queue: VecDeque<Pkt>,
    polled: PktVec,
}

impl Indirect {
    /// Puts a queue behind a driver.
    #[must_use]
    pub fn new(driver: Box<dyn Driver>) -> Self {
        Self { driver, queue: VecDeque::with_capacity(QUEUE_MAX), polled: PktVec::new() }
    }

    /// The driver's part: takes frames until there are no more, or the queue is full.
    fn poll(&mut self, pool: &mut Pool) {
        self.driver.rx(pool, &mut self.polled, QUEUE_MAX - self.queue.len());
        self.queue.extend(self.polled.drain());
    }
}

impl Driver for Indirect {
    /// The stack's part, once the driver is done. Less than `max` says that nothing more is there, so it polls again.
    fn rx(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> usize {
        let mut got = 0;
        while got < max {
            self.poll(pool);
            if self.queue.is_empty() {
                break;
            }
            let count = self.queue.len().min(max - got);
            for pkt in self.queue.drain(..count) {
                if let Err(pkt) = into.push(pkt) {
                    pool.give(pkt);
                }
            }
            got += count;
        }
        got
    }

    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        self.driver.tx(pool, from);
    }

    fn doorbell(&mut self, pool: &mut Pool) {
        self.driver.doorbell(pool);
    }

    fn caps(&self) -> Caps {
        self.driver.caps()
    }

    fn stats(&self) -> DriverStats {
        self.driver.stats()
    }

    fn close(&mut self, pool: &mut Pool) {
        self.queue.drain(..).for_each(|pkt| pool.give(pkt));
        self.driver.close(pool);
    }
}

#[cfg(test)]
mod tests {
    use crate::frames::Family;
    use crate::router::Router;

    #[test]
    fn the_indirect_way_forwards_the_same() {
        for family in [Family::Ip4, Family::Ip6] {
            for at_once in [1, 50, 51, 256] {
                let mut router = Router::indirect(family).unwrap();
                assert_eq!(router.forward(10, at_once), 10 * at_once);
                assert_eq!(router.buffers_out(), 0);
            }
        }
    }
}
