//! The passes while packets are traced: each packet goes alone.

use pkt::{Pkt, PktVec};

use super::passes::From;
use super::{Netisr, pass, push};
use crate::turn::trace;

impl Netisr {
    /// [`Netisr::input`] of packets of other CPUs, and of this one.
    pub(super) fn input_inside(&mut self) {
        if self.cpu.watched { self.input_watched(From::Inside) } else { self.input(From::Inside) }
    }

    /// [`Netisr::input`] while a capture or a tracer is attached.
    #[cold]
    #[inline(never)]
    pub(super) fn input_watched(&mut self, from: From) {
        if self.cpu.tracer.is_some() { self.input_traced(from) } else { self.input(from) }
    }

    /// [`Netisr::input`] while packets are traced.
    fn input_traced(&mut self, from: From) {
        let mut chunk = PktVec::new();
        core::mem::swap(&mut self.work.frames, &mut chunk);
        let rcvif = match from {
            From::Ring(ifindex) => Some(ifindex),
            From::Inside => None,
        };
        for pkt in chunk.drain() {
            trace::begin(&mut self.cpu, &pkt, rcvif);
            push(&mut self.cpu, &mut self.work.frames, pkt);
            pass(&mut self.work, &mut self.cpu, from);
            trace::end(&mut self.cpu);
            self.answer();
            self.transmit(false);
            if !self.cpu.decapsulated.is_empty() {
                self.decapsulated();
            }
        }
    }

    /// Lets one packet go the way of a chunk, up to where connections would answer.
    pub(crate) fn pass_alone(&mut self, pkt: Pkt) {
        push(&mut self.cpu, &mut self.work.frames, pkt);
        pass(&mut self.work, &mut self.cpu, From::Inside);
    }
}
