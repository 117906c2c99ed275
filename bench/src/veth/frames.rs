//! The generator's frames: 64 bytes, UDP, from a network behind the generator to one behind the sink.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result};
use ipnet::IpNet;
use testbed::flood::{FRAME_LEN, Frames, Varied};
use wire::ether::{self, EtherType, Mac};
use wire::{Protocol, ip4, ip6, udp};

use crate::frames::Family;

/// Where frames come from.
pub const SOURCE_MAC: Mac = Mac([2, 0, 0, 0, 1, 1]);
/// The router, towards the generator.
pub const IN_MAC: Mac = Mac([2, 0, 0, 0, 1, 2]);
/// The router, towards the sink.
pub const OUT_MAC: Mac = Mac([2, 0, 0, 0, 2, 1]);
/// The sink.
pub const SINK_MAC: Mac = Mac([2, 0, 0, 0, 2, 2]);

/// The two links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Between generator and router.
    In,
    /// Between router and sink.
    Out,
    /// In a VXLAN between router and sink.
    Vxlan,
}

/// The address of the router (1) or its neighbour (2) on a link.
#[must_use]
pub const fn addr(family: Family, side: Side, host: u8) -> IpAddr {
    let side = match side {
        Side::In => 1,
        Side::Out => 2,
        Side::Vxlan => 3,
    };
    match family {
        Family::Ip4 => IpAddr::V4(Ipv4Addr::new(10, side, 0, host)),
        Family::Ip6 => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, side as u16, 0, 0, 0, 0, host as u16)),
    }
}

/// The address of the router (1) or its neighbour (2) on a link, and the link's prefix.
#[must_use]
pub fn net(family: Family, side: Side, host: u8) -> IpNet {
    IpNet::new_assert(addr(family, side, host), family.prefix_len())
}

/// Where all frames go: a network behind the sink.
#[must_use]
pub fn beyond(family: Family) -> IpNet {
    match family {
        Family::Ip4 => IpNet::new_assert(Ipv4Addr::new(198, 19, 0, 0).into(), 16),
        Family::Ip6 => IpNet::new_assert(Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 0).into(), 48),
    }
}

/// The frames, to this station, of which ports and the last 16 bits of the addresses may vary.
///
/// # Errors
/// None is expected.
pub fn frames(family: Family, to: Mac) -> Result<Frames> {
    let mut template = [0; FRAME_LEN];
    let l3 = ether::HEADER_LEN;
    let l4 = l3 + header_len(family);
    let ethertype = family_type(family);
    let link = ether::Header { dst: to, src: SOURCE_MAC, ethertype };
    template[..l3].copy_from_slice(&link.to_bytes());
    // What varies begins with 0, and its complement with all ones.
    let to = match family {
        Family::Ip4 => Varied { at: at(l3 + 18), complement_at: at(l3 + 14) },
        Family::Ip6 => Varied { at: at(l3 + 38), complement_at: at(l3 + 22) },
    };
    let flow = Varied { at: at(l4), complement_at: at(l4 + udp::HEADER_LEN) };
    let payload = FRAME_LEN - l4;
    let udp = udp::Header { src_port: 0, dst_port: PORT, len: u16::try_from(payload)?, checksum: 0 };
    template[l4..l4 + udp::HEADER_LEN].copy_from_slice(&udp.to_bytes());
    template[usize::from(flow.complement_at)..][..2].fill(0xff);
    write_ip(family, &mut template[l3..])?;
    if family == Family::Ip6 {
        let sum = checksum(&template[l3 + 8..], u32::from(Protocol::UDP.0) + u32::try_from(payload)?);
        template[l4 + 6..l4 + 8].copy_from_slice(&sum.to_be_bytes());
    }
    Ok(Frames { template, flow, to })
}

fn write_ip(family: Family, packet: &mut [u8]) -> Result<()> {
    let payload = u16::try_from(packet.len() - header_len(family))?;
    let no = "an address of the other family";
    match (family, beyond(family).network()) {
        (Family::Ip4, IpAddr::V4(dst)) => {
            let src = Ipv4Addr::new(172, 20, 255, 255);
            ip4::Header::new(src, dst, Protocol::UDP, payload).emit(packet).ok().context(no)?;
        }
        (Family::Ip6, IpAddr::V6(dst)) => {
            let src = Ipv6Addr::new(0x2001, 0xdb8, 5, 0, 0, 0, 0, 0xffff);
            ip6::Header::new(src, dst, Protocol::UDP, payload).emit(packet).ok().context(no)?;
        }
        _ => anyhow::bail!(no),
    }
    Ok(())
}

const fn header_len(family: Family) -> usize {
    match family {
        Family::Ip4 => ip4::HEADER_LEN,
        Family::Ip6 => ip6::HEADER_LEN,
    }
}

const fn family_type(family: Family) -> EtherType {
    match family {
        Family::Ip4 => EtherType::IPV4,
        Family::Ip6 => EtherType::IPV6,
    }
}

/// Discard, which RFC 2544 §C.2.4.1 chooses for test frames.
const PORT: u16 = 9;

/// The Internet checksum of an even number of bytes, over and above `first`.
fn checksum(bytes: &[u8], first: u32) -> u16 {
    let (words, _) = bytes.as_chunks::<2>();
    let sum = words.iter().fold(first, |sum, word| sum + u32::from(u16::from_be_bytes(*word)));
    let folded = (sum & 0xffff) + (sum >> 16);
    !u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap_or(0)
}

fn at(offset: usize) -> u8 {
    u8::try_from(offset).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_right_whatever_varies() {
        for family in [Family::Ip4, Family::Ip6] {
            let Frames { mut template, flow, to } = frames(family, IN_MAC).unwrap();
            for (flow_number, to_number) in [(0_u16, 0_u16), (0x1234, 0xfffe), (0xffff, 0x00ff)] {
                for (varied, number) in [(flow, flow_number), (to, to_number)] {
                    template[usize::from(varied.at)..][..2].copy_from_slice(&number.to_ne_bytes());
                    template[usize::from(varied.complement_at)..][..2]
                        .copy_from_slice(&(!number).to_ne_bytes());
                }
                let packet = &template[14..];
                match family {
                    Family::Ip4 => assert_eq!(checksum(&packet[..20], 0), 0),
                    Family::Ip6 => assert_eq!(checksum(&packet[8..], 17 + 10), 0),
                }
            }
        }
    }
}
