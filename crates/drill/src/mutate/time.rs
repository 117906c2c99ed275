//! Times: earlier and later by more than is tolerated.

use core::time::Duration;

use super::{Changes, Field, Role, Rules};
use crate::script::{Action, Time};

pub(super) fn time(changes: &mut Changes<'_>, rules: &Rules) {
    let time = changes.event.time;
    // what code asserts has no time of its own: it is about the state that the events before have left
    let role = changes.role;
    if matches!(changes.event.action, Action::Code(_)) {
        changes.role = Role::Stimulus;
    }
    for time_now in moved(time.value, rules.shift) {
        let text = format!("{} → {time_now}", time.value);
        changes.add(time.pos, Field::Time, text, |event| event.time.value = time_now);
    }
    changes.role = role;
}

fn moved(time: Time, by: Duration) -> Vec<Time> {
    let earlier = |at: Duration| at.checked_sub(by);
    // a range is left when all of it lies elsewhere
    let far = |from: Duration, to: Duration| by + (to - from);
    match time {
        Time::Any => Vec::new(),
        Time::Absolute(at) => core::iter::once(at + by).chain(earlier(at)).map(Time::Absolute).collect(),
        Time::Relative(at) => core::iter::once(at + by).chain(earlier(at)).map(Time::Relative).collect(),
        Time::AbsoluteRange(from, to) => vec![Time::AbsoluteRange(from + far(from, to), to + far(from, to))],
        Time::RelativeRange(from, to) => vec![Time::RelativeRange(from + far(from, to), to + far(from, to))],
    }
}
