//! A file that is being captured into: it is whole at any time, also where the disk is full.

use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use pkt::Pkt;

use wire::pcap;

use crate::sys::append::RecordFile;

/// Bytes that are written together.
const BATCH: usize = 16 << 10;

/// A capture.
pub(super) struct Capture {
    file: RecordFile,
    /// Frames that were not written yet, and how many they are.
    batch: Vec<u8>,
    frames: u64,
}

/// Frames that could not be written. The capture has ended in front of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lost(pub(super) u64);

impl Capture {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut batch = Vec::with_capacity(BATCH);
        pcap::classic_head(&mut batch);
        let file = RecordFile::create(path, &batch)?;
        batch.clear();
        Ok(Self { file, batch, frames: 0 })
    }

    /// Appends a frame, stamped with the time of writing.
    pub(super) fn frame(&mut self, pkt: &Pkt) -> Result<(), Lost> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        pcap::classic_record(&mut self.batch, at_ns, [pkt.len(); 2], pkt.fragments());
        self.frames += 1;
        if self.batch.len() < BATCH { Ok(()) } else { self.flush() }
    }

    /// Writes what waits.
    pub(super) fn flush(&mut self) -> Result<(), Lost> {
        let written = self.file.append(&self.batch);
        let frames = core::mem::take(&mut self.frames);
        self.batch.clear();
        written.map_err(|_| Lost(frames))
    }
}
