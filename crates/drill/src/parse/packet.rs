//! Packets.

use super::{icmp, tcp};
use crate::cursor::Cursor;
use crate::error::Fault;
use crate::packet::{Direction, Ecn, Icmp, Ip, Packet, Payload, Ports};
use crate::refused::{self, Place};
use crate::script::At;

pub(super) fn packet(cursor: &mut Cursor<'_>) -> Result<Packet, Fault> {
    let pos = cursor.pos();
    let direction = if cursor.accept("<") { Direction::Inbound } else { Direction::Outbound };
    if direction == Direction::Outbound {
        cursor.expect(">")?;
    }
    if let Some(word) = cursor.peek_word() {
        refused::check(Place::Packet, word)?;
    }
    // Older scripts write what an ICMP message quotes before its name.
    let quote = icmp::begins_quote(cursor).then(|| icmp::quote(cursor)).transpose()?;
    if let Some(quote) = quote {
        if !cursor.accept_word("icmp") {
            return Err(cursor.unexpected("icmp, whose message quotes this"));
        }
        let icmp = icmp::icmp(cursor)?;
        return match icmp.quote {
            None => {
                let payload = Payload::Icmp(Icmp { quote: Some(quote), ..icmp });
                Ok(Packet { pos, direction, ip: Ip::default(), ports: None, payload })
            }
            Some(_) => {
                let at = cursor.rest_start();
                Err(Fault::new(at..at, "a message quotes one packet, and another stands before it"))
            }
        };
    }
    let ip = ip(cursor, direction)?;
    let mut ports = ports(cursor)?;
    if let Some(word) = cursor.peek_word() {
        refused::check(Place::Packet, word)?;
    }
    let payload = if cursor.accept_word("udp") {
        ports = match (ports, self::ports(cursor)?) {
            (Some(_), Some(twice)) => {
                let at = cursor.rest_start();
                return Err(Fault::new(
                    at..at,
                    format!("the ports {} > {} are a second pair", twice.src, twice.dst),
                ));
            }
            (before, behind) => before.or(behind),
        };
        Payload::Udp(in_parentheses(cursor, "bytes of data")?)
    } else if cursor.accept_word("icmp") {
        Payload::Icmp(icmp::icmp(cursor)?)
    } else {
        Payload::Tcp(tcp::tcp(cursor, direction)?)
    };
    Ok(Packet { pos, direction, ip, ports, payload })
}

pub(super) fn in_parentheses(cursor: &mut Cursor<'_>, what: &str) -> Result<At<u16>, Fault> {
    cursor.expect("(")?;
    let number = cursor.number(what, 0..=u16::MAX)?;
    cursor.expect(")")?;
    Ok(number)
}

/// `8080 > 1234`, if a number is next.
fn ports(cursor: &mut Cursor<'_>) -> Result<Option<At<Ports>>, Fault> {
    if !cursor.peek().is_some_and(|c| c.is_ascii_digit()) {
        return Ok(None);
    }
    let src = cursor.number("a port", 0..=u16::MAX)?;
    cursor.expect(">")?;
    let dst = cursor.number("a port", 0..=u16::MAX)?;
    Ok(Some(At::new(src.pos, Ports { src: src.value, dst: dst.value })))
}

const FIELDS_EXPECTED: &str = "a field of the IP header: noecn, ect0, ect1, ce, ect01, ecn, dscp, tos, ttl, hlim or \
                               flowlabel";

/// `[ect0]`, `(ttl 4)`, or nothing.
fn ip(cursor: &mut Cursor<'_>, direction: Direction) -> Result<Ip, Fault> {
    let mut ip = Ip::default();
    let close = match cursor.peek() {
        Some('(') => ")",
        Some('[') => "]",
        _ => return Ok(ip),
    };
    cursor.advance(1);
    loop {
        field(cursor, &mut ip, direction)?;
        if !cursor.accept(",") {
            break;
        }
    }
    match cursor.accept(close) {
        true => Ok(ip),
        false => Err(cursor.unexpected(&format!("`,` or `{close}`"))),
    }
}

fn field(cursor: &mut Cursor<'_>, ip: &mut Ip, direction: Direction) -> Result<(), Fault> {
    let word = cursor.word(FIELDS_EXPECTED)?;
    let pos = word.pos;
    let ecn = |text: &str| Ecn::NAMES.iter().find(|(name, _)| *name == text).map(|(_, ecn)| *ecn);
    let twice = match word.text {
        "tos" | "class" => {
            let tos = cursor.number("8 bits", 0..=u8::MAX)?;
            let ecn = Ecn::NAMES.iter().find(|(_, ecn)| ecn.bits() == Some(tos.value & 3));
            let before = ip.dscp.replace(At::new(pos, tos.value >> 2)).is_some();
            let ecn = ecn.map(|(_, ecn)| At::new(pos, *ecn));
            core::mem::replace(&mut ip.ecn, ecn).is_some() || before
        }
        "dscp" => {
            let dscp = dscp(cursor)?;
            ip.dscp.replace(dscp).is_some()
        }
        "ttl" | "hlim" => {
            let ttl = cursor.number("a number of hops", 0..=u8::MAX)?;
            ip.ttl.replace(ttl).is_some()
        }
        "flowlabel" => {
            let label = cursor.number("20 bits", 0..=0xf_ffff)?;
            ip.flow_label.replace(label).is_some()
        }
        text => {
            let word = if text == "ecn" { cursor.word("noecn, ect0, ect1, ce or ect01")? } else { word };
            let Some(ecn) = ecn(word.text) else {
                let known =
                    ["noecn", "ect0", "ect1", "ce", "ect01", "dscp", "tos", "ttl", "hlim", "flowlabel"];
                return Err(word.unknown("field of the IP header", known).expected(FIELDS_EXPECTED));
            };
            if ecn == Ecn::Ect01 && direction == Direction::Inbound {
                return Err(word.fault("only a packet that the stack sends can have one of several values"));
            }
            ip.ecn.replace(At::new(word.pos, ecn)).is_some()
        }
    };
    match twice {
        true => Err(word.fault(format!("`{}` says again what is said already", word.text))),
        false => Ok(()),
    }
}

/// Codepoints with their names (RFC 2474, RFC 2597, RFC 3246, RFC 5865, RFC 8622).
const DSCP: &[(&str, u8)] = &[
    ("cs0", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("voice_admit", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

fn dscp(cursor: &mut Cursor<'_>) -> Result<At<u8>, Fault> {
    if cursor.peek().is_some_and(|c| c.is_ascii_digit()) {
        return cursor.number("6 bits", 0..=63);
    }
    let word = cursor.word("a codepoint: 0x2e, or a name such as ef")?;
    let name = word.text.to_ascii_lowercase();
    match DSCP.iter().find(|(known, _)| *known == name) {
        Some((_, dscp)) => Ok(At::new(word.pos, *dscp)),
        None => Err(word.unknown("codepoint", DSCP.iter().map(|(name, _)| *name))),
    }
}
