//! An access concentrator, as the protocols' other end, and a link to it that may lose, repeat and delay.

use core::net::Ipv4Addr;
use std::collections::BTreeMap;

use wire::Mac;
use wire::ether::EtherType;
use wire::ppp::{self, Options, chap, code, ipcp, ipv6cp, lcp, pap, protocol};
use wire::pppoe::{self, Header, View, tag};

use super::super::{Act, Client, Settings, next_random};
use crate::pppoe::automaton::{option, packet};

pub(super) const MAC: Mac = Mac([6, 0, 0, 0, 0, 1]);
/// Milliseconds that a frame is under way.
const DELAY: u64 = 2;

/// The access concentrator.
pub(super) struct Peer {
    pub(super) auth: Option<u16>,
    pub(super) password: String,
    pub(super) mru: u16,
    pub(super) remote: Ipv4Addr,
    pub(super) rejects: Vec<u16>,
    pub(super) refuses: Option<&'static str>,
    pub(super) grants_payload: bool,
    /// Sends everything back.
    pub(super) is_loop: bool,
    pub(super) is_silent: bool,
    /// The name that the client has told.
    pub(super) user: Option<String>,
    pub(super) proposed: Option<u16>,
    pub(super) rejected: Vec<u8>,
    pub(super) ended: Vec<u16>,
    pub(super) verdicts: u32,
    pub(super) session: u16,
    pub(super) is_open: bool,
    /// For each protocol: the identifier of our request, and whether both have agreed on theirs.
    pub(super) layers: BTreeMap<u16, (u8, bool, bool)>,
    pub(super) is_authenticated: bool,
    pub(super) magic: [u8; 4],
}

impl Default for Peer {
    fn default() -> Self {
        Self {
            auth: None,
            password: "secret".to_owned(),
            mru: 1492,
            remote: [10, 64, 0, 100].into(),
            rejects: Vec::new(),
            refuses: None,
            grants_payload: false,
            is_loop: false,
            is_silent: false,
            user: None,
            proposed: None,
            rejected: Vec::new(),
            ended: Vec::new(),
            verdicts: 0,
            session: 0,
            is_open: false,
            layers: BTreeMap::new(),
            is_authenticated: false,
            magic: [9; 4],
        }
    }
}

type Frame = (EtherType, Vec<u8>);

impl Peer {
    fn arrived(&mut self, ethertype: EtherType, bytes: &[u8]) -> Vec<Frame> {
        let view = View::parse(bytes).unwrap();
        if self.is_silent {
            if view.code == pppoe::code::PADT {
                self.ended.push(view.session);
            }
            return Vec::new();
        }
        if ethertype == EtherType::PPPOE_DISCOVERY {
            return self.discovery(&view);
        }
        if self.is_loop {
            return vec![(ethertype, bytes.to_vec())];
        }
        if view.session != self.session || !self.is_open {
            return vec![self.disc(pppoe::code::PADT, view.session, &[])];
        }
        let (number, rest) = view.payload.split_first_chunk::<2>().unwrap();
        let number = u16::from_be_bytes(*number);
        if self.rejects.contains(&number) {
            let quoted = [&number.to_be_bytes(), rest].concat();
            return vec![self.ppp(protocol::LCP, &packet(code::PROTOCOL_REJECT, 1, &quoted))];
        }
        let control = ppp::View::parse(rest).unwrap();
        match number {
            protocol::PAP => self.pap(&control),
            protocol::CHAP => self.chap(&control),
            _ => self.control(number, &control, rest),
        }
    }

    fn discovery(&mut self, view: &View<'_>) -> Vec<Frame> {
        let tags = view.tags().unwrap();
        let service = tags.get(tag::SERVICE_NAME).unwrap_or_default();
        let mut back = vec![
            (tag::SERVICE_NAME, service),
            (tag::HOST_UNIQ, tags.get(tag::HOST_UNIQ).unwrap_or_default()),
        ];
        match view.code {
            pppoe::code::PADI if service.is_empty() || service == b"fast" => {
                back.extend([
                    (tag::AC_NAME, &b"test-ac"[..]),
                    (tag::AC_COOKIE, b"cookie"),
                    (tag::RELAY_SESSION_ID, b"relay"),
                ]);
                vec![self.disc(pppoe::code::PADO, 0, &back)]
            }
            pppoe::code::PADR => {
                assert_eq!(tags.get(tag::AC_COOKIE), Some(&b"cookie"[..]));
                assert_eq!(tags.get(tag::RELAY_SESSION_ID), Some(&b"relay"[..]));
                if let Some(why) = self.refuses {
                    back.push((tag::AC_SYSTEM_ERROR, why.as_bytes()));
                    return vec![self.disc(pppoe::code::PADS, 0, &back)];
                }
                if self.grants_payload {
                    back.extend(tags.get(tag::PPP_MAX_PAYLOAD).map(|most| (tag::PPP_MAX_PAYLOAD, most)));
                }
                (self.session, self.is_open) = (self.session + 1, true);
                (self.layers, self.is_authenticated) = (BTreeMap::new(), self.auth.is_none());
                vec![self.disc(pppoe::code::PADS, self.session, &back), self.request(protocol::LCP)]
            }
            pppoe::code::PADT => {
                self.ended.push(view.session);
                self.is_open &= view.session != self.session;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn disc(&self, code: u8, session: u16, tags: &[(u16, &[u8])]) -> Frame {
        let one = |(kind, value): &(u16, &[u8])| {
            [&kind.to_be_bytes()[..], &u16::try_from(value.len()).unwrap().to_be_bytes(), value].concat()
        };
        let payload: Vec<u8> = tags.iter().flat_map(one).collect();
        let len = u16::try_from(payload.len()).unwrap();
        (EtherType::PPPOE_DISCOVERY, [&Header { code, session, len }.to_bytes()[..], &payload].concat())
    }

    fn ppp(&self, number: u16, packet: &[u8]) -> Frame {
        let len = u16::try_from(packet.len() + 2).unwrap();
        let header = Header { code: pppoe::code::SESSION, session: self.session, len }.to_bytes();
        (EtherType::PPPOE_SESSION, [&header[..], &number.to_be_bytes(), packet].concat())
    }

    pub(super) fn request(&mut self, number: u16) -> Frame {
        let layer = self.layers.entry(number).or_default();
        (layer.0, layer.1) = (layer.0.wrapping_add(1), false);
        let id = layer.0;
        let options = match number {
            protocol::LCP => {
                let auth = self.auth.map(|auth| match auth {
                    protocol::CHAP => option(lcp::AUTH, &[0xc2, 0x23, 5]),
                    _ => option(lcp::AUTH, &auth.to_be_bytes()),
                });
                [
                    option(lcp::MRU, &self.mru.to_be_bytes()),
                    option(lcp::MAGIC, &self.magic),
                    auth.unwrap_or_default(),
                ]
                .concat()
            }
            protocol::IPCP => option(ipcp::ADDRESS, &[10, 64, 0, 1]),
            _ => option(ipv6cp::IDENTIFIER, &1_u64.to_be_bytes()),
        };
        self.ppp(number, &packet(code::CONFIGURE_REQUEST, id, &options))
    }

    /// Asks again for what is not agreed on yet.
    fn again(&mut self) -> Vec<Frame> {
        let open: Vec<u16> =
            self.layers.iter().filter(|(_, layer)| !layer.1).map(|(number, _)| *number).collect();
        if self.is_silent || !self.is_open || self.is_loop {
            return Vec::new();
        }
        let mut frames: Vec<Frame> = open.into_iter().map(|number| self.request(number)).collect();
        if self.layers.get(&protocol::LCP).is_some_and(|layer| layer.1 && layer.2)
            && !self.is_authenticated
            && self.auth == Some(protocol::CHAP)
        {
            frames.push(self.challenge());
        }
        frames
    }

    pub(super) fn challenge(&self) -> Frame {
        self.ppp(protocol::CHAP, &packet(chap::CHALLENGE, 7, &[&[4], &b"\x01\x02\x03\x04ac"[..]].concat()))
    }

    fn control(&mut self, number: u16, view: &ppp::View<'_>, whole: &[u8]) -> Vec<Frame> {
        if number != protocol::LCP && !self.is_authenticated {
            return Vec::new();
        }
        let mut frames = Vec::new();
        match view.code {
            code::CONFIGURE_REQUEST => {
                let (answer, data) = self.judge(number, view.options().unwrap(), view.data);
                frames.push(self.ppp(number, &packet(answer, view.id, &data)));
                let layer = self.layers.entry(number).or_default();
                if layer.1 && layer.2 {
                    // It negotiates again.
                    frames.push(self.request(number));
                }
                self.layers.entry(number).or_default().2 = answer == code::CONFIGURE_ACK;
            }
            code::CONFIGURE_ACK if self.layers.get(&number).is_some_and(|layer| layer.0 == view.id) => {
                self.layers.entry(number).or_default().1 = true;
            }
            code::CONFIGURE_NAK | code::CONFIGURE_REJECT => {
                for (kind, value) in view.options().unwrap().iter() {
                    if (number, kind, view.code) == (protocol::LCP, lcp::AUTH, code::CONFIGURE_NAK) {
                        self.proposed = value.first_chunk().map(|value| u16::from_be_bytes(*value));
                    }
                    if view.code == code::CONFIGURE_REJECT {
                        self.rejected.push(kind);
                    }
                }
                return Vec::new();
            }
            code::ECHO_REQUEST => {
                let data = [&self.magic, &view.data[4..]].concat();
                frames.push(self.ppp(number, &packet(code::ECHO_REPLY, view.id, &data)));
            }
            code::TERMINATE_REQUEST => {
                frames.push(self.ppp(number, &packet(code::TERMINATE_ACK, view.id, &[])))
            }
            code::CONFIGURE_ACK | code::TERMINATE_ACK | code::ECHO_REPLY | code::PROTOCOL_REJECT => {}
            _ => frames.push(self.ppp(number, &packet(code::CODE_REJECT, view.id, whole))),
        }
        let is_up = self.layers.get(&protocol::LCP).is_some_and(|layer| layer.1 && layer.2);
        if number == protocol::LCP
            && is_up
            && matches!(view.code, code::CONFIGURE_ACK | code::CONFIGURE_REQUEST)
        {
            frames.extend(self.lcp_up());
        }
        frames
    }

    fn lcp_up(&mut self) -> Vec<Frame> {
        match self.auth {
            Some(protocol::CHAP) => vec![self.challenge()],
            Some(_) => Vec::new(),
            None => self.network(),
        }
    }

    fn network(&mut self) -> Vec<Frame> {
        let all = [protocol::IPCP, protocol::IPV6CP];
        let all: Vec<u16> = all.into_iter().filter(|number| !self.rejects.contains(number)).collect();
        all.into_iter().map(|number| self.request(number)).collect()
    }

    fn judge(&self, number: u16, options: Options<'_>, data: &[u8]) -> (u8, Vec<u8>) {
        let (mut nak, mut reject) = (Vec::new(), Vec::new());
        for (kind, value) in options.iter() {
            let good: Option<Vec<u8>> = match (number, kind) {
                (protocol::LCP, lcp::MRU | lcp::MAGIC) | (protocol::IPV6CP, ipv6cp::IDENTIFIER) => {
                    Some(value.to_vec())
                }
                (protocol::IPCP, ipcp::ADDRESS) => Some(self.remote.octets().to_vec()),
                (protocol::IPCP, ipcp::DNS1) => Some(vec![10, 64, 0, 53]),
                (protocol::IPCP, ipcp::DNS2) => Some(vec![10, 64, 0, 54]),
                _ => None,
            };
            match good {
                None => reject.extend(option(kind, value)),
                Some(good) if good != value => nak.extend(option(kind, &good)),
                Some(_) => {}
            }
        }
        match (reject.is_empty(), nak.is_empty()) {
            (false, _) => (code::CONFIGURE_REJECT, reject),
            (_, false) => (code::CONFIGURE_NAK, nak),
            _ => (code::CONFIGURE_ACK, data.to_vec()),
        }
    }

    fn pap(&mut self, view: &ppp::View<'_>) -> Vec<Frame> {
        let (user, rest) = ppp::counted(view.data).unwrap();
        let (password, _) = ppp::counted(rest).unwrap();
        let is_good = password == self.password.as_bytes();
        self.user = Some(String::from_utf8(user.to_vec()).unwrap());
        let (answer, text) = if is_good { (pap::ACK, &b"\x00"[..]) } else { (pap::NAK, &b"\x06denied"[..]) };
        let answer = self.ppp(protocol::PAP, &packet(answer, view.id, text));
        self.verdict(answer, is_good)
    }

    fn chap(&mut self, view: &ppp::View<'_>) -> Vec<Frame> {
        let (value, user) = ppp::counted(view.data).unwrap();
        let expected = md5::compute([&[7], self.password.as_bytes(), &[1, 2, 3, 4]].concat());
        let is_good = value == expected.0;
        self.user = Some(String::from_utf8(user.to_vec()).unwrap());
        let (answer, text) =
            if is_good { (chap::SUCCESS, &b""[..]) } else { (chap::FAILURE, &b"denied"[..]) };
        let answer = self.ppp(protocol::CHAP, &packet(answer, view.id, text));
        self.verdict(answer, is_good)
    }

    fn verdict(&mut self, answer: Frame, is_good: bool) -> Vec<Frame> {
        self.verdicts += 1;
        let is_new = is_good && !core::mem::replace(&mut self.is_authenticated, is_good);
        let network = if is_new { self.network() } else { Vec::new() };
        [answer].into_iter().chain(network).collect()
    }
}

/// Percent of frames that a link loses, brings twice, or brings later than others.
#[derive(Clone, Copy, Default)]
pub(super) struct Faults {
    pub(super) loses: u64,
    pub(super) repeats: u64,
    pub(super) delays: u64,
}

/// A client and a peer.
pub(super) struct World {
    pub(super) client: Client,
    pub(super) peer: Peer,
    pub(super) faults: Faults,
    pub(super) now: u64,
    /// When a link was there first.
    pub(super) took: u64,
    /// The last frame to the client.
    pub(super) last: Vec<u8>,
    random: u64,
    /// Frames under way, by time and order: whether to the peer.
    wire: BTreeMap<(u64, u64), (bool, Frame)>,
    sent: u64,
    again: u64,
}

impl World {
    pub(super) fn new(settings: Settings, peer: Peer, seed: u64) -> Self {
        let mut world = Self {
            client: Client::new(settings, seed),
            peer,
            faults: Faults::default(),
            now: 1_000_000,
            took: u64::MAX,
            last: vec![0; 40],
            random: seed,
            wire: BTreeMap::new(),
            sent: 0,
            again: 0,
        };
        world.again = world.now + 3_000;
        world.carrier(true);
        world
    }

    pub(super) fn carrier(&mut self, is_up: bool) {
        let acts = self.client.carrier(is_up, self.now);
        self.perform(acts);
    }

    pub(super) fn padt(&mut self) {
        let session = self.peer.session;
        self.peer.is_open = false;
        let frame = self.peer.disc(pppoe::code::PADT, session, &[]);
        self.send(false, frame);
    }

    pub(super) fn terminate(&mut self) {
        let frame = self.peer.ppp(protocol::LCP, &packet(code::TERMINATE_REQUEST, 9, b"bye"));
        self.send(false, frame);
    }

    pub(super) fn challenge(&mut self) {
        let frame = self.peer.challenge();
        self.send(false, frame);
    }

    /// The peer begins again with LCP.
    pub(super) fn renegotiate(&mut self) {
        self.peer.layers.clear();
        self.peer.is_authenticated = self.peer.auth.is_none();
        let frame = self.peer.request(protocol::LCP);
        self.send(false, frame);
    }

    pub(super) fn run(&mut self, span: u64) {
        self.run_until(span, |_| false);
    }

    pub(super) fn run_until(&mut self, span: u64, is_done: impl Fn(&Self) -> bool) {
        let end = self.now + span;
        while !is_done(self) {
            let arrives = self.wire.keys().next().map_or(u64::MAX, |(at, _)| *at);
            let next = arrives.min(self.client.next()).min(self.again).max(self.now);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            self.step();
        }
    }

    fn step(&mut self) {
        while let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (to_peer, (ethertype, bytes)) = entry.remove();
            if to_peer {
                let answers = self.peer.arrived(ethertype, &bytes);
                answers.into_iter().for_each(|frame| self.send(false, frame));
            } else {
                self.last.clone_from(&bytes);
                let (_, acts) = self.client.arrived(MAC, ethertype, &bytes, self.now);
                self.perform(acts);
            }
        }
        let acts = self.client.due(self.now);
        self.perform(acts);
        if self.again <= self.now {
            self.again = self.now + 3_000;
            let frames = self.peer.again();
            frames.into_iter().for_each(|frame| self.send(false, frame));
        }
    }

    fn perform(&mut self, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Send { to, ethertype, message } => {
                    assert!(to == MAC || to == Mac::BROADCAST);
                    self.send(true, (ethertype, message));
                }
                Act::Use if self.client.link().is_some() => self.took = self.took.min(self.now - 1_000_000),
                Act::Use | Act::Failed(_) => {}
            }
        }
    }

    fn send(&mut self, to_peer: bool, frame: Frame) {
        let mut chance = |percent| {
            self.random = next_random(self.random);
            self.random % 100 < percent
        };
        let Faults { loses, repeats, delays } = self.faults;
        let copies = if chance(loses) { 0 } else { 1 + u64::from(chance(repeats)) };
        let is_late = chance(delays);
        for copy in 0..copies {
            let late = if is_late { 40 * (copy + 1) } else { 0 };
            self.sent += 1;
            self.wire.insert((self.now + DELAY + late, self.sent), (to_peer, frame.clone()));
        }
    }
}
