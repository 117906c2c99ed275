//! The DHCPv6 server of an interface, as a function of messages and time: it tells parameters (RFC 8415 §18.3.6), delegates prefixes
//! to routers if it has some, and gives no addresses.

use core::net::Ipv6Addr;

use wire::dhcp6::{Ia, Kind, View, option, status};

use super::delegation::Delegations;
use super::message::Builder;
use super::path::Path;
use crate::config::Resolver;

/// Answers in a second, and at once after a pause; further questions are dropped.
const RATE: u64 = 100;
/// Associations of a message that are answered.
const ASSOCIATIONS_MAX: usize = 8;

/// A server.
#[derive(Debug)]
pub(crate) struct Server {
    duid: Vec<u8>,
    pub(crate) told: Resolver,
    refresh_s: u32,
    /// Prefixes that it delegates.
    pub(crate) delegations: Option<Delegations>,
    /// Answers that may be given, in thousandths, and when that was so.
    tokens: u64,
    counted: u64,
    pub(crate) counts: Counts,
}

/// Events that a server has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) received: u64,
    pub(crate) replies: u64,
    /// Messages that could not be read.
    pub(crate) malformed: u64,
    /// Messages for other servers, or about leases.
    pub(crate) ignored: u64,
    /// Questions beyond the rate.
    pub(crate) limited: u64,
    /// Requests for prefixes of which none was free.
    pub(crate) exhausted: u64,
    /// Delegations that were not given because they could not be written to disk.
    pub(crate) not_written: u64,
}

/// An exchange with a router.
#[derive(Clone, Copy)]
struct Exchange<'a> {
    duid: &'a [u8],
    kind: Kind,
    router: Ipv6Addr,
    /// Whether delegations are noted: not those that are only advertised.
    is_binding: bool,
    now: u64,
}

impl Server {
    pub(crate) fn new(duid: Vec<u8>, now: u64) -> Self {
        let (told, counts) = (Resolver::default(), Counts::default());
        Self { duid, told, refresh_s: 0, delegations: None, tokens: RATE * 1000, counted: now, counts }
    }

    /// Tells these parameters from now on.
    pub(crate) fn tell(&mut self, told: Resolver, refresh_s: u32) {
        (self.told, self.refresh_s) = (told, refresh_s);
    }

    /// Handles a message of `from`, a client or the last relay before us, at `now`, milliseconds; returns the answer to its sender.
    pub(crate) fn handle(&mut self, bytes: &[u8], from: Ipv6Addr, now: u64) -> Option<Vec<u8>> {
        self.counts.received += 1;
        let relayed = Path::unwrap(bytes);
        let Some((path, message)) = relayed.and_then(|(path, inner)| Some((path, View::parse(inner).ok()?)))
        else {
            self.counts.malformed += 1;
            return None;
        };
        let lends = self.lends(&message);
        if lends.is_none() && !self.is_for_us(&message) {
            self.counts.ignored += 1;
            return None;
        }
        if !self.may_answer(now) {
            self.counts.limited += 1;
            return None;
        }
        self.counts.replies += 1;
        Some(path.wrap(match lends {
            None => self.inform(&message),
            Some((duid, is_binding)) => {
                let exchange = Exchange { duid, kind: message.kind, router: from, is_binding, now };
                self.lend(&message, exchange)
            }
        }))
    }

    //= https://www.rfc-editor.org/rfc/rfc8415#section-16.12
    fn is_for_us(&self, message: &View<'_>) -> bool {
        let is_other = message.options.get(option::SERVER_ID).is_some_and(|server| server != self.duid);
        let has_binding =
            [option::IA_NA, option::IA_PD].into_iter().any(|code| message.options.get(code).is_some());
        message.kind == Kind::InformationRequest && !is_other && !has_binding
    }

    /// The client of a message about leases that is for us, and whether it is bound by the answer.
    fn lends<'a>(&self, message: &View<'a>) -> Option<(&'a [u8], bool)> {
        self.delegations.as_ref()?;
        let duid = message.options.duid(option::CLIENT_ID)?;
        let server = message.options.get(option::SERVER_ID);
        let is_binding = match message.kind {
            //= https://www.rfc-editor.org/rfc/rfc8415#section-16.2
            Kind::Solicit if server.is_none() => message.options.get(option::RAPID_COMMIT).is_some(),
            //= https://www.rfc-editor.org/rfc/rfc8415#section-16.7
            Kind::Rebind if server.is_none() => true,
            //= https://www.rfc-editor.org/rfc/rfc8415#section-16.4
            Kind::Request | Kind::Renew | Kind::Release | Kind::Decline if server == Some(&*self.duid) => {
                true
            }
            _ => return None,
        };
        Some((duid, is_binding))
    }

    /// Takes one of [`RATE`] answers in a second.
    fn may_answer(&mut self, now: u64) -> bool {
        let come = now.saturating_sub(self.counted).saturating_mul(RATE);
        let tokens = self.tokens + come;
        (self.tokens, self.counted) = (tokens.min(RATE * 1000), now);
        let left = self.tokens.checked_sub(1000);
        left.into_iter().for_each(|left| self.tokens = left);
        left.is_some()
    }

    /// Answers a question about parameters alone.
    fn inform(&self, message: &View<'_>) -> Vec<u8> {
        let reply = self.parameters(message, self.begin(message, Kind::Reply));
        //= https://www.rfc-editor.org/rfc/rfc8415#section-21.23
        let reply = match is_wanted(message, option::REFRESH_TIME) {
            true => reply.with(option::REFRESH_TIME, &self.refresh_s.to_be_bytes()),
            false => reply,
        };
        reply.into_bytes()
    }

    fn begin(&self, message: &View<'_>, kind: Kind) -> Builder {
        let reply = Builder::new(kind, message.xid).with(option::SERVER_ID, &self.duid);
        match message.options.get(option::CLIENT_ID) {
            Some(client) => reply.with(option::CLIENT_ID, client),
            None => reply,
        }
    }

    fn parameters(&self, message: &View<'_>, mut reply: Builder) -> Builder {
        let Resolver { dns, search, sntp } = &self.told;
        for (code, addrs) in [(option::DNS, dns), (option::SNTP, sntp)] {
            reply = if is_wanted(message, code) { reply.with_addrs(code, addrs) } else { reply };
        }
        if is_wanted(message, option::SEARCH) { reply.with_some(option::SEARCH, search) } else { reply }
    }

    /// Answers a message about leases: prefixes are delegated, and there are no addresses.
    fn lend(&mut self, message: &View<'_>, exchange: Exchange<'_>) -> Vec<u8> {
        let kind = if exchange.is_binding { Kind::Reply } else { Kind::Advertise };
        let mut reply = self.parameters(message, self.begin(message, kind));
        if exchange.kind == Kind::Solicit && exchange.is_binding {
            reply = reply.with(option::RAPID_COMMIT, &[]);
        }
        if matches!(exchange.kind, Kind::Release | Kind::Decline) {
            //= https://www.rfc-editor.org/rfc/rfc8415#section-18.3.7
            reply = reply.with_status(status::SUCCESS, "");
        }
        for ia in message.options.associations(option::IA_NA).take(ASSOCIATIONS_MAX) {
            let is_new = matches!(exchange.kind, Kind::Solicit | Kind::Request);
            //= https://www.rfc-editor.org/rfc/rfc8415#section-18.3.2
            let (code, why) = match is_new {
                true => (status::NO_ADDRS, "addresses are formed from router advertisements"),
                false => (status::NO_BINDING, "no address was leased"),
            };
            reply = reply.with_refusal(option::IA_NA, ia.iaid, code, why);
        }
        for ia in message.options.associations(option::IA_PD).take(ASSOCIATIONS_MAX) {
            reply = self.delegate(ia, exchange, reply);
        }
        reply.into_bytes()
    }

    /// Answers an association of prefixes.
    fn delegate(&mut self, ia: Ia<'_>, exchange: Exchange<'_>, reply: Builder) -> Builder {
        let Exchange { duid, kind, router, is_binding, now } = exchange;
        let Some(all) = &mut self.delegations else { return reply };
        let no_binding = |reply: Builder| {
            reply.with_refusal(option::IA_PD, ia.iaid, status::NO_BINDING, "no prefix is delegated to it")
        };
        let is_known = all.of(duid, ia.iaid).is_some();
        match kind {
            Kind::Release | Kind::Decline => {
                return if all.remove(duid, ia.iaid) { reply } else { no_binding(reply) };
            }
            //= https://www.rfc-editor.org/rfc/rfc8415#section-18.3.4
            Kind::Renew | Kind::Rebind if !is_known => return no_binding(reply),
            _ => {}
        }
        let chosen = all.choose(duid, ia).map(|number| (number, all.told(number, now)));
        let Some((number, told)) = chosen.filter(|(_, told)| is_known || !told.is_empty()) else {
            self.counts.exhausted += 1;
            //= https://www.rfc-editor.org/rfc/rfc8415#section-18.3.2
            return reply.with_refusal(option::IA_PD, ia.iaid, status::NO_PREFIX, "no prefix is free");
        };
        if is_binding {
            all.put(duid, ia.iaid, number, router, now);
        }
        //= https://www.rfc-editor.org/rfc/rfc8415#section-18.3.4
        let is_gone = |net: &ipnet::Ipv6Net| told.iter().all(|(own, _)| own != net);
        let nets = ia.leased().filter_map(|leased| ipnet::Ipv6Net::new(leased.addr, leased.len).ok());
        let gone = nets.filter(is_gone).take(ASSOCIATIONS_MAX).map(|net| (net, [0, 0]));
        let gone: Vec<_> = gone.filter(|_| matches!(kind, Kind::Renew | Kind::Rebind)).collect();
        reply.with_delegated(ia.iaid, &[told.clone(), gone].concat())
    }
}

/// Whether a client asks for an option: for all if it names none.
fn is_wanted(message: &View<'_>, code: u16) -> bool {
    let (wanted, _) = message.options.get(option::REQUESTED).unwrap_or_default().as_chunks::<2>();
    wanted.is_empty() || wanted.contains(&code.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use wire::dhcp6::Relayed;

    use super::*;
    use crate::dhcp6::delegation::Terms;
    use crate::dhcp6::lease::Entry;

    const NOW: u64 = 1_000_000_000;
    const DUID: [u8; 4] = [0, 3, 0, 1];
    const FROM: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);

    fn server() -> Server {
        let mut server = Server::new(DUID.to_vec(), NOW);
        let dns = vec!["2001:db8::53".parse().unwrap()];
        server.tell(Resolver { sntp: dns.clone(), dns, search: b"\x01c\0".to_vec() }, 600);
        server
    }

    fn question(kind: Kind) -> Builder {
        Builder::new(kind, 9).with(option::CLIENT_ID, b"client")
    }

    #[test]
    fn a_host_gets_the_parameters_that_it_asks_for() {
        let mut server = server();
        for (wanted, dns, search, refresh) in
            [(&[][..], 1, 3, Some(600)), (&[0, 23][..], 1, 0, None), (&[0, 24, 0, 32], 0, 3, Some(600))]
        {
            let asked = question(Kind::InformationRequest).with_some(option::REQUESTED, wanted).into_bytes();
            let reply = server.handle(&asked, FROM, NOW).unwrap();
            let view = View::parse(&reply).unwrap();
            assert_eq!((view.kind, view.xid), (Kind::Reply, 9));
            assert_eq!(view.options.get(option::CLIENT_ID), Some(&b"client"[..]));
            assert_eq!(view.options.duid(option::SERVER_ID), Some(&DUID[..]));
            let len = view.options.search().unwrap_or_default().len();
            assert_eq!((view.options.addrs(option::DNS).count(), len), (dns, search));
            assert_eq!(view.options.number(option::REFRESH_TIME), refresh);
        }
    }

    #[test]
    fn messages_for_other_servers_and_about_leases_get_no_answer() {
        let mut server = server();
        let association = |kind| question(kind).with_association(option::IA_NA, 1, &[]);
        let other = question(Kind::InformationRequest).with(option::SERVER_ID, b"other");
        for wrong in
            [association(Kind::Solicit), association(Kind::InformationRequest), other, question(Kind::Reply)]
        {
            assert_eq!(server.handle(&wrong.into_bytes(), FROM, NOW), None);
        }
        assert_eq!(server.handle(&[11, 0, 0], FROM, NOW), None);
        assert_eq!((server.counts.ignored, server.counts.malformed, server.counts.received), (4, 1, 5));
    }

    #[test]
    fn a_flood_is_answered_at_its_rate_and_counted() {
        let mut server = server();
        let asked = question(Kind::InformationRequest).into_bytes();
        let mut answered = |from: u64, to: u64| {
            (from..to).filter(|at| server.handle(&asked, FROM, NOW + at / 10).is_some()).count()
        };
        // 10,000 in a second.
        assert_eq!(answered(0, 10_000), 199);
        assert_eq!(answered(10_000, 20_000), 100);
        assert_eq!(server.counts.limited, 20_000 - 299);
    }

    /// A server that delegates parts of a prefix.
    fn delegating() -> Server {
        let terms = Terms { len: 60, lease_s: 3600 };
        let mut delegations = Delegations::new(terms, Vec::new());
        let (preferred, valid) = (u64::MAX, u64::MAX);
        let source = Entry { net: "2001:db8::/56".parse().unwrap(), preferred, valid };
        delegations.settle(terms, vec![source], Vec::new());
        Server { delegations: Some(delegations), ..server() }
    }

    /// The prefixes of an answer, with their valid lifetimes, and the status of its association.
    fn delegated(reply: &[u8]) -> (Kind, Vec<(String, u32)>, u16) {
        let view = View::parse(reply).unwrap();
        let ia = view.options.associations(option::IA_PD).next();
        let all =
            ia.map(|ia| ia.leased().map(|own| (format!("{}/{}", own.addr, own.len), own.valid_s)).collect());
        (view.kind, all.unwrap_or_default(), ia.map_or(0, |ia| ia.options.status()))
    }

    #[test]
    fn a_router_solicits_requests_renews_and_releases_a_prefix() {
        let mut server = delegating();
        let asks = |kind: Kind| question(kind).with_association(option::IA_PD, 1, &[]);
        let to_us = |kind: Kind| asks(kind).with(option::SERVER_ID, &DUID).into_bytes();
        let part = || vec![("2001:db8:0:f0::/60".to_owned(), 3600)];
        let offered = server.handle(&asks(Kind::Solicit).into_bytes(), FROM, NOW).unwrap();
        assert_eq!(delegated(&offered), (Kind::Advertise, part(), 0));
        let all = |server: &Server| server.delegations.as_ref().unwrap().all().len();
        assert_eq!(all(&server), 0, "nothing is bound by an offer");
        let unknown = server.handle(&to_us(Kind::Renew), FROM, NOW).unwrap();
        assert_eq!(delegated(&unknown), (Kind::Reply, vec![], status::NO_BINDING));
        for kind in [Kind::Request, Kind::Renew] {
            let bound = server.handle(&to_us(kind), FROM, NOW).unwrap();
            assert_eq!(delegated(&bound), (Kind::Reply, part(), 0));
            assert_eq!(all(&server), 1);
        }
        // A prefix that is not ours any more goes.
        let old = [("2001:db8:77::".parse().unwrap(), 60)];
        let rebinds = question(Kind::Rebind).with_association(option::IA_PD, 1, &old).into_bytes();
        let rebound = server.handle(&rebinds, FROM, NOW).unwrap();
        assert_eq!(delegated(&rebound).1, [part(), vec![("2001:db8:77::/60".to_owned(), 0)]].concat());
        let released = server.handle(&to_us(Kind::Release), FROM, NOW).unwrap();
        assert_eq!(
            (delegated(&released).0, View::parse(&released).unwrap().options.status()),
            (Kind::Reply, 0)
        );
        assert_eq!(all(&server), 0);
    }

    #[test]
    fn a_router_behind_relays_gets_a_prefix_that_leads_to_the_last_of_them() {
        let mut server = delegating();
        let message = Builder::new(Kind::Solicit, 9)
            .with(option::CLIENT_ID, b"client")
            .with(option::RAPID_COMMIT, &[])
            .with_association(option::IA_PD, 1, &[])
            .into_bytes();
        let relayed = |peer: Ipv6Addr, inner: &[u8]| {
            let forward = Builder::relay(Kind::RelayForward, 0, Ipv6Addr::UNSPECIFIED, peer);
            forward.with(option::INTERFACE_ID, b"lan").with(option::RELAY_MESSAGE, inner).into_bytes()
        };
        let near: Ipv6Addr = "2001:db8:9::1".parse().unwrap();
        let reply = server.handle(&relayed(near, &relayed(FROM, &message)), near, NOW).unwrap();
        let outer = Relayed::parse(&reply).unwrap();
        assert!(outer.is_reply && outer.peer == near, "{outer:?}");
        let inner = Relayed::parse(outer.options.get(option::RELAY_MESSAGE).unwrap()).unwrap();
        assert_eq!((inner.is_reply, inner.peer), (true, FROM));
        assert_eq!(inner.options.get(option::INTERFACE_ID), Some(&b"lan"[..]));
        let (kind, prefixes, _) = delegated(inner.options.get(option::RELAY_MESSAGE).unwrap());
        assert_eq!((kind, prefixes.len()), (Kind::Reply, 1));
        assert_eq!(server.delegations.as_ref().unwrap().all()[0].router, near);
        // A question about parameters, too; and neither what no client sends, nor a relay without a message.
        let asks = question(Kind::InformationRequest).into_bytes();
        assert!(server.handle(&relayed(FROM, &asks), near, NOW).is_some());
        let before = server.counts;
        assert_eq!(server.handle(&relayed(FROM, &relayed(FROM, &[7])), near, NOW), None);
        assert_eq!(server.counts.malformed, before.malformed + 1);
    }

    #[test]
    fn addresses_are_refused_and_prefixes_too_when_none_is_free() {
        let mut server = delegating();
        let rapid = |client: &[u8]| {
            let message = Builder::new(Kind::Solicit, 9)
                .with(option::CLIENT_ID, client)
                .with(option::RAPID_COMMIT, &[]);
            message
                .with_association(option::IA_NA, 1, &[])
                .with_association(option::IA_PD, 1, &[])
                .into_bytes()
        };
        for client in 0..16 {
            let reply = server.handle(&rapid(&[1, 2, 3, client]), FROM, NOW).unwrap();
            let view = View::parse(&reply).unwrap();
            let address = view.options.associations(option::IA_NA).next().unwrap();
            assert_eq!((address.leased().count(), address.options.status()), (0, status::NO_ADDRS));
            assert!(view.options.get(option::RAPID_COMMIT).is_some());
            assert_eq!(delegated(&reply).1.len(), 1);
        }
        let refused = server.handle(&rapid(b"late"), FROM, NOW).unwrap();
        assert_eq!(delegated(&refused), (Kind::Reply, vec![], status::NO_PREFIX));
        assert_eq!(server.counts.exhausted, 1);
        // Requests to another server, and those without a client.
        let other =
            question(Kind::Request).with(option::SERVER_ID, b"other").with_association(option::IA_PD, 1, &[]);
        let nameless = Builder::new(Kind::Solicit, 9).with_association(option::IA_PD, 1, &[]);
        for wrong in [other, nameless, question(Kind::Confirm)] {
            assert_eq!(server.handle(&wrong.into_bytes(), FROM, NOW), None);
        }
    }
}
