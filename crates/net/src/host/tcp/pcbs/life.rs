//! Life cycle of connections.

use super::{Conn, Found, Id, Owner, Pcbs, Place, Settled};
use crate::base::time::Instant;
use crate::host::pcb::FourTuple;
use crate::host::tcp::build::IpTxParams;
use crate::host::tcp::listen::ListenerId;
use crate::host::tcp::tcb::{Ended, State, Tcb};
use crate::host::tcp::time_wait::TimeWait;
use crate::host::tcp::watch;

/// Connections that have ended and whose memory a CPU keeps for those that follow: at the most, and where there are none.
const SPARE_MAX: usize = 1024;
const SPARE_AT_REST: usize = 32;

impl Conn {
    #[inline(always)]
    fn new(id: Id, ends: FourTuple, tx_params: IpTxParams, tcb: Tcb, owner: Owner) -> Self {
        Self {
            id,
            ends,
            tx_params,
            note: None,
            tcb,
            owner,
            watch: None,
            opened_at: None,
            is_listed: true,
            is_touched: true,
            ended: 0,
        }
    }

    /// Becomes a new one. Each part is put where it is to be: as a whole it would pass over the stack once more. All are named
    /// here, so that none of the one before stays.
    #[inline(always)]
    fn renew(&mut self, id: Id, ends: FourTuple, tx_params: IpTxParams, tcb: Tcb, owner: Owner) {
        let Self {
            id: own_id,
            ends: own_ends,
            tx_params: own_tx_params,
            note,
            tcb: own_tcb,
            owner: own_owner,
            watch,
            opened_at,
            is_listed,
            is_touched,
            ended,
        } = self;
        (*own_id, *own_ends, *own_tx_params, *own_owner) = (id, ends, tx_params, owner);
        (*note, *watch, *opened_at) = (None, None, None);
        (*is_listed, *is_touched, *ended) = (true, true, 0);
        *own_tcb = tcb;
    }
}

impl Pcbs {
    /// Adds a connection; it has something to send, perhaps. `None` if there are as many as may be.
    #[inline]
    pub(in crate::host::tcp) fn add(
        &mut self,
        ends: FourTuple,
        tx_params: IpTxParams,
        tcb: Tcb,
        owner: Owner,
    ) -> Option<Id> {
        if self.tables.conns.len() >= self.room.0 {
            return None;
        }
        let id = self.place(ends, tx_params, tcb, owner)?;
        self.enter(&ends, Found::Conn(id.at));
        Some(id)
    }

    /// Makes a connection of a half-open one, which is there no more.
    #[inline]
    pub(in crate::host::tcp) fn promote(
        &mut self,
        at: u32,
        (ends, tx_params): (FourTuple, IpTxParams),
        tcb: Tcb,
        owner: Owner,
    ) -> Option<Id> {
        let is_room = self.tables.conns.len() < self.room.0;
        let Some(id) = is_room.then(|| self.place(ends, tx_params, tcb, owner)).flatten() else {
            self.remove_half(at);
            return None;
        };
        self.turns_into(&ends, Found::Half(at), Found::Conn(id.at));
        self.half_alarms.forget(&mut self.tables.halves, at);
        self.tables.halves.remove(at);
        Some(id)
    }

    /// Puts a connection into a place; it is in no index yet.
    #[inline(always)]
    fn place(&mut self, ends: FourTuple, tx_params: IpTxParams, tcb: Tcb, owner: Owner) -> Option<Id> {
        let at = self.tables.conns.insert(Place::default())?;
        self.serial = self.serial.wrapping_add(1);
        let id = Id { at, serial: self.serial };
        let conn = match self.spare.pop() {
            Some(mut spare) => {
                spare.renew(id, ends, tx_params, tcb, owner);
                spare
            }
            None => Box::new(Conn::new(id, ends, tx_params, tcb, owner)),
        };
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
