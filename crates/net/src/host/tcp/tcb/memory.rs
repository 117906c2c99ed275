//! Memory of a connection beside itself: it borrows recycled buffers, and gives back empty ones.

use super::super::receive::Receive;
use super::super::rings::Rings;
use super::super::scoreboard::Sent;
use super::super::seq::Seq;
use super::Tcb;

impl Tcb {
    /// Bytes of memory that its buffers, and what is known of what is under way, take.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.outgoing.memory() + self.receive.memory() + self.sent.memory()
    }

    /// Before `incoming` bytes arrive: they may use a ring that others have used.
    pub(in super::super) fn borrow_to_receive(&mut self, incoming: usize, rings: &mut Rings) {
        self.receive.borrow(incoming, rings);
    }

    /// Before `outgoing` bytes are sent.
    pub(in super::super) fn borrow_to_send(&mut self, outgoing: usize, rings: &mut Rings) {
        self.outgoing.borrow(outgoing.min(self.writable()), rings);
    }

    /// Buffers that are empty give their memory to others.
    pub(in super::super) fn give_back(&mut self, rings: &mut Rings) {
        self.outgoing.give_back(rings);
        self.receive.give_back(rings);
    }

    /// It has ended: what memory it has beside itself goes to others, or back.
    pub(in super::super) fn strip(&mut self, rings: &mut Rings) {
        self.outgoing.forget(usize::MAX);
        self.receive.forget();
        self.give_back(rings);
        (self.sent, self.receive) = (Sent::new(self.iss), Receive::new(Seq(0)));
        self.early = Box::default();
    }
}
