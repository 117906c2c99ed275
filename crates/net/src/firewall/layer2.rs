//! Rules on frames that a bridge forwards, as FreeBSD's `net.link.bridge.ipfw` has them.
//!
//! The rules are asked once for a frame, whatever it is flooded to: about the IP packet in it, whose fields they match and
//! whose states they keep, or about a frame without one, which only rules match that ask for nothing of IP.

use ipfw::rule::{Action, Hook};
use pkt::Pkt;
use wire::ether::{EtherType, HEADER_LEN};
use wire::{Protocol, ip4, ip6};

use super::pkt_info::PktInfo;
use super::{flow_match, hook};
use crate::base::drop::DropReason;
use crate::ip::{ip4 as net4, ip6 as net6};
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::next::Next;

/// Asks the rules about a frame that a bridge is to forward, which begins with its Ethernet header. `None`: it goes on.
/// Else it begins behind that header. A valid IP packet is cut to its length, so that rules and states see no padding.
///
/// Next   [`Next::Drop`], [`Next::Shape`].
/// Drops  those of the headers' validation, and of rules.
pub(crate) fn ask_frame(cpu: &mut Cpu, pkt: &mut Pkt) -> Option<Next> {
    if !asks(cpu) {
        return None;
    }
    let kind = kind_of(pkt);
    if kind == EtherType::ARP && !cpu.sysctls.bridge_ipfw.is_asked_of_arp {
        return None;
    }
    pkt.trim_front(HEADER_LEN);
    let valid = match kind {
        EtherType::IPV4 => net4::input::fit(cpu, pkt).map(|_| Hook::Layer2),
        EtherType::IPV6 => net6::input::fit(cpu, pkt).map(|_| Hook::Layer2),
        _ => Ok(Hook::Frame),
    };
    let next = match valid {
        Ok(Hook::Frame) => ask_without_ip(cpu, pkt),
        Ok(hook) => hook::ask(cpu, pkt, hook),
        Err(reason) => Some(Next::Drop(reason)),
    };
    if next.is_none() && pkt.prepend(HEADER_LEN).is_err() {
        // It has just been taken off, so that there is room.
        return Some(Next::Drop(DropReason::NoBuffer));
    }
    next
}

/// The CPU that owns the flow which an ICMP error in a frame quotes a packet of: it has the state that rules ask for.
pub(crate) fn owner_of_error(cpu: &Cpu, pkt: &mut Pkt) -> Option<CpuId> {
    let has_states = || cpu.firewall.as_ref().is_some_and(|firewall| firewall.rules.probe_from(0).is_some());
    let (kind, ip) = (kind_of(pkt), pkt.window(HEADER_LEN));
    let (is_icmp, header) = match kind {
        EtherType::IPV4 => (ip[9] == Protocol::ICMP.0, ip4::HEADER_LEN),
        EtherType::IPV6 => (ip[6] == Protocol::ICMP6.0, ip6::HEADER_LEN),
        _ => return None,
    };
    if !is_icmp || !asks(cpu) || !has_states() || pkt.head_len() < HEADER_LEN + header {
        return None;
    }
    pkt.trim_front(HEADER_LEN);
    let info = PktInfo::read(pkt, Hook::Layer2, pkt.rcvif, 0).ok().filter(PktInfo::is_icmp);
    let owner = info.and_then(|info| flow_match::owner_of_quoted(cpu, &info, pkt));
    // It has just been taken off, so that there is room.
    _ = pkt.prepend(HEADER_LEN);
    owner
}

/// Whether a rule's action means anything for a frame that a bridge forwards: one that translates it or sends it another way
/// does not, and the next rule is asked.
pub(super) const fn obeys(action: &Action) -> bool {
    !matches!(
        action,
        Action::Forward { .. }
            | Action::Redirect { .. }
            | Action::Nat(_)
            | Action::Nptv6(_)
            | Action::Nat64(_)
            | Action::Reass
    )
}

/// Whether rules are asked about frames at all.
fn asks(cpu: &Cpu) -> bool {
    cpu.sysctls.bridge_ipfw.is_asked && (cpu.hooks.has(Hook::Layer2) || cpu.hooks.has(Hook::Frame))
}

/// Asks the rules about a frame without an IP packet.
fn ask_without_ip(cpu: &mut Cpu, pkt: &mut Pkt) -> Option<Next> {
    if !cpu.hooks.has(Hook::Frame) {
        return None;
    }
    let info = PktInfo::at_hook(pkt, Hook::Frame, pkt.rcvif, 0).ok()?;
    hook::with(cpu, |firewall, cpu| {
        let next = firewall.walk_all(cpu, pkt, &info, None);
        firewall.counters.settle();
        next
    })
    .flatten()
}

fn kind_of(pkt: &Pkt) -> EtherType {
    let [.., hi, lo] = *pkt.window(0).first_chunk().unwrap_or(&[0; HEADER_LEN]);
    EtherType(u16::from_be_bytes([hi, lo]))
}

#[cfg(test)]
mod tests;
