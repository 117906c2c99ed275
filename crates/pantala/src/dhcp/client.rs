//! The DHCP client of an interface, as a function of messages and time (RFC 2131 §4.4).
//!
//! Times are milliseconds since 1970: a lease outlives the process.

#[cfg(test)]
mod tests;

use core::net::{Ipv4Addr, SocketAddrV4};

use ipnet::Ipv4Net;
use net::dhcp::SERVER;
use wire::ether::Mac;

use super::message::{Kind, Message, option};

/// Options that are asked for.
const PARAMETERS: [u8; 7] = [
    option::SUBNET_MASK,
    option::CLASSLESS_ROUTES,
    option::ROUTER,
    option::DNS,
    option::DOMAIN,
    option::MTU,
    option::BROADCAST_ADDRESS,
];
/// The first retransmission, and the longest time between two, milliseconds (§4.1).
const RETRANSMIT: u64 = 4_000;
const RETRANSMIT_MAX: u64 = 64_000;
/// The shortest time between two attempts to renew (§4.4.5).
const RENEW_AGAIN: u64 = 60_000;
/// Requests for an offered address until it is given up.
const REQUESTS_MAX: u32 = 4;
/// Requests for a remembered address until it is used without an answer.
const REBOOTS_MAX: u32 = 2;
/// Time after an address was declined until another is asked for (§3.1).
const AFTER_DECLINE: u64 = 10_000;
/// The shortest lease, seconds: servers that give less are held to it, so that they cannot make us busy.
const LEASE_MIN: u32 = 30;
/// Routers and name servers that are kept of a lease.
const ADDRS_MAX: usize = 8;
/// Routes that are kept of a lease.
const ROUTES_MAX: usize = 32;

/// A lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// Our address.
    pub(crate) addr: Ipv4Net,
    pub(crate) server: Ipv4Addr,
    pub(crate) routers: Vec<Ipv4Addr>,
    /// Classless routes, which take the place of the routers; 0.0.0.0 is the link itself.
    pub(crate) routes: Vec<(Ipv4Net, Ipv4Addr)>,
    pub(crate) dns: Vec<Ipv4Addr>,
    pub(crate) domain: Option<String>,
    /// When it is to be renewed, rebound, and over.
    pub(crate) renew: u64,
    pub(crate) rebind: u64,
    pub(crate) expires: u64,
}

/// The state of a client, by the names of RFC 2131 §4.4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Init,
    Selecting,
    /// A server's offer is asked for.
    Requesting {
        addr: Ipv4Addr,
        server: Ipv4Addr,
    },
    /// The lease of before the start is confirmed.
    Rebooting(Lease),
    Bound(Lease),
    Renewing(Lease),
    Rebinding(Lease),
}

/// The client of an interface.
#[derive(Debug)]
pub(crate) struct Client {
    mac: Mac,
    hostname: Option<String>,
    pub(crate) state: State,
    xid: u32,
    begun: u64,
    attempts: u32,
    /// When something is to be done.
    pub(crate) at: u64,
    pub(crate) counts: Counts,
}

/// Events that a client has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) acks: u64,
    pub(crate) naks: u64,
    /// Messages that were not for it, not expected or not usable.
    pub(crate) ignored: u64,
    pub(crate) conflicts: u64,
}

/// Something that a client wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Sends a message.
    Send { from: Ipv4Addr, to: SocketAddrV4, message: Message },
    /// Uses this lease, and keeps it.
    Use(Lease),
    /// Uses no address any more.
    Leave,
}

/// A route of a lease: the destination, and the gateway if it is not on the link.
pub(crate) type LeasedRoute = (Ipv4Net, Option<Ipv4Addr>);

impl Lease {
    /// The routes that follow from it.
    //= https://www.rfc-editor.org/rfc/rfc3442
    //# If the DHCP server returns both a Classless Static Routes option and a Router option, the DHCP client MUST ignore the Router option.
    pub(crate) fn routes(&self) -> Vec<LeasedRoute> {
        let is_on_link = |router: &Ipv4Addr| self.addr.contains(router);
        if self.routes.is_empty() {
            let router = self.routers.iter().copied().find(is_on_link);
            return router.map(|router| (Ipv4Net::default(), Some(router))).into_iter().collect();
        }
        let usable = self.routes.iter().filter(|(_, router)| router.is_unspecified() || is_on_link(router));
        usable.map(|(to, router)| (*to, Some(*router).filter(|router| !router.is_unspecified()))).collect()
    }
}

impl Client {
    /// Begins, with the lease of before if there is one.
    pub(crate) fn new(mac: Mac, hostname: Option<String>, known: Option<Lease>, seed: u32, now: u64) -> Self {
        let known = known.filter(|lease| lease.expires > now);
        let state = known.map_or(State::Init, State::Rebooting);
        let counts = Counts::default();
        Self { mac, hostname, state, xid: seed | 1, begun: now, attempts: 0, at: now, counts }
    }

    /// The lease in use.
    pub(crate) const fn lease(&self) -> Option<&Lease> {
        match &self.state {
            State::Bound(lease) | State::Renewing(lease) | State::Rebinding(lease) => Some(lease),
            State::Init | State::Selecting | State::Requesting { .. } | State::Rebooting(_) => None,
        }
    }

    /// Does what is to be done at `now`.
    pub(crate) fn due(&mut self, now: u64) -> Vec<Act> {
        if now < self.at {
            return Vec::new();
        }
        match self.state.clone() {
            State::Init => {
                self.begin(State::Selecting, now);
                self.discover(now)
            }
            State::Selecting => self.discover(now),
            State::Requesting { .. } if self.attempts >= REQUESTS_MAX => self.restart(now),
            State::Requesting { addr, server } => {
                let mut request = self.message(Kind::Request, now);
                request.put(option::REQUESTED_ADDRESS, &addr.octets());
                request.put(option::SERVER, &server.octets());
                self.broadcast(request, now)
            }
            // Nothing answers: the lease is in force all the same.
            //= https://www.rfc-editor.org/rfc/rfc2131#section-3.2
            State::Rebooting(lease) if self.attempts >= REBOOTS_MAX => self.bind(lease),
            State::Rebooting(lease) => {
                let mut request = self.message(Kind::Request, now);
                request.put(option::REQUESTED_ADDRESS, &lease.addr.addr().octets());
                self.broadcast(request, now)
            }
            State::Bound(lease) => {
                self.begin(State::Renewing(lease), now);
                self.due(now)
            }
            State::Renewing(lease) if now >= lease.rebind => {
                self.begin(State::Rebinding(lease), now);
                self.due(now)
            }
            State::Renewing(lease) => self.extend(&lease, lease.rebind, now),
            State::Rebinding(lease) if now >= lease.expires => {
                let mut acts = vec![Act::Leave];
                acts.extend(self.restart(now));
                acts
            }
            State::Rebinding(lease) => self.extend(&lease, lease.expires, now),
        }
    }

    /// Takes a message in.
    pub(crate) fn arrived(&mut self, message: &Message, kind: Kind, now: u64) -> Vec<Act> {
        let is_ours = message.is_reply && message.xid == self.xid && message.chaddr == self.mac;
        let state = self.state.clone();
        match (kind, state) {
            (Kind::Offer, State::Selecting) if is_ours => match offered(message) {
                Some((addr, server)) => {
                    self.state = State::Requesting { addr, server };
                    (self.attempts, self.at) = (0, now);
                    self.due(now)
                }
                None => self.ignore(),
            },
            (
                Kind::Ack,
                State::Requesting { .. } | State::Rebooting(_) | State::Renewing(_) | State::Rebinding(_),
            ) if is_ours => match lease(message, now) {
                Some(lease) => {
                    self.counts.acks += 1;
                    self.bind(lease)
                }
                None => self.ignore(),
            },
            (Kind::Nak, State::Requesting { server, .. })
                if is_ours && message.addr(option::SERVER) == Some(server) =>
            {
                self.counts.naks += 1;
                self.restart(now)
            }
            (Kind::Nak, State::Rebooting(_) | State::Renewing(_) | State::Rebinding(_)) if is_ours => {
                self.counts.naks += 1;
                let mut acts = vec![Act::Leave];
                acts.extend(self.restart(now));
                acts
            }
            _ => self.ignore(),
        }
    }

    /// Another host uses the address.
    pub(crate) fn conflict(&mut self, now: u64) -> Vec<Act> {
        let Some(lease) = self.lease().cloned() else { return Vec::new() };
        self.counts.conflicts += 1;
        let mut decline = self.message(Kind::Decline, now);
        decline.put(option::REQUESTED_ADDRESS, &lease.addr.addr().octets());
        decline.put(option::SERVER, &lease.server.octets());
        self.state = State::Init;
        let mut acts = vec![Act::Leave];
        acts.extend(self.broadcast(decline, now));
        self.at = now + AFTER_DECLINE;
        acts
    }

    fn ignore(&mut self) -> Vec<Act> {
        self.counts.ignored += 1;
        Vec::new()
    }

    fn bind(&mut self, lease: Lease) -> Vec<Act> {
        self.at = lease.renew;
        self.state = State::Bound(lease.clone());
        vec![Act::Use(lease)]
    }

    /// Begins anew.
    fn restart(&mut self, now: u64) -> Vec<Act> {
        self.begin(State::Selecting, now);
        self.discover(now)
    }

    fn begin(&mut self, state: State, now: u64) {
        // Each exchange has its own number; those of others cannot be guessed from it, and need not be.
        self.xid = self.xid.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
        (self.state, self.begun, self.attempts, self.at) = (state, now, 0, now);
    }

    fn discover(&mut self, now: u64) -> Vec<Act> {
        let message = self.message(Kind::Discover, now);
        self.broadcast(message, now)
    }

    /// Asks for a longer lease: its server, or any when that does not answer.
    fn extend(&mut self, lease: &Lease, until: u64, now: u64) -> Vec<Act> {
        let mut request = self.message(Kind::Request, now);
        request.ciaddr = lease.addr.addr();
        let is_rebinding = matches!(self.state, State::Rebinding(_));
        // An answer comes to the address that we have.
        request.broadcast = false;
        let to = if is_rebinding { Ipv4Addr::BROADCAST } else { lease.server };
        self.at = (now + RENEW_AGAIN.max(until.saturating_sub(now) / 2)).min(until.max(now + 1));
        self.counts.sent += 1;
        vec![Act::Send { from: lease.addr.addr(), to: SocketAddrV4::new(to, SERVER), message: request }]
    }

    /// Sends a message from no address to all, and sets the time for the next.
    fn broadcast(&mut self, message: Message, now: u64) -> Vec<Act> {
        let pause = (RETRANSMIT << self.attempts.min(4)).min(RETRANSMIT_MAX);
        // A second more or less, so that clients that begin together do not stay together.
        let spread = u64::from(self.xid.rotate_left(self.attempts) % 2000);
        self.at = now + pause - 1000 + spread;
        self.attempts += 1;
        self.counts.sent += 1;
        let to = SocketAddrV4::new(Ipv4Addr::BROADCAST, SERVER);
        vec![Act::Send { from: Ipv4Addr::UNSPECIFIED, to, message }]
    }

    fn message(&self, kind: Kind, now: u64) -> Message {
        let mut message = Message::request(self.xid, self.mac);
        message.secs = u16::try_from(now.saturating_sub(self.begun) / 1000).unwrap_or(u16::MAX);
        // What is for an address that is not ours yet does not reach us.
        //= https://www.rfc-editor.org/rfc/rfc2131#section-4.1
        message.broadcast = true;
        message.put(option::MESSAGE_TYPE, &[kind as u8]);
        let id: Vec<u8> = core::iter::once(1).chain(self.mac.octets()).collect();
        message.put(option::CLIENT_ID, &id);
        if kind != Kind::Decline {
            message.put(option::PARAMETERS, &PARAMETERS);
            if let Some(name) = &self.hostname {
                message.put(option::HOST_NAME, name.as_bytes());
            }
        }
        message
    }
}

/// The address of an offer, and its server.
fn offered(message: &Message) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let server = message.addr(option::SERVER)?;
    is_usable(message.yiaddr).then_some((message.yiaddr, server))
}

/// The lease of an acknowledgment, if it is one that can be used.
fn lease(message: &Message, now: u64) -> Option<Lease> {
    let mask = message.addr(option::SUBNET_MASK).unwrap_or_else(|| classful(message.yiaddr));
    let addr = Ipv4Net::with_netmask(message.yiaddr, mask).ok().filter(|net| net.prefix_len() > 0)?;
    let seconds = message.number(option::LEASE_TIME)?.max(LEASE_MIN);
    let time = |code, usual: u32| {
        let given = message.number(code).filter(|given| (1..seconds).contains(given));
        now + u64::from(given.unwrap_or(usual)) * 1000
    };
    let (renew, rebind) =
        (time(option::RENEWAL_TIME, seconds / 2), time(option::REBINDING_TIME, seconds / 8 * 7));
    let first = |code| {
        let mut all = message.addrs(code);
        all.retain(|addr| is_usable(*addr));
        all.truncate(ADDRS_MAX);
        all
    };
    let mut routes = message.routes().unwrap_or_default();
    routes.retain(|(_, router)| router.is_unspecified() || is_usable(*router));
    routes.truncate(ROUTES_MAX);
    let lease = Lease {
        addr,
        server: message.addr(option::SERVER)?,
        routers: first(option::ROUTER),
        routes,
        dns: first(option::DNS),
        domain: message.text(option::DOMAIN),
        renew: renew.min(rebind),
        rebind,
        expires: now + u64::from(seconds) * 1000,
    };
    is_usable(message.yiaddr).then_some(lease)
}

/// Whether a host can have an address.
fn is_usable(addr: Ipv4Addr) -> bool {
    !(addr.is_unspecified() || addr.is_loopback() || addr.is_multicast() || addr.is_broadcast())
        && addr.octets()[0] < 240
}

/// The mask of networks before CIDR, which a server that says none means.
fn classful(addr: Ipv4Addr) -> Ipv4Addr {
    match addr.octets()[0] {
        0..128 => Ipv4Addr::new(255, 0, 0, 0),
        128..192 => Ipv4Addr::new(255, 255, 0, 0),
        _ => Ipv4Addr::new(255, 255, 255, 0),
    }
}
