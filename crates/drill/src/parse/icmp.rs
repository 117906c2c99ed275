//! ICMP messages.

use super::packet::in_parentheses;
use super::tcp;
use crate::cursor::{Cursor, Word};
use crate::error::Fault;
use crate::packet::{ICMP4_TYPES, ICMP6_TYPES, Icmp, IcmpCode, IcmpKind, IcmpType, Quote};
use crate::refused::{self, Place};
use crate::script::At;

pub(super) fn icmp(cursor: &mut Cursor<'_>) -> Result<Icmp, Fault> {
    let word = cursor.word("the type of an ICMP message")?;
    let kind = kind(word)?;
    let kind = At::new(word.pos, kind);
    let is_code = |word: &Word<'_>| {
        !matches!(word.text, "mtu" | "id") && !word.text.starts_with(|c: char| c.is_ascii_digit())
    };
    let code = match cursor.peek_word().filter(is_code) {
        Some(word) => {
            cursor.word("a code")?;
            Some(At::new(word.pos, code(word, kind.value)?))
        }
        None => None,
    };
    let mtu_at = cursor.at();
    let mtu = cursor.accept_word("mtu").then(|| cursor.number("bytes", 0..=u32::MAX)).transpose()?;
    let reports_mtu = || {
        let code = code.map_or(IcmpCode::Number(0), |code| code.value);
        (kind.number(false) == Some(3) && code.number(kind.value, false) == Some(4))
            || kind.number(true) == Some(2)
    };
    if mtu.is_some() && !reports_mtu() {
        return Err(Fault::new(mtu_at..mtu_at + 3, "this message reports no MTU")
            .expected("unreachable frag_needed, or packet_too_big"));
    }
    let id = cursor.accept_word("id").then(|| cursor.number("16 bits", 0..=u16::MAX)).transpose()?;
    let quote = cursor.next_is("[").then(|| quote(cursor)).transpose()?;
    Ok(Icmp { kind, code, mtu, id, quote })
}

fn kind(word: Word<'_>) -> Result<IcmpKind, Fault> {
    let number = word.text.strip_prefix("type_").and_then(|number| number.parse().ok());
    let names = ICMP4_TYPES.iter().chain(ICMP6_TYPES).map(|(name, ..)| *name);
    match (number, names.clone().find(|name| *name == word.text)) {
        (Some(number), _) => Ok(IcmpKind::Number(number)),
        (None, Some(name)) => Ok(IcmpKind::Named(name)),
        (None, None) => Err(word
            .unknown("type of ICMP", names)
            .expected("a type such as unreachable, or type_N, 0 to 255")),
    }
}

fn code(word: Word<'_>, kind: IcmpKind) -> Result<IcmpCode, Fault> {
    if let Some(number) = word.text.strip_prefix("code_").and_then(|number| number.parse().ok()) {
        return Ok(IcmpCode::Number(number));
    }
    let of = |types: &'static [IcmpType], number: Option<u8>| {
        let types = types.iter().filter(move |(_, known, _)| Some(*known) == number);
        types.flat_map(|(.., codes)| *codes).map(|(name, _)| *name)
    };
    let names = of(ICMP4_TYPES, kind.number(false)).chain(of(ICMP6_TYPES, kind.number(true)));
    match names.clone().find(|name| *name == word.text) {
        Some(name) => Ok(IcmpCode::Named(name)),
        None => Err(word
            .unknown("code of this type", names)
            .expected("a code of the type, code_N, mtu, id, [what is quoted], or the next event")),
    }
}

/// Whether what a message quotes is next, and no field of the IP header in brackets.
pub(super) fn begins_quote(cursor: &mut Cursor<'_>) -> bool {
    let inside = if cursor.next_is("[") { cursor.rest().get(1..) } else { None };
    let inside = inside.unwrap_or_default().trim_start_matches([' ', '\t']);
    inside.starts_with(|c: char| c.is_ascii_digit()) || inside.starts_with("udp") || inside.starts_with("raw")
}

/// `[1:1001(1000)]`, `[udp (10)]`, `[raw (8)]`.
pub(super) fn quote(cursor: &mut Cursor<'_>) -> Result<At<Quote>, Fault> {
    let pos = cursor.pos();
    cursor.expect("[")?;
    if let Some(word) = cursor.peek_word() {
        refused::check(Place::Packet, word)?;
    }
    let quote = if cursor.accept_word("udp") {
        Quote::Udp(in_parentheses(cursor, "bytes of data")?.value)
    } else if cursor.accept_word("raw") {
        Quote::Raw(in_parentheses(cursor, "bytes behind the IP header")?.value)
    } else {
        Quote::Tcp(tcp::seq(cursor)?.value)
    };
    cursor.expect("]")?;
    Ok(At::new(pos, quote))
}
