//! All connections of one CPU, whatever they are at the moment: half-open, standing, or waiting until what is under way
//! has died out. One index finds them all by their ends.
//!
//! ```text
//!   SYN ──▶ Half (a record) ──▶ Conn (a Tcb) ──▶ Wait (a record)
//! ```

mod ahead;
mod life;
mod page;

use std::collections::VecDeque;

pub(crate) use self::ahead::fetch;
pub use self::page::{Listed, PER_PAGE};

use self::page::Ended;
use super::build::IpTxParams;
use super::held::Held;
use super::listen::{ListenerId, Listeners};
use super::metrics_cache::Paths;
use super::settings::Shared;
use super::signature::Keys;
use super::syncache::SynEntry;
use super::tcb::rings::Rings;
use super::tcb::{State, Tcb};
use super::time_wait::TimeWait;
use super::watch::Event;
use crate::base::collections::index::{self, Index};
use crate::base::collections::slab::Slab;
use crate::base::collections::timer_wheel::{DeadlineWheel, HasDeadline, WheelEntry};
use crate::base::secret::Secret;
use crate::base::time::Instant;
use crate::host::app::Watch;
use crate::host::pcb::{self, FourTuple};
use crate::link::tables::IfIndex;
use crate::turn::deliver::Recipient;
use pkt::Note;

/// Connections that stand, or are about to, on one CPU at the most.
pub const CONNECTIONS_MAX: usize = 1 << 20;
/// Half-open connections on one CPU at the most. Beyond them, cookies are sent instead.
pub const HALVES_MAX: usize = 15_360;
/// Connections in TIME-WAIT on one CPU at the most. Beyond them, a connection ends without.
pub const WAITS_MAX: usize = 1 << 18;

/// Names a connection on its CPU, also when another one has its place later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Id {
    at: u32,
    serial: u32,
}

/// A connection that has, or had, a [`Tcb`].
pub(super) struct Conn {
    pub(super) id: Id,
    pub(super) ends: FourTuple,
    pub(super) tx_params: IpTxParams,
    /// By what the firewall knows the segments that come.
    pub(super) note: Option<Note>,
    pub(super) tcb: Tcb,
    pub(super) owner: Owner,
    /// The program of this CPU that is told of it.
    pub(super) watch: Option<Watch>,
    /// Counts for this listener as opened before it stands, until it does.
    pub(super) opened_at: Option<ListenerId>,
    /// Whether it is found by its ends.
    is_listed: bool,
    /// Whether it is in the list of those that have something to send, perhaps.
    is_touched: bool,
    /// Its number among those that have ended and are held by programs; 0, if it is not one of them.
    ended: u64,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Conn>() <= 1096);

/// The owner of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// None yet: it is in an accept queue.
    Listener(ListenerId),
    /// A program.
    Program,
    /// None any more: it is freed when it has ended.
    Nobody,
}

/// The result of settling a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// It is still there.
    Stays,
    /// It has ended.
    Ended,
    /// It has ended sooner than it should.
    Cut,
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Conn(u32),
    Half(u32),
    Wait(u32),
}

/// The place of a connection.
#[derive(Default)]
struct Place {
    entry: WheelEntry,
    /// Taken while it is processed: a lookup meanwhile finds nothing.
    conn: Option<Box<Conn>>,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Place>() <= 32);

/// Everything that has ends.
struct Tables {
    conns: Slab<Place>,
    halves: Slab<SynEntry>,
    waits: Slab<TimeWait>,
}

/// All of one CPU.
pub struct Pcbs {
    secret: [u64; 4],
    index: Index,
    tables: Tables,
    ended: Ended,
    conn_alarms: DeadlineWheel,
    half_alarms: DeadlineWheel,
    wait_alarms: DeadlineWheel,
    pub(crate) listeners: Listeners,
    /// Cache of servers' Fast Open cookies.
    pub(super) paths: Paths,
    pub(super) keys: Keys,
    pub(super) shared: Shared,
    /// Memory of buffers, and of connections that have ended, for those that follow.
    pub(super) rings: Rings,
    #[expect(clippy::vec_box, reason = "boxes are what places hold")]
    spare: Vec<Box<Conn>>,
    serial: u32,
    /// Connections, and those in TIME-WAIT, at the most.
    pub(super) room: (usize, usize),
    /// Connections that may have something to send.
    touched: Vec<Id>,
    /// Connections that go on in the next turn.
    again: Vec<Id>,
    /// Connections that wait for room in the queue of their interface.
    pub(super) held: Held,
    /// Objects with events for programs; each connection and each listener is on it once at the most.
    pub(super) noted: VecDeque<Event>,
    /// There is, or was, a listener or a connection that is bound to an interface.
    pub(super) has_devices: bool,
    /// Until when cookies may come back.
    pub(super) cookies_until: Instant,
}

impl HasDeadline for Place {
    fn entry(&mut self) -> &mut WheelEntry {
        &mut self.entry
    }
}

impl Found {
    /// The kind is in the two highest bits: a table has fewer than 2^30 places.
    const fn number(self) -> u32 {
        match self {
            Self::Conn(at) => at,
            Self::Half(at) => at | 1 << 30,
            Self::Wait(at) => at | 2 << 30,
        }
    }

    const fn from(number: u32) -> Self {
        let at = number & ((1 << 30) - 1);
        match number >> 30 {
            0 => Self::Conn(at),
            1 => Self::Half(at),
            _ => Self::Wait(at),
        }
    }
}

impl Tables {
    fn ends(&self, found: Found) -> Option<&FourTuple> {
        match found {
            Found::Conn(at) => self.conns.get(at)?.conn.as_ref().map(|conn| &conn.ends),
            Found::Half(at) => self.halves.get(at).map(|half| &half.ends),
            Found::Wait(at) => self.waits.get(at).map(|wait| &wait.ends),
        }
    }
}

impl Pcbs {
    pub(super) fn new(secret: &mut Secret) -> Self {
        Self {
            secret: pcb::secrets(secret),
            index: Index::new(),
            tables: Tables { conns: Slab::new(), halves: Slab::new(), waits: Slab::new() },
            ended: Ended::default(),
            conn_alarms: DeadlineWheel::new(),
            half_alarms: DeadlineWheel::new(),
            wait_alarms: DeadlineWheel::new(),
            listeners: Listeners::new(secret.draw()),
            paths: Paths::default(),
            keys: Keys::new(Secret::new(secret.draw().into())),
            shared: Shared::default(),
            rings: Rings::default(),
            spare: Vec::new(),
            serial: 0,
            room: (CONNECTIONS_MAX, WAITS_MAX),
            touched: Vec::new(),
            again: Vec::new(),
            held: Held::default(),
            noted: VecDeque::new(),
            has_devices: false,
            cookies_until: Instant::START,
        }
    }

    /// Connections, whatever they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tables.conns.len() + self.tables.halves.len() + self.tables.waits.len()
    }

    /// Returns the number of established connections, or about to be.
    pub(super) const fn standing(&self) -> usize {
        self.tables.conns.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that connections, their buffers and what finds them take; those of the alarms are always the same.
    #[must_use]
    pub fn memory(&self) -> usize {
        let Tables { conns, halves, waits } = &self.tables;
        let numbers = (0..conns.end()).filter_map(|at| u32::try_from(at).ok());
        let standing = numbers.filter_map(|at| conns.get(at)?.conn.as_deref());
        let standing: usize = standing.map(|conn| size_of::<Conn>() + conn.tcb.memory()).sum();
        let records = halves.places() * size_of::<SynEntry>() + waits.places() * size_of::<TimeWait>();
        let spare = self.spare.len() * size_of::<Conn>() + self.rings.bytes();
        standing + spare + records + conns.places() * size_of::<Place>() + self.index.places() * index::BUCKET
    }

    /// Looks a four-tuple up.
    #[inline]
    pub(super) fn find(&self, ends: &FourTuple) -> Option<Found> {
        let is_it = |number| self.tables.ends(Found::from(number)) == Some(ends);
        self.index.find(ends.hash(&self.secret), is_it).map(Found::from)
    }

    /// Returns the ends by which that is found which a segment that came by `rcvif` is for: those of a connection that is bound to an
    /// interface name it, whatever their addresses are.
    #[inline]
    pub(crate) fn scoped(&self, ends: FourTuple, rcvif: IfIndex) -> FourTuple {
        if self.has_devices { self.scoped_now(ends, rcvif) } else { ends }
    }

    #[cold]
    fn scoped_now(&self, ends: FourTuple, rcvif: IfIndex) -> FourTuple {
        let by = FourTuple { zone: rcvif, ..ends };
        let is_bound =
            || self.find(&ends).is_none() && (self.find(&by).is_some() || self.listeners.is_on_device(&by));
        if ends.zone == 0 && is_bound() { by } else { ends }
    }

    /// Whether a listener takes connections to this end.
    pub(crate) fn listens(&self, ends: &FourTuple) -> bool {
        self.listeners.has(ends)
    }

    /// Returns what a segment between `ends` is for.
    pub(crate) fn recipient(&self, ends: &FourTuple) -> Recipient {
        match self.find(ends) {
            Some(Found::Conn(_)) => Recipient::Connection,
            Some(Found::Half(_)) => Recipient::HalfOpen,
            Some(Found::Wait(_)) => Recipient::TimeWait,
            None if self.listeners.has(ends) => Recipient::Listener,
            None => Recipient::None,
        }
    }

    /// Returns the connection between `ends`.
    pub(super) fn at_ends(&self, ends: &FourTuple) -> Option<&Conn> {
        match self.find(ends)? {
            Found::Conn(at) => self.tables.conns.get(at)?.conn.as_deref(),
            Found::Half(_) | Found::Wait(_) => None,
        }
    }

    /// Tells whether a new conversation between `ends` would collide with another, or use a port that a listener
    /// waits at.
    pub(super) fn is_taken(&self, ends: &FourTuple) -> bool {
        self.listeners.is_port_taken(ends.local_port) || self.find(ends).is_some()
    }

    /// Returns the IP header fields of replies to a segment between `ends`.
    pub(super) fn tx_params(&self, ends: &FourTuple) -> IpTxParams {
        let tx_params = match self.find(ends) {
            Some(Found::Conn(at)) => {
                self.tables.conns.get(at).and_then(|place| place.conn.as_ref()).map(|conn| conn.tx_params)
            }
            Some(Found::Half(at)) => self.tables.halves.get(at).map(|half| half.tx_params),
            Some(Found::Wait(at)) => self.tables.waits.get(at).map(|wait| wait.tx_params),
            None => self.listeners.tx_params(ends),
        };
        tx_params.unwrap_or_default()
    }

    fn enter(&mut self, ends: &FourTuple, found: Found) {
        let Self { secret, tables, index, .. } = self;
        index.insert(ends.hash(secret), found.number(), |number| hash_of(tables, secret, number));
    }

    fn leave(&mut self, ends: &FourTuple, found: Found) {
        let Self { secret, tables, index, .. } = self;
        index.remove(ends.hash(secret), found.number(), |number| hash_of(tables, secret, number));
    }

    /// Replaces the index entry of `ends`.
    fn turns_into(&mut self, ends: &FourTuple, was: Found, is: Found) {
        self.index.replace(ends.hash(&self.secret), was.number(), is.number());
    }

    /// Takes a listener out; what waited for it has another owner then, or is answered.
    pub(super) fn unlisten(&mut self, id: ListenerId) -> VecDeque<Id> {
        let Self { listeners, tables, .. } = self;
        let mut heirs = Vec::new();
        let inherit = |conn: Id, heir| {
            if let Some(conn) = tables.conns.get_mut(conn.at).and_then(|place| place.conn.as_mut()) {
                conn.owner = Owner::Listener(heir);
            }
            heirs.push(heir);
        };
        let left = listeners.remove(id, inherit).unwrap_or_default();
        heirs.into_iter().for_each(|heir| self.note_listener(heir));
        left
    }

    /// The connection of this name.
    #[inline]
    pub(super) fn get(&self, id: Id) -> Option<&Conn> {
        self.tables.conns.get(id.at)?.conn.as_deref().filter(|conn| conn.id == id)
    }

    /// Returns it for change.
    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut Conn> {
        self.tables.conns.get_mut(id.at)?.conn.as_deref_mut().filter(|conn| conn.id == id)
    }

    /// Takes a connection out of its place, to work on it; [`Self::put`] brings it back.
    #[inline]
    pub(super) fn take(&mut self, id: Id) -> Option<Box<Conn>> {
        self.get(id)?;
        self.take_at(id.at)
    }

    /// Takes it at a place.
    #[inline]
    pub(super) fn take_at(&mut self, at: u32) -> Option<Box<Conn>> {
        self.tables.conns.get_mut(at)?.conn.take()
    }

    /// Whether the connection in a place signs its segments.
    pub(super) fn signs(&self, at: u32) -> bool {
        let conn = self.tables.conns.get(at).and_then(|place| place.conn.as_ref());
        conn.is_some_and(|conn| conn.tcb.signs())
    }

    /// Brings a connection back that was worked on, and may have something to send now.
    pub(super) fn put(&mut self, mut conn: Box<Conn>) {
        let id = conn.id;
        if !core::mem::replace(&mut conn.is_touched, true) {
            self.touched.push(id);
        }
        self.put_untouched(conn);
    }

    /// Brings a connection back that has nothing more to send than before.
    pub(super) fn put_untouched(&mut self, conn: Box<Conn>) {
        if let Some(place) = self.tables.conns.get_mut(conn.id.at) {
            place.conn = Some(conn);
        }
    }

    /// The connection in a place.
    pub(super) fn conn_at(&self, at: u32) -> Option<&Conn> {
        self.tables.conns.get(at)?.conn.as_deref()
    }

    /// One beyond the last place of a connection, or more.
    pub(super) const fn places_end(&self) -> usize {
        self.tables.conns.end()
    }

    /// Whether a connection may have something to send.
    #[inline]
    pub(super) fn has_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// One that may have something to send; [`Self::settle`] brings it back.
    pub(super) fn next_touched(&mut self) -> Option<Box<Conn>> {
        while let Some(id) = self.touched.pop() {
            if let Some(conn) = self.take(id) {
                return Some(conn);
            }
        }
        None
    }

    /// Connections that have sent as much as they do at once have their turn again.
    pub(super) fn end_turn(&mut self) {
        self.touched.append(&mut self.again);
    }

    /// Whether there is no room for another half-open connection.
    pub(super) fn is_full_of_halves(&self) -> bool {
        self.tables.halves.len() >= HALVES_MAX
    }

    /// Adds a half-open connection.
    pub(super) fn add_half(&mut self, half: SynEntry, due: Instant, now: Instant) {
        let ends = half.ends;
        if let Some(at) = self.tables.halves.insert(half) {
            self.enter(&ends, Found::Half(at));
            self.half_alarms.set(&mut self.tables.halves, at, due, now);
        }
    }

    /// Returns the half-open connections.
    pub(super) fn halves(&self) -> impl Iterator<Item = &FourTuple> {
        let halves = &self.tables.halves;
        let numbers = (0..halves.end()).filter_map(|at| u32::try_from(at).ok());
        let used = numbers.filter(|at| halves.is_used(*at));
        used.filter_map(|at| halves.get(at)).map(|half| &half.ends)
    }

    pub(super) fn half_mut(&mut self, at: u32) -> Option<&mut SynEntry> {
        self.tables.halves.get_mut(at)
    }

    /// Makes the connection of a half-open one again, which rests no more: [`SynEntry::rest`] or [`Self::promote`] follows.
    #[inline]
    pub(super) fn revive(&mut self, at: u32) -> Option<Box<Conn>> {
        let half = self.tables.halves.get_mut(at)?;
        let new = half.wake().map(|settings| half.parameters(settings))?;
        let addressed = (half.ends, half.tx_params);
        let mut conn = self.begin(addressed, new);
        self.tables.halves.get(at)?.revive(&mut conn.tcb);
        Some(conn)
    }

    pub(super) fn remove_half(&mut self, at: u32) {
        let Some(ends) = self.tables.halves.get(at).map(|half| half.ends) else { return };
        self.leave(&ends, Found::Half(at));
        self.half_alarms.forget(&mut self.tables.halves, at);
        self.tables.halves.remove(at);
    }

    pub(super) fn wait_mut(&mut self, at: u32) -> Option<&mut TimeWait> {
        self.tables.waits.get_mut(at)
    }

    pub(super) fn remove_wait(&mut self, at: u32) {
        let Some(ends) = self.tables.waits.get(at).map(|wait| wait.ends) else { return };
        self.leave(&ends, Found::Wait(at));
        self.wait_alarms.forget(&mut self.tables.waits, at);
        self.tables.waits.remove(at);
    }

    /// One whose time may have come.
    pub(super) fn due(&mut self, now: Instant) -> Option<Found> {
        let Self { tables, conn_alarms, half_alarms, wait_alarms, .. } = self;
        let conn = conn_alarms.due(&mut tables.conns, now).map(Found::Conn);
        let half = || half_alarms.due(&mut tables.halves, now).map(Found::Half);
        conn.or_else(half).or_else(|| wait_alarms.due(&mut tables.waits, now).map(Found::Wait))
    }

    /// A half-open connection, or one in TIME-WAIT, is not due yet.
    pub(super) fn postpone(&mut self, found: Found, until: Instant, now: Instant) {
        let Self { tables, half_alarms, wait_alarms, .. } = self;
        match found {
            Found::Conn(_) => {}
            Found::Half(at) => half_alarms.set(&mut tables.halves, at, until, now),
            Found::Wait(at) => wait_alarms.set(&mut tables.waits, at, until, now),
        }
    }

    /// When to ask for those that are due.
    pub(crate) fn deadline(&self) -> Instant {
        if !self.touched.is_empty() || !self.noted.is_empty() || self.held.goes_on {
            return Instant::START;
        }
        self.conn_alarms.deadline().min(self.half_alarms.deadline()).min(self.wait_alarms.deadline())
    }
}

fn hash_of(tables: &Tables, secret: &[u64; 4], number: u32) -> u64 {
    tables.ends(Found::from(number)).map_or(0, |ends| ends.hash(secret))
}
