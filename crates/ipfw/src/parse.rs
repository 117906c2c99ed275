//! Text to values.

mod rule;
mod action;
mod body;
mod option;
mod keep;
mod address;
mod value;
mod list;
mod set;
mod table;
mod nat;
mod nat6;
mod pipe;

pub(crate) use address::{prefix4, prefix6};
pub(crate) use option::key_word;

use crate::command::{Command, Switch};
use crate::error::Fault;
use crate::refused::{self, Place};
use crate::words::{Tokens, Word};

/// First words of commands. A unique prefix is enough, as in `ipfw sh`.
const COMMANDS: &[&str] = &[
    "add", "delete", "disable", "enable", "flush", "list", "nat", "nat64lsn", "nptv6", "pipe", "queue",
    "resetlog", "sched", "set", "show", "table", "zero",
];

pub(crate) const COMMANDS_EXPECTED: &str = "a command: add, delete, list, show, flush, zero, resetlog, enable, \
                                            disable, set, table, nat, nptv6, nat64lsn, pipe, queue or sched";

/// Reads a command; `None` if there is none, but only the program's name.
pub(crate) fn command(words: &mut Tokens<'_>) -> Result<Option<Command>, Fault> {
    program(words)?;
    if words.peek().is_none() {
        return Ok(None);
    }
    let word = words.take(COMMANDS_EXPECTED)?;
    let command = match full(word)? {
        "add" => Command::Add(rule::rule(words)?),
        "delete" => set::delete(words, None)?,
        "list" => set::list(words, None, false)?,
        "show" => set::list(words, None, true)?,
        "zero" => Command::Zero { set: None, numbers: set::numbers(words)? },
        "resetlog" => Command::ResetLog { set: None, numbers: set::numbers(words)? },
        "flush" => Command::Flush { set: None },
        "enable" => Command::Switch { what: switch(words)?, on: true },
        "disable" => Command::Switch { what: switch(words)?, on: false },
        "set" => set::set(words)?,
        "table" => table::table(words)?,
        "nat" => nat::nat(words)?,
        "nptv6" => nat6::nptv6(words)?,
        "nat64lsn" => nat6::nat64(words)?,
        "pipe" => pipe::pipe(words)?,
        "queue" => pipe::queue(words)?,
        _ => pipe::sched(words)?,
    };
    words.finish()?;
    Ok(Some(command))
}

/// The program's name and its flags, as scripts have them in front of every command.
fn program(words: &mut Tokens<'_>) -> Result<(), Fault> {
    if words.peek().is_some_and(|word| word.is("ipfw") || word.text.ends_with("/ipfw")) {
        words.skip();
    }
    while let Some(flags) = words.peek().and_then(|word| word.strip_prefix("-")) {
        for (at, flag) in flags.text.char_indices() {
            // quiet and forced: nothing is ever asked; the others choose what `list` shows
            if !"qfacdeintSTNbDv".contains(flag) {
                let part = flags.part(at..at + flag.len_utf8());
                refuse(Place::Flag, part)?;
                return Err(part
                    .fault(format!("there is no flag `-{flag}` here"))
                    .expected("-q, -f or a command"));
            }
        }
        words.skip();
    }
    Ok(())
}

/// The word that this is the beginning of.
fn full(word: Word<'_>) -> Result<&'static str, Fault> {
    if let Some(&command) = COMMANDS.iter().find(|&&command| word.is(command)) {
        return Ok(command);
    }
    let fits: Vec<&str> = COMMANDS.iter().copied().filter(|command| command.starts_with(word.text)).collect();
    match fits[..] {
        [command] => Ok(command),
        [] => {
            refuse(Place::Command, word)?;
            Err(word.unknown("command", COMMANDS.iter().copied()).expected(COMMANDS_EXPECTED))
        }
        // `nat` is a command, and `na` its beginning
        ["nat", "nat64lsn"] => Ok("nat"),
        _ => Err(word
            .fault(format!("`{}` can be {}", word.text, fits.join(" or ")))
            .help("write one letter more")),
    }
}

/// An error if the word is known and refused.
fn refuse(place: Place, word: Word<'_>) -> Result<(), Fault> {
    match refused::find(place, word.text) {
        Some(refused) => Err(word.fault(format!("`{}` {}", refused.word, refused.why)).help(refused.instead)),
        None => Ok(()),
    }
}

fn switch(words: &mut Tokens<'_>) -> Result<Switch, Fault> {
    const EXPECTED: &str = "firewall, one_pass, dyn_keepalive or verbose";
    const KNOWN: [&str; 4] = ["firewall", "one_pass", "dyn_keepalive", "verbose"];
    let word = words.take(EXPECTED)?;
    Ok(match word.full(&KNOWN) {
        "firewall" => Switch::Firewall,
        "one_pass" => Switch::OnePass,
        "dyn_keepalive" => Switch::DynKeepalive,
        "verbose" => Switch::Verbose,
        _ => {
            refuse(Place::Switch, word)?;
            return Err(word.unknown("switch", KNOWN).expected(EXPECTED));
        }
    })
}
