//! Frames of PPPoE: packets into sessions and out of them, and what the control side speaks.

use pkt::{Flags, Gso, Pkt};
use wire::ether::{self as eth, EtherType, Mac};
use wire::ppp::protocol;
use wire::pppoe::{self, SESSION_LEN, code};
use wire::{ip4, ip6};

use super::{MESSAGE_MAX, Pppoe, Session};
use crate::base::count::{Count, IfCount};
use crate::base::drop::DropReason;
use crate::link::ether::{self, TAG_LEN};
use crate::link::tables::{IfIndex, Ifnet};
use crate::link::{mss, tunnel};
use crate::turn::capture;
use crate::turn::cpu::Cpu;
use crate::turn::netisr::dispatch;
use crate::turn::next::Next;

/// Interfaces over which PPPoE is spoken, and the receiver of what is not a packet of a session.
pub struct Control {
    parents: Vec<IfIndex>,
    sink: Sink,
}

/// Takes a frame over; false if there is no room.
pub type Sink = Box<dyn FnMut(Arrived) -> bool + Send>;

/// A frame that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The interface below the sessions.
    pub ifindex: IfIndex,
    /// Its sender.
    pub from: Mac,
    /// Its type: discovery, or a session.
    pub ethertype: EtherType,
    /// All behind its Ethernet header.
    pub message: Vec<u8>,
}

/// A frame to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The interface below the sessions.
    pub ifindex: IfIndex,
    /// Its destination.
    pub to: Mac,
    /// Its type: discovery, or a session.
    pub ethertype: EtherType,
    /// All behind its Ethernet header.
    pub message: Vec<u8>,
}

impl Control {
    /// Brings frames that come by these interfaces to `sink`.
    #[must_use]
    pub const fn new(parents: Vec<IfIndex>, sink: Sink) -> Self {
        Self { parents, sink }
    }
}

/// Takes in a frame that has lost its Ethernet header: a packet of a session begins as one of the session's interface.
///
/// Reads  `pkt.rcvif`, `cpu.tables`.   Writes `pkt.rcvif`, all that is known of the packet.
/// Next   [`Next::Ip4`], [`Next::Ip6`]; [`Next::Pppoe`] with the PPPoE header still on it.
/// Drops  [`DropReason::EtherUnknownType`], [`DropReason::PppoeMalformed`], [`DropReason::PppoeUnknownSession`],
///        [`DropReason::InterfaceDown`], [`DropReason::Monitor`].
///
/// # Spec
/// RFC 2516 §4, §7.
pub(crate) fn input(cpu: &mut Cpu, pkt: &mut Pkt, ethertype: EtherType) -> Next {
    if !cpu.pppoe.as_deref().is_some_and(|control| control.parents.contains(&pkt.rcvif)) {
        return Next::Drop(DropReason::EtherUnknownType);
    }
    if ethertype == EtherType::PPPOE_DISCOVERY {
        let is_session = pkt.head_len() < pppoe::HEADER_LEN || pkt.window(0)[1] == code::SESSION;
        return if is_session { Next::Drop(DropReason::PppoeMalformed) } else { Next::Pppoe };
    }
    match session_input(cpu, pkt) {
        Ok(next) => next,
        Err(reason) => Next::Drop(reason),
    }
}

fn session_input(cpu: &mut Cpu, pkt: &mut Pkt) -> Result<Next, DropReason> {
    let bytes = *pkt.window(0).first_chunk::<SESSION_LEN>().unwrap_or(&[0; SESSION_LEN]);
    let [header @ .., hi, lo] = bytes;
    let header = pppoe::Header::parse(&header).ok_or(DropReason::PppoeMalformed)?;
    // A super-packet would be several frames of a session.
    let is_whole = pkt.head_len() >= SESSION_LEN
        && (2..=pkt.len() - pppoe::HEADER_LEN).contains(&usize::from(header.len))
        && header.code == code::SESSION
        && pkt.gso == Gso::None
        && !pkt.flags.any(Flags::BROADCAST.with(Flags::MULTICAST));
    if !is_whole {
        return Err(DropReason::PppoeMalformed);
    }
    let (place, least) = match u16::from_be_bytes([hi, lo]) {
        protocol::IPV4 => (Next::Ip4, ip4::HEADER_LEN),
        protocol::IPV6 => (Next::Ip6, ip6::HEADER_LEN),
        _ => return Ok(Next::Pppoe),
    };
    let sender = sender(cpu, pkt).ok_or(DropReason::PppoeMalformed)?;
    let sessions = &cpu.tables.logical.sessions;
    let ifindex = sessions.find(pkt.rcvif, header.session, sender).ok_or(DropReason::PppoeUnknownSession)?;
    let version = pkt.window(SESSION_LEN)[0] >> 4;
    let is_ip = if place == Next::Ip4 { version == 4 } else { version == 6 };
    if !is_ip || pkt.head_len() < SESSION_LEN + least || usize::from(header.len) < least + 2 {
        return Err(DropReason::PppoeMalformed);
    }
    let Some(Ifnet { up: true, monitor, mtu, kind, .. }) = cpu.tables.ifnet(ifindex) else {
        return Err(DropReason::InterfaceDown);
    };
    let (mtu, clamps) = (*mtu, kind.pppoe().is_some_and(|pppoe| pppoe.clamps_mss));
    cpu.counters.add_if(ifindex, IfCount::RxPackets, 1);
    cpu.counters.add_if(ifindex, IfCount::RxBytes, u64::from(header.len) - 2);
    if *monitor {
        return Err(DropReason::Monitor);
    }
    tunnel::become_inner(pkt, SESSION_LEN);
    // Behind its length stands what pads a short frame.
    if let Some(rest) = pkt.truncate(usize::from(header.len) - 2) {
        cpu.pool.give(rest);
    }
    pkt.rcvif = ifindex;
    if clamps {
        mss::clamp(pkt, mtu);
    }
    if cpu.watched {
        let kind = if place == Next::Ip4 { EtherType::IPV4 } else { EtherType::IPV6 };
        capture::decapsulated(cpu, pkt, kind);
    }
    cpu.count(Count::PppoeIn);
    Ok(place)
}

/// The sender of a frame whose Ethernet header, and tags, have been taken off.
fn sender(cpu: &Cpu, pkt: &Pkt) -> Option<Mac> {
    // One with a tag that only carries a priority is one of the device.
    let tags = match pkt.flags.has(Flags::VLAN) {
        true => cpu.tables.logical.tags(pkt.rcvif).max(1),
        false => 0,
    };
    let header = pkt.before(eth::HEADER_LEN + tags * TAG_LEN)?;
    header.get(6..).and_then(<[u8]>::first_chunk).map(|octets| Mac(*octets))
}

/// Brings a frame that is no packet of a session to the control side.
///
/// Drops  [`DropReason::PppoeMalformed`], [`DropReason::PppoeQueueFull`].
pub(crate) fn control_input(cpu: &mut Cpu, pkt: Pkt) {
    let from = sender(cpu, &pkt);
    // All codes of discovery have a bit that none of a session has.
    let is_session = pkt.window(0)[1] == code::SESSION;
    let ethertype = if is_session { EtherType::PPPOE_SESSION } else { EtherType::PPPOE_DISCOVERY };
    let (Some(from), Some(control)) = (from.filter(|_| pkt.len() <= MESSAGE_MAX), cpu.pppoe.as_deref_mut())
    else {
        return cpu.drop_pkt(pkt, DropReason::PppoeMalformed);
    };
    let message = pkt.fragments().flatten().copied().collect();
    if (control.sink)(Arrived { ifindex: pkt.rcvif, from, ethertype, message }) {
        cpu.count(Count::PppoeControlIn);
        cpu.pool.give(pkt);
    } else {
        cpu.drop_pkt(pkt, DropReason::PppoeQueueFull);
    }
}

/// Puts the headers of a session in place of the link header, and sends the frame by the interface below.
///
/// Reads  `pkt.outif`, `cpu.tables`.   Writes `pkt.outif`.
/// Next   [`Next::Output`].
/// Drops  [`DropReason::PppoeNoSession`], [`DropReason::InterfaceGone`], [`DropReason::TunnelNotIp`], [`DropReason::NoBuffer`].
pub(crate) fn output(cpu: &mut Cpu, mut pkt: Pkt, pppoe: &Pppoe) {
    let Some(Session { id, remote }) = pppoe.session else {
        return cpu.drop_pkt(pkt, DropReason::PppoeNoSession);
    };
    let ifindex = pkt.outif;
    let [.., type_hi, type_lo] =
        *pkt.window(0).first_chunk::<{ eth::HEADER_LEN }>().unwrap_or(&[0; eth::HEADER_LEN]);
    let protocol = match EtherType(u16::from_be_bytes([type_hi, type_lo])) {
        EtherType::IPV4 => protocol::IPV4,
        EtherType::IPV6 => protocol::IPV6,
        _ => return cpu.drop_pkt(pkt, DropReason::TunnelNotIp),
    };
    let tables = &cpu.tables;
    let (Some(own), Some(below)) = (tables.ifnet(ifindex), tables.ifnet(pppoe.parent)) else {
        return cpu.drop_pkt(pkt, DropReason::InterfaceGone);
    };
    let (mtu, mac) = (own.mtu, below.mac);
    pkt.trim_front(eth::HEADER_LEN);
    if pppoe.clamps_mss {
        mss::clamp(&mut pkt, mtu);
    }
    let len = pkt.len();
    let header =
        pppoe::Header { code: code::SESSION, session: id, len: u16::try_from(len + 2).unwrap_or(u16::MAX) };
    let mut headers = [0; eth::HEADER_LEN + SESSION_LEN];
    let (link, behind) = headers.split_at_mut(eth::HEADER_LEN);
    link.copy_from_slice(
        &eth::Header { dst: remote, src: mac, ethertype: EtherType::PPPOE_SESSION }.to_bytes(),
    );
    behind[..pppoe::HEADER_LEN].copy_from_slice(&header.to_bytes());
    behind[pppoe::HEADER_LEN..].copy_from_slice(&protocol.to_be_bytes());
    if pkt.prepend_array(&headers).is_err() {
        return cpu.drop_pkt(pkt, DropReason::NoBuffer);
    }
    cpu.count(Count::PppoeOut);
    cpu.counters.add_if(ifindex, IfCount::TxPackets, 1);
    cpu.counters.add_if(ifindex, IfCount::TxBytes, len as u64);
    pkt.outif = pppoe.parent;
    dispatch(cpu, pkt, Next::Output);
}

/// Sends a frame of the control side; answers whether there was a buffer for it.
pub fn send(cpu: &mut Cpu, outgoing: &Outgoing) -> bool {
    let Outgoing { ifindex, to, ethertype, message } = outgoing;
    let Some(src) = cpu.tables.ifnet(*ifindex).filter(|ifnet| ifnet.up).map(|ifnet| ifnet.mac) else {
        return false;
    };
    let Some(mut pkt) = cpu.pool.take() else { return false };
    let written = message.len() <= MESSAGE_MAX
        && pkt.append(message.len()).map(|room| room.copy_from_slice(message)).is_ok();
    if !written {
        cpu.pool.give(pkt);
        return false;
    }
    cpu.count(Count::PppoeControlOut);
    let mut addrs = [0; 12];
    addrs[..6].copy_from_slice(&to.octets());
    addrs[6..].copy_from_slice(&src.octets());
    pkt.outif = *ifindex;
    pkt.flags.set(Flags::LOCAL);
    let next = ether::encapsulate(&mut pkt, &addrs, *ethertype);
    dispatch(cpu, pkt, next);
    true
}
