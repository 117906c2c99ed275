//! TCP segments.

use super::packet::in_parentheses;
use super::tcp_option;
use crate::cursor::Cursor;
use crate::error::Fault;
use crate::packet::{Direction, Flags, Seq, SeqStart, Tcp};
use crate::script::At;

pub(super) fn tcp(cursor: &mut Cursor<'_>, direction: Direction) -> Result<Tcp, Fault> {
    let flags = flags(cursor)?;
    let seq = seq(cursor)?;
    if seq.start == SeqStart::Any && direction == Direction::Inbound {
        let at = cursor.rest_start();
        return Err(Fault::new(
            at - 1..at,
            "only a segment that the stack sends can have any sequence number",
        ));
    }
    let ack =
        cursor.accept_word("ack").then(|| cursor.number("a sequence number", 0..=u32::MAX)).transpose()?;
    let window = cursor.accept_word("win").then(|| cursor.number("16 bits", 0..=u16::MAX)).transpose()?;
    let urgent = cursor.accept_word("urg").then(|| cursor.number("16 bits", 0..=u16::MAX)).transpose()?;
    let options = tcp_option::options(cursor, direction)?;
    let rest = cursor.at();
    if cursor.next_is("/") {
        let fault = Fault::new(rest..rest + 1, "TCP in UDP is refused: the stack ends no tunnels");
        return Err(fault);
    }
    if let Some(word) = cursor.peek_word().filter(|word| !word.text.starts_with(|c: char| c.is_ascii_digit()))
    {
        let known = ["ack", "win", "urg"];
        let fault = match known.contains(&word.text) {
            true => word.fault(format!("`{}` stands at the wrong place", word.text)),
            false => word.unknown("part of a segment", known),
        };
        return Err(fault.expected("ack, win, urg, <options>, in this order, or the next event"));
    }
    Ok(Tcp { flags, seq, ack, window, urgent, options })
}

const FLAGS_EXPECTED: &str = "flags: letters of SFRPUEWA and `.`, or `-` for none";

/// `S.`, `P.`, `SEW`, `.5`, `-`; also `F .`.
fn flags(cursor: &mut Cursor<'_>) -> Result<At<Flags>, Fault> {
    let (at, pos) = (cursor.at(), cursor.pos());
    if cursor.accept("-") {
        return Ok(At::new(pos, Flags::default()));
    }
    let (mut flags, mut ace) = (Flags::default(), None);
    // three points are a sequence number that may be any
    while let Some(c) = cursor.rest().chars().next().filter(|_| !cursor.rest().starts_with("...")) {
        let here = cursor.rest_start();
        let letter = Flags::LETTERS.iter().find(|(letter, _)| *letter == c);
        match (letter, c.to_digit(8).and_then(|digit| u16::try_from(digit).ok())) {
            (Some(&(_, flag)), _) if flags.contains(flag) => {
                return Err(Fault::new(here..here + 1, format!("the flag `{c}` stands here twice")));
            }
            (Some(&(_, flag)), _) => flags = flags.with(flag),
            (None, Some(number)) if ace.is_none() && here > at => ace = Some(number),
            _ if c.is_ascii_alphanumeric() => {
                return Err(Fault::new(here..here + 1, format!("`{c}` is no flag")).expected(FLAGS_EXPECTED));
            }
            _ => break,
        }
        cursor.advance(1);
    }
    if cursor.rest_start() == at {
        return Err(cursor.unexpected(FLAGS_EXPECTED));
    }
    if ace.is_some() && [Flags::ECE, Flags::CWR, Flags::AE].iter().any(|&flag| flags.contains(flag)) {
        return Err(Fault::new(
            at..cursor.rest_start(),
            "E, W and A are the bits of the number behind the flags",
        ));
    }
    if !flags.contains(Flags::ACK) && cursor.next_is(".") && !cursor.next_is("...") {
        cursor.advance(1);
        flags = flags.with(Flags::ACK);
    }
    Ok(At::new(pos, flags.with_ace(ace.unwrap_or(0))))
}

/// `1:1001(1000)`, `1:1(0)!`, `...(0)`.
pub(super) fn seq(cursor: &mut Cursor<'_>) -> Result<At<Seq>, Fault> {
    let (at, pos) = (cursor.at(), cursor.pos());
    if cursor.accept("...") {
        let len = in_parentheses(cursor, "bytes of data")?.value;
        return Ok(At::new(pos, Seq { start: SeqStart::Any, len }));
    }
    let start = cursor.number("a sequence number", 0..=u32::MAX)?.value;
    cursor.expect(":")?;
    let end = cursor.number("the sequence number behind the data", 0..=u32::MAX)?.value;
    let len = in_parentheses(cursor, "bytes of data")?.value;
    if end != start.wrapping_add(u32::from(len)) {
        let message = format!("from {start} to {end} are not {len} bytes");
        let fault = Fault::new(at..cursor.rest_start(), message);
        return Err(fault.expected(format!("{start}:{}({len})", start.wrapping_add(u32::from(len)))));
    }
    let start = if cursor.accept("!") { SeqStart::Absolute(start) } else { SeqStart::Relative(start) };
    Ok(At::new(pos, Seq { start, len }))
}
