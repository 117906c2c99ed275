//! The relays between a client and a server (RFC 8415 §19.3): their messages hold each other, the client's is the innermost.

use core::net::Ipv6Addr;

use wire::dhcp6::{HOP_COUNT_LIMIT, Kind, Relayed, option};

use super::message::Builder;

/// Relays on a path at the most: the count of the last one is [`HOP_COUNT_LIMIT`].
const RELAYS_MAX: usize = HOP_COUNT_LIMIT as usize + 1;

/// A relay that a message has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hop<'a> {
    hops: u8,
    link: Ipv6Addr,
    peer: Ipv6Addr,
    interface: Option<&'a [u8]>,
}

/// The relays that a message has passed, the one nearest to the server first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path<'a>(Vec<Hop<'a>>);

impl<'a> Path<'a> {
    /// Takes the client's message out of those of relays; `None` if it is in more of them than may be, or in none that can be read.
    pub(crate) fn unwrap(mut bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut all = Vec::new();
        while bytes.first() == Some(&(Kind::RelayForward as u8)) {
            let Relayed { hops, link, peer, options, .. } = Relayed::parse(bytes).ok()?;
            if all.len() >= RELAYS_MAX {
                return None;
            }
            all.push(Hop { hops, link, peer, interface: options.get(option::INTERFACE_ID) });
            bytes = options.get(option::RELAY_MESSAGE)?;
        }
        Some((Self(all), bytes))
    }

    /// Wraps an answer for the way back.
    //= https://www.rfc-editor.org/rfc/rfc8415#section-19.3
    pub(crate) fn wrap(&self, answer: Vec<u8>) -> Vec<u8> {
        self.0.iter().rev().fold(answer, |inner, hop| {
            let reply = Builder::relay(Kind::RelayReply, hop.hops, hop.link, hop.peer);
            let reply = match hop.interface {
                Some(name) => reply.with(option::INTERFACE_ID, name),
                None => reply,
            };
            reply.with(option::RELAY_MESSAGE, &inner).into_bytes()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dhcp6::relay::{Relay, Reply};

    const HOST: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
    const OWN: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 1);

    #[test]
    fn an_answer_goes_back_through_the_relays_that_the_question_has_passed_up_to_a_limit() {
        let question = Builder::new(Kind::Solicit, 9).with(option::CLIENT_ID, b"client").into_bytes();
        let answer = Builder::new(Kind::Advertise, 9).into_bytes();
        let mut relays = Vec::new();
        let mut message = question.clone();
        for count in 0..=RELAYS_MAX {
            let (path, inner) = Path::unwrap(&message).unwrap();
            assert_eq!((path.0.len(), inner), (count, &question[..]));
            let mut reply = path.wrap(answer.clone());
            for relay in relays.iter_mut().rev() {
                let back: Reply = Relay::reply(relay, &reply).unwrap();
                reply = back.bytes;
            }
            assert_eq!(reply, answer);
            let mut relay = Relay::new(format!("lan{count}"), Vec::new());
            let Some(next) = relay.request(&message, HOST, OWN, 4096) else { break };
            message = next;
            relays.push(relay);
        }
        assert_eq!(relays.len(), RELAYS_MAX, "no relay passes on more");
        let one_more = Builder::relay(Kind::RelayForward, 0, OWN, HOST).with(option::RELAY_MESSAGE, &message);
        assert_eq!(Path::unwrap(&one_more.into_bytes()), None);
    }

    #[test]
    fn a_message_of_a_relay_that_holds_none_is_refused() {
        let empty = Builder::relay(Kind::RelayForward, 0, OWN, HOST).into_bytes();
        assert_eq!(Path::unwrap(&empty), None);
        let whole =
            Builder::relay(Kind::RelayForward, 0, OWN, HOST).with(option::RELAY_MESSAGE, &[1, 2, 3, 4]);
        let whole = whole.into_bytes();
        assert!(
            (0..whole.len()).all(|len| Path::unwrap(&whole[..len]).is_none_or(|(path, _)| path.0.is_empty()))
        );
    }
}
