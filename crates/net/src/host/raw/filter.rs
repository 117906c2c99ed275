//! Which messages a socket is shown.

/// A bit for each type of message: `ICMP6_FILTER`, and the same for IPv4.
//= https://www.rfc-editor.org/rfc/rfc3542#section-3.2
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter([u64; 4]);

impl Filter {
    /// All pass: what a socket begins with.
    //= https://www.rfc-editor.org/rfc/rfc3542#section-3.2
    //# When an ICMPv6 raw socket is created, it will by default pass all
    //# ICMPv6 message types to the application.
    pub const PASS_ALL: Self = Self([u64::MAX; 4]);
    /// None passes.
    pub const BLOCK_ALL: Self = Self([0; 4]);

    /// Passes this type, too.
    #[must_use]
    pub const fn pass(mut self, kind: u8) -> Self {
        self.0[kind as usize / 64] |= 1 << (kind % 64);
        self
    }

    /// Blocks this type, too.
    #[must_use]
    pub const fn block(mut self, kind: u8) -> Self {
        self.0[kind as usize / 64] &= !(1 << (kind % 64));
        self
    }

    /// Whether this type passes.
    #[must_use]
    pub const fn passes(&self, kind: u8) -> bool {
        self.0[kind as usize / 64] >> (kind % 64) & 1 == 1
    }
}

impl Default for Filter {
    fn default() -> Self {
        Self::PASS_ALL
    }
}
