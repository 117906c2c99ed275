//! `ipfw`, with the command line of ipfw(8).

use std::io::IsTerminal;
use std::path::PathBuf;

use ipfw::Command;
use ipfw::command::{SetCommand, TableCommand};

use super::flags::Flags;
use super::{Failure, Session};
use crate::show::ipfw::Columns;
use crate::show::ipfw::time::Clock;

mod change;
mod log;
mod list;
mod nat;
mod pipes;
mod tables;

pub(crate) const USAGE: &str = "\
pantala ipfw [-abcdDeSTtv] list | show [NUMBER | FROM-TO ...]
       pantala ipfw [-q] add [NUMBER] [set N] [prob P] ACTION
                    [log [logamount N]] BODY
       pantala ipfw [-q] delete [set N] NUMBER | FROM-TO ...
       pantala ipfw [-fq] flush
       pantala ipfw [-q] zero | resetlog [NUMBER ...]
       pantala ipfw set [disable N ...] [enable N ...] | show
       pantala ipfw set move [rule] A to B | swap A B
       pantala ipfw table NAME create [type addr|number|iface|mac|flow:...]
       pantala ipfw table NAME add KEY [VALUE] ... | delete KEY ...
       pantala ipfw table NAME flush | destroy | lookup KEY
       pantala ipfw [-i] table NAME | all list | info
       pantala ipfw nat N config [ip A | if IF] ... | delete
       pantala ipfw nptv6 NAME create ... | destroy
       pantala ipfw nat64lsn NAME create prefix4 A/N [prefix6 P/N]
                    [allow_private] | destroy
       pantala ipfw [-dv] nat [N] show [config]
       pantala ipfw nptv6 NAME | all show
       pantala ipfw [-dv] nat64lsn NAME | all show
       pantala ipfw pipe N config [bw N Mbit/s] [delay MS] ... | delete
       pantala ipfw queue N config pipe M ... | delete
       pantala ipfw pipe flush
       pantala ipfw [-v] pipe | queue [N] show
       pantala ipfw enable | disable firewall | one_pass |
                    dyn_keepalive | verbose
       pantala ipfw [-nq] FILE
       pantala ipfw log [-f] [-w FILE.pcapng]";

pub(crate) const HELP: &str = "  -a  packets and bytes of each rule     -S  sets, and rules of disabled ones
  -b  only action and comment            -t  time of the last match, UTC
  -c  without `ip from any to any`       -T  the same in seconds
  -d  states below the rules, flows      -n  only check; no running pantala
      below instances of NAT                 needed
  -D  only states                        -q  quiet;  -f  do not ask
  -e  expired states, too                -i  table values as IPv4 addresses
                                         -v  the CPU of a state or a flow

`show` is `list` with packets and bytes. `flush` deletes all rules but those of
set 31. The lines of FILE are applied all or none; - is standard input.
`log -f` waits for further packets. The language is that of ipfw(8); an error
shows the text with a caret under the mistake.

Examples:
  pantala ipfw -n firewall.ipfw
  pantala ipfw add 100 allow tcp from any to me 80 setup limit src-addr 10
  pantala ipfw -d show
  pantala ipfw -d nat 1 show
  pantala ipfw log -f";

/// Flags that stand alone.
const FLAGS: &str = "abcdDefhinqSTtv";
/// Flags of ipfw(8) that are left out, with the reason.
const REFUSED: &str = "Nps";

#[derive(Debug, PartialEq)]
pub(crate) struct Ipfw {
    what: Invocation,
    options: Options,
}

#[derive(Debug, PartialEq)]
enum Invocation {
    /// Commands from a file; `-` is standard input.
    File(PathBuf),
    /// A rule, as it was written: only the running stack parses it.
    Rule(String),
    /// One command, and as it was written.
    Command(Box<Command>, String),
    /// The log.
    Log(log::Log),
    /// Nothing but help was asked for.
    Help,
}

/// The letters before the command.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    columns: Columns,
    states: States,
    /// `-e`: states too whose lives are over.
    expired: bool,
    /// `-i`: values of tables are addresses.
    addresses: bool,
    /// `-n`.
    check_only: bool,
    /// `-f`.
    force: bool,
    /// `-q`.
    quiet: bool,
}

/// Whether states are shown.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum States {
    #[default]
    No,
    /// `-d`: below the rules.
    Too,
    /// `-D`.
    Only,
}

impl Ipfw {
    pub(crate) fn read(words: &[String]) -> Result<Self, Failure> {
        let is_flag = |word: &&String| word.starts_with('-') && word.len() > 1;
        let flags = words.iter().take_while(is_flag).count();
        let (flags, words) = words.split_at(flags);
        if let Some(letter) =
            flags.iter().find_map(|word| word.chars().find(|letter| REFUSED.contains(*letter)))
        {
            return Err(Failure::usage(refused(letter)));
        }
        let flags = Flags::read("ipfw", flags, FLAGS, "")?;
        let options = Options::of(&flags);
        let what = if flags.has('h') { Invocation::Help } else { what(words, options.check_only)? };
        Ok(Self { what, options })
    }

    pub(crate) fn run(self, session: &mut Session<'_>) -> Result<(), Failure> {
        let Self { what, options } = self;
        match what {
            Invocation::Help => Ok(session.term.show(&format!("{HELP}\n"))?),
            Invocation::File(path) => change::file(&path, &options, session),
            Invocation::Rule(text) => change::one(&text, &options, session),
            Invocation::Command(..) if options.check_only => Ok(()),
            Invocation::Command(command, text) => match *command {
                Command::List { counters, set, ref numbers } => {
                    let columns =
                        Columns { counters: counters || options.columns.counters, ..options.columns };
                    let Options { states, expired, .. } = options;
                    list::rules(&list::Rules { columns, states, expired, set, numbers }, session)
                }
                Command::Set(SetCommand::Show) => list::sets(session),
                Command::Table { ref name, what: TableCommand::List } => {
                    tables::list(name.as_deref(), options.addresses, session)
                }
                Command::Table { ref name, what: TableCommand::Info } => {
                    tables::info(name.as_deref(), session)
                }
                Command::Table { name: Some(ref name), what: TableCommand::Lookup(ref key) } => {
                    tables::lookup(name, &key.to_string(), session)
                }
                Command::NatShow { number, config } => {
                    let (flows, verbose) = (options.states != States::No, options.columns.cpus);
                    nat::Nat { number, config, flows, verbose }.show(session)
                }
                Command::Nat64Show(ref name) => {
                    let (flows, verbose) = (options.states != States::No, options.columns.cpus);
                    nat::Crossings { name: name.as_deref(), flows, verbose }.show(session)
                }
                Command::Nptv6Show(ref name) => nat::prefixes(name.as_deref(), session),
                Command::PipeShow { number, queue: queues } => {
                    pipes::Pipes { number, queues, verbose: options.columns.cpus }.show(session)
                }
                Command::Flush { .. } | Command::PipeFlush
                    if !options.force && !options.quiet && !is_sure(session)? =>
                {
                    Ok(())
                }
                _ => change::one(&text, &options, session),
            },
            Invocation::Log(log) => log.run(session),
        }
    }
}

impl Options {
    fn of(flags: &Flags) -> Self {
        let last_match = match (flags.has('t'), flags.has('T')) {
            (_, true) => Some(Clock::Seconds),
            (true, false) => Some(Clock::Words),
            (false, false) => None,
        };
        let states = match (flags.has('D'), flags.has('d')) {
            (true, _) => States::Only,
            (false, true) => States::Too,
            (false, false) => States::No,
        };
        let columns = Columns {
            counters: flags.has('a'),
            last_match,
            sets: flags.has('S'),
            brief: flags.has('b'),
            compact: flags.has('c'),
            cpus: flags.has('v'),
        };
        let (check_only, force, quiet) = (flags.has('n'), flags.has('f'), flags.has('q'));
        let (expired, addresses) = (flags.has('e'), flags.has('i'));
        Self { columns, states, expired, addresses, check_only, force, quiet }
    }
}

fn what(words: &[String], check_only: bool) -> Result<Invocation, Failure> {
    match words {
        [] => {
            Err(Failure::usage("ipfw: say what to do: list, show, add, delete, … (see pantala ipfw --help)"))
        }
        [log, rest @ ..] if log == "log" => log::Log::read(rest).map(Invocation::Log),
        // A whole command may be one word, and have a slash behind its first.
        [file] if file == "-" || file.split_whitespace().next().is_some_and(|first| first.contains('/')) => {
            Ok(Invocation::File(file.into()))
        }
        [first, ..] if !check_only && first.split_whitespace().next() == Some("add") => {
            Ok(Invocation::Rule(one_line(words)))
        }
        _ => command(words),
    }
}

/// The words as the running stack gets them.
fn one_line(words: &[String]) -> String {
    words.join(" ").replace(['\n', '\r'], " ")
}

fn command(words: &[String]) -> Result<Invocation, Failure> {
    match (ipfw::parse_args(words), words) {
        (Ok(command), _) => Ok(Invocation::Command(Box::new(command), one_line(words))),
        // Names with a dot are no commands; others are files if they are there.
        (Err(_), [file]) if is_name_with_dot(file) || PathBuf::from(file).is_file() => {
            Ok(Invocation::File(file.into()))
        }
        (Err(error), _) => Err(Failure::Misconfigured(error.to_string())),
    }
}

fn is_name_with_dot(word: &str) -> bool {
    word.contains('.') && !word.contains(char::is_whitespace)
}

/// Why a flag of ipfw(8) is not to be had.
fn refused(letter: char) -> String {
    let (why, instead) = match letter {
        'p' => ("runs a preprocessor over the file", "pipe its output: m4 rules | pantala ipfw -"),
        'N' => ("asks name servers while it lists", "numbers are what rules compare; leave it out"),
        _ => ("sorts pipes by a field", "sort what --json gives"),
    };
    format!("ipfw: -{letter}, which {why}, is left out; {instead}")
}

/// Asks the user; without a terminal the answer is yes.
fn is_sure(session: &mut Session<'_>) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Ok(true);
    }
    loop {
        session.term.show("Are you sure? [yn] ")?;
        let mut answer = String::new();
        let length = std::io::stdin().read_line(&mut answer)?;
        match answer.trim() {
            "y" | "Y" | "yes" => return Ok(true),
            "n" | "N" | "no" => return Ok(false),
            _ if length == 0 => return Ok(false),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
