//! The Internet group management protocol: queries in, reports out.
//!
//! # Spec
//! RFC 3376 §4, §7.1; RFC 2236; RFC 1112 appendix I.

use core::net::{IpAddr, Ipv4Addr};

use crate::NoRoom;
use crate::build::Writer;
use crate::checksum::Sum;
use crate::membership::{Family, Query, Records, Report, Version, float, put};

/// To where version 3 reports go: all routers that speak it (RFC 3376 §4.2.14).
pub const ALL_IGMP3_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
/// To where it is said that a group is left, in version 2 (RFC 2236 §2.4).
pub const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// All systems on a link (RFC 1112 §4), of which nothing is ever reported.
pub const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// The time to live of all these messages.
pub const TTL: u8 = 1;
/// Internetwork control, the type of service of reports (RFC 3376 §4).
pub const TOS: u8 = 0xc0;
/// The option that makes routers look (RFC 2113).
pub const ROUTER_ALERT: [u8; 4] = [0x94, 4, 0, 0];

/// Length of a message of versions 1 and 2.
const SHORT_LEN: usize = 8;
/// The shortest version 3 query.
const QUERY3_LEN: usize = 12;
/// Maximum response delay of version 1, milliseconds.
const V1_DELAY_MS: u32 = 10_000;

const QUERY: u8 = 0x11;
const REPORT1: u8 = 0x12;
const REPORT2: u8 = 0x16;
const LEAVE: u8 = 0x17;
const REPORT3: u8 = 0x22;

/// A message that was received.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {
    /// A query for listeners.
    Query(Query<'a>),
    /// A version 1 or 2 report: the sender listens to a group.
    Report(Ipv4Addr),
    /// A version 2 leave message.
    Leave(Ipv4Addr),
    /// A version 3 report.
    Report3(Records<'a>),
}

impl<'a> Message<'a> {
    /// Parses a message. `None` if its checksum is wrong ([`verify`] tells that apart), its type is unknown, or it
    /// breaks off.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        if !verify(bytes) {
            return None;
        }
        let (&[kind, code, _, _], body) = bytes.split_first_chunk()?;
        let group = || body.first_chunk().map(|octets: &[u8; 4]| Ipv4Addr::from(*octets));
        let group = || group().filter(Ipv4Addr::is_multicast);
        match kind {
            QUERY => query(bytes.len(), code, body).map(Self::Query),
            REPORT1 | REPORT2 => group().map(Self::Report),
            LEAVE => group().map(Self::Leave),
            REPORT3 => Records::parse(Family::V4, body).map(Self::Report3),
            _ => None,
        }
    }
}

/// Whether the checksum of a message, which covers all of it, is right.
#[must_use]
pub fn verify(bytes: &[u8]) -> bool {
    Sum::new().bytes(bytes).is_intact()
}

//= https://www.rfc-editor.org/rfc/rfc3376#section-7.1
//# Query messages that do not match any of the above conditions (e.g., a
//# Query of length 10 octets) MUST be silently ignored.
fn query(len: usize, code: u8, body: &[u8]) -> Option<Query<'_>> {
    let (version, max_delay_ms) = match (len, code) {
        (SHORT_LEN, 0) => (Version::V1, V1_DELAY_MS),
        (SHORT_LEN, _) => (Version::V2, u32::from(code) * 100),
        (QUERY3_LEN.., _) => (Version::V3, float(code) * 100),
        _ => return None,
    };
    Query::parse(Family::V4, version, max_delay_ms, body)
}

/// Writes a version 3 query for the listeners of a group, or of all: the unspecified address. They answer within
/// `delay_ms`, up to 12.7 seconds; `robustness` and `interval_s` are the querier's.
///
/// # Errors
///
/// [`NoRoom`] if `out` is shorter than 12 bytes.
//= https://www.rfc-editor.org/rfc/rfc3376#section-4.1
pub fn emit_query3(
    group: Ipv4Addr,
    delay_ms: u16,
    robustness: u8,
    interval_s: u8,
    out: &mut [u8],
) -> Result<usize, NoRoom> {
    let mut writer = Writer::new(out);
    let code = u8::try_from(delay_ms / 100).unwrap_or(0x7f).min(0x7f);
    writer.put(&[QUERY, code, 0, 0])?;
    put(&mut writer, IpAddr::V4(group))?;
    writer.put(&[robustness & 7, interval_s.min(0x7f), 0, 0])?;
    Ok(sum(writer.written()))
}

/// Begins a version 3 report, which goes to [`ALL_IGMP3_ROUTERS`]; [`finish`] ends it.
///
/// # Errors
///
/// [`NoRoom`] for its header.
pub fn report3(out: &mut [u8]) -> Result<Report<'_>, NoRoom> {
    Report::new(REPORT3, out)
}

/// Ends a report and answers its length.
#[must_use]
pub fn finish(report: Report<'_>) -> usize {
    sum(report.counted())
}

/// Writes a version 1 or 2 report on `group`, which is also its destination, and answers its length.
///
/// # Errors
///
/// [`NoRoom`] if `out` is shorter than 8 bytes.
pub fn emit_report(version: Version, group: Ipv4Addr, out: &mut [u8]) -> Result<usize, NoRoom> {
    emit(if version == Version::V1 { REPORT1 } else { REPORT2 }, group, out)
}

/// Writes that `group` is left, for [`ALL_ROUTERS`], and answers the length.
///
/// # Errors
///
/// [`NoRoom`] if `out` is shorter than 8 bytes.
pub fn emit_leave(group: Ipv4Addr, out: &mut [u8]) -> Result<usize, NoRoom> {
    emit(LEAVE, group, out)
}

fn emit(kind: u8, group: Ipv4Addr, out: &mut [u8]) -> Result<usize, NoRoom> {
    let mut writer = Writer::new(out);
    writer.put(&[kind, 0, 0, 0])?;
    put(&mut writer, IpAddr::V4(group))?;
    Ok(sum(writer.written()))
}

fn sum(message: &mut [u8]) -> usize {
    let checksum = Sum::new().bytes(message).checksum();
    if let Some(field) = message.get_mut(2..4) {
        field.copy_from_slice(&checksum.to_be_bytes());
    }
    message.len()
}

#[cfg(test)]
mod tests;
