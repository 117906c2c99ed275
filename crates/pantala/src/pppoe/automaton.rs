//! The option negotiation automaton of PPP (RFC 1661 §4), for LCP and the protocols of the network layer.
//!
//! The layer below is up for as long as an automaton is used; one that is begun anew is another one. What ends a session is
//! sent by the client, so that no state waits for the answer to a Terminate-Request.

use wire::ppp::{Options, View, code};

/// Milliseconds until a request is sent again (Restart timer).
const RESTART: u64 = 3_000;
/// Requests without an answer until the peer is given up (Max-Configure).
const CONFIGURE_MAX: u8 = 10;
/// Naks until what is not acceptable is rejected instead (Max-Failure).
const FAILURE_MAX: u8 = 5;
/// Naks and rejects of the peer without an agreement until it is given up.
const REFUSALS_MAX: u8 = 20;

/// The options of a protocol.
pub(crate) trait Protocol {
    /// The options that we want.
    fn wanted(&self) -> Vec<u8>;
    /// Judges a request of the peer.
    fn judge(&mut self, options: Options<'_>) -> Verdict;
    /// Takes over what the peer proposes instead; false if there is no way to agree.
    fn nak(&mut self, options: Options<'_>) -> bool;
    /// Does without what the peer rejects; false if that is not possible.
    fn reject(&mut self, options: Options<'_>) -> bool;
}

/// The verdict on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All is acceptable.
    Ack,
    /// These values are acceptable instead.
    Nak(Vec<u8>),
    /// These options are not known.
    Reject(Vec<u8>),
    /// There is no way to agree.
    Hopeless,
}

/// The state of an automaton.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Has not begun, or has ended; a request of the peer does not begin it.
    Closed,
    /// Has ended; a request of the peer begins it again.
    Stopped,
    /// A request was sent.
    ReqSent,
    /// … and acknowledged.
    AckRcvd,
    /// … and that of the peer was acknowledged.
    AckSent,
    /// Both have agreed.
    Opened,
}

/// A change of the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Both have agreed.
    Up,
    /// They negotiate again.
    Down,
    /// It has ended.
    Finished(Why),
}

/// The reason for the end of an automaton.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The peer does not answer.
    Timeout,
    /// The peer and we cannot agree.
    NoAgreement,
    /// The peer has ended it.
    Terminated,
    /// The peer does not know what is needed.
    Rejected,
}

/// The result of an event: packets to send, and a change of the layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reaction {
    pub(crate) send: Vec<Vec<u8>>,
    pub(crate) events: Vec<Event>,
}

/// An automaton.
#[derive(Clone, Debug)]
pub(crate) struct Automaton {
    pub(crate) state: State,
    id: u8,
    /// The options of the last request.
    asked: Vec<u8>,
    requests_left: u8,
    naks_left: u8,
    refusals_left: u8,
    /// When the request is sent again.
    pub(crate) at: u64,
}

impl Default for Automaton {
    fn default() -> Self {
        let (state, asked, at) = (State::Closed, Vec::new(), u64::MAX);
        Self {
            state,
            id: 0,
            asked,
            requests_left: 0,
            naks_left: FAILURE_MAX,
            refusals_left: REFUSALS_MAX,
            at,
        }
    }
}

impl Automaton {
    /// Begins to negotiate.
    pub(crate) fn open(&mut self, protocol: &impl Protocol, now: u64) -> Reaction {
        self.state = State::ReqSent;
        (self.naks_left, self.refusals_left) = (FAILURE_MAX, REFUSALS_MAX);
        let mut reaction = Reaction::default();
        self.request(protocol, now, &mut reaction);
        reaction
    }

    /// Ends without a word.
    pub(crate) fn close(&mut self) {
        (self.state, self.at) = (State::Closed, u64::MAX);
    }

    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.state, State::Opened)
    }

    /// A packet of the protocol came, of one of the codes from Configure-Request to Code-Reject.
    pub(crate) fn arrived(&mut self, packet: &View<'_>, protocol: &mut impl Protocol, now: u64) -> Reaction {
        let mut reaction = Reaction::default();
        match packet.code {
            code::CONFIGURE_REQUEST => self.asked_by_peer(packet, protocol, now, &mut reaction),
            code::CONFIGURE_ACK if self.is_answer(packet) && packet.data == self.asked => {
                self.acknowledged(protocol, now, &mut reaction);
            }
            code::CONFIGURE_NAK | code::CONFIGURE_REJECT if self.is_answer(packet) => {
                self.refused(packet, protocol, now, &mut reaction);
            }
            code::TERMINATE_REQUEST => self.terminated(packet, &mut reaction),
            code::TERMINATE_ACK => self.terminate_acknowledged(protocol, now, &mut reaction),
            code::CODE_REJECT => self.code_rejected(packet, &mut reaction),
            _ => {}
        }
        reaction
    }

    /// Does what is due.
    pub(crate) fn due(&mut self, now: u64) -> Reaction {
        let mut reaction = Reaction::default();
        if self.at > now {
            return reaction;
        }
        if self.requests_left == 0 {
            self.finish(Why::Timeout, &mut reaction);
            return reaction;
        }
        if self.state == State::AckRcvd {
            self.state = State::ReqSent;
        }
        self.requests_left -= 1;
        self.at = now + RESTART;
        reaction.send.extend([self.last_request()]);
        reaction
    }

    fn last_request(&self) -> Vec<u8> {
        packet(code::CONFIGURE_REQUEST, self.id, &self.asked)
    }

    const fn is_negotiating(&self) -> bool {
        matches!(self.state, State::ReqSent | State::AckRcvd | State::AckSent)
    }

    fn is_answer(&self, packet: &View<'_>) -> bool {
        (self.is_negotiating() || self.is_open()) && packet.id == self.id
    }

    /// Sends a new request.
    fn request(&mut self, protocol: &impl Protocol, now: u64, reaction: &mut Reaction) {
        self.id = self.id.wrapping_add(1);
        self.asked = protocol.wanted();
        self.requests_left = CONFIGURE_MAX - 1;
        self.at = now + RESTART;
        reaction.send.push(self.last_request());
    }

    /// The layer goes down, and is negotiated anew.
    fn again(&mut self, protocol: &impl Protocol, now: u64, reaction: &mut Reaction) {
        if self.is_open() {
            reaction.events.push(Event::Down);
        }
        self.state = State::ReqSent;
        self.request(protocol, now, reaction);
    }

    fn up(&mut self, reaction: &mut Reaction) {
        (self.state, self.at) = (State::Opened, u64::MAX);
        (self.naks_left, self.refusals_left) = (FAILURE_MAX, REFUSALS_MAX);
        reaction.events.push(Event::Up);
    }

    fn finish(&mut self, why: Why, reaction: &mut Reaction) {
        (self.state, self.at) = (State::Stopped, u64::MAX);
        reaction.events.push(Event::Finished(why));
    }

    fn asked_by_peer(
        &mut self,
        asked: &View<'_>,
        protocol: &mut impl Protocol,
        now: u64,
        reaction: &mut Reaction,
    ) {
        let Ok(options) = asked.options() else { return };
        match self.state {
            State::Closed => return reaction.send.push(packet(code::TERMINATE_ACK, asked.id, &[])),
            State::Stopped | State::Opened => self.again(protocol, now, reaction),
            State::ReqSent | State::AckRcvd | State::AckSent => {}
        }
        let (answer, data) = match protocol.judge(options) {
            Verdict::Ack => (code::CONFIGURE_ACK, asked.data.to_vec()),
            Verdict::Nak(better) if self.naks_left > 0 => (code::CONFIGURE_NAK, better),
            // What is not acceptable time and again is not negotiable.
            Verdict::Nak(worse) => (code::CONFIGURE_REJECT, all_of(options, &worse)),
            Verdict::Reject(unknown) => (code::CONFIGURE_REJECT, unknown),
            Verdict::Hopeless => return self.finish(Why::NoAgreement, reaction),
        };
        reaction.send.push(packet(answer, asked.id, &data));
        if answer == code::CONFIGURE_NAK {
            self.naks_left -= 1;
        }
        match (self.state, answer == code::CONFIGURE_ACK) {
            (State::AckRcvd, true) => self.up(reaction),
            (State::AckRcvd, false) => {}
            (_, true) => self.state = State::AckSent,
            (_, false) => self.state = State::ReqSent,
        }
    }

    fn acknowledged(&mut self, protocol: &impl Protocol, now: u64, reaction: &mut Reaction) {
        match self.state {
            State::ReqSent => {
                self.requests_left = CONFIGURE_MAX;
                (self.state, self.at) = (State::AckRcvd, now + RESTART);
            }
            State::AckSent => self.up(reaction),
            // Crossed with another one.
            _ => self.again(protocol, now, reaction),
        }
    }

    fn refused(
        &mut self,
        answer: &View<'_>,
        protocol: &mut impl Protocol,
        now: u64,
        reaction: &mut Reaction,
    ) {
        let Ok(options) = answer.options() else { return };
        let can_go_on = match answer.code {
            code::CONFIGURE_NAK => protocol.nak(options),
            _ => protocol.reject(options),
        };
        if !can_go_on || self.refusals_left == 0 {
            return self.finish(Why::NoAgreement, reaction);
        }
        self.refusals_left -= 1;
        match self.state {
            State::AckSent => self.request(protocol, now, reaction),
            _ => self.again(protocol, now, reaction),
        }
    }

    fn terminated(&mut self, request: &View<'_>, reaction: &mut Reaction) {
        reaction.send.push(packet(code::TERMINATE_ACK, request.id, &[]));
        if !matches!(self.state, State::Closed | State::Stopped) {
            self.finish(Why::Terminated, reaction);
        }
    }

    fn terminate_acknowledged(&mut self, protocol: &impl Protocol, now: u64, reaction: &mut Reaction) {
        match self.state {
            State::AckRcvd => self.state = State::ReqSent,
            State::Opened => self.again(protocol, now, reaction),
            _ => {}
        }
    }

    /// The peer does not know a code: fatal if it is one of those that are needed.
    fn code_rejected(&mut self, packet: &View<'_>, reaction: &mut Reaction) {
        let rejected = packet.data.first().copied().unwrap_or(0);
        let is_needed = (code::CONFIGURE_REQUEST..=code::CODE_REJECT).contains(&rejected);
        if is_needed && !matches!(self.state, State::Closed | State::Stopped) {
            self.finish(Why::Rejected, reaction);
        }
    }
}

/// The options of a request that are among these, as they were asked for.
fn all_of(request: Options<'_>, kinds: &[u8]) -> Vec<u8> {
    let kinds = Options::parse(kinds).unwrap_or_default();
    let among = request.iter().filter(|(kind, _)| kinds.get(*kind).is_some());
    among.flat_map(|(kind, value)| option(kind, value)).collect()
}

/// A control packet.
pub(crate) fn packet(code: u8, id: u8, data: &[u8]) -> Vec<u8> {
    let len = u16::try_from(wire::ppp::HEADER_LEN + data.len()).unwrap_or(u16::MAX);
    [&[code, id], &len.to_be_bytes()[..], data].concat()
}

/// An option.
pub(crate) fn option(kind: u8, value: &[u8]) -> Vec<u8> {
    let len = u8::try_from(value.len() + 2).unwrap_or(u8::MAX);
    [&[kind, len], value].concat()
}

#[cfg(test)]
mod tests;
