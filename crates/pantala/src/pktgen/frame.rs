//! Frames: a template, of which each frame is a copy with its own addresses, ports, lengths, header and checksums.
//!
//! No sum is taken over a frame. What is behind the measuring header is zeros, so a frame's checksums are the template's,
//! with the sums of what differs added (RFC 1071 §2: the ones' complement sum does not care for order).

use core::net::IpAddr;

use wire::ether::{self, Mac};
use wire::{Protocol, ip4, ip6, tcp, udp};

use super::flows::Flow;
use super::payload::{self, Probe};
use super::sizes::{FCS_LEN, SIZE_MAX};

/// The headers common to all frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    pub(crate) is_v4: bool,
    pub(crate) transport: Transport,
    pub(crate) src_mac: Mac,
    pub(crate) dst_mac: Mac,
    pub(crate) ttl: u8,
    /// IPv4's type of service, IPv6's traffic class.
    pub(crate) tos: u8,
}

/// UDP, or TCP with these flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Udp,
    Tcp(tcp::Flags),
}

impl Headers {
    /// The smallest frame with these headers, with frame check sequence.
    #[expect(clippy::cast_possible_truncation, reason = "headers are short")]
    pub(crate) const fn size_min(is_v4: bool, transport: Transport) -> u16 {
        let ip = if is_v4 { ip4::HEADER_LEN } else { ip6::HEADER_LEN };
        let all = ether::HEADER_LEN + ip + transport.header_len();
        let framed = if all < ether::MIN_FRAME_LEN { ether::MIN_FRAME_LEN } else { all };
        framed as u16 + FCS_LEN
    }

    /// The smallest frame that can be measured.
    #[expect(clippy::cast_possible_truncation, reason = "headers are short")]
    pub(crate) const fn size_measured(is_v4: bool, transport: Transport) -> u16 {
        let ip = if is_v4 { ip4::HEADER_LEN } else { ip6::HEADER_LEN };
        (ether::HEADER_LEN + ip + transport.header_len() + payload::LEN) as u16 + FCS_LEN
    }

    const fn l4_at(&self) -> usize {
        ether::HEADER_LEN + if self.is_v4 { ip4::HEADER_LEN } else { ip6::HEADER_LEN }
    }
}

impl Transport {
    const fn header_len(self) -> usize {
        match self {
            Self::Udp => udp::HEADER_LEN,
            Self::Tcp(_) => tcp::HEADER_LEN,
        }
    }

    const fn protocol(self) -> Protocol {
        match self {
            Self::Udp => Protocol::UDP,
            Self::Tcp(_) => Protocol::TCP,
        }
    }
}

/// The frame that all are copies of, and the sums of what stays.
pub(crate) struct Template {
    bytes: Box<[u8; SIZE_MAX as usize]>,
    is_v4: bool,
    is_udp: bool,
    l4_at: usize,
    payload_at: usize,
    /// Sum of the IPv4 header's constant words.
    ip_sum: u32,
    /// Sum of the constant words of pseudo-header, transport header and measuring header.
    l4_sum: u32,
    session: u16,
}

impl Template {
    pub(crate) fn new(headers: &Headers, session: u16) -> Self {
        let mut bytes = Box::new([0; SIZE_MAX as usize]);
        let l4_at = headers.l4_at();
        let payload_at = l4_at + headers.transport.header_len();
        write_headers(headers, &mut bytes[..]);
        let ip_sum = if headers.is_v4 { sum(&bytes[ether::HEADER_LEN..l4_at]) } else { 0 };
        let transport = sum(&bytes[l4_at..payload_at]);
        let l4_sum = transport + u32::from(headers.transport.protocol().0);
        Self {
            bytes,
            is_v4: headers.is_v4,
            is_udp: headers.transport == Transport::Udp,
            l4_at,
            payload_at,
            ip_sum,
            l4_sum,
            session,
        }
    }

    /// Writes a frame over the whole of `out`, whose length (without frame check sequence) it has. If the measuring
    /// header fits, it is there, and the answer is yes.
    #[inline]
    pub(crate) fn write(&self, flow: &Flow, number: u32, seq: u32, stamp: u64, out: &mut [u8]) -> bool {
        let len = out.len().min(self.bytes.len());
        out[..len].copy_from_slice(&self.bytes[..len]);
        let l4_len = len - self.l4_at;
        let mut sum = self.l4_sum + flow.sum + word(l4_len);
        let measured = len >= self.payload_at + payload::LEN;
        if measured {
            let header = Probe { session: self.session, flow: number, seq, stamp }.to_bytes();
            out[self.payload_at..self.payload_at + payload::LEN].copy_from_slice(&header);
            sum += sum_of_probe(&header);
        }
        if self.is_v4 {
            self.patch_v4(flow, len, out);
        } else {
            patch_v6(flow, l4_len, out);
        }
        let segment = &mut out[self.l4_at..self.payload_at];
        segment[..4].copy_from_slice(&flow.ports);
        if self.is_udp {
            segment[4..6].copy_from_slice(&be16(l4_len));
            segment[6..8].copy_from_slice(&never_zero(!fold(sum + word(l4_len))).to_be_bytes());
        } else {
            segment[16..18].copy_from_slice(&(!fold(sum)).to_be_bytes());
        }
        measured
    }

    #[inline]
    fn patch_v4(&self, flow: &Flow, len: usize, out: &mut [u8]) {
        let total = len - ether::HEADER_LEN;
        let header = &mut out[ether::HEADER_LEN..ether::HEADER_LEN + ip4::HEADER_LEN];
        header[2..4].copy_from_slice(&be16(total));
        header[10..12].copy_from_slice(&(!fold(self.ip_sum + flow.addr_sum + word(total))).to_be_bytes());
        header[12..16].copy_from_slice(&flow.src[..4]);
        header[16..20].copy_from_slice(&flow.dst[..4]);
    }
}

#[inline]
fn patch_v6(flow: &Flow, l4_len: usize, out: &mut [u8]) {
    let header = &mut out[ether::HEADER_LEN..ether::HEADER_LEN + ip6::HEADER_LEN];
    header[4..6].copy_from_slice(&be16(l4_len));
    header[8..24].copy_from_slice(&flow.src);
    header[24..40].copy_from_slice(&flow.dst);
}

/// All that is constant. Addresses, ports, lengths and checksums are zero.
fn write_headers(headers: &Headers, out: &mut [u8]) {
    use core::net::{Ipv4Addr, Ipv6Addr};
    let (l4_at, protocol) = (headers.l4_at(), headers.transport.protocol());
    let ethertype = if headers.is_v4 { ether::EtherType::IPV4 } else { ether::EtherType::IPV6 };
    let ethernet = ether::Header { dst: headers.dst_mac, src: headers.src_mac, ethertype };
    out[..ether::HEADER_LEN].copy_from_slice(&ethernet.to_bytes());
    let ip = &mut out[ether::HEADER_LEN..l4_at];
    if headers.is_v4 {
        let any = Ipv4Addr::UNSPECIFIED;
        let header = ip4::Header {
            tos: headers.tos,
            ttl: headers.ttl,
            dont_fragment: true,
            ..ip4::Header::new(any, any, protocol, 0)
        };
        // There is room, and no option can be wrong.
        let _ = header.emit(ip);
        ip[2..4].fill(0);
        ip[10..12].fill(0);
    } else {
        let any = Ipv6Addr::UNSPECIFIED;
        let header = ip6::Header {
            traffic_class: headers.tos,
            hop_limit: headers.ttl,
            ..ip6::Header::new(any, any, protocol, 0)
        };
        ip.copy_from_slice(&header.to_bytes());
    }
    if let Transport::Tcp(flags) = headers.transport {
        const DATA_OFFSET: u8 = 5 << 4;
        const WINDOW: [u8; 2] = [0xff, 0xff];
        out[l4_at + 12..l4_at + 16].copy_from_slice(&[DATA_OFFSET, flags.0, WINDOW[0], WINDOW[1]]);
    }
}

/// The plain sum of 16-bit words: 32 bits hold that of 65 535 of them.
pub(crate) fn sum(bytes: &[u8]) -> u32 {
    let (words, _) = bytes.as_chunks::<2>();
    words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum()
}

/// The sum of an address's words.
pub(crate) fn sum_of(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(v4) => sum(&v4.octets()),
        IpAddr::V6(v6) => sum(&v6.octets()),
    }
}

#[inline]
fn sum_of_probe(header: &[u8; payload::LEN]) -> u32 {
    let (words, _) = header.as_chunks::<2>();
    words.iter().fold(0_u32, |sum, word| sum.wrapping_add(u16::from_be_bytes(*word).into()))
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "folded twice, 32 bits are 16")]
const fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

/// Zero would say that there is no checksum.
//= https://www.rfc-editor.org/rfc/rfc768
#[inline]
const fn never_zero(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

#[inline]
fn be16(len: usize) -> [u8; 2] {
    let [.., hi, lo] = len.to_be_bytes();
    [hi, lo]
}

#[inline]
fn word(len: usize) -> u32 {
    u16::from_be_bytes(be16(len)).into()
}

#[cfg(test)]
mod tests;
