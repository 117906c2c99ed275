//! Leases on disk: a journal that is only appended to, and written anew when most of it is old.
//!
//! A line is a change: `ADDRESS MAC CLIENT EXPIRES NAME`, the client in hexadecimal digits, the time in seconds since 1970, 0 for
//! a lease that has ended. The last line of an address counts. A line that was cut off by a crash is no line.

use core::fmt::Write as _;
use core::net::Ipv4Addr;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use wire::ether::Mac;

/// Lines beyond those of leases until the file is written anew.
const SLACK: usize = 1000;

/// A lease that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// Link address of the client.
    pub(crate) mac: Mac,
    /// The client, as it names itself.
    pub(crate) client: Vec<u8>,
    /// Seconds since 1970.
    pub(crate) expires: u64,
    /// The client's name for itself; empty if it says none.
    pub(crate) name: String,
}

/// The file, and what it says.
#[derive(Debug)]
pub(crate) struct Leases {
    path: PathBuf,
    file: File,
    lines: usize,
    all: BTreeMap<Ipv4Addr, Lease>,
}

impl Leases {
    /// Reads the file, and writes it anew without what is old.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let text = match std::fs::read(path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other?,
        };
        let (all, path) = (read(&text), path.to_owned());
        match write_anew(&path, &all) {
            // What is known is not given up because the disk is full.
            Err(why) if is_full(&why) && !text.is_empty() => {
                let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                let file = OpenOptions::new().append(true).open(&path)?;
                file.set_len(whole as u64)?;
                let lines = text.iter().filter(|byte| **byte == b'\n').count();
                Ok(Self { path, file, lines, all })
            }
            file => Ok(Self { path, file: file?, lines: all.len(), all }),
        }
    }

    pub(crate) const fn all(&self) -> &BTreeMap<Ipv4Addr, Lease> {
        &self.all
    }

    pub(crate) fn get(&self, addr: Ipv4Addr) -> Option<&Lease> {
        self.all.get(&addr)
    }

    /// The lease of a client.
    pub(crate) fn of(&self, client: &[u8]) -> Option<(Ipv4Addr, &Lease)> {
        self.all.iter().find(|(_, lease)| lease.client == client).map(|(addr, lease)| (*addr, lease))
    }

    /// Notes a lease, on disk before it returns: what is promised to a client is never forgotten.
    //= https://www.rfc-editor.org/rfc/rfc2131#section-4.3.1
    pub(crate) fn put(&mut self, addr: Ipv4Addr, lease: Lease) -> io::Result<()> {
        self.append(&line(addr, &lease))?;
        self.all.insert(addr, lease);
        self.tidy();
        Ok(())
    }

    /// Ends a lease.
    pub(crate) fn remove(&mut self, addr: Ipv4Addr) -> io::Result<()> {
        let Some(lease) = self.all.get(&addr) else { return Ok(()) };
        self.append(&line(addr, &Lease { expires: 0, ..lease.clone() }))?;
        self.all.remove(&addr);
        self.tidy();
        Ok(())
    }

    /// Appends a line whole, or not at all.
    fn append(&mut self, line: &str) -> io::Result<()> {
        let before = self.file.metadata()?.len();
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        if written.is_err() {
            // A disk that was full may have taken a part of it.
            let _ = self.file.set_len(before);
        }
        self.lines += 1;
        written
    }

    /// Writes the file anew when most of it is old. Where there is no room for that, the old one goes on, and it is tried again later.
    fn tidy(&mut self) {
        if self.lines <= 2 * self.all.len() + SLACK {
            return;
        }
        match write_anew(&self.path, &self.all) {
            Ok(file) => (self.file, self.lines) = (file, self.all.len()),
            Err(_) => self.lines -= SLACK / 2,
        }
    }
}

/// Whether it is the error of a disk without room.
fn is_full(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Writes another file, and puts it in the place of the old one. It is as before unless this succeeds.
fn write_anew(path: &Path, all: &BTreeMap<Ipv4Addr, Lease>) -> io::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let mut file = File::create(&new)?;
    let text: String = all.iter().map(|(addr, lease)| line(*addr, lease)).collect();
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    let file = OpenOptions::new().append(true).open(&new)?;
    std::fs::rename(&new, path)?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        // The new file is in place, whether its name outlives a crash or not.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
    Ok(file)
}

fn line(addr: Ipv4Addr, lease: &Lease) -> String {
    let mut text = format!("{addr} {} ", lease.mac);
    // A String takes all that is written.
    lease.client.iter().for_each(|byte| _ = write!(text, "{byte:02x}"));
    let name = if lease.name.is_empty() { "-" } else { &lease.name };
    let _ = writeln!(text, " {} {name}", lease.expires);
    text
}

fn read(text: &[u8]) -> BTreeMap<Ipv4Addr, Lease> {
    let mut all = BTreeMap::new();
    // What has no end of line was cut off.
    for line in text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
        match core::str::from_utf8(line).ok().and_then(read_line) {
            Some((addr, Lease { expires: 0, .. })) => _ = all.remove(&addr),
            Some((addr, lease)) => _ = all.insert(addr, lease),
            None => {}
        }
    }
    all
}

fn read_line(line: &str) -> Option<(Ipv4Addr, Lease)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [addr, mac, client, expires, name] = words[..] else { return None };
    let digits = client.as_bytes().chunks(2).map(core::str::from_utf8);
    let client: Option<Vec<u8>> = digits.map(|pair| u8::from_str_radix(pair.ok()?, 16).ok()).collect();
    let name = if name == "-" { "" } else { name }.to_owned();
    let lease = Lease { mac: mac.parse().ok()?, client: client?, expires: expires.parse().ok()?, name };
    Some((addr.parse().ok()?, lease))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("pt-leases-{name}-{}", std::process::id()))
    }

    fn lease(last: u8, name: &str) -> (Ipv4Addr, Lease) {
        let mac = Mac([2, 0, 0, 0, 0, last]);
        let lease = Lease { mac, client: vec![1, last], expires: 1000, name: name.to_owned() };
        (Ipv4Addr::new(192, 0, 2, last), lease)
    }

    #[test]
    fn leases_are_there_again_after_any_end_and_a_line_that_was_cut_off_is_none() {
        let path = path("cut");
        let mut leases = Leases::open(&path).unwrap();
        for (addr, lease) in [lease(1, "one"), lease(2, ""), lease(3, "three")] {
            leases.put(addr, lease).unwrap();
        }
        leases.remove(lease(3, "").0).unwrap();
        let before = leases.all().clone();
        drop(leases);
        let whole = std::fs::read(&path).unwrap();
        let next = line(lease(4, "four").0, &lease(4, "four").1);
        for cut in 0..next.len() {
            std::fs::write(&path, [&whole[..], &next.as_bytes()[..cut]].concat()).unwrap();
            assert_eq!(*Leases::open(&path).unwrap().all(), before, "{cut}");
        }
        assert_eq!(before.len(), 2);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_file_does_not_grow_with_renewals() {
        let path = path("grow");
        let mut leases = Leases::open(&path).unwrap();
        let (addr, lease) = lease(1, "one");
        for expires in 1..3 * SLACK as u64 {
            leases.put(addr, Lease { expires, ..lease.clone() }).unwrap();
        }
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= SLACK + 3, "{lines}");
        assert_eq!(Leases::open(&path).unwrap().get(addr).unwrap().expires, 3 * SLACK as u64 - 1);
        std::fs::remove_file(&path).unwrap();
    }
}
