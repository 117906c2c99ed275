//! Whose a handle is, and what its program has been told of it.

/// Names a program on its CPU, also when another one has its place later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProgramId {
    pub(super) at: u32,
    pub(super) serial: u32,
}

/// What stands in a listener, a connection or a socket that a program holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    pub(crate) program: ProgramId,
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
    pub(crate) const fn new(program: ProgramId, key: u32) -> Self {
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
