//! Groups of equally good next hops (ECMP).
//!
//! A flow's hash falls into one of many buckets, and each bucket belongs to the member that scores highest for it
//! (rendezvous hashing: D. Thaler, C. Ravishankar, "Using name-based mappings to increase hit rates", 1998; RFC 2991
//! §4 names it highest random weight). Scores follow from what a member is and from nothing else. So a member that
//! goes moves only its own flows, one that comes takes an equal share from each other, and one that comes back gets
//! exactly its flows back; no history is needed, and two routers of one configuration agree.

use core::net::IpAddr;
use std::sync::Arc;

use super::{HopId, To};

/// Members of a group at the most.
pub const MEMBERS_MAX: usize = 64;
/// Buckets that flows fall into. With 16 members, shares differ from equal ones by about 6 %.
const BUCKETS: usize = 4096;
const BUCKET_BITS: u32 = BUCKETS.trailing_zeros();

/// A group of next hops in its [`super::Hops`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(u32);

/// Equally good next hops, one of which each flow takes.
#[derive(Clone, Debug)]
pub struct Group {
    members: Arc<[HopId]>,
    /// For each bucket, the place of its member.
    buckets: Arc<[u8; BUCKETS]>,
}

impl GroupId {
    pub(super) fn new(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Group {
    /// Makes a group of at most [`MEMBERS_MAX`] members; more are ignored. A member that is named several times in a row gets
    /// as many shares of the flows.
    pub(super) fn of(members: &[(HopId, To)]) -> Self {
        let members = &members[..members.len().min(MEMBERS_MAX)];
        let mut keys: Vec<u64> = Vec::with_capacity(members.len());
        let mut share = 0;
        for (at, (id, to)) in members.iter().enumerate() {
            let is_again = at.checked_sub(1).is_some_and(|before| members[before].0 == *id);
            share = if is_again { share + 1 } else { 0 };
            // The first share is that of a member that is named once.
            keys.push(if share == 0 { key(*to) } else { mix(key(*to) ^ share) });
        }
        let buckets = core::array::from_fn(|bucket| best(&keys, bucket as u64));
        Self { members: members.iter().map(|(id, _)| *id).collect(), buckets: Arc::new(buckets) }
    }

    /// The members, in the order in which they were named; one with several shares as often.
    #[must_use]
    pub fn members(&self) -> &[HopId] {
        &self.members
    }

    /// The member that flows with this hash take. The upper bits choose.
    #[inline]
    #[must_use]
    pub fn member(&self, flow: u32) -> HopId {
        let place = self.buckets[(flow >> (u32::BITS - BUCKET_BITS)) as usize];
        self.members.get(usize::from(place)).copied().unwrap_or(HopId::NO_ROUTE)
    }
}

/// The place of the member with the highest score.
fn best(keys: &[u64], bucket: u64) -> u8 {
    let scores = (0..).zip(keys).map(|(place, key)| (mix(key ^ mix(bucket)), place));
    scores.max().map_or(0, |(_, place)| place)
}

/// A number that tells members apart and stays the same wherever and whenever it is computed.
fn key(to: To) -> u64 {
    let (ifindex, via) = match to {
        To::Gateway { ifindex, via: IpAddr::V4(via) } => (ifindex, u128::from(via.to_bits())),
        To::Gateway { ifindex, via: IpAddr::V6(via) } => (ifindex, via.to_bits()),
        other => (other.ifindex().unwrap_or_default(), 0),
    };
    let bytes = via.to_le_bytes();
    let words =
        bytes.chunks_exact(8).map(|half| half.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte)));
    words.fold(u64::from(ifindex), |key, word| mix(key ^ word))
}

/// Spreads any difference over all bits: the finisher of `splitmix64` (G. Steele, D. Lea, C. Flood, 2014).
const fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}
