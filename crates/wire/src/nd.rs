//! Neighbour discovery (RFC 4861) and the parts of it that came later (RFC 4191, RFC 8106).

mod error;
mod options;

pub use error::Error;
pub use options::{Opt, Options, Pref64, Prefix, RouteInfo};

use crate::build::Writer;
use crate::checksum::Sum;
use crate::icmp6::kind;
use crate::{NoRoom, Protocol, addr};
use core::net::Ipv6Addr;

/// The hop limit every one of these messages has: it proves that no router has passed it on.
pub const HOP_LIMIT: u8 = 255;

/// Where an ICMPv6 message keeps its checksum.
const CHECKSUM: core::ops::Range<usize> = 2..4;

/// The preference of a default router (RFC 4191 §2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preference {
    /// Rather not.
    Low,
    /// As any.
    #[default]
    Medium,
    /// Rather than others.
    High,
}

impl Preference {
    /// Reads the two low bits (RFC 4191 §2.1); `None` if they are reserved.
    const fn of_bits(bits: u8) -> Option<Self> {
        match bits & 3 {
            0b00 => Some(Self::Medium),
            0b01 => Some(Self::High),
            0b11 => Some(Self::Low),
            _ => None,
        }
    }

    const fn bits(self) -> u8 {
        match self {
            Self::Medium => 0b00,
            Self::High => 0b01,
            Self::Low => 0b11,
        }
    }
}

/// The fields of the IPv6 header that validation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Hop limit as received.
    pub hop_limit: u8,
}

/// A message of neighbour discovery, without its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// Which routers are there?
    RouterSolicit,
    /// This one.
    RouterAdvert(RouterAdvert),
    /// Asks for the link-layer address of the target, or whether it is still reachable.
    NeighborSolicit {
        /// The address asked for.
        target: Ipv6Addr,
    },
    /// The sender has.
    NeighborAdvert(NeighborAdvert),
    /// There is a better way.
    Redirect {
        /// The better first hop; the destination itself if it is a neighbour.
        target: Ipv6Addr,
        /// To where.
        destination: Ipv6Addr,
    },
}

/// A router advertisement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RouterAdvert {
    /// Hop limit hosts should use; 0 if not said.
    pub hop_limit: u8,
    /// Addresses are to be had by DHCPv6.
    pub managed: bool,
    /// Other configuration is to be had by DHCPv6.
    pub other: bool,
    /// Preference as default router.
    pub preference: Preference,
    /// Lifetime as default router, in seconds; 0 if it is none.
    pub lifetime_s: u16,
    /// Reachable time of neighbours, in milliseconds; 0 if not given.
    pub reachable_ms: u32,
    /// Time between solicitations, in milliseconds; 0 if not said.
    pub retrans_ms: u32,
}

/// A neighbour advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NeighborAdvert {
    /// It is a router.
    pub router: bool,
    /// It was asked.
    pub solicited: bool,
    /// Override flag: the advertised link-layer address replaces a known one.
    pub replace: bool,
    /// The address.
    pub target: Ipv6Addr,
}

impl Message {
    /// Reads a message whose checksum has been verified ([`crate::icmp6::verify`]), and applies all rules that need
    /// no more than the message.
    ///
    /// # Errors
    /// All of [`Error`]; each means that the message is to be dropped in silence.
    //= https://www.rfc-editor.org/rfc/rfc4861#section-6.1
    //= https://www.rfc-editor.org/rfc/rfc4861#section-7.1
    //= https://www.rfc-editor.org/rfc/rfc4861#section-8.1
    pub fn parse<'a>(envelope: &Envelope, bytes: &'a [u8]) -> Result<(Self, Options<'a>), Error> {
        let (&[kind, code], _) =
            bytes.split_first_chunk().ok_or(Error::Short { need: 8, have: bytes.len() })?;
        if envelope.hop_limit != HOP_LIMIT {
            return Err(Error::HopLimit { found: envelope.hop_limit });
        }
        if code != 0 {
            return Err(Error::Code { kind, code });
        }
        let (message, options) = Self::read(kind, bytes)?;
        let options = Options::new(options)?;
        message.check(envelope, &options)?;
        Ok((message, options))
    }

    fn read(kind: u8, bytes: &[u8]) -> Result<(Self, &[u8]), Error> {
        Ok(match kind {
            kind::ROUTER_SOLICIT => {
                let (_, options) = body::<0>(bytes)?;
                (Self::RouterSolicit, options)
            }
            kind::ROUTER_ADVERT => {
                let (&timers, options) = body::<8>(bytes)?;
                (Self::RouterAdvert(RouterAdvert::from_bytes(behind_checksum(bytes), timers)), options)
            }
            kind::NEIGHBOR_SOLICIT => {
                let (&target, options) = body::<16>(bytes)?;
                (Self::NeighborSolicit { target: target.into() }, options)
            }
            kind::NEIGHBOR_ADVERT => {
                let (&target, options) = body::<16>(bytes)?;
                let [flags, ..] = behind_checksum(bytes);
                (Self::NeighborAdvert(NeighborAdvert::from_bytes(flags, target)), options)
            }
            kind::REDIRECT => {
                let (addrs, options) = body::<32>(bytes)?;
                (redirect(addrs), options)
            }
            _ => return Err(Error::Kind { kind }),
        })
    }

    fn check(&self, envelope: &Envelope, options: &Options<'_>) -> Result<(), Error> {
        let src = envelope.src;
        match *self {
            Self::RouterSolicit => no_link_address_of_nobody(src, options),
            Self::RouterAdvert(_) => link_local(src),
            Self::NeighborSolicit { target } => {
                one_host(target)?;
                if src.is_unspecified() && !addr::is_solicited_node_multicast(envelope.dst) {
                    return Err(Error::ProbeToHost { dst: envelope.dst });
                }
                no_link_address_of_nobody(src, options)
            }
            Self::NeighborAdvert(advert) => {
                one_host(advert.target)?;
                let impossible = advert.solicited && envelope.dst.is_multicast();
                if impossible { Err(Error::SolicitedToGroup { dst: envelope.dst }) } else { Ok(()) }
            }
            Self::Redirect { target, destination } => {
                link_local(src)?;
                one_host(destination)?;
                let good = target == destination || target.is_unicast_link_local();
                if good { Ok(()) } else { Err(Error::RedirectTarget { target }) }
            }
        }
    }

    /// ICMPv6 type.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            Self::RouterSolicit => kind::ROUTER_SOLICIT,
            Self::RouterAdvert(_) => kind::ROUTER_ADVERT,
            Self::NeighborSolicit { .. } => kind::NEIGHBOR_SOLICIT,
            Self::NeighborAdvert(_) => kind::NEIGHBOR_ADVERT,
            Self::Redirect { .. } => kind::REDIRECT,
        }
    }

    /// Writes the message with these options and its checksum to the front of `out`, and answers its length.
    ///
    /// # Errors
    /// [`NoRoom`] if `out` is too short.
    pub fn emit<'o>(
        &self,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        options: impl IntoIterator<Item = Opt<'o>>,
        out: &mut [u8],
    ) -> Result<usize, NoRoom> {
        let mut writer = Writer::new(out);
        writer.put(&[self.kind(), 0, 0, 0])?;
        self.write(&mut writer)?;
        options.into_iter().try_for_each(|option| option.write(&mut writer))?;
        let message = writer.written();
        let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
        let checksum = Sum::pseudo_v6(src, dst, Protocol::ICMP6, len).bytes(message).checksum();
        if let Some(field) = message.get_mut(CHECKSUM) {
            field.copy_from_slice(&checksum.to_be_bytes());
        }
        Ok(message.len())
    }

    fn write(&self, out: &mut Writer<'_>) -> Result<(), NoRoom> {
        match self {
            Self::RouterSolicit => out.put(&[0; 4]),
            Self::RouterAdvert(advert) => advert.write(out),
            Self::NeighborSolicit { target } => {
                out.put(&[0; 4])?;
                out.put(&target.octets())
            }
            Self::NeighborAdvert(advert) => {
                out.put(&[advert.flags(), 0, 0, 0])?;
                out.put(&advert.target.octets())
            }
            Self::Redirect { target, destination } => {
                out.put(&[0; 4])?;
                out.put(&target.octets())?;
                out.put(&destination.octets())
            }
        }
    }
}

impl RouterAdvert {
    fn from_bytes([hop_limit, flags, l0, l1]: [u8; 4], [a, b, c, d, e, f, g, h]: [u8; 8]) -> Self {
        // Medium if it is reserved, as RFC 4191 §2.2 has it.
        let preference = Preference::of_bits(flags >> 3).unwrap_or_default();
        Self {
            hop_limit,
            managed: flags & 0x80 != 0,
            other: flags & 0x40 != 0,
            preference,
            lifetime_s: u16::from_be_bytes([l0, l1]),
            reachable_ms: u32::from_be_bytes([a, b, c, d]),
            retrans_ms: u32::from_be_bytes([e, f, g, h]),
        }
    }

    fn write(&self, out: &mut Writer<'_>) -> Result<(), NoRoom> {
        let [l0, l1] = self.lifetime_s.to_be_bytes();
        let flags = bit(self.managed, 0x80) | bit(self.other, 0x40) | self.preference.bits() << 3;
        out.put(&[self.hop_limit, flags, l0, l1])?;
        out.put(&self.reachable_ms.to_be_bytes())?;
        out.put(&self.retrans_ms.to_be_bytes())
    }
}

impl NeighborAdvert {
    fn from_bytes(flags: u8, target: [u8; 16]) -> Self {
        Self {
            router: flags & 0x80 != 0,
            solicited: flags & 0x40 != 0,
            replace: flags & 0x20 != 0,
            target: target.into(),
        }
    }

    const fn flags(&self) -> u8 {
        bit(self.router, 0x80) | bit(self.solicited, 0x40) | bit(self.replace, 0x20)
    }
}

const fn bit(set: bool, bit: u8) -> u8 {
    if set { bit } else { 0 }
}

fn redirect(addrs: &[u8; 32]) -> Message {
    let (target, destination) = crate::ip6::addresses(addrs);
    Message::Redirect { target, destination }
}

/// `N` bytes behind the first eight, and the options behind those.
fn body<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), Error> {
    let body = bytes.get(8..).and_then(<[u8]>::split_first_chunk);
    body.ok_or(Error::Short { need: 8 + N, have: bytes.len() })
}

/// The four bytes behind the checksum.
fn behind_checksum(bytes: &[u8]) -> [u8; 4] {
    bytes.get(4..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default()
}

fn link_local(src: Ipv6Addr) -> Result<(), Error> {
    if src.is_unicast_link_local() { Ok(()) } else { Err(Error::SourceNotLinkLocal { src }) }
}

fn one_host(addr: Ipv6Addr) -> Result<(), Error> {
    if addr.is_multicast() { Err(Error::Multicast { addr }) } else { Ok(()) }
}

fn no_link_address_of_nobody(src: Ipv6Addr, options: &Options<'_>) -> Result<(), Error> {
    let named = src.is_unspecified() && options.source_link_addr().is_some();
    if named { Err(Error::LinkAddrOfUnspecified) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
