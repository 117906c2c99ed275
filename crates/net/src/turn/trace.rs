//! Traces: the ways of single packets through the stack, step by step.
//!
//! A packet that is traced goes through the same passes as a chunk, alone, and what each has done is noted behind it. Without a
//! trace, a chunk costs one comparison ([`Cpu::watched`](crate::turn::cpu::Cpu::watched)). A [dry run](dry) lets a packet
//! that is not sent go the same way, with a copy of what its flow has left behind in place of the original.

pub mod dry;
mod headers;

use core::net::IpAddr;

use pkt::Pkt;
use wire::bpf::{Insn, Packet, Program};
use wire::ether::{EtherType, HEADER_LEN, Mac};

pub use self::headers::Headers;
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::base::ids::IfIndex;
use crate::base::time::Instant;
use crate::fib::{FibIndex, HopId, To, flow_hash};
use crate::firewall::{Asked, Firewall};
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::deliver;
pub use crate::turn::deliver::Recipient;
use crate::turn::next::{Next, Resume};

/// Traces that a CPU keeps until they are read; later ones are lost, and counted.
pub const TRACES_MAX: usize = 64;
/// Steps of a trace; later ones are left out.
pub const STEPS_MAX: usize = 64;
/// Bytes of its packet that a trace keeps.
pub const SNAP_MAX: usize = 128;

/// The way of a packet on one CPU.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The CPU.
    pub cpu: CpuId,
    /// When the turn began.
    pub at: Instant,
    /// The interface that it came in by; 0 if it was made here.
    pub rcvif: IfIndex,
    /// Whether it begins with its link header.
    pub is_frame: bool,
    /// Whether another CPU has handed it over.
    pub is_handed_over: bool,
    /// Its bytes, as many as are kept.
    pub bytes: Vec<u8>,
    /// Their number.
    pub len: usize,
    /// The steps, with the clock when each was over, and the clock when the first began.
    pub steps: Vec<(Step, u64)>,
    /// The clock when the first step began.
    pub began: u64,
}

impl Trace {
    /// Returns the type of the packet, and its bytes without link header and VLAN tags; `None` if they are not kept.
    #[must_use]
    pub fn network(&self) -> Option<(EtherType, &[u8])> {
        if !self.is_frame {
            let is_ip4 = self.bytes.first()? >> 4 == 4;
            return Some((if is_ip4 { EtherType::IPV4 } else { EtherType::IPV6 }, &self.bytes));
        }
        let (_, mut rest) = self.bytes.split_at_checked(HEADER_LEN - 2)?;
        loop {
            let (ethertype, behind) = rest.split_first_chunk()?;
            let ethertype = EtherType(u16::from_be_bytes(*ethertype));
            if !ethertype.is_tag() {
                return Some((ethertype, behind));
            }
            // The tag's number of the VLAN.
            rest = behind.get(2..)?;
        }
    }

    /// Returns its headers, if it is an IP packet and they are kept.
    #[must_use]
    pub fn headers(&self) -> Option<Headers> {
        let (ethertype, bytes) = self.network()?;
        let is_ip = matches!(ethertype, EtherType::IPV4 | EtherType::IPV6);
        Headers::of_bytes(bytes).filter(|_| is_ip)
    }
}

/// A step of a packet.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Rules were asked at a hook.
    Hook(Asked),
    /// A rule has given it other addresses or ports.
    Changed(Headers),
    /// Its destination was looked up.
    Route {
        /// The number of the routing table.
        fib: FibIndex,
        /// The destination.
        dst: IpAddr,
        /// Where the route leads; of several next hops, the one of its flow.
        to: To,
    },
    /// It goes on, or ends, in a place that is not the usual next one.
    Next(Next),
    /// It was for this host.
    Local {
        /// Its headers.
        headers: Headers,
        /// Its recipient.
        recipient: Recipient,
    },
    /// It waits for the link address of its next hop, which is asked for.
    Held {
        /// The link's interface.
        ifindex: IfIndex,
        /// The next hop.
        next_hop: IpAddr,
    },
    /// It is in an output queue, as a whole frame.
    Queued {
        /// The interface.
        outif: IfIndex,
        /// Packets of that queue, this one included.
        packets: usize,
    },
    /// In a dry run: the frame that would leave.
    Frame {
        /// The interface.
        outif: IfIndex,
        /// Destination.
        dst: Mac,
        /// Source.
        src: Mac,
        /// Its IP headers, if it has any.
        headers: Option<Headers>,
        /// Bytes, the link header included.
        len: usize,
        /// Packets that wait there now.
        waiting: usize,
    },
    /// It was dropped.
    Dropped(DropReason),
    /// Counters that have counted meanwhile.
    Counted(Vec<(Count, u64)>),
}

/// The tracer of a CPU.
pub struct Tracer {
    filter: Option<Program<Box<[Insn]>>>,
    /// Packets that are still to be traced.
    left: u32,
    clock: fn() -> u64,
    done: Vec<Trace>,
    lost: u64,
    current: Option<Current>,
    /// Bytes of a packet that lies in several buffers, or has no link header.
    contiguous: Vec<u8>,
    dry: Option<Dry>,
}

/// The packet in hand.
struct Current {
    trace: Trace,
    /// The CPU that its addresses and ports place it on.
    owner: Option<CpuId>,
    /// Packets of each output queue before.
    queued: Vec<(IfIndex, usize)>,
    counts: Vec<u64>,
}

/// A dry run.
#[derive(Default)]
struct Dry {
    /// The firewall that is not to notice.
    firewall: Option<Box<Firewall>>,
}

/// Another tracer is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// Begins to trace `count` packets that `filter` matches, which is about frames; `clock` says how long steps take.
///
/// # Errors
///
/// [`Busy`].
pub fn attach(
    cpu: &mut Cpu,
    filter: Option<Program<Box<[Insn]>>>,
    count: u32,
    clock: fn() -> u64,
) -> Result<(), Busy> {
    if cpu.tracer.is_some() {
        return Err(Busy);
    }
    cpu.tracer = Some(Box::new(Tracer { filter, left: count, ..Tracer::new(clock) }));
    cpu.watched = true;
    Ok(())
}

/// Returns the traces since the last call, and how many were lost since the beginning; `None` if no tracer is attached.
pub fn take(cpu: &mut Cpu) -> Option<(Vec<Trace>, u64)> {
    let tracer = cpu.tracer.as_mut()?;
    Some((core::mem::take(&mut tracer.done), tracer.lost))
}

/// Ends tracing.
pub fn detach(cpu: &mut Cpu) {
    cpu.tracer = None;
    cpu.watched = cpu.is_watched();
}

impl Tracer {
    fn new(clock: fn() -> u64) -> Self {
        let (done, contiguous) = (Vec::new(), Vec::new());
        Self { filter: None, left: 0, clock, done, lost: 0, current: None, contiguous, dry: None }
    }

    fn is_wanted(&mut self, pkt: &Pkt, is_frame: bool) -> bool {
        if self.left == 0 {
            return false;
        }
        let Some(filter) = &self.filter else { return true };
        self.contiguous.clear();
        if !is_frame {
            let ethertype = if pkt.window(0)[0] >> 4 == 4 { EtherType::IPV4 } else { EtherType::IPV6 };
            self.contiguous.resize(HEADER_LEN - 2, 0);
            self.contiguous.extend_from_slice(&ethertype.0.to_be_bytes());
        }
        pkt.fragments().for_each(|bytes| self.contiguous.extend_from_slice(bytes));
        let len = u32::try_from(self.contiguous.len()).unwrap_or(u32::MAX);
        filter.run(&Packet { bytes: &self.contiguous, len, is_outgoing: false }) > 0
    }

    fn begin(&mut self, mut trace: Trace, queued: Vec<(IfIndex, usize)>, counts: Vec<u64>) {
        trace.began = (self.clock)();
        self.current = Some(Current { trace, owner: None, queued, counts });
    }

    fn note(&mut self, step: Step) {
        let at = (self.clock)();
        if let Some(current) = self.current.as_mut().filter(|current| current.trace.steps.len() < STEPS_MAX) {
            current.trace.steps.push((step, at));
        }
    }
}

/// A packet is about to go its way alone; it is traced if it is wanted. `rcvif`: the ring's interface, if it is a frame of one.
pub(crate) fn begin(cpu: &mut Cpu, pkt: &Pkt, rcvif: Option<IfIndex>) {
    let resume = Resume::place(pkt.resume);
    let is_frame = rcvif.is_some() || matches!(resume, None | Some(Next::Output | Next::Arp));
    let Some(tracer) = cpu.tracer.as_mut() else { return };
    if !tracer.is_wanted(pkt, is_frame) {
        return;
    }
    tracer.left -= 1;
    let (queued, counts) = (cpu.ifqs.waiting(), counts(cpu));
    let trace =
        Trace { is_handed_over: rcvif.is_none(), ..of(cpu, pkt, rcvif.unwrap_or(pkt.rcvif), is_frame) };
    let owner = trace.headers().map(|headers| cpu.placement.owner(headers.hash()));
    if let Some(tracer) = cpu.tracer.as_mut() {
        tracer.begin(trace, queued, counts);
        tracer.current.iter_mut().for_each(|current| current.owner = owner);
    }
}

/// The packet has gone as far as it goes in this pass.
pub(crate) fn end(cpu: &mut Cpu) {
    let is_traced = cpu.tracer.as_ref().is_some_and(|tracer| tracer.current.is_some());
    if !is_traced {
        return;
    }
    let (now, counts) = (cpu.ifqs.waiting(), counts(cpu));
    let Some(tracer) = cpu.tracer.as_mut() else { return };
    let Some(current) = &tracer.current else { return };
    let before =
        |index| current.queued.iter().find(|(at, _)| *at == index).map_or(0, |(_, packets)| *packets);
    let queued = now.into_iter().find(|(index, packets)| *packets > before(*index));
    let more: Vec<_> = counted(&current.counts, &counts);
    let owner = current.owner.filter(|_| current.trace.steps.is_empty());
    if let Some(owner) = owner.filter(|_| more.iter().any(|(count, _)| *count == Count::HandoffOut)) {
        tracer.note(Step::Next(Next::HandOff(owner)));
    }
    if let Some((outif, packets)) = queued {
        tracer.note(Step::Queued { outif, packets });
    }
    if !more.is_empty() {
        tracer.note(Step::Counted(more));
    }
    let Some(Current { trace, .. }) = tracer.current.take() else { return };
    if tracer.done.len() < TRACES_MAX {
        tracer.done.push(trace);
    } else {
        tracer.lost += 1;
    }
}

/// Notes a step of the packet in hand.
#[cold]
fn note(cpu: &mut Cpu, step: Step) {
    if let Some(tracer) = cpu.tracer.as_mut() {
        tracer.note(step);
    }
}

/// Whether the packet in hand is traced.
pub(crate) fn is_on(cpu: &Cpu) -> bool {
    cpu.tracer.as_ref().is_some_and(|tracer| tracer.current.is_some())
}

/// Notes what rules have done.
pub(crate) fn asked(cpu: &mut Cpu, asked: Asked, changed: Option<Headers>) {
    note(cpu, Step::Hook(asked));
    if let Some(headers) = changed {
        note(cpu, Step::Changed(headers));
    }
}

/// In a dry run, the firewall that remembers the packet's flow, and the one that is to know of it.
pub(crate) fn remembering(cpu: &mut Cpu) -> Option<(&mut Firewall, &mut Firewall)> {
    let Cpu { tracer, firewall, .. } = cpu;
    let real = tracer.as_mut()?.dry.as_mut()?.firewall.as_deref_mut()?;
    Some((real, firewall.as_deref_mut()?))
}

/// The destination of the packet in hand was looked up.
#[cold]
#[inline(never)]
pub(crate) fn routed(cpu: &mut Cpu, pkt: Option<&Pkt>, hop: HopId) {
    if !is_on(cpu) {
        return;
    }
    let Some((pkt, headers)) = pkt.and_then(|pkt| Some((pkt, Headers::read(pkt)?))) else { return };
    let member = cpu.tables.hops.member(hop, || flow_hash(pkt));
    let to = cpu.tables.hops.get(member).to;
    note(cpu, Step::Route { fib: cpu.tables.fib_of(pkt), dst: headers.dst, to });
}

/// The packet in hand goes where a stage says. Answers whether it ends there: in a dry run, where it would act on others.
#[cold]
#[inline(never)]
pub(crate) fn dispatched(cpu: &mut Cpu, next: Next) -> bool {
    if !is_on(cpu) {
        return false;
    }
    // The others have steps of their own.
    let is_seen = matches!(next, Next::Drop(_) | Next::Resolve | Next::Output | Next::Local4 | Next::Local6);
    if !is_seen {
        note(cpu, Step::Next(next));
    }
    let acts = matches!(
        next,
        Next::Arp
            | Next::Bridge
            | Next::Pppoe
            | Next::Punt
            | Next::FromTwin
            | Next::HandOff(_)
            | Next::Answer(_)
            | Next::Reset
            | Next::Away(_)
            | Next::Reassemble
            | Next::Wait
    );
    acts && is_dry(cpu)
}

/// The packet in hand has come to the protocol that it is for. Answers whether it ends here: in a dry run.
#[cold]
#[inline(never)]
pub(crate) fn local(cpu: &mut Cpu, pkt: &Pkt) -> bool {
    let headers = Headers::read(pkt).filter(|_| is_on(cpu));
    let Some(headers) = headers else { return false };
    let recipient = deliver::recipient(cpu, pkt.rcvif, &headers);
    note(cpu, Step::Local { headers, recipient });
    is_dry(cpu)
}

/// The link address of the packet's next hop is not known. Answers whether the packet ends here: in a dry run.
#[cold]
#[inline(never)]
pub(crate) fn held(cpu: &mut Cpu, ifindex: IfIndex, next_hop: IpAddr) -> bool {
    if !is_on(cpu) {
        return false;
    }
    note(cpu, Step::Held { ifindex, next_hop });
    is_dry(cpu)
}

/// Whether the packet in hand is not to be sent.
pub(crate) fn is_dry(cpu: &Cpu) -> bool {
    cpu.tracer.as_ref().is_some_and(|tracer| tracer.dry.is_some())
}

/// The packet in hand is dropped.
pub(crate) fn dropped(cpu: &mut Cpu, reason: DropReason) {
    if is_on(cpu) {
        note(cpu, Step::Dropped(reason));
    }
}

/// A trace without steps.
fn of(cpu: &Cpu, pkt: &Pkt, rcvif: IfIndex, is_frame: bool) -> Trace {
    let mut bytes = Vec::with_capacity(SNAP_MAX);
    for part in pkt.fragments() {
        let room = SNAP_MAX - bytes.len();
        bytes.extend_from_slice(part.get(..room).unwrap_or(part));
    }
    let (cpu, at, len) = (cpu.id, cpu.now, pkt.len());
    Trace { cpu, at, rcvif, is_frame, is_handed_over: false, bytes, len, steps: Vec::new(), began: 0 }
}

fn counts(cpu: &Cpu) -> Vec<u64> {
    Count::ALL.iter().map(|count| cpu.counters.get(*count)).collect()
}

/// The counters that differ, and by how much.
fn counted(before: &[u64], after: &[u64]) -> Vec<(Count, u64)> {
    let more =
        Count::ALL.iter().zip(before.iter().zip(after)).map(|(count, (b, a))| (*count, a.wrapping_sub(*b)));
    more.filter(|(_, more)| *more > 0).collect()
}

#[cfg(test)]
mod tests;
