//! Runs commands: output to a log, what matters to the terminal, and never longer than allowed.

use core::time::Duration;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::lint;
use crate::tally::{Reader, is_ignored_with_a_reason, is_skip};

/// The result of a command.
pub struct Finished {
    pub status: ExitStatus,
    /// It was stopped because its time was up.
    pub timed_out: bool,
    pub tests: Reader,
    pub log: PathBuf,
    pub elapsed: Duration,
}

/// Lines of a failed command that are shown.
pub const GIST_LINES: usize = 150;

/// The project's top directory.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Builds a program of `sim` as the tests of the workspace are built, and returns its path. Built for itself alone, libraries would have
/// other features, and all above them would be built once more.
///
/// # Errors
///
/// It does not build.
pub fn program_of_tests(name: &str, limit: Duration) -> Result<PathBuf> {
    // One of the tests that run the programs of `sim`.
    let command = lint::cargo(["test", "--workspace", "--no-run", "--test", "worlds"])?;
    let done = follow(&format!("{name}-build"), command, limit)?;
    anyhow::ensure!(done.status.success(), "{name} does not build:\n{}", gist(&done.log));
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("debug").join(name))
}

/// A `cargo` of the toolchain that runs us, in the project's top directory.
pub fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    // What is built once is built in three quarters of the time without notes for the next time, and in half of the space.
    if std::env::var_os("CARGO_INCREMENTAL").is_none() && !is_worked_on(&root().join("target")) {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Whether crates in this target directory are built again and again, as by developers.
fn is_worked_on(target: &Path) -> bool {
    let notes = std::fs::read_dir(target.join("debug/incremental"));
    notes.is_ok_and(|mut notes| {
        notes.any(|note| note.is_ok_and(|note| note.file_name().as_encoded_bytes().starts_with(b"net-")))
    })
}

/// Whether `program` can be found.
pub fn has(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    // Debian keeps what only root needs apart, and not in everybody's PATH.
    let sbin = ["/usr/sbin".into(), "/sbin".into()];
    std::env::split_paths(&paths).chain(sbin).any(|dir| dir.join(program).is_file())
}

/// Where the output of the command of this name is kept.
pub fn log(name: &str) -> PathBuf {
    root().join("target/xtask").join(name).with_extension("log")
}

/// Runs `command` for at most `limit`. Its output is kept in `target/xtask/NAME.log`.
pub fn follow(name: &str, mut command: Command, limit: Duration) -> Result<Finished> {
    let started = Instant::now();
    let log = log(name);
    std::fs::create_dir_all(log.parent().unwrap_or(&log))?;
    let (output, input) = std::io::pipe()?;
    command.stdin(std::process::Stdio::null()).stdout(input.try_clone()?).stderr(input);
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    // The command holds the writing ends of the pipe: without them the output ends with the children.
    drop(command);
    let mut tests = Reader::default();
    let timed_out = !copy(lines(output), &mut tests, &log, started + limit)?;
    if timed_out {
        eprintln!("  stopped: not done after {} s", limit.as_secs());
        stop(&child);
    }
    Ok(Finished { status: child.wait()?, timed_out, tests, log, elapsed: started.elapsed() })
}

/// Runs `command` to its end and answers what it prints. For commands that are over at once.
pub fn capture(mut command: Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the useful part of a failed command's log: messages of failed tests, else the last lines.
pub fn gist(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let failures: Vec<&str> =
        text.lines().scan(false, |inside, line| Some(failure(inside, line))).flatten().collect();
    if !failures.is_empty() {
        return failures[..failures.len().min(GIST_LINES)].join("\n");
    }
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(GIST_LINES)..].join("\n")
}

/// The line, if it stands between a test binary's "failures:" and its result.
fn failure<'l>(inside: &mut bool, line: &'l str) -> Option<&'l str> {
    if line == "failures:" {
        *inside = true;
    } else if line.starts_with("test result:") {
        *inside = false;
    }
    inside.then_some(line)
}

/// The lines of `output`, as they come.
fn lines(output: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::sync_channel(1024);
    std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Whether the lines ended before `deadline`.
fn copy(lines: Receiver<String>, tests: &mut Reader, log: &Path, deadline: Instant) -> Result<bool> {
    let mut log = File::create(log)?;
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                tests.line(&line);
                writeln!(log, "{line}")?;
                if is_worth_showing(&line) {
                    println!("    {}", line.trim());
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(true),
            Err(RecvTimeoutError::Timeout) => return Ok(false),
        }
    }
}

fn is_worth_showing(line: &str) -> bool {
    is_skip(line) || is_ignored_with_a_reason(line) || line.starts_with("test ") && line.ends_with("FAILED")
}

/// Stops a child and all that it started, one by one: first asked, then made to.
fn stop(child: &Child) {
    for signal in ["-TERM", "-KILL"] {
        for pid in descendants(child.id()) {
            // One that is gone already is no failure.
            let _ = Command::new("kill")
                .args([signal, &pid.to_string()])
                .stderr(std::process::Stdio::null())
                .status();
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// A process, and the processes below it.
fn descendants(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect();
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| pid));
        at += 1;
    }
    found
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // "PID (NAME) STATE PARENT …", and a name may hold anything.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_directory_with_notes_of_the_stack_is_worked_on() {
        let target = std::env::temp_dir().join(format!("pantala-worked-on-{}", std::process::id()));
        assert!(!is_worked_on(&target));
        for (crate_, expected) in [("xtask-1a2b", false), ("net-3c4d", true)] {
            std::fs::create_dir_all(target.join("debug/incremental").join(crate_)).unwrap();
            assert_eq!(is_worked_on(&target), expected, "{crate_}");
        }
        std::fs::remove_dir_all(target).unwrap();
    }
}
