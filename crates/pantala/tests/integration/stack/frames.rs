//! Packet sockets of threads, between two stacks on a wire in memory.

use core::time::Duration;
use std::io::ErrorKind;
use std::sync::Arc;

use pantala::net::packet::Open;
use pantala::sockets::PacketSocket;
use pantala::{Interface, Stack, mem};
use wire::bpf::{Insn, Program};

use crate::stack::caller::PATIENCE;

const LLDP: u16 = 0x88cc;
const EAPOL: u16 = 0x888e;

/// Two stacks of two CPUs, with a VLAN.
fn pair() -> [Stack; 2] {
    let pair = mem::wire(2).unwrap().map(|end| {
        let lan = Interface::mem(end).name("lan");
        let vlan = Interface::new("vlan:lan,10").name("vlan10");
        Stack::builder().threads(2).interface(lan).interface(vlan).start().unwrap()
    });
    pair.iter().for_each(|stack| stack.wait_ready(PATIENCE).unwrap());
    pair
}

fn index(stack: &Stack, name: &str) -> u16 {
    let all = stack.admin().interfaces().unwrap();
    all.iter().find(|interface| interface.name == name).unwrap().index.try_into().unwrap()
}

fn open(stack: &Stack, name: &str, ethertype: u16, takes: bool) -> PacketSocket {
    let insn = |code, jt, jf, k| Insn { code, jt, jf, k };
    let insns =
        [insn(0x28, 0, 0, 12), insn(0x15, 0, 1, ethertype.into()), insn(6, 0, 0, u32::MAX), insn(6, 0, 0, 0)];
    let filter = Some(Arc::new(Program::new(Box::from(insns)).unwrap()));
    let wanted = Open { ifindex: index(stack, name), filter, takes, ..Open::default() };
    let socket = PacketSocket::open(stack.remotes(), &wanted).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// The packet sockets of a stack as `netstat -a` has them: interface, and whether frames are kept from the stack.
fn listed(stack: &Stack) -> Vec<(String, bool)> {
    let all = stack.admin().packet_sockets().unwrap();
    all.into_iter().map(|socket| (socket.interface.unwrap_or_default(), socket.takes)).collect()
}

/// A frame to all bridges, of one type and with a number.
fn frame(ethertype: u16, seq: u32) -> Vec<u8> {
    let addrs = [1, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 7];
    [&addrs[..], &ethertype.to_be_bytes(), &seq.to_be_bytes(), &[0x5a; 300]].concat()
}

fn frames_go_from_thread_to_thread_by_their_type_in_order() {
    let [one, other] = pair();
    for name in ["lan", "vlan10"] {
        let (sends, hears) = (open(&one, name, LLDP, false), open(&other, name, LLDP, false));
        let eapol = open(&other, name, EAPOL, true);
        let listed = listed(&other);
        assert!(
            listed.contains(&(name.to_owned(), false)) && listed.contains(&(name.to_owned(), true)),
            "{listed:?}"
        );
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for seq in 0..2000 {
                    for ethertype in [LLDP, EAPOL] {
                        // A lane that is full is emptied by the netisr.
                        while sends.send(&frame(ethertype, seq)).is_err() {
                            std::thread::sleep(Duration::from_micros(100));
                        }
                    }
                    // The wire and the receiver's queues have room for so many.
                    if seq % 64 == 63 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            });
            let ifindex = u32::from(index(&other, name));
            for (socket, ethertype) in [(&hears, LLDP), (&eapol, EAPOL)] {
                let mut into = [0; 2000];
                for seq in 0..2000 {
                    let got = socket.recv(&mut into).unwrap();
                    assert_eq!(&into[..got.len], frame(ethertype, seq), "{name} {ethertype:x} {seq}");
                    assert_eq!((got.frame_len, got.interface, got.is_outgoing), (318, ifindex, false));
                }
            }
        });
    }
}

fn calls_fail_as_those_of_the_kernel_do() {
    let [one, other] = pair();
    let socket = open(&one, "lan", LLDP, false);
    let mut into = [0; 2000];
    socket.set_nonblocking(true).unwrap();
    assert_eq!(socket.recv(&mut into).unwrap_err().kind(), ErrorKind::WouldBlock);
    socket.set_nonblocking(false).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    assert_eq!(socket.recv(&mut into).unwrap_err().kind(), ErrorKind::WouldBlock);
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    for (frame, errno) in [(vec![0; 13], 22), (frame(LLDP, 0).repeat(6), 90)] {
        socket.send(&frame).unwrap();
        assert_eq!(socket.recv(&mut into).unwrap_err().raw_os_error(), Some(errno), "{}", frame.len());
    }
    let missing = PacketSocket::open(one.remotes(), &Open { ifindex: 77, ..Open::default() });
    assert_eq!(missing.unwrap_err().raw_os_error(), Some(19));
    // A short buffer loses the rest of a frame, and nothing of the next.
    let hears = open(&other, "lan", LLDP, false);
    (0..2).for_each(|seq| assert_eq!(socket.send(&frame(LLDP, seq)).unwrap(), 318));
    assert_eq!(hears.recv(&mut into[..20]).unwrap().len, 20);
    let got = hears.recv(&mut into).unwrap();
    assert_eq!(&into[..got.len], frame(LLDP, 1));
    other.stop().unwrap();
    assert_eq!(hears.recv(&mut into).unwrap_err().raw_os_error(), Some(100));
    assert_eq!(hears.send(&frame(LLDP, 2)).unwrap_err().raw_os_error(), Some(100));
}

fn a_socket_that_is_dropped_leaves_the_netisrs() {
    let [one, _other] = pair();
    let watched = || one.call(0, |netisr| netisr.cpu.watched).unwrap();
    for _ in 0..3 {
        let socket = open(&one, "lan", LLDP, true);
        assert!(watched());
        drop(socket);
        let begun = std::time::Instant::now();
        while watched() {
            assert!(begun.elapsed() < PATIENCE);
            std::thread::yield_now();
        }
    }
}

harness::tests![
    frames_go_from_thread_to_thread_by_their_type_in_order,
    calls_fail_as_those_of_the_kernel_do,
    a_socket_that_is_dropped_leaves_the_netisrs
];
