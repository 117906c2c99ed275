//! What programs on this CPU are told of sockets: each that something came for stands on one list, once, until its
//! program has looked at it.

use super::socket::Id;
use super::table::Sockets;
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
    if let Some(socket) = cpu.udp.as_mut().and_then(|sockets| sockets.get_mut(id)) {
        socket.watch = Some(watch);
    }
}

/// Its program wants to look at a socket once more.
pub(crate) fn look_again(cpu: &mut Cpu, id: Id) {
    if let Some(sockets) = &mut cpu.udp {
        sockets.note(id);
    }
}

/// Whose a socket is that was on the list, and which name they have for it.
pub(crate) fn look(cpu: &mut Cpu, id: Id) -> Option<(ProgramId, u32)> {
    let watch = cpu.udp.as_mut()?.get_mut(id)?.watch.as_mut()?;
    watch.looked_at();
    Some((watch.program, watch.key))
}

/// The sockets that a program holds, in places `from` on, as many places as `count`; and whether there are more.
pub(crate) fn held_by(cpu: &Cpu, program: ProgramId, from: u32, count: u32) -> (Vec<Id>, bool) {
    let Some(sockets) = &cpu.udp else { return (Vec::new(), false) };
    let places = from..from.saturating_add(count);
    let found = places.clone().filter_map(|at| sockets.at(at));
    let own = found.filter(|socket| socket.watch.is_some_and(|watch| watch.program == program));
    (own.map(|socket| socket.id).collect(), (places.end as usize) < sockets.places_end())
}
