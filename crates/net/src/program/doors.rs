//! Doors: how threads call a program without a message.

use pkt::board::{Board, Flag, board};

use super::ProgramId;

/// Programs of a CPU that can have a door at a time.
pub const DOORS_MAX: usize = 64;

/// The doors of one CPU.
pub(super) struct Doors {
    board: Board,
    flags: Vec<Flag>,
    /// Owners of the flags.
    programs: Vec<Option<ProgramId>>,
    /// Notified programs that were not called yet.
    knocked: Vec<ProgramId>,
}

impl Doors {
    pub(super) fn new() -> Self {
        let (board, flags) = board(DOORS_MAX);
        Self { board, flags, programs: vec![None; DOORS_MAX], knocked: Vec::with_capacity(DOORS_MAX) }
    }

    /// Returns a free flag: no program has it that `runs`.
    pub(super) fn free(&self, runs: impl Fn(ProgramId) -> bool) -> Option<usize> {
        self.programs.iter().position(|program| program.is_none_or(|id| !runs(id)))
    }

    /// Gives a flag to a program. A late notification of its former owner calls the new one, which
    /// finds nothing.
    pub(super) fn give(&mut self, door: usize, to: ProgramId) -> Option<Flag> {
        *self.programs.get_mut(door)? = Some(to);
        self.flags.get(door).cloned()
    }

    /// Collects the notifications since the last look.
    #[inline]
    pub(super) fn look(&mut self) {
        let Self { board, programs, knocked, .. } = self;
        board.take_down(|door| knocked.extend(programs.get(door).copied().flatten()));
    }

    /// One of those that the last look has found.
    #[inline]
    pub(super) fn next_knocked(&mut self) -> Option<ProgramId> {
        self.knocked.pop()
    }

    /// Tells whether there are notifications since the last look.
    pub(super) fn is_knocked(&self) -> bool {
        self.board.is_raised()
    }
}
