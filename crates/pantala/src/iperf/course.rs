//! A test from its first byte to its last, the same for both roles.

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use super::control::Control;
use super::flow::{Counts, Flow, Switch};
use super::protocol::{Params, Results, State, StreamResult};
use super::{Host, Problem};
use crate::api::TcpInfo;

/// The part of `TCP_INFO` that is reported of a sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tcp {
    pub(super) retransmits: u64,
    pub(super) cwnd: u32,
    pub(super) snd_wnd: u32,
    pub(super) rtt_us: u64,
    pub(super) rttvar_us: u64,
    pub(super) pmtu: u32,
}

/// A stream within an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) counts: Counts,
    pub(super) tcp: Option<Tcp>,
}

/// An interval, with a row for each stream.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Interval {
    pub(super) start_s: f64,
    pub(super) end_s: f64,
    pub(super) is_omitted: bool,
    pub(super) rows: Vec<Row>,
}

/// A stream over the whole test.
#[derive(Debug, Clone, Default)]
pub(super) struct Total {
    pub(super) counts: Counts,
    pub(super) retransmits: Option<u64>,
    pub(super) max_cwnd: u32,
    pub(super) max_snd_wnd: u32,
    /// Round-trip times in microseconds: shortest, mean, longest of the intervals' samples.
    pub(super) rtt_us: Option<[u64; 3]>,
    /// Counts of the other end, once it has told them.
    pub(super) peer: Option<StreamResult>,
}

/// How a test has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Its time is over, or its bytes are sent.
    Done,
    Interrupted,
    /// The other end says so.
    Peer(State),
}

/// Limits of one end, which it does not tell the other.
pub(super) struct Limits<'a> {
    pub(super) interval: Option<Duration>,
    pub(super) rcv_timeout: Duration,
    /// It is this end that ends the test.
    pub(super) leads: bool,
    /// Name of the congestion control of our senders.
    pub(super) congestion: &'a str,
    pub(super) is_interrupted: &'a dyn Fn() -> bool,
}

pub(super) struct Course<'a> {
    host: &'a Host,
    pub(super) params: &'a Params,
    pub(super) flows: Vec<Flow>,
    limits: Limits<'a>,
    switch: Arc<Switch>,
    /// The beginning of what is counted.
    begun: Instant,
    omits: bool,
    /// Counters and retransmissions at the beginning of what is counted, and of the interval.
    base: Vec<(Counts, u64)>,
    last: Vec<(Counts, u64)>,
    last_at: Instant,
    samples: Vec<Samples>,
    pub(super) seconds: f64,
    pub(super) cpu: [f64; 3],
    cpu_before: [f64; 2],
    started: Instant,
}

/// Sums over the intervals of a sender.
#[derive(Clone, Copy, Default)]
struct Samples {
    retransmits: u64,
    max_cwnd: u32,
    max_snd_wnd: u32,
    rtt_sum_us: u64,
    rtt_least_us: u64,
    rtt_most_us: u64,
    count: u64,
}

impl<'a> Course<'a> {
    /// Begins: receivers run when this returns, senders do not yet.
    pub(super) fn begin(host: &'a Host, params: &'a Params, flows: Vec<Flow>, limits: Limits<'a>) -> Self {
        let bytes =
            if params.bytes > 0 { params.bytes } else { params.blocks.saturating_mul(params.block.into()) };
        let switch = Switch::new(bytes);
        flows.iter().filter(|flow| !flow.sends).for_each(|flow| flow.run(params, &switch));
        let (now, count) = (Instant::now(), flows.len());
        Self {
            host,
            params,
            flows,
            limits,
            switch,
            begun: now,
            omits: params.omit_s > 0,
            base: vec![Default::default(); count],
            last: vec![Default::default(); count],
            last_at: now,
            samples: vec![Samples::default(); count],
            seconds: 0.0,
            cpu: [0.0; 3],
            cpu_before: cpu_seconds(),
            started: now,
        }
    }

    /// Sends and receives until the end, and shows each interval. The counters stand still afterwards.
    pub(super) fn run(
        &mut self,
        control: &Control,
        show: &mut dyn FnMut(&[Flow], &Interval),
    ) -> Result<Ended, Problem> {
        let now = Instant::now();
        (self.begun, self.last_at, self.started) = (now, now, now);
        let senders = self.flows.iter().filter(|flow| flow.sends);
        senders.for_each(|flow| flow.run(self.params, &self.switch));
        let ended = self.until_the_end(control, show);
        self.switch.end();
        let now = Instant::now();
        if let Some(interval) = self.limits.interval
            && now.duration_since(self.last_at) > interval / 10
        {
            self.interval(now, show);
        }
        self.finish(now);
        ended
    }

    fn until_the_end(
        &mut self,
        control: &Control,
        show: &mut dyn FnMut(&[Flow], &Interval),
    ) -> Result<Ended, Problem> {
        let (mut heard_at, mut heard) = (Instant::now(), 0);
        loop {
            let now = Instant::now();
            self.ticks(now, show);
            if let Some(why) = self.flows.iter().find_map(|flow| flow.counters.take_failure()) {
                // The other end closes streams before it says that the test has ended.
                return match control.poll(Duration::from_secs(1))? {
                    Some(state) => Ok(Ended::Peer(state)),
                    None => Err(Problem::Io("a stream".to_owned(), why)),
                };
            }
            if self.limits.leads && self.is_over(now) {
                return Ok(Ended::Done);
            }
            if (self.limits.is_interrupted)() {
                return Ok(Ended::Interrupted);
            }
            let received = self.bytes(false);
            if received != heard || self.flows.iter().all(|flow| flow.sends) {
                (heard, heard_at) = (received, now);
            }
            if now.duration_since(heard_at) > self.limits.rcv_timeout {
                return Err(Problem::NoData(
                    u64::try_from(self.limits.rcv_timeout.as_millis()).unwrap_or(u64::MAX),
                ));
            }
            if !self.limits.leads && self.is_overdue(now) {
                return Err(Problem::Silent(super::control::PATIENCE.as_secs(), "the end of the test"));
            }
            if let Some(state) = control.poll(self.wait(now))? {
                return Ok(Ended::Peer(state));
            }
        }
    }

    /// Ends intervals that are over, and what is omitted.
    fn ticks(&mut self, now: Instant, show: &mut dyn FnMut(&[Flow], &Interval)) {
        if self.omits && now >= self.begun + Duration::from_secs(self.params.omit_s) {
            if self.limits.interval.is_some() {
                self.interval(now, show);
            }
            self.omits = false;
            self.base = self.sample().into_iter().map(|(counts, tcp)| (counts, retransmits(tcp))).collect();
            self.last.clone_from(&self.base);
            self.samples.fill(Samples::default());
            (self.begun, self.last_at) = (now, now);
        }
        if self.limits.interval.is_some_and(|interval| now >= self.due(interval)) {
            self.interval(now, show);
        }
    }

    /// The end of the running interval.
    fn due(&self, interval: Duration) -> Instant {
        let passed = self.last_at.duration_since(self.begun).as_secs_f64() / interval.as_secs_f64();
        // One that has ended a little late does not shift the next.
        self.begun + interval.mul_f64((passed + 0.1).floor() + 1.0)
    }

    fn is_over(&self, now: Instant) -> bool {
        match self.params.duration() {
            Some(_) => !self.omits && now >= self.begun + Duration::from_secs(self.params.time_s),
            None => {
                let Params { bytes, blocks, block, .. } = *self.params;
                let limit = if bytes > 0 { bytes } else { blocks.saturating_mul(block.into()) };
                limit > 0 && (self.bytes(true) >= limit || self.bytes(false) >= limit)
            }
        }
    }

    fn is_overdue(&self, now: Instant) -> bool {
        let last = self.params.duration().map(|duration| duration + super::control::PATIENCE);
        last.is_some_and(|last| now.duration_since(self.started) > last)
    }

    fn bytes(&self, sent: bool) -> u64 {
        self.flows.iter().filter(|flow| flow.sends == sent).map(|flow| flow.counters.counts().bytes).sum()
    }

    /// Time until something is to be done.
    fn wait(&self, now: Instant) -> Duration {
        let longest = Duration::from_millis(if self.params.duration().is_none() { 5 } else { 100 });
        let next = self.limits.interval.map(|interval| self.due(interval));
        let after = if self.omits { self.params.omit_s } else { self.params.time_s };
        let end = self.begun + Duration::from_secs(after);
        let end = Some(end).filter(|end| self.params.duration().is_some() && *end > now);
        let waits = next.into_iter().chain(end).map(|at| at.saturating_duration_since(now));
        waits.chain([longest]).min().unwrap_or(longest)
    }

    fn interval(&mut self, now: Instant, show: &mut dyn FnMut(&[Flow], &Interval)) {
        let rows = self.advance();
        let seconds = |at: Instant| at.duration_since(self.begun).as_secs_f64();
        let interval =
            Interval { start_s: seconds(self.last_at), end_s: seconds(now), is_omitted: self.omits, rows };
        self.last_at = now;
        show(&self.flows, &interval);
    }

    /// Takes a sample, and returns the difference to the last one.
    fn advance(&mut self) -> Vec<Row> {
        let samples = self.sample();
        let rows =
            samples.iter().zip(&mut self.last).zip(&mut self.samples).map(|(((counts, tcp), last), sums)| {
                let (before, retransmits_before) = core::mem::replace(last, (*counts, retransmits(*tcp)));
                let tcp = tcp.map(|tcp| {
                    let again = tcp.retransmits.saturating_sub(retransmits_before);
                    sums.add(&Tcp { retransmits: again, ..tcp });
                    Tcp { retransmits: again, ..tcp }
                });
                Row { counts: counts.since(before), tcp }
            });
        rows.collect()
    }

    /// Reads the counters of all streams, and `TCP_INFO` of senders.
    fn sample(&self) -> Vec<(Counts, Option<Tcp>)> {
        let asks = !self.params.udp && self.flows.iter().any(|flow| flow.sends);
        let all = if asks { self.host.connections() } else { Vec::new() };
        let sample = |flow: &Flow| {
            let found = all.iter().find(|one| {
                let ends = &one.ends;
                flow.local.port() == ends.local_port
                    && flow.remote.port() == ends.foreign_port
                    && flow.remote.ip().to_canonical() == ends.foreign.to_canonical()
            });
            let info = found.and_then(|one| one.info.as_deref()).filter(|_| flow.sends);
            (flow.counters.counts(), info.map(tcp))
        };
        self.flows.iter().map(sample).collect()
    }

    /// Ends the streams, and takes the last sample.
    fn finish(&mut self, now: Instant) {
        self.flows.iter().for_each(Flow::stop);
        self.advance();
        self.seconds = now.duration_since(self.begun).as_secs_f64();
        self.cpu = cpu_percent(self.cpu_before, now.duration_since(self.started));
    }

    /// Closes the streams.
    pub(super) fn close(&mut self) {
        self.flows.iter_mut().for_each(|flow| flow.line = None);
    }

    /// Returns the totals of all streams, with what the other end says of them.
    pub(super) fn totals(&self, peer: Option<&Results>) -> Vec<Total> {
        let total = |(at, flow): (usize, &Flow)| {
            let (counts, base) = (self.last.get(at), self.base.get(at));
            let counts = counts.copied().unwrap_or_default().0.since(base.copied().unwrap_or_default().0);
            let sums = self.samples.get(at).copied().unwrap_or_default();
            let knows = flow.sends && !self.params.udp && sums.count > 0;
            let rtt = || [sums.rtt_least_us, sums.rtt_sum_us / sums.count.max(1), sums.rtt_most_us];
            Total {
                counts,
                retransmits: knows.then_some(sums.retransmits),
                max_cwnd: sums.max_cwnd,
                max_snd_wnd: sums.max_snd_wnd,
                rtt_us: knows.then(rtt),
                peer: peer.and_then(|peer| peer.streams.iter().find(|one| one.id == flow.id).copied()),
            }
        };
        self.flows.iter().enumerate().map(total).collect()
    }

    /// Returns what the other end is told.
    pub(super) fn results(&self) -> Results {
        let totals = self.totals(None);
        let stream = |(flow, total): (&Flow, &Total)| StreamResult {
            id: flow.id,
            bytes: total.counts.bytes,
            retransmits: total.retransmits,
            jitter_s: Duration::from_nanos(total.counts.jitter_ns).as_secs_f64(),
            lost: total.counts.lost,
            packets: total.counts.packets,
            end_s: self.seconds,
        };
        Results {
            cpu: self.cpu,
            has_retransmits: totals.iter().any(|total| total.retransmits.is_some()),
            congestion: self.congestion(),
            streams: self.flows.iter().zip(&totals).map(stream).collect(),
        }
    }

    /// Names the congestion control of our senders.
    pub(super) fn congestion(&self) -> Option<String> {
        (!self.params.udp).then(|| self.limits.congestion.to_owned())
    }
}

impl Drop for Course<'_> {
    fn drop(&mut self) {
        self.switch.end();
    }
}

impl Samples {
    fn add(&mut self, tcp: &Tcp) {
        self.retransmits += tcp.retransmits;
        self.max_cwnd = self.max_cwnd.max(tcp.cwnd);
        self.max_snd_wnd = self.max_snd_wnd.max(tcp.snd_wnd);
        self.rtt_sum_us += tcp.rtt_us;
        self.rtt_least_us = if self.count == 0 { tcp.rtt_us } else { self.rtt_least_us.min(tcp.rtt_us) };
        self.rtt_most_us = self.rtt_most_us.max(tcp.rtt_us);
        self.count += 1;
    }
}

fn retransmits(tcp: Option<Tcp>) -> u64 {
    tcp.map_or(0, |tcp| tcp.retransmits)
}

fn tcp(info: &TcpInfo) -> Tcp {
    Tcp {
        retransmits: info.retrans,
        cwnd: info.cwnd,
        snd_wnd: info.snd_wnd,
        rtt_us: info.rtt_us.unwrap_or(0),
        rttvar_us: info.rttvar_us.unwrap_or(0),
        pmtu: info.pmtu,
    }
}

/// Seconds of CPUs that this process has used: in user mode, and in the kernel.
fn cpu_seconds() -> [f64; 2] {
    /// `USER_HZ` of all architectures that Rust has.
    const TICKS_PER_SECOND: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name may have spaces and parentheses.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    [11, 12].map(|at| {
        let ticks: f64 = fields.get(at).and_then(|field| field.parse().ok()).unwrap_or(0.0);
        ticks / TICKS_PER_SECOND
    })
}

fn cpu_percent(before: [f64; 2], time: Duration) -> [f64; 3] {
    let now = cpu_seconds();
    let percent = |at: usize| {
        let used = now.get(at).unwrap_or(&0.0) - before.get(at).unwrap_or(&0.0);
        100.0 * used / time.as_secs_f64().max(0.001)
    };
    [percent(0) + percent(1), percent(0), percent(1)]
}
