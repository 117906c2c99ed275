//! ICMP errors to senders of undeliverable packets, in both families: conditions and rate limits.

mod limit;
mod problem;
mod report;

use core::net::IpAddr;

use pkt::{Flags, Pkt};
use wire::{icmp4, icmp6};

use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::fib::mark;
use crate::ip::{ip4, ip6, l4, output};
use crate::turn::cpu::Cpu;
use crate::turn::netisr::dispatch;
use crate::turn::pfil;
use l4::ends;

pub(crate) use limit::Limiter;
pub use problem::{Problem, RejectCode};
pub(crate) use report::{Quoted, report};

/// Rate limits of a CPU's ICMP errors and resets.
pub struct Icmp {
    /// Limits ICMP errors.
    errors: Limiter,
    /// Limits resets of closed TCP ports, which are errors by another name.
    pub(crate) resets: Limiter,
}

impl Default for Icmp {
    fn default() -> Self {
        Self { errors: Limiter::new(limit::ERRORS), resets: Limiter::new(limit::RESETS) }
    }
}

/// An ICMP message of either family, without what follows its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// ICMP of IPv4.
    V4(icmp4::Message),
    /// ICMPv6.
    V6(icmp6::Message),
}

impl Message {
    /// Returns the message to the sender of `pkt` about `problem`; `None` if its family has none.
    #[must_use]
    pub fn about(pkt: &Pkt, problem: Problem) -> Option<Self> {
        if l4::is_ip4(pkt) {
            ip4::icmp::message(problem).map(Self::V4)
        } else {
            ip6::icmp6::message(problem).map(Self::V6)
        }
    }
}

/// The counters of errors, by family.
struct Counts {
    sent: Count,
    limited: Count,
    forbidden: Count,
}

const COUNTS4: Counts = Counts {
    sent: Count::IcmpErrorsSent,
    limited: Count::IcmpErrorsLimited,
    forbidden: Count::IcmpErrorsForbidden,
};

const COUNTS6: Counts = Counts {
    sent: Count::Icmp6ErrorsSent,
    limited: Count::Icmp6ErrorsLimited,
    forbidden: Count::Icmp6ErrorsForbidden,
};

/// Ends a packet, and tells its sender why if that is allowed.
///
/// Reads  the packet from its network header, `pkt.rcvif`, `pkt.flags`, `cpu.tables`.
/// Next   [`ip4::output::output`], [`ip6::output::output`]; for what was sent from here, [`report::failed`].
/// Drops  [`Problem::reason`], [`DropReason::Ip6BadExtension`].
///
/// # Spec
/// RFC 1122 §3.2.2; RFC 1812 §4.3.2; RFC 4443 §2.4.
pub fn answer(cpu: &mut Cpu, pkt: Pkt, problem: Problem) {
    if pkt.flags.has(Flags::LOCAL) {
        report::failed(cpu, &pkt, problem);
    } else {
        tell(cpu, &pkt, problem);
    }
    // What is wrong in a header is in IPv4 an option, in IPv6 an extension.
    let is_extension = matches!(problem, Problem::Parameter { .. }) && !l4::is_ip4(&pkt);
    cpu.drop_pkt(pkt, if is_extension { DropReason::Ip6BadExtension } else { problem.reason() });
}

/// Sends an error about a packet to its sender, if that is allowed.
pub(crate) fn tell(cpu: &mut Cpu, pkt: &Pkt, problem: Problem) {
    let counts = if l4::is_ip4(pkt) { COUNTS4 } else { COUNTS6 };
    match error(cpu, pkt, problem, &counts) {
        Ok(mut error) => {
            cpu.count(counts.sent);
            match pfil::cross(cpu, &mut error) {
                Some(next) => dispatch(cpu, error, next),
                None => output(cpu, error),
            }
        }
        Err(why_not) => cpu.count(why_not),
    }
}

/// The error to be sent, or what is counted instead.
fn error(cpu: &mut Cpu, pkt: &Pkt, problem: Problem, counts: &Counts) -> Result<Pkt, Count> {
    let message = Message::about(pkt, problem).ok_or(counts.forbidden)?;
    let (sender, destination) = ends(pkt);
    if !may_be_told(cpu, pkt, problem) {
        return Err(counts.forbidden);
    }
    let from = own_addr(cpu, pkt.rcvif, destination, sender).ok_or(counts.forbidden)?;
    if !cpu.icmp.errors.allows(cpu.now, sender, &mut cpu.secret) {
        return Err(counts.limited);
    }
    let mut error = cpu.pool.take().ok_or(Count::IcmpNoBuffer)?;
    if quote(&mut error, pkt).and_then(|()| put_headers(&mut error, message, from, sender)).is_err() {
        cpu.pool.give(error);
        return Err(Count::IcmpNoBuffer);
    }
    (error.outif, error.fib) = (output::answers_by(pkt.rcvif, sender), mark(cpu.tables.fib_of(pkt)));
    Ok(error)
}

/// Whether an event that `peer` causes is within the rate of errors to it.
pub(crate) fn is_in_rate(cpu: &mut Cpu, peer: IpAddr) -> bool {
    cpu.icmp.errors.allows(cpu.now, peer, &mut cpu.secret)
}

/// Sends an ICMP message that was made here.
fn output(cpu: &mut Cpu, pkt: Pkt) {
    if l4::is_ip4(&pkt) { ip4::output::output(cpu, pkt) } else { ip6::output::output(cpu, pkt) }
}

/// Whether this packet is one whose sender may be told of anything.
fn may_be_told(cpu: &Cpu, pkt: &Pkt, problem: Problem) -> bool {
    let (sender, destination) = ends(pkt);
    let for_one_host =
        !pkt.flags.any(Flags::BROADCAST.with(Flags::MULTICAST)) && is_one_host(cpu, destination);
    let is_answerable =
        if l4::is_ip4(pkt) { ip4::icmp::is_answerable(pkt) } else { ip6::icmp6::is_answerable(pkt) };
    let to_group = || !l4::is_ip4(pkt) && ip6::icmp6::is_told_to_groups(pkt, problem);
    is_answerable && defines_one_host(cpu, sender) && (for_one_host || to_group())
}

/// Whether a source address stands for a single host, so that it can be answered.
//= https://www.rfc-editor.org/rfc/rfc1812#section-4.3.2.7
//# o  A packet whose source address has a network prefix of zero or is
//#    an invalid source address (as defined in Section [5.3.7])
#[must_use]
pub(crate) fn defines_one_host(cpu: &Cpu, addr: IpAddr) -> bool {
    !wire::addr::is_martian_source(addr) && is_one_host(cpu, addr)
}

/// Whether an address is neither a group's nor a link's broadcast address.
#[must_use]
pub(crate) fn is_one_host(cpu: &Cpu, addr: IpAddr) -> bool {
    let is_broadcast = matches!(addr, IpAddr::V4(v4) if v4.is_broadcast() || cpu.tables.own.is_broadcast(v4));
    !addr.is_multicast() && !is_broadcast
}

/// The own address that answers a packet to `destination`, which came in by `rcvif`, to its sender `to`: the one that
/// was spoken to, else one of the interface that it came in by, so that a trace of the route names our nearer side,
/// else one of another interface.
//= https://www.rfc-editor.org/rfc/rfc4443#section-2.2
//# (a) If the message is a response to a message sent to one of the
//#     node's unicast addresses, the Source Address of the reply MUST be
//#     that same address.
//= https://www.rfc-editor.org/rfc/rfc1812#section-4.3.2.4
#[must_use]
pub(crate) fn own_addr(cpu: &Cpu, rcvif: u16, destination: IpAddr, to: IpAddr) -> Option<IpAddr> {
    if cpu.tables.is_ours(destination) {
        return Some(destination);
    }
    let nearest = cpu.tables.ifnet(rcvif).and_then(|ifnet| ifnet.source_for(to));
    if is_link_local6(to) {
        return nearest;
    }
    let others = cpu.tables.ifnets().filter_map(|ifnet| ifnet.source_for(to));
    nearest.into_iter().chain(others).find(|from| !is_link_local6(*from))
}

fn is_link_local6(addr: IpAddr) -> bool {
    matches!(addr, IpAddr::V6(addr) if addr.is_unicast_link_local())
}

/// Puts the packet, as far as an error quotes it, into `error`, as it is: with a partial checksum or as a
/// super-packet, if it was one.
fn quote(error: &mut Pkt, pkt: &Pkt) -> Result<(), pkt::NoRoom> {
    let len = if l4::is_ip4(pkt) { icmp4::quote_len(pkt.len()) } else { icmp6::quote_len(pkt.len()) };
    pkt.copy_out(0, error.append(len)?);
    Ok(())
}

/// Puts ICMP and IP headers in front of a message's payload.
fn put_headers(pkt: &mut Pkt, message: Message, from: IpAddr, to: IpAddr) -> Result<(), pkt::NoRoom> {
    match (message, from, to) {
        (Message::V4(message), IpAddr::V4(from), IpAddr::V4(to)) => {
            ip4::icmp::put_headers(pkt, message, &ip4::icmp::error_header(from, to))
        }
        (Message::V6(message), IpAddr::V6(from), IpAddr::V6(to)) => {
            ip6::icmp6::put_headers(pkt, message, &ip6::icmp6::header(from, to))
        }
        _ => Err(pkt::NoRoom { wanted: 0, have: 0 }),
    }
}

#[cfg(test)]
mod tests;
