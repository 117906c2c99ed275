//! Steps of a reload at which a test lets it fail. The product does not know of them.

/// The last completed step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The rules are there, beside those in force.
    Rules,
    /// The folders of new sites are open.
    Folders,
    /// Ports were checked.
    Ports,
    /// Devices that are used in another way are closed.
    Closed,
    /// A device is open.
    Opened,
    /// Routes and tables are there.
    Tables,
    /// Sites and services that go have ended.
    Ended,
    /// Interfaces monitor, or do not.
    Watched,
    /// The netisrs have the other configuration.
    InForce,
    /// Sites and services that are new have begun.
    Begun,
}

#[cfg(not(test))]
#[expect(clippy::unnecessary_wraps, reason = "a test lets it fail")]
pub(super) const fn fault(_: Step) -> Result<(), crate::StackError> {
    Ok(())
}

#[cfg(test)]
pub(super) use planted::{fault, plant};

#[cfg(test)]
mod planted {
    use core::cell::Cell;

    use super::Step;
    use crate::StackError;

    thread_local! {
        static PLANTED: Cell<Option<Step>> = const { Cell::new(None) };
    }

    /// Lets reloads on this thread fail behind this step, or behind none.
    pub(in crate::daemon::reload) fn plant(step: Option<Step>) {
        PLANTED.set(step);
    }

    pub(in crate::daemon::reload) fn fault(step: Step) -> Result<(), StackError> {
        let is_planted = PLANTED.get() == Some(step);
        if is_planted { Err(StackError::Misfit(format!("planted behind {step:?}"))) } else { Ok(()) }
    }
}
