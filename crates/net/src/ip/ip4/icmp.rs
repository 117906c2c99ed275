//! ICMP.

use core::net::Ipv4Addr;

use pkt::{Flags, NoRoom, Pkt};
use wire::checksum::{Sum, update_u16};
use wire::icmp4::{HEADER_LEN, Message, time_exceeded, unreachable};
use wire::{Protocol, icmp4, ip4};

use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::ip::icmp::{self, Problem, RejectCode};
use crate::ip::{l4, punt};
use crate::turn::cpu::Cpu;
use crate::turn::deliver;
use crate::turn::next::Next;

/// Internetwork control, as errors of routers have been marked ever since.
//= https://www.rfc-editor.org/rfc/rfc1812#section-4.3.2.5
//# All other ICMP error messages (Destination Unreachable,
//# Redirect, Time Exceeded, and Parameter Problem) SHOULD have their
//# precedence value set to 6 (INTERNETWORK CONTROL) or 7 (NETWORK
//# CONTROL).
const ERROR_TOS: u8 = 6 << 5;
/// The type of service without its two bits of congestion notification.
const DSCP: u8 = !3;
/// The highest type that is defined: extended echo reply (RFC 8335).
const KIND_MAX: u8 = 43;

/// Takes an ICMP message for this host in. `pkt` starts with its IPv4 header, `pkt.l4` is where ICMP starts.
///
/// Next   the answer of an echo, [`deliver::echo_reply`], [`deliver::raw`], the CPU that the packet in an error belongs to.
/// Drops  [`DropReason::IcmpMalformed`], [`DropReason::IcmpBadChecksum`], [`DropReason::IcmpRedirect`],
///        [`DropReason::IcmpNotAnswered`], [`DropReason::IcmpBroadcastEcho`], [`DropReason::IcmpUnsolicited`].
///
/// # Spec
/// RFC 792; RFC 1122 §3.2.2.
pub fn input(cpu: &mut Cpu, pkt: Pkt) {
    let at = usize::from(pkt.l4);
    let Some((header, _)) = pkt.head().get(at..).and_then(<[u8]>::split_first_chunk::<HEADER_LEN>) else {
        return cpu.drop_pkt(pkt, DropReason::IcmpMalformed);
    };
    let Ok((message, _)) = Message::parse_quoted(header) else {
        return cpu.drop_pkt(pkt, DropReason::IcmpMalformed);
    };
    // Verified whatever the device claims: a reply to a broken message would identify the stack.
    if !l4::sum(Sum::new(), &pkt, l4::range(&pkt)).is_intact() {
        return cpu.drop_pkt(pkt, DropReason::IcmpBadChecksum);
    }
    // Source quench is an error that means nothing any more (RFC 6633 §3).
    let means_something = message.kind() != 4;
    if message.is_error() && means_something && !matches!(message, Message::Redirect { .. }) {
        return icmp::report(cpu, pkt, icmp::Message::V4(message));
    }
    let is_shown = deliver::raw(cpu, &pkt);
    let fate = match message {
        Message::EchoRequest { .. } => return echo(cpu, pkt),
        Message::EchoReply { id, seq } if deliver::echo_reply(cpu, &pkt, id, seq) => Ok(Count::IcmpConsumed),
        _ if is_shown => Ok(Count::IcmpConsumed),
        Message::EchoReply { .. } => {
            return punt::offer_or(cpu, pkt, Next::Drop(DropReason::IcmpUnsolicited));
        }
        //= https://www.rfc-editor.org/rfc/rfc1812#section-5.2.7.2
        //# A router using a routing protocol (other than static routes) MUST NOT
        //# consider paths learned from ICMP Redirects when forwarding a packet.
        Message::Redirect { .. } => Err(DropReason::IcmpRedirect),
        _ => return punt::offer_or(cpu, pkt, Next::Drop(DropReason::IcmpNotAnswered)),
    };
    cpu.finish(pkt, fate);
}

/// Sends an echo request back as its reply, in place.
fn echo(cpu: &mut Cpu, mut pkt: Pkt) {
    let Some((ours, sender)) = echo_ends(cpu, &pkt) else {
        return cpu.drop_pkt(pkt, DropReason::IcmpBroadcastEcho);
    };
    let header = reply_header(&pkt, ours, sender);
    turn_around(&mut pkt);
    // Options are not sent back: recorded routes and source routes end here.
    pkt.trim_front(usize::from(pkt.l4).saturating_sub(ip4::HEADER_LEN));
    if header.emit(&mut pkt.window_mut(0)[..]).is_err() {
        return cpu.drop_pkt(pkt, DropReason::IcmpMalformed);
    }
    l4::becomes_ours(&cpu.tables, &mut pkt);
    cpu.count(Count::IcmpEchoAnswered);
    super::output::output(cpu, pkt);
}

/// Returns source and destination of the reply; none if the request was for more than one host, or comes from more than one.
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.2.6
//# An ICMP Echo Request destined to an IP broadcast or IP
//# multicast address MAY be silently discarded.
fn echo_ends(cpu: &Cpu, pkt: &Pkt) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let (sender, ours) = (super::src(pkt), super::dst(pkt));
    let for_us = !pkt.flags.any(Flags::BROADCAST.with(Flags::MULTICAST)) && cpu.tables.is_ours(ours.into());
    (for_us && icmp::is_one_host(cpu, sender.into())).then_some((ours, sender))
}

fn reply_header(pkt: &Pkt, ours: Ipv4Addr, sender: Ipv4Addr) -> ip4::Header {
    let [_, tos, _, _, _, _, flags, ..] = *super::header(pkt);
    let len = u16::try_from(l4::range(pkt).len()).unwrap_or(u16::MAX);
    let dont_fragment = flags & 0x40 != 0;
    //= https://www.rfc-editor.org/rfc/rfc1812#section-4.3.2.5
    //# An ICMP reply message MUST be sent with the same value in the IP
    //# TOS field as the corresponding ICMP request.
    let tos = tos & DSCP;
    ip4::Header { tos, dont_fragment, ..ip4::Header::new(ours, sender, Protocol::ICMP, len) }
}

/// Makes a reply of an echo request.
fn turn_around(pkt: &mut Pkt) {
    let at = usize::from(pkt.l4);
    let [kind, _, hi, lo, ..] = pkt.window_mut(at);
    *kind = 0;
    [*hi, *lo] = update_u16(u16::from_be_bytes([*hi, *lo]), 0x0800, 0x0000).to_be_bytes();
}

/// Returns the ICMP message of a problem; `None` for those of IPv6.
pub(crate) fn message(problem: Problem) -> Option<Message> {
    let code = match problem {
        Problem::TimeExceeded => return Some(Message::TimeExceeded { code: time_exceeded::IN_TRANSIT }),
        Problem::ReassemblyTimeExceeded => {
            return Some(Message::TimeExceeded { code: time_exceeded::REASSEMBLY });
        }
        //= https://www.rfc-editor.org/rfc/rfc1191#section-4
        Problem::TooBig { mtu } => {
            let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
            return Some(Message::Unreachable { code: unreachable::FRAGMENTATION_NEEDED, mtu });
        }
        Problem::Parameter { pointer } | Problem::UnknownOption { pointer } => {
            let pointer = u8::try_from(pointer).unwrap_or(u8::MAX);
            return Some(Message::ParameterProblem { code: 0, pointer });
        }
        Problem::Refused(RejectCode { code4, mtu, .. }) => {
            return Some(Message::Unreachable { code: code4, mtu });
        }
        Problem::NoRoute => unreachable::NET,
        // What BSD says of its reject routes.
        Problem::Rejected | Problem::HostUnreachable => unreachable::HOST,
        Problem::PortUnreachable => unreachable::PORT,
        Problem::ProtocolUnreachable { .. } => unreachable::PROTOCOL,
        Problem::SourceRouteFailed => unreachable::SOURCE_ROUTE_FAILED,
        Problem::IncompleteChain | Problem::BeyondScope => return None,
    };
    Some(Message::Unreachable { code, mtu: 0 })
}

/// Tells whether an error may be sent about this packet: it is the first fragment or whole, and no error.
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.2
//# An ICMP error message MUST NOT be sent as the result of
//# receiving:
//#
//# *    an ICMP error message, or
pub(crate) fn is_answerable(pkt: &Pkt) -> bool {
    let [version_ihl, _, _, _, _, _, frag_hi, frag_lo, _, protocol, ..] = *super::header(pkt);
    let is_first = u16::from_be_bytes([frag_hi & 0x1f, frag_lo]) == 0;
    let kind = pkt.head().get(usize::from(version_ihl & 0xf) * 4);
    let is_error = || kind.is_none_or(|kind| icmp4::is_error(*kind) || *kind > KIND_MAX);
    is_first && (protocol != Protocol::ICMP.0 || !is_error())
}

/// The header of an error.
pub(crate) fn error_header(from: Ipv4Addr, to: Ipv4Addr) -> ip4::Header {
    ip4::Header { tos: ERROR_TOS, ..ip4::Header::new(from, to, Protocol::ICMP, 0) }
}

/// Puts ICMP's and `ip`'s header in front of a message's payload. Length and checksums are filled in.
pub(crate) fn put_headers(pkt: &mut Pkt, message: Message, ip: &ip4::Header) -> Result<(), NoRoom> {
    let mut header = message.to_bytes(&[]);
    header[2..4].fill(0);
    let checksum = l4::sum(Sum::new().bytes(&header), pkt, 0..pkt.len()).checksum();
    header[2..4].copy_from_slice(&checksum.to_be_bytes());
    pkt.prepend(HEADER_LEN)?.copy_from_slice(&header);
    let wanted = pkt.len();
    let too_long = NoRoom { wanted, have: usize::from(u16::MAX) };
    let ip = ip4::Header { payload_len: u16::try_from(wanted).map_err(|_| too_long)?, ..*ip };
    let header_len = ip.header_len();
    ip.emit(pkt.prepend(header_len)?).map_err(|_| too_long)?;
    pkt.flags.set(Flags::LOCAL.with(Flags::PRIORITY));
    pkt.proto = Protocol::ICMP.0;
    pkt.l4 = u16::try_from(header_len).unwrap_or(u16::MAX);
    Ok(())
}
