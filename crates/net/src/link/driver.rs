//! Traits towards the outside: drivers, and sinks in place of the stack.

use core::any::Any;

use pkt::{Pkt, PktVec, Pool};

use crate::base::time::Instant;
use crate::link::tables::IfIndex;

/// One ring pair of a device, owned by one CPU.
///
/// A driver is polled; it never blocks and never calls back. It takes empty buffers from the pool when it likes,
/// and gives dead ones back to it.
pub trait Driver: Send {
    /// Appends up to `max` received frames to `into`, in the order of their arrival, and returns how many.
    ///
    /// Sets on each packet what the device knows (checksum, segmentation, hash). Refills the receive ring from
    /// `pool` as far as the ring's allowance goes.
    fn rx(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> usize;

    /// Takes frames from the front of `from` until the transmit ring is full. What stays is still the caller's.
    ///
    /// They may wait for [`Driver::doorbell`] before they go. Frames that have gone return to `pool`.
    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec);

    /// Tells the device that frames wait in the transmit ring, if any do.
    fn doorbell(&mut self, pool: &mut Pool);

    /// Bytes of the frames that the device has taken and not sent yet, as far as the driver knows without asking;
    /// `None` if a frame is gone when it is taken. What the device refused is not in flight.
    ///
    /// The netisr learns from it how many bytes keep the device busy, and gives it no more.
    fn in_flight(&self) -> Option<usize> {
        None
    }

    /// Whether frames that the device has taken are still to come back, or wait for another doorbell; or whether the
    /// receive ring is empty, so that no frame can wake its owner (returning buffers wake no CPU).
    ///
    /// The netisr then turns again soon instead of sleeping until something is received.
    fn busy(&self) -> bool {
        false
    }

    /// Called before the owner sleeps: from now on received frames must wake it. Answers whether it may; if frames
    /// came in the meantime, it may not. The next [`Driver::rx`] ends it.
    fn may_sleep(&mut self) -> bool {
        true
    }

    /// Returns the device's offloads. Fixed for the life of the driver.
    fn caps(&self) -> Caps;

    /// Whether the device is there. Once [`Link::Gone`], always gone.
    ///
    /// May ask the system: not for every turn.
    fn link(&self) -> Link {
        Link::Up
    }

    /// Returns the device's counters.
    fn stats(&self) -> DriverStats;

    /// Forgets `pool`: the next call comes from another CPU, with another pool.
    ///
    /// Frames that were received, and frames that are to be sent, stay. So may empty buffers: they find their way home
    /// by themselves. To be implemented by drivers with an account at the pool, which is to be closed
    /// ([`Pool::close_ring`]), or with buffers outside of it.
    fn leave(&mut self, pool: &mut Pool) {
        _ = pool;
    }

    /// Takes all buffers back from the device, as far as it lets go of them, and gives them to `pool`.
    ///
    /// Called once, before the driver is dropped.
    fn close(&mut self, pool: &mut Pool);
}

/// Takes what a ring receives in place of the stack: on an interface in monitor mode.
///
/// One value per ring, on the ring's CPU. Its maker finds its own type again through [`Any`].
pub trait Sink: Any + Send {
    /// Looks at frames that came in the turn of `now`, in the order of their arrival. Afterwards they end as
    /// [`crate::base::drop::DropReason::Monitor`].
    fn frames(&mut self, now: Instant, frames: &PktVec);
}

/// Decides about the frames of a ring before the stack sees them: an XDP program.
///
/// One value per ring, on the ring's CPU.
pub trait FrameProgram: Any + Send {
    /// Runs on a frame, which it may change, and answers what becomes of it.
    fn run(&mut self, occasion: &Occasion, frame: &mut Pkt) -> Verdict;
}

/// The circumstances under which a frame was received.
#[derive(Clone, Copy, Debug)]
pub struct Occasion {
    /// Time of the turn.
    pub now: Instant,
    /// Interface.
    pub ifindex: IfIndex,
    /// Ring among those of the interface.
    pub queue: u16,
    /// Number of the CPU.
    pub cpu: u16,
}

/// The verdict of a program on a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The stack gets it (`XDP_PASS`).
    Pass,
    /// It is dropped (`XDP_DROP`).
    Drop,
    /// It is dropped because of an error (`XDP_ABORTED`).
    Aborted,
    /// It leaves by the interface that received it (`XDP_TX`).
    Tx,
    /// It leaves by this interface (`XDP_REDIRECT`).
    Redirect(IfIndex),
}

/// The offloads of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// Completes partial TCP and UDP checksums ([`pkt::Flags::CSUM_PARTIAL`]).
    pub tx_csum: bool,
    /// Takes TCP super-packets ([`pkt::Gso::Tcp4`], [`pkt::Gso::Tcp6`]).
    pub tso: bool,
    /// Takes UDP super-packets ([`pkt::Gso::Udp`]).
    pub uso: bool,
    /// Buffers that one frame may have; 1 if it must lie in one.
    pub buffers_max: usize,
}

/// State of a device's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Frames can pass.
    Up,
    /// No carrier, or administratively down outside.
    Down,
    /// The device was taken away.
    Gone,
}

/// Counters that a driver keeps of its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverStats {
    /// Frames received.
    pub rx_frames: u64,
    /// Frames that the device had to drop because no empty buffer was in the ring, or the ring was full.
    pub rx_dropped: u64,
    /// Frames that came with an error, or that the device described impossibly.
    pub rx_errors: u64,
    /// Frames given to the device.
    pub tx_frames: u64,
    /// Times that the transmit ring was full.
    pub tx_full: u64,
    /// Frames that the device refused.
    pub tx_errors: u64,
    /// Doorbells rung.
    pub doorbells: u64,
}
