//! Packets dropped by a queue, handed to the CPU, which counts them.

use pkt::Pkt;

use super::ecn;
use super::fq_codel::DropSink;
use super::list::Queued;
use crate::base::count::{Count, IfCount};
use crate::base::drop::DropReason;
use crate::base::ids::IfIndex;
use crate::turn::cpu::Cpu;

/// Packets dropped by a queue and not yet counted, and how many others were marked.
#[derive(Default)]
pub(crate) struct PendingDrops {
    pkts: Vec<(Pkt, DropReason)>,
    marked: Vec<IfIndex>,
}

impl PendingDrops {
    pub(super) fn push(&mut self, pkt: Pkt, reason: DropReason) {
        self.pkts.push((pkt, reason));
    }
}

impl DropSink for PendingDrops {
    fn late(&mut self, queued: Queued) {
        self.push(queued.pkt, DropReason::IfqCodel);
    }

    fn shed(&mut self, queued: Queued) {
        self.push(queued.pkt, DropReason::IfqFull);
    }

    /// Marks a frame, and counts it.
    fn mark(&mut self, pkt: &mut Pkt) -> bool {
        let is_marked = ecn::mark_frame(pkt);
        if is_marked {
            self.marked.push(pkt.outif);
        }
        is_marked
    }
}

/// Drops packets that queues gave up, and counts marks.
#[inline]
pub(crate) fn drop_pending(cpu: &mut Cpu) {
    let PendingDrops { pkts, marked } = &cpu.ifqs.victims;
    if !pkts.is_empty() || !marked.is_empty() {
        drop_pkt(cpu);
    }
}

#[cold]
fn drop_pkt(cpu: &mut Cpu) {
    while let Some((pkt, reason)) = cpu.ifqs.victims.pkts.pop() {
        cpu.counters.add_if(pkt.outif, IfCount::TxDrops, 1);
        cpu.drop_pkt(pkt, reason);
    }
    while let Some(ifindex) = cpu.ifqs.victims.marked.pop() {
        cpu.counters.add_if(ifindex, IfCount::TxMarks, 1);
        cpu.count(Count::EcnMarked);
    }
}

#[cfg(test)]
impl PendingDrops {
    /// Takes the packets out, for a test.
    pub(super) fn take(&mut self) -> Vec<(Pkt, DropReason)> {
        self.pkts.drain(..).collect()
    }

    /// Returns the number of marked packets.
    pub(super) const fn marked(&self) -> usize {
        self.marked.len()
    }
}
