//! `sysctl`.

use crate::api::{Sysctl, SysctlChanged};
use crate::cli::sysctl::Style;

/// A line for each.
pub(crate) fn variables(all: &[Sysctl], style: Style) -> String {
    let line = |one: &Sysctl| match style {
        Style::Both => format!("{}: {}\n", one.name, one.value),
        Style::Values => format!("{}\n", one.value),
        Style::Names => format!("{}\n", one.name),
        Style::Descriptions => format!("{}: {} ({})\n", one.name, one.description, possible(one)),
    };
    all.iter().map(line).collect()
}

/// As BSD says it.
pub(crate) fn changed(changed: &SysctlChanged, style: Style) -> String {
    match style {
        Style::Values => format!("{}\n", changed.new),
        _ => format!("{}: {} -> {}\n", changed.name, changed.old, changed.new),
    }
}

/// Prints the range of a variable.
fn possible(one: &Sysctl) -> String {
    if !one.writable {
        return "cannot be changed".to_owned();
    }
    let unit = if one.unit.is_empty() { String::new() } else { format!(" {}", one.unit) };
    let values = match one.words.as_slice() {
        [] => format!("{} to {}{unit}", one.min, one.max),
        words => words.join(" or "),
    };
    format!("{values}, usually {}", one.default)
}
