//! Extension headers of a packet that was not validated here, or was before: skipped, not validated.

use wire::Protocol;
use wire::ip6::HEADER_LEN;
use wire::ip6_ext::{Fragment, HEADERS_MAX};

/// The upper layer of an IPv6 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Upper {
    /// Its protocol.
    pub(crate) protocol: Protocol,
    /// Where it starts, bytes from the start of the packet.
    pub(crate) at: usize,
    /// If there is a fragment header: the place of this fragment, bytes.
    pub(crate) fragment_offset: Option<u16>,
    /// Whether other fragments follow.
    pub(crate) more_fragments: bool,
}

impl Upper {
    /// Returns the first header.
    fn first(packet: &[u8]) -> Option<Self> {
        let protocol = Protocol(*packet.get(6)?);
        Some(Self { protocol, at: HEADER_LEN, fragment_offset: None, more_fragments: false })
    }

    /// Whether it is none, but a header in between that can be stepped over.
    fn is_in_between(&self) -> bool {
        self.protocol.is_ip6_extension() && self.fragment_offset.is_none_or(|offset| offset == 0)
    }
}

/// Finds the upper layer in the first bytes of a packet; `None` if they end before it, or it comes too late. Behind
/// the fragment header of a fragment that is not the first, what is found there is data.
pub(crate) fn upper(packet: &[u8]) -> Option<Upper> {
    let mut found = Upper::first(packet)?;
    for _ in 0..HEADERS_MAX {
        if !found.is_in_between() {
            return Some(found);
        }
        found = step(packet, found)?;
    }
    (!found.is_in_between()).then_some(found)
}

/// The headers of a packet: those in between, and the upper layer, as far as its first bytes go. Behind the fragment
/// header of a fragment that is not the first, the last one is only named.
pub(crate) fn each(packet: &[u8]) -> impl Iterator<Item = (Protocol, usize)> + '_ {
    let next = |found: &Upper| if found.is_in_between() { step(packet, *found) } else { None };
    let headers = core::iter::successors(Upper::first(packet), next);
    headers.take(HEADERS_MAX + 1).map(|found| (found.protocol, found.at))
}

/// Where the byte stands that names the header at `at`; `None` if no header starts there.
pub(crate) fn named_by(packet: &[u8], at: usize) -> Option<usize> {
    let mut found = Upper::first(packet)?;
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
    let mut found = Upper { protocol: Protocol(next), ..from };
    found.at += match from.protocol {
        Protocol::FRAGMENT => {
            let fragment = Fragment::from_bytes(header.first_chunk()?);
            (found.fragment_offset, found.more_fragments) = (Some(fragment.offset), fragment.more);
            Fragment::LEN
        }
        Protocol::AH => (usize::from(len) + 2) * 4,
        _ => (usize::from(len) + 1) * 8,
    };
    Some(found)
}
