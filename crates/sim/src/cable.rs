//! Cables: links with two or more stations, and all that happens to frames on their way.

use net::time::{Duration, Instant};

use crate::frame::Frame;
use crate::mitm::Meddler;
use crate::pcap::Tape;
use crate::random::Random;

/// The properties of a cable. Probabilities are in millionths.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Propagation delay.
    pub delay: Duration,
    /// Bits per second in each direction; `None`: any number.
    pub rate_bps: Option<u64>,
    /// Bytes of the largest network packet that it carries.
    pub mtu: u32,
    /// Frames that are lost.
    pub loss: u32,
    /// Frames that arrive twice.
    pub duplicate: u32,
    /// Frames that take up to ten times as long, and are overtaken.
    pub reorder: u32,
    /// Frames in which one to three bits flip.
    pub corrupt: u32,
}

/// A cable. Every frame that one plug sends reaches all others, as on a hub.
pub struct Cable {
    /// Its properties; may change while it is in use.
    pub spec: Spec,
    /// The recorded frames.
    pub tape: Tape,
    /// Its counts.
    pub counts: Counts,
    /// A man in the middle that changes segments and datagrams, if there is one.
    pub meddler: Option<Meddler>,
    random: Random,
}

/// Counts of frames on a cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Put on it.
    pub sent: u64,
    /// Lost.
    pub lost: u64,
    /// Doubled.
    pub duplicated: u64,
    /// Held back.
    pub reordered: u64,
    /// Changed.
    pub corrupted: u64,
    /// Longer than its MTU, and lost.
    pub oversized: u64,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            delay: Duration::from_micros(10),
            rate_bps: None,
            mtu: 1500,
            loss: 0,
            duplicate: 0,
            reorder: 0,
            corrupt: 0,
        }
    }
}

impl Spec {
    /// Whether frames arrive in the order in which they were sent, each once.
    #[must_use]
    pub const fn is_orderly(&self) -> bool {
        self.reorder == 0 && self.duplicate == 0
    }

    /// Returns the serialization time of `bytes`.
    #[must_use]
    pub fn serialization(&self, bytes: usize) -> Duration {
        let bits = bytes as u64 * 8;
        let ns = self.rate_bps.and_then(|rate| (bits * 1_000_000_000).checked_div(rate));
        Duration::from_nanos(ns.unwrap_or(0))
    }
}

impl Cable {
    /// A cable whose accidents follow from `random`.
    #[must_use]
    pub fn new(spec: Spec, random: Random) -> Self {
        Self { spec, tape: Tape::default(), counts: Counts::default(), meddler: None, random }
    }

    /// Takes a frame that is sent at `now`; answers what arrives, and when.
    pub fn carry(&mut self, now: Instant, mut frame: Frame) -> Vec<(Instant, Frame)> {
        if let Some(meddler) = &mut self.meddler {
            meddler.pass(&mut frame.bytes);
        }
        self.tape.record(now, &frame.bytes);
        self.counts.sent += 1;
        if frame.packet_len() > self.spec.mtu as usize {
            self.counts.oversized += 1;
            return Vec::new();
        }
        if self.random.chance(self.spec.loss) {
            self.counts.lost += 1;
            return Vec::new();
        }
        let mut arriving = Vec::with_capacity(2);
        if self.random.chance(self.spec.duplicate) {
            self.counts.duplicated += 1;
            arriving.push((self.arrival(now), frame.clone()));
        }
        let at = self.arrival(now);
        arriving.push((at, self.corrupted(frame)));
        arriving
    }

    fn arrival(&mut self, now: Instant) -> Instant {
        if !self.random.chance(self.spec.reorder) {
            return now + self.spec.delay;
        }
        self.counts.reordered += 1;
        now + self.spec.delay * u32::try_from(self.random.between(2, 10)).unwrap_or(2)
    }

    fn corrupted(&mut self, mut frame: Frame) -> Frame {
        if self.random.chance(self.spec.corrupt) {
            self.counts.corrupted += 1;
            for _ in 0..self.random.between(1, 3) {
                let bit = self.random.below(frame.bytes.len() * 8);
                if let Some(byte) = frame.bytes.get_mut(bit / 8) {
                    *byte ^= 1 << (bit % 8);
                }
            }
        }
        frame
    }
}
