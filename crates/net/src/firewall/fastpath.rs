//! A chunk of packets at a hook: in one go what nearly all of them meet, a state or a rule that only allows or denies.
//! All else walks the rules, each for itself.

use ipfw::rule::Hook;
use pkt::Pkt;

use super::Firewall;
use super::flow_match;
use super::hook::is_own;
use super::pkt_info::PktInfo;
use super::ruleset::{FlowId, Plain, RuleId, Seen as Asked};
use super::state::{Direction, Flow, Hash, Mark, New, Seen};
use super::trace::Trace;
use super::walk::Walk;
use crate::base::collections::index::Place;
use crate::base::drop::DropReason;
use crate::base::time::Instant;
use crate::ip::l4;
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;
use crate::turn::netisr::{CHUNK, bits};
use crate::turn::next::{Next, Resume};

/// State of the packets of a chunk, by position.
pub(super) struct Chunk {
    /// One more than there are positions: for packets that are none of the chunk.
    traces: [Trace; CHUNK + 1],
    /// Whether they are read: packets may meet other hooks, or make an entry of the flow cache.
    is_traced: bool,
    flows: [Flow; CHUNK],
    hashes: [Hash; CHUNK],
    places: [Place; CHUNK],
    /// Packets whose flow and hash are known.
    usual: u64,
    /// The packet in hand.
    at: usize,
}

impl Chunk {
    pub(super) fn new() -> Self {
        Self {
            traces: [Trace::default(); CHUNK + 1],
            is_traced: true,
            flows: [Flow::default(); CHUNK],
            hashes: [Hash::default(); CHUNK],
            places: [Place::default(); CHUNK],
            usual: 0,
            at: CHUNK,
        }
    }

    /// Returns the trace of the packet in hand.
    #[inline]
    pub(super) fn trace(&mut self) -> &mut Trace {
        &mut self.traces[self.at.min(CHUNK)]
    }

    /// A packet that is none of a chunk has met nothing yet.
    pub(super) const fn begin_alone(&mut self) {
        self.traces[CHUNK] = Trace::NOTHING;
    }

    /// The state that has judged the packet in hand at a hook before, in this turn.
    pub(super) fn judge_of(&self) -> Option<Mark> {
        let trace = self.traces.get(self.at).filter(|_| self.is_traced && self.at < CHUNK)?;
        (trace.how.times() > 0).then_some(trace.known.state)
    }

    /// The flow of the packet in hand, if it is known.
    #[inline]
    fn flow(&self) -> Option<(&Flow, Hash)> {
        let is_known = self.at < CHUNK && self.usual >> self.at & 1 != 0;
        is_known.then(|| (&self.flows[self.at % CHUNK], self.hashes[self.at % CHUNK]))
    }
}

impl Firewall {
    /// Another chunk, of so many packets, which have met nothing yet. Traces are kept if anything reads them: another hook
    /// that the packets meet together, the flow cache, or a trace of one packet.
    pub(crate) fn begin(&mut self, packets: usize, is_traced: bool) {
        self.chunk.is_traced = is_traced;
        if is_traced {
            self.chunk.traces.iter_mut().take(packets).for_each(|trace| *trace = Trace::NOTHING);
        }
    }

    /// Returns the trace of the packet at this position of the chunk.
    pub(crate) const fn trace_of(&self, at: usize) -> &Trace {
        &self.chunk.traces[at % CHUNK]
    }

    /// Returns the trace at a position, or of a packet that is none of the chunk.
    pub(super) fn trace_at(&self, at: usize) -> &Trace {
        &self.chunk.traces[at.min(CHUNK)]
    }

    /// Whether packets take no short ways: where flows are redirected, their states are looked for first; and tests
    /// compare short ways with this.
    #[inline]
    fn only_walks(&self) -> bool {
        #[cfg(test)]
        if self.only_walks {
            return true;
        }
        self.rules.redirects() || self.states.has_pairs()
    }

    /// Judges the packets at the positions that have a bit in `which`; where those are sent that do not go on, stands in
    /// `next` then. Answers which go on.
    pub(super) fn judge_all(
        &mut self,
        cpu: &mut Cpu,
        hook: Hook,
        pkts: &mut [Pkt],
        next: &mut [Next; CHUNK],
        which: u64,
    ) -> u64 {
        let Some(is_ip4) = pkts.first().map(l4::is_ip4) else { return 0 };
        let mut passing = which;
        self.chunk.usual = 0;
        let may_look = !self.only_walks() && !self.states.is_empty();
        match self.rules.looks_first(hook, is_ip4).filter(|_| may_look) {
            Some(name) => self.judge_flows(cpu, hook, pkts, next, &mut passing, name),
            None => {
                for at in 0..pkts.len() {
                    self.judge_at(cpu, hook, at, pkts, next, &mut passing);
                }
            }
        }
        self.chunk.at = CHUNK;
        passing
    }

    /// Judges the packets where rules begin with a state lookup under this name.
    fn judge_flows(
        &mut self,
        cpu: &mut Cpu,
        hook: Hook,
        pkts: &mut [Pkt],
        next: &mut [Next; CHUNK],
        passing: &mut u64,
        name: FlowId,
    ) {
        let known = if hook == Hook::Ingress { 0 } else { self.meet_again(pkts, *passing, name, cpu.now) };
        let mut left = *passing & !known;
        if left == 0 {
            return;
        }
        self.look_ahead(pkts, left, hook);
        while let Some(at) = self.by_states(cpu, pkts, left, name) {
            self.judge_at(cpu, hook, at, pkts, next, passing);
            left &= u64::MAX << at << 1;
        }
    }

    /// Judges one packet, if it is among those that pass so far.
    #[inline]
    fn judge_at(
        &mut self,
        cpu: &mut Cpu,
        hook: Hook,
        at: usize,
        pkts: &mut [Pkt],
        next: &mut [Next; CHUNK],
        passing: &mut u64,
    ) {
        let (Some(pkt), Some(next)) = (pkts.get_mut(at), next.get_mut(at)) else { return };
        if *passing >> at & 1 == 0 || is_own(pkt, hook) {
            return;
        }
        self.chunk.at = at;
        if let Some(to) = self.judge(cpu, pkt, hook) {
            (*next, *passing) = (to, *passing & !(1 << at));
        }
    }

    /// Lets those pass that have met their states at another hook of this turn, and would meet them here. Answers which.
    fn meet_again(&mut self, pkts: &[Pkt], which: u64, name: FlowId, now: Instant) -> u64 {
        let Self { chunk, states, counters, .. } = self;
        let mut known = 0;
        for ((at, pkt), trace) in pkts.iter().enumerate().zip(&mut chunk.traces) {
            if which >> at & 1 == 0 || !trace.is_inside {
                continue;
            }
            let bytes = len(pkt);
            let Some(rule) = states.count_again(trace.known.state, name, bytes) else { continue };
            counters.count_later(rule, bytes.into(), now);
            trace.meet_again(rule);
            known |= 1 << at;
        }
        known
    }

    /// Fetches the states of packets, as far as these are usual.
    fn look_ahead(&mut self, pkts: &[Pkt], which: u64, hook: Hook) {
        let Chunk { flows, hashes, places, usual, .. } = &mut *self.chunk;
        for at in bits(which) {
            let Some(pkt) = pkts.get(at).filter(|pkt| !is_own(pkt, hook)) else { continue };
            if let Some(flow) = Flow::usual(pkt) {
                (hashes[at % CHUNK], places[at % CHUNK]) = self.states.hash_ahead(&flow);
                flows[at % CHUNK] = flow;
                *usual |= 1 << at;
            }
        }
        for at in bits(*usual) {
            self.states.fetch(&mut hashes[at % CHUNK], places[at % CHUNK]);
        }
    }

    /// Lets those of the packets that are `left` pass that are usual, and whose states have been made by a rule that does
    /// no more. Answers the first of which that cannot be said, and to which nothing has happened: what it does to its state
    /// comes before what those behind it do.
    fn by_states(&mut self, cpu: &Cpu, pkts: &mut [Pkt], left: u64, name: FlowId) -> Option<usize> {
        let Self { chunk, states, counters, rules, .. } = self;
        let Chunk { traces, is_traced, flows, hashes, usual, .. } = &mut **chunk;
        // Most packets hit states that the same rule has made.
        let (mut rule, mut packets, mut bytes) = (RuleId::default(), 0, 0);
        let mut stop = None;
        for at in bits(left) {
            let Some(pkt) = pkts.get_mut(at).filter(|_| *usual >> at & 1 != 0) else {
                stop = Some(at);
                break;
            };
            let (flow, hash) = (&flows[at % CHUNK], hashes[at % CHUNK]);
            let judge = if *is_traced { traces[at % CHUNK].known.state } else { Mark::NONE };
            let passes = |id: RuleId| packets > 0 && id == rule || rules.passes(id);
            let Some(hit) = states.hit_usual(flow, (hash, judge), name, pkt, cpu.now, passes) else {
                stop = Some(at);
                break;
            };
            pkt.set_note(hit.note());
            if hit.rule != rule {
                if packets > 0 {
                    counters.count_many_later(rule, packets, bytes, cpu.now);
                }
                (rule, packets, bytes) = (hit.rule, 0, 0);
            }
            (packets, bytes) = (packets.wrapping_add(1), bytes.wrapping_add(hit.bytes.into()));
            if *is_traced {
                let trace = &mut traces[at % CHUNK];
                trace.meet(hit.rule);
                trace.hit(hit.mark, hit.direction, true);
                trace.holds &= name != FlowId::ANY;
            }
        }
        if packets > 0 {
            counters.count_many_later(rule, packets, bytes, cpu.now);
        }
        stop
    }

    /// Whether a packet that is none of a chunk passes because of its state, and has been taken into account there: as in
    /// [`Self::by_states`].
    pub(super) fn passes_alone(&mut self, pkt: &Pkt, hook: Hook, now: Instant) -> bool {
        if self.only_walks() || self.states.is_empty() {
            return false;
        }
        let Self { states, counters, rules, .. } = self;
        let Some(name) = rules.looks_first(hook, l4::is_ip4(pkt)) else { return false };
        if let Some(note) = pkt.note()
            && let Some(hit) = states.hit_noted(note, name, pkt, now, |rule| rules.passes(rule))
        {
            counters.count_later(hit.rule, hit.bytes.into(), now);
            return true;
        }
        let Some(flow) = Flow::usual(pkt) else { return false };
        let (mut hash, place) = states.hash_ahead(&flow);
        states.fetch(&mut hash, place);
        let passes = |rule: RuleId| rules.passes(rule);
        let hit = states.hit_usual(&flow, (hash, Mark::NONE), name, pkt, now, passes);
        let Some(hit) = hit else { return false };
        counters.count_later(hit.rule, hit.bytes.into(), now);
        true
    }

    /// Where a packet goes from a hook that is none of a chunk, and does not [pass](Self::passes_alone) because of its
    /// state. `None`: it goes on.
    #[cold]
    pub(super) fn judge_alone(&mut self, cpu: &mut Cpu, pkt: &mut Pkt, hook: Hook) -> Option<Next> {
        let next = self.judge(cpu, pkt, hook);
        self.counters.settle();
        next
    }

    /// Where the packet in hand goes from a hook. `None`: it goes on.
    #[inline]
    fn judge(&mut self, cpu: &mut Cpu, pkt: &mut Pkt, hook: Hook) -> Option<Next> {
        let xmit = if matches!(hook, Hook::Forward | Hook::Egress) { pkt.outif } else { 0 };
        if let Some(begun) = self.begin_flow(cpu, pkt, hook, xmit) {
            return begun.err().map(Next::Drop);
        }
        let Ok(mut info) = PktInfo::read(pkt, hook, pkt.rcvif, xmit) else {
            return Some(Next::Drop(DropReason::FirewallBogus));
        };
        info.tag = pkt.tag;
        if info.is_icmp()
            && let Some(owner) = self.elsewhere(cpu, pkt, &info)
        {
            pkt.resume = if info.is_ip4 { Resume::Ip4 } else { Resume::Ip6 } as u8;
            return Some(Next::HandOff(owner));
        }
        if self.must_be_whole(&info) {
            return Some(Next::Reassemble);
        }
        let probe = self.rules.probe_from(0);
        if probe == Some(0) || self.only_walks() {
            return self.walk_all(cpu, pkt, &info, None);
        }
        let mut asked = Asked::default();
        let first = self.rules.first(&info, pkt, &cpu.tables, 0, &mut asked);
        let rule =
            first.filter(|at| probe.is_none_or(|probe| *at < probe)).and_then(|at| self.rules.rule(at));
        let Some((plain, id)) = rule.and_then(|rule| Some((rule.certainly?, rule.id))) else {
            return self.walk_all(cpu, pkt, &info, Some((first, asked)));
        };
        self.counters.count_later(id, pkt.len() as u64, cpu.now);
        let trace = self.chunk.trace();
        trace.meet(id);
        trace.holds &= asked.is_pure;
        match plain {
            Plain::Pass => None,
            Plain::Die => Some(Next::Drop(DropReason::FirewallDeny)),
        }
    }

    /// Makes the state of a usual packet in hand whose flow has none, or one that is over, if the rule that it matches does
    /// that and no more, and only `check-state` is asked before. `None`, and nothing has changed, if it is otherwise.
    #[inline]
    fn begin_flow(
        &mut self,
        cpu: &mut Cpu,
        pkt: &mut Pkt,
        hook: Hook,
        xmit: IfIndex,
    ) -> Option<Result<(), DropReason>> {
        let Self { rules, states, chunk, counters, .. } = self;
        let (flow, hash) = chunk.flow()?;
        let probe = rules.probe_from(0)?;
        let mut info = PktInfo::usual(pkt, hook, pkt.rcvif, xmit)?;
        info.tag = pkt.tag;
        let looks = rules.only_lists(probe, &info);
        let from = probe + usize::from(looks);
        let mut asked = Asked::default();
        let at = rules.first(&info, pkt, &cpu.tables, from, &mut asked)?;
        let rule = rules.rule(at).filter(|rule| rule.only_keeps)?;
        let seen = Seen::of_flow(&flow.key, pkt);
        if !states.makes_way(flow, hash, rule.flow, &seen, cpu.now, &mut cpu.counters) {
            return None;
        }
        let new = New { rule: rule.id, flow: rule.flow, ..New::default() };
        match states.install_new(flow, hash, new, &seen, cpu.now, &mut cpu.counters) {
            Ok(id) => pkt.set_note(states.mark(id).noted(Direction::Forward)),
            Err(refused) => return Some(Err(flow_match::reason(cpu, refused))),
        }
        if let Some(looking) = rules.rule(probe).filter(|_| looks) {
            counters.count(looking.id, 1, seen.bytes.into(), cpu.now);
        }
        counters.count(rule.id, 1, seen.bytes.into(), cpu.now);
        chunk.trace().meet(rule.id);
        // What the flow's later packets meet, they find out.
        chunk.trace().holds = false;
        Some(Ok(()))
    }

    /// Judges by walking the rules; the first match may be known already.
    #[inline(never)]
    pub(super) fn walk_all(
        &mut self,
        cpu: &mut Cpu,
        pkt: &mut Pkt,
        info: &PktInfo,
        found: Option<(Option<usize>, Asked)>,
    ) -> Option<Next> {
        let mut walk = Walk::new(*info, None);
        if let Some((first, asked)) = found {
            walk = walk.having_found(first, asked);
        }
        let hook = info.hook;
        let is_alike = !self.only_walks();
        self.chunk.trace().holds &= is_alike;
        let verdict = self.walk(cpu, pkt, walk);
        self.next(verdict, hook)
    }
}

#[inline]
fn len(pkt: &Pkt) -> u32 {
    u32::try_from(pkt.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
