//! Multicast listener discovery: queries in, reports out.
//!
//! # Spec
//! RFC 3810 §5, §8.1; RFC 2710.

use core::net::{IpAddr, Ipv6Addr};

use crate::build::Writer;
use crate::checksum::Sum;
use crate::icmp6::kind;
use crate::membership::{Family, Query, Records, Report, Version, put};
use crate::{NoRoom, Protocol};

/// To where version 2 reports go: all routers that speak it (RFC 3810 §5.2.14).
pub const ALL_MLD2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// The hop limit of all these messages.
pub const HOP_LIMIT: u8 = 1;
/// The hop-by-hop header that each of these messages must have: with the option that makes
/// routers look (RFC 2711, value 0) and two bytes of padding.
pub const ROUTER_ALERT: [u8; 8] = [Protocol::ICMP6.0, 0, 5, 2, 0, 0, 1, 0];

/// Length of a version 1 message; version 2 queries are longer.
const SHORT_LEN: usize = 24;
/// The shortest version 2 query.
pub const QUERY2_LEN: usize = 28;

/// A message that was received.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {
    /// A query for listeners.
    Query(Query<'a>),
    /// A version 1 report: the sender listens to a group.
    Report(Ipv6Addr),
    /// A version 1 done message.
    Done(Ipv6Addr),
    /// A version 2 report.
    Report2(Records<'a>),
}

impl<'a> Message<'a> {
    /// Reads a message whose checksum has been verified ([`crate::icmp6::verify`]). `None` if it is not one of listener
    /// discovery, or breaks off.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (&[kind, _, _, _, d0, d1, _, _], body) = bytes.split_first_chunk()?;
        let group = || body.first_chunk().map(|octets: &[u8; 16]| Ipv6Addr::from(*octets));
        let group = || group().filter(Ipv6Addr::is_multicast);
        match kind {
            kind::MLD_QUERY => query(bytes.len(), u16::from_be_bytes([d0, d1]), body).map(Self::Query),
            kind::MLD_REPORT => group().map(Self::Report),
            kind::MLD_DONE => group().map(Self::Done),
            kind::MLD2_REPORT => Records::parse(Family::V6, bytes.get(4..)?).map(Self::Report2),
            _ => None,
        }
    }
}

//= https://www.rfc-editor.org/rfc/rfc3810#section-8.1
//# Query messages that do not match any of the above conditions (e.g., a Query of length 26 octets) MUST be
//# silently ignored.
fn query(len: usize, code: u16, body: &[u8]) -> Option<Query<'_>> {
    let (version, max_delay_ms) = match len {
        SHORT_LEN => (Version::V2, u32::from(code)),
        QUERY2_LEN.. => (Version::V3, delay(code)),
        _ => return None,
    };
    Query::parse(Family::V6, version, max_delay_ms, body)
}

/// Large delays are floating-point numbers.
//= https://www.rfc-editor.org/rfc/rfc3810#section-5.1.3
const fn delay(code: u16) -> u32 {
    let (exponent, mantissa) = (code >> 12 & 7, (code & 0x0fff) as u32);
    if code < 0x8000 { code as u32 } else { (mantissa | 0x1000) << (exponent + 3) }
}

/// Writes a version 2 query for the listeners of a group, or of all: the unspecified address. `ends` are its source and
/// its destination. Listeners answer within `delay_ms`, up to 32 seconds; `robustness` and `interval_s` are the querier's.
///
/// # Errors
///
/// [`NoRoom`] if `out` is shorter than [`QUERY2_LEN`].
//= https://www.rfc-editor.org/rfc/rfc3810#section-5.1
pub fn emit_query2(
    [src, dst]: [Ipv6Addr; 2],
    group: Ipv6Addr,
    delay_ms: u16,
    robustness: u8,
    interval_s: u8,
    out: &mut [u8],
) -> Result<usize, NoRoom> {
    let mut writer = Writer::new(out);
    let [d0, d1] = delay_ms.min(0x7fff).to_be_bytes();
    writer.put(&[kind::MLD_QUERY, 0, 0, 0, d0, d1, 0, 0])?;
    put(&mut writer, IpAddr::V6(group))?;
    writer.put(&[robustness & 7, interval_s.min(0x7f), 0, 0])?;
    Ok(sum(src, dst, writer.written()))
}

/// Begins a version 2 report, which goes to [`ALL_MLD2_ROUTERS`]; [`finish`] ends it.
///
/// # Errors
///
/// [`NoRoom`] for its header.
pub fn report2(out: &mut [u8]) -> Result<Report<'_>, NoRoom> {
    Report::new(kind::MLD2_REPORT, out)
}

/// Ends a report from `src` and answers its length.
#[must_use]
pub fn finish(src: Ipv6Addr, report: Report<'_>) -> usize {
    sum(src, ALL_MLD2_ROUTERS, report.counted())
}

/// Writes a version 1 report on `group`, which is also its destination, and answers its length.
///
/// # Errors
///
/// [`NoRoom`] if `out` is shorter than 24 bytes.
//= https://www.rfc-editor.org/rfc/rfc2710#section-3
pub fn emit_report1(src: Ipv6Addr, group: Ipv6Addr, out: &mut [u8]) -> Result<usize, NoRoom> {
    emit(kind::MLD_REPORT, [src, group], group, out)
}

/// Writes, in version 1, that `group` is left, for [`crate::addr::ALL_ROUTERS`], and answers the length.
///
/// # Errors
///
/// [`NoRoom`] if `out` is shorter than 24 bytes.
pub fn emit_done(src: Ipv6Addr, group: Ipv6Addr, out: &mut [u8]) -> Result<usize, NoRoom> {
    emit(kind::MLD_DONE, [src, crate::addr::ALL_ROUTERS], group, out)
}

fn emit(kind: u8, [src, dst]: [Ipv6Addr; 2], group: Ipv6Addr, out: &mut [u8]) -> Result<usize, NoRoom> {
    let mut writer = Writer::new(out);
    writer.put(&[kind, 0, 0, 0, 0, 0, 0, 0])?;
    put(&mut writer, IpAddr::V6(group))?;
    Ok(sum(src, dst, writer.written()))
}

/// Tells whether listeners of `group` are reported at all.
//= https://www.rfc-editor.org/rfc/rfc3810#section-6
//# The link-scope all-nodes multicast address, (FF02::1), is handled as a special case.  On all nodes -- that is all hosts and routers, including multicast routers -- listening to packets destined to the all-nodes multicast address, from all sources, is permanently enabled on all interfaces on which multicast listening is supported.  No MLD messages are ever sent regarding neither the link-scope all-nodes multicast address, nor any multicast address of scope 0 (reserved) or 1 (node-local).
#[must_use]
pub fn is_reported(group: Ipv6Addr) -> bool {
    group != crate::addr::ALL_NODES && crate::addr::multicast_scope(group).is_some_and(|scope| scope.0 > 1)
}

fn sum(src: Ipv6Addr, dst: Ipv6Addr, message: &mut [u8]) -> usize {
    let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let checksum = Sum::pseudo_v6(src, dst, Protocol::ICMP6, len).bytes(message).checksum();
    if let Some(field) = message.get_mut(2..4) {
        field.copy_from_slice(&checksum.to_be_bytes());
    }
    message.len()
}

#[cfg(test)]
mod tests;
