//! Plays conformance sequences to a host in virtual time: `tahi FILE [--cpus N] [--json] [--only PREFIX] [--seed S]`.
//!
//! One line per failed sequence, and `N passed, M failed` on the last. Exit code 1 if one failed, or cannot be read.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

use std::process::ExitCode;

use serde_json::json;
use sim::tahi::{Failure, Sequence, run};

struct Args {
    file: String,
    cpus: u16,
    json: bool,
    only: String,
    /// All chance in the worlds follows from it.
    seed: u64,
}

fn main() -> ExitCode {
    let Some(args) = Args::read(std::env::args().skip(1)) else {
        eprintln!("usage: tahi FILE [--cpus N] [--json] [--only PREFIX] [--seed S]");
        return ExitCode::from(2);
    };
    let text = match std::fs::read_to_string(&args.file) {
        Ok(text) => text,
        Err(why) => {
            eprintln!("tahi: {}: {why}", args.file);
            return ExitCode::FAILURE;
        }
    };
    let (mut passed, mut failed) = (0, Vec::new());
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        match play(line, number, &args) {
            Some(Ok(())) => passed += 1,
            Some(Err((id, failure))) => failed.push((id, failure)),
            None => {}
        }
    }
    print(passed, &failed, args.json);
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Plays one line; `None` if it was not asked for.
fn play(line: &str, number: usize, args: &Args) -> Option<Result<(), (String, Failure)>> {
    match Sequence::parse(line) {
        Ok(sequence) if !sequence.id.starts_with(&args.only) => None,
        Ok(sequence) => Some(run(&sequence, args.cpus, args.seed).map_err(|failure| (sequence.id, failure))),
        Err(why) => {
            let (expected, came) = ("a sequence".to_owned(), why.to_string());
            Some(Err((format!("line {number}"), Failure { step: 0, expected, came })))
        }
    }
}

fn print(passed: usize, failed: &[(String, Failure)], as_json: bool) {
    if as_json {
        let row = |(id, why): &(String, Failure)| json!({ "id": id, "step": why.step, "expected": why.expected, "came": why.came });
        let failures: Vec<_> = failed.iter().map(row).collect();
        println!("{}", json!({ "passed": passed, "failed": failed.len(), "failures": failures }));
        return;
    }
    for (id, Failure { step, expected, came }) in failed {
        println!("{id} step {step}: expected {expected}; came {came}");
    }
    println!("{passed} passed, {} failed", failed.len());
}

impl Args {
    fn read(mut words: impl Iterator<Item = String>) -> Option<Self> {
        let mut args = Self { file: String::new(), cpus: 1, json: false, only: String::new(), seed: 1 };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--json" => args.json = true,
                "--cpus" => args.cpus = words.next()?.parse().ok().filter(|cpus| *cpus > 0)?,
                "--seed" => args.seed = words.next()?.parse().ok()?,
                "--only" => args.only = words.next()?,
                _ if args.file.is_empty() && !word.starts_with('-') => args.file = word,
                _ => return None,
            }
        }
        Some(args).filter(|args| !args.file.is_empty())
    }
}
