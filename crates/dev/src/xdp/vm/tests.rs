use core::net::Ipv4Addr;

use pkt::{Arena, Pool};

use super::*;
use crate::bpf::asm::{Alu, Asm, Cond, Insn, Label, Reg, Size};
use crate::xdp::object::MapDef;

const PORTS: &[u8] = include_bytes!("../../../tests/xdp/ports.o");
const DEVMAP: &[u8] = include_bytes!("../../../tests/xdp/devmap.o");
const LOOKUPS: &[u8] = include_bytes!("../../../tests/xdp/lookups.o");

fn pool() -> Pool {
    Arena::carve(1, 16, false).unwrap().remove(0)
}

fn packet(pool: &mut Pool, bytes: &[u8]) -> Pkt {
    let mut pkt = pool.take().unwrap();
    pkt.append(bytes.len()).unwrap().copy_from_slice(bytes);
    pkt
}

fn occasion() -> Occasion {
    Occasion { now: Instant::from_ns(77), ifindex: 3, queue: 1, cpu: 0 }
}

/// A frame of UDP over IPv4 or IPv6 to a port.
fn udp(is_6: bool, port: u16) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame[6..12].fill(3);
    if is_6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 12, 17, 64]);
        frame.extend([[0xfd; 16], [0xfc; 16]].concat());
    } else {
        frame.extend([8, 0, 0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0]);
        frame.extend(
            [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)].map(|addr| addr.octets()).concat(),
        );
    }
    frame.extend([0x12, 0x34]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 12, 0, 0, 1, 2, 3, 4]);
    frame
}

/// The test program, which redirects to interface 5.
fn ports() -> Object {
    let mut object = Object::parse(PORTS, None).unwrap();
    let variables = object.maps.iter_mut().find(|map| map.name == ".rodata").unwrap();
    variables.data[4..8].copy_from_slice(&5_u32.to_le_bytes());
    object
}

#[test]
fn an_object_of_clang_decides_as_its_source_says() {
    let mut pool = pool();
    let program = InProcess::new(&ports(), 1).unwrap();
    let mut ring = program.on_ring(1);
    for is_6 in [false, true] {
        for (port, expected) in [
            (9, Verdict::Drop),
            (11, Verdict::Aborted),
            (7, Verdict::Tx),
            (80, Verdict::Pass),
            (21, Verdict::Pass),
            (19, Verdict::Redirect(5)),
        ] {
            let bytes = udp(is_6, port);
            let mut pkt = packet(&mut pool, &bytes);
            assert_eq!(ring.run(&occasion(), &mut pkt), expected, "port {port}");
            match port {
                7 => {
                    assert_eq!((&pkt.head()[..6], &pkt.head()[6..12]), (&bytes[6..12], &bytes[..6]));
                    assert_ne!(pkt.head(), bytes);
                }
                21 => assert_eq!(
                    (&pkt.head()[12..18], pkt.len()),
                    (&[&[0x81, 0, 0, 5], &bytes[12..14]].concat()[..], bytes.len() + 4)
                ),
                19 => assert_eq!((&pkt.head()[..6], &pkt.head()[6..]), (&[0xff; 6][..], &bytes[6..])),
                _ => assert_eq!(pkt.head(), bytes),
            }
            pool.give(pkt);
        }
    }
    assert_eq!(program.verdicts(), [2, 2, 4, 2, 2]);
    let counts = ports().maps.iter().position(|map| map.name == "ports").unwrap();
    let map = &program.0.maps[counts];
    let count = |port: u32| map.lookup(&port.to_le_bytes(), 0).and_then(|at| map.values.load(at, 8));
    assert_eq!((count(9), count(80), count(81)), (Some(2), Some(2), None));
}

/// A program with a 4-byte key, 8-byte value array as its map 0.
fn object(build: impl FnOnce(&mut Asm)) -> Object {
    let mut asm = Asm::new();
    build(&mut asm);
    let map = MapDef {
        name: "m".to_owned(),
        kind: 2,
        key_size: 4,
        value_size: 8,
        entries: 4,
        flags: 0,
        pinned: false,
        data: Vec::new(),
    };
    Object {
        program: "p".to_owned(),
        frags: false,
        license: "GPL".to_owned(),
        maps: vec![map],
        insns: asm.finish().unwrap(),
    }
}

fn verdict(object: &Object) -> Verdict {
    let mut pool = pool();
    let mut pkt = packet(&mut pool, &udp(false, 1));
    let verdict = InProcess::new(object, 1).unwrap().on_ring(1).run(&occasion(), &mut pkt);
    pool.give(pkt);
    verdict
}

#[test]
fn a_program_without_bounds_of_its_own_reaches_nothing_outside() {
    type Body = fn(&mut Asm);
    let hostile: [(&str, Body); 8] = [
        ("before the packet", |asm| {
            asm.load(Size::Word, Reg::R2, Reg::R1, 0).load(Size::Byte, Reg::R0, Reg::R2, -1);
        }),
        ("behind the packet", |asm| {
            asm.load(Size::Word, Reg::R2, Reg::R1, 4).load(Size::Byte, Reg::R0, Reg::R2, 0);
        }),
        ("across its end", |asm| {
            asm.load(Size::Word, Reg::R2, Reg::R1, 4).load(Size::Double, Reg::R0, Reg::R2, -7);
        }),
        ("behind the stack", |asm| {
            asm.mov(Reg::R2, Reg::R10).alu(Alu::Add, Reg::R2, 4096).store(Size::Byte, Reg::R2, 0, 1);
        }),
        ("before the stack", |asm| {
            asm.store(Size::Double, Reg::R10, -520, 1);
        }),
        ("the context", |asm| {
            asm.store(Size::Word, Reg::R1, 0, 1);
        }),
        ("nothing", |asm| {
            asm.mov(Reg::R2, 0).store(Size::Double, Reg::R2, 0, 1);
        }),
        ("an address of the process", |asm| {
            asm.load_number(Reg::R2, 0x7fff_0000_1000).store(Size::Double, Reg::R2, 0, 1);
        }),
    ];
    for (what, body) in hostile {
        let object = object(|asm| {
            body(asm);
            asm.mov(Reg::R0, 2).exit();
        });
        assert_eq!(verdict(&object), Verdict::Aborted, "{what}");
    }
    assert_eq!(
        verdict(&object(|asm| {
            asm.mov(Reg::R0, 2).exit();
        })),
        Verdict::Pass
    );
}

#[test]
fn a_program_without_end_is_ended() {
    let mut endless = object(|asm| {
        asm.mov(Reg::R0, 2).exit();
    });
    endless.insns = vec![Insn::from_bytes([0x05, 0, 0xff, 0xff, 0, 0, 0, 0])];
    assert_eq!(verdict(&endless), Verdict::Aborted);
    // One that calls itself.
    endless.insns = vec![
        Insn::from_bytes([0x85, 0x10, 0, 0, 0xff, 0xff, 0xff, 0xff]),
        Insn::from_bytes([0x95, 0, 0, 0, 0, 0, 0, 0]),
    ];
    assert_eq!(verdict(&endless), Verdict::Aborted);
}

#[test]
fn helpers_of_the_kernel_alone_are_refused_by_name() {
    let mut unknown = object(|asm| {
        asm.mov(Reg::R0, 2).exit();
    });
    unknown.insns =
        vec![Insn::from_bytes([0x85, 0, 0, 0, 69, 0, 0, 0]), Insn::from_bytes([0x95, 0, 0, 0, 0, 0, 0, 0])];
    let why = InProcess::new(&unknown, 1).err().unwrap().to_string();
    assert!(why.contains("helper 69") && why.contains("map_lookup_elem"), "{why}");
    let devmap = Object::parse(DEVMAP, None).unwrap();
    let why = InProcess::new(&devmap, 1).err().unwrap().to_string();
    assert!(why.contains("`pantala_test_out`") && why.contains("bpf_redirect()"), "{why}");
}

/// Any bytes are a program that ends, or none.
#[test]
fn random_programs_never_do_more_than_end() {
    const OPCODES: [u8; 14] =
        [0x61, 0x71, 0x79, 0x7b, 0x63, 0x07, 0xbf, 0xb7, 0x0f, 0x85, 0x95, 0xdb, 0x5d, 0x18];
    const HELPERS: [u8; 12] = [1, 2, 3, 5, 7, 8, 23, 28, 44, 51, 54, 65];
    let mut state = 7_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 8).unwrap() % below
    };
    for _ in 0..20_000 {
        let mut program = Vec::new();
        for _ in 0..=random(24) {
            let mut bytes = [0; 8].map(|_: u8| u8::try_from(random(256)).unwrap());
            // Mostly operations that there are, of registers that there are.
            bytes[0] = OPCODES.get(random(16)).copied().unwrap_or(bytes[0]);
            bytes[1] = u8::try_from(random(11) | random(11) << 4).unwrap();
            if bytes[0] == 0x85 {
                bytes[1] = 0;
                bytes[4..].copy_from_slice(&[HELPERS[random(12)], 0, 0, 0]);
            }
            bytes[3] = if random(2) == 0 { 0 } else { 0xff };
            program.extend(bytes);
        }
        program.extend([0x95, 0, 0, 0, 0, 0, 0, 0]);
        crate::xdp::fuzz_bodies::any_program(&program);
    }
    crate::xdp::fuzz_bodies::any_object(PORTS);
}

/// Returns the result of an operation.
fn result(build: impl FnOnce(&mut Asm)) -> u64 {
    let object = object(|asm| {
        asm.mov(Reg::R0, 0);
        build(asm);
        // Into the map, where it is read.
        let none: Label = asm.label();
        asm.store(Size::Double, Reg::R10, -16, Reg::R0).store(Size::Double, Reg::R10, -8, 0);
        asm.load_number(Reg::R1, MAPS << 32).mov(Reg::R2, Reg::R10).alu(Alu::Add, Reg::R2, -8);
        asm.call(crate::bpf::asm::Helper::MapLookup).jump_if(Cond::Eq, Reg::R0, 0, none);
        asm.load(Size::Double, Reg::R1, Reg::R10, -16).store(Size::Double, Reg::R0, 0, Reg::R1);
        asm.place(none).mov(Reg::R0, 2).exit();
    });
    let mut pool = pool();
    let mut pkt = packet(&mut pool, &udp(false, 1));
    let program = InProcess::new(&object, 1).unwrap();
    assert_eq!(program.on_ring(1).run(&occasion(), &mut pkt), Verdict::Pass);
    pool.give(pkt);
    program.0.maps[0].values.load(0, 8).unwrap()
}

#[test]
fn operations_are_those_of_rfc_9669() {
    let of = |op: Alu, a: u64, b: u64| {
        result(|asm| {
            asm.load_number(Reg::R3, a)
                .load_number(Reg::R4, b)
                .alu(op, Reg::R3, Reg::R4)
                .mov(Reg::R0, Reg::R3);
        })
    };
    assert_eq!((of(Alu::Add, u64::MAX, 2), of(Alu::Div, 7, 0), of(Alu::Mod, 7, 0)), (1, 0, 7));
    assert_eq!((of(Alu::Shl, 1, 65), of(Alu::Shr, 1 << 63, 63), of(Alu::Mul, 1 << 63, 3)), (2, 1, 1 << 63));
    assert_eq!(
        result(|asm| {
            asm.load(Size::Word, Reg::R0, Reg::R1, 12);
        }),
        3,
        "the number of the interface"
    );
    assert_eq!(
        result(|asm| {
            asm.load(Size::Word, Reg::R0, Reg::R1, 16);
        }),
        1,
        "the ring"
    );
    assert_eq!(
        result(|asm| {
            asm.load_number(Reg::R0, 0x1234).swap16(Reg::R0);
        }),
        0x3412
    );
}

/// Not a test: `cargo test --release -p dev --lib xdp::vm::tests::costs -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement: cargo test --release -p dev --lib xdp::vm::tests::costs -- --ignored --nocapture"]
fn costs() {
    let mut pool = pool();
    let mut pkts: Vec<Pkt> = (0..8).map(|n| packet(&mut pool, &udp(false, n))).collect();
    let object = Object::parse(LOOKUPS, None).unwrap();
    let (compiled, interpreted) =
        (InProcess::new(&object, 1).unwrap(), InProcess::without_compiler(&object, 1).unwrap());
    let programs = [("compiled", compiled), ("interpreted", interpreted)];
    for (_, program) in &programs {
        let blocked = program.0.maps.iter().find(|map| map.key_size == 4 && map.value_size == 4).unwrap();
        for addr in 1..=2000_u32 {
            assert_eq!(blocked.update(&addr.to_le_bytes(), &[0; 4], 0, 0), 0);
        }
    }
    let now = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    // One turn's.
    let occasion = occasion();
    for round in 0..10 {
        let (how, program) = &programs[round % 2];
        let mut ring = program.on_ring(1);
        let (begin, count) = (now(), 4_000_000_u32);
        for n in 0..count {
            let pkt = &mut pkts[n as usize % 8];
            assert_eq!(ring.run(&occasion, pkt), Verdict::Pass);
        }
        let end = now();
        let took = (end.tv_sec - begin.tv_sec) * 1_000_000_000 + end.tv_nsec - begin.tv_nsec;
        println!("{:.1} ns of the processor a packet, two lookups, {how}", took as f64 / f64::from(count));
    }
    pkts.into_iter().for_each(|pkt| pool.give(pkt));
}
