//! `table NAME …`.

use core::net::{IpAddr, Ipv6Addr};

use super::option::parse_mac;
use super::value::{name, number_of, prefix_len, table_arg};
use super::{list, refuse};
use crate::command::{
    Command, FlowPart, FlowParts, IfExists, TableCommand, TableEntry, TableKey, TableKind, TableSpec,
};
use crate::error::Fault;
use crate::limit::{NAME_MAX, TABLE_LIMIT_MAX};
use crate::names;
use crate::refused::Place;
use crate::rule::TableArg;
use crate::words::{Tokens, Word};

const COMMANDS: &[&str] = &[
    "create", "add", "delete", "flush", "destroy", "list", "show", "info", "detail", "lookup", "swap",
    "lock", "unlock",
];
const EXPECTED: &str = "create, add, delete, flush, destroy, list, info, lookup, swap, lock or unlock";

pub(crate) fn table(words: &mut Tokens<'_>) -> Result<Command, Fault> {
    let word = words.take("a table's name or `all`, and what of it")?;
    // DragonFly: `table list` is about all of them
    let is_alone = words.peek().is_none() && matches!(word.text, "list" | "show" | "info" | "detail");
    if is_alone {
        return Ok(Command::Table { name: None, what: plain(word.text).unwrap_or(TableCommand::List) });
    }
    let name = match word.text {
        "all" => None,
        _ => Some(name(word, "a table", NAME_MAX)?),
    };
    let what = words.take(EXPECTED)?;
    if name.is_none()
        && !matches!(what.full(COMMANDS), "list" | "show" | "info" | "detail" | "flush" | "destroy")
    {
        let fault = what.fault(format!("`{}` is for one table", what.text));
        return Err(fault.expected("list, info, flush or destroy").help("name the table"));
    }
    Ok(Command::Table { name, what: command(words, what)? })
}

/// Commands of one word.
fn plain(text: &str) -> Option<TableCommand> {
    Some(match text {
        "flush" => TableCommand::Flush,
        "destroy" => TableCommand::Destroy,
        "list" | "show" => TableCommand::List,
        "info" | "detail" => TableCommand::Info,
        "lock" => TableCommand::Lock(true),
        "unlock" => TableCommand::Lock(false),
        _ => return None,
    })
}

fn command(words: &mut Tokens<'_>, word: Word<'_>) -> Result<TableCommand, Fault> {
    let full = word.full(COMMANDS);
    if let Some(command) = plain(full) {
        return Ok(command);
    }
    Ok(match full {
        "create" => TableCommand::Create(spec(words)?),
        "add" => TableCommand::Add(entries(words)?),
        // all changes are made at once here
        "atomic" if words.accept("add") => TableCommand::Add(entries(words)?),
        "atomic" if words.accept("delete") => TableCommand::Delete(keys(words)?),
        "delete" => TableCommand::Delete(keys(words)?),
        "lookup" => TableCommand::Lookup(key(words.take("a key")?)?),
        "swap" => TableCommand::Swap(name(words.take("another table's name")?, "a table", NAME_MAX)?),
        _ => {
            refuse(Place::TableCommand, word)?;
            return Err(word.unknown("command for tables", COMMANDS.iter().copied()).expected(EXPECTED));
        }
    })
}

fn spec(words: &mut Tokens<'_>) -> Result<TableSpec, Fault> {
    const EXPECTED: &str = "type TYPE, limit N, missing, or-flush or locked";
    let mut spec = TableSpec::default();
    while let Some(word) = words.peek() {
        words.skip();
        match word.text {
            "type" => spec.kind = kind(words)?,
            "limit" => spec.limit = Some(number_of(words, "entries", 1..=TABLE_LIMIT_MAX)?),
            "missing" => spec.exists = IfExists::Keep,
            "or-flush" => spec.exists = IfExists::Flush,
            "locked" => spec.locked = true,
            "valtype" => value_type(words)?,
            _ => {
                refuse(Place::Table, word)?;
                let known = ["type", "limit", "missing", "or-flush", "locked", "valtype"];
                return Err(word.unknown("property of a table", known).expected(EXPECTED));
            }
        }
    }
    Ok(spec)
}

fn kind(words: &mut Tokens<'_>) -> Result<TableKind, Fault> {
    const EXPECTED: &str = "addr, number, iface, mac, flow or flow:src-ip,proto,src-port,dst-ip,dst-port";
    let word = words.take(EXPECTED)?;
    Ok(match word.text {
        "addr" | "cidr" => TableKind::Addr,
        "number" => TableKind::Number,
        "iface" => TableKind::Iface,
        "mac" => TableKind::Mac,
        "flow" => TableKind::Flow(FlowParts {
            src_ip: true,
            proto: true,
            src_port: true,
            dst_ip: true,
            dst_port: true,
        }),
        _ => {
            let Some(parts) = word.strip_prefix("flow:") else {
                let known = ["addr", "number", "iface", "mac", "flow"];
                return Err(word.unknown("type of table", known).expected(EXPECTED));
            };
            let mut flow = FlowParts::default();
            for part in parts.split(',') {
                *match part.text {
                    "src-ip" => &mut flow.src_ip,
                    "proto" => &mut flow.proto,
                    "src-port" => &mut flow.src_port,
                    "dst-ip" => &mut flow.dst_ip,
                    "dst-port" => &mut flow.dst_port,
                    _ => {
                        let known = ["src-ip", "proto", "src-port", "dst-ip", "dst-port"];
                        return Err(part.unknown("part of a flow", known).expected(EXPECTED));
                    }
                } = true;
            }
            TableKind::Flow(flow)
        }
    })
}

/// FreeBSD says what the values of a table are for. Here the rule that uses one says so, and one value is enough.
fn value_type(words: &mut Tokens<'_>) -> Result<(), Fault> {
    const KNOWN: [&str; 9] = ["skipto", "pipe", "nat", "dscp", "tag", "limit", "ipv4", "ipv6", "legacy"];
    let word = words.take("what values are for, such as skipto")?;
    if word.text.contains(',') {
        let fault = word.fault("an entry has one value here, a number or an address");
        return Err(fault.help("use a table for each kind of value"));
    }
    match KNOWN.contains(&word.text) {
        true => Ok(()),
        false => Err(word.unknown("type of value", KNOWN).expected(KNOWN.join(", "))),
    }
}

/// One key alone, or pairs of keys and values.
fn entries(words: &mut Tokens<'_>) -> Result<Vec<TableEntry>, Fault> {
    let mut entries = Vec::new();
    loop {
        let key = key(words.take("a key, and perhaps its value")?)?;
        let value = match words.peek() {
            Some(word) => table_arg(word)?,
            None if entries.is_empty() => TableArg::Number(0),
            None => {
                return Err(words.too_short("the key's value").help("of several keys each needs a value"));
            }
        };
        words.skip();
        entries.push(TableEntry { key, value });
        if words.peek().is_none() {
            return Ok(entries);
        }
    }
}

fn keys(words: &mut Tokens<'_>) -> Result<Vec<TableKey>, Fault> {
    let mut keys = vec![key(words.take("keys")?)?];
    while let Some(word) = words.peek() {
        words.skip();
        keys.push(key(word)?);
    }
    Ok(keys)
}

/// Guesses the type of a key from its form: the table's type is not known here.
fn key(word: Word<'_>) -> Result<TableKey, Fault> {
    let text = word.text;
    if text.contains(',') {
        return word.split(',').map(part).collect::<Result<_, _>>().map(TableKey::Flow);
    }
    let (addr, len) = match word.split_once('/') {
        Some((addr, len)) => (addr, Some(len)),
        None => (word, None),
    };
    if let Some(bytes) = parse_mac(addr.text) {
        let len = len.map_or(Ok(48), |len| prefix_len(len, 48))?;
        let mask = u64::MAX.checked_shl(64 - u32::from(len)).unwrap_or(0).to_be_bytes();
        return Ok(TableKey::Mac { addr: core::array::from_fn(|i| bytes[i] & mask[i]), len });
    }
    if let Ok(ip) = addr.text.parse() {
        return prefix(ip, len);
    }
    if len.is_some() || text.contains(':') || text.split('.').count() == 4 {
        return Err(super::value::no_address(addr)
            .expected("a prefix, a number, an interface, a flow or a link address"));
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return word.number("a number, or another key", 0..=u32::MAX).map(TableKey::Number);
    }
    super::value::interface(word).map(TableKey::Iface)
}

fn prefix(ip: IpAddr, len: Option<Word<'_>>) -> Result<TableKey, Fault> {
    let max = if ip.is_ipv4() { 32 } else { 128 };
    let len = len.map_or(Ok(max), |len| prefix_len(len, max))?;
    let addr = match ip {
        IpAddr::V4(ip) => IpAddr::V4(ip & super::address::prefix4(len)),
        IpAddr::V6(ip) => {
            IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & super::address::prefix6(len).to_bits()))
        }
    };
    Ok(TableKey::Addr { addr, len })
}

/// An address, a port or a protocol.
fn part(word: Word<'_>) -> Result<FlowPart, Fault> {
    if let Ok(addr) = word.text.parse() {
        return Ok(FlowPart::Addr(addr));
    }
    if let Some(proto) = names::value(names::PROTOCOLS, word.text) {
        return Ok(FlowPart::Number(proto.into()));
    }
    match list::port(word, None) {
        Ok(port) => Ok(FlowPart::Number(port)),
        Err(fault) => Err(fault.expected("an address, a port or a protocol")),
    }
}
