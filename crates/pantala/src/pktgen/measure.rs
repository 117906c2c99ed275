//! Measurement of received frames: loss, duplicates, reordering, latency.
//!
//! | word | definition |
//! |---|---|
//! | lost | sent and not arrived when the run ended (RFC 7680); where only the receiver is ours: missing between the lowest and the highest sequence number of a flow |
//! | duplicated | arrived again (RFC 5560) |
//! | reordered | its sequence number is below one that arrived before in its flow (RFC 4737 §3.3, Type-P-Reordered) |
//! | displacement | by how many numbers it was below the next expected one |
//! | latency | from the stamp to the turn in which it was received (RFC 7679) |
//! | jitter | difference of the latencies of frames of one flow that arrived one after the other, absolute (RFC 3393) |
//!
//! Which numbers of a flow have arrived is known for the last 256. What is older counts as reordered and is never known
//! to be a duplicate; `too_late` says how many that were.

use core::net::IpAddr;

use hdrhistogram::Histogram;

use super::flows::FLOWS_MAX;
use super::grammar::Addrs;
use super::payload::{self, Probe, Seen, look};
use super::sizes::FCS_LEN;
use super::timeline::Timeline;
use crate::api::Latency;

/// Runs that a receiver keeps apart.
const SESSIONS_MAX: usize = 16;
/// Numbers of a flow of which is known whether they have arrived.
const WINDOW: u64 = 256;
const WINDOW_WORDS: usize = 4;
/// Latencies above count as this one.
const LATENCY_MAX_NS: u64 = 60_000_000_000;
/// Significant digits of a latency.
const DIGITS: u8 = 3;

/// The frames that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// Frames of one run, and those without a header to these addresses.
    Own { session: u16, dst: Addrs },
    /// All.
    All,
}

/// Counts. Frames are those of `probes`, `plain`, `other`, `learning` and `untracked`; bytes are of all, with FCS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    /// With a header.
    pub(crate) probes: u64,
    /// Too small for a header.
    pub(crate) plain: u64,
    /// Frames of no run, or of another's.
    pub(crate) other: u64,
    /// Sent ahead, to be learnt from.
    pub(crate) learning: u64,
    /// With a header, of a flow or run beyond those that are kept apart.
    pub(crate) untracked: u64,
    pub(crate) duplicated: u64,
    pub(crate) reordered: u64,
    pub(crate) too_late: u64,
    pub(crate) displacement_max: u64,
    /// Pairs of which the jitter is known; its sum and maximum in nanoseconds.
    pub(crate) pairs: u64,
    pub(crate) jitter_sum: u64,
    pub(crate) jitter_max: u64,
}

/// One receiver's view. It is fed by one thread; views are added up at the end.
#[derive(Clone)]
pub(crate) struct Measure {
    expect: Expect,
    pub(crate) tally: Tally,
    /// `None` if there is no memory for it.
    latency: Option<Histogram<u64>>,
    sessions: Vec<Session>,
    /// Frames by their stamps, if that is recorded.
    pub(crate) timeline: Option<Timeline>,
    /// Frames of other senders, counted apart.
    pub(crate) apart: Vec<Self>,
}

#[derive(Clone, Debug)]
struct Session {
    id: u16,
    flows: Vec<Arrivals>,
}

/// Received numbers of one flow: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Arrivals {
    /// The lowest number.
    low: u64,
    /// The highest number plus one; 0 as long as nothing has arrived.
    next: u64,
    /// Different numbers.
    unique: u64,
    /// Latency of the frame before, nanoseconds.
    latency: u64,
    /// Bit `n % 256`: number `n` has arrived, for the last 256 below `next`.
    seen: [u64; WINDOW_WORDS],
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Arrivals>() == 64);

/// The arrival of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    InOrder,
    /// Reordered by a number of places.
    Reordered(u64),
    /// Reordered beyond what is remembered.
    TooLate(u64),
    Duplicate,
}

impl Measure {
    pub(crate) fn new(expect: Expect) -> Self {
        let latency = Histogram::new_with_bounds(1, LATENCY_MAX_NS, DIGITS).ok();
        let (sessions, apart) = (Vec::new(), Vec::new());
        Self { expect, tally: Tally::default(), latency, sessions, timeline: None, apart }
    }

    /// Counts a received frame; returns whether it belongs to a run. If not, it may be a request to us.
    pub(crate) fn frame(&mut self, now_ns: u64, frame: &[u8], len: usize) -> bool {
        self.tally.frames += 1;
        self.tally.bytes += len as u64 + u64::from(FCS_LEN);
        match look(frame) {
            Seen::Probe(probe) if probe.session == payload::LEARNING => self.tally.learning += 1,
            Seen::Probe(probe) if self.is_expected(&probe) => self.probe(now_ns, &probe),
            Seen::Probe(probe) if let Some(of) = self.apart.iter_mut().find(|of| of.is_expected(&probe)) => {
                of.probe(now_ns, &probe);
            }
            Seen::Plain(dst) if self.counts(dst) => self.tally.plain += 1,
            _ => {
                self.tally.other += 1;
                return false;
            }
        }
        true
    }

    /// The run whose frames are counted; 0 if those of all are.
    pub(crate) const fn session(&self) -> u16 {
        match self.expect {
            Expect::Own { session, .. } => session,
            Expect::All => payload::LEARNING,
        }
    }

    const fn is_expected(&self, probe: &Probe) -> bool {
        match self.expect {
            Expect::All => true,
            Expect::Own { session, .. } => session == probe.session,
        }
    }

    fn counts(&self, address: IpAddr) -> bool {
        match &self.expect {
            Expect::All => true,
            Expect::Own { dst, .. } => dst.contains(address),
        }
    }

    fn probe(&mut self, now_ns: u64, probe: &Probe) {
        let Some(flow) = flow(&mut self.sessions, probe) else {
            self.tally.untracked += 1;
            return;
        };
        self.tally.probes += 1;
        match flow.arrived(probe.seq) {
            Arrival::InOrder => {}
            Arrival::Duplicate => {
                self.tally.duplicated += 1;
                return;
            }
            Arrival::Reordered(by) => self.tally.is_reordered(by),
            Arrival::TooLate(by) => {
                self.tally.too_late += 1;
                self.tally.is_reordered(by);
            }
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.received(now_ns, probe.stamp);
        }
        let latency = probe.latency(now_ns);
        if flow.unique > 1 {
            let jitter = latency.abs_diff(flow.latency);
            self.tally.pairs += 1;
            self.tally.jitter_sum = self.tally.jitter_sum.saturating_add(jitter);
            self.tally.jitter_max = self.tally.jitter_max.max(jitter);
        }
        flow.latency = latency;
        if let Some(histogram) = &mut self.latency {
            histogram.saturating_record(latency);
        }
    }

    /// Different frames with a header that arrived.
    pub(crate) const fn measured(&self) -> u64 {
        self.tally.probes - self.tally.duplicated
    }

    /// Different frames of the run that arrived.
    pub(crate) fn unique(&self) -> u64 {
        let apart: u64 = self.apart.iter().map(Self::unique).sum();
        self.measured() + self.tally.plain + apart
    }

    /// Returns the frames that are missing between the lowest and the highest number of each flow: the loss as far as it is
    /// known without the sender.
    pub(crate) fn gaps(&self) -> u64 {
        let flows = self.sessions.iter().flat_map(|session| &session.flows);
        flows.map(|flow| (flow.next - flow.low).saturating_sub(flow.unique)).sum()
    }

    /// Flows of which something arrived.
    pub(crate) fn flows(&self) -> u64 {
        let flows = self.sessions.iter().flat_map(|session| &session.flows);
        flows.filter(|flow| flow.unique > 0).count() as u64
    }

    /// Adds what another receiver saw.
    pub(crate) fn add(&mut self, other: &Self) {
        self.tally.add(&other.tally);
        self.apart.iter_mut().zip(&other.apart).for_each(|(mine, others)| mine.add(others));
        if let (Some(mine), Some(others)) = (&mut self.latency, &other.latency) {
            // The same bounds: everything fits.
            let _ = mine.add(others);
        }
        if let (Some(mine), Some(others)) = (&mut self.timeline, &other.timeline) {
            mine.add(others);
        }
        for session in &other.sessions {
            for (number, flow) in (0..).zip(&session.flows).filter(|(_, flow)| flow.unique > 0) {
                if let Some(mine) = slot(&mut self.sessions, session.id, number) {
                    mine.add(flow);
                }
            }
        }
    }

    /// Adds the numbers of latencies to bands, which [`band`] numbers.
    pub(crate) fn add_bands(&self, bands: &mut [u64; BANDS]) {
        for value in self.latency.iter().flat_map(Histogram::iter_recorded) {
            if let Some(band) = bands.get_mut(band(value.value_iterated_to())) {
                *band += value.count_at_value();
            }
        }
    }

    /// Nanoseconds; `None` if nothing was measured.
    pub(crate) fn latency(&self) -> Option<Latency> {
        let histogram = self.latency.as_ref().filter(|histogram| !histogram.is_empty())?;
        let at = |quantile| histogram.value_at_quantile(quantile);
        Some(Latency {
            min: histogram.min(),
            mean: histogram.mean(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max(),
        })
    }
}

/// Bands of a heat map of latencies: two for each power of two from 256 ns on, the last one without an end.
pub(crate) const BANDS: usize = 48;

/// The band of a latency in nanoseconds: band `2n` begins at 256 · 2ⁿ, band `2n + 1` at one and a half times that.
fn band(ns: u64) -> usize {
    const FIRST: u32 = 8;
    let Some(power) = ns.checked_ilog2().filter(|power| *power >= FIRST) else { return 0 };
    let half = ns >> (power - 1) & 1;
    let band = 2 * u64::from(power - FIRST) + half;
    usize::try_from(band).unwrap_or(BANDS).min(BANDS - 1)
}

impl Tally {
    fn is_reordered(&mut self, by: u64) {
        self.reordered += 1;
        self.displacement_max = self.displacement_max.max(by);
    }

    fn add(&mut self, other: &Self) {
        self.frames += other.frames;
        self.bytes += other.bytes;
        self.probes += other.probes;
        self.plain += other.plain;
        self.other += other.other;
        self.learning += other.learning;
        self.untracked += other.untracked;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.too_late += other.too_late;
        self.displacement_max = self.displacement_max.max(other.displacement_max);
        self.pairs += other.pairs;
        self.jitter_sum = self.jitter_sum.saturating_add(other.jitter_sum);
        self.jitter_max = self.jitter_max.max(other.jitter_max);
    }

    /// The mean difference of latencies, nanoseconds.
    #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
    pub(crate) fn jitter_mean(&self) -> f64 {
        if self.pairs == 0 { 0.0 } else { self.jitter_sum as f64 / self.pairs as f64 }
    }
}

#[inline]
fn flow<'s>(sessions: &'s mut Vec<Session>, probe: &Probe) -> Option<&'s mut Arrivals> {
    let at = sessions.iter().position(|session| session.id == probe.session);
    match at {
        Some(at) if sessions[at].flows.len() > probe.flow as usize => {
            sessions[at].flows.get_mut(probe.flow as usize)
        }
        _ => slot(sessions, probe.session, probe.flow),
    }
}

/// The place of a flow, made if there is none yet; `None` if there are too many.
#[cold]
fn slot(sessions: &mut Vec<Session>, id: u16, number: u32) -> Option<&mut Arrivals> {
    let needed = number as usize + 1;
    let others: usize =
        sessions.iter().filter(|session| session.id != id).map(|session| session.flows.len()).sum();
    let room = (FLOWS_MAX as usize).checked_sub(others).filter(|room| needed <= *room)?;
    let at = match sessions.iter().position(|session| session.id == id) {
        Some(at) => at,
        None if sessions.len() < SESSIONS_MAX => {
            sessions.push(Session { id, flows: Vec::new() });
            sessions.len() - 1
        }
        None => return None,
    };
    let flows = &mut sessions[at].flows;
    if flows.len() < needed {
        flows.resize(needed.next_power_of_two().min(room), Arrivals::NONE);
    }
    flows.get_mut(number as usize)
}

impl Arrivals {
    const NONE: Self = Self { low: 0, next: 0, unique: 0, latency: 0, seen: [0; WINDOW_WORDS] };

    fn arrived(&mut self, seq: u32) -> Arrival {
        let number = self.number(seq);
        if self.unique == 0 {
            (self.low, self.next) = (number, number);
        }
        let arrival = if number >= self.next { self.ahead(number) } else { self.behind(number) };
        if arrival != Arrival::Duplicate {
            self.unique += 1;
            self.low = self.low.min(number);
        }
        arrival
    }

    /// The number that a header's 32 bits stand for: the one nearest to what is expected.
    fn number(&self, seq: u32) -> u64 {
        if self.unique == 0 {
            // Room for what should have come before.
            return u64::from(seq) + (1 << 32);
        }
        let [.., a, b, c, d] = self.next.to_be_bytes();
        let expected = u32::from_be_bytes([a, b, c, d]);
        let ahead = seq.wrapping_sub(expected).cast_signed();
        self.next.saturating_add_signed(ahead.into())
    }

    fn ahead(&mut self, number: u64) -> Arrival {
        let skipped = number - self.next;
        if skipped >= WINDOW {
            self.seen = [0; WINDOW_WORDS];
        } else {
            (self.next..number).for_each(|skipped| self.mark(skipped, false));
        }
        self.mark(number, true);
        self.next = number + 1;
        Arrival::InOrder
    }

    fn behind(&mut self, number: u64) -> Arrival {
        let by = self.next - number;
        if by > WINDOW {
            return Arrival::TooLate(by);
        }
        if self.has(number) {
            return Arrival::Duplicate;
        }
        self.mark(number, true);
        Arrival::Reordered(by)
    }

    const fn place(number: u64) -> (usize, u64) {
        let bit = number % WINDOW;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    fn mark(&mut self, number: u64, arrived: bool) {
        let (word, bit) = Self::place(number);
        if arrived { self.seen[word] |= bit } else { self.seen[word] &= !bit }
    }

    fn has(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        self.seen[word] & bit != 0
    }

    /// Adds what another receiver saw of the same flow.
    fn add(&mut self, other: &Self) {
        if self.unique == 0 {
            *self = *other;
            return;
        }
        self.low = self.low.min(other.low);
        self.next = self.next.max(other.next);
        self.unique += other.unique;
    }
}

#[cfg(test)]
mod tests;
