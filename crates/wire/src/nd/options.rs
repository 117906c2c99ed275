//! The options of neighbour discovery.

use super::Error;
use crate::build::Writer;
use crate::{Mac, NoRoom};
use core::net::Ipv6Addr;

const SOURCE_LINK_ADDR: u8 = 1;
const TARGET_LINK_ADDR: u8 = 2;
const PREFIX: u8 = 3;
const REDIRECTED: u8 = 4;
const MTU: u8 = 5;
const RDNSS: u8 = 25;

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
            Self::Unknown { kind, data } => write(out, *kind, &[data]),
        }
    }

    /// An option whose length is one it cannot have is an error, as in the BSDs; only that of name servers is ignored,
    /// as its RFC wants.
    fn read(kind: u8, len: u8, body: &'a [u8]) -> Result<Self, Error> {
        let wrong = Error::OptionLen { kind, len };
        match kind {
            SOURCE_LINK_ADDR => mac(body).map(Self::SourceLinkAddr).ok_or(wrong),
            TARGET_LINK_ADDR => mac(body).map(Self::TargetLinkAddr).ok_or(wrong),
            PREFIX => Prefix::read(body).map(Self::Prefix).ok_or(wrong),
            REDIRECTED => body.get(6..).map(Self::Redirected).ok_or(wrong),
            MTU => mtu(body).map(Self::Mtu).ok_or(wrong),
            RDNSS => Ok(rdnss(body).unwrap_or(Self::Unknown { kind, data: body })),
            _ => Ok(Self::Unknown { kind, data: body }),
        }
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
