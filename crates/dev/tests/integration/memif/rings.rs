//! Peers that misbehave in the rings. Frames that are wrong are dropped and counted by what is wrong; an index that
//! cannot be ends the connection. Each test ends with all buffers at home.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use dev::memif::{Fault, FaultCounts, Options, Role};
use net::driver::Driver;
use rustix::fs::{FallocateFlags, OFlags, fallocate, fcntl_getfl, fcntl_setfl};

use crate::memif::end::{End, Place, frame, until};
use crate::memif::rogue_peer::{BUFFERS, BYTES, RINGS, RoguePeer, SIZE};

const NEXT: u16 = 1;

/// Our master, with a crook for a slave.
fn master(place: &Place) -> (End, RoguePeer) {
    let mut master = End::open(place.options(Role::Master));
    let mut rogue = RoguePeer::connect(place);
    rogue.be_slave();
    until("it is up", || master.is_up());
    (master, rogue)
}

/// Our slave, with a crook for a master, and where its rings are.
fn slave(place: &Place) -> (End, RoguePeer, [u64; 2]) {
    let listener = RoguePeer::listen(place);
    let mut slave = End::open(Options { ring_size: SIZE.into(), ..place.options(Role::Slave) });
    let mut rogue = RoguePeer::accept(&listener);
    let rings = rogue.be_master();
    until("it is up", || slave.is_up());
    (slave, rogue, rings)
}

/// The connection must have ended because of `fault`, and the peer been told.
fn ended(end: &mut End, rogue: &mut RoguePeer, fault: &Fault) {
    until("it is down", || end.is_down());
    let said = fault.to_string();
    assert!(rogue.farewell().starts_with(&said[..said.len().min(60)]));
    until("it is written down", || end.last_fault().as_ref() == Some(fault));
}

fn received_descriptors_that_lead_astray() {
    let place = Place::new();
    let (mut master, rogue) = master(&place);
    let ring = rogue.ring(0);
    let good = frame(100, 5);
    rogue.memory.as_ref().unwrap().write_all_at(&good, BUFFERS[0]).unwrap();
    let wrong = [
        (0, 1, 64, 0),                   // no such region
        (0, 0xffff, 64, 0),              //
        (0, 0, 64, BYTES - 63),          // beyond its end
        (0, 0, 64, u64::from(u32::MAX)), //
        (0, 0, 2049, BYTES - 2048),      // long ones too
        (0, 0, 0, BUFFERS[0]),           // empty
        (0, 0, 65_550, 0),               // longer than any
        (0, 0, u32::MAX, u64::from(u32::MAX)),
    ];
    for (slot, (flags, region, len, offset)) in (0..).zip(wrong) {
        ring.set_desc(slot, flags, region, len, offset);
    }
    ring.set_desc(8, NEXT, 0, 0, BUFFERS[0]); // a piece of nothing
    ring.set_desc(9, 0, 0, 100, BUFFERS[0]);
    ring.set_desc(10, NEXT, 0, 60, BUFFERS[0]); // a piece astray
    ring.set_desc(11, 0, 3, 40, BUFFERS[0]);
    ring.set_desc(12, NEXT, 0, 60, BUFFERS[0]); // a good one
    ring.set_desc(13, 0, 0, 40, BUFFERS[0] + 60);
    ring.set_head(14);
    assert_eq!(master.receive(0, 1), [good]);
    let faults = FaultCounts { bad_descriptor: 6, bad_length: 4, ..FaultCounts::default() };
    assert_eq!(master.status().faults, faults);
    assert_eq!(master.rings[0].stats().rx_errors, 10);
    assert_eq!(ring.tail(), 14, "all of them go back");
    assert!(master.is_up(), "nothing worse has happened");
}

fn chains_without_end() {
    let place = Place::new();
    let (mut master, rogue) = master(&place);
    let ring = rogue.ring(0);
    (0..SIZE).for_each(|slot| ring.set_desc(slot, NEXT, 0, 60, BUFFERS[0]));
    for head in [SIZE, SIZE + 5] {
        ring.set_head(head);
        until("they are taken", || {
            assert_eq!(master.turn(), 0);
            ring.tail() == head
        });
        (0..SIZE).for_each(|slot| ring.set_desc(slot, NEXT, 0, 60, BUFFERS[0]));
    }
    let faults = FaultCounts { bad_chain: 2, ..FaultCounts::default() };
    assert_eq!(master.status().faults, faults);
    // 15 pieces of 5000 bytes, which overlap, are more than a frame.
    (5..15).for_each(|slot| ring.set_desc(slot, NEXT, 0, 6600, BUFFERS[0]));
    ring.set_desc(15, 0, 0, 60, BUFFERS[0]);
    ring.set_head(2 * SIZE);
    until("they are taken", || {
        assert_eq!(master.turn(), 0);
        ring.tail() == 2 * SIZE
    });
    assert_eq!(master.status().faults, FaultCounts { bad_length: 1, ..faults });
}

fn the_head_of_a_slave_that_jumps() {
    for jump in [SIZE + 1, 0x8000, 0xffff] {
        let place = Place::new();
        let (mut master, mut rogue) = master(&place);
        rogue.ring(0).set_head(jump);
        ended(&mut master, &mut rogue, &Fault::IndexJump { theirs: jump, ours: 0 });
        assert_eq!(master.status().faults.index_jump, 1);

        let mut rogue = RoguePeer::connect(&place);
        rogue.be_slave();
        until("it is up again", || master.is_up());
        rogue.ring(1).set_head(jump);
        assert_eq!(master.send(0, &[frame(60, 0)]), 0);
        ended(&mut master, &mut rogue, &Fault::IndexJump { theirs: jump, ours: 0 });
        assert_eq!(master.status().faults.index_jump, 2);
    }
}

fn empty_buffers_that_are_none() {
    for (region, len, offset) in
        [(0, 2048, BYTES - 59), (5, 2048, 0), (0, 0, BUFFERS[1]), (0, u32::MAX, u64::from(u32::MAX))]
    {
        let place = Place::new();
        let (mut master, mut rogue) = master(&place);
        rogue.ring(1).set_desc(1, 0, region, len, offset);
        assert_eq!(master.send(0, &[frame(60, 0)]), 1);
        assert_eq!(master.send(0, &[frame(60, 1)]), 0);
        ended(&mut master, &mut rogue, &Fault::Buffer);
        assert_eq!(master.status().faults.bad_buffer, 1);
    }
}

fn buffers_of_one_byte() {
    let place = Place::new();
    let (mut master, rogue) = master(&place);
    let ring = rogue.ring(1);
    (0..SIZE).for_each(|slot| ring.set_desc(slot, 0, 0, 1, BUFFERS[1] + u64::from(slot)));
    assert_eq!(master.send(0, &[frame(60, 0), frame(14, 1)]), 2);
    let stats = master.rings[0].stats();
    assert_eq!((stats.tx_errors, stats.tx_frames, ring.tail()), (1, 1, 14));
    let mut got = [0; 14];
    rogue.memory.as_ref().unwrap().read_exact_at(&mut got, BUFFERS[1]).unwrap();
    assert_eq!(got[..], frame(14, 1));
}

fn what_a_master_says_of_our_buffers_is_not_asked() {
    let place = Place::new();
    let (mut slave, rogue, [_, at]) = slave(&place);
    let ring = rogue.ring_at(at);
    let mut offset = [0; 4];
    let memory = rogue.memory.as_ref().unwrap();
    memory.read_exact_at(&mut offset, at + 128 + 8).unwrap();
    let sent = frame(100, 1);
    memory.write_all_at(&sent, u32::from_ne_bytes(offset).into()).unwrap();
    ring.set_desc(0, 0, 77, 100, u64::from(u32::MAX));
    ring.set_desc(1, 0, 0, 2049, 0); // more than it holds
    ring.set_desc(2, 0, 0, 0, 0);
    (3..SIZE).for_each(|slot| ring.set_desc(slot, NEXT, 0, 1, 0));
    ring.set_tail(SIZE);
    assert_eq!(slave.receive(0, 1), [sent]);
    let faults = FaultCounts { bad_length: 2, bad_chain: 1, ..FaultCounts::default() };
    until("all are dealt with", || {
        slave.turn();
        slave.status().faults == faults
    });
    assert_eq!(ring.head(), 2 * SIZE, "and given again");
}

fn the_tail_of_a_master_that_jumps() {
    for (ring, tail) in [(1, SIZE + 1), (1, 0xffff), (0, 1), (0, 0x8000)] {
        let place = Place::new();
        let (mut slave, mut rogue, rings) = slave(&place);
        rogue.ring_at(rings[ring]).set_tail(tail);
        assert_eq!(slave.send(0, &[frame(60, 0)]), ring);
        ended(&mut slave, &mut rogue, &Fault::IndexJump { theirs: tail, ours: 0 });
        assert_eq!(slave.status().faults.index_jump, 1);
    }
}

/// A peer frees pages of memory that cannot shrink: what is touched there is zeros again.
fn holes_in_the_memory_are_zeros_and_the_next_peer_is_served() {
    for role in [Role::Master, Role::Slave] {
        for (from, len) in [(0, 4096), (4096, BYTES - 4096), (0, BYTES)] {
            let place = Place::new();
            let (mut end, rogue) = match role {
                Role::Master => master(&place),
                Role::Slave => {
                    let (slave, rogue, _) = slave(&place);
                    (slave, rogue)
                }
            };
            for round in 0..50 {
                end.send(0, &[frame(60, round), frame(3000, round)]);
                let memory = rogue.memory.as_ref().unwrap();
                fallocate(memory, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, from, len).unwrap();
                end.turn();
            }
            // Frames of zeros, or a connection that has ended; the process lives.
            drop(rogue);
            until("it is down", || end.is_down());
            let other = if role == Role::Master { Role::Slave } else { Role::Master };
            if role == Role::Slave {
                std::fs::remove_file(place.socket()).unwrap();
            }
            let mut honest = End::open(place.options(other));
            until("an honest one is served", || end.is_up() && honest.is_up());
        }
    }
}

/// Both ends have the same open eventfd, so the peer can make it block and fill it at any time: the CPU that rings it waits
/// then, and only for as long as the control thread takes to see it.
fn a_peer_whose_eventfd_is_full_and_blocks_holds_up_a_cpu_for_a_moment_and_is_left() {
    for role in [Role::Master, Role::Slave] {
        let place = Place::new();
        let (mut end, mut rogue, ring) = match role {
            Role::Master => {
                let (master, rogue) = master(&place);
                (master, rogue, RINGS[1])
            }
            Role::Slave => {
                let (slave, rogue, rings) = slave(&place);
                (slave, rogue, rings[0])
            }
        };
        // Its slaves ring the first eventfd that they gave away, its master the second that it was given.
        let bell = &rogue.bells[usize::from(role == Role::Master)];
        let flags = fcntl_getfl(bell).unwrap();
        fcntl_setfl(bell, flags - OFlags::NONBLOCK).unwrap();
        rustix::io::write(bell, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        // It says that it sleeps.
        rogue.memory.as_ref().unwrap().write_all_at(&[0, 0], ring + 4).unwrap();
        let begun = Instant::now();
        end.send(0, &[frame(60, 0)]);
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        ended(&mut end, &mut rogue, &Fault::FullBell);
    }
}

/// Anything may change at any time, also between two reads. A peer that scribbles all over the memory gets nothing but
/// a bad connection.
fn a_peer_that_scribbles_all_over_the_memory() {
    for role in [Role::Master, Role::Slave] {
        let place = Place::new();
        let listener = (role == Role::Slave).then(|| RoguePeer::listen(&place));
        let mut end = End::open(Options { ring_size: SIZE.into(), ..place.options(role) });
        let mut seen = 0;
        for round in 0..5 {
            let (rogue, rings) = match &listener {
                None => {
                    let mut rogue = RoguePeer::connect(&place);
                    rogue.be_slave();
                    (rogue, RINGS)
                }
                Some(listener) => {
                    let mut rogue = RoguePeer::accept(listener);
                    let rings = rogue.be_master();
                    (rogue, rings)
                }
            };
            until("it is up", || end.is_up());
            seen += scribble(&mut end, &rogue, rings, role, round);
            drop(rogue);
            until("it is down", || end.is_down());
        }
        assert!(seen > 0, "something came through");
        // Which of them it meets is chance.
        let faults = end.status().faults;
        let met = [
            faults.bad_descriptor,
            faults.bad_length,
            faults.bad_chain,
            faults.index_jump,
            faults.bad_buffer,
        ];
        assert!(met.iter().sum::<u64>() > 0, "{faults:?}");
    }
}

/// Turns while another thread writes; answers how many frames came.
fn scribble(end: &mut End, rogue: &RoguePeer, rings: [u64; 2], role: Role, seed: u64) -> usize {
    let stop = AtomicBool::new(false);
    let mut seen = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = seed * 2 + 1;
            while !stop.load(Ordering::Relaxed) {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                scribble_once(rogue, rings, role, random >> 16);
            }
        });
        for _ in 0..300 {
            seen += end.turn();
            end.send(0, &[frame(60, 0), frame(3000, 0)]);
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    seen
}

/// Spoils a field of some descriptor, and moves the index for frames on as far as it may go, or rarely beyond.
fn scribble_once(rogue: &RoguePeer, rings: [u64; 2], role: Role, random: u64) {
    let at = 128 + 16 * (random % u64::from(SIZE)) + 4 * (random >> 8) % 12;
    let value = (random >> 16) & [0x0001_0001, 0xfff, 0x1_ffff][usize::try_from((at % 16) / 4).unwrap()];
    let memory = rogue.memory.as_ref().unwrap();
    let ring = rings[usize::from(random & 0x80 != 0)];
    memory.write_all_at(&u32::try_from(value).unwrap().to_ne_bytes(), ring + at).unwrap();
    let beyond = u16::from(random & 0xffff_0000 == 0);
    if role == Role::Master {
        let ring = rogue.ring_at(rings[0]);
        ring.set_head(ring.tail().wrapping_add(SIZE + beyond));
    } else {
        let ring = rogue.ring_at(rings[1]);
        ring.set_tail(ring.head().wrapping_add(beyond));
    }
}

harness::tests![
    received_descriptors_that_lead_astray,
    chains_without_end,
    the_head_of_a_slave_that_jumps,
    empty_buffers_that_are_none,
    buffers_of_one_byte,
    what_a_master_says_of_our_buffers_is_not_asked,
    the_tail_of_a_master_that_jumps,
    holes_in_the_memory_are_zeros_and_the_next_peer_is_served,
    a_peer_whose_eventfd_is_full_and_blocks_holds_up_a_cpu_for_a_moment_and_is_left,
    a_peer_that_scribbles_all_over_the_memory,
];
