//! IPv4 packets for this host.

use ipfw::rule::Hook;
use pkt::Pkt;
use wire::Protocol;

use super::{dst, icmp};
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::ip::icmp::Problem;
use crate::ip::output::is_withheld;
use crate::ip::{group, punt, reass, tunnel_io};
use crate::turn::cpu::Cpu;
use crate::turn::deliver;
use crate::turn::netisr::dispatch;
use crate::turn::next::Next;
use crate::turn::{pfil, trace};

/// Where the protocol stands in the header.
const PROTOCOL_AT: u32 = 9;
/// In the word of flags and offset: everything that makes a fragment.
const FRAGMENT: u16 = 0x3fff;

/// Brings a packet for this host to its protocol, whole.
///
/// Reads  the header.   Writes `pkt.l4`, `pkt.proto`.
/// Next   [`reass::input4`], [`icmp::input`], [`deliver::udp`], [`deliver::tcp`], [`group::input`],
///        [`tunnel_io::input`], [`punt::offer`], [`Next::Answer`].
/// Drops  [`DropReason::AddressTentative`], [`DropReason::GroupNotJoined`].
///
/// # Spec
/// RFC 1122 §3.2.1.8, §3.2.2.1.
pub fn input(cpu: &mut Cpu, mut pkt: Pkt) {
    let ip = pkt.window(0);
    let (header_len, protocol) = (u16::from(ip[0] & 0xf) * 4, Protocol(ip[9]));
    let is_fragment = u16::from_be_bytes([ip[6], ip[7]]) & FRAGMENT != 0;
    pkt.l4 = header_len;
    pkt.proto = protocol.0;
    if is_withheld(cpu, || dst(&pkt).into()) {
        return cpu.drop_pkt(pkt, DropReason::AddressTentative);
    }
    if is_fragment {
        return reass::input4(cpu, pkt);
    }
    if let Some(next) = pfil::ask(cpu, &mut pkt, Hook::LocalIn) {
        return dispatch(cpu, pkt, next);
    }
    cpu.count(Count::Ip4Local);
    if cpu.watched && trace::local(cpu, &pkt) {
        return cpu.pool.give(pkt);
    }
    if cpu.tables.has_twins && punt::is_to_kernels_group(cpu, &pkt) {
        return punt::offer_or(cpu, pkt, Next::Drop(DropReason::GroupNotJoined));
    }
    match protocol {
        Protocol::ICMP => icmp::input(cpu, pkt),
        Protocol::UDP => deliver::udp(cpu, pkt),
        Protocol::TCP => deliver::tcp(cpu, pkt),
        Protocol::IGMP => group::input(cpu, pkt),
        _ => {
            if let Err(pkt) = tunnel_io::input(cpu, pkt) {
                punt::offer_or(cpu, pkt, Next::Answer(Problem::ProtocolUnreachable { pointer: PROTOCOL_AT }));
            }
        }
    }
}
