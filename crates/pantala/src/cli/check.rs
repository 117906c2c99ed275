//! `check -c FILE`: is this configuration right?

use std::path::Path;

use super::Failure;
use crate::config::{Config, ConfigError, Machine, Problem};
use crate::term::Term;

pub(crate) fn run(file: &Path, json: bool, term: &mut Term) -> Result<(), Failure> {
    match (Config::load(file, &Machine::here()), json) {
        (Ok(config), true) => {
            let warnings = serde_json::json!({ "problems": [], "warnings": warnings(&config) });
            Ok(term.show(&format!("{warnings:#}\n"))?)
        }
        (Ok(config), false) => {
            warnings(&config).iter().for_each(|warning| term.complain(&format!("warning: {warning}")));
            Ok(term.show(&summary(file, &config))?)
        }
        (Err(ConfigError::Wrong(problems)), true) => {
            let list: Vec<_> = problems.list.iter().map(as_json).collect();
            term.show(&format!("{:#}\n", serde_json::json!({ "problems": list, "more": problems.more })))?;
            Err(Failure::Said)
        }
        (Err(ConfigError::Wrong(problems)), false) => {
            term.complain(&problems.to_string());
            Err(Failure::Said)
        }
        (Err(error), _) => Err(Failure::Failed(error.to_string())),
    }
}

fn summary(file: &Path, config: &Config) -> String {
    let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    format!(
        "{}: ok: {}, {}, {}\n",
        file.display(),
        plural(config.cpus.len(), "CPU"),
        plural(config.interfaces.len(), "interface"),
        plural(config.routes.len(), "route")
    )
}

fn warnings(config: &Config) -> &[String] {
    config.firewall.as_ref().map_or(&[], |firewall| &firewall.warnings)
}

fn as_json(problem: &Problem) -> serde_json::Value {
    serde_json::json!({
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "message": problem.message,
        "help": problem.help,
    })
}
