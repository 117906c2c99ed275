//! `table NAME list | info | lookup`.

use std::collections::BTreeMap;

use crate::api::client::escaped;
use crate::api::{FirewallTable, FirewallTableEntry, FirewallTablePage};
use crate::cli::{Failure, Session};
use crate::show;

/// `table NAME list`; without a name, of all.
pub(super) fn list(name: Option<&str>, as_addresses: bool, session: &mut Session<'_>) -> Result<(), Failure> {
    let draw = if as_addresses { show::ipfw::entries_as_addresses } else { show::ipfw::entries };
    let Some(name) = name else {
        let mut all = BTreeMap::new();
        for table in session.client.get::<Vec<FirewallTable>>("/v1/firewall/tables")? {
            all.insert(table.name.clone(), entries(&table.name, session)?);
        }
        return session.show(&all, |all| {
            let one = |(name, entries): (&String, &Vec<_>)| show::ipfw::table_head(name) + &draw(entries);
            all.iter().map(one).collect()
        });
    };
    let entries = entries(name, session)?;
    session.show(&entries, |entries| draw(entries))
}

/// All entries of a table, asked for page by page.
fn entries(name: &str, session: &Session<'_>) -> Result<Vec<FirewallTableEntry>, Failure> {
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let path = format!("/v1/firewall/tables/{}?after={after}", escaped(name));
        let page: FirewallTablePage = session.client.get(&path)?;
        all.extend(page.entries);
        let Some(next) = page.next else { return Ok(all) };
        after = next;
    }
}

/// `table NAME info`; without a name, of all.
pub(super) fn info(name: Option<&str>, session: &mut Session<'_>) -> Result<(), Failure> {
    let mut tables: Vec<FirewallTable> = session.client.get("/v1/firewall/tables")?;
    if let Some(name) = name {
        tables.retain(|table| table.name == name);
        if tables.is_empty() {
            return Err(Failure::Failed(format!("ipfw: there is no table {name}")));
        }
    }
    session.show(&tables, |tables| tables.iter().map(show::ipfw::table).collect())
}

/// `table NAME lookup KEY`.
pub(super) fn lookup(name: &str, key: &str, session: &mut Session<'_>) -> Result<(), Failure> {
    let path = format!("/v1/firewall/tables/{}/lookup?key={}", escaped(name), escaped(key));
    let entry: FirewallTableEntry = session.client.get(&path)?;
    session.show(&entry, |entry| show::ipfw::entries(core::slice::from_ref(entry)))
}
