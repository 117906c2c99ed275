//! When an event is.

use core::time::Duration;

use crate::cursor::Cursor;
use crate::error::Fault;
use crate::limit::SECONDS_MAX;
use crate::script::{At, Time};

pub(super) fn time(cursor: &mut Cursor<'_>) -> Result<At<Time>, Fault> {
    let (at, pos) = (cursor.at(), cursor.pos());
    let relative = cursor.accept("+");
    if cursor.accept("*") {
        return Ok(At::new(pos, Time::Any));
    }
    let from = seconds(cursor, super::EVENT_EXPECTED)?;
    if !cursor.accept("~") {
        return Ok(At::new(pos, if relative { Time::Relative(from) } else { Time::Absolute(from) }));
    }
    let sign = cursor.at();
    if cursor.accept("+") != relative {
        let fault = Fault::new(sign..sign + 1, "one end of the range is relative and the other is not");
        return Err(fault.expected("0.1~0.2 or +0.1~+0.2"));
    }
    let to = seconds(cursor, "the end of the range, in seconds")?;
    if to < from {
        return Err(Fault::new(at..cursor.rest_start(), "the range ends before it begins"));
    }
    Ok(At::new(pos, if relative { Time::RelativeRange(from, to) } else { Time::AbsoluteRange(from, to) }))
}

/// Seconds with a point; what is less than a microsecond is cut off.
pub(super) fn seconds(cursor: &mut Cursor<'_>, expected: &str) -> Result<Duration, Fault> {
    let at = cursor.at();
    let rest = cursor.rest();
    if rest.starts_with('-') {
        return Err(Fault::new(at..at + 1, "a time cannot be negative").expected(expected));
    }
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(rest);
    // behind `0...0.2` there is no fraction, but a second time
    let part = rest.get(whole..).and_then(|rest| rest.strip_prefix('.')).map_or(0, digits);
    let len = whole + if part > 0 { part + 1 } else { 0 };
    if len == 0 {
        return Err(cursor.unexpected(expected));
    }
    let number = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u64>().ok() };
    let seconds = number(rest.get(..whole).unwrap_or_default()).filter(|&seconds| seconds <= SECONDS_MAX);
    let Some(seconds) = seconds else {
        let fault = Fault::new(at..at + len, "the time is out of range");
        return Err(fault.expected(format!("at most {SECONDS_MAX} seconds")));
    };
    let micros =
        rest.get(whole..len).unwrap_or_default().bytes().skip(1).chain(core::iter::repeat(b'0')).take(6);
    let micros = micros.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    cursor.advance(len);
    Ok(Duration::from_micros(seconds * 1_000_000 + micros))
}
