//! ICMP errors about outer packets: they limit the tunnel's path MTU, or are passed on to the inner sender.

use core::net::IpAddr;

use pkt::Pkt;
use wire::{Protocol, gre, ip4, ip6};

use super::is_tunnelled;
use crate::base::count::Count;
use crate::ip::icmp::{self, Problem, Quoted};
use crate::ip::{l4, pmtu, vxlan_io};
use crate::link::tunnel::{Encap, Tunnel};
use crate::turn::cpu::Cpu;

/// Bytes of an error in front of what it quotes, in both families.
const QUOTE_AT: usize = 8;

/// Whether the packet that an error quotes was sent by a tunnel.
pub(crate) fn is_of_tunnel(cpu: &Cpu, quoted: &Quoted) -> bool {
    let is_sent_by = |encap| {
        let ends = Tunnel::between(quoted.local, quoted.remote, encap);
        cpu.tables.logical.tunnels.exactly(&ends).is_some()
    };
    encap_of(quoted).is_some_and(is_sent_by) || vxlan_io::has_sent(cpu, quoted)
}

/// The encapsulation of a quoted packet, if tunnels have it.
fn encap_of(quoted: &Quoted) -> Option<Encap> {
    match quoted.protocol {
        Protocol::GRE => {
            let header = gre::Header::parse(&quoted.upper).ok()?;
            Some(Encap::Gre { key: header.key })
        }
        other => is_tunnelled(other).then_some(Encap::Ip),
    }
}

/// Handles an error of `from` about a tunnel's packet, with the path MTU that it reports, if it does.
///
/// A new path MTU is each CPU's own concern that has sent such a packet: the next inner packet that is too long is answered.
/// All other errors say that the other end cannot be reached; the sender of a frame in a VXLAN is not told.
//= https://www.rfc-editor.org/rfc/rfc2003#section-4
//= https://www.rfc-editor.org/rfc/rfc2473#section-8
pub(crate) fn report(cpu: &mut Cpu, mut pkt: Pkt, from: IpAddr, quoted: &Quoted, mtu: Option<u32>) {
    cpu.count(Count::TunnelErrors);
    match mtu {
        Some(mtu) => pmtu::learn_of_tunnel(cpu, pkt.rcvif, from, quoted, mtu),
        None => {
            if quotes_inner(&mut pkt) {
                cpu.count(Count::TunnelErrorsRelayed);
                icmp::tell(cpu, &pkt, Problem::HostUnreachable);
            }
        }
    }
    cpu.finish(pkt, Ok(Count::IcmpConsumed));
}

/// Cuts an error down to the inner packet that it quotes; false if there is too little of it.
fn quotes_inner(pkt: &mut Pkt) -> bool {
    let outer = usize::from(pkt.l4) + QUOTE_AT;
    let header = match l4::is_ip4(pkt) {
        true => pkt.head().get(outer).map_or(0, |first| usize::from(first & 0xf) * 4),
        false => ip6::HEADER_LEN,
    };
    let protocol = pkt.head().get(outer + if l4::is_ip4(pkt) { 9 } else { 6 }).copied().map(Protocol);
    let behind = match protocol {
        Some(Protocol::GRE) => {
            let bytes = pkt.head().get(outer + header..).unwrap_or_default();
            gre::Header::parse(bytes).map(|header| header.len()).ok()
        }
        Some(other) if is_tunnelled(other) => Some(0),
        _ => None,
    };
    let Some(behind) = behind else { return false };
    let (before, at) = (pkt.len(), outer + header + behind);
    pkt.trim_front(at);
    let least = if l4::is_ip4(pkt) { ip4::HEADER_LEN } else { ip6::HEADER_LEN };
    let is_there = before > at && pkt.head_len() >= least + QUOTE_AT;
    pkt.forget();
    is_there && matches!(pkt.window(0)[0] >> 4, 4 | 6)
}
