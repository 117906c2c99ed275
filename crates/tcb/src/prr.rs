//! Proportional rate reduction (RFC 9937): delivered data determines what may be sent during recovery
//! here, so that there is neither silence while the network holds more than the reduced window, nor a burst where it holds
//! less.

/// One repair of losses. In bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prr {
    /// In flight at the beginning: `RecoverFS`.
    flight: u32,
    /// Delivered since: `prr_delivered`.
    delivered: u32,
    /// Sent since: `prr_out`.
    out: u32,
    /// Allowed now: `sndcnt`.
    allowed: u32,
    /// Delivered since the last transmission, and sent beyond that in slow start. Everything received in a
    /// turn is answered at once, so this is more than one acknowledgment has said.
    fresh: u32,
    extra: u32,
}

/// The effect of an acknowledgment during recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Bytes of which it is new that they have arrived: `DeliveredData`.
    pub(super) delivered: u32,
    /// Whether it acknowledges more, and nothing more is found lost: `SafeACK`.
    pub(super) is_safe: bool,
    /// Whether it is known by that alone that the next segment is lost.
    pub(super) is_partial: bool,
    /// Bytes in the network: `inflight`.
    pub(super) pipe: u32,
    /// Target: `ssthresh`.
    pub(super) target: u32,
    pub(super) mss: u32,
}

impl Prr {
    /// Losses begin to be repaired, with so much under way of which nothing was known to have arrived, but for what the same
    /// acknowledgment has said.
    //= https://www.rfc-editor.org/rfc/rfc9937#section-6.1
    pub(super) fn begin(flight: u32) -> Self {
        Self { flight: flight.max(1), ..Self::default() }
    }

    /// Bytes that may be sent now.
    pub(super) fn allowed(&self) -> u32 {
        self.allowed
    }

    /// Notes bytes sent, new or retransmitted.
    pub(super) fn sends(&mut self, bytes: u32) {
        self.out = self.out.saturating_add(bytes);
        self.allowed = self.allowed.saturating_sub(bytes);
        (self.fresh, self.extra) = (0, 0);
    }

    /// An acknowledgment came, the first being that which began it.
    ///
    /// While more is in the network than should be, what is sent is to what arrives as what is left of the window is to what
    /// there was; in whole segments, the part of one counting for all of it. Then it is as much as arrives, and a segment more
    /// where that goes well, as in slow start, but not beyond what should be in the network (the reduction bound).
    //= https://www.rfc-editor.org/rfc/rfc9937#section-6.2
    pub(super) fn hears(&mut self, progress: Progress) {
        let Progress { delivered, is_safe, is_partial, pipe, target, mss } = progress;
        self.delivered = self.delivered.saturating_add(delivered);
        self.fresh = self.fresh.saturating_add(delivered);
        self.extra = self.extra.saturating_add(if is_safe { mss } else { 0 });
        let sent = if pipe > target {
            let share = u64::from(self.delivered) * u64::from(target);
            let share = u32::try_from(share.div_ceil(self.flight.into())).unwrap_or(u32::MAX);
            share.saturating_sub(self.out).div_ceil(mss.max(1)).saturating_mul(mss)
        } else {
            let owed = self.delivered.saturating_sub(self.out).max(self.fresh);
            owed.saturating_add(self.extra).min(target - pipe)
        };
        // The first is sent again whatever else.
        self.allowed = if self.out == 0 || is_partial { sent.max(mss) } else { sent };
    }
}
