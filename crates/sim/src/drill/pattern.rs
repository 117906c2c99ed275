//! Bytes that a script leaves open: what its segments bring, and what its program sends.
//!
//! Each follows from its position in its stream, and differs from its neighbours and from what the other direction has there.
//! So bytes that arrive in another place, twice, or not at all are noticed.

/// Which stream bytes are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// From the other end to the host. Positions are sequence numbers on the wire.
    ToHost,
    /// From the program to the other end. Positions count from the first byte.
    FromHost,
}

impl Stream {
    /// The byte in this place.
    pub(super) const fn byte(self, position: u32) -> u8 {
        // The golden ratio: neighbours are far from each other.
        let [spread, ..] = position.wrapping_mul(0x9e37_79b1).to_be_bytes();
        match self {
            Self::ToHost => spread,
            Self::FromHost => !spread,
        }
    }

    /// Returns a number of bytes from this position on.
    pub(super) fn bytes(self, position: u32, len: usize) -> Vec<u8> {
        (0..len).zip(0..).map(|(_, n)| self.byte(position.wrapping_add(n))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_and_directions_differ() {
        for at in [0, 1, 1000, u32::MAX - 20] {
            let [to, from] = [Stream::ToHost, Stream::FromHost].map(|stream| stream.bytes(at, 40));
            for distance in 1..16 {
                assert!(to.iter().zip(&to[distance..]).all(|(a, b)| a != b), "{distance} from {at}");
            }
            assert!(to.iter().zip(&from).all(|(to, from)| to != from));
            assert_eq!(to[7..], Stream::ToHost.bytes(at.wrapping_add(7), 33));
        }
    }
}
