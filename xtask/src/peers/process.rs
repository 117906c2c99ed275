//! Programs that run beside us for a while and are gone with us, whatever happens.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::run::root;

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Time limit of a program's orderly end.
const END_LIMIT: Duration = Duration::from_secs(3);
/// Length of the examined tail of a program's output: some print a line for each of a million routes.
const SAID_MAX: u64 = 64 * 1024;
/// Between two looks at something that is waited for.
const STEP: Duration = Duration::from_millis(5);

/// From now on Ctrl-C only raises a flag, so that everything can be taken away.
pub fn watch_for_interrupts() -> Result<()> {
    let flag = INTERRUPTED.get_or_init(Arc::default);
    let signals: [c_int; 3] =
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP];
    for signal in signals {
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    Ok(())
}

/// Fails if the user interrupts.
pub fn go_on() -> Result<()> {
    let interrupted = INTERRUPTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed));
    ensure!(!interrupted, "interrupted");
    Ok(())
}

/// Sleeps, and wakes with an error if the user interrupts.
pub fn pause(time: Duration) -> Result<()> {
    wait("", time, || Ok(None::<()>)).map_or_else(|_| go_on(), |()| Ok(()))
}

/// Asks again and again until there is an answer.
///
/// # Errors
///
/// When `limit` has passed, when asking fails, or when the user interrupts.
pub fn wait<T>(what: &str, limit: Duration, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let end = Instant::now() + limit;
    loop {
        go_on()?;
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        let left = end.saturating_duration_since(Instant::now());
        ensure!(!left.is_zero(), "no {what} within {limit:?}");
        std::thread::sleep(left.min(STEP));
    }
}

/// A command that runs on one CPU, and that dies with us even if we are killed.
pub fn on_cpu(cpu: usize, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = mortal("taskset");
    command.args(["--cpu-list", &cpu.to_string()]).arg(program);
    command
}

/// A command that dies with us even if we are killed.
pub fn mortal(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program);
    command
}

/// A program that is running. Dropped, it is ended.
pub struct Running {
    child: Child,
    name: String,
}

impl Running {
    /// Starts a command of [`on_cpu`] or [`mortal`]. What it says goes to `target/peers/NAME.log`.
    pub fn start(name: &str, mut command: Command) -> Result<Self> {
        let log = log(name);
        std::fs::create_dir_all(log.parent().unwrap_or(&log))?;
        let out = File::create(&log)?;
        // Some end when they can read nothing any more, so there is a pipe that stays open.
        command.stdin(Stdio::piped()).stderr(out.try_clone()?).stdout(out);
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        Ok(Self { child, name: name.to_owned() })
    }

    /// Waits until the program has said `words`.
    pub fn says(&mut self, words: &str, limit: Duration) -> Result<()> {
        self.until(words, limit, |text| text.contains(words).then_some(()))
    }

    /// Waits until `answer` finds something in what the program has said so far, or somewhere else.
    pub fn until<T>(&mut self, what: &str, limit: Duration, answer: impl Fn(&str) -> Option<T>) -> Result<T> {
        let name = self.name.clone();
        let look = || {
            let found = answer(&said(&name));
            if found.is_none() {
                self.is_alive()?;
            }
            Ok(found)
        };
        wait(what, limit, look).with_context(|| format!("{name} ({})", log(&name).display()))
    }

    /// Waits until the program ends by itself, and answers what it has said.
    pub fn finish(mut self, limit: Duration) -> Result<String> {
        let status = wait("end", limit, || Ok(self.child.try_wait()?)).with_context(|| self.name.clone())?;
        ensure!(status.success(), "{} ended with {status}: {}", self.name, last_words(&self.name));
        Ok(said(&self.name))
    }

    /// Fails if the program has ended.
    pub fn is_alive(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended with {status}: {}", self.name, last_words(&self.name));
        }
        Ok(())
    }

    /// Writes to its standard input.
    pub fn tell(&mut self, words: &str) -> Result<()> {
        let stdin = self.child.stdin.as_mut().context("its standard input is closed")?;
        Ok(stdin.write_all(words.as_bytes())?)
    }

    /// The last that it has said.
    pub fn said(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&tail(&log(&self.name))?).into_owned())
    }

    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks the program to end, and waits for it.
    pub fn end(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.signal(Signal::INT);
            let asked = Instant::now();
            while matches!(self.child.try_wait(), Ok(None)) && asked.elapsed() < END_LIMIT {
                std::thread::sleep(STEP);
            }
        }
        // One that has ended is not killed twice: the child is not yet collected, or `kill` does nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Where a program's output is kept.
pub fn log(name: &str) -> PathBuf {
    root().join("target/peers").join(name).with_extension("log")
}

/// Returns the program's recent output.
fn said(name: &str) -> String {
    tail(&log(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn tail(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(SAID_MAX)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn last_words(name: &str) -> String {
    let text = said(name);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").to_owned()
}
