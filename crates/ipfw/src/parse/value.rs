//! Values that stand in many places: names, addresses, numbers, and what a table says in their place.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::error::Fault;
use crate::limit::{FIB_MAX, IF_NAME_MAX, NAME_MAX};
use crate::rule::{Arg, Number, RULE_LAST, SETS, TableArg, TableRef};
use crate::words::{Tokens, Word};

/// `tablearg`, or what `value` reads.
pub(crate) fn arg<T>(
    word: Word<'_>,
    value: impl FnOnce(Word<'_>) -> Result<T, Fault>,
) -> Result<Arg<T>, Fault> {
    match word.is("tablearg") {
        true => Ok(Arg::Table),
        false => value(word).map(Arg::Value).map_err(|fault| fault.or_expected("tablearg")),
    }
}

/// The number of a rule that can be written, deleted or gone to.
pub(crate) fn rule_number(word: Word<'_>) -> Result<Number, Fault> {
    word.number("the number of a rule", 1..=RULE_LAST - 1)
}

/// The number of a routing table.
pub(crate) fn fib(word: Word<'_>) -> Result<u8, Fault> {
    word.number("the number of a routing table", 0..=FIB_MAX)
}

pub(crate) fn set_number(word: Word<'_>) -> Result<u8, Fault> {
    word.number("the number of a set", 0..=SETS - 1)
}

/// The number of a pipe, a queue or an instance of NAT.
pub(crate) fn instance(word: Word<'_>, of: &str) -> Result<u16, Fault> {
    word.number(&format!("the number of {of}"), 1..=u16::MAX)
}

/// Parses a name chosen by the user.
pub(crate) fn name(word: Word<'_>, of: &str, max: usize) -> Result<String, Fault> {
    let odd = |c: char| !c.is_ascii_graphic() || ",(){}[]\"'`!#".contains(c);
    if word.text.is_empty() {
        return Err(word.fault(format!("the name of {of} is empty")));
    }
    if word.text.len() > max {
        return Err(
            word.fault(format!("the name of {of} has at most {max} bytes, this one {}", word.text.len()))
        );
    }
    match word.text.char_indices().find(|&(_, c)| odd(c)) {
        Some((at, c)) => Err(word
            .part(at..at + c.len_utf8())
            .fault(format!("`{c}` can be no part of the name of {of}"))
            .expected("letters, digits, and . - _ : / and the like")),
        None => Ok(word.text.to_owned()),
    }
}

/// Decimal digits of a share that are read.
const DIGITS: usize = 12;
/// 2³², for the whole.
const WHOLE: u64 = 1 << 32;

/// A share from 0 to 1, of 2³²; `None` for the whole.
pub(crate) fn share(word: Word<'_>, what: &str) -> Result<Option<u32>, Fault> {
    let expected = format!("{what}, a number from 0 to 1 such as 0.25");
    let (whole, part) = word.text.split_once('.').unwrap_or((word.text, "0"));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || (whole.is_empty() && part.is_empty()) {
        return Err(word.fault(format!("`{}` is not a share", word.text)).expected(expected));
    }
    let part = &part[..part.len().min(DIGITS)];
    let scale = 10_u64.pow(u32::try_from(part.len()).unwrap_or(0));
    let fraction: u64 = if part.is_empty() { 0 } else { part.parse().unwrap_or(0) };
    match whole.trim_start_matches('0') {
        "" => {
            let share =
                (u128::from(fraction) * u128::from(WHOLE) + u128::from(scale / 2)) / u128::from(scale);
            Ok(u32::try_from(share).ok())
        }
        "1" if fraction == 0 => Ok(None),
        _ => Err(word.fault(format!("`{}` is more than all", word.text)).expected(expected)),
    }
}

pub(crate) fn ip4(word: Word<'_>) -> Result<Ipv4Addr, Fault> {
    word.text.parse().map_err(|_| {
        let fault = match word.text.parse::<Ipv6Addr>() {
            Ok(_) => word.fault(format!("`{}` is an address of IPv6", word.text)),
            Err(_) => no_address(word),
        };
        fault.expected("an IPv4 address such as 192.0.2.1")
    })
}

pub(crate) fn ip6(word: Word<'_>) -> Result<Ipv6Addr, Fault> {
    word.text.parse().map_err(|_| {
        let fault = match word.text.parse::<Ipv4Addr>() {
            Ok(_) => word.fault(format!("`{}` is an address of IPv4", word.text)),
            Err(_) => no_address(word),
        };
        fault.expected("an IPv6 address such as 2001:db8::1")
    })
}

pub(crate) fn ip(word: Word<'_>) -> Result<IpAddr, Fault> {
    word.text.parse().map_err(|_| no_address(word).expected("an address such as 192.0.2.1 or 2001:db8::1"))
}

/// Explains why a word is not an address.
pub(crate) fn no_address(word: Word<'_>) -> Fault {
    let text = word.text;
    let fault = word.unknown("address", ["any", "me", "me6"]);
    if text.contains('/') {
        return fault.help("one address is meant here, without the length of a prefix");
    }
    if let Some(octets) = octets(text) {
        return match octets {
            ..4 => fault.help("an IPv4 address has four numbers"),
            4 => fault.help("each of the four numbers is 0 to 255, without leading zeros"),
            _ => fault.help("an IPv4 address has four numbers, and no more"),
        };
    }
    if text.contains('%') {
        return fault.help("leave the scope out, and name the interface with `recv` or `xmit`");
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    if text.contains('.') && text.chars().all(is_name) {
        return fault.help("names of hosts are not looked up; write the address, or use a table");
    }
    fault
}

/// Counts the numbers of a dotted text.
fn octets(text: &str) -> Option<usize> {
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    (!text.is_empty() && text.split('.').all(is_number)).then(|| text.split('.').count())
}

/// The length of a prefix.
pub(crate) fn prefix_len(word: Word<'_>, max: u8) -> Result<u8, Fault> {
    word.number("the length of a prefix", 0..=max)
}

/// `table(NAME)`, `table(NAME,VALUE)`, or the bare name where nothing else can stand.
pub(crate) fn table_ref(word: Word<'_>, may_be_bare: bool) -> Result<TableRef, Fault> {
    let inner = match word.strip_prefix("table(") {
        Some(rest) => rest.strip_suffix(")").ok_or_else(|| {
            word.fault("the parenthesis is not closed").expected("table(NAME) or table(NAME,VALUE)")
        })?,
        None if may_be_bare => word,
        None => {
            let fault = word.fault(format!("`{}` is no table", word.text));
            return Err(fault.expected("table(NAME) or table(NAME,VALUE)"));
        }
    };
    let (table, value) = match inner.split_once(',') {
        Some((table, value)) => (table, Some(table_arg(value)?)),
        None => (inner, None),
    };
    Ok(TableRef { name: name(table, "a table", NAME_MAX)?, value })
}

/// The value of a table's entry.
pub(crate) fn table_arg(word: Word<'_>) -> Result<TableArg, Fault> {
    if word.text.contains(['.', ':']) {
        return ip(word).map(TableArg::Addr);
    }
    word.number("a number or an address", 0..=u32::MAX).map(TableArg::Number)
}

/// An interface's name.
pub(crate) fn interface(word: Word<'_>) -> Result<String, Fault> {
    name(word, "an interface", IF_NAME_MAX)
}

/// An address, and perhaps a port: `192.0.2.1,80`, `192.0.2.1:80`, `2001:db8::1,80`, `[2001:db8::1]:80`.
pub(crate) fn ip_port(word: Word<'_>) -> Result<(IpAddr, Option<u16>), Fault> {
    let (addr, port) = split_port(word);
    let port = port.map(|port| super::list::port(port, None)).transpose()?;
    Ok((ip(addr)?, port))
}

/// The part before the port, and the port.
pub(crate) fn split_port(word: Word<'_>) -> (Word<'_>, Option<Word<'_>>) {
    if let Some((addr, port)) = word.split_once(',') {
        return (addr, Some(port));
    }
    if let Some((addr, port)) = word.strip_prefix("[").and_then(|rest| rest.split_once(']')) {
        return (addr, port.strip_prefix(":"));
    }
    match word.split_once(':') {
        Some((addr, port)) if !port.text.contains(':') => (addr, Some(port)),
        _ => (word, None),
    }
}

/// Takes a word and then its number: `weight 5`.
pub(crate) fn number_of<T>(
    words: &mut Tokens<'_>,
    what: &str,
    range: core::ops::RangeInclusive<T>,
) -> Result<T, Fault>
where
    T: Copy + PartialOrd + TryFrom<u64> + core::fmt::Display,
{
    words.take(what)?.number(what, range)
}
