//! The command line: `pantala COMMAND …`.
//!
//! The top level is clap's. Behind the BSD words (`ifconfig`, `netstat`, …) stands BSD's grammar, which no option
//! parser knows; each word has a file here that reads it into a value and carries it out.

mod check;
mod config;
mod dhcp;
mod drill;
mod extcap;
mod flags;
mod ifconfig;
mod init;
mod intrctl;
mod ip;
mod ipfw;
mod line;
mod neighbours;
mod netstat;
pub(crate) mod own_stack;
mod ping;
mod ps;
pub(crate) mod resolve;
mod route;
mod run;
mod serve;
mod sockets;
pub(crate) mod sysctl;
mod tcpdrop;
mod tcpdump;
mod trace;
mod up;
mod why;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use serde::Serialize;

use crate::api::client::{Client, ClientError};
use crate::term::Term;

/// The exit of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: as asked.
    Ok,
    /// 1: understood, but it failed.
    Failed,
    /// 2: not understood.
    Usage,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Ok => Self::SUCCESS,
            Exit::Failed => Self::FAILURE,
            Exit::Usage => Self::from(2),
        }
    }
}

/// The description of the command line, for man pages and completions.
#[doc(hidden)]
pub fn command_line() -> clap::Command {
    <line::Line as clap::CommandFactory>::command()
}

/// Runs one command line; the first argument is the program's name.
pub fn run(arguments: impl IntoIterator<Item = OsString>, term: &mut Term) -> Exit {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let line = match line::Line::read(&arguments) {
        Ok(line) => line,
        Err(line::Stop::Help(text)) => {
            let shown = term.show(&text);
            return written(shown, term);
        }
        Err(line::Stop::Usage(text)) => {
            let json = arguments.iter().any(|word| word == "--json");
            term.complain(&if json { usage_json(&text) } else { text });
            return Exit::Usage;
        }
    };
    let json = line.json;
    match line::carry_out(line, term) {
        Ok(()) => Exit::Ok,
        Err(failure) => complain(failure, json, term),
    }
}

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was not understood.
    Usage(String),
    /// The configuration is wrong: all that is, with places.
    Misconfigured(String),
    /// It failed, for this reason.
    Failed(String),
    /// It failed, and all has been said.
    Said,
    /// The running stack did not do it.
    Api(ClientError),
    /// The output cannot be written.
    Output(io::Error),
}

impl Failure {
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Output(error) => Self::Output(error),
            error => Self::Api(error),
        }
    }
}

fn complain(failure: Failure, json: bool, term: &mut Term) -> Exit {
    match failure {
        Failure::Usage(text) => {
            term.complain(&if json { error_json(&text, "") } else { format!("pantala: {text}") });
            Exit::Usage
        }
        Failure::Misconfigured(text) => {
            term.complain(&if json { error_json(&text, "") } else { text });
            Exit::Usage
        }
        Failure::Output(error) => written(Err(error), term),
        Failure::Said => Exit::Failed,
        Failure::Failed(text) => {
            term.complain(&if json { error_json(&text, "") } else { format!("pantala: {text}") });
            Exit::Failed
        }
        Failure::Api(error) => {
            term.complain(&api_complaint(&error, json));
            Exit::Failed
        }
    }
}

fn api_complaint(error: &ClientError, json: bool) -> String {
    match error {
        ClientError::Refused(refusal) if json => error_json(&refusal.error, &refusal.hint),
        ClientError::Refused(refusal) if !refusal.hint.is_empty() => {
            format!("pantala: {}\n         {}", refusal.error, refusal.hint)
        }
        other if json => error_json(&other.to_string(), ""),
        other => format!("pantala: {other}"),
    }
}

/// Turns an error of the option parser into JSON, with its hint.
fn usage_json(text: &str) -> String {
    let complaint = ["error: ", "pantala: "].into_iter().find_map(|prefix| text.strip_prefix(prefix));
    let complaint = complaint.unwrap_or(text);
    let (error, hint) = complaint.split_once("\n\n").unwrap_or((complaint, ""));
    error_json(error.trim(), hint.trim())
}

fn error_json(error: &str, hint: &str) -> String {
    serde_json::json!({ "error": error, "hint": hint }).to_string()
}

/// A reader that has gone is no failure: he has seen enough.
fn written(result: io::Result<()>, term: &mut Term) -> Exit {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            term.complain(&format!("pantala: cannot write the output: {error}"));
            Exit::Failed
        }
        _ => Exit::Ok,
    }
}

/// The context of every command that speaks to a running stack.
pub(crate) struct Session<'t> {
    pub(crate) client: Client,
    pub(crate) json: bool,
    pub(crate) term: &'t mut Term,
}

impl Session<'_> {
    /// Shows an answer: the API's value with `--json`, else as `draw` has it.
    pub(crate) fn show<T: Serialize + ?Sized>(
        &mut self,
        value: &T,
        draw: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        let text = if self.json { json_text(value)? } else { draw(value) };
        Ok(self.term.show(&text)?)
    }

    /// Shows that a change was made.
    pub(crate) fn done(&mut self, text: &str) -> Result<(), Failure> {
        let text = if self.json { "{ \"done\": true }\n" } else { text };
        Ok(self.term.show(text)?)
    }
}

fn json_text<T: Serialize + ?Sized>(value: &T) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|why| Failure::Failed(why.to_string()))?;
    Ok(text + "\n")
}
