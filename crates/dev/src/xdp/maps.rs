//! Maps of programs that run in this process: arrays and hash tables of fixed size, shared by all CPUs.
//!
//! Lookups take no lock. An entry that is deleted, or evicted, may be used for another key while a program still has its
//! address, as in the kernel.

mod trie;

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::io;
use std::sync::{Mutex, PoisonError};

use self::trie::{LENGTH_BYTES, Trie};
use super::memory::Memory;
use super::object::MapDef;
use crate::bpf::user::{self, SharedArray};

/// Memory of all maps of a program in this process.
pub(super) const BYTES_MAX: u64 = 256 << 20;
/// Longest key in this process.
pub(super) const KEY_MAX: usize = 64;
/// Entries that a lookup looks at.
const STEPS_MAX: usize = 256;
/// Entries that an insertion into a full LRU table looks at to find one that was not used lately.
const SWEEP_MAX: usize = 64;

/// A map.
pub(super) struct Map {
    pub(super) key_size: usize,
    pub(super) value_size: usize,
    entries: u32,
    /// Bytes from one value to the next.
    stride: u64,
    /// Values that each entry has: one, or one for each CPU.
    copies: u64,
    pub(super) values: Memory,
    kind: Kind,
    /// Keeps a map that is shared with user space.
    _shared: Option<SharedArray>,
}

enum Kind {
    Array,
    Hash(Box<Table>),
    Trie(Box<Trie>),
    /// Sockets of the interface's own rings.
    Sockets,
}

/// A hash table: chains of entries by their keys' hash.
struct Table {
    keys: Memory,
    heads: Vec<AtomicU32>,
    links: Vec<AtomicU32>,
    /// Whether an entry was looked up since it was last passed over, if the least recently used is evicted.
    used: Option<Vec<AtomicU8>>,
    secret: u64,
    changes: Mutex<Changes>,
}

struct Changes {
    free: Vec<u32>,
    hand: u32,
}

/// Why a map cannot be had in this process.
#[derive(Debug, thiserror::Error)]
#[error("map `{name}`: {why}")]
pub struct MapError {
    name: String,
    why: String,
}

const NO_PREALLOC: u32 = 1;
const LPM_TRIE: u32 = 11;

/// Errors of helpers (`errno`).
pub(super) const ENOENT: i64 = -2;
pub(super) const E2BIG: i64 = -7;
pub(super) const EEXIST: i64 = -17;
pub(super) const EINVAL: i64 = -22;
pub(super) const ENOSPC: i64 = -28;

impl Map {
    /// Whether a process can have it: whether keys are hashed, the least recently used is evicted, each CPU has a value.
    pub(super) fn check(def: &MapDef) -> Result<[bool; 3], MapError> {
        let wrong = |why: &str| MapError { name: def.name.clone(), why: why.to_owned() };
        let [is_hash, is_lru, per_cpu] = match def.kind {
            1 => [true, false, false],
            2 | 17 => [false, false, false],
            5 => [true, false, true],
            6 => [false, false, true],
            9 => [true, true, false],
            10 => [true, true, true],
            LPM_TRIE if def.flags & NO_PREALLOC == 0 || def.key_size as usize <= LENGTH_BYTES => {
                return Err(wrong("a trie needs the flag BPF_F_NO_PREALLOC, and a key of more than 4 bytes"));
            }
            LPM_TRIE => [true, false, false],
            14 | 25 => {
                return Err(wrong(
                    "a devmap has interfaces of the kernel; without AF_XDP use bpf_redirect() with an interface's number",
                ));
            }
            other => {
                let kind = user::kind_name(other);
                return Err(wrong(&format!("its type ({kind}) is only to be had on AF_XDP interfaces")));
            }
        };
        let is_key = (1..=KEY_MAX).contains(&(def.key_size as usize)) && (is_hash || def.key_size == 4);
        if def.entries == 0 || def.value_size == 0 || !is_key {
            return Err(wrong(
                "entries, key or value have a size of 0, or the key is longer than 64 bytes (an array's has 4)",
            ));
        }
        if def.pinned && (is_hash || per_cpu) {
            return Err(wrong(
                "only an array can be shared with user space without AF_XDP: the kernel lets no other be mapped",
            ));
        }
        if u64::from(def.value_size) * u64::from(def.entries) > BYTES_MAX {
            return Err(wrong("it takes more than 256 MiB"));
        }
        Ok([is_hash, is_lru, per_cpu])
    }

    /// Makes a map for programs on `cpus` CPUs.
    pub(super) fn new(def: &MapDef, cpus: u64) -> Result<Self, MapError> {
        let wrong = |why: &str| MapError { name: def.name.clone(), why: why.to_owned() };
        let [is_hash, is_lru, per_cpu] = Self::check(def)?;
        let copies = if per_cpu { cpus } else { 1 };
        let stride = u64::from(def.value_size).next_multiple_of(8);
        let key_size = def.key_size as usize;
        let bytes = (stride * copies).checked_mul(def.entries.into()).filter(|bytes| *bytes <= BYTES_MAX);
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| wrong("it takes more than 256 MiB"))?;
        let failed = |why: io::Error| wrong(&why.to_string());
        let shared = def.pinned.then(|| SharedArray::open(def)).transpose();
        let shared = shared.map_err(|why| wrong(&why.to_string()))?;
        let values = match &shared {
            Some(array) => Memory::of_map(array, bytes),
            None => Memory::new(bytes),
        };
        let values = values.map_err(failed)?;
        if !def.data.is_empty() {
            values.write(0, &def.data).ok_or_else(|| wrong("its variables are larger than it is"))?;
        }
        let kind = match def.kind {
            17 => Kind::Sockets,
            LPM_TRIE => Kind::Trie(Box::new(Trie::new(def.entries, key_size).map_err(failed)?)),
            _ if is_hash => Kind::Hash(Box::new(Table::new(def.entries, key_size, is_lru).map_err(failed)?)),
            _ => Kind::Array,
        };
        let value_size = def.value_size as usize;
        Ok(Self { key_size, value_size, entries: def.entries, stride, copies, values, kind, _shared: shared })
    }

    /// Whether it is a map of sockets.
    pub(super) const fn is_sockets(&self) -> bool {
        matches!(self.kind, Kind::Sockets)
    }

    /// Entries, and bytes from one to the next, of an array with one value for all CPUs.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn array(&self) -> Option<(i32, i32)> {
        let is_plain = matches!(self.kind, Kind::Array) && self.copies == 1;
        is_plain.then(|| Some((self.entries.try_into().ok()?, self.stride.try_into().ok()?))).flatten()
    }

    /// Where the value of a key is in [`Self::values`].
    #[inline]
    pub(super) fn lookup(&self, key: &[u8], cpu: u64) -> Option<u64> {
        let entry = match &self.kind {
            Kind::Array => u32::from_le_bytes(*key.first_chunk()?),
            Kind::Hash(table) => table.find(key)?,
            Kind::Trie(trie) => trie.find(key)?,
            Kind::Sockets => return None,
        };
        (entry < self.entries).then(|| self.value_at(entry, cpu))
    }

    /// As [`Self::lookup`], with a key of four or eight bytes.
    #[inline]
    pub(super) fn lookup_word(&self, key: u64, cpu: u64) -> Option<u64> {
        let entry = match &self.kind {
            Kind::Array => u32::try_from(key).ok()?,
            Kind::Hash(table) => table.find_by(hash_word(table.secret, table.secret, key), |at| {
                self.key_size <= 8 && table.keys.load(u64::from(at) << 3, 8) == Some(key)
            })?,
            Kind::Trie(trie) => trie.find(key.to_le_bytes().get(..self.key_size)?)?,
            Kind::Sockets => return None,
        };
        (entry < self.entries).then(|| self.value_at(entry, cpu))
    }

    /// Sets the value of a key.
    pub(super) fn update(&self, key: &[u8], value: &[u8], flags: u64, cpu: u64) -> i64 {
        const NOEXIST: u64 = 1;
        const EXIST: u64 = 2;
        let mut exact = [0; KEY_MAX];
        let exact = match &self.kind {
            Kind::Trie(_) => match trie::prefix(key, &mut exact) {
                Some(exact) => exact,
                None => return EINVAL,
            },
            _ => key,
        };
        let known = match &self.kind {
            Kind::Trie(trie) => trie.exact(exact).map(|entry| self.value_at(entry, cpu)),
            _ => self.lookup(exact, cpu),
        };
        let fill = |entry| {
            for copy in 0..self.copies {
                let at = self.value_at(entry, copy);
                let zeros = (0..self.stride).step_by(8);
                zeros.for_each(|word| _ = self.values.store(at + word, 8, 0));
            }
            self.values.write(self.value_at(entry, cpu), value);
        };
        match (flags, known) {
            (0 | EXIST, Some(at)) => {
                self.values.write(at, value);
                0
            }
            (NOEXIST, Some(_)) => EEXIST,
            (EXIST, None) => ENOENT,
            (0 | NOEXIST, None) => match &self.kind {
                Kind::Hash(table) => table.insert(exact, fill),
                Kind::Trie(trie) => trie.insert(exact, fill),
                Kind::Array => E2BIG,
                Kind::Sockets => EINVAL,
            },
            _ => EINVAL,
        }
    }

    /// Removes a key.
    pub(super) fn delete(&self, key: &[u8]) -> i64 {
        match &self.kind {
            Kind::Hash(table) => table.remove(key),
            Kind::Trie(trie) => trie::prefix(key, &mut [0; KEY_MAX]).map_or(EINVAL, |key| trie.remove(key)),
            Kind::Array | Kind::Sockets => EINVAL,
        }
    }

    #[inline]
    fn value_at(&self, entry: u32, cpu: u64) -> u64 {
        let copy = if self.copies == 1 { 0 } else { cpu % self.copies };
        (u64::from(entry) * self.copies + copy) * self.stride
    }
}

impl Table {
    fn new(entries: u32, key_size: usize, is_lru: bool) -> io::Result<Self> {
        let words = |count: u32| (0..count).map(|_| AtomicU32::new(0)).collect::<Vec<_>>();
        let stride = key_size.next_multiple_of(8);
        let mut secret = [0; 8];
        rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())?;
        Ok(Self {
            keys: Memory::new(stride.saturating_mul(entries as usize))?,
            heads: words(entries.next_power_of_two()),
            links: words(entries),
            used: is_lru.then(|| (0..entries).map(|_| AtomicU8::new(0)).collect()),
            secret: u64::from_ne_bytes(secret) | 1,
            changes: Mutex::new(Changes { free: (0..entries).rev().collect(), hand: 0 }),
        })
    }

    /// The chain of a key.
    #[inline]
    fn head(&self, key: &[u8]) -> &AtomicU32 {
        let hash = key.chunks(8).fold(self.secret, |hash, part| {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            hash_word(self.secret, hash, u64::from_le_bytes(word))
        });
        self.chain(hash)
    }

    #[inline]
    fn chain(&self, hash: u64) -> &AtomicU32 {
        let at = usize::try_from(hash).unwrap_or(0) & (self.heads.len() - 1);
        &self.heads[at]
    }

    /// Whether the entry has this key.
    #[inline]
    fn has(&self, entry: u32, key: &[u8]) -> bool {
        let at = u64::from(entry) * key.len().next_multiple_of(8) as u64;
        let mut parts = (at..).step_by(8).zip(key.chunks(8));
        parts.all(|(at, part)| {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.keys.load(at, 8) == Some(u64::from_le_bytes(word))
        })
    }

    fn find(&self, key: &[u8]) -> Option<u32> {
        self.find_in(self.head(key), |entry| self.has(entry, key))
    }

    #[inline]
    fn find_by(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.find_in(self.chain(hash), is_it)
    }

    #[inline]
    fn find_in(&self, head: &AtomicU32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut link = head.load(Ordering::Acquire);
        for _ in 0..STEPS_MAX {
            // Links are one more than entries.
            let entry = link.checked_sub(1)?;
            if is_it(entry) {
                if let Some(used) = self.used.as_ref().and_then(|used| used.get(entry as usize)) {
                    used.store(1, Ordering::Relaxed);
                }
                return Some(entry);
            }
            link = self.links.get(entry as usize)?.load(Ordering::Acquire);
        }
        None
    }

    fn insert(&self, key: &[u8], fill: impl FnOnce(u32)) -> i64 {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = self.find(key) {
            // Another CPU was faster.
            fill(entry);
            return 0;
        }
        let Some(entry) = changes.free.pop().or_else(|| self.evict(&mut changes, key.len())) else {
            return E2BIG;
        };
        let at = u64::from(entry) * key.len().next_multiple_of(8) as u64;
        for (at, part) in (at..).step_by(8).zip(key.chunks(8)) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.keys.store(at, 8, u64::from_le_bytes(word));
        }
        fill(entry);
        let head = self.head(key);
        if let Some(link) = self.links.get(entry as usize) {
            link.store(head.load(Ordering::Relaxed), Ordering::Release);
            head.store(entry + 1, Ordering::Release);
        }
        drop(changes);
        0
    }

    fn remove(&self, key: &[u8]) -> i64 {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        match self.unlink(key) {
            Some(entry) => {
                changes.free.push(entry);
                0
            }
            None => ENOENT,
        }
    }

    /// Takes the entry of a key out of its chain.
    fn unlink(&self, key: &[u8]) -> Option<u32> {
        let mut place = self.head(key);
        for _ in 0..self.links.len() {
            let entry = place.load(Ordering::Relaxed).checked_sub(1)?;
            let link = self.links.get(entry as usize)?;
            if self.has(entry, key) {
                place.store(link.load(Ordering::Relaxed), Ordering::Release);
                return Some(entry);
            }
            place = link;
        }
        None
    }

    /// Takes an entry away that was not used lately, as the hand of a clock passes over them.
    #[cold]
    fn evict(&self, changes: &mut Changes, key_len: usize) -> Option<u32> {
        let used = self.used.as_ref()?;
        let count = u32::try_from(used.len()).ok()?;
        for step in 0..=SWEEP_MAX {
            let entry = changes.hand % count;
            changes.hand = (entry + 1) % count;
            if used.get(entry as usize)?.swap(0, Ordering::Relaxed) == 0 || step == SWEEP_MAX {
                let mut key = [0; KEY_MAX];
                let key = key.get_mut(..key_len)?;
                self.keys.read(u64::from(entry) * key_len.next_multiple_of(8) as u64, key)?;
                return self.unlink(key);
            }
        }
        None
    }
}

/// Stirs a word of a key into its hash, which begins with the table's secret.
#[inline]
const fn hash_word(secret: u64, hash: u64, word: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let hash = (hash ^ word).wrapping_mul(FACTOR ^ secret << 1);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(kind: u32, entries: u32) -> Map {
        let def = MapDef {
            name: "m".to_owned(),
            kind,
            key_size: 4,
            value_size: 12,
            entries,
            flags: 0,
            pinned: false,
            data: Vec::new(),
        };
        Map::new(&def, 2).unwrap()
    }

    fn get(map: &Map, key: u32, cpu: u64) -> Option<u64> {
        map.lookup(&key.to_le_bytes(), cpu).and_then(|at| map.values.load(at, 8))
    }

    fn put(map: &Map, key: u32, value: u64, flags: u64, cpu: u64) -> i64 {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        map.update(&key.to_le_bytes(), &bytes, flags, cpu)
    }

    #[test]
    fn a_hash_table_holds_its_entries_and_refuses_more() {
        let table = map(1, 100);
        (0..100).for_each(|key| assert_eq!(put(&table, key * 7, key.into(), 1, 0), 0));
        assert_eq!(
            (put(&table, 1, 1, 0, 0), put(&table, 7, 1, 1, 0), put(&table, 1, 1, 2, 0)),
            (E2BIG, EEXIST, ENOENT)
        );
        (0..100).for_each(|key| assert_eq!(get(&table, key * 7, 1), Some(key.into())));
        assert_eq!((table.delete(&7_u32.to_le_bytes()), table.delete(&7_u32.to_le_bytes())), (0, ENOENT));
        assert_eq!((get(&table, 7, 0), put(&table, 1, 5, 0, 0), get(&table, 1, 0)), (None, 0, Some(5)));
    }

    #[test]
    fn a_full_lru_table_evicts_what_was_not_used() {
        let table = map(9, 10);
        (0..10).for_each(|key| assert_eq!(put(&table, key, 1, 0, 0), 0));
        (0..5).for_each(|key| assert!(get(&table, key, 0).is_some()));
        (10..15).for_each(|key| assert_eq!(put(&table, key, 1, 0, 0), 0));
        (0..5).for_each(|key| assert!(get(&table, key, 0).is_some(), "{key} was used"));
        (5..10).for_each(|key| assert!(get(&table, key, 0).is_none(), "{key} was not"));
    }

    #[test]
    fn each_cpu_has_a_value_of_its_own_where_the_map_says_so() {
        for (kind, cpu1) in [(2, 3), (6, 0)] {
            let array = map(kind, 4);
            assert_eq!(
                (put(&array, 3, 3, 0, 0), get(&array, 3, 0), get(&array, 3, 1)),
                (0, Some(3), Some(cpu1))
            );
            assert_eq!((get(&array, 4, 0), put(&array, 4, 1, 0, 0)), (None, E2BIG));
        }
        let table = map(5, 4);
        assert_eq!((put(&table, 9, 3, 0, 0), get(&table, 9, 0), get(&table, 9, 1)), (0, Some(3), Some(0)));
    }
}
