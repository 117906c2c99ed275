//! Memory that is held for readers: by bytes of files that are on their way, and by TCP's buffers.
//!
//! It is bounded for a server, and for each client. Near the bound no client gets more than what would remain for others, so a
//! newcomer is answered though another client holds all that it may.

use core::net::IpAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::HashMap;
use std::sync::Arc;

use net::time::{Duration, Instant};

use super::Limits;
use super::counters::Hit;

/// A client's part on a CPU, at the least: a few answers.
const PART_LEAST: u64 = 512 << 10;
/// Size of a response sent without a check of its client, while half of the memory is free.
const LITTLE: u64 = 16 << 10;
/// The average of a reader is taken over this time.
const WINDOW: Duration = Duration::from_secs(30);
/// [`Limits::stall`] where more is held than may be, for clients that hold most.
const STALL_OVER: Duration = Duration::from_secs(2);

/// A client that holds memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Client {
    V4(u32),
    V6(u64),
}

impl Client {
    pub(super) fn of(addr: IpAddr) -> Self {
        match addr.to_canonical() {
            IpAddr::V4(addr) => Self::V4(addr.to_bits()),
            IpAddr::V6(addr) => {
                let [a, b, c, d, ..] = addr.segments();
                Self::V6([a, b, c, d].into_iter().fold(0, |all, part| all << 16 | u64::from(part)))
            }
        }
    }
}

/// Clients that the table of budgets has room for from the beginning.
const CLIENTS: usize = 64;

/// The memory held on one CPU.
pub(super) struct Budget {
    pub(super) limits: Limits,
    /// A client's part on this CPU.
    part: u64,
    /// On all CPUs together.
    used: Arc<AtomicU64>,
    clients: HashMap<Client, u64>,
    /// On this CPU.
    held: u64,
}

impl Budget {
    /// Makes the budgets of the CPUs of one server.
    pub(super) fn of(limits: Limits, cpus: usize) -> impl Iterator<Item = Self> {
        let used = Arc::<AtomicU64>::default();
        let part = (limits.client / cpus.max(1) as u64).max(PART_LEAST);
        (0..cpus).map(move |_| Self {
            limits,
            part,
            used: Arc::clone(&used),
            clients: HashMap::with_capacity(CLIENTS),
            held: 0,
        })
    }

    /// That of a server on one CPU.
    pub(super) fn alone(limits: Limits) -> Self {
        Self {
            limits,
            part: limits.client,
            used: Arc::default(),
            clients: HashMap::with_capacity(CLIENTS),
            held: 0,
        }
    }

    /// Whether a client may hold so many bytes more.
    pub(super) fn admits(&self, client: Client, more: u64) -> bool {
        let free = self.limits.memory.saturating_sub(self.used());
        if more <= LITTLE && free >= self.limits.memory / 2 {
            return true;
        }
        self.of_client(client) + more <= self.part.min(free)
    }

    /// A connection of this client that held `before` bytes holds `now`.
    pub(super) fn set(&mut self, client: Client, before: &mut u64, now: u64) {
        if *before == now {
            return;
        }
        let change = now.wrapping_sub(*before);
        self.used.fetch_add(change, Ordering::Relaxed);
        self.held = self.held.wrapping_add(change);
        let held = self.of_client(client).wrapping_add(change);
        match held {
            0 => _ = self.clients.remove(&client),
            held => _ = self.clients.insert(client, held),
        }
        *before = now;
    }

    /// Whether there is so little left that answers take less at once.
    pub(super) fn is_tight(&self) -> bool {
        self.used() > self.limits.memory / 4 * 3
    }

    /// Returns the time for which a reader of this client may stall.
    fn stall(&self, client: Client) -> Duration {
        let is_over = self.used() > self.limits.memory;
        let holds_much = self.of_client(client).saturating_mul(self.clients.len() as u64) >= self.held;
        if is_over && holds_much { self.limits.stall.min(STALL_OVER) } else { self.limits.stall }
    }

    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn of_client(&self, client: Client) -> u64 {
        self.clients.get(&client).copied().unwrap_or(0)
    }
}

/// The count of a CPU that has gone is given back.
impl Drop for Budget {
    fn drop(&mut self) {
        self.used.fetch_sub(self.held, Ordering::Relaxed);
    }
}

/// The pace of a reader.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    /// Bytes that it has taken, and when that became more.
    taken: u64,
    at: Instant,
    /// When its average was looked at, what it had taken then, and what had been sent to it.
    from: (Instant, u64, u64),
}

impl Pace {
    /// Makes one of a reader that has taken a number of bytes.
    pub(super) const fn new(sent: u64, now: Instant) -> Self {
        Self { taken: sent, at: now, from: (now, sent, sent) }
    }

    /// It has taken so many of the bytes that were sent. What is wrong with it, if it is given up.
    pub(super) fn goes_on(
        &mut self,
        (taken, sent): (u64, u64),
        client: Client,
        budget: &Budget,
        now: Instant,
    ) -> Option<Hit> {
        if taken > self.taken {
            (self.taken, self.at) = (taken, now);
        }
        if now.since(self.at) >= budget.stall(client) {
            return Some(Hit::TimedOut);
        }
        let (from, taken_then, sent_then) = self.from;
        if now.since(from) < WINDOW {
            return None;
        }
        self.from = (now, taken, sent);
        let least = u64::from(budget.limits.slowest) * WINDOW.as_secs();
        // What takes nothing at all has its own time.
        let is_slow = taken < sent_then && taken > taken_then && taken - taken_then < least;
        is_slow.then_some(Hit::TooSlow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(memory: u64, client: u64) -> Budget {
        Budget::alone(Limits { memory, client, ..Limits::default() })
    }

    fn clients() -> [[Client; 3]; 2] {
        let of = |addr: &str| Client::of(addr.parse().unwrap());
        [
            ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(of),
            ["2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:3::1"].map(of),
        ]
    }

    #[test]
    fn a_client_of_ipv6_is_a_network_of_64_bits_and_a_mapped_address_is_ipv4() {
        let of = |addr: &str| Client::of(addr.parse().unwrap());
        assert_eq!(of("2001:db8:0:1::1"), of("2001:db8:0:1:ffff::2"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8:0:2::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }

    #[test]
    fn one_client_gets_its_part_and_others_get_theirs_until_nothing_is_left() {
        for [one, two, three] in clients() {
            let mut budget = budget(4 << 20, 1 << 20);
            let fill = |budget: &mut Budget, client| {
                let mut held = Vec::new();
                while budget.admits(client, 64 << 10) {
                    held.push(0);
                    budget.set(client, held.last_mut().unwrap(), 64 << 10);
                }
                held
            };
            let mut first = fill(&mut budget, one);
            assert_eq!(first.len(), 16, "a mebibyte");
            assert_eq!(fill(&mut budget, two).len(), 16);
            assert_eq!(fill(&mut budget, three).len(), 16);
            // Of the last mebibyte no client gets all: something is left for the next one, each time.
            let others = (10..40).map(Client::V4).map(|client| fill(&mut budget, client).len());
            let others: Vec<_> = others.collect();
            assert_eq!(others[..4], [8, 4, 2, 1], "{others:?}");
            assert!(budget.used() <= 4 << 20);
            first.iter_mut().for_each(|held| budget.set(one, held, 0));
            assert!(budget.admits(one, 64 << 10) && budget.of_client(one) == 0);
        }
    }

    #[test]
    fn cpus_share_what_a_server_has_and_one_that_ends_gives_its_part_back() {
        let [[one, ..], _] = clients();
        let limits = Limits { memory: 1 << 20, client: 1 << 20, ..Limits::default() };
        let mut cpus: Vec<_> = Budget::of(limits, 2).collect();
        cpus[0].set(one, &mut 0, 900 << 10);
        assert!(!cpus[1].admits(one, 200 << 10));
        cpus.remove(0);
        assert!(cpus[0].admits(one, 200 << 10));
    }

    #[test]
    fn a_slow_reader_is_closed_and_one_that_keeps_up_is_not() {
        let [[one, ..], _] = clients();
        let budget = budget(1 << 20, 1 << 20);
        let at = |s: u64| Instant::from_ns(1_000_000_000 * (100 + s));
        let ends = |taken: &dyn Fn(u64) -> u64, sent: u64| {
            let mut pace = Pace::new(0, at(0));
            (1..=200).find_map(|s| pace.goes_on((taken(s), sent), one, &budget, at(s)).map(|hit| (s, hit)))
        };
        assert_eq!(ends(&|_| 0, 1000), Some((60, Hit::TimedOut)));
        assert_eq!(ends(&|s| s.min(10), 1000), Some((70, Hit::TimedOut)), "after the last byte");
        assert_eq!(ends(&|s| s * 255, 1_000_000), Some((60, Hit::TooSlow)));
        assert_eq!(ends(&|s| s * 256, 1_000_000), None);
        // A little each second, of which all that was there half a minute ago is taken.
        let mut pace = Pace::new(0, at(0));
        let hit = (1..=200).find_map(|s| pace.goes_on((s * 10, s * 10 + 20), one, &budget, at(s)));
        assert_eq!(hit, None);
    }

    #[test]
    fn where_more_is_held_than_may_be_the_largest_holders_have_two_seconds() {
        let [[one, two, _], _] = clients();
        let mut budget = budget(1 << 20, 1 << 20);
        budget.set(one, &mut 0, 1 << 20);
        assert_eq!(budget.stall(one), budget.limits.stall);
        budget.set(two, &mut 0, 1 << 10);
        assert_eq!((budget.stall(one), budget.stall(two)), (STALL_OVER, budget.limits.stall));
    }
}
