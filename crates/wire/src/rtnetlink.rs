//! Messages of rtnetlink: routes, next hops and links as the kernel and FRR's zebra tell them.
//!
//! Numbers are in the byte order of the machine: sender and receiver are on the same one. FPM, FRR's interface to forwarding
//! planes, puts these messages into [`frames`](crate::fpm) of its own.
//!
//! # Spec
//! `rtnetlink(7)`, `linux/rtnetlink.h`, `linux/nexthop.h`. Attributes that are not named here are skipped.

use core::net::IpAddr;

mod attr;
mod next_hop;
mod route;

use attr::{number, u16_at, u32_at};
pub use next_hop::{Member, Members, NextHop, NextHopKind};
pub use route::{Action, Hop, Hops, Route};

/// Length of `struct nlmsghdr`.
pub const HEADER_LEN: usize = 16;

/// Flag of a message: it takes the place of another route to the same prefix.
pub const NLM_F_REPLACE: u16 = 0x100;
/// Flag of a message: it is one more route to the same prefix.
pub const NLM_F_APPEND: u16 = 0x800;
/// Flag of an answer: the table has changed while it was read.
pub const NLM_F_DUMP_INTR: u16 = 0x10;
/// Table `main`.
pub const RT_TABLE_MAIN: u32 = 254;

/// Types of messages.
mod kind {
    pub(super) const ERROR: u16 = 2;
    pub(super) const DONE: u16 = 3;
    pub(super) const NEWLINK: u16 = 16;
    pub(super) const DELLINK: u16 = 17;
    pub(super) const NEWADDR: u16 = 20;
    pub(super) const DELADDR: u16 = 21;
    pub(super) const NEWROUTE: u16 = 24;
    pub(super) const DELROUTE: u16 = 25;
    pub(super) const NEWNEXTHOP: u16 = 104;
    pub(super) const DELNEXTHOP: u16 = 105;
}

/// The bytes are no message: a length is beyond the end, or too short for what it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("malformed rtnetlink message")
    }
}

impl core::error::Error for Malformed {}

/// A message: its header, and its body.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// `NLM_F_…`.
    pub flags: u16,
    /// Number of the request that it answers; 0 for none.
    pub sequence: u32,
    kind: u16,
    body: &'a [u8],
}

/// The content of a message.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// A route was made or replaced, or is listed.
    NewRoute(Route<'a>),
    /// A route was deleted.
    DelRoute(Route<'a>),
    /// A next hop was made or replaced, or is listed.
    NewNextHop(NextHop<'a>),
    /// The next hop of this number was deleted.
    DelNextHop(u32),
    /// An interface was made or changed, or is listed.
    NewLink(Link<'a>),
    /// The interface of this number was deleted.
    DelLink(u32),
    /// An address was added to, or taken from, the interface of this number.
    Address {
        /// The interface.
        ifindex: u32,
        /// Whether it was taken away.
        is_gone: bool,
    },
    /// An answer in several messages ends; the error number, or 0.
    Done(i32),
    /// A request was refused with this error number, or acknowledged with 0.
    Error(i32),
    /// Something else.
    Other,
}

/// An interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link<'a> {
    /// Its number.
    pub index: u32,
    /// Whether it is administratively up.
    pub is_up: bool,
    /// Its name, without its NUL; empty if the message does not say.
    pub name: &'a [u8],
}

/// The messages in some bytes, one after the other. It ends with the first that is malformed.
pub fn messages(bytes: &[u8]) -> impl Iterator<Item = Result<Message<'_>, Malformed>> {
    let mut left = bytes;
    core::iter::from_fn(move || {
        if left.is_empty() {
            return None;
        }
        let found = take(left);
        left = found.map_or(&[][..], |(_, rest)| rest);
        Some(found.map(|(message, _)| message).ok_or(Malformed))
    })
}

fn take(bytes: &[u8]) -> Option<(Message<'_>, &[u8])> {
    let len = usize::try_from(u32_at(bytes, 0)?).ok()?;
    let body = bytes.get(HEADER_LEN..len)?;
    let message =
        Message { kind: u16_at(bytes, 4)?, flags: u16_at(bytes, 6)?, sequence: u32_at(bytes, 8)?, body };
    Some((message, bytes.get(len.next_multiple_of(4)..).unwrap_or_default()))
}

impl<'a> Message<'a> {
    /// Reads what the message says.
    ///
    /// # Errors
    ///
    /// [`Malformed`].
    pub fn content(&self) -> Result<Content<'a>, Malformed> {
        let body = self.body;
        let content = match self.kind {
            kind::NEWROUTE => Route::parse(body)?.map(Content::NewRoute),
            kind::DELROUTE => Route::parse(body)?.map(Content::DelRoute),
            kind::NEWNEXTHOP => NextHop::parse(body)?.map(Content::NewNextHop),
            kind::DELNEXTHOP => next_hop::id(body)?.map(Content::DelNextHop),
            kind::NEWLINK => Some(Content::NewLink(link(body)?)),
            kind::DELLINK => Some(Content::DelLink(link(body)?.index)),
            kind::NEWADDR | kind::DELADDR => {
                let ifindex = u32_at(body, 4).ok_or(Malformed)?;
                Some(Content::Address { ifindex, is_gone: self.kind == kind::DELADDR })
            }
            kind::DONE => Some(Content::Done(errno(body).unwrap_or(0))),
            kind::ERROR => Some(Content::Error(errno(body).ok_or(Malformed)?)),
            _ => None,
        };
        Ok(content.unwrap_or(Content::Other))
    }
}

/// The error number of an answer, positive.
fn errno(body: &[u8]) -> Option<i32> {
    Some(u32_at(body, 0)?.cast_signed().wrapping_neg())
}

/// Reads `struct ifinfomsg` and the name.
fn link(body: &[u8]) -> Result<Link<'_>, Malformed> {
    const LEN: usize = 16;
    const IFF_UP: u32 = 1;
    const NAME: u16 = 3;
    let (index, flags) = (u32_at(body, 4).ok_or(Malformed)?, u32_at(body, 8).ok_or(Malformed)?);
    let mut name = &[][..];
    for attr in attr::all(body.get(LEN..).ok_or(Malformed)?) {
        let (kind, value) = attr?;
        if kind == NAME {
            name = value.split(|byte| *byte == 0).next().unwrap_or_default();
        }
    }
    Ok(Link { index, is_up: flags & IFF_UP != 0, name })
}

/// An address of this family.
fn addr(family: u8, value: &[u8]) -> Result<IpAddr, Malformed> {
    let addr = match family {
        AF_INET => <[u8; 4]>::try_from(value).map(IpAddr::from),
        AF_INET6 => <[u8; 16]>::try_from(value).map(IpAddr::from),
        _ => return Err(Malformed),
    };
    addr.map_err(|_| Malformed)
}

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// The gateway counts as being on the link, whatever prefixes say.
const RTNH_F_ONLINK: u8 = 4;
/// `RTNH_F_DEAD`, and `RTNH_F_LINKDOWN`.
const RTNH_F_UNUSABLE: u8 = 1 | 16;

#[cfg(test)]
pub(crate) mod tests;
