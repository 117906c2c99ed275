//! The reference for per-CPU states: one table of all CPUs under a read-write lock.
//!
//! Packets read it, and what they change of a state (how far both ends have come, when it ends) are atomic words; a new
//! connection locks all others out. It does less than the firewall: it walks no rules, asks once, and sits in the
//! device, so that the stack need not be told.

use core::hash::BuildHasherDefault;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::collections::{HashMap, VecDeque};
use std::hash::DefaultHasher;
use std::sync::RwLock;

use pkt::{PktVec, Pool, VEC_MAX};
use wire::ether;
use wire::tcp::Flags;

use super::segments::PORT;

/// States that it has room for from the start.
const ROOM: usize = 1 << 18;
/// States that each new connection looks at, whether they have ended.
const SWEPT: usize = 2;
/// Milliseconds that a state lives: while the handshake lasts, then, and after both goodbyes.
const LIVES: [u64; 3] = [20_000, 300_000, 2000];

/// The table.
#[derive(Default)]
pub struct Locked {
    states: RwLock<States>,
    now_ms: AtomicU64,
}

type Hashed = BuildHasherDefault<DefaultHasher>;

#[derive(Default)]
struct States {
    by_key: HashMap<Key, State, Hashed>,
    /// All keys, the one that was looked at last at the end.
    order: VecDeque<Key>,
}

/// Both ends, the lower first.
type Key = [(u128, u16); 2];

#[derive(Default)]
struct State {
    ends_ms: AtomicU64,
    packets: AtomicU64,
    bytes: AtomicU64,
    /// Flags seen from either end, that of the key's first in the lower half.
    seen: AtomicU32,
    seq: [AtomicU32; 2],
    ack: [AtomicU32; 2],
}

/// The parsed part of a segment.
struct Segment {
    key: Key,
    /// Which end of the key it comes from.
    from: usize,
    to_port: u16,
    flags: u8,
    seq: u32,
    ack: u32,
    len: u64,
}

impl Locked {
    /// A table with room.
    #[must_use]
    pub fn new() -> Self {
        let by_key = HashMap::with_capacity_and_hasher(ROOM, Hashed::default());
        let states = RwLock::new(States { by_key, order: VecDeque::with_capacity(ROOM) });
        Self { states, now_ms: AtomicU64::new(0) }
    }

    /// Sets the time.
    pub fn set_time(&self, ms: u64) {
        self.now_ms.store(ms, Relaxed);
    }

    /// States that there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.states.read().map_or(0, |states| states.by_key.len())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes out what has no state and may make none, of the frames from `from` on.
    pub fn filter(&self, pool: &mut Pool, pkts: &mut PktVec, from: usize) {
        let mut passes = [true; VEC_MAX];
        for (pkt, passes) in pkts.iter().zip(&mut passes).skip(from) {
            *passes = Segment::read(pkt.head()).is_some_and(|segment| self.passes(&segment));
        }
        if passes.contains(&false) {
            // Only at the beginning, for segments of connections whose SYN was not seen.
            let mut kept = PktVec::new();
            pkts.take_each(|at, pkt| match passes.get(at) {
                Some(true) => kept.push(pkt).unwrap_or_else(|pkt| pool.give(pkt)),
                _ => pool.give(pkt),
            });
            *pkts = kept;
        }
    }

    fn passes(&self, segment: &Segment) -> bool {
        let now = self.now_ms.load(Relaxed);
        if let Ok(states) = self.states.read()
            && let Some(state) = states.by_key.get(&segment.key)
            && state.ends_ms.load(Relaxed) > now
        {
            state.hit(segment, now);
            return true;
        }
        let is_setup = Flags(segment.flags & (Flags::SYN.0 | Flags::ACK.0)) == Flags::SYN;
        is_setup && segment.to_port == PORT && self.install(segment, now)
    }

    fn install(&self, segment: &Segment, now: u64) -> bool {
        let Ok(mut states) = self.states.write() else { return false };
        for _ in 0..SWEPT {
            let Some(key) = states.order.pop_front() else { break };
            if states.by_key.get(&key).is_some_and(|state| state.ends_ms.load(Relaxed) > now) {
                states.order.push_back(key);
            } else {
                states.by_key.remove(&key);
            }
        }
        let state = State::default();
        state.hit(segment, now);
        if states.by_key.insert(segment.key, state).is_none() {
            states.order.push_back(segment.key);
        }
        true
    }
}

impl State {
    /// Takes a segment into account. One that goes back changes nothing.
    fn hit(&self, segment: &Segment, now: u64) {
        let Segment { from, flags, seq, ack, len, .. } = *segment;
        self.packets.fetch_add(1, Relaxed);
        self.bytes.fetch_add(len, Relaxed);
        let goes_back = |last: &AtomicU32, now: u32| last.load(Relaxed).wrapping_sub(now).cast_signed() > 0;
        let seen = self.seen.load(Relaxed);
        if seen != 0 && (goes_back(&self.seq[from], seq) || goes_back(&self.ack[from], ack)) {
            return;
        }
        self.seq[from].store(seq, Relaxed);
        self.ack[from].store(ack, Relaxed);
        let seen = seen | u32::from(flags) << (16 * from);
        self.seen.store(seen, Relaxed);
        let both = |flag: Flags| seen & seen >> 16 & u32::from(flag.0) != 0;
        let phase = usize::from(both(Flags::SYN)) + usize::from(both(Flags::FIN));
        self.ends_ms.store(now + LIVES[phase.min(2)], Relaxed);
    }
}

impl Segment {
    /// Reads a frame of TCP without options of IP.
    fn read(frame: &[u8]) -> Option<Self> {
        let packet = frame.get(ether::HEADER_LEN..)?;
        let (src, dst, tcp) = if packet.first()? >> 4 == 4 {
            let word = |at: usize| Some(u128::from(u32::from_be_bytes(*packet.get(at..)?.first_chunk()?)));
            (word(12)?, word(16)?, packet.get(20..)?)
        } else {
            let long = |at: usize| Some(u128::from_be_bytes(*packet.get(at..)?.first_chunk()?));
            (long(8)?, long(24)?, packet.get(40..)?)
        };
        let tcp: &[u8; 20] = tcp.first_chunk()?;
        let [a, b, c, d, ..] = *tcp;
        let (src, dst) = ((src, u16::from_be_bytes([a, b])), (dst, u16::from_be_bytes([c, d])));
        let word = |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
        Some(Self {
            key: if src < dst { [src, dst] } else { [dst, src] },
            from: usize::from(src > dst),
            to_port: dst.1,
            flags: tcp[13],
            seq: word(4),
            ack: word(8),
            len: frame.len() as u64,
        })
    }
}
