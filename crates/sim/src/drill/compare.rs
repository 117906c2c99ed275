//! Comparison of a script's expected packet with the one that came.

use core::fmt::Display;
use core::time::Duration;

use drill::packet::{
    Ecn, Flags, Icmp, Ip, Packet, Payload, Quote, Seq, SeqStart, Tcp, TcpOption, TcpOptions,
};
use drill::script::At;

/// Comparison of the stack's timestamps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stamps {
    /// Microseconds between two values of its clock; 0: they are not compared.
    pub(super) tick_usecs: u32,
    /// Their tolerance.
    pub(super) tolerance: Duration,
}

/// The packet that came: all fields of it are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came<'a> {
    /// With the script's numbers.
    pub(super) packet: &'a Packet,
    /// As it was on the wire.
    pub(super) on_wire: &'a Packet,
    /// Whether it is IPv6.
    pub(super) is_ipv6: bool,
}

/// The first thing in which what came differs from what was demanded.
pub(super) fn difference(demanded: &Packet, came: Came<'_>, stamps: Stamps) -> Option<String> {
    ip(&demanded.ip, &came.packet.ip).or_else(|| match (&demanded.payload, &came.packet.payload) {
        (Payload::Tcp(demanded), Payload::Tcp(tcp)) => {
            sequence(demanded.seq.value, tcp.seq.value, came.on_wire)
                .or_else(|| self::tcp(demanded, tcp, stamps))
        }
        (Payload::Udp(demanded), Payload::Udp(len)) => differs("length", demanded.value, len.value),
        (Payload::Icmp(demanded), Payload::Icmp(icmp)) => self::icmp(demanded, icmp, came.is_ipv6),
        _ => Some("another protocol".to_owned()),
    })
}

fn differs<T: PartialEq + Display>(what: &str, demanded: T, came: T) -> Option<String> {
    (demanded != came).then(|| format!("{what} {came}, not {demanded}"))
}

/// As [`differs`], if something is demanded.
fn differs_at<T: PartialEq + Display + Copy>(
    what: &str,
    demanded: Option<At<T>>,
    came: Option<At<T>>,
) -> Option<String> {
    let (demanded, came) = (demanded?.value, came.map(|came| came.value));
    match came {
        Some(came) => differs(what, demanded, came),
        None => Some(format!("no {what}, not {demanded}")),
    }
}

fn ip(demanded: &Ip, came: &Ip) -> Option<String> {
    let ecn = demanded.ecn.filter(|ecn| ecn.value != Ecn::Ect01);
    let is_capable = came.ecn.is_some_and(|ecn| matches!(ecn.value, Ecn::Ect0 | Ecn::Ect1));
    let either = demanded.ecn.is_some_and(|ecn| ecn.value == Ecn::Ect01) && !is_capable;
    differs_at("dscp", demanded.dscp, came.dscp)
        .or_else(|| differs_at("ECN", ecn, came.ecn))
        .or_else(|| either.then(|| "neither ect0 nor ect1".to_owned()))
        .or_else(|| differs_at("ttl", demanded.ttl, came.ttl))
        .or_else(|| differs_at("flow label", demanded.flow_label, came.flow_label))
}

fn sequence(demanded: Seq, came: Seq, on_wire: &Packet) -> Option<String> {
    let on_wire = match &on_wire.payload {
        Payload::Tcp(tcp) => tcp.seq.value,
        _ => came,
    };
    let start = match (demanded.start, came.start, on_wire.start) {
        (SeqStart::Relative(demanded), SeqStart::Relative(came), _)
        | (SeqStart::Absolute(demanded), _, SeqStart::Relative(came)) => {
            differs("sequence number", demanded, came)
        }
        _ => None,
    };
    start.or_else(|| differs("length", demanded.len, came.len))
}

fn tcp(demanded: &Tcp, came: &Tcp, stamps: Stamps) -> Option<String> {
    let zero = |came: Option<At<u32>>| came.map_or(0, |came| came.value);
    let flags = differs("flags", demanded.flags.value, came.flags.value);
    let ack = || match demanded.ack {
        Some(ack) => differs("ack", ack.value, zero(came.ack)),
        None if came.flags.value.contains(Flags::ACK) => None,
        None => differs("ack", 0, zero(came.ack)),
    };
    let urgent = demanded.urgent.map_or(0, |urgent| urgent.value);
    flags
        .or_else(ack)
        .or_else(|| differs_at("window", demanded.window, came.window))
        .or_else(|| differs("urgent pointer", urgent, came.urgent.map_or(0, |urgent| urgent.value)))
        .or_else(|| options(&demanded.options.value, &came.options.value, stamps))
}

fn options(demanded: &TcpOptions, came: &TcpOptions, stamps: Stamps) -> Option<String> {
    let (TcpOptions::List(demanded), TcpOptions::List(came)) = (demanded, came) else { return None };
    let pairs = demanded.iter().zip(came);
    let wrong = pairs.filter(|(demanded, came)| !is_option(&demanded.value, &came.value, stamps));
    let wrong = wrong.map(|(demanded, came)| format!("option {}, not {}", came.value, demanded.value)).next();
    wrong.or_else(|| differs("number of options", demanded.len(), came.len()))
}

/// Whether an option is the one that is demanded.
fn is_option(demanded: &TcpOption, came: &TcpOption, stamps: Stamps) -> bool {
    match (demanded, came) {
        (TcpOption::WindowScale(None), TcpOption::WindowScale(_)) => true,
        (
            TcpOption::Timestamps { val: demanded, ecr: demanded_echo, .. },
            TcpOption::Timestamps { val: came, ecr, .. },
        ) => demanded_echo == ecr && is_stamp(*demanded, *came, stamps),
        _ => demanded == came,
    }
}

fn is_stamp(demanded: Option<u32>, came: Option<u32>, stamps: Stamps) -> bool {
    let (Some(demanded), Some(came)) = (demanded, came) else { return true };
    let off = came.wrapping_sub(demanded).cast_signed().unsigned_abs();
    u128::from(off) * u128::from(stamps.tick_usecs) <= stamps.tolerance.as_micros()
}

fn icmp(demanded: &Icmp, came: &Icmp, is_ipv6: bool) -> Option<String> {
    let code = demanded.code.map_or(Some(0), |code| code.value.number(demanded.kind.value, is_ipv6));
    let came_code = came.code.and_then(|code| code.value.number(came.kind.value, is_ipv6));
    let number =
        |number: Option<u8>| number.map_or_else(|| "unknown".to_owned(), |number| number.to_string());
    let (kind, came_kind) = (demanded.kind.value.number(is_ipv6), came.kind.value.number(is_ipv6));
    differs("type", number(kind), number(came_kind))
        .or_else(|| differs("code", number(code), number(came_code)))
        .or_else(|| differs_at("mtu", demanded.mtu, came.mtu))
        .or_else(|| differs_at("identifier", demanded.id, came.id))
        .or_else(|| quote(demanded.quote?.value, came.quote.map(|quote| quote.value)))
}

fn quote(demanded: Quote, came: Option<Quote>) -> Option<String> {
    (Some(demanded) != came).then(|| "another packet is quoted".to_owned())
}
