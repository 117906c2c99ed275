//! Unsafe: `seccomp(2)` and its requests take pointers to structures.
//!
//! System calls of other processes that this one answers (seccomp_unotify(2)).
#![expect(unsafe_code, reason = "the kernel reads and writes structures through pointers")]

use core::ffi::c_ulong;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use super::seccomp::{self, SeccompError};

/// A system call to be answered, if these arguments have these values (their lower 32 bits), and another one is not 0.
#[derive(Clone, Copy, Debug)]
pub struct Trap {
    /// Its number.
    pub call: i64,
    /// Arguments by their place, with their values.
    pub when: [Option<(u8, u32)>; 2],
    /// The place of the argument that is not 0.
    pub is_set: Option<u8>,
}

/// A call that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number among the calls.
    pub id: u64,
    /// The thread that makes it.
    pub thread: u32,
    /// The number of the system call.
    pub number: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// Where calls are received and answered.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// Traps calls of the calling thread, and of the processes that it starts from now on, for good.
///
/// While one is answered, its thread does not return for signals but those that end it. `no_new_privs` is set unless this process
/// may do without.
///
/// # Errors
/// [`SeccompError`]; the thread is then as it was.
pub fn trap(calls: &[Trap]) -> Result<Listener, SeccompError> {
    let program = filter(calls)?;
    let killable = libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let listener = match install(&program, killable) {
        // Without CAP_SYS_ADMIN.
        Err(why) if why.raw_os_error() == Some(libc::EACCES) => {
            rustix::thread::set_no_new_privs(true).map_err(io::Error::from)?;
            install(&program, killable)
        }
        done => done,
    };
    let listener = match listener {
        // Linux before 5.19.
        Err(why) if why.raw_os_error() == Some(libc::EINVAL) => {
            rustix::thread::set_no_new_privs(true).map_err(io::Error::from)?;
            install(&program, 0)
        }
        done => done,
    }?;
    // The answer wakes the thread on this processor; Linux before 6.6 cannot.
    let _ = listener.ask(libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, &mut SYNC_WAKE_UP.to_owned());
    Ok(listener)
}

/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`
const SYNC_WAKE_UP: u64 = 1;
/// The value by which an instruction that returns is found.
const MARK: u16 = 0x7a7a;

fn filter(calls: &[Trap]) -> Result<BpfProgram, SeccompError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|_| SeccompError::Architecture)?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for trap in calls {
        let of = rules.entry(trap.call).or_default();
        let conditions: Result<Vec<_>, _> = trap
            .when
            .iter()
            .flatten()
            .map(|(argument, value)| {
                SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, (*value).into())
            })
            .collect();
        let mut conditions = conditions?;
        if let Some(argument) = trap.is_set {
            let is_set = SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
            conditions.push(is_set);
        }
        if !conditions.is_empty() {
            of.push(SeccompRule::new(conditions)?);
        }
    }
    let trace = SeccompAction::Trace(MARK.into());
    let mut program = BpfProgram::try_from(SeccompFilter::new(rules, SeccompAction::Allow, trace, arch)?)?;
    for instruction in &mut program {
        instruction.k = match (instruction.code, instruction.k) {
            (RETURN, k) if k == libc::SECCOMP_RET_TRACE | u32::from(MARK) => libc::SECCOMP_RET_USER_NOTIF,
            // Calls of another architecture, of 32 bits, are the kernel's.
            (RETURN, libc::SECCOMP_RET_KILL_PROCESS) => libc::SECCOMP_RET_ALLOW,
            (_, k) => k,
        };
    }
    Ok(program)
}

/// `BPF_RET | BPF_K`
const RETURN: u16 = 6;

fn install(program: &[sock_filter], more: c_ulong) -> io::Result<Listener> {
    let answer = seccomp::install(program, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | more)?;
    let fd = RawFd::try_from(answer).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made it, and nothing else has it. It is closed on exec.
    Ok(Listener(unsafe { OwnedFd::from_raw_fd(fd) }))
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Listener {
    /// Receives a call; `None` if its thread has gone meanwhile. It blocks while there is none.
    ///
    /// # Errors
    /// The errors of `SECCOMP_IOCTL_NOTIF_RECV`.
    pub fn receive(&self) -> io::Result<Option<Call>> {
        let data = libc::seccomp_data { nr: 0, arch: 0, instruction_pointer: 0, args: [0; 6] };
        let mut call = libc::seccomp_notif { id: 0, pid: 0, flags: 0, data };
        match self.ask(libc::SECCOMP_IOCTL_NOTIF_RECV, &mut call) {
            Err(Errno::NOENT | Errno::INTR) => Ok(None),
            Err(why) => Err(why.into()),
            Ok(_) => Ok(Some(Call {
                id: call.id,
                thread: call.pid,
                number: call.data.nr.into(),
                arguments: call.data.args,
            })),
        }
    }

    /// Whether a call still waits for its answer: its thread is the one that made it, and not another of the same number.
    #[must_use]
    pub fn is_valid(&self, id: u64) -> bool {
        self.ask(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &mut id.to_owned()).is_ok()
    }

    /// Answers a call with a value, or with an error.
    ///
    /// # Errors
    /// `ENOENT`: its thread has gone.
    pub fn answer(&self, id: u64, value: Result<i64, Errno>) -> Result<(), Errno> {
        let (val, error) = match value {
            Ok(value) => (value, 0),
            Err(why) => (0, -why.raw_os_error()),
        };
        let mut answer = libc::seccomp_notif_resp { id, val, error, flags: 0 };
        self.ask(libc::SECCOMP_IOCTL_NOTIF_SEND, &mut answer).map(drop)
    }

    /// Has the kernel do a call as it was made.
    ///
    /// # Errors
    /// `ENOENT`: its thread has gone.
    pub fn pass(&self, id: u64) -> Result<(), Errno> {
        let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or(1);
        let mut answer = libc::seccomp_notif_resp { id, val: 0, error: 0, flags };
        self.ask(libc::SECCOMP_IOCTL_NOTIF_SEND, &mut answer).map(drop)
    }

    /// Gives the process a descriptor in the place of its descriptor `at`.
    ///
    /// # Errors
    /// The errors of `SECCOMP_IOCTL_NOTIF_ADDFD`.
    pub fn replace(&self, id: u64, fd: BorrowedFd<'_>, at: RawFd, cloexec: bool) -> Result<(), Errno> {
        self.add(id, fd, Some(at), cloexec).map(drop)
    }

    /// Gives the process a descriptor, whose number is the answer to its call.
    ///
    /// # Errors
    /// The errors of `SECCOMP_IOCTL_NOTIF_ADDFD`; the call is not answered then.
    pub fn answer_with(&self, id: u64, fd: BorrowedFd<'_>, cloexec: bool) -> Result<(), Errno> {
        self.add(id, fd, None, cloexec).map(drop)
    }

    fn add(&self, id: u64, fd: BorrowedFd<'_>, at: Option<RawFd>, cloexec: bool) -> Result<i32, Errno> {
        let flags = if at.is_some() { libc::SECCOMP_ADDFD_FLAG_SETFD } else { libc::SECCOMP_ADDFD_FLAG_SEND };
        let mut addition = libc::seccomp_notif_addfd {
            id,
            flags: u32::try_from(flags).unwrap_or(0),
            srcfd: fd.as_raw_fd().cast_unsigned(),
            newfd: at.unwrap_or(0).cast_unsigned(),
            newfd_flags: if cloexec { libc::O_CLOEXEC.cast_unsigned() } else { 0 },
        };
        self.ask(libc::SECCOMP_IOCTL_NOTIF_ADDFD, &mut addition)
    }

    /// Makes a request about `structure`, which is of the request's type.
    fn ask<T>(&self, request: libc::Ioctl, structure: &mut T) -> Result<i32, Errno> {
        // SAFETY: the kernel reads and writes a structure of the size that is part of the request's number, which is that of `T`,
        // during the call; any bytes are a valid `T`.
        let answer = unsafe { libc::ioctl(self.0.as_raw_fd(), request, core::ptr::from_mut(structure)) };
        if answer >= 0 { Ok(answer) } else { Err(last_error()) }
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_call_of_another_thread_is_answered_and_others_are_not_met() {
        let (to, from) = mpsc::channel();
        std::thread::scope(|scope| {
            let other = scope.spawn(move || {
                let when = [Some((0, libc::AF_INET.cast_unsigned())), None];
                to.send(trap(&[Trap { call: libc::SYS_socket, when, is_set: None }]).unwrap()).unwrap();
                let kinds = [UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0")];
                (kinds.map(|done| done.map_err(|why| why.raw_os_error())), UdpSocket::bind("[::1]:0").is_ok())
            });
            let listener = from.recv().unwrap();
            let first = listener.receive().unwrap().unwrap();
            assert_eq!((first.number, first.arguments[0]), (libc::SYS_socket, 2));
            assert!(listener.is_valid(first.id));
            listener.answer(first.id, Err(Errno::NOBUFS)).unwrap();
            assert!(!listener.is_valid(first.id));
            assert!(listener.answer(first.id, Ok(7)).is_err(), "it is answered once");
            let second = listener.receive().unwrap().unwrap();
            listener.pass(second.id).unwrap();
            let ([refused, done], v6) = other.join().unwrap();
            assert_eq!(refused.unwrap_err(), Some(libc::ENOBUFS));
            assert!(done.is_ok() && v6);
        });
    }
}
