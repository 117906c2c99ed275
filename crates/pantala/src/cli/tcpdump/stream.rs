//! The blocks of a capture, put together from the parts in which they come.

use wire::pcap::{self, Block, Blocks};

use super::{Captured, Failure, Output, Run};

/// A block is longer than the longest packet and its head, or it is none.
const BLOCK_MAX: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Stream {
    held: Vec<u8>,
    /// Link types and names.
    interfaces: Vec<(u16, String)>,
    has_begun: bool,
}

impl Stream {
    /// Whether a part has come.
    pub(super) const fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Returns the link type of the first interface.
    pub(super) fn link_type(&self) -> u16 {
        self.interfaces.first().map_or(pcap::ETHERNET, |(link_type, _)| *link_type)
    }

    /// Takes a part, and gives its blocks to `output`.
    pub(super) fn take(
        &mut self,
        part: &[u8],
        run: &mut Run,
        output: &mut dyn Output,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        self.has_begun = true;
        let Self { held, interfaces, .. } = self;
        held.extend_from_slice(part);
        let mut blocks = Blocks::new(held);
        for (bytes, block) in blocks.by_ref() {
            match block {
                Block::Other => output.head(bytes, out)?,
                Block::Interface(link_type, name) => {
                    interfaces.push((link_type, name.to_owned()));
                    output.head(bytes, out)?;
                }
                Block::Packet(packet) if run.left > 0 => {
                    let interface = usize::try_from(packet.interface).ok().and_then(|at| interfaces.get(at));
                    let (link_type, name) =
                        interface.map_or((pcap::ETHERNET, ""), |(link, name)| (*link, name));
                    let interface = if name.is_empty() { "-" } else { name };
                    run.left -= 1;
                    run.captured += 1;
                    output.packet(&Captured { block: bytes, packet, link_type, interface }, out)?;
                }
                Block::Packet(_) => {}
                Block::Statistics(at_ns, counts) => (run.read_ns, run.counts) = (at_ns, counts),
            }
        }
        let rest = blocks.rest();
        if rest.len() >= 8 && blocks.next_len().is_none_or(|len| len > BLOCK_MAX) {
            return Err(Failure::Failed("the answer is not pcapng".to_owned()));
        }
        let taken = held.len() - rest.len();
        held.drain(..taken);
        output.part_ends()
    }
}
