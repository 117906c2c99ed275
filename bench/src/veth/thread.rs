//! Processor time of a thread.

use core::time::Duration;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// A thread, of this process or another.
#[derive(Clone, Debug)]
pub struct Thread(PathBuf);

impl Thread {
    /// The calling thread.
    ///
    /// # Errors
    /// When `/proc` is not there.
    pub fn current() -> Result<Self> {
        Ok(Self(PathBuf::from("/proc").join(std::fs::read_link("/proc/thread-self")?)))
    }

    /// The thread of a process whose name begins so.
    ///
    /// # Errors
    /// When there is none.
    pub fn named(process: u32, name: &str) -> Result<Self> {
        for task in std::fs::read_dir(format!("/proc/{process}/task"))? {
            let path = task?.path();
            if std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.starts_with(name)) {
                return Ok(Self(path));
            }
        }
        anyhow::bail!("process {process} has no thread {name}")
    }

    /// The kernel's thread whose name begins so.
    ///
    /// # Errors
    /// When there is none.
    pub fn of_kernel(name: &str) -> Result<Self> {
        for process in std::fs::read_dir("/proc")? {
            let path = process?.path();
            if std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.starts_with(name)) {
                return Ok(Self(path));
            }
        }
        anyhow::bail!("the kernel has no thread {name}")
    }

    /// Returns its processor time, with the interrupts meanwhile.
    ///
    /// # Errors
    /// When it has ended.
    pub fn ran(&self) -> Result<Duration> {
        let text = std::fs::read_to_string(self.0.join("schedstat"))?;
        let first = text.split_whitespace().next().context("an empty schedstat")?;
        Ok(Duration::from_nanos(first.parse()?))
    }
}
