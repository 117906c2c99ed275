//! Round-trip time estimation, and the retransmission timeout (RFC 6298).

use core::time::Duration;

/// The wait before the first measurement.
//= https://www.rfc-editor.org/rfc/rfc6298#section-2
//# (2.1) Until a round-trip time (RTT) measurement has been made for a
//# segment sent between the sender and receiver, the sender SHOULD
//# set RTO <- 1 second
pub const INITIAL: Duration = Duration::from_secs(1);
/// The wait after the first measurement where the SYN had to be sent again.
//= https://www.rfc-editor.org/rfc/rfc6298#section-5
//# (5.7) If the timer expires awaiting the ACK of a SYN segment and the
//# TCP implementation is using an RTO less than 3 seconds, the RTO
//# MUST be re-initialized to 3 seconds when data transmission
//# begins
pub const AFTER_LOST_SYN: Duration = Duration::from_secs(3);

/// Between which the wait is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Added to each timeout but a SYN's first, for delayed acknowledgments.
    pub slop: Duration,
    /// The least. RFC 6298 §2.4 says a second; all that are in use wait less, and so do we.
    pub min: Duration,
    /// The most, at least a minute (RFC 6298 §2.5).
    pub max: Duration,
}

impl Default for Bounds {
    #[inline]
    fn default() -> Self {
        let (slop, min) = (Duration::from_millis(200), Duration::from_millis(30));
        Self { slop, min, max: Duration::from_secs(64) }
    }
}

/// The estimate of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Rtt {
    bounds: Waits,
    measured: Option<Measured>,
    /// The wait, not backed off.
    rto: Ns,
    /// Number of consecutive timeouts.
    backoffs: u8,
}

/// Nanoseconds: a [`Duration`] that is cheap to reckon with.
type Ns = u64;

/// [`Bounds`] in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Waits {
    slop: Ns,
    min: Ns,
    max: Ns,
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    smoothed: Ns,
    variation: Ns,
    least: Ns,
    latest: Ns,
}

/// As far as it fits: 584 years.
fn ns(duration: Duration) -> Ns {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos().into())
}

impl Rtt {
    /// Nothing measured yet; the first wait is `initial`.
    #[inline]
    #[must_use]
    pub fn new(bounds: Bounds, initial: Duration) -> Self {
        let Bounds { slop, min, max } = bounds;
        let bounds = Waits { slop: ns(slop), min: ns(min), max: ns(max) };
        Self { bounds, measured: None, rto: ns(initial), backoffs: 0 }
    }

    /// A round trip took `sample`. It must be of a segment that was sent once (Karn), or told apart by its timestamp.
    //= https://www.rfc-editor.org/rfc/rfc6298#section-2
    //# (2.3) When a subsequent RTT measurement R' is made, a host MUST set
    //#
    //# RTTVAR <- (1 - beta) * RTTVAR + beta * |SRTT - R'|
    //# SRTT <- (1 - alpha) * SRTT + alpha * R'
    pub fn measure(&mut self, sample: Duration) {
        // No sample is so long that eight of them are too many: it is a difference of two times of this machine.
        let sample = ns(sample).min(Ns::MAX / 16);
        let measured = match self.measured {
            None => Measured { smoothed: sample, variation: sample / 2, least: sample, latest: sample },
            Some(Measured { smoothed, variation, least, .. }) => Measured {
                smoothed: (smoothed * 7 + sample) / 8,
                variation: (variation * 3 + smoothed.abs_diff(sample)) / 4,
                least: least.min(sample),
                latest: sample,
            },
        };
        self.measured = Some(measured);
        self.rto = measured.smoothed + (measured.variation * 4).max(GRANULARITY);
        self.backoffs = 0;
    }

    /// Returns the retransmission timeout.
    #[inline]
    #[must_use]
    pub fn rto(&self) -> Duration {
        let Waits { slop, min, max } = self.bounds;
        let is_first = self.measured.is_none() && self.backoffs == 0;
        // Doubled from the least: a short path is given up as late as others (RFC 9293 §3.8.3: after 100 s at least).
        let rto = self.rto.max(min).saturating_mul(1 << self.backoffs.min(BACKOFFS_MAX));
        let rto = if is_first { rto } else { rto.saturating_add(slop) };
        Duration::from_nanos(rto.clamp(min.min(max), max))
    }

    /// The wait was in vain: the next is twice as long (RFC 6298 §5.5).
    #[inline]
    pub fn back_off(&mut self) {
        self.backoffs = self.backoffs.saturating_add(1);
    }

    /// Returns the number of consecutive timeouts.
    #[inline]
    #[must_use]
    pub const fn backoffs(&self) -> u8 {
        self.backoffs
    }

    /// Something was acknowledged, though nothing could be measured: waits are short again.
    #[inline]
    pub fn answered(&mut self) {
        self.backoffs = 0;
    }

    /// The last timeout was spurious: what was sent before it has arrived late, and the last measurement is of that. Estimates are
    /// seeded with it, so that the next wait is long enough. A variation that is larger stays.
    //= https://www.rfc-editor.org/rfc/rfc4015#section-3
    pub fn was_too_short(&mut self) {
        let Some(measured) = &mut self.measured else { return };
        measured.smoothed = measured.smoothed.max(measured.latest);
        measured.variation = measured.variation.max(measured.latest / 2);
        self.rto = measured.smoothed + (measured.variation * 4).max(GRANULARITY);
    }

    /// The connection stands, but its SYN had to be sent again, and nothing was measured (RFC 6298 §5.7).
    #[inline]
    pub fn syn_was_lost(&mut self) {
        if self.measured.is_none() {
            self.rto = self.rto.max(ns(AFTER_LOST_SYN));
        }
        self.backoffs = 0;
    }

    /// The smoothed round trip: `SRTT`.
    #[inline]
    #[must_use]
    pub fn smoothed(&self) -> Option<Duration> {
        self.measured.map(|measured| Duration::from_nanos(measured.smoothed))
    }

    /// The smoothed deviation from it: `RTTVAR`.
    #[inline]
    #[must_use]
    pub fn variation(&self) -> Option<Duration> {
        self.measured.map(|measured| Duration::from_nanos(measured.variation))
    }

    /// The shortest of all.
    #[inline]
    #[must_use]
    pub fn least(&self) -> Option<Duration> {
        self.measured.map(|measured| Duration::from_nanos(measured.least))
    }

    /// The last.
    #[inline]
    #[must_use]
    pub fn latest(&self) -> Option<Duration> {
        self.measured.map(|measured| Duration::from_nanos(measured.latest))
    }
}

/// Clock granularity: `G`.
const GRANULARITY: Ns = 1_000_000;
/// Doublings beyond which the wait grows no more, whatever its bound.
const BACKOFFS_MAX: u8 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn rtt() -> Rtt {
        Rtt::new(Bounds { slop: Duration::ZERO, min: MS(200), ..Bounds::default() }, INITIAL)
    }

    #[test]
    fn the_first_measurement_counts_whole() {
        let mut rtt = rtt();
        assert_eq!(rtt.rto(), MS(1000));
        rtt.measure(MS(100));
        assert_eq!((rtt.smoothed(), rtt.variation()), (Some(MS(100)), Some(MS(50))));
        assert_eq!(rtt.rto(), MS(300));
    }

    #[test]
    fn later_ones_count_an_eighth_and_a_quarter() {
        let mut rtt = rtt();
        rtt.measure(MS(100));
        rtt.measure(MS(180));
        // 7/8 * 100 + 180/8, and 3/4 * 50 + 80/4.
        assert_eq!((rtt.smoothed(), rtt.variation()), (Some(MS(110)), Some(Duration::from_micros(57_500))));
        assert_eq!(rtt.rto(), MS(340));
        assert_eq!((rtt.least(), rtt.latest()), (Some(MS(100)), Some(MS(180))));
    }

    #[test]
    fn a_steady_path_is_waited_for_no_less_than_the_bound() {
        let mut rtt = rtt();
        (0..200).for_each(|_| rtt.measure(MS(2)));
        assert_eq!(rtt.rto(), MS(200));
        let bounds = Bounds { slop: Duration::ZERO, min: Duration::ZERO, max: MS(64_000) };
        let mut exact = Rtt::new(bounds, INITIAL);
        (0..200).for_each(|_| exact.measure(MS(2)));
        assert_eq!(exact.rto(), MS(3), "the variation counts at least what a timer is exact to");
    }

    #[test]
    fn waits_in_vain_double_up_to_the_bound_and_end_with_an_answer() {
        let mut rtt = rtt();
        let waits: Vec<_> = (0..8).map(|_| (rtt.rto().as_secs(), rtt.back_off()).0).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64]);
        (0..300).for_each(|_| rtt.back_off());
        assert_eq!(rtt.rto(), MS(64_000));
        rtt.answered();
        assert_eq!((rtt.rto(), rtt.backoffs()), (MS(1000), 0));
    }

    #[test]
    fn a_short_path_is_given_up_no_sooner_than_a_long_one() {
        let mut rtt = Rtt::new(Bounds::default(), INITIAL);
        rtt.measure(Duration::from_micros(50));
        let all: Duration = (0..=12).map(|_| (rtt.rto(), rtt.back_off()).0).sum();
        assert!(all > Duration::from_secs(100), "{all:?}");
    }

    #[test]
    fn every_wait_but_the_first_is_longer_by_what_the_other_end_may_take() {
        let mut rtt = Rtt::new(Bounds::default(), INITIAL);
        let waits: Vec<_> = (0..8).map(|_| (rtt.rto(), rtt.back_off()).0.as_millis()).collect();
        assert_eq!(waits, [1000, 2200, 4200, 8200, 16_200, 32_200, 64_000, 64_000]);
        rtt.measure(MS(100));
        assert_eq!(rtt.rto(), MS(500));
    }

    #[test]
    fn after_a_lost_syn_three_seconds_are_waited_unless_something_was_measured() {
        let mut rtt = rtt();
        rtt.back_off();
        rtt.syn_was_lost();
        assert_eq!(rtt.rto(), MS(3000));
        rtt.measure(MS(100));
        rtt.syn_was_lost();
        assert_eq!(rtt.rto(), MS(300));
    }
}
