//! Commands: the state that `sockstat` is searched for, and numbers.

use super::{Changes, Field, Role};
use crate::script::{Action, At, Command};

/// States as `sockstat -s` shows them.
const STATES: [&str; 11] = [
    "CLOSED",
    "LISTEN",
    "SYN_SENT",
    "SYN_RCVD",
    "ESTABLISHED",
    "CLOSE_WAIT",
    "FIN_WAIT_1",
    "CLOSING",
    "LAST_ACK",
    "FIN_WAIT_2",
    "TIME_WAIT",
];

pub(super) fn command(changes: &mut Changes<'_>, command: &At<Command>) {
    let text = &command.value.0;
    let is_question = text.contains("sockstat") || text.contains("netstat");
    changes.role = if is_question { Role::Demand } else { Role::Stimulus };
    // that there is no socket in a state says nothing of another state
    let says_none = words(text).last().is_some_and(|(_, word)| word == "0");
    if is_question && !says_none {
        for (at, state) in words(text).filter(|(_, word)| STATES.contains(word)) {
            let next = STATES.iter().cycle().skip_while(|known| **known != state).nth(1);
            replace(changes, command, Field::State, (at, state), next.copied().unwrap_or(state));
        }
    }
    // the last number: how many lines, or what a variable is set to
    let number = |(at, word): (usize, &str)| Some((at, word.len(), word.parse::<u32>().ok()?));
    if let Some((at, len, value)) = words(text).last().and_then(number)
        && (is_question || text.contains("sysctl"))
    {
        let now = value.wrapping_add(1).to_string();
        let was = text.get(at..at + len).unwrap_or_default();
        replace(changes, command, Field::Command, (at, was), &now);
    }
}

/// Tokens, and where they begin.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut at = 0;
    text.split(move |c| !is_word(c)).filter_map(move |word| {
        let start = at;
        // the separator of two words is one byte of ASCII, or longer and then not looked at again
        at = start + word.len() + text.get(start + word.len()..)?.chars().next().map_or(0, char::len_utf8);
        (!word.is_empty()).then_some((start, word))
    })
}

fn replace(
    changes: &mut Changes<'_>,
    command: &At<Command>,
    field: Field,
    (at, was): (usize, &str),
    now: &str,
) {
    let text = &command.value.0;
    let (before, behind) = (text.get(..at), text.get(at + was.len()..));
    let edited = format!("{}{now}{}", before.unwrap_or_default(), behind.unwrap_or_default());
    changes.add(command.pos, field, format!("{was} → {now}"), |event| {
        if let Action::Command(command) = &mut event.action {
            command.value = Command(edited);
        }
    });
}
