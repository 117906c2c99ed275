//! Traffic of the hosts: ordinary sockets of the kernel.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Instant;

use dev::netns::Netns;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, sockopt};
use sha2::{Digest, Sha256};

use super::PATIENCE;
use crate::interrupt::Stop;

/// Bytes of each block of a transfer.
const BLOCK: usize = 256 * 1024;

/// Sends `count` echo requests one after another; answers the round-trip times of those that came back.
pub(crate) fn ping(from: &Netns, to: IpAddr, count: u16) -> io::Result<Vec<Duration>> {
    let (family, protocol, request) = match to {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP, 8),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6, 128),
    };
    let socket = from.run(|| rustix::net::socket(family, SocketType::DGRAM, Some(protocol)))??;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(Duration::from_secs(1)))?;
    rustix::net::connect(&socket, &SocketAddr::new(to, 0))?;
    let mut times = Vec::new();
    for seq in 0..count {
        let [hi, lo] = seq.to_be_bytes();
        let mut message = [0x5a; 64];
        // The kernel fills in the identifier and the checksum.
        message[..8].copy_from_slice(&[request, 0, 0, 0, 0, 0, hi, lo]);
        let begun = Instant::now();
        rustix::net::send(&socket, &message, SendFlags::empty())?;
        times.extend(echo(&socket, [hi, lo], begun));
    }
    Ok(times)
}

/// Waits for the reply with this sequence number; `None` if it does not come.
fn echo(socket: &rustix::fd::OwnedFd, seq: [u8; 2], begun: Instant) -> Option<Duration> {
    let mut answer = [0; 128];
    loop {
        let (len, _) = rustix::net::recv(socket, &mut answer[..], RecvFlags::empty()).ok()?;
        if answer[..len].get(6..8) == Some(&seq[..]) {
            return Some(begun.elapsed());
        }
    }
}

/// Sends `count` datagrams to an echo server and takes its answers, with a window of a few; answers how many came
/// back unchanged.
pub(crate) fn udp(from: &Netns, to: &Netns, target: IpAddr, count: u32) -> io::Result<u32> {
    const WINDOW: u32 = 32;
    let server = to.run(|| UdpSocket::bind((any(target), 0)))??;
    let client = from.run(|| UdpSocket::bind((any(target), 0)))??;
    client.connect((target, server.local_addr()?.port()))?;
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| answer_each(&server, &done));
        let back = exchange(&client, count, WINDOW);
        done.store(true, Ordering::Relaxed);
        back
    })
}

/// Sends a few, takes their answers, sends the next.
fn exchange(client: &UdpSocket, count: u32, window: u32) -> io::Result<u32> {
    let mut back = 0;
    for first in (0..count).step_by(window as usize) {
        let batch = first..(first + window).min(count);
        batch.clone().try_for_each(|n| client.send(&datagram(n)).map(drop))?;
        back += batch.take_while(|_| is_one_of_ours(client)).count();
    }
    Ok(u32::try_from(back).unwrap_or(u32::MAX))
}

/// Echoes until the client is done.
fn answer_each(server: &UdpSocket, done: &AtomicBool) {
    let mut buffer = [0; 2048];
    while !done.load(Ordering::Relaxed) {
        if let Ok((len, from)) = server.recv_from(&mut buffer) {
            // What cannot be sent is missed at the other end.
            let _ = server.send_to(&buffer[..len], from);
        }
    }
}

/// Receives one datagram; answers whether it is intact.
fn is_one_of_ours(client: &UdpSocket) -> bool {
    let mut buffer = [0; 2048];
    let Ok(len) = client.recv(&mut buffer) else { return false };
    let number = buffer.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    buffer[..len] == datagram(number)
}

/// Datagram `n`: lengths and contents differ from one to the next.
fn datagram(n: u32) -> Vec<u8> {
    let len = 4 + n * 37 % 1400;
    let body = (0..len).map(|at| at.wrapping_mul(n | 1).to_le_bytes()[0]);
    n.to_be_bytes().into_iter().chain(body).collect()
}

/// One way of a transfer: what was sent, and whether it arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transfer {
    pub(crate) bytes: u64,
    pub(crate) took: Duration,
    /// The receiver's hash of all bytes is the sender's.
    pub(crate) intact: bool,
}

/// Sends `bytes` bytes by TCP to `target` in `to`, and counts what arrives in `arrived` as it does.
pub(crate) fn transfer(
    (from, to): (&Netns, &Netns),
    target: IpAddr,
    bytes: u64,
    arrived: &AtomicU64,
    stop: &Stop,
) -> io::Result<Transfer> {
    let listener = to.run(|| TcpListener::bind((any(target), 0)))??;
    let address = SocketAddr::new(target, listener.local_addr()?.port());
    let sender = from.run(|| TcpStream::connect_timeout(&address, PATIENCE))??;
    let (receiver, _) = listener.accept()?;
    let begun = Instant::now();
    thread::scope(|scope| {
        let sending = scope.spawn(|| send(sender, bytes, stop));
        let received = receive(receiver, arrived);
        let sent = sending.join().map_err(|_| io::Error::other("the sender died"))?;
        let ((sent_bytes, sent_hash), (bytes, hash)) = (sent?, received?);
        Ok(Transfer { bytes, took: begun.elapsed(), intact: hash == sent_hash && bytes == sent_bytes })
    })
}

type Hash = [u8; 32];

/// Each block differs from all others by its number.
fn send(mut stream: TcpStream, bytes: u64, stop: &Stop) -> io::Result<(u64, Hash)> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut block: Vec<u8> =
        (0..BLOCK as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    let (mut hash, mut sent) = (Sha256::new(), 0);
    while sent < bytes && !stop.is_set() {
        block[..8].copy_from_slice(&sent.to_be_bytes());
        let part = usize::try_from(bytes - sent).unwrap_or(BLOCK).min(BLOCK);
        hash.update(&block[..part]);
        stream.write_all(&block[..part])?;
        sent += part as u64;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    Ok((sent, hash.finalize().into()))
}

fn receive(mut stream: TcpStream, arrived: &AtomicU64) -> io::Result<(u64, Hash)> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let (mut hash, mut bytes, mut block) = (Sha256::new(), 0, vec![0; BLOCK]);
    loop {
        let part = stream.read(&mut block)?;
        if part == 0 {
            return Ok((bytes, hash.finalize().into()));
        }
        hash.update(&block[..part]);
        bytes += part as u64;
        arrived.fetch_add(part as u64, Ordering::Relaxed);
    }
}

/// The address that means any, of the same family.
pub(crate) fn any(like: IpAddr) -> IpAddr {
    if like.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}
