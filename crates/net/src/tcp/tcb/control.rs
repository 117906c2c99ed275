//! What a program can change of a connection while it lives.

use super::super::settings::Change;
use super::{State, Tcb};
use crate::time::Instant;

impl Tcb {
    /// Changes what a program asks to have changed; [`Self::output`] says what is to be sent because of it.
    pub fn change(&mut self, change: Change, now: Instant) {
        self.settings.take(change);
        match change {
            Change::SendBuffer(_) | Change::ReceiveBuffer(_) if self.is_agreed() => self.round_buffers(),
            Change::MaxSegment(_) | Change::Sign(_) => self.congestion.set_mss(self.mss()),
            Change::Algorithm(algorithm) => self.congestion.set_algorithm(algorithm),
            Change::EstablishWithin(within) if self.timers.establish.is_some() => {
                self.timers.establish = Some(self.began + within);
            }
            _ => {}
        }
        self.set_timers(now);
    }

    /// Bytes that may wait to be read: what was asked for, and at the end of the handshake rounded up.
    #[must_use]
    pub fn receive_buffer(&self) -> u32 {
        self.settings.receive_buffer
    }

    /// Bytes that may wait to be acknowledged, rounded in the same way.
    #[must_use]
    pub fn send_buffer(&self) -> u32 {
        self.settings.send_buffer
    }

    /// Whether it is known how long segments may be.
    fn is_agreed(&self) -> bool {
        self.state > State::SynReceived || self.state == State::SynReceived && !self.is_passive
    }

    /// Buffers hold whole segments, so that the last one in a window is not a short one.
    pub(super) fn round_buffers(&mut self) {
        let mss = u32::from(self.agreed.mss.min(self.settings.path_mss)).max(1);
        let round = |bytes: u32| {
            if bytes > mss { bytes.checked_next_multiple_of(mss).unwrap_or(bytes) } else { bytes }
        };
        self.settings.receive_buffer = round(self.settings.receive_buffer);
        self.settings.send_buffer = round(self.settings.send_buffer);
    }
}
