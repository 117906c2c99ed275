//! A read that waits for all bytes (`MSG_WAITALL`).

use sim::drill::{Outcome, Read};

/// The progress of such a call.
pub(crate) struct Whole {
    read: Read,
    /// Bytes that are wanted.
    wanted: usize,
    waits_for_all: bool,
}

impl Whole {
    /// Nothing yet of `wanted` bytes; any number of them will do, unless it `waits_for_all`.
    pub(crate) fn new(wanted: usize, waits_for_all: bool) -> Self {
        Self { read: Read::default(), wanted, waits_for_all }
    }

    /// Receives what there is. A datagram is whole, the end of a stream is one, and what was read before an error counts.
    pub(crate) fn receive(&mut self, mut receive: impl FnMut(usize) -> Outcome<Read>) -> Outcome<Read> {
        loop {
            match receive(self.wanted - self.read.bytes.len()) {
                Outcome::Done(Ok(read)) if !self.waits_for_all || read.from.is_some() => {
                    return Outcome::Done(Ok(read));
                }
                Outcome::Done(Ok(read)) => {
                    let is_end = read.bytes.is_empty();
                    self.read.len += read.len;
                    self.read.bytes.extend(read.bytes);
                    if is_end || self.read.bytes.len() >= self.wanted {
                        return self.done();
                    }
                }
                Outcome::Done(Err(_)) if !self.read.bytes.is_empty() => return self.done(),
                other => return other,
            }
        }
    }

    fn done(&mut self) -> Outcome<Read> {
        Outcome::Done(Ok(core::mem::take(&mut self.read)))
    }
}
