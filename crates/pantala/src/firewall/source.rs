//! Rules as text: as they are shown, and what names they have that may be wrong.

use ipfw::rule::{Addr, If, Match, Rule};

/// What a rule says, without number and set.
pub(crate) fn rule(rule: &Rule) -> String {
    Rule { number: 0, set: 0, ..rule.clone() }.to_string()
}

/// Interfaces that a rule names; patterns and tables are no names.
pub(crate) fn interfaces(rule: &Rule) -> impl Iterator<Item = &str> {
    let terms = rule.body.iter().flat_map(|clause| &clause.any);
    terms.filter_map(|term| match &term.is {
        Match::Recv(If::Name(name)) | Match::Xmit(If::Name(name)) | Match::Via(If::Name(name)) => {
            Some(name.as_str())
        }
        Match::Src(Addr::Interface { name, .. }) | Match::Dst(Addr::Interface { name, .. }) => {
            Some(name.as_str())
        }
        _ => None,
    })
}
