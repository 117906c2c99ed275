//! States: what a rule remembers of a packet that matches.

use super::action::flow;
use super::option::OPTIONS;
use super::value;
use crate::error::{Fault, nearest};
use crate::refused::{self, Place};
use crate::rule::{Action, Keep, KeepKind, Limit, LimitMask, Rule};
use crate::words::Tokens;

/// State options of a rule; they may stand anywhere among the matches, once.
#[derive(Default)]
pub(crate) struct State {
    /// Where `defer-action` stood.
    defer: Option<core::ops::Range<usize>>,
}

impl State {
    /// Takes the next word if it is about states.
    pub(crate) fn take(&mut self, words: &mut Tokens<'_>, rule: &mut Rule) -> Result<bool, Fault> {
        let Some(word) = words.peek() else { return Ok(false) };
        let is_defer = matches!(word.text, "defer-action" | "defer-immediate-action");
        if is_defer {
            words.skip();
            self.defer = Some(word.span());
            return Ok(true);
        }
        if !matches!(word.text, "keep-state" | "limit" | "record-state" | "set-limit") {
            return Ok(false);
        }
        if rule.keep.is_some() {
            let fault = word.fault("a rule makes one state");
            return Err(fault.help("keep one of keep-state, limit, record-state and set-limit"));
        }
        if matches!(rule.action, Action::Redirect { .. }) {
            let fault = word.fault("`rdr` remembers its flows by itself");
            return Err(fault.help(format!("write `{}` into a rule behind it, if at all", word.text)));
        }
        words.skip();
        let kind = match word.text {
            "keep-state" => KeepKind::State,
            "limit" => KeepKind::Limit(limit(words)?),
            "record-state" => KeepKind::Record,
            _ => KeepKind::RecordLimit(limit(words)?),
        };
        rule.keep = Some(Keep { kind, flow: flow(words, false)?, defer: false });
        if let Some(next) = words.peek().filter(|next| names_a_flow(next.text)) {
            let fault = next.fault(format!("`{}` is no match", next.text));
            return Err(fault.help(format!("if it names the states, write `:{}`", next.text)));
        }
        Ok(true)
    }

    pub(crate) fn finish(self, rule: &mut Rule) -> Result<(), Fault> {
        let Some(span) = self.defer else { return Ok(()) };
        let Some(keep) = &mut rule.keep else {
            let fault =
                Fault::new(span, "`defer-action` defers the action of a state, and this rule makes none");
            return Err(fault.help("add keep-state, limit, record-state or set-limit"));
        };
        keep.defer = true;
        Ok(())
    }
}

/// Whether a word behind `keep-state` can only be meant for the name of its states.
fn names_a_flow(text: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    text.chars().all(is_name)
        && !super::option::is_option(text)
        && nearest(text, OPTIONS.iter().copied()).is_none()
        && refused::find(Place::Option, text).is_none()
        && text != "not"
        && !text.starts_with("//")
}

fn limit(words: &mut Tokens<'_>) -> Result<Limit, Fault> {
    const EXPECTED: &str = "src-addr, src-port, dst-addr, dst-port or all, and a number";
    let mut mask = LimitMask::default();
    loop {
        let word = words.take(EXPECTED)?;
        match word.text {
            "src-addr" => mask.src_addr = true,
            "src-port" => mask.src_port = true,
            "dst-addr" => mask.dst_addr = true,
            "dst-port" => mask.dst_port = true,
            // DragonFly
            "all" => mask = LimitMask { src_addr: true, src_port: true, dst_addr: true, dst_port: true },
            text if text == "tablearg" || text.starts_with(|c: char| c.is_ascii_digit()) => {
                if mask == LimitMask::default() {
                    let fault = word.fault("it is not said by what states are counted");
                    return Err(fault.expected(EXPECTED).help(format!("write `limit src-addr {text}`")));
                }
                let max = value::arg(word, |word| word.number("how many states", 1..=u16::MAX))?;
                return Ok(Limit { mask, max });
            }
            _ => {
                let known = ["src-addr", "src-port", "dst-addr", "dst-port", "all"];
                return Err(word.unknown("part of a flow", known).expected(EXPECTED));
            }
        }
    }
}
