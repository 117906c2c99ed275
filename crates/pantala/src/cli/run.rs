//! `run PROGRAM …`: an unmodified program on the running stack.
//!
//! It loads a library that meets its calls, and becomes the program; with `--any` a supervisor beside the program answers them.

mod any;
mod caller;
mod calls;
mod datagrams;
mod supervisor;

use core::net::IpAddr;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use ipnet::IpNet;
use rustix::fs::{Access, access};
use wire::program::{REPLY_LEN, Reply, Request};

use super::Failure;
use crate::config::DEFAULT_PROGRAM_SOCKET;

pub(crate) const HELP: &str = "Sockets of TCP and UDP that the program binds or connects are pantala's: those
bound to an address of pantala or to no address, and what is sent to where
pantala has a route. Names of hosts are looked up by pantala if it has a route
to the name server. Loopback and all else stay with the kernel. The running
pantala needs a section [programs] in its configuration.

  pantala run -- curl http://10.0.0.2/
  pantala run --dns 10.0.0.53 -- curl http://www.example.net/
  pantala run -- nginx -g 'daemon off;'

With --fib N they use routing table N, as programs under setfib(1) do on
FreeBSD; a table that pantala does not have is EINVAL to them.

  pantala run --fib 1 -- curl http://198.51.100.7/

With --any it is no library that meets the calls of the program, but the kernel
(seccomp), so that statically linked programs run as well, such as those of Go.
pantala stays beside the program until all that it has started has ended. Bound
sockets of UDP stay with the kernel then.

  pantala run --any -- caddy file-server --listen :8080";

const LIBRARY: &str = "libpantala_preload.so";
/// Interpreters of interpreters that are followed; the kernel follows as many.
const SCRIPTS_MAX: usize = 4;
/// Bytes of a file that hold the notes of a linker.
const PAGE: usize = 4096;
/// Bytes of the first line of a script.
const LINE_MAX: usize = 256;

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Leave all addresses but these to the kernel; more than one prefix is separated by commas
    #[arg(long, value_name = "PREFIX", value_delimiter = ',')]
    only: Vec<IpNet>,
    /// Run programs that load no library, too, such as statically linked ones
    #[arg(long, conflicts_with = "dns")]
    any: bool,
    /// Look names of hosts up at these servers, not at those of /etc/resolv.conf
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    dns: Vec<IpAddr>,
    /// Route what its sockets send by this routing table, as setfib(1) does
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..16))]
    fib: Option<u8>,
    /// Where programs connect to pantala [default: $PANTALA_APP_SOCKET or /run/pantala/app.sock]
    #[arg(long, value_name = "PATH")]
    app_socket: Option<PathBuf>,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

impl Run {
    /// Becomes the program.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let socket = self.app_socket.or_else(|| env::var_os("PANTALA_APP_SOCKET").map(PathBuf::from));
        let socket = socket.unwrap_or_else(|| DEFAULT_PROGRAM_SOCKET.into());
        let Some((program, arguments)) = self.program.split_first() else {
            return Err(Failure::usage("run needs a program"));
        };
        let file = find(program)
            .ok_or_else(|| Failure::Failed(format!("{}: no such program in the PATH", program.display())))?;
        check(&file, SCRIPTS_MAX, self.any).map_err(Failure::Failed)?;
        hello(&socket).map_err(|why| Failure::Failed(refusal(&socket, &why)))?;
        if self.any {
            let only = self.only.iter().map(|net| (net.network(), net.prefix_len())).collect();
            let set = program::daemon::set_environment(&socket, only, self.fib);
            set.map_err(|why| Failure::Failed(format!("{}: {why}", socket.display())))?;
            let mut command = Command::new(&file);
            command.arg0(program).args(arguments);
            let ended =
                any::run(command).map_err(|why| Failure::Failed(format!("{}: {why}", file.display())))?;
            std::process::exit(ended.into());
        }
        let mut preload = library().into_os_string();
        if let Some(others) = env::var_os("LD_PRELOAD") {
            preload.push(":");
            preload.push(others);
        }
        let mut command = Command::new(&file);
        command.arg0(program).args(arguments).env("LD_PRELOAD", preload).env("PANTALA_APP_SOCKET", &socket);
        let only: Vec<String> = self.only.iter().map(|net| plain(*net)).collect();
        command.env("PANTALA_ONLY", only.join(","));
        if let Some(fib) = self.fib {
            command.env("PANTALA_FIB", fib.to_string());
        }
        let servers: Vec<String> = self.dns.iter().map(IpAddr::to_string).collect();
        command.env("PANTALA_DNS", servers.join(","));
        Err(Failure::Failed(format!("{}: {}", file.display(), command.exec())))
    }
}

fn plain(net: IpNet) -> String {
    let ip: IpAddr = net.network();
    format!("{ip}/{}", net.prefix_len())
}

/// The file of a program, as `execvp` finds it.
fn find(program: &OsString) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 || path.is_absolute() {
        return Some(path.to_owned());
    }
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join(path))
        .find(|file| file.is_file() && access(file, Access::EXEC_OK).is_ok())
}

/// The library beside this program, or else by its name, where the loader looks for libraries.
fn library() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or(&program);
    // A build has it beside the program, a package in the folder of its own libraries.
    let places = [folder.join(LIBRARY), folder.join("../lib/pantala").join(LIBRARY)];
    places.into_iter().find(|file| file.is_file()).unwrap_or_else(|| LIBRARY.into())
}

/// Succeeds if the loader loads libraries into a program before it starts; else says what to do.
fn check(file: &Path, scripts: usize, any: bool) -> Result<(), String> {
    let shown = file.display();
    let about = fs::metadata(file).map_err(|why| format!("{shown}: {why}"))?;
    let (user, is_root) = (rustix::process::getuid().as_raw(), rustix::process::getuid().is_root());
    let gains = if about.mode() & 0o6000 != 0 && about.uid() != user {
        Some(("is set-user-ID or set-group-ID", "run it as the user that it becomes"))
    } else if !is_root && has_capabilities(file) {
        Some(("has capabilities", "run it as root"))
    } else {
        None
    };
    // A filter of calls that root has set up takes no rights away.
    if let Some((is, instead)) = gains.filter(|_| !(any && is_root)) {
        let why = if any { "it gets no rights by that with `--any`" } else { "no library is loaded into it" };
        return Err(format!("{shown} {is}, so {why}; {instead}"));
    }
    let mut start = Vec::new();
    let read = File::open(file).and_then(|file| file.take(1 << 16).read_to_end(&mut start));
    // A program that may be run but not read is tried.
    if read.is_err() {
        return Ok(());
    }
    if let Some(interpreter) = interpreter(&start) {
        return if scripts == 0 { Ok(()) } else { check(&interpreter, scripts - 1, any) };
    }
    if is_go(&start) && !any {
        return Err(format!(
            "{shown} is a program of Go, whose calls no library meets; use `pantala run --any`"
        ));
    }
    if is_static(&start) && !any {
        return Err(format!(
            "{shown} is statically linked, so no library is loaded into it; use `pantala run --any`, or a dynamically linked build of it"
        ));
    }
    Ok(())
}

/// Whether a file gives capabilities to the process that executes it (capabilities(7)).
fn has_capabilities(file: &Path) -> bool {
    rustix::fs::getxattr(file, "security.capability", &mut [0_u8; 64][..]).is_ok()
}

/// The interpreter of a script.
fn interpreter(start: &[u8]) -> Option<PathBuf> {
    let line = start.strip_prefix(b"#!")?;
    let line = line.get(..LINE_MAX.min(line.len()))?.split(|byte| *byte == b'\n').next()?;
    let word = str::from_utf8(line).ok()?.split_whitespace().next()?;
    Some(word.into())
}

/// Whether an ELF file has the note by which Go identifies a build: such a program makes its system calls itself, also if it is
/// dynamically linked.
fn is_go(start: &[u8]) -> bool {
    // The linker puts it into the first page. Bytes of its name and of its contents, its type, and its name.
    let page = start.get(..PAGE).unwrap_or(start);
    let is_note = |note: &[u8]| note.starts_with(b"\x04\0\0\0") && note.ends_with(b"\x04\0\0\0Go\0\0");
    start.starts_with(b"\x7fELF") && page.windows(16).any(is_note)
}

/// Whether an ELF file of this machine's kind names no loader.
fn is_static(start: &[u8]) -> bool {
    const INTERP: u32 = 3;
    let short = |at: usize| start.get(at..at + 2).and_then(|b| Some(u16::from_le_bytes(*b.first_chunk()?)));
    let number = |at: usize| start.get(at..at + 4).and_then(|b| Some(u32::from_le_bytes(*b.first_chunk()?)));
    // 64 bits, little endian.
    if start.get(..6) != Some(b"\x7fELF\x02\x01") {
        return false;
    }
    let (Some(table), Some(size), Some(count)) = (number(32), short(54), short(56)) else { return false };
    let entry = |n: u16| number(table as usize + usize::from(n) * usize::from(size));
    // A table that is further on in the file is not judged.
    let kinds: Option<Vec<u32>> = (0..count).map(entry).collect();
    kinds.is_some_and(|kinds| !kinds.contains(&INTERP))
}

/// Asks the daemon whether this user may.
fn hello(socket: &Path) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(&Request::Hello.emit())?;
    let mut bytes = [0; REPLY_LEN];
    stream.read_exact(&mut bytes)?;
    match Reply::parse(&bytes).map(|reply| reply.errno) {
        Some(0) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn refusal(socket: &Path, why: &io::Error) -> String {
    let (shown, uid) = (socket.display(), rustix::process::getuid().as_raw());
    match why.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "user {uid} may not use pantala (EACCES): `users`, `group` and `mode` in [programs] say which users may"
        ),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => format!(
            "no pantala serves programs at {shown}: start one with a section [programs] in its configuration"
        ),
        _ => format!("{shown}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamically_linked_program_passes_and_a_static_one_does_not() {
        let own = fs::read(env::current_exe().unwrap()).unwrap();
        assert!(!is_static(&own[..1 << 16]));
        let (mut fixed, table) = (own[..1 << 16].to_vec(), 64);
        for at in (table..table + 56 * usize::from(own[56])).step_by(56) {
            if fixed[at] == 3 {
                fixed[at] = 4;
            }
        }
        assert!(is_static(&fixed));
        assert!(!is_static(b"#!/bin/sh\n") && !is_static(&own[..60]));
        let note = b"\x04\0\0\0\x53\0\0\0\x04\0\0\0Go\0\0";
        assert!(is_go(&[b"\x7fELF...", &note[..]].concat()) && !is_go(note) && !is_go(&own));
    }

    #[test]
    fn the_interpreter_of_a_script_is_judged_in_its_place() {
        assert_eq!(interpreter(b"#! /usr/bin/env python3\nx"), Some("/usr/bin/env".into()));
        assert_eq!(interpreter(b"\x7fELF"), None);
        assert_eq!(check(Path::new("/bin/sh"), SCRIPTS_MAX, false), Ok(()));
    }

    #[test]
    fn a_user_that_may_not_is_told_who_may() {
        let says = refusal(Path::new("/x"), &io::Error::from_raw_os_error(13));
        assert!(says.contains("EACCES") && says.contains("[programs]"), "{says}");
        let none = hello(Path::new("/nonexistent/app.sock")).unwrap_err();
        assert!(refusal(Path::new("/x"), &none).contains("no pantala serves programs at /x"));
    }
}
