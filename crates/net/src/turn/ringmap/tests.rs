use super::*;

/// Results of a published model of the algorithm.
const VECTORS: &str = include_str!("vectors.txt");

fn map(cpus: u16, unit: u16, rings: u16) -> RingMap {
    RingMap::alloc(cpus, unit, Some(rings), 64)
}

fn cpus(map: &RingMap) -> Vec<u16> {
    (0..usize::from(map.rings())).map(|ring| map.cpu(ring).0).collect()
}

fn table(map: &RingMap) -> Vec<u16> {
    map.redirect_table(TABLE_UNIT).unwrap()
}

fn range(first: u16, count: u16) -> Vec<u16> {
    (first..first + count).collect()
}

/// Every map that is worth a look: up to 40 CPUs, all numbers of rings, some units; and some big ones.
fn all() -> impl Iterator<Item = RingMap> {
    let small = (1..=40).flat_map(|cpus| (1..=cpus).map(move |rings| (cpus, rings)));
    let big =
        [48, 63, 64, 96, 97, 128].into_iter().flat_map(|cpus| [1, 7, 16, 40, 64].map(|rings| (cpus, rings)));
    let sizes = small.chain(big.filter(|(cpus, rings)| rings <= cpus));
    sizes.flat_map(|(cpus, rings)| [0, 1, 2, 7].map(|unit| map(cpus, unit, rings)))
}

fn fnv(table: &[u16]) -> u64 {
    table
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, ring| (hash ^ u64::from(*ring)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn maps_and_tables_are_those_of_the_model() {
    let mut seen = 0;
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u16>().unwrap();
        let map = map(number(0), number(2), number(1));
        assert_eq!((map.grid(), map.cpu(0).0), (number(3), number(4)), "{line}");
        assert_eq!(map.mismatches(&table(&map)), number(5).into(), "{line}");
        assert_eq!(fnv(&table(&map)), u64::from_str_radix(words[6], 16).unwrap(), "{line}");
        seen += 1;
    }
    assert_eq!(seen, 273);
}

#[test]
fn three_cards_of_8_rings_tile_24_cpus() {
    for (unit, first) in [(0, 0), (1, 8), (2, 16), (3, 0)] {
        let map = map(24, unit, 8);
        assert_eq!((map.grid(), cpus(&map)), (8, range(first, 8)));
        assert_eq!(table(&map), (0..128).map(|entry| entry % 8).collect::<Vec<_>>());
    }
}

#[test]
fn sixteen_rings_on_24_cpus_are_loaded_evenly_and_mismatch_half_as_often() {
    for unit in 0..4 {
        assert_eq!((map(24, unit, 16).grid(), cpus(&map(24, unit, 16))), (24, range(0, 16)));
    }
    let map = map(24, 0, 16);
    let first: Vec<u16> = [range(0, 16), range(0, 8), range(0, 16), range(8, 8)].concat();
    assert_eq!(table(&map)[..48], first);
    let replicated: Vec<u16> = (0..128).map(|entry| entry % 16).collect();
    assert_eq!((wrong(&map, &replicated, 48), wrong(&map, &table(&map), 48)), (32, 16));
    assert_eq!((map.mismatches(&replicated), map.mismatches(&table(&map))), (80, 40));
}

/// Mismatches among the first hashes.
fn wrong(map: &RingMap, table: &[u16], first: usize) -> usize {
    let placement = Placement::new(map.cpus);
    let all = (0..).zip(&table[..first]);
    all.filter(|(hash, ring)| map.cpu(usize::from(**ring)) != placement.owner(*hash)).count()
}

#[test]
fn four_rings_on_5_cpus_share_the_fifth() {
    let map = map(5, 0, 4);
    assert_eq!(map.grid(), 5);
    assert_eq!(table(&map)[..20], [0, 1, 2, 3, 0, 0, 1, 2, 3, 1, 0, 1, 2, 3, 2, 0, 1, 2, 3, 3]);
}

#[test]
fn eight_rings_on_12_cpus_share_the_last_four() {
    let map = map(12, 0, 8);
    assert_eq!(map.grid(), 12);
    assert_eq!(table(&map)[..24], [range(0, 8), range(0, 4), range(0, 8), range(4, 4)].concat());
}

#[test]
fn a_grid_is_the_smallest_divisor_that_holds_the_rings() {
    let expected: [(u16, &[(u16, u16)]); 4] = [
        (24, &[(5, 6), (7, 8), (9, 12), (13, 24)]),
        (14, &[(3, 7), (4, 7), (5, 7), (6, 7), (7, 7)]),
        (7, &[(2, 7), (3, 7), (4, 7), (5, 7), (6, 7), (7, 7)]),
        (10, &[(3, 5), (4, 5), (5, 5)]),
    ];
    for (cpus, grids) in expected {
        for (rings, grid) in grids {
            assert_eq!(map(cpus, 0, *rings).grid(), *grid, "{rings} rings on {cpus} CPUs");
        }
    }
    for map in all() {
        assert_eq!(map.grid(), as_it_is_described(map.cpus, map.rings()));
    }
}

/// The search for the grid, step by step as the reference has it.
fn as_it_is_described(cpus: u16, rings: u16) -> u16 {
    let mut before = cpus;
    for part in (1..=cpus).filter(|part| cpus.is_multiple_of(*part)) {
        let grid = cpus / part;
        if rings > grid {
            return before;
        }
        if rings > cpus / (part + 1) {
            return grid;
        }
        before = grid;
    }
    before
}

#[test]
fn a_prime_number_of_cpus_wastes_none() {
    for cpus in [2, 3, 5, 7, 11, 13, 31] {
        for rings in 2..=cpus {
            assert_eq!(map(cpus, 1, rings).grid(), cpus);
        }
    }
}

#[test]
fn one_ring_of_each_unit_goes_round_the_cpus() {
    for unit in 0..20 {
        let map = map(6, unit, 1);
        assert_eq!((map.grid(), map.cpu(0)), (1, CpuId(unit % 6)));
    }
}

#[test]
fn the_number_of_rings_is_what_is_wanted_and_can_be() {
    let rings = |wanted, max| RingMap::alloc(12, 0, wanted, max).rings();
    assert_eq!([rings(None, 8), rings(Some(0), 8), rings(Some(9), 8), rings(Some(5), 8)], [8, 8, 8, 5]);
    assert_eq!((rings(None, 64), rings(None, 0)), (12, 1), "no more than CPUs, no less than one");
}

#[test]
fn every_ring_is_in_the_table_and_none_that_is_not_there() {
    for map in all() {
        let table = map.redirect_table(512).unwrap();
        assert!(table.iter().all(|ring| *ring < map.rings()));
        assert!((0..map.rings()).all(|ring| table.contains(&ring)), "{map:?}");
    }
}

#[test]
fn a_map_stays_within_its_grid_and_a_grid_within_the_cpus() {
    for map in all() {
        assert!(map.cpus.is_multiple_of(map.grid()) && map.rings() <= map.grid());
        assert!(map.cpu(0).0 + map.rings() <= map.cpus && map.cpu(0).0.is_multiple_of(map.grid()), "{map:?}");
    }
}

#[test]
fn rings_are_loaded_as_evenly_as_the_cpus_are() {
    for map in all() {
        let table = map.redirect_table(512).unwrap();
        let load = |ring| table.iter().filter(|entry| **entry == ring).count();
        let (least, most) = (0..map.rings()).map(load).fold((512, 0), |(a, b), n| (a.min(n), b.max(n)));
        assert!(most <= 2 * least, "{map:?}: {least} to {most}");
    }
}

#[test]
fn tables_are_multiples_of_128_and_repeat_after_the_buckets() {
    let map = map(24, 0, 16);
    for entries in [128, 256, 512, 1024, 2048] {
        let long = map.redirect_table(entries).unwrap();
        assert!(long.len() == entries && long.chunks(128).all(|part| part == table(&map)));
    }
    for entries in [0, 1, 64, 127, 129, 200, TABLE_MAX + 128] {
        assert_eq!(map.redirect_table(entries), Err(TableLength(entries)));
    }
    assert!(TableLength(64).to_string().contains("64 entries"));
}

#[test]
fn with_a_ring_for_each_cpu_table_and_stack_agree_for_every_hash() {
    for cpus in (1..=64).chain([96, 97, 128]) {
        for unit in [0, 1, 5] {
            let map = RingMap::alloc(cpus, unit, None, cpus);
            let placement = Placement::new(cpus);
            let table = map.redirect_table(usize::from(placement.buckets()).max(512)).unwrap();
            for hash in 0..=u16::MAX {
                let ring = table[usize::from(hash) % table.len()];
                assert_eq!(map.cpu(ring.into()), placement.owner(hash), "hash {hash} on {cpus} CPUs");
            }
            assert_eq!(map.mismatches(&table), 0);
        }
    }
}

#[test]
fn a_table_shorter_than_the_buckets_of_many_cpus_is_wrong_at_times_and_says_how_often() {
    let map = RingMap::alloc(48, 0, None, 48);
    assert_eq!(map.mismatches(&map.redirect_table(256).unwrap()), 0);
    let wrong = map.mismatches(&map.redirect_table(128).unwrap());
    assert!(wrong > 0 && wrong <= 128, "{wrong} of 256");
}

#[test]
fn rings_beyond_those_in_use_begin_again_with_the_first() {
    let map = RingMap::alloc(2, 0, None, 8);
    assert_eq!(map.rings(), 2);
    assert_eq!((0..8).map(|ring| map.cpu(ring).0).collect::<Vec<_>>(), [0, 1, 0, 1, 0, 1, 0, 1]);
}
