//! Encoding of records on a channel.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::record::{Link, Question};
use crate::host::pcb::FourTuple;

/// Bytes of a record.
pub(super) const RECORD: usize = 64;

/// A record.
pub(super) type Record = [u8; RECORD];

/// Writes a record from its beginning. What does not fit is not written, and nothing is so long.
pub(super) struct Put {
    record: Record,
    at: usize,
}

impl Put {
    pub(super) fn new(what: u8) -> Self {
        Self { record: [0; RECORD], at: 0 }.byte(what)
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        if let Some(place) = self.record.get_mut(self.at..self.at + bytes.len()) {
            place.copy_from_slice(bytes);
            self.at += bytes.len();
        }
        self
    }

    pub(super) fn byte(self, byte: u8) -> Self {
        self.bytes(&[byte])
    }

    pub(super) fn flag(self, flag: bool) -> Self {
        self.byte(flag.into())
    }

    pub(super) fn short(self, short: u16) -> Self {
        self.bytes(&short.to_le_bytes())
    }

    pub(super) fn number(self, number: u32) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    pub(super) fn ip(self, ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => self.byte(4).bytes(&ip.to_ipv6_mapped().octets()),
            IpAddr::V6(ip) => self.byte(6).bytes(&ip.octets()),
        }
    }

    pub(super) fn addr(self, addr: SocketAddr) -> Self {
        self.ip(addr.ip()).short(addr.port())
    }

    pub(super) fn question(self, question: Question) -> Self {
        self.number(question.lane).number(question.serial)
    }

    pub(super) fn link(self, link: Link) -> Self {
        self.ip(link.addr).short(link.ifindex)
    }

    pub(super) fn ends(self, ends: &FourTuple) -> Self {
        self.addr(ends.local()).addr(ends.remote()).short(ends.zone)
    }

    pub(super) fn done(self) -> Record {
        self.record
    }
}

/// Reads a record from its beginning. Behind its end there are zeros.
pub(super) struct Take<'a> {
    record: &'a Record,
    at: usize,
}

impl<'a> Take<'a> {
    /// From its beginning.
    pub(super) const fn from(record: &'a Record) -> Self {
        Self { record, at: 0 }
    }

    /// Returns its type and its number.
    pub(super) fn new(record: &'a Record) -> (u8, u32, Self) {
        let mut take = Self::from(record);
        (take.byte(), take.number(), take)
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let bytes = self.record.get(self.at..).and_then(|rest| rest.first_chunk()).copied();
        self.at += N;
        bytes.unwrap_or([0; N])
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.bytes::<1>()[0]
    }

    pub(super) fn flag(&mut self) -> bool {
        self.byte() != 0
    }

    pub(super) fn short(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes())
    }

    pub(super) fn number(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    pub(super) fn ip(&mut self) -> Option<IpAddr> {
        let (family, ip) = (self.byte(), Ipv6Addr::from(self.bytes::<16>()));
        match family {
            4 => ip.to_ipv4_mapped().map(IpAddr::V4),
            6 => Some(IpAddr::V6(ip)),
            _ => None,
        }
    }

    pub(super) fn addr(&mut self) -> Option<SocketAddr> {
        Some((self.ip()?, self.short()).into())
    }

    /// A question about this lane.
    pub(super) fn question(&mut self, lane: u32) -> Question {
        Question { lane, serial: self.number() }
    }

    pub(super) fn link(&mut self) -> Option<Link> {
        Some(Link { addr: self.ip()?, ifindex: self.short() })
    }

    pub(super) fn ends(&mut self) -> Option<FourTuple> {
        let (local, remote, zone) = (self.addr()?, self.addr()?, self.short());
        Some(FourTuple::new(local, remote, zone))
    }
}
