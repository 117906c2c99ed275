//! A command as words, each knowing where it stands.

use core::ops::Range;
use core::str::FromStr;

use crate::error::{Fault, nearest};
use crate::foreign;

/// A word, or a part of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'a> {
    pub(crate) text: &'a str,
    /// Its first byte in the command's text.
    at: usize,
}

impl<'a> Word<'a> {
    pub(crate) fn span(self) -> Range<usize> {
        self.at..self.at + self.text.len()
    }

    /// Whether it is this word. As in ipfw(8) the case of letters counts.
    pub(crate) fn is(self, word: &str) -> bool {
        self.text == word
    }

    /// The bytes from `from` to `to` of it.
    pub(crate) fn part(self, range: Range<usize>) -> Self {
        let start = range.start;
        Self { text: self.text.get(range).unwrap_or_default(), at: self.at + start }
    }

    /// Its parts between these characters.
    pub(crate) fn split(self, by: char) -> impl Iterator<Item = Self> + Clone + use<'a> {
        let mut at = self.at;
        self.text.split(by).map(move |text| {
            let part = Self { text, at };
            at += text.len() + by.len_utf8();
            part
        })
    }

    pub(crate) fn split_once(self, by: char) -> Option<(Self, Self)> {
        let i = self.text.find(by)?;
        Some((self.part(0..i), self.part(i + by.len_utf8()..self.text.len())))
    }

    pub(crate) fn strip_prefix(self, prefix: &str) -> Option<Self> {
        self.text.starts_with(prefix).then(|| self.part(prefix.len()..self.text.len()))
    }

    pub(crate) fn strip_suffix(self, suffix: &str) -> Option<Self> {
        Some(self.part(0..self.text.strip_suffix(suffix)?.len()))
    }

    /// The word of `known` that this is the beginning of, if there is but one and it is no slip; else the word itself.
    pub(crate) fn full(self, known: &[&'static str]) -> &'a str {
        let mut begun = known.iter().filter(|known| known.starts_with(self.text));
        match (begun.next(), begun.next()) {
            (Some(&one), None) if self.text.len() > 1 => one,
            _ => self.text,
        }
    }

    pub(crate) fn fault(self, message: impl Into<String>) -> Fault {
        Fault::new(self.span(), message)
    }

    /// It is none of `known`, each of which is a `what`.
    pub(crate) fn unknown<'k>(self, what: &str, known: impl IntoIterator<Item = &'k str> + Clone) -> Fault {
        let fault = self.fault(format!("`{}` is no {what}", self.text));
        let near = || nearest(self.text, known).map(|near| format!("did you mean `{near}`?"));
        match foreign::hint(self.text).or_else(near) {
            Some(help) => fault.help(help),
            None => fault,
        }
    }

    /// A number in this range, decimal or hexadecimal (`0x1f`).
    pub(crate) fn number<T>(self, what: &str, range: core::ops::RangeInclusive<T>) -> Result<T, Fault>
    where
        T: Copy + PartialOrd + TryFrom<u64> + core::fmt::Display,
    {
        let value = match self.text.strip_prefix("0x") {
            Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
            None if self.text.starts_with(|c: char| c.is_ascii_digit()) => u64::from_str(self.text).ok(),
            _ => None,
        };
        let digits = self.text.starts_with(|c: char| c.is_ascii_digit());
        match value.and_then(|value| T::try_from(value).ok()).filter(|value| range.contains(value)) {
            Some(value) => Ok(value),
            None if value.is_some() => {
                let range = format!("{} to {}", range.start(), range.end());
                Err(self
                    .fault(format!("`{}` is out of range", self.text))
                    .expected(format!("{what}, {range}")))
            }
            None => {
                let message = match self.text {
                    "" => "a number is missing".to_owned(),
                    text if digits => format!("`{text}` is not a whole number"),
                    text => format!("`{text}` is not a number"),
                };
                Err(self.fault(message).expected(format!("{what}, {} to {}", range.start(), range.end())))
            }
        }
    }
}

/// A command, read word by word.
#[derive(Clone, Debug)]
pub(crate) struct Tokens<'a> {
    words: Vec<Word<'a>>,
    next: usize,
    /// Where the line ends.
    end: usize,
}

impl<'a> Tokens<'a> {
    /// Splits at blanks. Braces and parentheses around a word are words of their own, and `//` and what follows it are
    /// one word.
    pub(crate) fn new(text: &'a str) -> Self {
        let mut words = Vec::new();
        let mut at = 0;
        while let Some(skip) = text[at..].find(|c: char| !is_blank(c)) {
            at += skip;
            let rest = &text[at..];
            let len = match rest.starts_with("//") {
                true => rest.len(),
                false => rest.find(is_blank).unwrap_or(rest.len()),
            };
            let word = Word { text: &rest[..len], at };
            match rest.starts_with("//") {
                true => words.push(word),
                false => unwrap(word, &mut words),
            }
            at += len;
        }
        Self { words, next: 0, end: text.trim_end_matches(is_blank).len() }
    }

    pub(crate) fn peek(&self) -> Option<Word<'a>> {
        self.words.get(self.next).copied()
    }

    /// The word behind the next one.
    pub(crate) fn peek_second(&self) -> Option<Word<'a>> {
        self.words.get(self.next + 1).copied()
    }

    /// Tokens that are left.
    pub(crate) fn rest(&self) -> &[Word<'a>] {
        &self.words[self.next.min(self.words.len())..]
    }

    pub(crate) fn next_is(&self, word: &str) -> bool {
        self.peek().is_some_and(|next| next.is(word))
    }

    pub(crate) fn skip(&mut self) {
        self.next += 1;
    }

    /// The next word; `expected` says what it should be if there is none.
    pub(crate) fn take(&mut self, expected: &str) -> Result<Word<'a>, Fault> {
        let word = self.peek().ok_or_else(|| self.too_short(expected))?;
        self.skip();
        Ok(word)
    }

    /// Takes the next word if it is this one.
    pub(crate) fn accept(&mut self, word: &str) -> bool {
        let is = self.next_is(word);
        self.next += usize::from(is);
        is
    }

    /// Takes `not` or `!`, which may stick to what it negates.
    pub(crate) fn accept_not(&mut self) -> bool {
        let Some(word) = self.peek() else { return false };
        match word.strip_prefix("!") {
            Some(rest) if !rest.text.is_empty() => self.words[self.next] = rest,
            Some(_) => self.skip(),
            None => return self.accept("not"),
        }
        true
    }

    pub(crate) fn too_short(&self, expected: &str) -> Fault {
        Fault::new(self.end..self.end, "the line ends too early").expected(expected)
    }

    /// Nothing must be left.
    pub(crate) fn finish(&self) -> Result<(), Fault> {
        let Some(first) = self.peek() else { return Ok(()) };
        let span = first.span().start..self.end.max(first.span().end);
        Err(Fault::new(span, format!("`{}` is left over", first.text)).expected("the end of the line"))
    }
}

pub(crate) fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

/// Takes braces off a word that it does not close or open itself, as `table(1)` and `10.0.0.0/24{1,5}` do.
fn unwrap<'a>(mut word: Word<'a>, words: &mut Vec<Word<'a>>) {
    while word.text.len() > 1 && word.text.starts_with(['{', '(']) {
        words.push(word.part(0..1));
        word = word.part(1..word.text.len());
    }
    let mut closing = Vec::new();
    while word.text.len() > 1 && closes_more(word.text) {
        let last = word.text.len() - 1;
        closing.push(word.part(last..last + 1));
        word = word.part(0..last);
    }
    words.push(word);
    words.extend(closing.into_iter().rev());
}

fn closes_more(text: &str) -> bool {
    let count = |c: char| text.matches(c).count();
    (text.ends_with('}') && count('}') > count('{')) || (text.ends_with(')') && count(')') > count('('))
}
