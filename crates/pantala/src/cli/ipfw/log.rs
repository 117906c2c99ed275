//! `ipfw log`: packets that rules with `log` matched.

use core::time::Duration;
use std::io;
use std::path::{Path, PathBuf};

use dev::sys::append::RecordFile;

use super::pcapng;
use crate::api::FirewallLog;
use crate::api::client::escaped;
use crate::cli::flags::Flags;
use crate::cli::{Failure, Session};

/// Polling interval.
const EVERY: Duration = Duration::from_millis(250);

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Log {
    follow: bool,
    write: Option<PathBuf>,
}

impl Log {
    pub(super) fn read(words: &[String]) -> Result<Self, Failure> {
        let flags = Flags::read("ipfw log", words, "f", "w")?;
        flags.no_operands("ipfw log")?;
        Ok(Self { follow: flags.has('f'), write: flags.value('w').map(PathBuf::from) })
    }

    pub(super) fn run(self, session: &mut Session<'_>) -> Result<(), Failure> {
        let mut file = self.write.as_deref().map(Packets::create).transpose()?;
        let mut path = "/v1/firewall/log".to_owned();
        loop {
            let log: FirewallLog = session.client.get(&path)?;
            if log.lost > 0 {
                session.term.complain(&format!(
                    "pantala: {} records were overwritten before they were read",
                    log.lost
                ));
            }
            match &mut file {
                Some(file) => file.append(&log)?,
                None if session.json && !self.follow => return session.show(&log, |_| String::new()),
                None => show(&log, session)?,
            }
            if !self.follow {
                return Ok(());
            }
            path = format!("/v1/firewall/log?after={}", escaped(&log.next));
            std::thread::sleep(EVERY);
        }
    }
}

/// A file of the packets, for tcpdump and wireshark.
struct Packets<'p> {
    path: &'p Path,
    file: RecordFile,
}

impl<'p> Packets<'p> {
    fn create(path: &'p Path) -> Result<Self, Failure> {
        let file = RecordFile::create(path, &pcapng::head()).map_err(|why| cannot_write(path, &why))?;
        Ok(Self { path, file })
    }

    /// Writes each record as a whole, or ends with the last one that was.
    fn append(&mut self, log: &FirewallLog) -> Result<(), Failure> {
        let mut records = log.records.iter().map(pcapng::packet);
        records.try_for_each(|record| self.file.append(&record)).map_err(|why| cannot_write(self.path, &why))
    }
}

fn cannot_write(path: &Path, why: &io::Error) -> Failure {
    Failure::Failed(format!("cannot write {}: {why}", path.display()))
}

/// A line for each record: text, or with `--json` a value.
fn show(log: &FirewallLog, session: &mut Session<'_>) -> Result<(), Failure> {
    let mut text = String::new();
    for record in &log.records {
        if session.json {
            text += &serde_json::to_string(record).map_err(|why| Failure::Failed(why.to_string()))?;
        } else {
            text += &record.text;
        }
        text.push('\n');
    }
    Ok(session.term.show(&text)?)
}
