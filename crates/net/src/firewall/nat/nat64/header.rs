//! A packet in the words of the other family: its headers, and what its checksum must make up for.
//!
//! Checksums are changed by the difference (RFC 1624), so a packet that was broken stays broken.

use core::net::{Ipv4Addr, Ipv6Addr};

use pkt::{Flags, Gso, Pkt};
use wire::checksum::{Sum, never_zero};
use wire::{Protocol, ip4, ip6};

use super::icmp;
use crate::firewall::nat::headers::{End, Kind, Shape};
use crate::ip::l4;
use crate::out::offload;

/// Source and destination of a packet, in the other family.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddrPair {
    pub(super) src: End,
    pub(super) dst: End,
}

/// The fields that both families' headers share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Common {
    /// Type of service, or traffic class.
    pub(super) class: u8,
    /// Time to live, or hop limit.
    pub(super) ttl: u8,
    /// The upper layer, in the words of the other family.
    pub(super) protocol: Protocol,
    /// Bytes of it.
    pub(super) len: usize,
}

/// Longest packet of IPv4 that may be fragmented behind the translator.
//= https://www.rfc-editor.org/rfc/rfc7915#section-5.1
//# If the size of the translated IPv4 packet is less than or equal to
//# 1260 bytes, it is set to zero; otherwise, it is set to one.
const MAY_BE_CUT: usize = 1260;

/// Makes a packet of IPv6 one of IPv4. `id` is one that no other has at the moment. `None`, and the packet can only die:
/// it is longer than packets of IPv4 can be, or has no room.
///
/// Writes its headers, what is known of them, and clears [`Flags::HASH`].
//= https://www.rfc-editor.org/rfc/rfc7915#section-5.1
pub(super) fn to_ip4(pkt: &mut Pkt, shape: &Shape, ends: AddrPair, id: u16) -> Option<()> {
    let common = Common::of(pkt.head(), shape, pkt.len())?;
    let len = u16::try_from(common.len + ip4::HEADER_LEN).ok()?;
    put_upper(pkt, shape, ends, &common)?;
    // What came in pieces may be cut again; what is to be cut by a device is as long as its pieces.
    let is_cut = pkt.flags.has(Flags::REASSEMBLED) || pkt.gso == Gso::None && usize::from(len) <= MAY_BE_CUT;
    let header = common.ip4(ends, len, if is_cut { Some(id) } else { None });
    pkt.trim_front(shape.l4.into());
    pkt.prepend_array(&header).ok()?;
    know(pkt, common.protocol, ip4::HEADER_LEN);
    Some(())
}

/// Makes a packet of IPv4 one of IPv6; what may be cut to pieces may still be. `None` as of [`to_ip4`].
//= https://www.rfc-editor.org/rfc/rfc7915#section-4.1
pub(super) fn to_ip6(pkt: &mut Pkt, shape: &Shape, ends: AddrPair) -> Option<()> {
    const DONT_FRAGMENT: u8 = 0x40;
    let common = Common::of(pkt.head(), shape, pkt.len())?;
    let may_be_cut = pkt.head().get(6)? & DONT_FRAGMENT == 0;
    put_upper(pkt, shape, ends, &common)?;
    pkt.trim_front(shape.l4.into());
    pkt.prepend_array(&common.ip6(ends)?).ok()?;
    know(pkt, common.protocol, ip6::HEADER_LEN);
    if may_be_cut {
        // As what was put together on its way, it is sent on in pieces where it does not fit.
        pkt.flags.set(Flags::REASSEMBLED);
    }
    Some(())
}

/// Notes what the packet is now.
fn know(pkt: &mut Pkt, protocol: Protocol, l4: usize) {
    (pkt.proto, pkt.l4) = (protocol.0, u16::try_from(l4).unwrap_or(0));
    pkt.moved = true;
    pkt.gso = match pkt.gso {
        Gso::Tcp4 => Gso::Tcp6,
        Gso::Tcp6 => Gso::Tcp4,
        other => other,
    };
    pkt.flags.clear(Flags::HASH.with(Flags::KNOWN));
}

impl Common {
    /// Reads the header of a packet whose transport payload ends at `end`.
    pub(super) fn of(bytes: &[u8], shape: &Shape, end: usize) -> Option<Self> {
        let header = bytes.get(shape.at.into()..)?.first_chunk::<{ ip4::HEADER_LEN }>()?;
        let (class, ttl) =
            if shape.is_ip4 { (header[1], header[8]) } else { (header[0] << 4 | header[1] >> 4, header[7]) };
        let protocol = match shape.protocol {
            Protocol::ICMP => Protocol::ICMP6,
            Protocol::ICMP6 => Protocol::ICMP,
            other => other,
        };
        Some(Self { class, ttl, protocol, len: end.checked_sub(shape.l4.into())? })
    }

    /// The header of IPv4. With an identification the packet may be cut, else it must not be.
    pub(super) fn ip4(&self, ends: AddrPair, len: u16, id: Option<u16>) -> [u8; ip4::HEADER_LEN] {
        let mut header = [0; ip4::HEADER_LEN];
        header[0] = 0x45;
        header[1] = self.class;
        header[2..4].copy_from_slice(&len.to_be_bytes());
        header[4..6].copy_from_slice(&id.unwrap_or(0).to_be_bytes());
        header[6] = if id.is_some() { 0 } else { 0x40 };
        header[8] = self.ttl;
        header[9] = self.protocol.0;
        header[12..16].copy_from_slice(&v4(ends.src).octets());
        header[16..20].copy_from_slice(&v4(ends.dst).octets());
        let checksum = Sum::new().bytes(&header).checksum();
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        header
    }

    /// The header of IPv6; `None` if it cannot say the length.
    pub(super) fn ip6(&self, ends: AddrPair) -> Option<[u8; ip6::HEADER_LEN]> {
        let mut header = [0; ip6::HEADER_LEN];
        header[0] = 0x60 | self.class >> 4;
        header[1] = self.class << 4;
        header[4..6].copy_from_slice(&u16::try_from(self.len).ok()?.to_be_bytes());
        header[6] = self.protocol.0;
        header[7] = self.ttl;
        header[8..24].copy_from_slice(&ends.src.addr.to_be_bytes());
        header[24..40].copy_from_slice(&ends.dst.addr.to_be_bytes());
        Some(header)
    }
}

/// Changes ports and checksum of the upper layer, and the type of a query.
fn put_upper(pkt: &mut Pkt, shape: &Shape, ends: AddrPair, common: &Common) -> Option<()> {
    let l4 = usize::from(shape.l4);
    let mut is_partial = pkt.flags.has(Flags::CSUM_PARTIAL) && pkt.csum_start == shape.l4;
    if is_partial && shape.kind == Kind::Query {
        // Only one of the two families has a pseudo-header there.
        is_partial = !offload::complete(pkt);
    }
    let has_none = shape.kind == Kind::Udp && pkt.head().get(l4 + 6..l4 + 8)? == [0; 2] && !is_partial;
    let pseudo =
        Pseudo { old: addresses(pkt.head(), shape)?, new: new_addresses(shape, ends), len: common.len };
    rewrite(pkt.head_mut().get_mut(l4..)?, shape, ends, &pseudo, is_partial)?;
    if has_none && shape.is_ip4 {
        return sum_udp(pkt, shape, ends, common);
    }
    Some(())
}

/// Sums of both pseudo-headers' addresses, and the length that they name.
pub(super) struct Pseudo {
    pub(super) old: Sum,
    pub(super) new: Sum,
    pub(super) len: usize,
}

/// Changes the ports of an upper layer, or a query's type and identifier, and makes up for all that has changed in its
/// checksum. `l4` is as much of it as there is: in an error perhaps little.
pub(super) fn rewrite(
    l4: &mut [u8],
    shape: &Shape,
    ends: AddrPair,
    pseudo: &Pseudo,
    is_partial: bool,
) -> Option<()> {
    let [old, new] = [pseudo.old.folded(), pseudo.new.folded()];
    let addresses = Sum::new().u16(!old).u16(new);
    let (at, changed) = match shape.kind {
        Kind::Tcp(_) | Kind::Udp => {
            let ports = put(l4, 0, ends.src.port)?.u16(put(l4, 2, ends.dst.port)?.folded());
            let changed = if is_partial { addresses } else { addresses.u16(ports.folded()) };
            (if shape.kind == Kind::Udp { 6 } else { 16 }, changed)
        }
        Kind::Query => {
            let kind = icmp::query(shape.is_ip4, *l4.first()?)?;
            let code = *l4.get(1)?;
            let about = put(l4, 0, u16::from_be_bytes([kind, code]))?;
            let id = if shape.is_ip4 { ends.dst.port } else { ends.src.port };
            let about = about.u16(put(l4, 4, id)?.folded());
            // Both ways the length and the number are ICMPv6's.
            let rest = Sum::new().u32(u32::try_from(pseudo.len).ok()?).u16(Protocol::ICMP6.0.into()).folded();
            let header =
                if shape.is_ip4 { Sum::new().u16(new).u16(rest) } else { Sum::new().u16(!old).u16(!rest) };
            (2, about.u16(header.folded()))
        }
        Kind::Error | Kind::Other | Kind::Later => return None,
    };
    // What an error quotes may end before it.
    let Some(field) = l4.get(at..).and_then(<[u8]>::first_chunk).map(|field| u16::from_be_bytes(*field))
    else {
        return Some(());
    };
    let is_udp = shape.kind == Kind::Udp;
    if is_partial {
        put(l4, at, Sum::new().u16(field).u16(changed.folded()).folded());
    } else if !(is_udp && field == 0) {
        let checksum = !Sum::new().u16(!field).u16(changed.folded()).folded();
        put(l4, at, if is_udp { never_zero(checksum) } else { checksum });
    }
    Some(())
}

/// Puts a word over another; by how much the sum has changed.
fn put(l4: &mut [u8], at: usize, word: u16) -> Option<Sum> {
    let field = l4.get_mut(at..)?.first_chunk_mut()?;
    let old = u16::from_be_bytes(core::mem::replace(field, word.to_be_bytes()));
    Some(Sum::new().u16(!old).u16(word))
}

/// Sums a datagram whose sender did not: IPv6 has none without.
//= https://www.rfc-editor.org/rfc/rfc7915#section-4.5
fn sum_udp(pkt: &mut Pkt, shape: &Shape, ends: AddrPair, common: &Common) -> Option<()> {
    let (src, dst) = (Ipv6Addr::from_bits(ends.src.addr), Ipv6Addr::from_bits(ends.dst.addr));
    let pseudo = Sum::pseudo_v6(src, dst, Protocol::UDP, u32::try_from(common.len).ok()?);
    let l4 = usize::from(shape.l4);
    let checksum = l4::sum(pseudo, pkt, l4..pkt.len()).checksum_never_zero();
    put(pkt.head_mut().get_mut(l4..)?, 6, checksum).map(drop)
}

/// The sum of a packet's addresses.
pub(super) fn addresses(bytes: &[u8], shape: &Shape) -> Option<Sum> {
    let at = usize::from(shape.at) + if shape.is_ip4 { 12 } else { 8 };
    Some(Sum::new().bytes(bytes.get(at..at + if shape.is_ip4 { 8 } else { 32 })?))
}

/// Returns the sum of its new addresses.
pub(super) fn new_addresses(shape: &Shape, ends: AddrPair) -> Sum {
    if shape.is_ip4 {
        Sum::new().bytes(&ends.src.addr.to_be_bytes()).bytes(&ends.dst.addr.to_be_bytes())
    } else {
        Sum::new().bytes(&v4(ends.src).octets()).bytes(&v4(ends.dst).octets())
    }
}

fn v4(end: End) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::try_from(end.addr).unwrap_or(0))
}
