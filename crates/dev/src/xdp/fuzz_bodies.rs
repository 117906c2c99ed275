//! Object files and programs out of any bytes: what holds whatever they say. Called by tests and by `fuzz/`.

use net::driver::Occasion;
use net::time::Instant;
use pkt::{Arena, Pkt, Pool};

use super::object::{MapDef, Object};
use super::vm::InProcess;
use crate::bpf::asm::Insn;

/// Reads the bytes as an object file, and runs what is in it.
pub fn any_object(bytes: &[u8]) {
    if let Ok(object) = Object::parse(bytes, None)
        && object.maps.iter().all(|map| u64::from(map.value_size) * u64::from(map.entries) < 1 << 20)
    {
        run(&Object { maps: object.maps.iter().cloned().map(unpinned).collect(), ..object });
    }
}

/// Runs the bytes as instructions, with an array, a hash table and an LRU table.
pub fn any_program(bytes: &[u8]) {
    let map = |name: &str, kind| MapDef {
        name: name.to_owned(),
        kind,
        key_size: 4,
        value_size: 12,
        entries: 4,
        flags: 0,
        pinned: false,
        data: Vec::new(),
    };
    run(&Object {
        program: "any".to_owned(),
        frags: false,
        license: "GPL".to_owned(),
        maps: vec![map("array", 2), map("hash", 1), map("lru", 9)],
        insns: bytes.as_chunks().0.iter().map(|insn| Insn::from_bytes(*insn)).collect(),
    });
}

fn unpinned(def: MapDef) -> MapDef {
    MapDef { pinned: false, ..def }
}

/// Runs a program on a frame, twice; the frame is whole afterwards, and its buffer comes back.
fn run(object: &Object) {
    let Ok(program) = InProcess::new(object, 2) else { return };
    let Ok(mut pools) = Arena::carve(1, 4, false) else { return };
    let Some(mut pool) = pools.pop() else { return };
    let mut ring = program.on_ring(1);
    for cpu in 0..2 {
        let Some(mut frame) = frame(&mut pool) else { return };
        let occasion = Occasion { now: Instant::from_ns(1), ifindex: 1, queue: 0, cpu };
        let _ = ring.run(&occasion, &mut frame);
        assert!(frame.len() >= 14 && frame.len() == frame.head().len(), "a frame has its header");
        pool.give(frame);
    }
    assert!(pool.free() == pool.total() && program.verdicts().iter().sum::<u64>() == 2);
}

/// A frame of UDP over IPv4.
fn frame(pool: &mut Pool) -> Option<Pkt> {
    let mut frame = pool.take()?;
    let bytes = frame.append(60).ok()?;
    bytes.fill(7);
    bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
    bytes[23] = 17;
    Some(frame)
}
