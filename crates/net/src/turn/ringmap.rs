//! Which ring of a device is whose: rings dealt to CPUs, and hashes to rings, so that the device brings most packets
//! to the CPU that owns them.
//!
//! The stack places a packet by `hash % buckets % CPUs` ([`Placement`]), a device by `table[hash % entries]`. Where
//! there are as many rings as CPUs both agree for every hash; with fewer, some packets must be handed on, and the
//! tables made here keep those few. This is DragonFly's `if_ringmap`.

use crate::turn::cpu::CpuId;
use crate::turn::rss::Placement;

/// The length of a redirect table is a multiple of this.
pub const TABLE_UNIT: usize = 128;

/// The most entries of a redirect table that are filled in.
pub const TABLE_MAX: usize = 1 << 15;

/// The rings of one device, dealt to CPUs.
///
/// The CPUs are divided into grids of equal size, and the rings go to the first CPUs of one grid. Which grid, the unit
/// number of the device says, so that several devices tile the CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingMap {
    /// CPUs in all.
    cpus: u16,
    /// Number of the device among its like.
    unit: u16,
    /// CPUs of a grid: a divisor of `cpus`, no less than there are rings.
    grid: u16,
    /// The CPU of each ring.
    of_ring: Vec<u16>,
}

/// A redirect table of a length that no device should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableLength(pub usize);

impl core::fmt::Display for TableLength {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self(entries) = self;
        write!(
            f,
            "a redirect table of {entries} entries, which is no multiple of {TABLE_UNIT} up to {TABLE_MAX}"
        )
    }
}

impl core::error::Error for TableLength {}

impl RingMap {
    /// Deals the rings of device number `unit` to `cpus` CPUs (of which there is at least one).
    ///
    /// There are as many rings as are `wanted`, but no more than the device has (`max`) and no more than CPUs; without
    /// a wish, or with one that the device cannot fulfil, as many as it has.
    #[must_use]
    pub fn alloc(cpus: u16, unit: u16, wanted: Option<u16>, max: u16) -> Self {
        let rings = count(cpus, wanted, max);
        let cpus = cpus.max(1);
        let mut map = Self { cpus, unit, grid: 0, of_ring: vec![0; rings.into()] };
        map.set_grid(grid(cpus, rings));
        map
    }

    fn set_grid(&mut self, grid: u16) {
        self.grid = grid;
        let first = u32::from(grid) * u32::from(self.unit) % u32::from(self.cpus);
        let first = u16::try_from(first).unwrap_or(0);
        self.of_ring.iter_mut().zip(first..).for_each(|(cpu, of_grid)| *cpu = of_grid);
    }

    /// Returns the number of rings that packets are spread over: no more than CPUs.
    #[must_use]
    pub fn rings(&self) -> u16 {
        u16::try_from(self.of_ring.len()).unwrap_or(u16::MAX)
    }

    /// CPUs of a grid.
    #[must_use]
    pub const fn grid(&self) -> u16 {
        self.grid
    }

    /// Buckets that hashes fall into before they are dealt to rings.
    #[must_use]
    pub const fn buckets(&self) -> u16 {
        Placement::new(self.cpus).buckets()
    }

    /// The CPU of a ring. Rings beyond [`Self::rings`], which a device may have all the same, begin again with the
    /// first.
    #[must_use]
    pub fn cpu(&self, ring: usize) -> CpuId {
        CpuId(self.of_ring[ring % self.of_ring.len()])
    }

    /// The ring that packets of a bucket should come by.
    #[must_use]
    pub const fn ring(&self, bucket: u16) -> u16 {
        let Spread { rings, grid, rest } = self.spread();
        let (round, at) = (bucket / grid, bucket % grid);
        // The last of a grid, which do not fill all rings, begin where those of the grid before ended: else the first
        // rings would get more than the others.
        if at >= grid - rest { (round * rest + at - (grid - rest)) % rings } else { at % rings }
    }

    /// Returns the numbers by which [`Self::ring`] is computed, for code elsewhere.
    #[must_use]
    pub const fn spread(&self) -> Spread {
        #[expect(clippy::cast_possible_truncation, reason = "no more rings than CPUs, whose number is a u16")]
        let rings = self.of_ring.len() as u16;
        Spread { rings, grid: self.grid, rest: self.grid % rings }
    }

    /// The table that a device with `entries` places for it should have: hash → ring.
    ///
    /// It repeats after as many entries as the stack has buckets, 128 for up to 32 CPUs.
    ///
    /// # Errors
    ///
    /// [`TableLength`].
    pub fn redirect_table(&self, entries: usize) -> Result<Vec<u16>, TableLength> {
        if entries == 0 || entries > TABLE_MAX || !entries.is_multiple_of(TABLE_UNIT) {
            return Err(TableLength(entries));
        }
        Ok((0..self.buckets()).map(|bucket| self.ring(bucket)).cycle().take(entries).collect())
    }

    /// Counts the hashes in `entries`, or as many as there are buckets, whose packets the table brings to another CPU
    /// than the one that owns them.
    #[must_use]
    pub fn mismatches(&self, table: &[u16]) -> usize {
        let placement = Placement::new(self.cpus);
        let hashes = table.len().max(placement.buckets().into());
        let wrong = |(hash, ring): &(u16, &u16)| self.cpu(usize::from(**ring)) != placement.owner(*hash);
        (0..).zip(table.iter().cycle()).take(hashes).filter(wrong).count()
    }
}

/// The mapping of buckets to rings: see [`RingMap::ring`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Rings; at least one.
    pub rings: u16,
    /// Buckets of a round: the CPUs of a grid.
    pub grid: u16,
    /// Buckets at the end of each round that do not fill all rings.
    pub rest: u16,
}

/// Returns the number of rings in use.
fn count(cpus: u16, wanted: Option<u16>, max: u16) -> u16 {
    let wanted = wanted.filter(|count| (1..=max).contains(count)).unwrap_or(max);
    wanted.clamp(1, cpus.max(1))
}

/// The size of the smallest grid that holds so many rings.
fn grid(cpus: u16, rings: u16) -> u16 {
    (rings..cpus).find(|grid| cpus.is_multiple_of(*grid)).unwrap_or(cpus)
}

#[cfg(test)]
mod tests;
