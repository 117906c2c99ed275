//! A connection: the transmission control block of RFC 9293 §3.3.1, as a function of segments, calls and time.
//!
//! ```text
//!   arrive   a segment came                ┐
//!   send, close, abort   the program asks  ├─▶  what is to be sent now: output, once for all that came in a turn
//!   expire   a timer is due                ┘
//! ```
#![forbid(unsafe_code)]

mod advice;
pub mod answer;
mod arrive;
mod begin;
mod error;
mod info;
mod control;
mod keep;
mod memory;
mod open;
mod options;
mod output;
mod path;
mod probe;
mod prr;
mod recover;
mod state;
mod timers;
mod times;
mod tune;
mod urgent;
pub mod wait;
pub mod settings;
pub mod seq;
pub mod buffer;
pub mod receive;
pub mod scoreboard;
pub mod rtt;
pub mod congestion;
pub mod budget;
pub mod rings;

use std::sync::Arc;

use wire::tcp::{Flags, Header, Options};

use self::budget::Budget;
use self::buffer::Buffer;
use self::congestion::{Congestion, initial_window};
use self::receive::Receive;
use self::rtt::Rtt;
use self::scoreboard::Sent;
use self::seq::Seq;
use self::settings::Settings;
use base::time::Instant;

pub use self::arrive::Reply;
pub use self::begin::NewTcb;
pub use self::error::PathError;
pub use self::info::{HostCounts, Info, Tally};
pub use self::open::Opened;
pub use self::options::{Stamps, UNSIGNED};
pub use self::state::{Event, State, transitions};
pub use self::times::Times;

use self::advice::Advice;
use self::keep::Keep;
use self::open::FastOpen;
use self::options::Agreed;
use self::path::Path;
use self::probe::Probe;
use self::recover::{Recovery, Used};
use self::timers::Timers;
use self::times::Clock;
use self::tune::Tune;
use self::urgent::Urgent;

/// Why a connection ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The other end does not want it.
    Refused,
    /// The other end has reset it.
    Reset,
    /// Nothing was heard for too long.
    TimedOut,
    /// Nothing was heard for too long, and a router has said why: no way leads there.
    Unreachable,
    /// We have given it up.
    Aborted,
}

/// A segment that came, its header and what is behind it.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Its header.
    pub header: &'a Header,
    /// Its payload.
    pub payload: &'a [u8],
    /// Whether a router has marked it (RFC 3168: CE).
    pub is_marked: bool,
}

/// A segment to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Out<'a> {
    /// Its header. The checksum is not part of it.
    pub header: Header,
    /// Its payload, in two pieces.
    pub payload: [&'a [u8]; 2],
    /// Bytes of the segments that a longer payload is to be cut into; 0: it is one.
    pub cut: u16,
    /// Whether routers may mark it instead of dropping it: ECT(0).
    pub may_be_marked: bool,
}

/// Bytes of a block of SACK, and of what stands before the first one, padding included (RFC 2018 §3).
const SACK_BLOCK_LEN: u32 = 8;
const SACK_LEN: u32 = 4;

/// One connection.
#[derive(Debug)]
pub struct Tcb {
    state: State,
    ended: Option<Ended>,
    /// A listener has taken its SYN.
    is_passive: bool,
    /// Orphaned: received data is discarded.
    is_released: bool,
    /// A reset is to tell the other end that there is nothing any more.
    says_farewell: bool,
    /// Many connections share theirs; what changes by itself while a connection lives is beside them.
    settings: Arc<Settings>,
    /// [`Settings::receive_buffer`], [`Settings::send_buffer`] and [`Settings::path_mss`], as they have become.
    receive_buffer: u32,
    send_buffer: u32,
    path_mss: u16,
    /// When it began.
    began: Instant,
    /// Ours, and the other end's.
    ports: (u16, u16),
    agreed: Agreed,
    stamps: Stamps,

    /// Our initial sequence number.
    iss: Seq,
    sent: Sent,
    /// Behind the last segment that was shorter than others.
    small: Seq,
    /// Bytes from the first that is not acknowledged on.
    outgoing: Buffer,
    /// Behind the last byte that the program has sent.
    queued_end: Seq,
    /// Whether the program will send no more.
    is_ended: bool,
    /// Behind the last byte that the other end takes: `SND.UNA + SND.WND`, at the last update.
    right_edge: Seq,
    /// The widest window there was: `MAX.SND.WND`.
    window_max: u32,
    /// Sequence number and acknowledgment of the last segment that changed the window: `SND.WL1`, `SND.WL2`.
    window_from: (Seq, Seq),
    /// Something is sent though it is little, or the window closed: nothing else would ever happen.
    is_stuck: bool,
    /// As much has gone out as goes at once.
    goes_on: bool,

    receive: Receive,
    /// Behind the last byte that we have said we take.
    promised: Seq,
    /// Last acknowledgment sent: `Last.ACK.sent`.
    acknowledged: Seq,
    /// Pending acknowledgment.
    ack: Ack,
    /// The other end is to be asked whether it meant what it sent.
    challenges: bool,
    /// Remaining replies to unacceptable segments.
    pub budget: Budget,
    /// Data of a SYN in a simultaneous open: taken when the connection is established (RFC 9293 §3.10.7.3).
    early: Box<[u8]>,
    /// Acknowledgments that are sent twice, or more often, because each says that a segment came: all that a sender
    /// without SACK learns of a loss.
    duplicates: u8,

    rtt: Rtt,
    /// Timeouts since something was heard of what is under way.
    vain: u8,
    congestion: Congestion,
    /// Use of the congestion window.
    used: Used,
    /// When data, or our FIN, was sent last.
    spoke: Instant,
    recovery: Recovery,
    probe: Probe,
    path: Path,
    timers: Timers,
    keep: Keep,
    advice: Advice,
    ecn: Marks,
    tally: Tally,
    clock: Clock,
    open: FastOpen,
    tune: Tune,
    urgent: Urgent,
    /// Soft error of a router.
    doubt: Option<PathError>,
}

/// Whether there is something to acknowledge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Ack {
    /// Nothing.
    #[default]
    None,
    /// One segment that may wait.
    Delayed,
    /// Now.
    Now,
}

/// The ECN state (RFC 3168 §6.1).
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    /// Both ends have agreed.
    is_on: bool,
    /// A mark came, and the other end has not said that it knows.
    echo: bool,
    /// To be said: the window was reduced.
    reduced: bool,
    /// Marks that are echoed before this is acknowledged are of a window that was reduced already.
    until: Option<Seq>,
}

impl Tcb {
    /// Returns its settings, which other connections may share.
    #[inline]
    #[must_use]
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Where it is in its life.
    #[inline]
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Why it ended before its time, if it did.
    #[inline]
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Bytes that can be read.
    #[inline]
    #[must_use]
    pub fn readable(&self) -> usize {
        self.receive.readable() - usize::from(self.hidden().is_some())
    }

    /// Whether the other end will send no more, and all is read.
    #[inline]
    #[must_use]
    pub fn is_read_to_end(&self) -> bool {
        self.receive.is_finished() && self.readable() == 0
    }

    /// Whether the other end will send no more, and all has come.
    #[inline]
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.receive.is_finished()
    }

    /// Whether the program has said that it sends no more.
    #[inline]
    #[must_use]
    pub fn is_shut(&self) -> bool {
        self.is_ended
    }

    /// Bytes that [`Self::send`] takes now.
    #[inline]
    #[must_use]
    pub fn writable(&self) -> usize {
        let is_open =
            matches!(self.state, State::SynSent | State::SynReceived | State::Established | State::CloseWait);
        let room = (self.send_buffer as usize).saturating_sub(self.outgoing.len());
        if is_open && !self.is_ended { room } else { 0 }
    }

    /// Tells whether there is enough room to wake a waiting writer: a third of the buffer.
    #[inline]
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.state >= State::Established && self.writable() >= self.send_buffer as usize / 3
    }

    /// Takes as many of `bytes` as there is room for, and answers how many (RFC 9293 §3.10.2).
    #[inline]
    pub fn send(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.writable());
        self.outgoing.push(&bytes[..taken]);
        self.queued_end += u32::try_from(taken).unwrap_or(u32::MAX);
        taken
    }

    /// Copies what has come into `into`, and answers how much. It stays.
    #[inline]
    pub fn peek(&self, into: &mut [u8]) -> usize {
        self.peek_to_mark(into)
    }

    /// Copies what has come into `into`, and answers how much (RFC 9293 §3.10.3). The window opens by it.
    #[inline]
    pub fn read(&mut self, into: &mut [u8]) -> usize {
        let count = self.peek_to_mark(into);
        self.was_read(count);
        count
    }

    /// Shows what has come, in two pieces, to `what`, which says how much of it is done with. The window opens by it.
    #[inline]
    pub fn read_in_place<R>(&mut self, what: impl FnOnce([&[u8]; 2]) -> (usize, R)) -> R {
        let (count, done) = what(self.pieces_to_mark());
        self.was_read(count);
        done
    }

    /// The program sends no more (RFC 9293 §3.10.4): a FIN follows what it has sent.
    #[inline]
    pub fn close(&mut self) {
        match self.state {
            State::SynSent => self.end(Event::Closes, None),
            _ => self.is_ended = true,
        }
    }

    /// The program has gone, which closes the connection; what it has sent is still brought to the other end.
    //= https://www.rfc-editor.org/rfc/rfc1122#section-4.2.2.13
    //# If such a host issues a
    //# CLOSE call while received data is still pending in TCP, or
    //# if new data is received after CLOSE is called, its TCP
    //# SHOULD send a RST to show that data was lost.
    #[inline]
    pub fn release(&mut self, now: Instant) {
        self.is_released = true;
        if self.receive.readable() > 0 && self.settings.resets_unread {
            return self.give_up(Event::Aborted, Ended::Aborted);
        }
        self.close();
        self.bound_half_closed(now);
    }

    /// The connection ends here and now (RFC 9293 §3.10.5): answers the reset that tells the other end, if it knows of us.
    #[inline]
    pub fn abort(&mut self, now: Instant) -> Option<Header> {
        let reset = (self.is_known() && self.state != State::TimeWait).then(|| self.reset(now));
        self.end(Event::Aborted, Some(Ended::Aborted));
        reset
    }

    /// The connection ends, and [`Self::output`] tells the other end.
    fn give_up(&mut self, event: Event, why: Ended) {
        self.says_farewell = self.is_known();
        self.end(event, Some(why));
    }

    /// Whether the other end knows of us.
    fn is_known(&self) -> bool {
        !matches!(self.state, State::Closed | State::SynSent)
    }

    /// Makes a reset.
    //= https://www.rfc-editor.org/rfc/rfc7323#section-3.2
    //# the TSopt MUST be sent in every non-<RST> segment for the duration of
    //# the connection, and SHOULD be sent in an <RST> segment
    fn reset(&self, now: Instant) -> Header {
        let options = Options { timestamps: self.timestamps(now), ..self.bare_options() };
        Header { window: 0, options, ..self.header(Flags::RST | Flags::ACK, self.sent.behind()) }
    }

    /// Changes the state, as nothing else does, if that follows from `event`; answers whether it does.
    fn goes(&mut self, event: Event) -> bool {
        let from = self.state;
        self.state = from.after(event);
        #[cfg(test)]
        state::seen::note(from, event, self.state);
        from != self.state
    }

    /// Nothing goes any more.
    fn end(&mut self, event: Event, why: Option<Ended>) {
        self.goes(event);
        self.ended = self.ended.or(why);
        self.outgoing = Buffer::default();
        self.queued_end = self.sent.behind();
        self.timers = Timers::default();
        self.ack = Ack::None;
        self.challenges = false;
    }

    /// Where the bytes of our stream begin.
    fn stream(&self) -> Seq {
        self.iss + 1
    }

    /// `SND.UNA` without our SYN. Two numbers alone do not tell whether one is our SYN's:
    /// after two gigabytes that seems to lie ahead, and after four it comes again.
    fn first_byte(&self) -> Seq {
        if matches!(self.state, State::SynSent | State::SynReceived) {
            self.stream()
        } else {
            self.sent.first()
        }
    }

    /// Where our stream ends, if the program has ended it.
    fn fin(&self) -> Option<Seq> {
        self.is_ended.then_some(self.queued_end)
    }

    /// Bytes of a segment of ours, at the most.
    fn mss(&self) -> u32 {
        u32::from(self.agreed.mss.min(self.path_mss)).saturating_sub(self.overhead())
    }

    /// Bytes of the next segment, at the most: what is said of gaps takes its place from them.
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.7.1
    //# Eff.snd.MSS = min(SendMSS+20, MMS_S) - TCPhdrsize - IPoptionsize
    fn room(&self) -> u32 {
        let blocks = if self.sacks() { self.receive.gaps_to_say().min(self.blocks()) } else { 0 };
        let len = u32::try_from(blocks).unwrap_or(0) * SACK_BLOCK_LEN;
        self.mss().saturating_sub(if len > 0 { len + SACK_LEN } else { 0 })
    }

    /// Bytes of as many whole segments as go to the device at once, at the most. Of a signed one, a device cannot make two.
    fn batch(&self) -> u32 {
        let room = self.room().max(1);
        let most = if self.settings.signs { 0 } else { self.settings.super_bytes };
        (most / room * room).max(room)
    }
}

#[cfg(test)]
mod tests;
