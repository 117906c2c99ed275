//! The owner of a handle, and its reported events.

use std::collections::VecDeque;

use crate::base::time::Instant;

/// Names a program on its CPU, also when another one has its place later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AppId {
    pub(super) at: u32,
    pub(super) serial: u32,
}

/// The event state of a listener, a connection or a socket of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    pub(crate) program: AppId,
    /// The program's own name for it.
    pub(crate) key: u32,
    /// It is on the list of those that its program is to look at.
    is_noted: bool,
    /// Its program wants to look at it again, whether something happens or not.
    pub(crate) is_asked: bool,
    /// Its program has more to send than there was room for.
    pub(crate) wants_room: bool,
    /// Its program has been told that the other end sends no more.
    pub(crate) knows_end: bool,
}

impl Watch {
    pub(crate) const fn new(program: AppId, key: u32) -> Self {
        Self { program, key, is_noted: false, is_asked: false, wants_room: false, knows_end: false }
    }

    /// Something has happened; whether it is to be put on the list, because it is not there yet.
    #[inline]
    pub(crate) const fn note(&mut self) -> bool {
        !core::mem::replace(&mut self.is_noted, true)
    }

    /// It was taken from the list.
    pub(crate) const fn looked_at(&mut self) {
        self.is_noted = false;
    }
}

/// Sockets that something has happened with, each once, until their programs have looked at them.
pub(crate) struct Noted<Id>(VecDeque<Id>);

impl<Id> Default for Noted<Id> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<Id> Noted<Id> {
    /// Something has happened with a socket, or is to be looked at once more: puts it on the list, if it has a program.
    #[inline]
    pub(crate) fn note(&mut self, id: Id, watch: &mut Option<Watch>) {
        if let Some(watch) = watch
            && watch.note()
        {
            self.0.push_back(id);
        }
    }

    pub(crate) fn next(&mut self) -> Option<Id> {
        self.0.pop_front()
    }

    /// When programs have something to look at.
    pub(crate) fn deadline(&self) -> Instant {
        if self.0.is_empty() { Instant::NEVER } else { Instant::START }
    }
}
