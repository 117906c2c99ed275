//! An echo request to the router's own address, from a host whose link address it knows.

use core::net::IpAddr;

use anyhow::{Context, Result, bail};
use wire::ether::{self, EtherType};
use wire::{Protocol, icmp4, icmp6, ip4, ip6};

use crate::frames::{Family, GATEWAY, ROUTER};
use crate::router::{GATEWAYS, OUT_NET};

/// Bytes of the frame: what `ping` sends over IPv4, and no other frame here has.
pub const PING_LEN: usize = 98;

/// The request.
///
/// # Errors
/// None is expected.
pub fn request(family: Family) -> Result<[u8; PING_LEN]> {
    let mut frame = [0; PING_LEN];
    let (link, packet) = frame.split_at_mut(ether::HEADER_LEN);
    let len = packet.len();
    let ethertype = match (family.addr(OUT_NET, GATEWAYS[0]), family.addr(OUT_NET, 1)) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let header = ip4::Header::new(src, dst, Protocol::ICMP, u16::try_from(len - ip4::HEADER_LEN)?);
            let at = header.emit(packet).ok().context("the header has no room")?;
            let (head, payload) = packet[at..].split_at_mut(icmp4::HEADER_LEN);
            head.copy_from_slice(&icmp4::Message::EchoRequest { id: 1, seq: 1 }.to_bytes(payload));
            EtherType::IPV4
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = ip6::Header::new(src, dst, Protocol::ICMP6, u16::try_from(len - ip6::HEADER_LEN)?);
            let at = header.emit(packet).ok().context("the header has no room")?;
            let (head, payload) = packet[at..].split_at_mut(icmp6::HEADER_LEN);
            head.copy_from_slice(&icmp6::Message::EchoRequest { id: 1, seq: 1 }.to_bytes(src, dst, payload));
            EtherType::IPV6
        }
        _ => bail!("two families"),
    };
    link.copy_from_slice(&ether::Header { dst: ROUTER, src: GATEWAY, ethertype }.to_bytes());
    Ok(frame)
}
