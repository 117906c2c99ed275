//! A network card in memory: ring pairs, receive-side scaling, interrupts, and faults on request.
//!
//! It behaves as cards do: frames land in buffers that the driver posted, wait in a small memory of the card while
//! there is none, and are lost when that is full. [`driver::MemDriver`] is the side that the stack sees.

pub mod driver;
mod ring;
mod steer;

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use net::driver::{Caps, DriverStats};
use wire::ether::Mac;

use crate::frame::Frame;
use driver::MemDriver;
use ring::Ring;

/// The properties of a card.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Its address.
    pub mac: Mac,
    /// Ring pairs.
    pub rings: usize,
    /// Descriptors of each receive ring and of each transmit ring.
    pub ring_len: usize,
    /// Buffers that a receive ring may have out, those in the stack included.
    pub allowance: usize,
    /// Frames that the card holds for a ring without free descriptors.
    pub memory: usize,
    /// Its distribution of frames over rings.
    pub rss: Rss,
    /// Its offloads.
    pub caps: Caps,
    /// Delivers frames for other addresses too.
    pub promiscuous: bool,
}

/// The distribution of frames over rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rss {
    /// By the same hash as the stack; the driver says so in the packet.
    Right,
    /// By another hash, which differs for the two directions of a flow; the driver keeps it to itself.
    Wrong,
    /// Not at all: all frames come by ring 0.
    Absent,
}

/// Counts of a card, in frames, all rings together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// For other stations.
    pub filtered: u64,
    /// Arrived when the card was gone.
    pub unplugged: u64,
    /// Dropped, because ring and memory were full.
    pub dropped: u64,
    /// Too long for the buffers that one frame may have.
    pub too_long: u64,
    /// Refused on the way out.
    pub refused: u64,
}

/// A card. Clones are handles of the same one.
#[derive(Clone)]
pub struct Nic {
    state: Arc<Mutex<State>>,
}

/// Marks a CPU as runnable; stays set until it has turned.
pub type Wakeup = Arc<AtomicBool>;

struct State {
    spec: Spec,
    rings: Vec<Ring>,
    gone: bool,
    /// No carrier: what is to be sent waits, and nothing arrives.
    down: bool,
    counts: Counts,
    /// The ring that may send next.
    turn: usize,
    misuse: Vec<String>,
    plant: Plant,
}

/// Faults that a test plants.
#[derive(Clone, Copy, Debug, Default)]
struct Plant {
    lose_buffers: u32,
    lies: bool,
    refuse: u32,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            mac: Mac::ZERO,
            rings: 1,
            ring_len: 64,
            allowance: 256,
            memory: 512,
            rss: Rss::Absent,
            caps: Caps { buffers_max: 1, ..Caps::default() },
            promiscuous: false,
        }
    }
}

impl Nic {
    /// A card that nothing is plugged into.
    #[must_use]
    pub fn new(spec: Spec) -> Self {
        let rings = (0..spec.rings).map(|_| Ring::default()).collect();
        let state = State {
            spec,
            rings,
            gone: false,
            down: false,
            counts: Counts::default(),
            turn: 0,
            misuse: Vec::new(),
            plant: Plant::default(),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// The driver of one ring pair.
    #[must_use]
    pub fn driver(&self, ring: usize) -> MemDriver {
        MemDriver::new(self.clone(), ring)
    }

    /// Says which CPU the interrupts of a ring go to.
    pub fn route_interrupts(&self, ring: usize, bell: Wakeup) {
        if let Some(ring) = self.lock().rings.get_mut(ring) {
            ring.bell = Some(bell);
        }
    }

    /// A frame arrives from the cable.
    pub fn deliver(&self, frame: Frame) {
        self.lock().deliver(frame);
    }

    /// The next frame that the driver has rung for, ring after ring; its buffer waits for the driver to reap it.
    #[must_use]
    pub fn transmit(&self) -> Option<Frame> {
        self.lock().transmit()
    }

    /// Whether a frame waits to be sent.
    #[must_use]
    pub fn has_to_transmit(&self) -> bool {
        let state = self.lock();
        !state.down && state.rings.iter().any(Ring::has_to_transmit)
    }

    /// Whether frames wait in it, to be sent or to be taken by the stack.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.has_to_transmit() || self.lock().rings.iter().any(Ring::has_received)
    }

    /// Returns its properties.
    #[must_use]
    pub fn spec(&self) -> Spec {
        self.lock().spec
    }

    /// Returns its counts.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// Returns the counters of all rings.
    #[must_use]
    pub fn stats(&self) -> DriverStats {
        let add = |all: DriverStats, ring: &Ring| DriverStats {
            rx_frames: all.rx_frames + ring.stats.rx_frames,
            tx_frames: all.tx_frames + ring.stats.tx_frames,
            tx_errors: all.tx_errors + ring.stats.tx_errors,
            ..all
        };
        self.lock().rings.iter().fold(DriverStats::default(), add)
    }

    /// Buffers of the stack that its rings hold.
    #[must_use]
    pub fn buffers(&self) -> usize {
        self.lock().rings.iter().map(Ring::buffers).sum()
    }

    /// Errors of the driver or the stack that a real card would not tolerate: frames with work that it cannot do.
    #[must_use]
    pub fn misuse(&self) -> Vec<String> {
        self.lock().misuse.clone()
    }

    /// Pulls the card out: it is gone for ever.
    pub fn pull_out(&self) {
        let mut state = self.lock();
        state.gone = true;
        state.rings.iter().for_each(Ring::interrupt);
    }

    /// Takes the carrier away, or gives it back.
    pub fn set_link(&self, up: bool) {
        let mut state = self.lock();
        state.down = !up;
        state.rings.iter().for_each(Ring::interrupt);
    }

    /// Refuses the next `frames` that are to be sent.
    pub fn refuse(&self, frames: u32) {
        self.lock().plant.refuse = frames;
    }

    /// Plants a bug: with each of the next `count` frames that arrive, an empty buffer is lost.
    pub fn plant_lost_buffers(&self, count: u32) {
        self.lock().plant.lose_buffers = count;
    }

    /// Plants a bug: the card calls another hash the stack's own.
    pub fn plant_lying_hash(&self) {
        self.lock().plant.lies = true;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn deliver(&mut self, frame: Frame) {
        let dst = frame.header().dst;
        if self.gone || self.down {
            self.counts.unplugged += 1;
            return;
        }
        if !self.spec.promiscuous && !dst.is_multicast() && dst != self.spec.mac {
            self.counts.filtered += 1;
            return;
        }
        let steered = steer::steer(&frame, self.spec, self.plant.lies);
        let Some(ring) = self.rings.get_mut(steered.ring) else { return };
        let buffers_max = self.spec.caps.buffers_max.max(1);
        if frame.bytes.len() > buffers_max * pkt::DATA_LEN {
            self.counts.too_long += 1;
        } else if !ring.receive(frame, steered.hash, self.spec.memory) {
            self.counts.dropped += 1;
        }
        if self.plant.lose_buffers > 0 {
            self.plant.lose_buffers -= 1;
            ring.lose_buffer();
        }
    }

    fn transmit(&mut self) -> Option<Frame> {
        if self.down {
            return None;
        }
        let rings = self.rings.len();
        let at = (0..rings).map(|n| (self.turn + n) % rings).find(|at| self.rings[*at].has_to_transmit())?;
        self.turn = at + 1;
        self.rings[at].transmit()
    }

    /// Whether the card takes a frame with this much left to do; writes down what it does not.
    fn takes(&mut self, pkt: &pkt::Pkt) -> bool {
        let caps = self.spec.caps;
        let allowed = match pkt.gso {
            pkt::Gso::None => true,
            pkt::Gso::Tcp4 | pkt::Gso::Tcp6 => caps.tso,
            pkt::Gso::Udp => caps.uso,
        };
        let csum = caps.tx_csum || !pkt.flags.has(pkt::Flags::CSUM_PARTIAL);
        let whole = pkt.buffers() <= caps.buffers_max.max(1);
        if !(allowed && csum && whole) {
            let buffers = pkt.buffers();
            self.misuse.push(format!("a frame with {:?}, {buffers} buffers, for {caps:?}", pkt.gso));
        }
        let refused = self.plant.refuse > 0;
        self.plant.refuse = self.plant.refuse.saturating_sub(1);
        allowed && csum && whole && !refused && !self.gone
    }
}

/// Rings a bell.
fn ring_bell(bell: Option<&Wakeup>) {
    if let Some(bell) = bell {
        bell.store(true, Ordering::Relaxed);
    }
}
