//! A stream of a test, and its counters.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::line::Line;
use super::protocol::Params;
use super::stream::Stream;

/// Counters of a stream, written by its netisr and read by the thread that reports.
#[derive(Default)]
pub(super) struct Counters {
    bytes: AtomicU64,
    packets: AtomicU64,
    lost: AtomicU64,
    out_of_order: AtomicU64,
    jitter_ns: AtomicU64,
    failure: Mutex<Option<io::Error>>,
}

/// Values of the counters at one time, or within one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) bytes: u64,
    /// Datagrams: the number of those sent, or the highest number received.
    pub(super) packets: u64,
    pub(super) lost: u64,
    pub(super) out_of_order: u64,
    /// The smoothed jitter of RFC 1889, which is no sum.
    pub(super) jitter_ns: u64,
}

impl Counts {
    pub(super) const fn since(self, before: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(before.bytes),
            packets: self.packets.saturating_sub(before.packets),
            lost: self.lost.saturating_sub(before.lost),
            out_of_order: self.out_of_order.saturating_sub(before.out_of_order),
            jitter_ns: self.jitter_ns,
        }
    }
}

impl Counters {
    pub(super) fn counts(&self) -> Counts {
        Counts {
            bytes: self.bytes.load(Relaxed),
            packets: self.packets.load(Relaxed),
            lost: self.lost.load(Relaxed),
            out_of_order: self.out_of_order.load(Relaxed),
            jitter_ns: self.jitter_ns.load(Relaxed),
        }
    }

    /// Takes the error that has ended the stream.
    pub(super) fn take_failure(&self) -> Option<io::Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Counts bytes of a connection.
    pub(super) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts a datagram that was sent.
    pub(super) fn sent_datagram(&self, bytes: u64, number: u64) {
        self.add_bytes(bytes);
        self.packets.store(number, Relaxed);
    }

    /// Shows the counts of a receiver.
    pub(super) fn publish(&self, counts: &Counts) {
        let pairs = [
            (&self.bytes, counts.bytes),
            (&self.packets, counts.packets),
            (&self.lost, counts.lost),
            (&self.out_of_order, counts.out_of_order),
            (&self.jitter_ns, counts.jitter_ns),
        ];
        pairs.into_iter().for_each(|(to, from)| to.store(from, Relaxed));
    }

    /// The stream has ended before its time.
    pub(super) fn fail(&self, why: io::Error) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }
}

/// State that the streams of a test share.
#[derive(Default)]
pub(super) struct Switch {
    has_ended: AtomicBool,
    /// Bytes that senders have taken on.
    taken: AtomicU64,
    /// Bytes after which senders stop, if not 0.
    limit: u64,
}

impl Switch {
    pub(super) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, ..Self::default() })
    }

    pub(super) fn end(&self) {
        self.has_ended.store(true, Relaxed);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Relaxed)
    }

    /// Returns how many of so many bytes a sender may send.
    pub(super) fn take(&self, bytes: usize) -> usize {
        if self.limit == 0 {
            return bytes;
        }
        let share = |taken: u64| self.limit.saturating_sub(taken).min(bytes as u64);
        let taken = self.taken.fetch_update(Relaxed, Relaxed, |taken| Some(taken + share(taken)));
        usize::try_from(share(taken.unwrap_or(u64::MAX))).unwrap_or(bytes)
    }

    pub(super) fn give_back(&self, bytes: usize) {
        if self.limit > 0 {
            self.taken.fetch_sub(bytes as u64, Relaxed);
        }
    }
}

pub(super) struct Flow {
    /// Its number in results: 1, 3, 4, 5, … as iperf3 counts.
    pub(super) id: u32,
    pub(super) sends: bool,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) counters: Arc<Counters>,
    /// Gone when the test has ended.
    pub(super) line: Option<Line>,
}

impl Flow {
    /// Makes the stream that is the `nth` of its test, from 0.
    pub(super) fn new(nth: usize, sends: bool, line: Line) -> Self {
        let ends = (line.local, line.peer);
        Self { line: Some(line), ..Self::between(nth, sends, ends) }
    }

    /// Makes one that has ended.
    pub(super) fn between(nth: usize, sends: bool, (local, remote): (SocketAddr, SocketAddr)) -> Self {
        let id = u32::try_from(if nth == 0 { 1 } else { nth + 2 }).unwrap_or(u32::MAX);
        Self { id, sends, local, remote, counters: Arc::default(), line: None }
    }

    /// Begins to send, or to receive.
    pub(super) fn run(&self, params: &Params, switch: &Arc<Switch>) {
        if let Some(line) = &self.line {
            line.run(Stream::new(self.sends, params, &self.counters, switch));
        }
    }

    /// Ends that. The counters stand still when this returns.
    pub(super) fn stop(&self) {
        self.line.iter().for_each(Line::stop);
    }
}

/// Writes the header of a datagram.
pub(super) fn stamp(block: &mut [u8], at: Duration, number: u64, wide: bool) {
    let mut header = [0; 16];
    let seconds = u32::try_from(at.as_secs()).unwrap_or(u32::MAX);
    header[..4].copy_from_slice(&seconds.to_be_bytes());
    header[4..8].copy_from_slice(&at.subsec_micros().to_be_bytes());
    let len = if wide {
        header[8..].copy_from_slice(&number.to_be_bytes());
        16
    } else {
        header[8..12].copy_from_slice(&number.to_be_bytes()[4..]);
        12
    };
    if let Some(start) = block.get_mut(..len) {
        start.copy_from_slice(&header[..len]);
    }
}

/// Reads the header of a datagram.
pub(super) fn stamped(bytes: &[u8], wide: bool) -> Option<(Duration, u64)> {
    let word = |at: usize| bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes);
    let at = Duration::new(word(0)?.into(), word(4)?.min(999_999) * 1000);
    let number = if wide { u64::from(word(8)?) << 32 | u64::from(word(12)?) } else { word(8)?.into() };
    Some((at, number))
}

/// Loss, order and jitter of a stream of datagrams.
pub(super) struct Reader {
    pub(super) counts: Counts,
    /// Difference of the clocks and the time under way, of the last datagram.
    transit_ns: Option<i128>,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self { counts: Counts::default(), transit_ns: None }
    }

    pub(super) fn datagram(&mut self, len: usize, sent: Duration, number: u64, at: Duration) {
        let counts = &mut self.counts;
        counts.bytes += len as u64;
        if number > counts.packets {
            counts.lost += number - 1 - counts.packets;
            counts.packets = number;
        } else {
            // It was taken for lost.
            counts.out_of_order += 1;
            counts.lost = counts.lost.saturating_sub(1);
        }
        let to_ns = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
        let transit = to_ns(at) - to_ns(sent);
        let before = self.transit_ns.replace(transit).unwrap_or(transit);
        //= https://www.rfc-editor.org/rfc/rfc1889#section-6.3.1
        let difference = u64::try_from((transit - before).abs()).unwrap_or(u64::MAX);
        counts.jitter_ns = if difference >= counts.jitter_ns {
            counts.jitter_ns + (difference - counts.jitter_ns) / 16
        } else {
            counts.jitter_ns - (counts.jitter_ns - difference) / 16
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_of_a_datagram_are_read_as_they_were_written() {
        for (wide, number) in [(false, 7), (true, 1 << 40)] {
            let mut block = [0; 20];
            stamp(&mut block, Duration::from_micros(3_000_005), number, wide);
            assert_eq!(stamped(&block, wide), Some((Duration::from_micros(3_000_005), number)));
        }
        assert_eq!(stamped(&[0; 11], false), None);
    }

    #[test]
    fn gaps_are_losses_until_the_missing_datagram_comes() {
        let mut reader = Reader::new();
        let ms = Duration::from_millis;
        for (number, sent, at) in [(1, 0, 5), (2, 1, 6), (5, 4, 9), (3, 2, 10)] {
            reader.datagram(100, ms(sent), number, ms(at));
        }
        let counts = reader.counts;
        assert_eq!((counts.bytes, counts.packets, counts.lost, counts.out_of_order), (400, 5, 1, 1));
        // One difference of 3 ms, a sixteenth of it.
        assert_eq!(counts.jitter_ns, 3_000_000 / 16);
    }
}
