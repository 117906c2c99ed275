//! Object files and programs out of any bytes: what holds whatever they say. Called by tests and by `fuzz/`.

use net::driver::{Occasion, Verdict};
use net::time::Instant;
use pkt::{Arena, Flags, Pkt, Pool};

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

/// Runs the bytes as instructions, with an array, a hash table, an LRU table and a trie; answers the verdict on the first frame.
pub fn any_program(bytes: &[u8]) -> Option<Verdict> {
    let map = |name: &str, kind, key_size, flags| MapDef {
        name: name.to_owned(),
        kind,
        key_size,
        value_size: 12,
        entries: 4,
        flags,
        pinned: false,
        data: Vec::new(),
    };
    let maps = vec![map("array", 2, 4, 0), map("hash", 1, 4, 0), map("lru", 9, 4, 0), map("trie", 11, 8, 1)];
    run(&Object {
        program: "any".to_owned(),
        frags: false,
        license: "GPL".to_owned(),
        maps,
        insns: bytes.as_chunks().0.iter().map(|insn| Insn::from_bytes(*insn)).collect(),
    })
}

fn unpinned(def: MapDef) -> MapDef {
    MapDef { pinned: false, ..def }
}

/// The observable results of a program: verdicts, frames with their headroom and flags, values of maps.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    verdicts: Vec<Verdict>,
    frames: Vec<(usize, Vec<u8>, Flags)>,
    values: Vec<Vec<u8>>,
}

/// Runs a program as machine code and in the interpreter: both do the same.
fn run(object: &Object) -> Option<Verdict> {
    let both = [InProcess::new(object, 2), InProcess::without_compiler(object, 2)];
    let [Ok(compiled), Ok(interpreted)] = both else { return None };
    let (compiled, interpreted) = (outcome(&compiled), outcome(&interpreted));
    assert_eq!(compiled, interpreted, "machine code and interpreter differ");
    compiled?.verdicts.first().copied()
}

/// Runs a program on a frame, twice; the frame is whole afterwards, and its buffer comes back.
fn outcome(program: &InProcess) -> Option<Outcome> {
    let mut pool = Arena::carve(1, 4, false).ok()?.pop()?;
    let mut ring = program.on_ring(1);
    let (mut verdicts, mut frames) = (Vec::new(), Vec::new());
    for cpu in 0..2 {
        let mut frame = frame(&mut pool)?;
        let occasion = Occasion { now: Instant::from_ns(1), ifindex: 1, queue: 0, cpu };
        verdicts.push(ring.run(&occasion, &mut frame));
        assert!(frame.len() >= 14 && frame.len() == frame.head().len(), "a frame has its header");
        frames.push((frame.headroom(), frame.head().to_vec(), frame.flags));
        pool.give(frame);
    }
    assert!(pool.free() == pool.total() && program.verdicts().iter().sum::<u64>() == 2);
    Some(Outcome { verdicts, frames, values: program.values() })
}

/// A frame of UDP over IPv4.
fn frame(pool: &mut Pool) -> Option<Pkt> {
    let mut frame = pool.take()?;
    let bytes = frame.append(60).ok()?;
    bytes.fill(7);
    bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
    bytes[23] = 17;
    frame.flags.set(Flags::HASH);
    Some(frame)
}
