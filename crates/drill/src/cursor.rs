//! A script, read from left to right.

use core::ops::{Range, RangeInclusive};

use crate::error::{Fault, nearest};
use crate::limit::{DEPTH_MAX, NAME_MAX};
use crate::place::Places;
use crate::script::{At, Pos};

/// Where the parser is. The text has no comments any more.
pub(crate) struct Cursor<'a> {
    text: &'a str,
    places: &'a Places<'a>,
    at: usize,
    depth: usize,
    /// Names of `--define`.
    names: Vec<String>,
}

/// A word: letters, digits and underscores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
    pub(crate) pos: Pos,
}

impl Word<'_> {
    pub(crate) fn span(self) -> Range<usize> {
        self.at..self.at + self.text.len()
    }

    pub(crate) fn fault(self, message: impl Into<String>) -> Fault {
        Fault::new(self.span(), message)
    }

    /// It is none of `known`, each of which is a `what`.
    pub(crate) fn unknown<'k>(self, what: &str, known: impl IntoIterator<Item = &'k str> + Clone) -> Fault {
        let fault = self.fault(format!("`{}` is no {what}", self.text));
        match nearest(self.text, known) {
            Some(near) => fault.help(format!("did you mean `{near}`?")),
            None => fault,
        }
    }
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str, places: &'a Places<'a>) -> Self {
        Self { text, places, at: 0, depth: 0, names: Vec::new() }
    }

    pub(crate) fn places(&self) -> &'a Places<'a> {
        self.places
    }

    /// From here on, this name is known.
    pub(crate) fn define(&mut self, name: String) {
        self.names.push(name);
    }

    pub(crate) fn is_defined(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    pub(crate) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Where the last token ended.
    pub(crate) fn rest_start(&self) -> usize {
        self.at
    }

    pub(crate) fn skip_blank(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    /// Where the next token begins.
    pub(crate) fn at(&mut self) -> usize {
        self.skip_blank();
        self.at
    }

    /// Where the next token begins.
    pub(crate) fn pos(&mut self) -> Pos {
        let at = self.at();
        self.places.pos(at)
    }

    /// Goes to a byte; how deep it was inside of brackets is forgotten.
    pub(crate) fn go_to(&mut self, at: usize) {
        (self.at, self.depth) = (at, 0);
    }

    /// Whether there are only blanks before this byte on its line.
    pub(crate) fn is_first_of_line(&self, at: usize) -> bool {
        let before = self.text.get(..at).unwrap_or_default();
        before.trim_end_matches([' ', '\t']).ends_with('\n')
    }

    /// Goes so many bytes on.
    pub(crate) fn advance(&mut self, len: usize) {
        self.at += len;
    }

    pub(crate) fn peek(&mut self) -> Option<char> {
        self.skip_blank();
        self.rest().chars().next()
    }

    pub(crate) fn next_is(&mut self, token: &str) -> bool {
        self.skip_blank();
        self.rest().starts_with(token)
    }

    /// Takes these characters if they are the next ones.
    pub(crate) fn accept(&mut self, token: &str) -> bool {
        let is = self.next_is(token);
        self.at += if is { token.len() } else { 0 };
        is
    }

    pub(crate) fn expect(&mut self, token: &str) -> Result<(), Fault> {
        match self.accept(token) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("`{token}`"))),
        }
    }

    /// The next word, which stays there.
    pub(crate) fn peek_word(&mut self) -> Option<Word<'a>> {
        let at = self.at();
        let rest = self.rest();
        let len = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let text = rest.get(..len).filter(|text| !text.is_empty())?;
        Some(Word { text, at, pos: self.places.pos(at) })
    }

    /// The next word; `expected` says what it should be if there is none.
    pub(crate) fn word(&mut self, expected: &str) -> Result<Word<'a>, Fault> {
        let word = self.peek_word().ok_or_else(|| self.unexpected(expected))?;
        if word.text.len() > NAME_MAX {
            return Err(word.fault(format!("a word has at most {NAME_MAX} bytes")));
        }
        self.at = word.span().end;
        Ok(word)
    }

    /// Takes the next word if it is this one.
    pub(crate) fn accept_word(&mut self, text: &str) -> bool {
        let word = self.peek_word().filter(|word| word.text == text);
        self.at += word.map_or(0, |word| word.text.len());
        word.is_some()
    }

    /// Something else than `expected` stands here.
    pub(crate) fn unexpected(&mut self, expected: &str) -> Fault {
        let at = self.at();
        let rest = self.rest();
        let Some(c) = rest.chars().next() else {
            // behind the last thing that is there
            let end = self.text.trim_end_matches([' ', '\t', '\n', '\r']).len();
            return Fault::new(end..end, "the script ends too early").expected(expected);
        };
        let word = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let text = rest.get(..word.max(c.len_utf8())).unwrap_or_default();
        let message = match c.is_control() || c.is_whitespace() {
            true => format!("U+{:04X} can be no part of a script", u32::from(c)),
            false => format!("`{text}` is not expected here"),
        };
        Fault::new(at..at + text.len(), message).expected(expected)
    }

    /// A whole number in this range, decimal or hexadecimal (`0x1f`).
    pub(crate) fn number<T>(&mut self, what: &str, range: RangeInclusive<T>) -> Result<At<T>, Fault>
    where
        T: Copy + PartialOrd + TryFrom<i64> + core::fmt::Display,
    {
        let at = self.at();
        let pos = self.places.pos(at);
        let (negative, rest) = match self.rest().strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, self.rest()),
        };
        let (radix, digits) = match rest.strip_prefix("0x") {
            Some(digits) => (16, digits),
            None => (10, rest),
        };
        let len = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
        let digits = digits.get(..len).unwrap_or_default();
        let expected = format!("{what}, {} to {}", range.start(), range.end());
        if digits.is_empty() {
            return Err(self.unexpected(&expected));
        }
        let total = usize::from(negative) + if radix == 16 { 2 } else { 0 } + len;
        let text = self.rest().get(..total).unwrap_or_default();
        let value =
            i128::from_str_radix(digits, radix).ok().map(|value| if negative { -value } else { value });
        let value =
            value.and_then(|value| i64::try_from(value).ok()).and_then(|value| T::try_from(value).ok());
        let Some(value) = value.filter(|value| range.contains(value)) else {
            let shown = if text.len() > 40 { "the number".to_owned() } else { format!("`{text}`") };
            return Err(Fault::new(at..at + total, format!("{shown} is out of range")).expected(expected));
        };
        self.at += total;
        // `5x` is neither a number nor a word
        match self.rest().starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
            true => {
                self.at = at;
                let word = self.peek_word().map_or(0, |word| word.text.len()).max(total);
                Err(Fault::new(at..at + word, "this is no number").expected(expected))
            }
            false => Ok(At::new(pos, value)),
        }
    }

    /// Reads something that lies within brackets, as deep as may be.
    pub(crate) fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.depth == DEPTH_MAX {
            let at = self.at();
            let message = format!("at most {DEPTH_MAX} brackets lie within each other");
            return Err(Fault::new(at..at + 1, message));
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }
}
