//! The copies used last, found without the keyed hash.
//!
//! Each key has one place, which can be computed without a secret. A sender to many neighbours that share a place only sends its
//! own packets to the keyed table behind.

use core::net::IpAddr;

use super::{Key, LinkAddrs};

/// A page of them: few enough to stay in the first-level cache, and a power of two.
const LINES: usize = 64;

pub(super) struct Front {
    lines: [Option<(Key, LinkAddrs)>; LINES],
}

impl Front {
    pub(super) const fn new() -> Self {
        Self { lines: [None; LINES] }
    }

    #[inline]
    pub(super) fn get(&self, key: &Key) -> Option<LinkAddrs> {
        match &self.lines[place(key)] {
            Some((of, addrs)) if of == key => Some(*addrs),
            _ => None,
        }
    }

    pub(super) fn set(&mut self, key: &Key, addrs: LinkAddrs) {
        self.lines[place(key)] = Some((*key, addrs));
    }

    /// Must follow every change of the copy of `key`.
    pub(super) fn forget(&mut self, key: &Key) {
        self.lines[place(key)].take_if(|(of, _)| of == key);
    }

    pub(super) fn clear(&mut self) {
        self.lines.fill(None);
    }
}

#[inline]
fn place(key: &Key) -> usize {
    let word = match key.addr {
        IpAddr::V4(addr) => addr.to_bits(),
        IpAddr::V6(addr) => {
            let [.., a, b, c, d, e, f, g, h] = addr.octets();
            u32::from_be_bytes([a, b, c, d]) ^ u32::from_be_bytes([e, f, g, h])
        }
    };
    let mixed = word ^ word >> 6 ^ word >> 12 ^ u32::from(key.ifindex);
    mixed as usize % LINES
}
