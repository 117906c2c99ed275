//! `ipfw table NAME list | info | lookup`.

use ipfw::Command;
use ipfw::command::{TableCommand, TableEntry, TableKey};
use net::firewall::table;

use crate::api::{Error, ErrorKind, FirewallTable, FirewallTableEntry, FirewallTablePage};
use crate::daemon::control::Control;

impl Control {
    pub(super) fn list_tables(&self) -> Result<Vec<FirewallTable>, Error> {
        let lookups = &self.firewall.config.lookups;
        let one = |name: &str| {
            let info = lookups.info(name).map_err(refused)?;
            Ok(FirewallTable {
                name: name.to_owned(),
                kind: info.kind.to_string(),
                entries: info.entries as u64,
                limit: info.limit,
                locked: info.locked,
                bytes: info.bytes as u64,
            })
        };
        lookups.names().map(one).collect()
    }

    pub(super) fn page_of_entries(
        &self,
        name: &str,
        after: usize,
        limit: usize,
    ) -> Result<FirewallTablePage, Error> {
        let all = self.firewall.config.lookups.list(name).map_err(refused)?;
        let entries: Vec<_> = all.iter().skip(after).take(limit).map(entry).collect();
        let end = after.saturating_add(entries.len());
        Ok(FirewallTablePage { next: (end < all.len()).then_some(end), entries })
    }

    pub(super) fn found(&self, name: &str, text: &str) -> Result<FirewallTableEntry, Error> {
        let found = self.firewall.config.lookups.lookup(name, &key(text)?).map_err(refused)?;
        found.as_ref().map(entry).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("no entry of table {name} matches {text}"))
        })
    }
}

/// A key as the language has it.
fn key(text: &str) -> Result<TableKey, Error> {
    let command =
        ipfw::parse_args(&["table", "t", "lookup", text]).map_err(|error| Error::of_text(&[*error]))?;
    match command {
        Command::Table { what: TableCommand::Lookup(key), .. } => Ok(key),
        _ => Err(Error::new(ErrorKind::Invalid, format!("`{text}` is not a key"))),
    }
}

fn entry(entry: &TableEntry) -> FirewallTableEntry {
    FirewallTableEntry { key: entry.key.to_string(), value: entry.value.to_string() }
}

fn refused(why: table::Error) -> Error {
    let kind = match why {
        table::Error::NoSuchTable(_) => ErrorKind::NotFound,
        _ => ErrorKind::Invalid,
    };
    Error::new(kind, why.to_string())
}
