use core::net::{Ipv4Addr, Ipv6Addr};
use core::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::fib::To;

/// The `n`-th of many prefixes far from each other, of either family.
fn prefix(v6: bool, n: u32) -> Prefix {
    let spread = n.wrapping_mul(0x9e37_79b1);
    let addr = if v6 {
        Ipv6Addr::from_bits(0x2000 << 112 | u128::from(spread) << 80 | u128::from(n) << 64).into()
    } else {
        IpAddr::from(Ipv4Addr::from_bits(spread))
    };
    Prefix::new(addr, if v6 { 64 } else { 28 }).unwrap()
}

fn all(v6: bool) -> Prefix {
    let zero = if v6 { IpAddr::from([0u8; 16]) } else { IpAddr::from([0u8; 4]) };
    Prefix::new(zero, 0).unwrap()
}

fn gateway(n: u16) -> Hop {
    To::Gateway { ifindex: 1, via: Ipv4Addr::from_bits(0x0a00_0000 | u32::from(n)).into() }.into()
}

fn route(to: Prefix, hops: &[Hop]) -> Change<'_> {
    Change { fib: 0, to, origin: Origin::Static, hops }
}

fn answer(rib: &Rib, to: Prefix) -> Hop {
    rib.hops().get(rib.fib().lookup(to.addr()))
}

fn small() -> Rib {
    Rib::new(Bounds::SMALL).unwrap()
}

#[test]
fn the_strongest_route_is_in_force_and_the_next_best_comes_back() {
    for v6 in [false, true] {
        let (mut rib, to) = (small(), prefix(v6, 1));
        let from = |origin, hops| Change { fib: 0, to, origin, hops };
        let hops = [gateway(1), gateway(2), gateway(3)];
        let origins = [Origin::Static, Origin::Own, Origin::Learned];
        for (origin, hop) in origins.into_iter().zip(&hops) {
            assert_eq!(rib.load(&[from(origin, core::slice::from_ref(hop))]), []);
        }
        assert_eq!(answer(&rib, to), hops[1], "an own address is stronger than a static route");
        let listed: Vec<_> = rib.get(0, to).unwrap().all().map(|(origin, _)| origin).collect();
        assert_eq!(listed, [Origin::Own, Origin::Static, Origin::Learned]);
        for (gone, left) in [(Origin::Own, hops[0]), (Origin::Static, hops[2])] {
            assert_eq!(rib.load(&[from(gone, &[])]), []);
            assert_eq!(answer(&rib, to), left);
        }
        assert_eq!(rib.load(&[from(Origin::Learned, &[])]), []);
        assert_eq!((answer(&rib, to).to, rib.get(0, to)), (To::NoRoute, None));
    }
}

#[test]
fn of_routing_protocols_the_one_with_the_smaller_distance_has_the_route_in_force() {
    let protocol = |distance, number| Origin::Dynamic(Protocol { distance, number, source: 0 });
    let (bgp, ospf, rip) = (protocol(20, 186), protocol(110, 188), protocol(120, 189));
    for v6 in [false, true] {
        let (mut rib, to) = (small(), prefix(v6, 1));
        let from = |origin, hops| Change { fib: 0, to, origin, hops };
        let hops: Vec<Hop> = (1..=5).map(gateway).collect();
        let origins = [Origin::Learned, rip, bgp, Origin::Static, ospf];
        for (origin, hop) in origins.into_iter().zip(&hops) {
            assert_eq!(rib.load(&[from(origin, core::slice::from_ref(hop))]), []);
        }
        let listed: Vec<_> = rib.get(0, to).unwrap().all().map(|(origin, _)| origin).collect();
        assert_eq!(listed, [Origin::Static, bgp, ospf, rip, Origin::Learned]);
        for (gone, left) in [(Origin::Static, 2), (bgp, 4), (rip, 4), (ospf, 0)] {
            assert_eq!(rib.load(&[from(gone, &[])]), []);
            assert_eq!(answer(&rib, to), hops[left], "without {gone:?}");
        }
        let changed = from(Origin::Learned, &hops[1..2]);
        assert_eq!((rib.load(&[changed]), answer(&rib, to)), (vec![], hops[1]));
    }
}

#[test]
fn as_many_sources_as_there_may_be_have_a_route_to_a_prefix() {
    let (mut rib, to) = (small(), prefix(false, 1));
    let hop = [gateway(1)];
    let source = |number| Origin::Dynamic(Protocol { distance: 10, number, source: 0 });
    let most = u8::try_from(SOURCES_MAX).unwrap();
    for number in 0..most {
        assert_eq!(rib.load(&[Change { fib: 0, to, origin: source(number), hops: &hop }]), []);
    }
    let refused = Refused { fib: 0, to, origin: source(most), error: Error::TooManySources };
    assert_eq!(rib.load(&[Change { fib: 0, to, origin: source(most), hops: &hop }]), [refused]);
    assert_eq!(rib.get(0, to).unwrap().all().count(), SOURCES_MAX);
}

#[test]
fn a_route_that_does_not_exist_cannot_end() {
    let (mut rib, to) = (small(), prefix(false, 1));
    let refused = Refused { fib: 0, to, origin: Origin::Static, error: Error::NoSuchRoute };
    assert_eq!(rib.load(&[route(to, &[])]), [refused]);
}

#[test]
fn a_route_to_nowhere_is_refused() {
    let (mut rib, to) = (small(), prefix(false, 1));
    let refused = rib.load(&[route(to, &[Hop::default()]), route(to, &[gateway(1), To::NoRoute.into()])]);
    assert_eq!(refused.iter().map(|refused| refused.error).collect::<Vec<_>>(), [Error::NoTarget; 2]);
    assert_eq!(rib.usage().hops.0, 0, "and nothing of it is kept");
}

#[test]
fn a_full_table_refuses_routes_and_goes_on_with_those_it_has() {
    for v6 in [false, true] {
        let bounds = Bounds { nodes4: 40, lines6: 40, ..Bounds::SMALL };
        let (mut rib, hops) = (Rib::new(bounds).unwrap(), [gateway(1), gateway(2)]);
        let mut present = Vec::new();
        for to in (0..200).map(|n| prefix(v6, n)) {
            match rib.load(&[route(to, &hops[..1])])[..] {
                [] => present.push(to),
                [Refused { error, .. }] => assert_eq!(error, Error::TableFull),
                _ => panic!("one change has one answer"),
            }
        }
        assert!((10..100).contains(&present.len()), "{} routes", present.len());
        assert_eq!(rib.usage().routes4 + rib.usage().routes6, present.len());
        let missing = (0..200).map(|n| prefix(v6, n)).filter(|to| !present.contains(to));
        missing.for_each(|to| assert_eq!(answer(&rib, to).to, To::NoRoute, "{to}"));
        // Other hops, and shorter prefixes, need no memory.
        assert_eq!(rib.load(&[route(all(v6), &hops[..1])]), []);
        for to in &present {
            assert_eq!(rib.load(&[route(*to, &hops[1..])]), []);
            assert_eq!(answer(&rib, *to), hops[1]);
        }
        // All can end while nothing that is freed may be used.
        let ends: Vec<_> = present.iter().map(|to| route(*to, &[])).collect();
        assert!(rib.prepare(&ends).refused.is_empty());
        let committed = rib.commit();
        assert_eq!((committed.changed, committed.refused.len()), (present.len(), 0));
        present.iter().for_each(|to| assert_eq!(answer(&rib, *to), hops[0], "{to}"));
        rib.retire(committed.epoch);
        assert_eq!(rib.load(&[route(prefix(v6, 1), &hops[..1])]), [], "there is room again");
    }
}

#[test]
fn as_many_routes_as_there_may_be_and_no_more() {
    for v6 in [false, true] {
        let mut rib = Rib::new(Bounds { routes: 3, ..Bounds::SMALL }).unwrap();
        let hop = [gateway(1)];
        let changes: Vec<_> = (0..4).map(|n| route(prefix(v6, n), &hop)).collect();
        let refused = rib.load(&changes);
        assert_eq!(refused.iter().map(|refused| refused.error).collect::<Vec<_>>(), [Error::TableFull]);
        assert_eq!(answer(&rib, refused[0].to).to, To::NoRoute);
    }
}

#[test]
fn what_a_late_reader_was_led_to_is_not_used_again_before_all_have_passed() {
    for v6 in [false, true] {
        let mut rib = small();
        let (to, old, new) = (prefix(v6, 1), [gateway(1)], [gateway(2)]);
        assert_eq!(rib.load(&[route(to, &old)]), []);
        let held = rib.fib().lookup(to.addr());
        assert!(rib.prepare(&[route(to, &[])]).refused.is_empty());
        let gone = rib.commit();
        let fresh = rib.prepare(&[route(to, &new)]).hops.unwrap();
        let later = rib.commit();
        assert_eq!(later.changed, 1);
        assert_eq!(fresh.get(held), old[0], "the number still means what it meant");
        assert_eq!(answer(&rib, to), new[0]);
        rib.retire(gone.epoch);
        assert_eq!(rib.load(&[route(prefix(v6, 2), &[gateway(3)])]), []);
        assert_eq!(rib.fib().lookup(prefix(v6, 2).addr()), held, "and then it means something else");
    }
}

#[test]
fn equal_hops_share_a_number_and_new_ones_make_a_snapshot() {
    let (mut rib, hop) = (small(), [gateway(1)]);
    let first = rib.prepare(&[route(prefix(false, 1), &hop)]);
    assert!(first.hops.is_some());
    let second = rib.prepare(&[route(prefix(true, 1), &hop), route(prefix(true, 2), &hop)]);
    assert!(second.hops.is_none(), "nothing that CPUs do not know");
    assert_eq!(rib.commit().changed, 3);
    assert_eq!(rib.usage().hops.0, 1);
}

#[test]
fn too_many_hops_are_refused_and_routes_with_known_ones_are_not() {
    let mut rib = Rib::new(Bounds { hops: 4, groups: 1, ..Bounds::SMALL }).unwrap();
    let hops: Vec<_> = (0..4).map(|n| [gateway(n)]).collect();
    let errors = |refused: Vec<Refused>| refused.iter().map(|refused| refused.error).collect::<Vec<_>>();
    for n in 0..3u16 {
        assert_eq!(rib.load(&[route(prefix(false, n.into()), &hops[usize::from(n)])]), []);
    }
    assert_eq!(errors(rib.load(&[route(prefix(false, 9), &hops[3])])), [Error::HopsFull]);
    assert_eq!(rib.load(&[route(prefix(false, 9), &hops[0])]), []);
    assert_eq!(rib.load(&[route(prefix(false, 2), &[])]), []);
    // One number is left: for a group of known hops, and not for a second group.
    let group = [gateway(0), gateway(1)];
    assert_eq!(rib.load(&[route(prefix(false, 5), &group)]), []);
    assert_eq!(rib.load(&[route(prefix(false, 6), &[gateway(1), gateway(0)])]), []);
    assert_eq!(rib.usage().hops.0, 3, "the same members in any order are the same group");
    assert_eq!(errors(rib.load(&[route(prefix(false, 7), &[gateway(0), gateway(3)])])), [Error::HopsFull]);
    assert_eq!(rib.usage().hops.0, 3);
}

#[test]
fn a_hop_with_more_shares_makes_another_group_and_leaves_nothing_behind() {
    for v6 in [false, true] {
        let (mut rib, hops) = (small(), [gateway(1), gateway(0), gateway(1)]);
        let members = |rib: &Rib, to: Prefix| {
            let id = rib.fib().lookup(to.addr());
            rib.hops().each(id).filter(|hop| *hop == gateway(1)).count()
        };
        assert_eq!(rib.load(&[route(prefix(v6, 5), &hops), route(prefix(v6, 6), &hops[..2])]), []);
        assert_eq!((members(&rib, prefix(v6, 5)), members(&rib, prefix(v6, 6))), (2, 1));
        assert_eq!(rib.usage().hops.0, 4, "two hops and two groups");
        assert_eq!(rib.load(&[route(prefix(v6, 7), &[gateway(2); 3])]), []);
        assert_eq!((answer(&rib, prefix(v6, 7)), rib.usage().hops.0), (gateway(2), 5), "that is no group");
        for n in 5..=7 {
            assert_eq!(rib.load(&[route(prefix(v6, n), &[])]), []);
        }
        assert_eq!(rib.usage().hops.0, 0);
    }
}

#[test]
fn a_group_has_a_bounded_number_of_members() {
    let mut rib = small();
    let members: Vec<_> = (0..=64).map(gateway).collect();
    assert_eq!(rib.load(&[route(prefix(false, 1), &members[..64])]), []);
    let refused = rib.load(&[route(prefix(false, 2), &members)]);
    assert_eq!(refused[0].error, Error::TooManyMembers);
    let hops = rib.hops();
    assert_eq!(hops.each(rib.fib().lookup(prefix(false, 1).addr())).count(), 64);
    assert_eq!(rib.load(&[route(prefix(false, 1), &[])]), []);
    assert_eq!(rib.usage().hops.0, 0, "members go with their group");
}

#[test]
fn a_table_is_listed_in_order_in_steps_of_any_size() {
    let (mut rib, hop) = (small(), [gateway(1)]);
    let mut expected: Vec<_> =
        (0..40).map(|n| prefix(n % 2 == 0, n)).chain([all(false), all(true)]).collect();
    let changes: Vec<_> = expected.iter().map(|to| route(*to, &hop)).collect();
    assert_eq!(rib.load(&changes), []);
    expected.sort();
    let (mut listed, mut last) = (Vec::new(), None);
    loop {
        let step: Vec<_> = rib.after(0, last).take(7).map(|listed| listed.to).collect();
        let Some(end) = step.last() else { break };
        last = Some(*end);
        listed.extend(step);
    }
    assert_eq!(listed, expected);
}

#[test]
fn people_are_told_which_route_leads_to_an_address() {
    for v6 in [false, true] {
        let (mut rib, hop) = (small(), [gateway(1)]);
        let to = prefix(v6, 3);
        assert_eq!(rib.lookup(0, to.addr()), None);
        assert_eq!(rib.load(&[route(all(v6), &hop), route(to, &hop)]), []);
        assert_eq!(rib.lookup(0, to.addr()).map(|found| found.to), Some(to));
        assert_eq!(rib.lookup(0, prefix(v6, 4).addr()).map(|found| found.to), Some(all(v6)));
    }
}

/// Each of two answers is right while a route is replaced, or shadowed by a longer one; any other would be one that
/// never held.
#[test]
fn a_reader_sees_the_old_answer_or_the_new_and_no_other() {
    for v6 in [false, true] {
        // Nothing is retired: all nodes that ever were have room.
        let mut rib = Rib::new(Bounds { lines6: 1 << 18, ..Bounds::SMALL }).unwrap();
        let hops = [[gateway(1)], [gateway(2)]];
        let watched: Vec<_> = (0..64).map(|n| prefix(v6, n)).collect();
        assert_eq!(rib.load(&[route(all(v6), &hops[0])]), []);
        assert_eq!(rib.load(&[route(prefix(v6, 99), &hops[1])]), []);
        let (fib, known) = (rib.fib(), rib.hops());
        let rounds = if cfg!(miri) { 1 } else { 12 };
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut looked = 0u32;
                while !over.load(Ordering::Relaxed) || looked == 0 {
                    for to in &watched {
                        let hop = known.get(fib.lookup(to.addr()));
                        assert!(hop == hops[0][0] || hop == hops[1][0], "{to}: {hop:?}");
                    }
                    looked = looked.saturating_add(1);
                }
            });
            for round in 0..rounds {
                for batch in watched.chunks(if round % 3 == 0 { watched.len() } else { 5 }) {
                    let come: Vec<_> = batch.iter().map(|to| route(*to, &hops[round % 2])).collect();
                    let go: Vec<_> = batch.iter().map(|to| route(*to, &[])).collect();
                    // Nothing is retired: the reader here is never asked.
                    for changes in [come, go] {
                        assert!(rib.prepare(&changes).refused.is_empty());
                        assert_eq!(rib.commit().changed, changes.len());
                    }
                }
            }
            over.store(true, Ordering::Relaxed);
            reader.join().unwrap();
        });
    }
}

/// A node comes between two levels of a lookup: what was a leaf a moment ago is not to be followed as if it had been a
/// node all the time.
#[test]
fn a_lookup_does_not_look_twice_at_a_word_that_changes() {
    let mut rib = Rib::new(Bounds { nodes4: 1 << 16, ..Bounds::SMALL }).unwrap();
    let to = |text: &str, len| Prefix::new(text.parse().unwrap(), len).unwrap();
    let (around, [here, wrong]) = ([gateway(1)], [[gateway(2)], [gateway(3)]]);
    // The last byte of the key is the third of the route that it must not be led to.
    let key = Ipv4Addr::new(10, 1, 2, 3).to_bits();
    let come = [route(to("10.1.2.0", 24), &here), route(to("10.1.3.0", 24), &wrong)];
    let go = come.map(|change| Change { hops: &[], ..change });
    // Others have the same hops, so that their numbers stay.
    let others = [route(to("10.2.0.0", 16), &here), route(to("10.3.0.0", 16), &wrong)];
    assert_eq!(rib.load(&others), []);
    assert_eq!(rib.load(&[route(to("10.1.0.0", 16), &around)]), []);
    assert_eq!(rib.load(&come), []);
    let (fib, known) = (rib.fib(), rib.hops());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut hops = [HopId::NO_ROUTE; 64];
            let is_right = |hop: &HopId| [around[0], here[0]].contains(&known.get(*hop));
            while !over.load(Ordering::Relaxed) {
                fib.lookup4(&[key; 64], &mut hops);
                assert!(hops.iter().all(is_right), "led where no route to it ever led");
            }
        });
        let rounds = if cfg!(miri) { 3 } else { 40_000 };
        let mut changed = 0;
        for changes in [&go, &come].into_iter().cycle().take(2 * rounds) {
            changed += changes.len() - rib.prepare(changes).refused.len();
            changed -= rib.commit().refused.len();
        }
        over.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        assert_eq!(changed, 4 * rounds);
    });
}
