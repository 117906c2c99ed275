//! Facts about a frame that the kernel and pantala tell each other: in its virtio header.

use pkt::{Flags, Gso, Pkt};
use wire::ether::{EtherType, HEADER_LEN};

use crate::sys::vnet_hdr::{self, VnetHdr};

/// Notes what the kernel says about a frame. What it says impossibly is not believed: the frame then has a wrong
/// checksum, and dies of it where that matters.
pub(super) fn describe(pkt: &mut Pkt, header: &VnetHdr, link_len: usize) {
    if header.flags & vnet_hdr::NEEDS_CSUM != 0 {
        let start = usize::from(header.csum_start) + link_len;
        let field = start + usize::from(header.csum_offset);
        if field + 2 <= pkt.head().len()
            && let (Ok(start), Ok(offset)) = (u16::try_from(start), u8::try_from(header.csum_offset))
        {
            pkt.csum_start = start;
            pkt.csum_off = offset;
            pkt.flags.set(Flags::CSUM_PARTIAL);
        }
    } else if header.flags & vnet_hdr::DATA_VALID != 0 {
        pkt.flags.set(Flags::CSUM_GOOD);
    }
    pkt.gso = match header.gso_type & !vnet_hdr::GSO_ECN {
        vnet_hdr::GSO_TCPV4 => Gso::Tcp4,
        vnet_hdr::GSO_TCPV6 => Gso::Tcp6,
        vnet_hdr::GSO_UDP_L4 => Gso::Udp,
        _ => return,
    };
    pkt.gso_size = header.gso_size;
    if header.gso_type & vnet_hdr::GSO_ECN != 0 {
        pkt.flags.set(Flags::GSO_ECN);
    }
}

/// Returns a link header without addresses for a packet with this first byte; `None` if it is none of IP.
pub(super) fn link_header(first: Option<u8>) -> Option<[u8; HEADER_LEN]> {
    let ethertype = match first? >> 4 {
        4 => EtherType::IPV4,
        6 => EtherType::IPV6,
        _ => return None,
    };
    let mut header = [0; HEADER_LEN];
    header[12..].copy_from_slice(&ethertype.0.to_be_bytes());
    Some(header)
}

/// Whether a frame carries an IP packet.
pub(super) fn is_ip(pkt: &Pkt) -> bool {
    let [.., hi, lo] = *pkt.window(0).first_chunk::<HEADER_LEN>().unwrap_or(&[0; HEADER_LEN]);
    matches!(EtherType(u16::from_be_bytes([hi, lo])), EtherType::IPV4 | EtherType::IPV6)
}

/// Tells the kernel what is still to be done to a frame, of which it does not see the first `link_len` bytes.
pub(super) fn header_for(pkt: &Pkt, link_len: usize) -> VnetHdr {
    let mut header = VnetHdr::default();
    let link_len = u16::try_from(link_len).unwrap_or(0);
    let csum_start = pkt.csum_start.saturating_sub(link_len);
    if pkt.flags.has(Flags::CSUM_PARTIAL) {
        header.flags = vnet_hdr::NEEDS_CSUM;
        header.csum_start = csum_start;
        header.csum_offset = pkt.csum_off.into();
    } else if pkt.flags.has(Flags::CSUM_GOOD) {
        header.flags = vnet_hdr::DATA_VALID;
    }
    header.gso_type = match pkt.gso {
        Gso::None => return header,
        Gso::Tcp4 => vnet_hdr::GSO_TCPV4,
        Gso::Tcp6 => vnet_hdr::GSO_TCPV6,
        Gso::Udp => vnet_hdr::GSO_UDP_L4,
    };
    if pkt.flags.has(Flags::GSO_ECN) {
        header.gso_type |= vnet_hdr::GSO_ECN;
    }
    header.gso_size = pkt.gso_size;
    header.hdr_len = csum_start.saturating_add(transport_header_len(pkt));
    header
}

/// Bytes of the transport header of a super-packet, whose `csum_start` is where it begins.
fn transport_header_len(pkt: &Pkt) -> u16 {
    const UDP: u16 = 8;
    match pkt.gso {
        Gso::Udp => UDP,
        _ => u16::from(pkt.window(usize::from(pkt.csum_start))[12] >> 4) * 4,
    }
}
