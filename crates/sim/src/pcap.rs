//! Recording of a cable, to be looked at with tcpdump or Wireshark.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use net::time::Instant;
use wire::pcap;

/// Bytes of frames that a tape holds at the most; the oldest frames go first.
const BYTES_MAX: usize = 8 << 20;
/// The last frames on a cable.
#[derive(Debug, Default)]
pub struct Tape {
    frames: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    forgotten: u64,
    digest: u64,
}

impl Tape {
    /// Writes a frame down.
    pub fn record(&mut self, now: Instant, frame: &[u8]) {
        self.mix(now.ns());
        frame.chunks(8).for_each(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        });
        self.bytes += frame.len();
        self.frames.push_back((now, frame.to_vec()));
        while self.bytes > BYTES_MAX
            && let Some((_, oldest)) = self.frames.pop_front()
        {
            self.bytes -= oldest.len();
            self.forgotten += 1;
        }
    }

    /// A number that follows from every frame and its time: two runs are the same if it is.
    #[must_use]
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// The frames, oldest first, and when they were sent.
    pub fn frames(&self) -> impl Iterator<Item = (Instant, &[u8])> {
        self.frames.iter().map(|(at, frame)| (*at, &**frame))
    }

    /// Frames that were too long ago to be kept.
    #[must_use]
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Writes the file.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = Vec::with_capacity(self.bytes);
        pcap::classic_head(&mut file);
        for (at, frame) in self.frames() {
            pcap::classic_record(&mut file, at.ns(), [frame.len(); 2], core::iter::once(frame));
        }
        std::fs::write(path, file)
    }

    const fn mix(&mut self, word: u64) {
        self.digest = (self.digest ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }
}
