//! One thread, one ring: sends frames that are due, measures those received, answers requests.

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;

use dev::sys::poll::{PollFd, PollFlags, wait};
use net::driver::{Driver, DriverStats, Link};
use pkt::{Pkt, PktVec, Pool, VEC_MAX};

use super::flows::Flow;
use super::frame::{Headers, Template};
use super::measure::{Expect, Measure};
use super::payload::{LEARNING, Seen, look};
use super::port::WorkerRing;
use super::rate::Pacer;
use super::sizes::{FCS_LEN, SizeOrder};
use super::station::{Frame, Station};
use super::timeline::Timeline;

/// Less than this is waited for by spinning.
const SPIN_NS: u64 = 100_000;
/// No sleep is longer: what others say is seen that late.
const SLEEP_MAX_NS: u64 = 5_000_000;
/// Interval at which an idle device is checked.
const LINK_EVERY_NS: u64 = 50_000_000;
/// Time after the end in which frames due before may still be sent.
const OVERTIME_NS: u64 = 100_000_000;
/// Flows of which a learning frame is sent, by each sender.
const LEARNING_MAX: usize = 256;

/// The clock of stamps: CLOCK_MONOTONIC, nanoseconds.
pub(super) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Orders to all workers. Written by the conductor alone.
#[derive(Default)]
pub(super) struct Orders {
    /// [`LISTEN`], a round of learning, [`SEND`] or [`END`].
    phase: AtomicU8,
    begun_ns: AtomicU64,
}

const LISTEN: u8 = 0;
const LEARN: u8 = 1;
const SEND: u8 = 254;
const END: u8 = 255;

impl Orders {
    pub(super) fn learn(&self, round: u8) {
        self.phase.store(LEARN + round, Ordering::Release);
    }

    /// The test begins at `now`.
    pub(super) fn send(&self, now_ns: u64) {
        self.begun_ns.store(now_ns, Ordering::Relaxed);
        self.phase.store(SEND, Ordering::Release);
    }

    pub(super) fn listen(&self) {
        self.phase.store(LISTEN, Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.phase.store(END, Ordering::Release);
    }
}

/// A worker's live counters. Written by it alone.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Board {
    pub(super) sent: AtomicU64,
    pub(super) sent_bytes: AtomicU64,
    /// Different frames of the test that arrived.
    pub(super) arrived: AtomicU64,
    /// All frames that arrived.
    pub(super) frames: AtomicU64,
    pub(super) learned: AtomicU64,
    pub(super) learning_sent: AtomicU64,
    /// Bit 0: all has been sent; bit 1: the device delivers no more; bit 2: the device is gone.
    pub(super) state: AtomicU8,
}

pub(super) const DONE: u8 = 1;
pub(super) const EXHAUSTED: u8 = 2;
pub(super) const GONE: u8 = 4;

/// A sender's part of the test.
pub(super) struct Source {
    /// The templates of frames: flow `n` has the one at `n` modulo their number.
    pub(super) targets: Vec<Target>,
    pub(super) flows: Vec<Flow>,
    /// The number of its first flow, and the step to the next.
    pub(super) first: u32,
    pub(super) stride: u32,
    pub(super) at: usize,
    pub(super) sizes: SizeOrder,
    pub(super) pacer: Pacer,
    pub(super) burst: u32,
    /// Frames that are still to be made, if they are counted.
    pub(super) left: Option<u64>,
    /// Duration of sending, from the beginning.
    pub(super) time_ns: u64,
    /// Made, and not yet taken by the device.
    pub(super) out: PktVec,
    pub(super) learnt_in: u8,
    pub(super) is_done: bool,
    pub(super) phases: Phases,
    /// Frames by when they were sent, if that is recorded.
    pub(super) timeline: Option<Timeline>,
}

/// The templates of frames to one receiver.
pub(super) struct Target {
    pub(super) template: Template,
    /// The template with the session of learning.
    pub(super) learning: Template,
}

impl Target {
    pub(super) fn new(headers: &Headers, session: u16) -> Self {
        Self { template: Template::new(headers, session), learning: Template::new(headers, LEARNING) }
    }
}

/// A change of the rate in the middle of a test.
#[derive(Default)]
pub(super) struct Phases {
    pub(super) next: Option<Phase>,
    /// The beginning of the current one, from that of the test.
    origin_ns: u64,
    /// For how long the rate was not kept in those before.
    behind_ns: u64,
}

impl Phases {
    pub(super) fn then(next: Option<Phase>) -> Self {
        Self { next, ..Self::default() }
    }
}

/// The rest of a test, from `at_ns` on for `time_ns`.
pub(super) struct Phase {
    pub(super) at_ns: u64,
    pub(super) pacer: Pacer,
    pub(super) time_ns: u64,
}

pub(super) struct Worker {
    pub(super) driver: Box<dyn Driver>,
    pub(super) waiter: dev::Waiter,
    pub(super) pool: Pool,
    pub(super) port: usize,
    pub(super) is_file: bool,
    pub(super) station: Station,
    pub(super) source: Option<Source>,
    pub(super) measure: Measure,
    pub(super) board: Arc<Board>,
    received: PktVec,
    answers: PktVec,
    asked_link_ns: u64,
    /// Counters of the device when the test began.
    before: DriverStats,
}

/// A worker's result.
pub(super) struct Done {
    pub(super) measure: Measure,
    pub(super) stats: DriverStats,
    pub(super) sent: u64,
    pub(super) sent_bytes: u64,
    /// Frames sent with each template.
    pub(super) sent_to: Vec<u64>,
    pub(super) behind_ns: u64,
    /// Frames by when they were sent.
    pub(super) timeline: Option<Timeline>,
    /// Buffers that did not come back from the device.
    pub(super) missing: usize,
}

impl Done {
    /// Returns the bytes of the frames that were sent. The lengths of refused frames are not known: the mean is taken.
    pub(super) fn bytes(&self) -> u64 {
        let taken = u128::from(self.sent + self.stats.tx_errors);
        let bytes = (u128::from(self.sent_bytes) * u128::from(self.sent)).checked_div(taken).unwrap_or(0);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl Worker {
    pub(super) fn new(ring: WorkerRing, station: Station, measure: Measure) -> Self {
        Self {
            driver: ring.ring.driver,
            waiter: ring.ring.waiter,
            pool: ring.pool,
            port: ring.port,
            is_file: ring.is_file,
            station,
            source: None,
            measure,
            board: Arc::default(),
            received: PktVec::new(),
            answers: PktVec::new(),
            asked_link_ns: 0,
            before: DriverStats::default(),
        }
    }

    /// Gets ready for another test with the same ring.
    pub(super) fn prepare(&mut self, source: Option<Source>, measure: Measure) {
        (self.source, self.measure, self.board) = (source, measure, Arc::default());
        self.before = self.driver.stats();
    }

    /// Works until it is told to end; closes the ring.
    pub(super) fn run(mut self, orders: &Orders) -> Done {
        self.work(orders);
        self.close()
    }

    /// Works until it is told to end.
    pub(super) fn work(&mut self, orders: &Orders) {
        loop {
            let phase = orders.phase.load(Ordering::Acquire);
            if phase == END {
                return;
            }
            let worked = self.receive(|_| {}) + self.send(phase, orders);
            if worked > 0 {
                self.show();
            } else {
                self.rest(phase, orders.begun_ns.load(Ordering::Relaxed));
            }
        }
    }

    /// Takes what has come; `look` sees what is not of the test. Answers how many frames it was.
    pub(super) fn receive(&mut self, mut look: impl FnMut(&[u8])) -> usize {
        let Self { driver, pool, received, measure, station, answers, .. } = self;
        let got = driver.rx(pool, received, VEC_MAX);
        if got == 0 {
            return 0;
        }
        let now = now_ns();
        for pkt in received.drain() {
            if !measure.frame(now, pkt.head(), pkt.len()) {
                look(pkt.head());
                if let Some(answer) = station.answer(pkt.head()) {
                    queue(&answer, pool, answers);
                }
            }
            pool.give(pkt);
        }
        self.send_answers();
        got
    }

    /// Sends one frame of our own.
    pub(super) fn say(&mut self, frame: &Frame) {
        queue(frame, &mut self.pool, &mut self.answers);
        self.send_answers();
    }

    /// Replies that do not fit are not sent: the request will be repeated.
    fn send_answers(&mut self) {
        if self.answers.is_empty() {
            return;
        }
        self.driver.tx(&mut self.pool, &mut self.answers);
        self.driver.doorbell(&mut self.pool);
        self.answers.drain().for_each(|pkt| self.pool.give(pkt));
    }

    fn send(&mut self, phase: u8, orders: &Orders) -> usize {
        let Some(source) = self.source.as_mut().filter(|source| !source.is_done) else { return 0 };
        match phase {
            LISTEN => return 0,
            SEND => source.make(now_ns(), orders.begun_ns.load(Ordering::Relaxed), &mut self.pool),
            round if round != source.learnt_in => {
                source.learnt_in = round;
                source.teach(&mut self.pool);
            }
            _ => return 0,
        }
        let (waiting, bytes) = totals(&source.out);
        if waiting == 0 {
            self.board.state.fetch_or(if source.is_done { DONE } else { 0 }, Ordering::Release);
            return 0;
        }
        self.driver.tx(&mut self.pool, &mut source.out);
        self.driver.doorbell(&mut self.pool);
        let (left, left_bytes) = totals(&source.out);
        let (sent, sent_bytes) = (waiting - left, bytes - left_bytes);
        let board = &self.board;
        if phase == SEND {
            add(&board.sent, sent);
            add(&board.sent_bytes, sent_bytes + sent * u64::from(FCS_LEN));
        } else {
            add(&board.learning_sent, sent);
            source.out.drain().for_each(|pkt| self.pool.give(pkt));
        }
        usize::try_from(sent).unwrap_or(0)
    }

    fn show(&self) {
        let (board, measure) = (&self.board, &self.measure);
        board.arrived.store(measure.unique(), Ordering::Relaxed);
        board.frames.store(measure.tally.frames, Ordering::Relaxed);
        board.learned.store(measure.tally.learning, Ordering::Relaxed);
    }

    /// There is nothing to do.
    fn rest(&mut self, phase: u8, begun_ns: u64) {
        let now = now_ns();
        if self.driver.busy() {
            self.driver.doorbell(&mut self.pool);
        }
        if now.saturating_sub(self.asked_link_ns) >= LINK_EVERY_NS {
            self.asked_link_ns = now;
            self.ask_link();
        }
        let due = match &self.source {
            Some(source) if phase == SEND && !source.is_done && source.out.is_empty() => {
                begun_ns.saturating_add(source.due_ns())
            }
            Some(source) if phase == SEND && !source.is_done => now,
            _ => u64::MAX,
        };
        match due.saturating_sub(now) {
            0..SPIN_NS => std::thread::yield_now(),
            // A frame came while the device was told to wake us: it is looked at first.
            _ if !self.driver.may_sleep() => {}
            left => self.sleep((left - SPIN_NS / 2).min(SLEEP_MAX_NS)),
        }
    }

    /// Until something has come, or for so long.
    fn sleep(&self, ns: u64) {
        let time = Duration::from_nanos(ns);
        let slept = match self.waiter.descriptor() {
            Some(device) => {
                wait(&mut [PollFd::new(&device, PollFlags::IN)], Some(time)).is_ok_and(|ready| ready == 0)
            }
            None => false,
        };
        if !slept && (self.waiter.descriptor().is_none() || self.is_at_an_end()) {
            std::thread::sleep(time);
        }
    }

    fn is_at_an_end(&self) -> bool {
        self.board.state.load(Ordering::Relaxed) & (EXHAUSTED | GONE) != 0
    }

    fn ask_link(&self) {
        let state = match self.driver.link() {
            Link::Gone => GONE,
            Link::Down if self.is_file && !self.driver.busy() => EXHAUSTED,
            _ => return,
        };
        self.board.state.fetch_or(state, Ordering::Release);
    }

    pub(super) fn close(mut self) -> Done {
        self.give_back();
        self.driver.close(&mut self.pool);
        let missing = self.pool.total() - self.pool.free();
        Done { missing, ..self.done() }
    }

    /// Ends a test and keeps the ring.
    pub(super) fn finish(&mut self) -> Done {
        self.give_back();
        self.done()
    }

    /// Gives back what was made and not sent.
    fn give_back(&mut self) {
        if let Some(source) = &mut self.source {
            source.discard(&mut self.pool);
        }
    }

    fn done(&mut self) -> Done {
        self.show();
        let stats = since(self.driver.stats(), self.before);
        let source = self.source.take();
        let behind_ns = source.as_ref().map_or(0, Source::behind_ns);
        let sent = self.board.sent.load(Ordering::Relaxed).saturating_sub(stats.tx_errors);
        Done {
            measure: core::mem::replace(&mut self.measure, Measure::new(Expect::All)),
            stats,
            sent,
            sent_bytes: self.board.sent_bytes.load(Ordering::Relaxed),
            sent_to: source.as_ref().map(|source| source.sent_to(sent)).unwrap_or_default(),
            behind_ns,
            timeline: source.and_then(|source| source.timeline),
            missing: 0,
        }
    }
}

/// The counters of a device since `before`.
fn since(now: DriverStats, before: DriverStats) -> DriverStats {
    DriverStats {
        rx_frames: now.rx_frames - before.rx_frames,
        rx_dropped: now.rx_dropped - before.rx_dropped,
        rx_errors: now.rx_errors - before.rx_errors,
        tx_frames: now.tx_frames - before.tx_frames,
        tx_full: now.tx_full - before.tx_full,
        tx_errors: now.tx_errors - before.tx_errors,
        doorbells: now.doorbells - before.doorbells,
    }
}

impl Source {
    /// Makes what is due, as far as there is room.
    fn make(&mut self, now_ns: u64, begun_ns: u64, pool: &mut Pool) {
        let since = self.phases_since(now_ns.saturating_sub(begun_ns));
        self.pacer.bound_backlog(since);
        while !self.is_over(since)
            && self.pacer.is_due(since)
            && self.out.len() + self.burst as usize <= VEC_MAX
        {
            if self.make_burst(now_ns, pool) == 0 {
                return;
            }
        }
        if since >= self.time_ns.saturating_add(OVERTIME_NS) {
            self.discard(pool);
        }
        self.is_done = self.out.is_empty() && self.is_over(since);
    }

    /// Enters the next phase when its time has come; returns the time since the current one began.
    fn phases_since(&mut self, since: u64) -> u64 {
        if let Some(next) = self.phases.next.take_if(|next| since >= next.at_ns) {
            self.phases.behind_ns += self.pacer.behind_ns();
            (self.phases.origin_ns, self.pacer, self.time_ns) = (next.at_ns, next.pacer, next.time_ns);
        }
        since - self.phases.origin_ns.min(since)
    }

    /// When something is to be done next, from the beginning of the test.
    fn due_ns(&self) -> u64 {
        let due = self.phases.origin_ns.saturating_add(self.pacer.due_ns());
        self.phases.next.as_ref().map_or(due, |next| due.min(next.at_ns))
    }

    /// For how long the rate was not kept, nanoseconds.
    fn behind_ns(&self) -> u64 {
        self.phases.behind_ns + self.pacer.behind_ns()
    }

    /// Frames with each template among the first `sent`: flows take turns.
    fn sent_to(&self, sent: u64) -> Vec<u64> {
        let mut all = vec![0; self.targets.len()];
        let flows = self.flows.len().max(1) as u64;
        for (at, number) in (0..flows).zip((self.first as usize..).step_by(self.stride as usize)) {
            all[number % self.targets.len()] += sent / flows + u64::from(at < sent % flows);
        }
        all
    }

    /// Gives back what the device has not taken.
    fn discard(&mut self, pool: &mut Pool) {
        for pkt in self.out.drain() {
            if let (Some(timeline), Seen::Probe(probe)) = (&mut self.timeline, look(pkt.head())) {
                timeline.unsent(probe.stamp);
            }
            pool.give(pkt);
        }
    }

    /// Whether nothing more is to be made. What was due before the end is, a little later.
    fn is_over(&self, since: u64) -> bool {
        let late =
            since >= self.time_ns && (self.pacer.due_ns() >= self.time_ns || self.pacer.is_unlimited());
        self.left == Some(0) || late || since >= self.time_ns.saturating_add(OVERTIME_NS)
    }

    fn make_burst(&mut self, now_ns: u64, pool: &mut Pool) -> u64 {
        let count = u64::from(self.burst).min(self.left.unwrap_or(u64::MAX));
        for made in 0..count {
            let Some(pkt) = pool.take() else { return made };
            let pkt = self.frame(now_ns, pkt);
            if let Err(pkt) = self.out.push(pkt) {
                pool.give(pkt);
                return made;
            }
            self.left = self.left.map(|left| left - 1);
        }
        count
    }

    /// The next frame, in an empty buffer.
    #[inline]
    fn frame(&mut self, now_ns: u64, mut pkt: Pkt) -> Pkt {
        let size = self.sizes.next();
        let number = self.first + u32::try_from(self.at).unwrap_or(0) * self.stride;
        if let Some(flow) = self.flows.get_mut(self.at)
            && let Ok(room) = pkt.append(usize::from(size - FCS_LEN))
        {
            let to = if self.targets.len() == 1 { 0 } else { number as usize % self.targets.len() };
            self.targets[to].template.write(flow, number, flow.sent, now_ns, room);
            flow.sent = flow.sent.wrapping_add(1);
            if let Some(timeline) = &mut self.timeline {
                timeline.sent(now_ns);
            }
        }
        self.at = if self.at + 1 < self.flows.len() { self.at + 1 } else { 0 };
        self.pacer.spend(size.into());
        pkt
    }

    /// Makes a learning frame for each of the first flows: what is between here and there learns where they go before
    /// it counts (RFC 2544 §23).
    fn teach(&mut self, pool: &mut Pool) {
        let numbers = (self.first as usize..).step_by(self.stride as usize);
        for (number, flow) in numbers.zip(&self.flows).take(LEARNING_MAX) {
            let Some(mut pkt) = pool.take() else { return };
            let size = self.sizes.next();
            if let Ok(room) = pkt.append(usize::from(size - FCS_LEN)) {
                self.targets[number % self.targets.len()].learning.write(flow, 0, 0, 0, room);
            }
            if let Err(pkt) = self.out.push(pkt) {
                return pool.give(pkt);
            }
        }
    }
}

fn queue(frame: &Frame, pool: &mut Pool, into: &mut PktVec) {
    let Some(mut pkt) = pool.take() else { return };
    if let Ok(room) = pkt.append(frame.bytes().len()) {
        room.copy_from_slice(frame.bytes());
    }
    if let Err(pkt) = into.push(pkt) {
        pool.give(pkt);
    }
}

fn totals(pkts: &PktVec) -> (u64, u64) {
    (pkts.len() as u64, pkts.iter().map(|pkt| pkt.len() as u64).sum())
}

/// The only writer of a counter needs no atomic addition.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
