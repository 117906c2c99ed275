//! The upper layer of packets for this host: between which addresses it speaks, where it lies, whether it is intact.

use core::net::IpAddr;
use core::ops::Range;

use pkt::{Flags, Pkt};
use wire::Protocol;
use wire::checksum::Sum;

use crate::fib::mark;
use crate::ip::ip_tx::IpTxParams;
use crate::ip::{ip4, ip6, output};
use crate::link::tables::{Rxcsum, Tables};
use crate::turn::cpu::Cpu;
use crate::turn::next::Resume;

/// Whether the packet is IPv4's; else it is IPv6's.
#[must_use]
pub(crate) fn is_ip4(pkt: &Pkt) -> bool {
    pkt.window(0)[0] >> 4 == 4
}

/// Source and destination of an IP packet.
#[must_use]
pub(crate) fn ends(pkt: &Pkt) -> (IpAddr, IpAddr) {
    if is_ip4(pkt) {
        (ip4::src(pkt).into(), ip4::dst(pkt).into())
    } else {
        (ip6::src(pkt).into(), ip6::dst(pkt).into())
    }
}

/// Returns the IP header fields besides the addresses; of tables, table 0.
#[must_use]
pub(crate) fn tx_params(pkt: &Pkt) -> IpTxParams {
    let ip = pkt.window(0);
    if is_ip4(pkt) {
        IpTxParams { hops: ip[8], class: ip[1], fib: 0 }
    } else {
        IpTxParams { hops: ip[7], class: ip[0] << 4 | ip[1] >> 4, fib: 0 }
    }
}

/// Where another CPU goes on with a packet for this host.
#[must_use]
pub(crate) fn resume(pkt: &Pkt) -> Resume {
    if is_ip4(pkt) { Resume::Local4 } else { Resume::Local6 }
}

/// Bytes behind the network header.
#[must_use]
pub(crate) fn range(pkt: &Pkt) -> Range<usize> {
    usize::from(pkt.l4).min(pkt.len())..pkt.len()
}

/// The sum of the pseudo-header of `len` bytes between the packet's ends.
pub(crate) fn pseudo(pkt: &Pkt, protocol: Protocol, len: usize) -> Sum {
    match ends(pkt) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            Sum::pseudo_v4(src, dst, protocol, u16::try_from(len).unwrap_or(u16::MAX))
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            Sum::pseudo_v6(src, dst, protocol, u32::try_from(len).unwrap_or(u32::MAX))
        }
        _ => Sum::new(),
    }
}

/// The packet's bytes in `range`, buffer by buffer.
pub(crate) fn pieces(pkt: &Pkt, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
    let mut at = 0;
    pkt.fragments().map(move |part| {
        let inside = |end: usize| end.saturating_sub(at).min(part.len());
        let piece = inside(range.start)..inside(range.end);
        at += part.len();
        &part[piece]
    })
}

/// `sum` and the packet's bytes in `range`, across buffers.
pub(crate) fn sum(sum: Sum, pkt: &Pkt, range: Range<usize>) -> Sum {
    pieces(pkt, range).filter(|piece| !piece.is_empty()).fold(sum, Sum::bytes)
}

/// Whether a TCP segment or UDP datagram in `range` is intact.
///
/// What the device has checked is not checked again, and what a sender on this machine left to be completed has not
/// been on a wire that could have broken it. Neither says anything about what was put together here.
#[must_use]
pub(crate) fn is_intact(cpu: &Cpu, pkt: &Pkt, protocol: Protocol, range: Range<usize>) -> bool {
    let rxcsum = cpu.tables.ifnet(pkt.rcvif).map_or(Rxcsum::Verify, |ifnet| ifnet.rxcsum);
    let known = rxcsum == Rxcsum::Trust || pkt.flags.any(Flags::CSUM_GOOD.with(Flags::CSUM_PARTIAL));
    if known && !pkt.flags.has(Flags::REASSEMBLED) {
        return true;
    }
    sum(pseudo(pkt, protocol, range.len()), pkt, range).is_intact()
}

/// Makes a received packet one that was made here: it leaves where it came in, if its destination does not say where,
/// and is routed by the same table.
pub(crate) fn becomes_ours(tables: &Tables, pkt: &mut Pkt) {
    let (rcvif, fib) = (pkt.rcvif, tables.fib_of(pkt));
    pkt.forget();
    (pkt.outif, pkt.fib) = (output::answers_by(rcvif, ends(pkt).1), mark(fib));
    pkt.flags.set(Flags::LOCAL.with(Flags::PRIORITY));
}
