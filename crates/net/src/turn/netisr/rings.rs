//! The device rings of a CPU: how they come, move and go, and how frames are taken from them.

mod hooks;

use pkt::PktVec;

use self::hooks::Hooks;
use super::burst::{Burst, Polling};
use super::{CHUNK, From, Netisr};
use crate::base::count::Count;
use crate::host::packet;
use crate::link::driver::{Driver, FrameProgram, Sink};
use crate::link::tables::IfIndex;
use crate::out::ifq::Via;
use crate::turn::capture;
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::msg::Msg;

/// A device ring that this CPU owns.
pub struct Ring {
    pub(super) ifindex: IfIndex,
    queue: u16,
    pub(super) driver: Box<dyn Driver>,
    burst: Burst,
    counts: RingCounts,
    /// Receives frames before the stack, or in its place.
    hooks: Option<Box<Hooks>>,
}

/// The counters of a ring since it was attached; they move with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounts {
    /// Times that it was asked for frames.
    pub polls: u64,
    /// Times that it had some.
    pub busy_polls: u64,
    /// Turns in which it was left with frames in it because its burst was used up.
    pub bursts_used_up: u64,
}

/// There is no such ring on this CPU, or no such CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchRing;

/// A ring on its way to another CPU.
pub struct Moving {
    ring: Ring,
    arrived: Box<dyn FnOnce(&mut Netisr) + Send>,
}

impl Moving {
    /// The ring, at a CPU that ends before it has arrived.
    pub(super) fn into_ring(self) -> Ring {
        self.ring
    }
}

impl Ring {
    /// The interface that it belongs to.
    #[must_use]
    pub const fn ifindex(&self) -> IfIndex {
        self.ifindex
    }

    /// Its number among the rings of the interface.
    #[must_use]
    pub const fn queue(&self) -> u16 {
        self.queue
    }

    /// Its device.
    #[must_use]
    pub fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    /// Returns its counters.
    #[must_use]
    pub const fn counts(&self) -> RingCounts {
        self.counts
    }

    /// The packets that may be taken from it in one turn.
    #[must_use]
    pub const fn burst(&self) -> u16 {
        self.burst.size()
    }
}

impl Netisr {
    /// Takes the only ring of a device into this CPU's care.
    pub fn attach(&mut self, ifindex: IfIndex, driver: Box<dyn Driver>) {
        self.attach_queue(ifindex, 0, driver);
    }

    /// Takes one ring of a device into this CPU's care.
    pub fn attach_queue(&mut self, ifindex: IfIndex, queue: u16, driver: Box<dyn Driver>) {
        let burst = Burst::new(self.polling.burst_max);
        self.take_in(Ring { ifindex, queue, driver, burst, counts: RingCounts::default(), hooks: None });
    }

    /// Returns the rings of an interface, closed. After the reply, no CPU touches them any more.
    pub fn detach(&mut self, ifindex: IfIndex) -> Vec<Box<dyn Driver>> {
        let gone: Vec<Ring> = self.rings.extract_if(.., |ring| ring.ifindex == ifindex).collect();
        self.connect_rings(ifindex, Via::Nothing);
        let pool = &mut self.cpu.pool;
        let closed = gone.into_iter().map(|mut ring| {
            ring.driver.close(pool);
            ring.driver
        });
        closed.collect()
    }

    /// Moves one ring to CPU `to`, which runs `arrived` once it has it; this CPU does not touch it any more.
    ///
    /// Nothing is lost: what the device has received waits in the ring, and what this CPU, or others that do not know
    /// yet, send through it is handed to the new owner. Each former owner points to the next one, so such packets
    /// always come nearer to the ring.
    ///
    /// # Errors
    ///
    /// [`NoSuchRing`]; nothing has happened then.
    pub fn move_ring(
        &mut self,
        ifindex: IfIndex,
        queue: u16,
        to: CpuId,
        arrived: Box<dyn FnOnce(&mut Self) + Send>,
    ) -> Result<(), NoSuchRing> {
        let is_it = |ring: &Ring| ring.ifindex == ifindex && ring.queue == queue;
        let at = self.rings.iter().position(is_it).ok_or(NoSuchRing)?;
        if to == self.cpu.id {
            arrived(self);
            return Ok(());
        }
        if to.0 >= self.cpu.placement.cpus() {
            return Err(NoSuchRing);
        }
        let mut ring = self.rings.remove(at);
        ring.driver.leave(&mut self.cpu.pool);
        self.connect_rings(ifindex, Via::Peer(to));
        self.cpu.peers.send(to, Msg::Ring(Box::new(Moving { ring, arrived })));
        Ok(())
    }

    /// A ring has come from another CPU.
    pub(super) fn arrive(&mut self, moving: Moving) {
        self.take_in(moving.ring);
        (moving.arrived)(self);
    }

    /// Sends what leaves by an interface through another CPU's ring, unless there is one here.
    pub fn send_through(&mut self, ifindex: IfIndex, owner: CpuId) {
        if owner != self.cpu.id && !self.rings.iter().any(|ring| ring.ifindex == ifindex) {
            self.cpu.ifqs.connect(ifindex, Via::Peer(owner));
        }
    }

    /// The rings that this CPU owns.
    pub fn rings(&self) -> impl Iterator<Item = &Ring> {
        self.rings.iter()
    }

    /// Lets a sink of its own take what each ring of an interface receives from now on; `None` from `make` gives it to
    /// the stack again.
    pub fn set_sinks(&mut self, ifindex: IfIndex, mut make: impl FnMut() -> Option<Box<dyn Sink>>) {
        for ring in self.rings.iter_mut().filter(|ring| ring.ifindex == ifindex) {
            Hooks::change(&mut ring.hooks, |hooks| hooks.sink = make());
        }
    }

    /// Lets a program decide about what one ring of an interface receives from now on; `None` ends it.
    pub fn set_program(&mut self, ifindex: IfIndex, queue: u16, program: Option<Box<dyn FrameProgram>>) {
        let is_it = |ring: &&mut Ring| ring.ifindex == ifindex && ring.queue == queue;
        if let Some(ring) = self.rings.iter_mut().find(is_it) {
            Hooks::change(&mut ring.hooks, |hooks| hooks.program = program);
        }
    }

    /// The sinks of an interface's rings here.
    pub fn sinks(&self, ifindex: IfIndex) -> impl Iterator<Item = &dyn Sink> {
        let rings = self.rings.iter().filter(move |ring| ring.ifindex == ifindex);
        rings.filter_map(|ring| ring.hooks.as_ref()?.sink.as_deref())
    }

    /// Asks all devices to wake this CPU's thread, and returns whether none has frames already: to be checked
    /// before sleeping.
    pub fn may_sleep(&mut self) -> bool {
        self.rings.iter_mut().all(|ring| ring.driver.may_sleep())
    }

    /// Replaces what is allowed in a turn. Bursts that are larger are cut; smaller ones have to grow.
    pub fn set_polling(&mut self, polling: Polling) {
        self.polling = polling.within_bounds();
        self.rings.iter_mut().for_each(|ring| ring.burst.cut(self.polling.burst_max));
    }

    /// Says how long the last turn took, by the clock that the stack has not.
    ///
    /// Bursts shrink after a turn that took longer than [`Polling::turn_max`], and grow after one that did not.
    pub fn feedback(&mut self, took: core::time::Duration) {
        let (verdict, most) = (self.polling.judge(took), self.polling.burst_max);
        self.cpu.counters.add(Count::LongTurns, u64::from(verdict.is_long()));
        self.rings.iter_mut().for_each(|ring| ring.burst.adapt(verdict, most));
    }

    fn take_in(&mut self, ring: Ring) {
        let ifindex = ring.ifindex;
        self.rings.push(ring);
        self.connect_rings(ifindex, Via::Nothing);
    }

    /// Brings the output queues up to date after rings came or went: their positions, and which one an interface sends
    /// through. One without a ring here sends by `otherwise`.
    fn connect_rings(&mut self, changed: IfIndex, otherwise: Via) {
        self.cpu.ifqs.connect(changed, otherwise);
        // In reverse, so that the first of an interface is the one that is used.
        for (at, ring) in self.rings.iter().enumerate().rev() {
            self.cpu.ifqs.connect(ring.ifindex, Via::Ring(at));
        }
    }

    /// 2c. Frames from my rings, round by round: a few from each, which go their whole way at once, until the rings are
    /// empty or their bursts used up.
    pub(super) fn receive(&mut self) -> usize {
        if self.cpu.watched { self.receive_captured() } else { self.receive_all::<false>() }
    }

    /// [`Self::receive`] while a capture is attached.
    #[cold]
    #[inline(never)]
    fn receive_captured(&mut self) -> usize {
        self.receive_all::<true>()
    }

    #[inline(always)]
    fn receive_all<const CAPTURED: bool>(&mut self) -> usize {
        let mut packets = 0;
        self.rings.iter_mut().for_each(|ring| ring.burst.begin());
        loop {
            let round: usize = (0..self.rings.len()).map(|ring| self.poll::<CAPTURED>(ring)).sum();
            if round == 0 {
                return packets;
            }
            packets += round;
        }
    }

    /// A ring's share of a round.
    fn poll<const CAPTURED: bool>(&mut self, ring: usize) -> usize {
        let Self { rings, cpu, work, polling, .. } = self;
        let got = rings[ring].rx(cpu, &mut work.frames, polling.each_burst);
        let ifindex = rings[ring].ifindex;
        if CAPTURED {
            hooks::run_program(cpu, &mut rings[ring], &mut work.frames);
            capture::received(cpu, ifindex, &work.frames);
            packet::received(cpu, ifindex, &mut work.frames);
        }
        match &mut rings[ring].hooks {
            _ if got == 0 => {}
            None if CAPTURED => self.input_watched(From::Ring(ifindex)),
            None => self.input(From::Ring(ifindex)),
            Some(_) => self.hooked::<CAPTURED>(ring),
        }
        got
    }

    /// 2a. Packets from us to us, as if they had just come in, and those that have waited for tables.
    pub(super) fn looped_back(&mut self) -> usize {
        let count = self.cpu.loopback.len();
        let mut left = count;
        while left > 0 {
            let Self { cpu, work, .. } = self;
            // What is sent in answer waits behind these, for the next turn.
            let chunk = CHUNK.min(left).min(cpu.loopback.len());
            for pkt in cpu.loopback.drain(..chunk) {
                let _ = work.frames.push(pkt).map_err(|pkt| cpu.pool.give(pkt));
            }
            left = left.saturating_sub(CHUNK);
            self.input_inside();
        }
        count
    }
}

impl Ring {
    /// Takes up to `max` frames, as far as the burst goes.
    fn rx(&mut self, cpu: &mut Cpu, into: &mut PktVec, max: u16) -> usize {
        let max = self.burst.share(max);
        if max == 0 {
            return 0;
        }
        let got = self.driver.rx(&mut cpu.pool, into, max);
        self.counts.polls += 1;
        if got == 0 {
            self.burst.end();
            return 0;
        }
        self.counts.busy_polls += 1;
        self.counts.bursts_used_up += u64::from(self.burst.took(got, max));
        got
    }
}

#[cfg(test)]
mod tests;
