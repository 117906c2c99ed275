//! What is wrong with a text, and where.

use core::fmt;
use core::ops::Range;

/// Something that cannot be understood, with the place where it stands.
///
/// Printed, it is a few lines for a person:
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
    /// What is wrong.
    pub message: String,
    /// What could stand there.
    pub expected: Option<String>,
    /// What to do.
    pub help: Option<String>,
}

impl Error {
    /// What is wrong with the command that begins on this line of a file, though its words can be understood: a table
    /// that is not there, a rule that cannot be gone to.
    #[must_use]
    pub fn of_line(file: &str, text: &str, line: u32, message: impl Into<String>) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let text = text.lines().nth(line.saturating_sub(1) as usize).unwrap_or_default();
        let blank = |c: &char| matches!(c, ' ' | '\t');
        let column = text.chars().take_while(blank).count();
        let width = text.trim_matches([' ', '\t']).chars().count();
        Self {
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
}

/// Characters of a line that are shown; of a longer one a part around what is wrong.
const SHOWN: usize = 120;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.file.as_str() {
            "" => writeln!(f, "ipfw: {}", self.message)?,
            file => writeln!(f, "{file}:{}:{}: {}", self.line, self.column, self.message)?,
        }
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

/// What is wrong with a command, before it is known on which line of which file it stands.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The bytes that are wrong.
    pub(crate) span: Range<usize>,
    pub(crate) message: String,
    pub(crate) expected: Option<String>,
    pub(crate) help: Option<String>,
}

impl Fault {
    pub(crate) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), expected: None, help: None }
    }

    pub(crate) fn expected(self, what: impl Into<String>) -> Self {
        Self { expected: Some(what.into()), ..self }
    }

    /// One more thing that could stand there.
    pub(crate) fn or_expected(self, what: &str) -> Self {
        Self { expected: self.expected.map(|expected| format!("{expected}, or {what}")), ..self }
    }

    pub(crate) fn help(self, what: impl Into<String>) -> Self {
        Self { help: Some(what.into()), ..self }
    }
}
