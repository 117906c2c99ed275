//! Problems of a configuration: place, error and remedy.

use core::fmt;
use core::ops::Range;
use std::path::Path;

/// Number of problems reported; the others are counted.
pub const MOST_PROBLEMS: usize = 20;

/// One thing wrong, with its place.
///
/// Shown as
/// ```text
/// pantala.toml:7:7: mtu 40 is too small
///     mtu = 40
///           ^^
///     use 68 to 65535
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The error.
    pub message: String,
    /// The remedy; may be empty.
    pub help: String,
    text: String,
    width: usize,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        if !self.text.trim().is_empty() {
            writeln!(f, "    {}", self.text)?;
            writeln!(f, "    {}{}", self.blank(), "^".repeat(self.width))?;
        }
        if self.help.is_empty() { Ok(()) } else { writeln!(f, "    {}", self.help) }
    }
}

impl Problem {
    /// As wide as the text before the column, tabs kept.
    fn blank(&self) -> String {
        self.text.chars().take(self.column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect()
    }
}

/// Everything wrong with one configuration, in the order of the file; at most [`MOST_PROBLEMS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    /// The problems.
    pub list: Vec<Problem>,
    /// Number of further problems.
    pub more: usize,
}

impl core::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.list {
            write!(f, "{problem}")?;
        }
        if self.more > 0 { writeln!(f, "and {} more", self.more) } else { Ok(()) }
    }
}

/// A value with the place in the file where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) span: Range<usize>,
}

impl<T> At<T> {
    pub(crate) fn new(value: T, span: Range<usize>) -> Self {
        Self { value, span }
    }
}

/// An error in a value whose place only the caller knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) message: String,
    pub(crate) help: String,
}

impl Wrong {
    pub(crate) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }
}

/// Collects problems while a file is read.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    file: &'a str,
    text: &'a str,
    found: Vec<(Range<usize>, Wrong)>,
    /// In other files, or in texts within this one.
    elsewhere: Vec<Problem>,
}

/// Where in a file another text stands, character by character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    file: String,
    line: usize,
    /// Characters before it on its first line.
    indent: usize,
    /// That line up to the text.
    before: String,
}

impl Place {
    /// Where a line of the text is, from 1.
    pub(crate) fn line(&self, line: u32) -> String {
        format!("{}:{}", self.file, self.line + (line as usize).saturating_sub(1))
    }
}

impl<'a> Report<'a> {
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, found: Vec::new(), elsewhere: Vec::new() }
    }

    pub(crate) fn add(&mut self, span: &Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        self.wrong(span, Wrong::new(message, help));
    }

    pub(crate) fn wrong(&mut self, span: &Range<usize>, wrong: Wrong) {
        self.found.push((span.clone(), wrong));
    }

    /// Returns the number of problems so far.
    pub(crate) fn count(&self) -> usize {
        self.found.len() + self.elsewhere.len()
    }

    /// Reports an error in rules, which stand in a file of their own, or at a place in this one.
    pub(crate) fn elsewhere(&mut self, error: ipfw::Error, place: Option<&Place>) {
        let expected = error.expected.map(|what| format!("expected: {what}"));
        let help = expected.into_iter().chain(error.help).collect::<Vec<_>>().join("; ");
        let (mut line, mut column) = (error.line as usize, error.column as usize);
        let (mut file, mut text) = (error.file, error.text);
        if let Some(place) = place {
            if line == 1 {
                column += place.indent;
                text = format!("{}{text}", place.before);
            }
            line += place.line - 1;
            file.clone_from(&place.file);
        }
        let width = error.width.max(1) as usize;
        self.elsewhere.push(Problem { file, line, column, message: error.message, help, text, width });
    }

    /// Returns the name of the file.
    pub(crate) fn file(&self) -> &str {
        self.file
    }

    /// The folder in which the file is.
    pub(crate) fn folder(&self) -> &Path {
        Path::new(self.file).parent().unwrap_or_else(|| Path::new(""))
    }

    /// Where the value of a string begins, if it stands in the file as it is, between quotes.
    pub(crate) fn place_of(&self, string: &At<String>) -> Option<Place> {
        let raw = self.text.get(string.span.clone())?;
        let quotes = ["\"\"\"\r\n", "\"\"\"\n", "\"\"\"", "'''\r\n", "'''\n", "'''", "\"", "'"];
        let quote = quotes.into_iter().find(|quote| raw.starts_with(quote))?;
        raw.get(quote.len()..)?.starts_with(&string.value).then_some(())?;
        let before = self.before(string.span.start + quote.len());
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let before_text = before.get(start..).unwrap_or_default();
        Some(Place {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            indent: before_text.chars().count(),
            before: before_text.to_owned(),
        })
    }

    /// The line on which a place lies, to speak of it in another problem.
    pub(crate) fn line(&self, span: &Range<usize>) -> usize {
        self.before(span.start).matches('\n').count() + 1
    }

    /// `value` if nothing was wrong.
    pub(crate) fn finish<T>(mut self, value: T) -> Result<T, Problems> {
        if self.count() == 0 {
            return Ok(value);
        }
        self.found.sort_by_key(|(span, _)| span.start);
        self.found.dedup();
        let more = self.count().saturating_sub(MOST_PROBLEMS);
        let elsewhere = core::mem::take(&mut self.elsewhere);
        let here = self.found.iter().map(|(span, wrong)| self.problem(span, wrong));
        let list = here.chain(elsewhere).take(MOST_PROBLEMS).collect();
        Err(Problems { list, more })
    }

    fn problem(&self, span: &Range<usize>, wrong: &Wrong) -> Problem {
        let before = self.before(span.start);
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let rest = self.text.get(start..).unwrap_or_default();
        let text = rest.lines().next().unwrap_or_default();
        let column = before.get(start..).unwrap_or_default().chars().count() + 1;
        Problem {
            file: self.file.to_owned(),
            line: self.line(span),
            column,
            message: wrong.message.clone(),
            help: wrong.help.clone(),
            text: text.to_owned(),
            width: self.width(span).min((text.chars().count() + 1).saturating_sub(column)).max(1),
        }
    }

    fn width(&self, span: &Range<usize>) -> usize {
        self.text.get(span.clone()).map_or(1, |marked| marked.chars().count())
    }

    fn before(&self, place: usize) -> &str {
        self.text.get(..place.min(self.text.len())).unwrap_or(self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str, spans: &[Range<usize>]) -> Problems {
        let mut report = Report::new("f.toml", text);
        for (n, span) in spans.iter().enumerate() {
            report.add(span, format!("wrong {n}"), "do right");
        }
        report.finish(()).unwrap_err()
    }

    fn one(text: &str, span: Range<usize>) -> Problems {
        problems(text, core::slice::from_ref(&span))
    }

    #[test]
    fn a_problem_shows_its_line_and_a_caret_below_the_text() {
        let shown = one("a = 1\n\tmtu = 40 # ü\n", 13..15).to_string();
        assert_eq!(shown, "f.toml:2:8: wrong 0\n    \tmtu = 40 # ü\n    \t      ^^\n    do right\n");
    }

    #[test]
    fn columns_count_characters_not_bytes() {
        let at = one("\"ü\" = 1", 7..8);
        assert_eq!((at.list[0].line, at.list[0].column), (1, 7));
    }

    #[test]
    fn a_span_over_several_lines_is_underlined_to_the_end_of_its_first() {
        assert!(one("x = [\n1,\n]", 4..10).to_string().contains("\n        ^\n"));
    }

    #[test]
    fn problems_come_in_the_order_of_the_file_and_at_most_twenty() {
        let text = "x".repeat(30);
        let spans: Vec<_> = (0..25).rev().map(|n| n..n + 1).collect();
        let all = problems(&text, &spans);
        assert_eq!((all.list.len(), all.more, all.list[0].column), (20, 5, 1));
        assert!(all.to_string().ends_with("and 5 more\n"));
    }

    #[test]
    fn a_place_beyond_the_end_is_the_end() {
        assert_eq!(one("a\n", 2..2).list[0].line, 2);
        assert_eq!(one("a", 9..12).list[0].column, 2);
    }
}
