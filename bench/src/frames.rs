//! The frames that go round: 64 bytes, UDP, to a few destinations in turn.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use wire::ether::{self, EtherType, Mac};
use wire::{Protocol, ip4, ip6, udp};

use crate::program::Misused;

/// Bytes of a frame, without the check sequence that no software sees.
pub const FRAME_LEN: usize = 64;
/// Destinations, each behind a route of its own.
pub const DESTINATIONS: u8 = 16;

/// The router's link address on both sides.
pub const ROUTER: Mac = Mac([2, 0, 0, 0, 0, 1]);
/// Where frames come from.
pub const SENDER: Mac = Mac([2, 0, 0, 0, 0, 2]);
/// Where all routes lead.
pub const GATEWAY: Mac = Mac([2, 0, 0, 0, 0, 3]);

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    Ip4,
    /// IPv6.
    Ip6,
}

impl FromStr for Family {
    type Err = Misused;

    /// Reads `4` or `ip4`, `6` or `ip6`.
    fn from_str(text: &str) -> Result<Self, Misused> {
        match text.strip_prefix("ip").unwrap_or(text) {
            "4" => Ok(Self::Ip4),
            "6" => Ok(Self::Ip6),
            _ => Err(Misused),
        }
    }
}

impl Family {
    /// The address of the `host`th host behind the `net`th route; route 0 is the sender's own link.
    #[must_use]
    pub const fn addr(self, net: u8, host: u8) -> IpAddr {
        match self {
            Self::Ip4 => IpAddr::V4(Ipv4Addr::new(198, 18, net, host)),
            Self::Ip6 => IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, net as u16, 0, 0, 0, host as u16)),
        }
    }

    /// Bits of the prefixes that the networks have.
    #[must_use]
    pub const fn prefix_len(self) -> u8 {
        match self {
            Self::Ip4 => 24,
            Self::Ip6 => 64,
        }
    }

    /// One frame for each destination.
    #[must_use]
    pub fn frames(self) -> Vec<[u8; FRAME_LEN]> {
        (1..=DESTINATIONS).filter_map(|net| self.frame_to(self.addr(net, HOST))).collect()
    }

    /// A frame to `dst`, if that is of this family.
    #[must_use]
    pub fn frame_to(self, dst: IpAddr) -> Option<[u8; FRAME_LEN]> {
        self.frame_between(self.addr(0, HOST), dst)
    }

    /// The source address of the last of many flows, behind the sender: they differ in its last 16 bits.
    #[must_use]
    pub const fn source_of_flows(self) -> IpAddr {
        match self {
            Self::Ip4 => IpAddr::V4(Ipv4Addr::new(172, 20, 0xff, 0xff)),
            Self::Ip6 => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0xffff)),
        }
    }

    /// A datagram from a host behind the `net`th route to the router itself, with its checksum.
    #[must_use]
    pub fn datagram_to_router(self, net: u8) -> Option<[u8; FRAME_LEN]> {
        let (src, dst) = (self.addr(net, HOST), self.addr(0, 1));
        let mut frame = self.frame_between(src, dst)?;
        let header_len = if self == Self::Ip4 { ip4::HEADER_LEN } else { ip6::HEADER_LEN };
        put_checksum(&mut frame[ether::HEADER_LEN..], header_len, src, dst).map(|()| frame)
    }

    /// A frame from `src` to `dst`, if both are of this family. Its identification is 0.
    #[must_use]
    pub fn frame_between(self, src: IpAddr, dst: IpAddr) -> Option<[u8; FRAME_LEN]> {
        let mut frame = [0; FRAME_LEN];
        let (link, packet) = frame.split_at_mut(ether::HEADER_LEN);
        let (ethertype, header_len) = match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let len = payload_len(packet.len() - ip4::HEADER_LEN)?;
                let header = ip4::Header::new(src, dst, Protocol::UDP, len);
                (EtherType::IPV4, header.emit(packet).ok()?)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let len = payload_len(packet.len() - ip6::HEADER_LEN)?;
                let header = ip6::Header::new(src, dst, Protocol::UDP, len);
                (EtherType::IPV6, header.emit(packet).ok()?)
            }
            _ => return None,
        };
        link.copy_from_slice(&ether::Header { dst: ROUTER, src: SENDER, ethertype }.to_bytes());
        let datagram = &mut packet[header_len..];
        let udp =
            udp::Header { src_port: PORT, dst_port: PORT, len: payload_len(datagram.len())?, checksum: 0 };
        datagram[..udp::HEADER_LEN].copy_from_slice(&udp.to_bytes());
        Some(frame)
    }
}

/// The host of each network that sends or is sent to.
const HOST: u8 = 2;
/// Discard, which RFC 2544 §C.2.4.1 chooses for test frames.
pub const PORT: u16 = 9;

/// Puts the checksum of the datagram behind `header_len` bytes in its place.
fn put_checksum(packet: &mut [u8], header_len: usize, src: IpAddr, dst: IpAddr) -> Option<()> {
    let (header, payload) = packet.get(header_len..)?.split_first_chunk::<{ udp::HEADER_LEN }>()?;
    let header = udp::Header::from_bytes(header);
    let header = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => header.with_checksum_v4(src, dst, payload),
        (IpAddr::V6(src), IpAddr::V6(dst)) => header.with_checksum_v6(src, dst, payload),
        _ => return None,
    };
    packet[header_len..][..udp::HEADER_LEN].copy_from_slice(&header.to_bytes());
    Some(())
}

fn payload_len(len: usize) -> Option<u16> {
    u16::try_from(len).ok()
}
