//! XDP programs of users in the kernel, before ours; and their maps.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use dev::af_xdp::{Mode, Options, Port, Programs, SharedUmem, XdpRing};
use dev::bpf::offload::Offload;
use dev::bpf::user::UserProgram;
use dev::netlink::Veth;
use dev::xdp::object::Object;
use dev::xdp::vm::InProcess;
use net::driver::{Driver, Occasion, Verdict};
use net::time::Instant;
use pkt::Pool;

use crate::support::cable::{bytes_of, close_all, give_all, packet, pool, receive, send};
use crate::support::port::until;
use crate::support::{is_root, netns, veth_up};

/// Says that the test runs in a mount namespace of its own, with a BPF file system.
const HAS_PINS: &str = "PANTALA_TEST_PINS";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/xdp")
}

fn object(name: &str, program: Option<&str>) -> Object {
    Object::parse(&std::fs::read(folder().join(name)).unwrap(), program).unwrap()
}

/// A frame of UDP to a port.
fn udp(is_6: bool, port: u16) -> Vec<u8> {
    let mut frame = vec![2; 12];
    if is_6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 12, 17, 64]);
        frame.extend([0xfd; 32]);
    } else {
        frame.extend([8, 0, 0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    }
    frame.extend([0x12, 0x34]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 12, 0, 0, 1, 2, 3, 4]);
    frame.resize(frame.len().max(60), 0);
    frame
}

fn options(ifindex: u32, mode: Mode) -> Options {
    Options { ifindex, first_queue: 0, queues: 1, mtu: 1500, mode, allowance: 256, busy_poll: false }
}

/// Two ends of a cable; frames that the first receives go through a user's program.
struct Ends {
    pool: Pool,
    user: Arc<UserProgram>,
    ports: [Port; 2],
    near: XdpRing,
    far: XdpRing,
}

impl Ends {
    fn new(ends: [u32; 2], mode: Mode, object: &Object, offload: Option<&Offload>) -> Self {
        let mut pool = pool(2048);
        let umem = SharedUmem::new(Arc::clone(pool.arena()));
        let user = Arc::new(UserProgram::new(object).unwrap());
        let programs = Programs { user: Some(&user), offload };
        let (first, mut near) = Port::open_with(&umem, &options(ends[0], mode), programs).unwrap();
        let (second, mut far) = Port::open(&umem, &options(ends[1], mode)).unwrap();
        let [mut near, mut far] = [near.pop().unwrap(), far.pop().unwrap()];
        // A ring that was polled once has buffers.
        for ring in [&mut near, &mut far] {
            receive(ring, &mut pool, |_| true);
        }
        Self { pool, user, ports: [first, second], near, far }
    }

    /// Sends frames from the far end.
    fn send(&mut self, frames: &[Vec<u8>]) {
        let pkts: Vec<_> = frames.iter().map(|frame| packet(&mut self.pool, frame)).collect();
        send(&mut self.far, &mut self.pool, pkts);
    }

    /// Closes the rings; all buffers are back then.
    fn close(mut self) {
        close_all(&mut self.pool, &mut [&mut self.near, &mut self.far]);
        drop(self.ports);
    }
}

fn occasion() -> Occasion {
    Occasion { now: Instant::from_ns(0), ifindex: 1, queue: 0, cpu: 0 }
}

/// Runs `body` in both modes, in a namespace with a veth pair.
fn in_both_modes(test: &str, body: impl Fn([u32; 2], Mode) + Sync) {
    if !is_root() {
        return;
    }
    for (mode, mark) in [(Mode::Native, "n"), (Mode::Generic, "g")] {
        netns(&format!("{test}-{mark}")).run(|| body(veth_up(&Veth::new("a", "b")), mode)).unwrap();
    }
}

fn a_users_program_decides_before_ours_and_each_verdict_is_counted() {
    in_both_modes("xdpu-verd", |ends, mode| {
        let table = Offload::new(64, [1, 2, 3, 4]).unwrap();
        for offload in [None, Some(&table)] {
            let mut rig = Ends::new(ends, mode, &object("ports.o", None), offload);
            assert_eq!(
                (rig.ports[0].offload().is_some(), &rig.ports[0].no_offload_because),
                (offload.is_some(), &None)
            );
            for is_6 in [false, true] {
                rig.send(&[9, 11, 80, 7, 21].map(|port| udp(is_6, port)));
                let passed = receive(&mut rig.near, &mut rig.pool, |pkts| pkts.len() >= 2);
                let bytes: Vec<Vec<u8>> = passed.iter().map(bytes_of).collect();
                assert_eq!((&bytes[0], &bytes[1][12..16]), (&udp(is_6, 80), &[0x81, 0, 0, 5][..]));
                let back = receive(&mut rig.far, &mut rig.pool, |pkts| !pkts.is_empty());
                let at = if is_6 { 54 } else { 34 };
                assert_eq!(
                    bytes_of(&back[0])[at..at + 4],
                    [0, 7, 0x12, 0x34],
                    "sent back with its ports swapped"
                );
                give_all(&mut rig.pool, passed.into_iter().chain(back));
            }
            assert_eq!(rig.user.verdicts(), [2, 2, 4, 2, 0]);
            rig.close();
        }
    });
}

fn a_dropped_frame_is_handed_up_while_that_is_asked_for() {
    in_both_modes("xdpu-dump", |ends, mode| {
        let mut rig = Ends::new(ends, mode, &object("ports.o", None), None);
        let mut program = rig.user.on_ring();
        for on in [true, false] {
            rig.user.dump(on).unwrap();
            rig.send(&[9, 11, 80].map(|port| udp(false, port)));
            let wanted = if on { 3 } else { 1 };
            let mut pkts = receive(&mut rig.near, &mut rig.pool, |pkts| pkts.len() >= wanted);
            let verdicts: Vec<_> = pkts.iter_mut().map(|pkt| program.run(&occasion(), pkt)).collect();
            let handed = [Verdict::Drop, Verdict::Aborted, Verdict::Pass];
            assert_eq!(verdicts, handed[3 - wanted..]);
            assert_eq!(bytes_of(&pkts[wanted - 1]), udp(false, 80));
            if on {
                assert_eq!(bytes_of(&pkts[0]), udp(false, 9), "the mark is not of the frame");
                assert_eq!(program.run(&occasion(), &mut pkts[0]), Verdict::Pass, "and is gone");
            }
            give_all(&mut rig.pool, pkts);
        }
        rig.close();
    });
}

fn a_program_that_the_verifier_refuses_says_why() {
    if !is_root() {
        return;
    }
    netns("xdpu-veri")
        .run(|| {
            let ends = veth_up(&Veth::new("a", "b"));
            let pool = pool(256);
            let umem = SharedUmem::new(Arc::clone(pool.arena()));
            // Reads the packet without a look at its end.
            let mut unchecked = object("lookups.o", None);
            let load = object("two.o", Some("drop")).insns;
            unchecked.insns.truncate(2);
            unchecked.insns.extend(load.iter().skip(1).copied());
            let user = Arc::new(UserProgram::new(&unchecked).unwrap());
            let programs = Programs { user: Some(&user), offload: None };
            let Err(why) = Port::open_with(&umem, &options(ends[0], Mode::Native), programs) else {
                panic!("it was loaded")
            };
            let why = why.to_string();
            assert!(why.contains("verifier refuses program lookups") && why.contains("R0 !read_ok"), "{why}");
            assert!(UserProgram::verify(&unchecked).is_err());
            assert!(UserProgram::verify(&object("ports.o", None)).is_ok());
        })
        .unwrap();
}

/// Maps with names below `/sys/fs/bpf`, in a mount namespace of its own.
fn a_pinned_map_is_shared_by_programs_in_the_kernel_in_a_process_and_by_others() {
    const TEST: &str = "a_pinned_map_is_shared_by_programs_in_the_kernel_in_a_process_and_by_others";
    if !is_root() {
        return;
    }
    if std::env::var_os(HAS_PINS).is_none() {
        let script = "mount -t bpf bpf /sys/fs/bpf && exec \"$0\" \"$1\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).arg(std::env::current_exe().unwrap()).arg(TEST);
        let said = command.env(HAS_PINS, "1").output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
        return;
    }
    netns("xdpu-pins")
        .run(|| {
            let ends = veth_up(&Veth::new("a", "b"));
            let counting = object("two.o", Some("pass"));
            let mut rig = Ends::new(ends, Mode::Native, &counting, None);
            rig.send(&[udp(false, 1), udp(true, 1)]);
            let pkts = receive(&mut rig.near, &mut rig.pool, |pkts| pkts.len() >= 2);
            let process = InProcess::new(&counting, 1).unwrap();
            let mut program = process.on_ring(1);
            for mut pkt in pkts {
                assert_eq!(program.run(&occasion(), &mut pkt), Verdict::Pass);
                rig.pool.give(pkt);
            }
            let seen = || dev::bpf::user::pinned_value("pantala_test_seen", &[0; 4], 8).unwrap();
            assert_eq!(seen(), 4_u64.to_ne_bytes(), "two in the kernel, two in the process");
            rig.close();
            let redefined = |mut object: Object| {
                object.maps[0].value_size = 16;
                UserProgram::new(&object).err().unwrap().to_string()
            };
            let why = redefined(counting);
            assert!(why.contains("/sys/fs/bpf/pantala_test_seen with another definition"), "{why}");
        })
        .unwrap();
}

fn a_program_redirects_to_devices_and_sockets() {
    if !is_root() {
        return;
    }
    netns("xdpu-redi")
        .run(|| {
            let ends = veth_up(&Veth::new("a", "b"));
            let [out, beyond] = veth_up(&Veth::new("c", "d"));
            let mut devmap = object("devmap.o", None);
            devmap.maps.iter_mut().for_each(|map| map.pinned = false);
            let mut rig = Ends::new(ends, Mode::Native, &devmap, None);
            let umem = SharedUmem::new(Arc::clone(rig.pool.arena()));
            let (_port, mut ring) = Port::open(&umem, &options(beyond, Mode::Native)).unwrap();
            let mut ring = ring.pop().unwrap();
            receive(&mut ring, &mut rig.pool, |_| true);
            rig.send(&[udp(false, 1)]);
            let pkts = receive(&mut rig.near, &mut rig.pool, |pkts| !pkts.is_empty());
            give_all(&mut rig.pool, pkts);
            rig.user.set_map("pantala_test_out", &[0; 4], &out.to_ne_bytes()).unwrap();
            rig.send(&[udp(false, 2)]);
            let pkts = receive(&mut ring, &mut rig.pool, |pkts| !pkts.is_empty());
            assert_eq!(bytes_of(&pkts[0]), udp(false, 2));
            give_all(&mut rig.pool, pkts);
            until(|| rig.user.verdicts() == [0, 0, 0, 0, 2]);
            ring.close(&mut rig.pool);
            rig.close();
        })
        .unwrap();
}

/// A datagram that asks the program `prefixes.c` for something.
fn request([what, is_long, flags, len]: [u8; 4], addr: [u8; 16], value: u64) -> Vec<u8> {
    let mut frame = udp(false, 4);
    frame.truncate(42);
    frame.extend([what, is_long, flags, len]);
    frame.extend(addr);
    frame.extend(value.to_le_bytes());
    frame.extend([0; 8]);
    frame
}

/// Requests to one program, in the kernel and in this process, have the same answers.
fn tries_in_the_process_answer_as_those_of_the_kernel() {
    if !is_root() {
        return;
    }
    let program = object("prefixes.o", None);
    let process = InProcess::new(&program, 1).unwrap();
    let mut ring = process.on_ring(1);
    netns("xdpu-trie")
        .run(|| {
            let mut rig = Ends::new(veth_up(&Veth::new("a", "b")), Mode::Native, &program, None);
            let mut state = 5_u64;
            let mut random = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                u8::try_from((state >> 33) % below).unwrap()
            };
            for round in 0..60 {
                let requests: Vec<Vec<u8>> = (0..16)
                    .map(|n| {
                        let is_long = random(2);
                        let len = random(if is_long == 1 { 132 } else { 35 });
                        let addr = core::array::from_fn(|_| [0, 0x80, 0xff][usize::from(random(3))]);
                        request([random(3), is_long, random(4) % 3, len], addr, round << 8 | n)
                    })
                    .collect();
                rig.send(&requests);
                let back = receive(&mut rig.far, &mut rig.pool, |pkts| pkts.len() >= requests.len());
                for (request, answer) in requests.iter().zip(&back) {
                    let mut pkt = packet(&mut rig.pool, request);
                    assert_eq!(ring.run(&occasion(), &mut pkt), Verdict::Tx);
                    assert_eq!(bytes_of(&pkt), bytes_of(answer), "{:?}", &request[42..]);
                    rig.pool.give(pkt);
                }
                give_all(&mut rig.pool, back);
            }
            rig.close();
        })
        .unwrap();
}

/// Compares instructions and maps, where the compiler is there that has made the files.
fn the_object_files_are_what_their_sources_compile_to() {
    let there = Command::new("clang-14").arg("--version").output();
    if !there.is_ok_and(|said| said.status.success()) {
        return harness::skip("needs clang-14 (apt-get install clang-14)");
    }
    let folder = folder();
    for (name, program) in
        [("ports", None), ("two", Some("pass")), ("lookups", None), ("devmap", None), ("prefixes", None)]
    {
        let made = std::env::temp_dir().join(format!("pantala-{}-{name}.o", std::process::id()));
        let mut command = Command::new("clang-14");
        command.args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-c"]).arg(folder.join(format!("{name}.c")));
        assert!(command.arg("-o").arg(&made).status().unwrap().success());
        let fresh = Object::parse(&std::fs::read(&made).unwrap(), program).unwrap();
        std::fs::remove_file(&made).unwrap();
        assert!(fresh == object(&format!("{name}.o"), program), "{name}.o");
    }
}

harness::tests![
    a_users_program_decides_before_ours_and_each_verdict_is_counted,
    a_dropped_frame_is_handed_up_while_that_is_asked_for,
    a_program_that_the_verifier_refuses_says_why,
    a_pinned_map_is_shared_by_programs_in_the_kernel_in_a_process_and_by_others,
    a_program_redirects_to_devices_and_sockets,
    tries_in_the_process_answer_as_those_of_the_kernel,
    the_object_files_are_what_their_sources_compile_to,
];
