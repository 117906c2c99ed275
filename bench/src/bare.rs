//! A source and a sink with nothing between them: what is subtracted to see the stack alone.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use net::driver::Driver;
use pkt::{Arena, ArenaError, PktVec, Pool};

use crate::frames::FRAME_LEN;
use crate::wire::{Sink, Source, Supply};

/// The stack's chunk size.
const CHUNK: usize = 64;
/// Buffers of a [`crate::router::Router`].
const BUFFERS: usize = 1024;

/// Both wires of a router, without the router.
pub struct Bare {
    source: Box<dyn Driver>,
    sink: Box<dyn Driver>,
    pool: Pool,
    vector: PktVec,
    supply: Supply,
    sent: Arc<AtomicUsize>,
}

impl Bare {
    /// A source of these frames, and a sink.
    ///
    /// # Errors
    ///
    /// When there is no memory for the buffers.
    pub fn new(frames: Vec<[u8; FRAME_LEN]>) -> Result<Self, ArenaError> {
        let (supply, sent) = (Supply::default(), Arc::default());
        let shape = ArenaError::Shape { pools: 1, slots_per_pool: BUFFERS };
        Ok(Self {
            source: Box::new(Source::new(frames, Arc::clone(&supply))),
            sink: Box::new(Sink::new(Arc::clone(&sent))),
            pool: Arena::carve(1, BUFFERS, true)?.pop().ok_or(shape)?,
            vector: PktVec::new(),
            supply,
            sent,
        })
    }

    /// Moves `turns` vectors of `packets` frames; answers how many have arrived since the start.
    pub fn pass(&mut self, turns: usize, packets: usize) -> usize {
        for _ in 0..turns {
            self.supply.store(packets, Ordering::Relaxed);
            while self.source.rx(&mut self.pool, &mut self.vector, CHUNK) > 0 {
                self.sink.tx(&mut self.pool, &mut self.vector);
            }
        }
        self.sent.load(Ordering::Relaxed)
    }
}
