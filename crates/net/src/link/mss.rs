//! The maximum segment size that a SYN tells: lowered to what a link or a rule allows.
//!
//! # Spec
//! RFC 9293 §3.2, §3.7.1.

use pkt::{Flags, Pkt};
use wire::checksum::update_u16;
use wire::{Protocol, ip4, ip6, ip6_ext, tcp};

/// Kinds of TCP options (RFC 9293 §3.2).
const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
/// Bytes of the option that tells the maximum segment size.
const MSS_LEN: u8 = 4;
const SYN: u8 = 2;

/// Lowers what a SYN tells, in an IP packet that nothing is known of yet, to what fits packets of `mtu` bytes. Later fragments stay
/// as they are.
#[inline]
pub(crate) fn clamp(pkt: &mut Pkt, mtu: u32) {
    const FRAGMENT: u16 = 0x1fff;
    let ip = pkt.window(0);
    let (protocol, at, fixed) = match ip[0] >> 4 {
        4 if u16::from_be_bytes([ip[6], ip[7]]) & FRAGMENT == 0 => {
            (ip[9], usize::from(ip[0] & 0xf) * 4, ip4::HEADER_LEN)
        }
        6 if Protocol(ip[6]) == Protocol::TCP => (ip[6], ip6::HEADER_LEN, ip6::HEADER_LEN),
        6 if Protocol(ip[6]).is_ip6_extension() => match behind_extensions(pkt) {
            Some(at) => (Protocol::TCP.0, at, ip6::HEADER_LEN),
            None => return,
        },
        _ => return,
    };
    if protocol == Protocol::TCP.0 && pkt.window(at)[13] & SYN != 0 {
        let headers = u32::try_from(fixed + tcp::HEADER_LEN).unwrap_or(u32::MAX);
        lower(pkt, at, u16::try_from(mtu.saturating_sub(headers)).unwrap_or(u16::MAX));
    }
}

/// Where the TCP header stands behind extension headers, if it does; not in later fragments.
#[cold]
fn behind_extensions(pkt: &Pkt) -> Option<usize> {
    let view = ip6::View::new_quoted(pkt.head()).ok()?;
    let chain = ip6_ext::walk(&view, ip6_ext::Role::Router).ok()?;
    (chain.upper == Protocol::TCP && chain.has_upper()).then_some(chain.upper_at)
}

/// Lowers what a SYN tells whose TCP header is at `l4`. A packet that is none, or tells less, or nothing, stays as it is.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.7.1
pub(crate) fn lower(pkt: &mut Pkt, l4: usize, mss: u16) {
    let is_partial = pkt.flags.has(Flags::CSUM_PARTIAL);
    let Some(segment) = pkt.head_mut().get_mut(l4..) else { return };
    let Some(at) = mss_at(segment) else { return };
    let Some([hi, lo]) = segment.get_mut(at..).and_then(<[u8]>::first_chunk_mut) else { return };
    let old = u16::from_be_bytes([*hi, *lo]);
    if old <= mss {
        return;
    }
    [*hi, *lo] = mss.to_be_bytes();
    if is_partial {
        // The sum of what follows the pseudo-header is still to be made.
        return;
    }
    // At an odd place the value's bytes belong to two words, the other way round.
    let (old, new) = if at.is_multiple_of(2) { (old, mss) } else { (old.swap_bytes(), mss.swap_bytes()) };
    if let Some([hi, lo]) = segment.get_mut(16..).and_then(<[u8]>::first_chunk_mut) {
        [*hi, *lo] = update_u16(u16::from_be_bytes([*hi, *lo]), old, new).to_be_bytes();
    }
}

/// Where a SYN tells its maximum segment size.
fn mss_at(segment: &[u8]) -> Option<usize> {
    let fixed = segment.first_chunk::<20>()?;
    let options = segment.get(20..usize::from(fixed[12] >> 4) * 4)?;
    if fixed[13] & SYN == 0 {
        return None;
    }
    let mut at = 0;
    loop {
        match options.get(at..)? {
            [MSS, MSS_LEN, _, _, ..] => return Some(20 + at + 2),
            [END, ..] | [] => return None,
            [NOP, ..] => at += 1,
            [_, len, ..] if *len >= 2 => at += usize::from(*len),
            _ => return None,
        }
    }
}
