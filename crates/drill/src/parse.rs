//! Text to values.

mod option;
mod time;
mod packet;
mod tcp;
mod tcp_option;
mod icmp;
mod syscall;
mod expr;
mod structure;
mod code;
mod lex;

use crate::cursor::Cursor;
use crate::error::{Error, Fault};
use crate::limit::{ERRORS_MAX, EVENTS_MAX, SCRIPT_MAX};
use crate::place::Places;
use crate::script::{Action, At, Command, Event, Script, Time};
use crate::strip::strip;

const EVENT_EXPECTED: &str = "an event, which begins with its time: 0.1, +0.1 or *";

/// Reads a script. `file` is what errors call it; `defined` are the names that `#ifdef` finds defined, usually
/// [`STANDARD`](crate::STANDARD) alone.
///
/// # Errors
/// All that is wrong, but no more than [`ERRORS_MAX`].
pub fn parse(file: &str, text: &str, defined: &[&str]) -> Result<Script, Vec<Error>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let places = Places::new(text);
    let faults = if text.len() > SCRIPT_MAX {
        vec![Fault::new(0..0, format!("a script has at most {SCRIPT_MAX} bytes"))]
    } else {
        match strip(text, defined) {
            Ok(stripped) => match script(&mut Cursor::new(&stripped, &places)) {
                Ok(script) => return Ok(script),
                Err(faults) => faults,
            },
            Err(fault) => vec![fault],
        }
    };
    Err(faults.into_iter().map(|fault| places.error(file, fault)).collect())
}

fn script(cursor: &mut Cursor<'_>) -> Result<Script, Vec<Fault>> {
    let one = |fault| vec![fault];
    let mut script = Script { options: option::options(cursor).map_err(one)?, ..Script::default() };
    if cursor.next_is("`") {
        script.init = Some(command(cursor).map_err(one)?);
    }
    let mut faults = Vec::new();
    while cursor.peek().is_some() && !cursor.next_is("`") {
        let start = cursor.at();
        match event(cursor, script.events.len()) {
            Ok(event) => script.events.push(event),
            Err(fault) => {
                let full = script.events.len() == EVENTS_MAX;
                let at = fault.span.start;
                faults.push(fault);
                if full || faults.len() == ERRORS_MAX {
                    return Err(faults);
                }
                recover(cursor, start, at);
            }
        }
    }
    match end(cursor, &mut script) {
        Ok(()) if faults.is_empty() => return Ok(script),
        Err(fault) if faults.is_empty() => faults.push(fault),
        // it may follow from the others
        _ => {}
    }
    Err(faults)
}

fn end(cursor: &mut Cursor<'_>, script: &mut Script) -> Result<(), Fault> {
    if script.events.is_empty() {
        return Err(cursor.unexpected(EVENT_EXPECTED));
    }
    if cursor.next_is("`") {
        script.cleanup = Some(command(cursor)?);
    }
    match cursor.peek() {
        None => Ok(()),
        Some(_) => Err(cursor.unexpected("the end of the script, behind the command that cleans up")),
    }
}

/// Goes to the next line that looks like the beginning of an event, from `fault` on, but behind `start`, where the
/// event begins that cannot be understood.
fn recover(cursor: &mut Cursor<'_>, start: usize, fault: usize) {
    let from = fault.max(cursor.rest_start());
    // what is missing at the end of an event is noticed at the beginning of the next one
    if fault == from && fault > start && cursor.is_first_of_line(fault) {
        cursor.go_to(fault);
        if begins_event(cursor.rest()) {
            return;
        }
    }
    cursor.go_to(from);
    loop {
        let rest = cursor.rest();
        let Some(len) = rest.find('\n') else {
            cursor.advance(rest.len());
            return;
        };
        cursor.advance(len + 1);
        if begins_event(cursor.rest().trim_start_matches([' ', '\t'])) {
            return;
        }
    }
}

fn begins_event(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '*' | '.' | '`'))
}

fn event(cursor: &mut Cursor<'_>, before: usize) -> Result<Event, Fault> {
    if before == EVENTS_MAX {
        let at = cursor.at();
        return Err(Fault::new(at..at + 1, format!("a script has at most {EVENTS_MAX} events")));
    }
    let start = cursor.at();
    let time = time::time(cursor)?;
    let span = start..cursor.rest_start();
    let action = match cursor.peek() {
        Some('<' | '>') => Action::Packet(packet::packet(cursor)?),
        Some('`') => Action::Command(command(cursor)?),
        Some('%') => Action::Code(code::code(cursor)?),
        _ => Action::Syscall(syscall::syscall(cursor)?),
    };
    check_time(&time, &action, span)?;
    Ok(Event { time, action })
}

/// A time that leaves something open is only for what the stack does by itself.
fn check_time(time: &At<Time>, action: &Action, span: core::ops::Range<usize>) -> Result<(), Fault> {
    let is_open = matches!(time.value, Time::Any | Time::AbsoluteRange(..) | Time::RelativeRange(..));
    let is_sent =
        matches!(action, Action::Packet(packet) if packet.direction == crate::packet::Direction::Outbound);
    match is_open && !is_sent {
        true => {
            let message = "only a packet that the stack sends can have `*` or a range as its time";
            Err(Fault::new(span, message).help("give one time"))
        }
        false => Ok(()),
    }
}

/// A command between back-quotes. That they are closed is known.
fn command(cursor: &mut Cursor<'_>) -> Result<At<Command>, Fault> {
    let pos = cursor.pos();
    cursor.expect("`")?;
    let len = quoted_len(cursor.rest(), '`');
    let text = cursor.rest().get(..len).unwrap_or_default();
    let command = Command(text.to_owned());
    cursor.advance(len);
    cursor.expect("`")?;
    Ok(At::new(pos, command))
}

/// Bytes before the next `quote` that has no backslash before it.
fn quoted_len(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if c == quote && !escaped {
            return at;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}
