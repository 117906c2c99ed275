//! The control bits.

use core::fmt;
use core::ops::{BitAnd, BitOr};

/// Control bits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// None.
    pub const NONE: Self = Self(0);
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgment number is valid.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer is valid.
    pub const URG: Self = Self(0x20);
    /// ECN echo (RFC 3168).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x80);

    /// Whether all of `flags` are set.
    #[must_use]
    #[inline]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether any of `flags` is set.
    #[must_use]
    #[inline]
    pub const fn intersects(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// These without `flags`.
    #[must_use]
    #[inline]
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }

    /// FIN is set.
    #[must_use]
    #[inline]
    pub const fn fin(self) -> bool {
        self.contains(Self::FIN)
    }

    /// SYN is set.
    #[must_use]
    #[inline]
    pub const fn syn(self) -> bool {
        self.contains(Self::SYN)
    }

    /// RST is set.
    #[must_use]
    #[inline]
    pub const fn rst(self) -> bool {
        self.contains(Self::RST)
    }

    /// PSH is set.
    #[must_use]
    #[inline]
    pub const fn psh(self) -> bool {
        self.contains(Self::PSH)
    }

    /// ACK is set.
    #[must_use]
    #[inline]
    pub const fn ack(self) -> bool {
        self.contains(Self::ACK)
    }

    /// URG is set.
    #[must_use]
    #[inline]
    pub const fn urg(self) -> bool {
        self.contains(Self::URG)
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Flags {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// One letter per flag as in tcpdump: F S R P . U E W.
impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LETTERS: [&str; 8] = ["F", "S", "R", "P", ".", "U", "E", "W"];
        if self.0 == 0 {
            return f.write_str("none");
        }
        let mut set = LETTERS.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 != 0);
        set.try_for_each(|(_, letter)| f.write_str(letter))
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
