//! Bytes of a stream, made and counted on its netisr.

use core::time::Duration;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Instant;

use net::app::AppContext;
use net::sock::Error;
use net::tcp;

use super::flow::{Counters, Reader, Switch, stamp, stamped};
use super::pace::Pace;
use super::protocol::Params;
use crate::sockets::io_error;

/// Blocks and datagrams that are sent before others on the CPU have their turn.
const BLOCKS_AT_ONCE: usize = 4;
const DATAGRAMS_AT_ONCE: usize = 32;
/// Bytes that are handed to a thread at once.
pub(super) const READ_MAX: usize = 16 << 10;
/// Time after which a sender looks whether another one has given bytes back, or a queue has room.
const LOOK: Duration = Duration::from_millis(1);

/// A stream that runs.
pub(super) struct Stream {
    pub(super) sends: bool,
    counters: Arc<Counters>,
    switch: Arc<Switch>,
    block: Vec<u8>,
    pace: Pace,
    wide: bool,
    begun: Instant,
    number: u64,
    reader: Reader,
}

/// When a sender goes on.
pub(super) enum Next {
    /// Something wakes it, or nothing is left to do.
    Nothing,
    Again,
    After(Duration),
}

impl Stream {
    pub(super) fn new(sends: bool, params: &Params, counters: &Arc<Counters>, switch: &Arc<Switch>) -> Self {
        let now = Instant::now();
        Self {
            sends,
            counters: Arc::clone(counters),
            switch: Arc::clone(switch),
            block: if sends { vec![b'p'; params.block as usize] } else { Vec::new() },
            pace: Pace::new(params.rate, now),
            wide: params.wide_numbers,
            begun: now,
            number: 0,
            reader: Reader::new(),
        }
    }

    /// Returns the bytes of the next block, or when to look again.
    fn take(&self) -> Result<usize, Next> {
        if self.switch.has_ended() {
            return Err(Next::Nothing);
        }
        let wait = self.pace.wait(Instant::now());
        if !wait.is_zero() {
            return Err(Next::After(wait));
        }
        match self.switch.take(self.block.len()) {
            0 if self.block.is_empty() => Err(Next::Nothing),
            0 => Err(Next::After(LOOK)),
            len => Ok(len),
        }
    }

    /// Sends blocks while there is room.
    pub(super) fn send(&mut self, cx: &mut AppContext<'_>, id: tcp::Id) -> Next {
        for _ in 0..BLOCKS_AT_ONCE {
            let len = match self.take() {
                Ok(len) => len,
                Err(next) => return next,
            };
            let sent = match tcp::send(cx.cpu, id, self.block.get(..len).unwrap_or_default()) {
                Ok(sent) => sent,
                Err(Error::WouldBlock) => 0,
                Err(why) => {
                    self.switch.give_back(len);
                    self.end(why);
                    return Next::Nothing;
                }
            };
            self.switch.give_back(len - sent);
            self.counters.add_bytes(sent as u64);
            self.pace.sent(sent, Instant::now());
            if sent < len {
                return Next::Nothing;
            }
        }
        Next::Again
    }

    /// Sends datagrams that are due.
    pub(super) fn send_datagrams(&mut self, mut send: impl FnMut(&[u8]) -> Result<(), Error>) -> Next {
        for _ in 0..DATAGRAMS_AT_ONCE {
            let taken = match self.take() {
                Ok(taken) => taken,
                Err(next) => return next,
            };
            stamp(&mut self.block, self.begun.elapsed(), self.number + 1, self.wide);
            match send(&self.block) {
                Ok(()) => {
                    self.number += 1;
                    self.counters.sent_datagram(self.block.len() as u64, self.number);
                    self.pace.sent(self.block.len(), Instant::now());
                }
                Err(Error::WouldBlock | Error::NoBuffer) => {
                    self.switch.give_back(taken);
                    return Next::After(LOOK);
                }
                Err(why) => {
                    self.switch.give_back(taken);
                    self.end(why);
                    return Next::Nothing;
                }
            }
        }
        Next::Again
    }

    /// Counts what has come of a connection, and reads it.
    pub(super) fn receive(&self, cx: &mut AppContext<'_>, id: tcp::Id) {
        let all = |[first, second]: [&[u8]; 2]| {
            let len = first.len() + second.len();
            (len, len)
        };
        // Its end is told apart.
        if let Ok(Some(len)) = tcp::read_in_place(cx.cpu, id, all) {
            self.counters.add_bytes(len as u64);
        }
    }

    /// Counts a datagram; too short ones are greetings.
    pub(super) fn datagram(&mut self, bytes: &[u8]) {
        if let Some((sent, number)) = stamped(bytes, self.wide).filter(|_| !self.sends) {
            self.reader.datagram(bytes.len(), sent, number, self.begun.elapsed());
            self.counters.publish(&self.reader.counts);
        }
    }

    /// Says why it has ended. A receiver's end in order is none before its time.
    pub(super) fn end(&self, why: Error) {
        let why = io_error(why);
        if self.sends || why.kind() != ErrorKind::BrokenPipe {
            self.counters.fail(why);
        }
    }
}
