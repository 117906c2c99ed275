//! From the counts of the rings to those of each sending port, and of each pair of ports.

use core::time::Duration;

use super::float;
use super::plan::Plan;
use super::record::{Counts, Course, Load, Outcome, PairCounts, Spec};
use crate::pktgen::measure::Measure;
use crate::pktgen::timeline::Timeline;
use crate::pktgen::worker::Done;

const NS_OF_MS: u64 = 1_000_000;
/// Parts of the course of a trial in the report.
const PARTS: usize = 100;

/// Times of a trial.
pub(super) struct Times {
    pub(super) begun_ns: u64,
    /// Sending time.
    pub(super) time: Duration,
    pub(super) reset_ms: Option<f64>,
}

/// All rings of a port.
struct Side {
    /// Frames of each port that sends to it, as [`Plan::sources`] has them.
    measures: Vec<Measure>,
    sent: u64,
    /// Frames to each port, as [`Plan::receivers`] has them.
    sent_to: Vec<u64>,
    behind_ns: u64,
    dropped: u64,
    other: u64,
    sent_at: Option<Timeline>,
}

/// Counts of a trial by the port that sent.
pub(super) fn outcome(plan: &Plan, spec: &Spec, done: Vec<(usize, Done)>, times: &Times) -> Outcome {
    let mut sides: Vec<Option<Side>> = plan.ends.iter().map(|_| None).collect();
    for (port, done) in done {
        let side = Side::of(done);
        match &mut sides[port] {
            Some(all) => all.add(side),
            none => *none = Some(side),
        }
    }
    let Some(sides) = sides.into_iter().collect::<Option<Vec<Side>>>() else { return Outcome::default() };
    let directions = (0..plan.senders()).map(|from| direction(plan, spec, &sides, from, times));
    Outcome { directions: directions.collect() }
}

impl Side {
    fn of(mut done: Done) -> Self {
        let apart = core::mem::take(&mut done.measure.apart);
        let tally = &done.measure.tally;
        Self {
            dropped: done.stats.rx_dropped + done.stats.rx_errors,
            other: tally.other + tally.plain,
            measures: core::iter::once(done.measure).chain(apart).collect(),
            sent: done.sent,
            sent_to: done.sent_to,
            behind_ns: done.behind_ns,
            sent_at: done.timeline,
        }
    }

    fn add(&mut self, other: Self) {
        self.measures.iter_mut().zip(&other.measures).for_each(|(mine, others)| mine.add(others));
        self.sent += other.sent;
        if self.sent_to.is_empty() {
            self.sent_to = other.sent_to;
        } else {
            self.sent_to.iter_mut().zip(other.sent_to).for_each(|(mine, others)| *mine += others);
        }
        self.behind_ns = self.behind_ns.max(other.behind_ns);
        self.dropped += other.dropped;
        self.other += other.other;
        match (&mut self.sent_at, other.sent_at) {
            (Some(mine), Some(others)) => mine.add(&others),
            (None, others @ Some(_)) => self.sent_at = others,
            _ => {}
        }
    }
}

/// The frames of a port: sent by it, and received by all ports that it sends to.
fn direction(plan: &Plan, spec: &Spec, sides: &[Side], from: usize, times: &Times) -> Counts {
    let sender = &sides[from];
    let arrived = |to: usize| {
        let at = plan.sources(to).position(|source| source == from)?;
        sides[to].measures.get(at)
    };
    let mut all: Option<Measure> = None;
    let mut pairs = Vec::new();
    for (to, sent) in plan.receivers(from).zip(&sender.sent_to) {
        let Some(measure) = arrived(to) else { continue };
        let received = measure.measured().min(*sent);
        let latency_ns = measure.latency();
        pairs.push(PairCounts { to, sent: *sent, received, lost: sent - received, latency_ns });
        match &mut all {
            Some(all) => all.add(measure),
            none => *none = Some(measure.clone()),
        }
    }
    // Each port receives as the next one of exactly one other.
    let next = plan.receivers(from).next().and_then(|to| sides.get(to));
    let measured = all.as_ref().map_or(0, Measure::measured);
    let received = measured.min(sender.sent);
    let planned_ms = float(spec.load.time_ms());
    let is_whole = matches!(spec.load, Load::Steady { frames, .. } if frames == sender.sent);
    let took_ms = times.time.as_secs_f64() * 1000.0;
    Counts {
        sent: sender.sent,
        received,
        lost: sender.sent - received,
        duplicated: all.as_ref().map_or(0, |all| all.tally.duplicated) + measured.saturating_sub(sender.sent),
        reordered: all.as_ref().map_or(0, |all| all.tally.reordered),
        other: next.map_or(0, |next| next.other),
        tester_dropped: next.map_or(0, |next| next.dropped),
        // A whole trial was sent at its rate, whatever the clock of the conductor says.
        time_ms: if is_whole { planned_ms } else { took_ms },
        behind_ms: float(sender.behind_ns) / 1e6,
        latency_ns: all.as_ref().and_then(Measure::latency),
        course: all.as_ref().and_then(|all| course(spec, sender, all, times)),
        pairs: if plan.mesh { pairs } else { Vec::new() },
    }
}

fn course(spec: &Spec, from: &Side, to: &Measure, times: &Times) -> Option<Course> {
    let (sent, received) = (from.sent_at.as_ref()?, to.timeline.as_ref()?);
    let begun_ns = times.begun_ns;
    let end_ns = begun_ns + spec.load.time_ms() * NS_OF_MS;
    let since = |ns: u64| float(ns.saturating_sub(begun_ns)) / 1e6;
    let silence = received.gap();
    let parts = sent.parts(begun_ns, end_ns, PARTS);
    Some(Course {
        last_loss_ms: sent.last_loss_ns(received).map(since),
        silent_from_ms: since(silence.from_ns),
        silent_to_ms: since(silence.to_ns),
        reset_ms: times.reset_ms,
        part_ms: float(spec.load.time_ms()) / float(parts.len().max(1) as u64),
        sent: parts,
        received: received.parts(begun_ns, end_ns, PARTS),
    })
}
