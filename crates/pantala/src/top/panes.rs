//! Each pane as a table of text.

use core::cmp::Ordering;
use core::net::SocketAddr;

use super::view::{Pane, View};
use crate::api::rates::{ConnectionRates, CpuRates, DropRates, FlowRates, InterfaceRates, Rates, RuleRates};

/// A column: its heading, its width (0: what is left), and whether it is a number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) head: &'static str,
    pub(super) width: u16,
    pub(super) number: bool,
}

const fn text(head: &'static str, width: u16) -> Column {
    Column { head, width, number: false }
}

const fn number(head: &'static str, width: u16) -> Column {
    Column { head, width, number: true }
}

/// A pane: columns, rows, the column that rows are sorted by, and what an empty pane means.
#[derive(Debug)]
pub(super) struct Grid {
    pub(super) columns: &'static [Column],
    pub(super) rows: Vec<Vec<String>>,
    /// Rows that lose or refuse packets now.
    pub(super) alarming: Vec<bool>,
    pub(super) sorted_by: Option<usize>,
    pub(super) empty: &'static str,
}

pub(super) const CPUS: &[Column] = &[
    number("CPU", 3),
    text("busy", 16),
    number("%", 4),
    number("packets/s", 10),
    number("/turn", 6),
    number("hand-offs in", 12),
    number("out", 8),
    number("buffers", 11),
];
pub(super) const INTERFACES: &[Column] = &[
    text("interface", 10),
    number("in", 8),
    number("pps", 6),
    text("", 8),
    number("out", 8),
    number("pps", 6),
    text("", 8),
    number("lost/s", 6),
    number("queued", 6),
];
const DROPS: &[Column] =
    &[number("packets/s", 9), number("total", 10), text("reason", 26), text("meaning", 0)];
const FLOWS: &[Column] = &[
    number("rate", 8),
    number("packets/s", 9),
    number("total", 8),
    number("CPU", 3),
    number("rule", 5),
    text("flow", 0),
];
const RULES: &[Column] =
    &[number("packets/s", 9), number("rate", 8), number("packets", 9), number("number", 6), text("rule", 0)];
const CONNECTIONS: &[Column] = &[
    number("in", 8),
    number("out", 8),
    number("RTT", 8),
    number("cwnd", 8),
    number("rexmt", 6),
    number("CPU", 3),
    text("connection", 0),
];

/// A row before it is text: what it can be sorted by, in the order of the sort columns.
struct Keyed {
    keys: Vec<f64>,
    cells: Vec<String>,
    alarming: bool,
}

/// The columns that a pane can be sorted by.
pub(super) fn sort_columns(pane: Pane) -> &'static [usize] {
    match pane {
        Pane::Overview => &[],
        Pane::Interfaces => &[1, 4, 2, 5, 7],
        Pane::Drops | Pane::Connections => &[0, 1],
        Pane::Flows | Pane::Rules => &[0, 1, 2],
    }
}

/// The table of a pane; the overview's is that of the interfaces. `spark` draws the history of an interface.
pub(super) fn grid(rates: &Rates, view: &View, spark: &dyn Fn(&str, bool) -> String) -> Grid {
    let unit = Unit { bytes: view.bytes };
    let (columns, mut rows, empty) = match view.pane {
        Pane::Overview | Pane::Interfaces => {
            (INTERFACES, rows(&rates.interfaces, |row| interface(row, unit, spark)), "no interfaces")
        }
        Pane::Drops => (DROPS, rows(&rates.drops, drop_row), "no packet was dropped"),
        Pane::Flows => (
            FLOWS,
            rows(&rates.flows, |row| flow(row, unit)),
            "no states: no rule keeps one, or no flow is alive",
        ),
        Pane::Rules => (RULES, rows(&rates.rules, |row| rule(row, unit)), "no rules"),
        Pane::Connections => {
            (CONNECTIONS, rows(&rates.connections, |row| connection(row, unit)), "no TCP connections")
        }
    };
    let sortable = sort_columns(view.pane);
    let by = view.sort.min(sortable.len().saturating_sub(1));
    if !sortable.is_empty() {
        rows.sort_by(|one, other| compare(one, other, by));
        if view.reverse {
            rows.reverse();
        }
    }
    Grid {
        columns,
        alarming: rows.iter().map(|row| row.alarming).collect(),
        rows: rows.into_iter().map(|row| row.cells).collect(),
        sorted_by: sortable.get(by).copied(),
        empty,
    }
}

/// The drops of the overview: those that happen now first.
pub(super) fn drops(rates: &Rates) -> Grid {
    let view = View::new(Pane::Drops, core::time::Duration::ZERO);
    grid(rates, &view, &|_, _| String::new())
}

/// The CPUs of the overview.
pub(super) fn cpus(rates: &Rates) -> Grid {
    let rows = rows(&rates.cpus, cpu);
    let alarming = rows.iter().map(|row| row.alarming).collect();
    let rows = rows.into_iter().map(|row| row.cells).collect();
    Grid { columns: CPUS, rows, alarming, sorted_by: None, empty: "no netisr" }
}

fn rows<T>(all: &[T], row: impl Fn(&T) -> Keyed) -> Vec<Keyed> {
    all.iter().map(row).collect()
}

/// Larger first; the next keys decide between equals, so that rows do not jump about.
fn compare(one: &Keyed, other: &Keyed, by: usize) -> Ordering {
    let key = |row: &Keyed, at: usize| row.keys.get(at).copied().unwrap_or_default();
    let keys = core::iter::once(by).chain(0..one.keys.len());
    keys.map(|at| key(other, at).total_cmp(&key(one, at)))
        .find(|order| order.is_ne())
        .unwrap_or_else(|| one.cells.cmp(&other.cells))
}

fn cpu(row: &CpuRates) -> Keyed {
    let cells = vec![
        row.cpu.to_string(),
        bar(row.busy_percent, CPUS[1].width.into()),
        format!("{:.0}", row.busy_percent),
        short(row.packets),
        format!("{:.1}", row.packets_per_turn),
        short(row.handoffs_in),
        short(row.handoffs_out),
        format!("{}/{}", short_count(row.buffers_free), short_count(row.buffers)),
    ];
    Keyed { keys: Vec::new(), cells, alarming: row.busy_percent > 95.0 }
}

fn interface(row: &InterfaceRates, unit: Unit, spark: &dyn Fn(&str, bool) -> String) -> Keyed {
    let name = if row.up { row.name.clone() } else { format!("{} down", row.name) };
    let cells = vec![
        name,
        unit.rate(row.rx_bytes),
        short(row.rx_packets),
        spark(&row.name, true),
        unit.rate(row.tx_bytes),
        short(row.tx_packets),
        spark(&row.name, false),
        short(row.drops),
        row.queued.to_string(),
    ];
    let keys = vec![row.rx_bytes, row.tx_bytes, row.rx_packets, row.tx_packets, row.drops];
    Keyed { keys, cells, alarming: !row.up || row.drops > 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "an order of rows")]
fn drop_row(row: &DropRates) -> Keyed {
    let cells = vec![short(row.packets), short_count(row.total), row.reason.clone(), row.sentence.clone()];
    Keyed { keys: vec![row.packets, row.total as f64], cells, alarming: row.packets > 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "an order of rows")]
fn flow(row: &FlowRates, unit: Unit) -> Keyed {
    let cells = vec![
        unit.rate(row.bytes),
        short(row.packets),
        short_count(row.bytes_total),
        row.cpu.to_string(),
        row.rule.to_string(),
        format!("{} {} → {}", proto(row.proto), end(row.src), end(row.dst)),
    ];
    Keyed { keys: vec![row.bytes, row.packets, row.bytes_total as f64], cells, alarming: false }
}

#[expect(clippy::cast_precision_loss, reason = "an order of rows")]
fn rule(row: &RuleRates, unit: Unit) -> Keyed {
    let cells = vec![
        short(row.packets),
        unit.rate(row.bytes),
        short_count(row.packets_total),
        row.number.to_string(),
        row.rule.clone(),
    ];
    let denies = ["deny", "reject", "unreach", "reset"].iter().any(|word| row.rule.starts_with(word));
    let keys = vec![row.packets, row.bytes, row.packets_total as f64];
    Keyed { keys, cells, alarming: denies && row.packets > 0.0 }
}

fn connection(row: &ConnectionRates, unit: Unit) -> Keyed {
    let cells = vec![
        unit.rate(row.rx_bytes),
        unit.rate(row.tx_bytes),
        row.rtt_us.map_or_else(|| "-".to_owned(), time),
        short_count(row.cwnd.into()),
        row.retrans.to_string(),
        row.cpu.to_string(),
        format!("{} → {} {}", row.local, row.foreign, row.state),
    ];
    Keyed { keys: vec![row.rx_bytes, row.tx_bytes], cells, alarming: false }
}

/// Bits or bytes a second.
#[derive(Clone, Copy)]
struct Unit {
    bytes: bool,
}

impl Unit {
    fn rate(self, bytes: f64) -> String {
        if self.bytes { format!("{}B", short(bytes)) } else { format!("{}b", short(bytes * 8.0)) }
    }
}

/// Prints a number in at most five characters and a decimal prefix: `12.3M`.
pub(super) fn short(value: f64) -> String {
    const PREFIXES: [&str; 5] = ["", "k", "M", "G", "T"];
    let (mut value, mut prefix) = (value, 0);
    while value >= 999.5 && prefix + 1 < PREFIXES.len() {
        (value, prefix) = (value / 1000.0, prefix + 1);
    }
    let digits = match value {
        _ if prefix == 0 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}{}", PREFIXES[prefix])
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn short_count(value: u64) -> String {
    short(value as f64)
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn time(us: u64) -> String {
    if us < 1000 { format!("{us} us") } else { format!("{:.1} ms", us as f64 / 1000.0) }
}

/// A bar of `width` characters, full at 100 percent.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the width")]
#[expect(clippy::cast_precision_loss, reason = "a bar has few characters")]
fn bar(percent: f64, width: usize) -> String {
    let full = ((percent / 100.0 * width as f64).round() as usize).min(width);
    "█".repeat(full) + &"░".repeat(width - full)
}

fn proto(number: u8) -> String {
    match number {
        1 => "icmp".into(),
        6 => "tcp".into(),
        17 => "udp".into(),
        58 => "icmp6".into(),
        132 => "sctp".into(),
        other => format!("proto {other}"),
    }
}

/// A socket address; without a port the address alone.
fn end(addr: SocketAddr) -> String {
    if addr.port() == 0 { addr.ip().to_string() } else { addr.to_string() }
}
