//! Pages of the documentation that say what code says. `NET_BLESS=1 cargo test -p net --test docs` writes them.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its files fails")]

use core::fmt::Write as _;

use net::count::Count;
use net::drop::DropReason;
use net::sysctl::{Unit, VARIABLES, Variable};
use net::tcp::tcb::{Event, State, transitions};

const BEGIN: &str = "<!-- begin: written by a test of `net` -->\n";
const END: &str = "<!-- end -->\n";

/// Holds what stands between the marks of a page to `text`, or writes it.
fn says(page: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let whole = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = whole.split_once(BEGIN).unwrap();
    let (kept, after) = rest.split_once(END).unwrap();
    if std::env::var_os("NET_BLESS").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}\n{text}\n{END}{after}")).unwrap();
    } else {
        assert_eq!(kept, format!("\n{text}\n"), "{page}: NET_BLESS=1 writes it");
    }
}

#[test]
fn all_variables_are_listed() {
    let mut table = "| variable | what | values | default |\n|---|---|---|---|\n".to_owned();
    for variable in VARIABLES {
        let (name, about, default) = (variable.name, variable.about, variable.text(variable.default()));
        writeln!(table, "| `{name}` | {about} | {} | {default} |", values(variable)).unwrap();
    }
    says("reference/SYSCTL.md", &table);
}

fn values(variable: &Variable) -> String {
    let range = variable.range();
    match (variable.words(), variable.unit()) {
        _ if variable.is_fixed() => "fixed".to_owned(),
        ([], Unit::Milliseconds) => format!("{} to {} ms", range.start(), range.end()),
        ([], Unit::Bytes) => format!("{} to {} bytes", range.start(), range.end()),
        ([], Unit::Switch) => "0, 1".to_owned(),
        ([], Unit::None) => format!("{} to {}", range.start(), range.end()),
        (words, _) => words.join(", "),
    }
}

#[test]
fn all_counters_and_all_drop_reasons_are_listed() {
    let mut text = "## Counters\n\n| counter | stage | meaning |\n|---|---|---|\n".to_owned();
    for count in Count::ALL {
        writeln!(text, "| `{}` | {} | {} |", count.name(), count.stage().name(), count.sentence()).unwrap();
    }
    text.push_str("\n## Drops\n\n| reason | stage | meaning |\n|---|---|---|\n");
    for reason in DropReason::ALL {
        writeln!(text, "| `{}` | {} | {} |", reason.name(), reason.stage().name(), reason.sentence())
            .unwrap();
    }
    says("reference/COUNTERS.md", &text);
}

#[test]
fn the_states_of_a_connection_are_drawn() {
    let mut text = "```mermaid\nstateDiagram-v2\n".to_owned();
    for state in State::ALL {
        writeln!(text, "    state \"{}\" as {state:?}", state.name()).unwrap();
    }
    text.push_str("    [*] --> Closed\n");
    for (from, event, to) in transitions().filter(|(_, event, _)| !event.breaks()) {
        writeln!(text, "    {from:?} --> {to:?}: {}", event.name().0).unwrap();
    }
    text.push_str("```\n\n| from | what | to | RFC 9293 |\n|---|---|---|---|\n");
    for (from, event, to) in transitions().filter(|(_, event, _)| !event.breaks()) {
        let (what, section) = event.name();
        writeln!(text, "| {} | {what} | {} | {section} |", from.name(), to.name()).unwrap();
    }
    for event in Event::ALL.into_iter().filter(|event| event.breaks()) {
        let from = transitions().filter(|(_, other, _)| *other == event).map(|(from, ..)| from.name());
        let (what, section) = event.name();
        writeln!(text, "| {} | {what} | CLOSED | {section} |", from.collect::<Vec<_>>().join(", ")).unwrap();
    }
    says("design/TCP-STATES.md", &text);
}
