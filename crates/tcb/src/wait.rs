//! TIME-WAIT: what remains of a connection until all that is under way of it has died out (RFC 9293 §3.10.7.4).

use wire::tcp::{Flags, Header, Options};

use super::options::UNSIGNED;
use super::{Segment, Stamps, State, Tcb};
use crate::budget::Budget;
use crate::seq::Seq;
use base::time::{Duration, Instant};

/// A connection in TIME-WAIT.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// Behind all that we have sent, and all that the other end has.
    sent: Seq,
    next: Seq,
    window: u16,
    has_stamps: bool,
    /// Whether segments carry a signature (RFC 2385).
    pub signs: bool,
    stamps: Stamps,
    lasts_ms: u32,
    until: Instant,
    budget: Budget,
}

/// The reply to a segment in TIME-WAIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeWaitAction {
    /// Nothing.
    Nothing,
    /// The other end sends again what was lost to it: this acknowledgment.
    Ack(Header),
    /// An acknowledgment, but the budget is used up.
    Withheld,
    /// The other end begins anew.
    Again,
}

impl Default for Wait {
    fn default() -> Self {
        Self {
            sent: Seq(0),
            next: Seq(0),
            window: 0,
            has_stamps: false,
            signs: false,
            stamps: Stamps::from(0),
            lasts_ms: 0,
            until: Instant::START,
            budget: Budget::default(),
        }
    }
}

impl Wait {
    /// Makes the entry of `tcb`; `None` if it does not wait.
    #[must_use]
    pub fn of(tcb: &Tcb) -> Option<Self> {
        let until = tcb.timers.gone.filter(|_| tcb.state == State::TimeWait)?;
        Some(Self {
            sent: tcb.sent.behind(),
            next: tcb.receive.next(),
            window: tcb.header(Flags::ACK, tcb.sent.behind()).window,
            has_stamps: tcb.agreed.timestamps,
            signs: tcb.settings.signs,
            stamps: tcb.stamps,
            lasts_ms: u32::try_from((tcb.settings.msl * 2).as_millis()).unwrap_or(u32::MAX),
            until,
            budget: tcb.budget,
        })
    }

    /// When it is over.
    #[inline]
    pub fn until(&self) -> Instant {
        self.until
    }

    /// Behind all that we have sent: where the next connection of these ends may begin, at the earliest.
    #[inline]
    pub fn behind(&self) -> Seq {
        self.sent
    }

    /// Takes a segment in.
    pub fn arrive(&mut self, segment: &Segment<'_>, now: Instant) -> TimeWaitAction {
        let flags = segment.header.flags;
        // RFC 1337 §3: an old duplicate must not end TIME-WAIT.
        if flags.rst() {
            return TimeWaitAction::Nothing;
        }
        if flags.syn() && !flags.ack() && self.begins_anew(segment, now) {
            return TimeWaitAction::Again;
        }
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
        //# The only thing that can arrive in this state is a retransmission of the
        //# remote FIN.  Acknowledge it, and restart the 2 MSL timeout.
        if flags.fin() {
            self.until = now + Duration::from_millis(self.lasts_ms.into());
        }
        let has_sequence = flags.syn() || flags.fin() || !segment.payload.is_empty();
        if !has_sequence && Seq(segment.header.seq) == self.next {
            return TimeWaitAction::Nothing;
        }
        if segment.payload.is_empty() && !self.budget.allows(now) {
            TimeWaitAction::Withheld
        } else {
            TimeWaitAction::Ack(self.ack(segment.header, now))
        }
    }

    /// Whether a SYN is of a new connection for sure.
    //= https://www.rfc-editor.org/rfc/rfc6191#section-2
    fn begins_anew(&self, segment: &Segment<'_>, now: Instant) -> bool {
        match segment.header.options.timestamps.filter(|_| self.has_stamps) {
            Some((stamp, _)) if stamp != self.stamps.echo() => !self.stamps.is_old(stamp, now),
            _ => Seq(segment.header.seq).is_after(self.next),
        }
    }

    fn ack(&self, to: &Header, now: Instant) -> Header {
        let timestamps = self.has_stamps.then(|| (self.stamps.at(now), self.stamps.echo()));
        Header {
            src_port: to.dst_port,
            dst_port: to.src_port,
            seq: self.sent.0,
            ack: self.next.0,
            flags: Flags::ACK,
            window: self.window,
            urgent: 0,
            options: Options { timestamps, signature: self.signs.then_some(UNSIGNED), ..Options::NONE },
        }
    }
}
