//! `ipfw list`, `ipfw show` and their kin, in the columns of ipfw(8).

use core::fmt::{self, Write};
use core::net::Ipv4Addr;

use crate::api::{
    FirewallRule, FirewallState, FirewallStateKind, FirewallStatus, FirewallTable, FirewallTableEntry,
    FirewallTrack,
};
use time::Clock;

pub(crate) mod nat;
pub(crate) mod pipe;
pub(crate) mod time;

/// The columns beside the rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    /// `-a`, `show`: packets and bytes.
    pub(crate) counters: bool,
    /// `-t`, `-T`: when a rule matched last.
    pub(crate) last_match: Option<Clock>,
    /// `-S`: the set, and rules of disabled sets too.
    pub(crate) sets: bool,
    /// `-b`: only what the rule does, and its comment.
    pub(crate) brief: bool,
    /// `-c`: without `ip from any to any` where that says nothing.
    pub(crate) compact: bool,
    /// `-v`: with the CPU that a state is on.
    pub(crate) cpus: bool,
}

/// The width of the columns of counters: each as wide as its largest.
#[derive(Debug, Clone, Copy, Default)]
struct Widths {
    packets: usize,
    bytes: usize,
}

impl Widths {
    fn of(counters: impl Iterator<Item = (u64, u64)>) -> Self {
        counters.fold(Self::default(), |widths, (packets, bytes)| Self {
            packets: widths.packets.max(digits(packets)),
            bytes: widths.bytes.max(digits(bytes)),
        })
    }
}

fn digits(n: u64) -> usize {
    n.checked_ilog10().unwrap_or(0) as usize + 1
}

/// The rules, a line each.
pub(crate) fn rules(rules: &[FirewallRule], columns: Columns) -> String {
    let widths = Widths::of(rules.iter().map(|rule| (rule.packets, rule.bytes)));
    let shown = rules.iter().filter(|rule| rule.enabled || columns.sets);
    shown.map(|rule| line(rule, columns, widths)).collect()
}

fn line(rule: &FirewallRule, columns: Columns, widths: Widths) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    if !rule.enabled {
        text.push_str("# DISABLED ");
    }
    let _ = write!(text, "{:05} ", rule.number);
    if columns.counters {
        let Widths { packets, bytes } = widths;
        let _ = write!(text, "{:packets$} {:bytes$} ", rule.packets, rule.bytes);
    }
    if let Some(clock) = columns.last_match {
        let _ = write!(text, "{} ", clock.show(rule.last_match));
    }
    if columns.sets {
        let _ = write!(text, "set {} ", rule.set);
    }
    let comment = rule.comment.as_ref().filter(|_| columns.brief);
    let comment = comment.map(|comment| format!(" // {comment}")).unwrap_or_default();
    let said = match columns {
        Columns { brief: true, .. } => &rule.action,
        Columns { compact: true, .. } => &compact(&rule.rule),
        _ => &rule.rule,
    };
    let _ = writeln!(text, "{said}{comment}");
    text
}

/// A rule without the body that matches everything; what is left is still the same rule.
pub(crate) fn compact(rule: &str) -> String {
    const ALL: &str = " ip from any to any";
    let body = rule.find(" // ").unwrap_or(rule.len());
    let Some((action, rest)) = rule[..body].split_once(ALL) else { return rule.to_owned() };
    // Behind the second `any` may be ports, and then it does say something.
    let next = rest.split_whitespace().find(|word| *word != "not");
    let has_ports = next.is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    if has_ports { rule.to_owned() } else { format!("{action}{rest}{}", &rule[body..]) }
}

/// Returns the heading of states.
pub(crate) fn states_head(count: u64) -> String {
    format!("## Dynamic rules ({count}):\n")
}

/// A page of the states, a line each.
pub(crate) fn states(states: &[FirewallState], columns: Columns) -> String {
    let widths = Widths::of(states.iter().map(|state| (state.packets, state.bytes)));
    states.iter().map(|state| state_line(state, columns, widths)).collect()
}

fn state_line(state: &FirewallState, columns: Columns, widths: Widths) -> String {
    let Widths { packets, bytes } = widths;
    let mut text = format!("{:05}", state.rule);
    let _ = write!(text, " {:packets$} {:bytes$} ({}s)", state.packets, state.bytes, state.expires_s);
    if columns.sets {
        let _ = write!(text, " set {}", state.set);
    }
    let kind = match state.kind {
        FirewallStateKind::State => "STATE",
        FirewallStateKind::Limit => "LIMIT",
        FirewallStateKind::RedirectMaster | FirewallStateKind::RedirectSlave => "REDIRECT",
    };
    let _ = write!(text, " {kind} {}", Protocol(state.proto));
    let _ = write!(text, " {} {} <-> {} {}", state.src, state.src_port, state.dst, state.dst_port);
    // As with ipfw, states without a name are of `:default`.
    let _ = write!(text, " :{}", state.flow.as_deref().unwrap_or("default"));
    if columns.cpus {
        let _ = write!(text, " cpu {}", state.cpu);
    }
    text + "\n"
}

/// Groups of states that a `limit` counts, a line each: FreeBSD's parents.
pub(crate) fn tracks(tracks: &[FirewallTrack], columns: Columns) -> String {
    tracks.iter().map(|track| track_line(track, columns)).collect()
}

fn track_line(track: &FirewallTrack, columns: Columns) -> String {
    let FirewallTrack { rule, src, src_port, dst, dst_port, total, .. } = track;
    let set = if columns.sets { format!(" set {}", track.set) } else { String::new() };
    let proto = Protocol(track.proto);
    format!("{rule:05}{set} PARENT {total} {proto} {src} {src_port} <-> {dst} {dst_port}\n")
}

/// Which sets are disabled, and which are enabled.
pub(crate) fn sets(status: &FirewallStatus) -> String {
    const LAST: u8 = 31;
    let (off, on): (Vec<u8>, Vec<u8>) = (0..LAST).partition(|set| status.disabled_sets.contains(set));
    let list = |word: &str, sets: &[u8]| {
        let numbers = sets.iter().map(|set| format!(" {set}")).collect::<String>();
        if sets.is_empty() { None } else { Some(format!("{word}{numbers}")) }
    };
    let parts: Vec<String> = [list("disable", &off), list("enable", &on)].into_iter().flatten().collect();
    parts.join(" ") + "\n"
}

/// Returns the heading of a table's entries when there are several tables.
pub(crate) fn table_head(name: &str) -> String {
    format!("--- table({name}), set(0) ---\n")
}

/// Entries of a table, a line each.
pub(crate) fn entries(entries: &[FirewallTableEntry]) -> String {
    entries.iter().map(|entry| format!("{} {}\n", entry.key, entry.value)).collect()
}

/// `-i`: the same, with numbers as the addresses that they would be.
pub(crate) fn entries_as_addresses(entries: &[FirewallTableEntry]) -> String {
    let address = |value: &str| value.parse().map(|bits| Ipv4Addr::from_bits(bits).to_string());
    let value = |value: &str| address(value).unwrap_or_else(|_| value.to_owned());
    entries.iter().map(|entry| format!("{} {}\n", entry.key, value(&entry.value))).collect()
}

/// Describes a table.
pub(crate) fn table(table: &FirewallTable) -> String {
    let FirewallTable { name, kind, entries, limit, locked, bytes } = table;
    let locked = if *locked { ", locked" } else { "" };
    format!("{} type: {kind}{locked}\n items: {entries}, limit: {limit}, size: {bytes}\n", table_head(name))
}

/// A protocol as ipfw names it: by its name in /etc/protocols, as far as these have states.
pub(crate) struct Protocol(pub(crate) u8);

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            1 => "icmp",
            2 => "igmp",
            6 => "tcp",
            17 => "udp",
            41 => "ipv6",
            47 => "gre",
            50 => "esp",
            51 => "ah",
            58 => "ipv6-icmp",
            89 => "ospf",
            132 => "sctp",
            136 => "udplite",
            other => return write!(f, "proto {other}"),
        };
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests;
