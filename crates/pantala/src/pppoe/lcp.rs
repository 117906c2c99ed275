//! Options of LCP (RFC 1661 §6): the largest packet, the protocol of authentication, magic numbers.

use wire::ppp::{Options, chap, lcp, protocol};

use super::automaton::{Protocol, Verdict, option};

/// Largest packet over PPPoE, unless both ends agree on more (RFC 2516 §7).
pub(crate) const MRU: u16 = 1492;
/// The MRU of a peer that does not say.
const MRU_DEFAULT: u16 = 1500;
/// The smallest one of a peer that is accepted.
const MRU_MIN: u16 = 128;
/// Times that our own magic number comes back until the link is looped.
const LOOPS_MAX: u8 = 4;

/// The protocols by which we authenticate ourselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Auth {
    /// CHAP, or PAP if the peer wants that.
    #[default]
    Any,
    /// PAP alone.
    Pap,
    /// CHAP with MD5 alone.
    Chap,
}

impl Auth {
    const fn takes(self, method: Method) -> bool {
        match self {
            Self::Any => true,
            Self::Pap => matches!(method, Method::Pap),
            Self::Chap => matches!(method, Method::Chap),
        }
    }
}

/// A protocol of authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// RFC 1334.
    Pap,
    /// RFC 1994 with MD5.
    Chap,
}

impl Method {
    /// Reads the value of the option.
    fn read(value: &[u8]) -> Option<Self> {
        let (number, rest) = value.split_first_chunk::<2>()?;
        match (u16::from_be_bytes(*number), rest) {
            (protocol::PAP, []) => Some(Self::Pap),
            (protocol::CHAP, [chap::MD5]) => Some(Self::Chap),
            _ => None,
        }
    }

    fn option(self) -> Vec<u8> {
        let value = match self {
            Self::Pap => protocol::PAP.to_be_bytes().to_vec(),
            Self::Chap => [&protocol::CHAP.to_be_bytes()[..], &[chap::MD5]].concat(),
        };
        option(lcp::AUTH, &value)
    }
}

/// Both sides of LCP.
#[derive(Clone, Debug)]
pub(crate) struct Lcp {
    /// Whether we can authenticate ourselves, and how.
    auth: Option<Auth>,
    /// The largest packet that we receive; the option is left out if the peer rejects it.
    pub(crate) mru: Option<u16>,
    /// Our magic number; 0 if the peer rejects it.
    pub(crate) magic: u32,
    random: u64,
    /// Times that the number came back.
    loops: u8,
    /// The largest packet that the peer receives.
    pub(crate) peer_mru: u16,
    /// The protocol that it asks for.
    pub(crate) method: Option<Method>,
}

impl Lcp {
    /// Begins; numbers are made of `seed`.
    pub(crate) fn new(auth: Option<Auth>, mru: u16, seed: u64) -> Self {
        let (loops, peer_mru, method) = (0, MRU_DEFAULT, None);
        let mut own = Self { auth, mru: Some(mru), magic: 0, random: seed | 1, loops, peer_mru, method };
        own.magic = own.number();
        own
    }

    /// Whether frames that we send come back.
    pub(crate) const fn is_looped(&self) -> bool {
        self.loops > LOOPS_MAX
    }

    /// A number that is not 0.
    fn number(&mut self) -> u32 {
        self.random = super::client::next_random(self.random);
        (u32::try_from(self.random >> 32).unwrap_or(1)).max(1)
    }

    fn proposed(&self) -> Option<Vec<u8>> {
        let auth = self.auth?;
        Some(if auth == Auth::Pap { Method::Pap.option() } else { Method::Chap.option() })
    }
}

impl Protocol for Lcp {
    fn wanted(&self) -> Vec<u8> {
        let mru = self.mru.map(|mru| option(lcp::MRU, &mru.to_be_bytes()));
        let magic = (self.magic != 0).then(|| option(lcp::MAGIC, &self.magic.to_be_bytes()));
        mru.into_iter().chain(magic).flatten().collect()
    }

    fn judge(&mut self, options: Options<'_>) -> Verdict {
        let (mut nak, mut reject) = (Vec::new(), Vec::new());
        let (mut mru, mut method) = (MRU_DEFAULT, None);
        for (kind, value) in options.iter() {
            match (kind, value) {
                (lcp::MRU, [hi, lo]) => {
                    mru = u16::from_be_bytes([*hi, *lo]);
                    if mru < MRU_MIN {
                        nak.extend(option(lcp::MRU, &MRU.to_be_bytes()));
                    }
                }
                (lcp::MAGIC, [a, b, c, d]) => {
                    let magic = u32::from_be_bytes([*a, *b, *c, *d]);
                    if magic == self.magic && magic != 0 {
                        self.loops = self.loops.saturating_add(1);
                        let other = self.number();
                        nak.extend(option(lcp::MAGIC, &other.to_be_bytes()));
                    }
                }
                (lcp::AUTH, value) => {
                    let takes = |method: &Method| self.auth.is_some_and(|auth| auth.takes(*method));
                    match (Method::read(value).filter(takes), self.proposed()) {
                        (Some(found), _) => method = Some(found),
                        (None, Some(proposed)) => nak.extend(proposed),
                        (None, None) => reject.extend(option(kind, value)),
                    }
                }
                _ => reject.extend(option(kind, value)),
            }
        }
        if self.is_looped() {
            return Verdict::Hopeless;
        }
        if !reject.is_empty() {
            return Verdict::Reject(reject);
        }
        if !nak.is_empty() {
            return Verdict::Nak(nak);
        }
        (self.peer_mru, self.method) = (mru, method);
        Verdict::Ack
    }

    fn nak(&mut self, options: Options<'_>) -> bool {
        for (kind, value) in options.iter() {
            match (kind, value) {
                // A larger one than was asked for would not fit; a smaller one does.
                (lcp::MRU, [hi, lo]) => {
                    let proposed = u16::from_be_bytes([*hi, *lo]).max(MRU_MIN);
                    self.mru = self.mru.map(|mru| mru.min(proposed));
                }
                (lcp::MAGIC, _) => {
                    self.loops = self.loops.saturating_add(1);
                    self.magic = self.number();
                }
                _ => {}
            }
        }
        !self.is_looped()
    }

    fn reject(&mut self, options: Options<'_>) -> bool {
        for (kind, _) in options.iter() {
            match kind {
                lcp::MRU => self.mru = None,
                lcp::MAGIC => self.magic = 0,
                _ => {}
            }
        }
        true
    }
}
