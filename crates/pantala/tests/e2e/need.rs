//! Requirements of a test. Without them it is skipped, loudly.

use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};

use dev::sys::caps::{CapabilitySet, effective};
use dev::sys::xsk::XskSocket;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::lab::Link;

/// Whether a lab with these links can be built here. If not, the running test is skipped.
pub(crate) fn lab(links: &[Link]) -> bool {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
    if !effective().is_ok_and(|held| held.contains(needed)) {
        return skipped("needs root");
    }
    if !Path::new("/dev/net/tun").exists() {
        return skipped("no /dev/net/tun");
    }
    if links.iter().all(|link| link.attach.is_made_by_pantala()) {
        return true;
    }
    match XskSocket::new() {
        Ok(_) => true,
        Err(why) => skipped(&format!("no AF_XDP: {why}")),
    }
}

/// Whether two CPUs may be used.
pub(crate) fn two_cpus() -> bool {
    let cpus = std::thread::available_parallelism().map_or(1, core::num::NonZero::get);
    cpus >= 2 || skipped("needs two CPUs")
}

/// Whether this process may have so many files open; if it may ask for them, it does.
pub(crate) fn files(count: u64) -> bool {
    let limit = getrlimit(Resource::Nofile);
    // What is refused shows below.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let is_enough = getrlimit(Resource::Nofile).current.is_none_or(|files| files >= count);
    is_enough || skipped(&format!("no process may have {count} files"))
}

/// Whether a program is installed.
pub(crate) fn program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(name).exists());
    found || skipped(&format!("{name} is not installed"))
}

fn skipped(why: &str) -> bool {
    harness::skip(why);
    false
}

/// Labs that may run at once. Most of their time goes by in waits for timers, but each wants the machine's CPUs now and then.
const LABS_MAX: usize = 3;

static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// The right to run a lab, until it is dropped.
pub(crate) struct Permit(());

impl Permit {
    pub(crate) fn wait() -> Self {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        while *running >= LABS_MAX {
            running = ENDED.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
        *running += 1;
        drop(running);
        Self(())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ENDED.notify_one();
    }
}
