//! Unsafe: reads and writes maps that programs read and write at the same time.
//!
//! The table of offloaded flows, in arrays that are mapped into this process: a record is added without a system call.
#![expect(unsafe_code, reason = "maps are memory that is shared with the kernel; all accesses are atomic")]

use core::net::IpAddr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, TryLockError};

use net::flow::offload::{FlowTable, Forwarded, OffloadedFlow, RecordId, Refused, Scope};

use super::layout::{Family, Kind, ctl, hop, own_bits, port, slot};
use super::record::{Record, address};
use crate::bpf::BpfError;
use crate::bpf::map::{Array, Devices};
use crate::sys::mmap::Mapping;

/// The flows of all interfaces of this process that drivers forward.
pub struct Offload {
    pub(super) control: Shared,
    pub(super) v4: Shared,
    pub(super) v6: Shared,
    pub(super) to: Shared,
    pub(super) hops: Shared,
    pub(super) devices: Devices,
    pub(super) secret: [u64; 4],
    pub(super) buckets: u32,
    state: Mutex<State>,
    /// Number of records that were ever added, and how many of them no program in flight can have found any more.
    inserted: AtomicU64,
    waited_for: AtomicU64,
}

/// Facts about the table that only writers need.
#[derive(Default)]
struct State {
    /// Places of egress devices, by our numbers of interfaces.
    devices: HashMap<u16, Device>,
    hops: HashMap<Hop, u16>,
    /// Records by hop.
    users: Vec<(u32, Option<Hop>)>,
    free: Vec<u16>,
    records: u32,
    /// Records of destinations among them, by the place of their number.
    destinations: HashMap<i16, u32>,
}

#[derive(Clone, Copy)]
struct Device {
    place: u32,
    /// Whether frames may be redirected to it.
    may_send: bool,
    /// Whether flows that come by it are offloaded.
    is_ingress: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Hop {
    link: [u8; 12],
    mtu: u16,
    device: u32,
}

/// Words of the filter of our own addresses.
const OWN_WORDS: usize = ctl::OWN_BITS as usize / 64;

/// Interfaces that take part.
pub(super) const DEVICES_MAX: u32 = 256;

/// A map with its memory.
pub(super) struct Shared {
    map: Array,
    memory: Mapping,
}

/// The maps of one program.
pub(super) struct Maps<'t> {
    pub(super) control: BorrowedFd<'t>,
    pub(super) port: BorrowedFd<'t>,
    pub(super) hops: BorrowedFd<'t>,
    pub(super) devices: BorrowedFd<'t>,
    v4: BorrowedFd<'t>,
    v6: BorrowedFd<'t>,
    to: BorrowedFd<'t>,
    pub(super) secret: &'t [u64; 4],
    pub(super) bucket_mask: i32,
}

impl Maps<'_> {
    pub(super) const fn of(&self, kind: Kind) -> BorrowedFd<'_> {
        match kind {
            Kind::Flow4 => self.v4,
            Kind::Flow6 => self.v6,
            Kind::Destination => self.to,
        }
    }
}

/// One interface's part: its number, its link address, its counters.
pub struct PortWords {
    words: Shared,
    sends: AtomicBool,
}

/// Counts of frames of one interface that came up although their flows had records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CameUp {
    /// The record was of an earlier generation, or being written.
    pub stale: u64,
    /// The record is not for frames of this kind: time to live, length, partial checksum, a device that is gone.
    pub exceptions: u64,
}

impl Offload {
    /// A table for about `flows` flows of each family, in buckets that are half full then.
    ///
    /// # Errors
    /// [`BpfError::Permission`]; [`BpfError::Refused`] if memory is short.
    pub fn new(flows: u32, secret: [u64; 4]) -> Result<Self, BpfError> {
        let ways = u32::from(slot::WAYS.unsigned_abs());
        let buckets = flows.saturating_mul(2).div_ceil(ways).clamp(16, 1 << 20).next_power_of_two();
        let array =
            |value: usize, entries: u32| Shared::new(u32::try_from(value).unwrap_or(u32::MAX), entries);
        let offload = Self {
            control: Shared::new(ctl::BYTES, 1)?,
            v4: array(Kind::Flow4.bucket(), buckets)?,
            v6: array(Kind::Flow6.bucket(), buckets)?,
            to: array(Kind::Destination.bucket(), buckets)?,
            hops: Shared::new(hop::BYTES, hop::MAX)?,
            devices: Devices::new(DEVICES_MAX)?,
            secret,
            buckets,
            state: Mutex::default(),
            inserted: AtomicU64::new(0),
            waited_for: AtomicU64::new(0),
        };
        // No slot is of generation 0.
        offload.generation_word().store(1, Ordering::Release);
        Ok(offload)
    }

    /// Lets an interface take part: flows that come by it are offloaded if it `is_ingress`; frames leave by it if it
    /// `may_send`. `number` is ours, `ifindex` the kernel's.
    ///
    /// # Errors
    /// [`BpfError::Refused`] if there are too many, or the kernel has no such interface.
    pub fn add_device(
        &self,
        number: u16,
        ifindex: u32,
        is_ingress: bool,
        may_send: bool,
    ) -> Result<(), BpfError> {
        let mut state = self.lock();
        let taken: Vec<u32> = state.devices.values().map(|device| device.place).collect();
        let known = state.devices.get(&number).map(|device| device.place);
        let place = known.or_else(|| (0..DEVICES_MAX).find(|place| !taken.contains(place)));
        let too_many = || BpfError::Refused {
            doing: "add an interface to the flow offload",
            source: io::Error::other("too many interfaces"),
        };
        let place = place.ok_or_else(too_many)?;
        self.devices.set(place, ifindex)?;
        state.devices.insert(number, Device { place, may_send, is_ingress });
        drop(state);
        Ok(())
    }

    /// Ends an interface's part; answers whether it had one. Records that lead there are to be [retired](Self::retire) before
    /// another interface comes.
    pub fn remove_device(&self, number: u16) -> bool {
        let device = self.lock().devices.remove(&number);
        // One that is gone has left the map by itself.
        device.map(|device| self.devices.remove(device.place)).is_some()
    }

    /// Invalidates all records, and waits until no program forwards by one any more. To be called when what is new is in force
    /// for all that insert records.
    ///
    /// # Errors
    /// As [`grace::wait`](super::grace::wait): all records are invalid, but programs may still be on their way.
    pub fn retire(&self) -> io::Result<()> {
        self.invalidate();
        // Counted before it was written: one that is not seen here was of a decision that is valid.
        let inserted = self.inserted.load(Ordering::SeqCst);
        if inserted != self.waited_for.load(Ordering::SeqCst) {
            super::grace::wait()?;
            self.waited_for.store(inserted, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Names the addresses of this host and the broadcast addresses of its links. What comes from one of them is left to the stack.
    pub fn set_own(&self, addrs: impl Iterator<Item = IpAddr>) {
        let mut filter = [0_u64; OWN_WORDS];
        for bit in addrs.flat_map(|addr| own_bits(address(addr))) {
            filter[bit / 64 % OWN_WORDS] |= 1 << (bit % 64);
        }
        for (n, word) in filter.into_iter().enumerate() {
            self.own_word(n).store(word, Ordering::Relaxed);
        }
    }

    /// Whether an address may be one of [ours](Self::set_own); "no" is certain.
    #[must_use]
    pub fn is_own(&self, addr: IpAddr) -> bool {
        let has = |bit: usize| self.own_word(bit / 64).load(Ordering::Relaxed) >> (bit % 64) & 1 != 0;
        own_bits(address(addr)).into_iter().all(has)
    }

    fn own_word(&self, n: usize) -> &AtomicU64 {
        self.control.word(usize::from(ctl::OWN.unsigned_abs()) + n * 8)
    }

    /// Records that are there now.
    #[must_use]
    pub fn records(&self) -> u32 {
        self.lock().records
    }

    pub(super) fn maps<'t>(&'t self, port: &'t PortWords) -> Maps<'t> {
        Maps {
            control: self.control.map.as_fd(),
            port: port.words.map.as_fd(),
            hops: self.hops.map.as_fd(),
            devices: self.devices.as_fd(),
            v4: self.v4.map.as_fd(),
            v6: self.v6.map.as_fd(),
            to: self.to.map.as_fd(),
            secret: &self.secret,
            bucket_mask: i32::try_from(self.buckets - 1).unwrap_or(0),
        }
    }

    fn generation_word(&self) -> &AtomicU32 {
        self.control.half(ctl::GENERATION.unsigned_abs().into())
    }

    /// Counts a record of destinations that begins, or ends.
    fn count_destinations(&self, state: &mut State, record: RecordId, change: impl FnOnce(u32) -> u32) {
        let Scope::Destination(common) = record.scope else { return };
        let family = if record.is_ip4 { Family::V4 } else { Family::V6 };
        let Some((_, place)) = family.common_bits().find(|(bits, _)| *bits == common) else { return };
        let count = state.destinations.entry(place).or_default();
        *count = change(*count);
        self.control.half(place.unsigned_abs().into()).store(*count, Ordering::Relaxed);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    const fn slots(&self, kind: Kind) -> &Shared {
        match kind {
            Kind::Flow4 => &self.v4,
            Kind::Flow6 => &self.v6,
            Kind::Destination => &self.to,
        }
    }

    fn write(&self, record: &Record, at: usize, hop: u16, generation: u32) {
        let (kind, slots) = (record.kind, self.slots(record.kind));
        let field = |offset: i16| at + usize::from(offset.unsigned_abs());
        let sequence = slots.half(field(kind.sequence_at()));
        let number = sequence.load(Ordering::Relaxed) | 1;
        sequence.store(number, Ordering::Relaxed);
        fence(Ordering::Release);
        let words = record.key.split_last().map(|(rest, addresses)| {
            let addresses = (0..).zip(addresses).map(|(n, word)| (n * 8, *word));
            addresses.chain([(kind.rest_at(), *rest)]).collect::<Vec<_>>()
        });
        let [ip, l4] = record.deltas;
        let deltas = join16([ip, l4, hop, record.flags]);
        let sum = join32(record.pseudo.into(), record.ports);
        let addresses = (0..).zip(&record.addresses).map(|(n, word)| (kind.addresses_at() + n * 8, *word));
        let rest = [
            (kind.deltas_at(), deltas),
            (kind.sum_at(), sum),
            (kind.packets_at(), 0),
            (kind.packets_at() + 8, 0),
        ];
        for (offset, word) in words.unwrap_or_default().into_iter().chain(addresses).chain(rest) {
            slots.word(field(offset)).store(word, Ordering::Relaxed);
        }
        slots.half(field(kind.generation_at())).store(generation, Ordering::Relaxed);
        sequence.store(number.wrapping_add(1), Ordering::Release);
    }

    /// A free place for a record.
    fn place(&self, record: &Record) -> Result<usize, Refused> {
        let (kind, slots) = (record.kind, self.slots(record.kind));
        let bucket = record.hash(&self.secret) & u64::from(self.buckets - 1);
        let bucket = usize::try_from(bucket).map_err(|_| Refused::Full)?;
        let first = bucket * kind.bucket();
        let ways = || (0..slot::WAYS).map(|way| first + usize::from(kind.way_at(way).unsigned_abs()));
        let rest = |at: usize| slots.word(at + usize::from(kind.rest_at().unsigned_abs()));
        let is_same = |at: &usize| {
            let words = (0..).zip(&record.key).map(|(n, word)| (n * 8, word));
            words.into_iter().all(|(offset, word)| slots.word(at + offset).load(Ordering::Relaxed) == *word)
        };
        let is_free = |at: &usize| rest(*at).load(Ordering::Relaxed) == 0;
        match ways().find(is_same) {
            Some(_) => Err(Refused::Known),
            None => ways().find(is_free).ok_or(Refused::Full),
        }
    }

    fn hop_of(&self, state: &mut State, hop: Hop) -> Option<u16> {
        if let Some(at) = state.hops.get(&hop) {
            return Some(*at);
        }
        let at = state.free.pop().or_else(|| {
            let at = u16::try_from(state.users.len()).ok().filter(|at| u32::from(*at) < hop::MAX)?;
            state.users.push((0, None));
            Some(at)
        })?;
        let words = |n: usize| hop.link.get(n..n + 8).and_then(|bytes| bytes.try_into().ok());
        let base = usize::from(at) * hop::BYTES as usize;
        self.hops.word(base).store(words(0).map_or(0, u64::from_ne_bytes), Ordering::Relaxed);
        let [.., a, b, c, d] = hop.link;
        let tail = join32(u32::from_ne_bytes([a, b, c, d]), hop.mtu.into());
        self.hops.word(base + 8).store(tail, Ordering::Relaxed);
        self.hops.half(base + usize::from(hop::DEVICE.unsigned_abs())).store(hop.device, Ordering::Release);
        state.hops.insert(hop, at);
        state.users[usize::from(at)] = (0, Some(hop));
        Some(at)
    }
}

/// The end at which one CPU writes into a table.
pub struct Writer(pub Arc<Offload>);

impl FlowTable for Writer {
    fn generation(&self) -> u32 {
        self.0.generation_word().load(Ordering::Acquire)
    }

    fn invalidate(&self) {
        self.0.invalidate();
    }

    fn insert(&mut self, flow: &OffloadedFlow) -> Result<RecordId, Refused> {
        let offload = &*self.0;
        let mut state = match offload.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(state)) => state.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(Refused::Busy),
        };
        let ingress = state.devices.get(&flow.rcvif).is_some_and(|device| device.is_ingress);
        let egress = state.devices.get(&flow.outif).filter(|device| ingress && device.may_send);
        let device = egress.ok_or(Refused::Interface)?.place;
        let record = Record::of(flow).ok_or(Refused::Interface)?;
        let at = offload.place(&record)?;
        let hop = Hop { link: flow.link, mtu: flow.mtu, device };
        let hop = offload.hop_of(&mut state, hop).ok_or(Refused::HopsFull)?;
        state.users[usize::from(hop)].0 += 1;
        state.records += 1;
        let bytes = usize::from(record.kind.bytes().unsigned_abs());
        let number = u32::try_from(at / bytes).unwrap_or(u32::MAX);
        let id = RecordId { scope: flow.scope, is_ip4: flow.before.src.is_ipv4(), at: number };
        offload.count_destinations(&mut state, id, |n| n.saturating_add(1));
        offload.inserted.fetch_add(1, Ordering::SeqCst);
        offload.write(&record, at, hop, flow.generation);
        drop(state);
        Ok(id)
    }

    fn counted(&self, record: RecordId) -> Forwarded {
        let (kind, at) = place_of(record);
        let slots = self.0.slots(kind);
        let at = at + usize::from(kind.packets_at().unsigned_abs());
        Forwarded {
            packets: slots.word(at).load(Ordering::Relaxed),
            bytes: slots.word(at + 8).load(Ordering::Relaxed),
        }
    }

    fn remove(&mut self, record: RecordId) {
        let (kind, at) = place_of(record);
        let (offload, slots) = (&*self.0, self.0.slots(kind));
        let mut state = offload.lock();
        let hop = slots.word(at + usize::from(kind.deltas_at().unsigned_abs())).load(Ordering::Relaxed);
        let sequence = slots.half(at + usize::from(kind.sequence_at().unsigned_abs()));
        let number = sequence.load(Ordering::Relaxed);
        if number & 1 != 0 {
            return;
        }
        sequence.store(number.wrapping_add(1), Ordering::SeqCst);
        slots.word(at + usize::from(kind.rest_at().unsigned_abs())).store(0, Ordering::Relaxed);
        state.records = state.records.saturating_sub(1);
        offload.count_destinations(&mut state, record, |n| n.saturating_sub(1));
        let hop = split16(hop)[2];
        let freed = state.users.get_mut(usize::from(hop)).and_then(|(users, of)| {
            *users = users.saturating_sub(1);
            if *users == 0 { of.take() } else { None }
        });
        if let Some(freed) = freed {
            state.hops.remove(&freed);
            state.free.push(hop);
        }
    }
}

impl Offload {
    /// Invalidates all records.
    pub fn invalidate(&self) {
        self.generation_word().fetch_add(1, Ordering::SeqCst);
    }
}

impl PortWords {
    /// Makes the words of an interface without offload.
    ///
    /// # Errors
    /// [`BpfError::Permission`].
    pub fn new() -> Result<Self, BpfError> {
        Ok(Self { words: Shared::new(port::BYTES, 1)?, sends: AtomicBool::new(false) })
    }

    /// Notes whether the interface sends redirected frames.
    pub fn set_sends(&self, sends: bool) {
        self.sends.store(sends, Ordering::Relaxed);
    }

    /// Whether the interface sends redirected frames.
    #[must_use]
    pub fn sends(&self) -> bool {
        self.sends.load(Ordering::Relaxed)
    }

    /// Begins to forward frames to `mac` of the interface with our `number`; 0 ends it.
    pub fn set(&self, number: u16, mac: [u8; 6]) {
        let [a, b, c, d, e, f] = mac;
        let mac = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
        self.words.word(port::MAC.unsigned_abs().into()).store(mac, Ordering::Relaxed);
        self.words.word(port::KEY.unsigned_abs().into()).store(u64::from(number) << 48, Ordering::Release);
    }

    /// Counts of frames that came up.
    #[must_use]
    pub fn came_up(&self) -> CameUp {
        let read = |at: i16| self.words.word(at.unsigned_abs().into()).load(Ordering::Relaxed);
        CameUp { stale: read(port::STALE), exceptions: read(port::EXCEPTIONS) }
    }
}

impl Shared {
    fn new(value_size: u32, entries: u32) -> Result<Self, BpfError> {
        let map = Array::new(value_size, entries)?;
        let len = (value_size as usize * entries as usize).next_multiple_of(4096);
        let memory = Mapping::shared(&map, len, 0)
            .map_err(|source| BpfError::Refused { doing: "map an array of programs", source })?;
        Ok(Self { map, memory })
    }

    /// A word; the last one if there are fewer.
    fn word(&self, at: usize) -> &AtomicU64 {
        let at = (at & !7).min(self.memory.len() - 8);
        // SAFETY: inside of the mapping.
        let place = unsafe { self.memory.start().add(at) };
        // SAFETY: aligned, mapped for as long as the borrow, and accessed by atomics alone, as the kernel's programs do.
        unsafe { place.cast::<AtomicU64>().as_ref() }
    }

    /// Half a word; the last one if there are fewer.
    fn half(&self, at: usize) -> &AtomicU32 {
        let at = (at & !3).min(self.memory.len() - 4);
        // SAFETY: inside of the mapping.
        let place = unsafe { self.memory.start().add(at) };
        // SAFETY: as for `word`.
        unsafe { place.cast::<AtomicU32>().as_ref() }
    }
}

fn place_of(record: RecordId) -> (Kind, usize) {
    let kind = match (record.scope, record.is_ip4) {
        (Scope::Destination(_), _) => Kind::Destination,
        (Scope::Flow, true) => Kind::Flow4,
        (Scope::Flow, false) => Kind::Flow6,
    };
    (kind, record.at as usize * usize::from(kind.bytes().unsigned_abs()))
}

fn join16(parts: [u16; 4]) -> u64 {
    let [a, b, c, d] = parts.map(u16::to_ne_bytes);
    u64::from_ne_bytes([a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]])
}

fn split16(word: u64) -> [u16; 4] {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    [[a, b], [c, d], [e, f], [g, h]].map(u16::from_ne_bytes)
}

fn join32(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}
