//! DHCP's way through the stack, of both versions: the control side speaks the protocol, and gets here the datagrams that no
//! socket takes.
//!
//! A host without an address sends from 0.0.0.0, which is a source on interfaces with DHCP alone. DHCPv6 speaks from
//! link-local addresses; servers are asked in a group, which interfaces with a server are in (`Ifnet::groups`).

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use pkt::{Flags, Gso, Pkt};
use wire::Protocol;
use wire::dhcp6;
use wire::ether::{EtherType, Mac};
use wire::udp::HEADER_LEN;

use super::udp;
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::base::ids::IfIndex;
use crate::host::pcb::FourTuple;
use crate::ip::ip_tx::IpTxParams;
use crate::ip::ip4::{self, Ip4};
use crate::ip::ip6::Ip6;
use crate::ip::l4;
use crate::ip::output::{self, Source};
use crate::link::ether;
use crate::turn::cpu::Cpu;
use crate::turn::netisr::dispatch;

/// The port of servers and relays.
pub const SERVER: u16 = 67;
/// The port of clients.
pub const CLIENT: u16 = 68;
/// Bytes of the longest message.
pub const MESSAGE_MAX: usize = 1472;

/// Interfaces with DHCP, and the receiver of what comes there.
pub struct Dhcp {
    interfaces: Vec<IfIndex>,
    has_relays: bool,
    sink: Sink,
}

/// Takes a message over; false if there is no room.
pub type Sink = Box<dyn FnMut(Arrived) -> bool + Send>;

/// A message that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The interface.
    pub ifindex: IfIndex,
    /// Its sender; 0.0.0.0 if that has no address yet.
    pub from: SocketAddr,
    /// Its destination, ours or all.
    pub to: SocketAddr,
    /// The message.
    pub message: Vec<u8>,
}

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The interface, if the destination is on its link.
    pub ifindex: IfIndex,
    /// Our address; 0.0.0.0 if we have none yet.
    pub from: SocketAddr,
    /// The destination.
    pub to: SocketAddr,
    /// The link address, if the destination cannot be asked for it yet.
    pub mac: Option<Mac>,
    /// The message.
    pub message: Vec<u8>,
}

impl Dhcp {
    /// Brings messages that come by these interfaces to `sink`. With relays on some of them, servers answer by any interface.
    #[must_use]
    pub const fn new(interfaces: Vec<IfIndex>, has_relays: bool, sink: Sink) -> Self {
        Self { interfaces, has_relays, sink }
    }
}

/// Whether a packet is from a host that has no address yet, to the server of its link.
//= https://www.rfc-editor.org/rfc/rfc2131#section-4.1
pub(crate) fn is_of_new_host(cpu: &Cpu, pkt: &Pkt) -> bool {
    let has = |dhcp: &Dhcp| dhcp.interfaces.contains(&pkt.rcvif);
    let ports = pkt.window(usize::from(pkt.l4));
    cpu.dhcp.as_deref().is_some_and(has)
        && pkt.proto == Protocol::UDP.0
        && ports[2..4] == SERVER.to_be_bytes()
        && ip4::dst(pkt).is_broadcast()
}

/// Takes in a datagram that is for no socket, if it is DHCP's: its ends in `ends`, and `len` bytes of UDP.
///
/// Drops  [`DropReason::DhcpQueueFull`].
pub(super) fn input(cpu: &mut Cpu, pkt: Pkt, ends: &FourTuple, len: u16) -> Result<(), Pkt> {
    let Some(dhcp) = cpu.dhcp.as_deref_mut() else { return Err(pkt) };
    let (from, to) = (ends.remote(), ends.local());
    let is_port = match to.ip() {
        IpAddr::V4(_) => matches!(to.port(), SERVER | CLIENT),
        IpAddr::V6(_) => matches!(to.port(), dhcp6::SERVER | dhcp6::CLIENT),
    };
    let is_answer = dhcp.has_relays
        && match to.ip() {
            IpAddr::V4(addr) => to.port() == SERVER && !addr.is_broadcast(),
            IpAddr::V6(addr) => to.port() == dhcp6::SERVER && !addr.is_multicast(),
        };
    let is_one = is_port && (is_answer || dhcp.interfaces.contains(&pkt.rcvif));
    if !is_one || pkt.gso != Gso::None {
        return Err(pkt);
    }
    let begin = usize::from(pkt.l4) + HEADER_LEN;
    let end = usize::from(pkt.l4) + usize::from(len);
    let message = l4::pieces(&pkt, begin..end).flatten().copied().collect();
    if (dhcp.sink)(Arrived { ifindex: pkt.rcvif, from, to, message }) {
        cpu.count(Count::UdpTaken);
        cpu.pool.give(pkt);
    } else {
        cpu.drop_pkt(pkt, DropReason::DhcpQueueFull);
    }
    Ok(())
}

/// Sends a message; answers whether there was a buffer for it.
pub fn send(cpu: &mut Cpu, outgoing: &Outgoing) -> bool {
    let Some(mut pkt) = cpu.pool.take() else { return false };
    let Outgoing { ifindex, from, to, mac, message } = outgoing;
    let ends = FourTuple::new(*from, *to, *ifindex);
    let fib = cpu.tables.fib_on(*ifindex);
    let tx_params = IpTxParams { fib, ..IpTxParams::default() };
    let written = message.len() <= MESSAGE_MAX
        && pkt.append(message.len()).map(|room| room.copy_from_slice(message)).is_ok()
        && udp::put_headers(&mut pkt, &ends, tx_params, false).is_some();
    if !written {
        cpu.drop_pkt(pkt, DropReason::NoBuffer);
        return false;
    }
    cpu.count(Count::UdpOut);
    let IpAddr::V4(addr) = to.ip() else {
        // What is on a link goes by the interface; the next server may be behind a router.
        pkt.outif = output::answers_by(*ifindex, to.ip());
        output::send::<Ip6>(cpu, pkt);
        return true;
    };
    match link_addrs(cpu, *ifindex, addr, *mac) {
        Some(addrs) => {
            pkt.outif = *ifindex;
            pkt.flags.set(Flags::LOCAL);
            cpu.count(Ip4::SENT);
            Ip4::finish(cpu, &mut pkt);
            let next = ether::encapsulate(&mut pkt, &addrs, EtherType::IPV4);
            dispatch(cpu, pkt, next);
        }
        None => {
            pkt.outif = 0;
            output::send::<Ip4>(cpu, pkt);
        }
    }
    true
}

/// The link addresses of a message that needs no route, destination first.
fn link_addrs(cpu: &Cpu, ifindex: IfIndex, to: Ipv4Addr, mac: Option<Mac>) -> Option<[u8; 12]> {
    let dst = mac.or_else(|| to.is_broadcast().then_some(Mac::BROADCAST))?;
    let src = cpu.tables.ifnet(ifindex)?.mac;
    let mut addrs = [0; 12];
    addrs[..6].copy_from_slice(&dst.octets());
    addrs[6..].copy_from_slice(&src.octets());
    Some(addrs)
}

#[cfg(test)]
mod tests;
