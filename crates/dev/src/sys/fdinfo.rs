//! Processes by what their descriptors are, as `/proc/PID/fdinfo` shows them.

use std::fs;
use std::path::Path;

/// The first process with a descriptor whose description satisfies `is_it`. `None` if there is none, or if this process may
/// not look at the descriptors of others.
#[must_use]
pub fn holder(is_it: impl Fn(&str) -> bool) -> Option<u32> {
    processes().find(|pid| has(&Path::new("/proc").join(pid.to_string()).join("fdinfo"), &is_it))
}

/// As [`holder`], among the processes of the calling thread's network namespace: others may have interfaces of the same names.
#[must_use]
pub fn holder_in_this_netns(is_it: impl Fn(&str) -> bool) -> Option<u32> {
    let here = fs::read_link("/proc/thread-self/ns/net").ok()?;
    let is_here = |pid: &u32| fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|there| there == here);
    let own = std::process::id();
    let mut pids = processes().filter(|pid| *pid == own || is_here(pid));
    pids.find(|pid| has(&Path::new("/proc").join(pid.to_string()).join("fdinfo"), &is_it))
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
}

fn has(descriptors: &Path, is_it: impl Fn(&str) -> bool) -> bool {
    let Ok(entries) = fs::read_dir(descriptors) else { return false };
    entries.flatten().any(|entry| fs::read_to_string(entry.path()).is_ok_and(|info| is_it(&info)))
}

/// The value of a field of a description.
#[must_use]
pub fn field<'i>(info: &'i str, name: &str) -> Option<&'i str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}
