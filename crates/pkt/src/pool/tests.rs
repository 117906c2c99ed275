//! Unsafe: plays a device that gives buffers back.

use proptest::prelude::*;

use super::*;
use crate::{Arena, DATA_LEN, PktVec};

fn pools(count: usize, slots: usize) -> Vec<Pool> {
    Arena::carve(count, slots, false).unwrap()
}

#[test]
fn an_arena_that_cannot_be_addressed_is_refused() {
    for (count, slots) in [(0, 1), (1, 0), (65_536, 1), (2, usize::MAX)] {
        assert!(Arena::carve(count, slots, false).is_err(), "{count} pools of {slots}");
    }
}

/// A size that no other test has, so that none takes it.
#[cfg(not(miri))]
#[test]
fn memory_of_an_arena_that_ended_is_kept_for_the_next_of_its_size_as_far_as_it_may_be() {
    const SLOTS: usize = 1013;
    let life = || {
        let mut pool = pools(1, SLOTS).remove(0);
        let arena = Arc::clone(pool.arena());
        assert_eq!(arena.leaked(), 0);
        let mut pkt = pool.take().unwrap();
        assert_eq!((pkt.len(), pkt.rcvif), (0, 0));
        (pkt.rcvif, pkt.hash) = (7, 7);
        pkt.append(100).unwrap().fill(0xaa);
        pool.give(pkt);
        arena.base()
    };
    Arena::keep_memory(64 << 20);
    let first = life();
    let other = pools(1, SLOTS + 1);
    assert_ne!(other[0].arena().base(), first);
    assert_eq!(life(), first);
    assert_eq!(life(), first);
    // What was kept is used also if there is to be less from now on.
    Arena::keep_memory(1);
    assert_eq!(life(), first);
}

#[test]
fn the_buffer_that_died_last_is_taken_first() {
    let mut pool = pools(1, 4).remove(0);
    let (first, second) = (pool.take().unwrap(), pool.take().unwrap());
    let warm = second.index();
    pool.give(first);
    pool.give(second);
    let again = pool.take().unwrap();
    assert_eq!(again.index(), warm);
    pool.give(again);
}

#[test]
fn a_buffer_comes_back_empty_whatever_was_done_to_it() {
    let mut pool = pools(1, 1).remove(0);
    let mut pkt = pool.take().unwrap();
    pkt.append(100).unwrap().fill(0xaa);
    pkt.prepend(50).unwrap().fill(0xbb);
    (pkt.rcvif, pkt.hash, pkt.gso_size) = (3, 4, 5);
    pool.give(pkt);
    let pkt = pool.take().unwrap();
    assert_eq!((pkt.len(), pkt.rcvif, pkt.hash, pkt.gso_size), (0, 0, 0, 0));
    assert_eq!(pkt.headroom(), crate::HEADROOM);
    pool.give(pkt);
}

#[test]
fn an_empty_pool_says_so_and_recovers() {
    let mut pool = pools(1, 1).remove(0);
    let pkt = pool.take().unwrap();
    assert!(pool.take().is_none());
    assert_eq!(pool.stats().empty, 1);
    pool.give(pkt);
    assert!(pool.take().map(|pkt| pool.give(pkt)).is_some());
}

#[test]
fn a_ring_at_its_allowance_gets_no_buffer_until_one_dies_anywhere() {
    let mut both = pools(2, 4);
    let (mut away, mut pool) = (both.pop().unwrap(), both.pop().unwrap());
    let ring = pool.open_ring(2);
    let (a, b) = (pool.take_for(ring).unwrap(), pool.take_for(ring).unwrap());
    assert!(pool.take_for(ring).is_none());
    assert_eq!((pool.charged_to(ring), pool.stats().refused), (2, 1));
    away.give(a);
    assert!(pool.take_for(ring).is_none(), "it is dead, but not home yet");
    away.outgoing(0).send_each(|pkt| {
        pool.come_home(pkt);
        Ok(())
    });
    let c = pool.take_for(ring).unwrap();
    pool.give(b);
    pool.give(c);
    assert_eq!((pool.charged_to(ring), pool.free()), (0, 4));
}

#[test]
fn a_ring_that_takes_many_gets_no_more_than_its_allowance_and_gives_them_back_together() {
    let mut pool = pools(1, 8).remove(0);
    let ring = pool.open_ring(5);
    let mut pkts = PktVec::new();
    assert_eq!(pool.take_many_for(ring, &mut pkts, 3).len(), 3);
    assert_eq!((pool.charged_to(ring), pool.stats().refused), (3, 0));
    assert_eq!(pool.take_many_for(ring, &mut pkts, 3).len(), 2);
    assert!(pool.take_many_for(ring, &mut pkts, 1).is_empty());
    assert_eq!((pool.charged_to(ring), pool.stats().refused), (5, 2));
    pkts.iter_mut().for_each(|pkt| pkt.append(7).unwrap().fill(1));
    pool.give_all(&mut pkts);
    assert_eq!((pool.charged_to(ring), pool.free(), pkts.len()), (0, 8, 0));
    let again = pool.take().unwrap();
    assert!(again.is_empty());
    pool.give(again);
    assert_eq!(pool.charged_to(ring), 0, "nobody answers for it any more");
}

#[test]
fn what_the_way_home_does_not_take_waits() {
    let mut both = pools(2, 4);
    let (mut away, mut pool) = (both.pop().unwrap(), both.pop().unwrap());
    for _ in 0..3 {
        away.give(pool.take().unwrap());
    }
    let mut room = 2;
    away.outgoing(0).send_each(|pkt| {
        if room == 0 {
            return Err(pkt);
        }
        room -= 1;
        pool.come_home(pkt);
        Ok(())
    });
    assert_eq!((away.foreign(), pool.free(), away.stats().sent_home), (1, 3, 2));
}

#[test]
fn many_come_home_at_once_and_the_ring_that_had_them_gets_others() {
    let mut both = pools(2, 4);
    let (mut away, mut pool) = (both.pop().unwrap(), both.pop().unwrap());
    let ring = pool.open_ring(2);
    let (mut there, mut back) = (PktVec::new(), PktVec::new());
    for pkt in [pool.take_for(ring).unwrap(), pool.take().unwrap(), pool.take_for(ring).unwrap()] {
        there.push(pkt).unwrap();
    }
    away.give_all(&mut there);
    assert_eq!((there.len(), away.foreign(), pool.free()), (0, 3, 1));
    away.outgoing(0).send_each(|pkt| back.push(pkt));
    pool.come_home_all(&mut back);
    assert_eq!((back.len(), pool.free(), pool.stats().came_home, pool.charged_to(ring)), (0, 4, 3, 0));
}

#[test]
fn a_dropped_handle_is_counted_as_leaked() {
    let mut pool = pools(1, 2).remove(0);
    let arena = Arc::clone(pool.arena());
    drop(pool.take());
    assert_eq!(arena.leaked(), 1);
}

#[test]
fn a_handle_outlives_its_pool_and_its_arena() {
    let mut pool = pools(1, 2).remove(0);
    let mut pkt = pool.take().unwrap();
    drop(pool);
    pkt.append(4).unwrap().copy_from_slice(b"late");
    assert_eq!(pkt.head(), b"late");
}

#[test]
fn a_frame_that_a_device_gives_back_twice_is_refused() {
    let mut pool = pools(1, 2).remove(0);
    let arena = Arc::clone(pool.arena());
    let addr = pool.take().unwrap().into_frame();
    #[expect(unsafe_code, reason = "plays the device")]
    // SAFETY: one thread, and no other handle of the slot.
    let [once, twice, outside] = [addr, addr, arena.len() as u64].map(|at| unsafe { arena.reclaim(at) });
    assert!(twice.is_none() && outside.is_none());
    pool.give(once.unwrap());
    assert_eq!(pool.free(), 2);
}

/// The next step in a random life of two pools.
#[derive(Clone, Debug)]
enum Step {
    Take(bool),
    Chain,
    Truncate(u16),
    Give(bool),
    Home,
    Device,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => any::<bool>().prop_map(Step::Take),
        1 => Just(Step::Chain),
        1 => any::<u16>().prop_map(Step::Truncate),
        2 => any::<bool>().prop_map(Step::Give),
        1 => Just(Step::Home),
        1 => Just(Step::Device),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 256 }))]

    /// Free, foreign, held and lent buffers together are always all of them.
    #[test]
    fn no_buffer_is_ever_lost_or_doubled(steps in prop::collection::vec(step(), 1..if cfg!(miri) { 40 } else { 60 })) {
        let mut both = pools(2, 8);
        let arena = Arc::clone(both[0].arena());
        let mut held: Vec<Pkt> = Vec::new();
        for step in steps {
            match step {
                Step::Take(second) => held.extend(both[usize::from(second)].take().map(|mut pkt| {
                    pkt.append(DATA_LEN).unwrap();
                    pkt
                })),
                Step::Chain => if held.len() >= 2 {
                    let tail = held.pop().unwrap();
                    held[0].chain(tail);
                },
                Step::Truncate(len) => if let Some(pkt) = held.first_mut() {
                    let cut = pkt.truncate(usize::from(len));
                    prop_assert_eq!(pkt.len(), pkt.fragments().map(<[u8]>::len).sum::<usize>());
                    cut.into_iter().for_each(|cut| both[0].give(cut));
                },
                Step::Give(second) => held.pop().into_iter().for_each(|pkt| both[usize::from(second)].give(pkt)),
                Step::Home => {
                    let (first, second) = both.split_at_mut(1);
                    second[0].outgoing(0).send_each(|pkt| { first[0].come_home(pkt); Ok(()) });
                    first[0].outgoing(1).send_each(|pkt| { second[0].come_home(pkt); Ok(()) });
                }
                Step::Device => if held.last().is_some_and(|pkt| !pkt.is_chained()) {
                    let addr = held.pop().unwrap().into_frame();
                    #[expect(unsafe_code, reason = "plays the device")]
                    // SAFETY: one thread, and the frame was just lent.
                    let back = unsafe { arena.reclaim(addr) };
                    held.extend(back);
                }
            }
            let out: usize = held.iter().map(Pkt::buffers).sum();
            let inside: usize = both.iter().map(|pool| pool.free() + pool.foreign()).sum();
            prop_assert_eq!(out + inside, 16);
        }
        held.drain(..).for_each(|pkt| both[0].give(pkt));
        prop_assert_eq!(arena.leaked(), 0);
    }
}

#[test]
fn a_full_vector_gives_the_packet_back_and_a_loop_sees_each_once_in_order() {
    let mut pool = pools(1, 300).remove(0);
    let mut vec = PktVec::new();
    let mut refused = 0;
    for at in 0..300u16 {
        let mut pkt = pool.take().unwrap();
        pkt.hash = at;
        if let Err(pkt) = vec.push(pkt) {
            refused += 1;
            pool.give(pkt);
        }
    }
    let mut seen = Vec::new();
    vec.for_each_prefetching(|at, pkt| seen.push((at, pkt.hash)));
    assert_eq!(refused, 300 - crate::VEC_MAX);
    assert!(seen.iter().enumerate().all(|(at, &(position, hash))| position == at && usize::from(hash) == at));
    vec.drain().for_each(|pkt| pool.give(pkt));
    assert_eq!(pool.free(), 300);
}

#[test]
fn the_account_of_a_ring_that_left_is_used_again_when_all_of_its_buffers_are_home() {
    let mut pools = Arena::carve(1, 8, false).unwrap();
    let pool = &mut pools[0];
    let first = pool.open_ring(4);
    let out: Vec<_> = (0..3).map_while(|_| pool.take_for(first)).collect();
    pool.close_ring(first);
    assert!(pool.take_for(first).is_none(), "nothing is taken for it any more");
    let second = pool.open_ring(4);
    assert_ne!(first, second);
    assert_eq!((pool.charged_to(first), pool.charged()), (3, 3));
    out.into_iter().for_each(|pkt| pool.give(pkt));
    pool.close_ring(second);
    // However often rings come and go, no more accounts are made than are in use.
    for _ in 0..100 {
        let again = pool.open_ring(4);
        assert!(again == first || again == second);
        pool.close_ring(again);
    }
}

#[test]
fn buffers_are_taken_and_given_by_the_vector() {
    let mut both = pools(2, 100);
    let (mut other, mut pool) = (both.pop().unwrap(), both.pop().unwrap());
    let mut vector = PktVec::new();
    let warm = pool.take().map(|pkt| (pkt.index(), pool.give(pkt))).unwrap().0;
    assert_eq!(pool.take_many(&mut vector, 30).len(), 30);
    assert_eq!(vector.iter().last().map(|pkt| pkt.index()), Some(warm));
    assert_eq!(pool.take_many(&mut vector, 10).len(), 10, "behind those that were there");
    assert_eq!((vector.len(), pool.free(), pool.stats().low_water), (40, 60, 60));
    pool.give_all(&mut vector);
    assert_eq!((vector.len(), pool.free(), pool.stats().empty), (0, 100, 0));

    assert_eq!(pool.take_many(&mut vector, 200).len(), 100);
    assert_eq!((pool.stats().empty, pool.stats().low_water), (1, 0));
    let tail = vector.pop().unwrap();
    vector.iter_mut().next().unwrap().chain(tail);
    vector.push(other.take().unwrap()).unwrap();
    pool.give_all(&mut vector);
    assert_eq!((pool.free(), pool.foreign()), (100, 1), "chains and strangers too");
    pool.outgoing(1).send_each(|pkt| {
        other.come_home(pkt);
        Ok(())
    });
    assert_eq!((other.free(), pool.arena().leaked()), (100, 0));
}

#[test]
fn a_vector_takes_no_more_than_it_holds() {
    let mut pool = pools(1, 400).remove(0);
    let mut vector = PktVec::default();
    assert_eq!(pool.take_many(&mut vector, 250).len(), 250);
    assert_eq!((pool.take_many(&mut vector, 100).len(), vector.room()), (6, 0));
    assert_eq!((pool.take_many(&mut vector, 1).len(), pool.stats().empty), (0, 0), "there are enough");
    let back = pool.take().map(|pkt| vector.push(pkt)).unwrap().unwrap_err();
    pool.give(back);
    pool.give_all(&mut vector);
    assert_eq!(pool.free(), 400);
}

/// Safe code may swap what is public of two packets. Each must still own its own slot and its own bytes.
#[test]
fn packets_that_swap_their_metadata_keep_their_slots() {
    let [mut pool, mut other] = pools(2, 4).try_into().ok().unwrap();
    let arena = Arc::clone(pool.arena());
    let (mut long, mut short) = (pool.take().unwrap(), other.take().unwrap());
    long.append(5).unwrap().copy_from_slice(b"first");
    let mut tail = pool.take().unwrap();
    tail.append(6).unwrap().copy_from_slice(b"second");
    long.chain(tail);
    short.append(3).unwrap().copy_from_slice(b"own");
    let before = [(long.index(), long.home(), long.len()), (short.index(), short.home(), short.len())];
    (long.rcvif, short.rcvif) = (1, 2);

    core::mem::swap(&mut *long, &mut *short);

    assert_eq!((long.rcvif, short.rcvif), (2, 1), "what is public was swapped");
    assert_eq!([(long.index(), long.home(), long.len()), (short.index(), short.home(), short.len())], before);
    assert_eq!(
        (long.buffers(), long.head(), short.buffers(), short.head()),
        (2, &b"first"[..], 1, &b"own"[..])
    );
    // A device that is given one writes into that one.
    let addr = short.into_frame();
    assert!((addr..addr + 3).contains(&Arena::data_offset(before[1].0)));
    #[expect(unsafe_code, reason = "plays the device")]
    // SAFETY: one thread, and the frame was just lent.
    let back = unsafe { arena.reclaim(addr) }.unwrap();
    assert_eq!(back.head(), b"own");
    other.give(back);
    pool.give(long);
    assert_eq!((pool.free(), other.free(), pool.foreign(), other.foreign()), (4, 4, 0, 0));
}

/// Two arenas with two pools each: with the same numbers among those of their arena.
fn two_arenas() -> [Vec<Pool>; 2] {
    [(); 2].map(|()| pools(2, 4))
}

#[test]
fn a_buffer_of_another_arena_is_lost_to_its_own_and_taken_in_by_no_pool_of_this_one() {
    let [mut ours, mut theirs] = two_arenas();
    let arena = Arc::clone(theirs[0].arena());
    for theirs in &mut theirs {
        let mut ways: [fn(&mut Pool, Pkt); 4] = [
            Pool::give,
            Pool::come_home,
            |pool, pkt| {
                let mut vec = PktVec::new();
                vec.push(pkt).unwrap();
                pool.give_all(&mut vec);
            },
            |pool, pkt| {
                let mut own = pool.take().unwrap();
                own.chain(pkt);
                pool.give(own);
            },
        ];
        for (give, pool) in ways.iter_mut().zip([0, 1, 0, 1]) {
            let lost = arena.leaked();
            give(&mut ours[pool], theirs.take().unwrap());
            assert_eq!(arena.leaked() - lost, 1, "it is missed where it belongs");
        }
        assert!(ours.iter().all(|pool| (pool.free(), pool.foreign()) == (4, 0)));
    }
    let own = Arc::clone(ours[0].arena());
    drop(ours);
    assert_eq!((own.leaked(), arena.leaked()), (0, 8));
}

#[test]
fn numbers_of_pools_are_used_again_when_all_buffers_of_an_arena_have_come_home_and_not_before() {
    let rounds = if cfg!(miri) { 3 } else { 3000 };
    let mut outlives = None;
    for _ in 0..rounds {
        // 3000 times 30 are more than there are numbers.
        let mut all = pools(30, 1);
        let home = all[0].take().map(|pkt| (pkt.home(), all[0].give(pkt))).unwrap().0;
        assert_ne!(Some(home), outlives.as_ref().map(Pkt::home));
        outlives = outlives.or_else(|| all[0].take());
    }
    drop(outlives);
}
