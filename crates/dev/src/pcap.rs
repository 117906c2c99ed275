//! Files of captured frames: replay from one, capture into one.

mod capture;
mod format;

use std::fs::File;
use std::io::{self, BufReader};
use std::path::Path;

use net::driver::{Caps, Driver, DriverStats, Link};
use pkt::{DATA_LEN, Pkt, PktVec, Pool};

use capture::{Capture, Lost};
use format::Reader;

/// Longest frame that is replayed or captured, bytes: the largest super-packet.
pub const FRAME_MAX: usize = 65_535 + 14;

/// A device that receives what one file holds and writes what is sent into another.
///
/// Frames are delivered as fast as they are asked for; their time stamps are not obeyed. At the end of the file the
/// link is down. A capture that cannot be written any more (a full disk) ends with its last whole frame: frames that it
/// misses are transmit errors, and the link is down unless there is something left to replay.
pub struct PcapRing {
    input: Option<Reader<BufReader<File>>>,
    output: Option<Capture>,
    /// The capture has ended before its time.
    has_failed: bool,
    frame: Vec<u8>,
    stats: DriverStats,
}

impl PcapRing {
    /// Replays `input`, captures into `output`; either may be missing.
    ///
    /// # Errors
    /// What the system says of the files; `InvalidData` for an input that is no pcap file of Ethernet frames.
    pub fn open(input: Option<&Path>, output: Option<&Path>) -> io::Result<Self> {
        let input = input.map(File::open).transpose()?.map(BufReader::new).map(Reader::new).transpose()?;
        let output = output.map(Capture::create).transpose()?;
        Ok(Self {
            input,
            output,
            has_failed: false,
            frame: Vec::with_capacity(FRAME_MAX),
            stats: DriverStats::default(),
        })
    }

    /// The next frame of the file, in as many buffers as it needs.
    fn next(&mut self, pool: &mut Pool) -> Option<Pkt> {
        match self.input.as_mut()?.next(&mut self.frame) {
            Ok(true) => {
                let pkt = packet(&self.frame, pool);
                self.stats.rx_dropped += u64::from(pkt.is_none());
                pkt
            }
            Ok(false) => {
                self.input = None;
                None
            }
            Err(_) => {
                self.stats.rx_errors += 1;
                self.input = None;
                None
            }
        }
    }

    fn write(&mut self, pkt: &Pkt) {
        let Some(output) = &mut self.output else {
            self.stats.tx_errors += u64::from(self.has_failed);
            return;
        };
        self.stats.tx_frames += 1;
        if let Err(lost) = output.frame(pkt) {
            self.fail(&lost);
        }
    }

    #[cold]
    fn fail(&mut self, lost: &Lost) {
        self.stats.tx_frames -= lost.0;
        self.stats.tx_errors += lost.0;
        (self.output, self.has_failed) = (None, true);
    }
}

/// Copies a frame into buffers; `None` if there are not enough.
fn packet(frame: &[u8], pool: &mut Pool) -> Option<Pkt> {
    let mut parts = frame.chunks(DATA_LEN);
    let mut head = pool.take()?;
    fill(&mut head, parts.next().unwrap_or_default());
    for part in parts {
        let Some(mut pkt) = pool.take() else {
            pool.give(head);
            return None;
        };
        fill(&mut pkt, part);
        head.chain(pkt);
    }
    Some(head)
}

fn fill(pkt: &mut Pkt, bytes: &[u8]) {
    if let Ok(room) = pkt.append(bytes.len()) {
        room.copy_from_slice(bytes);
    }
}

impl Driver for PcapRing {
    fn rx(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> usize {
        let mut got = 0;
        while got < max
            && !into.is_full()
            && let Some(pkt) = self.next(pool)
        {
            if let Err(pkt) = into.push(pkt) {
                pool.give(pkt);
            }
            got += 1;
        }
        self.stats.rx_frames += got as u64;
        got
    }

    fn tx(&mut self, pool: &mut Pool, from: &mut PktVec) {
        for pkt in from.drain() {
            self.write(&pkt);
            pool.give(pkt);
        }
    }

    fn doorbell(&mut self, _pool: &mut Pool) {}

    /// There is more to read at once.
    fn busy(&self) -> bool {
        self.input.is_some()
    }

    /// A capture shows frames as a wire would carry them.
    fn caps(&self) -> Caps {
        Caps { buffers_max: FRAME_MAX.div_ceil(DATA_LEN), ..Caps::default() }
    }

    fn link(&self) -> Link {
        if self.input.is_some() || self.output.is_some() { Link::Up } else { Link::Down }
    }

    fn stats(&self) -> DriverStats {
        self.stats
    }

    fn close(&mut self, _pool: &mut Pool) {
        if let Some(Err(lost)) = self.output.as_mut().map(Capture::flush) {
            self.fail(&lost);
        }
        (self.input, self.output) = (None, None);
    }
}

#[cfg(test)]
mod tests;
