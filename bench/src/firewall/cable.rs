//! A cable between two hosts in memory: what one sends the other receives, as a device would have written it.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use net::driver::{Caps, Driver, DriverStats};
use pkt::{HEADROOM, PktVec, Pool};

/// One end.
pub struct End {
    from: Arc<Mutex<Way>>,
    to: Arc<Mutex<Way>>,
    count: Arc<AtomicUsize>,
}

/// Frames on their way, and room for more.
#[derive(Default)]
struct Way {
    frames: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

/// How much has gone over a cable.
#[derive(Clone, Default)]
pub struct Traffic(Arc<AtomicUsize>);

/// The ends of a new cable.
#[must_use]
pub fn cable() -> ([End; 2], Traffic) {
    let (there, back) = (Arc::<Mutex<Way>>::default(), Arc::<Mutex<Way>>::default());
    let traffic = Traffic::default();
    let end = |from: &Arc<_>, to: &Arc<_>| End {
        from: Arc::clone(from),
        to: Arc::clone(to),
        count: Arc::clone(&traffic.0),
    };
    ([end(&back, &there), end(&there, &back)], traffic)
}

impl Traffic {
    /// Frames that either end has sent.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Driver for End {
    fn rx(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> usize {
        let Ok(mut way) = self.from.lock() else { return 0 };
        let before = into.len();
        let new = pool.take_many(into, max.min(way.frames.len())).len();
        for pkt in into.iter_mut().skip(before) {
            let Some(frame) = way.frames.pop_front() else { break };
            if let Some(room) = pkt.buffer_mut()[HEADROOM..].get_mut(..frame.len()) {
                room.copy_from_slice(&frame);
            }
            let placed = pkt.place(HEADROOM, frame.len());
            debug_assert!(placed.is_ok(), "a frame of 1500 bytes fits into any buffer");
            way.spare.push(frame);
        }
        new
    }

    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        let Ok(mut way) = self.to.lock() else { return };
        self.count.fetch_add(from.len(), Ordering::Relaxed);
        for pkt in from.iter() {
            let mut frame = way.spare.pop().unwrap_or_default();
            frame.clear();
            pkt.fragments().for_each(|part| frame.extend_from_slice(part));
            way.frames.push_back(frame);
        }
        pool.give_all(from);
    }

    fn doorbell(&mut self, _pool: &mut Pool) {}

    fn caps(&self) -> Caps {
        Caps { tx_csum: false, tso: false, uso: false, buffers_max: 1 }
    }

    fn stats(&self) -> DriverStats {
        DriverStats::default()
    }

    fn close(&mut self, _pool: &mut Pool) {}
}
