//! A file that grows by whole records, also where the disk is full.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// A file to which records are appended. It never ends within one.
#[derive(Debug)]
pub struct RecordFile {
    file: File,
    /// Bytes of the file that are whole records.
    whole: u64,
}

impl RecordFile {
    /// Makes the file, empty, and writes its head.
    ///
    /// # Errors
    /// The errors of the kernel. A file that has no room for its head is left empty.
    pub fn create(path: &Path, head: &[u8]) -> io::Result<Self> {
        let mut file = Self { file: File::create(path)?, whole: 0 };
        file.append(head)?;
        Ok(file)
    }

    /// Writes one record, or several that belong together. What was begun and cannot be ended is taken away again.
    ///
    /// # Errors
    /// The errors of the kernel, `StorageFull` where the disk is full.
    pub fn append(&mut self, records: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(records);
        match written {
            Ok(()) => self.whole += records.len() as u64,
            // A file of another kind has no length.
            Err(_) => _ = self.file.set_len(self.whole),
        }
        written
    }
}
