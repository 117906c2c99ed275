//! Cost of a frame in and out of memif: two ends in one thread, so that neither waits.
//!
//! `memif_cost ROUNDS BYTES` sends 64 frames of so many bytes in each round, master to slave and back. Under callgrind,
//! two numbers of rounds and a subtraction give the instructions of a frame; by itself it says nanoseconds. What another
//! CPU's cache has to be asked for is not in either.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a measurement, run by hand")]

use std::time::Instant;

use dev::memif::{Hub, MemifRing, Options, Role, State};
use net::driver::{Driver, Link};
use pkt::{Arena, PktVec, Pool};

const FRAMES: usize = 64;

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<usize>().unwrap());
    let (rounds, bytes) = (args.next().unwrap_or(100_000), args.next().unwrap_or(64));
    let folder = std::env::temp_dir().join(format!("memif-cost-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let mut hub = Hub::start(|| (), Box::new(|_, _| ())).unwrap();
    let mut ends = [Role::Master, Role::Slave].map(|role| {
        let options = Options {
            name: "cost".to_owned(),
            socket: folder.join("sock"),
            access: dev::sys::unix_socket::Access::default(),
            id: 0,
            role,
            rings: 1,
            ring_size: 1024,
            buffer_size: 2048,
            secret: None,
        };
        hub.open(options).unwrap()
    });
    while ends.iter().any(|(port, _)| port.status().state != State::Connected) {
        std::thread::yield_now();
    }
    let mut pool = Arena::carve(1, 4096, false).unwrap().pop().unwrap();
    let [(_, master), (_, slave)] = &mut ends;
    let spent = exchange(&mut master[0], &mut slave[0], &mut pool, rounds, bytes);
    println!("{:.1} ns for each frame, in and out", spent / (rounds * FRAMES * 2) as f64);
    std::fs::remove_dir_all(folder).unwrap();
}

/// Nanoseconds of all rounds.
fn exchange(
    master: &mut MemifRing,
    slave: &mut MemifRing,
    pool: &mut Pool,
    rounds: usize,
    bytes: usize,
) -> f64 {
    let mut frames = PktVec::new();
    while [&mut *master, &mut *slave].iter_mut().any(|ring| ring.link() != Link::Up) {
        master.rx(pool, &mut frames, 1);
        slave.rx(pool, &mut frames, 1);
    }
    for _ in 0..FRAMES {
        let mut pkt = pool.take().unwrap();
        pkt.append(bytes).unwrap().fill(7);
        frames.push(pkt).unwrap();
    }
    let begun = Instant::now();
    for _ in 0..rounds {
        cross(master, slave, pool, &mut frames);
        cross(slave, master, pool, &mut frames);
    }
    assert_eq!(frames.len(), FRAMES);
    frames.drain().for_each(|pkt| pool.give(pkt));
    begun.elapsed().as_secs_f64() * 1e9
}

fn cross(from: &mut MemifRing, to: &mut MemifRing, pool: &mut Pool, frames: &mut PktVec) {
    while !frames.is_empty() {
        from.tx(pool, frames);
        from.doorbell(pool);
    }
    while frames.len() < FRAMES {
        to.rx(pool, frames, FRAMES);
    }
}
