//! The option of IPV6CP: interface identifiers (RFC 5072 §4.1).

use core::net::Ipv6Addr;

use wire::ppp::{Options, ipv6cp};

use super::automaton::{Protocol, Verdict, option};
use super::client::next_random;

/// Both sides of IPV6CP.
#[derive(Clone, Debug)]
pub(crate) struct Ipv6cp {
    /// Our identifier.
    pub(crate) id: u64,
    /// That of the peer, if it tells.
    pub(crate) peer: Option<u64>,
    /// Whether the peer negotiates it.
    is_negotiated: bool,
    random: u64,
}

impl Ipv6cp {
    /// Begins with a proposal; others are made of `seed`.
    pub(crate) const fn new(id: u64, seed: u64) -> Self {
        Self { id, peer: None, is_negotiated: true, random: seed | 1 }
    }

    fn number(&mut self) -> u64 {
        /// The bit that says that the identifier is unique in the world, which a random one is not.
        const UNIVERSAL: u64 = 0x0200_0000_0000_0000;
        self.random = next_random(self.random);
        (self.random & !UNIVERSAL).max(1)
    }
}

/// The link-local address with an identifier.
pub(crate) fn link_local(id: u64) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(id))
}

fn read(value: &[u8]) -> Option<u64> {
    <[u8; 8]>::try_from(value).ok().map(u64::from_be_bytes)
}

impl Protocol for Ipv6cp {
    fn wanted(&self) -> Vec<u8> {
        if self.is_negotiated { option(ipv6cp::IDENTIFIER, &self.id.to_be_bytes()) } else { Vec::new() }
    }

    fn judge(&mut self, options: Options<'_>) -> Verdict {
        let (mut nak, mut reject) = (Vec::new(), Vec::new());
        let mut peer = None;
        for (kind, value) in options.iter() {
            match read(value).filter(|_| kind == ipv6cp::IDENTIFIER) {
                Some(id) if id != 0 && id != self.id => peer = Some(id),
                Some(_) => {
                    let other = self.number();
                    nak.extend(option(kind, &other.to_be_bytes()));
                }
                None => reject.extend(option(kind, value)),
            }
        }
        match (reject.is_empty(), nak.is_empty()) {
            (false, _) => return Verdict::Reject(reject),
            (true, false) => return Verdict::Nak(nak),
            (true, true) => self.peer = peer,
        }
        Verdict::Ack
    }

    fn nak(&mut self, options: Options<'_>) -> bool {
        if let Some(value) = options.get(ipv6cp::IDENTIFIER) {
            let proposed = read(value).filter(|id| *id != 0 && Some(*id) != self.peer);
            self.id = proposed.unwrap_or_else(|| self.number());
        }
        true
    }

    fn reject(&mut self, options: Options<'_>) -> bool {
        if options.get(ipv6cp::IDENTIFIER).is_some() {
            self.is_negotiated = false;
        }
        true
    }
}
