//! The folder of a run: its state after each trial, and its reports.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::record::{Machine, Report, State, Trial};
use super::{html, markdown};
use crate::cli::Failure;

/// The state of a run.
const STATE: &str = "run.json";

/// The folder of a run, if there is one.
pub(super) struct Store {
    folder: Option<PathBuf>,
    state: State,
}

impl Store {
    /// Makes the folder. One with a run in it is not overwritten.
    pub(super) fn open(folder: Option<PathBuf>, state: &State) -> Result<Self, String> {
        if let Some(folder) = &folder {
            fs::create_dir_all(folder).map_err(|why| format!("cannot make {}: {why}", folder.display()))?;
            if state.trials.is_empty() && folder.join(STATE).exists() {
                let shown = folder.display();
                return Err(format!(
                    "{shown} has a run already: --resume {shown} goes on with it, --report NEW begins another"
                ));
            }
        }
        Ok(Self { folder, state: state.clone() })
    }

    /// Writes the state with these trials.
    pub(super) fn keep(&mut self, trials: &[Trial]) -> Result<(), String> {
        let Some(folder) = &self.folder else { return Ok(()) };
        self.state.trials = trials.to_vec();
        let text = serde_json::to_string(&self.state).map_err(|why| why.to_string())?;
        replace(&folder.join(STATE), &text)
    }

    /// Writes the report in each of its forms.
    pub(super) fn report(&self, report: &Report) -> Result<(), String> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let json = serde_json::to_string_pretty(report).map_err(|why| why.to_string())? + "\n";
        replace(&folder.join("report.json"), &json)?;
        replace(&folder.join("report.md"), &markdown::report(report))?;
        replace(&folder.join("report.html"), &html::page(report))
    }
}

/// Reads the run of a folder.
pub(super) fn read(folder: &Path) -> Result<State, String> {
    let path = folder.join(STATE);
    let text = fs::read_to_string(&path).map_err(|why| {
        format!("{}: {why}; --resume needs the folder that --report was given", path.display())
    })?;
    let state: State =
        serde_json::from_str(&text).map_err(|why| format!("{} is no run: {why}", path.display()))?;
    if state.plan.is_readable() {
        Ok(state)
    } else {
        Err(format!("{} is of another version of pantala; begin again in another folder", path.display()))
    }
}

/// Writes a file so that there is always the old one or the new one, whole.
fn replace(path: &Path, text: &str) -> Result<(), String> {
    let beside = path.with_extension("new");
    let write = || -> io::Result<()> {
        let mut file = fs::File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        fs::rename(&beside, path)
    };
    write().map_err(|why| format!("cannot write {}: {why}", path.display()))
}

pub(super) fn json(report: &Report) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(report).map_err(|why| Failure::Failed(why.to_string()))?;
    Ok(text + "\n")
}

/// Seconds since 1970.
pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Says on which machine this is.
pub(super) fn machine() -> Machine {
    let read =
        |path: &str| fs::read_to_string(path).map_or_else(|_| "?".to_owned(), |text| text.trim().to_owned());
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    Machine {
        kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease")),
        processor: model
            .map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, model)| model.trim().to_owned()),
        cpus: std::thread::available_parallelism().map_or(1, core::num::NonZero::get),
    }
}
