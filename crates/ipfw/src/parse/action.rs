//! Actions of rules.

use super::{refuse, value};
use crate::error::Fault;
use crate::limit::NAME_MAX;
use crate::names::{self, Names};
use crate::refused::Place;
use crate::rule::{Action, Flow, NatTarget, Unreach};
use crate::words::{Tokens, Word};

const ACTIONS: &[&str] = &[
    "allow",
    "accept",
    "pass",
    "permit",
    "deny",
    "drop",
    "reject",
    "unreach",
    "unreach6",
    "reset",
    "reset6",
    "count",
    "check-state",
    "skipto",
    "call",
    "return",
    "fwd",
    "forward",
    "rdr",
    "nat",
    "nptv6",
    "nat64lsn",
    "reass",
    "defrag",
    "tcp-setmss",
    "setdscp",
    "setfib",
    "pipe",
    "queue",
];

pub(crate) const EXPECTED: &str = "an action: allow, deny, reject, unreach, unreach6, reset, count, check-state, \
    skipto, call, return, fwd, rdr, nat, nptv6, nat64lsn, reass, tcp-setmss, setdscp, setfib, pipe or queue";

pub(crate) fn action(words: &mut Tokens<'_>) -> Result<Action, Fault> {
    // a comment alone is a rule that counts, as in FreeBSD
    if words.peek().is_some_and(|word| word.text.starts_with("//")) {
        return Ok(Action::Count);
    }
    let word = words.take(EXPECTED)?;
    Ok(match word.text {
        "allow" | "accept" | "pass" | "permit" => Action::Allow,
        "deny" | "drop" => Action::Deny,
        "reject" => Action::Unreach(Unreach::Host),
        "unreach" => Action::Unreach(unreach(words)?),
        "unreach6" => {
            let code = words.take("a code of ICMPv6, such as admin-prohib")?;
            Action::Unreach(Unreach::Code6(named(
                code,
                "a code of ICMPv6's unreachable",
                names::UNREACH6,
                u8::MAX,
            )?))
        }
        "reset" | "reset6" => Action::Reset,
        "count" => Action::Count,
        "check-state" => Action::CheckState(flow(words, true)?),
        "skipto" => {
            Action::SkipTo(value::arg(words.take("the number of a rule, or tablearg")?, value::rule_number)?)
        }
        "call" => {
            Action::Call(value::arg(words.take("the number of a rule, or tablearg")?, value::rule_number)?)
        }
        "return" => Action::Return,
        "fwd" | "forward" => forward(words)?,
        "rdr" => {
            let (to, port) = value::ip_port(words.take("an address, or address,port")?)?;
            Action::Redirect { to, port }
        }
        "nat" => Action::Nat(nat(words.take("the number of an instance of NAT, `global` or `tablearg`")?)?),
        "nptv6" => Action::Nptv6(instance_name(words)?),
        "nat64lsn" => Action::Nat64(instance_name(words)?),
        "reass" | "defrag" => Action::Reass,
        "tcp-setmss" => {
            Action::TcpSetMss(value::number_of(words, "the maximum segment size, bytes", 1..=u16::MAX)?)
        }
        "setdscp" => Action::SetDscp(value::arg(words.take("a code point such as ef, or tablearg")?, dscp)?),
        "setfib" => {
            Action::SetFib(value::arg(words.take("the number of a routing table, or tablearg")?, value::fib)?)
        }
        "pipe" => Action::Pipe(value::arg(words.take("the number of a pipe, or tablearg")?, |word| {
            value::instance(word, "a pipe")
        })?),
        "queue" => Action::Queue(value::arg(words.take("the number of a queue, or tablearg")?, |word| {
            value::instance(word, "a queue")
        })?),
        _ => return Err(unknown(word)),
    })
}

fn unknown(word: Word<'_>) -> Fault {
    if let Err(fault) = refuse(Place::Action, word) {
        return fault;
    }
    if names::value(names::PROTOCOLS, word.text).is_some()
        || matches!(word.text, "ip" | "all" | "ip4" | "ip6")
    {
        return word
            .fault("the action is missing")
            .expected(EXPECTED)
            .help(format!("write `allow {} …`", word.text));
    }
    word.unknown("action", ACTIONS.iter().copied()).expected(EXPECTED)
}

/// A name of the list, or a number.
pub(crate) fn named(word: Word<'_>, what: &str, names: &Names<u8>, max: u8) -> Result<u8, Fault> {
    if let Some(value) = names::value(names, word.text) {
        return Ok(value);
    }
    if word.text.starts_with(|c: char| c.is_ascii_digit()) {
        return word.number(what, 0..=max);
    }
    let list: Vec<&str> = names::words(names).collect();
    let what = what.trim_start_matches("a ");
    Err(word.unknown(what, names::words(names)).expected(format!("0 to {max}, or {}", list.join(", "))))
}

pub(crate) fn dscp(word: Word<'_>) -> Result<u8, Fault> {
    named(word, "a code point", names::DSCP, 63)
}

/// The code, and behind `needfrag` perhaps the MTU.
fn unreach(words: &mut Tokens<'_>) -> Result<Unreach, Fault> {
    let code = named(
        words.take("a code of ICMP, such as port")?,
        "a code of ICMP's unreachable",
        names::UNREACH,
        u8::MAX,
    )?;
    let is_number = |word: Word<'_>| word.text.starts_with(|c: char| c.is_ascii_digit());
    let has_mtu = code == 4
        && words.peek().is_some_and(is_number)
        && !words.peek_second().is_some_and(|word| word.is("from"));
    let mtu = has_mtu.then(|| value::number_of(words, "the MTU, bytes", 68..=u16::MAX)).transpose()?;
    Ok(Unreach::Code { code, mtu })
}

/// `:flow`, if it is there. FreeBSD calls the states without a name `:default`.
pub(crate) fn flow(words: &mut Tokens<'_>, may_be_any: bool) -> Result<Flow, Fault> {
    let Some(name) = words.peek().and_then(|word| word.strip_prefix(":")) else { return Ok(Flow::Default) };
    words.skip();
    match name.text {
        "default" => Ok(Flow::Default),
        "any" if may_be_any => Ok(Flow::Any),
        "any" => Err(name
            .fault("`:any` names no states to keep")
            .help("`check-state :any` looks at all of them; give these a name, or none")),
        _ => Ok(Flow::Named(value::name(name, "a flow", NAME_MAX)?)),
    }
}

fn forward(words: &mut Tokens<'_>) -> Result<Action, Fault> {
    let word = words.take("the address of a next hop, `tablearg`, or one of them with ,port")?;
    let (to, port) = value::split_port(word);
    let port = port.map(|port| super::list::port(port, None)).transpose()?;
    Ok(Action::Forward { to: value::arg(to, value::ip)?, port })
}

fn nat(word: Word<'_>) -> Result<NatTarget, Fault> {
    if word.is("global") {
        return Ok(NatTarget::Global);
    }
    let number = value::arg(word, |word| value::instance(word, "an instance of NAT"));
    number.map(NatTarget::Instance).map_err(|fault| fault.or_expected("global"))
}

fn instance_name(words: &mut Tokens<'_>) -> Result<String, Fault> {
    value::name(words.take("the name of an instance")?, "an instance", NAME_MAX)
}
