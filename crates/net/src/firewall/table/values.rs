//! The values of tables, by the number in their leaves.
//!
//! Small numbers stand there themselves. Large ones and addresses are kept here, each once, whichever tables have it.

use core::net::{Ipv4Addr, Ipv6Addr};
use core::sync::atomic::Ordering::Relaxed;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use ipfw::rule::TableArg;
use pkt::atomic_array::Words;

use crate::fib::{Epoch, VALUE_MAX};

/// Different large values in all tables.
pub(super) const VALUES_MAX: u32 = 1 << 20;

/// In a leaf: what follows is a place here, and not a number. A number is one more than it is, because zero is nothing.
const KEPT: u32 = VALUE_MAX.div_ceil(2);
/// Words of a value: what it is, and four for the longest.
const WORDS: usize = 8;
const NUMBER: u32 = 1;
const ADDR4: u32 = 2;
const ADDR6: u32 = 3;

/// All values, for readers. One is written before a leaf names it, and not changed while one may.
#[derive(Debug)]
pub(super) struct Values {
    words: Words,
}

/// Which there are, and how many entries have each.
#[derive(Debug)]
pub(super) struct Keeper {
    values: Arc<Values>,
    /// By what they are: kind and bits.
    known: BTreeMap<(u32, u128), (u32, u32)>,
    next: u32,
    free: Vec<u32>,
    waiting: VecDeque<(Epoch, u32)>,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<((u32, u128), (u32, u32))>() <= 48);

impl Values {
    /// Returns the value of a leaf; `None` if it has none.
    pub(super) fn get(&self, leaf: u32) -> Option<TableArg> {
        if leaf < KEPT {
            return leaf.checked_sub(1).map(TableArg::Number);
        }
        let start = (leaf - KEPT) as usize * WORDS;
        let value = self.words.get(start..start + WORDS)?;
        let bits = value.get(1..5)?.iter().fold(0, |bits, word| bits << 32 | u128::from(word.load(Relaxed)));
        of_bits(value.first()?.load(Relaxed), bits)
    }
}

impl Keeper {
    pub(super) fn new() -> io::Result<Self> {
        let values = Arc::new(Values { words: Words::zeroed(VALUES_MAX as usize * WORDS)? });
        let (known, free, waiting) = (BTreeMap::new(), Vec::new(), VecDeque::new());
        Ok(Self { values, known, next: 0, free, waiting })
    }

    pub(super) fn values(&self) -> Arc<Values> {
        Arc::clone(&self.values)
    }

    /// Returns the leaf of this value, which then counts one more; `None` if there are too many.
    pub(super) fn take(&mut self, value: TableArg) -> Option<u32> {
        if let TableArg::Number(number) = value
            && number < KEPT - 1
        {
            return Some(number + 1);
        }
        let name = bits_of(value);
        if let Some((at, count)) = self.known.get_mut(&name) {
            *count += 1;
            return Some(KEPT + *at);
        }
        let at = self.free.pop().or_else(|| (self.next < VALUES_MAX).then_some(self.next))?;
        self.next = self.next.max(at + 1);
        let words = self.values.words.get(at as usize * WORDS..)?;
        words.first()?.store(name.0, Relaxed);
        for (word, shift) in words.get(1..5)?.iter().zip([96, 64, 32, 0]) {
            word.store(u32::try_from(name.1 >> shift & 0xffff_ffff).unwrap_or(0), Relaxed);
        }
        self.known.insert(name, (at, 1));
        Some(KEPT + at)
    }

    /// Releases a leaf of this value: its place is free when it is unused and `epoch` is over.
    pub(super) fn give(&mut self, leaf: u32, epoch: Epoch) {
        let Some(TableArg::Number(_) | TableArg::Addr(_)) = self.values.get(leaf).filter(|_| leaf >= KEPT)
        else {
            return;
        };
        let Some(name) = self.values.get(leaf).map(bits_of) else { return };
        if let Some((at, count)) = self.known.get_mut(&name) {
            *count -= 1;
            if *count == 0 {
                self.waiting.push_back((epoch, *at));
                self.known.remove(&name);
            }
        }
    }

    /// All CPUs have passed `epoch`.
    pub(super) fn retire(&mut self, epoch: Epoch) {
        while let Some((_, at)) = self.waiting.pop_front_if(|(of, _)| *of <= epoch) {
            self.free.push(at);
        }
    }
}

const fn bits_of(value: TableArg) -> (u32, u128) {
    match value {
        TableArg::Number(number) => (NUMBER, number as u128),
        TableArg::Addr(core::net::IpAddr::V4(addr)) => (ADDR4, addr.to_bits() as u128),
        TableArg::Addr(core::net::IpAddr::V6(addr)) => (ADDR6, addr.to_bits()),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "shorter values are in the lower bits")]
fn of_bits(kind: u32, bits: u128) -> Option<TableArg> {
    match kind {
        NUMBER => Some(TableArg::Number(bits as u32)),
        ADDR4 => Some(TableArg::Addr(Ipv4Addr::from_bits(bits as u32).into())),
        ADDR6 => Some(TableArg::Addr(Ipv6Addr::from_bits(bits).into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_beyond_the_last_place_is_refused_until_another_goes() {
        let mut keeper = Keeper::new().unwrap();
        let value = |n: u32| TableArg::Number(u32::MAX - n);
        let leaves: Vec<_> = (0..VALUES_MAX).map_while(|n| keeper.take(value(n))).collect();
        assert_eq!(leaves.len(), VALUES_MAX as usize);
        assert_eq!(keeper.take(value(VALUES_MAX)), None);
        assert_eq!(keeper.take(value(5)), Some(leaves[5]));
        let mut epoch = Epoch::default();
        for _ in 0..2 {
            epoch = epoch.next();
            keeper.give(leaves[5], epoch);
        }
        // A CPU may still read it.
        assert_eq!(keeper.take(value(VALUES_MAX)), None);
        keeper.retire(epoch);
        assert_eq!(keeper.take(value(VALUES_MAX)), Some(leaves[5]));
        assert_eq!(keeper.values().get(leaves[5]), Some(value(VALUES_MAX)));
    }
}
