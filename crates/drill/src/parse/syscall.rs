//! System calls.

use super::{expr, time};
use crate::cursor::Cursor;
use crate::error::Fault;
use crate::limit::NAME_MAX;
use crate::refused::{self, Place};
use crate::script::At;
use crate::symbol::{Kind, Symbol};
use crate::syscall::{Call, Errno, Syscall};

const ACTION_EXPECTED: &str = "`<`, `>`, a system call, a command in back-quotes or %{ code }%";

pub(super) fn syscall(cursor: &mut Cursor<'_>) -> Result<Syscall, Fault> {
    let pos = cursor.pos();
    let end = match cursor.accept("...") {
        true => Some(At::new(pos, time::seconds(cursor, "when the call returns, in seconds")?)),
        false => None,
    };
    let word = cursor.word(ACTION_EXPECTED)?;
    let Some(&(_, call)) = Call::NAMES.iter().find(|(name, _)| *name == word.text) else {
        refused::check(Place::Call, word)?;
        let fault = word.unknown("system call", Call::NAMES.iter().map(|(name, _)| *name));
        return Err(fault.expected(ACTION_EXPECTED));
    };
    cursor.expect("(")?;
    let args = expr::list(cursor, ")", "an argument")?;
    cursor.expect("=")?;
    let result = expr::expr(cursor, "what the call returns")?;
    let errno = errno(cursor)?;
    let note = cursor.next_is("(").then(|| note(cursor)).transpose()?;
    Ok(Syscall { end, call: At::new(word.pos, call), args, result, errno, note })
}

/// `EINPROGRESS (Operation now in progress)`, if a name is next.
fn errno(cursor: &mut Cursor<'_>) -> Result<Option<At<Errno>>, Fault> {
    let is_name = |c: char| c.is_ascii_alphabetic() || c == '_';
    let Some(word) = cursor.peek_word().filter(|word| word.text.starts_with(is_name)) else {
        return Ok(None);
    };
    cursor.word("an error")?;
    let Some(symbol) = Symbol::find(word.text).filter(|symbol| symbol.kind() == Kind::Errno) else {
        let fault = word.unknown("error of a system call", Symbol::all_of(Kind::Errno).map(Symbol::name));
        return Err(fault.expected("an error such as EAGAIN, or the next event"));
    };
    if !cursor.next_is("(") {
        return Err(cursor.unexpected("the error's text in parentheses"));
    }
    Ok(Some(At::new(word.pos, Errno { symbol, text: note(cursor)? })))
}

/// `(Operation now in progress)`.
fn note(cursor: &mut Cursor<'_>) -> Result<String, Fault> {
    let at = cursor.at();
    cursor.expect("(")?;
    let rest = cursor.rest();
    let len = rest.find(['(', ')']).unwrap_or(rest.len());
    let text = rest.get(..len).unwrap_or_default();
    if text.len() > NAME_MAX {
        return Err(Fault::new(at..at + 1, format!("a text in parentheses has at most {NAME_MAX} bytes")));
    }
    if let Some((odd, c)) = text.char_indices().find(|(_, c)| c.is_control() && !c.is_ascii_whitespace()) {
        let odd = at + 1 + odd;
        let message = format!("U+{:04X} can be no part of a script", u32::from(c));
        return Err(Fault::new(odd..odd + c.len_utf8(), message));
    }
    let words: Vec<&str> =
        text.split([' ', '\t', '\n', '\r', '\u{c}']).filter(|word| !word.is_empty()).collect();
    cursor.advance(len);
    cursor.expect(")")?;
    match words.is_empty() {
        true => Err(Fault::new(at..at + 1, "the parentheses are empty").expected("a text")),
        false => Ok(words.join(" ")),
    }
}
