//! Unsafe: rows of counters in mapped memory of zeros.
//!
//! Counters that cost an addition: each CPU writes its own lines, readers sum over the CPUs.
//!
//! A block has one writer, which is a type and not a habit ([`CounterBlock`] is not `Clone` and
//! [`add`](CounterBlock::add) takes `&mut self`). So counting is a load and a store, never a locked
//! instruction. Readers see each counter whole and never going back, but two counters of a block may be seen
//! at slightly different times; at rest, sums are exact.
//!
//! What is counted is named by an enum, which also fixes the size:
//!
//! ```
//! use pkt::counters::{CounterBlock, Index, sum};
//!
//! #[derive(Clone, Copy)]
//! enum Ip { Received, Forwarded }
//! impl Index for Ip {
//!     const COUNT: usize = 2;
//!     fn index(self) -> usize { self as usize }
//! }
//!
//! let (mut cpu0, mut cpu1) = (CounterBlock::<Ip>::new(), CounterBlock::<Ip>::new());
//! let readers = [cpu0.reader(), cpu1.reader()];
//! cpu0.add(Ip::Received, 256);
//! cpu1.inc(Ip::Received);
//! assert_eq!(sum(&readers, Ip::Received), 257);
//! assert_eq!(sum(&readers, Ip::Forwarded), 0);
//! ```

#![allow(unsafe_code, reason = "owns the mapping")]

use core::{
    alloc::Layout,
    marker::PhantomData,
    ops::Deref,
    ptr::NonNull,
    // Not the model checker's atomics: nothing is ordered by a statistic.
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use std::sync::Arc;

use crate::map;

/// Names of counters: an enum whose values number `0..COUNT`.
pub trait Index: Copy {
    /// Number of counters.
    const COUNT: usize;
    /// The number of this one, less than [`COUNT`](Self::COUNT).
    fn index(self) -> usize;
}

/// One CPU's counters, named by `E`: the writing end, owned by that CPU.
pub struct CounterBlock<E> {
    lines: Arc<[Line]>,
    names: PhantomData<fn(E)>,
}

impl<E: Index> CounterBlock<E> {
    /// All at zero, on cache lines of their own.
    pub fn new() -> Self {
        Self { lines: zeroed(lines_per_row::<E>()), names: PhantomData }
    }

    /// Adds `n`; wraps at 2^64.
    #[inline]
    pub fn add(&mut self, name: E, n: u64) {
        bump(cell(&self.lines, 0, name), n);
    }

    /// Adds one.
    #[inline]
    pub fn inc(&mut self, name: E) {
        self.add(name, 1);
    }

    /// The value, for the CPU itself.
    #[inline]
    pub fn get(&self, name: E) -> u64 {
        cell(&self.lines, 0, name).load(Relaxed)
    }

    /// A reading end, for any thread. It outlives the CPU.
    pub fn reader(&self) -> CounterReader<E> {
        CounterReader { lines: Arc::clone(&self.lines), names: PhantomData }
    }
}

impl<E: Index> Default for CounterBlock<E> {
    fn default() -> Self {
        Self::new()
    }
}

/// A reading end of one CPU's counters.
pub struct CounterReader<E> {
    lines: Arc<[Line]>,
    names: PhantomData<fn(E)>,
}

impl<E: Index> CounterReader<E> {
    /// The value now, or a moment ago.
    pub fn get(&self, name: E) -> u64 {
        cell(&self.lines, 0, name).load(Relaxed)
    }
}

impl<E> Clone for CounterReader<E> {
    fn clone(&self) -> Self {
        Self { lines: Arc::clone(&self.lines), names: PhantomData }
    }
}

/// One counter over all CPUs.
pub fn sum<'a, E: Index + 'a>(cpus: impl IntoIterator<Item = &'a CounterReader<E>>, name: E) -> u64 {
    cpus.into_iter().fold(0, |total, cpu| total.wrapping_add(cpu.get(name)))
}

/// One CPU's counters for each of many things (interfaces, rules), which are numbered `0..rows`: the writing end.
///
/// The number of rows is fixed, as a limit on what is numbered. Each row is on cache lines of its own, so that
/// rows that are quiet stay out of the caches. A row outside of the table is a bug of the caller (asserted in
/// debug builds); it is not counted and reads as zero.
pub struct CounterTable<E> {
    lines: Arc<Mapped>,
    names: PhantomData<fn(E)>,
}

impl<E: Index> CounterTable<E> {
    /// `rows` rows of zeroes.
    pub fn new(rows: usize) -> Self {
        Self { lines: Arc::new(Mapped::zeroed(rows * lines_per_row::<E>())), names: PhantomData }
    }

    /// Adds `n` to a counter of a row; wraps at 2^64.
    #[inline]
    pub fn add(&mut self, row: usize, name: E, n: u64) {
        debug_assert!(row < self.rows(), "row {row} of {}", self.rows());
        if row < self.rows() {
            bump(cell(&self.lines, row, name), n);
        }
    }

    /// Adds one.
    #[inline]
    pub fn inc(&mut self, row: usize, name: E) {
        self.add(row, name, 1);
    }

    /// Zeroes a row whose number is given to a new thing.
    pub fn clear_row(&mut self, row: usize) {
        let width = lines_per_row::<E>();
        let of_row = self.lines.chunks_exact(width).nth(row).unwrap_or_default();
        of_row.iter().flat_map(|line| &line.0).for_each(|counter| counter.store(0, Relaxed));
    }

    /// The number of rows.
    #[inline]
    pub fn rows(&self) -> usize {
        self.lines.len() / lines_per_row::<E>()
    }

    /// A reading end, for any thread. It outlives the CPU.
    pub fn reader(&self) -> CounterTableReader<E> {
        CounterTableReader { lines: Arc::clone(&self.lines), names: PhantomData }
    }
}

/// A reading end of one CPU's [`CounterTable`].
pub struct CounterTableReader<E> {
    lines: Arc<Mapped>,
    names: PhantomData<fn(E)>,
}

impl<E: Index> CounterTableReader<E> {
    /// The value now, or a moment ago; zero for a row that does not exist.
    pub fn get(&self, row: usize, name: E) -> u64 {
        if row < self.rows() { cell(&self.lines, row, name).load(Relaxed) } else { 0 }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.lines.len() / lines_per_row::<E>()
    }
}

impl<E> Clone for CounterTableReader<E> {
    fn clone(&self) -> Self {
        Self { lines: Arc::clone(&self.lines), names: PhantomData }
    }
}

/// One counter of one row over all CPUs.
pub fn sum_row<'a, E: Index + 'a>(
    cpus: impl IntoIterator<Item = &'a CounterTableReader<E>>,
    row: usize,
    name: E,
) -> u64 {
    cpus.into_iter().fold(0, |total, cpu| total.wrapping_add(cpu.get(row, name)))
}

/// Two cache lines: processors fetch them in pairs, so nearer neighbours would still disturb each other.
#[repr(align(128))]
#[derive(Default)]
struct Line([AtomicU64; PER_LINE]);

const PER_LINE: usize = 16;

const fn lines_per_row<E: Index>() -> usize {
    assert!(E::COUNT > 0, "an enum that names no counter");
    E::COUNT.div_ceil(PER_LINE)
}

fn zeroed(lines: usize) -> Arc<[Line]> {
    (0..lines).map(|_| Line::default()).collect()
}

/// Lines of zeros in mapped memory, backed where it is touched: rows that nothing counts in cost none.
struct Mapped {
    base: NonNull<Line>,
    len: usize,
}

// SAFETY: owns its memory, which is nothing but atomics.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    fn zeroed(len: usize) -> Self {
        let layout = Layout::array::<Line>(len.max(1)).unwrap_or(Layout::new::<Line>());
        let base = map::map(layout.size()).unwrap_or_else(|_| std::alloc::handle_alloc_error(layout));
        Self { base: base.cast(), len }
    }
}

impl Deref for Mapped {
    type Target = [Line];

    #[inline]
    fn deref(&self) -> &[Line] {
        // SAFETY: so many lines were mapped, on a page's boundary, and zeros are counters.
        unsafe { core::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped with this size, and no reference is left.
        unsafe { map::unmap(self.base.cast(), self.len.max(1) * size_of::<Line>()) };
    }
}

#[inline]
fn cell<E: Index>(lines: &[Line], row: usize, name: E) -> &AtomicU64 {
    let index = name.index();
    &lines[row * lines_per_row::<E>() + index / PER_LINE].0[index % PER_LINE]
}

/// Not `fetch_add`, which locks the line: there is no other writer.
#[inline]
fn bump(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
}

#[cfg(test)]
mod tests;
