//! Pipes and queues: packets wait here, so that they leave in the shape that was asked for.
//!
//! ```text
//!                 ┌ queue 1 ┐
//!   rule: queue 1 ┤ queue 2 ├▶ turns ▶ clock ▶ delay line ▶ back to the rules, or on
//!   rule: pipe 9  └ its own ┘  fifo    bit/s,   delay
//!                 loss, limit, wf2q+   burst              order
//!                 RED, CoDel   rr, fq_codel
//! ```
//!
//! With a mask, each flow has a pipe, or a queue, of its own: a [`lane`] is a pipe, or that of one flow, on one CPU.
//! A pipe sends as a wire does: a packet leaves when its last bit is sent, and then the delay has passed. Time is
//! counted in nanoseconds and nothing of it is lost, so over any time a pipe sends its bandwidth, to the bit, however
//! often `due` is called: packets due earlier are sent as of then.
//!
//! **Damage.** A pipe can be as bad as a path: what is lost never enters it, a copy enters right behind its original
//! ([`Pipes::copies`]) and is a packet like any other, and at the end of the delay line packets are held back, so that
//! others overtake them ([`reorder`]). All of it is drawn from the CPU's secret, so a run with the same one is the same.
//!
//! **Several CPUs.** Each CPU shapes its own packets, in queues of its own, and buys the pipe's time from an account
//! that all share ([`shared_rate`]). In a span of time they send together no more than bandwidth × (span + 10 µs for each
//! CPU), the burst, and a packet for each CPU. An `exact` pipe is on one CPU (for each flow, if it has a mask): the
//! others get their packets back with its number ([`Refused::Elsewhere`]).
//!
//! **Wake-ups.** Nothing happens in steps, but a CPU that sleeps is woken for what is due at most every 50 µs: a
//! thread's sleep is not more exact than that, and packets leave in the same amount, a few at once. A caller of
//! [`Pipes::due`] more often, as a busy CPU does, gets each packet when its time has come.

mod shared_rate;
mod clock;
mod config;
mod events;
mod key;
mod lane;
mod per_cpu;
mod queue;
mod red;
mod show;
mod slab;
mod reorder;
mod sched;

use std::sync::Arc;

use pkt::Pkt;

pub use self::config::{Config, ConfigError, PIPES_MAX};
pub use self::key::Key;
use self::per_cpu::{Own, QueuePath};
pub use self::queue::Count;
use self::queue::buffers;
pub use self::show::{Listed, PipeState, QueueState, Total};
use crate::base::drop::DropReason;
use crate::base::secret::Secret;
use crate::base::time::{Duration, Instant};
use crate::firewall::pkt_info::PktInfo;
use crate::turn::cpu::CpuId;

/// Pipes may hold one of so many of their CPU's buffers, and none of them more than they leave to others.
const SHARE: usize = 4;
/// A CPU that sleeps is not woken more often for packets that are due.
const WAKE: Duration = Duration::from_micros(50);

/// This CPU's part of all pipes. `T` says where a packet goes on when it has left.
pub struct Pipes<T> {
    config: Arc<Config>,
    own: Own<T>,
    /// When packets last left.
    left: Instant,
    /// Whether some are late.
    is_late: bool,
}

/// Where a rule sends a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// To the pipe of this number.
    Pipe(u16),
    /// To the queue of this number.
    Queue(u16),
}

/// A packet that does not wait here.
pub enum Refused<T> {
    /// It dies.
    Drop {
        /// The packet.
        pkt: Pkt,
        /// Drop reason.
        reason: DropReason,
        /// `noerror`: the local sender must not be informed.
        is_silent: bool,
    },
    /// The pipe is another CPU's, which takes it in the same way and gives it back when it has left.
    Elsewhere {
        /// Which one.
        cpu: CpuId,
        /// The packet.
        pkt: Pkt,
        /// Data kept with it.
        ticket: T,
    },
}

impl<T> Pipes<T> {
    /// Returns the configuration, shared with the other CPUs.
    pub(super) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config)
    }

    /// No pipes, on CPU `id` of `cpus`, which has so many buffers.
    #[must_use]
    pub fn new(id: CpuId, cpus: u16, buffers: usize) -> Self {
        let own = Own::new(id, cpus.max(1), (buffers / SHARE).max(1));
        Self { config: Arc::default(), own, left: Instant::START, is_late: false }
    }

    /// Learns the allowance of a receive ring that runs short of buffers ([`pkt::Pool::shortage`]): pipes that hold half of
    /// it take no more, so that the ring goes on receiving for all that meets no pipe.
    pub const fn shortage(&mut self, allowance: Option<usize>) {
        self.own.shortage(allowance);
    }

    /// Takes over another configuration. What waits stays, and goes on in the new shape: in its order, and even if
    /// there is more of it than now would be let in. What waits in pipes and queues that are gone dies.
    ///
    /// Drops  [`DropReason::PipeGone`].
    pub fn configure(&mut self, config: Arc<Config>, now: Instant) {
        self.own.configure(&self.config, &config, now);
        self.config = config;
        self.is_late = true;
    }

    /// Takes a packet, which begins with its network header, for a pipe or queue. `ticket` comes back with it.
    ///
    /// # Errors
    ///
    /// The packet: another CPU's, or lost ([`DropReason::PipeGone`], [`DropReason::PipeLoss`],
    /// [`DropReason::PipeFull`], [`DropReason::PipeEarly`], [`DropReason::PipeBuffers`]).
    pub fn enqueue(
        &mut self,
        to: To,
        info: &PktInfo,
        pkt: Pkt,
        ticket: T,
        now: Instant,
        secret: &mut Secret,
    ) -> Result<(), Refused<T>> {
        let Self { config, own, .. } = self;
        let Some(way) = QueuePath::find(config, to, info, &pkt) else {
            return Err(Refused::Drop { pkt, reason: DropReason::PipeGone, is_silent: false });
        };
        if let Some(cpu) = own.elsewhere(&way) {
            return Err(Refused::Elsewhere { cpu, pkt, ticket });
        }
        let (lane, queue) = own.place(&way, now);
        match own.admit(lane, queue, buffers(&pkt), now, secret) {
            Ok(()) => own.push(lane, queue, pkt, ticket, now, || way.flow(info)),
            Err((reason, is_silent)) => return Err(Refused::Drop { pkt, reason, is_silent }),
        }
        Ok(())
    }

    /// Whether chance wants a copy of a packet that goes to a pipe or queue, which its caller makes: it enters behind the
    /// packet, by itself.
    #[must_use]
    pub fn copies(&self, to: To, secret: &mut Secret) -> bool {
        let number = match to {
            To::Pipe(number) => number,
            To::Queue(number) => self.config.queue(number).map_or(0, |queue| queue.pipe),
        };
        self.config.pipe(number).is_some_and(|pipe| queue::happens(pipe.duplicate, secret))
    }

    /// Appends packets that have left to `out`, the soonest first. A packet takes one or two steps, of which this
    /// takes `budget` at the most; it answers how many.
    ///
    /// Drops  [`DropReason::PipeCodel`]: see [`Self::dropped`].
    pub fn due(
        &mut self,
        now: Instant,
        budget: usize,
        secret: &mut Secret,
        out: &mut Vec<(Pkt, T)>,
    ) -> usize {
        let before = out.len();
        let steps = self.own.run(now, budget, secret, out);
        self.is_late = self.own.next() <= now;
        if out.len() > before {
            self.left = now;
        }
        steps
    }

    /// When to call [`Self::due`] at the latest.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        let next = self.own.next();
        if self.is_late || next == Instant::NEVER { next } else { next.max(self.left + WAKE) }
    }

    /// Takes out packets dropped while queued. To be called, and counted as drops, after each [`Self::enqueue`], [`Self::due`] and
    /// [`Self::configure`]; nearly always there is nothing.
    pub fn dropped(&mut self) -> impl Iterator<Item = (Pkt, DropReason)> {
        self.own.store.dropped_list.pkts.drain(..)
    }

    /// Packets that were marked (ECN) since the last call.
    pub const fn marked(&mut self) -> u64 {
        core::mem::replace(&mut self.own.store.dropped_list.marked, 0)
    }

    /// Packets that were held back since the last call, so that others overtake them.
    pub const fn moved(&mut self) -> u64 {
        core::mem::replace(&mut self.own.store.dropped_list.moved, 0)
    }

    /// Buffers that wait here, counted by the bytes in them.
    #[must_use]
    pub const fn held(&self) -> usize {
        self.own.held()
    }

    /// All pipes that packets have been sent to, by number.
    #[must_use]
    pub fn show(&self) -> Vec<PipeState> {
        self.own.show()
    }

    /// Queues from place `from` on, in `places` places at the most, and where the next page begins; `None` at the end. The
    /// first page begins at 0. Those that come and go between two pages may be seen or not.
    #[must_use]
    pub fn page(&self, from: u32, places: u32) -> (Vec<Listed>, Option<u32>) {
        self.own.page(from, places)
    }

    /// Returns the totals of all pipes and queues, by number. It visits each flow.
    #[must_use]
    pub fn totals(&self) -> Vec<Total> {
        self.own.totals()
    }

    /// Takes all packets out, for the end.
    pub fn drain(&mut self) -> Vec<Pkt> {
        self.own.drain()
    }
}

#[cfg(test)]
mod tests;
