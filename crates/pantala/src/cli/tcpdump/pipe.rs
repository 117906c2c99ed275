//! A capture into a pipe whose reader wants its beginning at once, as Wireshark does.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

use super::{Captured, Failure, Output, output_failed};

pub(super) struct Pipe {
    name: String,
    file: File,
    /// Blocks that are written when the part has been read.
    pending: Vec<u8>,
    is_closed: bool,
}

impl Pipe {
    /// Opens the pipe, and waits for its reader.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let file = File::options().write(true).open(path).map_err(|why| output_failed(&name, &why))?;
        Ok(Self { name, file, pending: Vec::new(), is_closed: false })
    }

    /// The reader ends the capture by closing its end.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match self.file.write_all(bytes) {
            Err(why) if why.kind() == ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            done => done.map_err(|why| output_failed(&self.name, &why)),
        }
    }
}

impl Output for Pipe {
    fn head(&mut self, block: &[u8], _out: &mut Vec<u8>) -> Result<(), Failure> {
        self.write(block)
    }

    fn packet(&mut self, captured: &Captured<'_>, _out: &mut Vec<u8>) -> Result<(), Failure> {
        self.pending.extend_from_slice(captured.block);
        Ok(())
    }

    fn part_ends(&mut self) -> Result<(), Failure> {
        let blocks = core::mem::take(&mut self.pending);
        self.write(&blocks)
    }

    fn is_full(&self) -> bool {
        self.is_closed
    }
}
