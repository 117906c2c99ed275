//! ICMP errors about our segments (RFC 5927, RFC 9293 §3.9.2.2).

use super::{Ended, Event, State, Tcb};
use crate::seq::Seq;
use base::time::Instant;

/// The meaning of an ICMP error to the connection whose sequence number it quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// Hard: port or protocol unreachable, prohibited.
    Hard,
    /// It may pass: no way leads there just now, or it takes too long.
    Soft,
    /// It was too long: segments may have at most so many bytes, without headers (RFC 1191, RFC 8201).
    TooBig(u16),
}

/// Segments are never made shorter than this because of what a router says: an attacker's errors would cost us more than
/// they cost him.
const MSS_LEAST: u16 = 216;

impl Tcb {
    /// A router has dropped a segment of ours that begins at `seq`. What is not under way is not believed.
    ///
    /// [`PathError::Hard`] ends a connection that does not stand yet; one that stands goes on, for the error may be a lie
    /// or pass (RFC 5927 §6).
    pub fn path_error(&mut self, seq: u32, error: PathError, now: Instant) {
        let seq = Seq(seq);
        let is_under_way = !seq.is_before(self.sent.first()) && seq.is_before(self.sent.behind());
        if !is_under_way || self.state == State::Closed {
            return;
        }
        match error {
            PathError::TooBig(mss) => self.shorten(mss, seq, now),
            //= https://www.rfc-editor.org/rfc/rfc5927#section-6.1
            PathError::Hard if self.state <= State::SynReceived && self.settings.icmp_may_rst => {
                self.end(Event::ResetCame, Some(Ended::Refused))
            }
            PathError::Hard | PathError::Soft => self.doubt = Some(error),
        }
    }

    /// Whether a segment that begins at `seq` can have left lately: within what is under way, or behind it as one without data.
    #[inline]
    pub fn can_have_sent(&self, seq: u32) -> bool {
        let seq = Seq(seq);
        let is_within = !seq.is_before(self.sent.first()) && !self.sent.behind().is_before(seq);
        is_within && self.state != State::Closed
    }

    /// Why nothing was heard for too long.
    pub(super) fn silence(&self) -> Ended {
        if self.doubt.is_some() { Ended::Unreachable } else { Ended::TimedOut }
    }

    /// Segments are at most `mss` bytes long from now on, and what is under way is sent again, if any of it can have been
    /// longer: a SYN was not. It is no congestion.
    //= https://www.rfc-editor.org/rfc/rfc1191#section-6.4
    fn shorten(&mut self, mss: u16, seq: Seq, now: Instant) {
        let mss = mss.max(MSS_LEAST);
        self.path.at_most(mss, self.path_mss, seq, now);
        if mss >= self.path_mss {
            return;
        }
        self.path_mss = mss;
        self.congestion.set_mss(self.mss());
        if self.sent.unacknowledged() > self.room() {
            self.sent.lose_all();
        }
    }
}
