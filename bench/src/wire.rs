//! A device that writes frames out of nowhere and lets them vanish.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use net::driver::{Caps, Driver, DriverStats};
use pkt::{Arena, ArenaError, HEADROOM, Pkt, PktVec, Pool, VEC_MAX};

use crate::frames::{FRAME_LEN, Family};

/// Frames that the source still has for this turn; the benchmark fills it up.
pub type Supply = Arc<AtomicUsize>;

/// The receiving side: each frame is written freshly, as a device writes it.
pub struct Source {
    frames: Vec<[u8; FRAME_LEN]>,
    at: usize,
    supply: Supply,
    stats: DriverStats,
}

/// The sending side: counts and forgets.
#[derive(Default)]
pub struct Sink {
    stats: DriverStats,
    sent: Arc<AtomicUsize>,
}

/// A [`Sink`] that gives back one buffer after the other instead of all at once.
pub struct SinkOfEach(pub Sink);

impl Source {
    /// A source of `frames`, in turn, as many as `supply` says.
    #[must_use]
    pub fn new(frames: Vec<[u8; FRAME_LEN]>, supply: Supply) -> Self {
        Self { frames, at: 0, supply, stats: DriverStats::default() }
    }
}

/// As a device writes a frame.
#[inline]
fn write(pkt: &mut Pkt, frame: &[u8; FRAME_LEN]) {
    if let Some(room) = pkt.buffer_mut()[HEADROOM..].first_chunk_mut() {
        *room = *frame;
    }
    let placed = pkt.place(HEADROOM, FRAME_LEN);
    debug_assert!(placed.is_ok(), "a small frame fits into any buffer");
}

impl Sink {
    /// A sink that tells `sent` how many frames have gone.
    #[must_use]
    pub fn new(sent: Arc<AtomicUsize>) -> Self {
        Self { sent, ..Self::default() }
    }
}

impl Driver for Source {
    fn rx(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> usize {
        let count = max.min(self.supply.load(Ordering::Relaxed));
        let new = pool.take_many(into, count);
        let mut done = 0;
        while done < new.len() && !self.frames.is_empty() {
            // As far as the frames go; then from the first again.
            let frames = self.frames.get(self.at..).unwrap_or_default();
            for (pkt, frame) in new[done..].iter_mut().zip(frames) {
                write(pkt, frame);
            }
            let written = frames.len().min(new.len() - done);
            done += written;
            self.at = if written < frames.len() { self.at + written } else { 0 };
        }
        self.supply.fetch_sub(new.len(), Ordering::Relaxed);
        self.stats.rx_frames += new.len() as u64;
        new.len()
    }

    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        pool.give_all(from);
    }

    fn doorbell(&mut self, _pool: &mut Pool) {}

    fn caps(&self) -> Caps {
        CAPS
    }

    fn stats(&self) -> DriverStats {
        self.stats
    }

    fn close(&mut self, _pool: &mut Pool) {}
}

impl Driver for Sink {
    fn rx(&mut self, _pool: &mut Pool, _into: &mut PktVec, _max: usize) -> usize {
        0
    }

    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        self.sent.fetch_add(from.len(), Ordering::Relaxed);
        self.stats.tx_frames += from.len() as u64;
        pool.give_all(from);
    }

    fn doorbell(&mut self, _pool: &mut Pool) {}

    fn caps(&self) -> Caps {
        CAPS
    }

    fn stats(&self) -> DriverStats {
        self.stats
    }

    fn close(&mut self, _pool: &mut Pool) {}
}

impl Driver for SinkOfEach {
    fn rx(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> usize {
        self.0.rx(pool, into, max)
    }

    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        self.0.sent.fetch_add(from.len(), Ordering::Relaxed);
        self.0.stats.tx_frames += from.len() as u64;
        from.drain().for_each(|pkt| pool.give(pkt));
    }

    fn doorbell(&mut self, pool: &mut Pool) {
        self.0.doorbell(pool);
    }

    fn caps(&self) -> Caps {
        self.0.caps()
    }

    fn stats(&self) -> DriverStats {
        self.0.stats()
    }

    fn close(&mut self, pool: &mut Pool) {
        self.0.close(pool);
    }
}

/// Moves `turns` vectors of `packets` frames from a source to a sink with nothing between them, and answers how many.
///
/// # Errors
///
/// When there is no memory for the buffers.
pub fn pass(turns: usize, packets: usize) -> Result<usize, ArenaError> {
    let mut pools = Arena::carve(1, VEC_MAX, false)?;
    let (supply, sent) = (Supply::default(), Arc::default());
    let mut source: Box<dyn Driver> = Box::new(Source::new(Family::Ip4.frames(), Arc::clone(&supply)));
    let mut sink: Box<dyn Driver> = Box::new(Sink::new(Arc::clone(&sent)));
    let mut vector = PktVec::new();
    for pool in &mut pools {
        for _ in 0..turns {
            supply.store(packets, Ordering::Relaxed);
            while source.rx(pool, &mut vector, CHUNK) > 0 {
                sink.tx(pool, &mut vector);
            }
        }
    }
    Ok(sent.load(Ordering::Relaxed))
}

/// The stack's chunk size.
const CHUNK: usize = 64;
const CAPS: Caps = Caps { tx_csum: false, tso: false, uso: false, buffers_max: 1 };
