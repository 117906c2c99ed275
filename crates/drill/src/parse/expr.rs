//! Arguments and results.

use super::structure;
use crate::cursor::{Cursor, Word};
use crate::error::Fault;
use crate::limit::LIST_MAX;
use crate::symbol::Symbol;
use crate::syscall::{Expr, ExprKind};

/// Expressions with commas between them, up to and with `close`.
pub(super) fn list(cursor: &mut Cursor<'_>, close: &str, what: &str) -> Result<Vec<Expr>, Fault> {
    let mut list = Vec::new();
    if cursor.accept(close) {
        return Ok(list);
    }
    loop {
        list.push(expr(cursor, what)?);
        check_length(cursor, list.len())?;
        if cursor.accept(close) {
            return Ok(list);
        }
        if !cursor.accept(",") {
            return Err(cursor.unexpected(&format!("`,` or `{close}`")));
        }
    }
}

pub(super) fn check_length(cursor: &Cursor<'_>, len: usize) -> Result<(), Fault> {
    if len <= LIST_MAX {
        return Ok(());
    }
    let at = cursor.rest_start();
    Err(Fault::new(at - 1..at, format!("a list has at most {LIST_MAX} items")))
}

pub(super) fn expr(cursor: &mut Cursor<'_>, what: &str) -> Result<Expr, Fault> {
    let pos = cursor.pos();
    let mut terms = vec![cursor.deeper(|cursor| primary(cursor, what))?];
    while cursor.accept("|") {
        terms.push(cursor.deeper(|cursor| primary(cursor, "a flag"))?);
        check_length(cursor, terms.len())?;
    }
    Ok(match <[Expr; 1]>::try_from(terms) {
        Ok([one]) => one,
        Err(terms) => Expr { pos, kind: ExprKind::Or(terms) },
    })
}

fn primary(cursor: &mut Cursor<'_>, what: &str) -> Result<Expr, Fault> {
    let pos = cursor.pos();
    let kind = match cursor.peek() {
        Some('.') if cursor.accept("...") => ExprKind::Ellipsis,
        Some('"') => text(cursor)?,
        Some('[') => {
            cursor.advance(1);
            ExprKind::Array(list(cursor, "]", "an item")?)
        }
        Some('{') => structure::structure(cursor)?,
        Some(c) if c.is_ascii_digit() || c == '-' => {
            ExprKind::Integer(cursor.number("a number", i64::MIN..=i64::MAX)?.value)
        }
        Some(c) if c.is_ascii_alphabetic() || c == '_' => {
            let word = cursor.word(what)?;
            named(cursor, word)?
        }
        _ => return Err(cursor.unexpected(what)),
    };
    Ok(Expr { pos, kind })
}

/// A name, and what may stand behind it.
fn named(cursor: &mut Cursor<'_>, word: Word<'_>) -> Result<ExprKind, Fault> {
    match word.text {
        "htons" => return in_parentheses(cursor, "a port").map(ExprKind::Htons),
        "htonl" => return in_parentheses(cursor, "a number").map(ExprKind::Htonl),
        "inet_addr" => {
            return address(cursor, |text| text.parse().ok().map(ExprKind::InetAddr), "an address of IPv4");
        }
        "inet6_addr" => {
            return address(cursor, |text| text.parse().ok().map(ExprKind::Inet6Addr), "an address of IPv6");
        }
        _ => {}
    }
    match Symbol::find(word.text) {
        Some(symbol) if cursor.accept("=") => {
            Ok(ExprKind::Attribute(symbol, Box::new(expr(cursor, "a value")?)))
        }
        Some(symbol) => Ok(ExprKind::Symbol(symbol)),
        None => match cursor.is_defined(word.text) {
            true => Ok(ExprKind::Name(word.text.to_owned())),
            false => {
                let fault = word.unknown("constant that is known", Symbol::names());
                Err(fault.expected("a constant such as SO_RCVBUF, or a name of --define"))
            }
        },
    }
}

fn in_parentheses<T>(cursor: &mut Cursor<'_>, what: &str) -> Result<T, Fault>
where
    T: Copy + PartialOrd + TryFrom<i64> + core::fmt::Display + Bounded,
{
    cursor.expect("(")?;
    let number = cursor.number(what, T::MIN..=T::MAX)?;
    cursor.expect(")")?;
    Ok(number.value)
}

trait Bounded: Sized {
    const MIN: Self;
    const MAX: Self;
}

impl Bounded for u16 {
    const MIN: Self = Self::MIN;
    const MAX: Self = Self::MAX;
}

impl Bounded for u32 {
    const MIN: Self = Self::MIN;
    const MAX: Self = Self::MAX;
}

fn address(
    cursor: &mut Cursor<'_>,
    read: impl FnOnce(&str) -> Option<ExprKind>,
    what: &str,
) -> Result<ExprKind, Fault> {
    cursor.expect("(")?;
    let at = cursor.at();
    if !cursor.next_is("\"") {
        return Err(cursor.unexpected(&format!("{what} in quotes")));
    }
    cursor.advance(1);
    let len = cursor.rest().find('"').unwrap_or_else(|| cursor.rest().len());
    let text = cursor.rest().get(..len).unwrap_or_default();
    cursor.advance((len + 1).min(cursor.rest().len()));
    let Some(address) = read(text) else {
        return Err(Fault::new(at..cursor.rest_start(), format!("this is not {what}")));
    };
    cursor.expect(")")?;
    Ok(address)
}

/// Strings side by side are one. That they are closed is known.
fn text(cursor: &mut Cursor<'_>) -> Result<ExprKind, Fault> {
    let mut bytes = Vec::new();
    while cursor.accept("\"") {
        let at = cursor.rest_start();
        let rest = cursor.rest();
        let len = super::quoted_len(rest, '"');
        unescape(rest.get(..len).unwrap_or_default(), at, &mut bytes)?;
        cursor.advance((len + 1).min(rest.len()));
    }
    Ok(ExprKind::Text { bytes, more: cursor.accept("...") })
}

/// Bytes of a string with the escapes of C.
fn unescape(text: &str, at: usize, bytes: &mut Vec<u8>) -> Result<(), Fault> {
    let mut rest = text;
    while let Some(len) = rest.find('\\') {
        let (before, escape) = rest.split_at(len);
        bytes.extend_from_slice(before.as_bytes());
        let place = at + text.len() - escape.len();
        let code = escape.get(1..).unwrap_or_default();
        let digits =
            |text: &str, radix, most| text.chars().take(most).take_while(|c| c.is_digit(radix)).count();
        let (byte, used) = match code.chars().next() {
            Some('n') => (Some(b'\n'), 1),
            Some('r') => (Some(b'\r'), 1),
            Some('t') => (Some(b'\t'), 1),
            Some('a') => (Some(7), 1),
            Some('b') => (Some(8), 1),
            Some('f') => (Some(12), 1),
            Some('v') => (Some(11), 1),
            Some('e') => (Some(27), 1),
            Some(c @ ('\\' | '"' | '\'' | '?')) => (u8::try_from(c).ok(), 1),
            Some('x') => {
                let len = digits(code.get(1..).unwrap_or_default(), 16, 2);
                (u8::from_str_radix(code.get(1..=len).unwrap_or_default(), 16).ok(), 1 + len)
            }
            Some('0'..='7') => {
                let len = digits(code, 8, 3);
                (u8::from_str_radix(code.get(..len).unwrap_or_default(), 8).ok(), len)
            }
            _ => (None, 0),
        };
        let Some(byte) = byte else {
            let width = 1 + code.chars().next().map_or(0, char::len_utf8);
            return Err(Fault::new(place..place + width, "this escape is not known")
                .expected("\\n, \\r, \\t, \\0, \\x1f, \\\\ or \\\""));
        };
        bytes.push(byte);
        rest = code.get(used..).unwrap_or_default();
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(())
}
