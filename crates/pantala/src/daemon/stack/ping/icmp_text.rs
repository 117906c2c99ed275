//! ICMP errors in ping's words.

use net::icmp::Message;
use wire::{icmp4, icmp6};

/// Returns the text of an error.
pub(super) fn of(message: Message) -> String {
    match message {
        Message::V4(message) => of_v4(message),
        Message::V6(message) => of_v6(message),
    }
}

fn of_v4(message: icmp4::Message) -> String {
    use icmp4::Message::{ParameterProblem, Redirect, TimeExceeded, Unreachable};
    match message {
        Unreachable { code: 4, mtu } => format!("frag needed and DF set (MTU {mtu})"),
        Unreachable { code, .. } => unreachable_v4(code),
        TimeExceeded { code: 0 } => "Time to live exceeded".to_owned(),
        TimeExceeded { .. } => "Fragment reassembly time exceeded".to_owned(),
        ParameterProblem { pointer, .. } => format!("Parameter problem: pointer = {pointer}"),
        Redirect { gateway, .. } => format!("Redirect (New nexthop: {gateway})"),
        other => format!("{other:?}"),
    }
}

/// RFC 792; RFC 1122 §3.2.2.1; RFC 1812 §5.2.7.1.
fn unreachable_v4(code: u8) -> String {
    let what = match code {
        0 => "Net Unreachable",
        1 => "Host Unreachable",
        2 => "Protocol Unreachable",
        3 => "Port Unreachable",
        5 => "Source Route Failed",
        6 => "Net Unknown",
        7 => "Host Unknown",
        9 => "Net Prohibited",
        10 => "Host Prohibited",
        13 => "Communication Prohibited",
        other => return format!("Unreachable, code {other}"),
    };
    format!("Destination {what}")
}

fn of_v6(message: icmp6::Message) -> String {
    use icmp6::Message::{PacketTooBig, ParameterProblem, TimeExceeded, Unreachable};
    match message {
        Unreachable { code } => unreachable_v6(code),
        PacketTooBig { mtu } => format!("Packet too big: mtu={mtu}"),
        TimeExceeded { code: 0 } => "Time exceeded: Hop limit".to_owned(),
        TimeExceeded { .. } => "Time exceeded: Defragmentation failure".to_owned(),
        ParameterProblem { pointer, .. } => format!("Parameter problem: pointer = {pointer}"),
        other => format!("{other:?}"),
    }
}

/// RFC 4443 §3.1.
fn unreachable_v6(code: u8) -> String {
    let what = match code {
        0 => "No route",
        1 => "Administratively prohibited",
        2 => "Beyond scope of source address",
        3 => "Address unreachable",
        4 => "Port unreachable",
        5 => "Source address failed policy",
        6 => "Reject route",
        other => return format!("Destination unreachable: code {other}"),
    };
    format!("Destination unreachable: {what}")
}
