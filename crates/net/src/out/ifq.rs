//! Output queues, one per interface on each CPU.
//!
//! A packet that leaves is *staged*: put into an array that the transmit ring's driver takes as a whole, when 16
//! packets or 1500 bytes have come together and at the roll-up. Only what the ring does not take, because it is full or
//! holds as many bytes as it needs to stay busy, is *queued*; the discipline then chooses the next packet, and drops:
//! dropped:
//!
//! ```text
//!   output ─▶ stage ───────────────────────────────────────▶ ring
//!               └─▶ backlog: priority list                ─▶   │ pushed back: full, or at its byte limit
//!                            fifo, or fq_codel: new flows ─▶ ──┘
//!                                               old flows ─▶
//! ```
//!
//! A CPU without a ring of the interface stages too, and its ring is the way to the CPU that has one.

mod backlog;
mod bql;
pub(crate) mod codel;
pub(crate) mod ecn;
mod fifo;
pub(crate) mod fq_codel;
pub(crate) mod list;
mod retry;
mod stage;
mod dropped;

use pkt::{Flags, Pkt, PktVec};

use self::backlog::Limits;
use self::dropped::PendingDrops;
pub(crate) use self::dropped::drop_pending;
pub use self::fq_codel::FLOWS;
use self::stage::Around;
pub use self::stage::{DoorbellAt, Ifq, Via};
pub(crate) use self::stage::{Rest, Sent};
use crate::base::drop::DropReason;
use crate::base::secret::Secret;
use crate::base::time::Instant;
use crate::link::logical;
pub use crate::link::tables::{Discipline, QueueSpec};
use crate::link::tables::{IfIndex, Ifnet, Tables};
use crate::out::offload;
use crate::turn::cpu::Cpu;
use crate::turn::netisr::dispatch;
use crate::turn::next::Next;

/// A queue may keep one of so many of its CPU's buffers.
const SHARE: usize = 4;

/// This CPU's output queues, by interface index.
pub struct Ifqs {
    queues: Vec<Ifq>,
    /// Interfaces whose queue is not empty.
    waiting: Vec<IfIndex>,
    /// Packets dropped by queues, until the CPU counts them.
    victims: PendingDrops,
    secret: Secret,
    /// Packets that one queue may hold of the CPU's buffers.
    buffers_max: usize,
    /// Packets that a queue may hold while receive rings run short of buffers.
    short_max: usize,
    doorbell_at: DoorbellAt,
}

/// An output queue as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct State {
    /// Path of its packets to the device.
    pub via: Via,
    /// Queue discipline.
    pub discipline: Discipline,
    /// Packets that wait.
    pub packets: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Flows that wait, if they are told apart.
    pub flows: usize,
    /// Packets that may wait.
    pub packets_max: usize,
    /// Bytes that may wait.
    pub bytes_max: usize,
    /// Bytes that the ring may hold; `None` if it does not say what it holds.
    pub byte_limit: Option<usize>,
    /// Bytes that the ring held when it was last given something; 0 if it does not say.
    pub in_flight: usize,
}

/// Flags of packets that may need work which not every device can do. Super-packets and chains are odd, or made here.
pub(crate) const SPECIAL: Flags = Flags::CSUM_PARTIAL.with(Flags::ODD).with(Flags::LOCAL);

/// Stages a finished frame for the interface `pkt.outif`, after doing for it what the device cannot.
///
/// Reads  `pkt.outif`, `pkt.flags`, `pkt.gso`.
/// Next   the transmit ring, at the latest at the roll-up.
/// Drops  [`DropReason::InterfaceGone`], [`DropReason::InterfaceDown`].
#[inline]
pub fn output(cpu: &mut Cpu, pkt: Pkt) {
    let staged = if pkt.flags.any(SPECIAL) { Err(pkt) } else { cpu.ifqs.stage(pkt) };
    if let Err(pkt) = staged {
        output_special(cpu, pkt);
    }
}

/// [`output`] for a frame whose device does all that it needs, or that needs nothing.
#[inline]
pub(crate) fn output_as_is(cpu: &mut Cpu, pkt: Pkt) {
    if let Err(pkt) = cpu.ifqs.stage(pkt) {
        output_special(cpu, pkt);
    }
}

/// [`output`] for packets that all leave by `outif`, `bytes` in all, and of which none is [`SPECIAL`].
#[inline(never)]
pub(crate) fn output_all(cpu: &mut Cpu, pkts: &mut PktVec, outif: IfIndex, bytes: usize) {
    if !cpu.ifqs.stage_all(outif, pkts, bytes) {
        output_each(cpu, pkts, outif);
    }
}

/// [`output_all`] where the interface is logical, is not up, or its stage is full.
#[cold]
#[inline(never)]
fn output_each(cpu: &mut Cpu, pkts: &mut PktVec, outif: IfIndex) {
    if let Some((device, bytes)) = logical::encapsulate_all(cpu, pkts, outif)
        && cpu.ifqs.stage_all(device, pkts, bytes)
    {
        return;
    }
    pkts.drain().for_each(|pkt| output(cpu, pkt));
}

/// Handles the uncommon cases: offload work, no ring, a full stage.
#[cold]
#[inline(never)]
fn output_special(cpu: &mut Cpu, pkt: Pkt) {
    let caps = match cpu.tables.ifnet(pkt.outif) {
        None => return cpu.drop_pkt(pkt, DropReason::InterfaceGone),
        Some(ifnet) if !ifnet.up => return cpu.drop_pkt(pkt, DropReason::InterfaceDown),
        Some(ifnet) if ifnet.kind.parent().is_some() => return output_logical(cpu, pkt),
        Some(ifnet) => ifnet.caps,
    };
    if offload::is_needed(&pkt, caps) {
        return offload::output(cpu, pkt, caps);
    }
    enqueue(cpu, pkt);
}

/// Puts the header of a logical interface into a frame, which goes on by the device below.
///
/// Drops  [`DropReason::NoBuffer`].
fn output_logical(cpu: &mut Cpu, mut pkt: Pkt) {
    match logical::encapsulate(cpu, &mut pkt) {
        Ok(()) => output(cpu, pkt),
        Err(_) => cpu.drop_pkt(pkt, DropReason::NoBuffer),
    }
}

/// Stages a frame that its device can take as it is. A stage that is full is queued, and with it what comes later. What
/// leaves by a tunnel or VXLAN gets its outer headers; a bridge chooses the port.
///
/// Next   [`Next::Encapsulate`].
/// Drops  [`DropReason::IfqFull`], [`DropReason::InterfaceGone`].
pub fn enqueue(cpu: &mut Cpu, pkt: Pkt) {
    let index = pkt.outif;
    let Err(pkt) = cpu.ifqs.stage(pkt) else { return };
    if cpu.tables.ifnet(index).is_some_and(|ifnet| ifnet.up && ifnet.kind.leaves_by_others()) {
        return dispatch(cpu, pkt, Next::Encapsulate);
    }
    cpu.ifqs.unstage(index, cpu.now);
    if let Err(pkt) = cpu.ifqs.stage(pkt) {
        cpu.drop_pkt(pkt, DropReason::InterfaceGone);
    }
    drop_pending(cpu);
}

impl Ifqs {
    /// Queues of a CPU with so many buffers. `key` keys what tells flows apart.
    #[must_use]
    pub fn new(key: u128, buffers: usize) -> Self {
        Self {
            queues: Vec::new(),
            waiting: Vec::new(),
            victims: PendingDrops::default(),
            secret: Secret::new(key),
            buffers_max: (buffers / SHARE).max(1),
            short_max: usize::MAX,
            doorbell_at: DoorbellAt::default(),
        }
    }

    /// Queues of the same interfaces without packets.
    pub(crate) fn empty_copy(&self, tables: &Tables, now: Instant) -> Self {
        let key = u128::from(core::hash::BuildHasher::hash_one(&self.secret, "copy"));
        let mut copy = Self::new(key, self.buffers_max * SHARE);
        copy.tables_changed(tables, now);
        for (index, queue) in (0..).zip(&self.queues) {
            copy.connect(index, queue.via());
        }
        copy
    }

    /// Interfaces that have packets here, and how many.
    pub(crate) fn waiting(&self) -> Vec<(IfIndex, usize)> {
        let packets = |index: &IfIndex| Some((*index, self.queues.get(usize::from(*index))?.state().packets));
        self.waiting.iter().filter_map(packets).collect()
    }

    /// Learns which interfaces there are. Those without rings have no queue: their frames are queued at the device below. What
    /// waits for one that is down now, or gone, stays to be dropped.
    pub(crate) fn tables_changed(&mut self, tables: &Tables, now: Instant) {
        self.queues.resize_with(self.queues.len().max(tables.ifs.len()), Ifq::default);
        let Self { queues, victims, secret, buffers_max, short_max, .. } = self;
        let mut around = Around { now, secret, victims, short_max: *short_max };
        for (at, queue) in queues.iter_mut().enumerate() {
            let ifnet = tables.ifs.get(at).and_then(Option::as_ref);
            match ifnet.filter(|ifnet| ifnet.up && ifnet.kind.is_device()) {
                Some(ifnet) => queue.open(limits(ifnet, *buffers_max), &mut around),
                None => queue.close(),
            }
        }
    }

    /// Says how the packets of interface `index` reach its device.
    pub fn connect(&mut self, index: IfIndex, via: Via) {
        let at = usize::from(index);
        self.queues.resize_with(self.queues.len().max(at + 1), Ifq::default);
        self.queues[at].connect(via);
    }

    /// Stages a packet; gives it back if its interface is not open, or the stage is full.
    #[inline]
    fn stage(&mut self, pkt: Pkt) -> Result<(), Pkt> {
        let index = pkt.outif;
        let Some(queue) = self.queues.get_mut(usize::from(index)) else { return Err(pkt) };
        queue.stage(pkt)?;
        if !core::mem::replace(&mut queue.is_waiting, true) {
            self.waiting.push(index);
        }
        Ok(())
    }

    /// Stages packets of one interface; none if it is not open, or there is no room for all.
    #[inline]
    fn stage_all(&mut self, index: IfIndex, pkts: &mut PktVec, bytes: usize) -> bool {
        let Some(queue) = self.queues.get_mut(usize::from(index)) else { return false };
        let is_staged = queue.stage_all(pkts, bytes);
        if is_staged && !core::mem::replace(&mut queue.is_waiting, true) {
            self.waiting.push(index);
        }
        is_staged
    }

    /// Moves all that is staged for an interface to its queue.
    fn unstage(&mut self, index: IfIndex, now: Instant) {
        let Self { queues, victims, secret, short_max, .. } = self;
        if let Some(queue) = queues.get_mut(usize::from(index)) {
            queue.unstage(&mut Around { now, secret, victims, short_max: *short_max });
        }
    }

    /// The interfaces that have something to send; they must be put back with [`Ifqs::still_waits`] if they still do.
    pub(crate) fn take_waiting(&mut self) -> Vec<IfIndex> {
        core::mem::take(&mut self.waiting)
    }

    /// Ends a round of sending: reuses the list that [`Ifqs::take_waiting`] gave.
    pub(crate) fn still_waits(&mut self, mut list: Vec<IfIndex>) {
        list.retain(|index| {
            let Some(queue) = self.queues.get_mut(usize::from(*index)) else { return false };
            queue.is_waiting = !queue.is_empty();
            queue.is_waiting
        });
        list.append(&mut self.waiting);
        self.waiting = list;
    }

    /// Returns the path of packets of interface `index` to its device.
    pub(crate) fn via(&self, index: IfIndex) -> Via {
        self.queues.get(usize::from(index)).map_or(Via::Nothing, Ifq::via)
    }

    /// Whether interface `index` is there and up.
    pub(crate) fn is_open(&self, index: IfIndex) -> bool {
        self.queues.get(usize::from(index)).is_some_and(Ifq::is_open)
    }

    /// Whether the queue of some interface may be crowded.
    #[inline]
    pub(crate) fn is_pressed(&self) -> bool {
        self.waiting.iter().any(|index| self.queues.get(usize::from(*index)).is_some_and(Ifq::is_pressed))
    }

    /// Whether so many packets wait for the ring of interface `index` that what this host has to send had better wait too.
    pub(crate) fn is_crowded(&self, index: IfIndex) -> bool {
        self.queues.get(usize::from(index)).is_some_and(Ifq::is_crowded)
    }

    /// Whether the ring of interface `index`, which had pushed back, has taken packets since this was asked last.
    pub(crate) fn took(&mut self, index: IfIndex) -> bool {
        self.queues.get_mut(usize::from(index)).is_some_and(Ifq::took)
    }

    /// Whether there is an interface to send by: one that waits, or, before the roll-up, one for which it is worth it.
    #[inline]
    pub(crate) fn is_worth_sending(&self, all: bool) -> bool {
        self.waiting.iter().any(|index| all || self.is_due(*index))
    }

    /// Whether it is worth to ring before the roll-up.
    pub(crate) fn is_due(&self, index: IfIndex) -> bool {
        self.queues.get(usize::from(index)).is_some_and(|queue| queue.is_due(self.doorbell_at))
    }

    /// Sets what makes it worth ringing the doorbell before the roll-up.
    pub(crate) const fn ring_at(&mut self, at: DoorbellAt) {
        self.doorbell_at = at;
    }

    /// Offers packets to `take`, which takes from the front of a vector what it has room for, until it is full or
    /// none is left. `in_flight` is what the ring holds, if it says so.
    pub(crate) fn send(
        &mut self,
        index: IfIndex,
        now: Instant,
        in_flight: Option<usize>,
        take: impl FnMut(&mut PktVec),
    ) -> Sent {
        let Self { queues, victims, secret, short_max, .. } = self;
        let Some(queue) = queues.get_mut(usize::from(index)) else { return Sent::default() };
        queue.send(in_flight, &mut Around { now, secret, victims, short_max: *short_max }, take)
    }

    /// Learns the allowance of a receive ring that runs short of buffers ([`pkt::Pool::shortage`]): no standing queue
    /// that holds half of it grows any more. What goes elsewhere must still be received.
    pub(crate) fn shortage(&mut self, allowance: Option<usize>) {
        self.short_max = allowance.map_or(usize::MAX, |allowance| (allowance / 2).max(1));
    }

    /// When to turn again at the latest because packets wait for a ring that pushed back.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        let waiting = self.waiting.iter().filter_map(|index| self.queues.get(usize::from(*index)));
        waiting.map(Ifq::retry_at).min().unwrap_or(Instant::NEVER)
    }

    /// Whether no packet waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The queue of interface `index` as it is now; `None` if this CPU has none.
    #[must_use]
    pub fn state(&self, index: IfIndex) -> Option<State> {
        self.queues.get(usize::from(index)).filter(|queue| queue.via() != Via::Nothing).map(Ifq::state)
    }

    /// The queues of this CPU as they are now, by interface.
    pub fn states(&self) -> impl Iterator<Item = (IfIndex, State)> {
        (0..)
            .zip(&self.queues)
            .filter(|(_, queue)| queue.via() != Via::Nothing)
            .map(|(at, queue)| (at, queue.state()))
    }

    /// Takes all packets of interface `index` out, in the order in which they would have left.
    pub(crate) fn empty(&mut self, index: IfIndex) -> Vec<Pkt> {
        self.queues.get_mut(usize::from(index)).map_or_else(Vec::new, Ifq::empty)
    }

    /// Takes all packets out, for the end.
    pub(crate) fn drain(&mut self) -> Vec<Pkt> {
        self.waiting.clear();
        self.queues.iter_mut().flat_map(Ifq::empty).collect()
    }
}

fn limits(ifnet: &Ifnet, buffers_max: usize) -> Limits {
    let frame_max = usize::try_from(ifnet.mtu).unwrap_or(usize::MAX).saturating_add(wire::ether::HEADER_LEN);
    Limits { spec: ifnet.queue, frame_max, buffers_max }
}

#[cfg(test)]
mod tests;
