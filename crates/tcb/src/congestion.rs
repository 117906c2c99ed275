//! Congestion control: slow start, congestion avoidance, and reductions (RFC 5681, RFC 3465, RFC 9438).

mod cubic;

use core::time::Duration;

use self::cubic::Cubic;
use base::time::Instant;

/// The congestion avoidance algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// By the time since the last loss (RFC 9438).
    #[default]
    Cubic,
    /// By a segment in each round trip (RFC 5681, RFC 6582).
    NewReno,
}

/// The congestion window of a connection, in bytes.
#[derive(Clone, Debug)]
pub struct Congestion {
    mss: u32,
    cwnd: u32,
    ssthresh: u32,
    /// Bytes that were acknowledged since the window grew by a segment.
    counted: u32,
    algorithm: Algorithm,
    /// State of CUBIC, from its first use on.
    cubic: Option<Box<Cubic>>,
    /// State before the last reduction, in case it was spurious.
    before: Option<Box<Before>>,
}

#[derive(Clone, Debug)]
struct Before {
    cwnd: u32,
    ssthresh: u32,
    cubic: Option<Box<Cubic>>,
}

/// A congestion signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A segment was lost, and others behind it were not.
    Loss,
    /// A router has marked a packet (RFC 3168).
    Mark,
}

/// The window is never less, so that an acknowledgment always brings another.
const LEAST_SEGMENTS: u32 = 2;

impl Congestion {
    /// Makes one of a connection with segments of `mss` bytes, which begins with `window` (see [`initial_window`]).
    #[inline]
    #[must_use]
    pub fn new(algorithm: Algorithm, mss: u32, window: u32) -> Self {
        Self { mss, cwnd: window, ssthresh: u32::MAX, counted: 0, algorithm, cubic: None, before: None }
    }

    /// Bytes that may be under way: `cwnd`.
    #[inline]
    #[must_use]
    pub fn window(&self) -> u32 {
        self.cwnd
    }

    /// Below it, slow start: `ssthresh`.
    #[inline]
    #[must_use]
    pub fn threshold(&self) -> u32 {
        self.ssthresh
    }

    /// Whether the window grows with each byte that arrives.
    #[inline]
    #[must_use]
    pub fn is_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Segments have `mss` bytes from now on. A window that was counted in larger ones stays.
    #[inline]
    pub fn set_mss(&mut self, mss: u32) {
        self.mss = mss;
    }

    /// The window grows in another way from now on.
    #[inline]
    pub fn set_algorithm(&mut self, algorithm: Algorithm) {
        (self.algorithm, self.cubic) = (algorithm, None);
        self.counted = 0;
    }

    /// `bytes` were acknowledged that had not been; to be called only outside recovery, and only if the window was what
    /// held the sender back.
    ///
    /// In slow start the window grows by all of them. RFC 5681 §3.1 allows a segment for each acknowledgment, and RFC 3465
    /// §2.3 two, for receivers that acknowledge every second segment; one that acknowledges once for all that came in a
    /// turn would slow it down to a crawl. `rtt` is the smoothed round trip.
    pub fn acknowledged(&mut self, bytes: u32, now: Instant, rtt: Duration) {
        let mut bytes = bytes;
        if self.is_slow_start() {
            let room = self.ssthresh - self.cwnd;
            let growth = bytes.min(room);
            self.cwnd = self.cwnd.saturating_add(growth);
            bytes = if growth == room { bytes - growth } else { 0 };
        }
        if bytes == 0 || self.is_slow_start() {
            return;
        }
        let (cwnd, mss) = (self.cwnd, self.mss);
        match self.algorithm {
            Algorithm::Cubic => self.cwnd = self.cubic().acknowledged(cwnd, mss, bytes, now, rtt),
            Algorithm::NewReno => self.count(bytes),
        }
    }

    /// Something was acknowledged, and the window was not what held the sender back.
    #[inline]
    pub fn was_not_needed(&mut self, now: Instant) {
        if let Some(cubic) = &mut self.cubic {
            cubic.stands_still(now);
        }
    }

    /// A segment for each window that was acknowledged (RFC 3465 §2.1).
    fn count(&mut self, bytes: u32) {
        self.counted = self.counted.saturating_add(bytes);
        if self.counted >= self.cwnd {
            self.counted -= self.cwnd;
            self.cwnd = self.cwnd.saturating_add(self.mss);
        }
    }

    /// There is congestion, with `flight` bytes under way. At most once for each window.
    //= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
    //# ssthresh = max (FlightSize / 2, 2*SMSS)            (4)
    #[inline]
    pub fn congested(&mut self, flight: u32, sign: Sign) {
        self.remember();
        self.reduce(flight);
        self.cwnd = self.ssthresh;
        if sign == Sign::Mark {
            // A mark is never a mistake.
            self.before = None;
        }
    }

    /// Nothing was heard for too long, with `flight` bytes under way; `is_first` unless it is the same data as before.
    //= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
    //# Furthermore, upon a timeout (as specified in [RFC2988]) cwnd MUST be
    //# set to no more than the loss window, LW, which equals 1 full-sized
    //# segment
    //= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
    //# On the other hand, when a TCP sender detects segment loss using the
    //# retransmission timer and the given segment has already been
    //# retransmitted by way of the retransmission timer at least once, the
    //# value of ssthresh is held constant.
    #[inline]
    pub fn timed_out(&mut self, flight: u32, is_first: bool) {
        if is_first {
            self.remember();
            self.reduce(flight);
        }
        self.cwnd = self.mss;
    }

    /// Nothing had been lost: what was sent again, was sent again in vain (RFC 4015 §3.2). Once for each reduction.
    #[inline]
    pub fn undo(&mut self) {
        let Some(before) = self.before.take() else { return };
        self.cwnd = self.cwnd.max(before.cwnd);
        self.ssthresh = before.ssthresh;
        self.cubic = before.cubic;
    }

    /// The reduction was right: all that was sent before it has arrived.
    #[inline]
    pub fn settled(&mut self) {
        self.before = None;
    }

    /// Nothing was sent for longer than the retransmission timer: what the window once meant is not known any more.
    #[inline]
    pub fn was_idle(&mut self, restart: u32) {
        self.cwnd = self.cwnd.min(restart);
        if let Some(cubic) = &mut self.cubic {
            cubic.begins_anew();
        }
    }

    fn cubic(&mut self) -> &mut Cubic {
        self.cubic.get_or_insert_default()
    }

    fn remember(&mut self) {
        let Self { cwnd, ssthresh, ref cubic, .. } = *self;
        self.before = Some(Box::new(Before { cwnd, ssthresh, cubic: cubic.clone() }));
    }

    fn reduce(&mut self, flight: u32) {
        let (cwnd, mss) = (self.cwnd, self.mss);
        let left = match self.algorithm {
            Algorithm::Cubic => self.cubic().congested(cwnd, flight, mss),
            Algorithm::NewReno => flight / 2,
        };
        self.ssthresh = left.max(LEAST_SEGMENTS * self.mss);
        self.counted = 0;
    }
}

/// The window that a connection begins with, in bytes; after a SYN that was lost, one segment.
//= https://www.rfc-editor.org/rfc/rfc6928#section-2
//# min (10*MSS, max (2*MSS, 14600))                            (1)
//= https://www.rfc-editor.org/rfc/rfc5681#section-3.1
//# As specified in [RFC3390], the SYN/ACK and the acknowledgment of the
//# SYN/ACK MUST NOT increase the size of the congestion window.
//# Further, if the SYN or SYN/ACK is lost, the initial window used by a
//# sender after a correctly transmitted SYN MUST be one segment
//# consisting of at most SMSS bytes.
#[inline]
#[must_use]
pub fn initial_window(mss: u32, segments: u32, syn_was_lost: bool) -> u32 {
    const BYTES: u32 = 1460;
    if syn_was_lost { mss } else { (segments * mss).min((2 * mss).max(segments * BYTES)) }
}

#[cfg(test)]
mod tests;
