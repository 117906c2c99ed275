//! TAP queues of a real kernel.

use core::time::Duration;
use std::io::{IoSlice, IoSliceMut};
use std::net::UdpSocket;

use dev::netlink::Rtnetlink;
use dev::sys::poll::{PollFd, PollFlags, wait};
use dev::sys::tun::{Offload, Tap, TapQueue, TunError};
use dev::sys::vnet_hdr::{GSO_NONE, NEEDS_CSUM, VNET_HDR_LEN, VnetHdr};

use crate::support::port::until;
use crate::support::{is_root, netns};

/// Runs `body` with a TAP of this many queues, up, with the address 10.7.0.1/16.
fn with_tap(test: &str, queues: usize, body: impl FnOnce(Tap) + Send) {
    if !is_root() {
        return;
    }
    netns(test)
        .run(|| {
            let tap = Tap::open("t0", queues).unwrap();
            let mut nl = Rtnetlink::open().unwrap();
            nl.set_mac("t0", [2, 0, 0, 0, 0, 1]).unwrap();
            nl.add_address("t0", "10.7.0.1/16".parse().unwrap()).unwrap();
            nl.set_up("t0", true).unwrap();
            body(tap);
        })
        .unwrap();
}

fn read(queue: &TapQueue) -> Option<(VnetHdr, Vec<u8>)> {
    let mut header = [0; VNET_HDR_LEN];
    let mut frame = vec![0; 70_000];
    let len = queue.readv(&mut [IoSliceMut::new(&mut header), IoSliceMut::new(&mut frame)]).unwrap()?;
    frame.truncate(len - VNET_HDR_LEN);
    Some((VnetHdr::decode(&header), frame))
}

/// The UDP datagrams that are waiting in the queue.
fn datagrams(queue: &TapQueue) -> usize {
    core::iter::from_fn(|| read(queue)).filter(|(_, f)| f[12..14] == [8, 0] && f[23] == 17).count()
}

fn a_datagram_from_the_kernel_comes_with_its_checksum_undone() {
    with_tap("tap-rx", 1, |tap| {
        assert_eq!(tap.offload, Offload::TcpAndUdp, "Linux 6.2 and later");
        let socket = UdpSocket::bind("10.7.0.1:0").unwrap();
        socket.send_to(b"hello", "239.1.2.3:9").unwrap();
        let (header, frame) =
            core::iter::from_fn(|| read(&tap.queues[0])).find(|(_, f)| f.ends_with(b"hello")).unwrap();
        assert_eq!((header.flags & NEEDS_CSUM, header.gso_type), (NEEDS_CSUM, GSO_NONE));
        assert_eq!((header.csum_start, header.csum_offset), (34, 6));
        assert_eq!(frame.len(), 14 + 20 + 8 + 5);
    });
}

fn a_datagram_written_with_its_checksum_undone_reaches_a_socket() {
    with_tap("tap-tx", 1, |tap| {
        let socket = UdpSocket::bind("10.7.0.1:7007").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0, 33, 0, 0, 0, 0, 64, 17, 0x66, 0xba, 10, 7, 0, 2, 10, 7, 0, 1]);
        frame.extend([0x1b, 0x5f, 0x1b, 0x5f, 0, 13, 0, 0]);
        frame.extend(b"hello");
        let partial = partial_sum(&[0x0a07, 2, 0x0a07, 1, 17, 13]);
        frame[40..42].copy_from_slice(&partial.to_be_bytes());
        let ip_sum = !partial_sum(&[0x4500, 33, 0, 0, 0x4011, 0x0a07, 2, 0x0a07, 1]);
        frame[24..26].copy_from_slice(&ip_sum.to_be_bytes());
        let header = VnetHdr { flags: NEEDS_CSUM, csum_start: 34, csum_offset: 6, ..VnetHdr::default() };
        let sent = tap.queues[0].writev(&[IoSlice::new(&header.encode()), IoSlice::new(&frame)]).unwrap();
        assert_eq!(sent, Some(VNET_HDR_LEN + frame.len()));
        let mut got = [0; 16];
        let (len, from) = socket.recv_from(&mut got).unwrap();
        assert_eq!((&got[..len], from), (&b"hello"[..], "10.7.0.2:7007".parse().unwrap()));
    });
}

/// The Internet checksum's sum, not complemented.
fn partial_sum(words: &[u32]) -> u16 {
    let sum: u32 = words.iter().sum();
    u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap()
}

fn a_detached_queue_gets_nothing_and_an_attached_one_gets_its_share() {
    with_tap("tap-detach", 2, |tap| {
        let send_100 = || {
            for port in 1..=100_u16 {
                let socket = UdpSocket::bind("10.7.0.1:0").unwrap();
                socket.send_to(b"x", ("239.1.2.3", port)).unwrap();
            }
        };
        let [first, second] = [0, 1].map(|i| &tap.queues[i]);
        second.detach().unwrap();
        assert!(second.detach().is_err());
        send_100();
        assert_eq!((datagrams(first), datagrams(second)), (100, 0));
        second.attach().unwrap();
        send_100();
        let (a, b) = (datagrams(first), datagrams(second));
        assert!(a + b == 100 && a > 0 && b > 0, "{a} {b}");
    });
}

fn an_empty_queue_answers_none_and_can_be_waited_for() {
    with_tap("tap-wait", 1, |tap| {
        while read(&tap.queues[0]).is_some() {}
        UdpSocket::bind("10.7.0.1:0").unwrap().send_to(b"x", "239.1.2.3:9").unwrap();
        let mut fds = [PollFd::new(&tap.queues[0], PollFlags::IN)];
        assert_eq!(wait(&mut fds, Some(Duration::from_secs(10))).unwrap(), 1);
        assert!(datagrams(&tap.queues[0]) >= 1);
        assert!(read(&tap.queues[0]).is_none());
    });
}

fn a_tap_goes_when_it_is_closed_unless_it_was_made_to_stay() {
    if !is_root() {
        return;
    }
    netns("tap-stays")
        .run(|| {
            let there = || Rtnetlink::open().unwrap().link("t0").is_ok();
            drop(Tap::open("t0", 1).unwrap());
            assert!(!there());
            Tap::open("t0", 1).unwrap().set_persistent(true).unwrap();
            assert!(there());
            Tap::open("t0", 2).unwrap().set_persistent(false).unwrap();
            assert!(!there());
            Rtnetlink::open().unwrap().add_veth(&dev::netlink::Veth::new("t0", "x")).unwrap();
            assert!(matches!(Tap::open("t0", 1), Err(TunError::NoTap { .. })));
        })
        .unwrap();
}

fn a_tap_that_is_open_is_refused_with_the_process_that_has_it_and_one_that_is_not_is_opened() {
    if !is_root() {
        return;
    }
    netns("tap-owner")
        .run(|| {
            let own = std::process::id();
            for stays in [false, true] {
                let first = Tap::open("t0", 2).unwrap();
                first.set_persistent(stays).unwrap();
                first.queues[1].detach().unwrap();
                let Err(why) = Tap::open("t0", 1) else { panic!("{stays}") };
                assert!(why.to_string().contains(&format!("process {own} (")), "{why}");
                assert_eq!(Rtnetlink::open().unwrap().link("t0").unwrap().open_queues, Some(2));
                drop(first);
            }
            // It has stayed, and nothing has it, once what other tests start has closed what it inherited.
            until(|| Rtnetlink::open().unwrap().link("t0").unwrap().open_queues == Some(0));
            assert_eq!(Tap::open("t0", 2).unwrap().queues.len(), 2);
        })
        .unwrap();
}

harness::tests![
    a_datagram_from_the_kernel_comes_with_its_checksum_undone,
    a_datagram_written_with_its_checksum_undone_reaches_a_socket,
    a_detached_queue_gets_nothing_and_an_attached_one_gets_its_share,
    an_empty_queue_answers_none_and_can_be_waited_for,
    a_tap_goes_when_it_is_closed_unless_it_was_made_to_stay,
    a_tap_that_is_open_is_refused_with_the_process_that_has_it_and_one_that_is_not_is_opened,
];
