//! Which CPU has which ring of an interface.

use net::cpu::CpuId;
use net::ringmap::RingMap;

/// The CPU of each ring of one interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RingPlacement(Vec<CpuId>);

impl RingPlacement {
    /// As the map has them. A device may have more rings than there are CPUs.
    pub(crate) fn of(map: &RingMap, rings: usize) -> Self {
        Self((0..rings).map(|ring| map.cpu(ring)).collect())
    }

    /// The CPUs, in the order of the rings.
    pub(crate) fn iter(&self) -> impl Iterator<Item = CpuId> {
        self.0.iter().copied()
    }

    /// The CPU of one ring.
    pub(crate) fn cpu(&self, ring: u16) -> Option<CpuId> {
        self.0.get(usize::from(ring)).copied()
    }

    /// Notes that a ring has moved.
    pub(crate) fn moved(&mut self, ring: u16, to: CpuId) {
        if let Some(cpu) = self.0.get_mut(usize::from(ring)) {
            *cpu = to;
        }
    }

    /// The CPU that owns the transmit ring which `cpu` uses: itself if it has one. The others take the rings in turn.
    pub(crate) fn tx_owner(&self, cpu: CpuId) -> Option<CpuId> {
        if self.0.contains(&cpu) {
            return Some(cpu);
        }
        self.0.get(cpu.index().checked_rem(self.0.len())?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(cpus: u16, placement: &RingPlacement) -> Vec<Option<u16>> {
        (0..cpus).map(|cpu| placement.tx_owner(CpuId(cpu)).map(|owner| owner.0)).collect()
    }

    fn placement(cpus: u16, unit: u16, rings: u16) -> RingPlacement {
        RingPlacement::of(&RingMap::alloc(cpus, unit, None, rings), rings.into())
    }

    #[test]
    fn cpus_without_a_ring_send_through_those_that_have_one() {
        assert_eq!(owners(4, &placement(4, 0, 4)), [Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!(owners(4, &placement(4, 0, 2)), [Some(0), Some(1), Some(0), Some(1)]);
        assert_eq!(owners(4, &placement(4, 1, 2)), [Some(2), Some(3), Some(2), Some(3)], "the second device");
        assert_eq!(owners(2, &placement(2, 0, 8)), [Some(0), Some(1)]);
        assert_eq!(owners(2, &RingPlacement::default()), [None, None]);
    }

    #[test]
    fn a_ring_that_moved_is_sent_through_where_it_is() {
        let mut placement = placement(3, 0, 1);
        placement.moved(0, CpuId(2));
        assert_eq!(owners(3, &placement), [Some(2), Some(2), Some(2)]);
        assert_eq!((placement.cpu(0), placement.cpu(1)), (Some(CpuId(2)), None));
    }

    #[test]
    fn rings_beyond_the_cpus_go_round() {
        let cpus: Vec<u16> = placement(2, 0, 5).iter().map(|cpu| cpu.0).collect();
        assert_eq!(cpus, [0, 1, 0, 1, 0]);
    }
}
