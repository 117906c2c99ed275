//! The hash by which a flow chooses among equally good next hops.
//!
//! It has nothing in common with the hash that places packets on CPUs: there, flows of one CPU agree in some bits,
//! and would all take the same member. It is computed only when a route leads to a group.

use pkt::{Pkt, WINDOW};
use wire::protocol::Protocol;

/// The hash of the flow that a packet belongs to: of its addresses and protocol, of the ports of TCP and UDP unless
/// it is a fragment, and of the flow label.
//= https://www.rfc-editor.org/rfc/rfc2992#section-1
//= https://www.rfc-editor.org/rfc/rfc6438#section-3
#[must_use]
pub fn flow_hash(pkt: &Pkt) -> u32 {
    let ip = pkt.window(0);
    if ip[0] >> 4 == 4 { hash4(ip) } else { hash6(ip) }
}

fn hash4(ip: &[u8; WINDOW]) -> u32 {
    let is_fragment = (word16(ip, 6) & 0x3fff) != 0;
    let at = usize::from(ip[0] & 0xf) * 4;
    let ports = if has_ports(ip[9]) && !is_fragment { word32(ip, at) } else { 0 };
    let addrs = u64::from(word32(ip, 12)) << 32 | u64::from(word32(ip, 16));
    fold(mix(addrs, FIRST), u64::from(ports) << 8 | u64::from(ip[9]))
}

/// Ports behind extension headers are not looked for; that is what the flow label is for.
fn hash6(ip: &[u8; WINDOW]) -> u32 {
    let ports = if has_ports(ip[6]) { word32(ip, 40) } else { 0 };
    let addrs = (8..40).step_by(8).fold(FIRST, |hash, at| mix(hash ^ word64(ip, at), SECOND));
    let label = u64::from(word32(ip, 0) & 0x000f_ffff);
    fold(addrs, u64::from(ports) << 28 | label << 8 | u64::from(ip[6]))
}

/// Digits of pi: odd, a nothing-up-my-sleeve number.
const FIRST: u64 = 0x243f_6a88_85a3_08d3;
const SECOND: u64 = 0x1319_8a2e_0370_7345;

/// Both halves of a product: each bit of the inputs reaches most of the result.
#[expect(clippy::cast_possible_truncation, reason = "both halves are taken, one by one")]
const fn mix(a: u64, b: u64) -> u64 {
    let product = (a as u128).wrapping_mul(b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

const fn fold(hash: u64, rest: u64) -> u32 {
    (mix(mix(hash ^ rest, SECOND) ^ FIRST, SECOND) >> 32) as u32
}

fn word16(ip: &[u8; WINDOW], at: usize) -> u16 {
    u16::from_be_bytes([ip[at], ip[at + 1]])
}

fn word32(ip: &[u8; WINDOW], at: usize) -> u32 {
    ip.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

fn word64(ip: &[u8; WINDOW], at: usize) -> u64 {
    ip.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

const fn has_ports(protocol: u8) -> bool {
    protocol == Protocol::TCP.0 || protocol == Protocol::UDP.0
}

#[cfg(test)]
mod tests;
