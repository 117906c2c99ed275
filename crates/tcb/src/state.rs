//! Where a connection is in its life, and what brings it from one place to the next. Nothing else changes its state, and
//! `docs/design/TCP-STATES.md` is drawn from here.

use Event::{
    Aborted, Closes, Connects, FinAcknowledged, FinCame, FinSent, ResetCame, SynAcknowledged, SynCame,
    TimedOut, WaitOver,
};
use State::{
    CloseWait, Closed, Closing, Established, FinWait1, FinWait2, LastAck, SynReceived, SynSent, TimeWait,
};

/// Where a connection is in its life (RFC 9293 §3.3.2). Before it begins there is none, and LISTEN is not a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing goes any more.
    Closed,
    /// Our SYN is under way.
    SynSent,
    /// Both SYNs are known, ours not acknowledged.
    SynReceived,
    /// It stands.
    Established,
    /// The other end has ended its stream.
    CloseWait,
    /// We have ended ours.
    FinWait1,
    /// We have ended ours, and the other end knows.
    FinWait2,
    /// Both have, and neither knows that the other knows.
    Closing,
    /// Both have, and only our end is not acknowledged.
    LastAck,
    /// Both have; what is still under way dies out.
    TimeWait,
}

/// An event that changes a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A program connects, and our SYN goes out.
    Connects,
    /// The other end's SYN came: to a listener, or while ours is under way.
    SynCame,
    /// The other end has acknowledged our SYN, and its own is known.
    SynAcknowledged,
    /// Our FIN goes out, behind all that the program has sent.
    FinSent,
    /// The other end's FIN came, and all before it.
    FinCame,
    /// The other end has acknowledged our FIN.
    FinAcknowledged,
    /// The time in TIME-WAIT, or an orphan's time in FIN-WAIT-2, is over.
    WaitOver,
    /// A program closes what does not stand yet.
    Closes,
    /// The other end has reset the connection, or a router has said that it cannot begin.
    ResetCame,
    /// Nothing was heard for too long.
    TimedOut,
    /// We end it here and now, and tell the other end by a reset.
    Aborted,
}

impl State {
    /// All of them, in the order in which a connection may come by them.
    pub const ALL: [Self; 10] = [
        Closed,
        SynSent,
        SynReceived,
        Established,
        FinWait1,
        FinWait2,
        Closing,
        CloseWait,
        LastAck,
        TimeWait,
    ];

    /// Where `event` leads from here; it stays, if nothing follows from it.
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.3.2
    #[must_use]
    pub const fn after(self, event: Event) -> Self {
        match (self, event) {
            (Closed, Connects) => SynSent,
            (Closed | SynSent, SynCame) => SynReceived,
            (SynSent | SynReceived, SynAcknowledged) => Established,
            (Established, FinSent) => FinWait1,
            (Established, FinCame) => CloseWait,
            (CloseWait, FinSent) => LastAck,
            (FinWait1, FinAcknowledged) => FinWait2,
            (FinWait1, FinCame) => Closing,
            (FinWait2, FinCame) | (Closing, FinAcknowledged) => TimeWait,
            (LastAck, FinAcknowledged) | (SynSent, Closes) | (FinWait2 | TimeWait, WaitOver) => Closed,
            // RFC 1337 §3: an old duplicate must not end TIME-WAIT.
            (TimeWait, ResetCame | TimedOut) => TimeWait,
            (_, ResetCame | TimedOut | Aborted) => Closed,
            (same, _) => same,
        }
    }

    /// As RFC 9293 writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Closed => "CLOSED",
            SynSent => "SYN-SENT",
            SynReceived => "SYN-RECEIVED",
            Established => "ESTABLISHED",
            CloseWait => "CLOSE-WAIT",
            FinWait1 => "FIN-WAIT-1",
            FinWait2 => "FIN-WAIT-2",
            Closing => "CLOSING",
            LastAck => "LAST-ACK",
            TimeWait => "TIME-WAIT",
        }
    }
}

impl Event {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Connects,
        SynCame,
        SynAcknowledged,
        FinSent,
        FinCame,
        FinAcknowledged,
        WaitOver,
        Closes,
        ResetCame,
        TimedOut,
        Aborted,
    ];

    /// A few words for a graph, and where RFC 9293 has it.
    #[must_use]
    pub const fn name(self) -> (&'static str, &'static str) {
        match self {
            Connects => ("connect, send SYN", "3.10.1"),
            SynCame => ("SYN came", "3.10.7.2, 3.10.7.3"),
            SynAcknowledged => ("ACK of SYN came", "3.10.7.3, 3.10.7.4"),
            FinSent => ("close, send FIN", "3.10.4"),
            FinCame => ("FIN came", "3.10.7.4"),
            FinAcknowledged => ("ACK of FIN came", "3.10.7.4"),
            WaitOver => ("wait is over", "3.10.8"),
            Closes => ("close", "3.10.4"),
            ResetCame => ("RST came", "3.10.7.3, 3.10.7.4"),
            TimedOut => ("silence", "3.10.8"),
            Aborted => ("abort, send RST", "3.10.5"),
        }
    }

    /// Whether it ends a connection wherever that is.
    #[inline]
    #[must_use]
    pub const fn breaks(self) -> bool {
        matches!(self, ResetCame | TimedOut | Aborted)
    }
}

/// All that changes a state: from where, what, to where.
#[inline]
pub fn transitions() -> impl Iterator<Item = (State, Event, State)> {
    let of = |from: State| Event::ALL.into_iter().map(move |event| (from, event, from.after(event)));
    State::ALL.into_iter().flat_map(of).filter(|(from, _, to)| from != to)
}

#[cfg(test)]
pub(super) mod seen {
    //! State transitions of a test's connections.

    use core::cell::RefCell;

    use super::{Event, State};

    std::thread_local! {
        static SEEN: RefCell<Vec<(State, Event, State)>> = const { RefCell::new(Vec::new()) };
    }

    /// Something has happened to a connection.
    #[inline]
    pub(crate) fn note(from: State, event: Event, to: State) {
        SEEN.with_borrow_mut(|seen| seen.push((from, event, to)));
    }

    /// All that has happened in this thread since it was asked last.
    #[inline]
    pub(crate) fn take() -> Vec<(State, Event, State)> {
        SEEN.take()
    }
}
