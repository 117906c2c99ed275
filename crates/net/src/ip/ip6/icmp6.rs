//! ICMPv6.

use core::net::{IpAddr, Ipv6Addr};

use pkt::{Flags, NoRoom, Pkt};
use wire::checksum::{Sum, update_u16, update_u128};
use wire::icmp6::{HEADER_LEN, Message, kind, parameter_problem, time_exceeded, unreachable};
use wire::{Protocol, icmp4, icmp6, ip6};

use super::headers::{self, Upper};
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::ip::icmp::{self, Problem, RejectCode};
use crate::ip::{group, l4, punt};
use crate::turn::cpu::Cpu;
use crate::turn::deliver;
use crate::turn::next::Next;

/// Takes an ICMPv6 message for this host in. `pkt` starts with its IPv6 header, `pkt.l4` is where ICMPv6 starts.
/// Neighbour discovery does not come by here.
///
/// Next   the answer of an echo, [`deliver::echo_reply`], [`deliver::raw`], the CPU that the packet in an error belongs to.
/// Drops  [`DropReason::IcmpMalformed`], [`DropReason::IcmpBadChecksum`], [`DropReason::IcmpNotAnswered`],
///        [`DropReason::IcmpUnsolicited`].
///
/// # Spec
/// RFC 4443.
pub fn input(cpu: &mut Cpu, pkt: Pkt) {
    let at = usize::from(pkt.l4);
    let Some((header, _)) = pkt.head().get(at..).and_then(<[u8]>::split_first_chunk::<HEADER_LEN>) else {
        return cpu.drop_pkt(pkt, DropReason::IcmpMalformed);
    };
    let Ok((message, _)) = Message::parse_quoted(header) else {
        return cpu.drop_pkt(pkt, DropReason::IcmpMalformed);
    };
    let range = l4::range(&pkt);
    let pseudo = l4::pseudo(&pkt, Protocol::ICMP6, range.len());
    // Verified whatever the device claims: a reply to a broken message would identify the stack.
    if !l4::sum(pseudo, &pkt, range).is_intact() {
        return cpu.drop_pkt(pkt, DropReason::IcmpBadChecksum);
    }
    match message {
        Message::Other { kind: kind::MLD_QUERY | kind::MLD_REPORT, .. } => return group::input(cpu, pkt),
        _ if message.is_error() => return icmp::report(cpu, pkt, icmp::Message::V6(message)),
        _ => {}
    }
    let is_shown = deliver::raw(cpu, &pkt);
    let fate = match message {
        Message::EchoRequest { .. } => return echo(cpu, pkt),
        Message::EchoReply { id, seq } if deliver::echo_reply(cpu, &pkt, id, seq) => Ok(Count::IcmpConsumed),
        _ if is_shown => Ok(Count::IcmpConsumed),
        Message::EchoReply { .. } => {
            return punt::offer_or(cpu, pkt, Next::Drop(DropReason::IcmpUnsolicited));
        }
        _ => return punt::offer_or(cpu, pkt, Next::Drop(DropReason::IcmpNotAnswered)),
    };
    cpu.finish(pkt, fate);
}

/// Sends an echo request back as its reply, in place. One to a group is answered too, by one of our addresses.
//= https://www.rfc-editor.org/rfc/rfc4443#section-4.2
//# An Echo Reply SHOULD be sent in response to an Echo Request message
//# sent to an IPv6 multicast or anycast address.  In this case, the
//# source address of the reply MUST be a unicast address belonging to
//# the interface on which the Echo Request message was received.
fn echo(cpu: &mut Cpu, mut pkt: Pkt) {
    let sender = super::src(&pkt);
    let ours = icmp::own_addr(cpu, pkt.rcvif, super::dst(&pkt).into(), sender.into());
    let (Some(IpAddr::V6(ours)), true) = (ours, icmp::is_one_host(cpu, sender.into())) else {
        return cpu.drop_pkt(pkt, DropReason::IcmpBroadcastEcho);
    };
    let len = u16::try_from(l4::range(&pkt).len()).unwrap_or(u16::MAX);
    turn_around(&mut pkt, ours);
    pkt.trim_front(usize::from(pkt.l4).saturating_sub(ip6::HEADER_LEN));
    let header = ip6::Header { payload_len: len, ..header(ours, sender) };
    if header.emit(&mut pkt.window_mut(0)[..]).is_err() {
        return cpu.drop_pkt(pkt, DropReason::IcmpMalformed);
    }
    l4::becomes_ours(&cpu.tables, &mut pkt);
    cpu.count(Count::Icmp6EchoAnswered);
    super::output::output(cpu, pkt);
}

/// Makes a reply of `ours` of an echo request. That source and destination change places changes no sum.
fn turn_around(pkt: &mut Pkt, ours: Ipv6Addr) {
    let (at, asked) = (usize::from(pkt.l4), super::dst(pkt));
    let [kind, _, hi, lo, ..] = pkt.window_mut(at);
    *kind = 129;
    let sum = update_u16(u16::from_be_bytes([*hi, *lo]), 128 << 8, 129 << 8);
    [*hi, *lo] = update_u128(sum, asked.to_bits(), ours.to_bits()).to_be_bytes();
}

/// Returns the ICMPv6 message of a problem; `None` for those of IPv4.
pub(crate) fn message(problem: Problem) -> Option<Message> {
    let code = match problem {
        Problem::TimeExceeded => return Some(Message::TimeExceeded { code: time_exceeded::IN_TRANSIT }),
        Problem::ReassemblyTimeExceeded => {
            return Some(Message::TimeExceeded { code: time_exceeded::REASSEMBLY });
        }
        Problem::TooBig { mtu } => {
            return Some(Message::PacketTooBig { mtu: mtu.max(u32::from(ip6::MIN_MTU)) });
        }
        Problem::ProtocolUnreachable { pointer } => {
            return parameter(parameter_problem::UNKNOWN_NEXT_HEADER, pointer);
        }
        Problem::Parameter { pointer } => return parameter(parameter_problem::ERRONEOUS_FIELD, pointer),
        Problem::UnknownOption { pointer } => return parameter(parameter_problem::UNKNOWN_OPTION, pointer),
        Problem::IncompleteChain => return parameter(parameter_problem::INCOMPLETE_CHAIN, 0),
        Problem::Refused(RejectCode { code4: icmp4::unreachable::FRAGMENTATION_NEEDED, mtu, .. }) => {
            return Some(Message::PacketTooBig { mtu: u32::from(mtu).max(u32::from(ip6::MIN_MTU)) });
        }
        Problem::Refused(RejectCode { code6, .. }) => code6,
        Problem::NoRoute => unreachable::NO_ROUTE,
        Problem::Rejected => unreachable::REJECT_ROUTE,
        Problem::HostUnreachable => unreachable::ADDRESS,
        Problem::PortUnreachable => unreachable::PORT,
        Problem::BeyondScope => unreachable::BEYOND_SCOPE,
        Problem::SourceRouteFailed => return None,
    };
    Some(Message::Unreachable { code })
}

#[expect(clippy::unnecessary_wraps, reason = "an arm of `message`")]
const fn parameter(code: u8, pointer: u32) -> Option<Message> {
    Some(Message::ParameterProblem { code, pointer })
}

/// Tells whether an error may be sent about this packet: it is neither an error nor a redirect. Unlike in
/// IPv4 it may be a later fragment, unless that could be a piece of an error. A packet whose headers end before that
/// can be seen may be answered.
//= https://www.rfc-editor.org/rfc/rfc4443#section-2.4
//# (e.1)  An ICMPv6 error message.
//#
//# (e.2)  An ICMPv6 REDIRECT message [IPv6-DISC].
pub(crate) fn is_answerable(pkt: &Pkt) -> bool {
    let Some(Upper { protocol, at, fragment_offset, .. }) = headers::upper(pkt.head()) else { return true };
    let kind = pkt.head().get(at);
    let is_error = || kind.is_some_and(|kind| icmp6::is_error(*kind) || *kind == kind::REDIRECT);
    let is_later_fragment = fragment_offset.is_some_and(|offset| offset != 0);
    protocol != Protocol::ICMP6 || !(is_later_fragment || is_error())
}

/// Whether the sender is told of this problem even if he spoke to a group.
//= https://www.rfc-editor.org/rfc/rfc4443#section-2.4
//# (There are two exceptions to this rule: (1) the
//# Packet Too Big Message (Section 3.2) to allow Path MTU
//# discovery to work for IPv6 multicast, and (2) the Parameter
//# Problem Message, Code 2 (Section 3.4) reporting an unrecognized
//# IPv6 option (see Section 4.2 of [IPv6]) that has the Option
//# Type highest-order two bits set to 10).
pub(crate) fn is_told_to_groups(pkt: &Pkt, problem: Problem) -> bool {
    match problem {
        Problem::TooBig { .. } => true,
        Problem::UnknownOption { pointer } => {
            pkt.head().get(pointer as usize).is_some_and(|option| option >> 6 == 0b10)
        }
        _ => false,
    }
}

/// The header of a message that is sent from here, without its length.
pub(crate) const fn header(from: Ipv6Addr, to: Ipv6Addr) -> ip6::Header {
    ip6::Header::new(from, to, Protocol::ICMP6, 0)
}

/// Puts ICMPv6's and `ip`'s header in front of a message's payload. Length and checksum are filled in.
pub(crate) fn put_headers(pkt: &mut Pkt, message: Message, ip: &ip6::Header) -> Result<(), NoRoom> {
    let mut header = message.to_bytes(ip.src, ip.dst, &[]);
    header[2..4].fill(0);
    let len = HEADER_LEN + pkt.len();
    let too_long = NoRoom { wanted: len, have: usize::from(u16::MAX) };
    let payload_len = u16::try_from(len).map_err(|_| too_long)?;
    let sum = Sum::pseudo_v6(ip.src, ip.dst, Protocol::ICMP6, u32::from(payload_len)).bytes(&header);
    header[2..4].copy_from_slice(&l4::sum(sum, pkt, 0..pkt.len()).checksum().to_be_bytes());
    pkt.prepend(HEADER_LEN)?.copy_from_slice(&header);
    let ip = ip6::Header { payload_len, ..*ip };
    pkt.prepend(ip6::HEADER_LEN)?.copy_from_slice(&ip.to_bytes());
    pkt.flags.set(Flags::LOCAL.with(Flags::PRIORITY));
    pkt.proto = Protocol::ICMP6.0;
    pkt.l4 = 40;
    Ok(())
}
