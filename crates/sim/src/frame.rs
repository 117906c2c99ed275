//! Frames as they are on a cable.

use pkt::Gso;
use wire::ether::{self, EtherType, Mac};

/// An Ethernet frame, and what its sender left for others to do: a cable here is like one between virtual machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The bytes, Ethernet header first, without the frame check sequence.
    pub bytes: Vec<u8>,
    /// The transport checksum is still to be completed.
    pub partial: Option<Partial>,
    /// A super-packet of this kind.
    pub gso: Gso,
    /// Payload bytes per segment of a super-packet.
    pub gso_size: u16,
}

/// Bytes of the addresses of a frame, and of a tag.
const ADDRS: usize = 12;
const TAG: u16 = 4;

/// Where a partial checksum is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Where summing starts, from the start of the frame.
    pub start: u16,
    /// Where the sum goes, from `start`.
    pub offset: u8,
}

impl Frame {
    /// An ordinary frame of these bytes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, ..Self::default() }
    }

    /// A frame around a network packet (or an ARP packet).
    #[must_use]
    pub fn around(src: Mac, dst: Mac, ethertype: EtherType, packet: &[u8]) -> Self {
        let header = ether::Header { dst, src, ethertype };
        Self::new([&header.to_bytes(), packet].concat())
    }

    /// Its header; of a frame that is too short, that of zeros.
    #[must_use]
    pub fn header(&self) -> ether::Header {
        ether::Header::from_bytes(self.bytes.first_chunk().unwrap_or(&[0; ether::HEADER_LEN]))
    }

    /// Returns the bytes behind the header.
    #[must_use]
    pub fn packet(&self) -> &[u8] {
        self.bytes.get(ether::HEADER_LEN..).unwrap_or_default()
    }

    /// Bytes that the longest network packet in it has, once it is cut to segments.
    #[must_use]
    pub fn packet_len(&self) -> usize {
        if self.gso == Gso::None {
            self.packet().len()
        } else {
            self.headers_len() + usize::from(self.gso_size)
        }
    }

    /// Bytes of network and transport header of a super-packet; its checksum is partial, which says where they end.
    fn headers_len(&self) -> usize {
        let start = self.partial.map_or(0, |partial| usize::from(partial.start));
        let transport = match self.gso {
            Gso::Udp => wire::udp::HEADER_LEN,
            _ => self.bytes.get(start + 12).map_or(0, |byte| usize::from(byte >> 4) * 4),
        };
        start.saturating_sub(ether::HEADER_LEN) + transport
    }

    /// With a tag behind its addresses: type and control information. A tag that is there already comes behind it.
    #[must_use]
    pub fn tagged(mut self, tpid: EtherType, tci: u16) -> Self {
        let at = ADDRS.min(self.bytes.len());
        self.bytes.splice(at..at, [tpid.0.to_be_bytes(), tci.to_be_bytes()].concat());
        self.partial = self.partial.map(|partial| Partial { start: partial.start + TAG, ..partial });
        self
    }

    /// Without its first tag, if that is of this type and network.
    #[must_use]
    pub fn untagged(mut self, tpid: EtherType, vid: u16) -> Option<Self> {
        let tag = self.bytes.get(ADDRS..)?.first_chunk::<4>()?;
        let [type_hi, type_lo, tci_hi, tci_lo] = *tag;
        let is_it = u16::from_be_bytes([type_hi, type_lo]) == tpid.0
            && u16::from_be_bytes([tci_hi, tci_lo]) & 0x0fff == vid;
        self.bytes.drain(ADDRS..ADDRS + usize::from(TAG));
        self.partial = self.partial.map(|partial| Partial { start: partial.start - TAG, ..partial });
        is_it.then_some(self)
    }

    /// Fills a partial checksum in, as a card does. Nothing happens to one that points outside.
    #[must_use]
    pub fn completed(mut self) -> Self {
        if let Some(Partial { start, offset }) = self.partial.take() {
            wire::checksum::complete(&mut self.bytes, start.into(), offset.into());
        }
        self
    }
}
