//! Events of connections and listeners for programs on this CPU: each with an event stands on one
//! list, once, until its program has looked at it.

use super::calls::why_ended;
use super::input::pcbs;
use super::listen::{Listen, ListenerId};
use super::pcbs::{Conn, Id, Owner, Pcbs};
use super::tcb::{State, Tcb};
use crate::host::app::{AppId, Watch};
use crate::host::sock::Error;
use crate::turn::cpu::Cpu;

/// An object with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A listener has connections.
    Listener(ListenerId),
    /// Something has happened with a connection.
    Conn(Id),
}

/// The event of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnEvent {
    pub(crate) program: AppId,
    pub(crate) key: u32,
    /// There are bytes to read, or the end, or the program wanted to look.
    pub(crate) readable: bool,
    /// There is room again for what the program has to send.
    pub(crate) writable: bool,
    /// It has ended: why, if before its time.
    pub(crate) ended: Option<Option<Error>>,
}

impl Pcbs {
    /// Brings a connection back that something came for.
    pub(super) fn bring(&mut self, mut conn: Box<Conn>) {
        self.note(&mut conn);
        self.put(conn);
    }

    /// Puts a connection on the list, if its program has a reason to look at it.
    #[inline]
    pub(super) fn note(&mut self, conn: &mut Conn) {
        let Some(watch) = &mut conn.watch else { return };
        if is_news(watch, &conn.tcb) && watch.note() {
            self.noted.push_back(Event::Conn(conn.id));
        }
    }

    /// Puts a listener on the list, if connections wait there.
    pub(super) fn note_listener(&mut self, id: ListenerId) {
        let Some(listener) = self.listeners.get_mut(id) else { return };
        if let Some(watch) = &mut listener.watch
            && !listener.waiting.is_empty()
            && watch.note()
        {
            self.noted.push_back(Event::Listener(id));
        }
    }

    /// A connection waits to be accepted.
    pub(super) fn wait_at(&mut self, listener: ListenerId, conn: Id) {
        if let Some(listener) = self.listeners.get_mut(listener) {
            listener.waiting.push_back(conn);
        }
        self.note_listener(listener);
    }

    pub(crate) fn next_event(&mut self) -> Option<Event> {
        self.noted.pop_front()
    }
}

/// Whether a program would want to know of what there is.
#[inline]
fn is_news(watch: &Watch, tcb: &Tcb) -> bool {
    tcb.readable() > 0
        || tcb.is_read_to_end() && !watch.knows_end
        || watch.wants_room && tcb.has_room()
        || watch.is_asked
        || has_ended_for_its_program(tcb)
}

/// Waits for connections, for a program.
///
/// # Errors
///
/// As [`super::listen()`].
pub(crate) fn listen(cpu: &mut Cpu, wanted: &Listen, watch: Watch) -> Result<ListenerId, Error> {
    let id = bind(cpu, wanted, watch)?;
    super::open(cpu, id, wanted.backlog, wanted.settings)?;
    Ok(id)
}

/// Takes a place to wait for connections later, for a program.
///
/// # Errors
///
/// As [`super::bind()`].
pub(crate) fn bind(cpu: &mut Cpu, wanted: &Listen, watch: Watch) -> Result<ListenerId, Error> {
    let id = super::bind(cpu, wanted)?;
    if let Some(listener) = pcbs(cpu).listeners.get_mut(id) {
        listener.watch = Some(watch);
    }
    Ok(id)
}

/// Returns the owner of a listener that was on the list, and its name for it.
pub(crate) fn look_at_listener(cpu: &mut Cpu, id: ListenerId) -> Option<(AppId, u32)> {
    let watch = cpu.tcp.as_mut()?.listeners.get_mut(id)?.watch.as_mut()?;
    watch.looked_at();
    Some((watch.program, watch.key))
}

/// More connections may wait at a listener than its program has taken.
pub(crate) fn look_again_at_listener(cpu: &mut Cpu, id: ListenerId) {
    if let Some(pcbs) = &mut cpu.tcp {
        pcbs.note_listener(id);
    }
}

/// A program holds a connection from now on, under this name; what has come of it already is news.
pub(crate) fn hold(cpu: &mut Cpu, id: Id, watch: Watch) {
    with(cpu, id, |conn| conn.watch = Some(watch));
}

/// Its program wants to look at a connection once more.
pub(crate) fn look_again(cpu: &mut Cpu, id: Id) {
    with(cpu, id, |conn| {
        if let Some(watch) = &mut conn.watch {
            watch.is_asked = true;
        }
    });
}

/// Its program has more to send than there is room for.
pub(super) fn want_room(cpu: &mut Cpu, id: Id) {
    let watch = cpu.tcp.as_mut().and_then(|pcbs| pcbs.get_mut(id)).and_then(|conn| conn.watch.as_mut());
    if let Some(watch) = watch {
        watch.wants_room = true;
    }
}

/// Does something to a connection, and puts it on the list if there is a reason.
fn with(cpu: &mut Cpu, id: Id, what: impl FnOnce(&mut Conn)) {
    let Some(pcbs) = &mut cpu.tcp else { return };
    let Some(mut conn) = pcbs.take(id) else { return };
    what(&mut conn);
    pcbs.note(&mut conn);
    pcbs.put_untouched(conn);
}

/// Returns the event of a connection that was on the list.
pub(crate) fn look(cpu: &mut Cpu, id: Id) -> Option<ConnEvent> {
    let conn = cpu.tcp.as_mut()?.get_mut(id)?;
    let (watch, tcb) = (conn.watch.as_mut()?, &conn.tcb);
    watch.looked_at();
    let is_asked = core::mem::take(&mut watch.is_asked);
    let has_ended = tcb.is_read_to_end() && !watch.knows_end;
    watch.knows_end |= has_ended;
    let writable = watch.wants_room && tcb.has_room();
    watch.wants_room &= !writable;
    let readable = tcb.readable() > 0 || has_ended || is_asked;
    let ended = has_ended_for_its_program(tcb).then(|| why_ended(tcb));
    Some(ConnEvent { program: watch.program, key: watch.key, readable, writable, ended })
}

/// Whether nothing more comes of a connection. One that has ended in order may still have something to be read.
pub(super) fn has_ended_for_its_program(tcb: &Tcb) -> bool {
    tcb.state() == State::Closed && (tcb.readable() == 0 || why_ended(tcb).is_some())
}

/// Whether the program still holds the connection. If so, and the other end sends no more, which the program cannot know
/// if it has read no further than it was told of, it is news.
pub(crate) fn is_held(cpu: &mut Cpu, id: Id) -> bool {
    let Some(conn) = cpu.tcp.as_ref().and_then(|pcbs| pcbs.get(id)) else { return false };
    let Some(watch) = conn.watch else { return false };
    if conn.tcb.is_read_to_end() && !watch.knows_end {
        with(cpu, id, |_| ());
    }
    true
}

/// The listeners of a program.
pub(crate) fn listeners_of(cpu: &Cpu, program: AppId) -> Vec<ListenerId> {
    let listeners = cpu.tcp.iter().flat_map(|pcbs| pcbs.listeners.iter());
    let own = |watch: Option<Watch>| watch.is_some_and(|watch| watch.program == program);
    listeners.filter(|listener| own(listener.watch)).map(|listener| listener.id).collect()
}

/// The connections that a program holds, in places `from` on, as many places as `count`; and whether there are more.
pub(crate) fn held_by(cpu: &Cpu, program: AppId, from: u32, count: u32) -> (Vec<Id>, bool) {
    let Some(pcbs) = &cpu.tcp else { return (Vec::new(), false) };
    let places = from..from.saturating_add(count);
    let conns = places.clone().filter_map(|at| pcbs.conn_at(at));
    let own = |conn: &&Conn| {
        conn.owner == Owner::Program && conn.watch.is_some_and(|watch| watch.program == program)
    };
    (conns.filter(own).map(|conn| conn.id).collect(), (places.end as usize) < pcbs.places_end())
}
