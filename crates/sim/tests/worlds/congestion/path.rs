//! Two ends of a connection, and a path between them whose narrowest link has a queue.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use net::tcp::congestion::Algorithm;
use net::tcp::settings::Settings;
use net::tcp::tcb::{Out, Segment, Stamps, Tcb};
use net::time::{Duration, Instant};
use sim::random::Random;
use wire::tcp::{Flags, Header, Options};

/// Bytes of an IPv4 header.
const IP: u64 = 20;
/// Room at both ends, so that nothing but the congestion window holds the sender back.
const BUFFER: u32 = 16 << 20;

/// Segments that are sent at one moment at the most: more than there is room for.
const OUTPUT_MAX: usize = 20_000;

/// The properties of a path, in the sender's direction; the reverse path has no limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) rate_bps: u64,
    /// One way.
    pub(crate) delay: Duration,
    /// Size of the queue; packets beyond it are lost.
    pub(crate) queue_bytes: u64,
    /// Random loss besides, in millionths.
    pub(crate) loss_ppm: u32,
}

/// The sender at some moment; sizes in segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Duration,
    pub(crate) window: u32,
    pub(crate) threshold: Option<u32>,
    pub(crate) queued: u64,
    /// Segments that were sent again since the last sample.
    pub(crate) again: u64,
}

/// A segment under way: when it arrives, in which order it was sent, where, and what it is.
type Flying = Reverse<(Instant, u64, usize, Vec<u8>)>;

/// A sender that never runs dry, and a receiver that reads at once.
pub(crate) struct Run {
    path: Path,
    ends: [Tcb; 2],
    now: Instant,
    start: Instant,
    flying: BinaryHeap<Flying>,
    sent: u64,
    /// Until when the narrowest link is busy.
    busy: Instant,
    random: Random,
    read: u64,
}

impl Run {
    pub(crate) fn new(path: Path, algorithm: Algorithm, seed: u64) -> Self {
        let now = Instant::from_ns(1_000_000_000);
        let settings = Settings {
            algorithm,
            receive_buffer: BUFFER,
            receive_buffer_max: BUFFER,
            send_buffer: BUFFER,
            send_buffer_max: BUFFER,
            ..Settings::default()
        };
        let syn = Header {
            src_port: 1,
            dst_port: 2,
            seq: 0,
            ack: 0,
            flags: Flags::SYN,
            window: u16::MAX,
            urgent: 0,
            options: Options::NONE,
        };
        let sender = Tcb::connect(settings, (1, 2), 0, Stamps::from(0), now);
        let segment = Segment { header: &syn, payload: &[], is_marked: false };
        // In its place comes the receiver, as soon as the sender's SYN is there.
        let receiver = Tcb::answer(settings, (2, 1), 0, Stamps::from(0), &segment, now);
        let mut run = Self {
            path,
            ends: [sender, receiver],
            now,
            start: now,
            flying: BinaryHeap::new(),
            sent: 0,
            busy: now,
            random: Random::new(seed),
            read: 0,
        };
        run.begin(settings);
        run
    }

    /// The connection stands.
    fn begin(&mut self, settings: Settings) {
        let mut first = None;
        self.ends[0].output(self.now, &mut |out| first = Some(out.header));
        let Some(syn) = first else { return };
        self.now = self.now + self.path.delay;
        let segment = Segment { header: &syn, payload: &[], is_marked: false };
        self.ends[1] = Tcb::answer(settings, (2, 1), 0, Stamps::from(0), &segment, self.now);
        self.output(1);
    }

    /// Samples of so long a time, while the sender speaks when it is said to.
    pub(crate) fn samples(
        &mut self,
        span: Duration,
        step: Duration,
        speaks: impl Fn(Duration) -> bool,
    ) -> Vec<Sample> {
        let (mut samples, mut at, mut before) = (Vec::new(), step, 0);
        while at <= span {
            self.run_until(self.start + at, &speaks);
            let info = self.ends[0].info();
            let again = info.tally.retransmitted;
            let threshold = (info.snd_ssthresh < u32::MAX).then(|| info.snd_ssthresh / info.snd_mss);
            let queued = self.backlog() / (u64::from(info.snd_mss) + 52);
            samples.push(Sample {
                at,
                window: info.snd_cwnd / info.snd_mss,
                threshold,
                queued,
                again: again - before,
            });
            before = again;
            at += step;
        }
        samples
    }

    /// Megabits a second that are read.
    pub(crate) fn goodput(&mut self, span: Duration) -> f64 {
        self.run_until(self.start + span, &|_| true);
        self.read as f64 * 8.0 / 1e6 / span.as_secs_f64()
    }

    fn run_until(&mut self, until: Instant, speaks: &impl Fn(Duration) -> bool) {
        loop {
            if speaks(self.now.since(self.start)) {
                // A little more than a window, not all that there is room for.
                let waiting = self.ends[0].info();
                let wanted = (2 * waiting.snd_cwnd).saturating_sub(waiting.unacknowledged + waiting.unsent);
                self.ends[0].send(&vec![0; wanted as usize]);
            }
            self.output(0);
            let timers = self.ends.iter().map(Tcb::deadline).fold(Instant::NEVER, Instant::min);
            let arrival = self.flying.peek().map_or(Instant::NEVER, |Reverse((at, ..))| *at);
            // A silent sender is asked again whether it speaks.
            let next = timers.min(arrival).min(self.now + Duration::from_millis(10));
            if next > until {
                self.now = until;
                return;
            }
            self.now = next.max(self.now);
            self.happen();
        }
    }

    /// Processes all events that are due.
    fn happen(&mut self) {
        while let Some(Reverse((at, ..))) = self.flying.peek()
            && *at <= self.now
        {
            let Some(Reverse((_, _, to, bytes))) = self.flying.pop() else { return };
            let Ok(header) = Header::parse(&bytes) else { return };
            let segment =
                Segment { header: &header, payload: &bytes[header.header_len()..], is_marked: false };
            _ = self.ends[to].arrive(&segment, self.now);
            if to == 1 {
                let mut into = [0; 4000];
                self.read += self.ends[1].read(&mut into) as u64;
            }
            self.output(to);
        }
        for at in 0..2 {
            if self.ends[at].deadline() <= self.now {
                self.ends[at].expire(self.now);
                self.output(at);
            }
        }
    }

    fn output(&mut self, from: usize) {
        let mut out = Vec::new();
        self.ends[from].output(self.now, &mut |segment| {
            assert!(out.len() < OUTPUT_MAX, "it does not stop to send");
            out.push(bytes(segment));
        });
        for bytes in out {
            let len = IP + bytes.len() as u64;
            let Some(at) = (if from == 0 { self.forward(len) } else { Some(self.now) }) else { continue };
            self.sent += 1;
            self.flying.push(Reverse((at + self.path.delay, self.sent, 1 - from, bytes)));
        }
    }

    /// When a packet has left the narrowest link, if it finds room in front of it.
    fn forward(&mut self, len: u64) -> Option<Instant> {
        if self.backlog() + len > self.path.queue_bytes || self.random.chance(self.path.loss_ppm) {
            return None;
        }
        let takes = Duration::from_nanos(len * 8 * 1_000_000_000 / self.path.rate_bps);
        self.busy = self.busy.max(self.now) + takes;
        Some(self.busy)
    }

    /// Bytes that wait for the narrowest link.
    fn backlog(&self) -> u64 {
        let waits = self.busy.since(self.now.min(self.busy));
        u64::try_from(waits.as_nanos()).unwrap_or(0) * self.path.rate_bps / 8 / 1_000_000_000
    }
}

fn bytes(out: &Out<'_>) -> Vec<u8> {
    let mut bytes = vec![0; out.header.header_len()];
    out.header.emit(&mut bytes).unwrap();
    out.payload.iter().for_each(|piece| bytes.extend_from_slice(piece));
    bytes
}
