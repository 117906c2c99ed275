//! What programs on this CPU are told of sockets: each that a message came for stands on one list, once, until its
//! program has looked at it.

use super::socket::{Id, Sockets};
use crate::cpu::Cpu;
use crate::program::{ProgramId, Watch};
use crate::time::Instant;

impl Sockets {
    pub(crate) fn next_event(&mut self) -> Option<Id> {
        self.noted.next()
    }

    /// When programs have something to look at.
    pub(crate) fn deadline(&self) -> Instant {
        self.noted.deadline()
    }
}

/// A program holds a socket from now on, under this name.
pub(crate) fn hold(cpu: &mut Cpu, id: Id, watch: Watch) {
    if let Some(socket) = cpu.raw.as_mut().and_then(|sockets| sockets.get_mut(id)) {
        socket.watch = Some(watch);
    }
}

/// Its program wants to look at a socket once more.
pub(crate) fn look_again(cpu: &mut Cpu, id: Id) {
    if let Some(sockets) = &mut cpu.raw {
        sockets.note(id);
    }
}

/// Whose a socket is that was on the list, and which name they have for it.
pub(crate) fn look(cpu: &mut Cpu, id: Id) -> Option<(ProgramId, u32)> {
    let watch = cpu.raw.as_mut()?.get_mut(id)?.watch.as_mut()?;
    watch.looked_at();
    Some((watch.program, watch.key))
}

/// The sockets that a program holds.
pub(crate) fn held_by(cpu: &Cpu, program: ProgramId) -> Vec<Id> {
    let Some(sockets) = &cpu.raw else { return Vec::new() };
    let all = (0..sockets.places_end()).filter_map(|at| sockets.at(at));
    let own = all.filter(|socket| socket.watch.is_some_and(|watch| watch.program == program));
    own.map(|socket| socket.id).collect()
}
