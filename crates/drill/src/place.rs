//! Bytes of a text to lines and columns, and back to the line that is shown.

use core::cell::Cell;

use crate::error::{Error, Fault, Place};
use crate::script::Pos;

/// Where the lines of a text begin.
pub(crate) struct Places<'a> {
    text: &'a str,
    starts: Vec<usize>,
    /// The last answer: line, byte, column. Asked in order, as a parser does, nothing is counted twice.
    last: Cell<(usize, usize, u32)>,
}

impl<'a> Places<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let starts = core::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, starts, last: Cell::new((0, 0, 1)) }
    }

    pub(crate) fn pos(&self, at: usize) -> Pos {
        let (line, column) = self.line_and_column(at);
        Pos { line: number(line + 1), column }
    }

    fn line_and_column(&self, at: usize) -> (usize, u32) {
        let at = at.min(self.text.len());
        let line = self.starts.partition_point(|&start| start <= at).saturating_sub(1);
        let start = self.starts.get(line).copied().unwrap_or_default();
        let (last_line, last_at, last_column) = self.last.get();
        let (from, column) =
            if last_line == line && last_at <= at { (last_at, last_column) } else { (start, 1) };
        let column = column + number(self.text.get(from..at).unwrap_or_default().chars().count());
        self.last.set((line, at, column));
        (line, column)
    }

    /// A line, without its end.
    fn line(&self, line: usize) -> &'a str {
        let start = self.starts.get(line).copied().unwrap_or_default();
        let text = self.text.get(start..).unwrap_or_default();
        let text = text.split('\n').next().unwrap_or_default();
        text.strip_suffix('\r').unwrap_or(text)
    }

    pub(crate) fn error(&self, file: &str, fault: Fault) -> Error {
        let (line, column) = self.line_and_column(fault.span.start);
        let text = self.line(line);
        let wrong = self.text.get(fault.span.clone()).unwrap_or_default();
        let wrong = wrong.split(['\n', '\r']).next().unwrap_or_default();
        let place = Place {
            line: number(line + 1),
            // behind the line's end there is nothing that could be pointed at
            column: column.min(number(text.chars().count() + 1)),
            width: number(wrong.chars().count().max(1)),
            text,
        };
        Error::new("", file, place, fault)
    }
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
