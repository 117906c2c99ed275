//! The common part of IGMPv3 and MLDv2: all but the first bytes of their messages, and the length of addresses.
//!
//! # Spec
//! RFC 3376 §4; RFC 3810 §5.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::NoRoom;
use crate::build::Writer;

/// Which generation of the protocols, by IGMP's numbers; MLD has been numbered since the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// RFC 1112: a report for each group, no leave messages.
    V1,
    /// RFC 2236, and MLDv1 (RFC 2710): a report for each group.
    V2,
    /// RFC 3376, and MLDv2 (RFC 3810): one report for all groups, with sources.
    V3,
}

/// A query for listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// In which protocol the answer is to be.
    pub version: Version,
    /// Time in which to answer, milliseconds.
    pub max_delay_ms: u32,
    /// The group asked for; `None` if all are.
    pub group: Option<IpAddr>,
    /// The querier's robustness variable; 0 if not given.
    pub robustness: u8,
    /// Seconds between general queries; 0 if the router does not say.
    pub interval_s: u32,
    /// Senders to the group that are asked for; none if all are.
    pub sources: Sources<'a>,
}

/// The type of a group record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The sources are listened to, and no others (`MODE_IS_INCLUDE`).
    IsInclude = 1,
    /// All but the sources are (`MODE_IS_EXCLUDE`).
    IsExclude = 2,
    /// From now on the sources are, and no others (`CHANGE_TO_INCLUDE_MODE`).
    ToInclude = 3,
    /// From now on all but the sources are (`CHANGE_TO_EXCLUDE_MODE`).
    ToExclude = 4,
    /// The sources are from now on (`ALLOW_NEW_SOURCES`).
    Allow = 5,
    /// The sources are not any more (`BLOCK_OLD_SOURCES`).
    Block = 6,
}

/// A record of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its type.
    pub kind: Kind,
    /// The group.
    pub group: IpAddr,
    /// The sources.
    pub sources: Sources<'a>,
}

/// Addresses of one family as they stand in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources<'a> {
    family: Family,
    bytes: &'a [u8],
}

/// The address family of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// The records of a report, up to the first that is truncated or of an unknown type.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    family: Family,
    left: u16,
    bytes: &'a [u8],
}

/// Writes a report, record by record.
pub struct Report<'a> {
    pub(crate) writer: Writer<'a>,
    pub(crate) records: u16,
}

/// Bytes of a record's header without its group.
const RECORD_HEADER_LEN: usize = 4;

impl Family {
    pub(crate) const fn addr_len(self) -> usize {
        match self {
            Self::V4 => 4,
            Self::V6 => 16,
        }
    }

    /// Takes an address off the front.
    fn split(self, bytes: &[u8]) -> Option<(IpAddr, &[u8])> {
        Some(match self {
            Self::V4 => {
                let (octets, rest) = bytes.split_first_chunk::<4>()?;
                (Ipv4Addr::from(*octets).into(), rest)
            }
            Self::V6 => {
                let (octets, rest) = bytes.split_first_chunk::<16>()?;
                (Ipv6Addr::from(*octets).into(), rest)
            }
        })
    }
}

impl<'a> Query<'a> {
    /// Parses a query from its group address on: `None` if that is not a group, or sources are missing.
    pub(crate) fn parse(
        family: Family,
        version: Version,
        max_delay_ms: u32,
        bytes: &'a [u8],
    ) -> Option<Self> {
        let (group, rest) = family.split(bytes)?;
        if !(group.is_unspecified() || group.is_multicast()) {
            return None;
        }
        let group = Some(group).filter(|group| group.is_multicast());
        let none = Sources { family, bytes: &[] };
        let plain = Self { version, max_delay_ms, group, robustness: 0, interval_s: 0, sources: none };
        match *rest {
            [flags, interval, n0, n1, ref sources @ ..] if version == Version::V3 => {
                let sources = Sources::parse(family, u16::from_be_bytes([n0, n1]), sources)?.0;
                let asks = group.is_some() || sources.bytes.is_empty();
                let interval_s = float(interval);
                asks.then_some(Self { robustness: flags & 7, interval_s, sources, ..plain })
            }
            _ => Some(plain).filter(|plain| plain.version < Version::V3),
        }
    }
}

/// Large numbers of eight bits are floating-point numbers.
//= https://www.rfc-editor.org/rfc/rfc3376#section-4.1.1
pub(crate) const fn float(code: u8) -> u32 {
    let (exponent, mantissa) = (code >> 4 & 7, (code & 0x0f) as u32);
    if code < 0x80 { code as u32 } else { (mantissa | 0x10) << (exponent + 3) }
}

impl<'a> Sources<'a> {
    /// `count` addresses, and what is behind them; `None` if there are fewer.
    fn parse(family: Family, count: u16, bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let len = usize::from(count).checked_mul(family.addr_len())?;
        let (bytes, rest) = bytes.split_at_checked(len)?;
        Some((Self { family, bytes }, rest))
    }
}

impl Iterator for Sources<'_> {
    type Item = IpAddr;

    fn next(&mut self) -> Option<IpAddr> {
        let (addr, rest) = self.family.split(self.bytes)?;
        self.bytes = rest;
        Some(addr)
    }
}

impl<'a> Records<'a> {
    /// Parses the records of a report, behind its checksum.
    pub(crate) fn parse(family: Family, bytes: &'a [u8]) -> Option<Self> {
        let (&[_, _, n0, n1], bytes) = bytes.split_first_chunk()?;
        Some(Self { family, left: u16::from_be_bytes([n0, n1]), bytes })
    }

    fn record(&self) -> Option<(Record<'a>, &'a [u8])> {
        let (&[kind, aux_words, n0, n1], rest) = self.bytes.split_first_chunk()?;
        let (group, rest) = self.family.split(rest)?;
        let (sources, rest) = Sources::parse(self.family, u16::from_be_bytes([n0, n1]), rest)?;
        let (_, rest) = rest.split_at_checked(usize::from(aux_words) * 4)?;
        let kind = Kind::of(kind).filter(|_| group.is_multicast())?;
        Some((Record { kind, group, sources }, rest))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (record, rest) = self.record()?;
        self.bytes = rest;
        Some(record)
    }
}

impl Kind {
    const fn of(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::IsInclude,
            2 => Self::IsExclude,
            3 => Self::ToInclude,
            4 => Self::ToExclude,
            5 => Self::Allow,
            6 => Self::Block,
            _ => return None,
        })
    }
}

impl<'a> Report<'a> {
    pub(crate) fn new(kind: u8, out: &'a mut [u8]) -> Result<Self, NoRoom> {
        let mut writer = Writer::new(out);
        writer.put(&[kind, 0, 0, 0, 0, 0, 0, 0])?;
        Ok(Self { writer, records: 0 })
    }

    /// Appends a record; `sources` are of the group's family.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] for all of it: then nothing is written.
    pub fn push(&mut self, kind: Kind, group: IpAddr, sources: &[IpAddr]) -> Result<(), NoRoom> {
        let len = if group.is_ipv4() { Family::V4 } else { Family::V6 }.addr_len();
        self.writer.ensure(RECORD_HEADER_LEN + (1 + sources.len()) * len)?;
        let [n0, n1] = u16::try_from(sources.len()).unwrap_or(u16::MAX).to_be_bytes();
        self.writer.put(&[kind as u8, 0, n0, n1])?;
        for addr in core::iter::once(&group).chain(sources) {
            put(&mut self.writer, *addr)?;
        }
        self.records += 1;
        Ok(())
    }

    /// Whether it has no record yet.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Writes how many records there are, and answers the message, for its checksum.
    pub(crate) fn counted(self) -> &'a mut [u8] {
        let message = self.writer.written();
        if let Some(field) = message.get_mut(6..8) {
            field.copy_from_slice(&self.records.to_be_bytes());
        }
        message
    }
}

pub(crate) fn put(writer: &mut Writer<'_>, addr: IpAddr) -> Result<(), NoRoom> {
    match addr {
        IpAddr::V4(addr) => writer.put(&addr.octets()),
        IpAddr::V6(addr) => writer.put(&addr.octets()),
    }
}
