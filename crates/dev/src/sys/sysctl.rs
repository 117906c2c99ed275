//! The kernel's `net.*` settings of the calling thread's network namespace.

use std::path::PathBuf;
use std::{fs, io};

/// Writes a setting below `/proc/sys/net`, named as `sysctl` names it: `ipv4.ip_forward`,
/// `ipv6.conf.eth0/7.accept_dad` (a dot inside an interface name is written as a slash, as sysctl(8) does).
///
/// `/proc/sys/net` answers with the network namespace of the thread that opens the file.
///
/// # Errors
/// Names the file: no such setting, or no permission.
pub fn set(name: &str, value: impl ToString) -> io::Result<()> {
    let path = path_of(name);
    fs::write(&path, value.to_string()).map_err(|e| at(&path, &e))
}

/// Reads a setting, without the newline.
///
/// # Errors
/// Names the file: no such setting, or no permission.
pub fn get(name: &str) -> io::Result<String> {
    let path = path_of(name);
    let text = fs::read_to_string(&path).map_err(|e| at(&path, &e))?;
    Ok(text.trim_end().to_owned())
}

fn path_of(name: &str) -> PathBuf {
    let swap = |c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    ["/proc/sys/net", &name.chars().map(swap).collect::<String>()].iter().collect()
}

fn at(path: &std::path::Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelled_as_sysctl_spells_them() {
        assert_eq!(path_of("ipv4.ip_forward").to_str(), Some("/proc/sys/net/ipv4/ip_forward"));
        assert_eq!(path_of("ipv6.conf.eth0/7.mtu").to_str(), Some("/proc/sys/net/ipv6/conf/eth0.7/mtu"));
    }

    #[test]
    fn a_setting_that_does_not_exist_is_named() {
        let error = get("ipv4.no_such_thing").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("/proc/sys/net/ipv4/no_such_thing"));
    }
}
