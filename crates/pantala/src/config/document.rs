//! The configuration as a text that commands edit; comments and order of the file stay.

mod lists;
#[cfg(test)]
mod tests;

use ipnet::IpNet;
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::problem::Wrong;
use crate::api::ConfigEdit;
use diagnostic::did_you_mean;

const INTERFACE: &str = "interface";
/// Keys of an interface that a command may set.
const KEYS: &[&str] = &[
    "device",
    "mtu",
    "mac",
    "vlanpcp",
    "metric",
    "fib",
    "ppp.user",
    "ppp.password",
    "ppp.auth",
    "description",
    "timeout",
    "maxaddr",
    "storm",
    "stp",
    "stp_priority",
    "hellotime",
    "maxage",
    "fwddelay",
    "holdcnt",
    "fdb",
];
/// Keys that are texts; the others are numbers.
const TEXTS: &[&str] = &["device", "mac", "description", "stp", "ppp.user", "ppp.password", "ppp.auth"];

/// A configuration that was parsed without an error.
#[derive(Debug)]
pub(crate) struct Document {
    toml: DocumentMut,
    /// Names of the interfaces, in the order of the text.
    names: Vec<String>,
}

impl Document {
    /// Parses a configuration whose interfaces have these names.
    ///
    /// # Errors
    /// The text is not TOML.
    pub(crate) fn parse(text: &str, names: Vec<String>) -> Result<Self, Wrong> {
        let toml = text.parse().map_err(|why: toml_edit::TomlError| Wrong::new(why.to_string(), ""))?;
        Ok(Self { toml, names })
    }

    /// Returns the text.
    pub(crate) fn text(&self) -> String {
        self.toml.to_string()
    }

    /// Makes one change.
    ///
    /// # Errors
    /// There is no such interface, address or key, or there is one already.
    pub(crate) fn edit(&mut self, edit: &ConfigEdit) -> Result<(), Wrong> {
        self.write_names();
        match edit {
            ConfigEdit::Create { interface, device } => self.create(interface, device),
            ConfigEdit::Destroy { interface } => self.destroy(interface),
            ConfigEdit::AddAddress { interface, address } => self.add_address(interface, *address),
            ConfigEdit::RemoveAddress { interface, address } => self.remove_address(interface, *address),
            ConfigEdit::ReplaceAddress { interface, address } => self.replace_address(interface, *address),
            ConfigEdit::Set { interface, key, value } => self.set(interface, key, value),
            ConfigEdit::Insert { interface, key, value } => lists::insert(self.table(interface)?, key, value),
            ConfigEdit::Remove { interface, key, value } => lists::remove(self.table(interface)?, key, value),
            ConfigEdit::Unset { interface, key } => {
                known(key)?;
                self.table(interface)?.remove(key);
                Ok(())
            }
        }
    }

    /// Interfaces without a name are numbered, so that another interface could change their names.
    fn write_names(&mut self) {
        for (at, name) in self.names.clone().iter().enumerate() {
            if let Some(table) = nth(&mut self.toml, at)
                && !table.contains_key("name")
            {
                table.insert("name", toml_edit::value(name));
            }
        }
    }

    fn table(&mut self, interface: &str) -> Result<&mut dyn TableLike, Wrong> {
        let at = self.at(interface)?;
        nth(&mut self.toml, at).ok_or_else(|| Wrong::new("the configuration has no such interface", ""))
    }

    fn at(&self, interface: &str) -> Result<usize, Wrong> {
        self.names.iter().position(|name| name == interface).ok_or_else(|| {
            let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
            Wrong::new(format!("there is no interface `{interface}`"), did_you_mean(interface, &names))
        })
    }

    fn create(&mut self, interface: &str, device: &str) -> Result<(), Wrong> {
        if self.names.iter().any(|name| name == interface) {
            return Err(Wrong::new(format!("interface {interface} already exists"), ""));
        }
        let entry = self.toml.entry(INTERFACE).or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
        if let Some(tables) = entry.as_array_of_tables_mut() {
            tables.push(new_interface(Table::new(), interface, device));
        } else if let Some(array) = entry.as_array_mut() {
            let decor = array.iter().last().map(|last| last.decor().clone());
            let mut value = Value::InlineTable(new_interface(InlineTable::new(), interface, device));
            if let Some(prefix) = decor.as_ref().and_then(|decor| decor.prefix()?.as_str()) {
                value.decor_mut().set_prefix(if prefix.is_empty() { " " } else { prefix });
            }
            array.push_formatted(value);
        }
        self.names.push(interface.to_owned());
        Ok(())
    }

    fn destroy(&mut self, interface: &str) -> Result<(), Wrong> {
        let at = self.at(interface)?;
        match self.toml.get_mut(INTERFACE) {
            Some(Item::ArrayOfTables(tables)) => drop(tables.remove(at)),
            Some(Item::Value(Value::Array(array))) => drop(array.remove(at)),
            _ => {}
        }
        self.names.remove(at);
        Ok(())
    }

    fn add_address(&mut self, interface: &str, address: IpNet) -> Result<(), Wrong> {
        if addresses(self.table(interface)?).iter().filter_map(parsed).any(|own| own == address) {
            return Err(Wrong::new(format!("{interface} has the address {address} already"), ""));
        }
        let table = self.table(interface)?;
        let mut all = addresses(table);
        all.push(address.to_string());
        table.insert("address", Item::Value(Value::Array(all)));
        Ok(())
    }

    fn remove_address(&mut self, interface: &str, address: IpNet) -> Result<(), Wrong> {
        let table = self.table(interface)?;
        let mut all = addresses(table);
        let is_meant = |own: IpNet| own == address || (is_host(&address) && own.addr() == address.addr());
        let Some(at) = all.iter().position(|value| parsed(value).is_some_and(is_meant)) else {
            return Err(Wrong::new(format!("{interface} has no address {address}"), ""));
        };
        remove(&mut all, at);
        table.insert("address", Item::Value(Value::Array(all)));
        Ok(())
    }

    /// Replaces the first address of the family, as `ifconfig IF ADDRESS` does on BSD.
    fn replace_address(&mut self, interface: &str, address: IpNet) -> Result<(), Wrong> {
        let all = addresses(self.table(interface)?);
        let is_ip4 = address.addr().is_ipv4();
        let first = all.iter().filter_map(parsed).find(|own| own.addr().is_ipv4() == is_ip4);
        if first == Some(address) {
            return Ok(());
        }
        if let Some(first) = first {
            self.remove_address(interface, first)?;
        }
        if all.iter().filter_map(parsed).any(|own| own == address) {
            return Ok(());
        }
        self.add_address(interface, address)
    }

    fn set(&mut self, interface: &str, key: &str, value: &str) -> Result<(), Wrong> {
        known(key)?;
        let value = if TEXTS.contains(&key) {
            toml_edit::value(value)
        } else {
            let number: i64 =
                value.parse().map_err(|_| Wrong::new(format!("bad {key} `{value}`"), "write a number"))?;
            toml_edit::value(number)
        };
        let table = self.table(interface)?;
        // One of a section below the interface.
        let Some((section, key)) = key.split_once('.') else {
            table.insert(key, value);
            return Ok(());
        };
        let entry = table.entry(section).or_insert_with(|| toml_edit::value(InlineTable::new()));
        let below = entry.as_table_like_mut();
        let below =
            below.ok_or_else(|| Wrong::new(format!("`{section}` is no section"), "write it as one"))?;
        below.insert(key, value);
        Ok(())
    }
}

fn known(key: &str) -> Result<(), Wrong> {
    if KEYS.contains(&key) {
        return Ok(());
    }
    Err(Wrong::new(format!("unknown key `{key}`"), did_you_mean(key, KEYS)))
}

/// The table of the interface at a place, in either notation.
fn nth(toml: &mut DocumentMut, at: usize) -> Option<&mut dyn TableLike> {
    match toml.get_mut(INTERFACE)? {
        Item::ArrayOfTables(tables) => tables.get_mut(at).map(|table| table as &mut dyn TableLike),
        Item::Value(Value::Array(array)) => {
            array.get_mut(at)?.as_inline_table_mut().map(|table| table as &mut dyn TableLike)
        }
        _ => None,
    }
}

fn new_interface<T: TableLike>(mut table: T, name: &str, device: &str) -> T {
    table.insert("name", toml_edit::value(name));
    table.insert("device", toml_edit::value(device));
    table
}

/// The addresses of an interface as an array.
fn addresses(table: &dyn TableLike) -> Array {
    list(table, "address")
}

/// The value of a key as an array, which a single element need not be.
fn list(table: &dyn TableLike, key: &str) -> Array {
    match table.get(key) {
        Some(Item::Value(Value::Array(array))) => array.clone(),
        Some(Item::Value(one)) => Array::from_iter(one.as_str()),
        _ => Array::new(),
    }
}

/// Removes an element; the comment behind the one before it, which the text has in front of this one, stays.
fn remove(all: &mut Array, at: usize) {
    let removed = all.remove(at);
    let prefix = removed.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
    let Some((kept, _)) = prefix.rsplit_once('\n').filter(|(kept, _)| kept.contains('#')) else { return };
    if let Some(next) = all.get_mut(at) {
        let own = next.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
        let both = format!("{kept}{own}");
        next.decor_mut().set_prefix(both);
    } else {
        let own = all.trailing().as_str().unwrap_or_default();
        let own = if own.starts_with('\n') { own.to_owned() } else { format!("\n{own}") };
        all.set_trailing(format!("{kept}{own}"));
    }
}

fn parsed(value: &Value) -> Option<IpNet> {
    value.as_str()?.parse().ok()
}

/// Whether the prefix is as long as the address: `-alias` may leave the length out.
fn is_host(net: &IpNet) -> bool {
    net.prefix_len() == net.max_prefix_len()
}
