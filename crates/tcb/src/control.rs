//! Changes of a connection's settings while it lives.

use std::sync::Arc;

use super::{State, Tcb};
use crate::settings::Change;
use base::time::Instant;

impl Tcb {
    /// Changes what a program asks to have changed; [`Self::output`] says what is to be sent because of it.
    pub fn change(&mut self, change: Change, now: Instant) {
        let told = self.advice_to_give();
        Arc::make_mut(&mut self.settings).take(change);
        self.advice.is_due |= self.advice_to_give() != told;
        match change {
            Change::SendBuffer(_) => self.set_buffers(self.settings.send_buffer, self.receive_buffer),
            Change::ReceiveBuffer(_) => self.set_buffers(self.send_buffer, self.settings.receive_buffer),
            Change::MaxSegment(longest) => {
                self.path_mss = self.path_mss.min(longest);
                self.congestion.set_mss(self.mss());
            }
            Change::Sign(_) => {
                self.agreed = self.agreed.signed(self.settings.signs);
                self.congestion.set_mss(self.mss());
            }
            Change::Algorithm(algorithm) => self.congestion.set_algorithm(algorithm),
            Change::EstablishWithin(within) if self.timers.establish.is_some() => {
                self.timers.establish = Some(self.began + within);
            }
            _ => {}
        }
        self.set_timers(now);
    }

    /// Bytes that may wait to be read: what was asked for, and at the end of the handshake rounded up.
    #[inline]
    #[must_use]
    pub fn receive_buffer(&self) -> u32 {
        self.receive_buffer
    }

    /// Bytes that may wait to be acknowledged, rounded in the same way.
    #[inline]
    #[must_use]
    pub fn send_buffer(&self) -> u32 {
        self.send_buffer
    }

    fn set_buffers(&mut self, send: u32, receive: u32) {
        (self.send_buffer, self.receive_buffer) = (send, receive);
        if self.is_agreed() {
            self.round_buffers();
        }
    }

    /// Whether it is known how long segments may be.
    fn is_agreed(&self) -> bool {
        self.state > State::SynReceived || self.state == State::SynReceived && !self.is_passive
    }

    /// Buffers hold whole segments, so that the last one in a window is not a short one.
    pub(super) fn round_buffers(&mut self) {
        let mss = u32::from(self.agreed.mss.min(self.path_mss)).max(1);
        let round = |bytes: u32| {
            if bytes > mss { bytes.checked_next_multiple_of(mss).unwrap_or(bytes) } else { bytes }
        };
        self.receive_buffer = round(self.receive_buffer);
        self.send_buffer = round(self.send_buffer);
    }
}
