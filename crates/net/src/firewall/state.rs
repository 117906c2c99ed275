//! Flow states, each CPU for its own: for `keep-state`, `limit`, and redirections.
//!
//! Both directions of a flow belong to the same CPU, so its states have a single owner, and a lookup takes no lock: a bucket
//! of tags and the state itself, fetched ahead for a chunk of packets ([`States::prefetch`]). What a packet changes lies
//! in the state; that its life is longer now, the wheel finds out when it looks.
//!
//! ```text
//!   flow ──hash──▶ bucket │ 8 tags │ 8 numbers │      slot of the wheel
//!                             └ equal? ──▶ state ◀────────┘ looked at when its life may be over
//! ```

mod key;
mod entry;
mod install;
mod tcp;
mod approx_count;
mod evict;
mod half_open;
mod limit;
mod redirected;
mod sweep;
mod icmp_errors;
mod keepalive;
mod settings;
mod learn;
mod listing;
mod fastpath;

use core::hash::BuildHasher;
use std::sync::Arc;

use crate::base::count::{Count, Counters};
use crate::base::secret::Secret;
use crate::base::time::Instant;
use crate::firewall::ruleset::{FlowId, RuleId};
use crate::turn::cpu::CpuId;

pub use self::approx_count::Loose;
pub use self::entry::{Direction, Kind, State};
pub(crate) use self::fastpath::{Mark, answering};
pub use self::icmp_errors::Quoted;
pub use self::keepalive::Keepalive;
pub use self::key::{End, Flow, Key};
pub use self::limit::{Group, Limit, Limits};
pub use self::listing::{Listed, PLACES_PER_PAGE};
pub use self::redirected::{Pair, Parted};
pub use self::settings::{SettingError, Settings};
pub use self::sweep::Left;
pub use self::tcp::{Phase, Segment};

use self::approx_count::Share;
use self::evict::REAP_LOOKS;
use self::half_open::HalfOpen;
use self::limit::Tracks;
use self::settings::{KEEPALIVE_PERIOD, KEEPALIVE_SPAN};
use self::tcp::Judgement;
use crate::base::collections::index::{self, Index};
use crate::base::collections::slab::Slab;
use crate::base::collections::wheel::{self, Wheel, ms};

/// States are looked at so much later than they are due, at the most; and each at least every 256 s.
const WHEEL_SLOT_MS: u64 = 250;

/// One CPU's states.
pub struct States {
    slab: Slab<State>,
    index: Index,
    wheel: Wheel<WHEEL_SLOT_MS>,
    secret: [u64; 4],
    settings: Settings,
    share: Share,
    tracks: Tracks,
    half_open: HalfOpen,
    cpu: CpuId,
    /// Links between the states of redirected flows.
    pairs: Slab<Pair>,
    /// Masters that have gone whose slaves are on other CPUs, until these are told.
    parted: Vec<Parted>,
    /// States that are looked up together.
    found: Vec<u32>,
    /// The slot of time, a quarter of a second, in which nothing was found that could make room.
    in_vain: u64,
    /// States that have ever been made, and more: of the lower half, none is 0.
    serial: u64,
}

/// States of a group that are looked at, at the most, when its limit is reached.
const TRACK_LOOKS: usize = 256;
/// Bits of its number that a state stores; 0 is no state's.
const SERIAL: u64 = u32::MAX as u64;
/// Keepalives of one [`States::tick`].
const KEEPALIVES_MAX: usize = 8;

/// The number of a state, for as long as the turn lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StateId(u32);

impl Default for StateId {
    /// No state.
    fn default() -> Self {
        Self(wheel::NIL)
    }
}

/// The hash of a flow's key in the table.
#[derive(Clone, Copy, Debug)]
pub struct Hash {
    hash: u64,
    /// Number of the most likely state; it may be another's, or none, when it is checked.
    likely: u32,
}

impl Hash {
    /// Returns the hash with its most likely state.
    #[must_use]
    pub const fn likely(self, id: StateId) -> Self {
        Self { likely: id.0, ..self }
    }
}

impl Default for Hash {
    fn default() -> Self {
        Self { hash: 0, likely: wheel::NIL }
    }
}

/// The parts of a packet that its flow's state needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Bytes of the packet, its network header among them.
    pub bytes: u32,
    /// If it is TCP.
    pub segment: Option<Segment>,
}

/// A packet's state was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The state.
    pub id: StateId,
    /// The rule that made it, whose action is the packet's.
    pub rule: RuleId,
    /// Kind of state.
    pub kind: Kind,
    /// Which way the packet goes.
    pub direction: Direction,
    /// It is not within the connection's windows, and the settings say that such packets are denied.
    pub is_denied: bool,
}

/// A state to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct New {
    /// The rule that makes it.
    pub rule: RuleId,
    /// Its name.
    pub flow: FlowId,
    /// Kind of state.
    pub kind: Kind,
    /// If it is one of a limited number.
    pub limit: Option<Limit>,
    /// If it is one of the two of a redirected flow: what it knows of the other.
    pub pair: Option<Pair>,
}

/// Why there is no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateError {
    /// There are as many as may be, on all CPUs together.
    Full {
        /// The other CPUs were not asked yet in this second: ask them to [`States::reap`].
        ask_all: bool,
    },
    /// There are as many as the rule's limit allows.
    Limit,
    /// There are as many groups with a limit as may be.
    Tracks,
    /// There is no number left.
    NoMemory,
}

impl States {
    /// No states. All CPUs have the same `loose`, and the same `limits`.
    #[must_use]
    pub fn new(
        secret: &Secret,
        settings: Settings,
        loose: Arc<Loose>,
        limits: Arc<Limits>,
        cpu: CpuId,
    ) -> Self {
        let key = |n: usize| secret.hash_one(("state", n));
        Self {
            slab: Slab::new(),
            index: Index::new(),
            wheel: Wheel::new(),
            secret: core::array::from_fn(key),
            settings,
            share: Share::new(loose, cpu, &settings),
            tracks: Tracks::new(limits),
            half_open: HalfOpen::new(),
            cpu,
            pairs: Slab::new(),
            parted: Vec::new(),
            found: Vec::with_capacity(REAP_LOOKS),
            in_vain: 0,
            serial: 0,
        }
    }

    /// Returns the number of states, expired ones included until they are collected.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that states, groups and what finds them take; those of the wheel are always the same.
    #[must_use]
    pub fn memory(&self) -> usize {
        let states = self.slab.places() * size_of::<State>() + self.index.places() * index::BUCKET;
        states + self.pairs.places() * size_of::<Pair>() + self.tracks.memory()
    }

    /// Returns the settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Sets something else. Lives that have begun are as long as they are until the flow's next packet.
    pub fn configure(&mut self, settings: Settings) {
        self.share.configure(&settings);
        self.settings = settings;
    }

    /// Hashes the flows of a chunk of packets, and fetches what [`States::hit`] will read; by position.
    pub fn prefetch(&self, flows: &[Flow], hashes: &mut [Hash]) {
        if self.is_empty() {
            return;
        }
        for (flow, hash) in flows.iter().zip(&mut *hashes) {
            *hash = self.hash_ahead(flow).0;
        }
        for hash in hashes.iter_mut().take(flows.len()) {
            let place = self.index.prefetch(hash.hash);
            self.fetch(hash, place);
        }
    }

    /// The hash of one flow, where [`States::prefetch`] was not asked.
    #[inline]
    #[must_use]
    pub fn hash(&self, flow: &Flow) -> Hash {
        Hash { hash: flow.key.hash(&self.secret), likely: wheel::NIL }
    }

    /// The live state of a flow, of this name or of [any](FlowId::ANY).
    #[inline]
    #[must_use]
    pub fn find(&self, flow: &Flow, hash: Hash, name: FlowId, now: Instant) -> Option<StateId> {
        self.lookup_live(flow, hash, name, ms(now)).map(StateId)
    }

    /// The state, as long as there is one of this number.
    #[inline]
    #[must_use]
    pub fn get(&self, id: StateId) -> Option<&State> {
        self.slab.get(id.0)
    }

    /// The state, for what the forwarding path keeps in it.
    #[inline]
    pub fn get_mut(&mut self, id: StateId) -> Option<&mut State> {
        self.slab.get_mut(id.0)
    }

    /// Finds the state of a packet's flow, and takes the packet into account: it is counted, and lengthens the state's
    /// life if it goes on with what the flow was about. `None` if there is no state, or the packet opens another
    /// connection where one was closed; then that one's state is gone.
    #[inline]
    pub fn hit(
        &mut self,
        flow: &Flow,
        hash: Hash,
        name: FlowId,
        seen: &Seen,
        now: Instant,
        counters: &mut Counters,
    ) -> Option<Hit> {
        if self.is_empty() {
            return None;
        }
        let now_ms = ms(now);
        let at = self.lookup_live(flow, hash, name, now_ms)?;
        let id = StateId(at);
        let state = self.slab.get_mut(at)?;
        let direction = state.direction(flow);
        let mut is_denied = false;
        let life = match &seen.segment {
            Some(segment) => {
                if segment.flags.syn() && segment.is_opening() && state.is_spent(now_ms) {
                    self.remove(id, now);
                    counters.add(Count::StateRecycled, 1);
                    return None;
                }
                let before = state.tcp.marks();
                let judgement = state.tcp.take(direction.index(), segment);
                if judgement == Judgement::Outside {
                    is_denied = self.settings.strict && !segment.is_opening();
                    counters.add(Count::StateOutside, 1);
                }
                state.go_on(before != state.tcp.marks(), judgement, &self.settings)
            }
            None => Life::Longer(self.settings.life(state.key.proto())),
        };
        state.count(direction, 1, seen.bytes);
        let hit = Hit { id, rule: state.rule, kind: state.kind, direction, is_denied };
        if let Some(wait) = state.live(life, now_ms, &self.settings) {
            self.hasten(at, now_ms + wait);
        }
        Some(hit)
    }

    /// [`States::hit`] of a packet that this state has taken into account before in this turn: it is counted once more. `None`,
    /// and nothing has changed, if the flow's state is another one.
    pub(super) fn hit_again(
        &mut self,
        flow: &Flow,
        hash: Hash,
        name: FlowId,
        judge: Mark,
        seen: &Seen,
        now: Instant,
    ) -> Option<Hit> {
        let id = self.find(flow, hash, name, now).filter(|id| self.mark(*id) == judge)?;
        let state = self.slab.get_mut(id.0)?;
        let direction = state.direction(flow);
        state.count(direction, 1, seen.bytes);
        Some(Hit { id, rule: state.rule, kind: state.kind, direction, is_denied: false })
    }

    /// Ends a state now.
    pub fn remove(&mut self, id: StateId, now: Instant) {
        if !self.slab.is_used(id.0) {
            return;
        }
        if let Some(&State { kind, link, .. }) = self.slab.get(id.0) {
            match kind {
                Kind::Keep => {}
                Kind::Limit => self.tracks.leave(link, ms(now)),
                Kind::RedirectMaster | Kind::RedirectSlave => self.untie(id, link, now),
            }
        }
        let hash = hash_of(&self.slab, &self.secret, id.0);
        self.half_open.remove(&mut self.slab, id.0);
        self.wheel.unlink(&mut self.slab, id.0);
        let Self { slab, index, secret, .. } = self;
        index.remove(hash, id.0, |at| hash_of(slab, secret, at));
        if let Some(state) = self.slab.get_mut(id.0) {
            // A remembered place must not find the flow there.
            state.key = Key::GONE;
            state.serial = 0;
        }
        self.slab.remove(id.0);
        self.share.remove();
    }

    /// Looks at a state sooner than was meant, and whether it is half-open any more.
    #[inline(never)]
    fn hasten(&mut self, at: u32, due_ms: u64) {
        self.wheel.hasten(&mut self.slab, at, due_ms);
        self.settle_half_open(at);
    }

    /// When [`States::tick`] has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let tracks = self.tracks.due_ms(self.track_life_ms()).map(|ms| Instant::from_ns(ms * 1_000_000));
        [self.wheel.deadline(), tracks].into_iter().flatten().min()
    }

    /// Groups of states that are, or were lately, counted by a `limit`.
    #[must_use]
    pub const fn tracks(&self) -> usize {
        self.tracks.len()
    }

    fn track_life_ms(&self) -> u64 {
        u64::from(self.settings.short_lifetime) * 1000
    }

    /// Examines states that may have expired, at most `budget`, ends those that have, and adds probes of idle connections to
    /// `keepalives`. Removes groups without members. Returns
    /// how many of all of them it has examined.
    pub fn tick(&mut self, now: Instant, budget: usize, keepalives: &mut Vec<Keepalive>) -> usize {
        let (now_ms, most) = (ms(now), keepalives.len() + KEEPALIVES_MAX);
        for done in self.tracks.tick(now_ms, self.track_life_ms(), budget)..budget {
            let Some(at) = self.wheel.due(now) else { return done };
            self.fetch_behind(at);
            let Some(state) = self.slab.get(at) else { return done };
            let left = match u64::try_from(state.left_ms(now_ms)) {
                Ok(left) if left > 0 => left,
                _ => {
                    self.remove(StateId(at), now);
                    continue;
                }
            };
            let wait = match left.saturating_sub(state.kept_ms(&self.settings)) {
                // Its end is near.
                0 if keepalives.len() + 2 <= most => {
                    keepalives.extend(Keepalive::of(state));
                    left.min(u64::from(KEEPALIVE_PERIOD) * 1000)
                }
                // Enough for now.
                0 => left.min(1),
                wait => wait,
            };
            self.wheel.unlink(&mut self.slab, at);
            self.wheel.link(&mut self.slab, at, now_ms + wait);
        }
        budget
    }

    /// Fetches what the end of the states behind this one in the wheel will touch: the bucket of the next, and the one after
    /// that. Most have not been touched since their last packet.
    fn fetch_behind(&mut self, at: u32) {
        let Some(next) = wheel::successor(&mut self.slab, at) else { return };
        self.index.prefetch(hash_of(&self.slab, &self.secret, next));
        let after = wheel::successor(&mut self.slab, next);
        if let Some(state) = after.and_then(|after| self.slab.get(after)) {
            pkt::prefetch_whole(state);
        }
    }

    #[inline]
    fn lookup(&self, flow: &Flow, hash: Hash, name: FlowId) -> Option<u32> {
        self.lookup_that(hash, |state| state.key == flow.key && state.flow.is_among(name))
    }

    /// [`States::lookup`] of those that are alive: a dead one of one name does not hide a live one of another.
    #[inline]
    fn lookup_live(&self, flow: &Flow, hash: Hash, name: FlowId, now_ms: u64) -> Option<u32> {
        self.lookup_that(hash, |state| {
            state.key == flow.key && state.flow.is_among(name) && state.left_ms(now_ms) > 0
        })
    }

    #[inline]
    fn lookup_that(&self, hash: Hash, is_it: impl Fn(&State) -> bool) -> Option<u32> {
        let is_it = |at: u32| self.slab.get(at).is_some_and(&is_it);
        if is_it(hash.likely) { Some(hash.likely) } else { self.index.find(hash.hash, is_it) }
    }
}

/// The change of a state's lifetime.
#[derive(Clone, Copy)]
enum Life {
    AsItIs,
    /// Extended, in seconds from now: a word is written, and the wheel finds out later.
    Longer(u32),
    /// Set anew, perhaps shorter.
    Anew(u32),
}

impl State {
    /// Returns the time before the end of its life at which it is first examined: an open connection gets keepalives.
    #[inline]
    fn kept_ms(&self, settings: &Settings) -> u64 {
        let is_kept = settings.keepalive && self.phase() == Some(Phase::Established);
        if is_kept { u64::from(KEEPALIVE_SPAN) * 1000 } else { 0 }
    }

    /// Gives it another end of its life. If that is sooner than it was, or it was half-open, answers how long the wheel may
    /// wait.
    #[inline(always)]
    fn live(&mut self, life: Life, now_ms: u64, settings: &Settings) -> Option<u64> {
        let (Life::Longer(seconds) | Life::Anew(seconds)) = life else { return None };
        let (seconds, was) = (seconds + self.kind.grace(), self.left_ms(now_ms));
        self.expires = end(now_ms, seconds);
        if matches!(life, Life::Longer(_)) {
            return None;
        }
        let wait = (u64::from(seconds) * 1000).saturating_sub(self.kept_ms(settings));
        let is_looked_at = i64::from(was) > wait.cast_signed() || self.bits & entry::bits::HALF_OPEN != 0;
        is_looked_at.then_some(wait)
    }

    /// Updates the lifetime of a connection after a segment. `is_marked` if the flags seen of its ends are others now.
    #[inline(always)]
    fn go_on(&mut self, is_marked: bool, judgement: Judgement, settings: &Settings) -> Life {
        let stage = if is_marked { self.tcp.phase() } else { self.stage() };
        if stage != self.stage() {
            self.set_stage(stage);
            Life::Anew(settings.life_of(stage))
        } else if judgement == Judgement::Fresh {
            Life::Longer(settings.life_of(stage))
        } else {
            Life::AsItIs
        }
    }
}

/// The end of a life of `seconds`, as [`State`] keeps it.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
const fn end(now_ms: u64, seconds: u32) -> u32 {
    (now_ms as u32).wrapping_add(seconds.wrapping_mul(1000))
}

/// The hash of a state that is there.
fn hash_of(slab: &Slab<State>, secret: &[u64; 4], at: u32) -> u64 {
    slab.get(at).map_or(0, |state| state.key.hash(secret))
}

#[cfg(test)]
mod tests;
