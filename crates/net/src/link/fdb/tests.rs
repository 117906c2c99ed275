use core::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::link::bridge::{self, Bridge};
use crate::link::logical::Kind;
use crate::link::tables::{Config, Ifnet};
use crate::link::vxlan::{PORT, Vxlan};
use crate::testkit::{Bench, ifnet};

/// The interface that learns.
const LEARNS: IfIndex = 3;
const TIMEOUT: Duration = Duration::from_secs(80);

fn vtep(host: u8) -> Behind {
    Behind::Vtep(Ipv4Addr::new(192, 0, 2, host).into())
}

fn key(last: u8) -> Key {
    Key { ifindex: LEARNS, mac: Mac([2, 0, 0, 0, 9, last]) }
}

fn vxlan(addresses_max: usize) -> Ifnet {
    let local: IpAddr = Ipv4Addr::new(10, 0, 2, 1).into();
    let vxlan = Vxlan { vni: 7, local, remote: None, port: PORT };
    let statics = Arc::new([Static { mac: key(99).mac, behind: vtep(99) }]);
    let fdb = Settings { timeout: TIMEOUT, addresses_max, statics };
    Ifnet { kind: Kind::Vxlan(vxlan), fdb, ..ifnet(LEARNS) }
}

fn bench(cpus: u16, addresses_max: usize) -> Bench {
    Bench::with(2, cpus, |config| config.ifs.push(vxlan(addresses_max)))
}

/// Returns the entry of a station on each CPU.
fn known(bench: &Bench, key: Key) -> Vec<Option<Behind>> {
    bench.netisrs.iter().map(|netisr| peek(&netisr.cpu, &key)).collect()
}

fn hear(bench: &mut Bench, cpu: usize, key: Key, behind: Behind) {
    let now = bench.now;
    let cpu = &mut bench.netisrs[cpu].cpu;
    cpu.now = now;
    heard(cpu, key, behind);
    bench.run();
}

#[test]
fn what_one_cpu_has_heard_all_know_until_it_has_been_silent_for_the_timeout() {
    for cpus in [1, 2, 4, 8] {
        let mut bench = bench(cpus, 10);
        let last = usize::from(cpus) - 1;
        hear(&mut bench, last, key(1), vtep(1));
        assert_eq!(known(&bench, key(1)), vec![Some(vtep(1)); cpus.into()]);
        // Heard by another one in between.
        bench.advance(TIMEOUT - Duration::from_secs(1));
        hear(&mut bench, 0, key(1), vtep(1));
        bench.advance(TIMEOUT - Duration::from_secs(1));
        assert_eq!(known(&bench, key(1)), vec![Some(vtep(1)); cpus.into()], "{cpus} CPUs");
        bench.advance(TIMEOUT / 2);
        assert_eq!(known(&bench, key(1)), vec![None; cpus.into()], "{cpus} CPUs");
        assert_eq!([Count::FdbLearnt, Count::FdbExpired].map(|what| bench.counted(what)), [1, 1]);
    }
}

#[test]
fn a_station_that_moves_is_known_at_its_new_place_on_all_cpus() {
    for cpus in [1, 4] {
        let mut bench = bench(cpus, 10);
        hear(&mut bench, 0, key(1), vtep(1));
        hear(&mut bench, usize::from(cpus) - 1, key(1), vtep(2));
        assert_eq!(known(&bench, key(1)), vec![Some(vtep(2)); cpus.into()]);
        assert_eq!(bench.counted(Count::FdbMoved), 1);
    }
}

#[test]
fn no_more_addresses_are_learnt_than_the_interface_may_have() {
    for cpus in [1, 4] {
        let mut bench = bench(cpus, 10);
        for last in 0..13 {
            hear(&mut bench, usize::from(last) % usize::from(cpus), key(last), vtep(1));
        }
        let learnt = (0..13).filter(|last| known(&bench, key(*last)).iter().all(Option::is_some)).count();
        assert_eq!(learnt, 10);
        assert_eq!(bench.counted(Count::FdbFull), 3);
        // Those that are deleted make room.
        let deleted: Vec<_> =
            bench.netisrs.iter_mut().map(|one| delete(&mut one.cpu, LEARNS, key(0).mac)).collect();
        assert_eq!(deleted.iter().filter(|deleted| **deleted).count(), 1);
        bench.run();
        hear(&mut bench, 0, key(12), vtep(1));
        assert!(known(&bench, key(12)).iter().all(Option::is_some));
    }
}

#[test]
fn new_stations_beyond_those_of_a_turn_are_learnt_from_a_later_frame() {
    let mut bench = bench(2, 1000);
    for round in 0..2 {
        let now = bench.now;
        for last in 0..100 {
            let cpu = &mut bench.netisrs[0].cpu;
            cpu.now = now;
            heard(cpu, key(last), vtep(1));
        }
        bench.run();
        let expected = if round == 0 { usize::from(TELL_MAX) } else { 99 };
        let learnt = (0..100).filter(|last| known(&bench, key(*last))[0].is_some()).count();
        assert!(learnt >= expected, "{learnt} of {expected}");
        bench.advance(Duration::from_millis(1));
    }
    assert_eq!(bench.counted(Count::FdbDeferred), 35);
}

#[test]
fn static_addresses_stay_where_they_are_and_are_neither_flushed_nor_forgotten() {
    for cpus in [1, 4] {
        let mut bench = bench(cpus, 10);
        hear(&mut bench, 0, key(99), vtep(1));
        hear(&mut bench, 0, key(1), vtep(1));
        let flushed: usize = bench.netisrs.iter_mut().map(|one| flush(&mut one.cpu, LEARNS)).sum();
        bench.run();
        bench.advance(TIMEOUT * 3);
        assert_eq!(flushed, 1);
        assert_eq!(known(&bench, key(99)), vec![Some(vtep(99)); cpus.into()]);
        assert_eq!(known(&bench, key(1)), vec![None; cpus.into()]);
        let listed: Vec<_> = bench.netisrs.iter().flat_map(|one| entries(&one.cpu)).collect();
        let expected = Entry { key: key(99), behind: vtep(99), is_static: true, left: None };
        assert_eq!(listed, [expected]);
    }
}

#[test]
fn an_interface_that_goes_down_forgets_what_it_has_learnt() {
    for cpus in [1, 4] {
        let mut bench = bench(cpus, 10);
        hear(&mut bench, 0, key(1), vtep(1));
        let down = Ifnet { up: false, ..vxlan(10) };
        let ifs = vec![ifnet(1), ifnet(2), down];
        bench.set_tables(Config { generation: 2, ifs, forwarding: true, ..Config::default() });
        assert_eq!(known(&bench, key(1)), vec![None; cpus.into()]);
        let listed: Vec<_> = bench.netisrs.iter().flat_map(|one| entries(&one.cpu)).collect();
        assert!(listed.iter().all(|entry| entry.is_static));
    }
}

#[test]
fn a_station_that_was_looked_up_lately_is_found_where_it_has_moved_and_not_when_it_is_gone() {
    for cpus in [1, 2] {
        let mut bench = Bench::with(2, cpus, |config| {
            for port in &mut config.ifs {
                port.port = Some(bridge::Port { bridge: LEARNS, ..bridge::Port::default() });
            }
            config.ifs.push(Ifnet { kind: Kind::Bridge(Bridge::default()), ..ifnet(LEARNS) });
        });
        let other = |number: u16| {
            let [hi, lo] = number.to_be_bytes();
            Key { ifindex: LEARNS, mac: Mac([2, 0, 0, 1, hi, lo]) }
        };
        let look = |bench: &mut Bench| {
            let found: Vec<_> = bench.netisrs.iter_mut().map(|one| find(&mut one.cpu, &key(1))).collect();
            // As often as one likes.
            assert_eq!(found, known(bench, key(1)));
            found
        };
        for port in [1, 2, 1] {
            for _ in 0..3 {
                hear(&mut bench, 0, key(1), Behind::Port(port));
                assert_eq!(look(&mut bench), vec![Some(Behind::Port(port)); cpus.into()]);
            }
        }
        // Of those that share a place one is found by the table.
        for number in 0..1900 {
            bench.advance(Duration::from_millis(1));
            hear(&mut bench, 0, other(number), Behind::Port(2));
            let found = bench.netisrs.iter_mut().map(|one| find(&mut one.cpu, &other(number)));
            assert!(found.into_iter().all(|found| found == Some(Behind::Port(2))), "{number}");
        }
        assert_eq!(look(&mut bench), vec![Some(Behind::Port(1)); cpus.into()]);
        let flushed = bench.netisrs.iter_mut().map(|one| flush(&mut one.cpu, LEARNS)).sum::<usize>();
        assert_eq!(flushed, 1901);
        bench.run();
        assert_eq!(look(&mut bench), vec![None; cpus.into()]);
    }
}
