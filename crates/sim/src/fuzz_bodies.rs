//! Properties of any bytes at all. The fuzz target checks them, and so do the ordinary tests, with bytes from seeds.

mod channels;
mod hosts;
mod segments;

pub use self::channels::channels;
pub use self::hosts::{hosts, hosts_for_long};
pub use self::segments::segments;

/// Decisions from bytes; zeros when there are no more.
struct Bytes<'a> {
    rest: &'a [u8],
}

impl Bytes<'_> {
    fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    fn half(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn word(&mut self) -> u32 {
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }
}
