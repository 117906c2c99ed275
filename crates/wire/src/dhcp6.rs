//! DHCPv6 messages: a fixed part and options, some of which hold options.
//!
//! All lengths are checked before a value is believed, also those of options within options, so a view of a message can be
//! asked without further errors.
//!
//! # Spec
//! RFC 8415 §7, §8, §9, §21; RFC 3646; RFC 4075; RFC 7083.

use core::net::Ipv6Addr;

#[cfg(test)]
pub(crate) mod tests;

/// The port of clients.
pub const CLIENT: u16 = 546;
/// The port of servers and relays.
pub const SERVER: u16 = 547;
/// `All_DHCP_Relay_Agents_and_Servers`.
pub const ALL_AGENTS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
/// Relays that a message may pass.
pub const HOP_COUNT_LIMIT: u8 = 8;
/// A lifetime without an end.
pub const INFINITY: u32 = u32::MAX;
/// Bytes of the longest DUID (§11.1).
pub const DUID_MAX: usize = 130;

/// Length of the fixed part of messages between clients and servers, and of those of relays.
const FIXED: usize = 4;
const RELAY_FIXED: usize = 34;
/// Options within options that are looked into: an address or prefix in an association, and a status in it.
const DEPTH_MAX: u8 = 3;
/// Bytes of a label of a domain name (RFC 1035 §2.3.4).
const LABEL_MAX: usize = 63;

/// Codes of options.
pub mod option {
    /// The client's DUID.
    pub const CLIENT_ID: u16 = 1;
    /// The server's DUID.
    pub const SERVER_ID: u16 = 2;
    /// Identity association for addresses.
    pub const IA_NA: u16 = 3;
    /// An address in one.
    pub const IA_ADDR: u16 = 5;
    /// Codes of the options that a client asks for.
    pub const REQUESTED: u16 = 6;
    /// Preference of a server.
    pub const PREFERENCE: u16 = 7;
    /// Hundredths of a second since the exchange began.
    pub const ELAPSED: u16 = 8;
    /// The message that a relay passes on.
    pub const RELAY_MESSAGE: u16 = 9;
    /// Status code.
    pub const STATUS: u16 = 13;
    /// Two messages instead of four.
    pub const RAPID_COMMIT: u16 = 14;
    /// The interface by which a relay received a message.
    pub const INTERFACE_ID: u16 = 18;
    /// Name servers.
    pub const DNS: u16 = 23;
    /// Domain search list.
    pub const SEARCH: u16 = 24;
    /// Identity association for prefixes.
    pub const IA_PD: u16 = 25;
    /// A prefix in one.
    pub const IA_PREFIX: u16 = 26;
    /// Time servers.
    pub const SNTP: u16 = 31;
    /// Seconds until the answer to an information request is asked for again.
    pub const REFRESH_TIME: u16 = 32;
    /// `SOL_MAX_RT`, seconds.
    pub const SOL_MAX_RT: u16 = 82;
    /// `INF_MAX_RT`, seconds.
    pub const INF_MAX_RT: u16 = 83;
}

/// Status codes.
pub mod status {
    /// Success.
    pub const SUCCESS: u16 = 0;
    /// A failure for another reason.
    pub const UNSPEC_FAIL: u16 = 1;
    /// There is no address to give.
    pub const NO_ADDRS: u16 = 2;
    /// The server does not know the binding.
    pub const NO_BINDING: u16 = 3;
    /// An address is not of the client's link.
    pub const NOT_ON_LINK: u16 = 4;
    /// There is no prefix to give.
    pub const NO_PREFIX: u16 = 6;
}

/// The type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A client looks for servers.
    Solicit = 1,
    /// A server is there.
    Advertise,
    /// A client asks for what was advertised.
    Request,
    /// A client asks whether its addresses are of its link.
    Confirm,
    /// A client asks its server to extend lifetimes.
    Renew,
    /// A client asks any server to.
    Rebind,
    /// A server answers.
    Reply,
    /// A client gives back what it has.
    Release,
    /// A client has found an address in use.
    Decline,
    /// A server wants to be asked.
    Reconfigure,
    /// A client asks for parameters alone.
    InformationRequest,
    /// A relay passes on what a client has sent.
    RelayForward,
    /// A server answers to a relay.
    RelayReply,
}

impl Kind {
    const ALL: [Self; 13] = [
        Self::Solicit,
        Self::Advertise,
        Self::Request,
        Self::Confirm,
        Self::Renew,
        Self::Rebind,
        Self::Reply,
        Self::Release,
        Self::Decline,
        Self::Reconfigure,
        Self::InformationRequest,
        Self::RelayForward,
        Self::RelayReply,
    ];
}

/// Why bytes are no DHCPv6 message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than its fixed part.
    Short,
    /// An unknown type, or one of relays where a client's or server's is expected.
    Kind,
    /// An option ends beyond what it stands in, or is shorter than its fixed part.
    Option,
}

/// A message between a client and a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<'a> {
    /// Its type.
    pub kind: Kind,
    /// Transaction ID, 24 bits.
    pub xid: u32,
    /// Its options.
    pub options: Options<'a>,
}

impl<'a> View<'a> {
    /// Parses a message.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (&[kind, a, b, c], options) = bytes.split_first_chunk::<FIXED>().ok_or(Malformed::Short)?;
        let kind = Kind::ALL.into_iter().find(|known| *known as u8 == kind).ok_or(Malformed::Kind)?;
        if matches!(kind, Kind::RelayForward | Kind::RelayReply) {
            return Err(Malformed::Kind);
        }
        Ok(Self { kind, xid: u32::from_be_bytes([0, a, b, c]), options: Options::parse(options)? })
    }
}

/// A message of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relayed<'a> {
    /// Whether it goes to a client.
    pub is_reply: bool,
    /// Relays that it has passed.
    pub hops: u8,
    /// An address of the client's link.
    pub link: Ipv6Addr,
    /// The client, or the relay before.
    pub peer: Ipv6Addr,
    /// Its options.
    pub options: Options<'a>,
}

impl<'a> Relayed<'a> {
    /// Parses a message of a relay.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (fixed, options) = bytes.split_first_chunk::<RELAY_FIXED>().ok_or(Malformed::Short)?;
        let [kind, hops, addrs @ ..] = fixed;
        let is_reply = *kind == Kind::RelayReply as u8;
        if !is_reply && *kind != Kind::RelayForward as u8 {
            return Err(Malformed::Kind);
        }
        let (link, peer) = addrs.split_first_chunk::<16>().ok_or(Malformed::Short)?;
        let peer = peer.first_chunk::<16>().ok_or(Malformed::Short)?;
        let (link, peer) = ((*link).into(), (*peer).into());
        Ok(Self { is_reply, hops: *hops, link, peer, options: Options::parse(options)? })
    }
}

/// Options whose lengths have been checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// Parses options, and those within them.
    ///
    /// # Errors
    /// [`Malformed::Option`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let options = Self(bytes);
        if options.are_whole(DEPTH_MAX) { Ok(options) } else { Err(Malformed::Option) }
    }

    fn are_whole(self, depth: u8) -> bool {
        let mut rest = self.0;
        while !rest.is_empty() {
            let Some((code, value, behind)) = first(rest) else { return false };
            let inner = match code {
                option::IA_NA | option::IA_PD => value.get(Ia::FIXED..),
                option::IA_ADDR => value.get(Leased::ADDR_FIXED..),
                option::IA_PREFIX => value.get(Leased::PREFIX_FIXED..),
                option::STATUS if value.len() < 2 => None,
                _ => Some([].as_slice()),
            };
            let is_good = inner
                .is_some_and(|inner| inner.is_empty() || (depth > 0 && Self(inner).are_whole(depth - 1)));
            if !is_good {
                return false;
            }
            rest = behind;
        }
        true
    }

    /// All of them, by their codes.
    pub fn iter(self) -> impl Iterator<Item = (u16, &'a [u8])> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let (code, value, behind) = first(rest)?;
            rest = behind;
            Some((code, value))
        })
    }

    /// The first of a code.
    #[must_use]
    pub fn get(self, code: u16) -> Option<&'a [u8]> {
        self.iter().find(|(known, _)| *known == code).map(|(_, value)| value)
    }

    /// A number of four bytes.
    #[must_use]
    pub fn number(self, code: u16) -> Option<u32> {
        self.get(code)?.try_into().ok().map(u32::from_be_bytes)
    }

    /// Addresses of an option that lists them.
    pub fn addrs(self, code: u16) -> impl Iterator<Item = Ipv6Addr> {
        let (addrs, _) = self.get(code).unwrap_or_default().as_chunks::<16>();
        addrs.iter().copied().map(Ipv6Addr::from)
    }

    /// The status; success if there is none.
    #[must_use]
    pub fn status(self) -> u16 {
        let code = self.get(option::STATUS).and_then(|value| value.first_chunk::<2>());
        code.map_or(status::SUCCESS, |code| u16::from_be_bytes(*code))
    }

    /// A DUID of a length that is allowed.
    #[must_use]
    pub fn duid(self, code: u16) -> Option<&'a [u8]> {
        self.get(code).filter(|duid| (3..=DUID_MAX).contains(&duid.len()))
    }

    /// Identity associations: `code` is [`option::IA_NA`] or [`option::IA_PD`].
    pub fn associations(self, code: u16) -> impl Iterator<Item = Ia<'a>> {
        self.iter().filter(move |(known, _)| *known == code).filter_map(|(_, value)| Ia::read(value))
    }

    /// The domain search list as DNS writes names, if it is made of whole names without compression.
    #[must_use]
    pub fn search(self) -> Option<&'a [u8]> {
        self.get(option::SEARCH).filter(|names| are_names(names))
    }
}

/// Splits the first option off: code, value, the rest.
fn first(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (&[a, b, c, d], rest) = bytes.split_first_chunk::<4>()?;
    let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([c, d])))?;
    Some((u16::from_be_bytes([a, b]), value, rest))
}

/// Tells whether bytes are domain names as DNS writes them (RFC 1035 §3.1), none of them the root.
#[must_use]
pub fn are_names(mut bytes: &[u8]) -> bool {
    let mut labels = 0;
    while let Some((len, rest)) = bytes.split_first() {
        let len = usize::from(*len);
        if len > LABEL_MAX || len > rest.len() || (len == 0 && labels == 0) {
            return false;
        }
        labels = if len == 0 { 0 } else { labels + 1 };
        bytes = rest.get(len..).unwrap_or_default();
    }
    labels == 0
}

/// An identity association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ia<'a> {
    /// Its number, which the client has chosen.
    pub iaid: u32,
    /// Seconds until it is to be renewed, and rebound; 0 if the client may choose.
    pub t1_s: u32,
    /// See `t1_s`.
    pub t2_s: u32,
    /// Addresses or prefixes, and its status.
    pub options: Options<'a>,
}

impl<'a> Ia<'a> {
    const FIXED: usize = 12;

    fn read(value: &'a [u8]) -> Option<Self> {
        let (fixed, options) = value.split_at_checked(Self::FIXED)?;
        let (words, _) = fixed.as_chunks::<4>();
        let &[iaid, t1_s, t2_s] = words else { return None };
        let [iaid, t1_s, t2_s] = [iaid, t1_s, t2_s].map(u32::from_be_bytes);
        Some(Self { iaid, t1_s, t2_s, options: Options(options) })
    }

    /// Its addresses and prefixes.
    pub fn leased(self) -> impl Iterator<Item = Leased<'a>> {
        self.options.iter().filter_map(|(code, value)| Leased::read(code, value))
    }
}

/// An address, or a prefix, of an identity association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leased<'a> {
    /// The address, or the first of the prefix.
    pub addr: Ipv6Addr,
    /// Bits of the prefix; 128 for an address.
    pub len: u8,
    /// Seconds for which it is used for what is new.
    pub preferred_s: u32,
    /// Seconds for which it may be used.
    pub valid_s: u32,
    /// Its status.
    pub options: Options<'a>,
}

impl<'a> Leased<'a> {
    const ADDR_FIXED: usize = 24;
    const PREFIX_FIXED: usize = 25;

    fn read(code: u16, value: &'a [u8]) -> Option<Self> {
        let number = |bytes: &[u8]| bytes.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        match code {
            option::IA_ADDR => {
                let (addr, rest) = value.split_first_chunk::<16>()?;
                let (preferred_s, valid_s) = (number(rest)?, number(rest.get(4..)?)?);
                let options = Options(rest.get(8..)?);
                Some(Self { addr: (*addr).into(), len: 128, preferred_s, valid_s, options })
            }
            option::IA_PREFIX => {
                let (preferred_s, valid_s) = (number(value)?, number(value.get(4..)?)?);
                let (len, rest) = value.get(8..)?.split_first()?;
                let (addr, options) = rest.split_first_chunk::<16>()?;
                let options = Options(options);
                Some(Self { addr: (*addr).into(), len: *len, preferred_s, valid_s, options })
            }
            _ => None,
        }
    }
}
