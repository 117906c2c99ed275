//! The DHCPv6 server of an interface, as a function of messages and time: it tells parameters and gives no addresses (RFC 8415
//! §18.3.6).

use wire::dhcp6::{Kind, View, option};

use super::message::Builder;
use crate::config::Resolver;

/// Answers in a second, and at once after a pause; further questions are dropped.
const RATE: u64 = 100;

/// A stateless server.
#[derive(Debug)]
pub(crate) struct Server {
    duid: Vec<u8>,
    pub(crate) told: Resolver,
    refresh_s: u32,
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
}

impl Server {
    pub(crate) fn new(duid: Vec<u8>, now: u64) -> Self {
        let (told, counts) = (Resolver::default(), Counts::default());
        Self { duid, told, refresh_s: 0, tokens: RATE * 1000, counted: now, counts }
    }

    /// Tells these parameters from now on.
    pub(crate) fn tell(&mut self, told: Resolver, refresh_s: u32) {
        (self.told, self.refresh_s) = (told, refresh_s);
    }

    /// Handles a message at `now`, milliseconds; returns the answer to its sender.
    pub(crate) fn handle(&mut self, bytes: &[u8], now: u64) -> Option<Vec<u8>> {
        self.counts.received += 1;
        let Ok(message) = View::parse(bytes) else {
            self.counts.malformed += 1;
            return None;
        };
        if !self.is_for_us(&message) {
            self.counts.ignored += 1;
            return None;
        }
        if !self.may_answer(now) {
            self.counts.limited += 1;
            return None;
        }
        self.counts.replies += 1;
        Some(self.reply(&message))
    }

    //= https://www.rfc-editor.org/rfc/rfc8415#section-16.12
    fn is_for_us(&self, message: &View<'_>) -> bool {
        let is_other = message.options.get(option::SERVER_ID).is_some_and(|server| server != self.duid);
        let has_binding =
            [option::IA_NA, option::IA_PD].into_iter().any(|code| message.options.get(code).is_some());
        message.kind == Kind::InformationRequest && !is_other && !has_binding
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

    fn reply(&self, message: &View<'_>) -> Vec<u8> {
        let options = message.options;
        let (wanted, _) = options.get(option::REQUESTED).unwrap_or_default().as_chunks::<2>();
        let is_wanted = |code: u16| wanted.is_empty() || wanted.contains(&code.to_be_bytes());
        let Resolver { dns, search, sntp } = &self.told;
        let mut reply = Builder::new(Kind::Reply, message.xid).with(option::SERVER_ID, &self.duid);
        if let Some(client) = options.get(option::CLIENT_ID) {
            reply = reply.with(option::CLIENT_ID, client);
        }
        for (code, addrs) in [(option::DNS, dns), (option::SNTP, sntp)] {
            reply = if is_wanted(code) { reply.with_addrs(code, addrs) } else { reply };
        }
        if is_wanted(option::SEARCH) {
            reply = reply.with_some(option::SEARCH, search);
        }
        //= https://www.rfc-editor.org/rfc/rfc8415#section-21.23
        if is_wanted(option::REFRESH_TIME) {
            reply = reply.with(option::REFRESH_TIME, &self.refresh_s.to_be_bytes());
        }
        reply.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000_000;
    const DUID: [u8; 4] = [0, 3, 0, 1];

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
            let reply = server.handle(&asked, NOW).unwrap();
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
            assert_eq!(server.handle(&wrong.into_bytes(), NOW), None);
        }
        assert_eq!(server.handle(&[11, 0, 0], NOW), None);
        assert_eq!((server.counts.ignored, server.counts.malformed, server.counts.received), (4, 1, 5));
    }

    #[test]
    fn a_flood_is_answered_at_its_rate_and_counted() {
        let mut server = server();
        let asked = question(Kind::InformationRequest).into_bytes();
        let mut answered = |from: u64, to: u64| {
            (from..to).filter(|at| server.handle(&asked, NOW + at / 10).is_some()).count()
        };
        // 10,000 in a second.
        assert_eq!(answered(0, 10_000), 199);
        assert_eq!(answered(10_000, 20_000), 100);
        assert_eq!(server.counts.limited, 20_000 - 299);
    }
}
