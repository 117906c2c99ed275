//! Layout of what the program and this process share. Numbers are in the order of memory; what is copied into frames or
//! compared with them is in the order of the wire.

/// An odd number whose multiples' upper bits depend on all bits of the other factor: 2^64 divided by the golden ratio.
pub(super) const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The family of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
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
    pub(in super::super) const BYTES: u32 = 64;
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
/// ```
impl Family {
    /// Bytes of a slot.
    pub(super) const fn bytes(self) -> i16 {
        match self {
            Self::V4 => 64,
            Self::V6 => 128,
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
            Self::V4 => 8,
            Self::V6 => 32,
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

    /// The new addresses.
    pub(super) const fn addresses_at(self) -> i16 {
        match self {
            Self::V4 => 40,
            Self::V6 => 80,
        }
    }

    /// 64 bits, and as many of bytes behind them.
    pub(super) const fn packets_at(self) -> i16 {
        match self {
            Self::V4 => 48,
            Self::V6 => 64,
        }
    }

    /// Words that the program copies.
    pub(super) const fn fields(self) -> &'static [i16] {
        match self {
            Self::V4 => &[24, 32, 40],
            Self::V6 => &[48, 56, 80, 88, 96, 104],
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

/// Hashes the words of a key.
pub(super) fn hash(words: &[u64], secret: &[u64; 4]) -> u64 {
    let (rest, addresses) = words.split_last().unwrap_or((&0, &[]));
    let mut hash = 0;
    let round = |hash: u64, word: u64, secret: u64| {
        let product = (hash ^ word ^ secret).wrapping_mul(FACTOR);
        product ^ product >> 32
    };
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
        let [four, six] = [Family::V4, Family::V6];
        assert_eq!(four.packets_at() + 16, four.bytes());
        assert_eq!(six.addresses_at() + 32, 112);
        assert_eq!((four.fields()[0], six.fields()[0]), (four.deltas_at(), six.deltas_at()));
        assert_eq!((four.fields()[1], six.fields()[1]), (four.sum_at(), six.sum_at()));
        assert_eq!((four.fields()[2], six.fields()[2]), (four.addresses_at(), six.addresses_at()));
    }
}
