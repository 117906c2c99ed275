//! Where on their way packets look for a state.

use ipfw::rule::{Action, KeepKind};

use super::{Compiled, Scope};

/// For each position that of the first rule from there on that looks for a state: `check-state`, and also `keep-state`,
/// `limit` and `rdr`, which look before they ask whether the packet matches.
#[derive(Debug, Default)]
pub(super) struct Probes(Vec<u32>);

/// There is none.
const NONE: u32 = u32::MAX;

impl Probes {
    pub(super) fn of(rules: &[Compiled]) -> Self {
        let mut all = vec![NONE; rules.len()];
        let mut next = NONE;
        for (at, place) in all.iter_mut().enumerate().rev() {
            next = if probes(&rules[at]) { u32::try_from(at).unwrap_or(NONE) } else { next };
            *place = next;
        }
        Self(all)
    }

    #[inline]
    pub(super) fn from(&self, at: usize) -> Option<usize> {
        self.0.get(at).filter(|at| **at != NONE).map(|at| *at as usize)
    }
}

fn probes(rule: &Compiled) -> bool {
    let kind = rule.keep.as_ref().map(|keep| &keep.kind);
    let looks = matches!(rule.action, Action::CheckState(_) | Action::Redirect { .. })
        || matches!(kind, Some(KeepKind::State | KeepKind::Limit(_)));
    looks && rule.scope != Scope::NOWHERE
}
