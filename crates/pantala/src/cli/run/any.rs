//! `run --any`: a program that loads no library, with a supervisor beside it.
//!
//! This process stays: its main thread starts the program and waits, another answers calls about sockets
//! (seccomp_unotify(2)). Calls that move bytes are not met: the program has one end of a pair of Unix sockets, as with the library.

use core::sync::atomic::{AtomicI32, Ordering};
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread;

use dev::sys::notify::trap;
use dev::sys::process::end_with_parent;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, set_child_subreaper, wait};
use signal_hook::consts::{SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::Signals;

use super::{calls, supervisor};

/// Signals that are passed on to the program.
const PASSED: [i32; 7] = [SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT, SIGALRM, SIGWINCH];
/// Signals of the terminal, which the program gets as well.
const TERMINAL: [i32; 2] = [SIGINT, SIGQUIT];

/// Runs a program until it and all that it has started have ended, and returns its exit code: that of a shell, 128 more than the
/// number, for a signal.
///
/// # Errors
/// Why it cannot be started.
pub(super) fn run(mut command: Command) -> Result<u8, String> {
    // Threads that begin before calls are trapped make theirs as ever.
    let (to_supervisor, listeners) = mpsc::channel();
    let supervisor = thread::Builder::new().name("supervisor".to_owned()).spawn(move || {
        let Ok(listener) = listeners.recv() else { return };
        if let Err(why) = supervisor::run(&listener) {
            crate::daemon::log::warning(&format!("calls of programs are no longer answered: {why}"));
        }
    });
    supervisor.map_err(|why| format!("no thread can be started: {why}"))?;
    let main = Arc::new(AtomicI32::new(0));
    pass_signals_to(Arc::clone(&main)).map_err(|why| format!("signals cannot be passed on: {why}"))?;
    set_child_subreaper(Some(rustix::process::getpid())).map_err(|why| format!("prctl: {why}"))?;
    let listener = trap(&calls::traps()).map_err(|why| why.to_string())?;
    to_supervisor.send(listener).map_err(|_| "no thread answers calls".to_owned())?;
    let child = end_with_parent(&mut command).spawn().map_err(|why| why.to_string())?;
    main.store(child.id().cast_signed(), Ordering::Relaxed);
    Ok(wait_for(&main))
}

/// Waits until all processes have ended.
fn wait_for(main: &AtomicI32) -> u8 {
    let mut code = 1;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_pid() == main.load(Ordering::Relaxed) => {
                main.store(0, Ordering::Relaxed);
                code = exit_code(status);
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return code,
        }
    }
}

fn exit_code(status: WaitStatus) -> u8 {
    let signal = status.terminating_signal().map(|signal| 128 + signal);
    let code = status.exit_status().or(signal).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

fn pass_signals_to(main: Arc<AtomicI32>) -> std::io::Result<()> {
    let mut signals = Signals::new(PASSED.iter().chain(&TERMINAL))?;
    let pass = move || {
        for signal in signals.forever() {
            let to = Pid::from_raw(main.load(Ordering::Relaxed));
            if let (Some(to), Some(signal), true) =
                (to, Signal::from_named_raw(signal), PASSED.contains(&signal))
            {
                let _ = kill_process(to, signal);
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(pass).map(drop)
}
