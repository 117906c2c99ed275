//! Goodput of pantala's TCP and of Linux's over bad paths. `cargo xtask interop`.
//!
//! The tests say what they measured in lines of JSON; here they are told to take their time, and become tables.

use core::fmt::Write;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::args::Args;
use crate::run::{cargo, root};

const DOCUMENT: &str = "docs/evidence/INTEROP.md";
/// Bytes of a transfer, and rounds of a path, if nothing is said.
const BYTES: u64 = 1_000_000_000;
const ROUNDS: u64 = 5;

/// A measurement.
#[derive(Default, Serialize)]
struct Measured {
    transfers: Vec<Transfer>,
    goodputs: Vec<Goodput>,
}

/// Data both ways at once, which came as it was.
#[derive(Serialize, Deserialize)]
struct Transfer {
    family: String,
    from: String,
    to: String,
    damage: String,
    /// Each way.
    bytes: u64,
    seconds: f64,
    lost: u64,
    moved: u64,
    copied: u64,
}

/// Medians, in Mbit/s.
#[derive(Serialize, Deserialize)]
struct Goodput {
    loss: String,
    rtt_ms: u32,
    rounds: u64,
    linux_cubic: f64,
    cubic: f64,
    linux_reno: f64,
    newreno: f64,
}

/// `cargo xtask interop`
pub fn command(args: &mut Args) -> Result<bool> {
    let bytes = args.number("--bytes")?.unwrap_or(BYTES);
    let rounds = args.number("--rounds")?.unwrap_or(ROUNDS);
    let only = args.text("--only")?;
    let (json, write) = (args.flag("--json"), args.flag("--write"));
    args.finish()?;
    let mut measured = Measured::default();
    for (part, test) in [("transfers", "interop::bulk"), ("goodput", "interop::goodput")] {
        if only.as_ref().is_none_or(|only| part.contains(only.as_str())) {
            run(test, bytes, rounds, &mut measured)?;
        }
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&measured)?);
    } else {
        println!("{}\n{}", transfers(&measured.transfers), goodputs(&measured.goodputs));
    }
    if write { self::write(&measured).map(|()| true) } else { Ok(true) }
}

/// Runs a test, and reads what it says.
fn run(test: &str, bytes: u64, rounds: u64, measured: &mut Measured) -> Result<()> {
    let mut command =
        cargo(["test", "--release", "--package", "pantala", "--test", "e2e", "--", "--nocapture"]);
    command.arg(test).env("PANTALA_BYTES", bytes.to_string()).env("PANTALA_GOODPUT", rounds.to_string());
    let output = command.stderr(Stdio::inherit()).output().context("cargo test")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{test} failed:\n{text}");
    for line in text.lines() {
        if let Some((_, line)) = line.split_once("TRANSFER ") {
            measured.transfers.push(serde_json::from_str(line)?);
        } else if let Some((_, line)) = line.split_once("GOODPUT ") {
            measured.goodputs.push(serde_json::from_str(line)?);
        }
    }
    Ok(())
}

fn transfers(all: &[Transfer]) -> String {
    let mut text = "| | from, to | the path | MB each way | s | Mbit/s each way | lost, moved, copied |\n\
                    |---|---|---|---|---|---|---|\n"
        .to_owned();
    for Transfer { family, from, to, damage, bytes, seconds, lost, moved, copied } in all {
        let (megabytes, rate) = (bytes / 1_000_000, rate(*bytes, *seconds));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {family} | {from}, {to} | {damage} | {megabytes} | {seconds:.1} | {rate:.0} | {lost}, {moved}, {copied} |"
        );
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn rate(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 * 8.0 / 1e6 / seconds
}

fn goodputs(all: &[Goodput]) -> String {
    let mut text = "| loss | round trip | Linux CUBIC | CUBIC | | Linux Reno | NewReno | |\n\
                    |---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for Goodput { loss, rtt_ms, linux_cubic, cubic, linux_reno, newreno, .. } in all {
        let share = |ours: f64, theirs: f64| format!("{:+.0} %", (ours / theirs - 1.0) * 100.0);
        let (of_cubic, of_reno) = (share(*cubic, *linux_cubic), share(*newreno, *linux_reno));
        let percent = loss.parse::<f64>().map_or(0.0, |loss| loss * 100.0);
        let _ = writeln!(
            text,
            "| {percent} % | {rtt_ms} ms | {linux_cubic:.1} | {cubic:.1} | {of_cubic} | {linux_reno:.1} | \
             {newreno:.1} | {of_reno} |"
        );
    }
    text
}

/// Writes the tables between their marks.
fn write(measured: &Measured) -> Result<()> {
    let path = root().join(DOCUMENT);
    let mut text = std::fs::read_to_string(&path).context(DOCUMENT)?;
    for (name, is_there, table) in [
        ("transfers", !measured.transfers.is_empty(), transfers(&measured.transfers)),
        ("goodput", !measured.goodputs.is_empty(), goodputs(&measured.goodputs)),
    ] {
        if is_there {
            text = replaced(&text, name, &table)
                .with_context(|| format!("{DOCUMENT} has no place for {name}"))?;
        }
    }
    std::fs::write(&path, text)?;
    eprintln!("{DOCUMENT}: written");
    Ok(())
}

/// The text with what stands between the marks of `name` replaced.
fn replaced(text: &str, name: &str, table: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- interop: {name} -->\n"), format!("<!-- interop: {name} end -->\n"));
    let (before, rest) = text.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}{table}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_replaced_and_the_rest_stays() {
        let text = "a\n<!-- interop: goodput -->\nold\n<!-- interop: goodput end -->\nb\n";
        let new = replaced(text, "goodput", "new\n").unwrap();
        assert_eq!(new, text.replace("old", "new"));
        assert!(replaced(text, "transfers", "new\n").is_none());
    }

    #[test]
    fn shares_say_how_much_more_or_less_than_linux_it_is() {
        let line = r#"{"loss":"0.01","rtt_ms":10,"rounds":5,"linux_cubic":10,"cubic":11,"linux_reno":8,"newreno":6}"#;
        let text = goodputs(&[serde_json::from_str(line).unwrap()]);
        assert!(text.ends_with("| 1 % | 10 ms | 10.0 | 11.0 | +10 % | 8.0 | 6.0 | -25 % |\n"), "{text}");
    }
}
