//! Tokens of packetdrill and its forks that are not supported, each with the reason.

use crate::error::Fault;

/// Something that is known and refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The word at which it is known.
    pub word: &'static str,
    /// The word.
    pub what: &'static str,
    /// Why it is refused.
    pub why: &'static str,
}

/// Where a word stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Behind the direction of a packet.
    Packet,
    /// Among TCP options.
    TcpOption,
    /// At the beginning of a system call.
    Call,
}

const PACKETS: &[Refused] = &[
    refused("sctp", "SCTP", "the stack has no SCTP"),
    refused("udplite", "UDP-Lite", "the stack has no UDP-Lite"),
    refused("ipv4", "an encapsulated packet", "the stack ends no tunnels"),
    refused("ipv6", "an encapsulated packet", "the stack ends no tunnels"),
    refused("gre", "GRE", "the stack ends no tunnels"),
    refused("GREv0", "GRE", "the stack ends no tunnels"),
    refused("mpls", "MPLS", "the stack switches no labels"),
    refused("psp", "PSP", "the stack has no PSP"),
];

const OPTIONS: &[Refused] = &[
    refused("mp_capable", "MPTCP", "the stack has no MPTCP"),
    refused("mp_join_syn", "MPTCP", "the stack has no MPTCP"),
    refused("mp_join_syn_ack", "MPTCP", "the stack has no MPTCP"),
    refused("mp_join_ack", "MPTCP", "the stack has no MPTCP"),
    refused("mp_fail", "MPTCP", "the stack has no MPTCP"),
    refused("mp_fastclose", "MPTCP", "the stack has no MPTCP"),
    refused("mp_prio", "MPTCP", "the stack has no MPTCP"),
    refused("mp_reset", "MPTCP", "the stack has no MPTCP"),
    refused("add_address", "MPTCP", "the stack has no MPTCP"),
    refused("remove_address", "MPTCP", "the stack has no MPTCP"),
    refused("dss", "MPTCP", "the stack has no MPTCP"),
    refused("ao", "TCP-AO", "the stack has no TCP-AO (RFC 5925)"),
    refused("exp", "an experimental option", "only `FOEXP` is one that the stack knows"),
];

const fn refused(word: &'static str, what: &'static str, why: &'static str) -> Refused {
    Refused { word, what, why }
}

/// All that is refused, and where.
pub fn all() -> impl Iterator<Item = (Place, Refused)> {
    let packets = PACKETS.iter().map(|&refused| (Place::Packet, refused));
    packets.chain(OPTIONS.iter().map(|&refused| (Place::TcpOption, refused)))
}

/// An error if the word is known there and refused.
pub(crate) fn check(place: Place, word: crate::cursor::Word<'_>) -> Result<(), Fault> {
    if place == Place::Call && word.text.starts_with("sctp_") {
        return Err(word.fault(format!("`{}` is SCTP, which is refused: the stack has no SCTP", word.text)));
    }
    match all().find(|(at, refused)| *at == place && refused.word == word.text) {
        Some((_, Refused { what, why, .. })) => {
            Err(word.fault(format!("`{}` is {what}, which is refused: {why}", word.text)))
        }
        None => Ok(()),
    }
}
