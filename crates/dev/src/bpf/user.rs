//! An XDP program of a user in the kernel, before ours: both are functions of one program, whose first function calls the
//! user's, counts its verdict, and calls ours for frames that it lets pass. So it needs no types of ours in the kernel
//! (`freplace` does), is verified as a whole, and takes the place of another in one step.

mod front;
mod syscalls;

use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use net::driver::{FrameProgram, Occasion, Verdict};
use pkt::Pkt;

use self::syscalls::{create, freeze, open_pinned, pin, set};
use super::BpfError;
use super::asm::Insn;
use super::map::{Array, PerCpu, XskMap};
use super::prog::{Kind, Program};
use super::redirect::NAME;
use crate::xdp::object::{MapDef, Object};

/// Where maps are pinned by their names, as libbpf does.
pub const PINS: &str = "/sys/fs/bpf";
/// Numbers of verdicts that are counted: aborted, dropped, passed, sent back, redirected.
pub const VERDICTS: usize = 5;
const XSKMAP: u32 = 17;
const PERF_EVENT_ARRAY: u32 = 4;

/// Why a user's program cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UserError {
    /// A map.
    #[error("map `{name}` ({}): {why}", kind_name(*kind))]
    Map {
        /// Its name.
        name: String,
        /// The number of its type.
        kind: u32,
        /// Message of the kernel.
        why: String,
    },
    /// A map that is there already with another definition.
    #[error(
        "map `{name}` is pinned at {path} with another definition; remove that file, or change the program"
    )]
    Pinned {
        /// Its name.
        name: String,
        /// The file.
        path: String,
    },
    /// The program.
    #[error(transparent)]
    Program(#[from] BpfError),
    /// A program that does not take frames in several pieces.
    #[error(
        "frames of this MTU come in several pieces, and the program takes only whole ones: put it into the section \
         `xdp.frags`, or lower the MTU to 2030"
    )]
    NoFrags,
}

/// A user's program with its maps in the kernel.
pub struct UserProgram {
    name: String,
    insns: Vec<Insn>,
    license: String,
    takes_frags: bool,
    maps: Vec<(MapDef, OwnedFd)>,
    counters: PerCpu,
    /// The mark of dropped frames that are handed up; 0 while none are.
    dump: Array,
    mark: Arc<AtomicU64>,
}

/// An array that this process and others share by its name.
pub struct SharedArray(OwnedFd);

impl SharedArray {
    /// Opens the array that is pinned by this name, or makes and pins it.
    ///
    /// # Errors
    /// [`UserError`].
    pub fn open(def: &MapDef) -> Result<Self, UserError> {
        open(def).map(Self)
    }
}

impl AsFd for SharedArray {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl UserProgram {
    /// Makes the program's maps. Those that are pinned keep their contents from one process to the next.
    ///
    /// # Errors
    /// [`UserError`].
    pub fn new(object: &Object) -> Result<Self, UserError> {
        let maps = object.maps.iter().map(|def| Ok((def.clone(), open(def)?)));
        let maps = maps.collect::<Result<Vec<(MapDef, OwnedFd)>, UserError>>()?;
        let mut insns = object.insns.clone();
        for insn in insns.iter_mut().filter(|insn| insn.is_wide_load()) {
            let (_, _, source, _, number) = insn.parts();
            let map = usize::try_from(number).ok().and_then(|at| maps.get(at)).filter(|_| source != 0);
            if let Some((_, map)) = map {
                insn.set_map(source, map.as_raw_fd());
            }
        }
        Ok(Self {
            name: object.program.clone(),
            insns,
            license: object.license.clone(),
            takes_frags: object.frags,
            maps,
            counters: PerCpu::new(u32::try_from(VERDICTS).unwrap_or(u32::MAX))?,
            dump: Array::new(8, 1)?,
            mark: Arc::default(),
        })
    }

    /// Loads it before `ours`, a program that sends frames to `sockets`.
    ///
    /// # Errors
    /// [`UserError`]; what the verifier says is about the whole.
    pub(crate) fn load_before(
        &self,
        ours: &[Insn],
        sockets: &XskMap,
        frags: bool,
    ) -> Result<Program, UserError> {
        if frags && !self.takes_frags {
            return Err(UserError::NoFrags);
        }
        let insns = front::before(&self.insns, ours, &self.counters, &self.dump, sockets);
        let insns = insns.map_err(|why| BpfError::Refused {
            doing: "assemble the program before ours",
            source: std::io::Error::other(why),
        })?;
        Ok(Program::load_licensed(NAME, &self.name, Kind::Xdp, &insns, frags, &self.license)?)
    }

    /// Whether the kernel's verifier accepts the program; without `CAP_BPF` nothing is said.
    ///
    /// # Errors
    /// [`UserError`], if it does not.
    pub fn verify(object: &Object) -> Result<(), UserError> {
        let plain = MapDef::clone;
        let unpinned = object.maps.iter().map(plain).map(|def| MapDef { pinned: false, ..def }).collect();
        let object = Object { maps: unpinned, ..object.clone() };
        match Self::new(&object).and_then(|program| {
            let frags = program.takes_frags;
            Ok(Program::load_licensed(
                NAME,
                &program.name,
                Kind::Xdp,
                &program.insns,
                frags,
                &program.license,
            )?)
        }) {
            Ok(_) | Err(UserError::Program(BpfError::Permission { .. })) => Ok(()),
            Err(UserError::Map { .. }) if !may_load() => Ok(()),
            Err(why) => Err(why),
        }
    }

    /// Puts the socket of a queue into all the program's maps of sockets: for it, they are ours.
    pub(crate) fn add_socket(&self, queue: u32, socket: impl AsFd) {
        let socket = socket.as_fd().as_raw_fd();
        for (_, map) in self.maps.iter().filter(|(def, _)| def.kind == XSKMAP) {
            // One that is too small has no place for the queue: frames take the program's other way.
            let _ = set(map, &queue.to_ne_bytes(), &socket.to_ne_bytes());
        }
    }

    /// Frames of each verdict so far: aborted, dropped, passed, sent back, redirected.
    #[must_use]
    pub fn verdicts(&self) -> [u64; VERDICTS] {
        let sums = self.counters.sums().unwrap_or_default();
        core::array::from_fn(|at| sums.get(at).copied().unwrap_or(0))
    }

    /// Name of its function.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Hands frames up that the program drops, or leaves them to the driver again.
    ///
    /// # Errors
    /// [`UserError`], if the kernel does not let it be written.
    pub fn dump(&self, on: bool) -> Result<(), UserError> {
        let mut mark = self.mark.load(Ordering::Relaxed);
        if mark == 0 {
            let mut random = [0; 8];
            let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
            mark = u64::from_ne_bytes(random) | 1;
            // Before the first frame that has it.
            self.mark.store(mark, Ordering::Release);
        }
        let word = if on { mark } else { 0 };
        set(&self.dump, &0_u32.to_ne_bytes(), &word.to_ne_bytes()).map_err(|why| UserError::Map {
            name: "dump".to_owned(),
            kind: 2,
            why: why.to_string(),
        })
    }

    /// Sets the value of a key of a map of its.
    ///
    /// # Errors
    /// [`UserError`], if there is no such map, or the kernel does not let it be written.
    pub fn set_map(&self, name: &str, key: &[u8], value: &[u8]) -> Result<(), UserError> {
        let found = self.maps.iter().find(|(def, _)| def.name == name);
        let refused = |kind, why| UserError::Map { name: name.to_owned(), kind, why };
        let (def, map) = found.ok_or_else(|| refused(0, "the program has no such map".to_owned()))?;
        set(map, key, value).map_err(|why| refused(def.kind, words(&why)))
    }

    /// Recognises handed-up frames on a ring, and drops them there.
    #[must_use]
    pub fn on_ring(&self) -> Box<dyn FrameProgram> {
        Box::new(Handed { mark: Arc::clone(&self.mark) })
    }
}

/// Tells frames that the program has dropped, and that were handed up for a capture, from others.
struct Handed {
    mark: Arc<AtomicU64>,
}

impl FrameProgram for Handed {
    fn run(&mut self, _: &Occasion, frame: &mut Pkt) -> Verdict {
        let mark = self.mark.load(Ordering::Acquire);
        if mark == 0 {
            return Verdict::Pass;
        }
        let words =
            frame.before(front::MARK_LEN).and_then(|bytes| bytes.first_chunk::<{ front::MARK_LEN }>());
        let Some(words) = words.map(|bytes| bytes.as_chunks().0) else { return Verdict::Pass };
        let [first, second] = [0, 1].map(|at| words.get(at).map_or(0, |word| u64::from_ne_bytes(*word)));
        if first != mark {
            return Verdict::Pass;
        }
        // The buffer comes back, and the mark must not.
        if let Ok(front) = frame.prepend(front::MARK_LEN) {
            front.fill(0);
            frame.trim_front(front::MARK_LEN);
        }
        if second == 0 { Verdict::Aborted } else { Verdict::Drop }
    }
}

/// The value of a key in the map that is pinned by this name.
///
/// # Errors
/// Errors of `bpf(2)`; `InvalidInput` if key and value have other sizes, or each CPU has a value.
pub fn pinned_value(name: &str, key: &[u8], len: usize) -> std::io::Result<Vec<u8>> {
    let map = open_pinned(&PathBuf::from(PINS).join(name))?;
    syscalls::get(map, key, len)
}

/// Whether this process may make maps at all.
fn may_load() -> bool {
    Array::new(8, 1).is_ok()
}

/// Opens a pinned map, or makes one.
fn open(def: &MapDef) -> Result<OwnedFd, UserError> {
    let refused =
        |why: std::io::Error| UserError::Map { name: def.name.clone(), kind: def.kind, why: words(&why) };
    let path = PathBuf::from(PINS).join(&def.name);
    if def.pinned {
        if def.name.contains('/') || def.name.starts_with('.') {
            return Err(refused(std::io::Error::other("its name is none for a file")));
        }
        if path.exists() {
            let map = open_pinned(&path).map_err(refused)?;
            let is_same = syscalls::definition(&map).map_err(refused)? == syscalls::defined(def);
            let pinned = || UserError::Pinned { name: def.name.clone(), path: path.display().to_string() };
            return is_same.then_some(map).ok_or_else(pinned);
        }
    }
    let possible = super::map::possible_cpus().ok().and_then(|cpus| u32::try_from(cpus).ok()).unwrap_or(1);
    let entries = if def.kind == PERF_EVENT_ARRAY && def.entries == 0 { possible } else { def.entries };
    // A pinned array may be mapped by a program that runs in another process of ours.
    let flags = if def.pinned && def.kind == ARRAY { def.flags | MMAPABLE } else { def.flags };
    let map = create(&MapDef { flags, ..def.clone() }, entries).map_err(refused)?;
    if !def.data.is_empty() {
        set(&map, &0_u32.to_ne_bytes(), &def.data).map_err(refused)?;
    }
    if def.flags & RDONLY_PROG != 0 && !def.data.is_empty() {
        freeze(&map).map_err(refused)?;
    }
    if def.pinned {
        pin(&map, &path).map_err(|why| UserError::Map {
            name: def.name.clone(),
            kind: def.kind,
            why: format!("cannot be pinned at {}: {why} (`mount -t bpf bpf {PINS}`)", path.display()),
        })?;
    }
    Ok(map)
}

const ARRAY: u32 = 2;
const RDONLY_PROG: u32 = 1 << 7;
const MMAPABLE: u32 = 1 << 10;

fn words(why: &std::io::Error) -> String {
    match why.raw_os_error() {
        Some(libc::EINVAL) => {
            "the kernel does not know this type, or not with these sizes and flags".to_owned()
        }
        Some(libc::EPERM) => "needs CAP_BPF and CAP_NET_ADMIN (or root)".to_owned(),
        _ => why.to_string(),
    }
}

/// The name of a type of maps.
#[must_use]
pub fn kind_name(kind: u32) -> String {
    const NAMES: &[&str] = &[
        "unspec",
        "hash",
        "array",
        "prog_array",
        "perf_event_array",
        "percpu_hash",
        "percpu_array",
        "stack_trace",
        "cgroup_array",
        "lru_hash",
        "lru_percpu_hash",
        "lpm_trie",
        "array_of_maps",
        "hash_of_maps",
        "devmap",
        "sockmap",
        "cpumap",
        "xskmap",
        "sockhash",
        "cgroup_storage",
        "reuseport_sockarray",
        "percpu_cgroup_storage",
        "queue",
        "stack",
        "sk_storage",
        "devmap_hash",
        "struct_ops",
        "ringbuf",
        "inode_storage",
        "task_storage",
        "bloom_filter",
        "user_ringbuf",
        "cgrp_storage",
        "arena",
    ];
    let name = usize::try_from(kind).ok().and_then(|at| NAMES.get(at));
    name.map_or_else(|| format!("type {kind}"), |name| (*name).to_owned())
}
