//! `add`: `[number] [set N] [prob P] action [log …] [tag N] body`.

use super::{action, body, value};
use crate::error::Fault;
use crate::limit::COMMENT_MAX;
use crate::parse::refuse;
use crate::refused::Place;
use crate::rule::{Action, Log, Rule, Tag};
use crate::words::Tokens;

pub(crate) fn rule(words: &mut Tokens<'_>) -> Result<Rule, Fault> {
    let number = number(words)?;
    let set = match words.accept("set") {
        true => value::set_number(words.take("the number of a set, 0 to 31")?)?,
        false => 0,
    };
    let prob = match words.accept("prob") {
        true => prob(words)?,
        false => None,
    };
    let action = action::action(words)?;
    let (log, tag) = parameters(words)?;
    let (body, keep) = (Vec::new(), None);
    let mut rule = Rule { number, set, prob, action, log, tag, body, keep, no_offload: false, comment: None };
    match rule.action {
        Action::CheckState(_) => {
            if let Some(word) = words.peek().filter(|word| !word.text.starts_with("//")) {
                let fault = word.fault("`check-state` looks at every packet, and takes no body");
                return Err(fault.expected("the end of the line, or `// comment`"));
            }
        }
        _ => body::body(words, &mut rule)?,
    }
    rule.comment = comment(words)?;
    Ok(rule)
}

/// The number, which may be left out; `0` asks for the next free step too.
fn number(words: &mut Tokens<'_>) -> Result<u16, Fault> {
    match words.peek() {
        Some(word) if word.text.starts_with(|c: char| c.is_ascii_digit()) => {
            words.skip();
            if word.text.bytes().all(|byte| byte == b'0') { Ok(0) } else { value::rule_number(word) }
        }
        _ => Ok(0),
    }
}

fn prob(words: &mut Tokens<'_>) -> Result<Option<u32>, Fault> {
    let word = words.take("a chance from 0 to 1, such as 0.25")?;
    match value::share(word, "the chance that the rule matches")? {
        Some(0) => Err(word.fault("a rule with this chance would never match")),
        share => Ok(share),
    }
}

/// Parses the parameters between action and body, in any order.
fn parameters(words: &mut Tokens<'_>) -> Result<(Option<Log>, Option<Tag>), Fault> {
    let (mut log, mut tag) = (None, None);
    while let Some(word) = words.peek() {
        match word.text {
            "log" if log.is_some() => return Err(word.fault("`log` stands here twice")),
            "log" => {
                words.skip();
                let amount = words
                    .accept("logamount")
                    .then(|| value::number_of(words, "how many matches are logged; 0 for all", 0..=u32::MAX));
                log = Some(Log { amount: amount.transpose()? });
            }
            "tag" | "untag" if tag.is_some() => {
                return Err(word.fault("a rule sets or takes away one tag").help("write two rules"));
            }
            "tag" | "untag" => {
                words.skip();
                let number = value::arg(words.take("a tag, 1 to 65534")?, |word| {
                    word.number("a tag", 1..=u16::MAX - 1)
                })?;
                tag = Some(if word.is("tag") { Tag::Set(number) } else { Tag::Unset(number) });
            }
            _ => {
                refuse(Place::Parameter, word)?;
                break;
            }
        }
    }
    Ok((log, tag))
}

/// `// what the writer wants to say`.
fn comment(words: &mut Tokens<'_>) -> Result<Option<String>, Fault> {
    let Some(text) = words.peek().and_then(|word| word.strip_prefix("//")) else { return Ok(None) };
    words.skip();
    if text.text.trim().len() > COMMENT_MAX {
        return Err(text.fault(format!("a comment has at most {COMMENT_MAX} bytes")));
    }
    Ok(Some(text.text.trim().to_owned()).filter(|text| !text.is_empty()))
}
