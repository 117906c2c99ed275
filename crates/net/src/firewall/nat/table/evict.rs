//! Room where there is none: a half-open connection, which both ends have not acknowledged, ends for a newcomer. One that is
//! established never does, nor a flow of another protocol.

use super::{Binding, By, Full, Id, Key, Table, Tick};
use crate::base::count::{Count, Counters};
use crate::base::secret::Secret;

/// Bindings that are looked at, drawn from all, to find one that may go.
const DRAWS: usize = 64;

/// The half-open binding that has been silent longest, of those met so far; of several the one that was made first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Oldest(Option<((Tick, u32), Key)>);

impl Oldest {
    /// Meets another binding.
    pub fn meet(&mut self, binding: &Binding) {
        let age = (binding.expires, binding.serial);
        if binding.is_half_open() && self.0.is_none_or(|(oldest, _)| age < oldest) {
            self.0 = Some((age, binding.key(By::Outside)));
        }
    }
}

impl Table {
    /// [`Table::insert`]; where there are as many bindings as may be, one of a half-open connection makes room: the one that
    /// has been silent longest, of a few that are drawn.
    ///
    /// # Errors
    ///
    /// [`Full`], if none of those is half-open.
    pub fn insert_or_evict(
        &mut self,
        binding: Binding,
        now: Tick,
        secret: &mut Secret,
        counters: &mut Counters,
    ) -> Result<Id, Full> {
        if self.len() >= self.max() {
            self.evict_drawn(now, secret, counters).ok_or(Full)?;
        }
        self.insert(binding, now)
    }

    /// Ends the binding that was found to be the oldest, and answers the port that others saw.
    pub fn evict(&mut self, oldest: Oldest, now: Tick, counters: &mut Counters) -> Option<u16> {
        let (_, key) = oldest.0?;
        let id = self.find(By::Outside, &key, now)?;
        self.remove(id);
        counters.add(Count::NatHalfOpenEvicted, 1);
        Some(key.end.port)
    }

    #[cold]
    fn evict_drawn(&mut self, now: Tick, secret: &mut Secret, counters: &mut Counters) -> Option<u16> {
        let mut oldest = Oldest::default();
        for _ in 0..DRAWS {
            let place = secret.below(self.len().max(1) as u64);
            if let Some(binding) = usize::try_from(place).ok().and_then(|place| self.iter_from(place).next())
            {
                oldest.meet(binding);
            }
        }
        self.evict(oldest, now, counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::firewall::nat::headers::{End, Kind};
    use crate::firewall::nat::table::{BindingDirection, Lifetimes};
    use wire::Protocol;

    const SYN: u8 = 2;
    const ACK: u8 = 16;

    /// Flow `n` of a host inside: half-open, or acknowledged both ways.
    fn binding(n: u16, protocol: Protocol, is_open: bool, now: Tick) -> Binding {
        let end = |addr: u128, port| End { addr, port };
        let mut binding = Binding::new(end(9, n), end(7, n), end(8, 80), protocol.0);
        let kind = |flags| if protocol == Protocol::TCP { Kind::Tcp(flags) } else { Kind::Udp };
        let lifetimes = Lifetimes::default();
        binding.pass(BindingDirection::Out, kind(SYN), now, &lifetimes);
        if is_open {
            binding.pass(BindingDirection::In, kind(SYN | ACK), now, &lifetimes);
            binding.pass(BindingDirection::Out, kind(ACK), now, &lifetimes);
        }
        binding
    }

    #[test]
    fn in_a_full_table_half_open_connections_make_room_and_nothing_else_does() {
        let (mut secret, mut counters) = (Secret::new(3), Counters::default());
        let mut table = Table::new(100, &mut secret);
        let mut add = |table: &mut Table, n, protocol, is_open, tick: u32| {
            let now = Tick(tick);
            table.insert_or_evict(binding(n, protocol, is_open, now), now, &mut secret, &mut counters).is_ok()
        };
        for n in 0..40 {
            assert!(add(&mut table, n, Protocol::TCP, true, 1) && add(&mut table, n, Protocol::UDP, true, 1));
        }
        for n in 0..10_000_u16 {
            assert!(add(&mut table, 1000 + n, Protocol::TCP, false, 1 + u32::from(n) / 100));
            assert_eq!(table.len(), 100.min(81 + usize::from(n)));
        }
        let lives = |table: &mut Table, n, protocol: Protocol| {
            let key = Key {
                end: End { addr: 9, port: n },
                remote: End { addr: 8, port: 80 },
                protocol: protocol.0,
            };
            table.find(By::Inside, &key, Tick(101)).is_some()
        };
        assert!((0..40).all(|n| lives(&mut table, n, Protocol::TCP) && lives(&mut table, n, Protocol::UDP)));
        assert!(lives(&mut table, 10_999, Protocol::TCP), "the newest");
        // Where nothing is half-open, nothing makes room.
        (0..20).for_each(|n| _ = add(&mut table, 20_000 + n, Protocol::UDP, true, 102));
        let refused = (0..500).filter(|n| !add(&mut table, 30_000 + n, Protocol::UDP, true, 102)).count();
        assert!(refused > 400, "{refused}");
        assert!((0..40).all(|n| lives(&mut table, n, Protocol::TCP) && lives(&mut table, n, Protocol::UDP)));
        assert!(counters.get(Count::NatHalfOpenEvicted) >= 9980);
    }
}
