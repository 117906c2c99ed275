//! Buffers that grow with what a path can carry, as long as the program has not said how large they are to be.

use super::Tcb;
use crate::seq::Seq;
use base::time::Instant;

/// Data received within a round trip, for window tuning.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tune {
    /// When it began, and the byte that was expected then.
    from: Option<(Instant, Seq)>,
}

impl Tcb {
    /// Something has come. If that was nearly half of what the window takes within one round trip, the window is what holds
    /// the other end back, or soon will be: it is twice as large from now on.
    pub(super) fn tune_receive(&mut self, now: Instant) {
        let (Some(rtt), true) = (self.rtt.smoothed(), self.settings.tunes_receive) else { return };
        let next = self.receive.next();
        let (since, from) = *self.tune.from.get_or_insert((now, next));
        if now.since(since) < rtt {
            return;
        }
        self.tune.from = Some((now, next));
        let buffer = self.receive_buffer;
        if next.since(from) > buffer / 16 * 7 {
            let most = self.settings.receive_buffer_max.max(buffer);
            self.receive_buffer = buffer.saturating_mul(2).min(most);
            self.round_buffers();
        }
    }

    /// Something was acknowledged. If the buffer was nearly full, it is what holds us back, unless the window does: it has
    /// room for two windows then, one under way and one that follows.
    pub(super) fn tune_send(&mut self) {
        let buffer = self.send_buffer;
        let is_full = self.outgoing.len() >= buffer as usize / 8 * 7;
        if !is_full || !self.settings.tunes_send {
            return;
        }
        let window = self.congestion.window().min(self.right_edge.since(self.sent.first()));
        let wanted = window.saturating_mul(2).min(self.settings.send_buffer_max);
        if wanted > buffer {
            self.send_buffer = wanted;
            self.round_buffers();
        }
    }
}
