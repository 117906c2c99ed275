//! Commands of scripts, which packetdrill gives to `system`. Those that are meant for the host (`sysctl`, `sockstat`,
//! `defaults.sh`, …) do not reach the machine that this runs on; all others are the shell's.

use core::ffi::c_int;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};

use crate::errno::Code;
use crate::{abi, hosts};

/// As `wait` says that a program has ended with 1.
const FAILED: c_int = 1 << 8;

/// Runs a command; answers its status as `wait` has it.
pub(crate) fn run(text: &str) -> Result<c_int, Code> {
    match hosts::only().and_then(|host| host.command(text)) {
        Some(Ok(())) => Ok(0),
        Some(Err(wrong)) => {
            abi::complain(&wrong);
            Ok(FAILED)
        }
        None => {
            let status = Command::new("/bin/sh").arg("-c").arg(text).status();
            status.map(ExitStatus::into_raw).map_err(|error| Code(error.raw_os_error().unwrap_or(libc::EIO)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;

    #[test]
    fn commands_reach_the_host_and_not_the_machine_below_and_others_are_the_shells() {
        assert_eq!(run("exit 3"), Ok(3 << 8));
        let number = hosts::add(Host::new("").ok());
        assert_eq!(run("exit 3"), Ok(3 << 8));
        assert_eq!(run("../common/defaults.sh\nsysctl -q net.ipv4.tcp_sack=0"), Ok(0));
        assert_eq!(run("sockstat -4 -P tcp -s | grep packetdril | grep -c LISTEN | grep 0"), Ok(0));
        assert_eq!(run("sockstat -4 -P tcp -s | grep packetdril | grep -c LISTEN | grep 1"), Ok(FAILED));
        assert_eq!(run("sysctl -w net.inet.tcp.nothing=1"), Ok(FAILED));
        assert_eq!(
            run("sysctl -w net.inet.tcp.rfc1323=0\nexit 3"),
            Ok(FAILED),
            "none of it is done elsewhere"
        );
        hosts::remove(number);
    }
}
