//! Next hops that have a number, and groups of them.

use super::attr::{self, u32_at};
use super::{AF_INET, AF_INET6, Hop, Malformed, addr, number};

/// Length of `struct nhmsg`.
const LEN: usize = 8;
/// Length of `struct nexthop_grp`.
const MEMBER_LEN: usize = 8;

/// Attributes of a next hop.
mod kind {
    pub(super) const ID: u16 = 1;
    pub(super) const GROUP: u16 = 2;
    pub(super) const BLACKHOLE: u16 = 4;
    pub(super) const OIF: u16 = 5;
    pub(super) const GATEWAY: u16 = 6;
    pub(super) const ENCAP_TYPE: u16 = 7;
}

/// A next hop that routes lead to by its number.
#[derive(Clone, Copy, Debug)]
pub struct NextHop<'a> {
    /// Its number.
    pub id: u32,
    /// Its kind.
    pub kind: NextHopKind<'a>,
}

/// The kind of a next hop.
#[derive(Clone, Copy, Debug)]
pub enum NextHopKind<'a> {
    /// A gateway, or a link.
    Hop(Hop),
    /// Several others, among which flows are shared.
    Group(Members<'a>),
    /// Discards packets in silence.
    Blackhole,
}

/// The members of a group.
#[derive(Clone, Copy, Debug)]
pub struct Members<'a>(&'a [u8]);

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// Number of the next hop, which may not have been told yet.
    pub id: u32,
    /// Share of the flows, 1 to 65536.
    pub weight: u32,
}

impl<'a> NextHop<'a> {
    /// Reads `struct nhmsg` and its attributes. `None`: one of neither IPv4 nor IPv6, such as of a bridge.
    pub(super) fn parse(body: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let (&[family, _, _, _, flags @ ..], attrs) = body.split_first_chunk::<LEN>().ok_or(Malformed)?;
        let mut hop = Hop::with(u32::from_ne_bytes(flags).to_le_bytes()[0], 0, 1);
        let (mut id, mut group, mut is_blackhole) = (None, None, false);
        for attr in attr::all(attrs) {
            let (kind, value) = attr?;
            match kind {
                kind::ID => id = Some(number(value)?),
                kind::GROUP => group = Some(Members::new(value)?),
                kind::BLACKHOLE => is_blackhole = true,
                kind::OIF => hop.ifindex = number(value)?,
                kind::GATEWAY if matches!(family, AF_INET | AF_INET6) => hop.via = Some(addr(family, value)?),
                kind::ENCAP_TYPE => hop.is_encapsulated = true,
                _ => {}
            }
        }
        let is_known = matches!(family, AF_INET | AF_INET6) || group.is_some();
        let kind = match group {
            Some(members) => NextHopKind::Group(members),
            None if is_blackhole => NextHopKind::Blackhole,
            None => NextHopKind::Hop(hop),
        };
        Ok(Some(Self { id: id.ok_or(Malformed)?, kind }).filter(|_| is_known))
    }
}

/// The number of a next hop that is deleted.
pub(super) fn id(body: &[u8]) -> Result<Option<u32>, Malformed> {
    let mut id = None;
    for attr in attr::all(body.get(LEN..).ok_or(Malformed)?) {
        let (kind, value) = attr?;
        if kind == kind::ID {
            id = Some(number(value)?);
        }
    }
    Ok(id)
}

impl<'a> Members<'a> {
    const fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len().is_multiple_of(MEMBER_LEN) { Ok(Self(bytes)) } else { Err(Malformed) }
    }
}

impl Iterator for Members<'_> {
    type Item = Member;

    fn next(&mut self) -> Option<Member> {
        let (member, rest) = self.0.split_first_chunk::<MEMBER_LEN>()?;
        self.0 = rest;
        Some(Member {
            id: u32_at(member, 0)?,
            weight: u32::from(u16::from_le_bytes([member[4], member[5]])) + 1,
        })
    }
}
