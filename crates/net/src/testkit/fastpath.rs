//! The fast path must find what the careful one would have found: for every byte of a usual packet, changed.

use core::fmt::Debug;

use pkt::Pkt;

use super::Bench;
use crate::link::tables::Own;
use crate::turn::cpu::Cpu;
use crate::turn::next::Next;

/// Values that each byte is changed to.
const VALUES: [u8; 10] = [0, 1, 0x45, 0x46, 0x60, 0x7f, 0xa9, 0xe0, 0xfe, 0xff];

/// A family's two ways in.
pub(crate) struct Ways<K> {
    /// Answers the destination of a packet that is as usual, from behind the link header.
    pub(crate) short: fn(&mut Pkt, u16, &Own) -> Option<K>,
    /// Takes any packet, and says where it goes; the destination is in the last argument then.
    pub(crate) careful: fn(&mut Cpu, &mut Pkt, &mut K) -> Next,
    /// Where packets go that are to be routed.
    pub(crate) route: Next,
}

/// Takes packets that differ from `usual` in one byte both ways; `mend` puts right what depends on byte `at`.
pub(crate) fn compare<K: Debug + Default + PartialEq>(
    ways: &Ways<K>,
    usual: &[u8],
    mend: fn(&mut [u8], usize),
) {
    let mut bench = Bench::new(2);
    let own = bench.cpu().tables.own.clone();
    let (mut short, mut careful) = (0, 0);
    for (at, to) in (0..usual.len()).flat_map(|at| VALUES.map(|to| (at, to))) {
        let (link, padding) = ([0, 14][at % 2], usize::from(to) % 2);
        let mut packet = usual.to_vec();
        packet[at] = to;
        mend(&mut packet, at);
        packet.resize(packet.len() + padding, 0xee);
        let [mut one, mut other] = [link, 0].map(|link| {
            let mut pkt = bench.cpu().pool.take().unwrap();
            pkt.append(link).unwrap();
            pkt.append(packet.len()).unwrap().copy_from_slice(&packet);
            pkt.rcvif = 1;
            pkt
        });
        if let Some(dst) = (ways.short)(&mut one, u16::try_from(link).unwrap(), &own) {
            let mut key = K::default();
            assert_eq!((ways.careful)(bench.cpu(), &mut other, &mut key), ways.route, "byte {at} is {to}");
            let of = |pkt: &Pkt| (pkt.head().to_vec(), pkt.len(), pkt.l4, pkt.proto, pkt.flags);
            assert_eq!((dst, of(&one)), (key, of(&other)), "byte {at} is {to}");
            short += 1;
        } else {
            assert_eq!(one.head()[link..], packet, "nothing has happened to it");
            careful += 1;
        }
        [one, other].into_iter().for_each(|pkt| bench.cpu().pool.give(pkt));
    }
    assert!(short > 50 && careful > 20, "{short} the short way, {careful} the careful one");
}
