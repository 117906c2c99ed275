//! Output queues: packets wait here, per interface, for their transmit ring.

use std::collections::VecDeque;

use pkt::{Pkt, PktVec};

use crate::cpu::{Cpu, CpuId};
use crate::drop::DropReason;
use crate::offload;
use crate::tables::IfIndex;

/// Packets that an output queue holds.
const LEN_MAX: usize = 1024;
/// Packets that make it worth ringing the doorbell before the roll-up.
const RING_AT_PACKETS: usize = 16;
/// Bytes that make it worth ringing the doorbell before the roll-up: one full-sized frame.
const RING_AT_BYTES: usize = 1500;

/// This CPU's output queues, by interface index.
#[derive(Default)]
pub struct Ifqs {
    queues: Vec<Ifq>,
    /// Interfaces whose queue is not empty.
    waiting: Vec<IfIndex>,
}

/// One interface's output queue on one CPU.
#[derive(Default)]
pub struct Ifq {
    pkts: VecDeque<Pkt>,
    bytes: usize,
    via: Via,
    is_waiting: bool,
}

/// How a queue's packets reach the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Via {
    /// Not at all.
    #[default]
    Nothing,
    /// Through a ring of this CPU: its position among them.
    Ring(usize),
    /// Through the CPU that owns the ring.
    Peer(CpuId),
}

/// Queues a finished frame for the interface `pkt.outif`, after doing for it what the device cannot.
///
/// Reads  `pkt.outif`, `pkt.flags`, `pkt.gso`.
/// Next   the transmit ring, at the latest at the roll-up.
/// Drops  [`DropReason::InterfaceGone`], [`DropReason::InterfaceDown`], [`DropReason::IfqFull`].
pub fn output(cpu: &mut Cpu, pkt: Pkt) {
    let (up, caps) = match cpu.tables.ifnet(pkt.outif) {
        Some(ifnet) => (ifnet.up, ifnet.caps),
        None => return cpu.bury(pkt, DropReason::InterfaceGone),
    };
    if !up {
        return cpu.bury(pkt, DropReason::InterfaceDown);
    }
    if offload::is_needed(&pkt, caps) {
        return offload::output(cpu, pkt, caps);
    }
    enqueue(cpu, pkt);
}

/// Queues a frame that its device can take as it is.
///
/// Drops  [`DropReason::IfqFull`].
pub fn enqueue(cpu: &mut Cpu, pkt: Pkt) {
    if let Err(pkt) = cpu.ifqs.push(pkt) {
        cpu.bury(pkt, DropReason::IfqFull);
    }
}

impl Ifq {
    fn unshift(&mut self, pkt: Pkt) {
        self.bytes += pkt.len();
        self.pkts.push_front(pkt);
    }
}

impl Ifqs {
    /// Says how the packets of interface `index` reach its device.
    pub fn connect(&mut self, index: IfIndex, via: Via) {
        self.queue(index).via = via;
    }

    fn push(&mut self, pkt: Pkt) -> Result<(), Pkt> {
        let index = pkt.outif;
        let queue = self.queue(index);
        if queue.pkts.len() >= LEN_MAX {
            return Err(pkt);
        }
        queue.bytes += pkt.len();
        queue.pkts.push_back(pkt);
        if !core::mem::replace(&mut queue.is_waiting, true) {
            self.waiting.push(index);
        }
        Ok(())
    }

    fn queue(&mut self, index: IfIndex) -> &mut Ifq {
        let at = usize::from(index);
        if at >= self.queues.len() {
            self.queues.resize_with(at + 1, Ifq::default);
        }
        &mut self.queues[at]
    }

    /// The interfaces that have something to send; they must be put back with [`Ifqs::still_waits`] if they still do.
    pub(crate) fn take_waiting(&mut self) -> Vec<IfIndex> {
        core::mem::take(&mut self.waiting)
    }

    /// Ends a round of sending: reuses the list that [`Ifqs::take_waiting`] gave.
    pub(crate) fn still_waits(&mut self, mut list: Vec<IfIndex>) {
        list.retain(|index| {
            let queue = self.queue(*index);
            queue.is_waiting = !queue.pkts.is_empty();
            queue.is_waiting
        });
        list.append(&mut self.waiting);
        self.waiting = list;
    }

    /// How the packets of interface `index` reach its device.
    pub(crate) fn via(&mut self, index: IfIndex) -> Via {
        self.queue(index).via
    }

    /// Whether it is worth to ring before the roll-up.
    pub(crate) fn is_due(&mut self, index: IfIndex) -> bool {
        let queue = self.queue(index);
        queue.pkts.len() >= RING_AT_PACKETS || queue.bytes >= RING_AT_BYTES
    }

    /// Moves packets from the front of the queue to the end of `out`, as many as it takes.
    pub(crate) fn pull(&mut self, index: IfIndex, out: &mut PktVec) {
        let queue = self.queue(index);
        while !out.is_full()
            && let Some(pkt) = queue.pkts.pop_front()
        {
            queue.bytes -= pkt.len();
            if let Err(pkt) = out.push(pkt) {
                return queue.unshift(pkt);
            }
        }
    }

    /// Puts back what a full ring left, in front of the queue.
    pub(crate) fn unpull(&mut self, index: IfIndex, left: &mut PktVec) {
        let queue = self.queue(index);
        while let Some(pkt) = left.pop() {
            queue.unshift(pkt);
        }
    }

    /// Whether any packet waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Packets that wait, on all interfaces.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queues.iter().map(|queue| queue.pkts.len()).sum()
    }

    /// Takes all packets out, for the end.
    pub(crate) fn drain(&mut self) -> Vec<Pkt> {
        self.waiting.clear();
        self.queues
            .iter_mut()
            .flat_map(|queue| {
                (queue.is_waiting, queue.bytes) = (false, 0);
                queue.pkts.drain(..)
            })
            .collect()
    }
}
