//! Peers out of any bytes: what holds whatever a slave or a master says, offers and writes. Called by tests and by `fuzz/`.
//!
//! The bytes are decisions. Most of them lead on towards frames, so that a peer that is wrong in one thing is right in
//! those before it; when they are used up, the peer is gone.

mod input;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use net::driver::Driver;
use pkt::{Arena, PktVec, Pool};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};

use self::input::Input;
use super::mailbox::{Mailbox, Wire};
use super::msg::{AddRegion, AddRing, Direction, ETHERNET, Hello, Init, Msg, Name, Text, VERSION};
use super::region::Region;
use super::ring::MemifRing;
use super::session::{Master, Reply, Slave};
use super::{FRAME_MAX, Options, Role};
use crate::sys::poll::EventFd;

/// Bytes of an honest region.
const BYTES: u64 = 1 << 16;
/// Bytes from one ring to the next; buffers follow.
const RING_BYTES: u64 = 1024;
const BUFFERS_AT: u64 = 8 * RING_BYTES;
const BUFFER_BYTES: u64 = 512;
/// Descriptors of an honest ring, as a power of two.
const LOG2: u8 = 4;
/// Offsets in a ring: the head, the tail, the descriptors.
const HEAD_AT: usize = 6;
const TAIL_AT: usize = 64;
const DESCS_AT: usize = 128;
const COOKIE: u32 = 0x03e3_1f20;
/// Messages of a handshake, and things done to the rings.
const MESSAGES_MAX: usize = 40;
const STEPS_MAX: usize = 400;
const POOL: usize = 128;

/// The peer: the memory that it shares, as it maps it itself, and where the rings are.
#[derive(Default)]
struct Peer {
    regions: Vec<(OwnedFd, Region)>,
    /// Region and offset, bytes.
    rings: Vec<(usize, usize)>,
    to_master: u16,
    to_slave: u16,
}

/// Whatever a slave says and writes: no panic, no frame that is none, every buffer comes home. Answers how many frames were
/// received; `None` if it did not come to that.
#[doc(hidden)]
pub fn any_slave(bytes: &[u8]) -> Option<usize> {
    let mut input = Input::new(bytes);
    let options = options(Role::Master, &mut input);
    let init =
        Init { version: VERSION, id: 0, mode: ETHERNET, secret: Text::new(""), name: Name::new("any") };
    let (mut master, _) = Master::welcome(&options, &init).ok()?;
    let mut peer = Peer::default();
    for _ in 0..MESSAGES_MAX {
        let (msg, fd, memory) = peer.slave_says(options.rings, &mut input);
        match master.hear(&options, msg.clone(), fd) {
            Err(_) => return None,
            Ok(Reply::Send(..)) => peer.is_agreed(&msg, memory, &mut input),
            Ok(Reply::Up(_, wires)) => return traffic(wires, &peer, &mut input),
        }
    }
    None
}

/// Plays a master from any bytes, which also writes into our memory.
#[doc(hidden)]
pub fn any_master(bytes: &[u8]) -> Option<usize> {
    let mut input = Input::new(bytes);
    let options = options(Role::Slave, &mut input);
    let (mut slave, mut peer) = (Slave::new(), Peer::default());
    let mut last = None;
    for _ in 0..MESSAGES_MAX {
        let msg = peer.master_says(last, &mut input);
        match slave.hear(&options, msg) {
            Err(_) => return None,
            Ok(Reply::Send(said, fd)) => {
                peer.hear(&said, fd.as_deref());
                last = Some(said);
            }
            Ok(Reply::Up(_, wires)) => return traffic(wires, &peer, &mut input),
        }
    }
    None
}

fn options(role: Role, input: &mut Input<'_>) -> Options {
    Options {
        name: "ours".to_owned(),
        socket: "nowhere".into(),
        access: crate::sys::unix_socket::Access::default(),
        id: 0,
        role,
        rings: 1 + u16::from(input.u8() & 1),
        ring_size: 1 << LOG2,
        buffer_size: 256,
        secret: None,
    }
}

impl Peer {
    /// The next message of a slave, what comes with it, and the memory that it offers so.
    fn slave_says(&self, rings: u16, input: &mut Input<'_>) -> (Msg, Option<OwnedFd>, Option<OwnedFd>) {
        if input.is_rare() {
            return (any_msg(input), descriptor(input), None);
        }
        let number = self.to_master + self.to_slave;
        if self.regions.is_empty() || self.regions.len() < 20 && input.is_rare() {
            let (index, size) = (input.near_u16(self.regions.len() as u64), input.near(BYTES));
            let memory = memory(input);
            let fd = memory.as_ref().and_then(|memory| memory.try_clone().ok());
            return (Msg::AddRegion(AddRegion { index, size }), fd, memory);
        }
        if number < 2 * rings {
            let is_to_master = (self.to_master < rings) != input.is_rare();
            let (direction, index) = if is_to_master {
                (Direction::ToMaster, self.to_master)
            } else {
                (Direction::ToSlave, self.to_slave)
            };
            let ring = AddRing {
                direction,
                index: input.near_u16(index.into()),
                region: input.near_u16(0),
                offset: input.near_u32(u64::from(number) * RING_BYTES),
                log2_size: input.near_u8(LOG2.into()),
                private_header: input.near_u16(0),
            };
            let bell = if input.is_rare() { descriptor(input) } else { bell() };
            return (Msg::AddRing(ring), bell, None);
        }
        (Msg::Connect(Name::new("any")), None, None)
    }

    /// The master has agreed.
    fn is_agreed(&mut self, msg: &Msg, memory: Option<OwnedFd>, input: &mut Input<'_>) {
        match (msg, memory) {
            (Msg::AddRegion(added), Some(file)) => {
                // A second mapping of what the master has accepted.
                self.regions.extend(Region::accept(&file, added.size).ok().map(|region| (file, region)));
            }
            (Msg::AddRing(added), _) => {
                let is_to_master = added.direction == Direction::ToMaster;
                *if is_to_master { &mut self.to_master } else { &mut self.to_slave } += 1;
                self.rings.push((added.region.into(), added.offset as usize));
                let cookie = if input.is_rare() { input.u32() } else { COOKIE };
                self.write(self.rings.len() - 1, 0, &cookie.to_ne_bytes());
            }
            _ => {}
        }
    }

    /// Returns a master's next message, after our last one.
    fn master_says(&self, last: Option<Msg>, input: &mut Input<'_>) -> Msg {
        if input.is_rare() {
            return any_msg(input);
        }
        match last {
            None => Msg::Hello(Hello {
                name: Name::new("any"),
                min_version: input.near_u16(VERSION.into()),
                max_version: input.near_u16(VERSION.into()),
                max_region: input.near_u16(0),
                max_m2s_ring: input.near_u16(1),
                max_s2m_ring: input.near_u16(1),
                max_log2_ring_size: input.near_u8(LOG2.into()),
            }),
            Some(Msg::Connect(_)) => Msg::Connected(Name::new("any")),
            Some(_) => Msg::Ack,
        }
    }

    /// Maps our slave's regions once more.
    fn hear(&mut self, said: &Msg, fd: Option<&OwnedFd>) {
        match (said, fd) {
            (Msg::AddRegion(added), Some(file)) => {
                let file = file.try_clone().ok();
                let mapped = file.and_then(|file| Some((Region::accept(&file, added.size).ok()?, file)));
                self.regions.extend(mapped.map(|(region, file)| (file, region)));
            }
            (Msg::AddRing(added), _) => self.rings.push((added.region.into(), added.offset as usize)),
            _ => {}
        }
    }

    /// Writes into a ring; outside of the memory there is nothing to write to.
    fn write(&self, ring: usize, at: usize, bytes: &[u8]) {
        let place =
            self.rings.get(ring).and_then(|(region, offset)| Some((self.regions.get(*region)?, offset)));
        if let Some(((_, region), offset)) = place {
            let _ = region.write(offset + at, bytes);
        }
    }

    fn index(&self, ring: usize, at: usize) -> u16 {
        let mut bytes = [0; 2];
        let place =
            self.rings.get(ring).and_then(|(region, offset)| Some((self.regions.get(*region)?, offset)));
        if let Some(((_, region), offset)) = place {
            let _ = region.read(offset + at, &mut bytes);
        }
        u16::from_ne_bytes(bytes)
    }

    /// Does one thing to the shared memory.
    fn meddle(&self, input: &mut Input<'_>) {
        let ring = usize::from(input.u8()) % self.rings.len().max(1);
        match input.u8() % 8 {
            0..=2 => {
                let slot = usize::from(input.u8() % (1 << LOG2));
                let buffer = BUFFERS_AT + u64::from(input.u8() % 64) * BUFFER_BYTES;
                let flags = if input.is_rare() { input.u16() } else { u16::from(input.u8() & 1) };
                let region = input.near_u16(0);
                let len = if input.is_rare() { input.u32() } else { u32::from(input.u8()) * 3 };
                let offset = input.near_u32(buffer);
                let words = [flags.to_ne_bytes(), region.to_ne_bytes()].concat();
                let words = [&words[..], &len.to_ne_bytes(), &offset.to_ne_bytes()].concat();
                self.write(ring, DESCS_AT + 16 * slot, &words);
            }
            3..=5 => {
                let at = if input.u8() & 1 == 0 { HEAD_AT } else { TAIL_AT };
                let step = if input.is_rare() { input.u16() } else { u16::from(input.u8() % 5) };
                let index = self.index(ring, at).wrapping_add(step);
                self.write(ring, at, &index.to_ne_bytes());
            }
            6 => {
                let (at, bytes) = (usize::from(input.u16()), input.u32().to_ne_bytes());
                self.write(ring, at, &bytes);
            }
            _ => {
                // A hole in memory that cannot shrink: what is touched there is zeros.
                let (from, len) = (u64::from(input.u16()) & !0xfff, 4096 * u64::from(1 + input.u8() % 8));
                if let Some((file, _)) = self.regions.first() {
                    let _ =
                        fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, from, len);
                }
            }
        }
    }
}

/// Frames both ways, while the peer writes what it likes; answers how many were received.
fn traffic(wires: Vec<Wire>, peer: &Peer, input: &mut Input<'_>) -> Option<usize> {
    let mut pool = Arena::carve(1, POOL, false).ok()?.pop()?;
    let mut received = 0;
    let mut rings: Vec<MemifRing> = wires.into_iter().filter_map(owner).collect();
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        let at = usize::from(input.u8()) % rings.len().max(1);
        let Some(ring) = rings.get_mut(at) else { break };
        match input.u8() % 4 {
            0 => received += receive(ring, &mut pool),
            1 => send(ring, &mut pool, input),
            _ => peer.meddle(input),
        }
    }
    rings.iter_mut().for_each(|ring| ring.close(&mut pool));
    assert_eq!((pool.free(), pool.arena().leaked()), (pool.total(), 0), "all buffers are home");
    Some(received)
}

/// A CPU's end of a ring pair.
fn owner(wire: Wire) -> Option<MemifRing> {
    let mailbox = Arc::new(Mailbox::new(Arc::new(EventFd::new().ok()?)).ok()?);
    let ring = MemifRing::new(&mailbox).ok()?;
    mailbox.put(Some(Box::new(wire)));
    Some(ring)
}

fn receive(ring: &mut MemifRing, pool: &mut Pool) -> usize {
    let mut come = PktVec::new();
    let count = ring.rx(pool, &mut come, 64);
    for pkt in come.drain() {
        let len = pkt.fragments().map(<[u8]>::len).sum::<usize>();
        assert!((1..=FRAME_MAX).contains(&len) && len == pkt.len(), "a frame of {len} bytes");
        pool.give(pkt);
    }
    count
}

fn send(ring: &mut MemifRing, pool: &mut Pool, input: &mut Input<'_>) {
    let mut frames = PktVec::new();
    for _ in 0..input.u8() % 5 {
        let len = 14 + usize::from(input.u8()) * 7;
        let Some(mut pkt) = pool.take() else { break };
        if pkt.append(len).is_err() {
            pool.give(pkt);
            break;
        }
        if let Err(pkt) = frames.push(pkt) {
            pool.give(pkt);
        }
    }
    ring.tx(pool, &mut frames);
    ring.doorbell(pool);
    let _ = ring.in_flight();
    let _ = ring.may_sleep();
    pool.give_all(&mut frames);
}

/// Any message: any type with any fields.
fn any_msg(input: &mut Input<'_>) -> Msg {
    let mut bytes = [0; super::msg::LEN];
    bytes.iter_mut().for_each(|byte| *byte = input.u8());
    let word = u16::from(bytes[0] % 9);
    bytes[..2].copy_from_slice(&word.to_ne_bytes());
    Msg::decode(&bytes).unwrap_or(Msg::Ack)
}

/// Memory to be offered: good, short, not sealed, or none.
fn memory(input: &mut Input<'_>) -> Option<OwnedFd> {
    let (len, seals) = match input.u8() {
        0..=199 => (BYTES, SealFlags::SHRINK),
        200..=219 => (u64::from(input.u16()), SealFlags::SHRINK),
        220..=229 => (2 * BYTES, SealFlags::SHRINK),
        230..=239 => (BYTES, SealFlags::GROW),
        _ => return descriptor(input),
    };
    let file = memfd_create("any", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).ok()?;
    ftruncate(&file, len).ok()?;
    fcntl_add_seals(&file, seals).ok()?;
    Some(file)
}

/// Something else, or nothing.
fn descriptor(input: &mut Input<'_>) -> Option<OwnedFd> {
    match input.u8() % 4 {
        0 => bell(),
        1 => Some(std::io::pipe().ok()?.1.into()),
        2 => Some(std::fs::File::open("/dev/zero").ok()?.into()),
        _ => None,
    }
}

fn bell() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}

#[cfg(test)]
mod tests;
