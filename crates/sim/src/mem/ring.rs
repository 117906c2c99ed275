//! One ring pair, and the card's memory behind it.

use std::collections::VecDeque;

use net::driver::DriverStats;
use pkt::{Flags, HEADROOM, Pkt, PktVec, Pool, RingId};

use super::{Wakeup, ring_bell};
use crate::frame::{Frame, Partial};

/// One ring pair. Buffers in it belong to the stack; frames in the card's memory are the card's own copies.
#[derive(Default)]
pub(super) struct Ring {
    pub(super) bell: Option<Wakeup>,
    pub(super) stats: DriverStats,
    /// Empty buffers for what arrives.
    posted: VecDeque<Pkt>,
    /// Filled ones.
    received: VecDeque<Pkt>,
    /// To be sent, once rung for.
    sending: VecDeque<Pkt>,
    /// Number of frames in `sending` for which the doorbell was rung.
    rung: usize,
    /// Sent, to be reaped.
    sent: VecDeque<Pkt>,
    /// The card's memory: arrived while no buffer was posted.
    arrived: VecDeque<(Frame, Option<u16>)>,
    /// The card's memory: taken from a ring that was closed before it was sent.
    leaving: VecDeque<Frame>,
}

impl Ring {
    /// Takes a frame from the cable; false if there is no room.
    pub(super) fn receive(&mut self, frame: Frame, hash: Option<u16>, memory: usize) -> bool {
        if self.arrived.len() >= memory && (!self.arrived.is_empty() || !self.has_room_for(&frame)) {
            self.stats.rx_dropped += 1;
            return false;
        }
        self.arrived.push_back((frame, hash));
        self.land();
        true
    }

    /// Writes frames from the card's memory to posted buffers, as far as there are any.
    fn land(&mut self) {
        while let Some((frame, hash)) = self.arrived.pop_front() {
            if !self.has_room_for(&frame) {
                return self.arrived.push_front((frame, hash));
            }
            if let Some(pkt) = self.write(&frame, hash) {
                self.stats.rx_frames += 1;
                self.received.push_back(pkt);
                self.interrupt();
            }
        }
    }

    fn has_room_for(&self, frame: &Frame) -> bool {
        self.posted.len() >= frame.bytes.len().div_ceil(pkt::DATA_LEN).max(1)
    }

    fn write(&mut self, frame: &Frame, hash: Option<u16>) -> Option<Pkt> {
        let mut head = self.posted.pop_front()?;
        let mut parts = frame.bytes.chunks(pkt::DATA_LEN);
        fill(&mut head, parts.next().unwrap_or_default());
        for part in parts {
            let mut next = self.posted.pop_front()?;
            fill(&mut next, part);
            head.chain(next);
        }
        describe(&mut head, frame, hash);
        Some(head)
    }

    pub(super) fn interrupt(&self) {
        ring_bell(self.bell.as_ref());
    }

    pub(super) fn has_to_transmit(&self) -> bool {
        self.rung > 0 || !self.leaving.is_empty()
    }

    /// Whether frames wait that the stack has not taken.
    pub(super) fn has_received(&self) -> bool {
        !self.received.is_empty()
    }

    /// Forgets a buffer: a planted bug.
    pub(super) fn lose_buffer(&mut self) {
        drop(self.posted.pop_back());
    }

    pub(super) fn transmit(&mut self) -> Option<Frame> {
        if let Some(frame) = self.leaving.pop_front() {
            return Some(frame);
        }
        self.rung = self.rung.checked_sub(1)?;
        let pkt = self.sending.pop_front()?;
        let frame = read(&pkt);
        self.sent.push_back(pkt);
        Some(frame)
    }

    /// Buffers of the stack in this ring.
    pub(super) fn buffers(&self) -> usize {
        let pkts = self.received.iter().chain(&self.sending).chain(&self.sent);
        self.posted.len() + pkts.map(Pkt::buffers).sum::<usize>()
    }

    /// Transmit descriptors in use.
    pub(super) fn in_flight(&self) -> usize {
        self.sending.len() + self.sent.len()
    }

    /// Whether the driver must look again soon: a ring without buffers raises no interrupt when one comes home.
    pub(super) fn is_busy(&self, buffers_max: usize) -> bool {
        self.in_flight() > 0 || self.posted.len() < buffers_max
    }

    pub(super) fn post(&mut self, pool: &mut Pool, account: RingId, ring_len: usize) {
        while self.posted.len() + self.received.len() < ring_len
            && let Some(pkt) = pool.take_for(account)
        {
            self.posted.push_back(pkt);
        }
        self.land();
    }

    pub(super) fn take_received(&mut self, into: &mut PktVec, max: usize) -> usize {
        let mut taken = 0;
        while taken < max && !into.is_full() {
            let Some(pkt) = self.received.pop_front() else { break };
            if let Err(pkt) = into.push(pkt) {
                self.received.push_front(pkt);
                break;
            }
            taken += 1;
        }
        taken
    }

    /// Bytes of the frames that have not been sent.
    pub(super) fn bytes_in_flight(&self) -> usize {
        self.sending.iter().map(Pkt::len).sum()
    }

    pub(super) fn send(&mut self, pkt: Pkt) {
        self.stats.tx_frames += 1;
        self.sending.push_back(pkt);
    }

    pub(super) fn reap(&mut self, pool: &mut Pool) {
        self.sent.drain(..).for_each(|pkt| pool.give(pkt));
    }

    pub(super) fn ring(&mut self) {
        if self.rung < self.sending.len() {
            self.stats.doorbells += 1;
            self.rung = self.sending.len();
        }
    }

    /// Gives all buffers back; what they held stays in the card's memory, so nothing is lost when a ring moves.
    pub(super) fn close(&mut self, pool: &mut Pool) {
        self.reap(pool);
        self.rung = 0;
        for pkt in self.sending.drain(..) {
            self.leaving.push_back(read(&pkt));
            pool.give(pkt);
        }
        // They are received when the next owner takes them.
        self.stats.rx_frames -= self.received.len() as u64;
        for pkt in self.received.drain(..).rev() {
            let hash = pkt.flags.has(Flags::HASH).then_some(pkt.hash);
            self.arrived.push_front((read(&pkt), hash));
            pool.give(pkt);
        }
        self.posted.drain(..).for_each(|pkt| pool.give(pkt));
    }
}

fn fill(pkt: &mut Pkt, bytes: &[u8]) {
    if pkt.place(HEADROOM, bytes.len()).is_ok() {
        pkt.head_mut().copy_from_slice(bytes);
    }
}

fn describe(pkt: &mut Pkt, frame: &Frame, hash: Option<u16>) {
    if let Some(hash) = hash {
        pkt.hash = hash;
        pkt.flags.set(Flags::HASH);
    }
    if let Some(Partial { start, offset }) = frame.partial {
        pkt.flags.set(Flags::CSUM_PARTIAL);
        (pkt.csum_start, pkt.csum_off) = (start, offset);
    }
    (pkt.gso, pkt.gso_size) = (frame.gso, frame.gso_size);
}

fn read(pkt: &Pkt) -> Frame {
    let partial = pkt.flags.has(Flags::CSUM_PARTIAL);
    Frame {
        bytes: pkt.fragments().collect::<Vec<_>>().concat(),
        partial: partial.then_some(Partial { start: pkt.csum_start, offset: pkt.csum_off }),
        gso: pkt.gso,
        gso_size: pkt.gso_size,
    }
}
