//! Errors about datagrams that were sent, to the socket that sent them.

use wire::icmp4::{self, unreachable};
use wire::icmp6;
use wire::udp::Header;

use super::socket::Failure;
use crate::host::pcb::FourTuple;
use crate::host::sock::Error;
use crate::ip::icmp::{Message, Quoted};
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;

/// Tells the socket that sent the datagram that an error quotes, which came by `rcvif`; false if there is none.
//= https://www.rfc-editor.org/rfc/rfc1122#section-4.1.3.3
//# UDP MUST pass to the application layer all ICMP error
//# messages that it receives from the IP layer.
pub(crate) fn error(cpu: &mut Cpu, rcvif: IfIndex, quoted: &Quoted, message: Message) -> bool {
    let ends = ends(rcvif, quoted);
    let Some(socket) = cpu.udp.as_mut().and_then(|sockets| sockets.find(&ends)) else { return false };
    if let Some(error) = what(message) {
        socket.fail(Failure { to: ends.remote(), error });
    }
    true
}

/// Whether a socket can have sent the quoted datagram.
pub(crate) fn can_have_sent(cpu: &Cpu, rcvif: IfIndex, quoted: &Quoted) -> bool {
    cpu.udp.as_ref().is_some_and(|sockets| sockets.has(&ends(rcvif, quoted)))
}

fn ends(rcvif: IfIndex, quoted: &Quoted) -> FourTuple {
    let Header { src_port, dst_port, .. } = Header::from_bytes(&quoted.upper);
    FourTuple::new((quoted.local, src_port).into(), (quoted.remote, dst_port).into(), rcvif)
}

/// Returns the socket error of a message; `None` if it does not concern delivery.
fn what(message: Message) -> Option<Error> {
    Some(match message {
        Message::V4(icmp4::Message::Unreachable { code, mtu }) => match code {
            unreachable::PORT | unreachable::PROTOCOL => Error::Refused,
            unreachable::FRAGMENTATION_NEEDED => Error::TooBig { mtu: mtu.into() },
            _ => Error::HostUnreachable,
        },
        Message::V6(icmp6::Message::Unreachable { code: icmp6::unreachable::PORT }) => Error::Refused,
        Message::V6(icmp6::Message::Unreachable { .. }) => Error::HostUnreachable,
        Message::V6(icmp6::Message::PacketTooBig { mtu }) => Error::TooBig { mtu },
        _ => return None,
    })
}
