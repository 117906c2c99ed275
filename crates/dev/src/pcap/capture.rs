//! A file that is being captured into: it is whole at any time, also where the disk is full.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use pkt::Pkt;

use super::format;

/// Bytes that are written together.
const BATCH: usize = 16 << 10;

/// A capture.
pub(super) struct Capture {
    file: File,
    /// Frames that were not written yet, and how many they are.
    batch: Vec<u8>,
    frames: u64,
    /// Bytes of the file that are whole frames.
    whole: u64,
}

/// Frames that could not be written. The capture has ended in front of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lost(pub(super) u64);

impl Capture {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let (mut file, head) = (File::create(path)?, format::head());
        file.write_all(&head)?;
        Ok(Self { file, batch: Vec::with_capacity(BATCH), frames: 0, whole: head.len() as u64 })
    }

    pub(super) fn frame(&mut self, pkt: &Pkt) -> Result<(), Lost> {
        format::record(&mut self.batch, pkt.len(), pkt.fragments());
        self.frames += 1;
        if self.batch.len() < BATCH { Ok(()) } else { self.flush() }
    }

    /// Writes what waits. What was begun and cannot be ended is taken away again.
    pub(super) fn flush(&mut self) -> Result<(), Lost> {
        let written = self.file.write_all(&self.batch);
        let (len, frames) = (self.batch.len() as u64, core::mem::take(&mut self.frames));
        self.batch.clear();
        if written.is_ok() {
            self.whole += len;
            return Ok(());
        }
        // A file of another kind has no length.
        let _ = self.file.set_len(self.whole);
        Err(Lost(frames))
    }
}
