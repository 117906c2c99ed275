//! ICMP in the words of the other family: queries, and errors with the packet that they quote.

use core::net::Ipv6Addr;

use pkt::{Flags, Pkt};
use wire::checksum::Sum;
use wire::{Protocol, ip4, ip6};

use super::header::{AddrPair, Common, Pseudo, addresses, new_addresses, rewrite};
use crate::firewall::nat::headers::Shape;
use crate::out::offload;

/// Bytes of a header of ICMP, in both families.
const HEADER_LEN: usize = 8;

/// The type of a query in the other family.
//= https://www.rfc-editor.org/rfc/rfc7915#section-4.2
//= https://www.rfc-editor.org/rfc/rfc7915#section-5.2
pub(super) const fn query(is_ip4: bool, kind: u8) -> Option<u8> {
    match (is_ip4, kind) {
        (true, 8) => Some(128),
        (true, 0) => Some(129),
        (false, 128) => Some(8),
        (false, 129) => Some(0),
        _ => None,
    }
}

/// The beginning of an error: type, code, and the word behind the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    kind: u8,
    code: u8,
    word: u32,
}

/// Makes an error of IPv6, and what it quotes, one of IPv4 between the ends `outer`, about a packet between `inner`.
/// `None`, and it can only die: IPv4 has no word for it.
pub(super) fn error_to_ip4(
    pkt: &mut Pkt,
    [shape, quote]: [&Shape; 2],
    outer: AddrPair,
    inner: AddrPair,
    id: u16,
) -> Option<()> {
    let error = Error::read(pkt, [shape, quote], inner)?;
    let head = error.head.to_ip4()?;
    let quoted_len = u16::try_from(error.quoted.len + ip4::HEADER_LEN).ok()?;
    let len = u16::try_from(pkt.len() - usize::from(quote.l4) + HEADER_LEN + 2 * ip4::HEADER_LEN).ok()?;
    let mut front = [0; HEADER_LEN + 2 * ip4::HEADER_LEN];
    let (ip, rest) = front.split_at_mut(ip4::HEADER_LEN);
    ip.copy_from_slice(&error.common.ip4(outer, len, Some(id)));
    let (icmp, quoted) = rest.split_at_mut(HEADER_LEN);
    icmp.copy_from_slice(&head.bytes());
    quoted.copy_from_slice(&error.quoted.ip4(inner, quoted_len, None));
    pkt.trim_front(quote.l4.into());
    pkt.prepend(front.len()).ok()?.copy_from_slice(&front);
    finish(pkt, Sum::new(), Protocol::ICMP, ip4::HEADER_LEN)
}

/// Makes an error of IPv4, and what it quotes, one of IPv6. `None` as of [`error_to_ip4`].
pub(super) fn error_to_ip6(
    pkt: &mut Pkt,
    [shape, quote]: [&Shape; 2],
    outer: AddrPair,
    inner: AddrPair,
) -> Option<()> {
    let error = Error::read(pkt, [shape, quote], inner)?;
    let head = error.head.to_ip6(error.quoted.len + ip4::HEADER_LEN)?;
    let room = usize::from(ip6::MIN_MTU) - 2 * ip6::HEADER_LEN - HEADER_LEN;
    let kept = (pkt.len() - usize::from(quote.l4)).min(room);
    // It is all in one buffer, of which nothing is left over.
    let _ = pkt.truncate(usize::from(quote.l4) + kept);
    let common = Common { len: kept + HEADER_LEN + ip6::HEADER_LEN, ..error.common };
    let mut front = [0; HEADER_LEN + 2 * ip6::HEADER_LEN];
    let (ip, rest) = front.split_at_mut(ip6::HEADER_LEN);
    ip.copy_from_slice(&common.ip6(outer)?);
    let (icmp, quoted) = rest.split_at_mut(HEADER_LEN);
    icmp.copy_from_slice(&head.bytes());
    quoted.copy_from_slice(&error.quoted.ip6(inner)?);
    pkt.trim_front(quote.l4.into());
    pkt.prepend(front.len()).ok()?.copy_from_slice(&front);
    let (src, dst) = (Ipv6Addr::from_bits(outer.src.addr), Ipv6Addr::from_bits(outer.dst.addr));
    let pseudo = Sum::pseudo_v6(src, dst, Protocol::ICMP6, u32::try_from(common.len).ok()?);
    finish(pkt, pseudo, Protocol::ICMP6, ip6::HEADER_LEN)
}

/// Sums the message, and notes what the packet is now.
fn finish(pkt: &mut Pkt, pseudo: Sum, protocol: Protocol, l4: usize) -> Option<()> {
    let checksum = pseudo.bytes(pkt.head().get(l4..)?).checksum();
    pkt.head_mut().get_mut(l4 + 2..)?.first_chunk_mut().map(|field| *field = checksum.to_be_bytes())?;
    (pkt.proto, pkt.l4) = (protocol.0, u16::try_from(l4).ok()?);
    pkt.flags.clear(Flags::HASH.with(Flags::KNOWN).with(Flags::CSUM_PARTIAL));
    Some(())
}

/// An error, whose quoted upper layer has been rewritten.
struct Error {
    common: Common,
    head: Head,
    /// Header of the quoted packet, with its original length.
    quoted: Common,
}

impl Error {
    /// Reads an error with all of its bytes in the first buffer, as it was made, and rewrites what it quotes of an upper
    /// layer. What stands behind the quotation (RFC 4884) is cut off.
    fn read(pkt: &mut Pkt, [shape, quote]: [&Shape; 2], inner: AddrPair) -> Option<Self> {
        if pkt.is_chained() || pkt.flags.has(Flags::CSUM_PARTIAL) && !offload::complete(pkt) {
            return None;
        }
        cut_extension(pkt, shape)?;
        let end = pkt.len();
        let head = Head::read(pkt.head().get(shape.l4.into()..)?)?;
        let (common, quoted) = (Common::of(pkt.head(), shape, end)?, quoted(pkt.head(), quote)?);
        let pseudo =
            Pseudo { old: addresses(pkt.head(), quote)?, new: new_addresses(quote, inner), len: quoted.len };
        rewrite(pkt.head_mut().get_mut(quote.l4.into()..)?, quote, inner, &pseudo, false)?;
        Some(Self { common, head, quoted })
    }
}

/// Reads the header of a quoted packet, which may be truncated.
fn quoted(bytes: &[u8], quote: &Shape) -> Option<Common> {
    let header = bytes.get(quote.at.into()..)?;
    let word = |at: usize| header.get(at..).and_then(<[u8]>::first_chunk).map(|it| u16::from_be_bytes(*it));
    let len = if quote.is_ip4 { word(2)?.into() } else { usize::from(word(4)?) + ip6::HEADER_LEN };
    Common::of(bytes, quote, usize::from(quote.at) + len)
}

/// Cuts off what is said behind the quotation, whose length then stands in the header.
//= https://www.rfc-editor.org/rfc/rfc4884#section-3
fn cut_extension(pkt: &mut Pkt, shape: &Shape) -> Option<()> {
    let l4 = usize::from(shape.l4);
    let header = pkt.head().get(l4..)?.first_chunk::<HEADER_LEN>()?;
    let len = match (shape.is_ip4, header[0]) {
        (true, 3 | 11 | 12) => usize::from(header[5]) * 4,
        (false, 1 | 3) => usize::from(header[4]) * 8,
        _ => 0,
    };
    let end = l4 + HEADER_LEN + len;
    if len > 0 && end < pkt.len() {
        let _ = pkt.truncate(end);
    }
    Some(())
}

impl Head {
    fn read(message: &[u8]) -> Option<Self> {
        let &[kind, code, _, _, a, b, c, d] = message.first_chunk()?;
        Some(Self { kind, code, word: u32::from_be_bytes([a, b, c, d]) })
    }

    const fn bytes(self) -> [u8; HEADER_LEN] {
        let [a, b, c, d] = self.word.to_be_bytes();
        [self.kind, self.code, 0, 0, a, b, c, d]
    }

    /// An error of IPv6 in the words of IPv4.
    //= https://www.rfc-editor.org/rfc/rfc7915#section-5.2
    fn to_ip4(self) -> Option<Self> {
        let Self { kind, code, word } = self;
        let (kind, code, word) = match (kind, code) {
            (1, 0 | 2 | 3) => (3, 1, 0),
            (1, 1) => (3, 10, 0),
            (1, 4) => (3, 3, 0),
            (2, _) => (3, 4, word.saturating_sub(SHRINKS).min(u16::MAX.into())),
            (3, code) => (11, code, 0),
            (4, 0) => (12, 0, u32::from(pointer_to_ip4(word)?) << 24),
            (4, 1) => (3, 2, 0),
            _ => return None,
        };
        Some(Self { kind, code, word })
    }

    /// An error of IPv4, about a packet of `len` bytes, in the words of IPv6.
    //= https://www.rfc-editor.org/rfc/rfc7915#section-4.2
    fn to_ip6(self, len: usize) -> Option<Self> {
        let Self { kind, code, word } = self;
        let (kind, code, word) = match (kind, code) {
            (3, 0 | 1 | 5..=8 | 11 | 12) => (1, 0, 0),
            (3, 2) => (4, 1, 6),
            (3, 3) => (1, 4, 0),
            (3, 4) => (2, 0, mtu_for_ip6(word & 0xffff, len)),
            (3, 9 | 10 | 13 | 15) => (1, 1, 0),
            (11, code) => (3, code, 0),
            (12, 0 | 2) => (4, 0, pointer_to_ip6(word >> 24)?),
            _ => return None,
        };
        Some(Self { kind, code, word })
    }
}

/// So much shorter is a header of IPv4.
const SHRINKS: u32 = 20;
/// Lengths of packets that links take, for routers that do not say.
//= https://www.rfc-editor.org/rfc/rfc1191#section-7.1
const PLATEAUS: [u32; 10] = [32_000, 17_914, 8166, 4352, 2002, 1492, 1006, 508, 296, 68];

/// Returns the IPv6 MTU whose translated packets fit `mtu`.
//= https://www.rfc-editor.org/rfc/rfc7915#section-4.2
fn mtu_for_ip6(mtu: u32, len: usize) -> u32 {
    let shorter = |plateau: &&u32| (**plateau as usize) < len;
    let mtu = if mtu == 0 { PLATEAUS.iter().find(shorter).copied().unwrap_or(0) } else { mtu };
    (mtu + SHRINKS).max(ip6::MIN_MTU.into())
}

/// Where the field stands in IPv4 that stands there in IPv6.
//= https://www.rfc-editor.org/rfc/rfc7915#section-5.2
const fn pointer_to_ip4(at: u32) -> Option<u8> {
    match at {
        0 => Some(0),
        1 => Some(1),
        4 | 5 => Some(2),
        6 => Some(9),
        7 => Some(8),
        8..=23 => Some(12),
        24..=39 => Some(16),
        _ => None,
    }
}

/// The other way.
//= https://www.rfc-editor.org/rfc/rfc7915#section-4.2
const fn pointer_to_ip6(at: u32) -> Option<u32> {
    match at {
        0 => Some(0),
        1 => Some(1),
        2 | 3 => Some(4),
        8 => Some(7),
        9 => Some(6),
        12..=15 => Some(8),
        16..=19 => Some(24),
        _ => None,
    }
}
