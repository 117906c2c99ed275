//! Unsafe: a hook between fork and exec.
//!
//! Child processes that do not outlive us; processes that are ending.
#![expect(unsafe_code, reason = "pre_exec runs in the child of a fork")]

use core::time::Duration;
use std::io;
use std::process::Command;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, set_parent_process_death_signal};

use super::poll::{PollFd, PollFlags, wait};

/// Makes the process that `command` starts end, as if by SIGTERM, when the thread that starts it ends: also when
/// that is killed.
pub fn end_with_parent(command: &mut Command) -> &mut Command {
    use std::os::unix::process::CommandExt;
    // SAFETY: the hook makes one system call, and neither allocates nor locks.
    unsafe {
        command.pre_exec(|| set_parent_process_death_signal(Some(Signal::TERM)).map_err(io::Error::from))
    }
}

/// Whether a process is ending, and cannot but end: it was killed (SIGKILL is pending), is a zombie, or is gone.
#[must_use]
pub fn is_ending(pid: u32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else {
        return !std::path::Path::new(&format!("/proc/{pid}")).exists();
    };
    let exits = std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| is_exiting(&stat));
    exits || has_ended_or_was_killed(&status)
}

/// Waits until a process has ended, for so long; answers whether it has.
#[must_use]
pub fn ends_within(pid: u32, limit: Duration) -> bool {
    let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return true };
    // It has ended already, or was never here.
    let Ok(process) = pidfd_open(process, PidfdFlags::empty()) else { return true };
    matches!(wait(&mut [PollFd::new(&process, PollFlags::IN)], Some(limit)), Ok(1..))
}

/// The name of a process's program, for messages.
#[must_use]
pub fn name_of(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    name.map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned())
}

/// The process that started this one, or adopted it.
#[must_use]
pub fn parent_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Reads `/proc/PID/status`.
fn has_ended_or_was_killed(status: &str) -> bool {
    let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).map_or("", str::trim);
    let kill = 1_u64 << (libc::SIGKILL - 1);
    let is_pending = |set| u64::from_str_radix(field(set), 16).is_ok_and(|set| set & kill != 0);
    field("State:").starts_with(['Z', 'X']) || is_pending("SigPnd:") || is_pending("ShdPnd:")
}

/// Reads `/proc/PID/stat`: whether `PF_EXITING` is among the flags. The name of the program, in brackets, may hold anything.
fn is_exiting(stat: &str) -> bool {
    const EXITING: u32 = 4;
    const FLAGS_BEHIND_NAME: usize = 6;
    let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
    let flags = behind.split_whitespace().nth(FLAGS_BEHIND_NAME).and_then(|flags| flags.parse::<u32>().ok());
    flags.is_some_and(|flags| flags & EXITING != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_ends_with_the_thread_that_started_it() {
        let start = || end_with_parent(Command::new("sleep").arg("60")).spawn().unwrap();
        let mut child = std::thread::spawn(start).join().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()),
            Some(libc::SIGTERM)
        );
    }

    #[test]
    fn a_process_that_was_killed_is_ending_and_one_that_runs_is_not() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        assert!(!is_ending(pid) && !ends_within(pid, Duration::ZERO));
        child.kill().unwrap();
        assert!(ends_within(pid, Duration::from_secs(60)));
        assert!(is_ending(pid), "a zombie, until it is waited for");
        child.wait().unwrap();
        assert!(is_ending(pid) && ends_within(pid, Duration::ZERO));
    }

    #[test]
    fn states_and_pending_signals_of_the_kernel_are_understood() {
        let status =
            |state: &str, pending: u64| format!("Name:\tx\nState:\t{state}\nShdPnd:\t{pending:016x}\n");
        assert!(!has_ended_or_was_killed(&status("S (sleeping)", 0x4000)));
        assert!(has_ended_or_was_killed(&status("S (sleeping)", 0x100)));
        assert!(has_ended_or_was_killed(&status("Z (zombie)", 0)));
        assert!(is_exiting("7 (a) b) R 1 7 7 0 -1 4194308 0 0"));
        assert!(!is_exiting("7 (a) b) R 1 7 7 0 -1 4194304 0 0"));
        assert!(!is_exiting("") && !has_ended_or_was_killed(""));
    }
}
