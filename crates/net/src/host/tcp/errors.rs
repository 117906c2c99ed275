//! Errors of ICMP about segments that were sent from here.

use wire::icmp4::unreachable as unreachable4;
use wire::icmp6::parameter_problem::UNKNOWN_NEXT_HEADER;
use wire::icmp6::unreachable as unreachable6;
use wire::{icmp4, icmp6};

use super::pcbs::Found;
use super::tcb::PathError;
use crate::host::pcb::FourTuple;
use crate::ip::icmp::{Message, Quoted};
use crate::ip::pmtu;
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;

/// Bytes of the headers of IPv4 and TCP, and of IPv6 and TCP, without options.
const HEADERS_4: u32 = 40;
const HEADERS_6: u32 = 60;

/// Tells the connection that the quoted segment is of what was said of it; false if there is none. It came by `rcvif`.
pub(crate) fn error(cpu: &mut Cpu, rcvif: IfIndex, quoted: &Quoted, message: Message) -> bool {
    let (ends, seq, now) = (ends(rcvif, quoted), seq(quoted), cpu.now);
    let Some(pcbs) = &mut cpu.tcp else { return false };
    let ends = pcbs.scoped(ends, rcvif);
    match pcbs.find(&ends) {
        Some(Found::Conn(at)) => {
            let Some(mut conn) = pcbs.take_at(at) else { return false };
            if let Some(error) = meaning(message, quoted) {
                conn.tcb.path_error(seq, error, now);
            }
            pcbs.bring(conn);
            true
        }
        // Half-open ones are given up soon anyway, and those in TIME-WAIT want nothing any more.
        Some(_) => true,
        None => false,
    }
}

/// Whether a connection can have sent the quoted segment: it begins within what is under way, or right behind, as one without data.
pub(crate) fn can_have_sent(cpu: &Cpu, rcvif: IfIndex, quoted: &Quoted) -> bool {
    let (ends, seq) = (ends(rcvif, quoted), seq(quoted));
    let conn = cpu.tcp.as_ref().and_then(|pcbs| pcbs.at_ends(&pcbs.scoped(ends, rcvif)));
    conn.is_some_and(|conn| conn.tcb.can_have_sent(seq))
}

fn ends(rcvif: IfIndex, quoted: &Quoted) -> FourTuple {
    let [a, b, c, d, ..] = quoted.upper;
    let (local, remote) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    FourTuple::new((quoted.local, local).into(), (quoted.remote, remote).into(), rcvif)
}

const fn seq(quoted: &Quoted) -> u32 {
    let [.., s0, s1, s2, s3] = quoted.upper;
    u32::from_be_bytes([s0, s1, s2, s3])
}

/// Returns the meaning of a message to a connection; `None` if it has none.
//= https://www.rfc-editor.org/rfc/rfc1122#section-4.2.3.9
fn meaning(message: Message, quoted: &Quoted) -> Option<PathError> {
    let too_big = |mtu: u32, headers: u32| {
        PathError::TooBig(u16::try_from(mtu.saturating_sub(headers)).unwrap_or(u16::MAX))
    };
    Some(match message {
        Message::V4(icmp4::Message::Unreachable { code: unreachable4::FRAGMENTATION_NEEDED, mtu }) => {
            let mtu = if mtu == 0 { pmtu::plateau_below(quoted.len) } else { mtu };
            too_big(mtu.into(), HEADERS_4)
        }
        Message::V6(icmp6::Message::PacketTooBig { mtu }) => too_big(mtu, HEADERS_6),
        Message::V4(icmp4::Message::Unreachable { code, .. }) => match code {
            unreachable4::PROTOCOL
            | unreachable4::PORT
            | unreachable4::NET_PROHIBITED
            | unreachable4::HOST_PROHIBITED
            | unreachable4::ADMIN_PROHIBITED => PathError::Hard,
            _ => PathError::Soft,
        },
        Message::V6(icmp6::Message::Unreachable { code }) => match code {
            unreachable6::PORT | unreachable6::ADMIN_PROHIBITED => PathError::Hard,
            _ => PathError::Soft,
        },
        Message::V6(icmp6::Message::ParameterProblem { code: UNKNOWN_NEXT_HEADER, .. }) => PathError::Hard,
        Message::V4(icmp4::Message::TimeExceeded { .. })
        | Message::V6(icmp6::Message::TimeExceeded { .. }) => PathError::Soft,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
