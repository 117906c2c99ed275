//! Unsafe: describes programs to the kernel by address.
#![expect(
    unsafe_code,
    reason = "BPF_PROG_LOAD and BPF_PROG_TEST_RUN read and write through pointers in their structures"
)]

use core::ffi::CStr;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::asm::Insn;
use super::syscall::{BpfError, Command, call, call_for_fd, refused};

/// The type of a program, which decides what the verifier allows (`enum bpf_prog_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Chooses a TAP queue; its context is a packet.
    SocketFilter = 1,
    /// As `SocketFilter` with the same context; its test run begins at the Ethernet header.
    Classifier = 3,
    /// Sees each received frame first.
    Xdp = 6,
}

/// A program the kernel has accepted; it stays while this, or something it is attached to, holds it.
#[derive(Debug)]
pub struct Program(OwnedFd);

impl Program {
    /// Loads a program. `frags`: it can take XDP frames in several pieces, as MTUs above a page need.
    ///
    /// # Errors
    /// [`BpfError::Verifier`] with the verifier's last words, [`BpfError::Permission`].
    pub fn load(name: &'static str, kind: Kind, insns: &[Insn], frags: bool) -> Result<Self, BpfError> {
        Self::load_logged((name, name), (kind, insns, frags), OWN_LICENSE, "load a BPF program")
    }

    /// Loads a program with the parts of `whose`, under another license.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub(super) fn load_licensed(
        name: &str,
        whose: &str,
        kind: Kind,
        insns: &[Insn],
        frags: bool,
        license: &str,
    ) -> Result<Self, BpfError> {
        let license = CString::new(license).unwrap_or_default();
        Self::load_logged((name, whose), (kind, insns, frags), &license, "load an XDP program")
    }

    /// Loads a program. The verifier's log is asked for when it has refused: one that fills its place is an error itself.
    fn load_logged(
        (name, whose): (&str, &str),
        (kind, insns, frags): (Kind, &[Insn], bool),
        license: &CStr,
        doing: &'static str,
    ) -> Result<Self, BpfError> {
        if let Ok(fd) = call_for_fd(&mut load_command(name, kind, insns, frags, license, &mut [])) {
            return Ok(Self(fd));
        }
        let mut log = vec![0_u8; 1 << 20];
        match call_for_fd(&mut load_command(name, kind, insns, frags, license, &mut log)) {
            Ok(fd) => Ok(Self(fd)),
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied && log[0] == 0 => {
                Err(BpfError::Permission { doing })
            }
            Err(source) => Err(BpfError::Verifier { name: whose.to_owned(), source, log: text(&log) }),
        }
    }

    /// Runs the program once on a frame of at least 14 bytes, without a device; answers its result.
    ///
    /// # Errors
    /// [`BpfError::Refused`] if the kernel cannot test this kind.
    pub fn test_run(&self, frame: &[u8]) -> Result<u32, BpfError> {
        let mut command = TestRun {
            program: self.0.as_raw_fd(),
            result: 0,
            data_in_len: clamp(frame.len()),
            data_out_len: 0,
            data_in: address(frame),
            data_out: 0,
            repeat: 1,
            ..TestRun::default()
        };
        call(&mut command).map_err(refused("test a BPF program"))?;
        Ok(command.result)
    }

    /// Runs the program once on a frame, without a device; answers its result, and the frame as it is then.
    ///
    /// # Errors
    /// [`BpfError::Refused`] if the kernel cannot test this kind.
    pub fn test_rewrite(&self, frame: &[u8]) -> Result<(u32, Vec<u8>), BpfError> {
        let mut after = vec![0; frame.len() + ROOM];
        let mut command = TestRun {
            program: self.0.as_raw_fd(),
            data_in_len: clamp(frame.len()),
            data_out_len: clamp(after.len()),
            data_in: address(frame),
            data_out: after.as_mut_ptr() as u64,
            repeat: 1,
            ..TestRun::default()
        };
        call(&mut command).map_err(refused("test a BPF program"))?;
        after.truncate(usize::try_from(command.data_out_len).unwrap_or(0));
        Ok((command.result, after))
    }

    /// Runs an XDP program on `frames` frames, each beginning as a copy of `frame`, and does with them what it answers:
    /// a traffic generator, as fast as the kernel is. They go through in batches of `batch` (1 to 256). A frame that
    /// comes back is used again as it was left, so a program that wants the same bytes each time writes them.
    ///
    /// Returns early, as if it had succeeded, when a signal arrives. What is set up and put away for each call takes
    /// about 20 ms, so a few long calls are better than many short ones.
    ///
    /// # Errors
    /// [`BpfError::Refused`] before Linux 5.18, or if the frame does not fit into a page.
    pub fn run_live(&self, frame: &[u8], frames: u32, batch: u32) -> Result<(), BpfError> {
        const LIVE_FRAMES: u32 = 1 << 1;
        let mut command = TestRun {
            program: self.0.as_raw_fd(),
            data_in_len: clamp(frame.len()),
            data_in: address(frame),
            repeat: frames,
            flags: LIVE_FRAMES,
            batch,
            ..TestRun::default()
        };
        match call(&mut command) {
            Err(e) if e.kind() != std::io::ErrorKind::Interrupted => {
                Err(refused("run an XDP program on live frames")(e))
            }
            _ => Ok(()),
        }
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The name of the program that the kernel numbers `id`; for programs of other processes too.
///
/// # Errors
/// [`BpfError::Permission`] without `CAP_SYS_ADMIN`; [`BpfError::Refused`] if there is none.
pub fn name_of(id: u32) -> Result<String, BpfError> {
    const NAME_AT: usize = 64; // in struct bpf_prog_info
    let program = call_for_fd(&mut FdById { id, rest: [0; 2] }).map_err(refused("find a BPF program"))?;
    let mut info = [0_u8; NAME_AT + 16];
    let (info_len, at) = (clamp(info.len()), info.as_mut_ptr() as u64);
    let mut ask = ObjectInfo { object: program.as_raw_fd(), info_len, info: at };
    call(&mut ask).map_err(refused("ask for a BPF program's name"))?;
    Ok(text(&info[NAME_AT..]))
}

/// `BPF_PROG_GET_FD_BY_ID`
#[repr(C)]
struct FdById {
    id: u32,
    rest: [u32; 2],
}

// SAFETY: laid out as the kernel's structure; no pointers.
unsafe impl Command for FdById {
    const NUMBER: libc::c_long = 13;
}

/// `BPF_OBJ_GET_INFO_BY_FD`
#[repr(C)]
struct ObjectInfo {
    object: i32,
    info_len: u32,
    info: u64,
}

// SAFETY: laid out as the kernel's structure; the pointer comes from `name_of`, whose buffer is `info_len` bytes long
// and outlives the only call.
unsafe impl Command for ObjectInfo {
    const NUMBER: libc::c_long = 15;
}

/// `BPF_PROG_LOAD`
#[repr(C)]
struct Load {
    kind: u32,
    insn_count: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

// SAFETY: laid out as the kernel's structure; the pointers come from `load_command`, whose borrows of the
// instructions, the license and the log outlive the only call.
unsafe impl Command for Load {
    const NUMBER: libc::c_long = 5;
}

/// A string that the kernel knows; GPL helpers are not used.
const OWN_LICENSE: &CStr = c"Dual MIT/GPL";

fn load_command(name: &str, kind: Kind, insns: &[Insn], frags: bool, license: &CStr, log: &mut [u8]) -> Load {
    const XDP_HAS_FRAGS: u32 = 1 << 5;
    Load {
        kind: kind as u32,
        insn_count: clamp(insns.len()),
        insns: address(insns),
        license: license.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: clamp(log.len()),
        log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        kernel_version: 0,
        flags: if frags { XDP_HAS_FRAGS } else { 0 },
        name: padded(name),
    }
}

/// `BPF_PROG_TEST_RUN`
#[derive(Default)]
#[repr(C)]
struct TestRun {
    program: i32,
    result: u32,
    data_in_len: u32,
    data_out_len: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_len: [u32; 2],
    context: [u64; 2],
    flags: u32,
    cpu: u32,
    batch: u32,
    pad: u32,
}

// SAFETY: laid out as the kernel's structure, whose unused end must be zero; `data_in` is borrowed by the methods of
// `Program` for the call, and so is `data_out`, where at most `data_out_len` bytes are written.
unsafe impl Command for TestRun {
    const NUMBER: libc::c_long = 10;
}

/// Bytes that a test run may write beyond those of the frame.
const ROOM: usize = 256;

/// The name as the kernel wants it: at most 15 bytes and a NUL.
fn padded(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..15].iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
    bytes
}

fn address<T>(slice: &[T]) -> u64 {
    slice.as_ptr() as u64
}

/// A length for the kernel; one beyond its limits (which are far below 4 GiB) is refused there.
fn clamp(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// The end of the verifier's log, where it says why.
fn text(log: &[u8]) -> String {
    const KEPT: usize = 4000;
    let end = log.iter().position(|&b| b == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[end.saturating_sub(KEPT)..end]).into_owned()
}
