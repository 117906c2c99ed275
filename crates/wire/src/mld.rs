//! Multicast listener discovery (RFC 2710, RFC 3810), as far as a listener to whole groups needs it: queries in,
//! reports out. Sources are not chosen here.

use crate::checksum::Sum;
use crate::emit::Writer;
use crate::icmp6::kind;
use crate::{NoRoom, Protocol};
use core::net::Ipv6Addr;

/// To where version 2 reports go: all routers that speak it (RFC 3810 §5.2.14).
pub const ALL_MLD2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// The hop limit of all these messages.
pub const HOP_LIMIT: u8 = 1;
/// What must stand between the IPv6 header and each of these messages: a hop-by-hop header with the option that makes
/// routers look (RFC 2711, value 0) and two bytes of padding.
pub const ROUTER_ALERT: [u8; 8] = [Protocol::ICMP6.0, 0, 5, 2, 0, 0, 1, 0];

/// Length of a version 1 query; version 2 ones are longer.
const QUERY_LEN: usize = 24;
/// The shortest version 2 query.
const QUERY2_LEN: usize = 28;

/// Which of the two protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// RFC 2710: a report per group.
    V1,
    /// RFC 3810: one report for all.
    V2,
}

/// A router asks who listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Query {
    /// In which protocol the answer is to be.
    pub version: Version,
    /// Time in which to answer, in milliseconds.
    pub max_delay_ms: u32,
    /// The group asked for; `None` if all are.
    pub group: Option<Ipv6Addr>,
}

/// Why a listener reports a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// It was asked (`MODE_IS_EXCLUDE`, of no source).
    Asked,
    /// It has begun to listen (`CHANGE_TO_EXCLUDE_MODE`, of no source).
    Joined,
}

impl Query {
    /// Reads a query whose checksum has been verified ([`crate::icmp6::verify`]). `None` if it is not one, or of a
    /// length that no version has.
    //= https://www.rfc-editor.org/rfc/rfc3810#section-8.1
    //# Query messages that do not match any of the above conditions (e.g., a Query of length 26 octets) MUST be
    //# silently ignored.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[kind, _, _, _, d0, d1, _, _, ref group @ ..], _) = bytes.split_first_chunk::<QUERY_LEN>()?;
        let code = u16::from_be_bytes([d0, d1]);
        let (version, max_delay_ms) = match bytes.len() {
            QUERY_LEN => (Version::V1, u32::from(code)),
            QUERY2_LEN.. => (Version::V2, delay(code)),
            _ => return None,
        };
        let group = Ipv6Addr::from(*group);
        let asks = kind == kind::MLD_QUERY && (group.is_unspecified() || group.is_multicast());
        asks.then_some(Self {
            version,
            max_delay_ms,
            group: Some(group).filter(|group| group.is_multicast()),
        })
    }
}

/// Large delays are floating-point numbers.
//= https://www.rfc-editor.org/rfc/rfc3810#section-5.1.3
const fn delay(code: u16) -> u32 {
    let (exponent, mantissa) = (code >> 12 & 7, (code & 0x0fff) as u32);
    if code < 0x8000 { code as u32 } else { (mantissa | 0x1000) << (exponent + 3) }
}

/// Writes a version 2 report on `groups` to [`ALL_MLD2_ROUTERS`] and answers its length.
///
/// # Errors
/// [`NoRoom`] if `out` is too short: 8 bytes, and 20 per group.
//= https://www.rfc-editor.org/rfc/rfc3810#section-5.2
pub fn emit_report2(src: Ipv6Addr, why: Why, groups: &[Ipv6Addr], out: &mut [u8]) -> Result<usize, NoRoom> {
    let record = match why {
        Why::Asked => 2,
        Why::Joined => 4,
    };
    let [n0, n1] = u16::try_from(groups.len()).unwrap_or(u16::MAX).to_be_bytes();
    let mut writer = Writer::new(out);
    writer.put(&[kind::MLD2_REPORT, 0, 0, 0, 0, 0, n0, n1])?;
    for group in groups {
        writer.put(&[record, 0, 0, 0])?;
        writer.put(&group.octets())?;
    }
    Ok(finish(src, ALL_MLD2_ROUTERS, writer))
}

/// Writes a version 1 report on `group`, which is also its destination, and answers its length.
///
/// # Errors
/// [`NoRoom`] if `out` is shorter than 24 bytes.
//= https://www.rfc-editor.org/rfc/rfc2710#section-3
pub fn emit_report1(src: Ipv6Addr, group: Ipv6Addr, out: &mut [u8]) -> Result<usize, NoRoom> {
    let mut writer = Writer::new(out);
    writer.put(&[kind::MLD_REPORT, 0, 0, 0, 0, 0, 0, 0])?;
    writer.put(&group.octets())?;
    Ok(finish(src, group, writer))
}

/// Whether anybody wants to know who listens to `group`.
//= https://www.rfc-editor.org/rfc/rfc3810#section-6
//# The link-scope all-nodes multicast address, (FF02::1), is handled as a special case.  On all nodes -- that is all hosts and routers, including multicast routers -- listening to packets destined to the all-nodes multicast address, from all sources, is permanently enabled on all interfaces on which multicast listening is supported.  No MLD messages are ever sent regarding neither the link-scope all-nodes multicast address, nor any multicast address of scope 0 (reserved) or 1 (node-local).
#[must_use]
pub fn is_reported(group: Ipv6Addr) -> bool {
    group != crate::addr::ALL_NODES && crate::addr::multicast_scope(group).is_some_and(|scope| scope.0 > 1)
}

fn finish(src: Ipv6Addr, dst: Ipv6Addr, writer: Writer<'_>) -> usize {
    let message = writer.written();
    let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let checksum = Sum::pseudo_v6(src, dst, Protocol::ICMP6, len).bytes(message).checksum();
    if let Some(field) = message.get_mut(2..4) {
        field.copy_from_slice(&checksum.to_be_bytes());
    }
    message.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::icmp6;
    use std::vec::Vec;

    const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);

    fn query(len: usize, code: u16, group: Ipv6Addr) -> Vec<u8> {
        let mut bytes = std::vec![0; len];
        bytes[0] = kind::MLD_QUERY;
        bytes[4..6].copy_from_slice(&code.to_be_bytes());
        bytes[8..24].copy_from_slice(&group.octets());
        bytes
    }

    #[test]
    fn the_length_of_a_query_tells_its_version() {
        let version = |len| Query::parse(&query(len, 1000, GROUP)).map(|query| query.version);
        assert_eq!(
            [24, 25, 27, 28, 44].map(version),
            [Some(Version::V1), None, None, Some(Version::V2), Some(Version::V2)]
        );
        assert_eq!(Query::parse(&query(24, 1000, GROUP)[..23]), None);
    }

    #[test]
    fn a_query_asks_for_one_group_or_for_all() {
        let group = |group| Query::parse(&query(28, 0, group)).map(|query| query.group);
        assert_eq!(group(Ipv6Addr::UNSPECIFIED), Some(None));
        assert_eq!(group(GROUP), Some(Some(GROUP)));
        assert_eq!(group(Ipv6Addr::LOCALHOST), None, "that is no group");
    }

    #[test]
    fn long_delays_are_floating_point_numbers_in_version_2_only() {
        let delay = |len, code| Query::parse(&query(len, code, GROUP)).unwrap().max_delay_ms;
        assert_eq!((delay(28, 0x7fff), delay(28, 0x8000), delay(28, 0xffff)), (32_767, 32_768, 8_387_584));
        assert_eq!(delay(24, 0xffff), 65_535);
    }

    #[test]
    fn reports_are_intact_and_name_their_groups() {
        let src = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
        let mut out = [0; 64];
        let len = emit_report2(src, Why::Joined, &[GROUP, GROUP], &mut out).unwrap();
        assert!(icmp6::verify(src, ALL_MLD2_ROUTERS, &out[..len]));
        assert_eq!((len, &out[6..9], &out[12..28]), (48, &[0, 2, 4][..], &GROUP.octets()[..]));
        let len = emit_report1(src, GROUP, &mut out).unwrap();
        assert!(icmp6::verify(src, GROUP, &out[..len]));
        assert_eq!((len, &out[8..24]), (24, &GROUP.octets()[..]));
        assert!(emit_report2(src, Why::Asked, &[GROUP], &mut out[..27]).is_err());
    }

    #[test]
    fn nobody_is_told_of_groups_that_everybody_is_in() {
        let groups = ["ff02::1", "ff01::2", "ff02::2", "ff02::1:ff00:1", "2001:db8::1"];
        let reported = groups.map(|group| is_reported(group.parse().unwrap()));
        assert_eq!(reported, [false, false, true, true, false]);
    }
}
