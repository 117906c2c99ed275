//! CUBIC (RFC 9438): the window as a function of the time since it was reduced.

use core::time::Duration;

use base::time::Instant;

/// Steepness of the curve, in segments for each cubed second (RFC 9438 §5).
const C: f64 = 0.4;
/// Factor of a reduction (RFC 9438 §4.6).
const BETA: f64 = 0.7;
/// Segments for each window that make the estimate of a Reno connection as fast as one that halves its window.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// The state of CUBIC; sizes in segments.
#[derive(Clone, Debug, Default)]
pub(super) struct Cubic {
    /// The window at the last reduction, or less if it had not reached the one before: `W_max`.
    w_max: f64,
    /// The window just before the last reduction: `cwnd_prior`.
    prior: f64,
    epoch: Option<Epoch>,
    /// Part of a byte by which the window has still to grow.
    left_over: f64,
}

/// Congestion avoidance since the last reduction.
#[derive(Clone, Debug)]
struct Epoch {
    since: Instant,
    /// When the last acknowledgment came.
    seen: Instant,
    /// Seconds until the curve is flat: `K`.
    k: f64,
    /// Where it is flat.
    flat: f64,
    /// Window of a Reno connection: `W_est`.
    reno: f64,
}

impl Cubic {
    /// The new window after `bytes` more were acknowledged, in bytes like all of them.
    pub(super) fn acknowledged(
        &mut self,
        cwnd: u32,
        mss: u32,
        bytes: u32,
        now: Instant,
        rtt: Duration,
    ) -> u32 {
        let segment = f64::from(mss.max(1));
        let (window, acked) = (f64::from(cwnd) / segment, f64::from(bytes) / segment);
        let Self { w_max, prior, ref mut epoch, .. } = *self;
        let epoch = epoch.get_or_insert_with(|| Epoch::begin(w_max, window, now));
        epoch.seen = now;
        // RFC 9438 §4.3: from where the window was reduced on, a Reno connection grows by a segment for each window.
        let alpha = if epoch.reno >= prior { 1.0 } else { ALPHA };
        epoch.reno += alpha * acked / window;
        let since = now.since(epoch.since);
        let grown = if epoch.at(since) < epoch.reno {
            epoch.reno
        } else {
            // RFC 9438 §4.4 and §4.5: to where the curve will be one round trip from now, in one round trip.
            let target = epoch.at(since + rtt).clamp(window, 1.5 * window);
            window + (target - window) / window * acked
        };
        let bytes = (grown - window).max(0.0) * segment + self.left_over;
        let whole = bytes.floor();
        self.left_over = bytes - whole;
        // A growth of less than a window, which fits.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
        cwnd.saturating_add(whole as u32)
    }

    /// There is congestion; answers how much of `flight` may be under way now.
    pub(super) fn congested(&mut self, cwnd: u32, flight: u32, mss: u32) -> u32 {
        let window = f64::from(cwnd) / f64::from(mss.max(1));
        // RFC 9438 §4.7: fast convergence: a connection below its last maximum makes room for others.
        self.w_max = if window < self.w_max { window * f64::midpoint(1.0, BETA) } else { window };
        self.prior = window;
        self.epoch = None;
        self.left_over = 0.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "less than it was")]
        let left = (f64::from(flight) * BETA) as u32;
        left
    }

    /// An acknowledgment came, and the window was not what held the sender back: the clock of the curve stands still.
    //= https://www.rfc-editor.org/rfc/rfc9438#section-5.8
    //# In case of long periods during which cwnd has not been updated due to
    //# such an application limit, such as idle periods, t in Figure 1 MUST
    //# NOT include these periods
    pub(super) fn stands_still(&mut self, now: Instant) {
        if let Some(epoch) = &mut self.epoch {
            epoch.since = epoch.since + now.since(epoch.seen);
            epoch.seen = now;
        }
    }

    /// The clock of the curve begins again with the next acknowledgment.
    pub(super) fn begins_anew(&mut self) {
        self.epoch = None;
    }
}

impl Epoch {
    /// RFC 9438 §4.2. From `W_max` on, and without a reduction before, the curve begins where it is flat.
    fn begin(w_max: f64, window: f64, now: Instant) -> Self {
        let flat = w_max.max(window);
        Self { since: now, seen: now, k: ((flat - window) / C).cbrt(), flat, reno: window }
    }

    /// `W_cubic`: the curve so long after the epoch began.
    fn at(&self, since: Duration) -> f64 {
        C * (since.as_secs_f64() - self.k).powi(3) + self.flat
    }
}
