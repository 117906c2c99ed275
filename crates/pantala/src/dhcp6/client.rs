//! The DHCPv6 client of an interface, as a function of messages and time (RFC 8415 §18.2).
//!
//! Times are milliseconds since 1970: a lease outlives the process. What is leased stays in use while it is renewed, rebound,
//! or asked for anew, until its own lifetimes end or another lease takes its place.

mod bindings;
mod send;
#[cfg(test)]
mod tests;

use core::net::Ipv6Addr;

use wire::dhcp6::{Kind, View, option};

use self::bindings::Bindings;
use super::lease::{Entry, Lease, Params, SEARCH_MAX, SERVERS_MAX};

/// A retransmission: the first time, the longest, and how many messages at the most; 0 if there is no bound (§7.6).
#[derive(Clone, Copy, Debug)]
struct Pace {
    first: u64,
    longest: u64,
    most: u32,
}

const SOLICIT: Pace = Pace { first: 1_000, longest: 3_600_000, most: 0 };
const REQUEST: Pace = Pace { first: 1_000, longest: 30_000, most: 10 };
const CONFIRM: Pace = Pace { first: 1_000, longest: 4_000, most: 0 };
const RENEW: Pace = Pace { first: 10_000, longest: 600_000, most: 0 };
const INFORMATION: Pace = Pace { first: 1_000, longest: 3_600_000, most: 0 };
const DECLINE: Pace = Pace { first: 1_000, longest: 0, most: 4 };
/// `CNF_MAX_RD`: without an answer for so long, what is known is used on.
const CONFIRM_FOR: u64 = 10_000;
/// `SOL_MAX_DELAY` and `INF_MAX_DELAY`.
const DELAY_MAX: u64 = 1_000;
/// Time after a server gave nothing until servers are looked for again.
const AFTER_REFUSAL: u64 = 10_000;
/// The shortest time until a lease is renewed: servers that say less are held to it, so that they cannot make us busy.
const RENEW_MIN: u64 = 5_000;
/// `IRT_DEFAULT` and `IRT_MINIMUM` (§7.6), seconds.
const REFRESH_S: u32 = 86_400;
const REFRESH_MIN_S: u32 = 600;
/// Values of `SOL_MAX_RT` and `INF_MAX_RT` that are believed, seconds (§21.24).
const MAX_RT_S: core::ops::RangeInclusive<u32> = 60..=86_400;
/// The preference that ends the wait for further servers (§18.2.1).
const PREFERENCE_MAX: u8 = 255;

/// Settings of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// An address of its own.
    pub(crate) address: bool,
    /// A prefix; of this length if it may choose, and of any if 0.
    pub(crate) prefix: Option<u8>,
    /// Only when routers say that there is something to ask for.
    pub(crate) by_routers: bool,
    pub(crate) rapid_commit: bool,
}

/// The state of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// There is nothing to ask for.
    Idle,
    Soliciting,
    /// A server's advertisement is asked for.
    Requesting,
    /// The lease of before the start is confirmed, or rebound if it has prefixes.
    Confirming,
    Bound,
    Renewing,
    Rebinding,
    /// An address was found in use.
    Declining(Ipv6Addr),
    /// Parameters alone are asked for.
    Informing,
    Informed,
}

/// The client of an interface.
#[derive(Debug)]
pub(crate) struct Client {
    settings: Settings,
    duid: Vec<u8>,
    iaid: u32,
    random: u64,
    pub(crate) state: State,
    pub(crate) lease: Option<Lease>,
    pub(crate) params: Params,
    /// Flags of routers: addresses, and other parameters, are to be had.
    flags: (bool, bool),
    /// The best advertisement, and then the one that is asked for.
    offer: Option<Offer>,
    xid: u32,
    begun: u64,
    pause: u64,
    attempts: u32,
    longest: [u64; 2],
    /// When something is to be done next.
    at: u64,
    pub(crate) counts: Counts,
}

#[derive(Debug)]
struct Offer {
    server: Vec<u8>,
    entries: Vec<Entry>,
    /// The number of wanted kinds, address and prefix, that it has; then its preference.
    rank: (usize, u8),
}

/// Events that a client has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) replies: u64,
    /// Answers without what was asked for.
    pub(crate) refused: u64,
    /// Messages that could not be read.
    pub(crate) malformed: u64,
    /// Messages that were not for it, not expected or not usable.
    pub(crate) ignored: u64,
    /// Addresses found in use by another host.
    pub(crate) conflicts: u64,
    /// Leases that took the place of others with other prefixes.
    pub(crate) renumbered: u64,
}

/// Something that a client wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Sends a message to all servers.
    Send(Vec<u8>),
    /// Uses what is leased now, and keeps it. Nothing if it has no lease any more.
    Use,
}

impl Client {
    /// Begins, with the lease of before if there is one: it is in use until something else is known of it.
    pub(crate) fn new(
        settings: Settings,
        (duid, iaid): (Vec<u8>, u32),
        known: (Option<Lease>, Params),
        seed: u64,
        now: u64,
    ) -> Self {
        let (lease, params) = known;
        let mut client = Self {
            settings,
            duid,
            iaid,
            random: seed | 1,
            state: State::Idle,
            lease,
            params,
            flags: (false, false),
            offer: None,
            xid: 0,
            begun: now,
            pause: 0,
            attempts: 0,
            longest: [SOLICIT.longest, INFORMATION.longest],
            at: u64::MAX,
            counts: Counts::default(),
        };
        client.forget(now);
        client.reattached(now);
        client
    }

    /// The link may be another one: what is leased is confirmed, or looked for.
    //= https://www.rfc-editor.org/rfc/rfc8415#section-18.2.12
    pub(crate) fn reattached(&mut self, now: u64) {
        if self.lease.is_some() && (self.settings.address || self.settings.prefix.is_some()) {
            self.begin(State::Confirming, now, 0);
        } else {
            self.lease = None;
            self.start(now);
        }
    }

    /// When something is to be done.
    pub(crate) fn next(&self) -> u64 {
        let ends = self.lease.iter().flat_map(|lease| lease.entries.iter().map(|entry| entry.valid));
        ends.min().unwrap_or(u64::MAX).min(self.at)
    }

    /// Routers of the link say whether there is something to ask for (RFC 4861 §4.2).
    pub(crate) fn routers_say(&mut self, managed: bool, other: bool, now: u64) {
        if core::mem::replace(&mut self.flags, (managed, other)) == (managed, other)
            || !self.settings.by_routers
        {
            return;
        }
        let wants_more = matches!(self.state, State::Informing | State::Informed) && self.wants_binding();
        // What is leased stays when a router does not say any more that there are leases.
        if self.state == State::Idle || wants_more {
            self.start(now);
        }
    }

    const fn wants_address(&self) -> bool {
        self.settings.address && (!self.settings.by_routers || self.flags.0)
    }

    const fn wants_prefix(&self) -> bool {
        self.settings.prefix.is_some() && (!self.settings.by_routers || self.flags.0 || self.flags.1)
    }

    const fn wants_binding(&self) -> bool {
        self.wants_address() || self.wants_prefix()
    }

    /// Begins with what is wanted.
    fn start(&mut self, now: u64) {
        let delay = self.draw(DELAY_MAX);
        if self.wants_binding() {
            self.begin(State::Soliciting, now, delay);
        } else if !self.settings.by_routers || self.flags.0 || self.flags.1 {
            self.begin(State::Informing, now, delay);
        } else {
            (self.state, self.at) = (State::Idle, u64::MAX);
        }
    }

    /// Does what is to be done at `now`.
    pub(crate) fn due(&mut self, now: u64) -> Vec<Act> {
        let mut acts = if self.forget(now) { vec![Act::Use] } else { Vec::new() };
        if now < self.at {
            return acts;
        }
        match self.state {
            State::Idle => self.at = u64::MAX,
            State::Soliciting if self.offer.is_some() => {
                self.begin(State::Requesting, now, 0);
                return self.due(now);
            }
            State::Soliciting => acts.push(self.solicit(now)),
            State::Requesting if self.attempts >= REQUEST.most => self.look_again(now, 0),
            State::Requesting => acts.push(self.request(now)),
            // Nothing answers: the lease is in force all the same.
            State::Confirming if now >= self.begun + CONFIRM_FOR => self.go_on(now),
            State::Confirming => {
                // What was known before the start is in force at once.
                acts.extend((self.attempts == 0).then_some(Act::Use));
                acts.push(self.confirm(now));
            }
            State::Bound => {
                self.begin(State::Renewing, now, 0);
                return self.due(now);
            }
            State::Renewing if self.lease.as_ref().is_none_or(|lease| now >= lease.rebind) => {
                self.begin(State::Rebinding, now, 0);
                return self.due(now);
            }
            State::Renewing => acts.push(self.renew(now)),
            State::Rebinding if self.lease.is_none() => self.look_again(now, 0),
            State::Rebinding => acts.push(self.rebind(now)),
            State::Declining(_) if self.attempts >= DECLINE.most => self.look_again(now, 0),
            State::Declining(addr) => acts.push(self.decline(addr, now)),
            State::Informed => {
                self.begin(State::Informing, now, 0);
                return self.due(now);
            }
            State::Informing => acts.push(self.inform(now)),
        }
        acts
    }

    /// Takes a message in.
    pub(crate) fn arrived(&mut self, message: &View<'_>, now: u64) -> Vec<Act> {
        let options = message.options;
        // An information-request needs no client identifier (RFC 8415 §18.2.6); ours always have one.
        let is_ours = message.xid == self.xid && options.duid(option::CLIENT_ID) == Some(&*self.duid);
        let Some(server) = options.duid(option::SERVER_ID).filter(|_| is_ours) else { return self.ignore() };
        match (message.kind, &self.state) {
            (Kind::Advertise, State::Soliciting) => self.advertised(message, server, now),
            (Kind::Reply, State::Soliciting)
                if self.settings.rapid_commit && options.get(option::RAPID_COMMIT).is_some() =>
            {
                self.granted(message, server, now)
            }
            (Kind::Reply, State::Requesting) => self.granted(message, server, now),
            (Kind::Reply, State::Confirming) if self.has_prefixes() => self.extended(message, server, now),
            (Kind::Reply, State::Confirming) => self.confirmed(message, now),
            (Kind::Reply, State::Renewing | State::Rebinding) => self.extended(message, server, now),
            (Kind::Reply, State::Declining(_)) => {
                self.look_again(now, AFTER_REFUSAL);
                Vec::new()
            }
            (Kind::Reply, State::Informing) => {
                self.counts.replies += 1;
                self.take_params(message);
                let refresh_s = options.number(option::REFRESH_TIME).unwrap_or(REFRESH_S).max(REFRESH_MIN_S);
                (self.state, self.at) = (State::Informed, now + u64::from(refresh_s) * 1000);
                vec![Act::Use]
            }
            _ => self.ignore(),
        }
    }

    /// Another host uses an address that was leased.
    pub(crate) fn conflict(&mut self, addr: Ipv6Addr, now: u64) -> Vec<Act> {
        let Some(lease) = &mut self.lease else { return Vec::new() };
        let before = lease.entries.len();
        lease.entries.retain(|entry| !(entry.is_address() && entry.net.addr() == addr));
        if lease.entries.len() == before {
            return Vec::new();
        }
        self.counts.conflicts += 1;
        self.begin(State::Declining(addr), now, 0);
        let mut acts = vec![Act::Use];
        acts.extend(self.due(now));
        acts
    }

    fn has_prefixes(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.prefixes().next().is_some())
    }

    fn ignore(&mut self) -> Vec<Act> {
        self.counts.ignored += 1;
        Vec::new()
    }

    //= https://www.rfc-editor.org/rfc/rfc8415#section-18.2.9
    fn advertised(&mut self, message: &View<'_>, server: &[u8], now: u64) -> Vec<Act> {
        let bindings = Bindings::read(message, self.iaid, now);
        self.take_limits(message);
        let has = |wanted: bool, is_address: bool| {
            usize::from(wanted && bindings.live().any(|entry| entry.is_address() == is_address))
        };
        let found = has(self.wants_address(), true) + has(self.wants_prefix(), false);
        if found == 0 {
            self.counts.refused += 1;
            return Vec::new();
        }
        let preference = message.options.get(option::PREFERENCE).and_then(|value| value.first().copied());
        let rank = (found, preference.unwrap_or(0));
        let is_best = self.offer.as_ref().is_none_or(|offer| rank > offer.rank);
        if is_best {
            let entries = bindings.live().copied().collect();
            self.offer = Some(Offer { server: server.to_vec(), entries, rank });
        }
        // Further servers have the time of the first retransmission.
        if is_best && rank.1 == PREFERENCE_MAX || self.attempts > 1 {
            self.at = now;
        }
        self.due(now)
    }

    /// A server has given what was asked for: it takes the place of all before.
    fn granted(&mut self, message: &View<'_>, server: &[u8], now: u64) -> Vec<Act> {
        self.counts.replies += 1;
        let bindings = Bindings::read(message, self.iaid, now);
        self.take_limits(message);
        let Some(lease) = bindings.lease(server, now) else {
            self.counts.refused += 1;
            self.look_again(now, AFTER_REFUSAL);
            return Vec::new();
        };
        self.take_params(message);
        self.bind(lease)
    }

    /// A server has answered to an extension.
    //= https://www.rfc-editor.org/rfc/rfc8415#section-18.2.10.1
    fn extended(&mut self, message: &View<'_>, server: &[u8], now: u64) -> Vec<Act> {
        self.counts.replies += 1;
        let bindings = Bindings::read(message, self.iaid, now);
        self.take_limits(message);
        if bindings.is_unknown {
            self.counts.refused += 1;
            match self.state {
                State::Renewing => self.ask_anew(server, now),
                _ => self.look_again(now, 0),
            }
            return self.due(now);
        }
        let Some(before) = self.lease.as_ref().filter(|_| !bindings.entries.is_empty()) else {
            self.counts.refused += 1;
            return Vec::new();
        };
        let lease = bindings.merged(before, server, now);
        self.take_params(message);
        match lease {
            Some(lease) => self.bind(lease),
            None => {
                self.lease = None;
                self.look_again(now, 0);
                vec![Act::Use]
            }
        }
    }

    /// A server says whether our addresses are of this link.
    fn confirmed(&mut self, message: &View<'_>, now: u64) -> Vec<Act> {
        self.counts.replies += 1;
        if message.options.status() == wire::dhcp6::status::NOT_ON_LINK {
            self.counts.refused += 1;
            self.lease = None;
            self.look_again(now, 0);
            return vec![Act::Use];
        }
        self.take_params(message);
        self.go_on(now);
        vec![Act::Use]
    }

    fn bind(&mut self, lease: Lease) -> Vec<Act> {
        let differs = |before: &Lease| {
            !before.prefixes().map(|entry| entry.net).eq(lease.prefixes().map(|entry| entry.net))
        };
        self.counts.renumbered += u64::from(self.lease.as_ref().is_some_and(differs));
        (self.state, self.at, self.offer) = (State::Bound, lease.renew, None);
        self.lease = Some(lease);
        vec![Act::Use]
    }

    /// Goes on with the lease that is there.
    fn go_on(&mut self, now: u64) {
        self.state = State::Bound;
        self.at = self.lease.as_ref().map_or(now, |lease| lease.renew.max(now));
    }

    /// Asks the server for what it does not know any more.
    fn ask_anew(&mut self, server: &[u8], now: u64) {
        let entries = self.lease.as_ref().map(|lease| lease.entries.clone()).unwrap_or_default();
        self.offer = Some(Offer { server: server.to_vec(), entries, rank: (0, 0) });
        self.begin(State::Requesting, now, 0);
    }

    /// Looks for servers again.
    fn look_again(&mut self, now: u64, delay: u64) {
        self.offer = None;
        let delay = delay + self.draw(DELAY_MAX);
        self.begin(State::Soliciting, now, delay);
    }

    /// Forgets what has ended; answers whether there is something.
    fn forget(&mut self, now: u64) -> bool {
        let Some(lease) = &mut self.lease else { return false };
        let before = lease.entries.len();
        lease.entries.retain(|entry| entry.valid > now);
        let has_ended = lease.entries.len() < before;
        if lease.entries.is_empty() {
            self.lease = None;
            if matches!(self.state, State::Confirming | State::Bound | State::Renewing | State::Rebinding) {
                self.look_again(now, 0);
            }
        }
        has_ended
    }

    fn take_params(&mut self, message: &View<'_>) {
        let is_usable =
            |addr: &Ipv6Addr| !(addr.is_unspecified() || addr.is_loopback() || addr.is_multicast());
        let list = |code| message.options.addrs(code).filter(is_usable).take(SERVERS_MAX).collect();
        let search = message.options.search().filter(|names| names.len() <= SEARCH_MAX).unwrap_or_default();
        self.params = Params { dns: list(option::DNS), search: search.to_vec(), sntp: list(option::SNTP) };
    }

    fn take_limits(&mut self, message: &View<'_>) {
        for (longest, code) in self.longest.iter_mut().zip([option::SOL_MAX_RT, option::INF_MAX_RT]) {
            let given = message.options.number(code).filter(|seconds| MAX_RT_S.contains(seconds));
            given.into_iter().for_each(|seconds| *longest = u64::from(seconds) * 1000);
        }
    }
}
