//! A PPPoE session of the client: PPP from LCP to the protocols of the network layer, and the echo that finds a dead peer.

use core::net::{Ipv4Addr, Ipv6Addr};

use wire::ppp::{self, View, chap, code, pap, protocol};

use super::{Phase, Settings};
use crate::pppoe::automaton::{Automaton, Event, Reaction, State, Why, packet};
use crate::pppoe::discovery::text;
use crate::pppoe::ipcp::Ipcp;
use crate::pppoe::ipv6cp::{Ipv6cp, link_local};
use crate::pppoe::lcp::{Lcp, Method};

/// Milliseconds until a request of PAP is sent again, and how often.
const PAP_AGAIN: u64 = 3_000;
const PAP_MAX: u8 = 10;
/// Milliseconds for which a challenge, or the verdict on the answer to it, is waited for.
const CHAP_PATIENCE: u64 = 30_000;
/// Bytes of a rejected packet that are quoted.
const QUOTE_MAX: usize = 1_400;

/// The results of IPCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ipv4 {
    pub(crate) addr: Ipv4Addr,
    pub(crate) peer: Option<Ipv4Addr>,
    pub(crate) dns: Vec<Ipv4Addr>,
}

/// The results of IPV6CP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ipv6 {
    pub(crate) id: u64,
    pub(crate) peer: Option<Ipv6Addr>,
}

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: u16,
    lcp: Automaton,
    lcp_options: Lcp,
    ipcp: Automaton,
    ipcp_options: Ipcp,
    ipv6cp: Automaton,
    ipv6cp_options: Ipv6cp,
    auth: Auth,
    echo: Echo,
    /// The identifier of packets that are no answers.
    next_id: u8,
    /// When it has begun to carry packets.
    pub(super) since: Option<u64>,
}

/// Authentication of ourselves.
#[derive(Debug, PartialEq, Eq)]
enum Auth {
    /// LCP is not open, or the peer does not ask for it.
    None,
    /// A request of PAP was sent: its identifier, how often it is sent again, and when.
    Pap { id: u8, left: u8, at: u64 },
    /// A challenge, or the verdict on our answer, is waited for until then.
    Chap { until: u64 },
    /// The peer has accepted it.
    Done,
}

/// Whether the peer is there.
#[derive(Debug)]
struct Echo {
    id: u8,
    /// Requests without an answer.
    missed: u32,
    at: u64,
}

/// The outcome of an event of a session.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Packets, by their protocols.
    pub(super) send: Vec<(u16, Vec<u8>)>,
    /// Whether it carries other packets than before.
    pub(super) is_changed: bool,
    pub(super) echo_lost: bool,
    pub(super) ended: Option<Ended>,
}

/// The end of a session.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) why: String,
    /// Whether the peer does not accept name and password.
    pub(super) is_denied: bool,
}

impl Outcome {
    fn end(&mut self, why: impl Into<String>) {
        let why = why.into();
        self.ended.get_or_insert(Ended { why, is_denied: false });
    }

    fn deny(&mut self, why: String) {
        self.ended = Some(Ended { why, is_denied: true });
    }
}

impl Session {
    /// Begins with LCP.
    pub(super) fn begin(id: u16, settings: &Settings, mru: u16, seed: u64, now: u64) -> (Self, Outcome) {
        let auth = settings.user.as_ref().map(|_| settings.auth);
        let mut session = Self {
            id,
            lcp: Automaton::default(),
            lcp_options: Lcp::new(auth, mru, seed),
            ipcp: Automaton::default(),
            ipcp_options: Ipcp::new(settings.dns),
            ipv6cp: Automaton::default(),
            ipv6cp_options: Ipv6cp::new(identifier(settings.mac), seed),
            auth: Auth::None,
            echo: Echo { id: 0, missed: 0, at: u64::MAX },
            next_id: 0,
            since: None,
        };
        let mut outcome = Outcome::default();
        let reaction = session.lcp.open(&session.lcp_options, now);
        session.lcp_reacts(reaction, settings, now, &mut outcome);
        (session, outcome)
    }

    pub(super) fn phase(&self) -> Phase {
        match self.auth {
            _ if !self.lcp.is_open() => Phase::Establish,
            Auth::Pap { .. } | Auth::Chap { .. } => Phase::Authenticate,
            _ if self.ipcp.is_open() || self.ipv6cp.is_open() => Phase::Open,
            _ => Phase::Network,
        }
    }

    pub(super) fn ipv4(&self) -> Option<Ipv4> {
        let Ipcp { addr, peer, .. } = self.ipcp_options;
        let dns = self.ipcp_options.servers();
        self.ipcp.is_open().then_some(Ipv4 { addr, peer, dns })
    }

    pub(super) fn ipv6(&self) -> Option<Ipv6> {
        let Ipv6cp { id, peer, .. } = self.ipv6cp_options;
        self.ipv6cp.is_open().then_some(Ipv6 { id, peer: peer.map(link_local) })
    }

    /// The largest packet that the peer takes, and that we have offered to take.
    pub(super) fn mtu(&self) -> u16 {
        let own = self.lcp_options.mru.unwrap_or(crate::pppoe::lcp::MRU);
        self.lcp_options.peer_mru.min(own)
    }

    /// When something is to be done.
    pub(super) fn next(&self) -> u64 {
        let auth = match self.auth {
            Auth::Pap { at, .. } => at,
            Auth::Chap { until } => until,
            Auth::None | Auth::Done => u64::MAX,
        };
        self.lcp.at.min(self.ipcp.at).min(self.ipv6cp.at).min(auth).min(self.echo.at)
    }

    /// A request that ends it.
    pub(super) fn terminate(&self) -> Vec<u8> {
        packet(code::TERMINATE_REQUEST, self.next_id, &[])
    }

    /// A frame came: its protocol and what follows. `None` if it cannot be read.
    pub(super) fn arrived(&mut self, settings: &Settings, frame: &[u8], now: u64) -> Option<Outcome> {
        let (number, rest) = frame.split_first_chunk::<2>()?;
        let number = u16::from_be_bytes(*number);
        let mut outcome = Outcome::default();
        // Until LCP is open nothing else is listened to; and until we are authenticated, nothing of the network layer.
        //= https://www.rfc-editor.org/rfc/rfc1661#section-3.4
        let is_up = self.lcp.is_open();
        match number {
            protocol::LCP => self.lcp_arrived(&View::parse(rest).ok()?, settings, now, &mut outcome),
            _ if !is_up => {}
            protocol::PAP => self.pap_arrived(&View::parse(rest).ok()?, now, &mut outcome),
            protocol::CHAP => self.chap_arrived(&View::parse(rest).ok()?, settings, now, &mut outcome)?,
            protocol::IPCP | protocol::IPV6CP if !self.is_network() => {}
            protocol::IPCP | protocol::IPV6CP => {
                self.network_arrived(number, &View::parse(rest).ok()?, now, &mut outcome);
            }
            _ => {
                // Of packets of the network layer only malformed ones come here.
                let quoted = frame.get(..QUOTE_MAX).unwrap_or(frame);
                self.next_id = self.next_id.wrapping_add(1);
                outcome.send.push((protocol::LCP, packet(code::PROTOCOL_REJECT, self.next_id, quoted)));
            }
        }
        Some(outcome)
    }

    /// Does what is due.
    pub(super) fn due(&mut self, settings: &Settings, now: u64) -> Outcome {
        let mut outcome = Outcome::default();
        let reaction = self.lcp.due(now);
        self.lcp_reacts(reaction, settings, now, &mut outcome);
        let reaction = self.ipcp.due(now);
        self.network_reacts(protocol::IPCP, reaction, now, &mut outcome);
        let reaction = self.ipv6cp.due(now);
        self.network_reacts(protocol::IPV6CP, reaction, now, &mut outcome);
        match &mut self.auth {
            Auth::Pap { left: 0, at, .. } if *at <= now => outcome.end("no answer to the request of PAP"),
            Auth::Pap { id, left, at } if *at <= now => {
                (*left, *at) = (*left - 1, now + PAP_AGAIN);
                outcome.send.push((protocol::PAP, pap_request(*id, settings)));
            }
            Auth::Chap { until } if *until <= now => outcome.end("no challenge or verdict of CHAP"),
            _ => {}
        }
        if self.echo.at <= now && outcome.ended.is_none() {
            self.echo(settings, now, &mut outcome);
        }
        outcome
    }

    const fn is_network(&self) -> bool {
        self.lcp.is_open() && !matches!(self.auth, Auth::Pap { .. } | Auth::Chap { .. })
    }

    /// Asks whether the peer is there, or gives it up.
    fn echo(&mut self, settings: &Settings, now: u64, outcome: &mut Outcome) {
        if self.echo.missed > 0 {
            outcome.echo_lost = true;
        }
        if self.echo.missed >= settings.echo_failures {
            return outcome.end("no answer to LCP echo requests");
        }
        self.echo.id = self.echo.id.wrapping_add(1);
        (self.echo.missed, self.echo.at) = (self.echo.missed + 1, now + settings.echo_interval);
        let magic = self.lcp_options.magic.to_be_bytes();
        outcome.send.push((protocol::LCP, packet(code::ECHO_REQUEST, self.echo.id, &magic)));
    }

    fn lcp_arrived(&mut self, view: &View<'_>, settings: &Settings, now: u64, outcome: &mut Outcome) {
        match view.code {
            code::ECHO_REQUEST if self.lcp.is_open() => {
                let magic = self.lcp_options.magic.to_be_bytes();
                if magic != [0; 4] && view.data.first_chunk() == Some(&magic) {
                    return outcome.end("the link is looped");
                }
                let data = view.data.get(4..).unwrap_or_default();
                outcome
                    .send
                    .push((protocol::LCP, packet(code::ECHO_REPLY, view.id, &[&magic, data].concat())));
            }
            code::ECHO_REPLY if view.id == self.echo.id => self.echo.missed = 0,
            code::PROTOCOL_REJECT if self.lcp.is_open() => self.protocol_rejected(view, outcome),
            code::ECHO_REQUEST | code::ECHO_REPLY | code::DISCARD_REQUEST | code::PROTOCOL_REJECT => {}
            code::CONFIGURE_REQUEST..=code::CODE_REJECT => {
                let reaction = self.lcp.arrived(view, &mut self.lcp_options, now);
                self.lcp_reacts(reaction, settings, now, outcome);
            }
            _ => self.reject_code(protocol::LCP, view, outcome),
        }
    }

    fn network_arrived(&mut self, number: u16, view: &View<'_>, now: u64, outcome: &mut Outcome) {
        let reaction = match (view.code, number) {
            (code::CONFIGURE_REQUEST..=code::CODE_REJECT, protocol::IPCP) => {
                self.ipcp.arrived(view, &mut self.ipcp_options, now)
            }
            (code::CONFIGURE_REQUEST..=code::CODE_REJECT, _) => {
                self.ipv6cp.arrived(view, &mut self.ipv6cp_options, now)
            }
            _ => return self.reject_code(number, view, outcome),
        };
        self.network_reacts(number, reaction, now, outcome);
    }

    fn reject_code(&mut self, protocol: u16, view: &View<'_>, outcome: &mut Outcome) {
        self.next_id = self.next_id.wrapping_add(1);
        let rejected = packet(view.code, view.id, view.data.get(..QUOTE_MAX).unwrap_or(view.data));
        outcome.send.push((protocol, packet(code::CODE_REJECT, self.next_id, &rejected)));
    }

    fn protocol_rejected(&mut self, view: &View<'_>, outcome: &mut Outcome) {
        let number = view.data.first_chunk().map(|number| u16::from_be_bytes(*number));
        let own = match number {
            Some(protocol::IPCP | protocol::IPV4) => protocol::IPCP,
            Some(protocol::IPV6CP | protocol::IPV6) => protocol::IPV6CP,
            Some(protocol::LCP | protocol::PAP | protocol::CHAP) => {
                return outcome.end("the peer does not know a protocol that is needed");
            }
            _ => return,
        };
        let automaton = if own == protocol::IPCP { &mut self.ipcp } else { &mut self.ipv6cp };
        let was_open = automaton.is_open();
        automaton.close();
        outcome.is_changed |= was_open;
        self.look_for_network(outcome);
    }

    fn lcp_reacts(&mut self, reaction: Reaction, settings: &Settings, now: u64, outcome: &mut Outcome) {
        outcome.send.extend(reaction.send.into_iter().map(|packet| (protocol::LCP, packet)));
        for event in reaction.events {
            match event {
                Event::Up => self.lcp_up(settings, now, outcome),
                Event::Down => self.network_down(outcome),
                Event::Finished(why) => {
                    self.network_down(outcome);
                    outcome.end(match why {
                        _ if self.lcp_options.is_looped() => "the link is looped",
                        Why::Timeout => "no answer to LCP",
                        Why::NoAgreement => "no agreement about options of LCP",
                        Why::Terminated => "terminated by the peer",
                        Why::Rejected => "the peer does not know a code of LCP",
                    });
                }
            }
        }
    }

    fn network_down(&mut self, outcome: &mut Outcome) {
        outcome.is_changed |= self.ipcp.is_open() || self.ipv6cp.is_open();
        self.ipcp.close();
        self.ipv6cp.close();
        (self.auth, self.echo.at) = (Auth::None, u64::MAX);
    }

    fn lcp_up(&mut self, settings: &Settings, now: u64, outcome: &mut Outcome) {
        if settings.echo_interval > 0 {
            (self.echo.missed, self.echo.at) = (0, now + settings.echo_interval);
        }
        match self.lcp_options.method {
            None => self.network_up(now, outcome),
            Some(Method::Chap) => self.auth = Auth::Chap { until: now + CHAP_PATIENCE },
            Some(Method::Pap) => {
                self.next_id = self.next_id.wrapping_add(1);
                let id = self.next_id;
                self.auth = Auth::Pap { id, left: PAP_MAX - 1, at: now + PAP_AGAIN };
                outcome.send.push((protocol::PAP, pap_request(id, settings)));
            }
        }
    }

    fn network_up(&mut self, now: u64, outcome: &mut Outcome) {
        let reaction = self.ipcp.open(&self.ipcp_options, now);
        self.network_reacts(protocol::IPCP, reaction, now, outcome);
        let reaction = self.ipv6cp.open(&self.ipv6cp_options, now);
        self.network_reacts(protocol::IPV6CP, reaction, now, outcome);
    }

    fn network_reacts(&mut self, number: u16, reaction: Reaction, now: u64, outcome: &mut Outcome) {
        outcome.send.extend(reaction.send.into_iter().map(|packet| (number, packet)));
        for event in reaction.events {
            match event {
                // An address that nothing was given for is none.
                Event::Up if number == protocol::IPCP && self.ipcp_options.addr.is_unspecified() => {
                    self.ipcp.close();
                    self.look_for_network(outcome);
                }
                Event::Up | Event::Down => outcome.is_changed = true,
                Event::Finished(_) => {
                    outcome.is_changed = true;
                    self.look_for_network(outcome);
                }
            }
        }
        if self.ipcp.is_open() || self.ipv6cp.is_open() {
            self.since.get_or_insert(now);
        }
    }

    /// A protocol of the network layer is not negotiated any more: without the other one the session is of no use.
    fn look_for_network(&self, outcome: &mut Outcome) {
        let is_over = |automaton: &Automaton| matches!(automaton.state, State::Closed | State::Stopped);
        if self.is_network() && is_over(&self.ipcp) && is_over(&self.ipv6cp) {
            outcome.end("the peer gives neither an IPv4 nor an IPv6 link");
        }
    }

    fn pap_arrived(&mut self, view: &View<'_>, now: u64, outcome: &mut Outcome) {
        let Auth::Pap { id, .. } = self.auth else { return };
        if view.id != id {
            return;
        }
        let says = ppp::counted(view.data).map(|(says, _)| text(says)).unwrap_or_default();
        match view.code {
            pap::ACK => {
                self.auth = Auth::Done;
                self.network_up(now, outcome);
            }
            pap::NAK => outcome.deny(denied(&says)),
            _ => {}
        }
    }

    /// `None` if it cannot be read.
    fn chap_arrived(
        &mut self,
        view: &View<'_>,
        settings: &Settings,
        now: u64,
        outcome: &mut Outcome,
    ) -> Option<()> {
        if self.lcp_options.method != Some(Method::Chap) {
            return Some(());
        }
        match view.code {
            // The peer may ask again at any time.
            chap::CHALLENGE => {
                let (challenge, _) = ppp::counted(view.data).filter(|(value, _)| !value.is_empty())?;
                let response = chap_response(view.id, challenge, settings);
                outcome.send.push((protocol::CHAP, packet(chap::RESPONSE, view.id, &response)));
            }
            chap::SUCCESS if matches!(self.auth, Auth::Chap { .. }) => {
                self.auth = Auth::Done;
                self.network_up(now, outcome);
            }
            chap::FAILURE => outcome.deny(denied(&text(view.data))),
            _ => {}
        }
        Some(())
    }
}

fn denied(says: &str) -> String {
    if says.is_empty() {
        "authentication failed".to_owned()
    } else {
        format!("authentication failed: {says}")
    }
}

/// Name and password, each behind its length (RFC 1334 §2.2.1).
fn pap_request(id: u8, settings: &Settings) -> Vec<u8> {
    let (user, password) = settings.user.clone().unwrap_or_default();
    let counted = |text: &str| [&[u8::try_from(text.len()).unwrap_or(0)], text.as_bytes()].concat();
    packet(pap::REQUEST, id, &[counted(&user), counted(&password.0)].concat())
}

/// The value, behind its length, and the name (RFC 1994 §4.1).
fn chap_response(id: u8, challenge: &[u8], settings: &Settings) -> Vec<u8> {
    let (user, password) = settings.user.clone().unwrap_or_default();
    let value = md5::compute([&[id], password.0.as_bytes(), challenge].concat());
    [&[16], &value.0[..], user.as_bytes()].concat()
}

/// The identifier that is made of a link address (RFC 4291, appendix A).
fn identifier(mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}
