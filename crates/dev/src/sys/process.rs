//! Unsafe: a hook between fork and exec.
//!
//! Child processes that do not outlive us.
#![expect(unsafe_code, reason = "pre_exec runs in the child of a fork")]

use std::io;
use std::process::Command;

use rustix::process::{Signal, set_parent_process_death_signal};

/// Makes the process that `command` starts end, as if by SIGTERM, when the thread that starts it ends: also when
/// that is killed.
pub fn end_with_parent(command: &mut Command) -> &mut Command {
    use std::os::unix::process::CommandExt;
    // SAFETY: the hook makes one system call, and neither allocates nor locks.
    unsafe {
        command.pre_exec(|| set_parent_process_death_signal(Some(Signal::TERM)).map_err(io::Error::from))
    }
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
}
