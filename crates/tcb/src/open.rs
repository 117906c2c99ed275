//! Data with the SYN (RFC 7413), at both ends.

use wire::tcp::{Cookie, Options};

use super::{Ack, Segment, State, Tcb};
use crate::scoreboard::Sent;
use crate::seq::Seq;
use base::time::Instant;

/// The Fast Open state of a connection; most have none.
#[derive(Debug, Default)]
pub(super) struct FastOpen {
    with: Option<Box<With>>,
    /// A listener has taken data with the SYN: it may be answered before the connection stands.
    pub(super) is_early: bool,
    /// Data that came or went with a SYN was taken.
    pub(super) has_taken: bool,
}

/// The data and options of our SYN.
#[derive(Debug)]
struct With {
    /// A request, a cookie, or one that a listener gives; none any more after a SYN without a reply.
    cookie: Option<Cookie>,
    /// Whether a request or data went with our first SYN.
    has_asked: bool,
    /// Behind the data that went with it.
    behind: Option<Seq>,
    /// The longest segment that the other end takes, as it has said before.
    most: u16,
    opened: Option<Opened>,
}

impl FastOpen {
    fn begin(&mut self, cookie: Cookie, most: u16) {
        let cookie = Some(cookie);
        self.with = Some(Box::new(With { cookie, has_asked: false, behind: None, most, opened: None }));
    }

    /// Behind the data that went with our SYN.
    fn behind(&self) -> Option<Seq> {
        self.with.as_ref()?.behind
    }

    /// Whether what begins at `start` of a connection that stands went with our SYN, and is sent again.
    pub(super) fn has_sent(&mut self, start: Seq) -> bool {
        let Some(with) = &mut self.with else { return false };
        // Once past it, it is forgotten: numbers come round.
        with.behind = with.behind.filter(|behind| start.is_before(*behind));
        with.behind.is_some()
    }
}

/// The result of Fast Open, for the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The cookie that the other end has given, if it has.
    pub cookie: Option<Cookie>,
    /// Bytes that went with a SYN and were taken, if what went with it was.
    pub taken: Option<u32>,
    /// The longest segment that the other end takes, if it has answered.
    pub mss: Option<u16>,
}

impl Tcb {
    /// Asks for a cookie with the SYN, or brings one and with it what was sent by then; to be called before the first
    /// [`Self::output`]. The SYN is no longer than `most`, which is what the other end has said with its cookie.
    //= https://www.rfc-editor.org/rfc/rfc7413#section-4.1.3
    #[inline]
    pub fn open_fast(&mut self, cookie: Cookie, most: u16) {
        self.open.begin(cookie, most);
    }

    /// Bytes that may go with our SYN, its options included; `None` if it brings no cookie, and so no data.
    #[inline]
    #[must_use]
    pub fn room_with_syn(&self) -> Option<u16> {
        let with = self.open.with.as_ref()?;
        with.cookie.filter(|cookie| !cookie.is_request()).map(|_| self.path_mss.min(with.most))
    }

    /// Returns the result, once, when it is known.
    #[inline]
    pub fn opened(&mut self) -> Option<Opened> {
        self.open.with.as_mut()?.opened.take()
    }

    /// A listener's connection takes `payload`, which came with a SYN and a cookie of ours; to be called before the first
    /// [`Self::output`]. What is sent need not wait until the connection stands.
    #[inline]
    pub fn take_early(&mut self, payload: &[u8]) {
        let room = payload.len().min(self.window() as usize);
        if self.receive.arrive(self.receive.next(), &payload[..room], false).is_ok() {
            self.open.is_early = true;
            self.open.has_taken = room > 0;
            self.ack = Ack::Now;
        }
    }

    /// A listener's connection gives a cookie with its SYN.
    #[inline]
    pub fn give_cookie(&mut self, cookie: Cookie) {
        self.open.begin(cookie, u16::MAX);
    }

    /// The cookie for `options` of our SYN, and behind which byte the data ends that goes with it.
    pub(super) fn open_with(&mut self, options: &mut Options) -> Seq {
        let stream = self.stream();
        let room = self.room_with_syn();
        let Some(with) = &mut self.open.with else { return stream };
        let is_ours = self.state == State::SynSent;
        options.fast_open = with.cookie.filter(|_| self.is_passive || is_ours);
        if with.cookie.is_none() || !is_ours {
            return stream;
        }
        with.has_asked = true;
        let Some(room) = room else { return stream };
        let most = usize::from(room).saturating_sub(options.len());
        let behind = stream + u32::try_from(self.outgoing.len().min(most)).unwrap_or(0);
        with.behind = Some(behind);
        behind
    }

    /// Handles a SYN without a reply: perhaps because of the new option in it.
    //= https://www.rfc-editor.org/rfc/rfc7413#section-4.1.3.1
    pub(super) fn open_plainly(&mut self) {
        if self.state == State::SynSent
            && let Some(with) = &mut self.open.with
            && with.cookie.take().is_some()
        {
            self.sent = Sent::new(self.iss);
            with.opened = Some(Opened { cookie: None, taken: None, mss: None });
        }
    }

    /// Behind what an answer to our SYN can acknowledge.
    pub(super) fn opened_until(&self) -> Seq {
        let behind = self.sent.behind();
        self.open.behind().map_or(behind, |opened| opened.max(behind))
    }

    /// Our SYN is acknowledged, and what went with it or not.
    pub(super) fn take_answer(&mut self, segment: &Segment<'_>, now: Instant) {
        let ack = Seq(segment.header.ack);
        if ack.is_after(self.sent.behind()) {
            // The first one has arrived after all, with its data.
            self.sent.send(self.sent.behind(), ack, now);
        }
        let had = self.sent.first().max(self.stream());
        let heard = self.heard(segment, false, now);
        self.tally.delivered(u32::from(heard.delivered > 0), false);
        self.outgoing.forget(self.sent.first().since(had) as usize);
        let opened = self.open.behind();
        let taken = opened.filter(|behind| !ack.is_before(*behind)).map(|behind| behind.since(self.stream()));
        if self.state == State::SynSent && opened.is_some() && taken.is_none() {
            // It is as if it had not been sent.
            self.sent = Sent::new(ack);
        }
        self.open.has_taken |= taken > Some(0);
        if let Some(with) = self.open.with.as_mut().filter(|with| with.has_asked) {
            let cookie = segment.header.options.fast_open.filter(|cookie| !cookie.is_request());
            with.opened = Some(Opened { cookie, taken, mss: Some(self.agreed.mss) });
        }
    }
}
