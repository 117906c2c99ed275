//! Commands.

use core::fmt::{self, Display, Formatter};
use core::ops::RangeInclusive;

use super::matches::mac;
use crate::command::{
    Command, FlowPart, FlowParts, IfExists, SetCommand, Switch, TableCommand, TableEntry, TableKey,
    TableKind, TableSpec,
};
use crate::rule::{Number, TableArg};

impl Display for Command {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add(rule) => write!(f, "add {rule}"),
            Self::Delete { set, numbers } => of_set(f, *set, "delete", numbers),
            Self::List { counters, set, numbers } => {
                of_set(f, *set, if *counters { "show" } else { "list" }, numbers)
            }
            Self::Flush { set } => of_set(f, *set, "flush", &[]),
            Self::Zero { set, numbers } => of_set(f, *set, "zero", numbers),
            Self::ResetLog { set, numbers } => of_set(f, *set, "resetlog", numbers),
            Self::Switch { what, on } => write!(f, "{} {what}", if *on { "enable" } else { "disable" }),
            Self::Set(set) => write!(f, "set {set}"),
            Self::Table { name, what } => write!(f, "table {} {what}", name.as_deref().unwrap_or("all")),
            Self::NatConfig { number, config } => write!(f, "nat {number} config{config}"),
            Self::NatDelete(number) => write!(f, "nat {number} delete"),
            Self::NatShow { number, config } => {
                f.write_str("nat ")?;
                number.map_or(Ok(()), |number| write!(f, "{number} "))?;
                f.write_str(if *config { "show config" } else { "show" })
            }
            Self::Nptv6Create { name, config } => write!(f, "nptv6 {name} create{config}"),
            Self::Nptv6Destroy(name) => write!(f, "nptv6 {name} destroy"),
            Self::Nptv6Show(name) => write!(f, "nptv6 {} show", name.as_deref().unwrap_or("all")),
            Self::Nat64Create { name, config } => write!(f, "nat64lsn {name} create{config}"),
            Self::Nat64Destroy(name) => write!(f, "nat64lsn {name} destroy"),
            Self::Nat64Show(name) => write!(f, "nat64lsn {} show", name.as_deref().unwrap_or("all")),
            Self::PipeConfig { number, config } => write!(f, "pipe {number} config{config}"),
            Self::QueueConfig { number, config } => write!(f, "queue {number} config{config}"),
            Self::PipeDelete { number, queue } => write!(f, "{} {number} delete", pipe_word(*queue)),
            Self::PipeFlush => f.write_str("pipe flush"),
            Self::PipeShow { number: Some(number), queue } => {
                write!(f, "{} {number} show", pipe_word(*queue))
            }
            Self::PipeShow { number: None, queue } => write!(f, "{} show", pipe_word(*queue)),
        }
    }
}

fn pipe_word(is_queue: bool) -> &'static str {
    if is_queue { "queue" } else { "pipe" }
}

fn of_set(
    f: &mut Formatter<'_>,
    set: Option<u8>,
    command: &str,
    numbers: &[RangeInclusive<Number>],
) -> fmt::Result {
    if let Some(set) = set {
        write!(f, "set {set} ")?;
    }
    f.write_str(command)?;
    for range in numbers {
        write!(f, " {:05}", range.start())?;
        if range.end() != range.start() {
            write!(f, "-{:05}", range.end())?;
        }
    }
    Ok(())
}

impl Display for Switch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Firewall => "firewall",
            Self::OnePass => "one_pass",
            Self::DynKeepalive => "dyn_keepalive",
            Self::Verbose => "verbose",
        })
    }
}

impl Display for SetCommand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Switch { disable, enable } => {
                let mut gap = "";
                for (word, sets) in
                    [("disable", disable), ("enable", enable)].iter().filter(|(_, sets)| *sets != 0)
                {
                    write!(f, "{gap}{word}")?;
                    gap = " ";
                    (0..32).filter(|set| sets >> set & 1 != 0).try_for_each(|set| write!(f, " {set}"))?;
                }
                Ok(())
            }
            Self::MoveRule { number, to } => write!(f, "move rule {number} to {to}"),
            Self::Move { from, to } => write!(f, "move {from} to {to}"),
            Self::Swap(a, b) => write!(f, "swap {a} {b}"),
            Self::Show => f.write_str("show"),
        }
    }
}

impl Display for TableCommand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(spec) => write!(f, "create {spec}"),
            Self::Add(entries) => {
                f.write_str("add")?;
                match entries.as_slice() {
                    [TableEntry { key, value: TableArg::Number(0) }] => write!(f, " {key}"),
                    entries => entries.iter().try_for_each(|entry| write!(f, " {entry}")),
                }
            }
            Self::Delete(keys) => {
                f.write_str("delete")?;
                keys.iter().try_for_each(|key| write!(f, " {key}"))
            }
            Self::Flush => f.write_str("flush"),
            Self::Destroy => f.write_str("destroy"),
            Self::List => f.write_str("list"),
            Self::Info => f.write_str("info"),
            Self::Lookup(key) => write!(f, "lookup {key}"),
            Self::Swap(other) => write!(f, "swap {other}"),
            Self::Lock(true) => f.write_str("lock"),
            Self::Lock(false) => f.write_str("unlock"),
        }
    }
}

impl Display for TableSpec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "type {}", self.kind)?;
        if let Some(limit) = self.limit {
            write!(f, " limit {limit}")?;
        }
        f.write_str(match self.exists {
            IfExists::Refuse => "",
            IfExists::Keep => " missing",
            IfExists::Flush => " or-flush",
        })?;
        f.write_str(if self.locked { " locked" } else { "" })
    }
}

impl Display for TableKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addr => f.write_str("addr"),
            Self::Number => f.write_str("number"),
            Self::Iface => f.write_str("iface"),
            Self::Flow(parts) => write!(f, "flow:{parts}"),
            Self::Mac => f.write_str("mac"),
        }
    }
}

impl Display for FlowParts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.src_ip, "src-ip"),
            (self.proto, "proto"),
            (self.src_port, "src-port"),
            (self.dst_ip, "dst-ip"),
            (self.dst_port, "dst-port"),
        ];
        let words: Vec<&str> = parts.iter().filter(|(is_set, _)| *is_set).map(|&(_, word)| word).collect();
        f.write_str(&words.join(","))
    }
}

/// `KEY VALUE`, as `table NAME list` shows it.
impl Display for TableEntry {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key, self.value)
    }
}

impl Display for TableKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addr { addr, len } => write!(f, "{addr}/{len}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Iface(name) => f.write_str(name),
            Self::Flow(parts) => parts
                .iter()
                .enumerate()
                .try_for_each(|(i, part)| write!(f, "{}{part}", if i > 0 { "," } else { "" })),
            Self::Mac { addr, len } => {
                mac(f, *addr)?;
                write!(f, "/{len}")
            }
        }
    }
}

impl Display for FlowPart {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addr(addr) => write!(f, "{addr}"),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}
