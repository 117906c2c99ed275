//! One state: two cache lines.

use wire::tcp::Flags;

use super::key::{End, Flow, Key};
use super::tcp::{Phase, Track};
use crate::base::collections::wheel::{Linked, Links, NIL};
use crate::firewall::ruleset::{FlowId, RuleId};

/// The kind of a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// `keep-state`.
    #[default]
    Keep,
    /// `limit`.
    Limit,
    /// `rdr`: the state of the flow as it came.
    RedirectMaster,
    /// `rdr`: the state of the flow as it went on.
    RedirectSlave,
}

impl Kind {
    /// Seconds by which such a state outlives what its flow is about: so a slave waits for its master's end.
    pub(super) const fn grace(self) -> u32 {
        /// States whose lives are over are looked for once a second, in slots of a quarter.
        const GRACE: u32 = 2;
        if matches!(self, Self::RedirectSlave) { GRACE } else { 0 }
    }
}

/// Which way a packet goes, as seen from the one that made the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// As that one.
    Forward,
    /// Towards its sender.
    Reverse,
}

/// The state of a flow.
#[derive(Clone, Debug)]
#[repr(C, align(128))]
pub struct State {
    pub(super) key: Key,
    /// The rule that made it.
    pub rule: RuleId,
    /// Its name.
    pub flow: FlowId,
    /// Kind of state.
    pub kind: Kind,
    /// Bits of [`bits`].
    pub(super) bits: u8,
    /// When its life ends: milliseconds since the start, the lower half.
    pub(super) expires: u32,
    /// Link, by kind: the number of its membership in a track; or of its pair.
    pub link: u32,
    /// Packets of both directions.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    pub(super) tcp: Track,
    /// Which of all states of the CPU it is, counted from 1, the lower half; 0 once it is gone.
    pub(super) serial: u32,
    pub(super) links: Links,
    /// While it is half-open: the one that is older, and the one that is newer.
    pub(super) half_open: [u32; 2],
}

const _: () = assert!(size_of::<State>() <= 128);

/// Flags of [`State::bits`].
pub(super) mod bits {
    /// Its first packet went from the higher end to the lower one.
    pub(in super::super) const DOWNWARD: u8 = 1;
    /// A packet went in the other direction.
    pub(in super::super) const ANSWERED: u8 = 2;
    /// It was made of what had been redirected.
    pub(in super::super) const REDIRECTED: u8 = 4;
    /// It is among the half-open ones.
    pub(in super::super) const HALF_OPEN: u8 = 8;
    /// From this bit on: the number of the connection's phase.
    pub(in super::super) const STAGE: u8 = 4;
}

impl Default for State {
    fn default() -> Self {
        Self {
            key: Key::default(),
            rule: RuleId::default(),
            flow: FlowId::DEFAULT,
            kind: Kind::Keep,
            bits: 0,
            expires: 0,
            link: NIL,
            packets: 0,
            bytes: 0,
            tcp: Track::default(),
            serial: 0,
            links: Links::default(),
            half_open: [NIL; 2],
        }
    }
}

impl Linked for State {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl State {
    /// The flow, as the packet that made the state names it.
    #[must_use]
    pub const fn creator(&self) -> Flow {
        Flow { key: self.key, is_downward: self.bits & bits::DOWNWARD != 0 }
    }

    /// Returns source and destination of the first packet.
    #[must_use]
    pub const fn ends(&self) -> [End; 2] {
        self.creator().ends()
    }

    /// Returns the phase of its connection, if it is TCP.
    #[must_use]
    pub const fn phase(&self) -> Option<Phase> {
        if self.is_tcp() { Some(self.stage()) } else { None }
    }

    /// Returns the flags that were seen of its connection, if it is TCP.
    pub(super) fn tcp_flags(&self) -> Option<Flags> {
        self.is_tcp().then(|| self.tcp.flags())
    }

    /// Which way a packet of its flow goes.
    #[inline]
    #[must_use]
    pub const fn direction(&self, flow: &Flow) -> Direction {
        let is_same = flow.is_downward == (self.bits & bits::DOWNWARD != 0);
        if is_same { Direction::Forward } else { Direction::Reverse }
    }

    /// Returns the phase of [`State::tcp`] at its last change.
    #[inline]
    pub(super) const fn stage(&self) -> Phase {
        const STAGES: [Phase; 8] = [
            Phase::Unknown,
            Phase::Opening,
            Phase::Established,
            Phase::Closing,
            Phase::Closed,
            Phase::Reset,
            Phase::Reset,
            Phase::Reset,
        ];
        STAGES[(self.bits >> bits::STAGE) as usize % STAGES.len()]
    }

    /// Whether its connection is closed by both ends, acknowledged or not, or reset.
    #[inline]
    pub(super) const fn is_closed_by_both(&self) -> bool {
        self.bits >> bits::STAGE >= Phase::Closing as u8
    }

    pub(super) const fn set_stage(&mut self, stage: Phase) {
        self.bits = self.bits & !(7 << bits::STAGE) | (stage as u8) << bits::STAGE;
    }

    /// Counts a packet of so many bytes, so many times.
    #[inline]
    pub(super) fn count(&mut self, direction: Direction, times: u8, bytes: u32) {
        self.packets = self.packets.wrapping_add(times.into());
        self.bytes = self.bytes.wrapping_add(u64::from(times) * u64::from(bytes));
        self.bits |= if direction == Direction::Reverse { bits::ANSWERED } else { 0 };
    }

    #[inline]
    pub(super) const fn is_tcp(&self) -> bool {
        self.key.proto() == wire::Protocol::TCP.0
    }

    /// Milliseconds that are left of its life; 0 or less if it is over.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the lower half; lives are shorter than half of its range"
    )]
    pub(super) const fn left_ms(&self, now_ms: u64) -> i32 {
        self.expires.wrapping_sub(now_ms as u32).cast_signed()
    }

    /// Tells whether the state is expendable: expired, or its connection closed.
    pub(super) fn is_spent(&self, now_ms: u64) -> bool {
        self.left_ms(now_ms) <= 0 || matches!(self.phase(), Some(Phase::Closed | Phase::Reset))
    }
}

impl Direction {
    /// 0 forward, 1 reverse.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The other one.
    #[must_use]
    pub const fn reversed(self) -> Self {
        match self {
            Self::Forward => Self::Reverse,
            Self::Reverse => Self::Forward,
        }
    }
}
