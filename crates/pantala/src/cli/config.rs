//! `pantala config`: the running configuration beside its file.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::{Failure, Session};
use crate::api::{Reloaded, RunningConfiguration, UndoRequest};
use crate::config::DEFAULT_FILE;

mod diff;

pub(crate) const HELP: &str = "\
Commands like `ifconfig IF ADDRESS alias` change the running configuration.
`save` writes it to its file, with the comments of the file; `reload` goes back
to the file. `undo` takes changes back, reloads too.

Examples:
  pantala config diff
  pantala config save
  pantala config undo 2";

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Print the running configuration
    Show,
    /// Show what `save` would change in the file
    Diff,
    /// Write the running configuration to its file
    Save {
        /// Overwrite the file even if it was changed since it was read
        #[arg(short, long)]
        force: bool,
    },
    /// Check a configuration file and change nothing, as `pantala check`
    Check {
        /// The file
        #[arg(short, long, value_name = "FILE", default_value = DEFAULT_FILE)]
        config: PathBuf,
    },
    /// List the changes that can be undone, the last one first
    History,
    /// Take the last changes back
    Undo {
        /// Number of changes to undo
        #[arg(value_name = "N", default_value_t = 1)]
        count: u32,
    },
}

impl Config {
    pub(crate) fn run(self, session: &mut Session<'_>) -> Result<(), Failure> {
        match self {
            Self::Show => {
                let configuration = get(session)?;
                session.show(&configuration, |configuration| configuration.running.clone())
            }
            Self::Diff => {
                let configuration = get(session)?;
                let on_disk = read(&configuration.file)?;
                let lines = diff::lines(&on_disk, &configuration.running);
                session.show(&lines, |lines| diff::text(&configuration.file, lines))
            }
            Self::Save { force } => save(session, force),
            Self::Check { config } => super::check::run(&config, session.json, session.term),
            Self::History => {
                let history = get(session)?.history;
                session.show(&history, |history| {
                    let line = |(n, title): (usize, &String)| format!("{:>3} {title}\n", n + 1);
                    history.iter().enumerate().map(line).collect()
                })
            }
            Self::Undo { count } => {
                let undone: Reloaded = session.client.post("/v1/config/undo", &UndoRequest { count })?;
                changes(session, &undone)
            }
        }
    }
}

/// Shows what differs now.
pub(super) fn changes(session: &mut Session<'_>, reloaded: &Reloaded) -> Result<(), Failure> {
    session.show(reloaded, |reloaded| match reloaded.changes.as_slice() {
        [] => "nothing differs\n".to_owned(),
        changes => changes.iter().map(|change| format!("{change}\n")).collect(),
    })
}

fn get(session: &Session<'_>) -> Result<RunningConfiguration, Failure> {
    Ok(session.client.get("/v1/config")?)
}

fn read(file: &str) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|why| Failure::Failed(format!("{file}: {why}")))
}

/// Written by this command and not by the daemon, which need not have the right to write its file.
fn save(session: &mut Session<'_>, force: bool) -> Result<(), Failure> {
    let RunningConfiguration { file, loaded, running, confirm_s, .. } = get(session)?;
    if confirm_s.is_some() {
        let why = "a reload waits for its confirmation; `pantala reload --confirmed` first";
        return Err(Failure::Failed(why.to_owned()));
    }
    let on_disk = read(&file)?;
    if on_disk != loaded && on_disk != running && !force {
        return Err(Failure::Failed(format!(
            "{file} was changed since it was read\n         `pantala config diff` shows the difference; `config save -f` overwrites it"
        )));
    }
    if on_disk != running {
        replace(Path::new(&file), &running).map_err(|why| Failure::Failed(format!("{file}: {why}")))?;
    }
    let () = session.client.post("/v1/config/saved", &())?;
    session.done(&format!("written to {file}\n"))
}

/// Replaces the contents of a file in one step; its mode and owner stay.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let file = file.canonicalize()?;
    let mut name = file.clone().into_os_string();
    name.push(".new");
    let before = fs::metadata(&file)?;
    let mut new = fs::File::create(&name)?;
    let written = new
        .set_permissions(before.permissions())
        .and_then(|()| owned_as(&new, &before))
        .and_then(|()| new.write_all(text.as_bytes()))
        .and_then(|()| new.sync_all())
        .and_then(|()| fs::rename(&name, &file));
    if written.is_err() {
        _ = fs::remove_file(&name);
    }
    written
}

fn owned_as(new: &fs::File, before: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let own = new.metadata()?;
    if (own.uid(), own.gid()) == (before.uid(), before.gid()) {
        return Ok(());
    }
    fchown(new, Some(before.uid()), Some(before.gid()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_replaced_and_keeps_its_mode() {
        let file = std::env::temp_dir().join(format!("pantala-save-{}.toml", std::process::id()));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&file, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(!file.with_extension("toml.new").exists());
        fs::remove_file(&file).unwrap();
    }
}
