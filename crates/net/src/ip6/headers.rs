//! Headers of a packet that nobody has judged, or that was judged before: stepped over, not judged.

use wire::Protocol;
use wire::ip6::HEADER_LEN;
use wire::ip6_ext::{Fragment, HEADERS_MAX};

/// The upper layer of an IPv6 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Upper {
    /// What it is.
    pub(crate) protocol: Protocol,
    /// Where it starts, bytes from the start of the packet.
    pub(crate) at: usize,
    /// If there is a fragment header: the place of this fragment, bytes.
    pub(crate) fragment_offset: Option<u16>,
}

/// Finds the upper layer in the first bytes of a packet; `None` if they end before it, or it comes too late. Behind
/// the fragment header of a fragment that is not the first, what is found there is data.
pub(crate) fn upper(packet: &[u8]) -> Option<Upper> {
    let mut found = Upper { protocol: Protocol(*packet.get(6)?), at: HEADER_LEN, fragment_offset: None };
    for _ in 0..HEADERS_MAX {
        if !found.protocol.is_ip6_extension() || found.fragment_offset.is_some_and(|offset| offset != 0) {
            return Some(found);
        }
        found = step(packet, found)?;
    }
    (!found.protocol.is_ip6_extension()).then_some(found)
}

/// Where the byte stands that names the header at `at`; `None` if no header starts there.
pub(crate) fn named_by(packet: &[u8], at: usize) -> Option<usize> {
    let mut found = Upper { protocol: Protocol(*packet.get(6)?), at: HEADER_LEN, fragment_offset: None };
    let mut named_by = 6;
    for _ in 0..HEADERS_MAX {
        if found.at >= at {
            break;
        }
        named_by = found.at;
        found = step(packet, found)?;
    }
    (found.at == at).then_some(named_by)
}

fn step(packet: &[u8], from: Upper) -> Option<Upper> {
    let header = packet.get(from.at..)?;
    let &[next, len, ..] = header else { return None };
    let (len, fragment_offset) = match from.protocol {
        Protocol::FRAGMENT => (Fragment::LEN, Some(Fragment::from_bytes(header.first_chunk()?).offset)),
        Protocol::AH => ((usize::from(len) + 2) * 4, from.fragment_offset),
        _ => ((usize::from(len) + 1) * 8, from.fragment_offset),
    };
    Some(Upper { protocol: Protocol(next), at: from.at + len, fragment_offset })
}
