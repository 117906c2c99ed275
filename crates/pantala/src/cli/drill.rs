//! `drill`: scripts of packetdrill, read and run against the stack in this process, in virtual time.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use clap::Args;
use drill::mutate::Role;
use drill::script::IpVersion;
use drill::{Mutant, Script};
use sim::drill::Setup;
use sim::mem::Rss;

use super::Failure;
use crate::term::Term;

pub(crate) const HELP: &str = "\
Scripts are in the language of packetdrill, with the extensions of its nplab
fork for TCP. Each runs against a host of its own, in this process and in
virtual time: it needs no interface and no privileges, and does not wait.

  pantala drill FILE.pkt           one script
  pantala drill -j 2 FOLDER        all *.pkt below a folder, two at a time
  pantala drill --cpus 8 FOLDER    on hosts with eight CPUs
  pantala drill --mutate FILE.pkt  and each script that differs from it in one
                                   expectation, which must fail
  pantala drill -n -v FILE.pkt     only parse it; each error with its line and
                                   a caret
  pantala drill -D FreeBSD FOLDER  with the branches of #ifdef FreeBSD

Each failure is one line, FILE:LINE: what was expected, and what came; the last
line says how many passed and failed, with --mutate also how many mutants ran
and how many of them passed, which none should. A script that cannot be parsed
has failed.
Exit codes: 0 all passed, 1 one failed, 2 usage error.";

/// Arguments of `drill`.
#[derive(Debug, Args)]
pub(crate) struct Drill {
    /// Only read the scripts, and say what is wrong with them
    #[arg(short = 'n', long = "check")]
    check: bool,
    /// Show the line of what cannot be read, with a caret
    #[arg(short, long)]
    verbose: bool,
    /// Definition for #ifdef
    #[arg(short = 'D', value_name = "NAME", default_value = drill::STANDARD)]
    defined: Vec<String>,
    /// Scripts that run at a time
    #[arg(short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// CPUs of the hosts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    cpus: u16,
    /// Packets come by any ring, not by that of the CPU that owns them
    #[arg(long)]
    any_ring: bool,
    /// Also run every script that demands something else in one place: it must fail
    #[arg(long, conflicts_with = "check")]
    mutate: bool,
    /// Scripts that do not say which version of IP they are for run with IPv6
    #[arg(short = '6')]
    ipv6: bool,
    /// Scripts, and folders of scripts (*.pkt)
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// An error of a script.
enum Problem {
    /// It cannot be read from where it is.
    Missing(PathBuf, String),
    /// It cannot be understood.
    Wrong(Box<drill::Error>),
    /// The stack does not do what it demands.
    Unmet(PathBuf, sim::drill::Failure),
}

/// The result of a script.
struct Ran {
    problems: Vec<Problem>,
    mutants: Mutants,
}

/// Scripts that demand something else in one place.
#[derive(Default)]
struct Mutants {
    ran: usize,
    passed: usize,
}

impl Drill {
    pub(crate) fn run(&self, json: bool, term: &mut Term) -> Result<(), Failure> {
        let mut scripts = Vec::new();
        let missing: Vec<Problem> =
            self.paths.iter().filter_map(|path| find(path, &mut scripts).err()).collect();
        let results = self.run_all(&scripts);
        let failed = results.iter().filter(|result| !result.problems.is_empty()).count() + missing.len();
        let passed = scripts.len() + missing.len() - failed;
        let mutants = self.mutate.then(|| Mutants {
            ran: results.iter().map(|result| result.mutants.ran).sum(),
            passed: results.iter().map(|result| result.mutants.passed).sum(),
        });
        let problems: Vec<Problem> =
            results.into_iter().flat_map(|result| result.problems).chain(missing).collect();
        if json {
            let list: Vec<_> = problems.iter().map(as_json).collect();
            let good = if self.check { "read" } else { "passed" };
            let mut all = serde_json::json!({ good: passed, "failed": failed, "problems": list });
            if let Some(Mutants { ran, passed }) = mutants {
                all["mutants"] = serde_json::json!({ "ran": ran, "passed": passed });
            }
            term.show(&format!("{all:#}\n"))?;
        } else if self.check {
            problems.iter().for_each(|problem| term.complain(&self.shown(problem)));
            term.show(&format!("{passed} read, {failed} could not be read\n"))?;
        } else {
            // Which scripts have failed is what was asked for.
            let lines = problems.iter().map(|problem| format!("{}\n", self.shown(problem).trim_end()));
            let mutants = mutants.map_or_else(String::new, |Mutants { ran, passed }| {
                format!("; {ran} mutants ran, {passed} of them passed")
            });
            term.show(&format!("{}{passed} passed, {failed} failed{mutants}\n", lines.collect::<String>()))?;
        }
        if failed == 0 { Ok(()) } else { Err(Failure::Said) }
    }

    /// The result of each of the scripts, in their order.
    fn run_all(&self, scripts: &[PathBuf]) -> Vec<Ran> {
        let next = AtomicUsize::new(0);
        let results = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..self.jobs {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(script) = scripts.get(at) else { return };
                        let result = self.try_one(script);
                        if let Ok(mut results) = results.lock() {
                            results.push((at, result));
                        }
                    }
                });
            }
        });
        let mut results = results.into_inner().unwrap_or_default();
        results.sort_by_key(|(at, _)| *at);
        results.into_iter().map(|(_, result)| result).collect()
    }

    fn try_one(&self, path: &Path) -> Ran {
        let alone = |problems| Ran { problems, mutants: Mutants::default() };
        let script = match self.read(path) {
            Ok(script) => script,
            Err(problems) => return alone(problems),
        };
        if self.check {
            return alone(Vec::new());
        }
        match sim::drill::run(&script, &self.setup()) {
            Err(failure) => alone(vec![Problem::Unmet(path.to_owned(), failure)]),
            Ok(()) if self.mutate => self.lenient(path, &script),
            Ok(()) => alone(Vec::new()),
        }
    }

    /// Runs the mutants of a script; each that passes is a problem.
    fn lenient(&self, path: &Path, script: &Script) -> Ran {
        let mut ran = 0;
        let mutants = drill::mutants(script).filter(|mutant| mutant.role == Role::Demand);
        let mutants = mutants.inspect(|_| ran += 1);
        let passing = mutants.filter(|mutant| sim::drill::run(&mutant.script, &self.setup()).is_ok());
        let failure = |mutant: Mutant| {
            let message = format!("expected a failure with another {}: {}", mutant.field, mutant.change);
            Problem::Unmet(path.to_owned(), sim::drill::Failure { pos: mutant.pos, message })
        };
        let problems: Vec<Problem> = passing.map(failure).collect();
        let passed = problems.len();
        Ran { problems, mutants: Mutants { ran, passed } }
    }

    fn setup(&self) -> Setup {
        Setup {
            cpus: self.cpus,
            rss: if self.any_ring { Rss::Wrong } else { Rss::Right },
            version: if self.ipv6 { IpVersion::Ipv6 } else { IpVersion::Ipv4 },
            ..Setup::default()
        }
    }

    fn read(&self, path: &Path) -> Result<Script, Vec<Problem>> {
        let bytes = fs::read(path).map_err(|why| vec![Problem::Missing(path.to_owned(), why.to_string())])?;
        let defined: Vec<&str> = self.defined.iter().map(String::as_str).collect();
        drill::parse(&path.display().to_string(), &String::from_utf8_lossy(&bytes), &defined)
            .map_err(|errors| errors.into_iter().map(|error| Problem::Wrong(Box::new(error))).collect())
    }

    fn shown(&self, problem: &Problem) -> String {
        match problem {
            Problem::Missing(path, why) => format!("{}: {why}", path.display()),
            Problem::Wrong(error) if self.verbose => error.to_string(),
            Problem::Wrong(error) => error.line(),
            Problem::Unmet(path, failure) => format!("{}:{failure}", path.display()),
        }
    }
}

/// The scripts at `path`: the file itself, or all below a folder, sorted.
fn find(path: &Path, scripts: &mut Vec<PathBuf>) -> Result<(), Problem> {
    if !path.is_dir() {
        scripts.push(path.to_owned());
        return Ok(());
    }
    let before = scripts.len();
    walk(path, scripts).map_err(|why| Problem::Missing(path.to_owned(), why.to_string()))?;
    scripts.get_mut(before..).unwrap_or_default().sort();
    match scripts.len() > before {
        true => Ok(()),
        false => Err(Problem::Missing(path.to_owned(), "no script (*.pkt) is in this folder".to_owned())),
    }
}

/// Symbolic links to folders are not followed, so that there is an end.
fn walk(folder: &Path, scripts: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            walk(&path, scripts)?;
        } else if path.extension().is_some_and(|extension| extension == "pkt") {
            scripts.push(path);
        }
    }
    Ok(())
}

fn as_json(problem: &Problem) -> serde_json::Value {
    match problem {
        Problem::Missing(path, why) => serde_json::json!({
            "file": path.display().to_string(), "line": 0, "column": 0, "message": why, "help": "",
        }),
        Problem::Wrong(error) => serde_json::json!({
            "file": error.file,
            "line": error.line,
            "column": error.column,
            "message": error.message,
            "help": error.expected.iter().chain(&error.help).cloned().collect::<Vec<_>>().join("; "),
        }),
        Problem::Unmet(path, failure) => serde_json::json!({
            "file": path.display().to_string(),
            "line": failure.pos.line,
            "column": failure.pos.column,
            "message": failure.message,
            "help": "",
        }),
    }
}
