//! Receivers of a ring's frames before the stack (an XDP program), and in its place (a sink).

use pkt::{Pkt, PktVec};
use wire::ether::HEADER_LEN;

use super::Ring;
use crate::base::drop::DropReason;
use crate::link::driver::{FrameProgram, Occasion, Sink, Verdict};
use crate::link::ether::TAG_LEN;
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;
use crate::turn::netisr::passes::count_received;
use crate::turn::netisr::{From, Netisr, dispatch, push};
use crate::turn::next::Next;

/// Receivers of a ring besides the stack.
#[derive(Default)]
pub(super) struct Hooks {
    pub(super) program: Option<Box<dyn FrameProgram>>,
    pub(super) sink: Option<Box<dyn Sink>>,
    /// Frames that the program has let pass, while it runs.
    passed: PktVec,
}

impl Hooks {
    /// Changes the hooks of a ring, which has none if none is left.
    pub(super) fn change(all: &mut Option<Box<Self>>, change: impl FnOnce(&mut Self)) {
        let mut hooks = all.take().unwrap_or_default();
        change(&mut hooks);
        *all = (hooks.program.is_some() || hooks.sink.is_some()).then_some(hooks);
    }
}

impl Netisr {
    /// The frames of a ring with hooks. Its program has run already if they are captured.
    #[cold]
    #[inline(never)]
    pub(super) fn hooked<const CAPTURED: bool>(&mut self, ring: usize) {
        let Self { rings, cpu, work, .. } = self;
        if !CAPTURED {
            run_program(cpu, &mut rings[ring], &mut work.frames);
        }
        let ifindex = rings[ring].ifindex;
        match rings[ring].hooks.as_mut().and_then(|hooks| hooks.sink.as_deref_mut()) {
            Some(sink) => sink_all(cpu, ifindex, sink, &mut work.frames),
            None if CAPTURED => self.input_watched(From::Ring(ifindex)),
            None => self.input(From::Ring(ifindex)),
        }
    }
}

/// Lets the ring's program decide about frames, if it has one. Those that it lets pass stay.
///
/// Next   [`Next::Output`].
/// Drops  [`DropReason::XdpDrop`], [`DropReason::XdpAborted`], [`DropReason::XdpRedirect`].
#[cold]
#[inline(never)]
pub(super) fn run_program(cpu: &mut Cpu, ring: &mut Ring, frames: &mut PktVec) {
    let Ring { ifindex, queue, hooks: Some(hooks), .. } = ring else { return };
    let Hooks { program: Some(program), passed, .. } = &mut **hooks else { return };
    let (ifindex, now) = (*ifindex, cpu.now);
    let occasion = Occasion { now, ifindex, queue: *queue, cpu: cpu.id.0 };
    frames.take_each(|_, mut pkt| {
        let len = pkt.len();
        let verdict = program.run(&occasion, &mut pkt);
        if verdict == Verdict::Pass {
            return push(cpu, passed, pkt);
        }
        count_received(cpu, ifindex, 1, len);
        pkt.rcvif = ifindex;
        match verdict {
            Verdict::Drop | Verdict::Pass => cpu.drop_pkt(pkt, DropReason::XdpDrop),
            Verdict::Aborted => cpu.drop_pkt(pkt, DropReason::XdpAborted),
            Verdict::Tx => send(cpu, pkt, ifindex),
            Verdict::Redirect(to) => send(cpu, pkt, to),
        }
    });
    core::mem::swap(frames, passed);
}

/// Sends a frame by a device, as it is.
fn send(cpu: &mut Cpu, mut pkt: Pkt, outif: IfIndex) {
    let takes = cpu.tables.ifnet(outif).is_some_and(|ifnet| {
        let is_ethernet = ifnet.kind.is_device() && !ifnet.kind.is_point_to_point();
        let longest = ifnet.mtu as usize + HEADER_LEN + TAG_LEN;
        is_ethernet && ifnet.up && (pkt.len() <= longest || pkt.gso != pkt::Gso::None)
    });
    if !takes {
        return cpu.drop_pkt(pkt, DropReason::XdpRedirect);
    }
    pkt.outif = outif;
    dispatch(cpu, pkt, Next::Output);
}

/// Shows frames to a sink, and ends them.
///
/// Drops  [`DropReason::Monitor`].
fn sink_all(cpu: &mut Cpu, ifindex: IfIndex, sink: &mut dyn Sink, frames: &mut PktVec) {
    count_received(cpu, ifindex, frames.len(), frames.iter().map(Pkt::len).sum());
    sink.frames(cpu.now, frames);
    cpu.counters.drop_many(DropReason::Monitor, frames.len() as u64);
    frames.drain().for_each(|pkt| cpu.pool.give(pkt));
}

#[cfg(test)]
mod tests;
