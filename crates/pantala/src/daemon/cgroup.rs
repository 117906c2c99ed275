//! The memory limit of the process's control group (cgroups(7), both versions), which the kernel enforces by killing.

use std::fs;
use std::path::Path;

use crate::StackError;

/// Memory of a stack besides its packet buffers: the program, tables, and what a few connections need.
const BESIDES: u64 = 24 << 20;
const MIB: u64 = 1 << 20;

/// Fails if packet buffers of so many bytes cannot fit into the memory limit: the kernel would kill the process as soon as it
/// touches them.
pub(super) fn check(buffers: u64, slot: u64) -> Result<(), StackError> {
    limit(Path::new("/")).map_or(Ok(()), |limit| fits(buffers, slot, limit))
}

fn fits(buffers: u64, slot: u64, limit: u64) -> Result<(), StackError> {
    if buffers.saturating_add(BESIDES) <= limit {
        return Ok(());
    }
    let (need, have) = (buffers.saturating_add(BESIDES).div_ceil(MIB), limit / MIB);
    let advice = match limit.saturating_sub(BESIDES) / slot {
        0 => "raise memory.max".to_owned(),
        most => format!("set `buffers` to at most {most}, or raise memory.max"),
    };
    Err(StackError::Misfit(format!(
        "the control group has {have} MiB of memory, and packet buffers and tables need {need} MiB; {advice}"
    )))
}

/// Returns the least limit of the process's group and those around it; `None` if there is none, or it cannot be read.
fn limit(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let all = root.join("sys/fs/cgroup");
    let second = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let first = groups.lines().find_map(|line| line.split_once(":memory:/")).map(|(_, group)| group);
    let second = second.and_then(|group| least(&all, group, "memory.max"));
    let first = first.and_then(|group| least(&all.join("memory"), group, "memory.limit_in_bytes"));
    second.into_iter().chain(first).min()
}

/// Returns the least limit of a group and those around it, below the `top` of a hierarchy.
fn least(top: &Path, group: &str, file: &str) -> Option<u64> {
    let inner = group.split('/').filter(|name| !name.is_empty()).scan(top.to_path_buf(), |path, name| {
        path.push(name);
        Some(path.clone())
    });
    core::iter::once(top.to_path_buf()).chain(inner).filter_map(|group| max(&group.join(file))).min()
}

/// Reads a limit; `None` if there is none.
fn max(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// Makes a folder with the files of the kernel: the group, and limits of groups by path.
    fn machine(name: &str, group: &str, limits: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("pt-cgroup-{name}-{}", std::process::id()));
        fs::create_dir_all(root.join("proc/self")).unwrap();
        fs::write(root.join("proc/self/cgroup"), format!("0::{group}\n")).unwrap();
        for (path, limit) in limits {
            let folder = root.join("sys/fs/cgroup").join(path);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("memory.max"), format!("{limit}\n")).unwrap();
        }
        root
    }

    #[test]
    fn the_least_limit_of_the_groups_around_the_process_counts() {
        for (name, group, limits, least) in [
            ("none", "/a/b", &[("a", "max"), ("a/b", "max")][..], None),
            ("own", "/a/b", &[("a", "max"), ("a/b", "4096")], Some(4096)),
            ("outer", "/a/b", &[("a", "1024"), ("a/b", "4096")], Some(1024)),
            ("root", "/", &[], None),
        ] {
            let root = machine(name, group, limits);
            assert_eq!(limit(&root), least, "{name}");
            fs::remove_dir_all(root).unwrap();
        }
        let root = machine("first", "/", &[]);
        fs::write(root.join("proc/self/cgroup"), "4:memory:/a\n0::/\n").unwrap();
        fs::create_dir_all(root.join("sys/fs/cgroup/memory/a")).unwrap();
        fs::write(root.join("sys/fs/cgroup/memory/a/memory.limit_in_bytes"), "8192\n").unwrap();
        assert_eq!(limit(&root), Some(8192), "version 1");
        fs::remove_dir_all(root).unwrap();
        assert_eq!(limit(Path::new("/nonexistent")), None);
    }

    #[test]
    fn buffers_that_do_not_fit_are_refused_with_how_many_would() {
        assert!(fits(29 << 20, 2368, 60 << 20).is_ok());
        let Err(StackError::Misfit(text)) = fits(29 << 20, 2368, 40 << 20) else { panic!() };
        assert!(text.contains("has 40 MiB") && text.contains("need 53 MiB"), "{text}");
        assert!(text.contains("set `buffers` to at most 7084"), "{text}");
        let Err(StackError::Misfit(text)) = fits(29 << 20, 2368, 8 << 20) else { panic!() };
        assert!(text.ends_with("; raise memory.max"), "{text}");
    }
}
