//! Life cycle of connections.

use super::{Conn, Found, Id, Owner, Pcbs, Place, Settled};
use crate::base::time::Instant;
use crate::host::pcb::FourTuple;
use crate::host::tcp::build::IpTxParams;
use crate::host::tcp::listen::ListenerId;
use crate::host::tcp::tcb::{Ended, NewTcb, State, Tcb};
use crate::host::tcp::time_wait::TimeWait;
use crate::host::tcp::watch;

/// Connections that have ended and whose memory a CPU keeps for those that follow: at the most, and where there are none.
const SPARE_MAX: usize = 1024;
const SPARE_AT_REST: usize = 32;

/// Both ends, and IP header fields of what is sent between them.
type Addressed = (FourTuple, IpTxParams);

impl Conn {
    /// Makes one that is in no place yet.
    fn new((ends, tx_params): Addressed, tcb: Tcb) -> Self {
        Self {
            id: Id::default(),
            ends,
            tx_params,
            note: None,
            tcb,
            owner: Owner::Nobody,
            watch: None,
            opened_at: None,
            is_listed: false,
            is_touched: false,
            ended: 0,
        }
    }

    /// Becomes a new one. All parts are named here, so that none of the one before stays.
    #[inline]
    fn renew(&mut self, (own_ends, own_tx_params): Addressed, new: NewTcb) {
        let Self { id, ends, tx_params, note, tcb, owner, watch, opened_at, is_listed, is_touched, ended } =
            self;
        (*id, *ends, *tx_params, *owner) = (Id::default(), own_ends, own_tx_params, Owner::Nobody);
        (*note, *watch, *opened_at) = (None, None, None);
        (*is_listed, *is_touched, *ended) = (false, false, 0);
        tcb.renew(new);
    }
}

impl Pcbs {
    /// Makes a connection that is in no place yet, in the memory of one that has ended if there is any. [`Self::add`],
    /// [`Self::promote`] or [`Self::discard`] follows.
    #[inline]
    pub(in crate::host::tcp) fn begin(&mut self, addressed: Addressed, new: NewTcb) -> Box<Conn> {
        match self.spare.pop() {
            Some(mut spare) => {
                spare.renew(addressed, new);
                spare
            }
            None => Box::new(Conn::new(addressed, Tcb::new(new))),
        }
    }

    /// A connection that is in no place was not wanted.
    pub(in crate::host::tcp) fn discard(&mut self, mut conn: Box<Conn>) {
        conn.tcb.strip(&mut self.rings);
        self.keep_for_later(conn);
    }

    /// Adds a connection; it has something to send, perhaps. `None` if there are as many as may be.
    #[inline]
    pub(in crate::host::tcp) fn add(&mut self, conn: Box<Conn>, owner: Owner) -> Option<Id> {
        let ends = conn.ends;
        let id = self.place(conn, owner)?;
        self.enter(&ends, Found::Conn(id.at));
        Some(id)
    }

    /// Makes a connection of a half-open one, which is there no more.
    #[inline]
    pub(in crate::host::tcp) fn promote(&mut self, at: u32, conn: Box<Conn>, owner: Owner) -> Option<Id> {
        let ends = conn.ends;
        let Some(id) = self.place(conn, owner) else {
            self.remove_half(at);
            return None;
        };
        self.turns_into(&ends, Found::Half(at), Found::Conn(id.at));
        self.half_alarms.forget(&mut self.tables.halves, at);
        self.tables.halves.remove(at);
        Some(id)
    }

    /// Puts a connection into a place, if there is room; it is in no index yet.
    #[inline]
    fn place(&mut self, mut conn: Box<Conn>, owner: Owner) -> Option<Id> {
        let is_room = self.tables.conns.len() < self.room.0;
        let Some(at) = is_room.then(|| self.tables.conns.insert(Place::default())).flatten() else {
            self.discard(conn);
            return None;
        };
        self.serial = self.serial.wrapping_add(1);
        let id = Id { at, serial: self.serial };
        (conn.id, conn.owner, conn.is_listed, conn.is_touched) = (id, owner, true, true);
        self.touched.push(id);
        self.tables.conns.get_mut(at)?.conn = Some(conn);
        Some(id)
    }

    /// Puts a connection with nothing to send back, until its deadline; or frees it, if it has ended and its owner does not
    /// need its result.
    pub(in crate::host::tcp) fn settle(&mut self, mut conn: Box<Conn>, now: Instant) -> Settled {
        conn.is_touched = conn.tcb.goes_on();
        if conn.is_touched {
            self.again.push(conn.id);
        }
        if conn.tcb.state() != State::SynReceived
            && let Some(listener) = conn.opened_at.take()
        {
            let was_reset = matches!(conn.tcb.ended(), Some(Ended::Reset | Ended::Refused));
            self.is_opened(Some(listener), was_reset.then_some(now));
        }
        let at = conn.id.at;
        let deadline = conn.tcb.deadline();
        if conn.tcb.state() == State::Closed {
            self.unlist(&mut conn);
            if watch::has_ended_for_its_program(&conn.tcb) {
                self.note(&mut conn);
            }
            if conn.owner != Owner::Program {
                self.remove(conn);
                return Settled::Ended;
            }
            self.note_ended(&mut conn);
        }
        if conn.tcb.state() == State::TimeWait && conn.owner == Owner::Nobody {
            return self.wait_out(conn, now);
        }
        conn.tcb.give_back(&mut self.rings);
        let Self { tables, conn_alarms, .. } = self;
        conn_alarms.set(&mut tables.conns, at, deadline, now);
        if let Some(place) = tables.conns.get_mut(at) {
            place.conn = Some(conn);
        }
        Settled::Stays
    }

    /// One that was opened before it stood does, or has ended.
    fn is_opened(&mut self, at: Option<ListenerId>, reset: Option<Instant>) {
        if let Some(listener) = at.and_then(|id| self.listeners.get_mut(id)) {
            listener.is_opened(reset);
        }
    }

    /// It has ended, and its program has not let go of it.
    fn note_ended(&mut self, conn: &mut Conn) {
        if conn.ended == 0 {
            conn.ended = self.ended.insert(conn.ends.hash(&self.secret), conn.id.at);
        }
    }

    /// The next connection may have its memory; few are kept where there are few.
    fn keep_for_later(&mut self, conn: Box<Conn>) {
        let connections = self.tables.conns.len();
        self.rings.suit(connections);
        let most = (SPARE_AT_REST + connections).min(SPARE_MAX);
        if self.spare.len() < most {
            self.spare.push(conn);
        }
        self.spare.truncate(most);
    }

    /// Moves a connection to TIME-WAIT, unless their limit is reached.
    fn wait_out(&mut self, conn: Box<Conn>, now: Instant) -> Settled {
        let is_room = self.tables.waits.len() < self.room.1;
        let wait = TimeWait::of(&conn.tcb, conn.ends, conn.tx_params).filter(|_| is_room);
        let until = wait.map(|wait| wait.wait.until());
        let (Some(at), Some(until)) = (wait.and_then(|wait| self.tables.waits.insert(wait)), until) else {
            self.remove(conn);
            return Settled::Cut;
        };
        self.turns_into(&conn.ends, Found::Conn(conn.id.at), Found::Wait(at));
        self.wait_alarms.set(&mut self.tables.waits, at, until, now);
        self.vacate(conn);
        Settled::Ended
    }

    /// Its ends are free for another one.
    fn unlist(&mut self, conn: &mut Conn) {
        if core::mem::take(&mut conn.is_listed) {
            self.leave(&conn.ends, Found::Conn(conn.id.at));
        }
        if let Owner::Listener(id) = conn.owner
            && let Some(listener) = self.listeners.get_mut(id)
        {
            listener.waiting.retain(|waiting| *waiting != conn.id);
        }
    }

    /// Forgets a connection that was taken out of its place.
    pub(in crate::host::tcp) fn remove(&mut self, mut conn: Box<Conn>) {
        self.unlist(&mut conn);
        self.vacate(conn);
    }

    /// Frees one that is in no index any more.
    fn vacate(&mut self, mut conn: Box<Conn>) {
        self.is_opened(conn.opened_at, None);
        if conn.ended != 0 {
            self.ended.remove(conn.ends.hash(&self.secret), conn.ended);
        }
        let Self { tables, conn_alarms, .. } = self;
        conn_alarms.forget(&mut tables.conns, conn.id.at);
        tables.conns.remove(conn.id.at);
        conn.tcb.strip(&mut self.rings);
        self.keep_for_later(conn);
    }
}
