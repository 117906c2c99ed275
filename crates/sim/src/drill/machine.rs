//! The host of a script, and its program, driven by calls: for users that judge the stack with a program of their own.
//!
//! Nothing waits here. A call that has to wait says so, and is made again when time has passed or a packet has come.

mod commands;
mod datagram;
mod ready;
mod stream;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::collections::BTreeMap;

use ::drill::script::IpVersion;
use net::tables::IfAddr;

use super::Setup;
use super::ends::Endpoints;
use super::errno::Errno;
use super::lab::Lab;
use super::linux::layout;
use super::program::{Outcome, Socket};
use super::sysctl::Sysctls;
use crate::mem::Rss;
use datagram::Datagrams;
pub use ready::Readiness;
pub use stream::Description;

/// Bits of the prefix that the host's link has, if it is not said.
const PREFIX_LEN_V4: u8 = 16;
const PREFIX_LEN_V6: u8 = 48;

/// The host and its surroundings.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// The host's addresses, of both families; it has one of them at a time.
    pub locals: (Ipv4Addr, Ipv6Addr),
    /// The other end's.
    pub remotes: (Ipv4Addr, Ipv6Addr),
    /// It begins with the address of IPv6.
    pub is_ipv6: bool,
    /// Bytes of the largest packet on the link.
    pub mtu: u16,
    /// Buffers, defaults and a card as scripts for Linux expect them; else as those for FreeBSD do.
    pub is_linux: bool,
    /// Its card cuts segments, if it is that of scripts for Linux.
    pub cuts: bool,
    /// CPUs, each with a ring of the card.
    pub cpus: u16,
    /// Seed of keys, and so of ports and sequence numbers.
    pub seed: u64,
}

impl Default for Scene {
    fn default() -> Self {
        Self {
            locals: (Ipv4Addr::new(192, 168, 0, 1), Ipv6Addr::new(0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0, 1)),
            remotes: (Ipv4Addr::new(192, 0, 2, 1), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
            is_ipv6: false,
            mtu: 1500,
            is_linux: false,
            cuts: true,
            cpus: 1,
            seed: 1,
        }
    }
}

impl Scene {
    fn local(&self) -> IpAddr {
        if self.is_ipv6 { self.locals.1.into() } else { self.locals.0.into() }
    }

    fn remote(&self) -> IpAddr {
        if self.is_ipv6 { self.remotes.1.into() } else { self.remotes.0.into() }
    }

    /// Another address of the link.
    fn gateway(&self) -> IpAddr {
        match self.local() {
            IpAddr::V4(local) => beside(local.to_bits().into(), 32 - PREFIX_LEN_V4, |bits| {
                Ipv4Addr::from_bits(u32::try_from(bits).unwrap_or(0)).into()
            }),
            IpAddr::V6(local) => {
                beside(local.to_bits(), 128 - PREFIX_LEN_V6, |bits| Ipv6Addr::from_bits(bits).into())
            }
        }
    }

    fn ends(&self) -> Endpoints {
        let prefix_len = if self.is_ipv6 { PREFIX_LEN_V6 } else { PREFIX_LEN_V4 };
        Endpoints {
            version: if self.is_ipv6 { IpVersion::Ipv6 } else { IpVersion::Ipv4 },
            local: IfAddr { addr: self.local(), prefix_len },
            remote: self.remote(),
            gateway: self.gateway(),
            bind_port: 0,
            connect_port: 0,
            mtu: self.mtu,
            is_linux: self.is_linux,
            cuts: self.is_linux && self.cuts,
            secret: None,
        }
    }

    fn lab(&self) -> Lab {
        let ends = self.ends();
        let setup = Setup { cpus: self.cpus, rss: Rss::Right, version: ends.version, seed: self.seed };
        Lab::new(&ends, &setup)
    }
}

/// An address that differs in one bit, and is no address of all or of any on the link.
fn beside(bits: u128, host_bits: u8, address: impl Fn(u128) -> IpAddr) -> IpAddr {
    let mask = (1_u128 << host_bits) - 1;
    let one = [1_u128, 2, 4].into_iter().map(|bit| bits ^ bit);
    address(one.into_iter().find(|bits| bits & mask != 0 && bits & mask != mask).unwrap_or(bits))
}

/// The type of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP.
    Stream,
    /// UDP.
    Datagram,
}

/// Flags of send and receive calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallFlags {
    /// It does not wait.
    pub dont_wait: bool,
    /// The urgent byte.
    pub is_urgent: bool,
    /// The bytes stay to be read again.
    pub is_peek: bool,
    /// More comes soon.
    pub says_more: bool,
    /// With the SYN, if that may be.
    pub is_fast: bool,
}

/// A socket of either kind.
enum Handle {
    Stream(Box<Socket>),
    Datagram(Datagrams),
}

/// A host with a program, in virtual time.
pub struct Machine {
    scene: Scene,
    lab: Lab,
    /// Time of other hosts, before this one had its address.
    passed: Duration,
    /// The host's address was used, so that it stays.
    is_settled: bool,
    sysctls: Sysctls,
    sockets: BTreeMap<i32, Handle>,
}

impl Machine {
    /// Switches it on.
    #[must_use]
    pub fn new(scene: Scene) -> Self {
        let mut sysctls = Sysctls::default();
        if scene.is_linux {
            sysctls.set_linux();
        }
        let (passed, sockets) = (Duration::ZERO, BTreeMap::new());
        Self { lab: scene.lab(), scene, passed, is_settled: false, sysctls, sockets }
    }

    /// Sets a variable of the system, by its name there or as Linux calls it.
    ///
    /// # Errors
    ///
    /// If it is not known, or cannot have this value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        self.sysctls.set(name, value)
    }

    /// The time since the beginning.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.passed + self.lab.now()
    }

    /// Lets time pass until the host has something to do, but not beyond `until`; answers whether that came first.
    pub fn step(&mut self, until: Duration) -> bool {
        self.lab.step(until.saturating_sub(self.passed))
    }

    /// Gives a packet to the host, from its IP header on; bytes that are none are no packet for it either.
    pub fn inject(&mut self, packet: &[u8]) {
        if let Some((src, dst)) = ends_of(packet) {
            self.settle(Some(dst), Some(src));
        }
        self.lab.inject(packet);
    }

    /// The next packet that the host has sent, and when.
    pub fn take_sent(&mut self) -> Option<(Duration, Vec<u8>)> {
        let sent = self.lab.take_sent()?;
        // Byte-wise comparison, as in scripts for Linux, needs options in Linux' order.
        let bytes = if self.scene.is_linux { layout::syn(sent.bytes) } else { sent.bytes };
        Some((self.passed + sent.at, bytes))
    }

    /// Settles the addresses, the host's and a peer's. The first use of an address of the host
    /// decides which one it has.
    fn settle(&mut self, local: Option<IpAddr>, remote: Option<IpAddr>) {
        if !self.is_settled {
            let before = self.scene.local();
            if let Some(addr) = local.or(remote) {
                self.scene.is_ipv6 = addr.is_ipv6();
            }
            match local.filter(is_of_one) {
                Some(IpAddr::V4(addr)) => self.scene.locals.0 = addr,
                Some(IpAddr::V6(addr)) => self.scene.locals.1 = addr,
                None => {}
            }
            if self.scene.local() != before {
                self.rebuild();
            }
            self.is_settled = true;
        }
        if let Some(remote) = remote.filter(is_of_one) {
            self.lab.meet(remote);
        }
    }

    /// Another host stands there from now on.
    fn rebuild(&mut self) {
        self.passed = self.now();
        self.lab = self.scene.lab();
    }

    /// A new socket, under this number.
    pub fn open(&mut self, fd: i32, kind: Kind, is_nonblocking: bool) {
        let handle = match kind {
            Kind::Stream => Handle::Stream(Box::new(Socket::new(is_nonblocking))),
            Kind::Datagram => Handle::Datagram(Datagrams::new(is_nonblocking)),
        };
        self.sockets.insert(fd, handle);
    }

    /// Gives a socket up.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub fn close(&mut self, fd: i32) -> Result<(), Errno> {
        match self.sockets.remove(&fd).ok_or(Errno("EBADF"))? {
            Handle::Stream(socket) => socket.close(&mut self.lab),
            Handle::Datagram(socket) => socket.close(&mut self.lab),
        }
        Ok(())
    }

    /// Gives a socket a place. Where the host has not used an address before, it has the one that is named from now on.
    ///
    /// # Errors
    ///
    /// `EBADF`, `EADDRINUSE`, `EADDRNOTAVAIL`, `EINVAL`.
    pub fn bind(&mut self, fd: i32, addr: SocketAddr) -> Result<(), Errno> {
        self.known(fd)?;
        self.settle(Some(addr.ip()), None);
        match self.sockets.get_mut(&fd).ok_or(Errno("EBADF"))? {
            Handle::Stream(socket) => socket.bind(&mut self.lab, addr).map(drop),
            Handle::Datagram(socket) => socket.bind(&mut self.lab, addr),
        }
    }

    /// Connects, or says how far it has come.
    pub fn connect(&mut self, fd: i32, remote: SocketAddr) -> Outcome<()> {
        if let Err(errno) = self.known(fd) {
            return Outcome::Done(Err(errno));
        }
        self.settle(None, Some(remote.ip()));
        let Self { lab, sysctls, sockets, .. } = self;
        match sockets.get_mut(&fd) {
            Some(Handle::Stream(socket)) => socket.connect(lab, sysctls, remote).map(drop),
            Some(Handle::Datagram(socket)) => Outcome::Done(socket.connect(lab, remote)),
            None => Outcome::fails("EBADF"),
        }
    }

    /// Dissolves the association with its peer.
    ///
    /// # Errors
    ///
    /// `EBADF`; as [`Self::bind`], if it goes on with datagrams of any peer.
    pub fn disconnect(&mut self, fd: i32) -> Result<(), Errno> {
        match self.sockets.get_mut(&fd).ok_or(Errno("EBADF"))? {
            Handle::Stream(socket) => socket.disconnect(&mut self.lab),
            Handle::Datagram(socket) => socket.disconnect(&mut self.lab)?,
        }
        Ok(())
    }

    /// Reads at most `len` bytes; returns the sender and the length of a datagram as well.
    pub fn receive(&mut self, fd: i32, len: usize, how: CallFlags) -> Outcome<Read> {
        let Self { lab, sockets, .. } = self;
        let outcome = match sockets.get_mut(&fd) {
            Some(Handle::Stream(socket)) => stream::receive(socket, lab, len, how),
            Some(Handle::Datagram(socket)) => socket.receive(lab, len, how),
            None => Outcome::fails("EBADF"),
        };
        match outcome {
            Outcome::Waits if how.dont_wait => Outcome::fails("EWOULDBLOCK"),
            outcome => outcome,
        }
    }

    /// Sends the bytes that are left, or a datagram at once; answers how many were sent in all.
    pub fn send(
        &mut self,
        fd: i32,
        bytes: &[u8],
        progress: &mut Progress,
        to: Option<SocketAddr>,
        how: CallFlags,
    ) -> Outcome<usize> {
        if let Err(errno) = self.known(fd) {
            return Outcome::Done(Err(errno));
        }
        if let Some(to) = to {
            self.settle(None, Some(to.ip()));
        }
        let Self { scene, lab, sysctls, sockets, .. } = self;
        match sockets.get_mut(&fd) {
            Some(Handle::Stream(socket)) => {
                stream::send(socket, (lab, sysctls, scene.is_linux), bytes, progress, to, how)
            }
            Some(Handle::Datagram(socket)) => Outcome::Done(socket.send(lab, bytes, to)),
            None => Outcome::fails("EBADF"),
        }
    }

    fn known(&self, fd: i32) -> Result<&Handle, Errno> {
        self.sockets.get(&fd).ok_or(Errno("EBADF"))
    }

    /// Whether calls that would have to wait fail.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub fn is_nonblocking(&self, fd: i32) -> Result<bool, Errno> {
        Ok(match self.known(fd)? {
            Handle::Stream(socket) => socket.is_nonblocking,
            Handle::Datagram(socket) => socket.is_nonblocking,
        })
    }

    /// Calls that would have to wait fail from now on, or wait.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub fn set_nonblocking(&mut self, fd: i32, is_on: bool) -> Result<(), Errno> {
        match self.sockets.get_mut(&fd).ok_or(Errno("EBADF"))? {
            Handle::Stream(socket) => socket.is_nonblocking = is_on,
            Handle::Datagram(socket) => socket.is_nonblocking = is_on,
        }
        Ok(())
    }

    /// Returns what could be done now without waiting.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub fn readiness(&mut self, fd: i32) -> Result<Readiness, Errno> {
        match self.sockets.get(&fd).ok_or(Errno("EBADF"))? {
            Handle::Stream(socket) => Ok(ready::of(socket, &mut self.lab)),
            Handle::Datagram(socket) => Ok(socket.readiness(&mut self.lab)),
        }
    }
}

/// The progress of a call that sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that it has moved.
    moved: usize,
    /// It is not made for the first time.
    is_again: bool,
}

/// The result of a read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// The bytes, as many as there was room for.
    pub bytes: Vec<u8>,
    /// Bytes that the datagram has.
    pub len: usize,
    /// The sender of the datagram.
    pub from: Option<SocketAddr>,
}

impl<T> Outcome<T> {
    fn map<R>(self, what: impl FnOnce(T) -> R) -> Outcome<R> {
        match self {
            Self::Done(result) => Outcome::Done(result.map(what)),
            Self::Waits => Outcome::Waits,
        }
    }
}

/// Whether an address can be one host's, on a link of several.
fn is_of_one(addr: &IpAddr) -> bool {
    !addr.is_unspecified() && !addr.is_multicast() && !addr.is_loopback()
}

/// Returns source and destination of a packet.
fn ends_of(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match packet.first()? >> 4 {
        4 => wire::ip4::View::new(packet).ok().map(|view| (view.src().into(), view.dst().into())),
        6 => wire::ip6::View::new(packet).ok().map(|view| (view.src().into(), view.dst().into())),
        _ => None,
    }
}
