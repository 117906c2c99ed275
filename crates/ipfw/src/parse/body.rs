//! Bodies of rules: `[proto from src to dst] option…`.

use core::ops::RangeInclusive;

use super::{address, keep, list, option};
use crate::error::Fault;
use crate::limit::{CLAUSES_MAX, OR_MAX};
use crate::names;
use crate::rule::{Clause, Match, Rule, Term};
use crate::words::{Tokens, Word};

/// Reads all up to the end or the comment, into `body`, `keep` and `no_offload` of the rule.
pub(crate) fn body(words: &mut Tokens<'_>, rule: &mut Rule) -> Result<(), Fault> {
    let mut proto = None;
    if begins_with_proto(words) {
        proto = addresses(words, &mut rule.body)?;
    }
    let mut state = keep::State::default();
    while let Some(word) = words.peek().filter(|word| !word.text.starts_with("//")) {
        if state.take(words, rule)? {
            continue;
        }
        if word.is("nooffload") {
            if core::mem::replace(&mut rule.no_offload, true) {
                return Err(word.fault("`nooffload` stands here twice"));
            }
            words.skip();
            continue;
        }
        if rule.body.len() == CLAUSES_MAX {
            return Err(word.fault(format!("a rule has at most {CLAUSES_MAX} matches")));
        }
        let clause = block(words, |words| option::option(words, proto))?;
        rule.body.push(clause);
    }
    state.finish(rule)
}

/// Whether a body begins with a protocol, so that `from` must follow.
fn begins_with_proto(words: &Tokens<'_>) -> bool {
    let rest = words.rest();
    let is_open = rest.first().is_some_and(|word| is_open(*word));
    let end = match is_open {
        true => rest.iter().position(|word| is_close(*word)).map_or(rest.len(), |at| at + 1),
        false => rest.iter().take_while(|word| word.is("not") || word.is("!")).count() + 1,
    };
    // whatever stands before `from` was meant to be a protocol
    if rest.get(end).is_some_and(|word| word.is("from")) {
        return true;
    }
    let inside = rest.get(usize::from(is_open)..).unwrap_or_default();
    let first = inside.iter().find(|word| !word.is("not") && !word.is("!"));
    first.is_some_and(|word| known_proto(word.text.trim_start_matches('!')).is_some())
}

/// `proto from src [ports] to dst [ports]`; returns the protocol if there is but one.
fn addresses(words: &mut Tokens<'_>, body: &mut Vec<Clause>) -> Result<Option<u8>, Fault> {
    let clause = block(words, |words| proto(words.take("a protocol")?))?;
    let only = match clause.any[..] {
        [Term { not: false, is: Match::Proto(proto) }] => Some(proto),
        _ => None,
    };
    body.push(clause);
    keyword(words, "from", "from SOURCE to DESTINATION")?;
    body.push(block(words, |words| Ok(Match::Src(address::addr(words.take(address::EXPECTED)?)?)))?);
    body.extend(ports(words, only, Match::SrcPort)?);
    keyword(words, "to", "ports, or `to DESTINATION`")?;
    body.push(block(words, |words| Ok(Match::Dst(address::addr(words.take(address::EXPECTED)?)?)))?);
    body.extend(ports(words, only, Match::DstPort)?);
    Ok(only)
}

fn keyword(words: &mut Tokens<'_>, keyword: &str, expected: &str) -> Result<(), Fault> {
    let word = words.take(expected)?;
    match word.text {
        text if text == keyword => Ok(()),
        text => Err(word.fault(format!("`{text}` stands where `{keyword}` should")).expected(expected)),
    }
}

/// Ports behind an address, if there are any; `any` stands for none.
fn ports(
    words: &mut Tokens<'_>,
    proto: Option<u8>,
    are: fn(Vec<RangeInclusive<u16>>) -> Match,
) -> Result<Option<Clause>, Fault> {
    let mut ahead = words.clone();
    let not = ahead.accept_not();
    let Some(word) = ahead.peek() else { return Ok(None) };
    if word.is("any") {
        ahead.skip();
        *words = ahead;
        return Ok(None);
    }
    if option::is_option(word.text) || !list::looks_like_ports(word) {
        return Ok(None);
    }
    ahead.skip();
    *words = ahead;
    Ok(Some(Clause { any: vec![Term { not, is: are(list::ports(word, proto)?) }] }))
}

/// One alternative, or several in braces.
fn block(
    words: &mut Tokens<'_>,
    mut one: impl FnMut(&mut Tokens<'_>) -> Result<Match, Fault>,
) -> Result<Clause, Fault> {
    let mut term = |words: &mut Tokens<'_>| {
        let not = words.accept_not();
        if let Some(word) = words.peek().filter(|word| is_close(*word)) {
            return Err(word.fault(format!("something is missing before `{}`", word.text)));
        }
        match words.peek().filter(|word| is_open(*word)) {
            Some(word) if not => Err(word
                .fault("a block cannot be negated as a whole")
                .help("none of them: `not a not b`, one match after the other, without braces")),
            Some(word) => Err(word.fault("a block cannot stand in another one")),
            None => Ok(Term { not, is: one(words)? }),
        }
    };
    let Some(open) = words.peek().filter(|word| is_open(*word)) else {
        return Ok(Clause { any: vec![term(words)?] });
    };
    words.skip();
    let mut any = vec![term(words)?];
    loop {
        let Some(word) = words.peek() else {
            return Err(open.fault("the brace is not closed").expected("`or` and another one, or `}`"));
        };
        words.skip();
        match word.text {
            "or" | "|" if any.len() == OR_MAX => {
                let fault = word.fault(format!("a block has at most {OR_MAX} alternatives"));
                return Err(fault.help("use a table"));
            }
            "or" | "|" => any.push(term(words)?),
            "}" | ")" => return Ok(Clause { any }),
            text => {
                let fault = word.fault(format!("`{text}` stands where `or` or `}}` should"));
                return Err(fault.help("inside braces `or` stands between any two matches"));
            }
        }
    }
}

fn is_open(word: Word<'_>) -> bool {
    word.is("{") || word.is("(")
}

fn is_close(word: Word<'_>) -> bool {
    word.is("}") || word.is(")")
}

/// A protocol. As in FreeBSD `ip6` and `ipv6` mean packets of IPv6, not those that carry one (protocol 41).
pub(crate) fn proto(word: Word<'_>) -> Result<Match, Fault> {
    if let Some(known) = known_proto(word.text) {
        return Ok(known);
    }
    if word.text.starts_with(|c: char| c.is_ascii_digit()) {
        return word.number("the number of a protocol", 1..=u8::MAX).map(Match::Proto);
    }
    const ALSO: [&str; 4] = ["ip", "all", "ip4", "ip6"];
    let fault = word.unknown("protocol", names::words(names::PROTOCOLS).chain(ALSO));
    Err(fault.expected("ip, ip4, ip6, tcp, udp, icmp, ipv6-icmp, another name, or a number"))
}

fn known_proto(text: &str) -> Option<Match> {
    Some(match text {
        "ip" | "all" => Match::Any,
        "ip4" | "ipv4" => Match::Version(4),
        "ip6" | "ipv6" => Match::Version(6),
        _ => Match::Proto(names::value(names::PROTOCOLS, text).or_else(|| number(text))?),
    })
}

fn number(text: &str) -> Option<u8> {
    text.parse().ok().filter(|&number: &u8| number != 0 && text.starts_with(|c: char| c.is_ascii_digit()))
}
