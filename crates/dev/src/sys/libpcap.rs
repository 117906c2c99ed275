//! Unsafe: calls functions of libpcap, which is loaded at run time, and reads the program that it allocates.
//!
//! The compiler of packet filters: the machine's own libpcap.
#![expect(unsafe_code, reason = "functions of C, found by their names")]

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::mem::{ManuallyDrop, transmute_copy};
use core::ptr::NonNull;
use std::ffi::CString;

use wire::bpf::{INSNS_MAX, Insn};

/// Its file, as distributions name it.
const FILES: [&CStr; 2] = [c"libpcap.so.1", c"libpcap.so.0.8"];
/// `DLT_EN10MB`
const ETHERNET: c_int = 1;
/// `PCAP_NETMASK_UNKNOWN`: `ip broadcast` is an error then.
const NO_NETMASK: c_uint = c_uint::MAX;

/// Why there is no program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// No libpcap.
    #[error(
        "libpcap is not installed, which compiles filters; install it, on Debian with `apt-get install libpcap0.8`"
    )]
    NotInstalled,
    /// It lacks a function.
    #[error("libpcap has no function `{0}`")]
    Strange(&'static str),
    /// Not a filter; why, in libpcap's words.
    #[error("filter: {0}")]
    Filter(String),
}

type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type Compile = unsafe extern "C" fn(*mut c_void, *mut BpfProgram, *const c_char, c_int, c_uint) -> c_int;
type GetErr = unsafe extern "C" fn(*mut c_void) -> *mut c_char;
type FreeCode = unsafe extern "C" fn(*mut BpfProgram);
type Close = unsafe extern "C" fn(*mut c_void);

/// `struct bpf_program`
#[repr(C)]
struct BpfProgram {
    len: c_uint,
    insns: *mut BpfInsn,
}

/// `struct bpf_insn`
#[repr(C)]
#[derive(Clone, Copy)]
struct BpfInsn {
    code: u16,
    jt: u8,
    jf: u8,
    k: u32,
}

/// Compiles a filter of `pcap-filter(7)` for Ethernet frames; it keeps `snap_len` bytes of those that match.
///
/// # Errors
/// [`CompileError`].
pub fn compile(filter: &str, snap_len: u32) -> Result<Vec<Insn>, CompileError> {
    let text = CString::new(filter).map_err(|_| CompileError::Filter("a byte 0".to_owned()))?;
    let library = Library::open().ok_or(CompileError::NotInstalled)?;
    Functions::of(&library)?.compile(&text, snap_len)
}

/// The loaded library. It stays: some of its functions' memory may be its own.
struct Library(ManuallyDrop<NonNull<c_void>>);

impl Library {
    fn open() -> Option<Self> {
        FILES.iter().find_map(|file| {
            // SAFETY: the name ends with 0, and libpcap's initializers have no preconditions.
            let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            NonNull::new(handle).map(|handle| Self(ManuallyDrop::new(handle)))
        })
    }

    /// # Safety
    /// `F` is the type of a pointer to the function that libpcap has under this name.
    unsafe fn function<F: Copy>(&self, name: &'static CStr) -> Result<F, CompileError> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the handle is open, and the name ends with 0.
        let address = unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) };
        if address.is_null() {
            return Err(CompileError::Strange(name.to_str().unwrap_or_default()));
        }
        // SAFETY: an address that is not 0, of a function of this type, as the caller promises; the sizes are equal.
        Ok(unsafe { transmute_copy(&address) })
    }
}

#[derive(Clone, Copy)]
struct Functions {
    open_dead: OpenDead,
    compile: Compile,
    geterr: GetErr,
    freecode: FreeCode,
    close: Close,
}

impl Functions {
    /// The types are those of pcap(3PCAP), as all versions since 1.0 have them.
    fn of(library: &Library) -> Result<Self, CompileError> {
        // SAFETY: `pcap_t *pcap_open_dead(int, int)`.
        let open_dead = unsafe { library.function::<OpenDead>(c"pcap_open_dead") }?;
        // SAFETY: `int pcap_compile(pcap_t *, struct bpf_program *, const char *, int, bpf_u_int32)`.
        let compile = unsafe { library.function::<Compile>(c"pcap_compile") }?;
        // SAFETY: `char *pcap_geterr(pcap_t *)`.
        let geterr = unsafe { library.function::<GetErr>(c"pcap_geterr") }?;
        // SAFETY: `void pcap_freecode(struct bpf_program *)`.
        let freecode = unsafe { library.function::<FreeCode>(c"pcap_freecode") }?;
        // SAFETY: `void pcap_close(pcap_t *)`.
        let close = unsafe { library.function::<Close>(c"pcap_close") }?;
        Ok(Self { open_dead, compile, geterr, freecode, close })
    }

    fn compile(self, text: &CStr, snap_len: u32) -> Result<Vec<Insn>, CompileError> {
        let snap_len = c_int::try_from(snap_len).unwrap_or(c_int::MAX);
        // SAFETY: takes numbers.
        let handle = unsafe { (self.open_dead)(ETHERNET, snap_len) };
        if handle.is_null() {
            return Err(CompileError::Filter("out of memory".to_owned()));
        }
        let mut program = BpfProgram { len: 0, insns: core::ptr::null_mut() };
        // SAFETY: the handle is open, `program` may be written, and the text ends with 0.
        let failed = unsafe { (self.compile)(handle, &raw mut program, text.as_ptr(), 1, NO_NETMASK) } != 0;
        let result = if failed { Err(self.error(handle)) } else { copied(&program) };
        if !failed {
            // SAFETY: compiled, and not freed yet; `copied` has kept no pointer.
            unsafe { (self.freecode)(&raw mut program) };
        }
        // SAFETY: open, and not used any more.
        unsafe { (self.close)(handle) };
        result
    }

    fn error(self, handle: *mut c_void) -> CompileError {
        // SAFETY: the handle is open.
        let text = unsafe { (self.geterr)(handle) };
        if text.is_null() {
            return CompileError::Filter("unknown error".to_owned());
        }
        // SAFETY: a text of the handle that ends with 0, and the handle is not used meanwhile.
        CompileError::Filter(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }
}

fn copied(program: &BpfProgram) -> Result<Vec<Insn>, CompileError> {
    let len = usize::try_from(program.len).unwrap_or(usize::MAX);
    if program.insns.is_null() || len > INSNS_MAX {
        return Err(CompileError::Filter(format!("more than {INSNS_MAX} instructions")));
    }
    // SAFETY: libpcap has written `len` instructions there.
    let insns = unsafe { core::slice::from_raw_parts(program.insns, len) };
    let copy = |&BpfInsn { code, jt, jf, k }: &BpfInsn| Insn { code, jt, jf, k };
    Ok(insns.iter().map(copy).collect())
}

#[cfg(test)]
mod tests {
    use wire::bpf::{Packet, Program};

    use super::*;

    /// Compiles, or says why that cannot be tried here.
    fn compiled(filter: &str) -> Option<Vec<Insn>> {
        match compile(filter, 96) {
            Err(CompileError::NotInstalled) => {
                eprintln!("SKIPPED: {}", CompileError::NotInstalled);
                None
            }
            result => Some(result.unwrap()),
        }
    }

    #[test]
    fn filters_are_compiled_to_programs_that_are_verified_and_keep_the_snap_length() {
        let Some(program) = compiled("udp port 53") else { return };
        let program = Program::new(program).unwrap();
        let mut frame = [0_u8; 60];
        frame[12..14].copy_from_slice(&[8, 0]);
        (frame[14], frame[23], frame[37]) = (0x45, 17, 53);
        let run = |bytes: &[u8]| program.run(&Packet { bytes, len: 60, is_outgoing: false });
        assert_eq!(run(&frame), 96);
        frame[23] = 6;
        assert_eq!(run(&frame), 0);
    }

    #[test]
    fn sent_and_received_packets_are_told_apart() {
        let Some(program) = compiled("inbound") else { return };
        let program = Program::new(program).unwrap();
        let run = |is_outgoing| program.run(&Packet { bytes: &[0; 60], len: 60, is_outgoing });
        assert_eq!((run(false), run(true)), (96, 0));
    }

    #[test]
    fn a_wrong_filter_is_refused_in_libpcap_s_words() {
        if compiled("ip").is_none() {
            return;
        }
        let Err(CompileError::Filter(why)) = compile("tcp prot 80", 96) else { panic!("it is wrong") };
        assert!(why.contains("syntax error"), "{why}");
        assert!(matches!(compile("ip\0", 96), Err(CompileError::Filter(_))));
    }
}
