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
// each that an XSKMAP has.
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
