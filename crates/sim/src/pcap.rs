//! Recording of a cable, to be looked at with tcpdump or Wireshark.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::Path;

use net::time::Instant;

/// Bytes of frames that a tape holds at the most; the oldest frames go first.
const BYTES_MAX: usize = 8 << 20;
/// A pcap file with time stamps in nanoseconds.
const MAGIC: u32 = 0xa1b2_3c4d;
/// Link type Ethernet.
const ETHERNET: u32 = 1;
/// Bytes of a frame that are kept: longer ones are cut off in the file.
const SNAP_LEN: u32 = 1 << 18;

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
        let mut out = io::BufWriter::new(std::fs::File::create(path)?);
        let (version, zone, accuracy) = ([2_u16, 4], 0_u32, 0_u32);
        out.write_all(&MAGIC.to_le_bytes())?;
        out.write_all(&[version[0].to_le_bytes(), version[1].to_le_bytes()].concat())?;
        for word in [zone, accuracy, SNAP_LEN, ETHERNET] {
            out.write_all(&word.to_le_bytes())?;
        }
        for (at, frame) in &self.frames {
            write_frame(&mut out, *at, frame)?;
        }
        out.flush()
    }

    const fn mix(&mut self, word: u64) {
        self.digest = (self.digest ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }
}

fn write_frame(out: &mut impl Write, at: Instant, frame: &[u8]) -> io::Result<()> {
    let kept = frame.len().min(SNAP_LEN as usize);
    let words = [at.ns() / 1_000_000_000, at.ns() % 1_000_000_000, kept as u64, frame.len() as u64];
    for word in words {
        out.write_all(&u32::try_from(word).unwrap_or(u32::MAX).to_le_bytes())?;
    }
    out.write_all(&frame[..kept])
}
