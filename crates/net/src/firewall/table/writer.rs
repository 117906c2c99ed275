//! The one hand that changes tables.

use core::sync::atomic::Ordering;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use ipfw::command::{FlowParts, IfExists, TableEntry, TableKey, TableKind, TableSpec};
use ipfw::rule::{Addr, If, Key, Match, Rule, TableRef};
use pkt::shared::AtomicU64;

use super::held::Held;
use super::values::Keeper;
use super::{Error, Lookup};
use crate::fib::Epoch;
use crate::link::tables::Tables;

/// Tables that there may be.
pub const TABLES_MAX: usize = 128;
/// Entries of a table that was not told how many.
pub const ENTRIES_DEFAULT: u32 = 1 << 20;
/// Entries that a table may be told to hold.
pub const ENTRIES_MAX: u32 = 1 << 22;

/// All tables, by name. One thread has it.
#[derive(Debug)]
pub struct Lookups {
    tables: BTreeMap<String, Held>,
    keeper: Keeper,
    /// Grows with each change of any table.
    generation: Arc<AtomicU64>,
    epoch: Epoch,
    key: u128,
}

/// The properties of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Type of its keys.
    pub kind: TableKind,
    /// Its entries.
    pub entries: usize,
    /// Entries that it may have.
    pub limit: u32,
    /// Whether changes are refused.
    pub locked: bool,
    /// Bytes that lookups may touch.
    pub bytes: usize,
}

impl Lookups {
    /// Makes an empty set. `key` is secret: flows with equal keys cannot be made without it.
    ///
    /// # Errors
    ///
    /// When the system has no address space for values.
    pub fn new(key: u128) -> io::Result<Self> {
        let (tables, generation) = (BTreeMap::new(), Arc::default());
        Ok(Self { tables, keeper: Keeper::new()?, generation, epoch: Epoch::default(), key })
    }

    /// No tables, with the same secret.
    ///
    /// # Errors
    ///
    /// When the system has no address space for values.
    pub fn emptied(&self) -> io::Result<Self> {
        Self::new(self.key)
    }

    /// The table of this name, for a ruleset.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<Lookup>> {
        self.tables.get(name).map(|held| Arc::clone(&held.lookup))
    }

    /// Returns the generation, which grows by one with each change of any table: derived data of an older one is stale.
    #[must_use]
    pub fn generation(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.generation)
    }

    /// Names of all tables, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().map(String::as_str)
    }

    /// Creates a table.
    ///
    /// # Errors
    ///
    /// [`Error::TableExists`] (unless it says otherwise), [`Error::TooManyTables`], [`Error::LimitTooLarge`],
    /// [`Error::WrongKind`] if there is one of another kind that is to be kept,
    /// [`Error::NoMemory`], [`Error::Locked`].
    pub fn create(&mut self, name: &str, spec: &TableSpec) -> Result<(), Error> {
        if let Some(held) = self.tables.get(name) {
            return match spec.exists {
                IfExists::Refuse => Err(Error::TableExists(name.into())),
                _ if held.lookup.kind() != spec.kind => Err(Error::WrongKind(name.into())),
                IfExists::Keep => Ok(()),
                IfExists::Flush => self.flush(name),
            };
        }
        let limit = spec.limit.filter(|limit| *limit > 0).unwrap_or(ENTRIES_DEFAULT);
        if limit > ENTRIES_MAX {
            return Err(Error::LimitTooLarge);
        }
        if self.tables.len() >= TABLES_MAX {
            return Err(Error::TooManyTables);
        }
        let mut held = Held::new(spec.kind, limit, &self.keeper, self.key)?;
        held.locked = spec.locked;
        self.tables.insert(name.into(), held);
        Ok(())
    }

    /// Adds entries: all, or with an error none. A table that is not there is created, of the first key's kind, as in
    /// ipfw.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`], [`Error::WrongKey`], [`Error::EntryExists`], [`Error::Full`], and those of
    /// [`create`](Self::create).
    pub fn add(&mut self, name: &str, entries: &[TableEntry], tables: &Tables) -> Result<(), Error> {
        if !self.tables.contains_key(name) {
            let kind = entries.first().map_or(TableKind::Addr, |entry| kind_of(&entry.key));
            self.create(name, &TableSpec { kind, ..TableSpec::default() })?;
        }
        let (held, keeper, epoch) = self.open(name)?;
        for (entry, done) in entries.iter().zip(0..) {
            if let Err(error) = held.add(name, entry, keeper, epoch) {
                let added = entries.iter().take(done);
                added.for_each(|entry| held.end(&entry.key, keeper, epoch));
                return Err(error);
            }
            held.retire_unread(epoch);
        }
        held.resolve(tables, keeper, epoch);
        self.changed();
        Ok(())
    }

    /// Deletes entries: all, or with an error none.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTable`], [`Error::Locked`], [`Error::WrongKey`], [`Error::NoSuchEntry`].
    pub fn delete(&mut self, name: &str, keys: &[TableKey]) -> Result<(), Error> {
        let (held, keeper, epoch) = self.open(name)?;
        for key in keys {
            if !held.has(name, key)? {
                return Err(Error::NoSuchEntry(key.to_string()));
            }
        }
        keys.iter().for_each(|key| held.end(key, keeper, epoch));
        self.changed();
        Ok(())
    }

    /// Deletes all entries of a table.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTable`], [`Error::Locked`].
    pub fn flush(&mut self, name: &str) -> Result<(), Error> {
        let (held, keeper, epoch) = self.open(name)?;
        held.flush(keeper, epoch);
        self.changed();
        Ok(())
    }

    /// Destroys a table that no rule asks.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTable`], [`Error::Locked`], [`Error::InUse`].
    pub fn destroy<'r>(
        &mut self,
        name: &str,
        rules: impl IntoIterator<Item = &'r Rule>,
    ) -> Result<(), Error> {
        self.open(name)?;
        let asks = |rule: &Rule| {
            let mut asked = references(rule);
            asked.any(|(table, _)| table.name == name)
        };
        if rules.into_iter().any(asks) {
            return Err(Error::InUse(name.into()));
        }
        // Its values are kept by the keeper, not by the table.
        self.flush(name)?;
        self.tables.remove(name);
        Ok(())
    }

    /// Exchanges the entries of two tables of a kind. Packets see it, all at once, with the next ruleset.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTable`], [`Error::Locked`], [`Error::WrongKind`].
    pub fn swap(&mut self, name: &str, other: &str) -> Result<(), Error> {
        let kind = self.open(name)?.0.lookup.kind();
        if self.open(other)?.0.lookup.kind() != kind {
            return Err(Error::WrongKind(other.into()));
        }
        if let (Some(a), Some(b)) = (self.tables.remove(name), self.tables.remove(other)) {
            self.tables.insert(name.into(), b);
            self.tables.insert(other.into(), a);
        }
        self.changed();
        Ok(())
    }

    /// Refuses changes of a table, or allows them.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTable`].
    pub fn lock(&mut self, name: &str, locked: bool) -> Result<(), Error> {
        let held = self.tables.get_mut(name).ok_or_else(|| Error::NoSuchTable(name.into()))?;
        held.locked = locked;
        Ok(())
    }

    /// The entry that a key finds, as a packet would find it.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTable`], [`Error::WrongKey`].
    pub fn lookup(&self, name: &str, key: &TableKey) -> Result<Option<TableEntry>, Error> {
        self.held(name)?.find(name, key)
    }

    /// All entries, sorted by their keys.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTable`].
    pub fn list(&self, name: &str) -> Result<Vec<TableEntry>, Error> {
        self.held(name).map(Held::entries)
    }

    /// Returns the properties of a table.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchTable`].
    pub fn info(&self, name: &str) -> Result<Info, Error> {
        let held = self.held(name)?;
        let (kind, entries, bytes) = (held.lookup.kind(), held.len(), held.bytes());
        Ok(Info { kind, entries, limit: held.limit, locked: held.locked, bytes })
    }

    /// Sees to it that the tables are there that a rule asks: what is not there is created, of the kind that it is
    /// asked for, as in ipfw.
    ///
    /// # Errors
    ///
    /// [`Error::WrongKind`] if one is there and of another kind; those of [`create`](Self::create).
    pub fn provide(&mut self, rule: &Rule) -> Result<(), Error> {
        for (table, asked) in references(rule) {
            let kind = match (asked, self.tables.get(&table.name)) {
                (Asked::Kind(kind), Some(held)) if held.lookup.kind() != kind => {
                    return Err(Error::WrongKind(table.name.clone()));
                }
                (Asked::Flow, Some(held)) if !matches!(held.lookup.kind(), TableKind::Flow(_)) => {
                    return Err(Error::WrongKind(table.name.clone()));
                }
                (_, Some(_)) => continue,
                (Asked::Kind(kind), None) => kind,
                (Asked::Flow, None) => TableKind::Flow(ALL_PARTS),
            };
            self.create(&table.name, &TableSpec { kind, ..TableSpec::default() })?;
        }
        Ok(())
    }

    /// Interfaces have come, gone or got other names.
    pub fn resolve(&mut self, tables: &Tables) {
        self.epoch = self.epoch.next();
        for held in self.tables.values_mut() {
            held.resolve(tables, &mut self.keeper, self.epoch);
        }
        self.changed();
    }

    /// The latest change: to be retired when a message that was sent after it has visited all CPUs.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// All CPUs were visited since this change: what it took out is free.
    pub fn retire(&mut self, epoch: Epoch) {
        self.tables.values_mut().for_each(|held| held.retire(epoch));
        self.keeper.retire(epoch);
    }

    fn held(&self, name: &str) -> Result<&Held, Error> {
        self.tables.get(name).ok_or_else(|| Error::NoSuchTable(name.into()))
    }

    /// A table that may be changed, and what a change needs.
    fn open(&mut self, name: &str) -> Result<(&mut Held, &mut Keeper, Epoch), Error> {
        let held = self.tables.get_mut(name).ok_or_else(|| Error::NoSuchTable(name.into()))?;
        if held.locked {
            return Err(Error::Locked(name.into()));
        }
        self.epoch = self.epoch.next();
        Ok((held, &mut self.keeper, self.epoch))
    }

    /// After the last word was stored: a reader of the new generation sees all of the change.
    fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }
}

const ALL_PARTS: FlowParts =
    FlowParts { src_ip: true, proto: true, src_port: true, dst_ip: true, dst_port: true };

/// The part of a packet that a rule looks up.
#[derive(Clone, Copy)]
enum Asked {
    Kind(TableKind),
    Flow,
}

/// The tables that a rule asks.
fn references(rule: &Rule) -> impl Iterator<Item = (&TableRef, Asked)> {
    let terms = rule.body.iter().flat_map(|clause| &clause.any);
    terms.filter_map(|term| {
        let of_kind = |table, kind| Some((table, Asked::Kind(kind)));
        match &term.is {
            Match::Src(Addr::Table(table)) | Match::Dst(Addr::Table(table)) => {
                of_kind(table, TableKind::Addr)
            }
            Match::Recv(If::Table(table)) | Match::Xmit(If::Table(table)) | Match::Via(If::Table(table)) => {
                of_kind(table, TableKind::Iface)
            }
            Match::Lookup { key, table } => match key {
                Key::DstIp | Key::SrcIp => of_kind(table, TableKind::Addr),
                Key::DstPort | Key::SrcPort | Key::Dscp => of_kind(table, TableKind::Number),
                Key::RecvIf => of_kind(table, TableKind::Iface),
                Key::DstMac | Key::SrcMac => of_kind(table, TableKind::Mac),
            },
            Match::Flow(table) => Some((table, Asked::Flow)),
            _ => None,
        }
    })
}

const fn kind_of(key: &TableKey) -> TableKind {
    match key {
        TableKey::Addr { .. } => TableKind::Addr,
        TableKey::Number(_) => TableKind::Number,
        TableKey::Iface(_) => TableKind::Iface,
        TableKey::Flow(_) => TableKind::Flow(ALL_PARTS),
        TableKey::Mac { .. } => TableKind::Mac,
    }
}
