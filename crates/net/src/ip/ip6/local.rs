//! IPv6 packets for this host.

use ipfw::rule::Hook;
use pkt::{Flags, Pkt};
use wire::checksum::Sum;
use wire::ip6::View;
use wire::ip6_ext::{Chain, Role, walk};
use wire::{Protocol, icmp6};

use super::{dst, icmp6 as messages, nd, refuse, src};
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::ip::icmp::Problem;
use crate::ip::output::is_withheld;
use crate::ip::{punt, reass, tunnel_io};
use crate::out::offload::sum;
use crate::turn::cpu::Cpu;
use crate::turn::deliver;
use crate::turn::netisr::dispatch;
use crate::turn::next::Next;
use crate::turn::{pfil, trace};

/// Brings a packet for this host to its protocol, whole, past its extension headers.
///
/// Reads  the headers.   Writes `pkt.l4`, `pkt.proto`.
/// Next   [`reass::input6`], [`messages::input`], [`deliver::udp`], [`deliver::tcp`], [`tunnel_io::input`],
///        [`punt::offer`], [`Next::Answer`].
/// Drops  [`DropReason::NdFragmented`], [`DropReason::AddressTentative`], and what [`refuse`] says of extension headers.
///
/// # Spec
/// RFC 8200 §4; RFC 5095 §3; RFC 6980 §5.
pub fn input(cpu: &mut Cpu, mut pkt: Pkt) {
    let chain = match View::new_quoted(pkt.head()).map(|view| walk(&view, Role::Host)) {
        Ok(Ok(chain)) => chain,
        Ok(Err(error)) => {
            let next = refuse(&error, dst(&pkt));
            return dispatch(cpu, pkt, next);
        }
        Err(_) => return cpu.drop_pkt(pkt, DropReason::Ip6Short),
    };
    pkt.l4 = u16::try_from(chain.upper_at).unwrap_or(u16::MAX);
    pkt.proto = chain.upper.0;
    let is_discovery = chain.has_upper() && is_discovery(&pkt);
    let was_cut = chain.fragment.is_some() || pkt.flags.has(Flags::REASSEMBLED);
    if was_cut && is_discovery {
        return cpu.drop_pkt(pkt, DropReason::NdFragmented);
    }
    //= https://www.rfc-editor.org/rfc/rfc4862#section-5.4
    if !is_discovery && is_withheld(cpu, || dst(&pkt).into()) {
        return cpu.drop_pkt(pkt, DropReason::AddressTentative);
    }
    if let Some(fragment) = &chain.fragment
        && chain.is_fragment()
    {
        return reass::input6(cpu, pkt, fragment);
    }
    if let Some(next) = pfil::ask(cpu, &mut pkt, Hook::LocalIn) {
        return dispatch(cpu, pkt, next);
    }
    cpu.count(Count::Ip6Local);
    if cpu.watched && trace::local(cpu, &pkt) {
        return cpu.pool.give(pkt);
    }
    if cpu.tables.has_twins && punt::is_to_kernels_group(cpu, &pkt) {
        return punt::offer_or(cpu, pkt, Next::Drop(DropReason::GroupNotJoined));
    }
    demux(cpu, pkt, &chain);
}

fn demux(cpu: &mut Cpu, pkt: Pkt, chain: &Chain) {
    match chain.upper {
        Protocol::ICMP6 if is_discovery(&pkt) => discovery(cpu, pkt),
        Protocol::ICMP6 => messages::input(cpu, pkt),
        Protocol::UDP => deliver::udp(cpu, pkt),
        Protocol::TCP => deliver::tcp(cpu, pkt),
        //= https://www.rfc-editor.org/rfc/rfc8200#section-4.7
        Protocol::NO_NEXT => cpu.drop_pkt(pkt, DropReason::NoProtocol),
        // A group's members do not speak all the same protocols: only a host is told.
        _ if dst(&pkt).is_multicast() => punt::offer_or(cpu, pkt, Next::Drop(DropReason::NoProtocol)),
        _ => {
            let pointer = u32::try_from(chain.next_header_at).unwrap_or_default();
            if let Err(pkt) = tunnel_io::input(cpu, pkt) {
                punt::offer_or(cpu, pkt, Next::Answer(Problem::ProtocolUnreachable { pointer }));
            }
        }
    }
}

/// Brings a message of neighbour discovery, once its checksum is known to be right, to where it is understood.
///
/// Drops  [`DropReason::IcmpBadChecksum`].
fn discovery(cpu: &mut Cpu, pkt: Pkt) {
    let at = usize::from(pkt.l4);
    let len = u32::try_from(pkt.len() - at).unwrap_or(u32::MAX);
    let [pseudo, body] = [Sum::pseudo_v6(src(&pkt), dst(&pkt), Protocol::ICMP6, len), sum(&pkt, at)];
    if pseudo.u16(body.folded()).is_intact() {
        nd::input(cpu, pkt)
    } else {
        cpu.drop_pkt(pkt, DropReason::IcmpBadChecksum)
    }
}

/// Whether the packet is of neighbour discovery, which must never have been fragmented.
//= https://www.rfc-editor.org/rfc/rfc6980#section-5
//# Nodes MUST silently ignore the following Neighbor Discovery and
//# SEcure Neighbor Discovery messages if the packets carrying them
//# include an IPv6 Fragment Header
fn is_discovery(pkt: &Pkt) -> bool {
    let at = usize::from(pkt.l4);
    let kind = pkt.head().get(at).copied().unwrap_or_default();
    let kinds = icmp6::kind::ROUTER_SOLICIT..=icmp6::kind::REDIRECT;
    pkt.proto == Protocol::ICMP6.0 && kinds.contains(&kind)
}

#[cfg(test)]
mod tests;
