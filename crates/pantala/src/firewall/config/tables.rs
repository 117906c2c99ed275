//! `table …`: entries change in place, so what has been done is remembered until the whole batch has succeeded.

use ipfw::Statement;
use ipfw::command::{Command, IfExists, TableCommand, TableEntry, TableKey, TableSpec};
use net::firewall::ruleset::Rules;
use net::firewall::table::{Error, Lookups};
use net::tables::Tables;

use super::Refused;

/// The undo journal of changes to tables.
#[derive(Default)]
pub(super) struct Journal {
    steps: Vec<Step>,
}

/// Undoes one change.
enum Step {
    Destroy(String),
    Create(String, TableSpec, Vec<TableEntry>),
    Add(String, Vec<TableEntry>),
    Delete(String, Vec<TableKey>),
    Swap(String, String),
    Lock(String, bool),
}

impl Journal {
    /// All is as it was.
    pub(super) fn undo(self, lookups: &mut Lookups, tables: &Tables) {
        for step in self.steps.into_iter().rev() {
            // It was possible before, so it is possible again; without memory the table keeps what there is.
            drop(step.carry_out(lookups, tables));
        }
    }

    /// A rule has made these tables.
    pub(super) fn made(&mut self, names: impl IntoIterator<Item = String>) {
        self.steps.extend(names.into_iter().map(Step::Destroy));
    }
}

impl Step {
    fn carry_out(self, lookups: &mut Lookups, tables: &Tables) -> Result<(), Error> {
        match self {
            Self::Destroy(name) => {
                lookups.lock(&name, false)?;
                lookups.destroy(&name, [])
            }
            Self::Create(name, spec, entries) => {
                lookups.create(&name, &TableSpec { locked: false, ..spec })?;
                lookups.add(&name, &entries, tables)?;
                lookups.lock(&name, spec.locked)
            }
            Self::Add(name, entries) => lookups.add(&name, &entries, tables),
            Self::Delete(name, keys) => lookups.delete(&name, &keys),
            Self::Swap(name, other) => lookups.swap(&name, &other),
            Self::Lock(name, locked) => lookups.lock(&name, locked),
        }
    }
}

/// Carries a command out on a table, or on all of them.
pub(super) fn carry_out(
    (name, what): (Option<&str>, &TableCommand),
    lookups: &mut Lookups,
    (rules, tables): (&Rules, &Tables),
    journal: &mut Journal,
) -> Result<(), Refused> {
    let names = match name {
        Some(name) => vec![name.to_owned()],
        None => lookups.names().map(str::to_owned).collect(),
    };
    for name in names {
        one(&name, what, lookups, (rules, tables), journal).map_err(|why| Refused::new(why, ""))?;
    }
    Ok(())
}

fn one(
    name: &str,
    what: &TableCommand,
    lookups: &mut Lookups,
    (rules, tables): (&Rules, &Tables),
    journal: &mut Journal,
) -> Result<(), Error> {
    let before = lookups.info(name).ok();
    let own = || name.to_owned();
    let step = match what {
        TableCommand::Create(spec) => {
            let entries = if spec.exists == IfExists::Flush { lookups.list(name) } else { Ok(Vec::new()) };
            lookups.create(name, spec)?;
            if before.is_some() { Step::Add(own(), entries?) } else { Step::Destroy(own()) }
        }
        TableCommand::Add(entries) => {
            lookups.add(name, entries, tables)?;
            let keys = entries.iter().map(|entry| entry.key.clone()).collect();
            if before.is_some() { Step::Delete(own(), keys) } else { Step::Destroy(own()) }
        }
        TableCommand::Delete(keys) => {
            let gone = entries_of(name, keys, lookups)?;
            lookups.delete(name, keys)?;
            Step::Add(own(), gone)
        }
        TableCommand::Flush => {
            let gone = lookups.list(name)?;
            lookups.flush(name)?;
            Step::Add(own(), gone)
        }
        TableCommand::Destroy => {
            let (info, gone) = (lookups.info(name)?, lookups.list(name)?);
            lookups.destroy(name, rules.entries().iter().map(|entry| &entry.rule))?;
            let spec = TableSpec { kind: info.kind, limit: Some(info.limit), ..TableSpec::default() };
            Step::Create(own(), spec, gone)
        }
        TableCommand::Swap(other) => {
            lookups.swap(name, other)?;
            Step::Swap(own(), other.clone())
        }
        TableCommand::Lock(locked) => {
            lookups.lock(name, *locked)?;
            Step::Lock(own(), before.is_some_and(|info| info.locked))
        }
        TableCommand::List | TableCommand::Info | TableCommand::Lookup(_) => return Ok(()),
    };
    journal.steps.push(step);
    Ok(())
}

/// The entries of these keys, those that are there.
fn entries_of(name: &str, keys: &[TableKey], lookups: &Lookups) -> Result<Vec<TableEntry>, Error> {
    let mut found = Vec::new();
    for key in keys {
        match lookups.lookup(name, key)? {
            Some(entry) if entry.key == *key => found.push(entry),
            // A longer prefix hides it.
            _ => found.extend(lookups.list(name)?.into_iter().find(|entry| entry.key == *key)),
        }
    }
    Ok(found)
}

/// Gives tables that no command fills the entries that those of the same name and kind have been given.
pub(super) fn inherit(
    new: &mut Lookups,
    running: &Lookups,
    commands: &[Statement],
    tables: &Tables,
) -> Result<(), Error> {
    let is_filled = |name: &str| {
        commands.iter().any(|statement| match &statement.command {
            Command::Table { name: filled, .. } => filled.as_ref().is_none_or(|filled| filled == name),
            _ => false,
        })
    };
    let names: Vec<String> = new.names().filter(|name| !is_filled(name)).map(str::to_owned).collect();
    for name in names {
        if running.info(&name).is_ok_and(|info| new.info(&name).is_ok_and(|new| new.kind == info.kind)) {
            new.destroy(&name, [])?;
            copy(&name, running, new, tables)?;
        }
    }
    Ok(())
}

/// Makes a table as it is in `of`.
pub(super) fn copy(name: &str, of: &Lookups, to: &mut Lookups, tables: &Tables) -> Result<(), Error> {
    let info = of.info(name)?;
    let spec = TableSpec { kind: info.kind, limit: Some(info.limit), ..TableSpec::default() };
    to.create(name, &spec)?;
    to.add(name, &of.list(name)?, tables)?;
    to.lock(name, info.locked)
}

/// Whether there are the same tables with the same entries.
pub(super) fn are_same(one: &Lookups, other: &Lookups) -> bool {
    let about = |lookups: &Lookups, name: &str| {
        lookups.info(name).ok().map(|info| (info.kind, info.limit, info.locked, info.entries))
    };
    one.names().eq(other.names())
        && one.names().all(|name| {
            about(one, name) == about(other, name) && one.list(name).ok() == other.list(name).ok()
        })
}
