//! Traffic of the hosts: ordinary sockets of the kernel.

use core::net::IpAddr;
use core::time::Duration;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use dev::netns::Netns;
use dev::sys::sockopt::set_int;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, sockopt};
use sha2::{Digest, Sha256};

use crate::lab::{Family, at};
use crate::wait::{PATIENCE, until, within};

// linux/in.h and linux/in6.h: level, IP_MTU_DISCOVER, IP_RECVERR; and IP_PMTUDISC_DO.
const MTU_DISCOVER: [(i32, i32); 2] = [(0, 10), (41, 23)];
const RECVERR: [(i32, i32); 2] = [(0, 11), (41, 25)];
const PMTUDISC_DO: i32 = 2;

/// A ping socket: the kernel fills in identifier and checksum.
pub(crate) struct Ping {
    fd: OwnedFd,
    family: Family,
}

impl Ping {
    pub(crate) fn open(from: &Netns, to: IpAddr) -> Self {
        let family = Family::of(to);
        let domain = family.pick(AddressFamily::INET, AddressFamily::INET6);
        let protocol = family.pick(ipproto::ICMP, ipproto::ICMPV6);
        let fd =
            from.run(|| rustix::net::socket(domain, SocketType::DGRAM, Some(protocol))).unwrap().unwrap();
        sockopt::set_socket_timeout(&fd, sockopt::Timeout::Recv, Some(Duration::from_secs(3))).unwrap();
        rustix::net::connect(&fd, &at(to, 0)).unwrap();
        Self { fd, family }
    }

    /// Requests are not to be fragmented, here or on the way.
    pub(crate) fn dont_fragment(self) -> Self {
        dont_fragment(&self.fd, self.family);
        self
    }

    /// Sends a request with `len` bytes of data; answers whether the same bytes come back.
    pub(crate) fn ask(&self, seq: u16, len: usize) -> bool {
        let [hi, lo] = seq.to_be_bytes();
        let header = [self.family.pick(8, 128), 0, 0, 0, 0, 0, hi, lo];
        let message = [&header[..], &pattern(seq.into(), len)].concat();
        if rustix::net::send(&self.fd, &message, SendFlags::empty()).is_err() {
            return false;
        }
        let mut answer = vec![0; len + 64];
        while let Ok((len, _)) = rustix::net::recv(&self.fd, &mut answer[..], RecvFlags::empty()) {
            if answer[..len].get(6..8) == Some(&[hi, lo]) {
                return answer[8..len] == message[8..];
            }
        }
        false
    }
}

/// Sends `count` requests, one after another; returns the number of replies.
pub(crate) fn ping(from: &Netns, to: IpAddr, count: u16) -> u16 {
    let socket = Ping::open(from, to);
    (0..count).map(|seq| u16::from(socket.ask(seq, 56))).sum()
}

/// Sends a datagram of `len` bytes; answers whether it arrives as it was.
pub(crate) fn datagram_arrives(from: &Netns, to: &Netns, target: IpAddr, len: usize) -> bool {
    let receiver = udp(to, target);
    let sender = udp(from, target);
    let sent = pattern(len as u64, len);
    sender.send_to(&sent, at(target, receiver.local_addr().unwrap().port())).unwrap();
    let mut buffer = vec![0; len + 1];
    receiver.recv(&mut buffer).is_ok_and(|got| buffer[..got] == sent)
}

/// A listener on every address of this family. It waits for its port: a program that another test started a moment
/// ago has this process's listeners until it runs `exec`, those that were closed here since as well.
pub(crate) fn listen(netns: &Netns, family: Family, port: u16) -> TcpListener {
    let bind = || match netns.run(|| TcpListener::bind((family.any(), port))).unwrap() {
        Err(why) if why.kind() == ErrorKind::AddrInUse => None,
        listener => Some(listener.unwrap()),
    };
    until("the port is free", bind)
}

/// Sends `bytes` bytes by TCP; answers whether they arrive as they were.
pub(crate) fn stream_arrives(from: &Netns, to: &Netns, target: IpAddr, bytes: u64) -> io::Result<bool> {
    let listener = listen(to, Family::of(target), 0);
    let address = at(target, listener.local_addr()?.port());
    let sender = from.run(|| TcpStream::connect_timeout(&address, PATIENCE))??;
    let (receiver, _) = listener.accept()?;
    thread::scope(|scope| {
        let sending = scope.spawn(|| send(sender, bytes));
        let received = receive(receiver);
        let sent = sending.join().map_err(|_| io::Error::other("the sender died"))?;
        Ok(sent? == received?)
    })
}

/// Number of bytes, and their hash.
pub(crate) type Digested = (u64, [u8; 32]);

/// Sends so many bytes, and their end. Each block differs from all others by its number.
pub(crate) fn send(mut stream: TcpStream, bytes: u64) -> io::Result<Digested> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut block = pattern(bytes, 256 * 1024);
    let (mut hash, mut sent) = (Sha256::new(), 0);
    while sent < bytes {
        block[..8].copy_from_slice(&sent.to_be_bytes());
        let part = usize::try_from(bytes - sent).map_or(block.len(), |left| left.min(block.len()));
        hash.update(&block[..part]);
        stream.write_all(&block[..part])?;
        sent += part as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    Ok((sent, hash.finalize().into()))
}

/// Reads to the end.
pub(crate) fn receive(mut stream: TcpStream) -> io::Result<Digested> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let (mut hash, mut bytes, mut block) = (Sha256::new(), 0, vec![0; 256 * 1024]);
    loop {
        let part = stream.read(&mut block)?;
        if part == 0 {
            return Ok((bytes, hash.finalize().into()));
        }
        hash.update(&block[..part]);
        bytes += part as u64;
    }
}

/// The error (errno) that the network reports for a datagram; `None` if it reports none.
pub(crate) fn refusal(from: &Netns, to: IpAddr, limit: Duration) -> Option<i32> {
    let socket = udp(from, to);
    hear_errors(&socket, Family::of(to));
    socket.set_read_timeout(Some(limit)).unwrap();
    socket.connect(at(to, 33_434)).unwrap();
    socket.send(&[0; 8]).unwrap();
    match socket.recv(&mut [0; 8]) {
        Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            error.raw_os_error()
        }
        _ => None,
    }
}

/// Lets a socket report all ICMP errors, also those that may pass by.
pub(crate) fn hear_errors(socket: &UdpSocket, family: Family) {
    let (level, option) = family.pick(RECVERR[0], RECVERR[1]);
    set_int(socket, level, option, 1).unwrap();
}

/// The path MTU that a socket finds when it sends unfragmentable datagrams of `len` bytes; and whether it was told
/// that one is too long.
pub(crate) fn path_mtu(from: &Netns, to: IpAddr, len: usize) -> (Option<u32>, bool) {
    let (family, socket) = (Family::of(to), udp(from, to));
    dont_fragment(&socket, family);
    socket.connect(at(to, 33_434)).unwrap();
    socket.set_nonblocking(true).unwrap();
    let told = within(PATIENCE, || {
        let error = socket.send(&vec![0; len]).err().or_else(|| socket.recv(&mut [0; 8]).err())?;
        (error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error())).then_some(())
    });
    let mtu = family.pick(sockopt::ip_mtu(&socket), sockopt::ipv6_mtu(&socket));
    (mtu.ok(), told.is_some())
}

fn dont_fragment(fd: impl AsFd, family: Family) {
    let (level, option) = family.pick(MTU_DISCOVER[0], MTU_DISCOVER[1]);
    set_int(fd, level, option, PMTUDISC_DO).unwrap();
}

/// A datagram socket of the family of `like`, on any port, that does not wait for ever.
pub(crate) fn udp(netns: &Netns, like: IpAddr) -> UdpSocket {
    let socket = netns.run(|| UdpSocket::bind((Family::of(like).any(), 0))).unwrap().unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

/// Bytes that differ from place to place and from `seed` to `seed`.
fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        state.to_be_bytes()[0]
    };
    (0..len).map(|_| next()).collect()
}
