//! Errors of table commands.

use core::fmt;

use super::writer::{ENTRIES_MAX, TABLES_MAX};

/// Why a change of tables is refused. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// There is no table of this name.
    NoSuchTable(String),
    /// There is one already.
    TableExists(String),
    /// There are [`TABLES_MAX`] tables.
    TooManyTables,
    /// A rule asks it.
    InUse(String),
    /// It is locked.
    Locked(String),
    /// Its keys are of another kind: which key, and of what.
    WrongKey(String, String),
    /// A rule asks it for another kind of key, or it is swapped for a table of another kind.
    WrongKind(String),
    /// The entry is there already.
    EntryExists(String),
    /// There is no such entry.
    NoSuchEntry(String),
    /// It has as many entries as it may, or there is no memory for more of them or for another value.
    Full(String),
    /// A limit beyond [`ENTRIES_MAX`].
    LimitTooLarge,
    /// The system has no address space for it.
    NoMemory,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchTable(name) => write!(f, "there is no table {name}"),
            Self::TableExists(name) => write!(f, "there is a table {name} already"),
            Self::TooManyTables => write!(f, "limit reached ({TABLES_MAX} tables)"),
            Self::InUse(name) => write!(f, "table {name} is in use: delete the rule that looks it up first"),
            Self::Locked(name) => write!(f, "table {name} is locked"),
            Self::WrongKey(name, key) => write!(f, "{key} is not a key of table {name}"),
            Self::WrongKind(name) => write!(f, "table {name} has keys of another kind"),
            Self::EntryExists(key) => write!(f, "{key} is in the table already"),
            Self::NoSuchEntry(key) => write!(f, "{key} is not in the table"),
            Self::Full(name) => write!(f, "table {name} is full"),
            Self::LimitTooLarge => write!(f, "a table has at most {ENTRIES_MAX} entries"),
            Self::NoMemory => write!(f, "cannot allocate memory for another table"),
        }
    }
}

impl core::error::Error for Error {}
