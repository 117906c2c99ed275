//! A DHCP relay, as a function of messages (RFC 1542 §4, RFC 3046). It changes what a relay must and leaves all other bytes as
//! they are.

use core::net::Ipv4Addr;

use wire::ether::Mac;

use super::message::{Malformed, Message, option};

/// Relays that a message may pass (RFC 1542 §4.1.1).
const HOPS_MAX: u8 = 16;
/// Length of the fixed part with the cookie.
const OPTIONS_AT: usize = 240;
const HOPS_AT: usize = 3;
const GIADDR_AT: core::ops::Range<usize> = 24..28;
/// The sub-option that names the link.
const CIRCUIT_ID: u8 = 1;

/// Settings of a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Our address on the clients' link.
    pub(crate) own: Ipv4Addr,
    /// Where requests are sent.
    pub(crate) servers: Vec<Ipv4Addr>,
    /// The name of the link that servers are told, if they are.
    pub(crate) circuit: Option<String>,
}

/// The relay of a link.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) settings: Settings,
    pub(crate) counts: Counts,
}

/// Events that a relay of DHCP or DHCPv6 has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) replies: u64,
    pub(crate) malformed: u64,
    /// Requests that have passed too many relays.
    pub(crate) hops: u64,
    /// Messages that a relay does not pass on: of DHCP, requests with a relay's option although no relay has sent them, and replies
    /// that are for no client here.
    pub(crate) ignored: u64,
    /// Requests without room for what a relay adds: of DHCP they are sent without it.
    pub(crate) no_room: u64,
}

/// A reply for a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The address that it gets, and its link address; `None` if only broadcasts reach it.
    pub(crate) to: Option<(Ipv4Addr, Mac)>,
    pub(crate) bytes: Vec<u8>,
}

impl Relay {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, counts: Counts::default() }
    }

    /// Makes of a client's message, or of another relay's, what servers get.
    pub(crate) fn request(&mut self, mut bytes: Vec<u8>, len_max: usize) -> Option<Vec<u8>> {
        let message = self.parse(&bytes).filter(|message| !message.is_reply)?;
        //= https://www.rfc-editor.org/rfc/rfc1542#section-4.1.1
        if message.hops >= HOPS_MAX {
            self.counts.hops += 1;
            return None;
        }
        *bytes.get_mut(HOPS_AT)? = message.hops + 1;
        if message.giaddr.is_unspecified() {
            //= https://www.rfc-editor.org/rfc/rfc3046#section-2.1.1
            if message.get(option::RELAY_AGENT).is_some() {
                self.counts.ignored += 1;
                return None;
            }
            bytes.get_mut(GIADDR_AT)?.copy_from_slice(&self.settings.own.octets());
            self.add_circuit(&mut bytes, len_max);
        }
        self.counts.requests += 1;
        Some(bytes)
    }

    /// Makes of a server's message what its client gets.
    pub(crate) fn reply(&mut self, mut bytes: Vec<u8>) -> Option<Reply> {
        let message = self.parse(&bytes)?;
        if !message.is_reply || message.giaddr != self.settings.own {
            self.counts.ignored += 1;
            return None;
        }
        //= https://www.rfc-editor.org/rfc/rfc3046#section-2.1
        //# The relay agent MUST remove the Relay Agent Information option when forwarding server-to-client messages
        if let Some((begin, end)) = find(&bytes, option::RELAY_AGENT) {
            let len = bytes.len();
            bytes.drain(begin..end);
            bytes.resize(len, option::PAD);
        }
        self.counts.replies += 1;
        let addr = if message.yiaddr.is_unspecified() { message.ciaddr } else { message.yiaddr };
        let is_reached = !message.broadcast && !addr.is_unspecified();
        Some(Reply { to: is_reached.then_some((addr, message.chaddr)), bytes })
    }

    fn parse(&mut self, bytes: &[u8]) -> Option<Message> {
        let parsed = Message::parse(bytes);
        self.counts.malformed += u64::from(matches!(
            parsed,
            Err(Malformed::Short | Malformed::Option | Malformed::Foreign | Malformed::Kind)
        ));
        parsed.ok().map(|(message, _)| message)
    }

    /// Adds the option that names the link, as the last one.
    fn add_circuit(&mut self, bytes: &mut Vec<u8>, len_max: usize) {
        let Some(circuit) = &self.settings.circuit else { return };
        let end = find(bytes, option::END).map(|(begin, _)| begin);
        let (Some(end), Ok(len)) = (end, u8::try_from(circuit.len())) else { return };
        if end + circuit.len() + 5 > len_max || len > u8::MAX - 2 {
            self.counts.no_room += 1;
            return;
        }
        let padded = bytes.len();
        bytes.truncate(end);
        bytes.extend([option::RELAY_AGENT, len + 2, CIRCUIT_ID, len]);
        bytes.extend(circuit.bytes());
        bytes.push(option::END);
        bytes.resize(bytes.len().max(padded), option::PAD);
    }
}

/// Where an option of the options' own field begins, and ends.
fn find(bytes: &[u8], wanted: u8) -> Option<(usize, usize)> {
    let mut at = OPTIONS_AT;
    while let Some(code) = bytes.get(at) {
        let end = match *code {
            option::PAD | option::END => at + 1,
            _ => at + 2 + usize::from(*bytes.get(at + 1)?),
        };
        if *code == wanted {
            return Some((at, end.min(bytes.len())));
        }
        if *code == option::END {
            return None;
        }
        at = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dhcp::message::Kind;

    const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
    const MAC: Mac = Mac([2, 0, 0, 0, 0, 7]);
    const LONGEST: usize = 1472;

    fn relay(circuit: Option<&str>) -> Relay {
        let servers = vec![Ipv4Addr::new(198, 51, 100, 1)];
        Relay::new(Settings { own: OWN, servers, circuit: circuit.map(str::to_owned) })
    }

    fn request() -> Message {
        let mut message = Message::request(7, MAC);
        message.put(option::MESSAGE_TYPE, &[Kind::Discover as u8]);
        message.put(option::HOST_NAME, b"desk");
        message
    }

    #[test]
    fn a_request_gets_our_address_a_hop_and_the_name_of_its_link_and_keeps_all_else() {
        for circuit in [None, Some("lan")] {
            let mut before = request().to_bytes();
            // The name of a boot file is no matter of ours.
            before[108..112].copy_from_slice(b"boot");
            let after = relay(circuit).request(before.clone(), LONGEST).unwrap();
            let (message, _) = Message::parse(&after).unwrap();
            assert_eq!((message.giaddr, message.hops), (OWN, 1));
            assert_eq!(message.get(option::RELAY_AGENT), circuit.map(|_| &b"\x01\x03lan"[..]));
            assert_eq!((&after[28..240], after.len()), (&before[28..240], before.len()));
            assert_eq!(message.text(option::HOST_NAME).as_deref(), Some("desk"));
        }
    }

    #[test]
    fn a_request_of_another_relay_keeps_its_address_and_one_that_has_gone_far_enough_ends() {
        let other = Ipv4Addr::new(203, 0, 113, 1);
        let mut far = Message { giaddr: other, hops: HOPS_MAX - 1, ..request() };
        far.put(option::RELAY_AGENT, b"\x01\x01x");
        let mut relay = relay(Some("lan"));
        let after = relay.request(far.to_bytes(), LONGEST).unwrap();
        let (message, _) = Message::parse(&after).unwrap();
        assert_eq!((message.giaddr, message.hops), (other, HOPS_MAX));
        assert_eq!(message.get(option::RELAY_AGENT), Some(&b"\x01\x01x"[..]));
        assert_eq!((relay.request(after, LONGEST), relay.counts.hops), (None, 1));
    }

    #[test]
    fn a_client_cannot_speak_as_a_relay_and_what_has_no_room_goes_without_our_option() {
        let mut relay = relay(Some("lan"));
        let mut forged = request();
        forged.put(option::RELAY_AGENT, b"\x01\x01x");
        assert_eq!((relay.request(forged.to_bytes(), LONGEST), relay.counts.ignored), (None, 1));
        let after = relay.request(request().to_bytes(), 252).unwrap();
        assert_eq!(
            (Message::parse(&after).unwrap().0.get(option::RELAY_AGENT), relay.counts.no_room),
            (None, 1)
        );
        assert_eq!((relay.request(vec![1; 100], LONGEST), relay.counts.malformed), (None, 1));
    }

    #[test]
    fn a_reply_goes_to_its_client_without_our_option() {
        let mut relay = relay(Some("lan"));
        for broadcast in [false, true] {
            let asked = Message { giaddr: OWN, broadcast, ..request() };
            let mut reply = Message { yiaddr: Ipv4Addr::new(192, 0, 2, 9), ..asked.reply(Kind::Offer) };
            reply.put(option::RELAY_AGENT, b"\x01\x03lan");
            reply.put(option::DNS, &[192, 0, 2, 53]);
            let got = relay.reply(reply.to_bytes()).unwrap();
            let (message, _) = Message::parse(&got.bytes).unwrap();
            assert_eq!(got.to, (!broadcast).then_some((reply.yiaddr, MAC)));
            assert_eq!(
                (message.get(option::RELAY_AGENT), message.get(option::DNS)),
                (None, Some(&[192, 0, 2, 53][..]))
            );
        }
        let other = Message { giaddr: Ipv4Addr::new(192, 0, 2, 2), ..request() }.reply(Kind::Ack);
        assert_eq!((relay.reply(other.to_bytes()), relay.counts.ignored), (None, 1));
        assert_eq!(relay.reply(request().to_bytes()), None);
    }

    #[test]
    fn any_bytes_are_relayed_as_a_message_or_not_at_all() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |below: usize| {
            seed ^= seed >> 12;
            seed ^= seed << 25;
            seed ^= seed >> 27;
            usize::try_from(seed % below as u64).unwrap()
        };
        let (good, mut relay) = (request().to_bytes(), relay(Some("lan")));
        for _ in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..next(5) {
                let at = OPTIONS_AT + next(40);
                bytes[at] = u8::try_from(next(256)).unwrap();
            }
            bytes.truncate(230 + next(80));
            if let Some(after) = relay.request(bytes.clone(), LONGEST) {
                assert!(Message::parse(&after).is_ok(), "{bytes:?}");
            }
            bytes.first_mut().into_iter().for_each(|op| *op = 2);
            bytes.get_mut(GIADDR_AT).into_iter().for_each(|giaddr| giaddr.copy_from_slice(&OWN.octets()));
            if let Some(reply) = relay.reply(bytes.clone()) {
                assert!(Message::parse(&reply.bytes).is_ok(), "{bytes:?}");
            }
        }
    }
}
