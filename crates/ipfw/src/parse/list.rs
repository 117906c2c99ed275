//! Lists with commas: ports, numbers, flags.

use core::ops::RangeInclusive;

use crate::error::Fault;
use crate::limit::LIST_MAX;
use crate::names::{self, Names};
use crate::rule::Bits;
use crate::words::{Tokens, Word};

/// A list of numbers and ranges, each read by `item`.
pub(crate) fn ranges<T: Copy + PartialOrd + core::fmt::Display>(
    word: Word<'_>,
    mut item: impl FnMut(Word<'_>) -> Result<T, Fault>,
) -> Result<Vec<RangeInclusive<T>>, Fault> {
    items(word)?.map(|part| range(part, &mut item)).collect()
}

/// The parts of a list, if there are not too many.
pub(crate) fn items(word: Word<'_>) -> Result<impl Iterator<Item = Word<'_>>, Fault> {
    if let Some(extra) = word.split(',').nth(LIST_MAX) {
        let help = "write two rules, or an or-block, or look it up in a table";
        return Err(extra.fault(format!("a list has at most {LIST_MAX} items")).help(help));
    }
    match word.split(',').find(|part| part.text.is_empty()) {
        Some(empty) => {
            Err(empty.fault("an item of the list is missing").help("a comma stands between two items"))
        }
        None => Ok(word.split(',')),
    }
}

fn range<T: Copy + PartialOrd + core::fmt::Display>(
    word: Word<'_>,
    item: &mut impl FnMut(Word<'_>) -> Result<T, Fault>,
) -> Result<RangeInclusive<T>, Fault> {
    // a dash can be part of a name: `ftp-data`; in FreeBSD it then needs a backslash, which is understood too
    let whole = item(word);
    let (Err(_), Some(first)) = (&whole, dashes(word.text).next()) else { return whole.map(|one| one..=one) };
    let mut parts = |dash: usize| (item(word.part(0..dash)), item(word.part(dash + 1..word.text.len())));
    let (from, to) =
        match dashes(word.text).map(&mut parts).find_map(|(from, to)| Some((from.ok()?, to.ok()?))) {
            Some(range) => range,
            None => (item(word.part(0..first))?, item(word.part(first + 1..word.text.len()))?),
        };
    if from > to {
        return Err(word.fault("the range runs backward").help(format!("write {to}-{from}")));
    }
    Ok(from..=to)
}

/// Where a range can be divided.
fn dashes(text: &str) -> impl Iterator<Item = usize> {
    text.match_indices('-').map(|(at, _)| at).filter(|&at| at > 0 && !text[..at].ends_with('\\'))
}

/// A port by number or name.
pub(crate) fn port(word: Word<'_>, proto: Option<u8>) -> Result<u16, Fault> {
    if word.text.starts_with(|c: char| c.is_ascii_digit()) || word.text.is_empty() {
        return word.number("a port", 0..=u16::MAX);
    }
    let name = word.text.replace('\\', "");
    names::port(&name, proto).ok_or_else(|| match names::port(&name, None) {
        Some(port) => {
            let fault = word.fault(format!("`{name}` is no port of this protocol"));
            fault.help(format!("if you mean port {port}, write the number"))
        }
        None => word
            .unknown("port", names::SERVICES.iter().map(|&(name, ..)| name))
            .expected("a port's number or name"),
    })
}

pub(crate) fn ports(word: Word<'_>, proto: Option<u8>) -> Result<Vec<RangeInclusive<u16>>, Fault> {
    ranges(word, |part| port(part, proto))
}

/// Whether a word can only be meant for a list of ports: it begins with a digit or a known name.
pub(crate) fn looks_like_ports(word: Word<'_>) -> bool {
    if word.text.starts_with("//") {
        return false;
    }
    let text = word.text.replace('\\', "");
    let first = text.split(',').next().unwrap_or_default();
    let is_port = |name: &str| names::port(name, None).is_some();
    first.starts_with(|c: char| c.is_ascii_digit())
        || is_port(first)
        || text.contains(',')
        || dashes(first).any(|dash| is_port(&first[..dash]))
}

/// Takes a list of numbers up to `max`.
pub(crate) fn numbers(
    words: &mut Tokens<'_>,
    what: &str,
    max: u16,
) -> Result<Vec<RangeInclusive<u16>>, Fault> {
    ranges(words.take(what)?, |part| part.number(what, 0..=max))
}

/// Takes a list of names, each perhaps with `!` in front: these bits must be set, those clear.
pub(crate) fn bits(words: &mut Tokens<'_>, what: &str, names: &Names<u8>) -> Result<Bits<u8>, Fault> {
    let list: Vec<&str> = names::words(names).collect();
    let expected = format!(
        "one or more of {}, with commas between them, and `!` before what is absent",
        list.join(", ")
    );
    let mut bits = Bits::default();
    for part in items(words.take(&expected)?)? {
        let (not, name) = match part.strip_prefix("!") {
            Some(name) => (true, name),
            None => (false, part),
        };
        let Some(bit) = names::value(names, name.text) else {
            return Err(name.unknown(what, names::words(names)).expected(expected));
        };
        let (wanted, other) = if not { (&mut bits.clear, bits.set) } else { (&mut bits.set, bits.clear) };
        if other & bit != 0 {
            return Err(part.fault(format!("`{}` cannot be both present and absent", name.text)));
        }
        *wanted |= bit;
    }
    Ok(bits)
}
