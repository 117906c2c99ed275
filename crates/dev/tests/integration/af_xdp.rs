//! The AF_XDP driver on veth pairs.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

use dev::af_xdp::{Mode, Options, Port, SharedUmem, XdpRing};
use dev::netlink::{Rtnetlink, Veth};
use dev::sys::ethtool::{Ethtool, Feature};
use dev::sys::sockopt;
use net::driver::{Driver, Link};
use pkt::{Pkt, PktVec, Pool};

use crate::support::cable::{
    Cable, Host, Seen, bytes_of, close_all, give_all, hosts, packet, pool, receive, send, tcp_exchange,
    udp_echo,
};
use crate::support::port::{frame, until};
use crate::support::{is_root, netns, veth_up};

/// Buffers that a ring keeps in the kernel's hands.
const FILLED: usize = 1024;
const KERNEL_MODES: [(Mode, &str); 2] = [(Mode::Native, "n"), (Mode::Generic, "g")];

/// Runs `body` once per mode, in a namespace with a veth pair of this MTU, whose indices it is given.
fn in_both_modes(test: &str, mtu: u32, body: impl Fn([u32; 2], Mode, Pool) + Sync) {
    if !is_root() {
        return;
    }
    for (mode, mark) in KERNEL_MODES {
        in_mode(&format!("{test}-{mark}"), &Veth { mtu: Some(mtu), ..Veth::new("a", "b") }, |ends, pool| {
            body(ends, mode, pool);
        });
    }
}

fn in_mode(test: &str, veth: &Veth<'_>, body: impl FnOnce([u32; 2], Pool) + Send) {
    if is_root() {
        netns(test).run(|| body(veth_up(veth), pool(4096))).unwrap();
    }
}

fn umem(pool: &Pool) -> SharedUmem {
    SharedUmem::new(Arc::clone(pool.arena()))
}

fn options(ifindex: u32, mode: Mode) -> Options {
    Options { ifindex, first_queue: 0, queues: 1, mtu: 1500, mode, allowance: 1024, busy_poll: false }
}

/// A port with one queue.
fn open(umem: &SharedUmem, options: &Options) -> (Port, XdpRing) {
    let (port, mut rings) = Port::open(umem, options).unwrap();
    (port, rings.pop().unwrap())
}

/// Two hosts; here, the far ends of their cables as ports over one memory.
struct Middle {
    hosts: [Host; 2],
    cable: Cable,
    _ports: Vec<Port>,
    rings: [XdpRing; 2],
}

/// Runs `body` between two kernels that compute checksums of what they send, which AF_XDP cannot pass on undone.
fn between_kernels(test: &str, mtu: u32, mode: Mode, body: impl FnOnce(Middle) + Send) {
    if !is_root() {
        return;
    }
    let hosts = hosts(test);
    netns(test)
        .run(|| {
            let pool = pool(8192);
            let umem = umem(&pool);
            let mut ports = Vec::new();
            let rings = [("w0", "l0"), ("w1", "l1")].map(|(wire, link)| {
                let host = &hosts[ports.len()];
                let mut nl = Rtnetlink::open().unwrap();
                nl.add_veth(&Veth { mtu: Some(mtu), ..Veth::new(wire, link) }).unwrap();
                nl.move_to(link, &*host.ns).unwrap();
                nl.set_up(wire, true).unwrap();
                host.configure(link);
                host.ns
                    .run(|| Ethtool::open(link).unwrap().set_feature(Feature::TxChecksum, false))
                    .unwrap()
                    .unwrap();
                let ifindex = nl.link(wire).unwrap().index;
                let (port, ring) = open(&umem, &Options { mtu, ..options(ifindex, mode) });
                ports.push(port);
                ring
            });
            body(Middle { cable: Cable::new(pool), hosts, _ports: ports, rings });
        })
        .unwrap();
}

fn two_kernels_talk_through_two_ports() {
    for (mode, mark) in KERNEL_MODES {
        between_kernels(&format!("xdpr-fwd-{mark}"), 1500, mode, |mut middle| {
            let Middle { hosts, cable, rings: [a, b], .. } = &mut middle;
            for family in [0, 1] {
                let ((), there, back) = cable.while_working(a, b, tcp_exchange(hosts, family, 1 << 20));
                assert!(there.longest == 1514 && back.longest == 1514 && there.lost + back.lost == 0);
                let echo = udp_echo(hosts, family, &[1, 18, 1400, 1452, 5000]);
                cable.while_working(a, b, echo);
            }
            assert_eq!((a.stats().tx_errors, a.stats().rx_errors), (0, 0));
            close_all(&mut cable.pool, &mut [a, b]);
        });
    }
}

fn jumbo_frames_cross_between_kernels_in_pieces() {
    for (mode, mark) in KERNEL_MODES {
        between_kernels(&format!("xdpr-jmb-{mark}"), 9000, mode, |mut middle| {
            let Middle { hosts, cable, rings: [a, b], .. } = &mut middle;
            for family in [0, 1] {
                let echo = udp_echo(hosts, family, &[1, 1986, 2006, 2007, 4054, 8952, 20_000]);
                cable.while_working(a, b, echo);
                let ((), there, back) = cable.while_working(a, b, tcp_exchange(hosts, family, 1 << 20));
                assert!(there.longest == 9014 && back.longest == 9014, "{there:?} {back:?}");
            }
            close_all(&mut cable.pool, &mut [a, b]);
        });
    }
}

fn what_generic_mode_gets_merged_is_dropped_and_counted() {
    between_kernels("xdpr-gso", 1500, Mode::Generic, |mut middle| {
        let Middle { hosts, cable, rings: [a, b], .. } = &mut middle;
        cable.while_working(a, b, udp_echo(hosts, 0, &[100])); // the neighbours know each other now
        let ethtool = hosts[0].ns.run(|| Ethtool::open("l0")).unwrap().unwrap();
        ethtool.set_feature(Feature::TxChecksum, true).unwrap();
        let socket = hosts[0].udp(hosts[0].ip[0]);
        sockopt::set_int(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 1400).unwrap();
        socket.send_to(&[7; 40 * 1400], (hosts[1].ip[0], 9)).unwrap();
        until(|| {
            cable.carry(a, b, &mut Seen::default());
            a.stats().rx_errors == 1
        });
        close_all(&mut cable.pool, &mut [a, b]);
    });
}

fn frames_cross_in_order_at_any_address_and_their_buffers_come_back() {
    in_both_modes("xdpr-order", 2030, |ends, mode, mut pool| {
        let umem = umem(&pool);
        let (_a, mut a) = open(&umem, &Options { mtu: 2030, ..options(ends[0], mode) });
        let (_b, mut b) = open(&umem, &Options { mtu: 2030, ..options(ends[1], mode) });
        b.rx(&mut pool, &mut PktVec::new(), 64);
        let lengths = [60, 61, 590, 2044].into_iter().cycle();
        let frames: Vec<_> = (0..300).zip(lengths).map(|(i, len)| frame(i, len)).collect();
        for some in frames.chunks(100) {
            let some =
                some.iter().zip(1..).map(|(bytes, odd)| shifted(&mut pool, bytes, odd)).collect::<Vec<_>>();
            send(&mut a, &mut pool, some);
        }
        let got = receive(&mut b, &mut pool, |all| all.len() >= 300);
        assert!(got.iter().map(bytes_of).eq(frames));
        give_all(&mut pool, got);
        until(|| {
            for ring in [&mut a, &mut b] {
                ring.rx(&mut pool, &mut PktVec::new(), 0);
            }
            // A ring is filled up again when it lacks 64.
            (0..64).contains(&(pool.free() + 2 * FILLED - pool.total()))
        });
        assert!(!a.busy() && !b.busy(), "at rest only the fill rings hold buffers");
        assert_eq!((a.stats().tx_frames, b.stats().rx_frames), (300, 300));
        assert!(a.stats().doorbells <= 6, "{:?}", a.stats());
        close_all(&mut pool, &mut [&mut a, &mut b]);
    });
}

/// A packet that begins some bytes later in its buffer than usual.
fn shifted(pool: &mut Pool, bytes: &[u8], by: usize) -> Pkt {
    let mut pkt = pool.take().unwrap();
    pkt.append(1).unwrap();
    pkt.buffer_mut()[by..by + bytes.len()].copy_from_slice(bytes);
    pkt.place(by, bytes.len()).unwrap();
    pkt
}

fn a_forwarded_frame_stays_in_its_buffer() {
    in_both_modes("xdpr-same", 1500, |ends, mode, mut pool| {
        let far = veth_up(&Veth::new("c", "d"));
        let umem = umem(&pool);
        let [(_a, mut a), (_b, mut b), (_c, mut c), (_d, mut d)] =
            [ends[0], ends[1], far[0], far[1]].map(|ifindex| open(&umem, &options(ifindex, mode)));
        for ring in [&mut b, &mut d] {
            ring.rx(&mut pool, &mut PktVec::new(), 64);
        }
        let sent = packet(&mut pool, &frame(3, 700));
        send(&mut a, &mut pool, [sent]);
        let forwarded = receive(&mut b, &mut pool, |all| !all.is_empty());
        let slot = forwarded[0].index();
        let free = pool.free();
        send(&mut c, &mut pool, forwarded);
        until(|| {
            c.doorbell(&mut pool);
            pool.free() > free
        });
        let back = pool.take().unwrap();
        assert_eq!(back.index(), slot, "the buffer that was received into is the one that was sent");
        pool.give(back);
        let got = receive(&mut d, &mut pool, |all| !all.is_empty());
        assert_eq!(bytes_of(&got[0]), frame(3, 700));
        give_all(&mut pool, got);
        close_all(&mut pool, &mut [&mut a, &mut b, &mut c, &mut d]);
    });
}

fn a_ring_that_is_busy_polled_receives_all_in_order() {
    in_both_modes("xdpr-busy", 1500, |ends, mode, mut pool| {
        let umem = umem(&pool);
        let (_a, mut a) = open(&umem, &options(ends[0], mode));
        let (_b, mut b) = open(&umem, &Options { busy_poll: true, ..options(ends[1], mode) });
        b.rx(&mut pool, &mut PktVec::new(), 64);
        for round in 0..20 {
            let frames: Vec<_> = (0..50).map(|i| frame(100 * round + i, 60)).collect();
            let sent = frames.iter().map(|bytes| packet(&mut pool, bytes)).collect::<Vec<_>>();
            send(&mut a, &mut pool, sent);
            let got = receive(&mut b, &mut pool, |all| all.len() >= 50);
            assert!(got.iter().map(bytes_of).eq(frames));
            give_all(&mut pool, got);
        }
        close_all(&mut pool, &mut [&mut a, &mut b]);
    });
}

fn two_queues_are_two_rings() {
    in_mode("xdpr-queues", &Veth { queues: 2, ..Veth::new("a", "b") }, |ends, mut pool| {
        let umem = umem(&pool);
        let two = |ifindex| Options { queues: 2, ..options(ifindex, Mode::Auto) };
        let (_a, mut a) = Port::open(&umem, &two(ends[0])).unwrap();
        let (_b, mut b) = Port::open(&umem, &two(ends[1])).unwrap();
        for queue in [0, 1] {
            b[queue].rx(&mut pool, &mut PktVec::new(), 64);
            let sent =
                (0..20).map(|i| packet(&mut pool, &frame(i + 100 * queue as u64, 80))).collect::<Vec<_>>();
            send(&mut a[queue], &mut pool, sent);
            let got = receive(&mut b[queue], &mut pool, |all| all.len() >= 20);
            assert!(got.iter().zip(0..).all(|(pkt, i)| bytes_of(pkt) == frame(i + 100 * queue as u64, 80)));
            assert_eq!(got.len(), 20);
            give_all(&mut pool, got);
        }
        close_all(
            &mut pool,
            &mut a.iter_mut().chain(&mut b).map(|ring| ring as &mut dyn Driver).collect::<Vec<_>>(),
        );
    });
}

fn a_ring_whose_buffers_are_all_held_is_busy_drops_and_recovers() {
    const ALLOWANCE: usize = 70;
    in_both_modes("xdpr-starve", 1500, |ends, mode, mut pool| {
        let umem = umem(&pool);
        let (_a, mut a) = open(&umem, &options(ends[0], mode));
        let (_b, mut b) = open(&umem, &Options { allowance: ALLOWANCE, ..options(ends[1], mode) });
        assert!(b.busy(), "the kernel has no buffer yet");
        b.rx(&mut pool, &mut PktVec::new(), 64);
        assert!(!b.busy());
        let burst = |a: &mut XdpRing, pool: &mut Pool| {
            let sent = (0..100).map(|i| packet(pool, &frame(i, 60))).collect::<Vec<_>>();
            send(a, pool, sent);
        };
        burst(&mut a, &mut pool);
        let held = receive(&mut b, &mut pool, |all| all.len() >= ALLOWANCE);
        assert_eq!((held.len(), b.stats().rx_dropped), (ALLOWANCE, 30));
        assert!(b.busy(), "nothing will wake us");
        give_all(&mut pool, held);
        b.rx(&mut pool, &mut PktVec::new(), 64);
        assert!(!b.busy());
        burst(&mut a, &mut pool);
        let got = receive(&mut b, &mut pool, |all| all.len() >= ALLOWANCE);
        give_all(&mut pool, got);
        close_all(&mut pool, &mut [&mut a, &mut b]);
    });
}

fn many_frames_go_with_few_system_calls() {
    in_both_modes("xdpr-kicks", 1500, |ends, mode, mut pool| {
        let umem = umem(&pool);
        let (_a, mut a) = open(&umem, &options(ends[0], mode));
        let mut vec = PktVec::new();
        for i in 0..1000 {
            if vec.is_full() {
                a.tx(&mut pool, &mut vec);
            }
            vec.push(packet(&mut pool, &frame(i, 60))).unwrap();
        }
        a.tx(&mut pool, &mut vec);
        a.doorbell(&mut pool);
        assert!(vec.is_empty());
        assert_eq!((a.stats().tx_frames, a.stats().doorbells), (1000, 4), "256 with each");
        close_all(&mut pool, &mut [&mut a]);
    });
}

fn what_no_ring_can_send_is_an_error_and_its_buffers_come_back() {
    in_both_modes("xdpr-refuse", 1500, |ends, mode, mut pool| {
        let umem = umem(&pool);
        let (_a, mut a) = open(&umem, &options(ends[0], mode));
        let in_two = packet(&mut pool, &frame(1, 3000));
        let mut with_a_hole = packet(&mut pool, &frame(1, 60));
        with_a_hole.chain(pool.take().unwrap());
        let empty = pool.take().unwrap();
        send(&mut a, &mut pool, [in_two, with_a_hole, empty]);
        assert_eq!((a.stats().tx_errors, a.stats().tx_frames, pool.free()), (3, 0, pool.total()));
        close_all(&mut pool, &mut [&mut a]);
    });
}

fn a_port_can_be_closed_in_the_middle_of_traffic_and_opened_again_at_once() {
    in_both_modes("xdpr-again", 1500, |ends, mode, mut pool| {
        let umem = umem(&pool);
        let (_a, mut a) = open(&umem, &options(ends[0], mode));
        for round in 0..5 {
            let (port, mut b) = open(&umem, &options(ends[1], mode));
            b.rx(&mut pool, &mut PktVec::new(), 64);
            let sent = (0..100).map(|i| packet(&mut pool, &frame(i, 60))).collect::<Vec<_>>();
            send(&mut a, &mut pool, sent);
            let got = receive(&mut b, &mut pool, |all| all.len() >= 64);
            assert_eq!(bytes_of(&got[0]), frame(0, 60), "round {round}");
            let mut unsent = PktVec::new();
            got.into_iter().for_each(|pkt| unsent.push(pkt).unwrap());
            b.tx(&mut pool, &mut unsent);
            let before = b.stats();
            b.close(&mut pool);
            assert_eq!((b.link(), b.stats().rx_frames), (Link::Gone, before.rx_frames));
            assert_eq!(b.rx(&mut pool, &mut unsent, 64), 0, "a closed ring takes no buffers");
            drop(port);
        }
        close_all(&mut pool, &mut [&mut a]);
    });
}

fn an_interface_that_is_down_or_whose_wire_does_not_carry_is_down_until_that_is_over() {
    in_both_modes("xdpr-down", 1500, |ends, mode, mut pool| {
        let umem = umem(&pool);
        let (_a, mut a) = open(&umem, &options(ends[0], mode));
        let (_b, mut b) = open(&umem, &options(ends[1], mode));
        let mut nl = Rtnetlink::open().unwrap();
        b.rx(&mut pool, &mut PktVec::new(), 64);
        until(|| a.link() == Link::Up);
        nl.set_up("b", false).unwrap();
        until(|| a.link() == Link::Down);
        nl.set_up("b", true).unwrap();
        until(|| a.link() == Link::Up);
        nl.rename("a", "renamed").unwrap();
        assert_eq!(a.link(), Link::Up);
        nl.rename("renamed", "a").unwrap();
        nl.set_up("a", false).unwrap();
        let mut vec = PktVec::new();
        vec.push(packet(&mut pool, &frame(1, 60))).unwrap();
        a.tx(&mut pool, &mut vec);
        a.doorbell(&mut pool);
        assert_eq!(a.link(), Link::Down);
        nl.set_up("a", true).unwrap();
        until(|| a.link() == Link::Up);
        a.doorbell(&mut pool);
        let got = receive(&mut b, &mut pool, |all| !all.is_empty());
        assert_eq!(bytes_of(&got[0]), frame(1, 60));
        give_all(&mut pool, got);
        close_all(&mut pool, &mut [&mut a, &mut b]);
    });
}

fn an_interface_that_is_deleted_in_the_middle_of_traffic_is_gone_and_others_go_on() {
    in_both_modes("xdpr-gone", 1500, |ends, mode, mut pool| {
        let far = veth_up(&Veth::new("c", "d"));
        let umem = umem(&pool);
        let (port_a, mut a) = open(&umem, &options(ends[0], mode));
        let (port_b, mut b) = open(&umem, &options(ends[1], mode));
        let (_c, mut c) = open(&umem, &options(far[0], mode));
        b.rx(&mut pool, &mut PktVec::new(), 64);
        let sent = (0..100).map(|i| packet(&mut pool, &frame(i, 60))).collect::<Vec<_>>();
        send(&mut a, &mut pool, sent);
        Rtnetlink::open().unwrap().delete_link("a").unwrap();
        let mut vec = PktVec::new();
        vec.push(packet(&mut pool, &frame(1, 60))).unwrap();
        a.tx(&mut pool, &mut vec);
        a.doorbell(&mut pool);
        assert_eq!((a.link(), b.link(), c.link()), (Link::Gone, Link::Gone, Link::Up));
        assert!(!a.busy());
        b.rx(&mut pool, &mut vec, 64);
        give_all(&mut pool, vec.drain());
        a.close(&mut pool);
        b.close(&mut pool);
        drop((port_a, port_b));
        // The one that registered the memory is gone; a new port finds another to share with.
        let (_d, mut d) = open(&umem, &options(far[1], mode));
        d.rx(&mut pool, &mut PktVec::new(), 64);
        let sent = packet(&mut pool, &frame(9, 60));
        send(&mut c, &mut pool, [sent]);
        let got = receive(&mut d, &mut pool, |all| !all.is_empty());
        assert_eq!(bytes_of(&got[0]), frame(9, 60));
        give_all(&mut pool, got);
        close_all(&mut pool, &mut [&mut c, &mut d]);
    });
}

fn the_best_mode_of_veth_is_native_with_a_copy_and_nothing_to_warn_of() {
    in_mode("xdpr-auto", &Veth::new("a", "b"), |ends, mut pool| {
        let umem = umem(&pool);
        for ifindex in ends {
            let (port, mut ring) = open(&umem, &options(ifindex, Mode::Auto));
            assert_eq!((port.mode, port.fell_back.as_deref()), (Mode::Native, None));
            let because = port.copies_because.as_deref().unwrap();
            assert!(
                because.contains("huge pages") || because.contains("does not support zero-copy"),
                "{because}"
            );
            assert!(port.ends_with_process());
            close_all(&mut pool, &mut [&mut ring]);
        }
    });
}

fn where_the_driver_has_no_xdp_it_becomes_generic_with_a_warning() {
    if !is_root() {
        return;
    }
    netns("xdpr-lo")
        .run(|| {
            let mut nl = Rtnetlink::open().unwrap();
            nl.set_up("lo", true).unwrap();
            let lo = nl.link("lo").unwrap().index;
            let mut pool = pool(4096);
            let umem = umem(&pool);
            let (port, mut ring) = open(&umem, &options(lo, Mode::Auto));
            assert_eq!(port.mode, Mode::Generic);
            let warning = port.fell_back.as_deref().unwrap();
            assert!(
                warning.starts_with("the driver has no native mode") && warning.contains("gro off"),
                "{warning}"
            );
            close_all(&mut pool, &mut [&mut ring]);
        })
        .unwrap();
}

fn what_is_not_to_be_had_is_said() {
    in_mode("xdpr-errors", &Veth::new("a", "b"), |ends, mut pool| {
        let refusal = |umem: &SharedUmem, options: &Options| match Port::open(umem, options) {
            Ok(_) => panic!("opened {options:?}"),
            Err(error) => error.to_string(),
        };
        let umem_a = umem(&pool);
        let said = refusal(&umem_a, &options(ends[0], Mode::ZeroCopy));
        assert!(said.contains("huge pages") || said.contains("does not support zero-copy"), "{said}");
        let said = refusal(&umem_a, &options(999, Mode::Auto));
        assert!(said.contains("No such device"), "{said}");
        let said = refusal(&umem_a, &Options { queues: 2, ..options(ends[0], Mode::Auto) });
        assert!(said.contains("Invalid argument"), "there is no queue 1: {said}");
        let (_port, mut ring) = open(&umem_a, &options(ends[0], Mode::Auto));
        let said = refusal(&umem_a, &options(ends[0], Mode::Auto));
        assert!(said.contains("has an XDP program already"), "{said}");
        close_all(&mut pool, &mut [&mut ring]);
    });
}

/// The process that the next test kills.
fn holds_a_port_until_it_is_killed() {
    let Ok(ifindex) = std::env::var(HOLD) else { return };
    let mut pool = pool(4096);
    let umem = umem(&pool);
    let (_port, mut ring) = open(&umem, &options(ifindex.parse().unwrap(), Mode::Auto));
    ring.rx(&mut pool, &mut PktVec::new(), 64);
    println!("\n{READY}");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    unreachable!("nobody writes");
}

const HOLD: &str = "PANTALA_TEST_HOLD";
const READY: &str = "the port is open";

fn a_killed_process_leaves_nothing_on_the_interface() {
    if !is_root() {
        return;
    }
    let ns = netns("xdpr-kill");
    let ends = ns.run(|| veth_up(&Veth::new("a", "b"))).unwrap();
    let attached = || ns.netlink().unwrap().link("a").unwrap().xdp;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "af_xdp::holds_a_port_until_it_is_killed", "--ignored", "--nocapture"]);
    command.env(HOLD, ends[0].to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = ns.put(&mut command).unwrap().spawn().unwrap();
    let out = BufReader::new(holder.stdout.take().unwrap());
    assert!(out.lines().map_while(Result::ok).any(|line| line == READY));
    assert!(attached().is_some());
    holder.kill().unwrap(); // SIGKILL
    holder.wait().unwrap();
    until(|| attached().is_none());
    ns.run(|| {
        let mut pool = pool(4096);
        let umem = umem(&pool);
        let (port, mut ring) = open(&umem, &options(ends[0], Mode::Auto));
        close_all(&mut pool, &mut [&mut ring]);
        assert!(attached().is_some());
        drop(port);
    })
    .unwrap();
    assert_eq!(attached(), None, "nor does an orderly end");
}

harness::tests![
    two_kernels_talk_through_two_ports,
    jumbo_frames_cross_between_kernels_in_pieces,
    what_generic_mode_gets_merged_is_dropped_and_counted,
    frames_cross_in_order_at_any_address_and_their_buffers_come_back,
    a_forwarded_frame_stays_in_its_buffer,
    a_ring_that_is_busy_polled_receives_all_in_order,
    two_queues_are_two_rings,
    a_ring_whose_buffers_are_all_held_is_busy_drops_and_recovers,
    many_frames_go_with_few_system_calls,
    what_no_ring_can_send_is_an_error_and_its_buffers_come_back,
    a_port_can_be_closed_in_the_middle_of_traffic_and_opened_again_at_once,
    an_interface_that_is_down_or_whose_wire_does_not_carry_is_down_until_that_is_over,
    an_interface_that_is_deleted_in_the_middle_of_traffic_is_gone_and_others_go_on,
    the_best_mode_of_veth_is_native_with_a_copy_and_nothing_to_warn_of,
    where_the_driver_has_no_xdp_it_becomes_generic_with_a_warning,
    what_is_not_to_be_had_is_said,
    a_killed_process_leaves_nothing_on_the_interface
    ; on_demand: holds_a_port_until_it_is_killed
];
