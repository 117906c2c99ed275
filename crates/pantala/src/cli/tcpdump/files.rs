//! Files of a capture: one, or one after the other by size or time.

use std::path::Path;

use dev::sys::append::RecordFile;
use wire::pcap::{self, Statistics};

use super::strftime::strftime;
use super::{Captured, Failure, Output, output_failed};
use crate::cli::flags::Flags;

/// Bytes in the unit of `-C`.
const MILLION: u64 = 1_000_000;

/// When another file begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rotation {
    /// Bytes of a file.
    bytes: Option<u64>,
    /// Nanoseconds of a file.
    time_ns: Option<u64>,
    /// Files.
    files: Option<u64>,
}

impl Rotation {
    pub(super) fn read(flags: &Flags, write: Option<&str>) -> Result<Self, Failure> {
        let number = |letter| match flags.number::<u64>("tcpdump", letter)? {
            Some(0) => Err(Failure::usage(format!("tcpdump: -{letter} takes 1 or more"))),
            Some(_) if write.is_none_or(|name| name == "-") => {
                Err(Failure::usage(format!("tcpdump: -{letter} needs -w FILE")))
            }
            number => Ok(number),
        };
        let bytes = number('C')?.map(|millions| millions.saturating_mul(MILLION));
        let time_ns = number('G')?.map(|seconds| seconds.saturating_mul(1_000_000_000));
        let files = number('W')?;
        if files.is_some() && bytes.is_none() && time_ns.is_none() {
            return Err(Failure::usage("tcpdump: -W needs -C or -G"));
        }
        Ok(Self { bytes, time_ns, files })
    }
}

pub(super) struct Files {
    name: String,
    rotation: Rotation,
    /// The blocks that each file begins with.
    head: Vec<u8>,
    current: Option<Current>,
    /// Files by size since the last one by time.
    by_size: u64,
    by_time: u64,
    is_full: bool,
}

struct Current {
    path: String,
    file: RecordFile,
    /// Blocks that are written when the part has been read.
    pending: Vec<u8>,
    bytes: u64,
    began_ns: u64,
}

impl Files {
    pub(super) fn new(name: &str, rotation: Rotation) -> Self {
        let (name, head) = (name.to_owned(), Vec::new());
        Self { name, rotation, head, current: None, by_size: 0, by_time: 0, is_full: false }
    }

    /// The name of the next file, as tcpdump has it.
    fn path(&self, at_ns: u64) -> String {
        let Rotation { bytes, time_ns, files } = self.rotation;
        let name =
            if time_ns.is_some() { strftime(&self.name, at_ns / 1_000_000_000) } else { self.name.clone() };
        match files.filter(|_| bytes.is_some() && time_ns.is_none()) {
            Some(files) => {
                let width = (files - 1).to_string().len();
                format!("{name}{:0width$}", self.by_size % files)
            }
            None if self.by_size == 0 => name,
            None => format!("{name}{}", self.by_size),
        }
    }

    /// Begins the file that a packet of this time belongs to.
    fn begin(&mut self, at_ns: u64) -> Result<(), Failure> {
        let path = self.path(at_ns);
        let file =
            RecordFile::create(Path::new(&path), &self.head).map_err(|why| output_failed(&path, &why))?;
        let bytes = self.head.len() as u64;
        self.current = Some(Current { path, file, pending: Vec::new(), bytes, began_ns: at_ns });
        Ok(())
    }

    /// Goes on with another file if it is time, or the file has its size.
    fn rotate(&mut self, at_ns: u64) -> Result<(), Failure> {
        let Some(current) = &mut self.current else { return self.begin(at_ns) };
        let age = at_ns.saturating_sub(current.began_ns);
        if self.rotation.time_ns.is_some_and(|most| age >= most) {
            current.flush()?;
            (self.by_time, self.by_size) = (self.by_time + 1, 0);
            self.is_full = self.rotation.files.is_some_and(|files| self.by_time >= files);
            return if self.is_full { Ok(()) } else { self.begin(at_ns) };
        }
        if self.rotation.bytes.is_some_and(|most| current.bytes > most) {
            current.flush()?;
            self.by_size += 1;
            return self.begin(at_ns);
        }
        Ok(())
    }
}

impl Current {
    fn add(&mut self, block: &[u8]) {
        self.pending.extend_from_slice(block);
        self.bytes += block.len() as u64;
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let written = self.file.append(&self.pending);
        self.pending.clear();
        written.map_err(|why| output_failed(&self.path, &why))
    }
}

impl Output for Files {
    fn head(&mut self, block: &[u8], _out: &mut Vec<u8>) -> Result<(), Failure> {
        self.head.extend_from_slice(block);
        if let Some(current) = &mut self.current {
            current.add(block);
        }
        Ok(())
    }

    fn packet(&mut self, captured: &Captured<'_>, _out: &mut Vec<u8>) -> Result<(), Failure> {
        if !self.is_full {
            self.rotate(captured.packet.at_ns)?;
        }
        if let Some(current) = self.current.as_mut().filter(|_| !self.is_full) {
            current.add(captured.block);
        }
        Ok(())
    }

    fn part_ends(&mut self) -> Result<(), Failure> {
        // The file is there from the beginning on, unless its name depends on the first packet.
        if self.current.is_none() && self.rotation.time_ns.is_none() {
            self.begin(0)?;
        }
        self.current.as_mut().map_or(Ok(()), Current::flush)
    }

    fn is_full(&self) -> bool {
        self.is_full
    }

    fn end(&mut self, counts: Statistics) -> Result<(), Failure> {
        if let Some(current) = &mut self.current {
            pcap::statistics(&mut current.pending, current.began_ns, counts);
            current.flush()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wire::pcap::Packet;

    use super::*;

    /// The files of packets of 1000 bytes, one a second, by name; each with its packets.
    fn files_of(rotation: Rotation, packets: u64) -> Vec<(String, usize)> {
        static NUMBER: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("pantala-tcpdump-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut files = Files::new(folder.join("x%S").to_str().unwrap(), rotation);
        let mut head = Vec::new();
        pcap::section(&mut head);
        files.head(&head, &mut Vec::new()).unwrap();
        for second in 0..packets {
            let at_ns = second * 1_000_000_000;
            let packet =
                Packet { interface: 0, at_ns, len: 1000, bytes: &[0; 1000], direction: None, comment: "" };
            let mut block = Vec::new();
            pcap::packet(&mut block, &packet);
            files
                .packet(
                    &Captured { block: &block, packet, link_type: pcap::ETHERNET, interface: "lan" },
                    &mut Vec::new(),
                )
                .unwrap();
        }
        files.part_ends().unwrap();
        files.end(Statistics::default()).unwrap();
        let mut found: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap()).collect();
        found.sort_by_key(std::fs::DirEntry::file_name);
        let packets = |bytes: Vec<u8>| {
            pcap::Blocks::new(&bytes).filter(|(_, block)| matches!(block, pcap::Block::Packet(_))).count()
        };
        let described = found.iter().map(|entry| {
            (entry.file_name().into_string().unwrap(), packets(std::fs::read(entry.path()).unwrap()))
        });
        let described = described.collect();
        std::fs::remove_dir_all(&folder).unwrap();
        described
    }

    fn named(files: &[(&str, usize)]) -> Vec<(String, usize)> {
        files.iter().map(|(name, packets)| ((*name).to_owned(), *packets)).collect()
    }

    #[test]
    fn files_follow_each_other_by_size_and_by_time_with_tcpdump_s_names() {
        let by_size = Rotation { bytes: Some(2500), ..Rotation::default() };
        assert_eq!(files_of(Rotation::default(), 7), named(&[("x%S", 7)]));
        assert_eq!(files_of(by_size, 7), named(&[("x%S", 3), ("x%S1", 3), ("x%S2", 1)]));
        let by_time = Rotation { time_ns: Some(3_000_000_000), ..Rotation::default() };
        assert_eq!(files_of(by_time, 7), named(&[("x00", 3), ("x03", 3), ("x06", 1)]));
    }

    #[test]
    fn a_ring_of_files_keeps_the_latest_and_a_number_of_files_by_time_ends_the_capture() {
        let ring = Rotation { bytes: Some(1), files: Some(11), time_ns: None };
        let kept = files_of(ring, 13);
        assert_eq!(kept.len(), 11);
        assert_eq!((kept[0].0.as_str(), kept[10].0.as_str()), ("x%S00", "x%S10"));
        let by_time = Rotation { time_ns: Some(3_000_000_000), files: Some(2), bytes: None };
        assert_eq!(files_of(by_time, 9), named(&[("x00", 3), ("x03", 3)]));
    }
}
