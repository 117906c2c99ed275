//! Commands that change something: the running stack parses them, and carries them out.

use std::io::Read;
use std::path::Path;

use super::Options;
use crate::api::client::ClientError;
use crate::api::{Error, FirewallCommands, FirewallDone};
use crate::cli::{Failure, Session};
use crate::firewall::text;
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
    if options.check_only {
        let refused = |mistakes: Vec<_>| wrong(&Error::of_text(&mistakes), session);
        return text::parse(&name, &text).map(drop).map_err(refused);
    }
    send(name, text, options, session)
}

/// Says all that is wrong with a text. It has its own places, and needs no program name before it.
fn wrong(refusal: &Error, session: &mut Session<'_>) -> Failure {
    if session.json {
        session.term.complain(&format!("{:#}", serde_json::json!({ "problems": refusal.problems })));
    } else {
        session.term.complain(&refusal.error);
    }
    Failure::Said
}

fn send(name: String, text: String, options: &Options, session: &mut Session<'_>) -> Result<(), Failure> {
    let is_file = !name.is_empty();
    let commands = FirewallCommands { name, text };
    let done: Vec<FirewallDone> = match session.client.post("/v1/firewall/commands", &commands) {
        Err(ClientError::Refused(refusal)) if !session.json || is_file && !refusal.problems.is_empty() => {
            return Err(wrong(&refusal, session));
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
