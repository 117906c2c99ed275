use std::thread;

use super::*;

#[derive(Clone, Copy)]
enum Few {
    First,
    Last,
}

impl Index for Few {
    const COUNT: usize = 2;
    fn index(self) -> usize {
        self as usize
    }
}

/// Names by number, more than a line of them.
#[derive(Clone, Copy)]
struct Many(usize);

impl Index for Many {
    const COUNT: usize = 2 * PER_LINE + 1;
    fn index(self) -> usize {
        self.0
    }
}

#[test]
fn each_counter_counts_for_itself() {
    let mut block = CounterBlock::<Many>::new();
    let reader = block.reader();
    (0..Many::COUNT).for_each(|n| block.add(Many(n), n as u64));
    block.inc(Many(1));
    for n in 0..Many::COUNT {
        let expected = n as u64 + u64::from(n == 1);
        assert_eq!((reader.get(Many(n)), block.get(Many(n))), (expected, expected));
    }
}

#[test]
fn a_counter_wraps() {
    let mut block = CounterBlock::<Few>::new();
    block.add(Few::Last, u64::MAX);
    block.add(Few::Last, 3);
    assert_eq!((block.get(Few::Last), block.get(Few::First)), (2, 0));
}

#[test]
fn the_sum_is_over_all_cpus_and_outlives_them() {
    let mut cpus: Vec<CounterBlock<Few>> = (0..3).map(|_| CounterBlock::default()).collect();
    let readers: Vec<_> = cpus.iter().map(CounterBlock::reader).collect();
    (1..).zip(&mut cpus).for_each(|(n, cpu)| cpu.add(Few::First, n));
    drop(cpus);
    assert_eq!((sum(&readers, Few::First), sum(&readers, Few::Last)), (6, 0));
}

#[test]
fn rows_count_apart_and_a_cleared_row_is_zero() {
    let mut cpus = [CounterTable::<Many>::new(3), CounterTable::<Many>::new(3)];
    let readers: Vec<_> = cpus.iter().map(CounterTable::reader).collect();
    for cpu in &mut cpus {
        (0..3).for_each(|row| cpu.add(row, Many(32), 10 + row as u64));
        cpu.inc(2, Many(0));
        cpu.clear_row(1);
    }
    let total = |row, name| sum_row(&readers, row, Many(name));
    assert_eq!([total(0, 32), total(1, 32), total(2, 32)], [20, 0, 24]);
    assert_eq!([total(0, 0), total(1, 0), total(2, 0)], [0, 0, 2]);
    assert_eq!((readers[0].rows(), cpus[0].rows()), (3, 3));
}

#[test]
fn a_row_that_does_not_exist_reads_as_zero() {
    let table = CounterTable::<Few>::new(1);
    assert_eq!((table.reader().get(1, Few::First), CounterTable::<Few>::new(0).rows()), (0, 0));
}

#[test]
fn cpus_and_rows_share_no_cache_line() {
    let (one, two) = (CounterBlock::<Few>::new(), CounterBlock::<Few>::new());
    assert_eq!((one.lines.len(), one.lines.as_ptr() as usize % 128), (1, 0));
    assert!(one.lines.as_ptr().addr().abs_diff(two.lines.as_ptr().addr()) >= 128);
    assert_eq!(CounterTable::<Many>::new(2).lines.len(), 6);
}

#[test]
fn a_reader_sees_a_counter_only_grow_and_at_last_all_of_it() {
    let rounds: u64 = if cfg!(miri) { 200 } else { 100_000 };
    let mut block = CounterBlock::<Few>::new();
    let reader = block.reader();
    let writer = thread::spawn(move || (0..rounds).for_each(|_| block.add(Few::First, 3)));
    let mut last = 0;
    while !writer.is_finished() {
        let now = reader.get(Few::First);
        assert!(now >= last && now.is_multiple_of(3));
        last = now;
        thread::yield_now();
    }
    writer.join().unwrap();
    assert_eq!(reader.get(Few::First), 3 * rounds);
}
