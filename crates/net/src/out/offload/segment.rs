//! Super-packets, cut into the segments that their sender meant.

use pkt::{Flags, Gso, Pkt};
use wire::checksum::{Sum, partial_v4, partial_v6};
use wire::ip6_ext::{self, Role};
use wire::{Protocol, ip4, ip6, tcp, udp};

use super::copy;
use crate::base::drop::DropReason;
use crate::out::ifq::ecn;
use crate::turn::cpu::Cpu;

/// Longest Ethernet, IP and TCP headers that a super-packet may have together.
const HEADERS_MAX: usize = 256;
/// Segments of one super-packet: 64 KiB in pieces of 128 bytes. Smaller ones are refused.
const SEGMENTS_MAX: usize = 512;
/// Where TCP's flags stand in its header.
const TCP_FLAGS: usize = 13;

/// Where a super-packet's headers are, bytes from its start.
#[derive(Clone, Copy, Debug)]
struct Layout {
    l3: usize,
    l4: usize,
    payload: usize,
    is_v6: bool,
    protocol: Protocol,
}

/// Bytes, from the network header, of the largest segment that a super-packet becomes. The packet starts there.
#[must_use]
pub fn segment_len(pkt: &Pkt) -> usize {
    let whole = pkt.len();
    Layout::of(pkt, 0).map_or(whole, |layout| whole.min(layout.payload + usize::from(pkt.gso_size)))
}

/// Cuts a super-packet, a frame with its link header, into segments of at most `gso_size` payload bytes. The
/// segments' checksums are partial. All or none are made.
///
/// # Errors
///
/// [`DropReason::OffloadMalformed`] if its headers are not what its kind says, [`DropReason::NoBuffer`].
pub(super) fn segment(cpu: &mut Cpu, pkt: &Pkt) -> Result<Vec<Pkt>, DropReason> {
    let layout = Layout::of(pkt, ecn::network(pkt).1).ok_or(DropReason::OffloadMalformed)?;
    let mut headers = [0; HEADERS_MAX];
    let headers = headers.get_mut(..layout.payload).ok_or(DropReason::OffloadMalformed)?;
    headers.copy_from_slice(pkt.head().get(..layout.payload).ok_or(DropReason::OffloadMalformed)?);
    let total = pkt.len() - layout.payload;
    let size = usize::from(pkt.gso_size);
    if total.div_ceil(size) > SEGMENTS_MAX {
        return Err(DropReason::OffloadMalformed);
    }
    let mut segments = Vec::with_capacity(total.div_ceil(size));
    for at in (0..total.max(1)).step_by(size) {
        let len = size.min(total - at);
        let Some(mut new) = copy(cpu, pkt, headers, layout.payload + at, len) else {
            segments.into_iter().for_each(|pkt| cpu.pool.give(pkt));
            return Err(DropReason::NoBuffer);
        };
        let place = Place { number: segments.len(), at, is_last: at + len == total };
        layout.write(&mut new, place);
        segments.push(new);
    }
    Ok(segments)
}

/// Which of the segments one is.
#[derive(Clone, Copy)]
struct Place {
    number: usize,
    /// First payload byte, in that of the super-packet.
    at: usize,
    is_last: bool,
}

impl Layout {
    /// `None` if the headers are not those of the super-packet's kind, or not all in its first buffer.
    fn of(pkt: &Pkt, l3: usize) -> Option<Self> {
        let packet = pkt.head().get(l3..)?;
        let is_v6 = packet.first()? >> 4 == 6;
        let (l4, protocol) = if is_v6 { transport6(packet)? } else { transport4(packet)? };
        let l4_len = match (pkt.gso, protocol, is_v6) {
            (Gso::Tcp4, Protocol::TCP, false) | (Gso::Tcp6, Protocol::TCP, true) => {
                tcp::View::new(packet.get(l4..)?).ok()?.header_len()
            }
            (Gso::Udp, Protocol::UDP, _) => packet.get(l4..l4 + udp::HEADER_LEN)?.len(),
            _ => return None,
        };
        let l4 = l3 + l4;
        (pkt.gso_size > 0).then_some(Self { l3, l4, payload: l4 + l4_len, is_v6, protocol })
    }

    /// Makes the headers, copied from the super-packet, those of one segment.
    fn write(&self, pkt: &mut Pkt, place: Place) {
        let len = pkt.len();
        // A segment is never longer than its super-packet, whose lengths were u16.
        let l3_len = u16::try_from(len - self.l3).unwrap_or(u16::MAX);
        let l4_len = u16::try_from(len - self.l4).unwrap_or(u16::MAX);
        let Some(headers) = pkt.head_mut().get_mut(..self.payload) else { return };
        let (l3, l4) = headers.split_at_mut(self.l4);
        let partial = self.write_l3(&mut l3[self.l3..], l3_len, l4_len, place);
        let csum_off = match self.protocol {
            Protocol::TCP => write_tcp(l4, partial, place),
            _ => write_udp(l4, partial, l4_len),
        };
        self.mark(pkt, csum_off);
    }

    fn mark(&self, pkt: &mut Pkt, csum_off: Option<u8>) {
        pkt.l4 = u16::try_from(self.l4).unwrap_or_default();
        pkt.flags.clear(Flags::CSUM_PARTIAL.with(Flags::GSO_ECN));
        if let Some(csum_off) = csum_off {
            pkt.flags.clear(Flags::CSUM_GOOD);
            pkt.flags.set(Flags::CSUM_PARTIAL);
            (pkt.csum_start, pkt.csum_off) = (pkt.l4, csum_off);
        }
    }

    /// Writes the network header, and answers the partial checksum of the segment.
    fn write_l3(&self, ip: &mut [u8], l3_len: u16, l4_len: u16, place: Place) -> u16 {
        if self.is_v6 {
            put(ip, 4, l3_len - 40);
            let view = ip6::View::new_quoted(ip);
            return view.map_or(0, |ip| partial_v6(ip.src(), ip.dst(), self.protocol, l4_len.into()));
        }
        // RFC 6864 leaves the identification of packets that must not be fragmented open; others need one each.
        let id = get(ip, 4).wrapping_add(u16::try_from(place.number).unwrap_or_default());
        put(ip, 2, l3_len);
        put(ip, 4, id);
        put(ip, 10, 0);
        put(ip, 10, Sum::new().bytes(ip).checksum());
        let view = ip4::View::new_quoted(ip);
        view.map_or(0, |ip| partial_v4(ip.src(), ip.dst(), self.protocol, l4_len))
    }
}

fn transport4(packet: &[u8]) -> Option<(usize, Protocol)> {
    let view = ip4::View::new_quoted(packet).ok().filter(|view| !view.is_fragment())?;
    Some((view.header_len(), view.protocol()))
}

fn transport6(packet: &[u8]) -> Option<(usize, Protocol)> {
    let view = ip6::View::new_quoted(packet).ok()?;
    let chain = ip6_ext::walk(&view, Role::Router).ok().filter(|chain| chain.fragment.is_none())?;
    Some((chain.upper_at, chain.upper))
}

/// Answers where the checksum stands.
fn write_tcp(tcp: &mut [u8], partial: u16, place: Place) -> Option<u8> {
    let seq = tcp.get_mut(4..)?.first_chunk_mut::<4>()?;
    let at = u32::try_from(place.at).unwrap_or_default();
    *seq = u32::from_be_bytes(*seq).wrapping_add(at).to_be_bytes();
    let flags = tcp.get_mut(TCP_FLAGS)?;
    if place.number > 0 {
        //= https://www.rfc-editor.org/rfc/rfc3168#section-6.1.2
        *flags = tcp::Flags(*flags).without(tcp::Flags::CWR).0;
    }
    if !place.is_last {
        *flags = tcp::Flags(*flags).without(tcp::Flags::FIN).without(tcp::Flags::PSH).0;
    }
    put(tcp, tcp::CHECKSUM_OFFSET, partial);
    u8::try_from(tcp::CHECKSUM_OFFSET).ok()
}

/// Answers where the checksum stands; nowhere, if the sender wanted none.
fn write_udp(udp: &mut [u8], partial: u16, len: u16) -> Option<u8> {
    put(udp, 4, len);
    if get(udp, 6) == 0 {
        return None;
    }
    put(udp, 6, partial);
    Some(6)
}

fn get(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |field| u16::from_be_bytes(*field))
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(field) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *field = value.to_be_bytes();
    }
}
