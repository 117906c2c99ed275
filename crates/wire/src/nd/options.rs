//! The options of neighbour discovery.

use super::{Error, Preference};
use crate::build::Writer;
use crate::{Mac, NoRoom};
use core::net::Ipv6Addr;

const SOURCE_LINK_ADDR: u8 = 1;
const TARGET_LINK_ADDR: u8 = 2;
const PREFIX: u8 = 3;
const REDIRECTED: u8 = 4;
const MTU: u8 = 5;
const ROUTE_INFO: u8 = 24;
const RDNSS: u8 = 25;
const DNSSL: u8 = 31;
const PREF64: u8 = 38;
/// Lengths of a NAT64 prefix, in the order of their codes (RFC 8781 §4).
const PREF64_LENS: [u8; 6] = [96, 64, 56, 48, 40, 32];
/// The longest lifetime of a NAT64 prefix, seconds: 13 bits, in units of eight.
const PREF64_LIFETIME_MAX: u16 = 0x1fff * 8;

/// Option bytes of a message, all of them known to be readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// Reads all options once.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut rest = bytes;
        while !rest.is_empty() {
            (_, rest) = take(rest)?;
        }
        Ok(Self(bytes))
    }

    /// The options one by one.
    pub fn iter(&self) -> impl Iterator<Item = Opt<'a>> + use<'a> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let (option, behind) = take(rest).ok()?;
            rest = behind;
            Some(option)
        })
    }

    /// The sender's link-layer address.
    #[must_use]
    pub fn source_link_addr(&self) -> Option<Mac> {
        self.iter().find_map(|option| match option {
            Opt::SourceLinkAddr(mac) => Some(mac),
            _ => None,
        })
    }

    /// The target's link-layer address.
    #[must_use]
    pub fn target_link_addr(&self) -> Option<Mac> {
        self.iter().find_map(|option| match option {
            Opt::TargetLinkAddr(mac) => Some(mac),
            _ => None,
        })
    }
}

/// A prefix a router advertises (RFC 4861 §4.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The prefix; bits behind its length mean nothing.
    pub addr: Ipv6Addr,
    /// Its length in bits, as it stands there: may be more than 128.
    pub len: u8,
    /// Its addresses are neighbours.
    pub on_link: bool,
    /// Hosts may make themselves an address in it.
    pub autonomous: bool,
    /// Valid lifetime, in seconds; `u32::MAX` is infinity.
    pub valid_s: u32,
    /// Preferred lifetime of addresses made from it, in seconds; `u32::MAX` is infinity.
    pub preferred_s: u32,
}

/// A more specific route by the router (RFC 4191 §2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RouteInfo {
    /// The destination; no bits are set behind its length.
    pub addr: Ipv6Addr,
    /// Its length in bits, at most 128.
    pub len: u8,
    /// Preference.
    pub preference: Preference,
    /// Lifetime, in seconds; `u32::MAX` is infinity.
    pub lifetime_s: u32,
}

/// The prefix of a NAT64 (RFC 8781).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pref64 {
    /// The first 96 bits of the prefix.
    pub prefix: [u8; 12],
    /// Its length in bits: 96, 64, 56, 48, 40 or 32.
    pub len: u8,
    /// Lifetime, in seconds; in units of eight on the wire, rounded up, and 65,528 at the most.
    pub lifetime_s: u16,
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opt<'a> {
    /// Link-layer address of the sender.
    SourceLinkAddr(Mac),
    /// Link-layer address of the target.
    TargetLinkAddr(Mac),
    /// A prefix.
    Prefix(Prefix),
    /// As much as fits of the packet that is redirected. Emitted in units of eight bytes, the rest is cut off.
    Redirected(&'a [u8]),
    /// MTU of the link.
    Mtu(u32),
    /// Name servers (RFC 8106 §5.1).
    Rdnss {
        /// Lifetime, in seconds; `u32::MAX` is infinity.
        lifetime_s: u32,
        /// Their addresses; at most 127 are emitted.
        servers: &'a [[u8; 16]],
    },
    /// A more specific route.
    RouteInfo(RouteInfo),
    /// Search list of domain names (RFC 8106 §5.2).
    Dnssl {
        /// Lifetime, in seconds; `u32::MAX` is infinity.
        lifetime_s: u32,
        /// The names as DNS writes them (RFC 1035 §3.1), one behind the other, filled up with zeros to units of eight bytes.
        names: &'a [u8],
    },
    /// The prefix of a NAT64.
    Pref64(Pref64),
    /// Any other, to be ignored. Emitted if the data fills units of eight bytes together with type and length.
    Unknown {
        /// Option type.
        kind: u8,
        /// Bytes behind type and length.
        data: &'a [u8],
    },
}

impl<'a> Opt<'a> {
    pub(super) fn write(&self, out: &mut Writer<'_>) -> Result<(), NoRoom> {
        match self {
            Self::SourceLinkAddr(mac) => write(out, SOURCE_LINK_ADDR, &[&mac.octets()]),
            Self::TargetLinkAddr(mac) => write(out, TARGET_LINK_ADDR, &[&mac.octets()]),
            Self::Prefix(prefix) => prefix.write(out),
            Self::Redirected(packet) => {
                let whole = packet.len() - packet.len() % 8;
                write(out, REDIRECTED, &[&[0; 6], packet.get(..whole).unwrap_or_default()])
            }
            Self::Mtu(mtu) => write(out, MTU, &[&[0; 2], &mtu.to_be_bytes()]),
            Self::Rdnss { lifetime_s, servers } => {
                let servers = servers.get(..127).unwrap_or(servers);
                write(out, RDNSS, &[&[0; 2], &lifetime_s.to_be_bytes(), servers.as_flattened()])
            }
            Self::RouteInfo(route) => route.write(out),
            Self::Dnssl { lifetime_s, names } => {
                write(out, DNSSL, &[&[0; 2], &lifetime_s.to_be_bytes(), names])
            }
            Self::Pref64(prefix) => prefix.write(out),
            Self::Unknown { kind, data } => write(out, *kind, &[data]),
        }
    }

    /// An option whose length is one it cannot have is an error, as in the BSDs; those of name servers and of
    /// options that came later are ignored, as their RFCs want.
    fn read(kind: u8, len: u8, body: &'a [u8]) -> Result<Self, Error> {
        let wrong = Error::OptionLen { kind, len };
        match kind {
            SOURCE_LINK_ADDR => mac(body).map(Self::SourceLinkAddr).ok_or(wrong),
            TARGET_LINK_ADDR => mac(body).map(Self::TargetLinkAddr).ok_or(wrong),
            PREFIX => Prefix::read(body).map(Self::Prefix).ok_or(wrong),
            REDIRECTED => body.get(6..).map(Self::Redirected).ok_or(wrong),
            MTU => mtu(body).map(Self::Mtu).ok_or(wrong),
            RDNSS => Ok(rdnss(body).unwrap_or(Self::Unknown { kind, data: body })),
            ROUTE_INFO => {
                Ok(RouteInfo::read(body).map_or(Self::Unknown { kind, data: body }, Self::RouteInfo))
            }
            DNSSL => Ok(dnssl(body).unwrap_or(Self::Unknown { kind, data: body })),
            PREF64 => Ok(Pref64::read(body).map_or(Self::Unknown { kind, data: body }, Self::Pref64)),
            _ => Ok(Self::Unknown { kind, data: body }),
        }
    }
}

impl RouteInfo {
    /// `None` if it must be ignored: a preference that is reserved, or a length that the option has no room for.
    //= https://www.rfc-editor.org/rfc/rfc4191#section-2.3
    fn read(body: &[u8]) -> Option<Self> {
        let (&[len, flags, l0, l1, l2, l3], prefix) = body.split_first_chunk()?;
        let fits = matches!((prefix.len(), len), (0, 0) | (8, 0..=64) | (16, 0..=128));
        let preference = Preference::of_bits(flags >> 3).filter(|_| fits)?;
        let mut addr = [0; 16];
        addr.iter_mut().zip(prefix).for_each(|(to, from)| *to = *from);
        let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
        let addr = Ipv6Addr::from_bits(u128::from_be_bytes(addr) & mask);
        Some(Self { addr, len, preference, lifetime_s: u32::from_be_bytes([l0, l1, l2, l3]) })
    }

    fn write(&self, out: &mut Writer<'_>) -> Result<(), NoRoom> {
        let octets = self.addr.octets();
        let prefix = match self.len {
            0 => &[],
            1..=64 => octets.get(..8).unwrap_or_default(),
            _ => &octets[..],
        };
        write(
            out,
            ROUTE_INFO,
            &[&[self.len, self.preference.bits() << 3], &self.lifetime_s.to_be_bytes(), prefix],
        )
    }
}

impl Pref64 {
    fn read(body: &[u8]) -> Option<Self> {
        let (&[a, b], prefix) = body.split_first_chunk()?;
        let scaled = u16::from_be_bytes([a, b]);
        let len = *PREF64_LENS.get(usize::from(scaled & 7))?;
        Some(Self { prefix: prefix.try_into().ok()?, len, lifetime_s: scaled & !7 })
    }

    /// Writes nothing if the length is none that a NAT64 prefix can have.
    fn write(&self, out: &mut Writer<'_>) -> Result<(), NoRoom> {
        let Some(code) = (0_u16..).zip(PREF64_LENS).find_map(|(code, len)| (len == self.len).then_some(code))
        else {
            return Ok(());
        };
        let lifetime = self.lifetime_s.min(PREF64_LIFETIME_MAX).next_multiple_of(8);
        write(out, PREF64, &[&(lifetime | code).to_be_bytes(), &self.prefix])
    }
}

impl Prefix {
    fn read(body: &[u8]) -> Option<Self> {
        let (&[len, flags, v0, v1, v2, v3, p0, p1, p2, p3, _, _, _, _], addr) = body.split_first_chunk()?;
        let addr: [u8; 16] = addr.try_into().ok()?;
        Some(Self {
            addr: addr.into(),
            len,
            on_link: flags & 0x80 != 0,
            autonomous: flags & 0x40 != 0,
            valid_s: u32::from_be_bytes([v0, v1, v2, v3]),
            preferred_s: u32::from_be_bytes([p0, p1, p2, p3]),
        })
    }

    fn write(&self, out: &mut Writer<'_>) -> Result<(), NoRoom> {
        let flags = super::bit(self.on_link, 0x80) | super::bit(self.autonomous, 0x40);
        let lifetimes = [self.valid_s.to_be_bytes(), self.preferred_s.to_be_bytes()];
        write(out, PREFIX, &[&[self.len, flags], lifetimes.as_flattened(), &[0; 4], &self.addr.octets()])
    }
}

/// Takes the first option of `bytes`.
//= https://www.rfc-editor.org/rfc/rfc4861#section-4.6
//# The value 0 is invalid.  Nodes MUST
//# silently discard an ND packet that contains an
//# option with length zero.
fn take(bytes: &[u8]) -> Result<(Opt<'_>, &[u8]), Error> {
    let &[kind, len, ..] = bytes else { return Err(Error::OptionTruncated { have: bytes.len() }) };
    if len == 0 {
        return Err(Error::OptionLen { kind, len });
    }
    let (option, rest) =
        bytes.split_at_checked(usize::from(len) * 8).ok_or(Error::OptionTruncated { have: bytes.len() })?;
    Ok((Opt::read(kind, len, option.get(2..).unwrap_or_default())?, rest))
}

fn mac(body: &[u8]) -> Option<Mac> {
    body.try_into().ok().map(Mac)
}

fn mtu(body: &[u8]) -> Option<u32> {
    let &[_, _, a, b, c, d] = body else { return None };
    Some(u32::from_be_bytes([a, b, c, d]))
}

fn rdnss(body: &[u8]) -> Option<Opt<'_>> {
    let (&[_, _, a, b, c, d], servers) = body.split_first_chunk()?;
    match servers.as_chunks() {
        ([], _) => None,
        (servers, []) => Some(Opt::Rdnss { lifetime_s: u32::from_be_bytes([a, b, c, d]), servers }),
        _ => None,
    }
}

fn dnssl(body: &[u8]) -> Option<Opt<'_>> {
    let (&[_, _, a, b, c, d], names) = body.split_first_chunk()?;
    (!names.is_empty()).then_some(Opt::Dnssl { lifetime_s: u32::from_be_bytes([a, b, c, d]), names })
}

/// Writes type, length in units of eight bytes, and the parts; nothing at all if they do not fill units, or too many.
fn write(out: &mut Writer<'_>, kind: u8, parts: &[&[u8]]) -> Result<(), NoRoom> {
    let len = 2 + parts.iter().map(|part| part.len()).sum::<usize>();
    let Ok(units) = u8::try_from(len / 8) else { return Ok(()) };
    if !len.is_multiple_of(8) {
        return Ok(());
    }
    out.put(&[kind, units])?;
    parts.iter().try_for_each(|part| out.put(part))
}
