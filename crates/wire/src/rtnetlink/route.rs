//! Routes.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::attr::{self, u16_at, u32_at};
use super::{AF_INET, AF_INET6, Malformed, RTNH_F_ONLINK, RTNH_F_UNUSABLE, addr, number};

/// Length of `struct rtmsg`.
const LEN: usize = 12;
/// Length of `struct rtnexthop`.
const HOP_LEN: usize = 8;
/// Flag of a route that is a copy for one destination.
const CLONED: u32 = 0x200;

/// Attributes of a route.
mod kind {
    pub(super) const DST: u16 = 1;
    pub(super) const OIF: u16 = 4;
    pub(super) const GATEWAY: u16 = 5;
    pub(super) const PRIORITY: u16 = 6;
    pub(super) const METRICS: u16 = 8;
    pub(super) const MULTIPATH: u16 = 9;
    pub(super) const TABLE: u16 = 15;
    pub(super) const VIA: u16 = 18;
    pub(super) const ENCAP_TYPE: u16 = 21;
    pub(super) const NH_ID: u16 = 30;
}

/// A route.
#[derive(Clone, Copy, Debug)]
pub struct Route<'a> {
    /// The first address of its destinations. Bits behind the prefix length may be set.
    pub to: IpAddr,
    /// Their prefix length; no longer than an address.
    pub len: u8,
    /// The table that it is in.
    pub table: u32,
    /// Protocol that made it (`RTPROT_…`): 186 for BGP.
    pub protocol: u8,
    /// Action on packets.
    pub action: Action,
    /// Its metric: of several routes to one prefix the one with the smallest is in force.
    pub priority: u32,
    /// Bytes of the largest packet; 0 if it does not say.
    pub mtu: u32,
    /// Number of the next hop or group that it leads to.
    pub next_hop_id: Option<u32>,
    /// Whether it asks for more than its destination: source addresses, a type of service.
    pub is_selective: bool,
    hops: Hops<'a>,
}

/// The action of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends packets on.
    Unicast,
    /// Discards them in silence.
    Blackhole,
    /// Answers with an ICMP error.
    Reject,
    /// Something else: this host's own addresses, broadcast, multicast, another table.
    Other,
}

/// A next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hop {
    /// The gateway; `None`: the destination is on the link.
    pub via: Option<IpAddr>,
    /// Number of the interface; 0 if it is not said.
    pub ifindex: u32,
    /// Share of the flows among other hops, 1 to 256.
    pub weight: u32,
    /// Whether the gateway is on the link, though no prefix of the interface has it.
    pub is_onlink: bool,
    /// Whether its interface cannot carry packets.
    pub is_dead: bool,
    /// Whether packets get another header: MPLS, segment routing.
    pub is_encapsulated: bool,
}

/// The next hops of a route, which have been checked.
#[derive(Clone, Copy, Debug)]
pub struct Hops<'a> {
    single: Option<Hop>,
    several: &'a [u8],
    family: u8,
}

impl<'a> Route<'a> {
    /// Reads `struct rtmsg` and its attributes. `None`: a route of neither IPv4 nor IPv6, or a copy for one destination.
    pub(super) fn parse(body: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let Some((&[family, len, src_len, tos, table, protocol, _, action, flags @ ..], _)) =
            body.split_first_chunk::<LEN>()
        else {
            return Err(Malformed);
        };
        let flags = u32::from_ne_bytes(flags);
        let (to, longest) = match family {
            AF_INET => (Ipv4Addr::UNSPECIFIED.into(), 32),
            AF_INET6 => (Ipv6Addr::UNSPECIFIED.into(), 128),
            _ => return Ok(None),
        };
        if len > longest {
            return Err(Malformed);
        }
        let mut route = Self {
            to,
            len,
            table: table.into(),
            protocol,
            action: Action::of(action),
            priority: 0,
            mtu: 0,
            next_hop_id: None,
            is_selective: src_len > 0 || tos > 0,
            hops: Hops { single: None, several: &[], family },
        };
        let mut single = Hop::with(flags.to_le_bytes()[0], 0, 1);
        let mut is_there = false;
        for attr in attr::all(body.get(LEN..).ok_or(Malformed)?) {
            let (kind, value) = attr?;
            is_there |= single.read(family, kind, value)?;
            route.read(family, kind, value)?;
        }
        route.hops.single = Some(single).filter(|_| is_there && route.hops.several.is_empty());
        Ok(Some(route).filter(|_| flags & CLONED == 0))
    }

    fn read(&mut self, family: u8, kind: u16, value: &'a [u8]) -> Result<(), Malformed> {
        match kind {
            kind::DST => self.to = addr(family, value)?,
            kind::PRIORITY => self.priority = number(value)?,
            kind::TABLE => self.table = number(value)?,
            kind::NH_ID => self.next_hop_id = Some(number(value)?),
            kind::METRICS => self.mtu = mtu(value)?,
            kind::MULTIPATH => self.hops.several = checked(family, value)?,
            _ => {}
        }
        Ok(())
    }

    /// The next hops that it names itself; none if it leads to one by its number, or nowhere.
    pub fn hops(&self) -> Hops<'a> {
        self.hops
    }
}

impl Action {
    /// Reads `RTN_…`.
    const fn of(action: u8) -> Self {
        match action {
            1 => Self::Unicast,
            6 => Self::Blackhole,
            7 | 8 => Self::Reject,
            _ => Self::Other,
        }
    }
}

impl Hop {
    /// A hop with these `RTNH_F_…` flags.
    pub(super) const fn with(flags: u8, ifindex: u32, weight: u32) -> Self {
        let (is_onlink, is_dead) = (flags & RTNH_F_ONLINK != 0, flags & RTNH_F_UNUSABLE != 0);
        Self { via: None, ifindex, weight, is_onlink, is_dead, is_encapsulated: false }
    }

    /// Takes an attribute in; tells whether it is one of a hop.
    fn read(&mut self, family: u8, kind: u16, value: &[u8]) -> Result<bool, Malformed> {
        match kind {
            kind::OIF => self.ifindex = number(value)?,
            kind::GATEWAY => self.via = Some(addr(family, value)?),
            kind::VIA => self.via = Some(via(value)?),
            kind::ENCAP_TYPE => self.is_encapsulated = true,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Reads `struct rtvia`: a gateway of the other family.
fn via(value: &[u8]) -> Result<IpAddr, Malformed> {
    let family = u16_at(value, 0).and_then(|family| u8::try_from(family).ok()).ok_or(Malformed)?;
    addr(family, value.get(2..).unwrap_or_default())
}

/// The MTU among metrics (`RTAX_MTU`).
fn mtu(value: &[u8]) -> Result<u32, Malformed> {
    const MTU: u16 = 2;
    let mut mtu = 0;
    for attr in attr::all(value) {
        let (kind, value) = attr?;
        if kind == MTU {
            mtu = number(value)?;
        }
    }
    Ok(mtu)
}

/// Checks a sequence of hops, so that they can be read without an error.
fn checked(family: u8, bytes: &[u8]) -> Result<&[u8], Malformed> {
    let mut left = bytes;
    while !left.is_empty() {
        (_, left) = hop(family, left)?;
    }
    Ok(bytes)
}

/// Reads `struct rtnexthop` and its attributes; returns what follows.
fn hop(family: u8, bytes: &[u8]) -> Result<(Hop, &[u8]), Malformed> {
    let len = usize::from(u16_at(bytes, 0).ok_or(Malformed)?);
    let whole = bytes.get(..len).ok_or(Malformed)?;
    let (&[_, _, flags, weight, ..], attrs) = whole.split_first_chunk::<HOP_LEN>().ok_or(Malformed)?;
    let ifindex = u32_at(whole, 4).ok_or(Malformed)?;
    let mut hop = Hop::with(flags, ifindex, u32::from(weight) + 1);
    for attr in attr::all(attrs) {
        let (kind, value) = attr?;
        hop.read(family, kind, value)?;
    }
    Ok((hop, bytes.get(len.next_multiple_of(4)..).unwrap_or_default()))
}

impl Iterator for Hops<'_> {
    type Item = Hop;

    fn next(&mut self) -> Option<Hop> {
        if let Some(single) = self.single.take() {
            return Some(single);
        }
        let (hop, rest) = hop(self.family, Some(self.several).filter(|left| !left.is_empty())?).ok()?;
        self.several = rest;
        Some(hop)
    }
}
