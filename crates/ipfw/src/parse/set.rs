//! `set`, and commands that name rules by their numbers.

use core::ops::RangeInclusive;

use super::value::{rule_number, set_number};
use crate::command::{Command, SetCommand};
use crate::error::Fault;
use crate::limit::NUMBERS_MAX;
use crate::rule::{Number, RULE_LAST};
use crate::words::{Tokens, Word};

const EXPECTED: &str = "disable, enable, move, swap or show; or a set's number, and list, show, delete, flush, zero \
                        or resetlog";

pub(crate) fn set(words: &mut Tokens<'_>) -> Result<Command, Fault> {
    const KNOWN: [&str; 6] = ["disable", "enable", "move", "swap", "show", "list"];
    let word = words.take(EXPECTED)?;
    Ok(match word.full(&KNOWN) {
        first @ ("disable" | "enable") => Command::Set(switch(words, first == "enable")?),
        "move" => Command::Set(move_to(words)?),
        "swap" => {
            let (a, b) = (words.take("a set, 0 to 30")?, words.take("another set, 0 to 30")?);
            Command::Set(SetCommand::Swap(movable(a)?, movable(b)?))
        }
        "show" | "list" => Command::Set(SetCommand::Show),
        text if text.starts_with(|c: char| c.is_ascii_digit()) => of_set(words, set_number(word)?)?,
        _ => {
            return Err(word.unknown("command for sets", KNOWN).expected(EXPECTED));
        }
    })
}

/// `set N list` and the like.
fn of_set(words: &mut Tokens<'_>, set: u8) -> Result<Command, Fault> {
    const EXPECTED: &str = "list, show, delete, flush, zero or resetlog";
    const KNOWN: [&str; 6] = ["list", "show", "delete", "flush", "zero", "resetlog"];
    let word = words.take(EXPECTED)?;
    let set = Some(set);
    Ok(match word.full(&KNOWN) {
        "list" => list(words, set, false)?,
        "show" => list(words, set, true)?,
        "delete" => delete(words, set)?,
        "flush" => Command::Flush { set },
        "zero" => Command::Zero { set, numbers: numbers(words)? },
        "resetlog" => Command::ResetLog { set, numbers: numbers(words)? },
        _ => {
            return Err(word.unknown("command for one set", KNOWN).expected(EXPECTED));
        }
    })
}

pub(crate) fn list(words: &mut Tokens<'_>, set: Option<u8>, counters: bool) -> Result<Command, Fault> {
    Ok(Command::List { counters, set, numbers: numbers(words)? })
}

pub(crate) fn delete(words: &mut Tokens<'_>, outer: Option<u8>) -> Result<Command, Fault> {
    const EXPECTED: &str = "numbers of rules, or `set N`";
    let inner = match words.accept("set") {
        true => Some(set_number(words.take("a set, 0 to 31")?)?),
        false => None,
    };
    let set = inner.or(outer);
    let first = words.peek();
    if let Some(word) = first.filter(|word| word.is("all")) {
        return Err(word.fault("`all` is no number").expected(EXPECTED).help("`flush` deletes all rules"));
    }
    let numbers = numbers(words)?;
    if set.is_none() && numbers.is_empty() {
        return Err(words.too_short(EXPECTED));
    }
    if let Some(word) = first.filter(|_| numbers.iter().any(|range| *range.end() == RULE_LAST)) {
        let fault = word.fault(format!("the last rule, {RULE_LAST}, cannot be deleted"));
        return Err(fault.help("put a rule before it"));
    }
    Ok(Command::Delete { set, numbers })
}

/// All words that are left, as numbers and ranges of them; commas do as well as blanks.
pub(crate) fn numbers(words: &mut Tokens<'_>) -> Result<Vec<RangeInclusive<Number>>, Fault> {
    let mut numbers = Vec::new();
    while let Some(word) = words.peek() {
        words.skip();
        for part in word.split(',') {
            if numbers.len() == NUMBERS_MAX {
                return Err(part.fault(format!("a command names at most {NUMBERS_MAX} rules or ranges")));
            }
            numbers.push(range(part)?);
        }
    }
    Ok(numbers)
}

fn range(word: Word<'_>) -> Result<RangeInclusive<Number>, Fault> {
    let (from, to) = word.split_once('-').unwrap_or((word, word));
    let number = |word: Word<'_>| word.number("the number of a rule", 1..=RULE_LAST);
    let (from, to) = (number(from)?, number(to)?);
    if from > to {
        return Err(word.fault("the range runs backward").help(format!("write {to}-{from}")));
    }
    Ok(from..=to)
}

/// `disable N… enable N…`, in any order.
fn switch(words: &mut Tokens<'_>, mut on: bool) -> Result<SetCommand, Fault> {
    let (mut disable, mut enable) = (0_u32, 0_u32);
    let mut is_empty = true;
    while let Some(word) = words.peek() {
        words.skip();
        if word.is("disable") || word.is("enable") {
            on = word.is("enable");
            continue;
        }
        let set = set_number(word)?;
        if set == 31 && !on {
            return Err(word.fault("set 31 holds the last rule, and cannot be disabled"));
        }
        let (wanted, other) = if on { (&mut enable, disable) } else { (&mut disable, enable) };
        if other & (1 << set) != 0 {
            return Err(word.fault(format!("set {set} cannot be both enabled and disabled")));
        }
        *wanted |= 1 << set;
        is_empty = false;
    }
    match is_empty {
        true => Err(words.too_short("numbers of sets, 0 to 31")),
        false => Ok(SetCommand::Switch { disable, enable }),
    }
}

/// `move [rule] A to B`.
fn move_to(words: &mut Tokens<'_>) -> Result<SetCommand, Fault> {
    let is_rule = words.accept("rule");
    let from = words.take("`rule NUMBER`, or a set")?;
    let to = words.take("to SET")?;
    if !to.is("to") {
        return Err(to.fault(format!("`{}` stands where `to` should", to.text)).expected("move A to B"));
    }
    let set = words.take("a set")?;
    Ok(match is_rule {
        true => SetCommand::MoveRule { number: rule_number(from)?, to: set_number(set)? },
        false => SetCommand::Move { from: movable(from)?, to: movable(set)? },
    })
}

fn movable(word: Word<'_>) -> Result<u8, Fault> {
    word.number("a set (31 stays where it is)", 0..=30)
}
