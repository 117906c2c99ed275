//! `docs/evidence/MEASUREMENTS.md`: its tables are written here, its words are not.

use core::fmt::Write;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Serialize;

use super::machine::Machine;
use super::table::{Finding, Outcome, Row, value};
use crate::plots::{self, TABLES};
use crate::run::{capture, root};

/// All numbers of the last run.
const REPORT: &str = "target/peers/report.json";

/// All that a run has to tell: what `--json` prints.
#[derive(Serialize)]
pub struct Report<'o> {
    machine: Machine,
    /// Packages and their versions.
    versions: Vec<String>,
    contests: &'o [Outcome],
}

impl<'o> Report<'o> {
    pub fn new(contests: &'o [Outcome]) -> Self {
        Self { machine: Machine::here(), versions: versions(), contests }
    }
}

/// Keeps the numbers for later.
pub fn keep(report: &Report<'_>) -> Result<()> {
    let path = root().join(REPORT);
    std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
    std::fs::write(&path, serde_json::to_string_pretty(report)?)?;
    eprintln!("all numbers: {REPORT}");
    Ok(())
}

/// Writes the tables of these contests, and the machine, between their marks. Those of others stay as they are.
/// The pictures follow.
pub fn write(outcomes: &[Outcome]) -> Result<()> {
    let path = root().join(TABLES);
    let mut text = std::fs::read_to_string(&path).with_context(|| TABLES.to_owned())?;
    let machine = Machine::here();
    text = replaced(&text, "machine", &describe(&machine));
    for outcome in outcomes {
        text = replaced(&text, outcome.id, &section(outcome, &machine));
    }
    std::fs::write(&path, text)?;
    eprintln!("{TABLES}: written");
    plots::write()
}

/// The text with what stands between the marks of `name` replaced; at its end if there are none yet.
fn replaced(text: &str, name: &str, section: &str) -> String {
    let (begin, end) = (format!("<!-- peers: {name} -->\n"), format!("<!-- peers: {name} end -->\n"));
    let place = text.find(&begin).zip(text.find(&end)).filter(|(from, to)| from < to);
    let Some((from, to)) = place else { return format!("{text}\n{begin}{section}{end}") };
    format!("{}{begin}{section}{}", &text[..from], &text[to..])
}

fn describe(machine: &Machine) -> String {
    let Machine { processor, cpus, clock_mhz, kernel, huge_pages, .. } = machine;
    let pages = if *huge_pages { "with huge pages" } else { "without huge pages" };
    let versions: String = versions().iter().map(|version| format!("- {version}\n")).collect();
    format!(
        "- {processor}, {cpus} CPUs of a virtual machine, time stamp counter {clock_mhz:.0} MHz\n\
         - Linux {kernel}; DPDK {pages}\n{versions}"
    )
}

/// Debian's versions of the peers, and the compilers.
fn versions() -> Vec<String> {
    let mut versions = Vec::new();
    for package in ["dpdk", "xdp-tools", "libbpf1", "gcc", "nftables"] {
        let mut dpkg = Command::new("dpkg-query");
        dpkg.args(["--show", "--showformat=${Package} ${Version}", package]);
        versions.extend(capture(dpkg));
    }
    let mut rustc = Command::new("rustc");
    rustc.arg("--version");
    versions.extend(capture(rustc).map(|version| version.trim().to_owned()));
    versions
}

fn section(outcome: &Outcome, machine: &Machine) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_section(&mut text, outcome, machine);
    text
}

fn write_section(text: &mut String, outcome: &Outcome, machine: &Machine) -> core::fmt::Result {
    let Outcome { id, title, unit, rows, findings } = outcome;
    let rounds = rows.iter().map(|row| row.samples.len()).max().unwrap_or_default();
    writeln!(text, "*{title}.* {}, {}, {rounds} rounds (`--only {id}`).\n", machine.date, machine.commit)?;
    writeln!(
        text,
        "| | M {unit}/s: median | quartiles | cycles, fast state | launches in it | what each CPU did |"
    )?;
    writeln!(text, "|---|---|---|---|---|---|")?;
    rows.iter().try_for_each(|row| write_row(text, row))?;
    if !findings.is_empty() {
        writeln!(text, "\n| | median [quartiles] of rounds | | needed |\n|---|---|---|---|")?;
    }
    findings.iter().try_for_each(|finding| write_finding(text, finding))
}

fn write_row(text: &mut String, row: &Row) -> core::fmt::Result {
    let Row { name, cpus, note, .. } = row;
    let Some(rate) = row.rate else { return writeln!(text, "| {name} | {note} | | | | {cpus} |") };
    let (median, low, high) = (rate.median / 1e6, rate.low / 1e6, rate.high / 1e6);
    let cycles = row.cycles_fast.map_or_else(|| "–".into(), |cycles| format!("{cycles:.1}"));
    let mut remarks = vec![cpus.clone()];
    remarks.extend(row.figures.iter().map(|(name, figure)| format!("{name}: {}", short(figure.median))));
    remarks.extend((!note.is_empty()).then(|| note.clone()));
    let (share, remarks) = (row.fast_share * 100.0, remarks.join("; "));
    writeln!(text, "| {name} | {median:.3} | {low:.3} to {high:.3} | {cycles} | {share:.0} % | {remarks} |")
}

/// Three digits of a number, or all before the point.
fn short(number: f64) -> String {
    let decimals = match number.abs() {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{number:.decimals$}")
}

fn write_finding(text: &mut String, finding: &Finding) -> core::fmt::Result {
    let Finding { what, verdict, note, .. } = finding;
    writeln!(text, "| {what} | {} | {} | {note} |", value(finding), verdict.word())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_and_the_rest_stays() {
        let text = "words\n<!-- peers: a -->\nold\n<!-- peers: a end -->\nmore words\n";
        let fresh = "words\n<!-- peers: a -->\nnew\n<!-- peers: a end -->\nmore words\n";
        assert_eq!(replaced(text, "a", "new\n"), fresh);
        assert_eq!(replaced(fresh, "a", "new\n"), fresh);
    }

    #[test]
    fn a_section_without_marks_is_added_with_them() {
        let text = replaced("words\n", "b", "new\n");
        assert_eq!(text, "words\n\n<!-- peers: b -->\nnew\n<!-- peers: b end -->\n");
    }
}
