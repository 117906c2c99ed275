//! A station's reassembly: simple, and as slow as it likes.

use core::net::IpAddr;
use std::collections::BTreeMap;

/// Datagrams that wait for fragments; more, and the oldest is forgotten.
const WAITING_MAX: usize = 64;

/// The key of a datagram under reassembly.
pub(super) type Key = (IpAddr, IpAddr, u8, u32);

/// Datagrams that wait for fragments.
#[derive(Default)]
pub(super) struct Gather {
    waiting: BTreeMap<Key, Parts>,
}

#[derive(Default)]
struct Parts {
    parts: BTreeMap<usize, Vec<u8>>,
    end: Option<usize>,
}

impl Gather {
    /// Takes a fragment; answers the whole payload when it was the last one that was missing.
    pub(super) fn add(&mut self, key: Key, offset: usize, more: bool, data: &[u8]) -> Option<Vec<u8>> {
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_first();
        }
        let parts = self.waiting.entry(key).or_default();
        parts.parts.insert(offset, data.to_vec());
        if !more {
            parts.end = Some(offset + data.len());
        }
        let whole = parts.whole()?;
        self.waiting.remove(&key);
        Some(whole)
    }
}

impl Parts {
    fn whole(&self) -> Option<Vec<u8>> {
        let mut whole = Vec::with_capacity(self.end?);
        for (offset, part) in &self.parts {
            if *offset != whole.len() {
                return None;
            }
            whole.extend_from_slice(part);
        }
        (Some(whole.len()) == self.end).then_some(whole)
    }
}
