//! `{events=EPOLLIN, fd=4}` and `{..., 10}`.

use super::expr::{check_length, expr, list};
use crate::cursor::{Cursor, Word};
use crate::error::Fault;
use crate::syscall::{ExprKind, Field, Struct, StructKind};

pub(super) fn structure(cursor: &mut Cursor<'_>) -> Result<ExprKind, Fault> {
    cursor.expect("{")?;
    let Some(first) = cursor.peek_word().filter(|word| names_of(StructKind::FIELDS, word.text).is_some())
    else {
        if let Some(word) = cursor.peek_word().filter(|word| is_lower_case(*word)) {
            let known = StructKind::FIELDS.iter().flat_map(|(_, names)| *names).copied();
            return Err(word.unknown("field of a structure that is known", known));
        }
        return Ok(ExprKind::Tuple(list(cursor, "}", "an item")?));
    };
    let (kind, names) = kind_of(first.text);
    let mut fields: Vec<Field> = Vec::new();
    loop {
        let field = field(cursor, kind, names)?;
        if fields.iter().any(|known| known.name == field.name) {
            let at = cursor.rest_start();
            return Err(Fault::new(at - 1..at, format!("the field `{}` stands here twice", field.name)));
        }
        fields.push(field);
        check_length(cursor, fields.len())?;
        if cursor.accept("}") {
            return Ok(ExprKind::Struct(Struct { kind, fields }));
        }
        if !cursor.accept(",") {
            return Err(cursor.unexpected("`,` or `}`"));
        }
    }
}

/// Fields have lower-case names, constants do not; `htons` and its like are neither.
fn is_lower_case(word: Word<'_>) -> bool {
    let is_function = matches!(word.text, "htons" | "htonl" | "inet_addr" | "inet6_addr");
    word.text.starts_with(|c: char| c.is_ascii_lowercase()) && !is_function
}

fn names_of(
    known: &[(StructKind, &'static [&'static str])],
    name: &str,
) -> Option<(StructKind, &'static [&'static str])> {
    known.iter().find(|(_, names)| names.contains(&name)).copied()
}

/// The structure that has this as its first field, else one that has it at all.
fn kind_of(name: &str) -> (StructKind, &'static [&'static str]) {
    let first = StructKind::FIELDS.iter().find(|(_, names)| names.first() == Some(&name)).copied();
    first
        .or_else(|| names_of(StructKind::FIELDS, name))
        .unwrap_or((StructKind::TcpInfo, crate::code::TCP_INFO))
}

fn field(cursor: &mut Cursor<'_>, kind: StructKind, names: &'static [&'static str]) -> Result<Field, Fault> {
    let word = cursor.word("the name of a field")?;
    let Some(&name) = names.iter().find(|name| **name == word.text) else {
        return Err(word
            .unknown("field of this structure", names.iter().copied())
            .expected(shown(kind, names)));
    };
    let len = match cursor.accept("(") {
        true => {
            let len = expr(cursor, "a length")?;
            cursor.expect(")")?;
            Some(len)
        }
        false => None,
    };
    cursor.expect("=")?;
    Ok(Field { pos: word.pos, name, len, value: expr(cursor, "the value of the field")? })
}

fn shown(kind: StructKind, names: &[&str]) -> String {
    match kind {
        StructKind::TcpInfo => "a field of TCP_INFO such as tcpi_state".to_owned(),
        _ => names.join(", "),
    }
}
