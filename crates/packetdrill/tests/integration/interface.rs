//! The shared object, as packetdrill loads and calls it.
use core::net::{IpAddr, SocketAddr};
use std::fs;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;

use crate::judge::Table;
use sim::builder;
use wire::tcp::{Flags, Header, Options, View};

const SECOND: i64 = 1_000_000;
const TCP: i32 = libc::IPPROTO_TCP;

/// The other end of the one connection of a host, and the host.
struct Peer {
    table: Table,
    domain: i32,
    /// The host, and the other end.
    local: SocketAddr,
    remote: SocketAddr,
    /// Sequence number to send next, and to expect next.
    seq: u32,
    ack: u32,
}

impl Peer {
    /// Both families, with an address that the host does not have before it is named.
    fn both() -> [Self; 2] {
        [
            (libc::AF_INET, ["192.168.7.9", "192.0.2.1"]),
            (libc::AF_INET6, ["fd3d:fa7b:d17d::9:9", "2001:db8::1"]),
        ]
        .map(|(domain, addrs)| {
            let [local, remote] = addrs.map(|addr| SocketAddr::new(addr.parse().unwrap(), 8080));
            Self { table: Table::new(None), domain, local, remote, seq: 1000, ack: 0 }
        })
    }

    fn socket(&self) -> i32 {
        self.table.socket(self.domain, libc::SOCK_STREAM).unwrap()
    }

    /// Gives a segment to the host.
    fn send(&mut self, flags: Flags, payload: &[u8]) {
        let mut options = Options::default();
        if flags.syn() {
            options.mss = Some(1000);
        }
        let (src_port, dst_port) = (self.remote.port(), self.local.port());
        let header = Header {
            src_port,
            dst_port,
            seq: self.seq,
            ack: if flags.ack() { self.ack } else { 0 },
            flags,
            window: 50_000,
            urgent: 0,
            options,
        };
        self.table.inject(&builder::tcp(
            builder::Ip::new(self.remote.ip(), self.local.ip()),
            &header,
            payload,
        ));
        let len = payload.len() + usize::from(flags.syn()) + usize::from(flags.fin());
        self.seq = self.seq.wrapping_add(u32::try_from(len).unwrap());
    }

    /// Takes the next segment from the host; answers its flags, its payload and its time.
    fn hear(&mut self) -> (Flags, Vec<u8>, i64) {
        let (packet, time) = self.table.sniff().unwrap();
        let segment = segment(&packet, self.local.is_ipv6());
        let view = View::new(segment).unwrap();
        match (self.local.ip(), self.remote.ip()) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => assert!(view.verify_v4(local, remote)),
            (IpAddr::V6(local), IpAddr::V6(remote)) => assert!(view.verify_v6(local, remote)),
            _ => unreachable!("both are of one family"),
        }
        assert_eq!(view.dst_port(), self.remote.port());
        self.local.set_port(view.src_port());
        self.ack = view.seq().wrapping_add(u32::try_from(view.seq_len()).unwrap());
        (view.flags(), view.payload().to_vec(), time)
    }

    /// Listens, and has a connection.
    fn accepted(&mut self) -> i32 {
        let listener = self.socket();
        self.table.bind(listener, self.local).unwrap();
        self.table.listen(listener).unwrap();
        self.send(Flags::SYN, b"");
        assert_eq!(self.hear().0, Flags::SYN | Flags::ACK);
        self.send(Flags::ACK, b"");
        let (fd, remote) = self.table.accept(listener).unwrap();
        assert_eq!(remote, self.remote);
        self.table.close(listener).unwrap();
        fd
    }

    fn info(&self, fd: i32) -> Vec<u8> {
        self.table.option(fd, TCP, libc::TCP_INFO, 280).unwrap()
    }
}

fn segment(packet: &[u8], is_ipv6: bool) -> &[u8] {
    &packet[if is_ipv6 { 40 } else { 20 }..]
}

fn word(info: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(info[at..at + 4].try_into().unwrap())
}

fn a_connection_is_accepted_used_and_closed() {
    for mut peer in Peer::both() {
        let fd = peer.accepted();
        let table = peer.table;
        peer.send(Flags::ACK | Flags::PSH, b"hello");
        assert_eq!(table.waiting(fd), 5);
        assert_eq!(table.read(fd, 100), Ok(b"hello".to_vec()));
        assert_eq!(table.write(fd, b"you too"), Ok(7));
        let (_, payload, _) = peer.hear();
        assert_eq!(payload, b"you too");
        peer.send(Flags::ACK, b"");
        let info = peer.info(fd);
        assert_eq!((info.len(), info[0]), (280, 1), "established");
        assert_eq!((word(&info, 16), word(&info, 140)), (1000, 3), "tcpi_snd_mss, tcpi_segs_in");
        assert_eq!(
            table.option(fd, TCP, libc::TCP_INFO, 104).unwrap(),
            info[..104],
            "as much as there is room for"
        );
        peer.send(Flags::ACK | Flags::FIN, b"");
        assert_eq!(table.read(fd, 100), Ok(Vec::new()));
        assert_eq!(peer.info(fd)[0], 8, "the other end has closed");
        assert_eq!(peer.hear().0, Flags::ACK);
        assert_eq!(table.close(fd), Ok(0));
        assert_eq!(table.close(fd), Err(libc::EBADF));
        assert_eq!(peer.hear().0, Flags::ACK | Flags::FIN);
        peer.send(Flags::ACK, b"");
        table.free();
    }
}

fn a_connection_is_begun_and_what_is_not_answered_is_sent_again_in_virtual_time() {
    for mut peer in Peer::both() {
        let (fd, table) = (peer.socket(), peer.table);
        table.set_nonblocking(fd);
        let begin = table.now();
        assert_eq!(table.connect(fd, peer.remote), Err(libc::EINPROGRESS));
        // No address was given: the host is at its default one.
        peer.local.set_ip(source(&table.sniff().unwrap().0));
        let (flags, _, again) = peer.hear();
        assert_eq!(flags, Flags::SYN);
        assert!((again - begin - SECOND).abs() < SECOND / 100, "after a second: {}", again - begin);
        assert_eq!(table.poll(fd, libc::POLLOUT, 0), Ok(0));
        assert_eq!(table.connect(fd, peer.remote), Err(libc::EALREADY));
        peer.send(Flags::SYN | Flags::ACK, b"");
        assert_eq!(table.poll(fd, libc::POLLOUT, 0), Ok(libc::POLLOUT));
        let error = table.option(fd, libc::SOL_SOCKET, libc::SO_ERROR, 4);
        assert_eq!(error, Ok(0_i32.to_ne_bytes().to_vec()));
        assert_eq!(table.connect(fd, peer.remote), Err(libc::EISCONN));
        assert_eq!(table.read(fd, 1), Err(libc::EAGAIN));
        peer.send(Flags::RST | Flags::ACK, b"");
        assert_eq!(table.poll(fd, 0, 0), Ok(libc::POLLERR | libc::POLLHUP));
        assert_eq!(table.read(fd, 1), Err(libc::ECONNRESET));
        table.free();
    }
}

fn source(packet: &[u8]) -> IpAddr {
    match packet[0] >> 4 {
        4 => <[u8; 4]>::try_from(&packet[12..16]).unwrap().into(),
        _ => <[u8; 16]>::try_from(&packet[8..24]).unwrap().into(),
    }
}

fn a_second_thread_waits_in_its_call_and_learns_when_it_was_done() {
    for mut peer in Peer::both() {
        let fd = peer.accepted();
        let (table, (begun, begins)) = (peer.table, channel());
        let reader = thread::spawn(move || {
            begun.send(fs::read_link("/proc/thread-self").unwrap()).unwrap();
            let read = table.read(fd, 100);
            (read, table.now())
        });
        until_asleep(&begins.recv().unwrap());
        table.sleep(3_000_000).unwrap();
        let came = table.now();
        peer.send(Flags::ACK, b"late");
        let served = table.now();
        // Time stands until it has asked.
        table.sleep(5_000_000).unwrap();
        let (read, when) = reader.join().unwrap();
        assert_eq!(read, Ok(b"late".to_vec()));
        assert!(
            (came..=served).contains(&when),
            "{when}: it came at {came}, and the call was done by {served}"
        );
        table.free();
    }
}

/// Waits until the kernel says that a thread sleeps: in its call, which it has announced.
fn until_asleep(thread: &Path) {
    let stat = Path::new("/proc").join(thread).join("stat");
    // The state stands behind the name, which is in parentheses.
    while !fs::read_to_string(&stat).unwrap().rsplit(')').next().unwrap().starts_with(" S") {
        thread::yield_now();
    }
}

fn time_passes_while_somebody_sleeps_or_waits_and_a_tick_when_it_is_asked_for() {
    let table = Table::new(Some("patience=60"));
    let begin = table.now();
    assert_eq!(table.now(), begin + 1);
    table.sleep(250_000).unwrap();
    assert_eq!(table.now(), begin + 250_002);
    assert_eq!(table.sniff(), None, "nothing is sent");
    assert_eq!(table.now(), begin + 60 * SECOND + 250_003);
    let fd = table.socket(libc::AF_INET, libc::SOCK_DGRAM).unwrap();
    assert_eq!(table.poll(fd, libc::POLLIN, 20), Ok(0));
    assert_eq!(table.now(), begin + 60 * SECOND + 270_004);
    table.bind(fd, "0.0.0.0:0".parse().unwrap()).unwrap();
    assert_eq!(table.read(fd, 1), Err(libc::EINTR), "nothing comes, and nobody else could bring it");
    table.free();
}

fn msg_waitall_waits_for_all_bytes_the_end_or_an_error() {
    for mut peer in Peer::both() {
        let fd = peer.accepted();
        let (table, whole) = (peer.table, libc::MSG_WAITALL);
        peer.send(Flags::ACK, b"abc");
        assert_eq!(table.recv(fd, 5, whole | libc::MSG_DONTWAIT), Ok(b"abc".to_vec()));
        peer.send(Flags::ACK, b"abc");
        assert_eq!(table.recv(fd, 5, whole | libc::MSG_PEEK), Ok(b"abc".to_vec()));
        let reader = thread::spawn(move || table.recv(fd, 5, whole));
        peer.send(Flags::ACK, b"d");
        peer.send(Flags::ACK, b"efg");
        assert_eq!(reader.join().unwrap(), Ok(b"abcde".to_vec()));
        peer.send(Flags::ACK | Flags::FIN, b"h");
        assert_eq!(table.recv(fd, 5, whole), Ok(b"fgh".to_vec()));
        assert_eq!(table.recv(fd, 5, whole), Ok(Vec::new()));
        table.free();
    }
}

fn bytes_are_spliced_from_a_socket_into_a_pipe_and_on_to_a_socket() {
    for mut peer in Peer::both() {
        let fd = peer.accepted();
        let table = peer.table;
        let [reader, writer] = table.pipe().unwrap();
        let again = Err(libc::EAGAIN);
        assert_eq!((table.splice([fd, writer], 9, 0), table.splice([reader, fd], 9, 0)), (again, again));
        peer.send(Flags::ACK, b"spliced");
        assert_eq!(table.poll(reader, libc::POLLIN, 0), Ok(0));
        assert_eq!(table.splice([fd, writer], 100, 0), Ok(7));
        assert_eq!(table.poll(reader, libc::POLLIN, 0), Ok(libc::POLLIN));
        assert_eq!(table.read(reader, 2), Ok(b"sp".to_vec()));
        assert_eq!(table.splice([reader, fd], 100, 0), Ok(5));
        assert_eq!(peer.hear().1, b"liced");
        for (ends, at, wrong) in [
            ([fd, fd], 0, libc::EINVAL),
            ([reader, writer], 0, libc::EINVAL),
            ([fd, writer], 1, libc::ESPIPE),
            ([writer, fd], 0, libc::EBADF),
            ([99, writer], 0, libc::EBADF),
        ] {
            assert_eq!(table.splice(ends, 1, at), Err(wrong), "{ends:?}");
        }
        assert_eq!(table.write(writer, &[7; 70_000]), Ok(65_536), "as much as there is room for");
        assert_eq!(table.write(writer, &[7]), Err(libc::EAGAIN));
        assert_eq!(table.poll(writer, libc::POLLOUT, 0), Ok(0));
        table.close(writer).unwrap();
        assert_eq!(table.read(reader, 70_000).map(|bytes| bytes.len()), Ok(65_536));
        assert_eq!(table.splice([reader, fd], 1, 0), Ok(0), "nobody writes any more");
        let [reader, writer] = table.pipe().unwrap();
        table.close(reader).unwrap();
        assert_eq!(table.write(writer, b"x"), Err(libc::EPIPE));
        table.free();
    }
}

/// A control message, as C lays it out.
fn control(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
    let mut bytes =
        [&(16 + data.len()).to_ne_bytes(), [level, kind].map(i32::to_ne_bytes).as_flattened(), data].concat();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

fn zero_copy_sends_are_reported_when_done() {
    for mut peer in Peer::both() {
        let fd = peer.accepted();
        let (table, option, on) = (peer.table, libc::SO_ZEROCOPY, 1_i32.to_ne_bytes());
        let told = |room| table.recv_message(fd, [0, room], libc::MSG_ERRQUEUE);
        assert_eq!(table.set_option(fd, libc::SOL_SOCKET, option, &2_i32.to_ne_bytes()), Err(libc::EINVAL));
        assert_eq!(table.set_option(fd, libc::SOL_SOCKET, option, &on), Ok(0));
        assert_eq!(table.option(fd, libc::SOL_SOCKET, option, 4), Ok(on.to_vec()));
        assert_eq!(told(100), Err(libc::EAGAIN));
        for (calls, first, last) in [(1, 0_u32, 0_u32), (2, 1, 2)] {
            for _ in 0..calls {
                assert_eq!(table.send(fd, b"some", libc::MSG_ZEROCOPY), Ok(4));
                assert_eq!(table.send(fd, b"", libc::MSG_ZEROCOPY), Ok(0));
                assert_eq!(peer.hear().1, b"some");
                peer.send(Flags::ACK, b"");
                assert_eq!(table.poll(fd, 0, 0), Ok(libc::POLLERR));
            }
            let (level, kind, len) = match peer.domain {
                libc::AF_INET => (libc::SOL_IP, libc::IP_RECVERR, 16 + 16),
                _ => (libc::SOL_IPV6, libc::IPV6_RECVERR, 16 + 28),
            };
            let mut error =
                [[0, 0x0001_0005_u32.to_le(), first, last].map(u32::to_ne_bytes).as_flattened(), &[0; 28]]
                    .concat();
            error.truncate(len);
            let wanted = control(level, kind, &error);
            assert_eq!(told(wanted.len()), Ok((0, libc::MSG_ERRQUEUE, wanted)));
            assert_eq!((told(100), table.poll(fd, 0, 0)), (Err(libc::EAGAIN), Ok(0)));
        }
        table.send(fd, b"some", libc::MSG_ZEROCOPY).unwrap();
        peer.hear();
        peer.send(Flags::ACK, b"");
        assert_eq!(told(8), Ok((0, libc::MSG_ERRQUEUE | libc::MSG_CTRUNC, Vec::new())));
        table.free();
    }
}

fn tcp_inq_reports_unread_bytes_and_the_end() {
    for mut peer in Peer::both() {
        let fd = peer.accepted();
        let (table, inq) = (peer.table, 36);
        assert_eq!(table.set_option(fd, TCP, inq, &1_i32.to_ne_bytes()), Ok(0));
        let left = |left: i32| control(TCP, inq, &left.to_ne_bytes());
        peer.send(Flags::ACK, b"seven..");
        assert_eq!(table.recv_message(fd, [3, 64], 0), Ok((3, 0, left(4))));
        assert_eq!(
            table.recv_message(fd, [1, 20], 0),
            Ok((1, 0, left(3)[..20].to_vec())),
            "nothing fills it up"
        );
        assert_eq!(table.recv_message(fd, [3, 19], 0), Ok((3, libc::MSG_CTRUNC, Vec::new())));
        peer.send(Flags::ACK | Flags::FIN, b"end");
        assert_eq!(table.recv_message(fd, [3, 64], 0), Ok((3, 0, left(1))));
        let datagrams = table.socket(peer.domain, libc::SOCK_DGRAM).unwrap();
        assert_eq!(table.set_option(datagrams, TCP, inq, &[1, 0, 0, 0]), Err(libc::ENOPROTOOPT));
        table.free();
    }
}

fn datagrams_come_and_go() {
    for peer in Peer::both() {
        let table = peer.table;
        let fd = table.socket(peer.domain, libc::SOCK_DGRAM).unwrap();
        table.bind(fd, peer.local).unwrap();
        let ip = builder::Ip::new(peer.remote.ip(), peer.local.ip());
        table.inject(&builder::udp(ip, [9, 8080], b"question"));
        assert_eq!(table.poll(fd, libc::POLLIN, 0), Ok(libc::POLLIN));
        let from = SocketAddr::new(peer.remote.ip(), 9);
        assert_eq!(table.recv_from(fd), Ok((b"question".to_vec(), from)));
        assert_eq!(table.send_to(fd, b"answer", from), Ok(6));
        let (packet, _) = table.sniff().unwrap();
        assert_eq!(segment(&packet, peer.local.is_ipv6())[8..], *b"answer");
        assert_eq!(table.connect(fd, from), Ok(0));
        let other = SocketAddr::new(peer.remote.ip(), 10);
        table.inject(&builder::udp(ip, [10, 8080], b"of another"));
        assert_eq!(table.poll(fd, libc::POLLIN, 0), Ok(0));
        assert_eq!(table.disconnect(fd), Ok(0));
        table.inject(&builder::udp(ip, [10, 8080], b"of another"));
        assert_eq!(table.recv_from(fd), Ok((b"of another".to_vec(), other)));
        assert_eq!(table.option(fd, TCP, libc::TCP_INFO, 280), Err(libc::EOPNOTSUPP));
        assert_eq!(table.shutdown(fd, libc::SHUT_WR), Err(libc::EOPNOTSUPP));
        assert_eq!(table.close(fd), Ok(0));
        table.free();
    }
}

fn epoll_reports_edge_and_level_triggered() {
    for mut peer in Peer::both() {
        let fd = peer.accepted();
        let table = peer.table;
        let (level, edge) = (table.epoll_create(), table.epoll_create());
        let (read, once) = (libc::EPOLLIN.cast_unsigned(), libc::EPOLLET.cast_unsigned());
        assert_eq!(table.epoll_add(level, fd, read, 7), Ok(0));
        assert_eq!(table.epoll_add(level, fd, read, 7), Err(libc::EEXIST));
        assert_eq!(table.epoll_add(edge, fd, read | once, 8), Ok(0));
        assert_eq!(table.epoll_wait(level, 10), Ok(Vec::new()));
        peer.send(Flags::ACK, b"first");
        assert_eq!(table.epoll_wait(edge, -1), Ok(vec![(read, 8)]));
        assert_eq!(table.epoll_wait(edge, 0), Ok(Vec::new()));
        peer.send(Flags::ACK, b"second");
        assert_eq!(table.epoll_wait(edge, 0), Ok(vec![(read, 8)]));
        assert_eq!(table.epoll_wait(level, 0), Ok(vec![(read, 7)]));
        assert_eq!(table.epoll_wait(level, 0), Ok(vec![(read, 7)]));
        table.close(fd).unwrap();
        assert_eq!(table.epoll_wait(level, 0), Ok(Vec::new()));
        assert_eq!(table.epoll_add(level, fd, read, 7), Err(libc::EBADF));
        table.free();
    }
}

fn a_socket_of_ipv6_speaks_ipv4_under_mapped_addresses() {
    let mapped = |addr: SocketAddr| match addr.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), addr.port()),
        IpAddr::V6(_) => addr,
    };
    let [mut peer, _] = Peer::both();
    let table = peer.table;
    let listener = table.socket(libc::AF_INET6, libc::SOCK_STREAM).unwrap();
    table.bind(listener, mapped(peer.local)).unwrap();
    table.listen(listener).unwrap();
    peer.send(Flags::SYN, b"");
    assert_eq!(peer.hear().0, Flags::SYN | Flags::ACK);
    peer.send(Flags::ACK, b"");
    let (_, remote) = table.accept(listener).unwrap();
    assert_eq!(remote, mapped(peer.remote));
    let fd = table.socket(libc::AF_INET6, libc::SOCK_STREAM).unwrap();
    table.set_nonblocking(fd);
    assert_eq!(table.connect(fd, mapped(peer.remote)), Err(libc::EINPROGRESS));
    assert_eq!(source(&table.sniff().unwrap().0), peer.local.ip());
    table.free();
}

fn a_socket_can_connect_again_after_a_refused_connection() {
    for mut peer in Peer::both() {
        let fd = peer.accepted();
        let table = peer.table;
        assert_eq!(table.disconnect(fd), Ok(0));
        assert!(peer.hear().0.rst());
        assert_eq!(table.read(fd, 1), Err(libc::ENOTCONN));
        table.set_nonblocking(fd);
        assert_eq!(table.connect(fd, peer.remote), Err(libc::EINPROGRESS));
        assert_eq!(peer.hear().0, Flags::SYN);
        assert_eq!(table.disconnect(99), Err(libc::EBADF));
        table.free();
    }
}

fn bytes_that_are_no_packet_do_no_harm() {
    let table = Table::new(None);
    let mut random = sim::random::Random::new(7);
    for round in 0..2000_usize {
        let len = if round % 100 == 0 { 65_535 } else { round % 120 };
        let mut bytes: Vec<u8> = (0..len).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
        if let (Some(first), true) = (bytes.first_mut(), round % 3 > 0) {
            *first = if round % 3 == 1 { 0x45 } else { 0x60 };
        }
        table.inject(&bytes);
        table.sleep(1000).unwrap();
    }
    assert!(table.socket(libc::AF_INET, libc::SOCK_STREAM).is_ok());
    table.free();
}

fn options_are_set_and_read_as_linux_numbers_them() {
    let table = Table::new(None);
    let fd = table.socket(libc::AF_INET, libc::SOCK_STREAM).unwrap();
    for (level, option, value) in [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1_i32),
        (libc::SOL_SOCKET, libc::SO_REUSEADDR, 1),
        (TCP, libc::TCP_NODELAY, 1),
        (TCP, libc::TCP_KEEPIDLE, 77),
        (TCP, libc::TCP_USER_TIMEOUT, 5000),
        (libc::IPPROTO_IP, libc::IP_TTL, 9),
    ] {
        let value = value.to_ne_bytes();
        assert_eq!(table.set_option(fd, level, option, &value), Ok(0), "{level} {option}");
        assert_eq!(table.option(fd, level, option, 4), Ok(value.to_vec()), "{level} {option}");
        assert_eq!(table.set_option(fd, level, option, &value[..3]), Err(libc::EINVAL));
    }
    let linger = [1_i32.to_ne_bytes(), 3_i32.to_ne_bytes()].concat();
    assert_eq!(table.set_option(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger), Ok(0));
    assert_eq!(table.option(fd, libc::SOL_SOCKET, libc::SO_LINGER, 8), Ok(linger));
    assert_eq!(table.set_option(fd, TCP, libc::TCP_CONGESTION, b"reno"), Ok(0));
    assert_eq!(table.option(fd, TCP, libc::TCP_CONGESTION, 5), Ok(b"reno\0".to_vec()));
    assert_eq!(table.set_option(fd, TCP, libc::TCP_CONGESTION, b"bbr"), Err(libc::ENOENT));
    assert_eq!(table.option(fd, TCP, 999, 4), Err(libc::ENOPROTOOPT));
    assert_eq!(table.option(fd, TCP, libc::TCP_INFO, 280).unwrap()[0], 7, "closed");
    table.free();
}

fn a_direct_system_call_for_an_option_is_answered_by_the_preloaded_library() {
    let table = Table::new(None);
    let fd = table.socket(libc::AF_INET, libc::SOCK_STREAM).unwrap();
    assert_eq!(
        crate::judge::exported_option(fd, TCP, libc::TCP_INFO),
        table.option(fd, TCP, libc::TCP_INFO, 280)
    );
    let (level, cc_info, memory) = (libc::SOL_SOCKET, 26, 55);
    assert_eq!(crate::judge::exported_option(fd, TCP, cc_info), Ok(Vec::new()));
    assert_eq!(crate::judge::exported_option(fd, level, memory).map(|bytes| bytes.len()), Ok(36));
    table.free();
    assert_eq!(crate::judge::exported_option(fd, TCP, libc::TCP_INFO), Err(libc::ENOTSOCK), "the system's");
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let own = std::os::fd::AsRawFd::as_raw_fd(&socket);
    let kind = crate::judge::exported_option(own, level, libc::SO_TYPE);
    assert_eq!(kind, Ok(libc::SOCK_DGRAM.to_ne_bytes().to_vec()));
}

fn wrong_flags_leave_functions_that_fail() {
    for flags in ["colour=red", "net.inet.tcp.nothing=1", "\u{fffd}"] {
        let table = Table::new(Some(flags));
        assert_eq!(table.socket(libc::AF_INET, libc::SOCK_STREAM), Err(libc::EINVAL));
        assert!(table.with_nothing(3).iter().all(|answer| *answer == Err(libc::EINVAL)), "{flags}");
        assert_eq!(table.sleep(1), Err(libc::EINVAL));
        table.free();
    }
    Table::nowhere();
}

fn what_is_nowhere_is_refused_and_does_no_harm() {
    let table = Table::new(Some("linux,ipv6"));
    let fd = table.socket(libc::AF_INET6, libc::SOCK_STREAM).unwrap();
    let answers = table.with_nothing(fd);
    let refused = |answer: &Result<isize, i32>| matches!(answer, Err(libc::EFAULT | libc::EINVAL));
    let other: Vec<_> = answers.iter().filter(|answer| !refused(answer)).collect();
    assert!(other.is_empty(), "{answers:?}");
    table.free();
}

fn after_a_host_comes_another_and_the_number_of_one_that_has_gone_is_nobodys() {
    for _ in 0..3 {
        let table = Table::new(None);
        let fd = table.socket(libc::AF_INET, libc::SOCK_STREAM).unwrap();
        table.free();
        assert_eq!(table.close(fd), Err(libc::EINVAL));
        table.free();
    }
}

fn what_is_bounded_is_refused_beyond() {
    let [peer, _] = &mut Peer::both();
    let fd = peer.accepted();
    peer.table.set_option(fd, libc::SOL_SOCKET, libc::SO_ZEROCOPY, &1_i32.to_ne_bytes()).unwrap();
    let send = || peer.table.send(fd, b"x", libc::MSG_ZEROCOPY);
    assert!((0..1024).all(|_| send() == Ok(1)));
    assert_eq!((send(), peer.table.write(fd, b"x")), (Err(libc::ENOBUFS), Ok(1)));
    peer.table.free();
    let table = Table::new(None);
    let open = || table.socket(libc::AF_INET, libc::SOCK_STREAM);
    let all: Vec<i32> = (0..256).map(|_| open().unwrap()).collect();
    assert_eq!(open(), Err(libc::EMFILE));
    all.into_iter().for_each(|fd| assert_eq!(table.close(fd), Ok(0)));
    let fd = open().unwrap();
    assert_eq!(table.poll_many(fd, 1024), Ok(1024));
    assert_eq!(table.poll_many(fd, 1025), Err(libc::EINVAL));
    assert_eq!(table.write_pieces(fd, 1024), Err(libc::ENOTCONN));
    assert_eq!(table.write_pieces(fd, 1025), Err(libc::EINVAL));
    table.close(fd).unwrap();
    table.free();
}

fn sockets_that_are_not_there_are_refused() {
    let table = Table::new(None);
    assert_eq!(table.socket(libc::AF_UNIX, libc::SOCK_STREAM), Err(libc::EAFNOSUPPORT));
    assert_eq!(table.socket(libc::AF_INET, libc::SOCK_RAW), Err(libc::ESOCKTNOSUPPORT));
    assert_eq!(table.listen(99), Err(libc::EBADF));
    let fd = table.socket(libc::AF_INET6, libc::SOCK_STREAM).unwrap();
    assert_eq!(table.bind(fd, "192.168.0.1:80".parse().unwrap()), Err(libc::EAFNOSUPPORT));
    assert_eq!(table.bind(fd, "[::ffff:192.168.0.1]:80".parse().unwrap()), Ok(0));
    table.free();
    for (flags, why) in [("freebsd", libc::ENOTCONN), ("linux", libc::EPIPE)] {
        let table = Table::new(Some(flags));
        let fd = table.socket(libc::AF_INET, libc::SOCK_STREAM).unwrap();
        assert_eq!((table.write(fd, b"x"), table.read(fd, 1)), (Err(why), Err(libc::ENOTCONN)));
        table.free();
    }
}

harness::tests![
    a_connection_is_accepted_used_and_closed,
    a_connection_is_begun_and_what_is_not_answered_is_sent_again_in_virtual_time,
    a_second_thread_waits_in_its_call_and_learns_when_it_was_done,
    time_passes_while_somebody_sleeps_or_waits_and_a_tick_when_it_is_asked_for,
    msg_waitall_waits_for_all_bytes_the_end_or_an_error,
    bytes_are_spliced_from_a_socket_into_a_pipe_and_on_to_a_socket,
    zero_copy_sends_are_reported_when_done,
    tcp_inq_reports_unread_bytes_and_the_end,
    datagrams_come_and_go,
    epoll_reports_edge_and_level_triggered,
    a_socket_of_ipv6_speaks_ipv4_under_mapped_addresses,
    a_socket_can_connect_again_after_a_refused_connection,
    bytes_that_are_no_packet_do_no_harm,
    options_are_set_and_read_as_linux_numbers_them,
    a_direct_system_call_for_an_option_is_answered_by_the_preloaded_library,
    wrong_flags_leave_functions_that_fail,
    what_is_nowhere_is_refused_and_does_no_harm,
    after_a_host_comes_another_and_the_number_of_one_that_has_gone_is_nobodys,
    what_is_bounded_is_refused_beyond,
    sockets_that_are_not_there_are_refused
];
