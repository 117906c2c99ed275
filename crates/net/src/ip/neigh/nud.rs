//! The state machine of one neighbour: a function of what is heard, and of time.
//!
//! # Spec
//! RFC 4861 §7.2.5, §7.3.3, §10, appendix C; RFC 1122 §2.3.2.1 for ARP.

use wire::ether::Mac;

use crate::base::time::{Duration, Instant};

/// The state of a neighbour entry (RFC 4861 §7.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Asked for, not answered yet.
    Incomplete,
    /// NeighMessage from, in answer to us, within the last half minute or so.
    Reachable,
    /// Not heard from for a while, and not used since.
    Stale,
    /// Used while stale, or doubted by a sender; it has a moment to be heard from by itself.
    Delay,
    /// Being asked whether it is still there.
    Probe,
    /// Set by a person, never overwritten.
    Permanent,
}

/// Questions to all before a neighbour counts as unreachable.
const MAX_MULTICAST_SOLICIT: u8 = 3;
/// Questions to a neighbour itself before its entry dies.
const MAX_UNICAST_SOLICIT: u8 = 3;
/// Questions to a neighbour itself before another host that claims its address is believed.
const MAX_TAKEOVER_SOLICIT: u8 = 2;
const DELAY_FIRST_PROBE: Duration = Duration::from_secs(5);
/// Lifetime of an unused entry: that of BSD's ARP.
const STALE_KEPT: Duration = Duration::from_secs(20 * 60);

/// The moment, how long an answer that is heard now is believed, and how long one is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) now: Instant,
    reachable: Duration,
    /// `RETRANS_TIMER`; ARP: RFC 1122 §2.3.2.1 allows one question per second.
    retrans: Duration,
}

/// A neighbour's link address and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Nud {
    pub(super) state: State,
    /// All zero while incomplete.
    pub(super) mac: Mac,
    /// When [`Nud::tick`] is due.
    pub(super) until: Instant,
    /// Questions sent in this state.
    sent: u8,
    /// Another link address that claims to be the neighbour.
    rival: Option<Mac>,
}

/// The action due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Do {
    Nothing,
    /// Ask all on the link.
    AskAll,
    /// Ask the neighbour itself.
    Ask(Mac),
    /// The entry dies: the neighbour has never answered.
    GiveUp,
    /// The entry dies.
    Forget,
}

/// A neighbour advertisement, as far as it is of interest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Advert {
    pub(crate) mac: Option<Mac>,
    pub(crate) solicited: bool,
    pub(crate) replace: bool,
}

impl Clock {
    /// `random` is any number: it makes neighbours' times differ.
    //= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.2
    //# This value should be a uniformly distributed random value between MIN_RANDOM_FACTOR and MAX_RANDOM_FACTOR times BaseReachableTime milliseconds.
    pub(super) fn new(now: Instant, random: u64, [reachable, retrans]: [Duration; 2]) -> Self {
        let base = u64::try_from(reachable.as_millis()).unwrap_or(u64::MAX).max(1);
        Self { now, reachable: Duration::from_millis(base / 2 + random % base), retrans }
    }
}

impl Nud {
    /// Makes an incomplete entry; the first request is due now.
    pub(super) const fn incomplete(now: Instant) -> Self {
        Self { state: State::Incomplete, mac: Mac::ZERO, until: now, sent: 0, rival: None }
    }

    /// An entry that only a person changes.
    pub(super) const fn permanent(mac: Mac) -> Self {
        Self { state: State::Permanent, mac, until: Instant::NEVER, sent: 0, rival: None }
    }

    /// Returns the part for copies: the link address, and whether its use is to be reported.
    pub(super) fn view(&self) -> Option<(Mac, bool)> {
        (self.state != State::Incomplete).then_some((self.mac, self.state == State::Stale))
    }

    /// Time has come.
    pub(super) fn tick(&mut self, clock: Clock) -> Do {
        match self.state {
            State::Incomplete if self.sent >= MAX_MULTICAST_SOLICIT => Do::GiveUp,
            State::Incomplete => self.asked(clock, Do::AskAll),
            State::Reachable => self.enter_stale(clock),
            State::Stale => Do::Forget,
            State::Delay => self.enter_probe(clock),
            State::Probe => self.probe(clock),
            State::Permanent => Do::Nothing,
        }
    }

    /// A CPU sends to a stale neighbour.
    pub(super) fn used(&mut self, clock: Clock) {
        if self.state == State::Stale {
            self.enter(State::Delay, clock.now + DELAY_FIRST_PROBE);
        }
    }

    /// A sender by way of it gets nothing back. It is probed, but not at once: as many conversations as may fall
    /// silent together, with whatever peers, cost it one probe in that time.
    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.1.4
    pub(super) fn doubted(&mut self, clock: Clock) {
        if matches!(self.state, State::Reachable | State::Stale) {
            self.enter(State::Delay, clock.now + DELAY_FIRST_PROBE);
        }
    }

    /// The neighbour asked us something and said its link address: RFC 4861 §7.2.3.
    pub(super) fn solicited_us(&mut self, mac: Mac, clock: Clock) -> Do {
        if self.state == State::Permanent || self.mac == mac {
            return Do::Nothing;
        }
        self.mac = mac;
        self.enter_stale(clock)
    }

    /// Handles an advertisement of the neighbour: RFC 4861 §7.2.5.
    pub(super) fn advertised(&mut self, advert: Advert, clock: Clock) -> Do {
        match (self.state, advert.mac) {
            (State::Permanent, _) | (State::Incomplete, None) => Do::Nothing,
            (State::Incomplete, Some(mac)) => self.resolved(mac, advert.solicited, clock),
            (state, Some(mac)) if mac != self.mac && !advert.replace => {
                //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.5
                //# a. If the state of the entry is REACHABLE, set it to STALE, but do not update the entry in any other way.
                if state == State::Reachable { self.enter_stale(clock) } else { Do::Nothing }
            }
            (_, mac) => {
                let changed = mac.is_some_and(|mac| mac != self.mac);
                match (advert.solicited, changed) {
                    (false, false) => Do::Nothing,
                    (solicited, _) => self.resolved(mac.unwrap_or(self.mac), solicited, clock),
                }
            }
        }
    }

    /// An ARP packet came from `mac`. `solicited` means that it is an answer, and to us.
    ///
    /// ARP cannot say "I was asked" or "replace", so that any node on the link can take a neighbour's place with one packet. Where
    /// an address is in use it is believed only when the old one does not answer any more.
    pub(super) fn arp(&mut self, mac: Mac, solicited: bool, clock: Clock) -> Do {
        match self.state {
            State::Permanent => Do::Nothing,
            State::Incomplete => self.resolved(mac, solicited, clock),
            _ if mac == self.mac && solicited => self.resolved(mac, true, clock),
            _ if mac == self.mac => Do::Nothing,
            State::Stale => self.resolved(mac, false, clock),
            State::Reachable | State::Delay => {
                self.rival = Some(mac);
                self.enter_probe(clock)
            }
            State::Probe => {
                self.rival = Some(mac);
                Do::Nothing
            }
        }
    }

    /// Whether an advertisement is believed, also in what it says of being a router.
    //= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.5
    pub(super) fn believes(&self, advert: Advert) -> bool {
        match (self.state, advert.mac) {
            (State::Incomplete, mac) => mac.is_some(),
            (_, Some(mac)) => advert.replace || mac == self.mac,
            (_, None) => true,
        }
    }

    /// Whether `mac` is not the one that we send to.
    pub(super) fn is_claimed_by(&self, mac: Mac) -> bool {
        self.state != State::Incomplete && self.mac != mac
    }

    fn resolved(&mut self, mac: Mac, confirmed: bool, clock: Clock) -> Do {
        self.mac = mac;
        if !confirmed {
            return self.enter_stale(clock);
        }
        self.enter(State::Reachable, clock.now + clock.reachable);
        Do::Nothing
    }

    fn enter_stale(&mut self, clock: Clock) -> Do {
        self.enter(State::Stale, clock.now + STALE_KEPT);
        Do::Nothing
    }

    /// Keeps a rival, which only probing decides about.
    fn enter_probe(&mut self, clock: Clock) -> Do {
        let rival = self.rival;
        self.enter(State::Probe, clock.now);
        self.rival = rival;
        self.probe(clock)
    }

    fn probe(&mut self, clock: Clock) -> Do {
        match self.rival {
            Some(rival) if self.sent >= MAX_TAKEOVER_SOLICIT => self.resolved(rival, false, clock),
            None if self.sent >= MAX_UNICAST_SOLICIT => Do::Forget,
            _ => self.asked(clock, Do::Ask(self.mac)),
        }
    }

    fn asked(&mut self, clock: Clock, what: Do) -> Do {
        self.sent += 1;
        self.until = clock.now + clock.retrans;
        what
    }

    const fn enter(&mut self, state: State, until: Instant) {
        self.state = state;
        self.until = until;
        self.sent = 0;
        self.rival = None;
    }
}

#[cfg(test)]
mod tests;
