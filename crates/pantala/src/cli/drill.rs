//! `drill`: scripts of packetdrill. They are read and checked; nothing runs them yet.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::Failure;
use crate::term::Term;

pub(crate) const HELP: &str = "\
Scripts are in the language of packetdrill, with the extensions of its nplab fork that scripts for TCP use.
Running them is not there yet: -n is needed, and checks that they can be read.

  pantala drill -n FILE.pkt            one script
  pantala drill -n FOLDER              all *.pkt below a folder
  pantala drill -n -v FILE.pkt         each error with its line and a caret
  pantala drill -n -D FreeBSD FOLDER   with the branches of #ifdef FreeBSD

One line for each error, FILE:LINE:COLUMN: what is wrong; the last line says how many were read and how many could not be.
Exit codes: 0 all were read, 1 one could not be, 2 the command line was not understood.";

/// What `drill` is given.
#[derive(Debug, Args)]
pub(crate) struct Drill {
    /// Only read the scripts, and say what is wrong with them
    #[arg(short = 'n', long = "check")]
    check: bool,
    /// Show the line of each error, with a caret
    #[arg(short, long)]
    verbose: bool,
    /// What #ifdef finds defined
    #[arg(short = 'D', value_name = "NAME", default_value = drill::STANDARD)]
    defined: Vec<String>,
    /// Scripts, and folders of scripts (*.pkt)
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// What is wrong with a script.
enum Problem {
    /// It cannot be read from where it is.
    Missing(PathBuf, String),
    /// It cannot be understood.
    Wrong(Box<drill::Error>),
}

impl Drill {
    pub(crate) fn run(&self, json: bool, term: &mut Term) -> Result<(), Failure> {
        if !self.check {
            return Err(Failure::usage("drill: scripts can be read, not yet run; -n reads them"));
        }
        let (mut read, mut failed) = (0, 0);
        let mut problems = Vec::new();
        for path in &self.paths {
            let mut scripts = Vec::new();
            if let Err(problem) = find(path, &mut scripts) {
                failed += 1;
                problems.push(problem);
            }
            for script in scripts {
                let wrong = self.read(&script);
                *(if wrong.is_empty() { &mut read } else { &mut failed }) += 1;
                if !json {
                    wrong.iter().for_each(|problem| term.complain(&self.shown(problem)));
                }
                problems.extend(wrong);
            }
        }
        if json {
            let list: Vec<_> = problems.iter().map(as_json).collect();
            let all = serde_json::json!({ "read": read, "failed": failed, "problems": list });
            term.show(&format!("{all:#}\n"))?;
        } else {
            let missing = problems.iter().filter(|problem| matches!(problem, Problem::Missing(..)));
            missing.for_each(|problem| term.complain(&self.shown(problem)));
            term.show(&format!("{read} read, {failed} could not be read\n"))?;
        }
        if failed == 0 { Ok(()) } else { Err(Failure::Said) }
    }

    fn read(&self, path: &Path) -> Vec<Problem> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(why) => return vec![Problem::Missing(path.to_owned(), why.to_string())],
        };
        let defined: Vec<&str> = self.defined.iter().map(String::as_str).collect();
        match drill::parse(&path.display().to_string(), &String::from_utf8_lossy(&bytes), &defined) {
            Ok(_) => Vec::new(),
            Err(errors) => errors.into_iter().map(|error| Problem::Wrong(Box::new(error))).collect(),
        }
    }

    fn shown(&self, problem: &Problem) -> String {
        match problem {
            Problem::Missing(path, why) => format!("{}: {why}", path.display()),
            Problem::Wrong(error) if self.verbose => error.to_string(),
            Problem::Wrong(error) => error.line(),
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
    }
}
