//! Files of commands: lines, what is no part of them, and where in them an error is.

use crate::command::Command;
use crate::error::{Error, Fault, Place};
use crate::parse;
use crate::words::{Tokens, is_blank};

/// The reader of commands that come from no file, as errors name it.
pub const READER: &str = "ipfw";
/// Bytes of a command, all its lines together.
pub const LINE_MAX: usize = 65_536;
/// Commands of a file.
pub const COMMANDS_MAX: usize = 1 << 18;
/// Errors that are told of a file.
pub const ERRORS_MAX: usize = 20;

/// A command, and the line of its file on which it begins, from 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The line.
    pub line: u32,
    /// The command.
    pub command: Command,
}

/// Reads a file of commands. `name` is what errors call it.
///
/// One command a line; a backslash at its end makes the next one a part of it. `#` begins a comment anywhere, and so
/// does `//` at the beginning of a line (elsewhere it is the rule's own comment, which `list` shows). The word `ipfw`
/// before a command, and the flags `-q` and `-f`, are taken for granted.
///
/// # Errors
/// All that is wrong, but no more than [`ERRORS_MAX`].
pub fn parse_file(name: &str, text: &str) -> Result<Vec<Statement>, Vec<Error>> {
    let (mut statements, mut errors) = (Vec::new(), Vec::new());
    // some editors begin files with a mark of the order of bytes
    let mut lines = Lines { rest: text.strip_prefix('\u{feff}').unwrap_or(text), number: 0 };
    while let Some(joined) = lines.next_joined() {
        if statements.len() == COMMANDS_MAX {
            let fault =
                Fault::new(0..joined.text.len(), format!("a file has at most {COMMANDS_MAX} commands"));
            errors.push(joined.error(name, fault.help("split the file, and load one after the other")));
            break;
        }
        match joined.command() {
            Ok(Some(command)) => statements.push(Statement { line: joined.first, command }),
            Ok(None) => {}
            Err(fault) => errors.push(joined.error(name, fault)),
        }
        if errors.len() == ERRORS_MAX {
            break;
        }
    }
    if errors.is_empty() { Ok(statements) } else { Err(errors) }
}

/// Reads one command as it would stand in a file.
///
/// # Errors
/// What is wrong with it; also if there is no command in it.
pub fn parse_line(text: &str) -> Result<Command, Box<Error>> {
    let mut lines = Lines { rest: text, number: 0 };
    let joined = lines.next_joined().unwrap_or_default();
    let fault = match joined.command() {
        Ok(Some(command)) => match lines.next_joined() {
            None => return Ok(command),
            Some(_) => Fault::new(joined.text.len()..joined.text.len(), "one command is enough"),
        },
        Ok(None) => Fault::new(0..0, "there is no command here").expected(parse::COMMANDS_EXPECTED),
        Err(fault) => fault,
    };
    Err(Box::new(joined.error("", fault)))
}

/// Reads the words of a command line, `add`, `allow`, `ip`, …; a word may hold blanks, as in `"add allow ip"`.
///
/// # Errors
/// What is wrong with them.
pub fn parse_args<S: AsRef<str>>(words: &[S]) -> Result<Command, Box<Error>> {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    parse_line(&words.join(" ").replace(['\n', '\r'], " "))
}

/// Lines of a file that are left.
struct Lines<'a> {
    rest: &'a str,
    number: u32,
}

impl<'a> Lines<'a> {
    fn next_line(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        self.rest = rest;
        self.number = self.number.saturating_add(1);
        Some(line.strip_suffix('\r').unwrap_or(line))
    }

    fn next_joined(&mut self) -> Option<Joined<'a>> {
        let mut line = self.next_line()?;
        let mut joined = Joined { first: self.number, ..Joined::default() };
        while joined.push(self.number, line) {
            let Some(next) = self.next_line() else { break };
            line = next;
        }
        Some(joined)
    }
}

/// A command's text, put together from the lines that it stands on, without what is no part of it.
#[derive(Default)]
struct Joined<'a> {
    /// The number of its first line.
    first: u32,
    lines: Vec<&'a str>,
    text: String,
    /// For each byte of `text`: on which of `lines` it stands, and at which character.
    places: Vec<(u32, u32)>,
    /// A control character, or one that looks like a blank and is none.
    odd: Option<usize>,
}

impl<'a> Joined<'a> {
    /// Appends a line; returns whether it asks for the next one too.
    fn push(&mut self, number: u32, line: &'a str) -> bool {
        let index = number - self.first;
        self.lines.push(line);
        let continued = line.trim_end_matches(is_blank).strip_suffix('\\');
        let mut is_comment = false;
        for (column, (at, c)) in (0..).zip(line.char_indices()) {
            let at_start = self.text.is_empty() || self.text.ends_with(is_blank);
            is_comment |= at_start && line[at..].starts_with("//");
            if c == '#' && !is_comment {
                return false;
            }
            let ends = !is_comment && continued.is_some_and(|text| at == text.len());
            let c = if ends { ' ' } else { c };
            // `80, 443` is one word, as in FreeBSD's ipfw
            let is_gap = is_blank(c) && self.text.ends_with([',', ' ', '\t']);
            if is_comment || !is_gap {
                self.put(index, column, c);
            }
            if ends {
                return true;
            }
        }
        false
    }

    fn put(&mut self, line: u32, column: u32, c: char) {
        if self.text.len() > LINE_MAX {
            return; // too long already, and refused for it
        }
        if c.is_control() && c != '\t' || c.is_whitespace() && !is_blank(c) {
            self.odd.get_or_insert(self.text.len());
        }
        self.text.push(c);
        self.places.resize(self.text.len(), (line, column));
    }

    /// `None` if there is nothing but comment.
    fn command(&self) -> Result<Option<Command>, Fault> {
        if self.text.len() > LINE_MAX {
            let fault = Fault::new(LINE_MAX..LINE_MAX + 1, format!("a command has at most {LINE_MAX} bytes"));
            return Err(fault.help("give a table many entries with several commands"));
        }
        if let Some(at) = self.odd {
            let c = self.text[at..].chars().next().unwrap_or_default();
            let message = format!("U+{:04X} can be no part of a command", u32::from(c));
            let fault = Fault::new(at..at + c.len_utf8(), message);
            return Err(match c.is_control() {
                true => fault.help("delete the control character"),
                false => fault.help("it looks like a blank; write one"),
            });
        }
        let text = self.text.trim_start_matches(is_blank);
        if text.is_empty() || text.starts_with("//") {
            return Ok(None);
        }
        parse::command(&mut Tokens::new(&self.text))
    }

    fn error(&self, file: &str, fault: Fault) -> Error {
        let (index, column) = match self.places.get(fault.span.start) {
            Some(&place) => place,
            None => self.places.last().map_or((0, 0), |&(line, column)| (line, column + 1)),
        };
        let here = |&&(line, _): &&(u32, u32)| line == index;
        let last = self.places.get(fault.span.clone()).unwrap_or_default().iter().rev().find(here);
        let place = Place {
            line: self.first.max(1) + index,
            column: column + 1,
            width: last.map_or(1, |&(_, last)| last - column + 1),
            text: self.lines.get(index as usize).copied().unwrap_or_default(),
        };
        Error::new(READER, file, place, fault)
    }
}
