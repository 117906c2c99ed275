//! Delivery to the layers above IP: transport protocols, raw sockets and pings.

use core::net::IpAddr;

use pkt::Pkt;
use wire::Protocol;

use crate::base::drop::DropReason;
use crate::base::four_tuple::FourTuple;
use crate::base::ids::IfIndex;
use crate::host::{ping, raw, tcp, udp};
use crate::ip::icmp::{Message, Quoted};
use crate::ip::{ip_tx, pmtu};
use crate::link::tables::Twin;
use crate::turn::cpu::Cpu;
use crate::turn::trace::Headers;

pub(crate) use crate::host::dhcp::is_of_new_host;
pub(crate) use crate::host::ping::reply as echo_reply;
pub(crate) use crate::host::raw::show as raw;
pub(crate) use crate::host::{tcp::input as tcp, udp::input as udp};

/// The recipient of a packet for this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// A TCP connection.
    Connection,
    /// A TCP connection that is not established yet.
    HalfOpen,
    /// The rest of a TCP connection.
    TimeWait,
    /// A listener.
    Listener,
    /// A UDP socket.
    Socket,
    /// No socket: the sender is told.
    None,
    /// The kernel, by the twin of the interface.
    Twin,
    /// The stack itself: ICMP, and protocols without ports.
    Stack,
}

/// Returns what a packet with these headers, received by an interface, is for.
pub(crate) fn recipient(cpu: &Cpu, rcvif: IfIndex, headers: &Headers) -> Recipient {
    let has_twin = cpu.tables.ifnet(rcvif).is_some_and(|ifnet| matches!(ifnet.twin, Twin::By(_)));
    match recipient_here(cpu, rcvif, headers) {
        Recipient::None if has_twin => Recipient::Twin,
        Recipient::Stack if has_twin && !SPOKEN.contains(&headers.protocol) => Recipient::Twin,
        recipient => recipient,
    }
}

/// Protocols without ports that the stack speaks itself.
const SPOKEN: [Protocol; 3] = [Protocol::ICMP, Protocol::ICMP6, Protocol::IGMP];

fn recipient_here(cpu: &Cpu, rcvif: IfIndex, headers: &Headers) -> Recipient {
    let Some((src_port, dst_port)) = headers.ports else { return Recipient::Stack };
    let ends = FourTuple::new((headers.dst, dst_port).into(), (headers.src, src_port).into(), rcvif);
    if headers.protocol == Protocol::UDP {
        let has_socket = cpu.udp.as_ref().is_some_and(|sockets| sockets.has(&sockets.scoped(ends, rcvif)));
        return if has_socket { Recipient::Socket } else { Recipient::None };
    }
    cpu.tcp.as_ref().map_or(Recipient::None, |pcbs| pcbs.recipient(&pcbs.scoped(ends, rcvif)))
}

/// Reports an ICMP error of `from`, received on `ifindex`, to the sender of the packet quoted in `pkt`; false if there is none.
pub(crate) fn icmp_error(
    cpu: &mut Cpu,
    from: IpAddr,
    ifindex: IfIndex,
    (quoted, pkt): (&Quoted, &Pkt),
    message: Message,
) -> bool {
    match quoted.protocol {
        Protocol::ICMP | Protocol::ICMP6 => ping::error(cpu, from, quoted, message),
        Protocol::TCP => tcp::error(cpu, ifindex, quoted, message),
        Protocol::UDP => udp::error(cpu, from, ifindex, (quoted, pkt), message),
        _ => false,
    }
}

/// Sends a packet that another CPU has made for this one to send, or a tunnel.
///
/// Next   [`ip_tx::output`].
/// Drops  [`DropReason::TooBig`].
pub(crate) fn send(cpu: &mut Cpu, pkt: Pkt) {
    let may_be_long = !cpu.paths.is_empty() && pkt.len() > pmtu::LEAST_V4;
    if may_be_long && udp::is_too_big(cpu, &pkt) {
        return cpu.drop_pkt(pkt, DropReason::TooBig);
    }
    ip_tx::output(cpu, pkt);
}

/// Whether a connection, a socket or a ping of this CPU, which owns the quoted packet, can have sent it. `ifindex` is the interface by
/// which the quote came.
pub(crate) fn can_have_sent(cpu: &Cpu, ifindex: IfIndex, quoted: &Quoted) -> bool {
    cpu.tables.is_ours(quoted.local)
        && match quoted.protocol {
            // Replies and errors need no socket.
            Protocol::ICMP | Protocol::ICMP6 if !ping::is_request(quoted) => true,
            Protocol::ICMP | Protocol::ICMP6 => {
                ping::can_have_sent(cpu, quoted) || raw::can_have_sent(cpu, ifindex, quoted)
            }
            Protocol::TCP => tcp::can_have_sent(cpu, ifindex, quoted),
            Protocol::UDP => udp::can_have_sent(cpu, ifindex, quoted),
            _ => false,
        }
}
