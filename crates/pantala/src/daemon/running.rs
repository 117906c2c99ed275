//! The running configuration: the file's text as commands have changed it, what can be undone, and a reload that waits for its
//! confirmation.
//!
//! A command edits the text, which is parsed and checked as a file is, and goes the way of a reload: in force as a whole, or not
//! at all. Only its interfaces are compared with the stack; rules, routes and variables that were changed by hand stay.

#[cfg(test)]
mod tests;

use core::net::IpAddr;
use core::time::Duration;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ipnet::IpNet;
use net::ip6::autoconf::Forget;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::control::Control;
use super::reload::{Failure, Scope};
use super::{locked, log};
use crate::api::{ConfigEdit, ConfigEdits, Error, ErrorKind, ReloadRequest, Reloaded, RunningConfiguration};
use crate::config::document::Document;
use crate::config::problem::Wrong;
use crate::config::{Config, ConfigError, Firewall, Machine, Problems};

/// Changes that can be undone; the oldest is forgotten for another one.
const HISTORY_MAX: usize = 16;
/// Longest time for a confirmation: a day.
const CONFIRM_MAX_S: u32 = 86_400;

/// The running configuration.
#[derive(Default)]
pub(crate) struct RunningConfig {
    /// The file's text when it was read last.
    loaded: String,
    /// The text that is in force.
    text: String,
    /// The oldest first.
    history: VecDeque<Past>,
    /// Number of the next change.
    next: u64,
    rollback: Option<Rollback>,
    /// Told when a rollback is due at another time.
    changed: Arc<Notify>,
}

/// A configuration that was in force.
#[derive(Clone)]
pub(super) struct Snapshot {
    text: String,
    /// Without its firewall.
    config: Config,
    /// Shared by all snapshots that have the same.
    firewall: Option<Arc<Firewall>>,
}

/// A change, and the configuration before it.
struct Past {
    number: u64,
    title: String,
    before: Snapshot,
}

/// A reload that is not confirmed yet.
struct Rollback {
    at: Instant,
    /// The first change that is rolled back with it.
    number: u64,
    before: Snapshot,
}

impl RunningConfig {
    /// The configuration of a text.
    pub(crate) fn of(text: String) -> Self {
        Self { loaded: text.clone(), text, ..Self::default() }
    }

    fn push(&mut self, title: String, before: Snapshot) {
        if self.history.len() == HISTORY_MAX {
            self.history.pop_front();
        }
        self.history.push_back(Past { number: self.next, title, before });
        self.next += 1;
    }

    fn pend(&mut self, rollback: Option<Rollback>) {
        self.rollback = rollback;
        self.changed.notify_one();
    }
}

impl Snapshot {
    fn config(&self) -> Config {
        Config { firewall: self.firewall.as_deref().cloned(), ..self.config.clone() }
    }
}

impl Control {
    /// The running configuration, as the admin API shows it.
    pub(super) fn running_configuration(&self) -> Result<RunningConfiguration, Error> {
        let file = self.file.as_ref().ok_or_else(without_file)?;
        let running = &self.running;
        Ok(RunningConfiguration {
            file: std::path::absolute(file).unwrap_or_else(|_| file.clone()).display().to_string(),
            loaded: running.loaded.clone(),
            running: running.text.clone(),
            history: running.history.iter().rev().map(|past| past.title.clone()).collect(),
            confirm_s: running.rollback.as_ref().map(|rollback| left(rollback.at)),
        })
    }

    /// Changes interfaces, all of the changes or none.
    pub(super) fn edit_interfaces(&mut self, edits: &ConfigEdits) -> Result<Reloaded, Error> {
        if let [ConfigEdit::RemoveAddress { interface, address }] = edits.edits.as_slice()
            && let Some(forgotten) = self.forget_address(interface, *address)?
        {
            return Ok(Reloaded { changes: vec![forgotten] });
        }
        let file = self.file.clone().ok_or_else(without_file)?;
        let names = self.config.interfaces.iter().map(|interface| interface.name.clone()).collect();
        let mut document = Document::parse(&self.running.text, names).map_err(wrong)?;
        edits.edits.iter().try_for_each(|edit| document.edit(edit)).map_err(wrong)?;
        let text = document.text();
        let parsed = Config::parse(&file.display().to_string(), &text, &Machine::here());
        let interfaces = parsed.map_err(|problems| misfit(&problems))?.interfaces;
        let new = Config { interfaces, ..self.config.clone() };
        let before = self.snapshot();
        let changes = self.change_over(new, Scope::Interfaces)?;
        if !changes.is_empty() {
            self.running.push(edits.title.clone(), before);
        }
        self.running.text = text;
        changes.iter().for_each(|change| log::info(change));
        Ok(Reloaded { changes })
    }

    /// Removes an address that autoconfiguration has made, if it is one: no configuration has it.
    fn forget_address(&self, interface: &str, address: IpNet) -> Result<Option<String>, Error> {
        let IpAddr::V6(addr) = address.addr() else { return Ok(None) };
        let own = self.attached.iter().find(|own| own.config.name == interface);
        let Some(own) = own.filter(|own| own.learned.addrs.iter().any(|learned| learned.addr == addr)) else {
            return Ok(None);
        };
        self.forget_of(Some(own.index), Forget::Address(addr))?;
        Ok(Some(format!("interface {interface}: {addr} removed, until a router advertises its prefix again")))
    }

    /// The text in force was written to the file.
    pub(super) fn was_saved(&mut self) -> Result<(), Error> {
        self.file.as_ref().ok_or_else(without_file)?;
        self.running.loaded.clone_from(&self.running.text);
        Ok(())
    }

    /// Takes the last changes back.
    pub(super) fn undo(&mut self, count: u32) -> Result<Reloaded, Error> {
        self.file.as_ref().ok_or_else(without_file)?;
        let there = self.running.history.len();
        let at = there.checked_sub(count as usize).filter(|_| count > 0);
        let Some((at, past)) = at.and_then(|at| Some((at, self.running.history.get(at)?))) else {
            let error = Error::new(ErrorKind::Invalid, format!("cannot undo {count} changes"));
            return Err(error.hint(format!("there are {there}; `config history` lists them")));
        };
        let before = past.before.clone();
        let changes = self.restore(&before)?;
        self.running.history.truncate(at);
        Ok(Reloaded { changes })
    }

    /// Reads the file again, or confirms the last reload.
    pub(super) fn reload_or_confirm(&mut self, request: &ReloadRequest) -> Result<Reloaded, Error> {
        if request.confirmed {
            return self.confirm().map(|()| Reloaded::default());
        }
        let Some(seconds) = request.confirm_s else { return self.reload_file() };
        if !(1..=CONFIRM_MAX_S).contains(&seconds) {
            let error = Error::new(ErrorKind::Invalid, format!("cannot wait {seconds} s for a confirmation"));
            return Err(error.hint(format!("use 1 to {CONFIRM_MAX_S}")));
        }
        let (number, before) = (self.running.next, self.snapshot());
        let reloaded = self.reload_file()?;
        let at = Instant::now() + Duration::from_secs(seconds.into());
        // A second one before the first is confirmed: both are rolled back.
        let first = self.running.rollback.take();
        let (number, before) = first.map_or((number, before), |first| (first.number, first.before));
        self.running.pend(Some(Rollback { at, number, before }));
        log::info(&format!("rolled back in {seconds} s unless confirmed"));
        Ok(reloaded)
    }

    fn confirm(&mut self) -> Result<(), Error> {
        if self.running.rollback.is_none() {
            return Err(Error::new(ErrorKind::NotFound, "no reload waits for a confirmation"));
        }
        self.running.pend(None);
        log::info("the reload is confirmed");
        Ok(())
    }

    /// Goes back to the configuration before a reload that was not confirmed in time.
    fn roll_back_unconfirmed(&mut self) {
        let Some(Rollback { number, before, .. }) = self.running.rollback.take() else { return };
        log::warning("the reload was not confirmed in time: rolling back");
        match self.restore(&before) {
            Ok(changes) => {
                self.running.history.retain(|past| past.number < number);
                changes.iter().for_each(|change| log::info(&format!("rolled back: {change}")));
            }
            Err(why) => log::error(&format!("not rolled back: {why}")),
        }
    }

    /// Puts a configuration that was in force before in force again.
    fn restore(&mut self, before: &Snapshot) -> Result<Vec<String>, Error> {
        let config = before.config();
        let others = Config { interfaces: self.config.interfaces.clone(), ..config.clone() };
        let scope = if others == self.config { Scope::Interfaces } else { Scope::All };
        let changes = self.change_over(config, scope)?;
        self.running.text.clone_from(&before.text);
        Ok(changes)
    }

    /// A reload has read this text.
    pub(super) fn was_reloaded(&mut self, text: String, before: Snapshot, differs: bool) {
        if differs || self.running.text != text {
            self.running.push("reload".to_owned(), before);
        }
        self.running.loaded.clone_from(&text);
        self.running.text = text;
    }

    /// The configuration in force.
    pub(super) fn snapshot(&self) -> Snapshot {
        let last = self.running.history.back().and_then(|past| past.before.firewall.as_ref());
        let own = self.config.firewall.as_ref();
        let same = last.filter(|last| Some(&***last) == own).map(Arc::clone);
        Snapshot {
            text: self.running.text.clone(),
            config: Config { firewall: None, ..self.config.clone() },
            firewall: same.or_else(|| own.cloned().map(Arc::new)),
        }
    }

    fn change_over(&mut self, new: Config, scope: Scope) -> Result<Vec<String>, Error> {
        self.go_over(new, scope).map_err(Failure::told)
    }
}

/// Rolls back reloads that are not confirmed in time, for ever.
pub(super) async fn roll_back(control: &Mutex<Control>) {
    let changed = Arc::clone(&locked(control).running.changed);
    loop {
        let due = locked(control).running.rollback.as_ref().map(|rollback| rollback.at);
        match due {
            None => changed.notified().await,
            Some(at) => tokio::select! {
                () = changed.notified() => {}
                () = sleep_until(at) => locked(control).roll_back_unconfirmed(),
            },
        }
    }
}

/// A configuration file as it was read.
pub(crate) struct Source {
    /// Where it is read again.
    pub(crate) file: PathBuf,
    /// Its text.
    pub(crate) text: String,
}

/// Reads a configuration file: its text, and what it says.
pub(super) fn read(file: &Path) -> Result<(Source, Config), ConfigError> {
    let unreadable = |why| ConfigError::Unreadable { file: file.to_owned(), why };
    let text = std::fs::read_to_string(file).map_err(unreadable)?;
    let config = Config::parse(&file.display().to_string(), &text, &Machine::here())?;
    Ok((Source { file: file.to_owned(), text }, config))
}

pub(super) fn invalid(why: &ConfigError) -> Error {
    Error::new(ErrorKind::Invalid, why.to_string().trim_end().to_owned())
}

pub(super) fn without_file() -> Error {
    let error = Error::new(ErrorKind::Unsupported, "this stack was not started from a file");
    error.hint("the program that embeds it has its configuration")
}

fn wrong(wrong: Wrong) -> Error {
    Error::new(ErrorKind::Invalid, wrong.message).hint(wrong.help)
}

/// Problems after a change: the lines are those of no file.
fn misfit(problems: &Problems) -> Error {
    let (messages, helps): (Vec<&str>, Vec<&str>) =
        problems.list.iter().map(|problem| (&*problem.message, &*problem.help)).unzip();
    Error::new(ErrorKind::Invalid, messages.join("; ")).hint(helps.join("; "))
}

/// Seconds until a time, rounded up.
fn left(at: Instant) -> u64 {
    at.saturating_duration_since(Instant::now()).as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX)
}
