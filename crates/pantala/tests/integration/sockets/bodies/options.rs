//! The bodies about options: what the other host sees of them.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};

use pantala::sockets::KeepAlive;

use super::datagrams::any;
use crate::sockets::datagram_api::Socket;
use crate::sockets::hosts::{Hosts, Opt, Seen};

const SHORT: Duration = Duration::from_millis(20);
/// Overhead of a ring of threads and tasks over a buffer.
const RING: usize = 65_536;

/// Both ends of a connection, of which each host has told its own.
fn pair<F: Hosts>(face: &F, addr: IpAddr, near: &[Opt], far: &[Opt]) -> (F::Stream, F::Stream, SocketAddr) {
    let listener = face.bind_as((addr, 0).into(), far).unwrap();
    let at = F::addr(&listener);
    let near = face.connect_as(at, near).unwrap();
    (near, F::accept(&listener).unwrap().0, at)
}

fn looks(seen: &[Seen]) -> Vec<(u8, u8)> {
    let mut looks: Vec<_> = seen.iter().map(|seen| (seen.hops, seen.class)).collect();
    looks.dedup();
    looks
}

pub(crate) fn a_datagram_comes_with_the_hops_and_the_class_that_were_asked_for<F: Hosts>(face: &F) {
    for addr in face.addrs() {
        let server = face.bind_udp((addr, 0).into()).unwrap();
        let client = face.client_udp(any(server.addr())).unwrap();
        let comes_with = || {
            assert_eq!(server.recv_from(&mut [0; 8]).unwrap().0, 4);
            let seen: Vec<_> = face.seen().into_iter().filter(|seen| seen.to == server.addr()).collect();
            looks(&seen)
        };
        client.send_to(b"look", server.addr()).unwrap();
        assert_eq!(comes_with(), [(64, 0)]);
        F::set_udp(&client, Opt::Ttl(7)).unwrap();
        F::set_udp(&client, Opt::Tos(0x4b)).unwrap();
        client.send_to(b"look", server.addr()).unwrap();
        assert_eq!(comes_with(), [(7, 0x4b)]);
        client.connect(server.addr()).unwrap();
        client.send(b"look").unwrap();
        assert_eq!(comes_with(), [(7, 0x4b)]);
        F::set_udp(&client, Opt::Ttl(255)).unwrap();
        F::set_udp(&client, Opt::Tos(0)).unwrap();
        client.send(b"look").unwrap();
        assert_eq!(comes_with(), [(255, 0)]);
    }
}

pub(crate) fn a_connection_has_the_hops_and_the_class_that_each_end_has_asked_for<F: Hosts>(face: &F) {
    for addr in face.addrs() {
        face.seen();
        let (asks, answers) = ([Opt::Ttl(7), Opt::Tos(0x4b)], [Opt::Ttl(9), Opt::Tos(0x20)]);
        let (mut near, mut far, at) = pair(face, addr, &asks, &answers);
        let both = |seen: Vec<Seen>| {
            let (come, gone): (Vec<_>, Vec<_>) = seen
                .into_iter()
                .filter(|seen| [seen.from, seen.to].contains(&at))
                .partition(|seen| seen.to == at);
            (come, gone)
        };
        near.write_all(b"ask").unwrap();
        far.read_exact(&mut [0; 3]).unwrap();
        far.write_all(b"answer").unwrap();
        near.read_exact(&mut [0; 6]).unwrap();
        let (come, gone) = both(face.seen());
        // From the first segment on; the marks of congestion are the connection's own.
        assert_eq!((looks(&come), looks(&gone)), (vec![(7, 0x48)], vec![(9, 0x20)]));
        F::set(&near, Opt::Ttl(200)).unwrap();
        F::set(&near, Opt::Tos(0xfc)).unwrap();
        near.write_all(b"more").unwrap();
        far.read_exact(&mut [0; 4]).unwrap();
        let mut more = both(face.seen()).0;
        more.retain(|seen| seen.len == 4);
        assert_eq!(looks(&more), [(200, 0xfc)]);
    }
}

/// Short segments that came while something before them was not acknowledged.
fn unacknowledged(seen: impl IntoIterator<Item = Seen>, at: SocketAddr) -> usize {
    let (mut end, mut acked, mut count) = (None, None, 0);
    for seen in seen {
        if seen.from == at {
            acked = Some(seen.ack);
        }
        if seen.to == at && seen.len > 0 {
            // What is sent again is as it was.
            let is_new = end.is_none_or(|end| seen.seq == end);
            count += usize::from(is_new && end.is_some() && acked != Some(seen.seq));
            end = Some(seen.seq + seen.len);
        }
    }
    count
}

pub(crate) fn short_writes_wait_for_those_before_them_unless_they_must_not<F: Hosts>(face: &F) {
    const COUNT: usize = 16;
    for (addr, nodelay) in face.addrs().into_iter().flat_map(|addr| [(addr, false), (addr, true)]) {
        let (mut near, mut far, at) = pair(face, addr, &[Opt::NoDelay(false)], &[]);
        F::set(&near, Opt::NoDelay(nodelay)).unwrap();
        face.seen();
        for _ in 0..COUNT {
            near.write_all(b"x").unwrap();
        }
        far.read_exact(&mut [0; COUNT]).unwrap();
        let mut count = unacknowledged(face.seen(), at);
        assert!(nodelay || count == 0, "{count} did not wait: {addr}");
        // Each is acknowledged at once as long as the other end expects that: the second must go before that has come back.
        F::set_read_timeout(&far, Some(SHORT)).unwrap();
        for gap in 0..200 {
            if !nodelay || count > 0 {
                break;
            }
            near.write_all(b"two").unwrap();
            (0..gap * 64).for_each(|_| core::hint::spin_loop());
            near.write_all(b"ends").unwrap();
            far.read_exact(&mut [0; 7]).unwrap();
            // A log takes a thousand packets in a second.
            assert_eq!(far.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::WouldBlock);
            count = unacknowledged(face.seen(), at);
        }
        assert_eq!(count > 0, nodelay, "{addr}");
    }
}

pub(crate) fn a_connection_ends_after_unanswered_keepalive_probes<F: Hosts>(face: &F) {
    let second = Duration::from_secs(1);
    let keep = KeepAlive { idle: second, interval: second, count: 1 };
    let pairs = face.addrs().map(|addr| pair(face, addr, &[Opt::KeepAlive(None)], &[Opt::KeepAlive(None)]));
    for (near, ..) in &pairs {
        F::set(near, Opt::KeepAlive(Some(keep))).unwrap();
        F::set_read_timeout(near, Some(SHORT)).unwrap();
    }
    face.seen();
    // A peer that answers is probed again.
    let mut asked = [0; 2];
    while asked.contains(&0) {
        for seen in face.seen() {
            let is_asked = |(near, _, at): &(F::Stream, _, _)| {
                seen.to == *at && seen.from.port() == F::ends(near)[0].port() && seen.len <= 1
            };
            asked.iter_mut().zip(&pairs).for_each(|(asked, pair)| *asked += usize::from(is_asked(pair)));
        }
        let [mut near, _] = [0, 1].map(|at: usize| F::clone(&pairs[at].0));
        assert_eq!(near.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
    face.cut();
    for (mut near, far, _) in pairs {
        F::set_read_timeout(&near, None).unwrap();
        assert_eq!(near.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(near.read(&mut [0; 8]).unwrap(), 0, "it was said once");
        assert_eq!(near.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
        drop(far);
    }
}

/// Returns the bytes accepted without a reader.
fn taken<F: Hosts>(face: &F, addr: IpAddr, near: &[Opt], far: &[Opt]) -> usize {
    let (mut near, far, _) = pair(face, addr, near, far);
    F::set_write_timeout(&near, SHORT);
    let mut taken = 0;
    loop {
        match near.write(&[7; 8192]) {
            Ok(count) => taken += count,
            Err(why) => {
                assert_eq!(why.kind(), ErrorKind::WouldBlock);
                drop(far);
                return taken;
            }
        }
    }
}

pub(crate) fn buffers_bound_what_is_sent_and_not_read<F: Hosts>(face: &F) {
    const SMALL: u32 = 16_384;
    // The kernel takes twice as much as it is told.
    const MOST: usize = 4 * SMALL as usize + 2 * RING;
    for addr in face.addrs() {
        let of = |bytes| (Opt::SendBuffer(bytes), Opt::RecvBuffer(bytes));
        let ((send, recv), (much, more)) = (of(SMALL), of(1 << 20));
        let small = taken(face, addr, &[send], &[recv]);
        assert!((2 * SMALL as usize..=MOST).contains(&small), "{small}");
        for large in [taken(face, addr, &[much], &[recv]), taken(face, addr, &[send], &[more])] {
            assert!(large > MOST, "{large}");
        }
    }
}

pub(crate) fn a_buffer_that_is_changed_bounds_what_follows<F: Hosts>(face: &F) {
    const SMALL: u32 = 16_384;
    for addr in face.addrs() {
        let (mut near, far, _) = pair(face, addr, &[], &[Opt::RecvBuffer(SMALL)]);
        F::set(&near, Opt::SendBuffer(SMALL)).unwrap();
        F::set_write_timeout(&near, SHORT);
        let writes = core::iter::repeat_with(|| near.write(&[7; 8192])).map_while(Result::ok);
        let taken = writes.sum::<usize>();
        assert!(taken <= 4 * SMALL as usize + 2 * RING, "{taken}");
        drop(far);
    }
}

pub(crate) fn a_buffer_bounds_the_datagrams_that_wait<F: Hosts>(face: &F) {
    const COUNT: usize = 60;
    for addr in face.addrs() {
        let wait = |opts: &[Opt]| {
            let server = face.bind_udp_as((addr, 0).into(), opts).unwrap();
            let client = face.client_udp(any(server.addr())).unwrap();
            // Until it has found its way.
            client.send_to(&[0], server.addr()).unwrap();
            server.recv_from(&mut [0; 8]).unwrap();
            face.seen();
            for number in 0..COUNT {
                client.send_to(&[u8::try_from(number).unwrap(); 8000], server.addr()).unwrap();
            }
            let mut come = 0;
            while come < COUNT {
                come += face.seen().iter().filter(|seen| seen.to == server.addr()).count();
                std::thread::yield_now();
            }
            server.set_read_timeout(Some(SHORT));
            let mut into = [0; 1];
            let numbers = core::iter::from_fn(|| server.recv_from(&mut into).ok().map(|_| into[0]));
            let numbers: Vec<u8> = numbers.collect();
            assert_eq!(numbers[0], 0, "who comes first waits");
            numbers.len()
        };
        let (few, usual) = (wait(&[Opt::RecvBuffer(8192)]), wait(&[]));
        assert!(few < COUNT / 4 && 2 * few <= usual, "{few}, else {usual}");
    }
}
