//! Commands that change something: they are checked here, and carried out by the running stack.

use std::io::Read;
use std::path::Path;

use ipfw::limit::ERRORS_MAX;

use super::Options;
use crate::api::client::ClientError;
use crate::api::{FirewallCommands, FirewallDone};
use crate::cli::{Failure, Session};
use crate::firewall::looks;
use crate::show;

/// Carries one command out.
pub(super) fn one(text: &str, options: &Options, session: &mut Session<'_>) -> Result<(), Failure> {
    send(String::new(), text.to_owned(), options, session)
}

/// Carries the commands of a file out, all or none.
pub(super) fn file(path: &Path, options: &Options, session: &mut Session<'_>) -> Result<(), Failure> {
    let (name, text) = if path == Path::new("-") {
        let mut text = String::new();
        ("standard input".to_owned(), std::io::stdin().read_to_string(&mut text).map(|_| text))
    } else {
        (path.display().to_string(), std::fs::read_to_string(path))
    };
    let text = text.map_err(|why| Failure::Failed(format!("cannot read {name}: {why}")))?;
    let statements = ipfw::parse_file(&name, &text).map_err(|errors| wrong(&errors, session))?;
    let looking = statements.iter().filter(|statement| statement.command.only_looks());
    let errors: Vec<_> =
        looking.take(ERRORS_MAX).map(|statement| looks().at(&name, &text, statement.line)).collect();
    if !errors.is_empty() {
        return Err(wrong(&errors, session));
    }
    if options.check_only {
        return Ok(());
    }
    send(name, text, options, session)
}

/// Says all that is wrong with a file.
fn wrong(errors: &[ipfw::Error], session: &mut Session<'_>) -> Failure {
    if session.json {
        let list: Vec<_> = errors.iter().map(as_json).collect();
        session.term.complain(&format!("{:#}", serde_json::json!({ "problems": list })));
    } else {
        errors.iter().for_each(|error| session.term.complain(&error.to_string()));
    }
    Failure::Said
}

fn as_json(error: &ipfw::Error) -> serde_json::Value {
    serde_json::json!({
        "file": error.file,
        "line": error.line,
        "column": error.column,
        "message": error.message,
        "help": error.expected.iter().chain(&error.help).cloned().collect::<Vec<_>>().join("; "),
    })
}

fn send(name: String, text: String, options: &Options, session: &mut Session<'_>) -> Result<(), Failure> {
    let commands = FirewallCommands { name, text };
    let done: Vec<FirewallDone> = match session.client.post("/v1/firewall/commands", &commands) {
        // It has its own place in the text, and needs no program name before it.
        Err(ClientError::Refused(refusal)) if !session.json => {
            session.term.complain(&refusal.error);
            return Err(Failure::Said);
        }
        answer => answer?,
    };
    if options.quiet {
        return Ok(());
    }
    if !session.json {
        let warned = done.iter().filter(|done| !done.warning.is_empty());
        warned.for_each(|done| session.term.complain(&format!("ipfw: warning: {}", done.warning)));
    }
    session.show(&done, |done| {
        let said = done.iter().map(|done| &done.output).filter(|said| !said.is_empty());
        let line =
            |said: &String| if options.columns.compact { show::ipfw::compact(said) } else { said.clone() };
        said.map(|said| line(said) + "\n").collect()
    })
}
