//! Unsafe: calls `bpf(2)`, which has no wrapper in libc.
#![expect(unsafe_code, reason = "bpf(2) takes a pointer to a structure that depends on the command")]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Why the kernel refused a BPF operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BpfError {
    /// The process may not do this.
    #[error("{doing}: needs CAP_BPF and CAP_NET_ADMIN (or root)")]
    Permission {
        /// The operation.
        doing: &'static str,
    },
    /// The verifier did not accept the program.
    #[error("the kernel's verifier refuses program {name}: {source}\n{log}")]
    Verifier {
        /// The program.
        name: String,
        /// The error number.
        source: io::Error,
        /// Log of the verifier, line by line.
        log: String,
    },
    /// Another XDP program is on the interface.
    #[error(
        "interface {ifindex} has an XDP program already; one that a process holds goes with the process, another by \
         `ip link set dev NAME xdp off`"
    )]
    Busy {
        /// The interface.
        ifindex: u32,
    },
    /// The kernel refused for another reason.
    #[error("{doing}: {source}")]
    Refused {
        /// The operation.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// A program could not be attached by netlink either.
    #[error(transparent)]
    Netlink(#[from] crate::netlink::NetlinkError),
}

/// The structure that a command reads: a variant of `union bpf_attr`.
///
/// # Safety
/// `repr(C)` without padding, laid out as the kernel's variant for [`Command::NUMBER`], and each pointer in
/// it is valid for what that command reads or writes there while the call lasts.
pub(super) unsafe trait Command {
    /// `BPF_…` of `enum bpf_cmd`.
    const NUMBER: libc::c_long;
}

/// Runs a command; answers what it answers: a descriptor, or 0. The kernel may write results into it.
pub(super) fn call<C: Command>(attr: &mut C) -> io::Result<i32> {
    // SAFETY: the size is that of the structure, and the contract of `Command` covers its contents.
    let answer =
        unsafe { libc::syscall(libc::SYS_bpf, C::NUMBER, core::ptr::from_mut(attr), size_of::<C>()) };
    match i32::try_from(answer) {
        Ok(n) if n >= 0 => Ok(n),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Runs a command that answers a new descriptor.
pub(super) fn call_for_fd<C: Command>(attr: &mut C) -> io::Result<OwnedFd> {
    let fd = call(attr)?;
    // SAFETY: the kernel made the descriptor for us just now; no other owner exists.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes an error of the kernel's answer to `doing`.
pub(super) fn refused(doing: &'static str) -> impl Fn(io::Error) -> BpfError {
    move |source| match source.kind() {
        io::ErrorKind::PermissionDenied => BpfError::Permission { doing },
        _ => BpfError::Refused { doing, source },
    }
}
