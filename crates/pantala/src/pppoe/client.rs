//! The PPPoE client of an interface, as a function of frames and time.
//!
//! Times are milliseconds. Whatever ends a session, another one is looked for: at once when the link comes up, else after a pause
//! that grows with each failure and is never the same.

mod session;
#[cfg(test)]
mod tests;

use core::fmt;

use wire::Mac;
use wire::ether::EtherType;
use wire::pppoe::{View, code};

use self::session::Session;
pub(crate) use self::session::{Ipv4, Ipv6};
use super::discovery::{self, Answer, Offer, Question, Wanted};
use super::lcp::{self, Auth};

/// The first wait for an answer of discovery, and the longest, milliseconds.
const DISCOVERY_FIRST: u64 = 1_000;
const DISCOVERY_MAX: u64 = 32_000;
/// Requests to one access concentrator until others are looked for again.
const REQUESTS_MAX: u32 = 4;
/// The first pause after a failure, and the longest, milliseconds.
const PAUSE_FIRST: u64 = 1_000;
const PAUSE_MAX: u64 = 60_000;
/// The first pause after a wrong password: each attempt may count against the user.
const PAUSE_DENIED: u64 = 10_000;
/// A session that was open for so long is not a failure when it ends.
const STEADY: u64 = 30_000;

/// Settings of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) wanted: Wanted,
    /// Name and password, if there are any.
    pub(crate) user: Option<(String, Password)>,
    pub(crate) auth: Auth,
    /// Whether name servers are asked for.
    pub(crate) dns: bool,
    /// The largest packet.
    pub(crate) mru: u16,
    /// Milliseconds between two echo requests; 0 for none.
    pub(crate) echo_interval: u64,
    /// Echo requests without an answer until the session is given up.
    pub(crate) echo_failures: u32,
    /// Our link address: it makes our interface identifier.
    pub(crate) mac: [u8; 6],
}

/// A password, which is shown nowhere.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Password(pub String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// The phase of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The interface below is down.
    Down,
    /// Pauses after a failure.
    Waiting,
    /// Looks for an access concentrator.
    Discovery,
    /// Asks one for a session.
    Request,
    /// Negotiates LCP.
    Establish,
    /// Authenticates itself.
    Authenticate,
    /// Negotiates addresses.
    Network,
    /// Carries packets.
    Open,
}

impl Phase {
    /// Its word.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Waiting => "waiting",
            Self::Discovery => "discovery",
            Self::Request => "request",
            Self::Establish => "establish",
            Self::Authenticate => "authenticate",
            Self::Network => "network",
            Self::Open => "open",
        }
    }
}

/// Something that a client wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Sends a frame.
    Send { to: Mac, ethertype: EtherType, message: Vec<u8> },
    /// Another link is in force, or none any more: see [`Client::link`].
    Use,
    /// The session has ended, or there was none: an error that is not the last one.
    Failed(String),
}

/// Events that a client has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Frames that could not be read.
    pub(crate) malformed: u64,
    /// Frames of other sessions or senders, or not expected.
    pub(crate) ignored: u64,
    /// Sessions that were begun.
    pub(crate) sessions: u64,
    /// Echo requests without an answer.
    pub(crate) echo_lost: u64,
}

/// The link of a session that carries packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) session: u16,
    pub(crate) remote: Mac,
    pub(crate) mtu: u16,
    pub(crate) v4: Option<Ipv4>,
    pub(crate) v6: Option<Ipv6>,
}

/// The client of an interface.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) settings: Settings,
    random: u64,
    state: State,
    /// Times that the question of discovery was sent.
    attempts: u32,
    /// Failures since a session was steady.
    failures: u32,
    /// When something is to be done next, beside what the session says.
    at: u64,
    /// Why the last session ended, or there was none.
    pub(crate) last_error: Option<String>,
    pub(crate) counts: Counts,
}

#[derive(Debug)]
enum State {
    Down,
    Waiting,
    Discovery(Question),
    Request(Question, Offer),
    Session(Box<Session>, Offer),
}

impl Client {
    /// Begins with the link down.
    pub(crate) fn new(settings: Settings, seed: u64) -> Self {
        let (state, at, counts) = (State::Down, u64::MAX, Counts::default());
        Self { settings, random: seed | 1, state, attempts: 0, failures: 0, at, last_error: None, counts }
    }

    /// The phase that it is in.
    pub(crate) fn phase(&self) -> Phase {
        match &self.state {
            State::Down => Phase::Down,
            State::Waiting => Phase::Waiting,
            State::Discovery(_) => Phase::Discovery,
            State::Request(..) => Phase::Request,
            State::Session(session, _) => session.phase(),
        }
    }

    /// The session's number, the access concentrator's name, and when the session has opened.
    pub(crate) fn session(&self) -> Option<(u16, &str, Option<u64>)> {
        match &self.state {
            State::Session(session, offer) => Some((session.id, &offer.name, session.since)),
            _ => None,
        }
    }

    /// The link address of the access concentrator that is spoken to.
    pub(crate) fn remote(&self) -> Option<Mac> {
        match &self.state {
            State::Session(_, offer) | State::Request(_, offer) => Some(offer.mac),
            _ => None,
        }
    }

    /// The link, if the session carries packets.
    pub(crate) fn link(&self) -> Option<Link> {
        let State::Session(session, offer) = &self.state else { return None };
        let (v4, v6) = (session.ipv4(), session.ipv6());
        let (id, mtu) = (session.id, session.mtu());
        (v4.is_some() || v6.is_some()).then_some(Link { session: id, remote: offer.mac, mtu, v4, v6 })
    }

    /// When something is to be done.
    pub(crate) fn next(&self) -> u64 {
        match &self.state {
            State::Session(session, _) => session.next(),
            _ => self.at,
        }
    }

    /// The interface below came up, or went down.
    pub(crate) fn carrier(&mut self, is_up: bool, now: u64) -> Vec<Act> {
        let mut acts = Vec::new();
        match (is_up, &self.state) {
            (true, State::Down) => {
                self.failures = 0;
                self.discover(now, &mut acts);
            }
            (false, State::Down) | (true, _) => {}
            (false, _) => {
                self.end("the interface below is down", false, now, &mut acts);
                (self.state, self.at) = (State::Down, u64::MAX);
            }
        }
        acts
    }

    /// Ends the session, with a word to the access concentrator.
    pub(crate) fn stop(&mut self, now: u64) -> Vec<Act> {
        let mut acts = Vec::new();
        let last_error = self.last_error.take();
        self.end("ended", true, now, &mut acts);
        // That is no failure.
        acts.retain(|act| !matches!(act, Act::Failed(_)));
        (self.state, self.at, self.last_error) = (State::Down, u64::MAX, last_error);
        acts
    }

    /// A frame came that is no packet of the network layer; answers whether it was for this client.
    pub(crate) fn arrived(
        &mut self,
        from: Mac,
        ethertype: EtherType,
        frame: &[u8],
        now: u64,
    ) -> (bool, Vec<Act>) {
        let mut acts = Vec::new();
        let Ok(view) = View::parse(frame) else {
            self.counts.malformed += 1;
            return (false, acts);
        };
        let is_taken = match ethertype {
            EtherType::PPPOE_SESSION => self.session_arrived(from, &view, now, &mut acts),
            _ => self.discovery_arrived(from, &view, now, &mut acts),
        };
        if is_taken {
            self.counts.received += 1;
        } else {
            self.counts.ignored += 1;
        }
        (is_taken, acts)
    }

    /// Does what is due.
    pub(crate) fn due(&mut self, now: u64) -> Vec<Act> {
        let mut acts = Vec::new();
        if let State::Session(session, _) = &mut self.state {
            let outcome = session.due(&self.settings, now);
            self.counts.echo_lost += u64::from(outcome.echo_lost);
            self.follow(outcome, now, &mut acts);
            return acts;
        }
        if self.at > now {
            return acts;
        }
        match &self.state {
            State::Waiting => self.discover(now, &mut acts),
            State::Discovery(_) => self.ask_again(now, &mut acts),
            State::Request(..) if self.attempts < REQUESTS_MAX => self.ask_again(now, &mut acts),
            State::Request(..) => {
                self.fail("no answer to the request for a session", PAUSE_FIRST, now, &mut acts);
            }
            State::Down | State::Session(..) => self.at = u64::MAX,
        }
        acts
    }

    /// Looks for an access concentrator.
    fn discover(&mut self, now: u64, acts: &mut Vec<Act>) {
        let wanted = self.settings.wanted.clone();
        let question = Question { wanted, host_uniq: self.number().to_be_bytes() };
        self.state = State::Discovery(question);
        self.attempts = 0;
        self.ask_again(now, acts);
    }

    /// Sends the question of discovery, and waits twice as long as the last time.
    fn ask_again(&mut self, now: u64, acts: &mut Vec<Act>) {
        let (to, message) = match &self.state {
            State::Discovery(question) => (Mac::BROADCAST, question.padi()),
            State::Request(question, offer) => (offer.mac, question.padr(offer)),
            _ => return,
        };
        self.send(to, EtherType::PPPOE_DISCOVERY, message, acts);
        let wait = (DISCOVERY_FIRST << self.attempts.min(8)).min(DISCOVERY_MAX);
        self.at = now + self.about(wait);
        self.attempts = self.attempts.saturating_add(1);
    }

    fn discovery_arrived(&mut self, from: Mac, view: &View<'_>, now: u64, acts: &mut Vec<Act>) -> bool {
        match (view.code, &self.state) {
            (code::PADO, State::Discovery(question)) => match question.offer(from, view) {
                Ok(Some(offer)) => {
                    self.state = State::Request(question.clone(), offer);
                    self.attempts = 0;
                    self.ask_again(now, acts);
                    true
                }
                Ok(None) => false,
                Err(why) => {
                    // Others may offer it.
                    self.last_error = Some(why);
                    true
                }
            },
            (code::PADS, State::Request(question, offer)) if offer.mac == from => {
                match question.answer(view) {
                    Some(Answer::Session(id, most)) => self.begin((id, most), now, acts),
                    Some(Answer::Refused(why)) => self.fail(&why, PAUSE_FIRST, now, acts),
                    None => return false,
                }
                true
            }
            (code::PADT, State::Session(session, offer))
                if offer.mac == from && session.id == view.session =>
            {
                self.fail("ended by the access concentrator", PAUSE_FIRST, now, acts);
                true
            }
            _ => false,
        }
    }

    /// A session has begun.
    fn begin(&mut self, (id, most): (u16, Option<u16>), now: u64, acts: &mut Vec<Act>) {
        let State::Request(_, offer) = core::mem::replace(&mut self.state, State::Waiting) else { return };
        let seed = self.number();
        let mru = self.settings.mru.min(most.unwrap_or(lcp::MRU));
        let (session, outcome) = Session::begin(id, &self.settings, mru, seed, now);
        self.state = State::Session(Box::new(session), offer);
        self.counts.sessions += 1;
        self.follow(outcome, now, acts);
    }

    fn session_arrived(&mut self, from: Mac, view: &View<'_>, now: u64, acts: &mut Vec<Act>) -> bool {
        let Self { state: State::Session(session, offer), settings, counts, .. } = self else { return false };
        if view.session != session.id || from != offer.mac || view.code != code::SESSION {
            return false;
        }
        match session.arrived(settings, view.payload, now) {
            Some(outcome) => self.follow(outcome, now, acts),
            None => counts.malformed += 1,
        }
        true
    }

    /// Does what a session wants.
    fn follow(&mut self, outcome: session::Outcome, now: u64, acts: &mut Vec<Act>) {
        if let State::Session(session, offer) = &self.state {
            let (id, to) = (session.id, offer.mac);
            for (protocol, packet) in outcome.send {
                let message = discovery::session_frame(id, protocol, &packet);
                self.send(to, EtherType::PPPOE_SESSION, message, acts);
            }
        }
        if let Some(session::Ended { why, is_denied }) = outcome.ended {
            let pause = if is_denied { PAUSE_DENIED } else { PAUSE_FIRST };
            self.end(&why, true, now, acts);
            return self.wait(pause, now);
        }
        if outcome.is_changed {
            acts.push(Act::Use);
        }
    }

    /// Ends what there is because of a failure, and pauses.
    fn fail(&mut self, why: &str, pause: u64, now: u64, acts: &mut Vec<Act>) {
        self.end(why, false, now, acts);
        self.wait(pause, now);
    }

    /// Ends the session, if there is one; tells the access concentrator if that does not know.
    fn end(&mut self, why: &str, tells: bool, now: u64, acts: &mut Vec<Act>) {
        let before = core::mem::replace(&mut self.state, State::Waiting);
        if let State::Session(session, offer) = before {
            if tells {
                let frame =
                    discovery::session_frame(session.id, wire::ppp::protocol::LCP, &session.terminate());
                self.send(offer.mac, EtherType::PPPOE_SESSION, frame, acts);
                self.send(offer.mac, EtherType::PPPOE_DISCOVERY, discovery::padt(session.id), acts);
            }
            if session.since.is_some_and(|since| now.saturating_sub(since) >= STEADY) {
                self.failures = 0;
            }
            acts.push(Act::Use);
        }
        if self.last_error.as_deref() != Some(why) {
            self.last_error = Some(why.to_owned());
        }
        acts.push(Act::Failed(why.to_owned()));
    }

    fn wait(&mut self, first: u64, now: u64) {
        let pause = (first << self.failures.min(8)).min(PAUSE_MAX);
        self.state = State::Waiting;
        self.at = now + self.about(pause);
        self.failures = self.failures.saturating_add(1);
    }

    fn send(&mut self, to: Mac, ethertype: EtherType, message: Vec<u8>, acts: &mut Vec<Act>) {
        self.counts.sent += 1;
        acts.push(Act::Send { to, ethertype, message });
    }

    /// A time that is a fifth shorter or longer, or anything in between: clients that have lost the same link do not come
    /// back together.
    fn about(&mut self, time: u64) -> u64 {
        let fifth = time / 5;
        time - fifth + self.number() % (2 * fifth + 1)
    }

    fn number(&mut self) -> u64 {
        self.random = next_random(self.random);
        self.random
    }
}

/// The next of a sequence of numbers (the mixing of SplitMix64).
pub(super) const fn next_random(last: u64) -> u64 {
    let state = last.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
