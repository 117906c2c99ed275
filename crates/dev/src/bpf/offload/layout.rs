//! Layout of what the program and this process share. Numbers are in the order of memory; what is copied into frames or
//! compared with them is in the order of the wire.

use net::flow::offload::{BITS_V4, BITS_V6};

/// An odd number whose multiples' upper bits depend on all bits of the other factor: 2^64 divided by the golden ratio.
pub(super) const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Flow4,
    Flow6,
    /// For all packets to a destination of either family.
    Destination,
}

/// A bucket of slots: one element of the array.
pub(super) mod slot {
    /// Slots of a bucket.
    pub(in super::super) const WAYS: i16 = 8;
}

/// Words that all programs read.
pub(super) mod ctl {
    /// The generation of valid records, 32 bits.
    pub(in super::super) const GENERATION: i16 = 0;
    /// Records of destinations of either family by the bits that they have in common, 32 bits each.
    pub(in super::super) const DESTINATIONS_V4: i16 = 4;
    pub(in super::super) const DESTINATIONS_V6: i16 = 16;
    /// [Bits of our own addresses](super::own_bits), in words of 64.
    pub(in super::super) const OWN: i16 = 64;
    pub(in super::super) const OWN_BITS: u32 = 4096;
    pub(in super::super) const BYTES: u32 = 64 + OWN_BITS / 8;
}

/// Words of one interface.
pub(super) mod port {
    /// Its number, where the key has it; 0 without offload.
    pub(in super::super) const KEY: i16 = 0;
    /// Its link address.
    pub(in super::super) const MAC: i16 = 8;
    /// Frames that came up because the record of their flow was of an earlier generation, or being written.
    pub(in super::super) const STALE: i16 = 16;
    /// Frames that came up although their flow has a record: their kind is not for it.
    pub(in super::super) const EXCEPTIONS: i16 = 24;
    pub(in super::super) const BYTES: u32 = 64;
}

/// A next hop.
pub(super) mod hop {
    /// Link addresses.
    pub(in super::super) const LINK: i16 = 0;
    /// Bytes of the largest packet, 32 bits.
    pub(in super::super) const MTU: i16 = 12;
    /// Its egress device's place in the map of devices, 32 bits.
    pub(in super::super) const DEVICE: i16 = 16;
    pub(in super::super) const BYTES: u32 = 32;
    /// Next hops at once.
    pub(in super::super) const MAX: u32 = 4096;
}

/// Offsets of a record:
///
/// ```text
/// IPv4   0 addresses │  8 rest of key │ 16 seq, generation │ 24 deltas, hop, flags │ 32 sum, ports │ 40 addresses
///       48 packets, bytes
/// IPv6   0 addresses │ 32 rest of key │ 40 seq, generation │ 48 deltas, hop, flags │ 56 sum, ports
///       64 packets, bytes │ 80 addresses
/// to     0 address   │ 16 rest of key │ 24 seq, generation │ 32 deltas, hop, flags │ 40 unused
///       48 packets, bytes
/// ```
///
/// The rest of a destination's key is the interface, the bits that destinations have in common, and in its lowest bits the version of IP.
impl Kind {
    /// Bytes of a slot.
    pub(super) const fn bytes(self) -> i16 {
        match self {
            Self::Flow4 | Self::Destination => 64,
            Self::Flow6 => 128,
        }
    }

    /// Bytes of a bucket.
    pub(super) const fn bucket(self) -> usize {
        self.bytes().unsigned_abs() as usize * slot::WAYS.unsigned_abs() as usize
    }

    /// Offset of a slot in its bucket.
    pub(super) const fn way_at(self, way: i16) -> i16 {
        way * self.bytes()
    }

    /// Ports, protocol, class, interface.
    pub(super) const fn rest_at(self) -> i16 {
        match self {
            Self::Flow4 => 8,
            Self::Flow6 => 32,
            Self::Destination => 16,
        }
    }

    /// 32 bits, odd while the record is being written or there is none.
    pub(super) const fn sequence_at(self) -> i16 {
        self.rest_at() + 8
    }

    pub(super) const fn generation_at(self) -> i16 {
        self.rest_at() + 12
    }

    /// Deltas of the checksums of IP and of the upper layer, the hop, flags: 16 bits each.
    pub(super) const fn deltas_at(self) -> i16 {
        self.rest_at() + 16
    }

    pub(super) const fn hop_at(self) -> i16 {
        self.deltas_at() + 4
    }

    /// The sum of the pseudo-header without the length, and the new ports.
    pub(super) const fn sum_at(self) -> i16 {
        self.rest_at() + 24
    }

    /// The new addresses of a flow.
    pub(super) const fn addresses_at(self) -> i16 {
        match self {
            Self::Flow4 | Self::Destination => 40,
            Self::Flow6 => 80,
        }
    }

    /// 64 bits, and as many of bytes behind them.
    pub(super) const fn packets_at(self) -> i16 {
        match self {
            Self::Flow4 | Self::Destination => 48,
            Self::Flow6 => 64,
        }
    }

    /// Words that the program copies.
    pub(super) const fn fields(self) -> &'static [i16] {
        match self {
            Self::Flow4 => &[24, 32, 40],
            Self::Flow6 => &[48, 56, 80, 88, 96, 104],
            Self::Destination => &[32],
        }
    }
}

/// The family of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    /// Returns the kind of the records of its flows.
    pub(super) const fn flow(self) -> Kind {
        match self {
            Self::V4 => Kind::Flow4,
            Self::V6 => Kind::Flow6,
        }
    }

    /// Numbers of bits that destinations of one record may have in common, each with its place among the words that all programs read.
    pub(super) fn common_bits(self) -> impl Iterator<Item = (u8, i16)> {
        let (all, at) = match self {
            Self::V4 => (&BITS_V4[..], ctl::DESTINATIONS_V4),
            Self::V6 => (&BITS_V6[..], ctl::DESTINATIONS_V6),
        };
        all.iter().copied().zip((at..).step_by(4))
    }

    /// Where the time to live is in a frame, or the hop limit.
    pub(super) const fn ttl_at(self) -> i16 {
        match self {
            Self::V4 => 22,
            Self::V6 => 21,
        }
    }

    /// Where addresses begin in a frame, and the bytes of both.
    pub(super) const fn addresses_at(self) -> (i16, i16) {
        match self {
            Self::V4 => (26, 8),
            Self::V6 => (22, 32),
        }
    }

    /// Copies of the new addresses on the program's stack, and where in a frame they belong.
    pub(super) const fn addresses(self) -> &'static [(i16, i16)] {
        use super::program::FIELDS;
        match self {
            Self::V4 => &[(FIELDS[2], 26)],
            Self::V6 => &[(FIELDS[2], 22), (FIELDS[3], 30), (FIELDS[4], 38), (FIELDS[5], 46)],
        }
    }

    /// Where the upper layer begins in a frame.
    pub(super) const fn l4_at(self) -> i16 {
        match self {
            Self::V4 => 34,
            Self::V6 => 54,
        }
    }
}

/// Place of the number of common bits in a destination's key.
pub(super) const BITS: u32 = 8;

/// The version of IP, as the key of a destination has it.
pub(super) const fn version(family: Family) -> u64 {
    match family {
        Family::V4 => 4,
        Family::V6 => 6,
    }
}

/// The bits of an address in the filter of our own, of the address' words in the order of memory: packets from one both of whose
/// bits are set are left to the stack, which looks closer. With a dozen addresses that is one stranger in thirty thousand.
pub(super) fn own_bits([first, second]: [u64; 2]) -> [usize; 2] {
    let bits = (mixed(first) ^ second).wrapping_mul(FACTOR) >> OWN_SHIFT;
    let mask = u64::from(ctl::OWN_BITS - 1);
    [bits >> ctl::OWN_BITS.ilog2(), bits & mask].map(|bit| usize::try_from(bit).unwrap_or(0))
}

/// Multiplies, so that all bits of a word depend on the lower ones.
const fn mixed(word: u64) -> u64 {
    let product = word.wrapping_mul(FACTOR);
    product ^ product >> 32
}

/// Leaves as many of 64 bits as two numbers of bits of the filter have.
pub(super) const OWN_SHIFT: u32 = u64::BITS - 2 * ctl::OWN_BITS.ilog2();

/// Hashes the words of a key.
pub(super) fn hash(words: &[u64], secret: &[u64; 4]) -> u64 {
    let (rest, addresses) = words.split_last().unwrap_or((&0, &[]));
    let mut hash = 0;
    let round = |hash: u64, word: u64, secret: u64| mixed(hash ^ word ^ secret);
    for (word, secret) in addresses.iter().zip(secret) {
        hash = round(hash, *word, *secret);
    }
    round(hash, *rest, secret[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_fills_its_slot_and_no_more() {
        let counts: Vec<i16> =
            [Family::V4, Family::V6].into_iter().flat_map(Family::common_bits).map(|(_, at)| at).collect();
        assert_eq!(counts, [4, 8, 12, 16, 20, 24, 28]);
        let [four, six, to] = [Kind::Flow4, Kind::Flow6, Kind::Destination];
        assert_eq!(four.packets_at() + 16, four.bytes());
        assert_eq!(six.addresses_at() + 32, 112);
        assert_eq!((to.packets_at() + 16, to.deltas_at()), (to.bytes(), to.fields()[0]));
        assert_eq!((four.fields()[0], six.fields()[0]), (four.deltas_at(), six.deltas_at()));
        assert_eq!((four.fields()[1], six.fields()[1]), (four.sum_at(), six.sum_at()));
        assert_eq!((four.fields()[2], six.fields()[2]), (four.addresses_at(), six.addresses_at()));
    }

    #[test]
    fn addresses_of_neighbouring_networks_have_bits_of_their_own() {
        let hosts = (0..16_u64).flat_map(|net| (0..16_u64).map(move |host| [0xfd77 | net << 56, host << 56]));
        let bits: std::collections::HashSet<[usize; 2]> = hosts.map(own_bits).collect();
        assert_eq!(bits.len(), 256);
        assert!(bits.iter().flatten().all(|bit| *bit < ctl::OWN_BITS as usize));
    }
}
