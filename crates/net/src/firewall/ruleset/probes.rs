//! Where on their way packets look for a state.

use ipfw::rule::{Action, KeepKind};

use super::{Compiled, Scope};

/// For each position that of the first rule from there on that looks for a state: `check-state`, and also `keep-state`,
/// `limit` and `rdr`, which look before they ask whether the packet matches.
#[derive(Debug, Default)]
pub(super) struct Probes {
    all: Vec<u32>,
    /// Without `rdr`: what is redirected is looked for once, however many rules redirect.
    named: Vec<u32>,
}

/// There is none.
const NONE: u32 = u32::MAX;

impl Probes {
    pub(super) fn of(rules: &[Compiled]) -> Self {
        let is_named = |rule: &Compiled| probes(rule) && !matches!(rule.action, Action::Redirect { .. });
        Self { all: firsts(rules, probes), named: firsts(rules, is_named) }
    }

    #[inline]
    pub(super) fn from(&self, at: usize) -> Option<usize> {
        place(&self.all, at)
    }

    #[inline]
    pub(super) fn named_from(&self, at: usize) -> Option<usize> {
        place(&self.named, at)
    }
}

/// For each position that of the first rule from there on that is one.
fn firsts(rules: &[Compiled], is_one: impl Fn(&Compiled) -> bool) -> Vec<u32> {
    let mut firsts = vec![NONE; rules.len()];
    let mut next = NONE;
    for (at, place) in firsts.iter_mut().enumerate().rev() {
        next = if is_one(&rules[at]) { u32::try_from(at).unwrap_or(NONE) } else { next };
        *place = next;
    }
    firsts
}

#[inline]
fn place(firsts: &[u32], at: usize) -> Option<usize> {
    firsts.get(at).filter(|at| **at != NONE).map(|at| *at as usize)
}

fn probes(rule: &Compiled) -> bool {
    let kind = rule.keep.as_ref().map(|keep| &keep.kind);
    let looks = matches!(rule.action, Action::CheckState(_) | Action::Redirect { .. })
        || matches!(kind, Some(KeepKind::State | KeepKind::Limit(_)));
    looks && rule.scope != Scope::NOWHERE
}
