//! Errors about datagrams that were sent, to the socket that sent them.

use core::net::IpAddr;

use pkt::Pkt;
use wire::Protocol;
use wire::icmp4::{self, unreachable};
use wire::icmp6;
use wire::udp::Header;

use super::failures::QUOTE_MAX;
use super::socket::{Failure, Icmp, Socket};
use crate::host::dgram::check_size;
use crate::host::pcb::FourTuple;
use crate::host::sock::Error;
use crate::ip::icmp::{Message, Quoted};
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;

/// Bytes of a header of UDP.
const HEADER_LEN: usize = 8;

/// Tells the socket that sent the datagram that an error of `from` quotes, which came by `rcvif`; false if there is none. The quoted
/// packet is in `pkt`.
//= https://www.rfc-editor.org/rfc/rfc1122#section-4.1.3.3
//# UDP MUST pass to the application layer all ICMP error
//# messages that it receives from the IP layer.
pub(crate) fn error(
    cpu: &mut Cpu,
    from: IpAddr,
    rcvif: IfIndex,
    (quoted, pkt): (&Quoted, &Pkt),
    message: Message,
) -> bool {
    let ends = ends(rcvif, quoted);
    let Some(socket) = found(cpu, ends, rcvif) else { return false };
    let wants_all = socket.base.settings.all_errors;
    if let Some(error) = what(message, wants_all) {
        let mut bytes = [0; QUOTE_MAX];
        let len = if wants_all { pkt.copy_out(quoted.upper_at + HEADER_LEN, &mut bytes) } else { 0 };
        let failure = Failure { to: ends.remote(), error, icmp: Some(icmp(from, message)) };
        socket.fail(failure, bytes.get(..len).unwrap_or_default());
    }
    true
}

/// Tells the socket of a datagram that must not be cut that its path does not take it; false if it does, or may be cut.
///
/// The CPU that made it did not know yet: what a path takes is learnt where the errors come to, and told to the others.
#[cold]
pub(crate) fn is_too_big(cpu: &mut Cpu, pkt: &Pkt) -> bool {
    let Err(error @ Error::TooBig { .. }) = check_size(cpu, pkt) else { return false };
    let Some(quoted) = Quoted::read(cpu, pkt, 0).filter(|quoted| quoted.protocol == Protocol::UDP) else {
        return false;
    };
    let ends = ends(pkt.outif, &quoted);
    let Some(socket) = found(cpu, ends, pkt.outif) else { return false };
    let is_whole = socket.base.settings.dont_fragment;
    if is_whole {
        socket.fail(Failure { to: ends.remote(), error, icmp: None }, &[]);
    }
    is_whole
}

/// Whether a socket can have sent the quoted datagram.
pub(crate) fn can_have_sent(cpu: &Cpu, rcvif: IfIndex, quoted: &Quoted) -> bool {
    cpu.udp.as_ref().is_some_and(|sockets| sockets.has(&sockets.scoped(ends(rcvif, quoted), rcvif)))
}

/// The socket that a datagram between `ends` is of, whose packets use the interface `ifindex`.
fn found(cpu: &mut Cpu, ends: FourTuple, ifindex: IfIndex) -> Option<&mut Socket> {
    let sockets = cpu.udp.as_mut()?;
    let ends = sockets.scoped(ends, ifindex);
    sockets.find(&ends)
}

fn ends(rcvif: IfIndex, quoted: &Quoted) -> FourTuple {
    let Header { src_port, dst_port, .. } = Header::from_bytes(&quoted.upper);
    FourTuple::new((quoted.local, src_port).into(), (quoted.remote, dst_port).into(), rcvif)
}

/// Returns the socket error of a message; `None` if it does not concern delivery, or is one that only a socket for all errors gets.
fn what(message: Message, all: bool) -> Option<Error> {
    Some(match message {
        Message::V4(icmp4::Message::Unreachable { code, mtu }) => match code {
            unreachable::PORT | unreachable::PROTOCOL => Error::Refused,
            unreachable::FRAGMENTATION_NEEDED => Error::TooBig { mtu: mtu.into() },
            _ => Error::HostUnreachable,
        },
        Message::V6(icmp6::Message::Unreachable { code: icmp6::unreachable::PORT }) => Error::Refused,
        Message::V6(icmp6::Message::Unreachable { .. }) => Error::HostUnreachable,
        Message::V6(icmp6::Message::PacketTooBig { mtu }) => Error::TooBig { mtu },
        Message::V4(icmp4::Message::TimeExceeded { .. } | icmp4::Message::ParameterProblem { .. })
        | Message::V6(icmp6::Message::TimeExceeded { .. } | icmp6::Message::ParameterProblem { .. })
            if all =>
        {
            Error::HostUnreachable
        }
        _ => return None,
    })
}

/// Returns the header of an error of `from`.
const fn icmp(from: IpAddr, message: Message) -> Icmp {
    let (kind, code, info) = match message {
        Message::V4(message) => {
            let (code, info) = match message {
                icmp4::Message::Unreachable { code, mtu } => (code, mtu as u32),
                icmp4::Message::ParameterProblem { code, pointer } => (code, pointer as u32),
                icmp4::Message::TimeExceeded { code } => (code, 0),
                _ => (0, 0),
            };
            (message.kind(), code, info)
        }
        Message::V6(message) => {
            let (code, info) = match message {
                icmp6::Message::Unreachable { code } | icmp6::Message::TimeExceeded { code } => (code, 0),
                icmp6::Message::PacketTooBig { mtu } => (0, mtu),
                icmp6::Message::ParameterProblem { code, pointer } => (code, pointer),
                _ => (0, 0),
            };
            (message.kind(), code, info)
        }
    };
    Icmp { from, kind, code, info }
}
