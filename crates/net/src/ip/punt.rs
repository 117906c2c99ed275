//! Packets for this host that nothing here wants go to the kernel's twin of their interface; what the kernel sends by the twin
//! leaves by the interface.
//!
//! A twin is a device of its own, with the interface's link address and its addresses. All that is punted waits in a bounded
//! queue first, of which each turn sends a few, so that a flood for this host takes no more than that from what is forwarded.
//! This stack answers ARP and neighbour discovery, and the twin gets copies of the replies.

use std::collections::VecDeque;

use ipfw::rule::Hook;
use pkt::{Flags, Pkt};
use wire::ether::{EtherType, HEADER_LEN, Mac};

use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::ip::group::{self, is_joined};
use crate::ip::{bridge_io, ip4, ip6, l4};
use crate::link::ether::TAG_LEN;
use crate::link::tables::{IfIndex, Ifnet, Twin};
use crate::out::{ifq, offload};
use crate::turn::cpu::Cpu;
use crate::turn::netisr::dispatch;
use crate::turn::next::{Next, Resume};
use crate::turn::pfil;

/// Packets of each class that wait on a CPU at the most.
pub const PUNTS_MAX: usize = 512;
/// Packets that go to twins in one turn at the most: each is a system call.
const TURN_MAX: usize = 32;

/// Packets on their way to twins.
#[derive(Default)]
pub(crate) struct Punts {
    /// Packets of a link alone, which no host beyond it can send: routing protocols, and neighbour discovery.
    link: VecDeque<Pkt>,
    others: VecDeque<Pkt>,
}

impl Punts {
    /// Whether no packet waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.link.is_empty() && self.others.is_empty()
    }

    /// Takes all packets out, for the end.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Pkt> {
        self.link.drain(..).chain(self.others.drain(..))
    }
}

/// Whether the interface that a packet came by has a twin.
pub(crate) fn has_twin(cpu: &Cpu, pkt: &Pkt) -> bool {
    twin(cpu, pkt).is_some()
}

fn twin(cpu: &Cpu, pkt: &Pkt) -> Option<IfIndex> {
    if !cpu.tables.has_twins || pkt.flags.has(Flags::LOCAL) {
        return None;
    }
    match cpu.tables.ifnet(pkt.rcvif)?.twin {
        Twin::By(twin) => Some(twin),
        Twin::None | Twin::Of(_) => None,
    }
}

/// Whether a packet is to a group that only the kernel may be in.
pub(crate) fn is_to_kernels_group(cpu: &Cpu, pkt: &Pkt) -> bool {
    if !has_twin(cpu, pkt) {
        return false;
    }
    let (_, group) = l4::ends(pkt);
    group.is_multicast() && !is_joined(cpu, group::Key { ifindex: pkt.rcvif, group })
}

/// Gives a packet for this host that nothing here wants to the twin; back if there is none. It begins with its network header.
///
/// Next   [`ifq::output`], at the roll-up.
/// Drops  [`DropReason::PuntFull`], [`DropReason::NoBuffer`].
pub(crate) fn offer(cpu: &mut Cpu, pkt: Pkt) -> Result<(), Pkt> {
    match twin(cpu, &pkt) {
        Some(twin) => {
            let kind = if l4::is_ip4(&pkt) { EtherType::IPV4 } else { EtherType::IPV6 };
            let header = link_header(cpu, &pkt, kind);
            let is_of_link = is_link_group(&pkt);
            queue(cpu, pkt, twin, &header, is_of_link);
            Ok(())
        }
        None => Err(pkt),
    }
}

/// Gives a packet that nothing here wants to the twin, or else to where `otherwise` says.
pub(crate) fn offer_or(cpu: &mut Cpu, pkt: Pkt, otherwise: Next) {
    if let Err(pkt) = offer(cpu, pkt) {
        dispatch(cpu, pkt, otherwise);
    }
}

/// Gives a frame of a protocol that is not spoken here to the twin. Its Ethernet header has been taken off.
///
/// Drops  [`DropReason::EtherUnknownType`], and those of [`offer`].
pub(crate) fn input(cpu: &mut Cpu, pkt: Pkt) {
    let kind = pkt.before(2).and_then(|kind| Some(EtherType(u16::from_be_bytes(*kind.first_chunk()?))));
    match (twin(cpu, &pkt), kind) {
        (Some(twin), Some(kind)) => {
            let header = link_header(cpu, &pkt, kind);
            queue(cpu, pkt, twin, &header, true);
        }
        _ => cpu.drop_pkt(pkt, DropReason::EtherUnknownType),
    }
}

/// Gives the twin a copy of a packet that this stack takes in, too. It begins behind its Ethernet header.
pub(crate) fn copy(cpu: &mut Cpu, pkt: &Pkt, kind: EtherType) {
    let Some(twin) = twin(cpu, pkt) else { return };
    let header = link_header(cpu, pkt, kind);
    match offload::copy(cpu, pkt, &header, 0, pkt.len()) {
        Some(mut copy) => {
            // Offsets of the packet count from its network header.
            copy.trim_front(HEADER_LEN);
            (copy.l4, copy.csum_start) = (pkt.l4, pkt.csum_start);
            cpu.count(Count::PuntCopied);
            queue(cpu, copy, twin, &header, true);
        }
        None => cpu.count(Count::CopiesNoBuffer),
    }
}

/// Lets a packet wait for its turn, as a frame.
fn queue(cpu: &mut Cpu, mut pkt: Pkt, twin: IfIndex, header: &[u8; HEADER_LEN], is_of_link: bool) {
    let punts = &mut cpu.punts;
    let queue = if is_of_link { &mut punts.link } else { &mut punts.others };
    if queue.len() >= PUNTS_MAX {
        return cpu.drop_pkt(pkt, DropReason::PuntFull);
    }
    if pkt.prepend_array(header).is_err() {
        return cpu.drop_pkt(pkt, DropReason::NoBuffer);
    }
    pkt.outif = twin;
    // Made here or not, its device may not take it as it is.
    pkt.flags.set(Flags::LOCAL);
    queue.push_back(pkt);
    cpu.count(Count::Punted);
}

/// Whether an IP packet is to a group of the link alone, as those of routing protocols are.
fn is_link_group(pkt: &Pkt) -> bool {
    let ip = pkt.window(0);
    if l4::is_ip4(pkt) { ip[16..19] == [224, 0, 0] } else { ip[24] == 0xff && ip[25] & 0xf == 2 }
}

/// The Ethernet header that a packet had: it still stands in front of it, unless the packet was put together here.
fn link_header(cpu: &Cpu, pkt: &Pkt, kind: EtherType) -> [u8; HEADER_LEN] {
    let tags = match cpu.tables.logical.tags(pkt.rcvif) {
        0 => usize::from(pkt.flags.has(Flags::VLAN)),
        tags => tags,
    };
    let own = cpu.tables.ifnet(pkt.rcvif).map_or_else(Mac::default, |ifnet| ifnet.mac);
    let had = pkt.before(HEADER_LEN + tags * TAG_LEN).and_then(<[u8]>::first_chunk::<12>).copied();
    let is_it = |addrs: &[u8; 12]| {
        let [dst, src] = [0, 6].map(|at| Mac(*addrs[at..].first_chunk().unwrap_or(&[0; 6])));
        (dst == own || dst.is_multicast()) && src.is_unicast()
    };
    let addrs = had.filter(is_it).unwrap_or_else(|| {
        let mut addrs = [0; 12];
        addrs[..6].copy_from_slice(&own.octets());
        // Of no station: locally administered.
        addrs[6] = 2;
        addrs
    });
    let mut header = [0; HEADER_LEN];
    header[..12].copy_from_slice(&addrs);
    header[12..].copy_from_slice(&kind.0.to_be_bytes());
    header
}

/// Sends some of what waits for twins, that of links first; returns how many.
#[cold]
pub(crate) fn roll_up(cpu: &mut Cpu) -> usize {
    for sent in 0..TURN_MAX {
        let Punts { link, others } = &mut cpu.punts;
        let Some(pkt) = link.pop_front().or_else(|| others.pop_front()) else { return sent };
        ifq::output(cpu, pkt);
    }
    TURN_MAX
}

/// Sends a frame that the kernel has sent by a twin by the interface. Rules are asked about an IP packet as about one that is made
/// here, on the CPU of its flow.
///
/// Next   [`ifq::output`], [`Next::HandOff`], and where rules send packets.
/// Drops  [`DropReason::InterfaceGone`], and those of IP packets whose header is wrong, if there are rules.
pub(crate) fn from_kernel(cpu: &mut Cpu, mut pkt: Pkt) {
    let Some(Ifnet { twin: Twin::Of(parent), .. }) = cpu.tables.ifnet(pkt.rcvif) else {
        return cpu.drop_pkt(pkt, DropReason::InterfaceGone);
    };
    let parent = *parent;
    if cpu.hooks.has_of_ip() && is_ip(&pkt) {
        if let Some(owner) = bridge_io::other_owner(cpu, &mut pkt) {
            pkt.resume = Resume::Frame as u8;
            return dispatch(cpu, pkt, Next::HandOff(owner));
        }
        return ask_rules(cpu, pkt, parent);
    }
    leave(cpu, pkt, parent);
}

fn is_ip(pkt: &Pkt) -> bool {
    matches!(pkt.window(0)[12..HEADER_LEN], [0x08, 0x00] | [0x86, 0xdd])
}

/// Sends what rules let out by the interface.
fn ask_rules(cpu: &mut Cpu, mut pkt: Pkt, parent: IfIndex) {
    let header: [u8; HEADER_LEN] = *pkt.window(0).first_chunk().unwrap_or(&[0; HEADER_LEN]);
    pkt.trim_front(HEADER_LEN);
    let fits = if l4::is_ip4(&pkt) {
        ip4::input::fit(cpu, &mut pkt).map(drop)
    } else {
        ip6::input::fit(cpu, &mut pkt).map(drop)
    };
    if let Err(reason) = fits {
        return cpu.drop_pkt(pkt, reason);
    }
    pkt.outif = parent;
    pkt.flags.set(Flags::LOCAL);
    let next = pfil::ask(cpu, &mut pkt, Hook::LocalOut).or_else(|| pfil::ask(cpu, &mut pkt, Hook::Egress));
    match next {
        Some(next) => dispatch(cpu, pkt, next),
        None if pkt.prepend_array(&header).is_err() => cpu.drop_pkt(pkt, DropReason::NoBuffer),
        None => leave(cpu, pkt, parent),
    }
}

fn leave(cpu: &mut Cpu, mut pkt: Pkt, parent: IfIndex) {
    pkt.outif = parent;
    // Its device may not take it as it is.
    pkt.flags.set(Flags::LOCAL);
    cpu.count(Count::PuntedOut);
    ifq::output(cpu, pkt);
}

#[cfg(test)]
mod tests;
