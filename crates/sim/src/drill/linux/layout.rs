//! In which order the options of a header stand, and how they are padded, as Linux does it.

use core::net::IpAddr;

use wire::checksum::Sum;
use wire::protocol::Protocol;
use wire::{ip4, ip6, tcp};

use super::super::build;
use super::super::conn::FourTuple;

/// Numbers of options.
pub(super) const EOL: u8 = 0;
pub(super) const NOP: u8 = 1;
pub(super) const MSS: u8 = 2;
pub(super) const WINDOW_SCALE: u8 = 3;
pub(super) const SACK_PERMITTED: u8 = 4;
pub(super) const SACK: u8 = 5;
pub(super) const TIMESTAMPS: u8 = 8;
pub(super) const MD5: u8 = 19;
pub(super) const USER_TIMEOUT: u8 = 28;
pub(super) const FAST_OPEN: u8 = 34;
pub(super) const EXPERIMENT: u8 = 254;
/// One that Linux does not send.
pub(super) const UNKNOWN: u8 = 255;

/// Bytes of options at the most.
const LEN_MAX: usize = 40;
/// Where the words of a TCP header are counted, and where its checksum stands.
const WORDS: usize = 12;
const CHECKSUM: usize = 16;
/// Where IP headers say how long a packet is, or what is behind its header, and where that of IPv4 has its checksum.
const LEN_V4: usize = 2;
const LEN_V6: usize = 4;
const CHECKSUM_V4: usize = 10;

/// Options in Linux' order, with as many `nop` between them.
pub(super) fn lay<T: Clone>(
    options: &[T],
    kind: impl Fn(&T) -> u8,
    len: impl Fn(&T) -> usize,
    nop: &T,
) -> Vec<T> {
    let of = |kinds: &[u8]| options.iter().find(|option| kinds.contains(&kind(option))).cloned();
    let permitted = of(&[SACK_PERMITTED]);
    let stamps = of(&[TIMESTAMPS]);
    let (is_permitted, is_stamped) = (permitted.is_some(), stamps.is_some());
    // Where both are there, one is what the other would be padded with.
    let nops = |count: usize, option: Option<T>| {
        let padding = core::iter::repeat_n(nop.clone(), if option.is_some() { count } else { 0 });
        padding.chain(option).collect::<Vec<_>>()
    };
    // A cookie stands last, and is padded behind it.
    let behind = |cookie: Option<T>| {
        let len = cookie.as_ref().map_or(0, &len);
        let padding = len.next_multiple_of(4) - len;
        cookie.into_iter().chain(core::iter::repeat_n(nop.clone(), padding)).collect::<Vec<_>>()
    };
    let parts = [
        nops(2, of(&[MD5])),
        nops(0, of(&[MSS])),
        nops(if is_stamped { 0 } else { 2 }, permitted),
        nops(if is_permitted { 0 } else { 2 }, stamps),
        nops(1, of(&[WINDOW_SCALE])),
        nops(2, of(&[SACK])),
        behind(of(&[FAST_OPEN, EXPERIMENT])),
        nops(0, of(&[USER_TIMEOUT])),
    ];
    parts.into_iter().flatten().collect()
}

/// A packet whose options stand as Linux has them, if it is a SYN; others, and those that are signed, as they are.
pub(in super::super) fn syn(packet: Vec<u8>) -> Vec<u8> {
    again(&packet).unwrap_or(packet)
}

fn again(packet: &[u8]) -> Option<Vec<u8>> {
    let (behind, way) = way(packet)?;
    let (header, segment) = packet.split_at_checked(behind)?;
    let view = tcp::View::new(segment).ok()?;
    let options = pieces(view.option_bytes())?;
    if !view.flags().syn() || options.iter().any(|option| option[0] == MD5) {
        return None;
    }
    let mut laid = lay(&options, |option| option[0], |option| option.len(), &vec![NOP]).concat();
    laid.resize(laid.len().next_multiple_of(4), EOL);
    if laid.len() > LEN_MAX {
        return None;
    }
    let mut segment = [&segment[..tcp::HEADER_LEN], &laid, view.payload()].concat();
    let words = u8::try_from((tcp::HEADER_LEN + laid.len()) / 4).ok()?;
    segment[WORDS] = words << 4 | segment[WORDS] & 0xf;
    segment[CHECKSUM..CHECKSUM + 2].fill(0);
    let sum = build::checksum(way, Protocol::TCP, &segment);
    segment[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    let mut header = header.to_vec();
    if way.src.0.is_ipv4() {
        let len = u16::try_from(header.len() + segment.len()).ok()?;
        header[LEN_V4..LEN_V4 + 2].copy_from_slice(&len.to_be_bytes());
        header[CHECKSUM_V4..CHECKSUM_V4 + 2].fill(0);
        let sum = Sum::new().bytes(&header).checksum();
        header[CHECKSUM_V4..CHECKSUM_V4 + 2].copy_from_slice(&sum.to_be_bytes());
    } else {
        let len = u16::try_from(segment.len()).ok()?;
        header[LEN_V6..LEN_V6 + 2].copy_from_slice(&len.to_be_bytes());
    }
    Some([header, segment].concat())
}

/// Returns the offset of a packet's segment, and its addresses; ports do not matter.
fn way(packet: &[u8]) -> Option<(usize, FourTuple)> {
    let of = |src: IpAddr, dst: IpAddr| FourTuple { src: (src, 0), dst: (dst, 0) };
    match packet.first()? >> 4 {
        4 => {
            let view = ip4::View::new(packet).ok().filter(|view| view.protocol() == Protocol::TCP)?;
            Some((view.header_len(), of(view.src().into(), view.dst().into())))
        }
        _ => {
            let view = ip6::View::new(packet).ok().filter(|view| view.next_header() == Protocol::TCP)?;
            Some((ip6::HEADER_LEN, of(view.src().into(), view.dst().into())))
        }
    }
}

/// Options one by one, with their numbers and lengths.
fn pieces(mut bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut pieces = Vec::new();
    while let Some(kind) = bytes.first().filter(|kind| **kind != EOL) {
        let len = if *kind == NOP { 1 } else { usize::from(*bytes.get(1)?).max(2) };
        let (piece, rest) = bytes.split_at_checked(len)?;
        pieces.push(piece.to_vec());
        bytes = rest;
    }
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use wire::tcp::{Flags, Header, Options};

    use super::*;
    use crate::builder;

    #[test]
    fn a_syn_says_the_same_in_the_other_order_and_other_packets_stay() {
        for [src, dst] in [["192.168.0.1", "192.0.2.1"], ["fd00::1", "2001:db8::1"]] {
            let ip = builder::Ip::new(src.parse().unwrap(), dst.parse().unwrap());
            let options = Options { mss: Some(1460), window_scale: Some(6), ..Options::default() };
            let options = Options { sack_permitted: true, timestamps: Some((9, 0)), ..options };
            let header = |flags| Header {
                src_port: 1,
                dst_port: 2,
                seq: 3,
                ack: 4,
                flags,
                window: 5,
                urgent: 0,
                options,
            };
            let sent = builder::tcp(ip, &header(Flags::SYN), b"early");
            let relaid = syn(sent.clone());
            let (behind, _) = way(&relaid).unwrap();
            let view = tcp::View::new(&relaid[behind..]).unwrap();
            let kinds: Vec<u8> = pieces(view.option_bytes()).unwrap().iter().map(|piece| piece[0]).collect();
            assert_eq!(kinds, [MSS, SACK_PERMITTED, TIMESTAMPS, NOP, WINDOW_SCALE]);
            assert_eq!(Header::parse(&relaid[behind..]), Ok(header(Flags::SYN)));
            assert_eq!(view.payload(), b"early");
            let is_intact = match (ip.src, ip.dst) {
                (IpAddr::V4(src), IpAddr::V4(dst)) => {
                    view.verify_v4(src, dst) && ip4::View::new(&relaid).unwrap().verify_checksum()
                }
                (IpAddr::V6(src), IpAddr::V6(dst)) => view.verify_v6(src, dst),
                _ => false,
            };
            assert!(is_intact);
            assert_eq!(syn(relaid.clone()), relaid);
            let other = builder::tcp(ip, &header(Flags::ACK), b"");
            assert_eq!(syn(other.clone()), other);
            assert_eq!(syn(sent[..behind].to_vec()), sent[..behind]);
        }
        assert_eq!(syn(Vec::new()), Vec::<u8>::new());
    }
}
