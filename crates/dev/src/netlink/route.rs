//! Routes of the kernel's main table.

use core::net::IpAddr;

use ipnet::IpNet;

use super::message::{Message, attr, ip, u16_at, u32_at};
use super::{NetlinkError, Rtnetlink};

/// A route of the main table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Where it leads; `0.0.0.0/0` or `::/0` is the default route.
    pub to: IpNet,
    /// The next hop; `None`: the destination is on the link.
    pub via: Option<IpAddr>,
    /// The interface; may be `None` when a next hop is given.
    pub ifindex: Option<u32>,
}

impl Rtnetlink {
    /// Adds a route.
    ///
    /// # Errors
    /// [`NetlinkError::Exists`]; [`NetlinkError::Refused`] if the next hop cannot be reached.
    pub fn add_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        self.request(message(libc::RTM_NEWROUTE, flags, route), || format!("add route {route}"))
    }

    /// Deletes a route.
    ///
    /// # Errors
    /// [`NetlinkError::Refused`] if there is none like it.
    pub fn delete_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        let ask = message(libc::RTM_DELROUTE, libc::NLM_F_ACK, route);
        self.request(ask, || format!("delete route {route}"))
    }

    /// The routes of the main table, IPv4 and IPv6, those with a single next hop.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub fn routes(&mut self) -> Result<Vec<Route>, NetlinkError> {
        let mut found = Vec::new();
        let ask = Message::new(libc::RTM_GETROUTE, libc::NLM_F_DUMP, &[0; RTMSG]);
        self.dump(ask, "list routes", |body| found.extend(parse(body)))?;
        Ok(found)
    }
}

impl Rtnetlink {
    /// The interfaces of the main table's default routes, IPv4 and IPv6, of all next hops.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub fn default_route_links(&mut self) -> Result<Vec<u32>, NetlinkError> {
        let mut found = Vec::new();
        let ask = Message::new(libc::RTM_GETROUTE, libc::NLM_F_DUMP, &[0; RTMSG]);
        self.dump(ask, "list default routes", |body| {
            found.extend(default_route(body).into_iter().flatten())
        })?;
        Ok(found)
    }

    /// The interface by which the kernel sends to an address; `None` if it does not.
    ///
    /// # Errors
    /// [`NetlinkError`].
    pub fn link_towards(&mut self, to: IpAddr) -> Result<Option<u32>, NetlinkError> {
        let mut found = None;
        let fixed = rtmsg(&Route { to: to.into(), via: None, ifindex: None });
        let ask = Message::new(libc::RTM_GETROUTE, libc::NLM_F_ACK, &[&fixed[..4], &[0; RTMSG - 4]].concat());
        let ask = ask.ip(libc::RTA_DST, to);
        let answer = self.dump(ask, "find a route", |body| {
            found = body.get(RTMSG..).and_then(|rest| u32_at(attr(rest, libc::RTA_OIF)?, 0));
        });
        match answer {
            Err(NetlinkError::Refused { source, .. })
                if matches!(source.raw_os_error(), Some(libc::ENETUNREACH | libc::EHOSTUNREACH)) =>
            {
                Ok(None)
            }
            other => other.map(|()| found),
        }
    }
}

/// The interfaces of a default route of the main table.
fn default_route(body: &[u8]) -> Option<Vec<u32>> {
    let rest = body.get(RTMSG..)?;
    let is_one = body[1] == 0 && body[4] == libc::RT_TABLE_MAIN && body[7] == libc::RTN_UNICAST;
    let one = attr(rest, libc::RTA_OIF).and_then(|v| u32_at(v, 0));
    let many = attr(rest, libc::RTA_MULTIPATH).map(hops).into_iter().flatten();
    is_one.then(|| one.into_iter().chain(many).collect())
}

/// The interfaces of `RTA_MULTIPATH`: a sequence of `struct rtnexthop` (length, flags, hops, ifindex) with attributes.
fn hops(mut bytes: &[u8]) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let (len, index) = (usize::from(u16_at(bytes, 0)?), u32_at(bytes, 4)?);
        bytes = bytes.get(len.max(8).next_multiple_of(4)..).unwrap_or_default();
        Some(index)
    })
}

impl core::fmt::Display for Route {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.to)?;
        self.via.map_or(Ok(()), |via| write!(f, " via {via}"))?;
        self.ifindex.map_or(Ok(()), |dev| write!(f, " dev #{dev}"))
    }
}

pub(super) fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { AF_INET } else { AF_INET6 }
}

fn message(kind: u16, flags: i32, route: &Route) -> Message {
    let mut m = Message::new(kind, flags, &rtmsg(route)).ip(libc::RTA_DST, route.to.network());
    if let Some(via) = route.via {
        m = m.ip(libc::RTA_GATEWAY, via);
    }
    if let Some(index) = route.ifindex {
        m = m.u32(libc::RTA_OIF, index);
    }
    m
}

/// `struct rtmsg`: family, dst_len, src_len, tos, table, protocol, scope, type, flags.
fn rtmsg(route: &Route) -> [u8; RTMSG] {
    let on_link = route.via.is_none() && route.to.addr().is_ipv4();
    let scope = if on_link { libc::RT_SCOPE_LINK } else { libc::RT_SCOPE_UNIVERSE };
    let (family, len) = (family(route.to.addr()), route.to.prefix_len());
    [family, len, 0, 0, libc::RT_TABLE_MAIN, libc::RTPROT_STATIC, scope, libc::RTN_UNICAST, 0, 0, 0, 0]
}

fn parse(body: &[u8]) -> Option<Route> {
    let rest = body.get(RTMSG..)?;
    if body[4] != libc::RT_TABLE_MAIN || body[7] != libc::RTN_UNICAST {
        return None;
    }
    let to = match attr(rest, libc::RTA_DST) {
        Some(bytes) => ip(bytes)?,
        None => unspecified(body[0])?,
    };
    Some(Route {
        to: IpNet::new(to, body[1]).ok()?,
        via: attr(rest, libc::RTA_GATEWAY).and_then(ip),
        ifindex: attr(rest, libc::RTA_OIF).and_then(|v| u32_at(v, 0)),
    })
}

fn unspecified(family: u8) -> Option<IpAddr> {
    match family {
        AF_INET => Some(IpAddr::from([0; 4])),
        AF_INET6 => Some(IpAddr::from([0; 16])),
        _ => None,
    }
}

// The address families as `struct rtmsg` and `struct ifaddrmsg` hold them.
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// Length of `struct rtmsg`.
const RTMSG: usize = 12;
