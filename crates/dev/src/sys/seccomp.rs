//! Unsafe: `seccomp(2)` takes a pointer to a program.
//!
//! System call filters of threads, once they run: the calls that their code is known to make, and no others.
//!
//! The lists are short because the threads are simple. A call that is not on them fails with `EPERM`, and the kernel's log
//! says which it was: `audit: type=1326 … comm="netisr0" … syscall=41`. Four kinds of calls end the process whatever was asked
//! for: those that start another program, and those that reach into other processes. No code of ours makes them, ever.
#![expect(unsafe_code, reason = "the kernel reads the filter through a pointer")]

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

/// The action on a system call that is not on the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Otherwise {
    /// It fails with `EPERM`.
    Refuse,
    /// The process ends with `SIGSYS`.
    Kill,
    /// It is made, and logged.
    Log,
}

/// Threads whose calls are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Moves packets between devices that are open already.
    Netisr,
    /// Reads files below a folder that is open already.
    Reader,
}

/// Why there is no filter.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeccompError {
    /// Lists are known for x86-64 and AArch64.
    #[error("no list of system calls for this kind of processor")]
    Architecture,
    /// The list does not become a program.
    #[error("the list of system calls: {0}")]
    List(#[from] BackendError),
    /// The kernel refused.
    #[error("seccomp: {0}")]
    Refused(#[from] io::Error),
}

/// From now on the calling thread may make the calls of its role only, for good. `no_new_privs` is set.
///
/// # Errors
/// [`SeccompError`]; the thread is then as it was.
pub fn confine(role: Role, otherwise: Otherwise) -> Result<(), SeccompError> {
    // rustix looks for the kernel's clock in `/proc` when it is asked for the time first.
    let _ = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|_| SeccompError::Architecture)?;
    let refusal = match otherwise {
        Otherwise::Refuse => SeccompAction::Errno(libc::EPERM.cast_unsigned()),
        Otherwise::Kill => SeccompAction::KillProcess,
        Otherwise::Log => SeccompAction::Log,
    };
    // In place of the end of the process: libc can do without.
    let unneeded = if otherwise == Otherwise::Kill { UNNEEDED } else { &[] };
    let refused = unneeded.iter().map(|call| (*call, Vec::new())).collect();
    let denied = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let refused = SeccompFilter::new(refused, SeccompAction::Allow, denied, arch)?;
    let mut calls = role.calls()?;
    calls.extend(unneeded.iter().map(|call| (*call, Vec::new())));
    let never = NEVER.iter().map(|call| (*call, Vec::new())).collect();
    let never = SeccompFilter::new(never, SeccompAction::Allow, SeccompAction::KillProcess, arch)?;
    let known = SeccompFilter::new(calls, refusal, SeccompAction::Allow, arch)?;
    rustix::thread::set_no_new_privs(true).map_err(io::Error::from)?;
    // Of several filters the strictest verdict counts.
    for filter in [never, refused, known] {
        // The kernel logs what is refused.
        install(&BpfProgram::try_from(filter)?, libc::SECCOMP_FILTER_FLAG_LOG)?;
    }
    Ok(())
}

/// Returns the number of filters of the calling thread.
///
/// # Errors
/// When `/proc` is not there.
pub fn filters() -> io::Result<usize> {
    let status = std::fs::read_to_string("/proc/thread-self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
    Ok(line.and_then(|count| count.trim().parse().ok()).unwrap_or(0))
}

type Calls = BTreeMap<i64, Vec<SeccompRule>>;

impl Role {
    fn calls(self) -> Result<Calls, BackendError> {
        let own: &[i64] = match self {
            Self::Netisr => NETISR,
            Self::Reader => READER,
        };
        let mut calls: Calls = ALL.iter().chain(own).map(|call| (*call, Vec::new())).collect();
        // Memory that can be executed is not for threads that read what strangers send.
        for (call, protection) in [(libc::SYS_mmap, 2), (libc::SYS_mprotect, 2)] {
            let not_executable = SeccompCmpOp::MaskedEq(libc::PROT_EXEC.cast_unsigned().into());
            calls.insert(call, vec![when(protection, not_executable, 0)?]);
        }
        let is = |argument, value: u64| when(argument, SeccompCmpOp::Eq, value);
        calls.insert(libc::SYS_prctl, vec![is(0, libc::PR_SET_VMA.cast_unsigned().into())?]);
        // To read a limit, not to set one.
        calls.insert(libc::SYS_prlimit64, vec![is(2, 0)?]);
        // Whether a descriptor is open: builds with assertions ask before they close it.
        calls.insert(libc::SYS_fcntl, vec![is(1, libc::F_GETFD.cast_unsigned().into())?]);
        if self == Self::Netisr {
            // What an interface is called, and whether it carries.
            let asked = [libc::SIOCGIFNAME, libc::SIOCGIFFLAGS].map(|request| is(1, request));
            calls.insert(libc::SYS_ioctl, asked.into_iter().collect::<Result<_, _>>()?);
            // The counters of an AF_XDP socket, and of a packet socket.
            let counted = [libc::SOL_XDP, libc::SOL_PACKET].map(|level| is(1, level.cast_unsigned().into()));
            calls.insert(libc::SYS_getsockopt, counted.into_iter().collect::<Result<_, _>>()?);
        }
        Ok(calls)
    }
}

fn when(argument: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    let compared = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value)?;
    SeccompRule::new(vec![compared])
}

/// Installs a filter, and returns the kernel's answer to these flags.
pub(super) fn install(program: &[sock_filter], flags: libc::c_ulong) -> io::Result<libc::c_long> {
    let filter =
        Program { len: u16::try_from(program.len()).map_err(io::Error::other)?, filter: program.as_ptr() };
    // SAFETY: the structure is laid out as the kernel's, its pointer is to as many instructions as it says, and the kernel
    // copies them during the call.
    let answer =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter) };
    if answer >= 0 { Ok(answer) } else { Err(io::Error::last_os_error()) }
}

/// `struct sock_fprog`
#[repr(C)]
struct Program {
    len: u16,
    filter: *const sock_filter,
}

/// Calls that start programs or reach into other processes: only a hijacked thread makes them.
const NEVER: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
];

/// Calls of libc's own: it reads the overcommit policy in `/proc` before it gives memory back.
const UNNEEDED: &[i64] = &[libc::SYS_openat];

/// Memory, locks, time, and the end of a thread; the bell of another thread, and standard error, which are written to.
const ALL: &[i64] = &[
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_close,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_tgkill,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sigaltstack,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Frames of TAPs, captures and packet sockets, doorbells of AF_XDP, bells of memif, sleep.
const NETISR: &[i64] = &[
    libc::SYS_readv,
    libc::SYS_writev,
    // On a ring that knows the two calls above and no others; there is none to be made.
    libc::SYS_io_uring_enter,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_ppoll,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_lseek,
];

/// Files, and what is in folders.
const READER: &[i64] = &[
    libc::SYS_openat2,
    libc::SYS_pread64,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_getdents64,
    libc::SYS_lseek,
];

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::UdpSocket;

    use super::*;

    /// Filters are of a thread.
    fn confined<T: Send>(role: Role, otherwise: Otherwise, f: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                confine(role, otherwise).unwrap();
                f()
            });
            thread.join().unwrap()
        })
    }

    #[test]
    fn a_netisr_opens_nothing_and_goes_on() {
        let denied = confined(Role::Netisr, Otherwise::Refuse, || {
            let kinds = [
                File::open("/etc/passwd").unwrap_err().kind(),
                UdpSocket::bind("127.0.0.1:0").unwrap_err().kind(),
                std::thread::Builder::new().spawn(|| {}).unwrap_err().kind(),
                std::fs::read_dir("/").unwrap_err().kind(),
            ];
            // Memory, time and locks are as before.
            let much = vec![1_u8; 32 << 20];
            std::thread::sleep(core::time::Duration::from_nanos(1));
            assert_eq!(much.iter().map(|byte| u64::from(*byte)).sum::<u64>(), 32 << 20);
            kinds
        });
        assert_eq!(denied, [io::ErrorKind::PermissionDenied; 4]);
        assert!(File::open("/etc/passwd").is_ok(), "other threads are free");
    }

    #[test]
    fn a_reader_opens_what_is_below_its_folder_and_no_socket() {
        let folder = File::open("/etc").unwrap();
        let (found, elsewhere, socket) = confined(Role::Reader, Otherwise::Refuse, || {
            use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
            let found =
                openat2(&folder, "passwd", OFlags::RDONLY, Mode::empty(), ResolveFlags::BENEATH).is_ok();
            (found, File::open("/etc/passwd").is_err(), UdpSocket::bind("127.0.0.1:0").is_err())
        });
        assert!(found && elsewhere && socket);
    }

    #[test]
    fn what_is_only_logged_is_done_and_the_filter_can_be_seen() {
        let (opened, filters) = confined(Role::Netisr, Otherwise::Log, || {
            (File::open("/etc/passwd").is_ok(), filters().unwrap())
        });
        assert!(opened && filters >= 2, "{filters}");
    }
}
