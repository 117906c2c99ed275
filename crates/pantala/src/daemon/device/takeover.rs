//! Taking an interface over by AF_XDP, also from a process that is ending: the kernel takes the program and the sockets of a
//! process that was killed away in its own time, a moment after the process has gone.

use core::time::Duration;
use std::time::Instant;

use dev::af_xdp::{Port, PortError};
use dev::bpf::{BpfError, holder, prog, redirect};
use dev::netlink::{Link, Rtnetlink};
use dev::sys::process;

use super::super::log;

/// Time limit of waiting for a process that is ending.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Interval of checks.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// An obstacle to our program.
#[derive(Debug, PartialEq, Eq)]
enum Obstacle {
    /// A program of a process that is ending, or has ended: it goes by itself.
    Passing,
    /// A program that this process holds.
    Process { pid: u32, name: String },
    /// A program that no process holds.
    Program { name: String },
}

/// Opens a port with `open`. If a program of a process that is ending is in the way, waits for it for as long as `patience` allows, and
/// says so.
pub(super) fn open<R>(
    open: impl Fn() -> Result<(Port, Vec<R>), PortError>,
    host: &str,
    netlink: &mut Rtnetlink,
    patience: Duration,
) -> Result<(Port, Vec<R>), String> {
    let (until, mut told) = (Instant::now() + patience, false);
    loop {
        let why = match open() {
            Err(PortError::Program(BpfError::Busy { .. })) => obstacle(&netlink.link(host)),
            Err(why) => return Err(why.to_string()),
            Ok(opened) => return Ok(opened),
        };
        if why != Obstacle::Passing || Instant::now() >= until {
            return Err(advice(host, &why));
        }
        if !told {
            told = true;
            log::info(&format!(
                "{host} still has the XDP program of a pantala that is ending: waiting for up to {} s",
                patience.as_secs()
            ));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn obstacle(link: &Result<Link, dev::netlink::NetlinkError>) -> Obstacle {
    // It has gone meanwhile.
    let Some(xdp) = link.as_ref().ok().and_then(|link| link.xdp) else { return Obstacle::Passing };
    let name = prog::name_of(xdp.program_id).unwrap_or_default();
    match holder::of(xdp.program_id) {
        Some(pid) if process::is_ending(pid) => Obstacle::Passing,
        Some(pid) => Obstacle::Process { pid, name: process::name_of(pid) },
        None if name == redirect::NAME => Obstacle::Passing,
        None => Obstacle::Program { name },
    }
}

/// Returns the advice about an obstacle.
fn advice(host: &str, obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::Process { pid, name } => {
            format!(
                "process {pid} ({name}) has an XDP program on {host}; stop it, and the program goes with it"
            )
        }
        Obstacle::Program { name } => {
            let called = if name.is_empty() { String::new() } else { format!(" ({name})") };
            format!("{host} has another XDP program{called}; `ip link set dev {host} xdp off` removes it")
        }
        Obstacle::Passing => format!(
            "{host} has the XDP program of another pantala; stop that one, or, if none runs, start again in a moment"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_fits_what_holds_the_program() {
        let process = advice("eth0", &Obstacle::Process { pid: 7, name: "pantala".to_owned() });
        assert!(process.contains("process 7 (pantala)") && !process.contains("xdp off"), "{process}");
        let program = advice("eth0", &Obstacle::Program { name: "filter".to_owned() });
        assert!(program.contains("`ip link set dev eth0 xdp off` removes it"), "{program}");
        assert!(advice("eth0", &Obstacle::Passing).contains("start again"));
    }
}
