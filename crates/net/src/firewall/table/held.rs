//! One table, with all that its writer knows.

use core::net::IpAddr;
use std::collections::BTreeMap;
use std::sync::Arc;

use ipfw::command::{FlowPart, TableEntry, TableKey, TableKind};
use ipfw::rule::TableArg;

use super::values::Keeper;
use super::{Error, Lookup, MAC_SHIFT, flow_key, shape};
use crate::fib::{Epoch, Trie, TrieWriter};
use crate::link::tables::Tables;

/// Cache lines of nodes for each entry that there may be: reserved, and used when they are needed.
const LINES_OF_ENTRY: usize = 8;
const LINES_MIN: usize = 1 << 12;

/// A table, its writers, and what its keys mean.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) lookup: Arc<Lookup>,
    pub(super) limit: u32,
    pub(super) locked: bool,
    first: TrieWriter,
    v6: Option<TrieWriter>,
    /// Interfaces by name, with their index while they are there. Their values are in the trie, or wait here.
    interfaces: BTreeMap<String, (Option<u32>, TableArg)>,
    flows: BTreeMap<u128, Vec<FlowPart>>,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<(String, (Option<u32>, TableArg))>() <= 56);
const _: () = assert!(size_of::<(u128, Vec<FlowPart>)>() <= 48 && size_of::<FlowPart>() <= 18);

/// Where an entry is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    is_v6: bool,
    key: u128,
    len: u8,
}

impl Held {
    pub(super) fn new(kind: TableKind, limit: u32, keeper: &Keeper, key: u128) -> Result<Self, Error> {
        let lines = LINES_MIN + limit as usize * LINES_OF_ENTRY;
        let trie = || Trie::new(lines).map_err(|_| Error::NoMemory);
        let (first, writer) = trie()?;
        let (v6, writer6) = if kind == TableKind::Addr { Some(trie()?) } else { None }.unzip();
        Ok(Self {
            lookup: Arc::new(Lookup { kind, first, v6, values: keeper.values(), key }),
            limit,
            locked: false,
            first: writer,
            v6: writer6,
            interfaces: BTreeMap::new(),
            flows: BTreeMap::new(),
        })
    }

    fn writer(&mut self, is_v6: bool) -> (&mut TrieWriter, &Trie) {
        match (&mut self.v6, &self.lookup.v6) {
            (Some(writer), Some(trie)) if is_v6 => (writer, trie),
            _ => (&mut self.first, &self.lookup.first),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self.lookup.kind {
            TableKind::Iface => self.interfaces.len(),
            _ => self.first.len() + self.v6.as_ref().map_or(0, TrieWriter::len),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.first.bytes() + self.v6.as_ref().map_or(0, TrieWriter::bytes)
    }

    /// Where a key's entry is, or would be; of a name, if the table is of interfaces, whatever the interface is.
    pub(super) fn place(&self, key: &TableKey) -> Option<At> {
        let first = |key, len| Some(At { is_v6: false, key, len });
        match (self.lookup.kind, key) {
            (TableKind::Addr, TableKey::Addr { addr: IpAddr::V4(addr), len }) => {
                first(u128::from(addr.to_bits()) << 96, *len)
            }
            (TableKind::Addr, TableKey::Addr { addr: IpAddr::V6(addr), len }) => {
                Some(At { is_v6: true, key: addr.to_bits(), len: *len })
            }
            (TableKind::Number, TableKey::Number(number)) => first(u128::from(*number) << 96, 32),
            (TableKind::Mac, TableKey::Mac { addr: [a, b, c, d, e, f], len }) => {
                let addr = u64::from_be_bytes([0, 0, *a, *b, *c, *d, *e, *f]);
                first(u128::from(addr) << MAC_SHIFT, *len)
            }
            (TableKind::Flow(parts), _) => {
                let key = flow_parts(key)?;
                let is_addr = key.iter().map(|part| matches!(part, FlowPart::Addr(_)));
                is_addr.eq(shape(parts)).then_some(())?;
                first(flow_key(self.lookup.key, key.into_iter()), 128)
            }
            _ => None,
        }
    }

    /// Adds an entry that is not there.
    pub(super) fn add(
        &mut self,
        name: &str,
        entry: &TableEntry,
        keeper: &mut Keeper,
        epoch: Epoch,
    ) -> Result<(), Error> {
        if self.has(name, &entry.key)? {
            return Err(Error::EntryExists(entry.key.to_string()));
        }
        if self.len() >= self.limit as usize {
            return Err(Error::Full(name.into()));
        }
        if let TableKey::Iface(interface) = &entry.key {
            self.interfaces.insert(interface.clone(), (None, entry.value));
            return Ok(());
        }
        let at = self.place(&entry.key).ok_or_else(|| wrong_key(name, &entry.key))?;
        self.put(name, at, entry.value, keeper, epoch)?;
        if let (TableKind::Flow(_), Some(parts)) = (self.lookup.kind, flow_parts(&entry.key)) {
            self.flows.insert(at.key, parts);
        }
        Ok(())
    }

    fn put(
        &mut self,
        name: &str,
        at: At,
        value: TableArg,
        keeper: &mut Keeper,
        epoch: Epoch,
    ) -> Result<(), Error> {
        let full = || Error::Full(name.into());
        let leaf = keeper.take(value).ok_or_else(full)?;
        let (writer, trie) = self.writer(at.is_v6);
        writer.put(trie, (at.key, at.len), leaf, epoch).map_err(|_| {
            keeper.give(leaf, epoch);
            full()
        })
    }

    /// Whether there is such an entry.
    ///
    /// # Errors
    ///
    /// [`Error::WrongKey`] if there cannot be.
    pub(super) fn has(&self, name: &str, key: &TableKey) -> Result<bool, Error> {
        if let (TableKind::Iface, TableKey::Iface(interface)) = (self.lookup.kind, key) {
            return Ok(self.interfaces.contains_key(interface));
        }
        let at = self.place(key).ok_or_else(|| wrong_key(name, key))?;
        let writer = if at.is_v6 { self.v6.as_ref() } else { Some(&self.first) };
        Ok(writer.is_some_and(|writer| writer.get((at.key, at.len)).is_some()))
    }

    /// Ends an entry.
    pub(super) fn end(&mut self, key: &TableKey, keeper: &mut Keeper, epoch: Epoch) {
        if let TableKey::Iface(interface) = key {
            if let Some((Some(index), _)) = self.interfaces.remove(interface) {
                self.end_at(of_index(index), keeper, epoch);
            }
        } else if let Some(at) = self.place(key) {
            self.end_at(at, keeper, epoch);
            self.flows.remove(&at.key);
        }
    }

    fn end_at(&mut self, at: At, keeper: &mut Keeper, epoch: Epoch) {
        let (writer, trie) = self.writer(at.is_v6);
        if let Some(leaf) = writer.end(trie, (at.key, at.len), epoch) {
            keeper.give(leaf, epoch);
        }
    }

    /// Ends all entries.
    pub(super) fn flush(&mut self, keeper: &mut Keeper, epoch: Epoch) {
        for is_v6 in [false, true] {
            let all: Vec<_> = self.writer(is_v6).0.entries().map(|(at, _)| at).collect();
            all.into_iter().for_each(|(key, len)| self.end_at(At { is_v6, key, len }, keeper, epoch));
        }
        self.interfaces.clear();
        self.flows.clear();
    }

    /// All entries, in the order of their keys.
    pub(super) fn entries(&self) -> Vec<TableEntry> {
        if self.lookup.kind == TableKind::Iface {
            let all = self.interfaces.iter();
            let entry = |(name, (_, value)): (&String, &(_, TableArg))| TableEntry {
                key: TableKey::Iface(name.clone()),
                value: *value,
            };
            return all.map(entry).collect();
        }
        let first = self.first.entries().filter_map(|(at, leaf)| self.entry(false, at, leaf));
        let v6 = self.v6.iter().flat_map(TrieWriter::entries);
        first.chain(v6.filter_map(|(at, leaf)| self.entry(true, at, leaf))).collect()
    }

    fn entry(&self, is_v6: bool, (key, len): (u128, u8), leaf: u32) -> Option<TableEntry> {
        let upper = u32::try_from(key >> 96).unwrap_or(0);
        let key = match self.lookup.kind {
            TableKind::Addr if is_v6 => TableKey::Addr { addr: IpAddr::V6(key.into()), len },
            TableKind::Addr => TableKey::Addr { addr: IpAddr::V4(upper.into()), len },
            TableKind::Number | TableKind::Iface => TableKey::Number(upper),
            TableKind::Mac => {
                let [a, b, c, d, e, f, ..] = key.to_be_bytes();
                TableKey::Mac { addr: [a, b, c, d, e, f], len }
            }
            TableKind::Flow(_) => TableKey::Flow(self.flows.get(&key)?.clone()),
        };
        Some(TableEntry { key, value: self.lookup.values.get(leaf)? })
    }

    /// The entry that a key finds: of an address, of whichever kind, the one of the longest prefix.
    pub(super) fn find(&self, name: &str, key: &TableKey) -> Result<Option<TableEntry>, Error> {
        if let (TableKind::Iface, TableKey::Iface(interface)) = (self.lookup.kind, key) {
            let found = self.interfaces.get(interface);
            return Ok(found.map(|(_, value)| TableEntry { key: key.clone(), value: *value }));
        }
        let at = self.place(key).ok_or_else(|| wrong_key(name, key))?;
        let writer = if at.is_v6 { self.v6.as_ref() } else { Some(&self.first) };
        let found = writer.and_then(|writer| writer.covering(at.key));
        Ok(found.and_then(|(found, leaf)| self.entry(at.is_v6, found, leaf)))
    }

    /// Finds the interfaces of this table among those that there are.
    pub(super) fn resolve(&mut self, tables: &Tables, keeper: &mut Keeper, epoch: Epoch) {
        let index = |name: &str| tables.ifnet_named(name).map(|ifnet| ifnet.index.into());
        let all =
            self.interfaces.iter().map(|(name, (old, value))| (name.clone(), *old, index(name), *value));
        let moved: Vec<_> = all.filter(|(_, old, new, _)| old != new).collect();
        for (_, old, ..) in &moved {
            if let Some(old) = old {
                self.end_at(of_index(*old), keeper, epoch);
            }
        }
        for (name, _, new, value) in moved {
            // Without memory for it the interface is not found, and asked for again when interfaces change.
            let there = new.filter(|new| self.put(&name, of_index(*new), value, keeper, epoch).is_ok());
            self.interfaces.insert(name, (there, value));
        }
    }

    /// While no ruleset has the table, what a change takes out is free at once: a large table is loaded in less memory.
    pub(super) fn retire_unread(&mut self, epoch: Epoch) {
        if Arc::strong_count(&self.lookup) == 1 {
            self.retire(epoch);
        }
    }

    pub(super) fn retire(&mut self, epoch: Epoch) {
        self.first.retire(epoch);
        self.v6.iter_mut().for_each(|writer| writer.retire(epoch));
    }
}

fn of_index(index: u32) -> At {
    At { is_v6: false, key: u128::from(index) << 96, len: 32 }
}

/// The parts of a flow. A key of one part reads like an address or a number.
fn flow_parts(key: &TableKey) -> Option<Vec<FlowPart>> {
    match key {
        TableKey::Flow(parts) => Some(parts.clone()),
        TableKey::Addr { addr, len } if *len == if addr.is_ipv4() { 32 } else { 128 } => {
            Some(vec![FlowPart::Addr(*addr)])
        }
        TableKey::Number(number) => Some(vec![FlowPart::Number(u16::try_from(*number).ok()?)]),
        _ => None,
    }
}

fn wrong_key(name: &str, key: &TableKey) -> Error {
    Error::WrongKey(name.into(), key.to_string())
}
