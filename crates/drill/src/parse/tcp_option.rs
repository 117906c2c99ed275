//! TCP options.

use crate::cursor::{Cursor, Word};
use crate::error::Fault;
use crate::limit::TCP_OPTIONS_MAX;
use crate::packet::{Cookie, Direction, EcnCounter, Md5, SackBlock, TcpOption, TcpOptions, UTO_MINUTES};
use crate::refused::{self, Place};
use crate::script::At;

const KNOWN: [&str; 12] =
    ["nop", "eol", "mss", "wscale", "sackOK", "sack", "TS", "FO", "FOEXP", "md5", "uto", "ECN"];
const EXPECTED: &str = "an option: mss, wscale, sackOK, sack, TS, FO, FOEXP, md5, uto, ECN, nop or eol";

/// `<mss 1460,nop,wscale 6>`, `<...>`, or nothing.
pub(super) fn options(cursor: &mut Cursor<'_>, direction: Direction) -> Result<At<TcpOptions>, Fault> {
    let (at, pos) = (cursor.at(), cursor.pos());
    if !cursor.accept("<") {
        return Ok(At::new(pos, TcpOptions::default()));
    }
    if cursor.accept("...") {
        if direction == Direction::Inbound {
            return Err(open(at..at + 4));
        }
        cursor.expect(">")?;
        return Ok(At::new(pos, TcpOptions::Any));
    }
    let mut list: Vec<At<TcpOption>> = Vec::new();
    loop {
        list.push(option(cursor, direction)?);
        let len: usize = list.iter().map(|option| option.len().unwrap_or(0)).sum();
        if len > TCP_OPTIONS_MAX {
            let message =
                format!("the options have more than {TCP_OPTIONS_MAX} bytes, which no header has room for");
            return Err(Fault::new(at..cursor.rest_start(), message));
        }
        if !cursor.accept(",") {
            break;
        }
    }
    if !cursor.accept(">") {
        return Err(cursor.unexpected("`,` or `>`"));
    }
    // a header is so many words of four bytes
    let len: Option<usize> = list.iter().map(|option| option.len()).sum();
    match len.map(|len| len % 4) {
        None | Some(0) => Ok(At::new(pos, TcpOptions::List(list))),
        Some(rest) => {
            let message = format!("the options have {} bytes, which is no multiple of 4", len.unwrap_or(0));
            let fault = Fault::new(at..cursor.rest_start(), message);
            Err(fault.expected(format!("{} more of nop or eol", 4 - rest)))
        }
    }
}

fn open(span: core::ops::Range<usize>) -> Fault {
    Fault::new(span, "only a segment that the stack sends can leave this open")
}

fn option(cursor: &mut Cursor<'_>, direction: Direction) -> Result<At<TcpOption>, Fault> {
    let word = cursor.word(EXPECTED)?;
    let is_inbound = direction == Direction::Inbound;
    let option = match word.text {
        "nop" => TcpOption::Nop,
        "eol" => TcpOption::Eol,
        "mss" => TcpOption::Mss(cursor.number("16 bits", 0..=u16::MAX)?.value),
        "wscale" => {
            let at = cursor.at();
            match cursor.accept("*") {
                true if is_inbound => return Err(open(at..at + 1)),
                true => TcpOption::WindowScale(None),
                false => TcpOption::WindowScale(Some(cursor.number("a shift, 8 bits", 0..=u8::MAX)?.value)),
            }
        }
        "sackOK" => TcpOption::SackPermitted,
        "sack" => TcpOption::Sack(sack(cursor)?),
        "TS" => timestamps(cursor, is_inbound)?,
        "FO" => TcpOption::FastOpen(cookie(cursor)?),
        "FOEXP" => TcpOption::FastOpenExp(cookie(cursor)?),
        "md5" => TcpOption::Md5(md5(cursor)?),
        "uto" => {
            let number = cursor.number("a time, 15 bits", 0..=!UTO_MINUTES)?.value;
            TcpOption::UserTimeout(if cursor.accept_word("min") { number | UTO_MINUTES } else { number })
        }
        "ECN" => TcpOption::AccEcn(counters(cursor)?),
        _ => {
            refused::check(Place::TcpOption, word)?;
            return Err(word.unknown("TCP option", KNOWN).expected(EXPECTED));
        }
    };
    Ok(At::new(word.pos, option))
}

fn sack(cursor: &mut Cursor<'_>) -> Result<Vec<SackBlock>, Fault> {
    let mut blocks = Vec::new();
    while blocks.is_empty() || cursor.peek().is_some_and(|c| c.is_ascii_digit()) {
        let left = cursor.number("the left edge of a block", 0..=u32::MAX)?.value;
        cursor.expect(":")?;
        let right = cursor.number("the right edge of a block", 0..=u32::MAX)?.value;
        blocks.push(SackBlock { left, right });
        if 2 + 8 * blocks.len() > TCP_OPTIONS_MAX {
            let at = cursor.rest_start();
            return Err(Fault::new(at - 1..at, "an option has room for 4 blocks"));
        }
    }
    Ok(blocks)
}

fn timestamps(cursor: &mut Cursor<'_>, is_inbound: bool) -> Result<TcpOption, Fault> {
    if !cursor.accept_word("val") {
        return Err(cursor.unexpected("val"));
    }
    let at = cursor.at();
    let val = match cursor.accept("...") {
        true if is_inbound => return Err(open(at..at + 3)),
        true => None,
        false => Some(cursor.number("a time stamp", 0..=u32::MAX)?.value),
    };
    if !cursor.accept_word("ecr") {
        return Err(cursor.unexpected("ecr"));
    }
    let ecr = cursor.number("a time stamp", 0..=u32::MAX)?.value;
    Ok(TcpOption::Timestamps { val, ecr, ecr_absolute: cursor.accept("!") })
}

fn cookie(cursor: &mut Cursor<'_>) -> Result<Cookie, Fault> {
    let Some(word) = cursor.peek_word() else { return Ok(Cookie::Bytes(Vec::new())) };
    cursor.word("a cookie")?;
    match bytes(word) {
        Some(bytes) => Ok(Cookie::Bytes(bytes)),
        None if word.text.bytes().all(|byte| byte.is_ascii_hexdigit()) => Err(word
            .fault("half of the last byte is missing")
            .expected("an even number of hexadecimal digits")),
        None if word.text.starts_with(|c: char| c.is_ascii_digit()) => {
            Err(word.fault("this is no cookie").expected("hexadecimal digits, or a name of --define"))
        }
        None => Ok(Cookie::Name(word.text.to_owned())),
    }
}

fn md5(cursor: &mut Cursor<'_>) -> Result<Md5, Fault> {
    const EXPECTED: &str = "valid, invalid, or 32 hexadecimal digits";
    let word = cursor.word(EXPECTED)?;
    match (word.text, bytes(word).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok())) {
        ("valid", _) => Ok(Md5::Valid),
        ("invalid", _) => Ok(Md5::Invalid),
        (_, Some(digest)) => Ok(Md5::Digest(digest)),
        _ => Err(word.unknown("signature", ["valid", "invalid"]).expected(EXPECTED)),
    }
}

fn bytes(word: Word<'_>) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = word.text.chars().map(|c| u8::try_from(c.to_digit(16)?).ok()).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}

/// `e1b 1 ceb 0 e0b 1`: up to three, with those in the middle (RFC 9768 §3.2.3).
fn counters(cursor: &mut Cursor<'_>) -> Result<Vec<(EcnCounter, u32)>, Fault> {
    use EcnCounter::{Ceb, E0b, E1b};
    let mut counters = Vec::new();
    while let Some(word) = cursor.peek_word() {
        let Some(&(_, counter)) = EcnCounter::NAMES.iter().find(|(name, _)| *name == word.text) else {
            let fault = word.unknown("counter of bytes", EcnCounter::NAMES.map(|(name, _)| name));
            return Err(fault.expected("e0b, ceb or e1b"));
        };
        cursor.word("e0b, ceb or e1b")?;
        counters.push((counter, cursor.number("24 bits", 0..=0xff_ffff)?.value));
        let order: Vec<EcnCounter> = counters.iter().map(|(counter, _)| *counter).collect();
        if ![[E0b, Ceb, E1b], [E1b, Ceb, E0b]].iter().any(|known| known.starts_with(&order)) {
            let fault = word.fault(format!("`{}` cannot stand at this place", word.text));
            return Err(fault.expected("e0b, ceb, e1b, or e1b, ceb, e0b, as many as there are"));
        }
    }
    Ok(counters)
}
