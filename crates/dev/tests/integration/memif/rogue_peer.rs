//! A peer that does as the test says, however wrong: it speaks the protocol by hand, and writes into the shared memory
//! through its file.

use core::mem::MaybeUninit;
use core::time::Duration;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use dev::memif::msg::{AddRegion, AddRing, Direction, ETHERNET, Hello, Init, Msg, Name, Text, VERSION};
use dev::sys::poll::{PollFd, PollFlags, wait};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType,
};

use crate::memif::end::Place;

pub(crate) const COOKIE: u32 = 0x03e3_1f20;
/// Descriptors of its rings, as a power of two.
pub(crate) const LOG2: u8 = 4;
pub(crate) const SIZE: u16 = 1 << LOG2;
/// Where its rings begin: first the one to the master.
pub(crate) const RINGS: [u64; 2] = [0, 1024];
/// Where the buffers of each ring begin.
pub(crate) const BUFFERS: [u64; 2] = [4096, 4096 + 2048 * SIZE as u64];
pub(crate) const BYTES: u64 = 4096 + 2 * 2048 * SIZE as u64;

/// The peer's end of a control channel.
pub(crate) struct RoguePeer {
    socket: OwnedFd,
    pub(crate) memory: Option<File>,
    pub(crate) bells: Vec<OwnedFd>,
}

/// A ring in shared memory, as seen by a peer that violates the protocol.
pub(crate) struct Ring<'a> {
    memory: &'a File,
    at: u64,
}

impl RoguePeer {
    /// Connects as a slave.
    pub(crate) fn connect(place: &Place) -> Self {
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        rustix::net::connect(&socket, &SocketAddrUnix::new(place.socket()).unwrap()).unwrap();
        Self { socket, memory: None, bells: Vec::new() }
    }

    /// Waits for a slave to connect.
    pub(crate) fn accept(listener: &OwnedFd) -> Self {
        assert!(readable(listener), "nobody connects");
        Self { socket: rustix::net::accept(listener).unwrap(), memory: None, bells: Vec::new() }
    }

    /// A socket to wait at.
    pub(crate) fn listen(place: &Place) -> OwnedFd {
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        rustix::net::bind(&socket, &SocketAddrUnix::new(place.socket()).unwrap()).unwrap();
        rustix::net::listen(&socket, 8).unwrap();
        socket
    }

    pub(crate) fn say_bytes(&self, bytes: &[u8], fds: &[&OwnedFd]) {
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(beside.push(SendAncillaryMessage::ScmRights(&fds)));
        }
        // The other end may have hung up already.
        let _ = rustix::net::sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut beside, SendFlags::NOSIGNAL);
    }

    pub(crate) fn say(&self, msg: &Msg, fds: &[&OwnedFd]) {
        self.say_bytes(&msg.encode(), fds);
    }

    /// The next message; `None` when the other end has hung up.
    pub(crate) fn hear(&mut self) -> Option<Msg> {
        assert!(readable(&self.socket), "nothing is said");
        let mut bytes = [0; 128];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let mut receive =
            || rustix::net::recvmsg(&self.socket, &mut slices, &mut beside, RecvFlags::CMSG_CLOEXEC);
        let got = receive().or_else(|_| receive()); // that not everything was read is said first
        let len = got.ok().map(|got| got.bytes).filter(|len| *len > 0)?;
        let msg = Msg::decode(&bytes[..len]).unwrap();
        for message in beside.drain() {
            let RecvAncillaryMessage::ScmRights(fds) = message else { continue };
            for fd in fds {
                match msg {
                    Msg::AddRegion(_) => self.memory = Some(fd.into()),
                    _ => self.bells.push(fd),
                }
            }
        }
        Some(msg)
    }

    /// Returns the other end's last message, before it hangs up.
    pub(crate) fn farewell(&mut self) -> String {
        let mut last = String::new();
        while let Some(msg) = self.hear() {
            if let Msg::Disconnect { why, .. } = msg {
                last = why.to_string();
            }
        }
        last
    }

    /// Says something that a master must agree to.
    pub(crate) fn agree(&mut self, msg: &Msg, fds: &[&OwnedFd]) {
        self.say(msg, fds);
        assert_eq!(self.hear(), Some(Msg::Ack), "to {msg:?}");
    }

    /// As a slave: everything up to the rings, as it should be.
    pub(crate) fn offer_memory(&mut self) {
        assert!(matches!(self.hear(), Some(Msg::Hello(_))));
        self.agree(&init(), &[]);
        let memory = memfd(BYTES, SealFlags::SHRINK);
        self.agree(&region(0, BYTES), &[&memory]);
        self.memory = Some(memory.into());
    }

    /// As a slave: everything.
    pub(crate) fn be_slave(&mut self) {
        self.offer_memory();
        for (at, buffers) in BUFFERS.into_iter().enumerate() {
            let ring = self.ring(at);
            ring.set_cookie(COOKIE);
            for slot in 0..SIZE {
                ring.set_desc(slot, 0, 0, 2048, buffers + 2048 * u64::from(slot));
            }
        }
        for (at, direction) in [Direction::ToMaster, Direction::ToSlave].into_iter().enumerate() {
            let bell = bell();
            self.agree(&Msg::AddRing(ring(direction, 0, RINGS[at])), &[&bell]);
            self.bells.push(bell);
        }
        self.say(&Msg::Connect(Name::new("crook")), &[]);
        assert!(matches!(self.hear(), Some(Msg::Connected(_))));
        self.ring(1).set_head(SIZE);
    }

    /// As a master: everything, with what the slave offers; where its rings are.
    pub(crate) fn be_master(&mut self) -> [u64; 2] {
        self.say(&hello(), &[]);
        let mut rings = [0; 2];
        loop {
            match self.hear().unwrap() {
                Msg::AddRing(ring) => {
                    rings[usize::from(ring.direction == Direction::ToSlave)] = ring.offset.into()
                }
                Msg::Connect(_) => break,
                _ => {}
            }
            self.say(&Msg::Ack, &[]);
        }
        self.say(&Msg::Connected(Name::new("crook")), &[]);
        rings
    }

    pub(crate) fn ring(&self, number: usize) -> Ring<'_> {
        self.ring_at(RINGS[number])
    }

    pub(crate) fn ring_at(&self, at: u64) -> Ring<'_> {
        Ring { memory: self.memory.as_ref().unwrap(), at }
    }
}

impl Ring<'_> {
    fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, self.at + at).unwrap();
    }

    fn get(&self, at: u64) -> u16 {
        let mut bytes = [0; 2];
        self.memory.read_exact_at(&mut bytes, self.at + at).unwrap();
        u16::from_ne_bytes(bytes)
    }

    pub(crate) fn set_cookie(&self, cookie: u32) {
        self.put(0, &cookie.to_ne_bytes());
    }

    pub(crate) fn set_head(&self, head: u16) {
        self.put(6, &head.to_ne_bytes());
    }

    pub(crate) fn set_tail(&self, tail: u16) {
        self.put(64, &tail.to_ne_bytes());
    }

    pub(crate) fn head(&self) -> u16 {
        self.get(6)
    }

    pub(crate) fn tail(&self) -> u16 {
        self.get(64)
    }

    pub(crate) fn set_desc(&self, slot: u16, flags: u16, region: u16, len: u32, offset: u64) {
        let at = 128 + 16 * u64::from(slot);
        let offset = u32::try_from(offset).unwrap();
        let words = [flags.to_ne_bytes(), region.to_ne_bytes()].concat();
        self.put(at, &[&words[..], &len.to_ne_bytes(), &offset.to_ne_bytes()].concat());
    }
}

pub(crate) fn hello() -> Msg {
    Msg::Hello(Hello {
        name: Name::new("crook"),
        min_version: VERSION,
        max_version: VERSION,
        max_region: 0,
        max_m2s_ring: 0,
        max_s2m_ring: 0,
        max_log2_ring_size: LOG2,
    })
}

pub(crate) fn init() -> Msg {
    Msg::Init(Init {
        version: VERSION,
        id: 0,
        mode: ETHERNET,
        secret: Text::new(""),
        name: Name::new("crook"),
    })
}

pub(crate) fn region(index: u16, size: u64) -> Msg {
    Msg::AddRegion(AddRegion { index, size })
}

pub(crate) fn ring(direction: Direction, index: u16, offset: u64) -> AddRing {
    let offset = u32::try_from(offset).unwrap();
    AddRing { direction, index, region: 0, offset, log2_size: LOG2, private_header: 0 }
}

pub(crate) fn memfd(len: u64, seals: SealFlags) -> OwnedFd {
    let file = memfd_create("crook", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, len).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    file
}

pub(crate) fn bell() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC).unwrap() // one that blocks
}

fn readable(socket: &OwnedFd) -> bool {
    wait(&mut [PollFd::new(socket, PollFlags::IN)], Some(Duration::from_secs(10))).unwrap() == 1
}
