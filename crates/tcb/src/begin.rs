//! The beginning of a connection.
//!
//! A connection that follows another begins in the memory of that one: as a value it would be copied from place to place,
//! 950 bytes each time, before it stands.

use std::sync::Arc;

use super::{
    Ack, Advice, Agreed, Budget, Buffer, Clock, Congestion, Event, FastOpen, Keep, Marks, Path, Probe,
    Receive, Recovery, Rtt, Segment, Sent, Stamps, State, Tally, Tcb, Timers, Tune, Urgent, Used,
    initial_window,
};
use crate::seq::Seq;
use crate::settings::{Ecn, Settings};
use base::time::Instant;

/// Parameters of a new connection.
#[derive(Clone, Debug)]
pub struct NewTcb {
    /// Its settings.
    pub settings: Arc<Settings>,
    /// Local and remote port.
    pub ports: (u16, u16),
    /// Its initial sequence number.
    pub iss: u32,
    /// Its timestamp clock.
    pub stamps: Stamps,
    /// When it begins.
    pub now: Instant,
}

/// Defines what each field is at the beginning, for a connection that is made and for one that takes the place of another.
macro_rules! beginning {
    ($new:ident; $($field:ident: $value:expr),* $(,)?) => {
        /// Makes a closed connection, for [`Self::connects`] or [`Self::answers`].
        #[inline]
        #[must_use]
        pub fn new($new: NewTcb) -> Self {
            Self { $($field: $value),* }
        }

        /// Becomes a new connection, as [`Self::new`] makes it.
        #[inline]
        pub fn renew(&mut self, $new: NewTcb) {
            $(self.$field = $value;)*
        }
    };
}

impl Tcb {
    beginning! {
        new;
        state: State::Closed,
        ended: None,
        is_passive: false,
        is_released: false,
        says_farewell: false,
        receive_buffer: new.settings.receive_buffer,
        send_buffer: new.settings.send_buffer,
        path_mss: new.settings.path_mss,
        began: new.now,
        ports: new.ports,
        agreed: Agreed::none(&new.settings),
        stamps: new.stamps,
        iss: Seq(new.iss),
        sent: Sent::new(Seq(new.iss)),
        small: Seq(new.iss),
        outgoing: Buffer::default(),
        queued_end: Seq(new.iss) + 1,
        is_ended: false,
        right_edge: Seq(new.iss) + 1,
        window_max: 0,
        window_from: (Seq(0), Seq(new.iss)),
        is_stuck: false,
        goes_on: false,
        receive: Receive::new(Seq(0)),
        promised: Seq(0),
        acknowledged: Seq(0),
        ack: Ack::None,
        challenges: false,
        budget: Budget::default(),
        early: Box::default(),
        duplicates: 0,
        rtt: Rtt::new(new.settings.rto, new.settings.initial_rto),
        vain: 0,
        congestion: Congestion::new(
            new.settings.algorithm,
            new.settings.mss.into(),
            initial_window(new.settings.mss.into(), new.settings.initial_segments, false),
        ),
        used: Used::default(),
        spoke: new.now,
        recovery: Recovery::default(),
        probe: Probe::default(),
        path: Path::of(&new.settings, new.now),
        timers: Timers::default(),
        keep: Keep::default(),
        advice: Advice::default(),
        ecn: Marks::default(),
        tally: Tally::default(),
        clock: Clock::default(),
        open: FastOpen::default(),
        tune: Tune::default(),
        urgent: Urgent::default(),
        doubt: None,
        settings: new.settings,
    }

    /// Begins a connection with a SYN from sequence number `iss`; it goes out with the next [`Self::output`].
    #[inline]
    #[must_use]
    pub fn connect(
        settings: impl Into<Arc<Settings>>,
        ports: (u16, u16),
        iss: u32,
        stamps: Stamps,
        now: Instant,
    ) -> Self {
        let mut tcb = Self::new(NewTcb { settings: settings.into(), ports, iss, stamps, now });
        tcb.connects();
        tcb
    }

    /// Answers a SYN that a listener has taken.
    #[inline]
    #[must_use]
    pub fn answer(
        settings: impl Into<Arc<Settings>>,
        ports: (u16, u16),
        iss: u32,
        stamps: Stamps,
        syn: &Segment<'_>,
        now: Instant,
    ) -> Self {
        let mut tcb = Self::new(NewTcb { settings: settings.into(), ports, iss, stamps, now });
        tcb.answers(syn);
        tcb
    }

    /// A new one is to send a SYN, with the next [`Self::output`].
    #[inline]
    pub fn connects(&mut self) {
        self.goes(Event::Connects);
        self.ecn.is_on = self.settings.ecn == Ecn::Active;
        self.timers.begin(self.began, &self.settings);
    }

    /// A new one is to answer a SYN that a listener has taken, with the next [`Self::output`].
    #[inline]
    pub fn answers(&mut self, syn: &Segment<'_>) {
        self.goes(Event::SynCame);
        self.is_passive = true;
        self.take_syn(syn, self.began);
        self.timers.begin(self.began, &self.settings);
    }
}
