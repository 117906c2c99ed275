//! One interface's output queue on one CPU: the stage, and what stands before it when the ring pushed back.

use pkt::{Pkt, PktVec};

use super::backlog::{Backlog, Limits};
use super::bql::ByteLimit;
use super::retry::Retry;
use super::{PendingDrops, State};
use crate::base::secret::Secret;
use crate::base::time::Instant;
use crate::turn::cpu::CpuId;

/// Packets that wait for a ring that pushed back and make its queue crowded: enough to keep the device busy until the next turn.
const CROWD: usize = 64;
/// Staged packets that make a queue crowded: what one connection sends at once still finds room.
const STAGED_MAX: usize = pkt::VEC_MAX / 2;
/// Queued packets that are offered to the ring at once.
const CHOSEN_MAX: usize = 64;

/// Staged packets or bytes that make it worth ringing the doorbell before the roll-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorbellAt {
    /// Packets.
    pub packets: usize,
    /// Bytes: one full-sized frame by default.
    pub bytes: usize,
}

impl Default for DoorbellAt {
    #[inline]
    fn default() -> Self {
        Self { packets: 16, bytes: 1500 }
    }
}

/// One interface's output queue on one CPU.
#[derive(Default)]
pub struct Ifq {
    /// Whether the interface is there and up: what must be known of it for each packet.
    is_open: bool,
    pub(super) is_waiting: bool,
    via: Via,
    stage: PktVec,
    staged_bytes: usize,
    /// Staged packets that make the queue crowded.
    staged_max: usize,
    /// Earlier than all that is staged.
    backlog: Backlog,
    /// Left the backlog, and found the ring full. Earlier than all else.
    chosen: PktVec,
    limit: ByteLimit,
    /// Whether the ring says what it holds.
    is_limited: bool,
    retry: Retry,
    /// Whether a ring that pushed back has taken packets since.
    has_taken: bool,
}

/// The path of a queue's packets to the device.
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

/// The packets that a ring took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Packets.
    pub(crate) packets: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// The rest.
    pub(crate) rest: Rest,
}

/// The packets that a ring did not take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rest {
    /// It took all.
    #[default]
    None,
    /// Waits.
    Queued,
    /// Waits, and has been waiting in vain for long: it is time to look whether the device can send at all.
    Stuck,
}

/// The context of sending.
pub(super) struct Around<'a> {
    pub(super) now: Instant,
    pub(super) secret: &'a Secret,
    pub(super) victims: &'a mut PendingDrops,
    /// A queue of so many packets must not grow.
    pub(super) short_max: usize,
}

impl Ifq {
    /// Lets packets in, under these limits.
    pub(super) fn open(&mut self, limits: Limits, around: &mut Around<'_>) {
        self.is_open = true;
        self.backlog.configure(limits, around);
        self.staged_max = STAGED_MAX.min(self.backlog.packets_max() / 2).max(1);
    }

    /// Lets no packet in any more.
    pub(super) const fn close(&mut self) {
        self.is_open = false;
    }

    /// Whether packets are let in.
    pub(super) const fn is_open(&self) -> bool {
        self.is_open
    }

    /// Says how packets reach the device: a new ring has yet to show what it needs.
    pub(super) fn connect(&mut self, via: Via) {
        if self.via != via {
            (self.via, self.limit, self.retry) = (via, ByteLimit::default(), Retry::default());
        }
    }

    pub(super) const fn via(&self) -> Via {
        self.via
    }

    /// Adds a packet to the stage; gives it back if the interface is not open, or the stage is full.
    #[inline]
    pub(super) fn stage(&mut self, pkt: Pkt) -> Result<(), Pkt> {
        if !self.is_open {
            return Err(pkt);
        }
        let len = pkt.len();
        self.stage.push(pkt)?;
        self.staged_bytes += len;
        Ok(())
    }

    /// Adds packets, `bytes` in all, to the stage; none if the interface is not open, or there is no room for all.
    #[inline]
    pub(super) fn stage_all(&mut self, pkts: &mut PktVec, bytes: usize) -> bool {
        let is_staged = self.is_open && pkts.append_all(&mut self.stage);
        self.staged_bytes += if is_staged { bytes } else { 0 };
        is_staged
    }

    /// Whether so much is staged that it is worth to ring before the roll-up.
    pub(super) fn is_due(&self, at: DoorbellAt) -> bool {
        self.stage.len() >= at.packets || self.staged_bytes >= at.bytes
    }

    /// Whether no packet waits.
    pub(super) fn is_empty(&self) -> bool {
        self.stage.is_empty() && !self.is_queued()
    }

    /// Whether packets stand before the stage.
    fn is_queued(&self) -> bool {
        !self.backlog.is_empty() || !self.chosen.is_empty()
    }

    /// Whether packets wait for a ring that pushed back, or the stage may soon be full.
    #[inline]
    pub(super) fn is_pressed(&self) -> bool {
        self.is_queued() || self.stage.len() >= self.staged_max
    }

    /// Whether so many packets wait that what is not made yet had better wait too.
    pub(super) fn is_crowded(&self) -> bool {
        let waiting = self.backlog.len() + self.chosen.len() + self.stage.len();
        let most = CROWD.min(self.staged_max);
        self.is_open && (self.stage.len() >= self.staged_max || self.is_queued() && waiting >= most)
    }

    /// Whether the ring has taken packets since this was asked last.
    pub(super) const fn took(&mut self) -> bool {
        core::mem::replace(&mut self.has_taken, false)
    }

    /// When to try again.
    pub(super) const fn retry_at(&self) -> Instant {
        self.retry.at()
    }

    /// Moves what is staged behind what waits already.
    #[cold]
    pub(super) fn unstage(&mut self, around: &mut Around<'_>) {
        self.staged_bytes = 0;
        for pkt in self.stage.drain() {
            self.backlog.push(pkt, around);
        }
    }

    /// Offers packets to `take`, which takes from the front of a vector what it has room for, until it is full, its
    /// bytes in flight are at their limit, or no packet is left.
    pub(super) fn send(
        &mut self,
        in_flight: Option<usize>,
        around: &mut Around<'_>,
        mut take: impl FnMut(&mut PktVec),
    ) -> Sent {
        self.is_limited = in_flight.is_some();
        let moved = in_flight.is_some_and(|bytes| self.limit.look(around.now, bytes));
        let room = if in_flight.is_some() { self.limit.room() } else { Some(usize::MAX) };
        if self.is_queued() || room.is_none_or(|room| self.staged_bytes > room) {
            return self.send_queued(room, moved, around, take);
        }
        let (packets, bytes) = (self.stage.len(), self.staged_bytes);
        take(&mut self.stage);
        let left = totals(&self.stage);
        let sent = Sent::of(packets - left.0, bytes - left.1);
        self.staged_bytes = 0;
        if in_flight.is_some() {
            self.limit.give(bytes - left.1, 0);
        }
        if left.0 == 0 {
            return sent;
        }
        self.unstage(around);
        self.pushed_back(sent, moved, around.now)
    }

    /// Sends when packets wait before the stage or exceed it: the discipline chooses.
    #[cold]
    fn send_queued(
        &mut self,
        room: Option<usize>,
        moved: bool,
        around: &mut Around<'_>,
        mut take: impl FnMut(&mut PktVec),
    ) -> Sent {
        self.unstage(around);
        let (mut room, mut sent) = (room, Sent::default());
        while let Some(left) = room {
            room = self.choose(left, around);
            if self.chosen.is_empty() {
                return sent;
            }
            let (offered, last) = (totals(&self.chosen), self.chosen.iter().last().map_or(0, Pkt::len));
            take(&mut self.chosen);
            let left = totals(&self.chosen);
            sent.packets += (offered.0 - left.0) as u64;
            sent.bytes += (offered.1 - left.1) as u64;
            self.limit.give(offered.1 - left.1, last);
            if left.0 > 0 {
                break;
            }
        }
        self.has_taken |= sent.packets > 0;
        if self.is_queued() { self.pushed_back(sent, moved, around.now) } else { sent }
    }

    /// Chooses the next packets; the last one may go beyond `room`. Answers the room behind it.
    fn choose(&mut self, room: usize, around: &mut Around<'_>) -> Option<usize> {
        let mut room = room.checked_sub(totals(&self.chosen).1);
        while let Some(left) = room
            && self.chosen.len() < CHOSEN_MAX
            && let Some(pkt) = self.backlog.pop(around.now, around.victims)
        {
            room = left.checked_sub(pkt.len());
            if let Err(pkt) = self.chosen.push(pkt) {
                self.backlog.push(pkt, around);
            }
        }
        room
    }

    fn pushed_back(&mut self, sent: Sent, moved: bool, now: Instant) -> Sent {
        let is_stuck = self.retry.pushed_back(now, moved || sent.packets > 0);
        Sent { rest: if is_stuck { Rest::Stuck } else { Rest::Queued }, ..sent }
    }

    /// Takes all packets out, in the order in which they would have left.
    pub(super) fn empty(&mut self) -> Vec<Pkt> {
        self.staged_bytes = 0;
        let Self { chosen, backlog, stage, .. } = self;
        chosen.drain().chain(core::iter::from_fn(|| backlog.take_any())).chain(stage.drain()).collect()
    }

    /// Returns the state for users.
    pub(super) fn state(&self) -> State {
        State {
            via: self.via,
            discipline: self.backlog.discipline(),
            packets: self.backlog.len() + self.chosen.len() + self.stage.len(),
            bytes: self.backlog.bytes() + totals(&self.chosen).1 + self.staged_bytes,
            flows: self.backlog.flows(),
            packets_max: self.backlog.packets_max(),
            bytes_max: self.backlog.bytes_max(),
            byte_limit: self.is_limited.then(|| self.limit.limit()),
            in_flight: if self.is_limited { self.limit.in_flight() } else { 0 },
        }
    }
}

impl Sent {
    const fn of(packets: usize, bytes: usize) -> Self {
        Self { packets: packets as u64, bytes: bytes as u64, rest: Rest::None }
    }
}

/// Packets and bytes of a vector.
fn totals(pkts: &PktVec) -> (usize, usize) {
    (pkts.len(), pkts.iter().map(Pkt::len).sum())
}
