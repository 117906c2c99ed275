//! Tries of prefixes, of which a lookup answers the longest.

use core::sync::atomic::{AtomicU64, Ordering};
use std::io;
use std::sync::{Mutex, PoisonError};

use super::{E2BIG, EINVAL, ENOSPC, KEY_MAX, Table};

/// Lengths of prefixes that a key has room for, behind the length itself.
const LENGTHS_MAX: usize = 512;
pub(super) const LENGTH_BYTES: usize = 4;
const _: () = assert!((KEY_MAX - LENGTH_BYTES) * 8 < LENGTHS_MAX, "each length has a bit");

/// Prefixes, of which the longest is looked up: a hash table of them, and their lengths.
///
/// The key of an entry is the prefix with zeros behind it.
pub(super) struct Trie {
    table: Table,
    /// A bit for each length that there is.
    lengths: [AtomicU64; LENGTHS_MAX / 64],
    /// Entries of each length.
    counts: Mutex<Box<[u32; LENGTHS_MAX]>>,
}

impl Trie {
    pub(super) fn new(entries: u32, key_size: usize) -> io::Result<Self> {
        Ok(Self {
            table: Table::new(entries, key_size, false)?,
            lengths: [const { AtomicU64::new(0) }; LENGTHS_MAX / 64],
            counts: Mutex::new(Box::new([0; LENGTHS_MAX])),
        })
    }

    /// The entry with the longest prefix of a key that is not longer than the key says.
    pub(super) fn find(&self, key: &[u8]) -> Option<u32> {
        let mut left = KEY_MAX;
        let mut masked = [0; KEY_MAX];
        let mut length = length_of(key)?;
        masked.get_mut(..key.len())?.copy_from_slice(key);
        loop {
            let (word, bit) = (length / 64, length % 64);
            let shorter = self.lengths.get(word)?.load(Ordering::Acquire) & (u64::MAX >> (63 - bit));
            if shorter == 0 {
                length = (word * 64).checked_sub(1)?;
                continue;
            }
            length = word * 64 + 63 - shorter.leading_zeros() as usize;
            left = mask(&mut masked, length, left.min(key.len()));
            if let Some(entry) = self.table.find(masked.get(..key.len())?) {
                return Some(entry);
            }
            length = length.checked_sub(1)?;
        }
    }

    /// The entry of a prefix, as [`prefix`] answers it.
    pub(super) fn exact(&self, prefix: &[u8]) -> Option<u32> {
        self.table.find(prefix)
    }

    pub(super) fn insert(&self, prefix: &[u8], fill: impl FnOnce(u32)) -> i64 {
        let Some(length) = length_of(prefix) else { return EINVAL };
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = self.table.find(prefix).is_none();
        let answer = self.table.insert(prefix, fill);
        if answer == 0 && is_new {
            counts[length] += 1;
            self.lengths[length / 64].fetch_or(1 << (length % 64), Ordering::Release);
        }
        drop(counts);
        // As the kernel's tries say it.
        if answer == E2BIG { ENOSPC } else { answer }
    }

    pub(super) fn remove(&self, prefix: &[u8]) -> i64 {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(length) = length_of(prefix) else { return EINVAL };
        let removed = self.table.remove(prefix);
        if removed == 0 {
            counts[length] -= 1;
            if counts[length] == 0 {
                self.lengths[length / 64].fetch_and(!(1 << (length % 64)), Ordering::Release);
            }
        }
        drop(counts);
        removed
    }
}

/// The length that the key of a trie begins with, if the key has so many bits.
fn length_of(key: &[u8]) -> Option<usize> {
    let (length, bits) = key.split_first_chunk::<LENGTH_BYTES>()?;
    let length = usize::try_from(u32::from_ne_bytes(*length)).ok()?;
    (length <= bits.len() * 8).then_some(length)
}

/// The prefix that the key of a trie names: zeros are behind it.
pub(super) fn prefix<'m>(key: &[u8], masked: &'m mut [u8; KEY_MAX]) -> Option<&'m [u8]> {
    let length = length_of(key)?;
    masked.get_mut(..key.len())?.copy_from_slice(key);
    mask(masked, length, key.len());
    masked.get(..key.len())
}

/// Makes a key a shorter prefix. Of the bytes before `left` those behind the prefix are cleared; answers how many are left.
fn mask(key: &mut [u8; KEY_MAX], length: usize, left: usize) -> usize {
    let bytes = u32::try_from(length).unwrap_or(0).to_ne_bytes();
    key[..LENGTH_BYTES].copy_from_slice(&bytes);
    let last = LENGTH_BYTES + length / 8;
    if let Some(part) = key.get_mut(last..left)
        && let Some((first, rest)) = part.split_first_mut()
    {
        *first &= !(0xff >> (length % 8));
        rest.fill(0);
    }
    left.min(last + 1)
}

#[cfg(test)]
mod tests {
    use super::super::{EEXIST, ENOENT, Map};
    use super::*;
    use crate::xdp::object::MapDef;

    fn map(key_size: u32, entries: u32) -> Map {
        let def = MapDef {
            name: "t".to_owned(),
            kind: 11,
            key_size,
            value_size: 8,
            entries,
            flags: 1,
            pinned: false,
            data: Vec::new(),
        };
        Map::new(&def, 2).unwrap()
    }

    fn key(length: u32, addr: &[u8]) -> Vec<u8> {
        [&length.to_ne_bytes()[..], addr].concat()
    }

    /// Prefixes of both families, against a list of them.
    #[test]
    fn the_longest_prefix_is_found_and_prefixes_come_and_go() {
        for bytes in [4_usize, 16] {
            let trie = map(u32::try_from(LENGTH_BYTES + bytes).unwrap(), 60);
            let mut state = 9_u64;
            let mut random = |below: u32| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                u32::try_from(state >> 33).unwrap() % below
            };
            let bits = u32::try_from(bytes * 8).unwrap();
            let mut list: Vec<(u32, u128, u64)> = Vec::new();
            let of = |addr: u128, length: u32| {
                if length == 0 { 0 } else { addr >> (bits - length) }
            };
            for n in 0..20_000_u64 {
                // Few addresses, so that prefixes cover each other.
                let mut addr = vec![0; bytes];
                addr.iter_mut().for_each(|byte| *byte = [0, 0x80, 0xff, 1][random(4) as usize]);
                let number = addr.iter().fold(0, |all, byte| all << 8 | u128::from(*byte));
                let length = random(bits + 1);
                let at =
                    list.iter().position(|(len, of_it, _)| (*len, *of_it) == (length, of(number, length)));
                match random(4) {
                    0 => {
                        let answer = trie.update(&key(length, &addr), &n.to_ne_bytes(), 0, 0);
                        match at {
                            Some(at) => list[at].2 = n,
                            None if list.len() < 60 => list.push((length, of(number, length), n)),
                            None => assert_eq!(answer, ENOSPC),
                        }
                        assert!(answer == 0 || at.is_none() && list.len() == 60, "{answer}");
                    }
                    1 => {
                        assert_eq!(trie.delete(&key(length, &addr)), if at.is_some() { 0 } else { ENOENT });
                        at.map(|at| list.swap_remove(at));
                    }
                    _ => {
                        let matching =
                            list.iter().filter(|one| one.0 <= length && of(number, one.0) == one.1);
                        let longest = matching.max_by_key(|one| one.0).map(|one| one.2);
                        let found = trie.lookup(&key(length, &addr), 0);
                        assert_eq!(found.and_then(|at| trie.values.load(at, 8)), longest);
                    }
                }
            }
        }
    }

    #[test]
    fn a_prefix_longer_than_its_key_is_none_and_flags_are_obeyed() {
        let trie = map(8, 4);
        let (at, too_long) = (key(8, &[10, 1, 2, 3]), key(33, &[10, 0, 0, 0]));
        assert_eq!((trie.update(&too_long, &[0; 8], 0, 0), trie.delete(&too_long)), (EINVAL, EINVAL));
        assert_eq!(trie.lookup(&too_long, 0), None);
        assert_eq!(trie.update(&at, &[0; 8], 2, 0), ENOENT, "BPF_EXIST");
        assert_eq!((trie.update(&at, &[0; 8], 1, 0), trie.update(&at, &[0; 8], 1, 0)), (0, EEXIST));
        assert_eq!(trie.update(&at, &[0; 8], 3, 0), EINVAL);
        assert!(trie.lookup(&key(32, &[10, 9, 9, 9]), 0).is_some());
        assert_eq!(trie.lookup_word(u64::from_ne_bytes([32, 0, 0, 0, 10, 9, 9, 9]), 0), Some(0));
    }
}
