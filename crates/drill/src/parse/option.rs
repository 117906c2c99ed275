//! `--name=value`.

use crate::cursor::Cursor;
use crate::error::{Fault, nearest};
use crate::limit::OPTIONS_MAX;
use crate::script::{Definition, IpVersion, Setting, SettingValue};

/// The kind of an option's value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Is {
    /// There is none.
    Flag,
    /// A number up to this.
    Number(u32),
    /// A number with a point.
    Decimal,
    Version,
    Word,
    Define,
}

/// The options of packetdrill and of its nplab fork.
const KNOWN: &[(&str, Is)] = &[
    ("bind_port", Is::Number(65535)),
    ("code_command", Is::Word),
    ("code_format", Is::Word),
    ("code_sockopt", Is::Word),
    ("connect_port", Is::Number(65535)),
    ("debug", Is::Flag),
    ("define", Is::Define),
    ("dry_run", Is::Flag),
    ("gateway_ip", Is::Word),
    ("init_scripts", Is::Word),
    ("ip_version", Is::Version),
    ("is_anyip", Is::Flag),
    ("local_ip", Is::Word),
    ("mss", Is::Number(65535)),
    ("mtu", Is::Number(65535)),
    ("netmask_ip", Is::Word),
    ("non_fatal", Is::Word),
    ("persistent_tun_dev", Is::Flag),
    ("remote_ip", Is::Word),
    ("send_omit_free", Is::Flag),
    ("so_filename", Is::Word),
    ("so_flags", Is::Word),
    ("speed", Is::Number(u32::MAX)),
    ("strict_segments", Is::Flag),
    ("tcp_md5_secret", Is::Word),
    ("tcp_ts_ecr_scaled", Is::Flag),
    ("tcp_ts_tick_usecs", Is::Number(1_000_000)),
    ("tolerance_percent", Is::Decimal),
    ("tolerance_usecs", Is::Number(u32::MAX)),
    ("tun_dev", Is::Word),
    ("udp_encaps", Is::Word),
    ("verbose", Is::Flag),
    ("wire_client", Is::Flag),
    ("wire_client_dev", Is::Word),
    ("wire_server", Is::Flag),
    ("wire_server_at", Is::Word),
    ("wire_server_dev", Is::Word),
    ("wire_server_ip", Is::Word),
    ("wire_server_port", Is::Number(65535)),
];

pub(super) fn options(cursor: &mut Cursor<'_>) -> Result<Vec<Setting>, Fault> {
    let mut options = Vec::new();
    while cursor.next_is("--") {
        if options.len() == OPTIONS_MAX {
            let at = cursor.at();
            return Err(Fault::new(at..at + 2, format!("a script has at most {OPTIONS_MAX} options")));
        }
        options.push(option(cursor)?);
    }
    Ok(options)
}

fn option(cursor: &mut Cursor<'_>) -> Result<Setting, Fault> {
    let pos = cursor.pos();
    cursor.expect("--")?;
    let word = cursor.word("the name of an option")?;
    let Some(&(name, is)) = KNOWN.iter().find(|(name, _)| *name == word.text) else {
        return Err(word.unknown("option", KNOWN.iter().map(|(name, _)| *name)));
    };
    let value = match cursor.rest().starts_with('=') {
        true => {
            cursor.advance(1);
            Some(value(cursor, name, is)?)
        }
        false => None,
    };
    match (is, &value) {
        (Is::Flag, Some(_)) => Err(word.fault(format!("`--{name}` has no value"))),
        (Is::Flag, None) | (_, Some(_)) => Ok(Setting { pos, name, value }),
        (_, None) => Err(word.fault(format!("`--{name}` needs a value")).expected(format!("--{name}=…"))),
    }
}

fn value(cursor: &mut Cursor<'_>, name: &str, is: Is) -> Result<SettingValue, Fault> {
    if is == Is::Define {
        let word = cursor.word("NAME=value")?;
        cursor.expect("=")?;
        let value = match cursor.rest().chars().next() {
            Some(quote @ ('"' | '`')) => {
                let text = quoted(cursor, quote);
                if quote == '"' { Definition::Text(text) } else { Definition::Command(text) }
            }
            _ => Definition::Word(raw(cursor)?),
        };
        cursor.define(word.text.to_owned());
        return Ok(SettingValue::Define { name: word.text.to_owned(), value });
    }
    if cursor.rest().starts_with('"') {
        return Ok(SettingValue::Text(quoted(cursor, '"')));
    }
    let at = cursor.rest_start();
    let text = raw(cursor)?;
    let fault = |message: String| Fault::new(at..at + text.len(), message);
    let number =
        || text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u32>().ok()).flatten();
    match is {
        Is::Number(max) if number().is_none_or(|number| number > max) => {
            return Err(fault(format!("`{text}` cannot be {name}")).expected(format!("a number, 0 to {max}")));
        }
        Is::Decimal if !is_decimal(&text) => {
            return Err(fault(format!("`{text}` cannot be {name}")).expected("a number such as 12.5"));
        }
        Is::Version if !IpVersion::NAMES.iter().any(|(known, _)| *known == text) => {
            let known = IpVersion::NAMES.map(|(known, _)| known);
            let fault =
                fault(format!("`{text}` is no version of IP")).expected("ipv4, ipv4-mapped-ipv6 or ipv6");
            return Err(match nearest(&text, known) {
                Some(near) => fault.help(format!("did you mean `{near}`?")),
                None => fault,
            });
        }
        _ => {}
    }
    Ok(SettingValue::Word(text))
}

fn is_decimal(text: &str) -> bool {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits(whole) && is_digits(part)
}

/// Parses a quoted text, whose end is known to exist.
fn quoted(cursor: &mut Cursor<'_>, quote: char) -> String {
    cursor.advance(1);
    let len = super::quoted_len(cursor.rest(), quote);
    let text = cursor.rest().get(..len).unwrap_or_default().to_owned();
    cursor.advance((len + 1).min(cursor.rest().len()));
    text
}

/// Parses up to the next blank.
fn raw(cursor: &mut Cursor<'_>) -> Result<String, Fault> {
    let rest = cursor.rest();
    let len = rest
        .find(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '`'))
        .unwrap_or(rest.len());
    let text = rest.get(..len).filter(|text| !text.is_empty()).map(str::to_owned);
    let text = text.ok_or_else(|| cursor.unexpected("the option's value"))?;
    cursor.advance(len);
    Ok(text)
}
