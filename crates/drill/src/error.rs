//! What is wrong with a script, and where.

use core::fmt;
use core::ops::Range;

/// Something that cannot be understood, with the place where it stands.
///
/// Printed, it is a few lines for a person; [`Error::line`] is one line of it.
///
/// ```text
/// fin.pkt:12:21: `wim` is no part of a segment
///     +0 > F. 1:1(0) ack 1 wim 100
///                          ^^^
/// expected: ack, win, urg, <options>, or the next event
/// help: did you mean `win`?
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file's name as it was given.
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
    /// File, place and message, on one line.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
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

/// What is wrong with a script, before it is known on which line it stands.
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

    pub(crate) fn help(self, what: impl Into<String>) -> Self {
        Self { help: Some(what.into()), ..self }
    }
}
