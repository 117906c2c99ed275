//! Memory of a connection beside itself: it borrows recycled buffers, and gives back empty ones.

use std::sync::Arc;

use super::Tcb;
use crate::receive::Receive;
use crate::rings::Rings;
use crate::scoreboard::Sent;
use crate::seq::Seq;

impl Tcb {
    /// Bytes of memory that its buffers, and what is known of what is under way, take.
    #[inline]
    #[must_use]
    pub fn memory(&self) -> usize {
        self.outgoing.memory() + self.receive.memory() + self.sent.memory()
    }

    /// Before `incoming` bytes arrive: they may use a ring that others have used.
    #[inline]
    pub fn borrow_to_receive(&mut self, incoming: usize, rings: &mut Rings) {
        self.receive.borrow(incoming, rings);
    }

    /// Before `outgoing` bytes are sent.
    #[inline]
    pub fn borrow_to_send(&mut self, outgoing: usize, rings: &mut Rings) {
        self.outgoing.borrow(outgoing.min(self.writable()), rings);
    }

    /// Takes bytes of a program that others may send as well, without a copy if nothing else waits to be acknowledged; answers how
    /// many.
    #[inline]
    pub fn send_shared(&mut self, bytes: &Arc<[u8]>, rings: &mut Rings) -> usize {
        if self.writable() >= bytes.len() && self.outgoing.share(bytes, rings) {
            self.queued_end += u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            return bytes.len();
        }
        self.borrow_to_send(bytes.len(), rings);
        self.send(bytes)
    }

    /// Buffers that are empty give their memory to others.
    #[inline]
    pub fn give_back(&mut self, rings: &mut Rings) {
        self.outgoing.give_back(rings);
        self.receive.give_back(rings);
    }

    /// It has ended: what memory it has beside itself goes to others, or back.
    #[inline]
    pub fn strip(&mut self, rings: &mut Rings) {
        self.outgoing.forget(usize::MAX);
        self.receive.forget();
        self.give_back(rings);
        (self.sent, self.receive) = (Sent::new(self.iss), Receive::new(Seq(0)));
        self.early = Box::default();
    }
}
