//! Ethernet: the way in, and the header on the way out.

use pkt::{Flags, Pkt};
use wire::ether::{EtherType, HEADER_LEN, Header, Mac};

use crate::base::count::IfCount;
use crate::base::drop::DropReason;
use crate::link::pppoe;
use crate::link::tables::{IfIndex, Ifnet, Tables, Twin};
use crate::turn::cpu::Cpu;
use crate::turn::next::Next;

/// Bytes of an 802.1Q tag.
pub(crate) const TAG_LEN: usize = 4;
/// The bits of a tag that name a network; 0 names none and only carries a priority.
pub(crate) const TAG_VID: u16 = 0x0fff;

/// The expected header of nearly every frame of an interface.
pub struct Port {
    /// The interface's link address, as the upper six bytes of a little-endian word. Of an interface that takes no
    /// frames it is what no such word can be.
    mac: u64,
}

impl Port {
    /// Returns the values for interface `index`.
    #[must_use]
    pub fn of(tables: &Tables, index: IfIndex) -> Self {
        let mac = match tables.ifnet(index) {
            Some(Ifnet {
                mac: Mac([a, b, c, d, e, f]), up: true, monitor: false, port: None, twin, ..
            }) if !matches!(twin, Twin::Of(_)) => u64::from_le_bytes([0, 0, *a, *b, *c, *d, *e, *f]),
            _ => u64::MAX,
        };
        Self { mac }
    }

    /// Whether a frame is to this interface alone, and not from a group.
    #[inline]
    pub(crate) fn is_to(&self, pkt: &Pkt) -> bool {
        let frame = pkt.window(0);
        let dst = frame.first_chunk().map_or(0, |first| u64::from_le_bytes(*first)) << 16;
        dst == self.mac && frame[6] & 1 == 0
    }

    /// Admits the usual frame: to this interface alone, with an IP packet. `None` for all others. The length of
    /// the frame is not checked.
    ///
    /// Next   [`Next::Ip4`], [`Next::Ip6`], [`HEADER_LEN`] bytes into the packet.
    #[inline]
    #[must_use]
    pub fn admit(&self, pkt: &Pkt) -> Option<Next> {
        if !self.is_to(pkt) {
            return None;
        }
        let frame = pkt.window(0);
        match EtherType(u16::from_be_bytes([frame[12], frame[13]])) {
            EtherType::IPV4 => Some(Next::Ip4),
            EtherType::IPV6 => Some(Next::Ip6),
            _ => None,
        }
    }
}

/// Removes the Ethernet header and classifies the destination. Behind it, a packet starts at its network header.
///
/// Reads  `pkt.rcvif`, `cpu.tables`.   Writes `pkt.flags`, `pkt.vlan`; `pkt.rcvif` if its tag is that of a VLAN.
/// Next   [`Next::Ip4`], [`Next::Ip6`], [`Next::Arp`], [`Next::Pppoe`], [`Next::Punt`]; [`Next::Bridge`] and [`Next::FromTwin`] with
///        the header still on it.
/// Drops  those of [`pppoe::input`]; [`DropReason::EtherShort`], [`DropReason::EtherNotForUs`],
///        [`DropReason::EtherLength`], [`DropReason::EtherMulticastSource`], [`DropReason::VlanUnknown`],
///        [`DropReason::InterfaceGone`], [`DropReason::InterfaceDown`], [`DropReason::Monitor`].
///
/// # Spec
/// RFC 894; IEEE 802.3 §3.2.
#[inline]
pub fn input(cpu: &mut Cpu, pkt: &mut Pkt) -> Next {
    let Some(ifnet) = cpu.tables.ifnet(pkt.rcvif) else { return Next::Drop(DropReason::InterfaceGone) };
    if pkt.head_len() < HEADER_LEN {
        return Next::Drop(DropReason::EtherShort);
    }
    if ifnet.port.is_some() {
        return port_input(cpu, pkt);
    }
    if let Twin::Of(_) = ifnet.twin {
        return Next::FromTwin;
    }
    let header = header_of(pkt);
    if let Some(reason) = refusal(ifnet, &header)
        && !(reason == DropReason::EtherNotForUs && is_of_port(&cpu.tables, pkt, header.ethertype))
    {
        return Next::Drop(reason);
    }
    if header.dst.is_multicast() {
        pkt.flags.set(if header.dst == Mac::BROADCAST { Flags::BROADCAST } else { Flags::MULTICAST });
    }
    pkt.trim_front(HEADER_LEN);
    demux(cpu, pkt, header.ethertype)
}

/// Whether a frame has the tag of a VLAN that is a bridge's port, so that it may be for any station.
#[cold]
fn is_of_port(tables: &Tables, pkt: &Pkt, tpid: EtherType) -> bool {
    let [tci_hi, tci_lo, ..] = *pkt.window(HEADER_LEN);
    let vid = u16::from_be_bytes([tci_hi, tci_lo]) & TAG_VID;
    let vlan = if tpid.is_tag() { tables.logical.tagged(pkt.rcvif, tpid, vid) } else { None };
    vlan.and_then(|vlan| tables.ifnet(vlan)).is_some_and(|vlan| vlan.port.is_some())
}

#[inline]
fn header_of(pkt: &Pkt) -> Header {
    pkt.window(0).first_chunk().map_or_else(|| Header::from_bytes(&[0; HEADER_LEN]), Header::from_bytes)
}

/// Why a frame with this header is not taken from this interface.
#[inline]
fn refusal(ifnet: &Ifnet, header: &Header) -> Option<DropReason> {
    if !header.dst.is_multicast() && header.dst != ifnet.mac {
        // A device in promiscuous mode delivers what is for others.
        return Some(DropReason::EtherNotForUs);
    }
    if header.src.is_multicast() {
        return Some(DropReason::EtherMulticastSource);
    }
    match ifnet {
        Ifnet { up: false, .. } => Some(DropReason::InterfaceDown),
        Ifnet { monitor: true, .. } => Some(DropReason::Monitor),
        _ => None,
    }
}

#[inline]
fn demux(cpu: &mut Cpu, pkt: &mut Pkt, ethertype: EtherType) -> Next {
    match ethertype {
        EtherType::IPV4 => Next::Ip4,
        EtherType::IPV6 => Next::Ip6,
        EtherType::ARP => Next::Arp,
        EtherType::VLAN | EtherType::QINQ => untag(cpu, pkt, ethertype),
        other => uncommon(cpu, pkt, other),
    }
}

/// Brings a frame of a type besides IP, ARP and tags where it goes, if that is anywhere.
#[cold]
fn uncommon(cpu: &mut Cpu, pkt: &mut Pkt, ethertype: EtherType) -> Next {
    match ethertype {
        EtherType::PPPOE_DISCOVERY | EtherType::PPPOE_SESSION => pppoe::input(cpu, pkt, ethertype),
        _ if cpu.tables.has_twins && has_twin(&cpu.tables, pkt) => Next::Punt,
        _ if ethertype.check().is_err() => Next::Drop(DropReason::EtherLength),
        _ => Next::Drop(DropReason::EtherUnknownType),
    }
}

fn has_twin(tables: &Tables, pkt: &Pkt) -> bool {
    tables.ifnet(pkt.rcvif).is_some_and(|ifnet| matches!(ifnet.twin, Twin::By(_)))
}

/// Brings a frame of a bridge's port to the bridge; but one with the tag of a VLAN over the port to that VLAN.
#[cold]
fn port_input(cpu: &mut Cpu, pkt: &mut Pkt) -> Next {
    let [tci_hi, tci_lo, ..] = *pkt.window(HEADER_LEN);
    let (tag, header) = (u16::from_be_bytes([tci_hi, tci_lo]) & TAG_VID, header_of(pkt));
    match cpu.tables.logical.tagged(pkt.rcvif, header.ethertype, tag) {
        Some(_) if header.ethertype.is_tag() => {
            if header.dst.is_multicast() {
                pkt.flags.set(if header.dst == Mac::BROADCAST { Flags::BROADCAST } else { Flags::MULTICAST });
            }
            pkt.trim_front(HEADER_LEN);
            untag(cpu, pkt, header.ethertype)
        }
        _ => Next::Bridge,
    }
}

/// Puts the header of a frame whose tag was taken off back, without the tag: it is one of a bridge's port.
fn without_tag(pkt: &mut Pkt) -> Next {
    let addrs = pkt.before(HEADER_LEN + TAG_LEN).and_then(<[u8]>::first_chunk::<12>).copied();
    let Some(addrs) = addrs else { return Next::Drop(DropReason::NoBuffer) };
    match pkt.prepend(HEADER_LEN).ok().and_then(<[u8]>::first_chunk_mut::<12>) {
        Some(front) => *front = addrs,
        None => return Next::Drop(DropReason::NoBuffer),
    }
    pkt.flags.clear(Flags::VLAN.with(Flags::BROADCAST).with(Flags::MULTICAST).with(Flags::HASH));
    Next::Bridge
}

/// Takes a tag off. The packet is one of the tag's VLAN then. A tag that only carries a priority is looked behind, as
/// IEEE 802.1Q §6.9 asks of stations.
///
/// There are no more tags to take off than interfaces stand above each other.
#[cold]
fn untag(cpu: &mut Cpu, pkt: &mut Pkt, tpid: EtherType) -> Next {
    let [tci_hi, tci_lo, type_hi, type_lo, ..] = *pkt.window(0);
    if pkt.head_len() < TAG_LEN {
        return Next::Drop(DropReason::EtherShort);
    }
    let (is_first, tci) = (!pkt.flags.has(Flags::VLAN), u16::from_be_bytes([tci_hi, tci_lo]));
    (pkt.vlan, pkt.rcvif) = match tci & TAG_VID {
        0 if is_first => (tci, pkt.rcvif),
        vid => match cpu.tables.logical.tagged(pkt.rcvif, tpid, vid) {
            Some(vlan) => (tci, vlan),
            None => return Next::Drop(DropReason::VlanUnknown),
        },
    };
    pkt.flags.set(Flags::VLAN);
    pkt.trim_front(TAG_LEN);
    if tci & TAG_VID != 0
        && let Some(reason) = received_by_vlan(cpu, pkt)
    {
        return Next::Drop(reason);
    }
    if cpu.tables.ifnet(pkt.rcvif).is_some_and(|ifnet| ifnet.port.is_some()) {
        return without_tag(pkt);
    }
    demux(cpu, pkt, EtherType(u16::from_be_bytes([type_hi, type_lo])))
}

/// Counts a packet of a VLAN, and tells why it is not taken.
fn received_by_vlan(cpu: &mut Cpu, pkt: &Pkt) -> Option<DropReason> {
    cpu.counters.add_if(pkt.rcvif, IfCount::RxPackets, 1);
    cpu.counters.add_if(pkt.rcvif, IfCount::RxBytes, (pkt.len() + HEADER_LEN) as u64);
    match cpu.tables.ifnet(pkt.rcvif) {
        Some(Ifnet { up: true, monitor: false, .. }) => None,
        Some(Ifnet { up: true, .. }) => Some(DropReason::Monitor),
        _ => Some(DropReason::InterfaceDown),
    }
}

/// Puts an Ethernet header in front of a network packet: `addrs`, destination first, and the packet's type.
///
/// Next   [`Next::Output`].
/// Drops  [`DropReason::NoBuffer`] when there is no headroom.
#[inline]
pub fn encapsulate(pkt: &mut Pkt, addrs: &[u8; 12], ethertype: EtherType) -> Next {
    let mut header = [0; HEADER_LEN];
    header[..12].copy_from_slice(addrs);
    header[12..].copy_from_slice(&ethertype.0.to_be_bytes());
    match pkt.prepend_array(&header) {
        Ok(()) => Next::Output,
        Err(_) => Next::Drop(DropReason::NoBuffer),
    }
}

#[cfg(test)]
mod tests;
