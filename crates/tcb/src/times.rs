//! Time by activity of a connection: `TCP_INFO` of Linux.

use super::{State, Tcb};
use base::time::{Duration, Instant};

/// Spans, as they are at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Since data, or our FIN, was sent; without any, since it began.
    pub data_sent: Duration,
    /// Since data came, and since an acknowledgment did; without any, since it stands.
    pub data_came: Duration,
    /// See [`Self::data_came`].
    pub ack_came: Duration,
    /// Time with data to send, or to be acknowledged.
    pub busy: Duration,
    /// Time limited by the receive window of the peer.
    pub shut_out: Duration,
    /// Time limited by the send buffer.
    pub full: Duration,
}

/// The limit of a connection's sending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Waits {
    /// There is none.
    #[default]
    Idle,
    /// The path, the congestion window, or company.
    Path,
    /// The other end's window.
    Window,
    /// Room in our buffer.
    Room,
}

/// The times so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    waits: Waits,
    /// Since when.
    since: Instant,
    /// Nanoseconds for each of them but the first, before that.
    spent: [u64; 3],
    /// When data came last, and an acknowledgment.
    pub(super) data: Instant,
    pub(super) ack: Instant,
}

impl Waits {
    /// Its place among what is added up.
    fn place(self) -> Option<usize> {
        (self as usize).checked_sub(1)
    }
}

impl Clock {
    /// The connection stands.
    pub(super) fn begin(&mut self, now: Instant) {
        (self.data, self.ack) = (now, now);
    }

    fn spent(&self, now: Instant) -> [Duration; 3] {
        let mut spent = self.spent.map(Duration::from_nanos);
        if let Some(sum) = self.waits.place().and_then(|place| spent.get_mut(place)) {
            *sum += now.since(self.since);
        }
        spent
    }
}

impl Clock {
    /// Changes the reason for waiting.
    fn turns_to(&mut self, waits: Waits, now: Instant) {
        if let Some(sum) = self.waits.place().and_then(|place| self.spent.get_mut(place)) {
            *sum += now.ns().saturating_sub(self.since.ns());
        }
        (self.waits, self.since) = (waits, now);
    }
}

impl Tcb {
    /// Returns the times at `now`.
    #[must_use]
    pub fn times(&self, now: Instant) -> Times {
        let [path, shut_out, full] = self.clock.spent(now);
        Times {
            data_sent: now.since(self.spoke),
            data_came: now.since(self.clock.data),
            ack_came: now.since(self.clock.ack),
            busy: path + shut_out + full,
            shut_out,
            full,
        }
    }

    /// Notes what the data waits for that is left when all was sent that can be.
    pub(super) fn note_what_it_waits_for(&mut self, now: Instant) {
        let waits = self.waits_for();
        if waits != self.clock.waits {
            self.clock.turns_to(waits, now);
        }
    }

    fn waits_for(&self) -> Waits {
        if self.outgoing.is_empty() || self.state < State::Established {
            return Waits::Idle;
        }
        let behind = self.sent.behind();
        let unsent = self.queued_end.since(behind);
        if unsent == 0 {
            let is_full = self.outgoing.len() >= self.send_buffer as usize;
            return if is_full { Waits::Room } else { Waits::Path };
        }
        let next = unsent.min(self.room());
        let has_path = self.congestion_window().saturating_sub(self.pipe()) >= next;
        if has_path && self.right_edge.since(behind) < next { Waits::Window } else { Waits::Path }
    }
}
