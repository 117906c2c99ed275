//! Unsafe: the requests of `bpf(2)` about maps of any type.
#![expect(unsafe_code, reason = "keys, values and paths are passed by address")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::bpf::syscall::{Command, call, call_for_fd};
use crate::xdp::object::MapDef;

/// Makes a map.
pub(super) fn create(def: &MapDef, entries: u32) -> io::Result<OwnedFd> {
    let mut name = [0; 16];
    let plain =
        def.name.bytes().map(|byte| if byte.is_ascii_alphanumeric() || byte == b'.' { byte } else { b'_' });
    name[..15].iter_mut().zip(plain).for_each(|(to, from)| *to = from);
    let MapDef { kind, key_size, value_size, flags, .. } = *def;
    call_for_fd(&mut Create { kind, key_size, value_size, entries, flags, inner: 0, node: 0, name })
}

/// Sets the value of a key. Both have the sizes of the map.
pub(super) fn set(map: impl AsFd, key: &[u8], value: &[u8]) -> io::Result<()> {
    const PER_CPU: [u32; 4] = [5, 6, 10, 21];
    let [kind, key_size, value_size, _] = definition(&map)?;
    if (key.len(), value.len()) != (key_size as usize, value_size as usize) || PER_CPU.contains(&kind) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "key or value of another size than the map's",
        ));
    }
    let mut element = Element {
        map: map.as_fd().as_raw_fd(),
        pad: 0,
        key: key.as_ptr() as u64,
        value: value.as_ptr() as u64,
        flags: 0,
    };
    call(&mut element).map(drop)
}

/// The value of a key. Both have the sizes of the map, of which there is one value for all CPUs.
pub(super) fn get(map: impl AsFd, key: &[u8], len: usize) -> io::Result<Vec<u8>> {
    const PER_CPU: [u32; 4] = [5, 6, 10, 21];
    let [kind, key_size, value_size, _] = definition(&map)?;
    if (key.len(), len) != (key_size as usize, value_size as usize) || PER_CPU.contains(&kind) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "key or value of another size than the map's",
        ));
    }
    let mut value = vec![0; len];
    let element = Element {
        map: map.as_fd().as_raw_fd(),
        pad: 0,
        key: key.as_ptr() as u64,
        value: value.as_mut_ptr() as u64,
        flags: 0,
    };
    call(&mut Lookup(element))?;
    Ok(value)
}

/// Lets nothing of user space write it any more.
pub(super) fn freeze(map: impl AsFd) -> io::Result<()> {
    call(&mut Freeze { map: map.as_fd().as_raw_fd() }).map(drop)
}

/// Gives it a name in a BPF file system.
pub(super) fn pin(map: impl AsFd, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    call(&mut Pin(Object { path: path.as_ptr() as u64, object: map.as_fd().as_raw_fd(), flags: 0 })).map(drop)
}

/// Opens the map of a name.
pub(super) fn open_pinned(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    call_for_fd(&mut Get(Object { path: path.as_ptr() as u64, object: 0, flags: 0 }))
}

/// Type, sizes of key and value, and entries.
pub(super) fn definition(map: impl AsFd) -> io::Result<[u32; 4]> {
    let mut info = [0_u32; 6];
    let info_len = u32::try_from(size_of_val(&info)).unwrap_or(0);
    let mut ask = Info { object: map.as_fd().as_raw_fd(), info_len, info: info.as_mut_ptr() as u64 };
    call(&mut ask)?;
    let [kind, _, key_size, value_size, entries, _] = info;
    Ok([kind, key_size, value_size, entries])
}

/// Returns the kind and the sizes of a definition.
pub(super) const fn defined(def: &MapDef) -> [u32; 4] {
    [def.kind, def.key_size, def.value_size, def.entries]
}

/// `BPF_MAP_CREATE`
#[repr(C)]
struct Create {
    kind: u32,
    key_size: u32,
    value_size: u32,
    entries: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; 16],
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

// SAFETY: laid out as the kernel's structure; `set` and `get`, which alone make one, compare the lengths of key and value with the
// map's, and its borrows outlive the call. Maps with a value for each CPU are not set.
unsafe impl Command for Element {
    const NUMBER: libc::c_long = 2;
}

/// `BPF_MAP_LOOKUP_ELEM`
#[repr(transparent)]
struct Lookup(Element);

// SAFETY: as `Element`, of `get`, whose value is written.
unsafe impl Command for Lookup {
    const NUMBER: libc::c_long = 1;
}

/// `BPF_MAP_FREEZE`
#[repr(C)]
struct Freeze {
    map: i32,
}

// SAFETY: laid out as the kernel's structure; no pointers.
unsafe impl Command for Freeze {
    const NUMBER: libc::c_long = 22;
}

/// `BPF_OBJ_PIN` and `BPF_OBJ_GET`
#[repr(C)]
struct Object {
    path: u64,
    object: i32,
    flags: u32,
}

#[repr(transparent)]
struct Pin(Object);

// SAFETY: laid out as the kernel's structure; the path ends with a NUL and outlives the call.
unsafe impl Command for Pin {
    const NUMBER: libc::c_long = 6;
}

#[repr(transparent)]
struct Get(Object);

// SAFETY: as `Pin`.
unsafe impl Command for Get {
    const NUMBER: libc::c_long = 7;
}

/// `BPF_OBJ_GET_INFO_BY_FD`
#[repr(C)]
struct Info {
    object: i32,
    info_len: u32,
    info: u64,
}

// SAFETY: laid out as the kernel's structure; `definition` alone makes one, whose buffer is `info_len` bytes long and outlives
// the call.
unsafe impl Command for Info {
    const NUMBER: libc::c_long = 15;
}
