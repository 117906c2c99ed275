//! `doctor`: what of this machine and of the configuration keeps pantala from working, or from working fast.
//!
//! Each finding comes with the command that mends it. Nothing is changed, and no device is opened.

mod interfaces;
mod machine;

use core::fmt::Write as _;
use std::path::{Path, PathBuf};

use dev::netlink::Rtnetlink;
use serde::Serialize;

use crate::cli::Failure;
use crate::config::{Config, ConfigError, DEFAULT_FILE, Machine};
use crate::plural::counted;
use crate::term::{Style, Term};

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// All is well.
    Ok,
    /// It works, but slower, or with a risk.
    Warning,
    /// pantala does not work with it.
    Failure,
}

/// Finding about one subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    /// The machine, the configuration, or an interface.
    subject: String,
    verdict: Verdict,
    text: String,
    /// Commands, or settings, that change it; none if all is well.
    mend: Vec<String>,
}

impl Finding {
    fn ok(subject: &str, text: impl Into<String>) -> Self {
        Self { subject: subject.to_owned(), verdict: Verdict::Ok, text: text.into(), mend: Vec::new() }
    }

    fn warning(subject: &str, text: impl Into<String>, mend: &[&str]) -> Self {
        let mend = mend.iter().map(|line| (*line).to_owned()).collect();
        Self { verdict: Verdict::Warning, mend, ..Self::ok(subject, text) }
    }

    fn failure(subject: &str, text: impl Into<String>, mend: &[&str]) -> Self {
        Self { verdict: Verdict::Failure, ..Self::warning(subject, text, mend) }
    }
}

pub(crate) const HELP: &str = "\
Looks at the kernel, its limits, the CPUs and the interfaces that the
configuration names; without a configuration, at all Ethernet interfaces.
Nothing is changed. The exit code is 1 if something keeps pantala from working.

Examples:
  pantala doctor
  pantala doctor -c router.toml --json";

#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    /// The configuration [default: /etc/pantala/pantala.toml, if it is there]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Doctor {
    pub(crate) fn run(&self, json: bool, term: &mut Term) -> Result<(), Failure> {
        let cpus = Machine::here();
        let mut findings = machine::examine(&machine::Files::here(), &cpus.cpus);
        let (config, found) = self.configuration(&cpus);
        findings.extend(found);
        let netisrs = config.as_ref().map_or(cpus.cpus.len(), |config| config.cpus.len());
        let interfaces = Rtnetlink::open()
            .and_then(|mut netlink| interfaces::examine(&mut netlink, config.as_ref(), netisrs));
        findings.extend(
            interfaces.unwrap_or_else(|why| vec![Finding::failure("interfaces", why.to_string(), &[])]),
        );
        let is_fit = findings.iter().all(|finding| finding.verdict != Verdict::Failure);
        if json {
            term.show(&format!("{:#}\n", serde_json::json!({ "findings": findings })))?;
        } else {
            let text = text(&findings, term);
            term.show(&text)?;
        }
        if is_fit { Ok(()) } else { Err(Failure::Said) }
    }

    /// Reads the configuration that was named, or the usual one if there is one.
    fn configuration(&self, cpus: &Machine) -> (Option<Config>, Option<Finding>) {
        let file = match &self.config {
            Some(file) => file.as_path(),
            None if Path::new(DEFAULT_FILE).exists() => Path::new(DEFAULT_FILE),
            None => {
                let text = format!("{DEFAULT_FILE} is not there; all Ethernet interfaces are looked at");
                return (None, Some(Finding::warning("configuration", text, &["pantala init"])));
            }
        };
        match Config::load(file, cpus) {
            Ok(config) => {
                let interfaces = counted(config.interfaces.len() as u64, "interface");
                let text = format!("{} has no mistakes, {interfaces}", file.display());
                (Some(config), Some(Finding::ok("configuration", text)))
            }
            Err(ConfigError::Wrong(problems)) => {
                let text =
                    format!("{} has {}", file.display(), counted(problems.list.len() as u64, "mistake"));
                let check = format!("pantala check -c {}", file.display());
                (None, Some(Finding::failure("configuration", text, &[&check])))
            }
            Err(why) => (None, Some(Finding::failure("configuration", why.to_string(), &[]))),
        }
    }
}

/// The findings under their subjects, and how many there are of each kind.
fn text(findings: &[Finding], term: &Term) -> String {
    let mut text = String::new();
    let mut subject = "";
    // A String takes all that is written.
    for finding in findings {
        if finding.subject != subject {
            subject = &finding.subject;
            let _ = writeln!(text, "{}", term.style(Style::Bold, subject));
        }
        let verdict = match finding.verdict {
            Verdict::Ok => term.style(Style::Good, "ok     "),
            Verdict::Warning => term.style(Style::Bold, "warning"),
            Verdict::Failure => term.style(Style::Bad, "FAILURE"),
        };
        let _ = writeln!(text, "  {verdict}  {}", finding.text);
        for line in &finding.mend {
            let _ = writeln!(text, "           → {line}");
        }
    }
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count() as u64;
    let (failures, warnings) = (count(Verdict::Failure), count(Verdict::Warning));
    let _ = writeln!(text, "\n{}, {}", counted(failures, "failure"), counted(warnings, "warning"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_stand_under_their_subjects_with_what_mends_them() {
        let term = Term::new(Box::new(std::io::sink()), Box::new(std::io::sink()), false);
        let findings = [
            Finding::ok("machine", "kernel 6.18"),
            Finding::warning("machine", "one CPU sleeps", &["wake it", "or leave it out"]),
            Finding::failure("eth0", "it is gone", &["ip link"]),
        ];
        let expected = "machine\n  ok       kernel 6.18\n  warning  one CPU sleeps\n           → wake it\n           → or leave it out\n\
                        eth0\n  FAILURE  it is gone\n           → ip link\n\n1 failure, 1 warning\n";
        assert_eq!(text(&findings, &term), expected);
    }
}
