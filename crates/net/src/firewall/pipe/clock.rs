//! When a pipe has sent what: bits and nanoseconds, without a rest that gets lost.

use std::sync::Arc;

use super::shared_rate::{Accounts, CHUNK};
use crate::base::time::{Duration, Instant};

/// Bandwidth beyond which arithmetic would not be exact, bit/s.
pub(super) const BANDWIDTH_MAX: u64 = 1_000_000_000_000_000;

/// The sending end of a pipe: like a wire, it sends one packet after another, and each takes as long as it is.
#[derive(Debug)]
pub(super) struct Clock {
    /// Bit/s; 0 for no limit.
    bandwidth: u64,
    /// So long may sending begin before there was something to send, nanoseconds: the time of the burst.
    ahead: u64,
    /// When all that was given to it is sent.
    at: Instant,
    /// Remainder of a nanosecond, in units of a nanosecond divided by the bandwidth.
    rest: u64,
    /// Account of the time, if several CPUs share it.
    seller: Option<TokenSource>,
}

#[derive(Debug)]
struct TokenSource {
    accounts: Arc<Accounts>,
    slot: u32,
    /// Bought and not used yet, nanoseconds.
    paid: u64,
}

/// Bits of a byte, and nanoseconds of a second.
const BIT_NS: u64 = 8 * 1_000_000_000;

impl Clock {
    /// A pipe of `bandwidth` bit/s, through which `burst` bytes pass at once after it was idle.
    pub(super) fn new(bandwidth: u64, burst: u64, shared: Option<(Arc<Accounts>, u32)>) -> Self {
        let seller = shared.map(|(accounts, slot)| TokenSource { accounts, slot, paid: 0 });
        Self { bandwidth, ahead: burst_ns(bandwidth, burst), at: Instant::START, rest: 0, seller }
    }

    /// Changes its shape; what is under way goes on as fast as it is now.
    pub(super) fn change(&mut self, now: Instant, new: Self) {
        let left = u128::from(self.at.ns().saturating_sub(now.ns()));
        let left = left * u128::from(self.bandwidth) / u128::from(new.bandwidth.max(1));
        let left = if new.bandwidth == 0 { 0 } else { u64::try_from(left).unwrap_or(u64::MAX) };
        let at = if self.at > now { now + Duration::from_nanos(left) } else { self.at };
        self.release();
        *self = Self { at, ..new };
    }

    /// When all that was given to it is sent.
    pub(super) const fn sent_at(&self) -> Instant {
        self.at
    }

    /// When it can send the next packet.
    pub(super) const fn free_at(&self) -> Instant {
        if self.bandwidth == 0 { Instant::START } else { self.at }
    }

    /// When it was the next packet's turn, if that has come by `now`.
    pub(super) const fn turn(&self, now: Instant) -> Instant {
        if self.bandwidth == 0 { now } else { self.at }
    }

    /// Sends a packet of `len` bytes that has been waiting since `since`; answers when it is sent.
    pub(super) fn send(&mut self, now: Instant, since: Instant, len: usize) -> Instant {
        if self.bandwidth == 0 {
            return now;
        }
        let soonest = Instant::from_ns(since.ns().saturating_sub(self.ahead));
        if soonest > self.at {
            (self.at, self.rest) = (soonest, 0);
        }
        let need = u64::try_from(len).unwrap_or(u64::MAX).saturating_mul(BIT_NS).saturating_add(self.rest);
        let span = need / self.bandwidth;
        self.rest = need % self.bandwidth;
        self.at = match &mut self.seller {
            None => self.at + Duration::from_nanos(span),
            Some(seller) => seller.pay(self.at, span),
        };
        self.at
    }

    /// Packets of 512 bytes that could have been sent in `span`: what a pipe that was idle has forgotten.
    pub(super) fn missed(&self, span: Duration) -> u64 {
        let bits = span.as_nanos().saturating_mul(u128::from(self.bandwidth)) / 1_000_000_000;
        u64::try_from(bits / (512 * 8)).unwrap_or(u64::MAX)
    }

    /// Lets go of the account.
    pub(super) fn release(&mut self) {
        if let Some(seller) = self.seller.take() {
            seller.accounts.release(seller.slot);
        }
    }
}

impl TokenSource {
    /// Pays for `span` nanoseconds after `at`; answers when they are over.
    fn pay(&mut self, at: Instant, span: u64) -> Instant {
        if let Some(left) = self.paid.checked_sub(span) {
            self.paid = left;
            return at + Duration::from_nanos(span);
        }
        let missing = span - self.paid;
        let piece = missing.max(CHUNK);
        let begin = self.accounts.buy(self.slot, at + Duration::from_nanos(self.paid), piece);
        self.paid = piece - missing;
        begin + Duration::from_nanos(missing)
    }
}

/// Returns the duration of `burst` bytes, nanoseconds.
fn burst_ns(bandwidth: u64, burst: u64) -> u64 {
    let ns = u128::from(burst) * u128::from(BIT_NS) / u128::from(bandwidth.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}
