//! Diagnostics: mistakes in a text, with their places.

use core::fmt;
use core::ops::Range;

/// Something that cannot be understood, with the place where it stands.
///
/// Printed, it is a few lines for a person; [`Error::line`] is the first of them:
///
/// ```text
/// ipfw.rules:3:9: `alow` is no action
///     add 100 alow ip from any to any
///             ^^^^
/// expected: an action: allow, deny, …
/// help: did you mean `allow`?
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The reader of words from a command line, named in place of a file; empty for files.
    pub reader: &'static str,
    /// The file's name as it was given; empty for words from a command line.
    pub file: String,
    /// Its line, from 1.
    pub line: u32,
    /// The first character that is wrong, from 1, in characters.
    pub column: u32,
    /// Characters that are wrong, at least one. They are all on this line.
    pub width: u32,
    /// The line, without its end.
    pub text: String,
    /// The mistake.
    pub message: String,
    /// The words that are valid there.
    pub expected: Option<String>,
    /// The remedy.
    pub help: Option<String>,
}

impl Error {
    /// Reports a semantic error of the command that begins on this line of a file: a table
    /// that is not there, a rule that cannot be gone to.
    #[must_use]
    pub fn of_line(
        reader: &'static str,
        file: &str,
        text: &str,
        line: u32,
        message: impl Into<String>,
    ) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let text = text.lines().nth(line.saturating_sub(1) as usize).unwrap_or_default();
        let blank = |c: &char| matches!(c, ' ' | '\t');
        let column = text.chars().take_while(blank).count();
        let width = text.trim_matches([' ', '\t']).chars().count();
        Self {
            reader,
            file: file.to_owned(),
            line,
            column: u32::try_from(column + 1).unwrap_or(1),
            width: u32::try_from(width.max(1)).unwrap_or(1),
            text: text.to_owned(),
            message: message.into(),
            expected: None,
            help: None,
        }
    }

    /// Reports an error at a place of this line.
    #[must_use]
    pub fn new(reader: &'static str, file: &str, place: Place<'_>, fault: Fault) -> Self {
        let Place { line, column, width, text } = place;
        let Fault { message, expected, help, .. } = fault;
        let (file, text) = (file.to_owned(), text.to_owned());
        Self { reader, file, line, column, width, text, message, expected, help }
    }

    /// File, place and message, on one line.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { reader, file, line, column, message, .. } = self;
        if file.is_empty() && !reader.is_empty() {
            return format!("{reader}: {message}");
        }
        format!("{file}:{line}:{column}: {message}")
    }
}

/// Where something stands: a line, as [`Error`] has it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Its number, from 1.
    pub line: u32,
    /// The first character that is wrong, from 1.
    pub column: u32,
    /// Characters that are wrong.
    pub width: u32,
    /// The line, without its end.
    pub text: &'a str,
}

/// Characters of a line that are shown; of a longer one a part around what is wrong.
const SHOWN: usize = 120;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.line())?;
        let at = self.column.saturating_sub(1) as usize;
        let from = if self.text.chars().count() > SHOWN { at.saturating_sub(SHOWN / 2) } else { 0 };
        let (dots, gap) = if from > 0 { ("… ", "  ") } else { ("", "") };
        let width = (self.width.max(1) as usize).min(SHOWN);
        let shown: String = self.text.chars().skip(from).take(SHOWN.max(at - from + width)).collect();
        // a tab stays a tab, so that the caret stands where a terminal puts the word
        let blank = |c: char| if c == '\t' { '\t' } else { ' ' };
        let indent: String =
            shown.chars().map(blank).chain(core::iter::repeat(' ')).take(at - from).collect();
        writeln!(f, "    {dots}{}", shown.trim_end())?;
        write!(f, "    {gap}{indent}{}", "^".repeat(width))?;
        if let Some(expected) = &self.expected {
            write!(f, "\nexpected: {expected}")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\nhelp: {help}")?;
        }
        Ok(())
    }
}

impl core::error::Error for Error {}

/// An error in a piece of text, before its line and file are known.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The bytes that are wrong.
    pub span: Range<usize>,
    /// The mistake.
    pub message: String,
    /// The words that are valid there.
    pub expected: Option<String>,
    /// The remedy.
    pub help: Option<String>,
}

impl Fault {
    /// A fault of these bytes.
    pub fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), expected: None, help: None }
    }

    /// With what could stand there.
    #[must_use]
    pub fn expected(self, what: impl Into<String>) -> Self {
        Self { expected: Some(what.into()), ..self }
    }

    /// With one more thing that could stand there.
    #[must_use]
    pub fn or_expected(self, what: &str) -> Self {
        Self { expected: self.expected.map(|expected| format!("{expected}, or {what}")), ..self }
    }

    /// With what to do.
    #[must_use]
    pub fn help(self, what: impl Into<String>) -> Self {
        Self { help: Some(what.into()), ..self }
    }
}
