//! pcapng as this module writes it, read back: little-endian, times in nanoseconds.

use super::{
    ACCEPTED, AROUND, COMMENT, Direction, END, FLAGS, INTERFACE, LOST, NAME, PACKET, Packet, STATISTICS,
    Statistics,
};

/// A block of a pcapng file.
#[derive(Clone, Copy, Debug)]
pub enum Block<'b> {
    /// An interface: its link type and its name.
    Interface(u16, &'b str),
    /// A packet.
    Packet(Packet<'b>),
    /// Counts until a time, nanoseconds since 1970.
    Statistics(u64, Statistics),
    /// Any other.
    Other,
}

/// The whole blocks at the beginning of some bytes, each with its own bytes. Ends before one that is not whole, or none.
#[derive(Clone, Copy, Debug)]
pub struct Blocks<'b> {
    left: &'b [u8],
}

impl<'b> Blocks<'b> {
    /// Those of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'b [u8]) -> Self {
        Self { left: bytes }
    }

    /// Returns what lies behind the last block that was read.
    #[must_use]
    pub const fn rest(&self) -> &'b [u8] {
        self.left
    }

    /// Returns the length of the next block, once its head is there; `None` as well if it cannot be one.
    #[must_use]
    pub fn next_len(&self) -> Option<usize> {
        let len = usize::try_from(word(self.left, 4)?).ok()?;
        (len >= AROUND && len.is_multiple_of(4)).then_some(len)
    }
}

impl<'b> Iterator for Blocks<'b> {
    type Item = (&'b [u8], Block<'b>);

    fn next(&mut self) -> Option<Self::Item> {
        let (block, left) = self.left.split_at_checked(self.next_len()?)?;
        self.left = left;
        let body = block.get(8..block.len() - 4).unwrap_or_default();
        let read = match word(block, 0)? {
            INTERFACE => Block::Interface(link_type(body), text(body.get(8..).unwrap_or_default(), NAME)),
            PACKET => packet(body).map_or(Block::Other, Block::Packet),
            STATISTICS => {
                statistics(body).map_or(Block::Other, |(at_ns, counts)| Block::Statistics(at_ns, counts))
            }
            _ => Block::Other,
        };
        Some((block, read))
    }
}

fn link_type(body: &[u8]) -> u16 {
    body.first_chunk().map_or(0, |two| u16::from_le_bytes(*two))
}

fn packet(body: &[u8]) -> Option<Packet<'_>> {
    let kept = usize::try_from(word(body, 12)?).ok()?;
    let options = body.get(20 + kept.checked_next_multiple_of(4)?..)?;
    let flags = option(options, FLAGS).and_then(|value| word(value, 0));
    Some(Packet {
        interface: word(body, 0)?,
        at_ns: u64::from(word(body, 4)?) << 32 | u64::from(word(body, 8)?),
        len: word(body, 16)?,
        bytes: body.get(20..20 + kept)?,
        direction: match flags.unwrap_or(0) & 3 {
            1 => Some(Direction::In),
            2 => Some(Direction::Out),
            _ => None,
        },
        comment: text(options, COMMENT),
    })
}

fn statistics(body: &[u8]) -> Option<(u64, Statistics)> {
    let at_ns = u64::from(word(body, 4)?) << 32 | u64::from(word(body, 8)?);
    let options = body.get(12..)?;
    let count = |code| {
        let value = option(options, code).and_then(|value| value.first_chunk());
        value.map_or(0, |value| u64::from_le_bytes(*value))
    };
    Some((at_ns, Statistics { accepted: count(ACCEPTED), lost: count(LOST) }))
}

fn text(options: &[u8], code: u16) -> &str {
    option(options, code).and_then(|value| core::str::from_utf8(value).ok()).unwrap_or_default()
}

fn option(mut options: &[u8], code: u16) -> Option<&[u8]> {
    loop {
        let (head, rest) = options.split_first_chunk::<4>()?;
        let [code_lo, code_hi, len_lo, len_hi] = *head;
        let len = usize::from(u16::from_le_bytes([len_lo, len_hi]));
        match u16::from_le_bytes([code_lo, code_hi]) {
            END => return None,
            this if this == code => return rest.get(..len),
            _ => options = rest.get(len.next_multiple_of(4)..)?,
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::super::{ETHERNET, interface, section};
    use super::*;

    fn file() -> Vec<u8> {
        let mut file = Vec::new();
        section(&mut file);
        interface(&mut file, ETHERNET, "lan");
        let packet = Packet {
            interface: 0,
            at_ns: (7 << 32) + 9,
            len: 60,
            bytes: &[1, 2, 3],
            direction: Some(Direction::Out),
            comment: "no route to host",
        };
        super::super::packet(&mut file, &packet);
        super::super::statistics(&mut file, 9, Statistics { accepted: 7, lost: 1 << 40 });
        file
    }

    #[test]
    fn blocks_are_read_as_they_were_written() {
        let file = file();
        let mut blocks = Blocks::new(&file);
        assert!(matches!(blocks.next(), Some((_, Block::Other))));
        assert!(matches!(blocks.next(), Some((_, Block::Interface(ETHERNET, "lan")))));
        let Some((bytes, Block::Packet(packet))) = blocks.next() else { panic!("a packet") };
        let mut again = Vec::new();
        super::super::packet(&mut again, &packet);
        assert_eq!(
            (again, packet.bytes, packet.comment),
            (bytes.to_vec(), &[1, 2, 3][..], "no route to host")
        );
        let Some((_, Block::Statistics(_, counts))) = blocks.next() else { panic!("counts") };
        assert_eq!(counts, Statistics { accepted: 7, lost: 1 << 40 });
        assert!(blocks.next().is_none() && blocks.rest().is_empty());
    }

    #[test]
    fn a_block_that_is_not_whole_is_left_and_any_bytes_are_read_without_a_panic() {
        let file = file();
        for end in 0..file.len() {
            let mut blocks = Blocks::new(&file[..end]);
            let read: usize = blocks.by_ref().map(|(bytes, _)| bytes.len()).sum();
            assert_eq!(read + blocks.rest().len(), end);
        }
        for at in 0..file.len() {
            for to in [0, 1, 0x7f, 0xff] {
                let mut file = file.clone();
                file[at] = to;
                let _ = Blocks::new(&file).count();
            }
        }
    }
}
