//! Listings of connections, a page at a time: no CPU is held up by a million, and they may come and go meanwhile.
//!
//! A page goes on where the one before has ended in the order of hashes (see [`crate::base::collections::index`]), and not in one of a
//! table's places: a connection has the same hash from its SYN to the end of TIME-WAIT, in whichever table it is.

use std::collections::BTreeMap;

use super::{Conn, Found, Owner, Pcbs, State, hash_of};
use crate::base::collections::index::position;
use crate::base::time::Instant;
use crate::host::pcb::FourTuple;
use crate::host::tcp::tcb::{Info, Times};

/// Connections of a page at the most.
pub const PER_PAGE: usize = 256;
/// Buckets of the index that are looked at for a page, whether there are connections in them or not.
const BUCKETS_PER_PAGE: usize = 1024;

/// A connection, at the time of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its four-tuple.
    pub ends: FourTuple,
    /// Where it is in its life.
    pub state: State,
    /// Its owner.
    pub owner: Owner,
    /// Bytes that wait to be read.
    pub receive_queue: usize,
    /// Bytes that wait to be acknowledged, sent or not.
    pub send_queue: usize,
    /// Further information, if that was asked for; half-open connections, and orphans in TIME-WAIT that no program
    /// holds, have none.
    pub info: Option<Box<(Info, Times)>>,
}

/// Connections that have ended, and that their programs have not let go of. They are in no index: their ends are free.
#[derive(Default)]
pub(super) struct Ended {
    /// Places of connections: those of one hash in the order in which they have ended …
    places: BTreeMap<u128, u32>,
    /// … which this counts.
    serial: u64,
}

impl Ended {
    /// A connection has ended. Answers what tells it from others of the same hash.
    pub(super) fn insert(&mut self, hash: u64, at: u32) -> u64 {
        self.serial += 1;
        self.places.insert(key(hash, self.serial), at);
        self.serial
    }

    /// The program has let go of it.
    pub(super) fn remove(&mut self, hash: u64, serial: u64) {
        self.places.remove(&key(hash, serial));
    }
}

/// Where an ended connection stands. Those that live stand behind all ended ones of the same hash: whatever ends while a
/// page is awaited has a place that is behind those which were listed, unless it was listed itself.
const fn key(hash: u64, serial: u64) -> u128 {
    (position(hash) as u128) << 64 | serial as u128
}

impl Pcbs {
    /// Up to `limit` connections, and [`PER_PAGE`] at the most, from `from` on, and where the next page begins; `None` if
    /// nothing can follow. The first page begins at 0. `now`, if all is wanted that is known of them.
    ///
    /// Of connections that come and go between two pages some are seen, and some are not; one that stays is seen once,
    /// and none twice.
    #[must_use]
    pub fn page(&self, from: u128, limit: usize, now: Option<Instant>) -> (Vec<Listed>, Option<u128>) {
        let limit = limit.clamp(1, PER_PAGE);
        let (mut listed, mut last, mut next) = (Vec::new(), from, Some(from));
        for _ in 0..BUCKETS_PER_PAGE {
            let Some(from) = next else { break };
            let (piece, behind) = self.piece(from);
            for (key, found) in piece {
                if listed.len() >= limit && key != last {
                    return (listed, last.checked_add(1));
                }
                listed.extend(self.listed(found, now));
                last = key;
            }
            next = behind;
        }
        (listed, next)
    }

    /// The connection between `ends`, if there is one, with all that is known of it at `now`.
    #[must_use]
    pub fn listed_at(&self, ends: &FourTuple, now: Instant) -> Option<Listed> {
        self.listed(self.find(ends)?, Some(now))
    }

    /// All that stands at `from` or behind it in its bucket, in order, and where the next bucket begins.
    fn piece(&self, from: u128) -> (Vec<(u128, Found)>, Option<u128>) {
        let mut living = Vec::new();
        let hash_of = |number| hash_of(&self.tables, &self.secret, number);
        let behind = self.index.piece(high(from), hash_of, &mut living);
        let behind = behind.map(|position| u128::from(position) << 64);
        let living = living.into_iter().map(|(position, number)| {
            (u128::from(position) << 64 | u128::from(u64::MAX), Found::from(number))
        });
        let ended = match behind {
            Some(behind) => self.ended.places.range(from..behind),
            None => self.ended.places.range(from..),
        };
        let mut all: Vec<_> = ended.map(|(key, at)| (*key, Found::Conn(*at))).chain(living).collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        (all, behind)
    }

    fn listed(&self, found: Found, now: Option<Instant>) -> Option<Listed> {
        let bare = |ends, state| Listed {
            ends,
            state,
            owner: Owner::Nobody,
            receive_queue: 0,
            send_queue: 0,
            info: None,
        };
        match found {
            Found::Conn(at) => Some(Listed::of(self.tables.conns.get(at)?.conn.as_deref()?, now)),
            Found::Half(at) => self.tables.halves.get(at).map(|half| bare(half.ends, State::SynReceived)),
            Found::Wait(at) => self.tables.waits.get(at).map(|wait| bare(wait.ends, State::TimeWait)),
        }
    }
}

impl Listed {
    fn of(conn: &Conn, now: Option<Instant>) -> Self {
        let &Conn { ends, owner, ref tcb, .. } = conn;
        Self {
            ends,
            state: tcb.state(),
            owner,
            receive_queue: tcb.readable(),
            send_queue: tcb.queued(),
            info: now.map(|now| Box::new((tcb.info(), tcb.times(now)))),
        }
    }
}

fn high(key: u128) -> u64 {
    u64::try_from(key >> 64).unwrap_or(u64::MAX)
}
