//! All datagrams that wait: by key, by source, and in the order in which they began.

use core::net::IpAddr;
use std::collections::VecDeque;

use hashbrown::HashMap;
use pkt::Pkt;

use super::Key;
use super::datagram::{Datagram, Outcome, Piece};
use crate::base::drop::DropReason;
use crate::base::secret::Secret;
use crate::base::time::Instant;

/// Datagrams that wait on one CPU at the most.
pub(super) const DATAGRAMS_MAX: usize = 256;
/// Datagrams that wait of one source at the most.
pub(super) const PER_SOURCE_MAX: usize = 16;

pub(super) struct Table {
    datagrams: HashMap<Key, Datagram, Secret>,
    /// Datagrams that wait of each source.
    sources: HashMap<IpAddr, usize, Secret>,
    /// The datagrams by number, and some that do not wait any more: those that had the key then.
    order: VecDeque<(u64, Key)>,
    /// The number of the latest.
    begun: u64,
    /// Buffers that all of them hold.
    buffers: usize,
}

impl Table {
    pub(super) fn new(key: u128) -> Self {
        Self {
            datagrams: HashMap::with_hasher(Secret::new(key)),
            sources: HashMap::with_hasher(Secret::new(!key)),
            order: VecDeque::new(),
            begun: 0,
            buffers: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    /// Buffers that all datagrams hold.
    pub(super) const fn buffers(&self) -> usize {
        self.buffers
    }

    /// Puts a piece to its datagram, which begins with it if there is none.
    pub(super) fn insert(&mut self, key: Key, piece: Piece, deadline: Instant) -> Outcome {
        self.forget_the_whole();
        let Self { datagrams, sources, order, begun, buffers } = self;
        let datagram = datagrams.entry(key).or_insert_with(|| {
            *begun += 1;
            order.push_back((*begun, key));
            *sources.entry(key.src).or_insert(0) += 1;
            Datagram::new(*begun, deadline)
        });
        *buffers -= datagram.buffers();
        let outcome = datagram.insert(piece);
        *buffers += datagram.buffers();
        outcome
    }

    /// Once in a while the order forgets those that came whole behind one that does not.
    fn forget_the_whole(&mut self) {
        let Self { datagrams, order, .. } = self;
        if order.len() > 2 * DATAGRAMS_MAX {
            order.retain(|(number, key)| datagrams.get(key).is_some_and(|it| it.number == *number));
        }
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<Datagram> {
        let datagram = self.datagrams.remove(key)?;
        self.buffers -= datagram.buffers();
        if let Some(count) = self.sources.get_mut(&key.src) {
            *count -= 1;
            if *count == 0 {
                self.sources.remove(&key.src);
            }
        }
        Some(datagram)
    }

    /// Returns the datagram that is dropped if `key` begins one: of its own source at its limit, so that a source that
    /// loses much harms itself; else the oldest of all, if the limit is reached.
    pub(super) fn crowded_out(&mut self, key: &Key) -> Option<(Key, DropReason)> {
        if self.datagrams.contains_key(key) {
            return None;
        }
        if self.sources.get(&key.src).is_some_and(|count| *count >= PER_SOURCE_MAX) {
            let of_source = self.datagrams.iter().filter(|(other, _)| other.src == key.src);
            let oldest = of_source.min_by_key(|(_, datagram)| datagram.number);
            return oldest.map(|(key, _)| (*key, DropReason::ReassSourceFull));
        }
        let is_full = self.datagrams.len() >= DATAGRAMS_MAX;
        if is_full { self.oldest().map(|key| (key, DropReason::ReassFull)) } else { None }
    }

    /// The datagram that began first.
    pub(super) fn oldest(&mut self) -> Option<Key> {
        let Self { datagrams, order, .. } = self;
        let waits = |&(number, key): &(u64, Key)| datagrams.get(&key).is_some_and(|it| it.number == number);
        while order.pop_front_if(|first| !waits(first)).is_some() {}
        order.front().map(|(_, key)| *key)
    }

    /// Datagrams that the order remembers.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.order.len()
    }

    /// When the first datagram is late.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.datagrams.values().map(|datagram| datagram.deadline).min()
    }

    /// Takes the datagrams out that are late.
    pub(super) fn take_late(&mut self, now: Instant) -> Vec<Datagram> {
        let late = self.datagrams.iter().filter(|(_, datagram)| datagram.deadline <= now);
        let late: Vec<_> = late.map(|(key, _)| *key).collect();
        late.iter().filter_map(|key| self.remove(key)).collect()
    }

    /// Takes all out.
    pub(super) fn drain(&mut self) -> Vec<Pkt> {
        self.sources.clear();
        self.order.clear();
        self.buffers = 0;
        self.datagrams.drain().flat_map(|(_, datagram)| datagram.into_pkts()).collect()
    }
}
