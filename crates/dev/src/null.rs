//! A device without a wire: it forgets what is sent, and receives nothing, or the same frame without end.
//!
//! It shows what the rest costs: a generator that sends into it, a stack or a sink that is fed by it.

use net::driver::{Caps, Driver, DriverStats};
use pkt::{DATA_LEN, PktVec, Pool};

/// The longest frame that is received, bytes: it lies in one buffer.
pub const FRAME_MAX: usize = DATA_LEN;

/// The ring of such a device.
pub struct NullRing {
    /// The frame that is received, without end; empty if none is.
    frame: Vec<u8>,
    stats: DriverStats,
}

impl NullRing {
    /// A ring that receives `frame` as often as it is asked, cut to [`FRAME_MAX`] bytes; an empty one is not received.
    #[must_use]
    pub fn new(mut frame: Vec<u8>) -> Self {
        frame.truncate(FRAME_MAX);
        Self { frame, stats: DriverStats::default() }
    }
}

impl Driver for NullRing {
    fn rx(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> usize {
        let mut got = 0;
        while !self.frame.is_empty() && got < max {
            let Some(mut pkt) = pool.take() else { break };
            if let Ok(room) = pkt.append(self.frame.len()) {
                room.copy_from_slice(&self.frame);
            }
            if let Err(pkt) = into.push(pkt) {
                pool.give(pkt);
                break;
            }
            got += 1;
        }
        self.stats.rx_frames += got as u64;
        got
    }

    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        self.stats.tx_frames += from.len() as u64;
        from.drain().for_each(|pkt| pool.give(pkt));
    }

    fn doorbell(&mut self, _pool: &mut Pool) {
        self.stats.doorbells += 1;
    }

    fn may_sleep(&mut self) -> bool {
        self.frame.is_empty()
    }

    fn caps(&self) -> Caps {
        Caps { buffers_max: usize::MAX, ..Caps::default() }
    }

    fn stats(&self) -> DriverStats {
        self.stats
    }

    fn close(&mut self, _pool: &mut Pool) {}
}

#[cfg(test)]
mod tests {
    use pkt::Arena;

    use super::*;

    #[test]
    fn what_is_sent_is_forgotten_and_what_is_received_is_always_the_same() {
        let mut pool = Arena::carve(1, 16, false).unwrap().pop().unwrap();
        let mut pkts = PktVec::new();
        let mut silent = NullRing::new(Vec::new());
        assert_eq!((silent.rx(&mut pool, &mut pkts, 8), silent.may_sleep()), (0, true));
        let mut ring = NullRing::new(vec![7; 60]);
        assert_eq!((ring.rx(&mut pool, &mut pkts, 8), ring.may_sleep()), (8, false));
        assert!(pkts.iter().all(|pkt| pkt.head() == [7; 60]));
        ring.tx(&mut pool, &mut pkts);
        assert_eq!((pool.free(), pkts.len()), (pool.total(), 0));
        let stats = ring.stats();
        assert_eq!((stats.rx_frames, stats.tx_frames), (8, 8));
    }

    #[test]
    fn without_buffers_it_receives_what_there_is_room_for() {
        let mut pool = Arena::carve(1, 4, false).unwrap().pop().unwrap();
        let (mut pkts, free) = (PktVec::new(), pool.free());
        let mut ring = NullRing::new(vec![7; 60]);
        assert_eq!(ring.rx(&mut pool, &mut pkts, free + 1), free);
        assert_eq!(ring.rx(&mut pool, &mut pkts, 1), 0);
        ring.tx(&mut pool, &mut pkts);
        assert_eq!(pool.free(), free);
    }
}
