//! Two hosts, which are kernels in namespaces of their own, and the rings between them that a test turns.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread::{self, JoinHandle};

use dev::netlink::Rtnetlink;
use dev::netns::{Netns, ScopedNetns};
use dev::sys::sysctl;
use net::driver::Driver;
use pkt::{Arena, Flags, Gso, Pkt, PktVec, Pool};

use super::netns;
use super::port::until;

/// A pool of its own, on ordinary pages.
pub fn pool(slots: usize) -> Pool {
    Arena::carve(1, slots, false).unwrap().pop().unwrap()
}

/// A packet with these bytes, in as many buffers as it takes.
pub fn packet(pool: &mut Pool, bytes: &[u8]) -> Pkt {
    let mut parts = bytes.chunks(pkt::DATA_LEN).map(|part| {
        let mut pkt = pool.take().unwrap();
        pkt.append(part.len()).unwrap().copy_from_slice(part);
        pkt
    });
    let mut head = parts.next().unwrap();
    parts.for_each(|part| head.chain(part));
    head
}

pub fn bytes_of(pkt: &Pkt) -> Vec<u8> {
    pkt.fragments().flatten().copied().collect()
}

/// Sends all packets, however often it takes.
pub fn send(ring: &mut dyn Driver, pool: &mut Pool, pkts: impl IntoIterator<Item = Pkt>) {
    let mut vec = PktVec::new();
    for pkt in pkts {
        vec.push(pkt).unwrap();
    }
    until(|| {
        ring.tx(pool, &mut vec);
        ring.doorbell(pool);
        vec.is_empty()
    });
}

/// Receives until `done` is content with what has come so far.
pub fn receive(ring: &mut dyn Driver, pool: &mut Pool, mut done: impl FnMut(&[Pkt]) -> bool) -> Vec<Pkt> {
    let (mut vec, mut all) = (PktVec::new(), Vec::new());
    until(|| {
        ring.rx(pool, &mut vec, 64);
        all.extend(vec.drain());
        done(&all)
    });
    all
}

pub fn give_all(pool: &mut Pool, pkts: impl IntoIterator<Item = Pkt>) {
    pkts.into_iter().for_each(|pkt| pool.give(pkt));
}

/// Turns until the kernel has given back all that was sent, then closes; all buffers must be home then.
pub fn close_all(pool: &mut Pool, rings: &mut [&mut dyn Driver]) {
    rings.iter_mut().for_each(|ring| ring.close(pool));
    assert_eq!((pool.free(), pool.arena().leaked()), (pool.total(), 0), "all buffers are back");
}

/// Counts of frames on a [`Cable`].
#[derive(Debug, Default)]
pub struct Seen {
    pub frames: usize,
    pub longest: usize,
    pub partial: usize,
    pub super_packets: usize,
    pub lost: usize,
}

/// Carries frames between two rings, as they are.
pub struct Cable {
    pub pool: Pool,
    vec: PktVec,
}

impl Cable {
    pub fn new(pool: Pool) -> Self {
        Self { pool, vec: PktVec::new() }
    }

    /// One turn of one direction.
    pub fn carry(&mut self, from: &mut dyn Driver, to: &mut dyn Driver, seen: &mut Seen) {
        let Self { pool, vec } = self;
        seen.frames += from.rx(pool, vec, 64);
        for pkt in vec.iter() {
            seen.longest = seen.longest.max(pkt.len());
            seen.partial += usize::from(pkt.flags.has(Flags::CSUM_PARTIAL));
            seen.super_packets += usize::from(pkt.gso != Gso::None);
        }
        to.tx(pool, vec);
        to.doorbell(pool);
        seen.lost += vec.len();
        vec.drain().for_each(|pkt| pool.give(pkt));
    }

    /// Turns both directions until the work is done; answers what went each way.
    pub fn while_working<T>(
        &mut self,
        a: &mut dyn Driver,
        b: &mut dyn Driver,
        work: JoinHandle<T>,
    ) -> (T, Seen, Seen) {
        let (mut there, mut back) = (Seen::default(), Seen::default());
        until(|| {
            self.carry(a, b, &mut there);
            self.carry(b, a, &mut back);
            work.is_finished()
        });
        (work.join().unwrap(), there, back)
    }
}

/// A kernel in a namespace of its own.
pub struct Host {
    pub ns: ScopedNetns,
    pub ip: [IpAddr; 2],
}

/// Two hosts, each to be given an interface.
pub fn hosts(test: &str) -> [Host; 2] {
    [1, 2].map(|n| {
        let ns = netns(&format!("{test}-h{n}"));
        ns.run(|| {
            for scope in ["all", "default"] {
                sysctl::set(&format!("ipv6.conf.{scope}.disable_ipv6"), 0).unwrap();
            }
        })
        .unwrap();
        let ip6 = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(n));
        Host { ns, ip: [Ipv4Addr::new(10, 9, 0, n).into(), ip6.into()] }
    })
}

impl Host {
    /// Gives the interface both addresses and sets it up.
    pub fn configure(&self, link: &str) {
        let mut nl = self.ns.netlink().unwrap();
        nl.set_up(link, true).unwrap();
        for (ip, len) in self.ip.iter().zip([24, 64]) {
            nl.add_address(link, format!("{ip}/{len}").parse().unwrap()).unwrap();
        }
    }

    pub fn netlink(&self) -> Rtnetlink {
        self.ns.netlink().unwrap()
    }

    pub fn udp(&self, ip: IpAddr) -> UdpSocket {
        let socket = self.ns.run(|| UdpSocket::bind((ip, 0))).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    }
}

/// A TCP connection between the hosts over which each sends `len` bytes and checks what it gets.
pub fn tcp_exchange([client, server]: &[Host; 2], family: usize, len: usize) -> JoinHandle<()> {
    let at = SocketAddr::new(server.ip[family], 0);
    let listener = server.ns.run(|| TcpListener::bind(at)).unwrap().unwrap();
    let at = listener.local_addr().unwrap();
    let ns = Netns::open(client.ns.name()).unwrap();
    thread::spawn(move || {
        let accepted = thread::spawn(move || both_ways(&listener.accept().unwrap().0, len));
        let connected = ns.run(|| TcpStream::connect_timeout(&at, Duration::from_secs(5))).unwrap().unwrap();
        both_ways(&connected, len);
        accepted.join().unwrap();
    })
}

fn both_ways(stream: &TcpStream, len: usize) {
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let bytes: Vec<u8> = (0..=250).cycle().take(len).collect();
    thread::scope(|scope| {
        scope.spawn(|| (&*stream).write_all(&bytes).unwrap());
        let mut got = vec![0; len];
        (&*stream).read_exact(&mut got).unwrap();
        assert!(got == bytes, "what arrives is what was sent");
    });
}

/// Datagrams of these lengths from one host to the other and back, one at a time.
pub fn udp_echo([client, server]: &[Host; 2], family: usize, lengths: &'static [usize]) -> JoinHandle<()> {
    let (client, server) = (client.udp(client.ip[family]), server.udp(server.ip[family]));
    let at = server.local_addr().unwrap();
    thread::spawn(move || {
        let mut got = vec![0; 70_000];
        for (&len, seed) in lengths.iter().zip(0..) {
            let sent: Vec<u8> = (seed..=250).chain(0..seed).cycle().take(len).collect();
            client.send_to(&sent, at).unwrap();
            let (len, from) = server.recv_from(&mut got).unwrap();
            server.send_to(&got[..len], from).unwrap();
            let len = client.recv(&mut got).unwrap();
            assert!(got[..len] == sent, "{len} bytes come back unharmed");
        }
    })
}
