//! Unsafe: passes keys and values to the kernel by address.
#![expect(unsafe_code, reason = "BPF_MAP_UPDATE_ELEM reads key and value through pointers in its structure")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::syscall::{BpfError, Command, call, call_for_fd, refused};

/// Receive queue → AF_XDP socket: where the redirect program sends the frames of each queue.
#[derive(Debug)]
pub struct XskMap(OwnedFd);

impl XskMap {
    /// A map for receive queues 0 to `queues - 1`, empty.
    ///
    /// # Errors
    /// [`BpfError::Permission`].
    pub fn new(queues: u32) -> Result<Self, BpfError> {
        const XSKMAP: u32 = 17;
        let mut create = Create { kind: XSKMAP, key_size: 4, value_size: 4, entries: queues, flags: 0 };
        call_for_fd(&mut create).map(Self).map_err(refused("make an XSKMAP"))
    }

    /// Sends the frames of `queue` to `socket` from now on. The socket must be bound to that queue.
    ///
    /// # Errors
    /// [`BpfError::Refused`] if there is no such queue in the map, or the socket is not bound.
    pub fn set(&self, queue: u32, socket: impl AsFd) -> Result<(), BpfError> {
        let value = socket.as_fd().as_raw_fd();
        let mut update = Element {
            map: self.0.as_raw_fd(),
            pad: 0,
            key: &raw const queue as u64,
            value: &raw const value as u64,
            flags: 0,
        };
        call(&mut update).map(drop).map_err(refused("put a socket into the XSKMAP"))
    }

    /// Sends the frames of `queue` to the kernel again; having no socket there is not an error.
    ///
    /// # Errors
    /// [`BpfError::Refused`] if there is no such queue in the map.
    pub fn remove(&self, queue: u32) -> Result<(), BpfError> {
        let mut delete = Delete(Element {
            map: self.0.as_raw_fd(),
            pad: 0,
            key: &raw const queue as u64,
            value: 0,
            flags: 0,
        });
        match call(&mut delete) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(refused("take a socket out of the XSKMAP")(e))
            }
            _ => Ok(()),
        }
    }
}

/// Some numbers that each CPU has for itself, shared with programs: counters, and what they are to do.
///
/// For a program it is a map with one key, 0, whose value are the numbers of the CPU that it runs on.
#[derive(Debug)]
pub struct PerCpu {
    map: OwnedFd,
    words: u32,
    cpus: usize,
}

impl PerCpu {
    /// `words` numbers for each CPU, all 0.
    ///
    /// # Errors
    /// [`BpfError::Permission`]; [`BpfError::Refused`] if it cannot be learned how many CPUs the kernel counts.
    pub fn new(words: u32) -> Result<Self, BpfError> {
        const PERCPU_ARRAY: u32 = 6;
        let cpus = possible_cpus().map_err(refused("count the CPUs"))?;
        let value_size = words.saturating_mul(8);
        let mut create = Create { kind: PERCPU_ARRAY, key_size: 4, value_size, entries: 1, flags: 0 };
        let map = call_for_fd(&mut create).map_err(refused("make a map of numbers"))?;
        Ok(Self { map, words, cpus })
    }

    /// The numbers, added up over the CPUs.
    ///
    /// # Errors
    /// None is expected.
    pub fn sums(&self) -> Result<Vec<u64>, BpfError> {
        let words = self.words as usize;
        let mut values = vec![0_u64; self.cpus * words];
        let key = 0_u32;
        call(&mut Lookup(self.element(&key, values.as_mut_ptr() as u64)))
            .map_err(refused("read a map of numbers"))?;
        Ok((0..words).map(|word| values[word..].iter().step_by(words).sum()).collect())
    }

    /// Gives all CPUs these numbers, and 0 where there are too few.
    ///
    /// # Errors
    /// None is expected.
    pub fn set(&self, numbers: &[u64]) -> Result<(), BpfError> {
        let one = numbers.iter().copied().chain(core::iter::repeat(0)).take(self.words as usize);
        let values = vec![one.collect::<Vec<_>>(); self.cpus].concat();
        let key = 0_u32;
        call(&mut self.element(&key, values.as_ptr() as u64))
            .map(drop)
            .map_err(refused("write a map of numbers"))
    }

    fn element(&self, key: &u32, value: u64) -> Element {
        Element { map: self.map.as_raw_fd(), pad: 0, key: core::ptr::from_ref(key) as u64, value, flags: 0 }
    }
}

/// Addresses and their owners, which the shared redirect program looks up. A key has 16 bytes, a value is a number.
#[derive(Debug)]
pub struct AddressMap(OwnedFd);

impl AddressMap {
    /// An empty map for up to `entries` keys. Memory is taken as keys are added.
    ///
    /// # Errors
    /// [`BpfError::Permission`].
    pub fn new(entries: u32) -> Result<Self, BpfError> {
        const HASH: u32 = 1;
        const NO_PREALLOC: u32 = 1;
        let mut create = Create { kind: HASH, key_size: 16, value_size: 4, entries, flags: NO_PREALLOC };
        call_for_fd(&mut create).map(Self).map_err(refused("make a map of addresses"))
    }

    /// Adds a key, or gives it another value.
    ///
    /// # Errors
    /// [`BpfError::Refused`] if the map is full.
    pub fn set(&self, key: &[u8; 16], value: u32) -> Result<(), BpfError> {
        let mut update = self.element(key, &raw const value as u64);
        call(&mut update).map(drop).map_err(refused("put an address into its map"))
    }

    /// Removes a key; one that is not there is not an error.
    ///
    /// # Errors
    /// None is expected.
    pub fn remove(&self, key: &[u8; 16]) -> Result<(), BpfError> {
        match call(&mut Delete(self.element(key, 0))) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(refused("take an address out of its map")(e))
            }
            _ => Ok(()),
        }
    }

    fn element(&self, key: &[u8; 16], value: u64) -> Element {
        Element { map: self.0.as_raw_fd(), pad: 0, key: key.as_ptr() as u64, value, flags: 0 }
    }
}

impl AsFd for AddressMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Values of one size, which can be mapped into this process.
#[derive(Debug)]
pub struct Array(OwnedFd);

impl Array {
    /// An array of `entries` values, all 0.
    ///
    /// # Errors
    /// [`BpfError::Permission`]; [`BpfError::Refused`] if memory is short.
    pub fn new(value_size: u32, entries: u32) -> Result<Self, BpfError> {
        const ARRAY: u32 = 2;
        const MMAPABLE: u32 = 1 << 10;
        let mut create = Create { kind: ARRAY, key_size: 4, value_size, entries, flags: MMAPABLE };
        call_for_fd(&mut create).map(Self).map_err(refused("make an array for programs"))
    }
}

impl AsFd for Array {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Interfaces that programs redirect frames to, by place.
#[derive(Debug)]
pub struct Devices(OwnedFd);

impl Devices {
    /// A map with `entries` places, empty.
    ///
    /// # Errors
    /// [`BpfError::Permission`].
    pub fn new(entries: u32) -> Result<Self, BpfError> {
        const DEVMAP: u32 = 14;
        let mut create = Create { kind: DEVMAP, key_size: 4, value_size: 4, entries, flags: 0 };
        call_for_fd(&mut create).map(Self).map_err(refused("make a map of devices"))
    }

    /// Puts an interface of the calling thread's network namespace into a place.
    ///
    /// # Errors
    /// [`BpfError::Refused`] if there is no such interface or place.
    pub fn set(&self, place: u32, ifindex: u32) -> Result<(), BpfError> {
        let mut update = self.element(&place, &raw const ifindex as u64);
        call(&mut update).map(drop).map_err(refused("put an interface into the map of devices"))
    }

    /// Empties a place; an empty one is not an error.
    ///
    /// # Errors
    /// None is expected.
    pub fn remove(&self, place: u32) -> Result<(), BpfError> {
        match call(&mut Delete(self.element(&place, 0))) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(refused("take an interface out of the map of devices")(e))
            }
            _ => Ok(()),
        }
    }

    fn element(&self, place: &u32, value: u64) -> Element {
        Element { map: self.0.as_raw_fd(), pad: 0, key: core::ptr::from_ref(place) as u64, value, flags: 0 }
    }
}

impl AsFd for Devices {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// CPUs that the kernel has room for: what it writes numbers of.
pub(super) fn possible_cpus() -> io::Result<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = text.trim().rsplit([',', '-']).next().and_then(|last| last.parse::<usize>().ok());
    last.map(|last| last + 1).ok_or_else(|| io::Error::other("the list of possible CPUs is odd"))
}

impl AsFd for PerCpu {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

impl AsFd for XskMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// `BPF_MAP_CREATE`
#[repr(C)]
struct Create {
    kind: u32,
    key_size: u32,
    value_size: u32,
    entries: u32,
    flags: u32,
}

// SAFETY: laid out as the kernel's structure; no pointers.
unsafe impl Command for Create {
    const NUMBER: libc::c_long = 0;
}

/// `BPF_MAP_UPDATE_ELEM`
#[repr(C)]
struct Element {
    map: i32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

// SAFETY: laid out as the kernel's structure; key and value point to locals of the caller, of the four bytes
// each that an XSKMAP and a DEVMAP have, of the 16 and four that an `AddressMap` has, or of as many bytes for each possible CPU as a
// `PerCpu` has.
unsafe impl Command for Element {
    const NUMBER: libc::c_long = 2;
}

/// `BPF_MAP_DELETE_ELEM`
#[repr(transparent)]
struct Delete(Element);

// SAFETY: as `Element`; the value is not read.
unsafe impl Command for Delete {
    const NUMBER: libc::c_long = 3;
}

/// `BPF_MAP_LOOKUP_ELEM`
#[repr(transparent)]
struct Lookup(Element);

// SAFETY: as `Element`; the value is written, and is a local of the caller's that may be.
unsafe impl Command for Lookup {
    const NUMBER: libc::c_long = 1;
}
