use core::time::Duration;

use wire::Protocol;
use wire::tcp::Flags;

use super::*;
use crate::testkit::link::{FAMILIES, Family};

mod full;
mod half;
mod icmp;
mod keepalive;
mod life;
mod limit;
mod page;
mod sweep;
mod table;

const ANY: FlowId = FlowId::ANY;
const RULE: RuleId = RuleId { slot: 7, epoch: 1 };
const SYN: Flags = Flags::SYN;
const ACK: Flags = Flags::ACK;
const FIN: Flags = Flags(Flags::FIN.0 | Flags::ACK.0);
const RST: Flags = Flags::RST;
const SYN_ACK: Flags = Flags(Flags::SYN.0 | Flags::ACK.0);

/// One CPU's states, and a clock that the test holds.
struct World {
    states: States,
    now: Instant,
    counters: Counters,
    family: Family,
    /// Keepalives requested by the wheel.
    keepalives: Vec<Keepalive>,
}

/// Sequence numbers at which the ends of a test's connection begin.
const ISS: u32 = 0xffff_fff0;
const IRS: u32 = 5_000_000;

impl World {
    fn new(family: Family) -> Self {
        Self::with(family, Settings::default())
    }

    fn with(family: Family, settings: Settings) -> Self {
        let states = States::new(
            &Secret::new(7),
            settings,
            Loose::new(1),
            Limits::new(&Secret::new(8), 100),
            CpuId(0),
        );
        Self { states, now: Instant::START, counters: Counters::default(), family, keepalives: Vec::new() }
    }

    /// The flow from a client's port to a server.
    fn flow(&self, proto: Protocol, port: u16) -> Flow {
        let (client, server) = match self.family {
            Family::V4 => (0x0a00_0001, 0x0a00_0002),
            Family::V6 => (0x2001_0db8 << 96 | 1, 0x2001_0db8 << 96 | 2),
        };
        let ends = [End { addr: client, port }, End { addr: server, port: 80 }];
        Flow::new(self.family == Family::V4, proto.0, ends[0], ends[1])
    }

    fn install(&mut self, flow: Flow, seen: Seen) -> StateId {
        let hash = self.states.hash(&flow);
        let new = New { rule: RULE, ..New::default() };
        self.states.install(&flow, hash, new, &seen, self.now, &mut self.counters).unwrap()
    }

    fn hit(&mut self, flow: Flow, seen: Seen) -> Option<Hit> {
        let hash = self.states.hash(&flow);
        self.states.hit(&flow, hash, ANY, &seen, self.now, &mut self.counters)
    }

    /// Whole seconds that are left to a flow's state.
    fn left(&self, flow: Flow) -> Option<i32> {
        let id = self.states.find(&flow, self.states.hash(&flow), ANY, self.now)?;
        Some(self.states.get(id).unwrap().left_ms(ms(self.now)) / 1000)
    }

    fn phase(&self, flow: Flow) -> Option<Phase> {
        let id = self.states.find(&flow, self.states.hash(&flow), ANY, self.now)?;
        self.states.get(id).unwrap().phase()
    }

    /// Lets time pass, and the wheel turn whenever it asks for it.
    fn advance(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(deadline) = self.states.deadline().filter(|deadline| *deadline <= end) {
            self.now = self.now.max(deadline);
            self.states.tick(self.now, 64, &mut self.keepalives);
        }
        self.now = end;
    }

    fn seconds(&mut self, seconds: u64) {
        self.advance(Duration::from_secs(seconds));
    }

    /// A connection of port `port`, handshake and all.
    fn connect(&mut self, port: u16) -> Flow {
        let flow = self.flow(Protocol::TCP, port);
        self.install(flow, segment(SYN, ISS, 0, 0));
        self.hit(flow.reversed(), segment(SYN_ACK, IRS, ISS.wrapping_add(1), 0)).unwrap();
        self.hit(flow, segment(ACK, ISS.wrapping_add(1), IRS + 1, 0)).unwrap();
        flow
    }
}

/// A segment with `len` bytes of payload, a window of 10,000, and a scale of 2 if it is a SYN.
fn segment(flags: Flags, seq: u32, ack: u32, len: u32) -> Seen {
    let controls = u32::from(flags.syn()) + u32::from(flags.fin());
    let scale = flags.syn().then_some(2);
    let segment = Segment { flags, seq, ack, window: 10_000, len: len + controls, scale };
    Seen { bytes: 40 + len, segment: Some(segment) }
}

const DATAGRAM: Seen = Seen { bytes: 100, segment: None };
