//! Unmodified programs in a library without the commands: none are served.

use crate::api::{Error, ProgramSockets, Programs};

/// Asks the thread that serves programs, which is not there.
#[derive(Clone, Debug)]
pub(crate) enum Asker {}

impl Asker {
    pub(crate) fn programs(&self) -> Result<Programs, Error> {
        match *self {}
    }

    pub(crate) fn sockets(&self, _after: u64, _limit: usize) -> Result<ProgramSockets, Error> {
        match *self {}
    }
}
