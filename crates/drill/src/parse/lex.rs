//! Tokens of the code between `%{` and `}%`.

use core::ops::Range;

use crate::error::Fault;

/// A token, and where it stands in the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: TokenKind,
    pub(super) text: &'a str,
    pub(super) span: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Word,
    Number,
    Text,
    Operator,
    /// The end of a statement.
    End,
}

/// The longest first.
const OPERATORS: [&str; 24] = [
    "<<", ">>", "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "&", "|", "^", "~", "<", ">",
    "(", ")", ",", "=", ".",
];

/// The tokens of `code`, which stands at byte `at` of the script.
pub(super) fn tokens(code: &str, at: usize) -> Result<Vec<Token<'_>>, Fault> {
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let mut here = 0;
    let mut open = 0_usize;
    while let Some(c) = code.get(here..).and_then(|rest| rest.chars().next()) {
        let rest = code.get(here..).unwrap_or_default();
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (kind, len) = match c {
            ' ' | '\t' | '\r' => (None, 1),
            // within parentheses a statement does not end with its line
            '\n' if open > 0 => (None, 1),
            '\n' | ';' => (Some(TokenKind::End), 1),
            '#' => (None, rest.find('\n').unwrap_or(rest.len())),
            '\\' if continues(rest) => (None, rest.find('\n').map_or(rest.len(), |len| len + 1)),
            '"' | '\'' => (Some(TokenKind::Text), text_len(rest, c).ok_or_else(|| unclosed(at + here))?),
            c if c.is_ascii_digit() || c == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                let is_number = |c: char| is_word(c) || c == '.';
                (Some(TokenKind::Number), rest.find(|c| !is_number(c)).unwrap_or(rest.len()))
            }
            c if is_word(c) => (Some(TokenKind::Word), rest.find(|c| !is_word(c)).unwrap_or(rest.len())),
            _ => match OPERATORS.iter().find(|operator| rest.starts_with(**operator)) {
                Some(operator) => (Some(TokenKind::Operator), operator.len()),
                None => {
                    let place = at + here;
                    let message = format!("`{}` is not understood in code", c.escape_debug());
                    return Err(
                        Fault::new(place..place + c.len_utf8(), message).expected(super::code::EXPECTED)
                    );
                }
            },
        };
        match c {
            '(' => open += 1,
            ')' => open = open.saturating_sub(1),
            _ => {}
        }
        if let Some(kind) = kind {
            let span = at + here..at + here + len;
            tokens.push(Token { kind, text: code.get(here..here + len).unwrap_or_default(), span });
        }
        here += len;
    }
    Ok(tokens)
}

/// Whether there is nothing between a backslash and the end of its line.
fn continues(rest: &str) -> bool {
    rest.get(1..).unwrap_or_default().split('\n').next().unwrap_or_default().trim().is_empty()
}

fn text_len(rest: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\n' if !escaped => return None,
            _ if c == quote && !escaped => return Some(at + 1),
            _ => escaped = c == '\\' && !escaped,
        }
    }
    None
}

fn unclosed(at: usize) -> Fault {
    Fault::new(at..at + 1, "the string is not closed on its line")
}
