//! Doors: how threads call a program without a message.

use pkt::notify_bits::{Board, Flag, board};

use super::AppId;

/// Applications of a CPU that can have a notifier at a time.
pub const NOTIFIERS_MAX: usize = 64;

/// Notifiers of the applications of one CPU.
pub(super) struct Notifications {
    board: Board,
    flags: Vec<Flag>,
    /// Owners of the flags.
    programs: Vec<Option<AppId>>,
    /// Notified programs that were not called yet.
    knocked: Vec<AppId>,
}

impl Notifications {
    pub(super) fn new() -> Self {
        let (board, flags) = board(NOTIFIERS_MAX);
        Self { board, flags, programs: vec![None; NOTIFIERS_MAX], knocked: Vec::with_capacity(NOTIFIERS_MAX) }
    }

    /// Returns a free flag: no program has it that `runs`.
    pub(super) fn free(&self, runs: impl Fn(AppId) -> bool) -> Option<usize> {
        self.programs.iter().position(|program| program.is_none_or(|id| !runs(id)))
    }

    /// Gives a flag to a program. A late notification of its former owner calls the new one, which
    /// finds nothing.
    pub(super) fn give(&mut self, slot: usize, to: AppId) -> Option<Flag> {
        *self.programs.get_mut(slot)? = Some(to);
        self.flags.get(slot).cloned()
    }

    /// Collects the notifications since the last look.
    #[inline]
    pub(super) fn look(&mut self) {
        let Self { board, programs, knocked, .. } = self;
        board.take_down(|slot| knocked.extend(programs.get(slot).copied().flatten()));
    }

    /// One of those that the last look has found.
    #[inline]
    pub(super) fn next_knocked(&mut self) -> Option<AppId> {
        self.knocked.pop()
    }

    /// Tells whether there are notifications since the last look.
    pub(super) fn is_knocked(&self) -> bool {
        self.board.is_raised()
    }
}
