//! Decisions out of bytes; when they are used up, all are nought.

pub(super) struct Input<'b>(&'b [u8]);

impl<'b> Input<'b> {
    pub(super) const fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn u8(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }

    fn u64(&mut self) -> u64 {
        u64::from(self.u32()) | u64::from(self.u32()) << 32
    }

    /// One time in 16.
    pub(super) fn is_rare(&mut self) -> bool {
        self.u8() > 239
    }

    /// Mostly this number, else one beside it, else any.
    pub(super) fn near(&mut self, number: u64) -> u64 {
        match self.u8() {
            0..=239 => number,
            240..=244 => number.wrapping_add(1),
            245..=249 => number.wrapping_sub(1),
            _ => self.u64(),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "any number will do")]
    pub(super) fn near_u32(&mut self, number: u64) -> u32 {
        self.near(number) as u32
    }

    #[expect(clippy::cast_possible_truncation, reason = "any number will do")]
    pub(super) fn near_u16(&mut self, number: u64) -> u16 {
        self.near(number) as u16
    }

    #[expect(clippy::cast_possible_truncation, reason = "any number will do")]
    pub(super) fn near_u8(&mut self, number: u64) -> u8 {
        self.near(number) as u8
    }
}
