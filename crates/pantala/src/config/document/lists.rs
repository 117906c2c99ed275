//! Lists of an interface: static addresses, ports of a bridge and what is said of them.

use toml_edit::{Array, Item, TableLike, Value};

use super::list;
use crate::config::Bridge;
use crate::config::problem::Wrong;
use diagnostic::did_you_mean;

/// Lists whose elements commands add and remove.
const LISTS: &[&str] = &["fdb", "private", "span", "stp_port", "member"];
/// The device of a bridge, whose ports follow.
const BRIDGE: &str = "bridge:";

/// Adds an element. Of a station it replaces the entry, of a port it changes the words that are given.
pub(super) fn insert(table: &mut dyn TableLike, key: &str, value: &str) -> Result<(), Wrong> {
    known(key)?;
    if key == "member" {
        let mut ports = ports(table)?;
        if ports.iter().any(|port| port == value) {
            return Err(Wrong::new(format!("`{value}` is a port of this bridge already"), ""));
        }
        ports.push(value.to_owned());
        set_ports(table, &ports);
        return Ok(());
    }
    let mut all = list(table, key);
    let at = all.iter().position(|element| is_of(element, value));
    let element = match (key, at.and_then(|at| all.get(at)).and_then(Value::as_str)) {
        ("stp_port", Some(before)) => merged(before, value),
        _ => value.to_owned(),
    };
    match at {
        Some(at) => drop(all.replace(at, element)),
        None => all.push(element),
    }
    put(table, key, all);
    Ok(())
}

/// Removes an element, which its first word names.
pub(super) fn remove(table: &mut dyn TableLike, key: &str, value: &str) -> Result<(), Wrong> {
    known(key)?;
    if key == "member" {
        return remove_port(table, value);
    }
    let mut all = list(table, key);
    let Some(at) = all.iter().position(|element| is_of(element, value)) else {
        return Err(Wrong::new(format!("there is no `{value}` in {key}"), ""));
    };
    super::remove(&mut all, at);
    put(table, key, all);
    Ok(())
}

/// Removes a port of a bridge, and all that is said of it.
fn remove_port(table: &mut dyn TableLike, name: &str) -> Result<(), Wrong> {
    let mut ports = ports(table)?;
    let Some(at) = ports.iter().position(|port| port == name) else {
        let names: Vec<&str> = ports.iter().map(String::as_str).collect();
        return Err(Wrong::new(format!("`{name}` is no port of this bridge"), did_you_mean(name, &names)));
    };
    ports.remove(at);
    set_ports(table, &ports);
    for key in ["private", "span", "stp_port", "fdb"] {
        let mut all = list(table, key);
        let before = all.len();
        all.retain(|element| {
            let words = element.as_str().unwrap_or_default();
            let port =
                if key == "fdb" { words.split_whitespace().nth(1) } else { words.split_whitespace().next() };
            port != Some(name)
        });
        if all.len() < before {
            put(table, key, all);
        }
    }
    Ok(())
}

fn put(table: &mut dyn TableLike, key: &str, all: Array) {
    if all.is_empty() {
        table.remove(key);
    } else {
        table.insert(key, Item::Value(Value::Array(all)));
    }
}

/// Whether an element is about the same station or port.
fn is_of(element: &Value, value: &str) -> bool {
    let first = |text: &str| text.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    element.as_str().is_some_and(|element| first(element) == first(value))
}

/// Words of a port, of which later ones replace earlier ones.
fn merged(before: &str, now: &str) -> String {
    let mut kept: Vec<(String, Option<String>)> = Vec::new();
    for text in [before, now] {
        let mut words = text.split_whitespace().skip(1);
        while let Some(word) = words.next() {
            let name = word.trim_start_matches('-');
            let value =
                matches!(name, "cost" | "priority").then(|| words.next().unwrap_or_default().to_owned());
            kept.retain(|(other, _)| other.trim_start_matches('-') != name);
            kept.push((word.to_owned(), value));
        }
    }
    let name = now.split_whitespace().next().unwrap_or_default();
    kept.into_iter().fold(name.to_owned(), |all, (word, value)| {
        let value = value.map(|value| format!(" {value}")).unwrap_or_default();
        format!("{all} {word}{value}")
    })
}

fn ports(table: &dyn TableLike) -> Result<Vec<String>, Wrong> {
    let device = table.get("device").and_then(Item::as_str).unwrap_or_default();
    match device.strip_prefix(BRIDGE) {
        Some(ports) => Ok(Bridge::names(ports)),
        None => Err(Wrong::new(format!("`{device}` is no bridge"), "")),
    }
}

fn set_ports(table: &mut dyn TableLike, ports: &[String]) {
    table.insert("device", toml_edit::value(format!("{BRIDGE}{}", ports.join(","))));
}

fn known(key: &str) -> Result<(), Wrong> {
    if LISTS.contains(&key) {
        return Ok(());
    }
    Err(Wrong::new(format!("unknown list `{key}`"), did_you_mean(key, LISTS)))
}
