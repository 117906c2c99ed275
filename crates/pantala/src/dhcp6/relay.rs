//! A DHCPv6 relay, as a function of messages (RFC 8415 §19): it wraps what clients and other relays send, and unwraps what
//! servers answer.

use core::net::Ipv6Addr;

use wire::dhcp6::{HOP_COUNT_LIMIT, Kind, Relayed, View, option};

use super::message::Builder;
pub(crate) use crate::dhcp::relay::Counts;

/// The relay of a link.
#[derive(Debug)]
pub(crate) struct Relay {
    /// The name of the link, by which answers find back to it.
    link: String,
    /// Where requests are sent.
    pub(crate) servers: Vec<Ipv6Addr>,
    pub(crate) counts: Counts,
}

/// An answer for a client or another relay on the link.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) to: Ipv6Addr,
    /// It goes to a relay, and is unwrapped further there.
    pub(crate) is_for_relay: bool,
    pub(crate) bytes: Vec<u8>,
}

/// The link that an answer of a server is for, by the name that its relay has given.
pub(crate) fn link_of(bytes: &[u8]) -> Option<&[u8]> {
    Relayed::parse(bytes).ok().filter(|relayed| relayed.is_reply)?.options.get(option::INTERFACE_ID)
}

impl Relay {
    pub(crate) fn new(link: String, servers: Vec<Ipv6Addr>) -> Self {
        Self { link, servers, counts: Counts::default() }
    }

    /// Makes of a message of `peer` what servers get; `own` is an address of ours on the link.
    pub(crate) fn request(
        &mut self,
        bytes: &[u8],
        peer: Ipv6Addr,
        own: Ipv6Addr,
        len_max: usize,
    ) -> Option<Vec<u8>> {
        let (hops, link) = match (View::parse(bytes), Relayed::parse(bytes)) {
            (Ok(view), _) if is_of_client(view.kind) => (0, own),
            (_, Ok(relayed)) if !relayed.is_reply && relayed.hops >= HOP_COUNT_LIMIT => {
                self.counts.hops += 1;
                return None;
            }
            //= https://www.rfc-editor.org/rfc/rfc8415#section-19.1.2
            (_, Ok(relayed)) if !relayed.is_reply => {
                let is_local = peer.is_unicast_link_local();
                (relayed.hops + 1, if is_local { own } else { Ipv6Addr::UNSPECIFIED })
            }
            (Err(_), Err(_)) => {
                self.counts.malformed += 1;
                return None;
            }
            _ => {
                self.counts.ignored += 1;
                return None;
            }
        };
        let wrapped = Builder::relay(Kind::RelayForward, hops, link, peer);
        let wrapped =
            wrapped.with(option::INTERFACE_ID, self.link.as_bytes()).with(option::RELAY_MESSAGE, bytes);
        let wrapped = wrapped.into_bytes();
        if wrapped.len() > len_max {
            self.counts.no_room += 1;
            return None;
        }
        self.counts.requests += 1;
        Some(wrapped)
    }

    /// Makes of a server's message what stands in it.
    pub(crate) fn reply(&mut self, bytes: &[u8]) -> Option<Reply> {
        let relayed = Relayed::parse(bytes).ok().filter(|relayed| relayed.is_reply);
        let inner =
            relayed.and_then(|relayed| Some((relayed.peer, relayed.options.get(option::RELAY_MESSAGE)?)));
        let Some((to, inner)) = inner else {
            self.counts.malformed += 1;
            return None;
        };
        let is_for_relay = Relayed::parse(inner).is_ok_and(|relayed| relayed.is_reply);
        let is_for_client = View::parse(inner).is_ok_and(|view| !is_of_client(view.kind));
        if !is_for_relay && !is_for_client {
            self.counts.ignored += 1;
            return None;
        }
        self.counts.replies += 1;
        Some(Reply { to, is_for_relay, bytes: inner.to_vec() })
    }
}

/// Whether clients send messages of a type.
const fn is_of_client(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Solicit
            | Kind::Request
            | Kind::Confirm
            | Kind::Renew
            | Kind::Rebind
            | Kind::Release
            | Kind::Decline
            | Kind::InformationRequest
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 1);
    const HOST: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
    const LONGEST: usize = 1452;

    fn relay() -> Relay {
        Relay::new("lan".to_owned(), vec!["2001:db8::5".parse().unwrap()])
    }

    fn solicit() -> Vec<u8> {
        Builder::new(Kind::Solicit, 9).with(option::CLIENT_ID, b"client").into_bytes()
    }

    /// Wraps an answer as a server does.
    fn answer(forward: &[u8], inner: &[u8]) -> Vec<u8> {
        let asked = Relayed::parse(forward).unwrap();
        let reply = Builder::relay(Kind::RelayReply, asked.hops, asked.link, asked.peer);
        let id = asked.options.get(option::INTERFACE_ID).unwrap();
        reply.with(option::INTERFACE_ID, id).with(option::RELAY_MESSAGE, inner).into_bytes()
    }

    #[test]
    fn a_clients_message_is_wrapped_and_its_answer_comes_back_to_it() {
        let mut relay = relay();
        let forward = relay.request(&solicit(), HOST, OWN, LONGEST).unwrap();
        let asked = Relayed::parse(&forward).unwrap();
        assert_eq!((asked.hops, asked.link, asked.peer, asked.is_reply), (0, OWN, HOST, false));
        assert_eq!(asked.options.get(option::RELAY_MESSAGE), Some(&solicit()[..]));
        let inner = Builder::new(Kind::Advertise, 9).into_bytes();
        let reply = answer(&forward, &inner);
        assert_eq!(link_of(&reply), Some(&b"lan"[..]));
        assert_eq!(relay.reply(&reply), Some(Reply { to: HOST, is_for_relay: false, bytes: inner }));
    }

    #[test]
    fn relays_may_stand_behind_each_other_up_to_a_limit() {
        let (mut relay, mut message) = (relay(), solicit());
        let mut wrapped = Vec::new();
        for hops in 0..=HOP_COUNT_LIMIT {
            message = relay.request(&message, HOST, OWN, LONGEST).unwrap();
            assert_eq!(Relayed::parse(&message).unwrap().hops, hops);
            wrapped.push(message.clone());
        }
        assert_eq!((relay.request(&message, HOST, OWN, LONGEST), relay.counts.hops), (None, 1));
        // From a relay elsewhere, whose address says where it is.
        let far = relay.request(&wrapped[0], OWN, OWN, LONGEST).unwrap();
        assert_eq!(Relayed::parse(&far).unwrap().link, Ipv6Addr::UNSPECIFIED);
        let inner = answer(&wrapped[0], &Builder::new(Kind::Reply, 9).into_bytes());
        let reply = relay.reply(&answer(&wrapped[1], &inner)).unwrap();
        assert_eq!((reply.is_for_relay, reply.bytes), (true, inner));
    }

    #[test]
    fn what_is_not_for_a_relay_is_not_passed_on() {
        let mut relay = relay();
        let advertise = Builder::new(Kind::Advertise, 9).into_bytes();
        for (bytes, len_max) in [(&advertise[..], LONGEST), (&[1, 2][..], LONGEST), (&solicit()[..], 40)] {
            assert_eq!(relay.request(bytes, HOST, OWN, len_max), None);
        }
        let forward = relay.request(&solicit(), HOST, OWN, LONGEST).unwrap();
        // Neither what says that it comes from a client, nor a request in place of an answer.
        for wrong in [answer(&forward, &solicit()), forward.clone(), vec![13; 20]] {
            assert_eq!(relay.reply(&wrong), None);
        }
        let Counts { ignored, malformed, no_room, .. } = relay.counts;
        assert_eq!((ignored, malformed, no_room), (2, 3, 1));
        for cut in 0..forward.len() {
            let _ = (relay.reply(&forward[..cut]), relay.request(&forward[..cut], HOST, OWN, LONGEST));
        }
    }
}
