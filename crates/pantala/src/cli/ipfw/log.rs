//! `ipfw log`: packets that rules with `log` matched.

use core::time::Duration;
use std::io;
use std::path::{Path, PathBuf};

use dev::sys::append::RecordFile;
use wire::pcap;

use crate::api::client::escaped;
use crate::api::{FirewallLog, FirewallLogRecord};
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
        let mut head = Vec::new();
        pcap::section(&mut head);
        pcap::interface(&mut head, pcap::RAW, "");
        let file = RecordFile::create(path, &head).map_err(|why| cannot_write(path, &why))?;
        Ok(Self { path, file })
    }

    /// Writes each record as a whole, or ends with the last one that was.
    fn append(&mut self, log: &FirewallLog) -> Result<(), Failure> {
        let mut records = log.records.iter().map(packet);
        records.try_for_each(|record| self.file.append(&record)).map_err(|why| cannot_write(self.path, &why))
    }
}

/// A packet, as far as the log has it, with its line of log as a comment.
fn packet(record: &FirewallLogRecord) -> Vec<u8> {
    let mut block = Vec::new();
    let packet = pcap::Packet {
        interface: 0,
        at_ns: record.at_ns,
        len: record.length,
        bytes: &unhex(&record.snap),
        direction: None,
        comment: &record.text,
    };
    pcap::packet(&mut block, &packet);
    block
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map_while(byte).collect()
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
