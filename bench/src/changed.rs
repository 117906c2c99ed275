//! A source whose frames are changed as they come: other flows, or what a device says of them.

use net::driver::{Caps, Driver, DriverStats};
use pkt::{Pkt, PktVec, Pool};

use crate::wire::Source;

/// A source, and what is done to each of its frames.
pub struct Changed<F> {
    source: Source,
    change: F,
}

impl<F: FnMut(&mut Pkt) + Send> Changed<F> {
    /// Changes what the source gives. The frame lies behind the headroom.
    #[must_use]
    pub const fn new(source: Source, change: F) -> Self {
        Self { source, change }
    }
}

impl<F: FnMut(&mut Pkt) + Send> Driver for Changed<F> {
    fn rx(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> usize {
        let before = into.len();
        let got = self.source.rx(pool, into, max);
        into.iter_mut().skip(before).for_each(&mut self.change);
        got
    }

    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        self.source.tx(pool, from);
    }

    fn doorbell(&mut self, pool: &mut Pool) {
        self.source.doorbell(pool);
    }

    fn caps(&self) -> Caps {
        self.source.caps()
    }

    fn stats(&self) -> DriverStats {
        self.source.stats()
    }

    fn close(&mut self, pool: &mut Pool) {
        self.source.close(pool);
    }
}
