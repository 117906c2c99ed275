//! Properties of any bytes at all: checked by a fuzz target, and by tests with packets that were valid before.
#![expect(clippy::missing_panics_doc, reason = "to panic when something does not hold is what they are for")]

mod families;
mod packets;
mod round_trip;

use wire::Protocol;
use wire::checksum::Sum;

use super::headers::{End, Kind, Shape, Side};
use super::rewrite::rewrite;

pub use families::{families, families_of_any};
pub use round_trip::{nat, prefixes};

/// A packet whose end is changed is as intact as it was, and has that end; changed back, it is what it was. The first
/// bytes choose side and end.
pub fn round_trip(data: &[u8]) {
    let Some((choice, data)) = data.split_first_chunk::<19>() else { return };
    let [choice, port @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = *choice;
    let addr: [u8; 16] = core::array::from_fn(|n| data.get(n).map_or(choice, |byte| byte.rotate_left(3)));
    let mut bytes = data.to_vec();
    let Some(before) = Shape::read(&bytes) else { return };
    let side = if choice & 1 == 0 { Side::Src } else { Side::Dst };
    let addr = u128::from_be_bytes(addr);
    let addr = if before.is_ip4 { addr & u128::from(u32::MAX) } else { addr };
    let to = End { addr, port: u16::from_be_bytes(port) };
    let intact = is_intact(&bytes, &before);
    rewrite(&mut bytes, &before, false, side, to);
    let Some(after) = Shape::read(&bytes) else { unreachable!("it was one before") };
    check_end(&bytes, &after, side, to);
    assert_eq!(is_intact(&bytes, &after), intact, "{after:?}");
    if let Some(from) = end_before(data, &before, side) {
        rewrite(&mut bytes, &after, false, side, from);
        assert!(is_same(&bytes, data), "{before:?}\n{bytes:x?}\n{data:x?}");
    }
}

/// The end that is changed; `None` for an error that does not come from, or go to, an end of what it quotes: nothing
/// brings that back.
fn end_before(bytes: &[u8], shape: &Shape, side: Side) -> Option<End> {
    let end = shape.end(side);
    if shape.kind != Kind::Error {
        return Some(end);
    }
    let Some(quote) = shape.quote(bytes) else { return Some(end) };
    Some(quote.end(side.other())).filter(|quoted| quoted.addr == end.addr)
}

fn check_end(bytes: &[u8], after: &Shape, side: Side, to: End) {
    assert_eq!(after.end(side).addr, to.addr);
    if matches!(after.kind, Kind::Tcp(_) | Kind::Udp | Kind::Query) {
        assert_eq!(after.end(side).port, to.port);
    }
    if after.kind == Kind::Error
        && let Some(quote) = after.quote(bytes)
    {
        assert_eq!(quote.end(side.other()).addr, to.addr);
    }
}

/// Whether header and upper layer have right checksums, as far as they have any.
fn is_intact(bytes: &[u8], shape: &Shape) -> (bool, bool) {
    let l4 = bytes.get(usize::from(shape.l4)..).unwrap_or_default();
    let header = bytes.get(..usize::from(shape.l4)).unwrap_or_default();
    let pseudo = match shape.protocol {
        Protocol::ICMP => Sum::new(),
        Protocol::TCP | Protocol::UDP | Protocol::ICMP6 => {
            let sum = Sum::new().bytes(&shape.src.addr.to_be_bytes()).bytes(&shape.dst.addr.to_be_bytes());
            sum.u16(shape.protocol.0.into()).u32(u32::try_from(l4.len()).unwrap_or(u32::MAX))
        }
        _ => return (is_sum(shape, header), false),
    };
    let has_none = shape.protocol == Protocol::UDP && l4.get(6..8) == Some(&[0, 0]);
    // A sum of zeros alone is the other zero, which differences do not tell from the right one.
    let is_right = matches!(pseudo.bytes(l4).folded(), 0 | 0xffff);
    (is_sum(shape, header), shape.kind != Kind::Later && !has_none && is_right)
}

fn is_sum(shape: &Shape, header: &[u8]) -> bool {
    shape.is_ip4 && Sum::new().bytes(header).is_intact()
}

/// Whether two packets are the same but for the two forms of a zero checksum.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let is_zero = |word: &[u8]| word == [0, 0] || word == [0xff, 0xff];
    let mut words = one.chunks(2).zip(other.chunks(2));
    one.len() == other.len() && words.all(|(a, b)| a == b || is_zero(a) && is_zero(b))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    /// An echo reply that is zeros to its end, its checksum among them.
    #[test]
    fn a_message_of_zeros_is_as_right_with_either_zero_for_a_checksum() {
        let mut header = vec![0x45, 0, 0, 60, 0, 0, 0, 0, 2, 1, 0, 0, 192, 0, 2, 1, 10, 113, 0, 0];
        header.resize(60, 0);
        super::round_trip(&[&[0x9a; 19][..], &header].concat());
    }

    proptest! {
        #[test]
        fn packets_of_all_kinds_and_errors_about_them_go_there_and_back_on_any_number_of_cpus(
            bytes in prop::collection::vec(any::<u8>(), 15..400),
        ) {
            super::nat(&bytes);
        }

        #[test]
        fn packets_and_errors_go_to_the_other_family_and_back_on_any_number_of_cpus(
            bytes in prop::collection::vec(any::<u8>(), 15..400),
        ) {
            super::families(&bytes);
        }

        #[test]
        fn what_says_that_it_is_a_packet_becomes_one_of_the_other_family_or_dies(
            bytes in prop::collection::vec(any::<u8>(), 43..200),
        ) {
            super::families_of_any(&bytes);
        }

        #[test]
        fn prefixes_of_all_lengths_are_exchanged_there_and_back(
            bytes in prop::collection::vec(any::<u8>(), 56..120),
        ) {
            super::prefixes(&bytes);
        }
    }
}
