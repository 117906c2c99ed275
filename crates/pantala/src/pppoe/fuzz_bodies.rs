//! Properties of a PPPoE client, whatever frames come. The fuzz target checks them, and so do the ordinary tests.

use std::collections::BTreeMap;

use wire::Mac;
use wire::ether::EtherType;
use wire::ppp::{self, code, protocol};
use wire::pppoe::{self, Header, View, tag};

use super::automaton::packet;
use super::client::{Act, Client, Password, Settings};

/// The access concentrator, and another host.
const CONCENTRATOR: Mac = Mac([6, 0, 0, 0, 0, 1]);
const STRANGER: Mac = Mac([6, 0, 0, 0, 0, 2]);
const PROTOCOLS: [u16; 6] =
    [protocol::LCP, protocol::PAP, protocol::CHAP, protocol::IPCP, protocol::IPV6CP, 0x4021];
/// The most of a frame that PPPoE leaves room for on Ethernet.
const FRAME_MAX: usize = 1500;
/// Things that may be due at once.
const DUE_MAX: usize = 8;

/// Steps, one after the other: a byte that says which and how much time has passed, a byte of length, the bytes.
///
/// # Panics
/// A property does not hold.
pub fn pppoe(data: &[u8]) {
    let mut link = Link::new();
    link.carrier(true);
    let mut left = data;
    while let Some(([choice, len], rest)) = left.split_first_chunk::<2>() {
        let (bytes, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        link.now += 1 << (choice >> 4);
        link.step(choice & 0xf, bytes);
        link.is_due();
        left = rest;
    }
    link.carrier(false);
    assert!(link.client.link().is_none() && link.client.next() == u64::MAX, "nothing is left to do");
}

/// A client, and what it has said last.
struct Link {
    client: Client,
    now: u64,
    /// Tags of its last message of discovery.
    tags: Vec<u8>,
    /// Its last request of each protocol: identifier and options.
    requests: BTreeMap<u16, (u8, Vec<u8>)>,
}

impl Link {
    fn new() -> Self {
        let settings = Settings {
            user: Some(("user".to_owned(), Password("secret".to_owned()))),
            dns: true,
            mru: super::lcp::MRU,
            echo_interval: 5_000,
            echo_failures: 3,
            mac: [2, 0, 0, 0, 0, 9],
            ..Settings::default()
        };
        Self { client: Client::new(settings, 7), now: 0, tags: Vec::new(), requests: BTreeMap::new() }
    }

    fn step(&mut self, choice: u8, bytes: &[u8]) {
        let first = bytes.first().copied().unwrap_or_default();
        let number = PROTOCOLS[usize::from(first) % PROTOCOLS.len()];
        let rest = bytes.get(1..).unwrap_or_default();
        match choice {
            0 => self.discovery(pppoe::code::PADO, 0, bytes),
            1 => self.discovery(pppoe::code::PADS, u16::from(first) % 4, rest),
            2 => self.discovery(pppoe::code::PADT, self.client.session().map_or(0, |own| own.0), bytes),
            // An agreement, and requests for others.
            3..=5 => {
                if let Some((id, options)) = self.requests.get(&number).cloned() {
                    let answer = if choice == 3 { code::CONFIGURE_ACK } else { 1 + first / 6 % 4 };
                    let options = if choice == 5 { rest.to_vec() } else { options };
                    self.session(number, &packet(answer, id, &options));
                }
            }
            6 | 7 => self.session(number, &packet(code::CONFIGURE_REQUEST, first, rest)),
            8 | 9 => self.session(number, &packet(first / 6 % 12, rest.len().to_le_bytes()[0], rest)),
            10 => self.session(number, rest),
            11 => self.carrier(first & 1 == 0),
            12 => self.arrived(STRANGER, EtherType::PPPOE_SESSION, bytes),
            13 => self.arrived(CONCENTRATOR, EtherType::PPPOE_DISCOVERY, bytes),
            _ => self.arrived(CONCENTRATOR, EtherType::PPPOE_SESSION, bytes),
        }
    }

    /// An answer to what the client has asked last, with more tags.
    fn discovery(&mut self, code: u8, session: u16, more: &[u8]) {
        let name = [&tag::AC_NAME.to_be_bytes()[..], &[0, 2], b"ac"].concat();
        let payload = [&self.tags[..], &name, more].concat();
        let len = u16::try_from(payload.len()).unwrap_or(u16::MAX);
        let frame = [&Header { code, session, len }.to_bytes()[..], &payload].concat();
        self.arrived(CONCENTRATOR, EtherType::PPPOE_DISCOVERY, &frame);
    }

    fn session(&mut self, number: u16, packet: &[u8]) {
        let Some((session, ..)) = self.client.session() else { return };
        let len = u16::try_from(packet.len() + 2).unwrap_or(u16::MAX);
        let header = Header { code: pppoe::code::SESSION, session, len }.to_bytes();
        let frame = [&header[..], &number.to_be_bytes(), packet].concat();
        self.arrived(CONCENTRATOR, EtherType::PPPOE_SESSION, &frame);
    }

    fn arrived(&mut self, from: Mac, ethertype: EtherType, frame: &[u8]) {
        let (is_taken, acts) = self.client.arrived(from, ethertype, frame, self.now);
        assert!(from != STRANGER || !is_taken, "a session is that of its access concentrator alone");
        self.done(acts);
    }

    fn carrier(&mut self, is_up: bool) {
        let acts = self.client.carrier(is_up, self.now);
        self.done(acts);
    }

    /// Takes the steps that are due: they are few, and then it waits.
    fn is_due(&mut self) {
        for _ in 0..DUE_MAX {
            if self.client.next() > self.now {
                return;
            }
            let acts = self.client.due(self.now);
            self.done(acts);
        }
        assert!(self.client.next() > self.now, "it is never done: {:?}", self.client);
    }

    /// Checks that its packets can be parsed, and its link is one.
    fn done(&mut self, acts: Vec<Act>) {
        for act in acts {
            let Act::Send { to, ethertype, message } = act else { continue };
            let Ok(view) = View::parse(&message) else { unreachable!("{message:02x?} cannot be read") };
            assert!(message.len() <= FRAME_MAX, "{} bytes", message.len());
            if ethertype == EtherType::PPPOE_DISCOVERY {
                assert!(view.tags().is_ok() && (to == Mac::BROADCAST) == (view.code == pppoe::code::PADI));
                self.tags = view.payload.to_vec();
                continue;
            }
            let Some((number, rest)) = view.payload.split_first_chunk::<2>() else {
                unreachable!("a frame without a protocol")
            };
            let number = u16::from_be_bytes(*number);
            let Ok(control) = ppp::View::parse(rest) else { unreachable!("{rest:02x?} cannot be read") };
            if control.code == code::CONFIGURE_REQUEST && number != protocol::PAP && number != protocol::CHAP
            {
                assert!(control.options().is_ok(), "{rest:02x?}");
                self.requests.insert(number, (control.id, control.data.to_vec()));
            }
        }
        if let Some(link) = self.client.link() {
            assert!((64..=1500).contains(&link.mtu), "{link:?}");
            assert!(link.v4.as_ref().is_none_or(|v4| !v4.addr.is_unspecified()), "{link:?}");
            assert_eq!(link.remote, CONCENTRATOR);
        }
    }
}

#[cfg(test)]
mod tests;
