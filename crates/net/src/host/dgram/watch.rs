//! Events of sockets for programs on this CPU: each socket with received data stands on one list, once, until its
//! program has looked at it.

use super::base::{Base, Id};
use crate::base::time::Instant;
use crate::host::app::{AppId, Watch};
use crate::turn::cpu::Cpu;

/// The next sockets of the lists: one of each kind, so that no kind waits for another.
pub(crate) fn next_events(cpu: &mut Cpu) -> [Option<Id>; 2] {
    let datagrams = cpu.udp.as_mut().and_then(|sockets| sockets.noted.next());
    let messages = cpu.raw.as_mut().and_then(|sockets| sockets.noted.next());
    [datagrams.map(Id::from), messages.map(Id::from)]
}

/// When programs have something to look at.
pub(crate) fn deadline(cpu: &Cpu) -> Instant {
    let datagrams = cpu.udp.as_ref().map_or(Instant::NEVER, |sockets| sockets.noted.deadline());
    let messages = cpu.raw.as_ref().map_or(Instant::NEVER, |sockets| sockets.noted.deadline());
    let frames = cpu.packets.as_ref().map_or(Instant::NEVER, |sockets| sockets.deadline());
    datagrams.min(messages).min(frames)
}

/// A program holds a socket from now on, under this name.
pub(crate) fn hold(cpu: &mut Cpu, id: Id, watch: Watch) {
    if let Some(base) = id.base_mut(cpu) {
        base.watch = Some(watch);
    }
}

/// Its program wants to look at a socket once more.
pub(crate) fn look_again(cpu: &mut Cpu, id: Id) {
    match id {
        Id::Udp(id) => cpu.udp.iter_mut().for_each(|sockets| sockets.note(id)),
        Id::Raw(id) => cpu.raw.iter_mut().for_each(|sockets| sockets.note(id)),
    }
}

/// Returns the owner of a socket that was on the list, and its name for it.
pub(crate) fn look(cpu: &mut Cpu, id: Id) -> Option<(AppId, u32)> {
    let watch = id.base_mut(cpu)?.watch.as_mut()?;
    watch.looked_at();
    Some((watch.program, watch.key))
}

/// The sockets that a program holds, in places `from` on, as many places as `count`; and whether there are more.
pub(crate) fn held_by(cpu: &Cpu, program: AppId, from: u32, count: u32) -> (Vec<Id>, bool) {
    let places = from..from.saturating_add(count);
    let is_own = |base: &Base| base.watch.is_some_and(|watch| watch.program == program);
    let mut held = Vec::new();
    let mut end = 0;
    if let Some(sockets) = &cpu.udp {
        let found = places.clone().filter_map(|at| sockets.at(at)).filter(|socket| is_own(&socket.base));
        held.extend(found.map(|socket| Id::from(socket.id)));
        end = sockets.places_end();
    }
    if let Some(sockets) = &cpu.raw {
        let found = places.clone().filter_map(|at| sockets.at(at)).filter(|socket| is_own(&socket.base));
        held.extend(found.map(|socket| Id::from(socket.id)));
        end = end.max(sockets.places_end());
    }
    (held, (places.end as usize) < end)
}
